//! Takes one packet through the lane, from what was seen of it to where it leaves. Knows what each
//! deed does to packet and books; refuses to decide which.

use super::plans::Plan;
use super::running::Running;
use super::sight::{Kind, Sight, What};
use super::{Gate, Lane};
use crate::engine::account::counters::{Books, IS_COUNTING};
use crate::engine::account::slots::Slots;
use crate::engine::account::tx_batches::Share;
use crate::engine::action::gso_batch::{Packer, RowKey};
use crate::engine::action::output::{Frame, Output};
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::subscriber::Look;
use crate::engine::packet::{Packet, PortSlot};
use crate::engine::state::affinity::FlowPaths;
use crate::engine::state::flow_cache::Known;
use crate::engine::state::health::Health;
use crate::engine::state::proxy_flows::{FlowMemory, Key, Payer, Visit};
use crate::engine::tables::Tables;
use crate::engine::vector::owner::Owner;
use crate::engine::vector::transform::Epoch;
use catena_io::{Buffer, BufferPool};
use catena_model::account::Volume;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet;

/// What the lane works with.
pub(crate) struct Hands<'e> {
    pub(crate) now_ns: u64,
    pub(crate) epoch: Epoch,
    pub(crate) tables: &'e Tables,
    pub(crate) slots: &'e Slots,
    pub(crate) health: &'e Health,
    pub(crate) is_coalescing: bool,
    /// Whether what is in a tunnel is told apart by its user.
    pub(crate) look: Look,
    pub(crate) books: &'e mut Books,
    pub(crate) memory: &'e mut FlowMemory,
    pub(crate) flow_paths: &'e mut FlowPaths,
    pub(crate) known: &'e mut Known,
    pub(crate) packer: &'e mut Packer,
    pub(crate) pool: &'e mut BufferPool,
    pub(crate) out: &'e mut Output,
}

impl Lane {
    /// Was something decided, and does it hold still? What returns from a function is noted.
    #[inline(always)]
    pub(super) fn holds(&self, sight: &Sight, hands: &mut Hands<'_>) -> bool {
        match sight.kind {
            Kind::Walk => false,
            Kind::Function => self.is_returned(sight, hands),
            Kind::Endpoint | Kind::User | Kind::Tunnel | Kind::Aware | Kind::Switched => true,
        }
    }

    /// Does what was decided.
    #[inline(always)]
    pub(super) fn act(&mut self, packet: Packet, sight: &Sight, hands: &mut Hands<'_>) {
        let mut buffer = packet.buffer.without_offload();
        let is_trimmed = buffer.trim_front(usize::from(sight.header_bytes));
        debug_assert!(is_trimmed, "the frame behind the header was read");
        let volume = Volume { packets: 1, bytes: buffer.len() as u64 };
        if sight.kind == Kind::Endpoint {
            note_flow(sight, hands);
        }
        let traveller = Traveller { buffer, sight, share: Share { lot: 0, volume } };
        match sight.deed.what() {
            What::Deliver(port) => deliver(traveller, port, &mut self.running, hands),
            What::Plan(number) => {
                let plan = self.plans.get(number).unwrap_or(&Plan::Walk);
                leave(traveller, plan, &mut self.running, hands);
            }
        }
    }

    /// Tells the proxy's memory that a packet of the flow is back; false: it has forgotten the flow
    /// since it was asked.
    fn is_returned(&self, sight: &Sight, hands: &mut Hands<'_>) -> bool {
        let gate = self.gate(sight);
        let Some(egress) = gate.and_then(Gate::serial) else { return false };
        let flow = sight.frame.flow();
        let key = Key { egress, network: sight.told, flow, user: sight.identity };
        hands.memory.returned(sight.found, &key, hands.now_ns)
    }
}

/// Notes the flow as one of its path, once a millisecond: that is as fine as its age is kept.
#[inline]
fn note_flow(sight: &Sight, hands: &mut Hands<'_>) {
    if sight.is_due {
        let key = hands.flow_paths.key(&sight.frame.flow());
        hands.flow_paths.note(hands.now_ns, key, PathId(sight.nsh.spi));
    }
}

