//! The record of a node: 128 bits in the place of the segment that brought the packet there.
//!
//! Knows its fields, how values are rounded to them, and which of them are there. Refuses to know who measured.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |0 0 0 1|  Valid  |O|F|T| Queue |           Device              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Arrival, ns, 40 bits                    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |               |  Latency of functions, unit 128 ns, 24 bits   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Queue length       |        Packets of the flow            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! 1000::/4 is never a segment, so the first four bits tell records from segments. Valid has the bits of MapInfo; a
//! field that is not valid is zero. O: the latency is longer than its field. F: of a visit to functions. T: the clock
//! is synchronised, so arrivals at two such nodes can be compared.

use super::{IntError, MapInfo};
use crate::scalar::{FlowCounter, LatencyUnits, QueueId, QueueLength};
use crate::srv6::SEGMENT_BYTES;

mod field {
    //! Where each field lies, as shifts in the 128 bits.
    pub(super) const MAGIC_SHIFT: u32 = 124;
    pub(super) const VALID_SHIFT: u32 = 119;
    pub(super) const SATURATED: u128 = 1 << 118;
    pub(super) const OF_FUNCTION: u128 = 1 << 117;
    pub(super) const SYNCHRONISED: u128 = 1 << 116;
    pub(super) const QUEUE_SHIFT: u32 = 112;
    pub(super) const DEVICE_SHIFT: u32 = 96;
    pub(super) const ARRIVAL_SHIFT: u32 = 56;
    pub(super) const LATENCY_SHIFT: u32 = 32;
    pub(super) const QUEUE_LENGTH_SHIFT: u32 = 20;
}

const MAGIC: u128 = 1;

/// When a packet came, in nanoseconds modulo 2^40, which is 1,099.5 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrivalTime(u64);

impl ArrivalTime {
    const MASK: u64 = (1 << 40) - 1;

    /// That of a clock.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns & Self::MASK)
    }

    /// Nanoseconds, below 2^40.
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds from an earlier time to this, of one clock and less than 2^40 ns before.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0) & Self::MASK
    }
}

/// How long functions took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionLatency {
    units: LatencyUnits,
    is_saturated: bool,
}

impl FunctionLatency {
    /// Nanoseconds of a unit.
    pub const UNIT_NS: u64 = 128;

    /// Rounds to the nearest unit, and up at half of one; what is longer than the field is the longest it holds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        let units = ns / Self::UNIT_NS + (ns % Self::UNIT_NS) / (Self::UNIT_NS / 2);
        let is_saturated = units > LatencyUnits::MAX as u64;
        let units = if is_saturated { LatencyUnits::MAX } else { units as u32 };
        Self { units: LatencyUnits::from_low_bits(units), is_saturated }
    }

    /// As a detection result has it.
    #[must_use]
    pub const fn units(self) -> LatencyUnits {
        self.units
    }

    /// Was it longer than the field?
    #[must_use]
    pub const fn is_saturated(self) -> bool {
        self.is_saturated
    }

    /// Nanoseconds, to half a unit unless it is saturated.
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.units.get() as u64 * Self::UNIT_NS
    }
}

/// The queue that a packet left by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// Which one of the node.
    pub id: QueueId,
    /// Packets in it.
    pub length: QueueLength,
}

impl QueueLength {
    /// That of so many packets, or the longest.
    #[must_use]
    pub const fn saturating(packets: u64) -> Self {
        if packets > Self::MAX as u64 {
            return Self::from_low_bits(Self::MAX);
        }
        Self::from_low_bits(packets as u32)
    }
}

impl FlowCounter {
    /// That of so many packets.
    #[must_use]
    pub const fn of(packets: u64) -> Self {
        Self::from_low_bits(packets as u32)
    }

    /// Packets from an earlier count to this one, exact below 2^20.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        Self::from_low_bits(self.get().wrapping_sub(earlier.get())).get()
    }
}

/// What a node says of a packet. What it cannot know is none, never a zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IntMetadata {
    /// Its number.
    pub device: Option<u16>,
    /// When the packet came.
    pub arrival: Option<ArrivalTime>,
    /// How long its functions took together.
    pub latency: Option<FunctionLatency>,
    /// The queue that the packet left by.
    pub queue: Option<Queue>,
    /// Packets of the flow that it has seen, this one among them.
    pub counter: Option<FlowCounter>,
    /// F: the packet visited functions.
    pub is_of_function: bool,
    /// T: the node's clock is synchronised.
    pub is_synchronised: bool,
}

