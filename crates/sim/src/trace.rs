//! What happened, in words: the last events for people, and one number for all of them, by which
//! two runs are found equal. Knows no event.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Events kept for the report of a failure.
const EVENTS_KEPT: usize = 40;

/// A run so far.
#[derive(Debug)]
pub(crate) struct Trace {
    events: u64,
    digest: u64,
    last: VecDeque<String>,
    now: Duration,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self {
            events: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            last: VecDeque::new(),
            now: Duration::ZERO,
        }
    }

    pub(crate) fn set_time(&mut self, now: Duration) {
        self.now = now;
    }

    pub(crate) fn note(&mut self, words: impl fmt::Display) {
        let line = format!("{:>9.4} s  {words}", self.now.as_secs_f64());
        self.events += 1;
        // FNV-1a, as elsewhere: for equality, not against forgery.
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.last.len() == EVENTS_KEPT {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn last(&self) -> Vec<String> {
        self.last.iter().cloned().collect()
    }
}
