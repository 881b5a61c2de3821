//! Where the value of a function is: with the engine, or with threads that ask it, each of which has it while it asks.
//! Knows that it may die of whatever is done with it; refuses to know what that is.

use crate::engine::stage::{LentFunction, ask_safely, bury};
use catena_nf::Function;
use std::sync::{Arc, PoisonError};

/// The place of a function's value.
pub(crate) enum Seat {
    /// With the engine.
    Here(Box<dyn Function>),
    /// With threads.
    Lent(LentFunction),
}

impl Seat {
    /// That of one that has died.
    pub(crate) fn empty() -> Self {
        Self::Lent(LentFunction::default())
    }

    /// Does something with it, once no thread asks it. None: it is dead.
    ///
    /// # Errors
    /// What it has died of.
    pub(crate) fn try_with<R>(
        &mut self,
        act: impl FnOnce(&mut dyn Function) -> R,
    ) -> Result<Option<R>, String> {
        let mut done = None;
        let died = match self {
            Self::Here(function) => ask_safely(|| done = Some(act(&mut **function))),
            Self::Lent(lent) => {
                let mut place = lent.lock().unwrap_or_else(PoisonError::into_inner);
                let function = place.as_mut();
                function.and_then(|function| ask_safely(|| done = Some(act(&mut **function))))
            }
        };
        died.map_or(Ok(done), Err)
    }

    /// The same; one that dies of it is dead without a word to who asks.
    pub(crate) fn with<R>(&mut self, act: impl FnOnce(&mut dyn Function) -> R) -> Option<R> {
        self.try_with(act).unwrap_or_else(|why| {
            tracing::error!("a function has died, and begins anew: {why}");
            self.clear();
            None
        })
    }

    /// The same, and nothing changes; who dies of being looked at says nothing.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&dyn Function) -> R) -> Option<R> {
        let mut done = None;
        let died = match self {
            Self::Here(function) => ask_safely(|| done = Some(look(&**function))),
            Self::Lent(lent) => {
                let place = lent.lock().unwrap_or_else(PoisonError::into_inner);
                let function = place.as_ref();
                function.and_then(|function| ask_safely(|| done = Some(look(&**function))))
            }
        };
        if let Some(why) = died {
            tracing::error!("a function cannot be looked at: {why}");
        }
        done
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

    /// It is with the engine again, if there is one; false: a thread has it still, or is to ask it.
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
        match std::mem::replace(self, Self::empty()) {
            Self::Here(function) => bury(Some(function)),
            Self::Lent(lent) => {
                let broken = lent.lock().unwrap_or_else(PoisonError::into_inner).take();
                bury(broken);
                *self = Self::Lent(lent);
            }
        }
    }

    /// Another value takes its place, for those too that have been handed it and have not asked yet.
    pub(crate) fn replace(&mut self, fresh: Box<dyn Function>) {
        match self {
            Self::Here(_) => *self = Self::Here(fresh),
            Self::Lent(lent) => {
                *lent.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
            }
        }
    }
}
