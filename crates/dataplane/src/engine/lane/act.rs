//! Takes one packet through the lane, from what was seen of it to where it leaves. Knows what each
//! deed does to packet and books; refuses to decide which.

use super::known::Known;
use super::plans::{Instance, Plan};
use super::sight::{Deed, Kind, Sight};
use super::{Gate, Lane};
use crate::engine::counters::{Booking, Books, IS_COUNTING, Owner, Passage, PathSeat};
use crate::engine::encap::PathPosition;
use crate::engine::flow_memory::{FlowMemory, Key, Visit};
use crate::engine::flow_paths::FlowPaths;
use crate::engine::health::Health;
use crate::engine::output::{Frame, Output};
use crate::engine::packer::{Packer, RowKey};
use crate::engine::packet::Packet;
use crate::engine::slots::Slots;
use crate::engine::tables::{PortIndex, Tables};
use crate::engine::transform::Epoch;
use crate::engine::user::Look;
use catena_io::{Buffer, BufferPool};
use catena_model::account::Volume;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet;
use catena_wire::scalar::MacAddr;

/// What the lane works with.
pub(in crate::engine) struct Hands<'e> {
    pub(in crate::engine) now_ns: u64,
    pub(in crate::engine) epoch: Epoch,
    pub(in crate::engine) tables: &'e Tables,
    pub(in crate::engine) slots: &'e Slots,
    pub(in crate::engine) health: &'e Health,
    pub(in crate::engine) is_coalescing: bool,
    /// Whether what is in a tunnel is told apart by its user.
    pub(in crate::engine) look: Look,
    pub(in crate::engine) books: &'e mut Books,
    pub(in crate::engine) memory: &'e mut FlowMemory,
    pub(in crate::engine) flow_paths: &'e mut FlowPaths,
    pub(in crate::engine) known: &'e mut Known,
    pub(in crate::engine) packer: &'e mut Packer,
    pub(in crate::engine) pool: &'e mut BufferPool,
    pub(in crate::engine) out: &'e mut Output,
}

/// How packets came onto their path here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    Classified,
    ByTunnel,
    /// Back from the local instance with this number.
    Back(u32),
}

/// What packets, one behind the other, add to the book of their owner, and to that of their path:
/// each is opened once for all.
#[derive(Default)]
pub(super) struct Running {
    owner: Option<Owner>,
    received: Volume,
    held: u64,
    path: Option<(PathSeat, Came)>,
    came: Volume,
    finished: Volume,
}

impl Running {
    /// Notes a packet on a path; answers the path's seat.
    #[inline]
    fn came(
        &mut self,
        position: PathPosition,
        came: Came,
        volume: Volume,
        books: &mut Books,
    ) -> PathSeat {
        let seat = match self.path {
            // The tables stay the same meanwhile.
            Some((seat, how)) if seat.index == position.path() && how == came => seat,
            _ => {
                self.close_path(books);
                let seat = books.seat(position);
                self.path = Some((seat, came));
                seat
            }
        };
        if IS_COUNTING {
            self.came.merge(volume);
        }
        seat
    }

    fn close_path(&mut self, books: &mut Books) {
        let Some((seat, came)) = self.path.take().filter(|_| IS_COUNTING) else { return };
        match came {
            Came::Classified => books.entered(seat, self.came),
            Came::ByTunnel => books.tunnelled_in(seat, self.came),
            Came::Back(local) => books.returned(seat, local, self.came),
        }
        if self.finished.packets > 0 {
            books.finished(seat, self.finished);
        }
        (self.came, self.finished) = (Volume::default(), Volume::default());
    }

    #[inline]
    fn received(&mut self, owner: Owner, bytes: u64, books: &mut Books) {
        if !IS_COUNTING {
            return;
        }
        if self.owner != Some(owner) {
            self.close_owner(books);
            self.owner = Some(owner);
        }
        self.received.add(1, bytes);
    }

    /// The packet is handed out, and finished its path here if it has a volume on one.
    #[inline]
    fn handed_out(&mut self, finished: Option<Volume>) {
        if IS_COUNTING {
            self.held += 1;
            self.finished.merge(finished.unwrap_or_default());
        }
    }

    /// Writes the sums down.
    pub(super) fn close(&mut self, books: &mut Books) {
        self.close_path(books);
        self.close_owner(books);
    }

