//! Which engine decides a packet where several share a node (docs/adr/0018-several-workers.md). Knows
//! what of a packet stays the same on its whole way through the node; refuses to know threads.
//!
//! What an engine remembers of a flow is found again only there, so all packets of a flow go to one
//! engine: both directions, in and out of tunnels and functions. Fragments go by their addresses alone,
//! since only the first has ports. Two things are known to one engine only: what functions make of the
//! packets that they rewrite, and how much of its rate a slice has used. A node with either has its
//! packets decided by the first engine.

use super::Engine;
use super::encap::{self, Door};
use super::explain;
use super::packet::{Origin, Packet, TunnelKind};
use super::receive;
use super::rendezvous::mix;
use super::tables::Tables;
use catena_model::explain::{ExplainAt, FrameBytes};
use catena_wire::ethernet::EthernetView;
use catena_wire::flow::FlowKey;
use catena_wire::frame::{Fragment, FrameView};
use catena_wire::vxlan::VxlanHeader;

impl Engine {
    /// Which of so many engines with the same tables decides this packet, from 0.
    #[must_use]
    pub fn decider(&self, packet: &Packet, engines: usize) -> usize {
        let tunnel = match packet.origin {
            Origin::Port(_) => None,
            Origin::Tunnel { kind, .. } => Some(kind),
        };
        self.decider_of(tunnel, packet.buffer.bytes(), engines)
    }

    /// The same for a packet that somebody asks about.
    #[must_use]
    pub fn decider_asked(&self, at: &ExplainAt, frame: &FrameBytes, engines: usize) -> usize {
        let tunnel = match at {
            ExplainAt::Port(_) => None,
            ExplainAt::Tunnel { tunnel, .. } => Some(explain::kind(*tunnel)),
        };
        self.decider_of(tunnel, &frame.0, engines)
    }

    fn decider_of(&self, tunnel: Option<TunnelKind>, bytes: &[u8], engines: usize) -> usize {
        if engines < 2 || self.tables.are_for_one() {
            return 0;
        }
        let frame = match tunnel {
            None => from_port(bytes),
            Some(kind) => from_tunnel(kind, bytes),
        };
        // What cannot be read is dropped by name, wherever.
        let Some(hash) = frame.and_then(|frame| self.constant(frame)) else { return 0 };
        let spread = mix(hash ^ self.config.flow_seed);
        ((u128::from(spread) * engines as u128) >> 64) as usize
    }

    /// What all packets of a flow have in common, wherever this node sees them.
    fn constant(&self, frame: &[u8]) -> Option<u64> {
        let view = FrameView::parse(frame).ok()?;
        match (view.fragment, view.flow) {
            (Fragment::First | Fragment::Later, Some(flow)) => {
                let flow = FlowKey { source_port: 0, destination_port: 0, ..flow };
                Some(flow.symmetric_hash())
            }
            _ => Some(self.look.into(frame, &view).flow_hash(receive::flow_hash(&view))),
        }
    }
}

impl Tables {
    /// Must one engine decide all packets, since a function rewrites some or a slice is held back?
    #[must_use]
    pub fn are_for_one(&self) -> bool {
        self.has_rewriters || self.slices.hold_back()
    }
}

/// The frame that a port brought, without the chain header of a function that speaks one.
fn from_port(bytes: &[u8]) -> Option<&[u8]> {
    let ethernet = EthernetView::parse(bytes).ok()?;
    let Some(encapsulation) = encap::by_ether_type(ethernet.ethertype()) else {
        return Some(bytes);
    };
    let headed = bytes.get(ethernet.header_len()..)?;
    headed.get(encap::of(encapsulation).header_bytes(Door::Function, headed)?..)
}

/// The frame in a tunnel packet.
fn from_tunnel(kind: TunnelKind, bytes: &[u8]) -> Option<&[u8]> {
    let header_bytes = match encap::by_tunnel(kind) {
        Some(encapsulation) => encap::of(encapsulation).header_bytes(Door::Tunnel, bytes)?,
        None => VxlanHeader::LEN,
    };
    bytes.get(header_bytes..)
}
