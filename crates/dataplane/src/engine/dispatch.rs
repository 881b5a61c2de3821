//! Which engine decides a packet where several share a node (docs/adr/0018-several-workers.md). Knows
//! what of a packet stays the same on its whole way through the node; refuses to know threads.
//!
//! What an engine remembers of a flow is found again only there, so all packets of a flow go to one
//! engine: both directions, in and out of tunnels and functions. Fragments go by their addresses alone,
//! since only the first has ports. Two things are known to one engine only: what functions make of the
//! packets that they rewrite, and how much of its rate a slice has used. A node with either has its
//! packets decided by the first engine.

use crate::engine::Engine;
use crate::engine::encap::{self, HeaderSide};
use crate::engine::packet::{Origin, Packet, PortSlot, parse};
use crate::engine::tables::Tables;
use catena_model::TunnelKind;
use catena_model::explain::{ExplainAt, FrameBytes};
use catena_wire::ethernet::EthernetView;
use catena_wire::flow::mix;
use catena_wire::fragment::FragmentPlace;
use catena_wire::frame::{Fragment, FrameView};
use catena_wire::plain::PlainFrame;
use catena_wire::vxlan::VxlanHeader;

impl Engine {
    /// Which of so many engines with the same tables decides this packet, from 0; none: whichever has read it,
    /// because nothing is remembered of it.
    #[must_use]
    pub fn decider(&self, packet: &Packet, engines: usize) -> Option<usize> {
        let bytes = packet.buffer.bytes();
        let is_brought = packet.port().is_some_and(|slot| self.slots.is_link(slot));
        let passes = is_brought && !self.transit.comes_out(bytes);
        (!passes).then(|| self.decider_of(packet.origin, bytes, engines))
    }

    /// The same for a packet that somebody asks about.
    #[must_use]
    pub fn decider_asked(&self, at: &ExplainAt, frame: &FrameBytes, engines: usize) -> usize {
        let origin = match at {
            ExplainAt::Port(id) => self.slot_of(*id).map(Origin::Port),
            ExplainAt::Link(number) => self.slot_of(number.link_id()).map(Origin::Port),
            ExplainAt::Tunnel { tunnel, source } => {
                Some(Origin::Tunnel { kind: *tunnel, source: *source })
            }
        };
        origin.map_or(0, |origin| self.decider_of(origin, &frame.0, engines))
    }

    fn decider_of(&self, origin: Origin, bytes: &[u8], engines: usize) -> usize {
        if engines < 2 || self.tables.are_for_one() {
            return 0;
        }
        let constant = |frame| self.constant(frame);
        let hash = match origin {
            Origin::Tunnel { kind: TunnelKind::Path(by), .. } if by.is_segmented() => {
                encap::under_tunnel(by, bytes).map(|(inner, view)| self.constant_of(inner, &view))
            }
            Origin::Tunnel { kind, .. } => from_tunnel(kind, bytes).and_then(constant),
            Origin::Port(slot) if self.slots.is_link(slot) => {
                encap::under_route(bytes).map(|(inner, view)| self.constant_of(inner, &view))
            }
            Origin::Port(slot) if self.is_of_function(slot) => {
                from_function(bytes).and_then(constant)
            }
            Origin::Port(_) => constant(bytes),
        };
        // What cannot be read is dropped by name, wherever that is.
        let Some(hash) = hash else { return 0 };
        let spread = mix(hash ^ self.config.flow_seed);
        ((u128::from(spread) * engines as u128) >> 64) as usize
    }

    /// Is the port in this slot one of a function?
    #[must_use]
    pub fn is_of_function(&self, slot: PortSlot) -> bool {
        let port = self.slots.owner(slot).1;
        port.is_some_and(|port| self.tables.port(port).is_function())
    }

    /// What all packets of a flow have in common, wherever this node sees them.
    fn constant(&self, frame: &[u8]) -> Option<u64> {
        if !self.inspection.is_on
            && let Some(plain) = PlainFrame::parse(frame)
        {
            return Some(plain.symmetric_hash(self.tables.choice_seed));
        }
        Some(self.constant_of(frame, &FrameView::parse(frame).ok()?))
    }

    /// The same of a frame, or of a packet, that has been read.
    fn constant_of(&self, bytes: &[u8], view: &FrameView) -> u64 {
        let seed = self.tables.choice_seed;
        match (view.fragment, view.flow) {
            (Fragment::First | Fragment::Later, Some(flow)) => {
                FragmentPlace::common(&flow).symmetric_hash(seed)
            }
            _ => {
                let outer = || parse::flow_hash(view, seed);
                self.inspection.into(bytes, view).flow_hash(seed, outer)
            }
        }
    }
}

impl Tables {
    /// Must one engine decide all packets, since a function rewrites some, one that runs inside
    /// remembers anything, or a slice is held back?
    #[must_use]
    pub fn are_for_one(&self) -> bool {
        self.rewritten > 0 || self.bundles.remembering > 0 || self.slices.hold_back()
    }
}

/// The frame that a function has sent, without the chain header of one that speaks any.
fn from_function(bytes: &[u8]) -> Option<&[u8]> {
    let ethernet = EthernetView::parse(bytes).ok()?;
    let Some(encapsulation) = encap::by_ether_type(ethernet.ethertype()) else {
        return Some(bytes);
    };
    bytes.get(encap::inner_offset(encapsulation, bytes, ethernet.header_len())?..)
}

/// The frame in a tunnel packet.
fn from_tunnel(kind: TunnelKind, bytes: &[u8]) -> Option<&[u8]> {
    let header_bytes = match kind {
        TunnelKind::Path(encapsulation) => {
            encap::of(encapsulation).header_bytes(HeaderSide::Tunnel, bytes)?
        }
        TunnelKind::Vxlan => VxlanHeader::LEN,
    };
    bytes.get(header_bytes..)
}
