//! Whoever takes the place of a value of a function that has died. Knows whether one is being made; refuses to know by
//! whom, when it is wanted, and what it is told.

use catena_nf::Function;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The next value.
#[derive(Default)]
pub(crate) struct Renewal {
    next: Mutex<Next>,
    /// One has died of what it was to remember.
    was_refused: AtomicBool,
}

/// How far it is.
#[derive(Default)]
pub(super) enum Next {
    /// Nobody makes it.
    #[default]
    Unwanted,
    /// It is being made.
    Coming,
    /// Whoever wants it takes it.
    Made(Box<dyn Function>),
}

impl Renewal {
    /// It; none: it is not made.
    pub(super) fn take(&self) -> Option<Box<dyn Function>> {
        let mut next = self.lock();
        match std::mem::take(&mut *next) {
            Next::Made(value) => Some(value),
            former => {
                *next = former;
                None
            }
        }
    }

    /// It, or whether somebody makes it already; where nobody does, whoever asks is to have it made.
    pub(super) fn want(&self) -> Next {
        let mut next = self.lock();
        match std::mem::take(&mut *next) {
            Next::Made(value) => Next::Made(value),
            former => {
                *next = Next::Coming;
                former
            }
        }
    }

    /// It is made, has died of what it was to remember, or cannot be made.
    pub(super) fn end(&self, made: Result<Option<Box<dyn Function>>, String>) {
        self.was_refused.store(matches!(made, Ok(None)), Ordering::Relaxed);
        *self.lock() = made.ok().flatten().map_or(Next::Unwanted, Next::Made);
    }

    /// Has one died of what it was to remember, since this was asked last?
    pub(crate) fn was_refused(&self) -> bool {
        self.was_refused.swap(false, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
