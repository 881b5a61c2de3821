//! The rings of all attached ports: which port sits where, what waits to be sent out of it, and
//! what its ring lost. Knows ports by identity and by slot; refuses to look into frames.

use super::ledger::Ledger;
use crate::engine::{Engine, Frame, Origin, Packet, PortSlot, TxBatches, TxRef};
use catena_io::{Buffer, BufferPool, IoError, Poller, Port, RefusedFrame};
use catena_model::DropReason;
use catena_model::account::NodeCounters;
use catena_model::id::PortId;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Errors of a packet socket, or a TAP (`EBADFD`), after which its interface must be looked for again.
const INTERFACE_GONE: [Errno; 4] = [Errno::NETDOWN, Errno::NODEV, Errno::NXIO, Errno::BADFD];

struct AttachedPort {
    id: PortId,
    /// None: the port is not in the program (yet, or any more); its ring is left alone.
    slot: Option<PortSlot>,
    ring: Box<dyn Port>,
    /// What the ring had lost before the port was in use.
    lost_unused: u64,
    frames: Vec<Buffer>,
    shares: Vec<TxRef>,
}

/// All attached ports. A port keeps its seat; the poller knows it by the first token + the seat.
pub(super) struct Rings {
    first_token: u64,
    seats: Vec<Option<AttachedPort>>,
    /// Slot → seat.
    by_slot: Vec<Option<usize>>,
    /// The workers of ports that are not here.
    elsewhere: BTreeMap<PortId, usize>,
    /// Slot → worker.
    elsewhere_by_slot: Vec<Option<usize>>,
    /// Seats with frames to be sent.
    touched: Vec<usize>,
    /// What rings that are gone had lost, for ports still in the program.
    lost_before: BTreeMap<PortId, u64>,
    scratch: Vec<Buffer>,
}

/// What became of a port that was to be attached. Rings that are not used are taken apart by somebody
/// who has time, and the system calls for it.
pub(super) struct Taken {
    pub(super) outcome: Result<(), IoError>,
    pub(super) spent: Vec<Box<dyn Port>>,
}

/// A port whose interface is gone.
pub(super) struct LostPort {
    pub(super) id: PortId,
    pub(super) errno: i32,
    /// To be unmapped by somebody who has time.
    pub(super) ring: Box<dyn Port>,
}

impl Rings {
    /// No ports; the poller's tokens from `first_token` on are theirs.
    pub(super) fn new(first_token: u64) -> Self {
        Self {
            first_token,
            seats: Vec::new(),
            by_slot: Vec::new(),
            elsewhere: BTreeMap::new(),
            elsewhere_by_slot: Vec::new(),
            touched: Vec::new(),
            lost_before: BTreeMap::new(),
            scratch: Vec::new(),
        }
    }

