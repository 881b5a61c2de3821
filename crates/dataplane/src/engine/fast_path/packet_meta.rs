//! What the fast path knows of a packet, flat and written in place: where it came from, what it shows, and what
//! is to be done with it. Knows values alone.

use crate::engine::encap::{PathPosition, Peeked};
use crate::engine::packet::PortSlot;
use crate::engine::packet::index::{NodeIndex, PortIndex, SliceIndex};
use crate::engine::packet::subscriber::Subscriber;
use crate::engine::state::flow_cache::FlowQuery;
use crate::engine::state::proxy_flows::{FlowHash, Found};
use crate::engine::vector::decision::ActionRef;
use crate::engine::vector::owner::Owner;
use catena_model::classifier::FieldWord;
use catena_model::resource::Encapsulation;
use catena_wire::plain::PlainFrame;
use catena_wire::scalar::MacAddr;

/// How far the fast path knows a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// It does not: it takes the slow path.
    #[default]
    SlowPath,
    /// From an endpoint: on a path once it is decided, or switched.
    Endpoint,
    /// The same in a tunnel: on the path of its user's slice.
    Subscriber,
    /// Bare, from a function.
    Function,
    /// With a header, from a tunnel.
    Tunnel,
    /// With a header, from a function.
    Aware,
    /// On a source route, out of a link, at a port of a function.
    Exit,
    /// By MAC from an endpoint to a port.
    Switched,
}

/// By which port, or by tunnels, a packet came, in one word, so that packets are compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u64);

impl Default for Entry {
    fn default() -> Self {
        Self::NOWHERE
    }
}

impl Entry {
    /// That of no packet: no port has these bits.
    const NOWHERE: Self = Self(u64::MAX);
    /// The bits that tell the port, or the tunnels.
    const PORT: u64 = 0x1_ffff;
    /// From another node: what a tunnel has before the frame is no part of what was received.
    pub(super) const TUNNEL: Self = Self(1 << 16);

    /// From a port, with so many bytes of a header before its frame.
    #[inline]
    pub(super) fn of(slot: PortSlot, header_bytes: u8) -> Self {
        Self(u64::from(header_bytes) << 24 | u64::from(slot.0))
    }

    /// Back from the local instance with this number; it was none before.
    #[inline]
    pub(super) fn back_from(&mut self, local: u32) {
        self.0 |= u64::from(local) << 32;
    }

    /// Did both come by one port, or by tunnels? Then they have one owner.
    #[inline]
    pub(super) fn is_by_port_of(self, other: Self) -> bool {
        (self.0 ^ other.0) & Self::PORT == 0
    }

    /// Slot of the port; of tunnels: 0.
    #[inline]
    pub(super) fn slot(self) -> PortSlot {
        PortSlot(self.0 as u16)
    }

