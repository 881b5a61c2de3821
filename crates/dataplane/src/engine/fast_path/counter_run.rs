//! What packets that follow one another alike add to the counters: they are counted together and written
//! down once. Knows what makes them alike; refuses to know what is done with them.

use super::context::FastPathContext;
use super::packet_meta::{Entry, Kind, PacketMeta, PathAction};
use crate::engine::account::counters::Counters;
use crate::engine::account::tx_batches::{Ends, TxBatches, less};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::Action;
use crate::engine::vector::decision::ActionRef;
use crate::engine::vector::owner::{Owner, Passage, PathRef};
use catena_model::account::Volume;

/// How packets came onto their path here.
#[derive(Debug, Clone, Copy, Default)]
enum Came {
    /// They are on none: they are switched.
    #[default]
    Switched,
    Classified,
    ByTunnel,
    /// Back from the local instance with this number.
    Back(u32),
}

/// The sums of those that are alike, and of those of one owner.
#[derive(Debug, Default)]
pub(super) struct CounterRun {
    /// Packets since the start, and those of them before the first that is alike.
    passed: u64,
    before: u64,
    alike: (Entry, PathAction),
    batch: u32,
    /// Bytes of all that are alike.
    bytes: u64,
    /// Is there anything in the next two? Of all that are alike, what ended here, and what was handed
    /// out in another batch.
    has_strays: bool,
    ended: Volume,
    moved: Volume,
    came: Came,
    path: PathRef,
    is_finished: bool,
    owner: Owner,
    received: Volume,
    held: u64,
}

impl CounterRun {
    /// Takes a packet in, which [`CounterRun::pass`] will count; answers the batch that it is in.
    #[inline(always)]
    pub(super) fn take_in(
        &mut self,
        meta: &PacketMeta,
        bytes: u64,
        action: Option<&Action>,
        context: &mut FastPathContext<'_>,
    ) -> u32 {
        if (meta.entry, meta.action) != self.alike {
            self.turn_to(meta, action, context);
        }
        self.bytes += bytes;
        self.batch
    }

    /// The packet is through: one more has taken the fast path.
    #[inline(always)]
    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Packets since the start.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// It was handed out in this batch.
    #[inline(always)]
    pub(super) fn handed_out(&mut self, batch: u32, volume: Volume, batches: &mut TxBatches) {
        if batch != self.batch {
            self.has_strays = true;
            self.moved.merge(volume);
            batches.add(batch, volume);
        }
    }

    /// It was not handed out.
    pub(super) fn ended(&mut self, volume: Volume) {
        self.has_strays = true;
        self.ended.merge(volume);
    }

    /// Begins with others.
    #[inline(never)]
    fn turn_to(
        &mut self,
        meta: &PacketMeta,
        action: Option<&Action>,
        context: &mut FastPathContext<'_>,
    ) {
        self.close_alike(context.counters, &mut context.out.batches);
        if !meta.entry.is_by_port_of(self.alike.0) {
            self.close_owner(context.counters);
            self.owner = meta.owner;
        }
        self.came = match meta.kind {
            Kind::SlowPath | Kind::Switched => Came::Switched,
            Kind::Endpoint | Kind::Subscriber => Came::Classified,
            Kind::Tunnel | Kind::Exit => Came::ByTunnel,
            Kind::Function | Kind::Aware => Came::Back(meta.entry.local()),
        };
        if !matches!(self.came, Came::Switched) {
            self.path = context.counters.path_ref(meta.position);
        }
        let owner = meta.owner;
        let ends = match (action, meta.action.action()) {
            (Some(action), _) => action.ends_on(owner, self.path),
            (None, ActionRef::Port(port)) => {
                Ends { owner, to: context.slots.owner_of_index(port), passage: Passage::Ordinary }
            }
            (None, _) => Ends { owner, ..Ends::default() },
        };
        self.is_finished = action.is_none();
        self.batch = context.out.batches.begin(ends);
        self.alike = (meta.entry, meta.action);
    }

    /// Writes the sums down.
    pub(super) fn close(&mut self, counters: &mut Counters, batches: &mut TxBatches) {
        self.close_alike(counters, batches);
        self.close_owner(counters);
        self.alike = <(Entry, PathAction)>::default();
    }

    #[inline(always)]
    fn close_alike(&mut self, counters: &mut Counters, batches: &mut TxBatches) {
        let packets = self.passed - std::mem::replace(&mut self.before, self.passed);
        if packets == 0 {
            return;
        }
        let frames = Volume { packets, bytes: std::mem::take(&mut self.bytes) };
        let (handed_out, in_lot) =
            if self.has_strays { self.without_strays(frames) } else { (frames, frames) };
        let header_bytes = u64::from(self.alike.0.header_bytes());
        self.received.add(packets, frames.bytes + packets * header_bytes);
        self.held += handed_out.packets;
        batches.add(self.batch, in_lot);
        let path = self.path;
        match self.came {
            Came::Switched => return,
            Came::Classified => counters.apply(CounterUpdate::Entered(path), frames),
            Came::ByTunnel => counters.apply(CounterUpdate::TunnelledIn(path), frames),
            Came::Back(local) => counters.apply(CounterUpdate::Returned(path, local), frames),
        }
        if self.is_finished {
            counters.apply(CounterUpdate::Finished(path), handed_out);
        }
    }

    /// What was handed out of all that are alike, and what of that is in their batch.
    #[cold]
    fn without_strays(&mut self, all: Volume) -> (Volume, Volume) {
        self.has_strays = false;
        let handed_out = less(all, std::mem::take(&mut self.ended));
        (handed_out, less(handed_out, std::mem::take(&mut self.moved)))
    }

    fn close_owner(&mut self, counters: &mut Counters) {
        let received = std::mem::take(&mut self.received);
        if received.packets > 0 {
            counters.apply(CounterUpdate::Received(self.owner), received);
            counters.held(self.owner, std::mem::take(&mut self.held));
        }
    }
}
