//! Routers between the parts of the data network: plain machines with Linux, which run nothing of Catena. Knows which
//! plain switches stand together, and by which routers one comes from there to others; refuses to know addresses
//! (see `wiring`).

use super::document::Document;
use super::error::Fault;
use super::lab::{Families, Lab, Link};
use super::topology::Topology;
use std::collections::VecDeque;

/// Most routers of a lab: each has an address beside those of hosts and switches.
const ROUTERS_MAX: usize = 50;
/// Most subnets of a data network.
const SUBNETS_MAX: usize = 100;
/// What a router runs: Linux, which takes packets of segments as it takes any of IPv6.
const RUNS: &str = "seg6";

/// The routers of a file.
pub(super) fn names(document: &Document) -> Result<Vec<String>, Fault> {
    for (name, entry) in document.routers.iter() {
        let runs = entry.as_ref().and_then(|entry| entry.runs.as_deref());
        if let Some(other) = runs.filter(|runs| *runs != RUNS) {
            let problem = format!("'{other}' is nothing that a router runs");
            let advice = format!("write runs: {RUNS}, or leave it out");
            return Err(Fault::new(format!("routers.{name}.runs"), problem, advice));
        }
    }
    let names: Vec<String> = document.routers.names().map(str::to_owned).collect();
    if names.len() > ROUTERS_MAX {
        let problem = format!("holds {} routers", names.len());
        return Err(Fault::new("routers", problem, format!("use at most {ROUTERS_MAX}")));
    }
    if !names.is_empty() && document.underlay == Families::Ipv4 {
        let problem = "are for IPv6 between nodes, and there is IPv4 alone";
        return Err(Fault::new("routers", problem, "add underlay: both, or ipv6"));
    }
    Ok(names)
}

/// Does a link join a router to anything but a plain switch?
pub(super) fn check_link(topology: &Topology, key: &str, ends: [&str; 2]) -> Result<(), Fault> {
    let is_in = |names: &[String], end: &str| names.iter().any(|name| name == end);
    let [left, right] = ends;
    for (router, other) in [(left, right), (right, left)] {
        if is_in(&topology.routers, router) && !is_in(&topology.bridges, other) {
            let problem = format!("joins router '{router}' to '{other}', which is no plain switch");
            let advice = format!(
                "put one between, which is a subnet: switches: [left], links: [{router}-left, {other}-left]"
            );
            return Err(Fault::new(key, problem, advice));
        }
    }
    Ok(())
}

/// Does each router join several subnets, and do they join all nodes?
pub(super) fn check(topology: &Topology, bridges: &[String], links: &[Link]) -> Result<(), Fault> {
    let subnets = Subnets::of(bridges, links, &topology.routers);
    if subnets.count() > SUBNETS_MAX {
        let problem = format!("make {} subnets of plain switches", subnets.count());
        return Err(Fault::new("links", problem, format!("use at most {SUBNETS_MAX}")));
    }
    for (router, joints) in &subnets.routers {
        let key = format!("routers.{router}");
        for (index, joint) in joints.iter().enumerate() {
            let Some(before) = joints.iter().take(index).find(|it| it.subnet == joint.subnet)
            else {
                continue;
            };
            let (one, other) = (before.bridge, joint.bridge);
            let problem = format!("is linked twice to one subnet, at '{one}' and '{other}'");
            let advice =
                "leave one link out: plain switches that are linked to each other are one subnet";
            return Err(Fault::new(key, problem, advice));
        }
        if joints.len() < 2 {
            let (count, plural) = (joints.len(), if joints.len() == 1 { "" } else { "s" });
            let problem = format!("has {count} link{plural} to plain switches");
            let advice = format!(
                "link it to two or more: switches: [left, right], links: [{router}-left, {router}-right]"
            );
            return Err(Fault::new(key, problem, advice));
        }
    }
    let mut nodes = topology.nodes();
    let Some(first) = nodes.next().filter(|_| !topology.routers.is_empty()) else { return Ok(()) };
    let from = subnets.of_node(first);
    match nodes.find(|node| subnets.way(from, subnets.of_node(node)).is_none()) {
        None => Ok(()),
        Some(apart) => {
            let problem = format!("no router joins the subnets of '{first}' and '{apart}'");
            let advice = format!(
                "link a router to both plain switches, '{}' and '{}'",
                subnets.bridge_of(first),
                subnets.bridge_of(apart)
            );
            Err(Fault::new("links", problem, advice))
        }
    }
}

/// Where a router stands in a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joint<'l> {
    pub(crate) subnet: usize,
    /// The plain switch that it is linked to.
    pub(crate) bridge: &'l str,
}

/// The subnets of a data network, counted from 0 in the order of plain switches, and the routers between them. Without
/// routers there is one.
pub(crate) struct Subnets<'l> {
    bridges: Vec<(&'l str, usize)>,
    links: &'l [Link],
    routers: Vec<(&'l str, Vec<Joint<'l>>)>,
}