    /// The local instance that a packet comes from.
    #[inline]
    pub(super) fn local(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Bytes of a header of the port before the frame.
    #[inline]
    pub(super) fn header_bytes(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

/// Which action a packet meets, and on which path, in one word, so that packets are compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathAction(u64);

impl Default for PathAction {
    fn default() -> Self {
        Self::NONE
    }
}

impl PathAction {
    /// That of no packet.
    const NONE: Self = Self(u64::MAX);
    /// Set for what leaves by a port on no path: numbers of actions are smaller.
    const BY_PORT: u32 = 1 << 31;
    /// No path has this index.
    const SWITCHED: u32 = u32::MAX;

    /// The compiled action with this number, for packets of the path with this index.
    #[inline]
    pub(super) fn hop(path: u32, number: u32) -> Option<Self> {
        (number < Self::BY_PORT).then(|| Self::of(path, number))
    }

    /// Delivered at the end of the path with this index.
    #[inline]
    pub(super) fn deliver(path: u32, port: PortIndex) -> Self {
        Self::of(path, Self::BY_PORT | u32::from(port.0))
    }

    /// Delivered on no path.
    #[inline]
    pub(super) fn switch(port: PortIndex) -> Self {
        Self::deliver(Self::SWITCHED, port)
    }

    #[inline]
    fn of(path: u32, action: u32) -> Self {
        Self(u64::from(path) << 32 | u64::from(action))
    }

    #[inline]
    pub(super) fn action(self) -> ActionRef {
        let action = self.0 as u32;
        if action & Self::BY_PORT == 0 {
            ActionRef::Hop(action)
        } else {
            ActionRef::Port(PortIndex(action as u16))
        }
    }
}

/// A header of a route by its place, as long as it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RouteRef {
    pub(super) place: u16,
    /// How often the place has been filled.
    pub(super) turn: u32,
}

/// A packet as it is seen. Flat, and written in place: the fast path handles one for every packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PacketMeta {
    pub(super) kind: Kind,
    /// Its flow is to be noted again as one of its path.
    pub(super) is_due: bool,
    /// The proxy's memory is to be told of it.
    pub(super) is_remembered: bool,
    /// Bytes before the frame, to be taken off: also those of a tunnel.
    pub(super) header_bytes: u8,
    pub(super) entry: Entry,
    pub(super) owner: Owner,
    /// The node that has sent it, if it came by a tunnel.
    pub(super) sender: NodeIndex,
    pub(super) frame: PlainFrame,
    /// Whose it is, if the node looks and it has been asked.
    pub(super) user: Subscriber,
    /// What the proxy's memory tells it apart by from others of its flow; 0: nothing.
    pub(super) identity: u64,
    /// The network that it says it is of when it comes out of a function, see `network_mac`.
    pub(super) told: u32,
    /// The slice that takes its user.
    pub(super) slice: Option<SliceIndex>,
    /// Index of the port that it came by, if it came from an endpoint.
    pub(super) port: u16,
    /// What it shows there of the fields that rules look at.
    pub(super) fields: FieldWord,
    /// The same for both directions of the flow; known once something is chosen by it.
    pub(super) flow_hash: u64,
    /// Where the proxy's memory looks for the flow, if it is asked.
    pub(super) memory_hash: FlowHash,
    /// What its header says, if it came with one; of all, the identifier of their path.
    pub(super) header: Peeked,
    pub(super) encapsulation: Encapsulation,
    /// Where on its path it is, unless it is switched.
    pub(super) position: PathPosition,
    /// Where the proxy's memory has its flow.
    pub(super) found: Found,
    /// Where that is likely to have the flow behind the function that it goes into.
    pub(super) likely: Found,
    pub(super) action: PathAction,
    /// The header of its route, if it gets one.
    pub(super) route: Option<RouteRef>,
    /// The MAC that it is delivered to, if not its own.
    pub(super) mac: Option<MacAddr>,
}

impl PacketMeta {
    #[inline]
    pub(super) fn asked(&self) -> FlowQuery<'_> {
        let Self { port, fields, flow_hash, .. } = *self;
        FlowQuery { port, frame: &self.frame, fields, flow_hash }
    }

    /// Was it given back with a source route? Then its addresses stand before that.
    #[inline]
    pub(super) fn is_given_back(&self) -> bool {
        self.kind == Kind::Aware && self.encapsulation.is_source_route()
    }

    /// Does its header carry its frame whole? Else that is made anew.
    #[inline]
    pub(super) fn has_frame(&self) -> bool {
        self.encapsulation.capabilities().keeps_frame
    }

    /// Is its frame made anew behind segments?
    #[inline]
    pub(super) fn is_frame_made(&self) -> bool {
        self.encapsulation.is_segmented() && !self.has_frame()
    }

    /// Where in what came the addresses of its frame stand.
    #[inline]
    pub(super) fn addresses_at(&self) -> usize {
        if self.is_given_back() { 0 } else { self.header_bytes.into() }
    }

    /// The number by which it chooses instances on the path of a position: on that of a slice, users
    /// of one tunnel choose each for himself.
    #[inline]
    pub(super) fn chosen_by(&self, position: PathPosition, seed: u64) -> u64 {
        let outer = || self.frame.symmetric_hash(seed);
        if position.is_of_slice() { self.user.flow_hash(seed, outer) } else { outer() }
    }
}
