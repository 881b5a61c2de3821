//! What is plugged into what: the data network of plain switches, and cables from node to node. Knows which is
//! which, how links are called and what they must carry; refuses to know addresses (see `wiring`).

use super::document::{Document, LinkEntry};
use super::error::Fault;
use super::lab::{Equipment, Link, LinkEnd, Network, NodeCable};
use super::ordered::Ordered;
use super::routers;
use super::topology::Topology;
use super::validate::{INTERFACE_NAME_BYTES_MAX, MTU_BYTES_MAX, MTU_BYTES_MIN, unknown};
use catena_model::limits::TENANT_MTU_BYTES;

/// The data network of a file that has cables and names no plain switch.
pub(crate) const DATA_BRIDGE: &str = "data";
/// MTU of a cable that states none, in bytes, where tenant networks are as wide as usual.
pub(crate) const UNDERLAY_MTU_BYTES: u32 = 1_500;
/// What that leaves for the headers of chains.
const HEADER_ROOM_BYTES: u32 = UNDERLAY_MTU_BYTES - TENANT_MTU_BYTES as u32;

/// What a file plugs together.
pub(crate) struct Cabling {
    /// Plain switches.
    pub(crate) bridges: Vec<String>,
    pub(crate) links: Vec<Link>,
    pub(crate) cables: Vec<NodeCable>,
}

/// A link as it is written.
struct Said<'d> {
    key: String,
    ends: [&'d str; 2],
    mtu: Option<u32>,
    through: Option<Equipment>,
}

/// The links of a lab file.
pub(crate) fn understand(
    document: &Document,
    topology: &Topology,
    networks: &Ordered<Network>,
) -> Result<Cabling, Fault> {
    let said = document.links.iter().enumerate();
    let said =
        said.map(|(index, entry)| read(topology, index, entry)).collect::<Result<Vec<_>, _>>()?;
    said.iter().try_for_each(|link| routers::check_link(topology, &link.key, link.ends))?;
    let is_bridge = |end: &str| topology.bridges.iter().any(|bridge| bridge == end);
    let (of_data, of_nodes): (Vec<Said<'_>>, Vec<Said<'_>>) =
        said.into_iter().partition(|link| link.ends.iter().any(|end| is_bridge(end)));
    if let Some(link) = of_data.iter().find(|link| link.through.is_some()) {
        let advice = "leave it out: plain switches stand in the data network as they are";
        let problem = "only a link between nodes goes through other equipment";
        return Err(Fault::new(format!("{}.through", link.key), problem, advice));
    }
    let mut bridges = topology.bridges.clone();
    let mut links: Vec<Link> = of_data
        .iter()
        .map(|Said { ends: [left, right], mtu, .. }| Link {
            left: (*left).into(),
            right: (*right).into(),
            mtu: mtu.unwrap_or(UNDERLAY_MTU_BYTES),
        })
        .collect();
    let widest = networks.iter().map(|(_, network)| network.mtu).max().unwrap_or_default();
    let room = UNDERLAY_MTU_BYTES.max(widest.saturating_add(HEADER_ROOM_BYTES));
    if bridges.is_empty() && !of_nodes.is_empty() {
        bridges.push(DATA_BRIDGE.into());
        let plug = |node: &str| Link { left: node.into(), right: DATA_BRIDGE.into(), mtu: room };
        links.extend(topology.nodes().map(plug));
    }
    check_data_network(topology, &links)?;
    routers::check(topology, &bridges, &links)?;
    let cables = cables(&of_nodes, &links, room)?;
    for switch in &topology.switches {
        if !cables.iter().flat_map(|cable| &cable.ends).any(|end| end.node == *switch) {
            let problem = format!("no link joins switch '{switch}' to a host or another switch");
            let host = topology.hosts.first().map_or("host1", String::as_str);
            let advice = format!("add one, such as {host}-{switch}");
            return Err(Fault::new("links", problem, advice));
        }
    }
    Ok(Cabling { bridges, links, cables })
}

