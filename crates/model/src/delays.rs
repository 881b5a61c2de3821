//! What packets and engines told of a chain's delays, in the words that API and CLI share: `GET
//! /v1/chains/{chain}/delays`. Knows figures with their units; refuses to know how they came about.
//!
//! What was not observed is none, never a zero.

use crate::id::{BlueprintNumber, NodeName, PathId};
use crate::status::SilentNode;
use crate::telemetry::Source;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The delays of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainDelays {
    /// Name of the chain.
    pub name: String,
    /// Its paths with telemetry.
    pub paths: Vec<PathDelays>,
    /// How long its instances took, as engines of nodes measured it, whatever the encapsulation.
    #[serde(default)]
    pub instances: Vec<InstanceDelay>,
    /// Nodes that were asked and did not answer in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<SilentNode>,
    /// What the nodes of those told, for whoever sees all nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tellers: Vec<TellingNode>,
}

/// How long an instance took for packets of one path at one node, by that node's engines (source `engine`).
///
/// Quantiles are the upper ends of classes: less than an eighth above the true ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstanceDelay {
    /// The node; none: who asks does not see it.
    pub node: Option<NodeName>,
    /// The path.
    pub path: PathId,
    /// Index of the hop, from 0.
    pub hop: u16,
    /// Its place among the functions of that hop, from 0.
    pub member: u8,
    /// Name of the instance.
    pub instance: String,
    /// What was measured.
    pub measured: MeasuredDelay,
    /// Half of the packets took no longer, in nanoseconds; none: none of late.
    pub p50_ns: Option<u64>,
    /// 95 of a hundred.
    pub p95_ns: Option<u64>,
    /// 99 of a hundred.
    pub p99_ns: Option<u64>,
    /// On so many timed packets these stand.
    pub samples: u64,
    /// What packets took in the mean since the path came to the node, in nanoseconds; none: none was timed.
    pub mean_ns: Option<u64>,
    /// Packets that were sampled since then. Those that did not come back, or not as they went, have no
    /// time.
    pub sampled: u64,
    /// Of these have one.
    pub timed: u64,
    /// So many packets these stand for: in the mean as many as there were to sample from,
    pub represented: u64,
    /// of so many that were given to it. Of what the kernel repeats few are sampled.
    pub delivered: u64,
}

/// What of an instance was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredDelay {
    /// From when the node gave a packet to the instance until it had it back, with what it waited for on both ways.
    /// Quantiles are of the last ten to twenty seconds.
    Sojourn,
    /// What a bundled function took for a packet inside the data plane. Quantiles are of all since the path came.
    Service,
}

/// The delays of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathDelays {
    /// Its identifier on the wire.
    pub path: PathId,
    /// The blueprint by which this controller came to know it: numbers of paths are used again.
    pub version: BlueprintNumber,
    /// `forward`, or `reverse` for the answers of a symmetric chain.
    pub direction: String,
    /// As in `GET /v1/paths`.
    pub phase: String,
    /// Why nothing is known of it; none: it is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One in so many packets of each flow is a sample.
    pub mirror: u32,
    /// Which way its packets took; none: it is not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<PathTaken>,
    /// Hop by hop: functions of one node that follow one another.
    pub hops: Vec<HopDelays>,
    /// From the first hop to the last.
    pub whole: WholeDelay,
}

/// Which way packets took, against the one that was planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathTaken {
    /// Packets that were told of.
    pub reports: u64,
    /// Of these, every hop wrote a record.
    pub complete: u64,
    /// A hop wrote none, which is no error.
    pub silent: u64,
    /// A hop was not there.
    pub missing: u64,
    /// A node said that it could not write.
    pub incomplete: u64,
    /// Reports of flows for which there was no room: their delays count, what they lost is not known.
    pub passed_over: u64,
}

/// A hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HopDelays {
    /// Which one, counted from 0.
    pub hop: u32,
    /// By who serves it.
    pub visits: Vec<VisitDelays>,
    /// From the arrival at it to that at the next hop, by source: with its functions.
    pub leg: Vec<DelayFigure>,
    /// What was lost on the way to the next hop; none: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<HopLosses>,
    /// Packets of which its node wrote a record.
    pub recorded: u64,
    /// Packets of which it wrote none.
    pub silent: u64,
    /// Packets that say nothing of it.
    pub missing: u64,
}

/// What was lost in the functions of a hop, in its queue, or on the way to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HopLosses {
    /// By what it is known: `packet`.
    pub source: String,
    /// Packets that did not come to the next hop.
    pub packets: u64,
    /// Differences between reports that this stands on.
    pub samples: u64,
}

/// One of the nodes that serve a hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VisitDelays {
    /// The node; none: who asks does not see it.
    pub node: Option<NodeName>,
    /// Names of its instances there.
    pub functions: Vec<String>,
    /// How long these took together, by source.
    pub delays: Vec<DelayFigure>,
}

/// The delay of a whole path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WholeDelay {
    /// By source.
    pub delays: Vec<DelayFigure>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How long something took, over all seconds that are over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DelayFigure {
    /// By what it was measured: `packet`, `engine` or `probe`. Figures of two are never added up.
    pub source: String,
    /// On how many samples it stands.
    pub samples: u64,
    /// Half of them took no longer.
    pub p50: DelayQuantile,
    /// 95 of a hundred.
    pub p95: DelayQuantile,
    /// 99 of a hundred.
    pub p99: DelayQuantile,
    /// Values of samples are off by at most this part of a thousand.
    pub error_permille: u32,
    /// And by so many nanoseconds, as headers round; none: it is as good as the clocks of two nodes agree, which
    /// nobody here knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_ns: Option<u64>,
    /// Seconds that are left out, as clocks that should agree did not.
    pub spoiled_windows: u64,
}

/// A quantile, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DelayQuantile {
    /// Of the samples; none: longer than can be told.
    pub ns: Option<u64>,
    /// Of all packets, in 997 of 1,000 cases, no less than this; none: there are too few samples to tell.
    pub at_least_ns: Option<u64>,
    /// Of all packets no more than this; none: too few samples, or longer than can be told.
    pub at_most_ns: Option<u64>,
}

/// What a node told of packets at the end of their paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TellingNode {
    /// The node.
    pub node: Option<NodeName>,
    /// Reports that were believed.
    pub believed: u64,
    /// Reports that did not come, by their numbers.
    pub left_out: u64,
    /// Reports that were not believed, by why.
    pub refused: BTreeMap<String, u64>,
    /// Packets that were not told of since each began, by where there was no room: `engine`, `dataplane`, `agent`;
    /// and `unwanted`, while there was no controller that takes them.
    pub lost: BTreeMap<String, u64>,
}

/// By what a figure is off, in parts of a thousand: buckets are off by 1/64, and engines classify to an eighth
/// before.
#[must_use]
pub const fn error_permille(source: Source) -> u32 {
    match source {
        Source::Packet | Source::Probe => 16,
        Source::Engine => 141,
    }
}
