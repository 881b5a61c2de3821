//! Where the value of a function is: with the engine, or with threads that ask it. Refuses to wait for who has it.

use crate::engine::stage::{LentFunction, bury};
use catena_nf::Function;
use std::sync::{Arc, PoisonError, TryLockError};

/// The place of a function's value.
pub(crate) enum Seat {
    /// With the engine.
    Here(Box<dyn Function>),
    /// With threads, each of which has it while it asks.
    Lent(LentFunction),
}

impl Seat {
    /// Does something with it; none: somebody has it, or it has died.
    pub(crate) fn with<R>(&mut self, act: impl FnOnce(&mut dyn Function) -> R) -> Option<R> {
        match self {
            Self::Here(function) => Some(act(&mut **function)),
            Self::Lent(lent) => match lent.try_lock() {
                Ok(mut place) => place.as_mut().map(|function| act(&mut **function)),
                Err(TryLockError::Poisoned(place)) => {
                    place.into_inner().as_mut().map(|function| act(&mut **function))
                }
                Err(TryLockError::WouldBlock) => None,
            },
        }
    }

    /// The same, and nothing changes.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&dyn Function) -> R) -> Option<R> {
        match self {
            Self::Here(function) => Some(look(&**function)),
            Self::Lent(lent) => match lent.try_lock() {
                Ok(place) => place.as_ref().map(|function| look(&**function)),
                Err(TryLockError::Poisoned(place)) => {
                    place.into_inner().as_ref().map(|function| look(&**function))
                }
                Err(TryLockError::WouldBlock) => None,
            },
        }
    }

    /// It, for a thread.
    pub(crate) fn lend(&mut self) -> LentFunction {
        if let Self::Lent(lent) = self {
            return Arc::clone(lent);
        }
        let lent = LentFunction::default();
        if let Self::Here(function) = std::mem::replace(self, Self::Lent(Arc::clone(&lent))) {
            *lent.lock().unwrap_or_else(PoisonError::into_inner) = Some(function);
        }
        lent
    }

    /// It is with the engine again, if there is one; false: somebody has it still.
    pub(crate) fn take_back(&mut self) -> bool {
        let Self::Lent(lent) = self else { return true };
        let Some(place) = Arc::get_mut(lent) else { return false };
        if let Some(function) = place.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            *self = Self::Here(function);
        }
        true
    }

    /// Is there none, as it has died?
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Lent(lent) => lent.try_lock().is_ok_and(|place| place.is_none()),
        }
    }

    /// Takes it apart, since it has died.
    pub(crate) fn clear(&mut self) {
        match std::mem::replace(self, Self::Lent(LentFunction::default())) {
            Self::Here(function) => bury(Some(function)),
            Self::Lent(lent) => {
                if let Ok(mut place) = lent.try_lock() {
                    bury(place.take());
                }
                *self = Self::Lent(lent);
            }
        }
    }

    /// Another value takes its place, for those too that have been handed it and have not asked yet.
    pub(crate) fn replace(&mut self, fresh: Box<dyn Function>) {
        if let Self::Lent(lent) = self
            && let Ok(mut place) = lent.try_lock()
        {
            *place = Some(fresh);
            return;
        }
        *self = Self::Here(fresh);
    }
}
