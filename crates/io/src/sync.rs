//! What threads share memory by, under one name: the standard library's here, those of a model checker
//! in `tests/spsc.rs`, which reads `spsc` and `bell` with a module of its own in place of this one.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A cell that says when its content is reached.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(content: T) -> Self {
        Self(std::cell::UnsafeCell::new(content))
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, reach: impl FnOnce(*mut T) -> R) -> R {
        reach(self.0.get())
    }
}
