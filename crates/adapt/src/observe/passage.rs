//! What came to a hop, and what of it did not come to the next one, window by window. Knows counts; refuses to know
//! flows.

use super::flow::Losses;
use super::limits::Limits;
use super::marks::Advance;
use catena_model::telemetry::Source;
use std::collections::VecDeque;

/// What happened in a window, as far as reports in it tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassageWindow {
    /// Which one, in windows from the start of time.
    pub window: u64,
    /// Packets that came, of flows that are known one by one: off by what comes between two reports of each.
    pub passed: Option<u64>,
    /// What of them was lost.
    pub losses: Option<Losses>,
    /// Differences of reports that the packets stand on.
    pub samples: u64,
}

/// What is known of a hop by the counters in packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassageFigures {
    /// Whence it is.
    pub source: Source,
    /// Since the path is watched.
    pub losses: Option<Losses>,
    /// Window by window, the oldest first; those without samples are missing.
    pub windows: Vec<PassageWindow>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    passed: i64,
    samples: u64,
    lost: i64,
    loss_samples: u64,
}

impl Sum {
    fn add(&mut self, advance: Advance) {
        if let Some((packets, _)) = advance.passed {
            self.passed = self.passed.saturating_add(i64::from(packets));
            self.samples += 1;
        }
        if let Some(lost) = advance.lost {
            self.lost = self.lost.saturating_add(i64::from(lost));
            self.loss_samples += 1;
        }
    }

    const fn is_empty(&self) -> bool {
        self.samples == 0 && self.loss_samples == 0
    }
}

/// One hop.
#[derive(Clone, Debug, Default)]
pub(super) struct Passage {
    window: u64,
    current: Sum,
    all: Sum,
    closed: VecDeque<PassageWindow>,
    pub(super) let_go: u64,
}

impl Passage {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { closed: VecDeque::with_capacity(limits.windows.max(1)), ..Self::default() }
    }

    pub(super) fn note(&mut self, window: u64, advance: Advance, limits: &Limits) {
        self.roll(window, limits);
        self.current.add(advance);
        self.all.add(advance);
    }

    fn roll(&mut self, window: u64, limits: &Limits) {
        if window <= self.window {
            return;
        }
        let (ended, sum) = (self.window, std::mem::take(&mut self.current));
        self.window = window;
        if sum.is_empty() {
            return;
        }
        if self.closed.len() >= limits.windows.max(1) {
            self.closed.pop_front();
            self.let_go = self.let_go.saturating_add(1);
        }
        self.closed.push_back(PassageWindow {
            window: ended,
            passed: u64::try_from(sum.passed).ok().filter(|_| sum.samples > 0),
            losses: Losses::of(sum.lost, sum.loss_samples),
            samples: sum.samples,
        });
    }

    /// None: nothing is known.
    pub(super) fn figures(&mut self, window: u64, limits: &Limits) -> Option<PassageFigures> {
        self.roll(window, limits);
        let losses = Losses::of(self.all.lost, self.all.loss_samples);
        let windows = self.closed.iter().copied().collect();
        (!self.all.is_empty()).then_some(PassageFigures { source: Source::Packet, losses, windows })
    }
}
