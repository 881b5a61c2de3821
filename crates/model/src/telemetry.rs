//! What nodes tell of packets on their way, and what was planned for these. Knows the fields of a report, each there or
//! not; refuses to know in which header they came, who may be believed, and what follows from them.

use crate::id::{BlueprintNumber, InstanceId, PathId};
pub use catena_wire::scalar::{FlowCounter, QueueId, QueueLength};
pub use catena_wire::srv6_int::{ArrivalTime, MapInfo};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use utoipa::ToSchema;

/// Nodes of before this version of the protocol know nothing of telemetry in packets.
pub const TELEMETRY_SINCE_PROTOCOL: u32 = 18;

/// What a node writes of a packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum TelemetryField {
    /// The number of the node.
    Device,
    /// When the packet came.
    Arrival,
    /// How long functions of the node took.
    Latency,
    /// The queue that the packet left by, and its length.
    Queue,
    /// Packets of its flow that the node has seen.
    Counter,
}

impl TelemetryField {
    /// Every one, in the order of the bits of MapInfo.
    pub const ALL: [Self; 5] =
        [Self::Device, Self::Arrival, Self::Latency, Self::Queue, Self::Counter];

    /// As it is written in documents and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Arrival => "arrival",
            Self::Latency => "latency",
            Self::Queue => "queue",
            Self::Counter => "counter",
        }
    }

    const fn bit(self) -> MapInfo {
        match self {
            Self::Device => MapInfo::DEVICE,
            Self::Arrival => MapInfo::ARRIVAL,
            Self::Latency => MapInfo::LATENCY,
            Self::Queue => MapInfo::QUEUE,
            Self::Counter => MapInfo::COUNTER,
        }
    }
}

/// What packets of a chain take along, and which of them are told of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// What nodes write.
    #[serde(deserialize_with = "some_fields")]
    pub fields: BTreeSet<TelemetryField>,
    /// One in so many packets of each flow is told of at the end, whatever it met.
    #[serde(deserialize_with = "some_packets")]
    #[schema(value_type = u32, minimum = 1)]
    pub mirror: NonZeroU32,
    /// What marks its packets, as whoever watches the underlay agrees on.
    pub colour: u8,
    /// Packets for which a node took longer are told of, too, in microseconds; none: none are for that.
    #[schema(value_type = Option<u32>, minimum = 1)]
    pub latency_limit_us: Option<NonZeroU32>,
}

impl Telemetry {
    /// One in so many packets is told of where nobody says.
    pub const MIRROR: NonZeroU32 = NonZeroU32::new(64).expect("64 is not 0");

    /// What nodes write, as headers say it.
    #[must_use]
    pub fn map(&self) -> MapInfo {
        let none = MapInfo::default();
        self.fields.iter().fold(none, |map, field| map.with(field.bit()))
    }
}

impl fmt::Display for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<&str> = self.fields.iter().map(|field| field.name()).collect();
        write!(f, "{}   1 in {} mirrored", fields.join(", "), self.mirror)?;
        if self.colour > 0 {
            write!(f, "   colour {}", self.colour)?;
        }
        match self.latency_limit_us {
            Some(limit) => write!(f, "   and those over {limit} µs"),
            None => Ok(()),
        }
    }
}

fn some_fields<'de, D>(from: D) -> Result<BTreeSet<TelemetryField>, D::Error>
where
    D: Deserializer<'de>,
{
    let fields = BTreeSet::deserialize(from)?;
    if fields.is_empty() {
        return Err(D::Error::custom(
            "telemetry without fields says nothing: name one of 'fields' at least, leave 'fields' out for all, or take \
             the telemetry away (null)",
        ));
    }
    Ok(fields)
}

fn some_packets<'de, D>(from: D) -> Result<NonZeroU32, D::Error>
where
    D: Deserializer<'de>,
{
    let packets = NonZeroU32::new(u32::deserialize(from)?);
    packets.ok_or_else(|| {
        D::Error::custom("'mirror' tells of one in so many packets, and 0 is none: 1 is each")
    })
}

impl Default for Telemetry {
    /// All fields.
    fn default() -> Self {
        Self {
            fields: TelemetryField::ALL.into(),
            mirror: Self::MIRROR,
            colour: 0,
            latency_limit_us: None,
        }
    }
}

/// The number of a node in telemetry, unique in its domain (Device_ID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceId(pub u16);

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A flow, by a hash of its key: the same at all nodes of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowName(pub u64);

/// Whence a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Written into a packet by the nodes on its way.
    Packet,
    /// Measured by engines around their functions.
    Engine,
    /// Measured by packets of our own, there and back.
    Probe,
}

impl Source {
    /// Every one, in the order of declaration.
    pub const ALL: [Self; 3] = [Self::Packet, Self::Engine, Self::Probe];

    /// As figures are marked.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Engine => "engine",
            Self::Probe => "probe",
        }
    }
}

/// Why a packet is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportReason {
    /// It is one in so many, whatever it met: also where there would be another reason. Others are no fair sample.
    Sampled,
    /// A node could not write its record.
    Incomplete,
    /// Functions took longer than their field holds.
    Saturated,
    /// A queue was above its mark.
    Queue,
    /// Functions took longer than they should.
    Latency,
}

/// When a packet came to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// By the node's clock, in nanoseconds modulo 2^40.
    pub time: ArrivalTime,
    /// Does the clock go with those of others?
    pub is_synchronised: bool,
}

