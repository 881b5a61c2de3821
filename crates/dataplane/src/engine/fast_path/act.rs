//! Takes one packet through the fast path, from what was seen of it to where it leaves. Knows what each
//! deed does to packet and counters; refuses to decide which.

use super::counter_run::CounterRun;
use super::packet_meta::{Kind, PacketMeta, What};
use super::plans::Plan;
use super::{FastPath, IngressPort};
use crate::engine::account::counters::{Counters, IS_COUNTING};
use crate::engine::account::slots::Slots;
use crate::engine::account::tx_batches::TxRef;
use crate::engine::action::gso_batch::{GsoBatcher, GsoKey};
use crate::engine::action::output::{Frame, Output};
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::subscriber::Inspection;
use crate::engine::packet::{Packet, PortSlot};
use crate::engine::state::affinity::FlowAffinity;
use crate::engine::state::flow_cache::FlowCache;
use crate::engine::state::health::Health;
use crate::engine::state::proxy_flows::{Key, Payer, ProxyFlows, Visit};
use crate::engine::tables::Tables;
use crate::engine::vector::owner::Owner;
use crate::engine::vector::transform::Epoch;
use catena_io::{Buffer, BufferPool};
use catena_model::account::Volume;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet;

/// What the fast path works with.
pub(crate) struct FastPathContext<'e> {
    pub(crate) now_ns: u64,
    pub(crate) epoch: Epoch,
    pub(crate) tables: &'e Tables,
    pub(crate) slots: &'e Slots,
    pub(crate) health: &'e Health,
    pub(crate) is_coalescing: bool,
    /// Whether what is in a tunnel is told apart by its user.
    pub(crate) inspection: Inspection,
    pub(crate) counters: &'e mut Counters,
    pub(crate) proxy_flows: &'e mut ProxyFlows,
    pub(crate) affinity: &'e mut FlowAffinity,
    pub(crate) flow_cache: &'e mut FlowCache,
    pub(crate) gso: &'e mut GsoBatcher,
    pub(crate) pool: &'e mut BufferPool,
    pub(crate) out: &'e mut Output,
}

impl FastPath {
    /// Was something decided, and does it hold still? What returns from a function is noted.
    #[inline(always)]
    pub(super) fn holds(&self, sight: &PacketMeta, context: &mut FastPathContext<'_>) -> bool {
        match sight.kind {
            Kind::Walk => false,
            Kind::Function => self.is_returned(sight, context),
            Kind::Endpoint | Kind::Subscriber | Kind::Tunnel | Kind::Aware | Kind::Switched => true,
        }
    }

    /// Does what was decided.
    #[inline(always)]
    pub(super) fn act(
        &mut self,
        packet: Packet,
        sight: &PacketMeta,
        context: &mut FastPathContext<'_>,
    ) {
        let mut buffer = packet.buffer.without_offload();
        let is_trimmed = buffer.trim_front(usize::from(sight.header_bytes));
        debug_assert!(is_trimmed, "the frame behind the header was read");
        let volume = Volume { packets: 1, bytes: buffer.len() as u64 };
        if sight.kind == Kind::Endpoint {
            note_flow(sight, context);
        }
        let traveller = OutPacket { buffer, sight, share: TxRef { batch: 0, volume } };
        match sight.deed.what() {
            What::Deliver(port) => deliver(traveller, port, &mut self.running, context),
            What::Plan(number) => {
                let plan = self.plans.get(number).unwrap_or(&Plan::Walk);
                leave(traveller, plan, &mut self.running, context);
            }
        }
    }

    /// Tells the proxy's memory that a packet of the flow is back; false: it has forgotten the flow
    /// since it was asked.
    fn is_returned(&self, sight: &PacketMeta, context: &mut FastPathContext<'_>) -> bool {
        let ingress = self.ingress(sight);
        let Some(egress) = ingress.and_then(IngressPort::serial) else { return false };
        let flow = sight.frame.flow();
        let key = Key { egress, network: sight.told, flow, user: sight.identity };
        context.proxy_flows.returned(sight.found, &key, context.now_ns)
    }
}

