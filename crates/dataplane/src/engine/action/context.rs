//! What every stage may look at while a vector passes: the tables in force, the counters, the pool
//! and the time it is now. Knows nothing of its own.

use super::actions::Actions;
use super::effects::{Effect, Trace};
use super::pathlets::Pathlets;
use crate::engine::account::counters::Counters;
use crate::engine::account::slots::Slots;
use crate::engine::account::updates::CounterUpdate;
use crate::engine::collections::shares::{Shares, leaves_room};
use crate::engine::encap::{Carried, PathPosition, Recorder};
use crate::engine::packet::subscriber::Inspection;
use crate::engine::state::capture::Captures;
use crate::engine::state::floods::Floods;
use crate::engine::state::flow_cache::FlowCache;
use crate::engine::state::flushes::Flushes;
use crate::engine::state::health::Health;
use crate::engine::state::link_board::LinkBoard;
use crate::engine::state::scheduler::Shaper;
use crate::engine::state::setups::{Said, Setups};
use crate::engine::tables::Tables;
use crate::engine::vector::Work;
use crate::engine::vector::decision::Epoch;
use crate::engine::vector::owner::{Owner, PathRef};
use catena_io::{Buffer, BufferPool};
use catena_model::account::{Created, Volume};
use catena_model::{DropReason, PathId};

/// One vector's surroundings.
pub(crate) struct Context<'e> {
    pub(crate) now_ns: u64,
    pub(crate) epoch: Epoch,
    pub(crate) tables: &'e Tables,
    pub(crate) slots: &'e Slots,
    pub(crate) actions: &'e Actions,
    pub(crate) counters: &'e mut Counters,
    pub(crate) pool: &'e mut BufferPool,
    /// Whose packets buffers were taken for, beyond those that they came in.
    pub(crate) made: &'e mut Shares<Owner>,
    pub(crate) health: &'e mut Health,
    /// The metadata that packets carry, and what is left of their source routes.
    pub(crate) carried: &'e mut Carried,
    /// Headers over several functions.
    pub(crate) pathlets: &'e mut Pathlets,
    pub(crate) inspection: Inspection,
    /// Packets of slices that wait for their turn.
    pub(crate) shaper: &'e mut Shaper,
    /// Flows that the controller is asked for.
    pub(crate) setups: &'e mut Setups,
    /// What it has said of those of this vector.
    pub(crate) said: Said,
    /// What time it is, for whoever times functions.
    pub(crate) meter: Option<fn() -> u64>,
    /// What that time was when the engine's own began; none: it is not known.
    pub(crate) began_ns: Option<u64>,
    /// No slice is charged, and nobody asked for flows: the packets have waited, or somebody asks about them.
    pub(crate) is_uncharged: bool,
    /// The vector is a probe of a chain.
    pub(crate) is_probe: bool,
    /// The vector was made here: it is created, and not received.
    pub(crate) is_injected: bool,
    /// Who listens, if anybody does.
    pub(crate) trace: Trace<'e>,
    pub(crate) captures: &'e mut Captures,
    pub(crate) floods: &'e mut Floods,
    /// Ways that have just turned.
    pub(crate) flushes: &'e mut Flushes,
    /// How links are.
    pub(crate) links: &'e LinkBoard,
    /// What was decided for flows of endpoints.
    pub(crate) flow_cache: &'e mut FlowCache,
}

impl Context<'_> {
    /// Counts what became of a packet, by its number among the copies.
    #[inline]
    pub(crate) fn count(&mut self, copy: u16, update: CounterUpdate, volume: Volume) {
        self.trace.note(copy, || Effect::Counted(update));
        self.counters.apply(update, volume);
    }

    /// Who writes records here, and when; none: the node has no number.
    pub(crate) fn recorder(&self) -> Option<Recorder> {
        let Self { now_ns, began_ns, .. } = *self;
        let device = self.tables.positions.own_device()?;
        let passed = self.meter.zip(began_ns).map(|(now, began)| now().saturating_sub(began));
        Some(Recorder { device, now_ns: passed.unwrap_or(now_ns).max(now_ns), began_ns })
    }

    /// A position that was found under earlier tables, at this hop of a path with this serial, in those in force; none
    /// when its path has gone.
    pub(crate) fn renewed(
        &self,
        position: PathPosition,
        (path, serial): (PathId, u64),
        hop: u16,
    ) -> Option<PathPosition> {
        let renewed = self.tables.positions.renew_later(position, path, hop);
        renewed.filter(|position| self.counters.path_ref(*position).serial == serial)
    }

    /// Ends a packet: its buffer is free, its drop has a name.
    pub(crate) fn end(
        &mut self,
        buffer: Buffer,
        owner: Owner,
        path: Option<PathRef>,
        reason: DropReason,
        volume: Volume,
    ) {
        self.trace.note(0, || Effect::Dropped { reason });
        self.counters.dropped(owner, path, reason, volume.packets);
        self.pool.put(buffer);
    }

    /// A buffer for something more that is made of a packet of this owner; none: he has as many as leave
    /// some to others.
    pub(crate) fn take_buffer(&mut self, owner: Owner) -> Option<Buffer> {
        if !leaves_room(self.made.held_by(&owner), self.pool.free()) {
            return None;
        }
        self.made.take(owner);
        self.pool.take()
    }

    /// A copy of a packet, created and accounted for; when there is no buffer it ends at once, on
    /// the counters of `path` too. `number`: that of the copy in what is told of the packet.
    pub(crate) fn copy(
        &mut self,
        work: &Work,
        number: u16,
        kind: Created,
        path: Option<PathRef>,
    ) -> Option<Work> {
        self.count(number, CounterUpdate::Created(work.owner, kind), work.volume);
        let copied = self.take_buffer(work.owner).and_then(|mut buffer| {
            if buffer.fill(work.buffer.bytes()) {
                return Some(buffer);
            }
            self.pool.put(buffer);
            None
        });
        let Some(mut buffer) = copied else {
            let reason = DropReason::BuffersExhausted;
            self.trace.note(number, || Effect::Dropped { reason });
            self.counters.dropped(work.owner, path, reason, work.volume.packets);
            return None;
        };
        buffer.offload = work.buffer.offload;
        Some(Work { buffer, path, copy: number, ..*work })
    }

    /// Ends a packet that was for the data plane itself.
    pub(crate) fn consume(&mut self, work: Work) {
        self.count(work.copy, CounterUpdate::Consumed(work.owner), work.volume);
        self.pool.put(work.buffer);
    }

    /// Ends a packet of the vector.
    pub(crate) fn end_work(&mut self, work: Work, reason: DropReason) {
        let Work { copy, volume, .. } = work;
        self.trace.note(copy, || Effect::Dropped { reason });
        self.counters.dropped(work.owner, work.path, reason, volume.packets);
        self.pool.put(work.buffer);
    }
}
