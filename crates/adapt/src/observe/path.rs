//! A path that is watched: what its packets say, added up. Knows which report is of it and what it adds; refuses to
//! know how much a node may say.

use super::figures::{HopFigures, HopTaken, PathFigures, PathLetGo, Taken, VisitFigures};
use super::flow::{Flows, Heard};
use super::limits::{DELAYS_PER_REPORT_MAX, Limits};
use super::marks::At;
use super::passage::Passage;
use super::refusal::Refusal;
use super::series::BySource;
use super::way::{Between, Clocks, Seen, Way};
use super::{Delivery, figures};
use catena_model::telemetry::{
    DelayReport, DelaySpan, PacketReport, PlannedPath, ReportReason, Source, VisitLatency,
};

/// What is kept of a hop.
#[derive(Clone, Debug)]
struct Hop {
    /// Delays in functions, by who serves the hop.
    visits: Vec<BySource>,
    leg: BySource,
    passage: Passage,
    taken: HopTaken,
}

/// A path that is watched.
#[derive(Clone, Debug)]
pub(super) struct WatchedPath {
    way: Way,
    /// Which of all paths it is, in the order in which they were planned.
    pub(super) order: u64,
    hops: Vec<Hop>,
    chain: BySource,
    flows: Flows,
    taken: Taken,
    /// What the report at hand says, hop by hop.
    seen: Vec<Seen>,
}

impl WatchedPath {
    pub(super) fn new(planned: PlannedPath, order: u64, limits: &Limits) -> Self {
        let hop = |visits: usize| Hop {
            visits: vec![BySource::default(); visits],
            leg: BySource::default(),
            passage: Passage::new(limits),
            taken: HopTaken::default(),
        };
        let hops: Vec<Hop> = planned.hops.iter().map(|at| hop(at.visits.len())).collect();
        Self {
            order,
            chain: BySource::default(),
            flows: Flows::new(limits),
            taken: Taken::default(),
            seen: vec![Seen::Missing; hops.len()],
            hops,
            way: Way::new(planned),
        }
    }

    pub(super) fn planned(&self) -> &PlannedPath {
        &self.way.planned
    }

    /// A packet that came to the end.
    pub(super) fn report(
        &mut self,
        delivery: &Delivery,
        report: &PacketReport,
        (limits, clocks): (&Limits, &Clocks),
    ) -> Result<(), Refusal> {
        if !self.way.ends_at(delivery.device) {
            return Err(Refusal::ForeignReporter);
        }
        self.way.align(&report.hops, &mut self.seen)?;
        if self.seen.last().and_then(Seen::named).is_some_and(|(_, at, _)| at != delivery.device) {
            return Err(Refusal::ForeignReporter);
        }
        self.way.check_times(&self.seen, delivery.wall, clocks)?;
        let at = At {
            now_ns: delivery.now_ns,
            reporter: delivery.device,
            connection: delivery.connection,
            sequence: report.sequence,
        };
        let heard = self.flows.hear(report.flow, &self.seen, at, (&self.way, limits))?;
        let flow = if let Heard::Flow(flow) = heard { Some(flow) } else { None };
        self.taken.note(report.is_incomplete, &self.seen, &self.way.planned.hops);
        let window = limits.window_of(delivery.now_ns);
        for hop in 0..self.seen.len() {
            self.note_hop(hop, (flow, at), report.reason, (window, limits, clocks));
        }
        match self.way.chain(&self.seen, clocks) {
            Between::Ns(ns) if report.reason == ReportReason::Sampled => {
                self.chain.note(Source::Packet, window, (Some(ns), 1), limits);
            }
            Between::Apart => self.chain.spoil(Source::Packet, window, limits),
            _ => {}
        }
        if let Some(flow) = flow {
            self.flows.mark(flow, &self.seen, at, &self.way);
        }
        Ok(())
    }

