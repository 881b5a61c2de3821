//! Reactive set-up: when the controller is asked for a flow, what a node asks, what it is answered and what that
//! takes. Knows names, messages and sums; refuses to know who holds packets meanwhile.

use crate::entry::Entries;
use crate::id::{ChainId, NodeName, PathId, PortId};
use crate::program::{HopKind, PathEntry};
use crate::topology::PortNumber;
pub use catena_wire::flow::FlowKey;
pub use catena_wire::scalar::IpProtocol;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// When the flows of a chain get their way at its classifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Setup {
    /// Before their first packet comes.
    #[default]
    #[serde(rename = "proactive")]
    Proactive,
    /// With their first packet, for which the controller is asked; while it is away, packets of flows that it was
    /// not asked for are dropped.
    #[serde(rename = "reactive")]
    Reactive,
    /// The same; while the controller is away, such packets are ordinary traffic and pass the functions by.
    #[serde(rename = "reactive/ordinary")]
    ReactiveOrOrdinary,
}

impl Setup {
    /// All, as they are written.
    pub const ALL: [Self; 3] = [Self::Proactive, Self::Reactive, Self::ReactiveOrOrdinary];

    /// As it is written in documents and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proactive => "proactive",
            Self::Reactive => "reactive",
            Self::ReactiveOrOrdinary => "reactive/ordinary",
        }
    }

    /// The one that is written so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setup| setup.name() == name)
    }

    /// Is nobody asked?
    #[must_use]
    pub fn is_proactive(&self) -> bool {
        *self == Self::Proactive
    }

    /// What becomes of packets that nobody answers for; none: nobody is asked.
    #[must_use]
    pub const fn away(self) -> Option<WhenAway> {
        match self {
            Self::Proactive => None,
            Self::Reactive => Some(WhenAway::Drop),
            Self::ReactiveOrOrdinary => Some(WhenAway::Ordinary),
        }
    }
}

/// What becomes of packets that the controller does not answer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WhenAway {
    /// They are dropped.
    Drop,
    /// They are ordinary traffic, as if no rule had taken them.
    Ordinary,
}

/// A path into which a flow enters only when the controller has answered for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupEntry {
    /// The path.
    pub path: PathId,
    /// What becomes of packets while nobody answers.
    pub away: WhenAway,
}

/// A flow that a classifier asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowAsked {
    /// By what the answer is known; another for each flow that is asked for.
    pub sequence: u64,
    /// The port that its first packet came by.
    pub port: PortId,
    /// The path that a rule sends it into.
    pub path: PathId,
    /// Its tuple.
    pub flow: FlowKey,
}

/// The answer: what lets the flow go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowAnswer {
    /// That of the question.
    pub sequence: u64,
    /// The path that it goes into.
    pub path: PathId,
    /// The ways to the instances of the first function that are reached over links, one for each.
    pub legs: Vec<FlowLeg>,
    /// What the answer took so far.
    pub times: FlowTimes,
}

/// The header that leads to one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowLeg {
    /// The node of the instance.
    pub node: NodeName,
    /// Its port.
    pub to: PortId,
    /// The port numbers of the way, the first one first.
    pub ports: Vec<PortNumber>,
}

/// The headers by which packets of a path leave the classifier of a node over links: one for each instance that they
/// may meet there first, those of taps before it included.
#[must_use]
pub fn legs_of(entries: &Entries, path: &PathEntry) -> Vec<FlowLeg> {
    if !path.encapsulation.is_source_route() {
        return Vec::new();
    }
    let mut legs = Vec::new();
    for hop in &path.hops {
        for instance in &hop.instances {
            let (node, to) = (instance.node.clone(), instance.ingress);
            if let Some(route) = entries.headed((&node, to), path.encapsulation) {
                legs.push(FlowLeg { node, to, ports: route.into_owned().ports });
            }
        }
        if hop.kind == HopKind::Through {
            break;
        }
    }
    legs
}

/// Where the time of one set-up went, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTimes {
    /// Making the header.
    pub header: u64,
    /// What else the controller did.
    pub controller: u64,
    /// On the way from the data plane to the controller and back.
    pub channel: u64,
}

/// How set-ups of flows went at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetupCounters {
    /// By chain.
    #[serde(default)]
    pub chains: BTreeMap<ChainId, ChainSetups>,
    /// From the first packet to its release.
    pub whole: Durations,
    /// Of that: making the header.
    pub header: Durations,
    /// What else the controller did.
    pub controller: Durations,
    /// On the way from the data plane to the controller and back.
    pub channel: Durations,
    /// In the data plane, before and after.
    pub edge: Durations,
}

impl SetupCounters {
    /// Was nobody asked for any flow?
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.chains.is_empty() && self.whole.count == 0
    }

    /// Adds those of another worker or node.
    pub fn merge(&mut self, other: &Self) {
        for (chain, setups) in &other.chains {
            self.chains.entry(*chain).or_default().merge(setups);
        }
        self.whole.merge(&other.whole);
        self.header.merge(&other.header);
        self.controller.merge(&other.controller);
        self.channel.merge(&other.channel);
        self.edge.merge(&other.edge);
    }
}

