//! Packets that take time: in at a classifier, hop by hop, each time by the program that its node
//! runs at that moment. A model of the engine's walk in the words of programs, without bytes: it
//! asks whether programs of different nodes at different versions fit together.

use crate::dataplane::Running;
use crate::world::{Event, World};
use catena_model::PathId;
use catena_model::program::{HopEntry, InstanceEntry, PathEntry};
use std::sync::Arc;

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On its way to `node`, carrying its path.
    Tunnel,
    /// In a function at `node`; the proxy there remembers its path by this serial, or it carries
    /// its path itself.
    Function { remembered: Option<u64> },
}

/// One packet on a path.
#[derive(Debug)]
pub(crate) struct Packet {
    flow: u64,
    path: PathId,
    /// The path as the classifier knew it.
    entry: Arc<PathEntry>,
    position: usize,
    pub(crate) node: usize,
    pub(crate) place: Place,
    /// Its path was taken as drained by the bound.
    is_given_up: bool,
}

/// What a node makes of a packet.
enum Fate {
    Finished,
    To {
        node: usize,
        place: Place,
    },
    Dropped,
    /// Nobody counts it.
    Gone,
    Broken(String),
}

impl World {
    /// A packet comes to a random classifier.
    pub(crate) fn enter_packet(&mut self) {
        let index = self.random.index(self.nodes.len());
        let Some(dataplane) = self.nodes.get_mut(index).and_then(|node| node.dataplane.as_mut())
        else {
            return;
        };
        let Some(running) = &dataplane.running else { return };
        let Some(rule) = self.random.pick(&running.program.rules) else { return };
        if rule.matches.place.port().is_some_and(|port| !dataplane.attached.contains(&port)) {
            return;
        }
        let path = rule.path;
        let Some((_, entry)) = running.paths.get(&path) else {
            let name = self.name(index);
            return self.fail(format!("{name} sends into path {path}, which it does not know"));
        };
        let entry = Arc::clone(entry);
        dataplane.counted.entry(path).or_default().entered += 1;
        self.checks.tally.packets += 1;
        let id = self.checks.tally.packets;
        let packet = Packet {
            flow: self.random.below(64),
            path,
            entry,
            position: 0,
            node: index,
            place: Place::Tunnel,
            is_given_up: false,
        };
        self.walk(id, packet);
    }

    /// A packet arrives where it was on its way to.
    pub(crate) fn step_packet(&mut self, id: u64) {
        if let Some(packet) = self.packets.remove(&id) {
            self.walk(id, packet);
        }
    }

    fn walk(&mut self, id: u64, mut packet: Packet) {
        let here = packet.node;
        let (path, is_given_up) = (packet.path, packet.is_given_up);
        let fate = self.fate(&mut packet);
        let counted = self
            .nodes
            .get_mut(here)
            .and_then(|node| node.dataplane.as_mut())
            .map(|dataplane| dataplane.counted.entry(path).or_default());
        match (fate, counted) {
            (Fate::Finished, Some(counted)) => {
                counted.finished += 1;
                self.checks.tally.finished += 1;
            }
            (Fate::Dropped, Some(counted)) => counted.dropped += 1,
            (Fate::To { node, place }, _) => self.travel(id, packet, node, place),
            (Fate::Broken(sentence), _) => {
                let given_up = if is_given_up { ", given up by the bound" } else { "" };
                let name = self.name(here);
                self.fail(format!("packet {id} of path {path}{given_up} at {name}: {sentence}"));
            }
            (Fate::Gone | Fate::Finished | Fate::Dropped, _) => {}
        }
    }

    fn travel(&mut self, id: u64, mut packet: Packet, node: usize, place: Place) {
        let wait = match place {
            Place::Tunnel if self.random.below(2_000) == 0 => return,
            Place::Tunnel if self.random.chance(20) => self.wait_us(1_000, 60_000),
            Place::Tunnel => self.wait_us(20, 2_000),
            Place::Function { .. } if self.is_function_slow() => self.wait_us(100_000, 6_000_000),
            Place::Function { .. } => self.wait_us(10, 5_000),
        };
        packet.node = node;
        packet.place = place;
        self.packets.insert(id, packet);
        self.after(wait, Event::Packet(id));
    }

