//! Packets that take time: in at a classifier, hop by hop, each time by the program that its node
//! runs at that moment. A model of the engine's walk in the words of programs, without bytes: it
//! asks whether programs of different nodes at different versions fit together.

use crate::dataplane::{Dataplane, Running};
use crate::frames::{Frame, Next};
use crate::world::{Event, World};
use catena_model::id::PortId;
use catena_model::program::{HopEntry, InstanceEntry, PathEntry};
use catena_model::source_route::behind;
use catena_model::{NodeName, PathId};
use std::sync::Arc;

/// Flows that packets belong to.
const FLOWS: u64 = 64;
/// A frame may leave so many nodes for each that there is, detours included.
const HOPS_PER_NODE_MAX: usize = 2;

/// Where a packet is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// On its way to `node`, carrying its path.
    Tunnel,
    /// In a function at `node`; the proxy there remembers its path by this serial, or it carries
    /// its path itself.
    Function { remembered: Option<u64> },
    /// In a cable towards `node`, on a source route.
    Cable(Box<Frame>),
}

impl Place {
    pub(crate) const fn is_function(&self) -> bool {
        matches!(self, Self::Function { .. })
    }
}

/// Whose packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Anybody's: it may be lost.
    Ordinary,
    /// It shows that a chain is carried: it must arrive.
    Proof,
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
    purpose: Purpose,
}

