//! What is on its way up to the engine, by port: no port takes the places that others need. Knows
//! counts of frames; refuses to know how long a frame takes.
//!
//! A port may have as many frames on their way as places are free, times its weight: one alone of weight 1 half
//! of all, two that flood a third each, and there is always room for another. So they are served by
//! turns, whatever each sends, and who is alone is bounded by what the engine can do, not by a rate.

use crate::maps::SharedArray;
use crate::records::Queue;
use crate::tables::SETTING_WORDS;
use crate::tables::{halves, joined};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Words of a [`Queue`].
pub(crate) const QUEUE_WORDS: usize = size_of::<Queue>() / size_of::<u64>();
/// Number of the queue that is the sum of all.
const ALL: u16 = 0;

/// The queues of one node's program.
#[derive(Clone, Debug)]
pub struct Queues {
    rows: Arc<SharedArray<QUEUE_WORDS>>,
    settings: Arc<SharedArray<SETTING_WORDS>>,
}

impl Queues {
    pub(crate) fn new(
        rows: Arc<SharedArray<QUEUE_WORDS>>,
        settings: Arc<SharedArray<SETTING_WORDS>>,
    ) -> Self {
        Self { rows, settings }
    }

    /// From now on so many frames may be on their way at once, and none is yet; 0: as many as come,
    /// and they are not counted.
    pub fn limit(&self, frames: u32) {
        for number in 0..self.rows.rows() {
            self.settle(number as u16, u64::MAX);
        }
        let Some([_, second, _]) = self.settings.row(0) else { return };
        let limited = |word| Some(joined(halves(word).0, frames));
        // The closure always answers.
        let _ = second.fetch_update(Ordering::AcqRel, Ordering::Acquire, limited);
    }

    /// The queue of a port or of the underlay by its number; 0: of all together.
    #[must_use]
    pub fn of(&self, number: u16) -> Queue {
        let row = self.rows.row(usize::from(number));
        let Some([sent, served, weight, refused_packets, refused_bytes]) = row else {
            return Queue::default();
        };
        // In this order: what is served was sent before.
        let served = served.load(Ordering::Acquire);
        Queue {
            sent: sent.load(Ordering::Acquire),
            served,
            weight: weight.load(Ordering::Relaxed),
            refused_packets: refused_packets.load(Ordering::Relaxed),
            refused_bytes: refused_bytes.load(Ordering::Relaxed),
        }
    }

    /// How many frames a port may have on their way for each place that is free.
    pub fn weigh(&self, number: u16, weight: u64) {
        if let Some([_, _, word, ..]) = self.rows.row(usize::from(number)) {
            word.store(weight, Ordering::Relaxed);
        }
    }

    /// A frame of a port has come. Only one thread may say so, and [`Queues::settle`].
    pub fn serve(&self, number: u16) {
        for number in [number, ALL] {
            self.settle(number, self.of(number).served.saturating_add(1));
        }
    }

    /// What was sent until `sent` had reached this number is on its way no more: it came or is lost.
    pub fn settle(&self, number: u16, until: u64) {
        if let Some([sent, served, ..]) = self.rows.row(usize::from(number)) {
            let until = until.min(sent.load(Ordering::Acquire));
            // What came before there was a limit, or was given up, comes later nevertheless.
            served.fetch_max(until, Ordering::AcqRel);
        }
    }
}