/// Notes the flow as one of its path, once a millisecond: that is as fine as its age is kept.
#[inline]
fn note_flow(sight: &PacketMeta, context: &mut FastPathContext<'_>) {
    if sight.is_due {
        let key = context.affinity.key(&sight.frame.flow());
        context.affinity.note(context.now_ns, key, PathId(sight.nsh.spi));
    }
}

/// A packet without a header.
struct OutPacket<'f> {
    buffer: Buffer,
    sight: &'f PacketMeta,
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
            *batch = running.take_in(self.sight, volume.bytes, plan, context);
        }
    }
}

/// Sends a packet where the plan says: nothing can go wrong any more, but that a memory is full.
#[inline(always)]
fn leave(
    mut traveller: OutPacket<'_>,
    plan: &Plan,
    running: &mut CounterRun,
    context: &mut FastPathContext<'_>,
) {
    traveller.count(Some(plan), running, context);
    let OutPacket { sight, share, .. } = traveller;
    let (spi, position) = (sight.nsh.spi, sight.position);
    match plan {
        Plan::Node { to, tunnel, header } => {
            header.put_before(&mut traveller.buffer, spi, position.ttl());
            let TxRef { batch, volume } = share;
            let key = GsoKey { flow_hash: sight.flow_hash, to: *to, kind: *tunnel, batch };
            let FastPathContext { gso, pool, out, .. } = context;
            let batch = gso.pack_plain(traveller.buffer, volume, key, pool, out);
            running.handed_out(batch, volume, &mut out.batches);
        }
        Plan::Aware { door, header } => {
            header.put_before(&mut traveller.buffer, spi, position.ttl());
            hand_out(traveller, door.slot, context);
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
            let payer = match (sight.kind, sight.owner) {
                (Kind::Endpoint, Owner::Port { serial, .. }) => Payer::Port(serial),
                _ => Payer::Path(visit.serial),
            };
            let user = sight.identity;
            let (egress, network, flow) = (*egress, *network, sight.frame.flow());
            let key = (Key { egress, network, flow, user }, sight.likely);
            if let Err(reason) =
                context.proxy_flows.remember_at(context.now_ns, key, (visit, payer), 1)
            {
                end(traveller, reason, running, context);
                return;
            }
            let frame = traveller.buffer.bytes_mut();
            let set = ethernet::set_destination(frame, macs.destination);
            let set = set.and(macs.source.map_or(Ok(()), |mac| ethernet::set_source(frame, mac)));
            debug_assert!(set.is_ok(), "the frame was read");
            hand_out(traveller, door.slot, context);
        }
        Plan::Walk | Plan::Choose { .. } | Plan::End { .. } => {
            debug_assert!(false, "a packet that the fast_path does not know came into it");
            end(traveller, DropReason::NoPath, running, context);
        }
    }
}

/// Delivers a packet by MAC, or one whose path ends.
#[inline]
fn deliver(
    mut traveller: OutPacket<'_>,
    port: PortIndex,
    running: &mut CounterRun,
    context: &mut FastPathContext<'_>,
) {
    traveller.count(None, running, context);
    if let Some(mac) = traveller.sight.mac {
        let set = ethernet::set_destination(traveller.buffer.bytes_mut(), mac);
        debug_assert!(set.is_ok(), "the frame was read");
    }
    let slot = context.slots.of_index(port);
    hand_out(traveller, slot, context);
}

#[inline]
fn hand_out(traveller: OutPacket<'_>, to: PortSlot, context: &mut FastPathContext<'_>) {
    let OutPacket { buffer, share, .. } = traveller;
    context.out.frames.push(Frame { to, buffer, share });
}

/// Drops a packet on its path.
#[cold]
fn end(
    traveller: OutPacket<'_>,
    reason: DropReason,
    running: &mut CounterRun,
    context: &mut FastPathContext<'_>,
) {
    let OutPacket { buffer, sight, share } = traveller;
    let seat = context.counters.seat(sight.position);
    context.counters.dropped(sight.owner, Some(seat), reason, 1);
    running.ended(share.volume);
    context.pool.put(buffer);
}
