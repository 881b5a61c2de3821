//! Rings and bells between threads: with real threads, and with every order in which two threads can
//! meet (loom), of the same source.
#![allow(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use catena_io::{Buffer, BufferPool, spsc_ring};

/// In place of `catena_io`'s own.
mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}

#[path = "../src/bell.rs"]
mod bell;
#[allow(unreachable_pub, reason = "it is public where it stands")]
#[path = "../src/spsc.rs"]
mod modelled;

fn buffers(count: usize) -> Vec<Buffer> {
    let mut pool = BufferPool::new(count);
    std::iter::from_fn(|| pool.take()).collect()
}

#[test]
fn a_million_buffers_cross_between_threads_in_order_and_none_is_lost() {
    const COUNT: u32 = 1_000_000;
    let (mut into, mut out) = spsc_ring(buffers(64));
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
fn a_full_ring_takes_nothing_and_keeps_what_it_has() {
    let (mut into, mut out) = spsc_ring(buffers(5));
    let mut pool = BufferPool::new(1);
    let mut buffer = pool.take().unwrap();
    for number in 0..6_u8 {
        assert!(buffer.fill(&[number]));
        assert_eq!(into.put(&mut buffer), number < 4, "four slots: the power of two below");
    }
    assert_eq!(buffer.bytes(), [5]);
    for number in 0..4_u8 {
        assert!(out.take(&mut buffer));
        assert_eq!(buffer.bytes(), [number]);
    }
    assert!(!out.take(&mut buffer));
}

#[test]
fn in_every_order_of_two_threads_a_ring_gives_each_item_once_and_in_turn() {
    loom::model(|| {
        let (mut into, mut out) = modelled::spsc_ring([0_u8; 2]);
        let sender = loom::thread::spawn(move || {
            for number in 1..=3 {
                let mut item = number;
                while !into.put(&mut item) {
                    loom::thread::yield_now();
                }
            }
        });
        for number in 1..=3 {
            let mut item = 0;
            while !out.take(&mut item) {
                loom::thread::yield_now();
            }
            assert_eq!(item, number);
        }
        sender.join().unwrap();
        assert!(out.is_empty());
    });
}

#[test]
fn what_was_put_in_ahead_is_heard_of_together_and_in_every_order() {
    loom::model(|| {
        let (mut into, mut out) = modelled::spsc_ring([0_u8; 2]);
        let sender = loom::thread::spawn(move || {
            for pair in [[1, 2], [3, 4]] {
                for mut item in pair {
                    while !into.put_ahead(&mut item) {
                        loom::thread::yield_now();
                    }
                }
                into.publish();
            }
        });
        for number in 1..=4 {
            let mut item = 0;
            while !out.take_ahead(&mut item) {
                loom::thread::yield_now();
            }
            assert_eq!(item, number);
            if number % 2 == 0 {
                assert!(number == 4 || out.is_empty(), "of no further pair is there room");
                out.release();
            }
        }
        sender.join().unwrap();
        assert!(out.is_empty());
    });
}

/// An event of the model: whoever waits for ever is found.
#[derive(Default)]
struct ModelEvent {
    is_set: loom::sync::Mutex<bool>,
    changed: loom::sync::Condvar,
}

impl ModelEvent {
    fn wait(&self) {
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.changed.wait(is_set).unwrap();
        }
    }
}

impl bell::Event for ModelEvent {
    fn set(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn reset(&self) {
        *self.is_set.lock().unwrap() = false;
    }
}

#[test]
fn in_every_order_of_two_threads_whoever_sleeps_is_woken() {
    loom::model(|| {
        let (mut into, mut out) = modelled::spsc_ring([0_u8; 4]);
        let rung = loom::sync::Arc::new(bell::Bell::new(ModelEvent::default()));
        let bell = loom::sync::Arc::clone(&rung);
        let sender = loom::thread::spawn(move || {
            // The third ring is the one that is lost when the second meets the silencing.
            for number in 1..=3 {
                let mut item = number;
                assert!(into.put(&mut item));
                bell.ring();
            }
        });
        let mut came = 0;
        while came < 3 {
            rung.event().wait();
            rung.silence();
            let mut item = 0;
            while out.take(&mut item) {
                came += 1;
                assert_eq!(item, came);
            }
        }
        sender.join().unwrap();
    });
}