/// A packet without a header.
struct Traveller<'f> {
    buffer: Buffer,
    sight: &'f Sight,
    share: Share,
}

impl Traveller<'_> {
    /// Counts it; `plan`: that which it follows, if it follows any.
    #[inline(always)]
    fn count(&mut self, plan: Option<&Plan>, running: &mut Running, hands: &mut Hands<'_>) {
        if IS_COUNTING {
            let Share { lot, volume } = &mut self.share;
            *lot = running.take_in(self.sight, volume.bytes, plan, hands);
        }
    }
}

/// Sends a packet where the plan says: nothing can go wrong any more, but that a memory is full.
#[inline(always)]
fn leave(mut traveller: Traveller<'_>, plan: &Plan, running: &mut Running, hands: &mut Hands<'_>) {
    traveller.count(Some(plan), running, hands);
    let Traveller { sight, share, .. } = traveller;
    let (spi, position) = (sight.nsh.spi, sight.position);
    match plan {
        Plan::Node { to, tunnel, header } => {
            header.put_before(&mut traveller.buffer, spi, position.ttl());
            let Share { lot, volume } = share;
            let key = RowKey { flow_hash: sight.flow_hash, to: *to, kind: *tunnel, lot };
            let Hands { packer, pool, out, .. } = hands;
            let lot = packer.pack_plain(traveller.buffer, volume, key, pool, out);
            running.handed_out(lot, volume, &mut out.lots);
        }
        Plan::Aware { door, header } => {
            header.put_before(&mut traveller.buffer, spi, position.ttl());
            hand_out(traveller, door.slot, hands);
        }
        Plan::Bare { door, macs, egress, network } => {
            let visit = Visit {
                position,
                path: PathId(spi),
                serial: hands.books.seat(position).serial,
                hop: hands.tables.positions.place(position).hop,
                instance: door.id,
                epoch: hands.epoch,
            };
            let payer = match (sight.kind, sight.owner) {
                (Kind::Endpoint, Owner::Port { serial, .. }) => Payer::Port(serial),
                _ => Payer::Path(visit.serial),
            };
            let user = sight.identity;
            let (egress, network, flow) = (*egress, *network, sight.frame.flow());
            let key = (Key { egress, network, flow, user }, sight.likely);
            if let Err(reason) = hands.memory.remember_at(hands.now_ns, key, (visit, payer), 1) {
                end(traveller, reason, running, hands);
                return;
            }
            let frame = traveller.buffer.bytes_mut();
            let set = ethernet::set_destination(frame, macs.destination);
            let set = set.and(macs.source.map_or(Ok(()), |mac| ethernet::set_source(frame, mac)));
            debug_assert!(set.is_ok(), "the frame was read");
            hand_out(traveller, door.slot, hands);
        }
        Plan::Walk | Plan::Choose { .. } | Plan::End { .. } => {
            debug_assert!(false, "a packet that the lane does not know came into it");
            end(traveller, DropReason::NoPath, running, hands);
        }
    }
}

/// Delivers a packet by MAC, or one whose path ends.
#[inline]
fn deliver(
    mut traveller: Traveller<'_>,
    port: PortIndex,
    running: &mut Running,
    hands: &mut Hands<'_>,
) {
    traveller.count(None, running, hands);
    if let Some(mac) = traveller.sight.mac {
        let set = ethernet::set_destination(traveller.buffer.bytes_mut(), mac);
        debug_assert!(set.is_ok(), "the frame was read");
    }
    let slot = hands.slots.of_index(port);
    hand_out(traveller, slot, hands);
}

#[inline]
fn hand_out(traveller: Traveller<'_>, to: PortSlot, hands: &mut Hands<'_>) {
    let Traveller { buffer, share, .. } = traveller;
    hands.out.frames.push(Frame { to, buffer, share });
}

/// Drops a packet on its path.
#[cold]
fn end(traveller: Traveller<'_>, reason: DropReason, running: &mut Running, hands: &mut Hands<'_>) {
    let Traveller { buffer, sight, share } = traveller;
    let seat = hands.books.seat(sight.position);
    hands.books.dropped(sight.owner, Some(seat), reason, 1);
    running.ended(share.volume);
    hands.pool.put(buffer);
}
