//! Switches and cables around a [`World`], and what its nodes tell of them.
#![allow(clippy::unwrap_used)]

use super::rig::{PROTOCOL, World, node};
use crate::{NodeFacts, WayBooks};
use catena_model::NodeName;
use catena_model::NodeProgram;
use catena_model::discovery::{LinkState, Neighbour, Trust};
use catena_model::program::{ExitPlace, Underlay};
use catena_model::topology::{CableEnd, PortNumber};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An interface of a node.
pub(crate) type Plug = (NodeName, String);

/// A cable as it is, whatever anybody knows.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) ends: [Plug; 2],
    pub(crate) is_up: bool,
}

/// Where a frame has come that left by port numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Out of this port.
    Port(NodeName, catena_model::id::PortId),
    /// Nowhere: it was dropped.
    Lost,
}

/// All cables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fabric {
    pub(crate) wires: Vec<Wire>,
    /// Interfaces that are no links for now.
    pub(crate) absent: BTreeSet<Plug>,
    /// Links at which nobody is heard.
    pub(crate) doubted: BTreeSet<Plug>,
    /// What links take, of those that say it.
    pub(crate) mtus: BTreeMap<Plug, u16>,
    /// Links that nothing is plugged into.
    pub(crate) spares: Vec<Plug>,
}

pub(crate) fn switch(number: u32) -> NodeName {
    NodeName::new(format!("switch{number}")).unwrap()
}

impl Fabric {
    /// A cable more; the interface of each end is called after the other.
    pub(crate) fn plug(&mut self, one: &NodeName, other: &NodeName) {
        let count = self
            .wires
            .iter()
            .filter(|wire| wire.ends.iter().all(|(node, _)| node == one || node == other));
        let count = count.count();
        let end = |node: &NodeName, far: &NodeName| (node.clone(), format!("{far}.{count}"));
        self.wires.push(Wire { ends: [end(one, other), end(other, one)], is_up: true });
    }

    /// Three hosts or more at two leaves that are joined by two spines: host N at leaf 1 or 2 by its number.
    pub(crate) fn leaf_spine(world: &mut World, hosts: u32) -> Self {
        let mut fabric = Self::default();
        for number in 1..=4 {
            let address = [192, 0, 2, u8::try_from(100 + number).unwrap()].into();
            let mut facts = NodeFacts::new(Underlay { address, mtu: 1_500 });
            (facts.is_connected, facts.protocol) = (true, PROTOCOL);
            world.inventory.switches.insert(switch(number), facts);
        }
        for (leaf, spine) in [(1, 3), (1, 4), (2, 3), (2, 4)] {
            fabric.plug(&switch(leaf), &switch(spine));
        }
        for host in 1..=hosts {
            fabric.plug(&node(host), &switch(2 - host % 2));
        }
        fabric
    }

    fn links(&self, of: &NodeName) -> BTreeSet<String> {
        let plugs = self.wires.iter().flat_map(|wire| &wire.ends).chain(&self.spares);
        let own = plugs.filter(|plug| plug.0 == *of && !self.absent.contains(*plug));
        own.map(|(_, interface)| interface.clone()).collect()
    }

    /// The other end of a cable that carries.
    fn far(&self, plug: &Plug) -> Option<&Plug> {
        let wires = self.wires.iter().filter(|wire| wire.is_up);
        let far = wires.filter_map(|wire| match &wire.ends {
            [one, other] if one == plug => Some(other),
            [one, other] if other == plug => Some(one),
            _ => None,
        });
        let mut far = far.filter(|far| !self.absent.contains(*far) && !self.absent.contains(plug));
        far.next()
    }

    /// A node tells what it finds; each knows the numbers of the program that it runs.
    pub(crate) fn tell(
        &self,
        world: &mut World,
        of: &NodeName,
        running: &BTreeMap<NodeName, NodeProgram>,
    ) {
        let number = |(node, interface): &Plug| {
            let mut exits = running.get(node)?.exits.iter();
            exits.find(|exit| exit.link() == Some(interface)).map(|exit| exit.number)
        };
        let links = self.links(of);
        let states = links.iter().map(|interface| {
            let plug = (of.clone(), interface.clone());
            let far = self.far(&plug);
            LinkState {
                interface: interface.clone(),
                number: number(&plug),
                is_up: far.is_some(),
                load_permille: None,
                mtu: self.mtus.get(&plug).copied(),
                flooded: 0,
                refused: 0,
                neighbours: far
                    .map(|far| Neighbour {
                        chassis: far.0.to_string(),
                        port: far.1.clone(),
                        system: String::new(),
                        number: number(far),
                        trust: Trust::Ours,
                    })
                    .into_iter()
                    .collect(),
                hindrance: match self.doubted.contains(&plug) {
                    true => "nobody is heard".into(),
                    false => String::new(),
                },
                is_doubted: self.doubted.contains(&plug),
            }
        });
        let states = states.collect();
        world.inventory.told.insert(of.clone(), Arc::new(states));
        world.inventory.facts_mut(of).unwrap().links = Some(Arc::new(links));
    }

