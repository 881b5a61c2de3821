//! Delays of one kind by one source, window by window. Knows nanoseconds and windows; refuses to know of what.

use super::histogram::{Histogram, Precision, Quantiles};
use super::limits::{Limits, STEPS_MAX};
use super::step::{Detector, Step};
use catena_model::telemetry::Source;
use std::collections::VecDeque;

/// Delays of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Which one, in windows from the start of time.
    pub window: u64,
    /// What was seen.
    pub quantiles: Quantiles,
}

/// What is known of a delay. Quantiles are told to 1/64, and engines classify to 1/8 before that (`ServiceTime`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayFigures {
    /// By what it was measured.
    pub source: Source,
    /// Over all closed windows.
    pub all: Quantiles,
    /// Window by window, the oldest first; those without samples are missing.
    pub windows: Vec<Window>,
    /// Steps that were told, the oldest first.
    pub steps: Vec<Step>,
    /// Windows of which nothing is told, as clocks that should agree did not.
    pub spoiled: u64,
}

/// One series.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// The window that is open.
    window: u64,
    current: Histogram,
    is_spoiled: bool,
    /// Closed windows together.
    all: Histogram,
    closed: VecDeque<Window>,
    detector: Detector,
    steps: VecDeque<Step>,
    spoiled: u64,
    let_go: u64,
}

impl Series {
    fn new(limits: &Limits) -> Self {
        Self {
            window: 0,
            current: Histogram::new(Precision::Fine),
            is_spoiled: false,
            all: Histogram::new(Precision::Fine),
            closed: VecDeque::with_capacity(limits.windows.max(1)),
            detector: Detector::new(),
            steps: VecDeque::with_capacity(STEPS_MAX),
            spoiled: 0,
            let_go: 0,
        }
    }

    /// Closes the open window when it is over.
    fn roll(&mut self, window: u64, limits: &Limits) {
        if window <= self.window {
            return;
        }
        let (ended, is_spoiled) = (self.window, std::mem::take(&mut self.is_spoiled));
        self.window = window;
        if is_spoiled {
            self.spoiled = self.spoiled.saturating_add(1);
        } else if let Some(quantiles) = self.current.quantiles() {
            self.all.merge(&self.current);
            if self.closed.len() >= limits.windows.max(1) {
                self.closed.pop_front();
                self.let_go = self.let_go.saturating_add(1);
            }
            self.closed.push_back(Window { window: ended, quantiles });
            if let Some(step) = self.detector.judge(ended, &quantiles) {
                if self.steps.len() == STEPS_MAX {
                    self.steps.pop_front();
                    self.let_go = self.let_go.saturating_add(1);
                }
                self.steps.push_back(step);
            }
        }
        self.current.clear();
    }
}

/// Series of one kind, by source. Room is made by the first sample.
#[derive(Clone, Debug, Default)]
pub(super) struct BySource([Option<Box<Series>>; Source::ALL.len()]);

impl BySource {
    fn open(&mut self, source: Source, window: u64, limits: &Limits) -> Option<&mut Series> {
        let series = self.0.get_mut(source as usize)?;
        let series = series.get_or_insert_with(|| Box::new(Series::new(limits)));
        series.roll(window, limits);
        Some(series)
    }

    /// So many took so long; none: longer than can be told.
    pub(super) fn note(
        &mut self,
        source: Source,
        window: u64,
        (ns, times): (Option<u64>, u64),
        limits: &Limits,
    ) {
        let Some(series) = self.open(source, window, limits) else { return };
        match ns {
            Some(ns) => series.current.note(ns, times),
            None => series.current.note_longer(times),
        }
    }

    /// The open window is told no more: some of its samples would be missing, and not by chance.
    pub(super) fn spoil(&mut self, source: Source, window: u64, limits: &Limits) {
        if let Some(series) = self.open(source, window, limits) {
            series.is_spoiled = true;
        }
    }

    /// What is known; sources that told nothing are missing.
    pub(super) fn figures(&mut self, window: u64, limits: &Limits) -> Vec<DelayFigures> {
        let mut figures = Vec::new();
        for (series, source) in self.0.iter_mut().zip(Source::ALL) {
            let Some(series) = series else { continue };
            series.roll(window, limits);
            let Some(all) = series.all.quantiles() else { continue };
            figures.push(DelayFigures {
                source,
                all,
                windows: series.closed.iter().copied().collect(),
                steps: series.steps.iter().copied().collect(),
                spoiled: series.spoiled,
            });
        }
        figures
    }

    /// Windows and steps that were let go.
    pub(super) fn let_go(&self) -> u64 {
        self.0.iter().flatten().fold(0, |sum, series| sum.saturating_add(series.let_go))
    }
}
