//! The ring of the punt device: what the kernel's program sends up for want of a transform, from all
//! ports and from the underlay. Knows the tag that says where a frame came in and why it is here,
//! and outer headers; refuses to look behind them.

use super::punt_shares::PuntShares;
use super::way_up::WayUp;
use crate::engine::{Engine, Origin, Packet, TunnelKind, trim_front};
use catena_fastpath::{Event, PuntTag, PuntedFrom, Queues, Sight, TunnelFrame};
use catena_io::{Buffer, BufferPool, PacketRing};
use catena_model::DropReason;
use catena_model::id::PortId;
use catena_wire::ethernet;
use catena_wire::scalar::EtherType;
use std::collections::HashMap;
use std::net::Ipv6Addr;

/// The punt device of a node.
pub(super) struct Punt {
    ring: Box<PacketRing>,
    /// Which port has which number.
    ports: HashMap<u16, PortId>,
    scratch: Vec<Buffer>,
    way_up: WayUp,
    shares: PuntShares,
}

impl Punt {
    /// These ports have numbers already. The engine's kernel path is open.
    pub(super) fn new(
        mut ring: Box<PacketRing>,
        ports: HashMap<u16, PortId>,
        queues: Queues,
        engine: &mut Engine,
    ) -> Self {
        let way_up = WayUp::begin(|| engine.sent_up().unwrap_or(0), || ring.arrived());
        let shares = PuntShares::begin(queues, u32::try_from(ring.slots()).unwrap_or(u32::MAX));
        Self { ring, ports, scratch: Vec::new(), way_up, shares }
    }

    /// Looks whether all that the kernel sends up arrives, now and then.
    pub(super) fn look(&mut self, now_ns: u64, engine: &mut Engine) {
        let sent_up = engine.sent_up().unwrap_or(0);
        self.way_up.look(now_ns, sent_up, || self.ring.arrived());
        let ring = &mut self.ring;
        let arrived = || ring.arrived().saturating_sub(ring.ring_full());
        self.shares.look(now_ns, &self.ports, arrived, engine);
    }

    /// Frames that were lost before they reached this ring, whose place the other takes.
    pub(super) fn lost_before(&mut self, other: &mut PacketRing, engine: &mut Engine) -> u64 {
        let sent_up = engine.sent_up().unwrap_or(0);
        self.way_up.lost_at_end(sent_up, self.ring.arrived() + other.arrived())
    }

    /// Frames that were lost before they reached the ring.
    pub(super) fn lost(&self) -> u64 {
        self.way_up.lost()
    }

    pub(super) fn ring(&self) -> &PacketRing {
        &self.ring
    }

    /// Frames with this number are those of a port.
    pub(super) fn name(&mut self, number: u16, port: PortId) {
        self.ports.retain(|_, named| *named != port);
        self.ports.insert(number, port);
    }

    /// Frames with the number of this port may be another's from now on.
    pub(super) fn forget(&mut self, port: PortId, engine: &mut Engine) {
        self.book(engine);
        self.ports.retain(|_, named| *named != port);
    }

    /// Counts what the kernel did not let up since the last time.
    pub(super) fn book(&mut self, engine: &mut Engine) {
        self.shares.book(&self.ports, engine);
    }

    /// Takes up to `max` frames. Those of ports that are not in the program are nobody's.
    pub(super) fn receive(
        &mut self,
        max: usize,
        engine: &mut Engine,
        pool: &mut BufferPool,
        input: &mut Vec<Packet>,
    ) {
        let received = self.ring.receive(pool, &mut self.scratch, max);
        let unread = received.truncated + received.unsupported_offload;
        self.shares.note_taken(u64::from(received.frames + unread));
        for mut buffer in self.scratch.drain(..) {
            let tag = take_tag(&mut buffer);
            if let Some(tag) = tag {
                self.shares.serve(tag.from.number());
            }
            let from = tag.and_then(|tag| match tag.from {
                PuntedFrom::Port(number) => {
                    let slot = engine.slot_of(*self.ports.get(&number)?)?;
                    Some((Origin::Port(slot), tag.cause))
                }
                PuntedFrom::Underlay(_) => {
                    let outer = take_outer(&mut buffer);
                    if outer.is_none() {
                        note_lying(engine, &buffer);
                    }
                    Some((outer?, tag.cause))
                }
            });
            let Some((origin, cause)) = from else {
                pool.put(buffer);
                continue;
            };
            if is_row(origin, &buffer) {
                let (packets, bytes) = (buffer.offload.wire_packets(buffer.len()), buffer.len());
                let reason = DropReason::UnsupportedOffload;
                engine.note_received_lost(origin, reason, u64::from(packets), bytes as u64);
                pool.put(buffer);
                continue;
            }
            input.push(match cause {
                Event::Miss | Event::Stale => Packet::from_kernel(origin, buffer, false),
                Event::Waiting => Packet::from_kernel(origin, buffer, true),
                Event::Watched => Packet::watched(origin, buffer),
                _ => Packet::plainly(origin, buffer),
            });
        }
    }

    /// Frames that were lost because the ring was full.
    pub(super) fn ring_full(&mut self) -> u64 {
        self.ring.ring_full()
    }
}

/// Takes the outer tag off a frame.
fn take_tag(buffer: &mut Buffer) -> Option<PuntTag> {
    let (tag_type, control) = ethernet::outer_tag(buffer.bytes())?;
    let tag = PuntTag::parse(control).filter(|_| tag_type.0 == PuntTag::ETHER_TYPE)?;
    let addresses = ethernet::HEADER_BYTES - size_of::<EtherType>();
    buffer.bytes_mut().copy_within(0..addresses, ethernet::TAG_BYTES);
    trim_front(buffer, ethernet::TAG_BYTES).then_some(tag)
}

/// Takes the outer headers of a tunnel packet off; `None` if they lie, which the host's stack finds before a socket of
/// tunnels has the packet.
fn take_outer(buffer: &mut Buffer) -> Option<Origin> {
    let segment_bytes = buffer.offload.segmentation.map(|segmentation| segmentation.segment_bytes);
    let outer = TunnelFrame::parse(buffer.bytes(), segment_bytes)?;
    let kind = outer.kind;
    buffer.truncate(outer.end);
    let source = outer.source;
    trim_front(buffer, outer.payload).then_some(Origin::Tunnel { kind, source })
}

/// Counts a packet of segments whose headers lie, which comes to a socket where no kernel path stands before it.
fn note_lying(engine: &mut Engine, buffer: &Buffer) {
    if ethernet::outer_type(buffer.bytes()) == Some(EtherType::IPV6) {
        let bytes = buffer.len().saturating_sub(ethernet::HEADER_BYTES) as u64;
        // Whoever lies about its length may do so about its sender.
        let source = Ipv6Addr::UNSPECIFIED.into();
        let origin = Origin::Tunnel { kind: TunnelKind::SEGMENTS, source };
        engine.note_received_lost(origin, DropReason::MalformedSrv6, 1, bytes);
    }
}

/// Is it a row of datagrams, and no super-frame in one tunnel packet? No kernel's path makes those,
/// and none joins datagrams without checksum.
fn is_row(origin: Origin, buffer: &Buffer) -> bool {
    let Origin::Tunnel { kind, .. } = origin else { return false };
    buffer.offload.segmentation.is_some_and(|segmentation| {
        let (bytes, cut) = (buffer.bytes(), Some(segmentation.segment_bytes));
        match kind.is_segmented() {
            true => Sight::in_segments(bytes, cut).is_none(),
            false => Sight::in_tunnel(kind.udp_port(), bytes, cut).is_none(),
        }
    })
}
