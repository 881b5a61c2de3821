//! What packets show, a group at a time: the frames are asked for, then read, then what they name in the
//! tables is asked for, so that the waits of a group are one. Knows when the fast path must not act: then a
//! packet is left as it came.

use super::FastPath;
use super::context::FastPathContext;
use super::ingress_port::IngressKind;
use crate::engine::encap;
use crate::engine::packet::index::UNTOLD_NETWORK;
use crate::engine::packet::subscriber::Subscriber;
use crate::engine::packet::{Origin, Packet};
use crate::engine::state::flow_cache::FlowWords;
use crate::engine::state::network_mac;
use crate::engine::vector::owner::Owner;
use catena_io::{Offload, prefetch};
use catena_model::TunnelKind;
use catena_wire::ethernet;
use catena_wire::plain::{PlainFrame, PlainNsh};
use catena_wire::scalar::EtherType;

use super::packet_meta::{Entry, Kind, PacketMeta};

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Bytes before the frame of a packet that a tunnel brought.
const TUNNEL_HEADER_BYTES: u8 = (PlainNsh::GPE_LEN + PlainNsh::LEN) as u8;
/// The same of a function that reads headers.
const FUNCTION_HEADER_BYTES: u8 = (ethernet::HEADER_BYTES + PlainNsh::LEN) as u8;

impl FastPath {
    /// Looks at a group of packets.
    pub(super) fn look(
        &mut self,
        group: &[Packet],
        metas: &mut [PacketMeta],
        context: &mut FastPathContext<'_>,
    ) {
        (self.at, self.seen) = (0, group.len());
        for packet in group {
            let bytes = packet.buffer.bytes();
            if let Some(first) = bytes.first() {
                prefetch(first);
            }
            if let Some(second) = bytes.get(LINE_BYTES) {
                prefetch(second);
            }
        }
        let (mut has_returned, mut has_users) = (false, false);
        for (packet, meta) in group.iter().zip(&mut *metas) {
            meta.kind = Kind::SlowPath;
            match self.read(packet, meta, context) {
                Some(kind @ Kind::Endpoint) => {
                    context.flow_cache.prefetch(meta.asked());
                    meta.kind = kind;
                }
                Some(kind @ Kind::Subscriber) => {
                    has_users = true;
                    meta.kind = kind;
                }
                Some(kind @ Kind::Function) => {
                    context.proxy_flows.prefetch(meta.memory_hash);
                    has_returned = true;
                    meta.kind = kind;
                }
                Some(kind @ (Kind::Tunnel | Kind::Aware)) => {
                    context.tables.positions.prefetch(meta.nsh.spi);
                    meta.kind = kind;
                }
                Some(kind) => meta.kind = kind,
                None => {}
            }
        }
        if has_users {
            self.find_slices(&mut metas[..group.len()], context);
        }
        if has_returned {
            for meta in metas.iter_mut().take(group.len()) {
                if meta.kind == Kind::Function {
                    meta.found = context.proxy_flows.likely_place(meta.memory_hash);
                }
            }
        }
        let mut is_remembered = false;
        for (packet, meta) in group.iter().zip(&mut *metas) {
            meta.is_remembered = false;
            if meta.kind != Kind::SlowPath && self.decide(packet, meta, context).is_none() {
                meta.kind = Kind::SlowPath;
            }
            is_remembered |= meta.is_remembered;
        }
        if is_remembered {
            for meta in metas.iter_mut().take(group.len()) {
                if meta.is_remembered {
                    meta.likely = context.proxy_flows.likely_place(meta.memory_hash);
                }
            }
        }
    }

    /// Reads a packet as far as it says something by itself.
    #[inline(always)]
    fn read(
        &mut self,
        packet: &Packet,
        meta: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<Kind> {
        let bytes = packet.buffer.bytes();
        (meta.user, meta.identity) = (Subscriber::Unknown, 0);
        if packet.buffer.offload != Offload::default() {
            return None;
        }
        let slot = match packet.origin {
            Origin::Tunnel { kind: TunnelKind::Path(encap::PLAIN), source } => {
                meta.sender = match self.source {
                    Some((last, node)) if last == source => node,
                    _ => *context.tables.sources.get(&source)?,
                };
                self.source = Some((source, meta.sender));
                meta.nsh = PlainNsh::parse_behind_gpe(bytes)?;
                meta.frame = PlainFrame::parse(bytes.get(usize::from(TUNNEL_HEADER_BYTES)..)?)?;
                meta.header_bytes = TUNNEL_HEADER_BYTES;
                (meta.owner, meta.entry) = (Owner::Tunnels, Entry::TUNNEL);
                return Some(Kind::Tunnel);
            }
            Origin::Tunnel { .. } => return None,
            Origin::Port(slot) => slot,
        };
        meta.entry = Entry::of(slot, 0);
        let ingress = self.ports.get(slot.index())?.as_ref()?;
        meta.owner = ingress.owner;
        let frame = PlainFrame::parse(bytes);
        if let Some(frame) = frame.filter(|frame| context.inspection.is_on && frame.is_tunnel()) {
            meta.user = context.inspection.into_plain(bytes, &frame)?;
        }
        match (ingress.kind, frame) {
            (IngressKind::Endpoint, Some(frame)) if meta.user != Subscriber::Unknown => {
                (meta.frame, meta.header_bytes) = (frame, 0);
                Some(Kind::Subscriber)
            }
            (IngressKind::Endpoint, Some(frame)) => {
                meta.words = FlowWords::of(ingress.index.0, &frame);
                meta.flow_hash = frame.symmetric_hash(context.tables.choice_seed);
                (meta.frame, meta.header_bytes) = (frame, 0);
                Some(Kind::Endpoint)
            }
            (IngressKind::Function { serial: Some(serial), keeps_mac, .. }, Some(frame)) => {
                meta.told = match keeps_mac {
                    true => {
                        let port = context.tables.port(ingress.index);
                        network_mac::told_by(port, ethernet::source(bytes)?)?
                    }
                    false => UNTOLD_NETWORK,
                };
                meta.identity = meta.user.identity();
                meta.memory_hash = context.proxy_flows.hash(serial, &frame, meta.identity);
                (meta.frame, meta.header_bytes) = (frame, 0);
                Some(Kind::Function)
            }
            (IngressKind::Function { speaks_nsh: true, .. }, None)
                if ethernet::ethertype_is(bytes, EtherType::NSH) =>
            {
                meta.nsh = PlainNsh::parse(bytes.get(ethernet::HEADER_BYTES..)?)?;
                meta.frame = PlainFrame::parse(bytes.get(usize::from(FUNCTION_HEADER_BYTES)..)?)?;
                meta.entry = Entry::of(slot, FUNCTION_HEADER_BYTES);
                meta.header_bytes = FUNCTION_HEADER_BYTES;
                Some(Kind::Aware)
            }
            _ => None,
        }
    }
}