impl<'l> Subnets<'l> {
    /// Those of a lab.
    pub(crate) fn of_lab(lab: &'l Lab) -> Self {
        Self::of(&lab.bridges, &lab.links, &lab.routers)
    }

    fn of(bridges: &'l [String], links: &'l [Link], routers: &'l [String]) -> Self {
        let mut subnets = Self { bridges: Vec::new(), links, routers: Vec::new() };
        let mut next = 0;
        for bridge in bridges {
            if subnets.of_bridge(bridge).is_none() {
                subnets.spread(bridges, bridge, next);
                next += usize::from(!routers.is_empty());
            }
        }
        let joints_of = |router: &'l String| {
            let others = subnets.plugged(router);
            let joint = |bridge| Some(Joint { subnet: subnets.of_bridge(bridge)?, bridge });
            (router.as_str(), others.filter_map(joint).collect())
        };
        subnets.routers = routers.iter().map(joints_of).collect();
        subnets
    }

    /// Gives a plain switch, and all that are linked to it, a subnet.
    fn spread(&mut self, bridges: &'l [String], first: &'l str, subnet: usize) {
        let mut waiting = VecDeque::from([first]);
        while let Some(bridge) = waiting.pop_front() {
            if self.of_bridge(bridge).is_some() {
                continue;
            }
            self.bridges.push((bridge, subnet));
            let others = self.plugged(bridge);
            waiting.extend(others.filter(|other| bridges.iter().any(|bridge| bridge == other)));
        }
    }

    /// What is linked to something in the data network.
    fn plugged<'s>(&self, name: &'s str) -> impl Iterator<Item = &'l str> + use<'s, 'l> {
        self.links.iter().filter_map(move |link| match name {
            _ if link.left == name => Some(link.right.as_str()),
            _ if link.right == name => Some(link.left.as_str()),
            _ => None,
        })
    }

    fn of_bridge(&self, bridge: &str) -> Option<usize> {
        self.bridges.iter().find(|(name, _)| *name == bridge).map(|(_, subnet)| *subnet)
    }

    fn bridge_of(&self, node: &str) -> &'l str {
        self.plugged(node).next().unwrap_or_default()
    }

    /// The subnet that a node is in; one that stands alone is in the first.
    pub(crate) fn of_node(&self, node: &str) -> usize {
        self.of_bridge(self.bridge_of(node)).unwrap_or_default()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.bridges.iter().map(|(_, subnet)| subnet + 1).max().unwrap_or(1)
    }

    /// The subnets that a router joins.
    pub(crate) fn joints(&self, router: &str) -> &[Joint<'l>] {
        let found = self.routers.iter().find(|(name, _)| *name == router);
        found.map(|(_, joints)| joints.as_slice()).unwrap_or_default()
    }

    /// The router by which packets leave a subnet for another one; none: it is the same, or none leads there.
    pub(crate) fn router(&self, from: usize, to: usize) -> Option<&'l str> {
        let distances = self.distances(to);
        let left = distances.get(from).copied().flatten()?.checked_sub(1)?;
        let leads = |joints: &[Joint<'_>]| {
            let is_in = joints.iter().any(|joint| joint.subnet == from);
            is_in && joints.iter().any(|joint| distances[joint.subnet] == Some(left))
        };
        self.routers.iter().find(|(_, joints)| leads(joints)).map(|(name, _)| *name)
    }

    /// Where a router sends what is for a subnet: the one of its own that is nearest.
    pub(crate) fn exit(&self, router: &str, to: usize) -> Option<Joint<'l>> {
        let distances = self.distances(to);
        let joints =
            self.joints(router).iter().filter_map(|joint| Some((distances[joint.subnet]?, *joint)));
        joints.min_by_key(|(distance, _)| *distance).map(|(_, joint)| joint)
    }

    /// The routers that a packet passes from one subnet to another; none: there is no way.
    pub(crate) fn way(&self, from: usize, to: usize) -> Option<Vec<&'l str>> {
        let (mut at, mut way) = (from, Vec::new());
        while at != to {
            let router = self.router(at, to)?;
            way.push(router);
            at = self.exit(router, to)?.subnet;
        }
        Some(way)
    }

    /// How many routers are between each subnet and one of them.
    fn distances(&self, to: usize) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.count()];
        let mut waiting = VecDeque::from([(to, 0)]);
        while let Some((subnet, distance)) = waiting.pop_front() {
            if distances[subnet].is_some() {
                continue;
            }
            distances[subnet] = Some(distance);
            let beside = self.routers.iter().map(|(_, joints)| joints);
            let beside = beside.filter(|joints| joints.iter().any(|joint| joint.subnet == subnet));
            waiting.extend(beside.flatten().map(|joint| (joint.subnet, distance + 1)));
        }
        distances
    }
}
