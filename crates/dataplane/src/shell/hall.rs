//! Where the workers of a node meet: who is asleep, what is on its way between them, and how all of
//! them stop at once. Knows counts; refuses to know what is counted.
//!
//! Orders that all workers must carry out together are carried out at a meeting: nobody takes
//! packets from ports any more, everybody goes on with what the others hand over until nothing is on
//! its way, and only then the order is read. So tables change for all of them between the same two
//! packets, and what is on its way between two of them means the same to both.

use super::wake::Bell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// What the others must know of a worker.
#[repr(align(64))]
struct Seat {
    /// What it has handed to others, ever, counted before it is handed.
    handed: AtomicU64,
    /// What others have handed to it that it is done with, ever.
    done: AtomicU64,
    is_asleep: AtomicBool,
    bell: Bell,
}

/// The hall of a node's workers.
pub(super) struct Hall {
    seats: Vec<Seat>,
    /// A worker has ended: the others must not wait for it.
    is_broken: AtomicBool,
    /// Has the first worker tunnel sockets?
    has_tunnels: AtomicBool,
}

/// One meeting.
#[derive(Default)]
pub(super) struct Meeting {
    arrived: AtomicUsize,
}

impl Meeting {
    /// One more takes nothing from ports any more.
    pub(super) fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
    }
}

impl Hall {
    /// A hall for the workers with these bells.
    pub(super) fn new(bells: impl IntoIterator<Item = Bell>) -> Self {
        let seat = |bell| Seat {
            handed: AtomicU64::new(0),
            done: AtomicU64::new(0),
            is_asleep: AtomicBool::new(false),
            bell,
        };
        Self {
            seats: bells.into_iter().map(seat).collect(),
            is_broken: AtomicBool::new(false),
            has_tunnels: AtomicBool::new(false),
        }
    }

    /// Workers there are.
    pub(super) fn workers(&self) -> usize {
        self.seats.len()
    }

    /// A worker is about to hand something over.
    #[inline]
    pub(super) fn hands(&self, worker: usize) {
        if let Some(seat) = self.seats.get(worker) {
            // Nobody else writes it.
            seat.handed.store(seat.handed.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }

    /// A worker is done with so much that was handed to it, and has handed over what came of it.
    #[inline]
    pub(super) fn is_done(&self, worker: usize, count: u64) {
        if let Some(seat) = self.seats.get(worker).filter(|_| count > 0) {
            seat.done.store(seat.done.load(Ordering::Relaxed) + count, Ordering::Release);
        }
    }

    /// Has everybody arrived, and is nothing on its way? Sums of what is done are read first: they
    /// can equal sums read later only if they did in between.
    pub(super) fn is_quiet(&self, meeting: &Meeting) -> bool {
        if self.is_broken.load(Ordering::SeqCst) {
            return true;
        }
        let sum = |count: fn(&Seat) -> &AtomicU64| {
            let counts = self.seats.iter().map(|seat| count(seat).load(Ordering::SeqCst));
            counts.fold(0_u64, u64::wrapping_add)
        };
        meeting.arrived.load(Ordering::SeqCst) == self.workers()
            && sum(|seat| &seat.done) == sum(|seat| &seat.handed)
    }

    /// A worker will sleep unless it finds something: it must look after this.
    pub(super) fn falls_asleep(&self, worker: usize) {
        if let Some(seat) = self.seats.get(worker) {
            seat.is_asleep.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
    }

    /// It is awake.
    pub(super) fn is_awake(&self, worker: usize) {
        if let Some(seat) = self.seats.get(worker) {
            seat.is_asleep.store(false, Ordering::SeqCst);
        }
    }

    /// Something was handed to a worker, which may be asleep.
    pub(super) fn wake(&self, worker: usize) {
        fence(Ordering::SeqCst);
        if let Some(seat) = self.seats.get(worker)
            && seat.is_asleep.load(Ordering::SeqCst)
            && seat.is_asleep.swap(false, Ordering::SeqCst)
        {
            seat.bell.ring();
        }
    }

    /// The first worker has tunnel sockets from now on.
    pub(super) fn open_tunnels(&self) {
        self.has_tunnels.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_tunnels(&self) -> bool {
        self.has_tunnels.load(Ordering::SeqCst)
    }

    /// A worker has ended.
    pub(super) fn breaks(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
    }
}
