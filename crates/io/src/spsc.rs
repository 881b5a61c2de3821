//! One direction between two threads: a ring of items with one producer and one consumer. A full item
//! and an empty one change places, so that no buffer in them changes its pool's count: a ring that only
//! moves items, as crates for it do, would let buffers pile up on one side. Refuses to know what is in
//! them.
#![allow(unsafe_code)]

use crate::sync::{Arc, AtomicUsize, Ordering, UnsafeCell};

/// A counter in a cache line of its own: the two sides write one each.
#[repr(align(64))]
struct Count(AtomicUsize);

struct SpscRing<T> {
    slots: Box<[UnsafeCell<T>]>,
    /// Items put in since the start; the producer's.
    put: Count,
    /// Items taken out since the start; the consumer's.
    taken: Count,
}

// SAFETY: a slot is reached by one side at a time, as the two counts say: the producer reaches those
// that are not between `taken` and `put`, the consumer those that are. Each count is written by one
// side, after it is done with the slot (release), and read by the other before it begins (acquire).
unsafe impl<T: Send> Sync for SpscRing<T> {}

/// The end that puts in.
pub struct SpscIn<T>(Arc<SpscRing<T>>);

/// The end that takes out.
pub struct SpscOut<T>(Arc<SpscRing<T>>);

/// Both ends of a ring with a place for each of these empty items, the number of which is rounded down
/// to a power of two.
pub fn spsc_ring<T: Send>(items: impl IntoIterator<Item = T>) -> (SpscIn<T>, SpscOut<T>) {
    let mut slots: Vec<UnsafeCell<T>> = items.into_iter().map(UnsafeCell::new).collect();
    slots.truncate(slots.len().checked_ilog2().map_or(0, |log| 1 << log));
    let count = || Count(AtomicUsize::new(0));
    let spsc_ring = Arc::new(SpscRing { slots: slots.into(), put: count(), taken: count() });
    (SpscIn(Arc::clone(&spsc_ring)), SpscOut(spsc_ring))
}

impl<T: Send> SpscIn<T> {
    /// Puts the item in and leaves an empty one in its place; false (and nothing changed) when the
    /// ring is full.
    #[must_use]
    pub fn put(&mut self, item: &mut T) -> bool {
        let SpscRing { slots, put, taken } = &*self.0;
        let next = put.0.load(Ordering::Relaxed);
        if next.wrapping_sub(taken.0.load(Ordering::Acquire)) == slots.len() {
            return false;
        }
        slots[next & (slots.len() - 1)].with_mut(|slot| {
            // SAFETY: the slot is not between `taken` and `put`, so it is the producer's, and there
            // is one producer, held by `&mut self`. The index is below the length, a power of two.
            // The caller's item is in no ring, so the two are apart.
            unsafe { std::ptr::swap(slot, item) }
        });
        put.0.store(next.wrapping_add(1), Ordering::Release);
        true
    }
}

impl<T: Send> SpscOut<T> {
    /// Takes the oldest item out and leaves this empty one in its place; false (and nothing changed)
    /// when the ring is empty.
    #[must_use]
    pub fn take(&mut self, item: &mut T) -> bool {
        let SpscRing { slots, put, taken } = &*self.0;
        let next = taken.0.load(Ordering::Relaxed);
        if next == put.0.load(Ordering::Acquire) {
            return false;
        }
        slots[next & (slots.len() - 1)].with_mut(|slot| {
            // SAFETY: the slot is between `taken` and `put`, so it is the consumer's, and there is one
            // consumer, held by `&mut self`. The index is below the length, a power of two.
            // The caller's item is in no ring, so the two are apart.
            unsafe { std::ptr::swap(slot, item) }
        });
        taken.0.store(next.wrapping_add(1), Ordering::Release);
        true
    }

    /// Is there nothing to take?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.taken.0.load(Ordering::Relaxed) == self.0.put.0.load(Ordering::Acquire)
    }
}