impl IntMetadata {
    /// Which fields are there.
    #[must_use]
    pub const fn valid(&self) -> MapInfo {
        const fn if_some(is_some: bool, field: MapInfo) -> MapInfo {
            if is_some { field } else { MapInfo(0) }
        }
        if_some(self.device.is_some(), MapInfo::DEVICE)
            .with(if_some(self.arrival.is_some(), MapInfo::ARRIVAL))
            .with(if_some(self.latency.is_some(), MapInfo::LATENCY))
            .with(if_some(self.queue.is_some(), MapInfo::QUEUE))
            .with(if_some(self.counter.is_some(), MapInfo::COUNTER))
    }

    /// The same with no more fields than the map has.
    #[must_use]
    pub fn limited_to(&self, map: MapInfo) -> Self {
        Self {
            device: self.device.filter(|_| map.contains(MapInfo::DEVICE)),
            arrival: self.arrival.filter(|_| map.contains(MapInfo::ARRIVAL)),
            latency: self.latency.filter(|_| map.contains(MapInfo::LATENCY)),
            queue: self.queue.filter(|_| map.contains(MapInfo::QUEUE)),
            counter: self.counter.filter(|_| map.contains(MapInfo::COUNTER)),
            ..*self
        }
    }

    /// Reads an entry of a list.
    ///
    /// # Errors
    /// When it is no record, or one that contradicts itself.
    pub fn read(entry: &[u8; SEGMENT_BYTES]) -> Result<Self, IntError> {
        let word = u128::from_be_bytes(*entry);
        if word >> field::MAGIC_SHIFT != MAGIC {
            return Err(IntError::NoMetadata);
        }
        let valid = MapInfo((word >> field::VALID_SHIFT) as u8 & MapInfo::ALL.0);
        let is_valid = |field| valid.contains(field);
        let low = |shift: u32| (word >> shift) as u32;
        let units = LatencyUnits::from_low_bits(low(field::LATENCY_SHIFT));
        let queue = Queue {
            id: QueueId::from_low_bits(low(field::QUEUE_SHIFT)),
            length: QueueLength::from_low_bits(low(field::QUEUE_LENGTH_SHIFT)),
        };
        let arrival = ArrivalTime::from_ns((word >> field::ARRIVAL_SHIFT) as u64);
        let latency = FunctionLatency { units, is_saturated: word & field::SATURATED != 0 };
        let counter = FlowCounter::from_low_bits(low(0));
        let record = Self {
            device: is_valid(MapInfo::DEVICE).then_some(low(field::DEVICE_SHIFT) as u16),
            arrival: is_valid(MapInfo::ARRIVAL).then_some(arrival),
            latency: is_valid(MapInfo::LATENCY).then_some(latency),
            queue: is_valid(MapInfo::QUEUE).then_some(queue),
            counter: is_valid(MapInfo::COUNTER).then_some(counter),
            is_of_function: word & field::OF_FUNCTION != 0,
            is_synchronised: word & field::SYNCHRONISED != 0,
        };
        let is_short = latency.is_saturated && units.get() != LatencyUnits::MAX;
        if is_short || record.bytes() != *entry {
            return Err(IntError::Contradiction);
        }
        Ok(record)
    }

    /// As it is written.
    #[must_use]
    pub fn bytes(&self) -> [u8; SEGMENT_BYTES] {
        self.bytes_within(MapInfo::ALL)
    }

    /// As it is written where records hold no more fields than the map has: the bytes of [`Self::limited_to`], without
    /// a record between, which takes as long as all the rest.
    pub(super) fn bytes_within(&self, map: MapInfo) -> [u8; SEGMENT_BYTES] {
        let flag = |is_set: bool, bit: u128| if is_set { bit } else { 0 };
        let mut word = MAGIC << field::MAGIC_SHIFT
            | flag(self.is_of_function, field::OF_FUNCTION)
            | flag(self.is_synchronised, field::SYNCHRONISED);
        let mut put = |which: MapInfo, value: Option<u128>| {
            if let Some(value) = value.filter(|_| map.contains(which)) {
                word |= value | u128::from(which.0) << field::VALID_SHIFT;
            }
        };
        put(MapInfo::DEVICE, self.device.map(|device| u128::from(device) << field::DEVICE_SHIFT));
        let arrival = self.arrival.map(|ArrivalTime(ns)| u128::from(ns) << field::ARRIVAL_SHIFT);
        put(MapInfo::ARRIVAL, arrival);
        let latency = self.latency.map(|FunctionLatency { units, is_saturated }| {
            u128::from(units.get()) << field::LATENCY_SHIFT | flag(is_saturated, field::SATURATED)
        });
        put(MapInfo::LATENCY, latency);
        let queue = self.queue.map(|Queue { id, length }| {
            u128::from(id.get()) << field::QUEUE_SHIFT
                | u128::from(length.get()) << field::QUEUE_LENGTH_SHIFT
        });
        put(MapInfo::QUEUE, queue);
        put(MapInfo::COUNTER, self.counter.map(|counter| counter.get().into()));
        word.to_be_bytes()
    }
}
