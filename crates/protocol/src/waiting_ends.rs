//! Packets that came to the end of their path and wait to be told of. Knows how many there is room for; refuses to
//! know who tells them to whom.
//!
//! Where there is no room the oldest go: what happened last says more.

use crate::message::PathEnd;
use catena_model::limits::{
    PATH_ENDS_MESSAGE_MAX, PATH_ENDS_WAITING_HOPS_MAX, PATH_ENDS_WAITING_MAX,
};
use std::collections::VecDeque;

/// Those that wait, the oldest first.
#[derive(Debug, Default)]
pub struct WaitingEnds {
    ends: VecDeque<PathEnd>,
    hops: usize,
}

impl WaitingEnds {
    /// Adds one; answers how many had to go for that.
    pub fn add(&mut self, end: PathEnd) -> u64 {
        self.hops = self.hops.saturating_add(end.hops.len());
        self.ends.push_back(end);
        let mut gone = 0;
        while self.ends.len() > PATH_ENDS_WAITING_MAX || self.hops > PATH_ENDS_WAITING_HOPS_MAX {
            let Some(oldest) = self.ends.pop_front() else { break };
            self.hops = self.hops.saturating_sub(oldest.hops.len());
            gone += 1;
        }
        gone
    }

    /// The oldest, as many as one message has.
    pub fn take(&mut self) -> Vec<PathEnd> {
        let count = self.ends.len().min(PATH_ENDS_MESSAGE_MAX);
        let taken: Vec<PathEnd> = self.ends.drain(..count).collect();
        let hops = taken.iter().map(|end| end.hops.len()).sum();
        self.hops = self.hops.saturating_sub(hops);
        taken
    }

    /// Lets all go; answers how many.
    pub fn clear(&mut self) -> u64 {
        let gone = self.ends.len();
        self.ends.clear();
        self.hops = 0;
        u64::try_from(gone).unwrap_or(u64::MAX)
    }

    /// Does none wait?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::HopEnd;

    fn end(flow: u64, hops: usize) -> PathEnd {
        PathEnd { flow, hops: vec![HopEnd::default(); hops], ..PathEnd::default() }
    }

    fn flows(mut waiting: WaitingEnds) -> Vec<u64> {
        let mut told = Vec::new();
        while !waiting.is_empty() {
            let message = waiting.take();
            assert!(message.len() <= PATH_ENDS_MESSAGE_MAX);
            told.extend(message.iter().map(|end| end.flow));
        }
        assert_eq!(waiting.hops, 0);
        told
    }

    #[test]
    fn where_there_is_no_room_the_oldest_go() {
        let all = PATH_ENDS_WAITING_MAX as u64;
        let mut waiting = WaitingEnds::default();
        let gone: u64 = (0..all + 3).map(|flow| waiting.add(end(flow, 1))).sum();
        assert_eq!(gone, 3);
        assert_eq!(flows(waiting), (3..all + 3).collect::<Vec<u64>>());
    }

    #[test]
    fn long_paths_have_room_for_fewer_packets() {
        let mut waiting = WaitingEnds::default();
        let fit = PATH_ENDS_WAITING_HOPS_MAX / 64;
        let gone: u64 = (0..fit as u64).map(|flow| waiting.add(end(flow, 64))).sum();
        assert_eq!(gone, 0);
        assert_eq!(waiting.add(end(9_999, 65)), 2);
        assert_eq!(flows(waiting).len(), fit - 1);
    }

    #[test]
    fn one_that_has_no_room_at_all_goes_with_all_before_it() {
        let mut waiting = WaitingEnds::default();
        waiting.add(end(1, 1));
        assert_eq!(waiting.add(end(2, PATH_ENDS_WAITING_HOPS_MAX + 1)), 2);
        assert!(waiting.is_empty() && waiting.hops == 0);
        assert_eq!(waiting.add(end(3, 1)), 0);
        assert_eq!(waiting.clear(), 1);
        assert!(waiting.is_empty() && waiting.hops == 0);
    }
}
