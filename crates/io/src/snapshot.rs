//! Immutable tables, published to running workers by one pointer swap. Knows when a reader has
//! moved on: at its batch boundary; refuses to know what is published.

use std::sync::Arc;

use arc_swap::ArcSwap;

/// The one who publishes. It keeps replaced values until no reader holds them, so that they are
/// destroyed on its thread and never on that of a worker.
pub struct Publisher<T> {
    current: Arc<ArcSwap<T>>,
    retired: Vec<Arc<T>>,
}

impl<T> Publisher<T> {
    /// Publishes the first value.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(value)), retired: Vec::new() }
    }

    /// A reader, which holds the value published last.
    #[must_use]
    pub fn reader(&self) -> Reader<T> {
        Reader { current: Arc::clone(&self.current), held: self.current.load_full() }
    }

    /// The value published last.
    #[must_use]
    pub fn latest(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Replaces the value for all readers, each from its next batch on.
    pub fn publish(&mut self, value: T) {
        self.retired.push(self.current.swap(Arc::new(value)));
        self.collect();
    }

    /// Destroys replaced values that nobody holds any more; tells how many are still held.
    pub fn collect(&mut self) -> usize {
        self.retired.retain(|value| Arc::strong_count(value) > 1);
        self.retired.len()
    }
}

/// One who works with the published value. Each worker has its own.
pub struct Reader<T> {
    current: Arc<ArcSwap<T>>,
    held: Arc<T>,
}

impl<T> Reader<T> {
    /// Moves on to the value published last: to be called between two batches, without a lock.
    pub fn refresh(&mut self) -> &T {
        let latest = self.current.load();
        if !Arc::ptr_eq(&latest, &self.held) {
            self.held = Arc::clone(&latest);
        }
        &self.held
    }

    /// The value of this batch.
    #[must_use]
    pub fn held(&self) -> &T {
        &self.held
    }

    /// The value of this batch, to be kept beyond it; whoever keeps it may be its last owner.
    #[must_use]
    pub fn share(&self) -> Arc<T> {
        Arc::clone(&self.held)
    }
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self { current: Arc::clone(&self.current), held: Arc::clone(&self.held) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread::{self, ThreadId};

    use super::*;

    #[test]
    fn a_reader_sees_a_new_value_only_after_its_batch() {
        let mut publisher = Publisher::new(1);
        let mut reader = publisher.reader();
        publisher.publish(2);
        assert_eq!(*reader.held(), 1);
        assert_eq!(*reader.refresh(), 2);
        assert_eq!((*reader.held(), *publisher.latest()), (2, 2));
    }

    #[test]
    fn a_replaced_value_lives_exactly_as_long_as_a_reader_holds_it() {
        let mut publisher = Publisher::new("first");
        let mut slow = publisher.reader();
        let mut quick = slow.clone();
        publisher.publish("second");
        publisher.publish("third");
        assert_eq!(*quick.refresh(), "third");
        assert_eq!(publisher.collect(), 1);
        assert_eq!(*slow.held(), "first");
        slow.refresh();
        assert_eq!(publisher.collect(), 0);
    }

    /// Notes the thread that destroys it.
    struct Marked<'note>(&'note Mutex<Vec<ThreadId>>);

    impl Drop for Marked<'_> {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(thread::current().id());
        }
    }

    #[test]
    fn values_die_on_the_thread_of_the_publisher_and_every_reader_reaches_the_last() {
        const VALUES: usize = 2_000;
        let deaths = Mutex::new(Vec::new());
        let mut publisher = Publisher::new((0, Marked(&deaths)));
        thread::scope(|scope| {
            for _ in 0..2 {
                let mut reader = publisher.reader();
                scope.spawn(move || {
                    let mut seen = 0;
                    while seen < VALUES {
                        let number = reader.refresh().0;
                        assert!(number >= seen, "a reader went back");
                        seen = number;
                    }
                });
            }
            for number in 1..=VALUES {
                publisher.publish((number, Marked(&deaths)));
            }
            while publisher.collect() > 0 {
                thread::yield_now();
            }
        });
        let deaths = deaths.lock().unwrap();
        assert_eq!(deaths.len(), VALUES);
        assert!(deaths.iter().all(|id| *id == thread::current().id()));
    }
}
