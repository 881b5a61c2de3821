//! Packets that came to the end of their path, on their way to the agent. Knows how many wait for one; refuses to know
//! what they say.

use super::Control;
use crate::engine::RecordLosses;
use crate::shell::order::ToldEnds;
use catena_protocol::message::{self, PathEndsLost, from_dataplane};
use catena_protocol::telemetry::pack_end;
use catena_protocol::waiting_ends::WaitingEnds;
use std::collections::BTreeMap;

/// What this thread knows of them.
#[derive(Debug, Default)]
pub(super) struct EndsForAgent {
    waiting: WaitingEnds,
    /// What each worker's engine has lost, as it told last.
    lost_in_engines: BTreeMap<usize, RecordLosses>,
    lost: u64,
    /// The agent does not know of it.
    is_loss_news: bool,
}

impl EndsForAgent {
    /// Takes what a worker tells.
    fn take(&mut self, worker: usize, told: &ToldEnds) {
        let former = self.lost_in_engines.insert(worker, told.lost_in_engine);
        self.is_loss_news |= former != Some(told.lost_in_engine);
        for end in &told.ends {
            let packed = message::PathEnd { header: end.header.clone(), ..pack_end(&end.end) };
            self.lost = self.lost.saturating_add(self.waiting.add(packed));
        }
    }

    /// The next message; none: there is nothing to tell.
    fn next(&mut self) -> Option<message::PathEnds> {
        if self.waiting.is_empty() && !self.is_loss_news {
            return None;
        }
        self.is_loss_news = false;
        let sum = |of: fn(&RecordLosses) -> u64| {
            self.lost_in_engines.values().map(of).fold(0, u64::saturating_add)
        };
        let lost = PathEndsLost {
            engine: sum(|lost| lost.untold),
            unplaced: sum(|lost| lost.unplaced),
            strayed: sum(|lost| lost.strayed),
            dataplane: self.lost,
            ..PathEndsLost::default()
        };
        Some(message::PathEnds { first: 0, ends: self.waiting.take(), lost: Some(lost) })
    }

    /// A message did not come to an agent.
    fn lose(&mut self, ends: usize) {
        self.is_loss_news = true;
        self.lost = self.lost.saturating_add(u64::try_from(ends).unwrap_or(u64::MAX));
    }
}

impl Control {
    /// Takes what a worker tells of the packets that it has brought to their ends.
    pub(super) fn take_path_ends(&mut self, worker: usize, told: &ToldEnds) {
        self.path_ends.take(worker, told);
    }

    /// Sends what waits, as long as there is an agent that reads: nothing else waits behind more than one message.
    pub(super) fn pass_path_ends(&mut self) {
        while let Some(agent) = self.agent.as_mut().filter(|agent| agent.is_reading()) {
            let Some(message) = self.path_ends.next() else { return };
            let ends = message.ends.len();
            if let Err(end) = agent.send(from_dataplane::Message::PathEnds(message)) {
                tracing::info!("{end}; the data plane goes on");
                self.agent = None;
                self.path_ends.lose(ends);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ToldEnd;
    use catena_model::PathId;
    use catena_model::limits::{PATH_ENDS_MESSAGE_MAX, PATH_ENDS_WAITING_MAX};
    use catena_model::telemetry::{FlowName, HopReport, PathEnd, ReportReason};
    use std::sync::Arc;

    fn told(flows: std::ops::Range<usize>, lost_in_engine: u64) -> ToldEnds {
        let end = |flow| ToldEnd {
            end: PathEnd {
                path: PathId(1),
                flow: FlowName(flow as u64),
                reason: ReportReason::Sampled,
                is_incomplete: false,
                hops: vec![HopReport::Silent],
            },
            header: vec![0x60, 1],
        };
        let lost_in_engine = RecordLosses { untold: lost_in_engine, unplaced: 1, strayed: 2 };
        ToldEnds { ends: flows.map(end).collect(), lost_in_engine, _untaken: Arc::default() }
    }

    #[test]
    fn what_waits_goes_in_messages_and_what_was_lost_is_told_by_where() {
        let mut ends = EndsForAgent::default();
        assert_eq!(ends.next(), None);
        ends.take(0, &told(0..PATH_ENDS_WAITING_MAX, 5));
        ends.take(1, &told(0..2, 7));
        ends.take(1, &told(0..1, 9));
        let first = ends.next().unwrap();
        let told = first.lost.unwrap();
        assert_eq!((told.engine, told.dataplane, told.agent), (5 + 9, 3, 0));
        assert_eq!((told.unplaced, told.strayed), (2, 4));
        assert_eq!((first.ends.len(), first.ends[0].flow), (PATH_ENDS_MESSAGE_MAX, 3));
        assert_eq!(first.ends[0].header, [0x60, 1]);
        ends.lose(first.ends.len());
        let mut rest = 0;
        while let Some(more) = ends.next() {
            rest += more.ends.len();
            assert_eq!(more.lost.unwrap().dataplane, 3 + PATH_ENDS_MESSAGE_MAX as u64);
        }
        assert_eq!(rest, PATH_ENDS_WAITING_MAX - PATH_ENDS_MESSAGE_MAX);
    }

    #[test]
    fn what_was_lost_is_told_though_nothing_waits_and_once() {
        let mut ends = EndsForAgent::default();
        ends.take(0, &told(0..0, 3));
        let only = ends.next().unwrap();
        assert_eq!((only.ends.len(), only.lost.unwrap().engine), (0, 3));
        assert_eq!(ends.next(), None);
        ends.take(0, &told(0..0, 3));
        assert_eq!(ends.next(), None, "it is known");
        ends.take(0, &told(0..0, 4));
        assert_eq!(ends.next().unwrap().lost.unwrap().engine, 4);
    }
}
