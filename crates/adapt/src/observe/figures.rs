//! What is known of a path, as whoever decides reads it. Knows words; refuses to know how it came about.
//!
//! Each figure says by what it was measured and on how many samples it stands. Where nothing was observed there is
//! none, never a zero.

use super::flow::FlowFigures;
use super::passage::PassageFigures;
use super::series::DelayFigures;
use super::way::Seen;
use catena_model::id::{BlueprintNumber, InstanceId, PathId};
use catena_model::telemetry::{DeviceId, FlowName, PlannedHop};

/// Which way packets took, held against the one planned. Those that came to a foreign node, or to those of the path in
/// another order, are refused and counted there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Packets that were told of.
    pub reports: u64,
    /// Of these, every hop that writes records wrote one.
    pub complete: u64,
    /// A hop that writes records was served and wrote none, which is no error.
    pub silent: u64,
    /// A hop was not there.
    pub missing: u64,
    /// E: a node said that it could not write.
    pub incomplete: u64,
}

impl Taken {
    pub(super) fn note(&mut self, is_incomplete: bool, seen: &[Seen], planned: &[PlannedHop]) {
        let mut writing = seen.iter().zip(planned).filter(|(_, hop)| !hop.visits.is_empty());
        // Where it is unsure who was there somebody was not, and of those that write records it is where there were
        // more silent hops than plain routers.
        let is_missing = seen.iter().any(|hop| matches!(hop, Seen::Missing | Seen::Unsure));
        let is_silent = writing.any(|(hop, _)| matches!(hop, Seen::Silent | Seen::Unsure));
        self.reports += 1;
        self.complete += u64::from(!is_missing && !is_silent);
        self.silent += u64::from(is_silent);
        self.missing += u64::from(is_missing);
        self.incomplete += u64::from(is_incomplete);
    }
}

/// What packets said of a hop; those that leave it unsure are in none of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopTaken {
    /// Its node wrote a record.
    pub recorded: u64,
    /// It wrote none: a plain router, or one that could not.
    pub silent: u64,
    /// The hop was not there.
    pub missing: u64,
}

impl HopTaken {
    pub(super) fn note(&mut self, seen: &Seen) {
        let count = match seen {
            Seen::Recorded(_) => &mut self.recorded,
            Seen::Silent => &mut self.silent,
            Seen::Missing => &mut self.missing,
            Seen::Unsure => return,
        };
        *count += 1;
    }
}

/// One of the nodes that serve a hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitFigures {
    /// The node.
    pub device: DeviceId,
    /// Its functions; delays are those of all together.
    pub functions: Vec<InstanceId>,
    /// How long they took, by source.
    pub delays: Vec<DelayFigures>,
}

/// A hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopFigures {
    /// By who serves it.
    pub visits: Vec<VisitFigures>,
    /// From its arrival to that at the next hop that writes records, by source: with the functions of this hop.
    pub leg: Vec<DelayFigures>,
    /// What came, and what was lost on the way to the next hop that writes records.
    pub passage: Option<PassageFigures>,
    /// What packets said of it.
    pub taken: HopTaken,
}

/// What was let go so that memory does not grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathLetGo {
    /// The oldest windows and steps.
    pub windows: u64,
    /// Flows that were silent.
    pub flows: u64,
    /// Reports of flows for which there was no room: their delays count for the hops, and nothing else of them.
    pub passed_over: u64,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathFigures {
    /// Its number.
    pub path: PathId,
    /// The blueprint that made it.
    pub version: BlueprintNumber,
    /// Which way its packets took.
    pub taken: Taken,
    /// Hop by hop.
    pub hops: Vec<HopFigures>,
    /// From the arrival at the first hop that writes records to that at the last, by source.
    pub chain: Vec<DelayFigures>,
    /// Flows that are known one by one.
    pub flows: Vec<FlowFigures>,
    /// What was let go.
    pub let_go: PathLetGo,
}

impl PathFigures {
    /// What is known of one flow.
    #[must_use]
    pub fn flow(&self, name: FlowName) -> Option<&FlowFigures> {
        self.flows.iter().find(|flow| flow.flow == name)
    }
}