/// The flows of one chain that a node has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainSetups {
    /// Flows that the controller was asked for.
    pub asked: u64,
    /// How often it was asked for one again.
    pub asked_again: u64,
    /// Flows that it answered for.
    pub answered: u64,
    /// Answers that did not fit the program of the node.
    pub unfit: u64,
    /// Flows that it did not answer for in time.
    pub unanswered: u64,
    /// Packets that were held.
    pub held: u64,
}

impl ChainSetups {
    /// Adds those of another worker or node.
    pub fn merge(&mut self, other: &Self) {
        let pairs = [
            (&mut self.asked, other.asked),
            (&mut self.asked_again, other.asked_again),
            (&mut self.answered, other.answered),
            (&mut self.unfit, other.unfit),
            (&mut self.unanswered, other.unanswered),
            (&mut self.held, other.held),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum = sum.wrapping_add(more));
    }
}

/// Parts that each doubling of a duration is told apart in.
const PARTS: u32 = 4;

/// How long something took, time after time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Durations {
    /// How often.
    pub count: u64,
    /// Together, in nanoseconds.
    pub sum_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
    /// How often it took so long, in steps of a quarter of each doubling; steps that nothing fell into are left out.
    pub steps: BTreeMap<u16, u64>,
}

impl Durations {
    /// Adds one.
    pub fn add(&mut self, duration_ns: u64) {
        self.count = self.count.wrapping_add(1);
        self.sum_ns = self.sum_ns.wrapping_add(duration_ns);
        self.max_ns = self.max_ns.max(duration_ns);
        *self.steps.entry(step_of(duration_ns)).or_default() += 1;
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (step, count) in &other.steps {
            let sum = self.steps.entry(*step).or_default();
            *sum = sum.wrapping_add(*count);
        }
    }

    /// What so many thousandths of all did not exceed, in nanoseconds, a quarter too high at most; none: there was
    /// nothing.
    #[must_use]
    pub fn permille(&self, permille: u64) -> Option<u64> {
        let rank = u128::from(self.count) * u128::from(permille.min(1_000));
        let rank = rank.div_ceil(1_000).max(1);
        let mut seen = 0_u128;
        let step = self.steps.iter().find(|(_, count)| {
            seen += u128::from(**count);
            seen >= rank
        });
        step.map(|(step, _)| end_of(*step).min(self.max_ns))
    }
}

/// The step that a duration falls into: below `PARTS` each has its own.
fn step_of(duration_ns: u64) -> u16 {
    let Some(doublings) = duration_ns.checked_ilog2().and_then(|log| log.checked_sub(2)) else {
        return duration_ns as u16;
    };
    let part = (duration_ns >> doublings) - u64::from(PARTS);
    (doublings * PARTS + PARTS) as u16 + part as u16
}

/// The longest duration of a step.
fn end_of(step: u16) -> u64 {
    let (doublings, part) = match u32::from(step).checked_sub(PARTS) {
        None => return step.into(),
        Some(beyond) => (beyond / PARTS, u64::from(beyond % PARTS)),
    };
    let first = u128::from(u64::from(PARTS) + part);
    let end = ((first + 1) << doublings.min(u64::BITS)) - 1;
    u64::try_from(end).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_is_written_by_the_name_that_it_is_read_by() {
        for setup in Setup::ALL {
            assert_eq!(serde_json::to_string(&setup).unwrap(), format!("\"{}\"", setup.name()));
            assert_eq!(Setup::named(setup.name()), Some(setup));
        }
        let error = serde_json::from_str::<Setup>("\"lazy\"").unwrap_err().to_string();
        assert!(error.contains("`proactive`, `reactive`, `reactive/ordinary`"), "{error}");
    }

    #[test]
    fn every_duration_falls_into_a_step_that_ends_at_most_a_quarter_later() {
        let mut durations: Vec<u64> = (0..10_000).collect();
        durations.extend((0..64).flat_map(|log| [1_u64 << log, (1 << log) - 1, (3 << log) >> 1]));
        durations.push(u64::MAX);
        durations.sort_unstable();
        let mut last = 0;
        for duration in durations {
            let step = step_of(duration);
            assert!(step >= last, "steps grow with durations");
            last = step;
            let end = end_of(step);
            assert!(end >= duration && end - duration <= duration / 4, "{duration}: {step}, {end}");
        }
    }

    #[test]
    fn ranks_are_told_by_the_step_that_they_fall_into() {
        let mut durations = Durations::default();
        assert_eq!(durations.permille(500), None);
        (1..=1_000).for_each(|number| durations.add(number * 1_000));
        let p50 = durations.permille(500).unwrap();
        assert!((500_000..=625_000).contains(&p50), "{p50}");
        assert_eq!(durations.permille(1_000), Some(1_000_000));
        let mut twice = durations.clone();
        twice.merge(&durations);
        assert_eq!((twice.count, twice.sum_ns), (2_000, 2 * durations.sum_ns));
        assert_eq!(twice.permille(500), durations.permille(500));
    }
}