    /// Takes a port, unless the poller refuses its ring.
    pub(super) fn attach(
        &mut self,
        id: PortId,
        ring: Box<dyn Port>,
        engine: &Engine,
        poller: &mut Poller,
        pool: &mut BufferPool,
    ) -> Taken {
        let mut spent: Vec<_> = self.detach(id, poller).into_iter().collect();
        let seat = self.seats.iter().position(Option::is_none).unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        });
        let (frames, shares) = (Vec::new(), Vec::new());
        let mut port = AttachedPort { id, slot: None, ring, lost_unused: 0, frames, shares };
        if let Some(slot) = engine.slot_of(id) {
            // The ring has just been made: nothing in it is old.
            if let Err(error) = poller.add(&*port.ring, self.first_token + seat as u64) {
                spent.push(port.ring);
                return Taken { outcome: Err(error), spent };
            }
            port.slot = Some(slot);
        }
        if let Some(place) = self.seats.get_mut(seat) {
            *place = Some(port);
        }
        Taken { outcome: self.index(engine, poller, pool), spent }
    }

    /// Gives a port's ring back; none: it was not attached.
    pub(super) fn detach(&mut self, id: PortId, poller: &mut Poller) -> Option<Box<dyn Port>> {
        let place = self.seats.iter_mut().find(|place| is_of(place, id))?;
        let mut port = place.take()?;
        if let Some(slot) = port.slot {
            // A descriptor that the poller does not know any more needs not be taken out.
            poller.remove(&*port.ring).ok();
            if let Some(seat) = self.by_slot.get_mut(slot.index()) {
                *seat = None;
            }
            let lost = port.ring.lost().saturating_sub(port.lost_unused);
            *self.lost_before.entry(id).or_default() += lost;
        }
        Some(port.ring)
    }

    /// Brings slots and polling in line with new tables.
    ///
    /// # Errors
    /// The poller refuses a ring.
    pub(super) fn index(
        &mut self,
        engine: &Engine,
        poller: &mut Poller,
        pool: &mut BufferPool,
    ) -> Result<(), IoError> {
        self.lost_before.retain(|id, _| engine.slot_of(*id).is_some());
        self.by_slot.clear();
        for (seat, place) in self.seats.iter_mut().enumerate() {
            let Some(port) = place else { continue };
            let slot = engine.slot_of(port.id);
            match (port.slot, slot) {
                (None, Some(_)) => {
                    port.forget_the_past(pool, &mut self.scratch);
                    poller.add(&*port.ring, self.first_token + seat as u64)?;
                }
                (Some(_), None) => poller.remove(&*port.ring)?,
                (None, None) | (Some(_), Some(_)) => {}
            }
            port.slot = slot;
            if let Some(slot) = slot {
                set(&mut self.by_slot, slot, seat);
            }
        }
        self.index_elsewhere(engine);
        Ok(())
    }

    /// The port is at another worker from now on; none: it is not.
    pub(super) fn note_elsewhere(&mut self, id: PortId, worker: Option<usize>, engine: &Engine) {
        match worker {
            Some(worker) => self.elsewhere.insert(id, worker),
            None => self.elsewhere.remove(&id),
        };
        self.index_elsewhere(engine);
    }

    fn index_elsewhere(&mut self, engine: &Engine) {
        self.elsewhere_by_slot.clear();
        for (id, worker) in &self.elsewhere {
            if let Some(slot) = engine.slot_of(*id) {
                set(&mut self.elsewhere_by_slot, slot, *worker);
            }
        }
    }

    /// The other worker that has the port in this slot.
    #[inline]
    pub(super) fn elsewhere(&self, slot: PortSlot) -> Option<usize> {
        self.elsewhere_by_slot.get(slot.index()).copied().flatten()
    }

    /// Takes up to `max` frames from the ring in this seat. The port is gone when its interface is.
    #[must_use]
    pub(super) fn receive(
        &mut self,
        seat: usize,
        max: usize,
        engine: &mut Engine,
        pool: &mut BufferPool,
        input: &mut Vec<Packet>,
    ) -> Option<(PortId, i32)> {
        let port = self.seats.get_mut(seat)?.as_mut()?;
        let slot = port.slot?;
        let received = port.ring.receive(pool, &mut self.scratch, max);
        input.extend(self.scratch.drain(..).map(|buffer| Packet::from_port(slot, buffer)));
        let mut lose = |reason, frames: u32| {
            if frames > 0 {
                engine.note_received_lost(Origin::Port(slot), reason, u64::from(frames), 0);
            }
        };
        lose(DropReason::TruncatedByRing, received.truncated);
        lose(DropReason::UnsupportedOffload, received.unsupported_offload);
        let errno = received.socket_error?;
        is_interface_gone(errno).then_some((port.id, errno))
    }

    /// Has the port in this slot a ring, here or at another worker?
    pub(super) fn has(&self, slot: PortSlot) -> bool {
        if self.elsewhere(slot).is_some() {
            return true;
        }
        let seat = self.by_slot.get(slot.index()).copied().flatten();
        seat.is_some_and(|seat| self.seats.get(seat).is_some_and(Option::is_some))
    }

    /// Puts a frame in the queue of its port; what cannot be sent leaves its lot.
    pub(super) fn queue(
        &mut self,
        frame: Frame,
        batches: &mut TxBatches,
        ledger: &mut impl Ledger,
        pool: &mut BufferPool,
    ) {
        let seat = self.by_slot.get(frame.to.index()).copied().flatten();
        let port = seat.and_then(|seat| Some((seat, self.seats.get_mut(seat)?.as_mut()?)));
        let Some((seat, port)) = port else {
            ledger.failed(batches.withdraw(frame.share), DropReason::PortUnbound);
            return pool.put(frame.buffer);
        };
        if port.frames.is_empty() {
            self.touched.push(seat);
        }
        port.frames.push(frame.buffer);
        port.shares.push(frame.share);
    }

    /// Sends everything that is queued, all of it of these lots; what cannot be sent leaves them.
    pub(super) fn transmit(
        &mut self,
        batches: &mut TxBatches,
        ledger: &mut impl Ledger,
        pool: &mut BufferPool,
    ) {
        for seat in self.touched.drain(..) {
            let Some(Some(port)) = self.seats.get_mut(seat) else { continue };
            port.ring.transmit(&mut port.frames, pool);
            book_refused(&port.shares, port.ring.refused(), batches, ledger);
            port.shares.clear();
        }
    }

    /// Fills in what the rings lost.
    pub(super) fn count(&mut self, counters: &mut NodeCounters) {
        for line in counters.ports.iter_mut().chain(&mut counters.links) {
            line.ring_full = self.lost_before.get(&line.port).copied().unwrap_or_default();
            if let Some(Some(port)) = self.seats.iter_mut().find(|place| is_of(place, line.port))
                && port.slot.is_some()
            {
                line.ring_full += port.ring.lost().saturating_sub(port.lost_unused);
            }
        }
    }
}

