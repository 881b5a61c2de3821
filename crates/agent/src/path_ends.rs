//! Packets that came to the end of their path, on their way from the data plane to the controller. Knows how many wait,
//! which number each has, and whether the controller takes any; refuses to know what they say.
//!
//! Numbers count all that came while there was a controller that takes them, also those that had to go: by them it
//! knows how many it did not hear of.

use catena_model::telemetry::TELEMETRY_SINCE_PROTOCOL;
use catena_protocol::message::{PathEnds, PathEndsLost};
use catena_protocol::waiting_ends::WaitingEnds;

/// Those of a node.
#[derive(Debug, Default)]
pub(crate) struct EndsForController {
    /// There is a session with a controller that takes them.
    is_wanted: bool,
    waiting: WaitingEnds,
    /// The number of the first that waits.
    first: u64,
    /// What was lost in the data plane, as it told last.
    lost_before: PathEndsLost,
    /// The controller does not know of it.
    is_loss_news: bool,
    lost: u64,
    unwanted: u64,
}

impl EndsForController {
    /// A session has begun with a controller of this version of the protocol.
    pub(crate) fn begin(&mut self, protocol: u32) {
        self.end();
        self.first = 0;
        self.is_wanted = protocol >= TELEMETRY_SINCE_PROTOCOL;
        self.is_loss_news = self.lost_before != PathEndsLost::default();
    }

    /// The session is over.
    pub(crate) fn end(&mut self) {
        self.is_wanted = false;
        self.unwanted = self.unwanted.saturating_add(self.waiting.clear());
    }

    /// Takes what the data plane tells.
    pub(crate) fn take(&mut self, told: PathEnds) {
        let lost_before = told.lost.unwrap_or(self.lost_before);
        self.is_loss_news |= lost_before != self.lost_before;
        self.lost_before = lost_before;
        if !self.is_wanted {
            let count = u64::try_from(told.ends.len()).unwrap_or(u64::MAX);
            self.unwanted = self.unwanted.saturating_add(count);
            return;
        }
        for end in told.ends {
            let gone = self.waiting.add(end);
            self.first = self.first.saturating_add(gone);
            self.lost = self.lost.saturating_add(gone);
        }
    }

    /// The next message; none: there is nothing to tell.
    pub(crate) fn next(&mut self) -> Option<PathEnds> {
        if !self.is_waiting() {
            return None;
        }
        self.is_loss_news = false;
        let lost = PathEndsLost { agent: self.lost, unwanted: self.unwanted, ..self.lost_before };
        let (first, ends) = (self.first, self.waiting.take());
        self.first = first.saturating_add(u64::try_from(ends.len()).unwrap_or(u64::MAX));
        Some(PathEnds { first, ends, lost: Some(lost) })
    }

    /// Is there anything to tell?
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_wanted && (self.is_loss_news || !self.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::limits::{PATH_ENDS_MESSAGE_MAX, PATH_ENDS_WAITING_MAX};
    use catena_protocol::message::PathEnd;

    fn told(flows: std::ops::Range<u64>, engine: u64) -> PathEnds {
        let ends = flows.map(|flow| PathEnd { flow, ..PathEnd::default() }).collect();
        let lost = Some(PathEndsLost { engine, dataplane: 2, ..PathEndsLost::default() });
        PathEnds { first: 0, ends, lost }
    }

    /// Numbers and flows of all that goes out, and what was lost as the last message says.
    fn sent(ends: &mut EndsForController) -> (Vec<(u64, u64)>, PathEndsLost) {
        let (mut sent, mut lost) = (Vec::new(), PathEndsLost::default());
        while let Some(message) = ends.next() {
            assert!(message.ends.len() <= PATH_ENDS_MESSAGE_MAX);
            lost = message.lost.unwrap();
            sent.extend((message.first..).zip(message.ends.iter().map(|end| end.flow)));
        }
        (sent, lost)
    }

    #[test]
    fn numbers_go_on_over_messages_and_begin_with_each_session() {
        let mut ends = EndsForController::default();
        ends.begin(TELEMETRY_SINCE_PROTOCOL);
        ends.take(told(0..600, 0));
        let (first, _) = sent(&mut ends);
        assert_eq!(first, (0..600).map(|flow| (flow, flow)).collect::<Vec<_>>());
        ends.take(told(700..702, 0));
        assert_eq!(sent(&mut ends).0, [(600, 700), (601, 701)]);
        ends.begin(TELEMETRY_SINCE_PROTOCOL);
        ends.take(told(9..10, 0));
        assert_eq!(sent(&mut ends).0, [(0, 9)]);
    }

    #[test]
    fn what_had_to_go_leaves_its_numbers_out_and_is_told_by_where() {
        let mut ends = EndsForController::default();
        ends.begin(TELEMETRY_SINCE_PROTOCOL);
        let all = PATH_ENDS_WAITING_MAX as u64;
        ends.take(told(0..all + 10, 7));
        let (told, lost) = sent(&mut ends);
        assert_eq!(told, (10..all + 10).map(|flow| (flow, flow)).collect::<Vec<_>>());
        assert_eq!(
            lost,
            PathEndsLost { engine: 7, dataplane: 2, agent: 10, ..PathEndsLost::default() }
        );
    }

    #[test]
    fn a_controller_of_before_is_told_nothing() {
        let mut ends = EndsForController::default();
        ends.begin(TELEMETRY_SINCE_PROTOCOL - 1);
        ends.take(told(0..5, 0));
        assert!(!ends.is_waiting());
        assert_eq!(ends.next(), None);
        // Those of between two sessions are nobody's either, and of one that has ended what still waited.
        ends.begin(TELEMETRY_SINCE_PROTOCOL);
        ends.take(told(5..7, 0));
        ends.end();
        ends.take(told(7..8, 0));
        assert_eq!(ends.next(), None);
        ends.begin(TELEMETRY_SINCE_PROTOCOL);
        ends.take(told(8..9, 0));
        let (told, lost) = sent(&mut ends);
        assert_eq!((told, lost.unwanted), (vec![(0, 8)], 5 + 2 + 1));
    }
}
