//! What a worker hands to the others and they to it: packets whose flow another decides, packets that
//! leave by a port of another, and what became of those. Knows rings and their order; refuses to know
//! why a packet is whose.
//!
//! Every port has one worker that reads and writes it, every flow one that decides it
//! (docs/adr/0018-several-workers.md). Nothing is lost between workers: what finds a ring full waits
//! here, and a worker for whom anything waits takes nothing from its ports. What others want sent is
//! always sent and booked, whatever waits, and what they want decided always is unless something of
//! this worker waits to be sent: so no workers wait for each other in a ring.

#[cfg(test)]
mod tests;

use super::barrier::Barrier;
use super::ledger::Ledger;
use super::rings::Rings;
use super::tunnels::Tunnels;
use crate::engine::{
    Datagram, Engine, Frame, Output, Packet, PortSlot, TxBatches, TxCredit, TxRef,
    VECTOR_PACKETS_MAX,
};
use catena_io::{Buffer, BufferPool, SpscIn, SpscOut, spsc_ring};
use catena_model::DropReason;
use std::collections::VecDeque;
use std::sync::Arc;

/// Items on their way from one worker to another, of each kind. Few in tests, so that rings are full.
const RING_SLOTS: usize = if cfg!(test) { 4 } else { 256 };
/// Items that may wait for a place without an allocation: what one vector makes.
const WAITING: usize = 1_024;
/// The worker that has the tunnel sockets.
const TUNNELS_OF: usize = 0;

/// What leaves by another worker, each with what is to be booked: its share means nothing there.
enum Leaving {
    Frame(Frame, TxCredit),
    Datagram(Datagram, TxCredit),
}

/// What became of a lot of it, or of one that could not be sent.
#[derive(Clone, Copy, Default)]
struct Settled {
    credit: TxCredit,
    /// None: it was sent.
    reason: Option<DropReason>,
}

/// A ring, and what waits before it.
struct Outgoing<T> {
    spsc_ring: SpscIn<T>,
    waiting: VecDeque<T>,
}

/// Another worker.
struct OtherWorker {
    number: usize,
    /// Something was handed to it since it was woken last.
    is_touched: bool,
    decides: Outgoing<Packet>,
    sends: Outgoing<Leaving>,
    settles: Outgoing<Settled>,
    /// What it hands over.
    to_decide: SpscOut<Packet>,
    to_send: SpscOut<Leaving>,
    settled: SpscOut<Settled>,
}

/// All other workers, as one of them sees them.
pub(super) struct HandOff {
    own: usize,
    barrier: Arc<Barrier>,
    others: Vec<OtherWorker>,
    /// For a time when the pool has none, so that what others want sent can leave; taken from it.
    reserve: Option<Buffer>,
    /// What another wants sent, while it is.
    batches: TxBatches,
    /// Packets that this worker decides, out of those that it has read.
    kept: Vec<Packet>,
    /// Packets of others that are in the worker's vector.
    in_hand: u64,
    /// What was handed to others and not told yet.
    handed: u64,
}

/// Rings between each two workers of a barrier; answers what each of them gets.
pub(super) fn introduce(barrier: &Arc<Barrier>) -> Vec<HandOff> {
    let workers = barrier.workers();
    let mut all: Vec<HandOff> = (0..workers).map(|own| HandOff::new(own, barrier)).collect();
    for one in 0..workers {
        for other in one + 1..workers {
            let (there, back) = hand_off(one, other);
            for (worker, peer) in [(one, there), (other, back)] {
                all.get_mut(worker).map(|hand_off| hand_off.others.push(peer)).unwrap_or_default();
            }
        }
    }
    all
}