    fn is_function_slow(&mut self) -> bool {
        self.config.faults.slow_functions && !self.is_healing && self.random.chance(5)
    }

    fn fate(&self, packet: &mut Packet) -> Fate {
        let dataplane = self.nodes.get(packet.node).and_then(|node| node.dataplane.as_ref());
        let Some(dataplane) = dataplane else { return Fate::Gone };
        let Some(running) = &dataplane.running else {
            return Fate::Broken("the data plane has no program".into());
        };
        if let Err(fate) = known(running, packet) {
            return fate;
        }
        if let Place::Function { .. } = packet.place {
            let left = chosen(packet).map(|instance| instance.egress);
            if left.is_none_or(|egress| !dataplane.attached.contains(&egress)) {
                return Fate::Gone;
            }
            packet.position += 1;
        }
        if packet.position == packet.entry.hops.len() {
            return Fate::Finished;
        }
        let Some(instance) = chosen(packet) else { return Fate::Dropped };
        let Some(node) = self.nodes.iter().position(|node| node.name == instance.node) else {
            return Fate::Broken(format!("nobody knows the node {}", instance.node));
        };
        if node != packet.node {
            return Fate::To { node, place: Place::Tunnel };
        }
        if !dataplane.attached.contains(&instance.ingress) {
            return Fate::Dropped;
        }
        let serial = running.paths.get(&packet.path).map(|(serial, _)| *serial);
        let remembered = serial.filter(|_| instance.speaks.is_none());
        Fate::To { node, place: Place::Function { remembered } }
    }

    // ----- drains -----

    /// A path that was found empty must be empty.
    pub(crate) fn check_drained(&mut self, path: PathId) {
        self.checks.tally.counted_drains += 1;
        let is_inside = |packet: &&Packet| packet.path == path && !packet.is_given_up;
        let inside = self.packets.values().filter(is_inside).count();
        if inside > 0 {
            self.fail(format!("path {path} was counted as drained with {inside} packets on it"));
        }
    }

    /// The bound has passed: what is still inside is lost, and may end as it likes, but never on
    /// another path.
    pub(crate) fn give_up_packets(&mut self, path: PathId) {
        self.checks.tally.bound_drains += 1;
        for packet in self.packets.values_mut().filter(|packet| packet.path == path) {
            packet.is_given_up = true;
        }
    }
}

/// Is the path that the packet is on the one that the node knows?
fn known(running: &Running, packet: &Packet) -> Result<(), Fate> {
    let missing = |what: &str| {
        if packet.is_given_up { Fate::Gone } else { Fate::Broken(what.into()) }
    };
    let Some((serial, entry)) = running.paths.get(&packet.path) else {
        return Err(missing("the node does not know the path"));
    };
    if let Place::Function { remembered: Some(remembered) } = packet.place
        && remembered != *serial
    {
        return Err(missing("its path went away while it was in a function"));
    }
    if **entry != *packet.entry {
        return Err(Fate::Broken("the node knows another path of that identifier".into()));
    }
    Ok(())
}

/// The instance of the packet's position: a function of flow and hop alone, as in the engine.
fn chosen(packet: &Packet) -> Option<&InstanceEntry> {
    let hop: &HopEntry = packet.entry.hops.get(packet.position)?;
    let total: u64 = hop.instances.iter().map(|instance| u64::from(instance.weight)).sum();
    let mut place = packet.flow.checked_rem(total)?;
    hop.instances.iter().find(|instance| {
        let weight = u64::from(instance.weight);
        let is_it = place < weight;
        place = place.saturating_sub(weight);
        is_it
    })
}