impl AttachedPort {
    /// Frames that came while nobody wanted them are neither received nor lost.
    fn forget_the_past(&mut self, pool: &mut BufferPool, scratch: &mut Vec<Buffer>) {
        let slots = catena_io::RING_SLOTS_MAX as usize;
        for _ in 0..slots {
            let received = self.ring.receive(pool, scratch, 1);
            scratch.drain(..).for_each(|buffer| pool.put(buffer));
            if received.frames + received.truncated + received.unsupported_offload == 0 {
                break;
            }
        }
        self.lost_unused = self.ring.lost();
    }
}

/// Notes what a slot has in a table by slots.
fn set(by_slot: &mut Vec<Option<usize>>, slot: PortSlot, what: usize) {
    if by_slot.len() <= slot.index() {
        by_slot.resize(slot.index() + 1, None);
    }
    if let Some(place) = by_slot.get_mut(slot.index()) {
        *place = Some(what);
    }
}

fn is_of(place: &Option<AttachedPort>, id: PortId) -> bool {
    place.as_ref().is_some_and(|port| port.id == id)
}

fn is_interface_gone(errno: i32) -> bool {
    INTERFACE_GONE.iter().any(|gone| gone.raw_os_error() == errno)
}

/// Counts what could not be sent of the frames with these shares.
fn book_refused(
    shares: &[TxRef],
    refused: &[RefusedFrame],
    batches: &mut TxBatches,
    ledger: &mut impl Ledger,
) {
    for frame in refused {
        let Some(share) = shares.get(frame.index) else { continue };
        let is_too_long = frame.errno == Errno::MSGSIZE.raw_os_error();
        let reason = if is_too_long { DropReason::MtuExceeded } else { DropReason::TransmitFailed };
        ledger.failed(batches.withdraw(*share), reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::TxCredit;

    /// Packets of what failed, and why.
    #[derive(Default)]
    struct Failures(Vec<(u64, DropReason)>);

    impl Ledger for Failures {
        fn failed(&mut self, credit: TxCredit, reason: DropReason) {
            self.0.push((credit.volume().packets, reason));
        }
    }

    #[test]
    fn of_a_lot_what_is_refused_fails_and_the_rest_is_settled() {
        let mut batches = TxBatches::default();
        // Told apart by their packets.
        let shares = [1, 2, 4, 8].map(|packets| batches.enter(TxCredit::of_packets(packets)));
        let refused = [(1, Errno::MSGSIZE), (2, Errno::NOBUFS)];
        let refused =
            refused.map(|(index, errno)| RefusedFrame { index, errno: errno.raw_os_error() });
        let mut failures = Failures::default();
        book_refused(&shares, &refused, &mut batches, &mut failures);
        assert_eq!(failures.0, [(2, DropReason::MtuExceeded), (4, DropReason::TransmitFailed)]);
        let settled: Vec<u64> = batches.settle().map(|lot| lot.volume().packets).collect();
        assert_eq!(settled, [1 + 8]);
    }
}
