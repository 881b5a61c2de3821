//! What packets show, a group at a time: the frames are asked for, then read, then what they name in the
//! tables is asked for, so that the waits of a group are one. Knows when the fast path must not act: then a
//! packet is left as it came.

use super::FastPath;
use super::context::FastPathContext;
use super::ingress_port::IngressKind;
use crate::engine::encap::{self, HeaderSide};
use crate::engine::packet::index::{PortIndex, UNTOLD_NETWORK};
use crate::engine::packet::subscriber::Subscriber;
use crate::engine::packet::{Arrived, Origin, Packet, PortSlot};
use crate::engine::stages::receive::{come_back, come_out};
use crate::engine::state::network_mac;
use crate::engine::vector::owner::Owner;
use catena_io::{Offload, prefetch};
use catena_model::TunnelKind;
use catena_model::classifier::FieldWord;
use catena_model::resource::Encapsulation;
use catena_wire::ethernet;
use catena_wire::scalar::EtherType;

use super::packet_meta::{Entry, Kind, PacketMeta};

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

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
                    context.tables.positions.prefetch(meta.header.path);
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
        context: &mut FastPathContext<'_>,
    ) -> Option<Kind> {
        let bytes = packet.buffer.bytes();
        (meta.user, meta.identity, meta.route) = (Subscriber::Unknown, 0, None);
        if packet.buffer.offload != Offload::default() {
            return None;
        }
        let slot = match packet.origin {
            Origin::Tunnel { kind: kind @ TunnelKind::Path(by), source } => {
                let end = (kind.is_segmented(), source);
                meta.sender = match self.source {
                    Some((last, node)) if last == end => node,
                    _ => context.tables.sender(kind, source)?,
                };
                self.source = Some((end, meta.sender));
                return Self::read_tunnelled(bytes, by, meta, context);
            }
            Origin::Tunnel { .. } => return None,
            Origin::Port(slot) => slot,
        };
        if let Arrived::AtExit(port) = packet.arrived {
            return Self::read_exit(bytes, (slot, port), meta, context);
        }
        meta.entry = Entry::of(slot, 0);
        let ingress = self.ports.get(slot.index())?.as_ref()?;
        meta.owner = ingress.owner;
        if let IngressKind::Function { speaks, .. } = &ingress.kind
            && let Some(encapsulation) = headed_by(bytes)
        {
            if !speaks[encapsulation as usize] {
                return None;
            }
            return match encapsulation.is_source_route() {
                true => Self::read_given_back(
                    bytes,
                    encapsulation,
                    (slot, ingress.index),
                    meta,
                    context,
                ),
                false => Self::read_headed(bytes, encapsulation, slot, meta),
            };
        }
        if !meta.frame.read(bytes) {
            return None;
        }
        meta.header_bytes = 0;
        if context.inspection.is_on && meta.frame.is_tunnel() {
            meta.user = context.inspection.into_plain(bytes, &meta.frame)?;
        }
        match ingress.kind {
            IngressKind::Endpoint if meta.user != Subscriber::Unknown => Some(Kind::Subscriber),
            IngressKind::Endpoint => {
                meta.port = ingress.index.0;
                meta.fields = match ingress.fields {
                    0 => FieldWord(0),
                    mask => FieldWord::of(&meta.frame.varying(bytes)).masked(mask),
                };
                meta.flow_hash = meta.frame.symmetric_hash(context.tables.choice_seed);
                Some(Kind::Endpoint)
            }
            IngressKind::Function { serial: Some(serial), keeps_mac, .. } => {
                meta.told = match keeps_mac {
                    true => {
                        let port = context.tables.port(ingress.index);
                        network_mac::told_by(port, ethernet::source(bytes)?)?
                    }
                    false => UNTOLD_NETWORK,
                };
                meta.identity = meta.user.identity();
                meta.memory_hash = context.proxy_flows.hash(serial, &meta.frame, meta.identity);
                Some(Kind::Function)
            }
            IngressKind::Function { serial: None, .. } => None,
        }
    }

    /// The same of a packet from another node.
    #[inline(always)]
    fn read_tunnelled(
        bytes: &[u8],
        by: Encapsulation,
        meta: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<Kind> {
        (meta.owner, meta.entry) = (Owner::Tunnels, Entry::TUNNEL);
        if by.is_segmented() {
            return Self::read_segments(bytes, by, meta, context);
        }
        meta.encapsulation = by;
        meta.header = encap::peek(by, HeaderSide::Tunnel, bytes)?;
        meta.header_bytes = meta.header.header_bytes;
        let inner = bytes.get(usize::from(meta.header_bytes)..)?;
        meta.frame.read(inner).then_some(Kind::Tunnel)
    }

    /// The same over segments. Apart: other headers are read in less.
    #[inline(never)]
    fn read_segments(
        bytes: &[u8],
        by: Encapsulation,
        meta: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<Kind> {
        meta.encapsulation = encap::carrier(by, bytes);
        let positions = &context.tables.positions;
        meta.header = encap::peek_segments(positions, meta.encapsulation, bytes)?;
        meta.header_bytes = meta.header.header_bytes;
        let inner = bytes.get(usize::from(meta.header_bytes)..)?;
        let is_read = match meta.has_frame() {
            true => meta.frame.read(inner),
            // The frame is made anew where it begins.
            false => meta.frame.read_packet(inner.get(ethernet::HEADER_BYTES..)?),
        };
        is_read.then_some(Kind::Tunnel)
    }

    /// The same of a packet whose route comes out at a port.
    fn read_exit(
        bytes: &[u8],
        (slot, port): (PortSlot, PortIndex),
        meta: &mut PacketMeta,
        context: &mut FastPathContext<'_>,
    ) -> Option<Kind> {
        let tables = context.tables;
        meta.encapsulation = encap::on_link(bytes)?;
        let (positions, carried) = (&tables.positions, &mut *context.carried);
        let carrier = encap::of(meta.encapsulation);
        let located = carrier.find_kept(positions, bytes, carried).ok()?;
        meta.position = come_out(located.position, port, tables).ok()?;
        meta.header.path = positions.id(meta.position).0;
        meta.header_bytes = u8::try_from(located.header_bytes).ok()?;
        (meta.owner, meta.entry) = (context.slots.owner(slot).0, Entry::of(slot, 0));
        // Where the frame will begin its addresses are not yet, and nothing asks for them; of some headers not its
        // type either.
        let inner = bytes.get(located.header_bytes..)?;
        let is_read = match meta.has_frame() {
            true => meta.frame.read(inner),
            false => meta.frame.read_packet(inner.get(ethernet::HEADER_BYTES..)?),
        };
        is_read.then_some(Kind::Exit)
    }

    /// The same of a packet whose source route a function has read.
    fn read_given_back(
        bytes: &[u8],
        encapsulation: Encapsulation,
        (slot, port): (PortSlot, PortIndex),
        meta: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<Kind> {
        let tables = context.tables;
        let located = encap::taken_back(&tables.positions, bytes, context.carried).ok()?;
        meta.encapsulation = encapsulation;
        meta.position = come_back(located.position, port, tables).ok()?;
        meta.header.path = tables.positions.id(meta.position).0;
        meta.header_bytes = u8::try_from(located.header_bytes).ok()?;
        meta.entry = Entry::of(slot, meta.header_bytes);
        // Where the frame will begin its addresses are not yet.
        let inner = bytes.get(located.header_bytes..)?;
        meta.frame.read(inner).then_some(Kind::Aware)
    }

    /// The same behind a header of a function that reads headers.
    #[inline(always)]
    fn read_headed(
        bytes: &[u8],
        encapsulation: Encapsulation,
        slot: PortSlot,
        meta: &mut PacketMeta,
    ) -> Option<Kind> {
        const ETHERNET: u8 = ethernet::HEADER_BYTES as u8;
        let headed = bytes.get(usize::from(ETHERNET)..)?;
        meta.encapsulation = encapsulation;
        meta.header = encap::peek(encapsulation, HeaderSide::Function, headed)?;
        meta.header_bytes = meta.header.header_bytes + ETHERNET;
        meta.entry = Entry::of(slot, meta.header_bytes);
        let inner = bytes.get(usize::from(meta.header_bytes)..)?;
        meta.frame.read(inner).then_some(Kind::Aware)
    }
}

/// The encapsulation that a frame's type announces.
#[inline(always)]
fn headed_by(bytes: &[u8]) -> Option<Encapsulation> {
    // Most frames are bare.
    match ethernet::outer_type(bytes)? {
        EtherType::IPV4 | EtherType::IPV6 => None,
        other => encap::by_ether_type(other),
    }
}