/// The other worker as the one sees it, and the one as the other does.
fn hand_off(one: usize, other: usize) -> (OtherWorker, OtherWorker) {
    let packet = |buffer| Packet::from_port(PortSlot::default(), buffer);
    let mut pool = BufferPool::new(4 * RING_SLOTS);
    let [packets, packets_back] = ends(|| pool.take().map(packet));
    let [leavers, leavers_back] = ends(|| pool.take().map(Leaving::empty));
    let [outcomes, outcomes_back] = ends(|| Some(Settled::default()));
    (
        OtherWorker::new(other, packets, leavers, outcomes),
        OtherWorker::new(one, packets_back, leavers_back, outcomes_back),
    )
}

/// Both ends of two rings that go to and fro: what each of two workers puts in, the other takes out.
fn ends<T: Send>(mut empty: impl FnMut() -> Option<T>) -> [(Outgoing<T>, SpscOut<T>); 2] {
    let mut places = || std::iter::from_fn(&mut empty).take(RING_SLOTS).collect::<Vec<T>>();
    let ((to, from_one), (fro, from_other)) = (spsc_ring(places()), spsc_ring(places()));
    [(Outgoing::new(to), from_other), (Outgoing::new(fro), from_one)]
}

impl OtherWorker {
    fn new(
        number: usize,
        (decides, to_decide): (Outgoing<Packet>, SpscOut<Packet>),
        (sends, to_send): (Outgoing<Leaving>, SpscOut<Leaving>),
        (settles, settled): (Outgoing<Settled>, SpscOut<Settled>),
    ) -> Self {
        Self { number, is_touched: false, decides, sends, settles, to_decide, to_send, settled }
    }
}

impl<T: Send> Outgoing<T> {
    fn new(spsc_ring: SpscIn<T>) -> Self {
        Self { spsc_ring, waiting: VecDeque::with_capacity(WAITING) }
    }

    /// Hands an item over, or lets it wait; `emptied` gets the one that stood in its place. The other
    /// hears of it when it is published.
    fn hand(&mut self, mut item: T, emptied: impl FnOnce(T)) {
        if self.waiting.is_empty() && self.spsc_ring.put_ahead(&mut item) {
            emptied(item);
        } else {
            self.waiting.push_back(item);
        }
    }

    /// Hands over what waits, as far as there is room; false: nothing.
    fn flush(&mut self, mut emptied: impl FnMut(T)) -> bool {
        let before = self.waiting.len();
        while let Some(item) = self.waiting.front_mut()
            && self.spsc_ring.put_ahead(item)
        {
            self.waiting.pop_front().map(&mut emptied).unwrap_or_default();
        }
        self.waiting.len() < before
    }
}

impl Leaving {
    fn empty(buffer: Buffer) -> Self {
        let nothing = Frame { to: PortSlot::default(), buffer, share: TxRef::default() };
        Self::Frame(nothing, TxCredit::default())
    }

    fn into_buffer(self) -> Buffer {
        match self {
            Self::Frame(frame, _) => frame.buffer,
            Self::Datagram(datagram, _) => datagram.buffer,
        }
    }
}

/// The books of the worker whose packets are sent here.
struct OwnerCounters<'p> {
    settles: &'p mut Outgoing<Settled>,
    handed: &'p mut u64,
}

impl OwnerCounters<'_> {
    fn settle(&mut self, settled: Settled) {
        *self.handed += 1;
        self.settles.hand(settled, drop);
    }
}

impl Ledger for OwnerCounters<'_> {
    fn failed(&mut self, credit: TxCredit, reason: DropReason) {
        self.settle(Settled { credit, reason: Some(reason) });
    }
}

impl HandOff {
    fn new(own: usize, barrier: &Arc<Barrier>) -> Self {
        let barrier = Arc::clone(barrier);
        let (others, kept, batches) = (Vec::new(), Vec::new(), TxBatches::default());
        Self { own, barrier, others, reserve: None, batches, kept, in_hand: 0, handed: 0 }
    }

    pub(super) fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    /// Does anything wait that others shall send? Then no packet must be decided: that makes more.
    pub(super) fn are_sends_waiting(&self) -> bool {
        self.others.iter().any(|peer| !peer.sends.waiting.is_empty())
    }

