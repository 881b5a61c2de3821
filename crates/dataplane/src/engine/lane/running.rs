//! What packets that follow one another alike add to the books: they are counted together and written
//! down once. Knows what makes them alike; refuses to know what is done with them.

use super::act::Hands;
use super::plans::Plan;
use super::sight::{Deed, Entry, Kind, Sight, What};
use crate::engine::counters::{Books, Owner, Passage, PathSeat};
use crate::engine::lots::{Ends, Lots, less};
use catena_model::account::Volume;

/// How packets came onto their path here.
#[derive(Clone, Copy)]
enum Came {
    Classified,
    ByTunnel,
    /// Back from the local instance with this number.
    Back(u32),
}

/// Which lines packets that are alike move.
#[derive(Clone, Copy)]
struct Lines {
    owner: Owner,
    /// Bytes that each of them had in front of its frame when it was received.
    header_bytes: u64,
    /// None: they are switched.
    path: Option<(PathSeat, Came)>,
    is_finished: bool,
}

/// The sums of those that are alike, and of those of one owner.
#[derive(Default)]
pub(super) struct Running {
    alike: (Entry, Deed),
    lines: Option<Lines>,
    lot: u32,
    /// Packets since the start, and those of them before the first that is alike.
    passed: u64,
    before: u64,
    /// Bytes of all that are alike.
    bytes: u64,
    /// Of them, what ended here, and what was handed out in another lot.
    ended: Volume,
    moved: Volume,
    owner: Option<Owner>,
    received: Volume,
    held: u64,
}

impl Running {
    /// Takes a packet in, which [`Running::pass`] will count; answers the lot that it is in.
    #[inline(always)]
    pub(super) fn take_in(
        &mut self,
        sight: &Sight,
        bytes: u64,
        plan: Option<&Plan>,
        hands: &mut Hands<'_>,
    ) -> u32 {
        if (sight.entry, sight.deed) != self.alike {
            self.turn_to(sight, plan, hands);
        }
        self.bytes += bytes;
        self.lot
    }

    /// The packet is through: one more has taken the lane.
    #[inline(always)]
    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Packets since the start.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// It was handed out in this lot.
    #[inline(always)]
    pub(super) fn handed_out(&mut self, lot: u32, volume: Volume, lots: &mut Lots) {
        if lot != self.lot {
            self.moved.merge(volume);
            lots.add(lot, volume);
        }
    }

    /// It was not handed out.
    pub(super) fn ended(&mut self, volume: Volume) {
        self.ended.merge(volume);
    }

    /// Begins with others.
    #[inline(never)]
    fn turn_to(&mut self, sight: &Sight, plan: Option<&Plan>, hands: &mut Hands<'_>) {
        self.close_alike(hands.books, &mut hands.out.lots);
        let path = match sight.kind {
            Kind::Walk | Kind::Switched => None,
            Kind::Endpoint | Kind::User => Some(Came::Classified),
            Kind::Tunnel => Some(Came::ByTunnel),
            Kind::Function | Kind::Aware => Some(Came::Back(sight.entry.local())),
        };
        let path = path.map(|came| (hands.books.seat(sight.position), came));
        let delivered = match sight.deed.what() {
            What::Deliver(port) => Some(hands.slots.owner_of_index(port)),
            What::Plan(_) => None,
        };
        let (to, passage) = match (delivered, path, plan) {
            (Some(to), ..) => (to, Passage::Ordinary),
            (None, Some((seat, _)), Some(Plan::Aware { door, .. } | Plan::Bare { door, .. })) => {
                (door.owner, Passage::Delivered(seat, door.local))
            }
            (None, Some((seat, _)), _) => (Owner::Tunnels, Passage::Tunnelled(seat)),
            (None, None, _) => (Owner::Tunnels, Passage::Ordinary),
        };
        self.lines = Some(Lines {
            owner: sight.owner,
            header_bytes: sight.entry.header_bytes().into(),
            path,
            is_finished: delivered.is_some() && path.is_some(),
        });
        self.lot = hands.out.lots.open(Ends { owner: sight.owner, to, passage });
        self.alike = (sight.entry, sight.deed);
        self.before = self.passed;
    }

    /// Writes the sums down.
    pub(super) fn close(&mut self, books: &mut Books, lots: &mut Lots) {
        self.close_alike(books, lots);
        self.close_owner(books);
    }

    fn close_alike(&mut self, books: &mut Books, lots: &mut Lots) {
        let Some(lines) = self.lines.take() else { return };
        self.alike = <(Entry, Deed)>::default();
        let packets = self.passed - self.before;
        let frames = Volume { packets, bytes: std::mem::take(&mut self.bytes) };
        let [ended, moved] = [&mut self.ended, &mut self.moved].map(std::mem::take);
        if self.owner != Some(lines.owner) {
            self.close_owner(books);
            self.owner = Some(lines.owner);
        }
        self.received.add(frames.packets, frames.bytes + frames.packets * lines.header_bytes);
        let handed_out = less(frames, ended);
        self.held += handed_out.packets;
        lots.add(self.lot, less(handed_out, moved));
        let Some((seat, came)) = lines.path else { return };
        match came {
            Came::Classified => books.entered(seat, frames),
            Came::ByTunnel => books.tunnelled_in(seat, frames),
            Came::Back(local) => books.returned(seat, local, frames),
        }
        if lines.is_finished {
            books.finished(seat, handed_out);
        }
    }

    fn close_owner(&mut self, books: &mut Books) {
        if let Some(owner) = self.owner.take() {
            books.received(owner, self.received);
            books.held(owner, self.held);
            (self.received, self.held) = (Volume::default(), 0);
        }
    }
}
