//! Whoever takes the place of a value of a function that has died, with what that had told of what it remembers. Knows
//! whether one is being made; refuses to know by whom, and when it is wanted.

use catena_nf::Function;
use catena_nf::function::StateEntry;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a value has told of what it remembers.
pub(crate) type Kept = BTreeMap<Vec<u8>, Vec<u8>>;

/// As a value takes it over.
pub(crate) fn entries(kept: &Kept) -> Vec<StateEntry> {
    let entry = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        let (key, value) = (key.clone(), Some(value.clone()));
        StateEntry { key, value }
    };
    kept.iter().map(entry).collect()
}

/// The next value, when it is made.
#[derive(Default)]
pub(crate) struct Renewal {
    ready: Mutex<Option<Box<dyn Function>>>,
    /// It is being made.
    is_coming: AtomicBool,
    /// One has died of what it was to remember.
    was_refused: AtomicBool,
}

impl Renewal {
    /// It; none: it is not made.
    pub(super) fn take(&self) -> Option<Box<dyn Function>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// It is to be made; false: it is being made.
    pub(super) fn begin(&self) -> bool {
        !self.is_coming.swap(true, Ordering::AcqRel)
    }

    /// It is made, has died of what it was to remember, or cannot be made.
    pub(super) fn end(&self, made: Result<Option<Box<dyn Function>>, String>) {
        match made {
            Ok(Some(value)) => {
                *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            }
            Ok(None) => self.was_refused.store(true, Ordering::Relaxed),
            Err(_) => {}
        }
        self.is_coming.store(false, Ordering::Release);
    }

    /// Has one died of what it was to remember, since this was asked last?
    pub(crate) fn was_refused(&self) -> bool {
        self.was_refused.swap(false, Ordering::Relaxed)
    }
}
