//! What every stage may look at while a vector passes: the tables in force, the books, the pool
//! and the time it is now. Knows nothing of its own.

use super::counters::{Books, Owner, PathSeat};
use super::encap::Carried;
use super::floods::Floods;
use super::health::Health;
use super::lane::Known;
use super::shares::{Shares, leaves_room};
use super::slots::Slots;
use super::tables::Tables;
use super::trace::{Note, Trace};
use super::transform::Epoch;
use super::traps::Traps;
use super::user::Look;
use super::vector::Work;
use super::waiting::Waiting;
use catena_io::{Buffer, BufferPool};
use catena_model::DropReason;
use catena_model::account::{Created, Volume};

/// One vector's surroundings.
pub(super) struct Context<'e> {
    pub(super) now_ns: u64,
    pub(super) epoch: Epoch,
    pub(super) tables: &'e Tables,
    pub(super) slots: &'e Slots,
    pub(super) books: &'e mut Books,
    pub(super) pool: &'e mut BufferPool,
    /// Whose packets buffers were taken for, beyond those that they came in.
    pub(super) made: &'e mut Shares<Owner>,
    pub(super) health: &'e mut Health,
    /// The metadata that packets carry.
    pub(super) carried: &'e mut Carried,
    pub(super) look: Look,
    /// Packets of slices that wait for their turn.
    pub(super) waiting: &'e mut Waiting,
    /// No slice is charged: the packets have waited, or somebody asks about them.
    pub(super) is_uncharged: bool,
    /// The vector was made here: it is created, and not received.
    pub(super) is_injected: bool,
    /// Who listens, if anybody does.
    pub(super) trace: Trace<'e>,
    pub(super) traps: &'e mut Traps,
    pub(super) floods: &'e mut Floods,
    /// What was decided for flows of endpoints.
    pub(super) known: &'e mut Known,
}

impl Context<'_> {
    /// Ends a packet: its buffer is free, its drop has a name.
    pub(super) fn end(
        &mut self,
        buffer: Buffer,
        owner: Owner,
        path: Option<PathSeat>,
        reason: DropReason,
        volume: Volume,
    ) {
        self.trace.note(0, || Note::Dropped { reason });
        self.books.dropped(owner, path, reason, volume.packets);
        self.pool.put(buffer);
    }

    /// A buffer for something more that is made of a packet of this owner; none: he has as many as leave
    /// some to others.
    pub(super) fn take_buffer(&mut self, owner: Owner) -> Option<Buffer> {
        if !leaves_room(self.made.held_by(&owner), self.pool.free()) {
            return None;
        }
        self.made.take(owner);
        self.pool.take()
    }

    /// A copy of a packet, created and accounted for; when there is no buffer it ends at once, on
    /// the book of `path` too. `number`: that of the copy in what is told of the packet.
    pub(super) fn copy(
        &mut self,
        work: &Work,
        number: u16,
        kind: Created,
        path: Option<PathSeat>,
    ) -> Option<Work> {
        self.books.created(work.owner, kind, work.volume.packets);
        let copied = self.take_buffer(work.owner).and_then(|mut buffer| {
            if buffer.fill(work.buffer.bytes()) {
                return Some(buffer);
            }
            self.pool.put(buffer);
            None
        });
        let Some(mut buffer) = copied else {
            let reason = DropReason::BuffersExhausted;
            self.trace.note(number, || Note::Dropped { reason });
            self.books.dropped(work.owner, path, reason, work.volume.packets);
            return None;
        };
        buffer.offload = work.buffer.offload;
        Some(Work { buffer, path, copy: number, ..*work })
    }

    /// Ends a packet that was for the data plane itself.
    pub(super) fn consume(&mut self, work: Work) {
        self.books.consumed(work.owner, work.volume.packets);
        self.pool.put(work.buffer);
    }

    /// Ends a packet of the vector.
    pub(super) fn end_work(&mut self, work: Work, reason: DropReason) {
        let Work { copy, volume, .. } = work;
        self.trace.note(copy, || Note::Dropped { reason });
        self.books.dropped(work.owner, work.path, reason, volume.packets);
        self.pool.put(work.buffer);
    }
}
