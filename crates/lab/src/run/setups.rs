//! How set-ups of flows went in a run, by the counters of data planes. Knows sums and ranks; refuses to know who
//! answered. Pure.

use super::evidence::RunEvidence;
use super::report::table;
use super::southbound::{SouthboundEvidence, Watched};
use crate::vocabulary::Metric;
use catena_model::setup::{ChainSetups, Durations, SetupCounters};
use comfy_table::Table;
use serde::Serialize;

/// Thousandths that the last rank tells of.
const P99: u64 = 990;
const P50: u64 = 500;

/// A part of the set-ups of one run, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SetupTimes {
    /// The mean.
    pub mean: f64,
    /// What half of them did not exceed, a quarter too high at most.
    pub p50: f64,
    /// What 99 of a hundred did not exceed, a quarter too high at most.
    pub p99: f64,
}

/// The set-ups of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetupEvidence {
    /// Flows, and how they were answered.
    pub flows: ChainSetups,
    /// From the first packet to its release.
    pub whole: SetupTimes,
    /// Of that: making the header.
    pub header: SetupTimes,
    /// What else the controller did.
    pub controller: SetupTimes,
    /// On the way from the data plane to the controller and back.
    pub channel: SetupTimes,
    /// In the data plane.
    pub edge: SetupTimes,
    /// What went between edges and controller meanwhile, where it was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub southbound: Option<SouthboundEvidence>,
}

impl SetupEvidence {
    /// What was counted between two moments; none: no flow was set up, or a data plane was started anew.
    pub(super) fn between(then: &SetupCounters, now: &SetupCounters) -> Option<Self> {
        let sum = |counters: &SetupCounters| {
            let mut all = ChainSetups::default();
            counters.chains.values().for_each(|one| all.merge(one));
            all
        };
        // The chain of a run is another than those before, whose counts go with them.
        let (then_flows, now_flows) = (sum(then), sum(now));
        let known = then.chains.iter().filter(|(chain, _)| now.chains.contains_key(chain)).count();
        let flows = if known == 0 { now_flows } else { less(now_flows, then_flows)? };
        let part = |of: fn(&SetupCounters) -> &Durations| times(of(then), of(now));
        Some(Self {
            flows,
            whole: part(|counters| &counters.whole)?,
            header: part(|counters| &counters.header)?,
            controller: part(|counters| &counters.controller)?,
            channel: part(|counters| &counters.channel)?,
            edge: part(|counters| &counters.edge)?,
            southbound: None,
        })
    }

    /// The same with what went between edges and controller meanwhile.
    pub(super) fn beside(mut self, watched: Option<Watched>) -> Self {
        self.southbound = watched.and_then(|watched| watched.by_flow(self.flows.answered));
        self
    }
}

fn less(now: ChainSetups, then: ChainSetups) -> Option<ChainSetups> {
    Some(ChainSetups {
        asked: now.asked.checked_sub(then.asked)?,
        asked_again: now.asked_again.checked_sub(then.asked_again)?,
        answered: now.answered.checked_sub(then.answered)?,
        unfit: now.unfit.checked_sub(then.unfit)?,
        unanswered: now.unanswered.checked_sub(then.unanswered)?,
        held: now.held.checked_sub(then.held)?,
    })
}

#[allow(clippy::cast_precision_loss, reason = "durations of a run are far below 2^52 ns")]
fn times(then: &Durations, now: &Durations) -> Option<SetupTimes> {
    let mut since = Durations {
        count: now.count.checked_sub(then.count).filter(|count| *count > 0)?,
        sum_ns: now.sum_ns.checked_sub(then.sum_ns)?,
        max_ns: now.max_ns,
        steps: now.steps.clone(),
    };
    for (step, count) in &then.steps {
        let own = since.steps.get_mut(step)?;
        *own = own.checked_sub(*count)?;
    }
    let us = |ns: u64| ns as f64 / 1e3;
    Some(SetupTimes {
        mean: us(since.sum_ns) / since.count as f64,
        p50: us(since.permille(P50)?),
        p99: us(since.permille(P99)?),
    })
}

/// What a metric of set-ups is over all runs, or those of one chain: the worst.
#[allow(clippy::cast_precision_loss, reason = "flows of a run are far below 2^52")]
pub(super) fn measured<'r>(
    runs: impl Iterator<Item = &'r RunEvidence>,
    metric: Metric,
    subject: Option<&str>,
) -> Result<f64, String> {
    let is_about =
        |run: &&RunEvidence| subject.is_none_or(|name| run.chain.as_deref() == Some(name));
    let of = runs.filter(is_about).filter_map(|run| run.setups.as_ref());
    let worst = of.filter_map(|setups| match metric {
        Metric::SetupHeader => Some(setups.header.p99),
        Metric::SetupEdge => Some(setups.edge.p99),
        Metric::Unset => {
            Some((setups.flows.asked - setups.flows.answered.min(setups.flows.asked)) as f64)
        }
        Metric::SouthboundUp => Some(setups.southbound?.up_bytes),
        Metric::SouthboundDown => Some(setups.southbound?.down_bytes),
        _ => Some(setups.whole.p99),
    });
    worst.reduce(f64::max).ok_or_else(|| "was not measured".to_owned())
}