    fn close_owner(&mut self, books: &mut Books) {
        if let Some(owner) = self.owner.take() {
            books.received(owner, self.received);
            books.held(owner, self.held);
            (self.received, self.held) = (Volume::default(), 0);
        }
    }
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
        let owner = sight.owner;
        let mut buffer = packet.buffer.without_offload();
        if let (Kind::Switched, Deed::Deliver(port, _)) = (sight.kind, sight.deed) {
            self.running.received(owner, buffer.len() as u64, hands.books);
            self.running.handed_out(None);
            hand_out(buffer, owner, port, hands);
            return;
        }
        let position = sight.position;
        let arrived = buffer.len() as u64;
        let is_trimmed = buffer.trim_front(usize::from(sight.header_bytes));
        debug_assert!(is_trimmed, "the frame behind the header was read");
        let volume = Volume { packets: 1, bytes: buffer.len() as u64 };
        let (came, received) = match sight.kind {
            // The header of a tunnel is no part of what was received.
            Kind::Tunnel => (Came::ByTunnel, volume.bytes),
            Kind::Endpoint => {
                note_flow(sight, hands);
                (Came::Classified, arrived)
            }
            Kind::User => (Came::Classified, arrived),
            _ => (Came::Back(sight.local), arrived),
        };
        self.running.received(owner, received, hands.books);
        let seat = self.running.came(position, came, volume, hands.books);
        let traveller = Traveller { buffer, owner, sight, seat, position, volume };
        match sight.deed {
            Deed::Deliver(port, mac) => deliver(traveller, port, mac, &mut self.running, hands),
            Deed::Plan(number) => {
                let plan = self.plans.get(number).unwrap_or(&Plan::Walk);
                leave(traveller, plan, &mut self.running, hands);
            }
            Deed::None => leave(traveller, &Plan::Walk, &mut self.running, hands),
        }
    }

    /// Tells the proxy's memory that a packet of the flow is back; false: it has forgotten the flow
    /// since it was asked.
    fn is_returned(&self, sight: &Sight, hands: &mut Hands<'_>) -> bool {
        let gate = self.gates.get(usize::from(sight.slot)).and_then(Option::as_ref);
        let Some(egress) = gate.and_then(Gate::serial) else { return false };
        let key = Key { egress, flow: sight.frame.flow(), user: sight.identity };
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

/// A packet on its path, without a header.
struct Traveller<'f> {
    buffer: Buffer,
    owner: Owner,
    sight: &'f Sight,
    seat: PathSeat,
    position: PathPosition,
    volume: Volume,
}

/// Sends a packet where the plan says: nothing can go wrong any more, but that a memory is full.
#[inline(always)]
fn leave(mut traveller: Traveller<'_>, plan: &Plan, running: &mut Running, hands: &mut Hands<'_>) {
    let Traveller { owner, sight, seat, position, volume, .. } = traveller;
    let spi = sight.nsh.spi;
    match plan {
        Plan::Node { to, tunnel, header } => {
            header.put_before(&mut traveller.buffer, spi, position.ttl());
            let passage = Passage::Tunnelled(seat);
            let flow_hash = sight.flow_hash;
            let key = RowKey { flow_hash, to: *to, kind: *tunnel, passage, owner };
            running.handed_out(None);
            hands.packer.pack_plain(traveller.buffer, volume, key, hands.pool, hands.out);
        }
        Plan::Aware { door, header } => {
            header.put_before(&mut traveller.buffer, spi, position.ttl());
            hand_in(traveller, door, running, hands);
        }
        Plan::Bare { door, ingress_mac, egress } => {
            let visit = Visit {
                position,
                path: PathId(spi),
                serial: seat.serial,
                hop: hands.tables.positions.place(position).hop,
                instance: door.id,
                epoch: hands.epoch,
            };
            let user = sight.identity;
            let key = (Key { egress: *egress, flow: sight.frame.flow(), user }, sight.likely);
            if let Err(reason) = hands.memory.remember_at(hands.now_ns, key, visit, 1) {
                hands.books.dropped(owner, Some(seat), reason, 1);
                hands.pool.put(traveller.buffer);
                return;
            }
            let set = ethernet::set_destination(traveller.buffer.bytes_mut(), *ingress_mac);
            debug_assert!(set.is_ok(), "the frame was read");
            hand_in(traveller, door, running, hands);
        }
        Plan::Walk | Plan::Choose { .. } | Plan::End => {
            debug_assert!(false, "a packet that the lane does not know came into it");
            hands.books.dropped(owner, Some(seat), DropReason::NoPath, 1);
            hands.pool.put(traveller.buffer);
        }
    }
}

/// Hands a frame in to an instance.
#[inline(always)]
fn hand_in(
    traveller: Traveller<'_>,
    door: &Instance,
    running: &mut Running,
    hands: &mut Hands<'_>,
) {
    let Traveller { buffer, owner, seat, volume, .. } = traveller;
    let passage = Passage::Delivered(seat, door.local);
    running.handed_out(None);
    let booking = Booking { owner, to: door.owner, passage, volume };
    hands.out.frames.push(Frame { to: door.slot, buffer, booking });
}

/// Delivers a packet whose path ends.
#[inline]
fn deliver(
    mut traveller: Traveller<'_>,
    port: PortIndex,
    mac: Option<MacAddr>,
    running: &mut Running,
    hands: &mut Hands<'_>,
) {
    if let Some(mac) = mac {
        let set = ethernet::set_destination(traveller.buffer.bytes_mut(), mac);
        debug_assert!(set.is_ok(), "the frame was read");
    }
    let Traveller { buffer, owner, volume, .. } = traveller;
    running.handed_out(Some(volume));
    hand_out(buffer, owner, port, hands);
}

#[inline]
fn hand_out(buffer: Buffer, owner: Owner, port: PortIndex, hands: &mut Hands<'_>) {
    let (slot, to) = (hands.slots.of_index(port), hands.slots.owner_of_index(port));
    let volume = Volume { packets: 1, bytes: buffer.len() as u64 };
    let booking = Booking { owner, to, passage: Passage::Ordinary, volume };
    hands.out.frames.push(Frame { to: slot, buffer, booking });
}