    /// Have others handed packets over to be decided?
    pub(super) fn has_to_decide(&self) -> bool {
        self.others.iter().any(|peer| !peer.to_decide.is_empty())
    }

    /// Does anything wait for a place? Then nothing more must be taken from ports.
    pub(super) fn is_backed_up(&self) -> bool {
        let waits = |peer: &OtherWorker| {
            !(peer.decides.waiting.is_empty()
                && peer.sends.waiting.is_empty()
                && peer.settles.waiting.is_empty())
        };
        self.others.iter().any(waits)
    }

    /// Leaves in the vector what this worker decides and hands the rest to who does.
    pub(super) fn share(
        &mut self,
        engine: &Engine,
        input: &mut Vec<Packet>,
        pool: &mut BufferPool,
    ) {
        for packet in input.drain(..) {
            let decider = engine.decider(&packet, self.barrier.workers());
            match self.others.iter_mut().find(|peer| Some(peer.number) == decider) {
                None => self.kept.push(packet),
                Some(peer) => {
                    self.handed += 1;
                    peer.is_touched = true;
                    peer.decides.hand(packet, |emptied| pool.put(emptied.buffer));
                }
            }
        }
        std::mem::swap(input, &mut self.kept);
        self.tell();
    }

    /// Fills the vector up with what others have handed over, each an equal share.
    pub(super) fn collect(&mut self, input: &mut Vec<Packet>, pool: &mut BufferPool) {
        let handing = self.others.iter().filter(|peer| !peer.to_decide.is_empty()).count();
        let room = VECTOR_PACKETS_MAX.saturating_sub(input.len());
        let share = (room / handing.max(1)).max(1);
        for peer in &mut self.others {
            for _ in 0..share {
                if peer.to_decide.is_empty() {
                    break;
                }
                let Some(buffer) = pool.take() else { break };
                let mut packet = Packet::from_port(PortSlot::default(), buffer);
                if !peer.to_decide.take_ahead(&mut packet) {
                    pool.put(packet.buffer);
                    break;
                }
                input.push(packet);
                self.in_hand += 1;
            }
            peer.to_decide.release();
        }
    }

    /// The vector has passed, and what came of it was handed over.
    pub(super) fn end_vector(&mut self) {
        self.barrier.is_done(self.own, std::mem::take(&mut self.in_hand));
    }

    /// Hands over what leaves by others, and leaves the rest in `output`.
    pub(super) fn hand_out(&mut self, output: &mut Output, rings: &Rings, pool: &mut BufferPool) {
        let is_theirs = |frame: &mut Frame| rings.elsewhere(frame.to).is_some();
        for frame in output.frames.extract_if(.., is_theirs) {
            let worker = rings.elsewhere(frame.to).unwrap_or(self.own);
            let credit = output.batches.withdraw(frame.share);
            self.hand(worker, Leaving::Frame(frame, credit), pool);
        }
        if self.own != TUNNELS_OF {
            for datagram in output.datagrams.drain(..) {
                let credit = output.batches.withdraw(datagram.share);
                self.hand(TUNNELS_OF, Leaving::Datagram(datagram, credit), pool);
            }
        }
        self.tell();
    }

    fn hand(&mut self, worker: usize, leaving: Leaving, pool: &mut BufferPool) {
        if let Some(peer) = self.others.iter_mut().find(|peer| peer.number == worker) {
            self.handed += 1;
            peer.is_touched = true;
            peer.sends.hand(leaving, |emptied| pool.put(emptied.into_buffer()));
        }
    }