/// How long the functions of a node took for a packet, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VisitLatency {
    /// Nanoseconds, to 64; a header counts in units of 128.
    pub ns: u64,
    /// They took longer than the field holds, which is what `ns` is then.
    pub is_saturated: bool,
}

impl VisitLatency {
    /// The longest that a header holds.
    pub const MAX_NS: u64 = 0xff_ffff * 128;
}

/// The queue that a packet left by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueState {
    /// Which one of the node.
    pub id: QueueId,
    /// Packets in it.
    pub length: QueueLength,
}

/// What a node wrote of a packet. What it does not know is none, never a zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HopRecord {
    /// Who it says that it is.
    pub device: Option<DeviceId>,
    /// When the packet came.
    pub arrival: Option<Stamp>,
    /// How long its functions took.
    pub latency: Option<VisitLatency>,
    /// The queue that the packet left by.
    pub queue: Option<QueueState>,
    /// Packets of the flow that it has seen, this one among them, modulo 2^20.
    pub counter: Option<FlowCounter>,
}

/// What a packet says of one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HopReport {
    /// What the node wrote.
    Recorded(HopRecord),
    /// A plain router served it, or a node that could not write: no telemetry, which is no error.
    Silent,
    /// A record that contradicts itself.
    Malformed,
}

/// What the node at the end of a path tells of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEnd {
    /// Its path, which is the version of its chain.
    pub path: PathId,
    /// Its flow.
    pub flow: FlowName,
    /// Why it is told of.
    pub reason: ReportReason,
    /// E: a node could not write its record.
    pub is_incomplete: bool,
    /// Its hops, in the order in which they were visited.
    pub hops: Vec<HopReport>,
}

/// A packet that came to the end of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketReport {
    /// Its path, which is the version of its chain.
    pub path: PathId,
    /// The blueprint that made the path, as numbers of paths are used again.
    pub version: BlueprintNumber,
    /// Its flow.
    pub flow: FlowName,
    /// The number of the report among all that its node tells by one connection, also reports of delays.
    pub sequence: u64,
    /// Why it is reported.
    pub reason: ReportReason,
    /// E: a node could not write its record.
    pub is_incomplete: bool,
    /// Its hops, in the order in which they were visited.
    pub hops: Vec<HopReport>,
}

/// Between what a delay was measured. Hops count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DelaySpan {
    /// In the functions of a hop.
    Visit {
        /// Which hop.
        hop: usize,
    },
    /// From a hop to the next one.
    Leg {
        /// From which hop.
        hop: usize,
    },
    /// From the first hop to the last.
    Chain,
}

/// Delays that a node measured otherwise than by records in packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayReport {
    /// The path.
    pub path: PathId,
    /// The blueprint that made it.
    pub version: BlueprintNumber,
    /// As in [`PacketReport`].
    pub sequence: u64,
    /// By what.
    pub source: Source,
    /// Between what.
    pub span: DelaySpan,
    /// Nanoseconds, and how often, since the last such report.
    pub delays: Vec<(u64, u32)>,
}

/// Where one of the instances of a hop is visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedVisit {
    /// The node.
    pub device: DeviceId,
    /// Its functions, in the order of the visit; none: the node only forwards.
    pub functions: Vec<InstanceId>,
}

/// A hop as planned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedHop {
    /// One of these serves it, the same one for a flow; none: a plain router does, which writes nothing.
    pub visits: Vec<PlannedVisit>,
}

/// A path as planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPath {
    /// Its number.
    pub path: PathId,
    /// The blueprint that made it.
    pub version: BlueprintNumber,
    /// One in so many packets of each flow is a sample.
    pub one_in: NonZeroU32,
    /// Its hops. Whoever serves the last one reports.
    pub hops: Vec<PlannedHop>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_is_not_said_is_the_default_and_what_is_written_is_read() {
        let of = |said: Value| serde_json::from_value::<Telemetry>(said).unwrap();
        assert_eq!(of(json!({})), Telemetry::default());
        let all = json!({
            "fields": ["device", "arrival", "latency", "queue", "counter"], "mirror": 64, "colour": 0,
            "latency_limit_us": null,
        });
        assert_eq!(serde_json::to_value(Telemetry::default()).unwrap(), all);
        let said = json!({
            "fields": ["arrival", "counter"], "mirror": 3, "colour": 255, "latency_limit_us": 9,
        });
        assert_eq!(serde_json::to_value(of(said.clone())).unwrap(), said);
        let words = "arrival, counter   1 in 3 mirrored   colour 255   and those over 9 µs";
        assert_eq!(of(said).to_string(), words);
        for field in TelemetryField::ALL {
            assert_eq!(serde_json::to_value(field).unwrap(), json!(field.name()));
        }
    }

    #[test]
    fn what_would_say_nothing_is_refused_with_what_to_do() {
        for (said, words) in [
            (json!({"fields": []}), "name one of 'fields' at least"),
            (json!({"fields": ["delay"]}), "unknown variant `delay`, expected one of `device`"),
            (json!({"mirror": 0}), "1 is each"),
            (json!({"latency_limit_us": 0}), "nonzero"),
            (json!({"limit": 1}), "unknown field `limit`"),
        ] {
            let refused = serde_json::from_value::<Telemetry>(said).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