    /// Everybody tells, plans and runs until that changes nothing.
    pub(crate) fn settle(&self, world: &mut World) {
        for _ in 0..12 {
            let running = programs(world);
            let nodes: Vec<NodeName> =
                world.inventory.all().map(|(node, ..)| node.clone()).collect();
            nodes.iter().for_each(|node| self.tell(world, node, &running));
            if world.plan() == 0 {
                return;
            }
            acknowledge_everywhere(world);
        }
        panic!("the fabric does not come to rest");
    }

    /// The node at the other end of a link.
    pub(crate) fn far_node(
        &self,
        running: &BTreeMap<NodeName, NodeProgram>,
        of: &NodeName,
        number: PortNumber,
    ) -> Option<NodeName> {
        let interface = running[of].exits.iter().find(|exit| exit.number == number)?.link()?;
        Some(self.far(&(of.clone(), interface.to_owned()))?.0.clone())
    }

    /// The cable at a link carries nothing any more.
    pub(crate) fn cut(
        &mut self,
        running: &BTreeMap<NodeName, NodeProgram>,
        of: &NodeName,
        number: PortNumber,
    ) {
        let mut exits = running[of].exits.iter();
        let interface = exits.find(|exit| exit.number == number).unwrap().link().unwrap();
        let plug = (of.clone(), interface.to_owned());
        let wire = self.wires.iter_mut().find(|wire| wire.ends.contains(&plug));
        wire.unwrap().is_up = false;
    }

    /// Where a frame comes that leaves a node by these ports, where each node runs what it runs.
    pub(crate) fn walk(
        &self,
        running: &BTreeMap<NodeName, NodeProgram>,
        from: &NodeName,
        ports: &[PortNumber],
    ) -> Arrival {
        let (mut at, mut left) = (from.clone(), ports.to_vec());
        left.reverse();
        while let Some(number) = left.pop() {
            let mut exits = running[&at].exits.iter();
            match exits.find(|exit| exit.number == number).map(|exit| &exit.to) {
                Some(ExitPlace::Link(interface)) => {
                    match self.far(&(at.clone(), interface.clone())) {
                        Some(far) => at = far.0.clone(),
                        None => return Arrival::Lost,
                    }
                }
                Some(ExitPlace::Port(port)) => return Arrival::Port(at, *port),
                // A header that is at its end gives place to the next.
                Some(ExitPlace::Pathlet(next)) if left.is_empty() => {
                    left.extend(next.ports.iter().rev());
                }
                Some(ExitPlace::Pathlet(_)) | None => return Arrival::Lost,
            }
        }
        Arrival::Lost
    }
}

/// What every node runs once it has taken what it is told.
pub(crate) fn programs(world: &World) -> BTreeMap<NodeName, NodeProgram> {
    let names = world.blueprint.programs.keys();
    names.map(|name| (name.clone(), world.blueprint.program(name).unwrap())).collect()
}

pub(crate) fn acknowledge_everywhere(world: &mut World) {
    let numbers: Vec<_> = world
        .blueprint
        .programs
        .iter()
        .map(|(name, program)| (name.clone(), program.number))
        .collect();
    for (name, number) in numbers {
        world.inventory.facts_mut(&name).unwrap().acknowledged = number;
    }
}

/// The ways of a ledger, as text.
pub(crate) fn ways(books: &WayBooks) -> BTreeMap<(String, String), Vec<String>> {
    let all =
        books.iter().flat_map(|(from, ways)| ways.iter().map(move |(to, legs)| (from, to, legs)));
    let text = |legs: &Vec<CableEnd>| legs.iter().map(|leg| leg.node.to_string()).collect();
    all.map(|(from, to, legs)| ((from.to_string(), to.to_string()), text(legs))).collect()
}