    /// Sends what others want sent, books what they have sent, hands over what waits. Answers how
    /// much of all that there was.
    pub(super) fn relieve(
        &mut self,
        engine: &mut Engine,
        rings: &mut Rings,
        tunnels: &mut Tunnels,
        pool: &mut BufferPool,
    ) -> u64 {
        let mut done = 0;
        for peer in &mut self.others {
            let OtherWorker { settles, to_send, settled, .. } = peer;
            let theirs = &mut OwnerCounters { settles, handed: &mut self.handed };
            let kept = (&mut self.batches, &mut self.reserve);
            let sent = send(to_send, theirs, (rings, tunnels, pool), kept);
            let mut outcome = Settled::default();
            while settled.take_ahead(&mut outcome) {
                done += 1;
                match outcome.reason {
                    None => engine.credit_sent(outcome.credit),
                    Some(reason) => engine.credit_failed(outcome.credit, reason),
                }
            }
            settled.release();
            done += sent;
            let has_flushed = peer.decides.flush(|emptied| pool.put(emptied.buffer))
                | peer.sends.flush(|emptied| pool.put(emptied.into_buffer()))
                | peer.settles.flush(drop);
            // A credit wakes nobody while there is room for more of them.
            peer.is_touched |= has_flushed || !peer.settles.waiting.is_empty();
        }
        self.tell();
        self.barrier.is_done(self.own, done);
        done
    }

    /// Tells the others of all that was handed to them, and wakes who got something and sleeps.
    fn tell(&mut self) {
        self.barrier.hands(self.own, std::mem::take(&mut self.handed));
        for peer in &mut self.others {
            peer.decides.spsc_ring.publish();
            peer.sends.spsc_ring.publish();
            peer.settles.spsc_ring.publish();
        }
        for peer in self.others.iter_mut().filter(|peer| peer.is_touched) {
            peer.is_touched = false;
            self.barrier.wake(peer.number);
        }
    }

    /// May this worker sleep? If so, whoever hands something to it wakes it, until
    /// [`HandOff::is_awake`].
    pub(super) fn falls_asleep(&mut self) -> bool {
        self.barrier.falls_asleep(self.own);
        let has_come = |peer: &OtherWorker| {
            !(peer.to_decide.is_empty() && peer.to_send.is_empty() && peer.settled.is_empty())
        };
        let may_sleep = !self.is_backed_up() && !self.others.iter().any(has_come);
        if !may_sleep {
            self.is_awake();
        }
        may_sleep
    }

    pub(super) fn is_awake(&self) {
        self.barrier.is_awake(self.own);
    }
}

/// Sends what another worker has handed over, at most a ring of it. Answers how much. The reserve is
/// filled again before anybody else can take a buffer.
fn send(
    to_send: &mut SpscOut<Leaving>,
    theirs: &mut OwnerCounters<'_>,
    (rings, tunnels, pool): (&mut Rings, &mut Tunnels, &mut BufferPool),
    (batches, reserve): (&mut TxBatches, &mut Option<Buffer>),
) -> u64 {
    if reserve.is_none() {
        *reserve = pool.take();
    }
    let mut sent = 0;
    while sent < RING_SLOTS as u64 && !to_send.is_empty() {
        let Some(buffer) = pool.take().or_else(|| reserve.take()) else { break };
        let mut leaving = Leaving::empty(buffer);
        if !to_send.take_ahead(&mut leaving) {
            pool.put(leaving.into_buffer());
            break;
        }
        sent += 1;
        match leaving {
            Leaving::Frame(frame, credit) => {
                let share = batches.enter(credit);
                rings.queue(Frame { share, ..frame }, batches, theirs, pool);
            }
            Leaving::Datagram(datagram, credit) => {
                let share = batches.enter(credit);
                tunnels.transmit(Datagram { share, ..datagram }, batches, theirs, pool);
            }
        }
    }
    to_send.release();
    rings.transmit(batches, theirs, pool);
    batches.settle().for_each(|credit| theirs.settle(Settled { credit, reason: None }));
    if reserve.is_none() {
        *reserve = pool.take();
    }
    sent
}

impl Drop for HandOff {
    /// Whoever waits for this worker must not do so for ever.
    fn drop(&mut self) {
        self.barrier.breaks();
    }
}
