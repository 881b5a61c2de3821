//! Takes one packet through the fast path, from what was seen of it to where it leaves. Knows what each
//! deed does to packet and counters; refuses to decide which.

use super::FastPath;
use super::context::FastPathContext;
use super::counter_run::CounterRun;
use super::ingress_port::IngressPort;
use super::packet_meta::{Kind, PacketMeta, What};
use super::plans::Plan;
use crate::engine::account::counters::IS_COUNTING;
use crate::engine::account::tx_batches::TxRef;
use crate::engine::action::gso_batch::GsoKey;
use crate::engine::action::output::Frame;
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::{Packet, PortSlot};
use crate::engine::state::proxy_flows::{Key, Payer, Visit};
use crate::engine::vector::owner::Owner;
use catena_io::Buffer;
use catena_model::account::Volume;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet;

impl FastPath {
    /// Was something decided, and does it hold still? What returns from a function is noted.
    #[inline(always)]
    pub(super) fn holds(&self, meta: &PacketMeta, context: &mut FastPathContext<'_>) -> bool {
        match meta.kind {
            Kind::SlowPath => false,
            Kind::Function => self.is_returned(meta, context),
            Kind::Endpoint | Kind::Subscriber | Kind::Tunnel | Kind::Aware | Kind::Switched => true,
        }
    }

    /// Does what was decided.
    #[inline(always)]
    pub(super) fn act(
        &mut self,
        packet: Packet,
        meta: &PacketMeta,
        context: &mut FastPathContext<'_>,
    ) {
        let mut buffer = packet.buffer.without_offload();
        let is_trimmed = buffer.trim_front(usize::from(meta.header_bytes));
        debug_assert!(is_trimmed, "the frame behind the header was read");
        let volume = Volume { packets: 1, bytes: buffer.len() as u64 };
        if meta.kind == Kind::Endpoint {
            note_flow(meta, context);
        }
        let packet_out = OutPacket { buffer, meta, share: TxRef { batch: 0, volume } };
        match meta.deed.what() {
            What::Deliver(port) => deliver(packet_out, port, &mut self.running, context),
            What::Plan(number) => {
                let plan = self.plans.get(number).unwrap_or(&Plan::SlowPath);
                leave(packet_out, plan, &mut self.running, context);
            }
        }
    }

    /// Tells the proxy's memory that a packet of the flow is back; false: it has forgotten the flow
    /// since it was asked.
    fn is_returned(&self, meta: &PacketMeta, context: &mut FastPathContext<'_>) -> bool {
        let ingress = self.ingress(meta);
        let Some(egress) = ingress.and_then(IngressPort::serial) else { return false };
        let flow = meta.frame.flow();
        let key = Key { egress, network: meta.told, flow, user: meta.identity };
        context.proxy_flows.returned(meta.found, &key, context.now_ns)
    }
}

/// Notes the flow as one of its path, once a millisecond: that is as fine as its age is kept.
#[inline]
fn note_flow(meta: &PacketMeta, context: &mut FastPathContext<'_>) {
    if meta.is_due {
        let key = context.affinity.key(&meta.frame.flow());
        context.affinity.note(context.now_ns, key, PathId(meta.nsh.spi));
    }
}

/// A packet without a header.
struct OutPacket<'f> {
    buffer: Buffer,
    meta: &'f PacketMeta,
    share: TxRef,
}

impl OutPacket<'_> {
    /// Counts it; `plan`: that which it follows, if it follows any.
    #[inline(always)]
    fn count(
        &mut self,
        plan: Option<&Plan>,
        running: &mut CounterRun,
        context: &mut FastPathContext<'_>,
    ) {
        if IS_COUNTING {
            let TxRef { batch, volume } = &mut self.share;
            *batch = running.take_in(self.meta, volume.bytes, plan, context);
        }
    }
}

/// Sends a packet where the plan says: nothing can go wrong any more, but that a memory is full.
#[inline(always)]
fn leave(
    mut packet_out: OutPacket<'_>,
    plan: &Plan,
    running: &mut CounterRun,
    context: &mut FastPathContext<'_>,
) {
    packet_out.count(Some(plan), running, context);
    let OutPacket { meta, share, .. } = packet_out;
    let (spi, position) = (meta.nsh.spi, meta.position);
    match plan {
        Plan::Node { to, tunnel, header } => {
            header.put_before(&mut packet_out.buffer, spi, position.ttl());
            let TxRef { batch, volume } = share;
            let key = GsoKey { flow_hash: meta.flow_hash, to: *to, kind: *tunnel, batch };
            let FastPathContext { gso, pool, out, .. } = context;
            let batch = gso.pack_plain(packet_out.buffer, volume, key, pool, out);
            running.handed_out(batch, volume, &mut out.batches);
        }
        Plan::Aware { door, header } => {
            header.put_before(&mut packet_out.buffer, spi, position.ttl());
            hand_out(packet_out, door.slot, context);
        }
        Plan::Bare { door, macs, egress, network } => {
            let visit = Visit {
                position,
                path: PathId(spi),
                serial: context.counters.seat(position).serial,
                hop: context.tables.positions.place(position).hop,
                instance: door.id,
                epoch: context.epoch,
            };
            let payer = match (meta.kind, meta.owner) {
                (Kind::Endpoint, Owner::Port { serial, .. }) => Payer::Port(serial),
                _ => Payer::Path(visit.serial),
            };
            let user = meta.identity;
            let (egress, network, flow) = (*egress, *network, meta.frame.flow());
            let key = (Key { egress, network, flow, user }, meta.likely);
            if let Err(reason) =
                context.proxy_flows.remember_at(context.now_ns, key, (visit, payer), 1)
            {
                end(packet_out, reason, running, context);
                return;
            }
            let frame = packet_out.buffer.bytes_mut();
            let set = ethernet::set_destination(frame, macs.destination);
            let set = set.and(macs.source.map_or(Ok(()), |mac| ethernet::set_source(frame, mac)));
            debug_assert!(set.is_ok(), "the frame was read");
            hand_out(packet_out, door.slot, context);
        }
        Plan::SlowPath | Plan::Choose { .. } | Plan::End { .. } => {
            debug_assert!(false, "a packet that the fast path does not know came into it");
            end(packet_out, DropReason::NoPath, running, context);
        }
    }
}

/// Delivers a packet by MAC, or one whose path ends.
#[inline]
fn deliver(
    mut packet_out: OutPacket<'_>,
    port: PortIndex,
    running: &mut CounterRun,
    context: &mut FastPathContext<'_>,
) {
    packet_out.count(None, running, context);
    if let Some(mac) = packet_out.meta.mac {
        let set = ethernet::set_destination(packet_out.buffer.bytes_mut(), mac);
        debug_assert!(set.is_ok(), "the frame was read");
    }
    let slot = context.slots.of_index(port);
    hand_out(packet_out, slot, context);
}

#[inline]
fn hand_out(packet_out: OutPacket<'_>, to: PortSlot, context: &mut FastPathContext<'_>) {
    let OutPacket { buffer, share, .. } = packet_out;
    context.out.frames.push(Frame { to, buffer, share });
}

/// Drops a packet on its path.
#[cold]
fn end(
    packet_out: OutPacket<'_>,
    reason: DropReason,
    running: &mut CounterRun,
    context: &mut FastPathContext<'_>,
) {
    let OutPacket { buffer, meta, share } = packet_out;
    let seat = context.counters.seat(meta.position);
    context.counters.dropped(meta.owner, Some(seat), reason, 1);
    running.ended(share.volume);
    context.pool.put(buffer);
}
