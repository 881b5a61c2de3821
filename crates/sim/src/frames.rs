//! Frames on source routes: a model of the engine's transit, by port numbers instead of bytes. Knows what a
//! frame says and what the program of the node where it is says of it; refuses to know paths.

use crate::dataplane::Dataplane;
use crate::hellos::Use;
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::program::{DetourEntry, ExitPlace, InstanceEntry, NodeIdentity, RouteEntry};
use catena_model::resource::Encapsulation;
use catena_model::source_route::JoinedWay;
use catena_model::topology::PortNumber;
use std::collections::VecDeque;

/// One port of a way.
#[derive(Clone, Debug)]
struct Leg {
    /// Its place on the way; none: it is on a detour.
    place: Option<u8>,
    port: PortNumber,
    /// What the node must divide by to read it; none: it stands in the frame as it is.
    identity: Option<NodeIdentity>,
}

/// A frame on its way to a port.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Where it was sent.
    pub(crate) node: NodeName,
    pub(crate) to: PortId,
    /// Nodes that it has left.
    pub(crate) hops: usize,
    /// The interface by which it comes to the node where it is.
    pub(crate) by: String,
    /// An edge has given it another header since it was asked.
    is_renewed: bool,
    left: VecDeque<Leg>,
    detours: Vec<DetourEntry>,
    /// Its ports are remainders.
    is_divided: bool,
}

/// Where a frame goes from a node.
#[derive(Debug)]
pub(crate) enum Next {
    /// Into the cable at this interface.
    Into(String),
    /// Out of this port.
    Out(PortId),
    /// Nowhere, by this name.
    Lost(&'static str),
    /// On to this port of this node, to which nobody has sent it.
    Misled(NodeName, PortId),
}

impl Frame {
    /// A frame that is about to go along a way from its node to an instance, whatever comes behind that.
    pub(crate) fn new(way: JoinedWay, to: &InstanceEntry, encapsulation: Encapsulation) -> Self {
        let is_divided = encapsulation.needs_identities();
        let detours = if encapsulation.carries_detours() { way.detours } else { vec![] };
        Self {
            node: to.node.clone(),
            to: to.ingress,
            hops: 0,
            by: String::new(),
            is_renewed: false,
            left: legs(&way.ports, &way.identities, is_divided),
            detours,
            is_divided,
        }
    }

    /// Has an edge given it another header since this was asked?
    pub(crate) fn take_renewed(&mut self) -> bool {
        std::mem::take(&mut self.is_renewed)
    }

    /// The step of one node that a link has brought it to.
    pub(crate) fn arrive(&mut self, dataplane: &Dataplane) -> Next {
        match dataplane.hellos.is_known(&self.by) {
            true => self.step(dataplane),
            false => Next::Lost("unknown_neighbour"),
        }
    }

    /// The step of one node.
    pub(crate) fn step(&mut self, dataplane: &Dataplane) -> Next {
        let Some(leg) = self.left.pop_front() else { return Next::Lost("route_ended") };
        self.hops += 1;
        if leg.identity.is_some_and(|identity| dataplane.identity() != Some(identity)) {
            // What is left of a division by anything else is nobody's port, but for once in hundreds of times.
            return Next::Lost("unknown_exit");
        }
        match (dataplane.exit(leg.port), dataplane.hellos.use_of(leg.port)) {
            (None, _) => Next::Lost("unknown_exit"),
            (Some(ExitPlace::Port(port)), _) => Next::Out(*port),
            // What leads on under another header names nothing behind that.
            (Some(ExitPlace::Pathlet(_)), _) if !self.left.is_empty() => {
                Next::Lost("malformed_source_route")
            }
            (Some(ExitPlace::Pathlet(next)), _)
                if (&next.node, next.to) != (&self.node, self.to) =>
            {
                Next::Misled(next.node.clone(), next.to)
            }
            (Some(ExitPlace::Pathlet(next)), _) => {
                self.is_renewed = true;
                self.left = legs(&next.ports, &next.identities, self.is_divided);
                self.detours.clear();
                self.hops -= 1;
                self.step(dataplane)
            }
            (Some(ExitPlace::Link(interface)), Some(Use::Sound)) => Next::Into(interface.clone()),
            (Some(ExitPlace::Link(interface)), usage) => match self.go_round(&leg, dataplane) {
                Some(other) => Next::Into(other),
                None if usage == Some(Use::Doubted) => Next::Into(interface.clone()),
                None => Next::Lost("link_dead"),
            },
        }
    }

    /// Takes the detour around the cable of this port, if it brings one whose first link is sound.
    fn go_round(&mut self, leg: &Leg, dataplane: &Dataplane) -> Option<String> {
        let place = leg.place?;
        let detour = self.detours.iter().find(|detour| detour.at == place)?.clone();
        let first = *detour.ports.first()?;
        let ExitPlace::Link(interface) = dataplane.exit(first)? else { return None };
        if dataplane.hellos.use_of(first) != Some(Use::Sound) {
            return None;
        }
        let is_left = |leg: &Leg| leg.place.is_some_and(|place| place >= detour.rejoin);
        self.left.retain(is_left);
        for port in detour.ports.iter().skip(1).rev() {
            self.left.push_front(Leg { place: None, port: *port, identity: None });
        }
        self.detours.retain(|other| other.at >= detour.rejoin);
        Some(interface.clone())
    }
}

/// The ports of a header.
fn legs(ports: &[PortNumber], identities: &[NodeIdentity], is_divided: bool) -> VecDeque<Leg> {
    let leg = |(place, port): (u8, &PortNumber)| {
        // The first is that of the node which writes the header.
        let node = usize::from(place).checked_sub(1).filter(|_| is_divided);
        let identity = node.and_then(|node| identities.get(node).copied());
        Leg { place: Some(place), port: *port, identity }
    };
    (0..).zip(ports).map(leg).collect()
}

/// All ways by which frames of a route may leave a node: its own, and those with one detour each.
pub(crate) fn ways(route: &RouteEntry) -> impl Iterator<Item = Vec<PortNumber>> + '_ {
    let round = route.detours.iter().filter_map(|detour| {
        let (at, rejoin) = (usize::from(detour.at), usize::from(detour.rejoin));
        Some([route.ports.get(..at)?, &detour.ports, route.ports.get(rejoin..)?].concat())
    });
    std::iter::once(route.ports.clone()).chain(round)
}
