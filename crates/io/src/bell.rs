//! What wakes whoever polls: rung once, however often, until it is silenced. Refuses to know for what
//! it rings.

use crate::sync::{AtomicBool, Ordering};

/// What a poller sleeps on.
pub(crate) trait Event {
    /// Whoever sleeps on it wakes, and nobody sleeps on it until it is reset.
    fn set(&self);
    fn reset(&self);
}

pub(crate) struct Bell<E> {
    event: E,
    is_rung: AtomicBool,
}

impl<E: Event> Bell<E> {
    pub(crate) fn new(event: E) -> Self {
        Self { event, is_rung: AtomicBool::new(false) }
    }

    pub(crate) fn event(&self) -> &E {
        &self.event
    }

    pub(crate) fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            self.event.set();
        }
    }

    /// The event first: whoever rings in between finds the bell rung, and what they rang for is seen by
    /// the look that follows. The other way round a ring could be read away while the bell says that
    /// it is rung, and nobody would ring it again.
    pub(crate) fn silence(&self) {
        self.event.reset();
        self.is_rung.swap(false, Ordering::AcqRel);
    }
}