/// What a node makes of a packet.
enum Fate {
    Finished,
    To {
        node: usize,
        place: Place,
    },
    /// Into the cable at this interface.
    Into(Box<Frame>, String),
    /// Counted on its path, by this name.
    Dropped(&'static str),
    /// Nobody counts it.
    Gone(&'static str),
    Broken(String),
}

impl World {
    /// A packet comes to a random classifier.
    pub(crate) fn enter_packet(&mut self) {
        let index = self.random.index(self.hosts);
        let dataplane = self.nodes.get(index).and_then(|node| node.dataplane.as_ref());
        let running = dataplane.and_then(|dataplane| dataplane.running.as_ref());
        let Some((dataplane, running)) = dataplane.zip(running) else { return };
        let Some(rule) = self.random.pick(&running.program.rules) else { return };
        if rule.matches.place.port().is_some_and(|port| !dataplane.attached.contains(&port)) {
            return;
        }
        let (path, flow) = (rule.path, self.random.below(FLOWS));
        self.enter(index, path, flow, Purpose::Ordinary);
    }

    /// Into each path that anybody sends into, a packet of each flow that must arrive.
    pub(crate) fn prove_chains(&mut self) {
        let mut wanted = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let running = node.dataplane.as_ref().and_then(|one| one.running.as_ref());
            let rules = running.into_iter().flat_map(|running| &running.program.rules);
            wanted.extend(rules.map(|rule| (index, rule.path)));
        }
        for (index, path) in wanted {
            (0..FLOWS).for_each(|flow| self.enter(index, path, flow, Purpose::Proof));
        }
    }

    fn enter(&mut self, index: usize, path: PathId, flow: u64, purpose: Purpose) {
        let node = self.nodes.get_mut(index).and_then(|node| node.dataplane.as_mut());
        let Some(dataplane) = node else { return };
        let Some(running) = &dataplane.running else { return };
        let Some((_, entry)) = running.paths.get(&path) else {
            let name = self.name(index);
            return self.fail(format!("{name} sends into path {path}, which it does not know"));
        };
        let entry = Arc::clone(entry);
        dataplane.counted.entry(path).or_default().entered += 1;
        self.checks.tally.packets += 1;
        let id = self.checks.tally.packets;
        let packet = Packet {
            flow,
            path,
            entry,
            position: 0,
            node: index,
            place: Place::Tunnel,
            is_given_up: false,
            purpose,
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
        if let Fate::Dropped(why) | Fate::Gone(why) = &fate {
            self.lose(id, &packet, why);
        }
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
            (Fate::Dropped(_), Some(counted)) => counted.dropped += 1,
            (Fate::To { node, place }, _) => self.travel(id, packet, node, place),
            (Fate::Into(frame, interface), _) => self.send_frame(id, packet, frame, &interface),
            (Fate::Broken(sentence), _) => {
                let given_up = if is_given_up { ", given up by the bound" } else { "" };
                let name = self.name(here);
                self.fail(format!("packet {id} of path {path}{given_up} at {name}: {sentence}"));
            }
            (Fate::Gone(_) | Fate::Finished | Fate::Dropped(_), _) => {}
        }
    }

    /// A packet has come to its end before that of its path.
    fn lose(&mut self, id: u64, packet: &Packet, why: &str) {
        if packet.purpose == Purpose::Proof {
            let (name, path) = (self.name(packet.node), packet.path);
            self.fail(format!(
                "everything is healed, and packet {id} of path {path} does not arrive: {name}: {why}"
            ));
        }
    }

    /// A frame leaves a node by an interface.
    fn send_frame(&mut self, id: u64, packet: Packet, mut frame: Box<Frame>, interface: &str) {
        if frame.hops > HOPS_PER_NODE_MAX * self.nodes.len() {
            let path = packet.path;
            return self.fail(format!(
                "packet {id} of path {path} goes round: it has left {} nodes",
                frame.hops
            ));
        }
        self.checks.tally.edge_headers += u64::from(frame.take_renewed());
        match self.comes_out_at(packet.node, interface).cloned() {
            Some((node, by)) => {
                frame.by = by;
                self.travel(id, packet, node, Place::Cable(frame));
            }
            None => self.lose(id, &packet, "its cable is dead"),
        }
    }

    fn travel(&mut self, id: u64, mut packet: Packet, node: usize, place: Place) {
        let is_between = !place.is_function();
        let wait = match place {
            _ if is_between
                && packet.purpose == Purpose::Ordinary
                && self.random.below(2_000) == 0 =>
            {
                return;
            }
            _ if is_between && self.random.chance(20) => self.wait_us(1_000, 60_000),
            Place::Tunnel | Place::Cable(_) => self.wait_us(20, 2_000),
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
        let Some(dataplane) = dataplane else { return Fate::Gone("its data plane is down") };
        if let Some(fate) = self.pass_on(dataplane, packet) {
            return fate;
        }
        let Some(running) = &dataplane.running else {
            return Fate::Broken("the data plane has no program".into());
        };
        if let Err(fate) = known(running, packet) {
            return fate;
        }
        if let Place::Function { .. } = packet.place {
            let left = chosen(packet).map(|instance| instance.egress);
            if left.is_none_or(|egress| !dataplane.attached.contains(&egress)) {
                return Fate::Gone("the port of its function is gone");
            }
            packet.position += 1;
        }
        if packet.position == packet.entry.hops.len() {
            return Fate::Finished;
        }
        let Some(instance) = chosen(packet) else { return Fate::Dropped("no_instance") };
        let Some(node) = self.nodes.iter().position(|node| node.name == instance.node) else {
            return Fate::Broken(format!("nobody knows the node {}", instance.node));
        };
        if node != packet.node {
            return match packet.entry.encapsulation.is_source_route() {
                true => route(dataplane, packet, instance),
                false => Fate::To { node, place: Place::Tunnel },
            };
        }
        if !dataplane.attached.contains(&instance.ingress) {
            return Fate::Dropped("its port has no interface");
        }
        let serial = running.paths.get(&packet.path).map(|(serial, _)| *serial);
        let remembered = serial.filter(|_| instance.speaks.is_none());
        Fate::To { node, place: Place::Function { remembered } }
    }

    /// What becomes of a frame that a link has brought; none: it has come out at the port that it was sent to, or was
    /// none.
    fn pass_on(&self, dataplane: &Dataplane, packet: &Packet) -> Option<Fate> {
        let Place::Cable(frame) = &packet.place else { return None };
        let mut frame = frame.clone();
        match frame.arrive(dataplane) {
            Next::Into(interface) => Some(Fate::Into(frame, interface)),
            Next::Lost(why) => Some(Fate::Gone(why)),
            Next::Misled(node, port) => Some(misled(&frame, &node, port)),
            Next::Out(port) => {
                let name = self.nodes.get(packet.node).map(|node| &node.name);
                let is_there = name == Some(&frame.node) && port == frame.to;
                (!is_there).then(|| {
                    let (node, to) = (&frame.node, frame.to);
                    Fate::Broken(format!(
                        "it comes out of port {port}, and was sent to {to} of {node}"
                    ))
                })
            }
        }
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

/// The header of a packet that leads to an instance at another node, and over those behind it as far as that has room:
/// their nodes write others.
fn route(dataplane: &Dataplane, packet: &Packet, to: &InstanceEntry) -> Fate {
    let encapsulation = packet.entry.encapsulation;
    let hops = &packet.entry.hops;
    let places = std::iter::once(packet.position).chain(behind(hops, packet.position));
    let met = places.filter_map(|place| chosen_at(hops, place, packet.flow));
    let Some(way) = dataplane.way(met, encapsulation) else { return Fate::Dropped("no_route") };
    if encapsulation.fault_of_route(&way.ports).is_some() {
        return Fate::Dropped("route_unfit");
    }
    let mut frame = Box::new(Frame::new(way, to, encapsulation));
    match frame.step(dataplane) {
        Next::Into(interface) => Fate::Into(frame, interface),
        Next::Misled(node, port) => misled(&frame, &node, port),
        Next::Out(port) => {
            Fate::Broken(format!("its route begins with port {port}, which is no link"))
        }
        Next::Lost(why) => Fate::Dropped(why),
    }
}

/// A frame on its way to what it was not sent to.
fn misled(frame: &Frame, node: &NodeName, port: PortId) -> Fate {
    let (meant, to) = (&frame.node, frame.to);
    Fate::Broken(format!(
        "an edge leads it on to port {port} of {node}, and it was sent to {to} of {meant}"
    ))
}

/// Is the path that the packet is on the one that the node knows?
fn known(running: &Running, packet: &Packet) -> Result<(), Fate> {
    let missing = |what: &str| {
        if packet.is_given_up { Fate::Gone("it was given up") } else { Fate::Broken(what.into()) }
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
    chosen_at(&packet.entry.hops, packet.position, packet.flow)
}

fn chosen_at(hops: &[HopEntry], place: usize, flow: u64) -> Option<&InstanceEntry> {
    let hop = hops.get(place)?;
    let total: u64 = hop.instances.iter().map(|instance| u64::from(instance.weight)).sum();
    let mut place = flow.checked_rem(total)?;
    hop.instances.iter().find(|instance| {
        let weight = u64::from(instance.weight);
        let is_it = place < weight;
        place = place.saturating_sub(weight);
        is_it
    })
}
