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

/// The end that puts in. What it knows of the other end may be old; it looks again when the ring seems full.
pub struct SpscIn<T> {
    ring: Arc<SpscRing<T>>,
    /// Items put in, of which the other end may not have heard.
    put: usize,
    /// Of how many it has.
    published: usize,
    /// Items that the other end had taken out when this one looked last.
    seen_taken: usize,
}

/// The end that takes out. What it knows of the other end may be old; it looks again when the ring seems
/// empty.
pub struct SpscOut<T> {
    ring: Arc<SpscRing<T>>,
    /// Items taken out, of which the other end may not have heard.
    taken: usize,
    /// Of how many it has.
    released: usize,
    /// Items that the other end had put in when this one looked last.
    seen_put: usize,
}

/// Both ends of a ring with a place for each of these empty items, the number of which is rounded down
/// to a power of two.
pub fn spsc_ring<T: Send>(items: impl IntoIterator<Item = T>) -> (SpscIn<T>, SpscOut<T>) {
    let mut slots: Vec<UnsafeCell<T>> = items.into_iter().map(UnsafeCell::new).collect();
    slots.truncate(slots.len().checked_ilog2().map_or(0, |log| 1 << log));
    let count = || Count(AtomicUsize::new(0));
    let ring = Arc::new(SpscRing { slots: slots.into(), put: count(), taken: count() });
    let into = SpscIn { ring: Arc::clone(&ring), put: 0, published: 0, seen_taken: 0 };
    (into, SpscOut { ring, taken: 0, released: 0, seen_put: 0 })
}

impl<T: Send> SpscIn<T> {
    /// Puts the item in and leaves an empty one in its place; false (and nothing changed) when the
    /// ring is full.
    #[must_use]
    pub fn put(&mut self, item: &mut T) -> bool {
        let is_put = self.put_ahead(item);
        if is_put {
            self.publish();
        }
        is_put
    }

    /// The same, but the other end hears of it at the next [`SpscIn::publish`]: each time it hears, a line
    /// of memory goes from one processor to the other.
    #[must_use]
    pub fn put_ahead(&mut self, item: &mut T) -> bool {
        let SpscRing { slots, taken, .. } = &*self.ring;
        if self.put.wrapping_sub(self.seen_taken) == slots.len() {
            self.seen_taken = taken.0.load(Ordering::Acquire);
            if self.put.wrapping_sub(self.seen_taken) == slots.len() {
                return false;
            }
        }
        slots[self.put & (slots.len() - 1)].with_mut(|slot| {
            // SAFETY: the slot is not between what the other end has said that it took and what was put,
            // so it is the producer's, and there is one producer, held by `&mut self`. The index is below
            // the length, a power of two. The caller's item is in no ring, so the two are apart.
            unsafe { std::ptr::swap(slot, item) }
        });
        self.put = self.put.wrapping_add(1);
        true
    }

    /// Lets the other end hear of all that was put in.
    pub fn publish(&mut self) {
        if self.published != self.put {
            self.published = self.put;
            self.ring.put.0.store(self.put, Ordering::Release);
        }
    }
}

impl<T: Send> SpscOut<T> {
    /// Takes the oldest item out and leaves this empty one in its place; false (and nothing changed)
    /// when the ring is empty.
    #[must_use]
    pub fn take(&mut self, item: &mut T) -> bool {
        let is_taken = self.take_ahead(item);
        if is_taken {
            self.release();
        }
        is_taken
    }

    /// The same, but the other end hears of the place at the next [`SpscOut::release`].
    #[must_use]
    pub fn take_ahead(&mut self, item: &mut T) -> bool {
        if self.taken == self.seen_put {
            self.seen_put = self.ring.put.0.load(Ordering::Acquire);
            if self.taken == self.seen_put {
                return false;
            }
        }
        let slots = &self.ring.slots;
        slots[self.taken & (slots.len() - 1)].with_mut(|slot| {
            // SAFETY: the slot is between what was taken and what the other end has said that it put, so
            // it is the consumer's, and there is one consumer, held by `&mut self`. The index is below
            // the length, a power of two. The caller's item is in no ring, so the two are apart.
            unsafe { std::ptr::swap(slot, item) }
        });
        self.taken = self.taken.wrapping_add(1);
        true
    }

    /// Lets the other end hear of all places that were emptied.
    pub fn release(&mut self) {
        if self.released != self.taken {
            self.released = self.taken;
            self.ring.taken.0.store(self.taken, Ordering::Release);
        }
    }

    /// Is there nothing to take?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken == self.seen_put && self.taken == self.ring.put.0.load(Ordering::Acquire)
    }
}
