//! Where the workers of a node meet: who is asleep, what is on its way between them, and how all of
//! them stop at once. Knows counts; refuses to know what is counted.
//!
//! Orders that all workers must carry out together are carried out at a rendezvous: nobody takes
//! packets from ports any more, everybody goes on with what the others hand over until nothing is on
//! its way, and only then the order is read. So tables change for all of them between the same two
//! packets, and what is on its way between two of them means the same to both.

use super::waker::Waker;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// What the others must know of a worker.
#[repr(align(64))]
struct BarrierSlot {
    /// What it has handed to others, ever, counted before it is handed.
    handed: AtomicU64,
    /// What others have handed to it that it is done with, ever.
    done: AtomicU64,
    is_asleep: AtomicBool,
    waker: Waker,
}

/// The barrier of a node's workers.
pub(super) struct Barrier {
    slots: Vec<BarrierSlot>,
    /// A worker has ended: the others must not wait for it.
    is_broken: AtomicBool,
    /// Has the first worker tunnel sockets?
    has_tunnels: AtomicBool,
    /// The same of segments.
    has_segments: AtomicBool,
}

/// One rendezvous.
#[derive(Default)]
pub(super) struct Rendezvous {
    arrived: AtomicUsize,
}

impl Rendezvous {
    /// One more takes nothing from ports any more.
    pub(super) fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
    }
}

impl Barrier {
    /// A barrier for the workers with these wakers.
    pub(super) fn new(wakers: impl IntoIterator<Item = Waker>) -> Self {
        let slot = |waker| BarrierSlot {
            handed: AtomicU64::new(0),
            done: AtomicU64::new(0),
            is_asleep: AtomicBool::new(false),
            waker,
        };
        Self {
            slots: wakers.into_iter().map(slot).collect(),
            is_broken: AtomicBool::new(false),
            has_tunnels: AtomicBool::new(false),
            has_segments: AtomicBool::new(false),
        }
    }

    /// Workers there are.
    pub(super) fn workers(&self) -> usize {
        self.slots.len()
    }

    /// A worker is about to hand so much over.
    #[inline]
    pub(super) fn hands(&self, worker: usize, count: u64) {
        if let Some(slot) = self.slots.get(worker).filter(|_| count > 0) {
            // Nobody else writes it.
            slot.handed.store(slot.handed.load(Ordering::Relaxed) + count, Ordering::Release);
        }
    }

    /// A worker is done with so much that was handed to it, and has handed over what came of it.
    #[inline]
    pub(super) fn is_done(&self, worker: usize, count: u64) {
        if let Some(slot) = self.slots.get(worker).filter(|_| count > 0) {
            slot.done.store(slot.done.load(Ordering::Relaxed) + count, Ordering::Release);
        }
    }

    /// Has everybody arrived, and is nothing on its way? Sums of what is done are read first: they
    /// can equal sums read later only if they did in between.
    pub(super) fn is_quiet(&self, rendezvous: &Rendezvous) -> bool {
        if self.is_broken.load(Ordering::SeqCst) {
            return true;
        }
        let sum = |count: fn(&BarrierSlot) -> &AtomicU64| {
            let counts = self.slots.iter().map(|slot| count(slot).load(Ordering::SeqCst));
            counts.fold(0_u64, u64::wrapping_add)
        };
        rendezvous.arrived.load(Ordering::SeqCst) == self.workers()
            && sum(|slot| &slot.done) == sum(|slot| &slot.handed)
    }

    /// A worker will sleep unless it finds something: it must look after this.
    pub(super) fn falls_asleep(&self, worker: usize) {
        if let Some(slot) = self.slots.get(worker) {
            slot.is_asleep.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
    }

    /// It is awake.
    pub(super) fn is_awake(&self, worker: usize) {
        if let Some(slot) = self.slots.get(worker) {
            slot.is_asleep.store(false, Ordering::SeqCst);
        }
    }

    /// Something was handed to a worker, which may be asleep.
    pub(super) fn wake(&self, worker: usize) {
        fence(Ordering::SeqCst);
        if let Some(slot) = self.slots.get(worker)
            && slot.is_asleep.load(Ordering::SeqCst)
            && slot.is_asleep.swap(false, Ordering::SeqCst)
        {
            slot.waker.ring();
        }
    }

    /// The first worker has sockets over UDP, or by segments, from now on.
    pub(super) fn open_tunnels(&self, are_segmented: bool) {
        self.tunnels(are_segmented).store(true, Ordering::SeqCst);
    }

    pub(super) fn has_tunnels(&self, are_segmented: bool) -> bool {
        self.tunnels(are_segmented).load(Ordering::SeqCst)
    }

    fn tunnels(&self, are_segmented: bool) -> &AtomicBool {
        if are_segmented { &self.has_segments } else { &self.has_tunnels }
    }

    /// A worker has ended.
    pub(super) fn breaks(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
    }
}