fn read<'d>(topology: &Topology, index: usize, entry: &'d LinkEntry) -> Result<Said<'d>, Fault> {
    let key = format!("links[{index}]");
    let (between, mtu, through) = match entry {
        LinkEntry::Short(between) => (between, None, None),
        LinkEntry::Long(form) => (&form.between, form.mtu, form.through.as_deref()),
    };
    let through = match through {
        None => None,
        Some("bridge") => Some(Equipment::Bridge),
        Some("open-vswitch") => Some(Equipment::OpenVswitch),
        Some(other) => {
            let problem = format!("'{other}' is nothing that a link goes through");
            return Err(Fault::new(
                format!("{key}.through"),
                problem,
                "write bridge or open-vswitch",
            ));
        }
    };
    if let Some(mtu) = mtu.filter(|mtu| !(MTU_BYTES_MIN..=MTU_BYTES_MAX).contains(mtu)) {
        let advice = format!("use {MTU_BYTES_MIN} to {MTU_BYTES_MAX} bytes");
        return Err(Fault::new(format!("{key}.mtu"), format!("{mtu} is no MTU"), advice));
    }
    let (left, right) = between.split_once('-').ok_or_else(|| {
        Fault::new(&key, format!("'{between}' is no link"), "write it host1-ovs01")
    })?;
    let ends = [left.trim(), right.trim()];
    let plain = || topology.bridges.iter().chain(&topology.routers).map(String::as_str);
    let known = || topology.nodes().chain(plain());
    if let Some(end) = ends.iter().find(|end| !known().any(|name| name == **end)) {
        return Err(unknown(&key, "host or switch", end, known()));
    }
    if ends[0] == ends[1] {
        return Err(Fault::new(&key, "joins a thing to itself", "name two different ends"));
    }
    Ok(Said { key, ends, mtu, through })
}

/// Has each node its one place in the data network?
fn check_data_network(topology: &Topology, links: &[Link]) -> Result<(), Fault> {
    let is_alone = topology.nodes().count() == 1;
    for node in topology.nodes() {
        let count = links.iter().filter(|link| link.left == node || link.right == node).count();
        if count > 1 || (count == 0 && !is_alone) {
            let kind =
                if topology.hosts.iter().any(|host| host == node) { "host" } else { "switch" };
            let problem = format!("{kind} '{node}' has {count} links to plain switches");
            let advice = "link each host, and each switch with a role, to exactly one plain switch: \
                          they are the data network; where a file names none, the lab has one";
            return Err(Fault::new("links", problem, advice));
        }
    }
    Ok(())
}

/// The cables from node to node. `room`: what a packet of the widest network may take with a header on it.
fn cables(said: &[Said<'_>], data: &[Link], room: u32) -> Result<Vec<NodeCable>, Fault> {
    let mut cables = Vec::with_capacity(said.len());
    for (index, Said { key, ends, mtu, through }) in said.iter().enumerate() {
        let [left, right] = *ends;
        let is_parallel =
            |other: &&Said<'_>| other.ends == [left, right] || other.ends == [right, left];
        let before = said.iter().take(index).filter(is_parallel).count();
        let end = |node: &str, far: &str| {
            let interface = interface(far, before);
            if interface.len() > INTERFACE_NAME_BYTES_MAX {
                let problem = format!(
                    "the interface '{interface}' of '{node}' would have more than \
                     {INTERFACE_NAME_BYTES_MAX} letters"
                );
                return Err(Fault::new(key, problem, format!("shorten the name '{far}'")));
            }
            Ok(LinkEnd { node: node.into(), interface })
        };
        let ends = [end(left, right)?, end(right, left)?];
        let is_theirs = |link: &&Link| {
            [left, right].iter().any(|node| link.left == *node || link.right == *node)
        };
        let underlay = data.iter().filter(is_theirs).map(|link| link.mtu).max().unwrap_or_default();
        if let Some(mtu) = mtu.filter(|mtu| *mtu < underlay) {
            // What a link takes is what the node's underlay takes (SPECIFICATION.md, D8).
            let problem =
                format!("{mtu} is less than {underlay}, the MTU of its ends in the data network");
            return Err(Fault::new(
                format!("{key}.mtu"),
                problem,
                format!("use at least {underlay}"),
            ));
        }
        let mtu = mtu.unwrap_or(room.max(underlay));
        cables.push(NodeCable { ends, mtu, through: *through });
    }
    Ok(cables)
}

/// What the link to `far` is called; the second between the same two has a number of its own, as all
/// behind it.
fn interface(far: &str, before: usize) -> String {
    match before {
        0 => format!("l-{far}"),
        before => format!("l-{far}-{}", before + 1),
    }
}