/// A row for each run that set flows up; none: no run did.
pub(super) fn setups_table(runs: &[RunEvidence]) -> Option<Table> {
    let header = [
        "set-up",
        "flows",
        "asked again",
        "whole µs p50",
        "p99",
        "header",
        "controller",
        "channel",
        "edge µs (means)",
        "bytes up",
        "down",
    ];
    let mut shown = table(&header);
    let mut has_rows = false;
    for (run, setups) in runs.iter().filter_map(|run| Some((run, run.setups.as_ref()?))) {
        let us = |value: f64| format!("{value:.1}");
        let bytes = |of: fn(&SouthboundEvidence) -> f64| {
            setups.southbound.as_ref().map_or_else(|| "-".to_owned(), |it| format!("{:.0}", of(it)))
        };
        shown.add_row([
            run.case.clone(),
            setups.flows.asked.to_string(),
            setups.flows.asked_again.to_string(),
            us(setups.whole.p50),
            us(setups.whole.p99),
            us(setups.header.mean),
            us(setups.controller.mean),
            us(setups.channel.mean),
            us(setups.edge.mean),
            bytes(|it| it.up_bytes),
            bytes(|it| it.down_bytes),
        ]);
        has_rows = true;
    }
    has_rows.then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::super::southbound::tests::watched;
    use super::*;
    use serde_json::json;

    fn counters(chain: u8, whole_ns: &[u64]) -> SetupCounters {
        let mut counters = SetupCounters::default();
        let count = whole_ns.len() as u64;
        let flows = ChainSetups { asked: count, answered: count, ..ChainSetups::default() };
        let id = json!(format!("00000000-0000-0000-0000-0000000000{chain:02}"));
        counters.chains.insert(serde_json::from_value(id).unwrap(), flows);
        for part in [
            &mut counters.whole,
            &mut counters.header,
            &mut counters.controller,
            &mut counters.channel,
            &mut counters.edge,
        ] {
            whole_ns.iter().for_each(|ns| part.add(*ns));
        }
        counters
    }

    #[test]
    fn a_run_is_told_what_came_to_the_counters_in_it_and_nothing_else() {
        let before = counters(1, &[1_000_000; 50]);
        let mut after = before.clone();
        after.merge(&counters(1, &[4_000; 100]));
        let setups = SetupEvidence::between(&before, &after).unwrap();
        assert_eq!((setups.flows.asked, setups.whole.mean), (100, 4.0));
        assert!(setups.whole.p99 < 5.1, "{setups:?}");
        // Counts of a chain go with it, times stay.
        let mut next = counters(2, &[7_000; 10]);
        next.whole.merge(&before.whole);
        for (part, of) in [
            (&mut next.header, &before.header),
            (&mut next.controller, &before.controller),
            (&mut next.channel, &before.channel),
            (&mut next.edge, &before.edge),
        ] {
            part.merge(of);
        }
        let setups = SetupEvidence::between(&before, &next).unwrap();
        assert_eq!((setups.flows.asked, setups.edge.mean), (10, 7.0));
        assert_eq!(SetupEvidence::between(&after, &before), None, "another data plane counts");
        assert_eq!(SetupEvidence::between(&before, &before), None, "nothing was set up");
    }

    #[test]
    fn metrics_are_those_of_the_worst_run() {
        let run = |chain: &str, ns: u64, seen: Option<Watched>| {
            let mut run = RunEvidence::new(chain.into(), None, Some(chain.into()));
            let flows = counters(1, &[ns, ns]);
            let setups = SetupEvidence::between(&SetupCounters::default(), &flows);
            run.setups = setups.map(|setups| setups.beside(seen));
            run
        };
        let runs = [
            run("slow", 9_000, Some(watched(100, 80))),
            run("fast", 3_000, Some(watched(140, 60))),
            run("unseen", 3_000, None),
        ];
        let shown = setups_table(&runs).unwrap().to_string();
        let has = |text: &str| shown.lines().filter(|line| line.contains(text)).count();
        assert_eq!((has("70"), has(" - ")), (1, 1), "{shown}");
        let of = |metric, subject| measured(runs.iter(), metric, subject);
        assert_eq!(of(Metric::SouthboundUp, None), Ok(70.0));
        assert_eq!(of(Metric::SouthboundDown, Some("slow")), Ok(40.0));
        assert_eq!(of(Metric::SouthboundUp, Some("unseen")), Err("was not measured".to_owned()));
        assert_eq!(of(Metric::Setup, None), Ok(9.0));
        assert_eq!(of(Metric::SetupEdge, Some("fast")), Ok(3.0));
        assert_eq!(of(Metric::Unset, None), Ok(0.0));
        assert!(of(Metric::SetupHeader, Some("none")).is_err());
    }
}
