//! Flows of a path, one by one, as many as there is room for. Knows how fast each passes a hop and how long functions
//! take for it; refuses to know what is planned.
//!
//! A flow of which nothing was heard for two windows makes room, the one that was silent longest first. While all are
//! heard of, further ones are passed over and counted: were each to drive out another, none would ever be known.

use super::histogram::{Histogram, Precision, Quantiles};
use super::limits::{BEGUN_ANEW_AFTER, Limits};
use super::marks::{Advance, At, Marks};
use super::refusal::Refusal;
use super::way::{Seen, Way};
use catena_model::telemetry::{FlowName, Source};

/// Windows of silence after which a flow makes room.
const QUIET_WINDOWS: u64 = 2;

/// How much came in how long, exactly: both are read from the same packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Packets that came to the hop.
    pub packets: u64,
    /// By its clock in so many nanoseconds.
    pub over_ns: u64,
    /// Differences of reports that it stands on.
    pub samples: u64,
}

/// What was lost on the way from a hop to the next one: in the functions of that hop, in its queue, on the link, or in
/// plain routers between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Losses {
    /// By what it is known.
    pub source: Source,
    /// Packets that did not come to the next hop. Where packets overtake one another it may be more or less by these.
    pub lost: u64,
    /// Differences of reports that it stands on.
    pub samples: u64,
}

impl Losses {
    /// None: nothing is known.
    pub(super) fn of(lost: i64, samples: u64) -> Option<Self> {
        let lost = u64::try_from(lost).unwrap_or_default();
        (samples > 0).then_some(Self { source: Source::Packet, lost, samples })
    }
}

/// What is known of a flow at a hop, by its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowHopFigures {
    /// Whence all of it is.
    pub source: Source,
    /// How fast it came in the last closed window; none: it is not known.
    pub rate: Option<Rate>,
    /// Since it is known.
    pub losses: Option<Losses>,
    /// How long functions took, to 1/16.
    pub delay: Option<Quantiles>,
}

/// What is known of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowFigures {
    /// Which one.
    pub flow: FlowName,
    /// Hop by hop.
    pub hops: Vec<FlowHopFigures>,
    /// How often a node began to count it anew.
    pub begun_anew: u64,
}

/// What a rate is made of: less than nothing where a packet was overtaken.
#[derive(Clone, Copy, Debug, Default)]
struct RateSum {
    packets: i64,
    over_ns: i64,
    samples: u64,
}

impl RateSum {
    fn rate(self) -> Option<Rate> {
        let packets = u64::try_from(self.packets).ok()?;
        let over_ns = u64::try_from(self.over_ns).ok().filter(|ns| *ns > 0)?;
        (self.samples > 0).then_some(Rate { packets, over_ns, samples: self.samples })
    }
}

#[derive(Clone, Debug, Default)]
struct FlowHop {
    /// In the open window.
    current: RateSum,
    /// In the last one before in which there was any.
    closed: Option<(u64, RateSum)>,
    lost: i64,
    loss_samples: u64,
    delay: Option<Box<Histogram>>,
}

#[derive(Clone, Debug)]
struct Flow {
    name: FlowName,
    window: u64,
    marks: Marks,
    /// Those of packets that fit one another and not the marks.
    suspected: Marks,
    suspicions: u8,
    begun_anew: u64,
    hops: Box<[FlowHop]>,
}

/// What became of a report that was believed so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The flow is known now, or goes on: the place of it.
    Flow(usize),
    /// There is no room for its flow.
    PassedOver,
}

/// The flows.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    pub(super) let_go: u64,
    pub(super) passed_over: u64,
}