    /// What the packet adds at one hop. Delays are taken from samples alone: packets that are told for being slow are
    /// slow.
    fn note_hop(
        &mut self,
        hop: usize,
        (flow, at): (Option<usize>, At),
        reason: ReportReason,
        (window, limits, clocks): (u64, &Limits, &Clocks),
    ) {
        let (Some(seen), Some(known)) = (self.seen.get(hop), self.hops.get_mut(hop)) else {
            return;
        };
        known.taken.note(seen);
        if let Some(flow) = flow {
            let advance = self.flows.advance(flow, hop, &self.seen, (at, &self.way));
            known.passage.note(window, advance, limits);
        }
        let is_sample = reason == ReportReason::Sampled;
        match self.way.leg(hop, &self.seen, clocks) {
            Between::Ns(ns) if is_sample => {
                known.leg.note(Source::Packet, window, (Some(ns), 1), limits);
            }
            Between::Apart => known.leg.spoil(Source::Packet, window, limits),
            _ => {}
        }
        let latency = seen.named().and_then(|(place, _, record)| Some((place, record.latency?)));
        let Some((place, VisitLatency { ns, is_saturated })) = latency else { return };
        if is_sample && let Some(visit) = known.visits.get_mut(place) {
            let ns = (!is_saturated).then_some(ns);
            visit.note(Source::Packet, window, (ns, 1), limits);
            if let Some(flow) = flow {
                self.flows.note_delay(flow, hop, ns);
            }
        }
    }

    /// Delays that a node measured otherwise. It may tell of its own functions, of the leg that begins at it, and of
    /// the chain if it is an end of it.
    pub(super) fn delays(
        &mut self,
        delivery: &Delivery,
        report: &DelayReport,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        if report.source == Source::Packet || report.delays.len() > DELAYS_PER_REPORT_MAX {
            return Err(Refusal::Malformed);
        }
        let device = delivery.device;
        let series = match report.span {
            DelaySpan::Visit { hop } => {
                let known = self.hops.get_mut(hop).ok_or(Refusal::UnplannedHop)?;
                let place = self.way.place_of(hop, device);
                place.and_then(|place| known.visits.get_mut(place))
            }
            DelaySpan::Leg { hop } => {
                let has_next = self.way.next.get(hop).is_some_and(Option::is_some);
                let known = self.hops.get_mut(hop).filter(|_| has_next);
                let known = known.ok_or(Refusal::UnplannedHop)?;
                self.way.place_of(hop, device).map(|_| &mut known.leg)
            }
            DelaySpan::Chain => {
                let is_end = self.way.begins_at(device) || self.way.ends_at(device);
                is_end.then_some(&mut self.chain)
            }
        };
        let series = series.ok_or(Refusal::ForeignReporter)?;
        let window = limits.window_of(delivery.now_ns);
        for (ns, times) in &report.delays {
            series.note(report.source, window, (Some(*ns), u64::from(*times)), limits);
        }
        Ok(())
    }

    pub(super) fn figures(&mut self, now_ns: u64, limits: &Limits) -> PathFigures {
        let window = limits.window_of(now_ns);
        let planned = &self.way.planned;
        let hops = self.hops.iter_mut().zip(&planned.hops).map(|(known, hop)| {
            let visits = known.visits.iter_mut().zip(&hop.visits).map(|(series, visit)| {
                let delays = series.figures(window, limits);
                VisitFigures { device: visit.device, functions: visit.functions.clone(), delays }
            });
            HopFigures {
                visits: visits.collect(),
                leg: known.leg.figures(window, limits),
                passage: known.passage.figures(window, limits),
                taken: known.taken,
            }
        });
        let hops = hops.collect();
        let chain = self.chain.figures(window, limits);
        let (path, version) = (planned.path, planned.version);
        figures::PathFigures {
            path,
            version,
            taken: self.taken,
            hops,
            chain,
            flows: self.flows.figures(window),
            let_go: self.let_go(),
        }
    }

    fn let_go(&self) -> PathLetGo {
        let of_hop = |hop: &Hop| {
            let series = hop.visits.iter().chain([&hop.leg]).map(BySource::let_go);
            series.sum::<u64>() + hop.passage.let_go
        };
        PathLetGo {
            windows: self.hops.iter().map(of_hop).sum::<u64>() + self.chain.let_go(),
            flows: self.flows.let_go,
            passed_over: self.flows.passed_over,
        }
    }
}
