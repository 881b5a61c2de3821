//! One direction between two threads: a ring of buffers with one producer and one consumer.
//! Nothing is copied and no buffer changes its pool's count: a full one and an empty one change
//! places. Refuses to know what is in them.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::buffer::{Buffer, BufferPool};

/// A counter in a cache line of its own: the two sides write one each.
#[repr(align(64))]
struct Count(AtomicUsize);

struct Lane {
    slots: Box<[UnsafeCell<Buffer>]>,
    /// Buffers put in since the start; the producer's.
    put: Count,
    /// Buffers taken out since the start; the consumer's.
    taken: Count,
}

// SAFETY: a slot is reached by one side at a time, as the two counts say: the producer reaches those
// that are not between `taken` and `put`, the consumer those that are. Each count is written by one
// side, after it is done with the slot (release), and read by the other before it begins (acquire).
unsafe impl Sync for Lane {}

/// The end that puts in.
pub(crate) struct LaneIn(Arc<Lane>);

/// The end that takes out.
pub(crate) struct LaneOut(Arc<Lane>);

/// Both ends of a lane for so many buffers, a power of two.
pub(crate) fn lane(slots: usize) -> (LaneIn, LaneOut) {
    let slots = slots.next_power_of_two();
    let mut pool = BufferPool::new(slots);
    let buffers = std::iter::from_fn(|| pool.take()).map(UnsafeCell::new);
    let count = || Count(AtomicUsize::new(0));
    let lane = Arc::new(Lane { slots: buffers.collect(), put: count(), taken: count() });
    (LaneIn(Arc::clone(&lane)), LaneOut(lane))
}

impl LaneIn {
    /// Puts the buffer in and leaves an old one in its place; false (and nothing changed) when the
    /// lane is full.
    pub(crate) fn put(&mut self, buffer: &mut Buffer) -> bool {
        let Lane { slots, put, taken } = &*self.0;
        let next = put.0.load(Ordering::Relaxed);
        if next.wrapping_sub(taken.0.load(Ordering::Acquire)) == slots.len() {
            return false;
        }
        // SAFETY: the slot is not between `taken` and `put`, so it is the producer's, and there is
        // one producer, held by `&mut self`. The index is below the length, a power of two.
        // The caller's buffer is in no lane, so the two are apart.
        unsafe { std::ptr::swap(slots[next & (slots.len() - 1)].get(), buffer) };
        put.0.store(next.wrapping_add(1), Ordering::Release);
        true
    }
}

impl LaneOut {
    /// Takes the oldest buffer out and leaves this one in its place; false (and nothing changed)
    /// when the lane is empty.
    pub(crate) fn take(&mut self, buffer: &mut Buffer) -> bool {
        let Lane { slots, put, taken } = &*self.0;
        let next = taken.0.load(Ordering::Relaxed);
        if next == put.0.load(Ordering::Acquire) {
            return false;
        }
        // SAFETY: the slot is between `taken` and `put`, so it is the consumer's, and there is one
        // consumer, held by `&mut self`. The index is below the length, a power of two.
        // The caller's buffer is in no lane, so the two are apart.
        unsafe { std::ptr::swap(slots[next & (slots.len() - 1)].get(), buffer) };
        taken.0.store(next.wrapping_add(1), Ordering::Release);
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.taken.0.load(Ordering::Relaxed) == self.0.put.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_buffers_cross_between_threads_in_order_and_none_is_lost() {
        const COUNT: u32 = 1_000_000;
        let (mut into, mut out) = lane(64);
        let sender = std::thread::spawn(move || {
            let mut pool = BufferPool::new(1);
            let mut buffer = pool.take().unwrap();
            for number in 0..COUNT {
                assert!(buffer.fill(&number.to_ne_bytes()));
                while !into.put(&mut buffer) {
                    std::thread::yield_now();
                }
            }
        });
        let mut pool = BufferPool::new(1);
        let mut buffer = pool.take().unwrap();
        for number in 0..COUNT {
            while !out.take(&mut buffer) {
                std::thread::yield_now();
            }
            assert_eq!(buffer.bytes(), number.to_ne_bytes());
        }
        sender.join().unwrap();
        assert!(out.is_empty());
        assert!(!out.take(&mut buffer));
    }

    #[test]
    fn a_full_lane_takes_nothing_and_keeps_what_it_has() {
        let (mut into, mut out) = lane(3);
        let mut pool = BufferPool::new(1);
        let mut buffer = pool.take().unwrap();
        for number in 0..6_u8 {
            assert!(buffer.fill(&[number]));
            assert_eq!(into.put(&mut buffer), number < 4, "four slots: the next power of two");
        }
        assert_eq!(buffer.bytes(), [5]);
        for number in 0..4_u8 {
            assert!(out.take(&mut buffer));
            assert_eq!(buffer.bytes(), [number]);
        }
        assert!(!out.take(&mut buffer));
    }
}