impl Flows {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { flows: Vec::with_capacity(limits.flows_per_path), let_go: 0, passed_over: 0 }
    }

    /// Holds a packet against the last one of its flow, and makes room for a flow that is new.
    pub(super) fn hear(
        &mut self,
        name: FlowName,
        seen: &[Seen],
        at: At,
        (way, limits): (&Way, &Limits),
    ) -> Result<Heard, Refusal> {
        let window = limits.window_of(at.now_ns);
        if let Some(place) = self.flows.iter().position(|flow| flow.name == name) {
            if let Some(flow) = self.flows.get_mut(place) {
                flow.check(seen, at, way)?;
                flow.roll(window);
            }
            return Ok(Heard::Flow(place));
        }
        let place = self.room(seen.len(), window, limits);
        let Some((place, flow)) = place.and_then(|at| Some((at, self.flows.get_mut(at)?))) else {
            self.passed_over = self.passed_over.saturating_add(1);
            return Ok(Heard::PassedOver);
        };
        flow.begin(name, window);
        Ok(Heard::Flow(place))
    }

    /// A place for one more.
    fn room(&mut self, hops: usize, window: u64, limits: &Limits) -> Option<usize> {
        if self.flows.len() < limits.flows_per_path {
            self.flows.push(Flow::new(hops));
            return self.flows.len().checked_sub(1);
        }
        let (place, oldest) = self.flows.iter().enumerate().min_by_key(|(_, flow)| flow.window)?;
        if window.saturating_sub(oldest.window) < QUIET_WINDOWS {
            return None;
        }
        self.let_go = self.let_go.saturating_add(1);
        Some(place)
    }

    /// What happened at a hop since the last packet of the flow; it is added to the flow's own figures.
    pub(super) fn advance(
        &mut self,
        place: usize,
        hop: usize,
        seen: &[Seen],
        (at, way): (At, &Way),
    ) -> Advance {
        let Some(flow) = self.flows.get_mut(place) else { return Advance::default() };
        let advance = flow.marks.advance(hop, seen, at, way);
        if let Some(known) = flow.hops.get_mut(hop) {
            known.add(advance);
        }
        advance
    }

    /// Functions of a hop took so long for a sample of the flow; none: longer than can be told.
    pub(super) fn note_delay(&mut self, place: usize, hop: usize, ns: Option<u64>) {
        let known = self.flows.get_mut(place).and_then(|flow| flow.hops.get_mut(hop));
        let Some(known) = known else { return };
        let fresh = || Box::new(Histogram::new(Precision::Coarse));
        let delay = known.delay.get_or_insert_with(fresh);
        match ns {
            Some(ns) => delay.note(ns, 1),
            None => delay.note_longer(1),
        }
    }

    /// The packet is the last one of its flow now.
    pub(super) fn mark(&mut self, place: usize, seen: &[Seen], at: At, way: &Way) {
        if let Some(flow) = self.flows.get_mut(place) {
            flow.marks.set(seen, at, way);
            flow.suspicions = 0;
        }
    }

    pub(super) fn figures(&self, window: u64) -> Vec<FlowFigures> {
        self.flows.iter().map(|flow| flow.figures(window)).collect()
    }
}

impl Flow {
    fn new(hops: usize) -> Self {
        Self {
            name: FlowName(0),
            window: 0,
            marks: Marks::new(hops),
            suspected: Marks::new(hops),
            suspicions: 0,
            begun_anew: 0,
            hops: vec![FlowHop::default(); hops].into(),
        }
    }

    /// The place is another flow's now.
    fn begin(&mut self, name: FlowName, window: u64) {
        (self.name, self.window, self.suspicions, self.begun_anew) = (name, window, 0, 0);
        self.marks.clear();
        for hop in &mut self.hops {
            let mut delay = hop.delay.take();
            if let Some(delay) = &mut delay {
                delay.clear();
            }
            *hop = FlowHop { delay, ..FlowHop::default() };
        }
    }

    /// Could the packet have come behind the last one? Those that could not, and fit one another, tell in time that a
    /// node began to count anew.
    fn check(&mut self, seen: &[Seen], at: At, way: &Way) -> Result<(), Refusal> {
        let Err(refusal) = self.marks.check(seen, at, way) else { return Ok(()) };
        let fits = self.suspicions > 0 && self.suspected.check(seen, at, way).is_ok();
        if !fits {
            self.suspected.clear();
            self.suspicions = 0;
        }
        self.suspected.set(seen, at, way);
        self.suspicions += 1;
        if self.suspicions >= BEGUN_ANEW_AFTER {
            std::mem::swap(&mut self.marks, &mut self.suspected);
            self.suspicions = 0;
            self.begun_anew = self.begun_anew.saturating_add(1);
        }
        Err(refusal)
    }

    fn roll(&mut self, window: u64) {
        if window <= self.window {
            return;
        }
        for hop in &mut self.hops {
            let rate = std::mem::take(&mut hop.current);
            hop.closed = Some((self.window, rate)).filter(|_| rate.samples > 0);
        }
        self.window = window;
    }

    fn figures(&self, window: u64) -> FlowFigures {
        let hop = |hop: &FlowHop| FlowHopFigures {
            source: Source::Packet,
            rate: hop.rate(window, self.window),
            losses: Losses::of(hop.lost, hop.loss_samples),
            delay: hop.delay.as_deref().and_then(Histogram::quantiles),
        };
        let hops = self.hops.iter().map(hop).collect();
        FlowFigures { flow: self.name, hops, begun_anew: self.begun_anew }
    }
}

impl FlowHop {
    fn add(&mut self, advance: Advance) {
        if let Some((packets, Some(over_ns))) = advance.passed {
            let sum = &mut self.current;
            sum.packets = sum.packets.saturating_add(i64::from(packets));
            sum.over_ns = sum.over_ns.saturating_add(over_ns);
            sum.samples += 1;
        }
        if let Some(lost) = advance.lost {
            self.lost = self.lost.saturating_add(i64::from(lost));
            self.loss_samples += 1;
        }
    }

    /// That of the window before this one. `open`: the window that was open when the flow was last heard of.
    fn rate(&self, window: u64, open: u64) -> Option<Rate> {
        let last = window.checked_sub(1)?;
        let closed = if open == window { self.closed } else { Some((open, self.current)) };
        closed.filter(|(of, _)| *of == last).and_then(|(_, sum)| sum.rate())
    }
}
