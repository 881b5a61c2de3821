//! Flows: who asked, what rules have noted, and the streams of both ways.

use super::stream::Stream;
use crate::monitor::table::Keyed;
use crate::packet::Time;
use catena_model::limits::FUNCTION_FLOWBITS_MAX;
use catena_rules::snort::{FlowbitUse, IdsRule};
use catena_wire::flow::{FlowKey, mix};
use catena_wire::scalar::IpProtocol;
use std::net::IpAddr;

/// Words of flowbits.
pub(super) const BIT_WORDS: usize = FUNCTION_FLOWBITS_MAX / 64;

/// Both ways of a flow have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair(pub(super) FlowKey);

impl Pair {
    /// That of a packet, and whether it goes the way of the key.
    pub(super) fn of(flow: &FlowKey) -> (Self, bool) {
        let back = flow.reversed();
        if back < *flow { (Self(back), false) } else { (Self(*flow), true) }
    }
}

impl Keyed for Pair {
    fn hash(&self, seed: u64) -> u64 {
        self.0.seeded_hash(seed)
    }
}

/// What is counted for a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterKey {
    /// The rule, by its number.
    pub(super) rule: u32,
    /// Its place among those of the rule.
    pub(super) nth: u8,
    /// Whose; none: of the rule.
    pub(super) host: Option<IpAddr>,
}

impl Keyed for CounterKey {
    fn hash(&self, seed: u64) -> u64 {
        let (high, low) = match self.host {
            None => (1, 0),
            Some(IpAddr::V4(v4)) => (2, u64::from(v4.to_bits())),
            Some(IpAddr::V6(v6)) => ((v6.to_bits() >> 64) as u64, v6.to_bits() as u64),
        };
        let start = mix(seed ^ (u64::from(self.rule) << 8 | u64::from(self.nth)));
        mix(mix(start ^ high) ^ low)
    }
}

/// How often a rule has matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) since: Time,
    pub(super) count: u32,
    pub(super) is_dirty: bool,
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// Does who asked send the way of the key?
    pub(super) is_asked_forward: bool,
    pub(super) begun: Time,
    pub(super) last: Time,
    pub(super) is_established: bool,
    pub(super) is_http: bool,
    /// Was it reset, or ended by one end (1) and the other (2)?
    pub(super) ended: u8,
    pub(super) bits: [u64; BIT_WORDS],
    /// To who was asked, and back.
    pub(super) streams: [Option<Stream>; 2],
    pub(super) is_dirty: bool,
}

/// All ends of a flow have ended.
pub(super) const ENDED: u8 = 3;

impl Flow {
    pub(super) const fn new(now: Time, is_asked_forward: bool) -> Self {
        Self {
            is_asked_forward,
            begun: now,
            last: now,
            is_established: false,
            is_http: false,
            ended: 0,
            bits: [0; BIT_WORDS],
            streams: [None; 2],
            is_dirty: true,
        }
    }

    pub(super) fn has_bit(&self, bit: u16) -> bool {
        let word = self.bits.get(usize::from(bit / 64)).copied().unwrap_or_default();
        word >> (bit % 64) & 1 == 1
    }

    pub(super) fn set_bit(&mut self, bit: u16, is_set: bool) {
        if let Some(word) = self.bits.get_mut(usize::from(bit / 64)) {
            let mask = 1 << (bit % 64);
            *word = if is_set { *word | mask } else { *word & !mask };
        }
    }

    /// Has nothing come for so long that it has ended? Times as Suricata has them by default.
    pub(super) fn is_over(&self, key: &Pair, now: Time) -> bool {
        let is_tcp = key.0.protocol == IpProtocol::TCP;
        let seconds = match (is_tcp, self.is_established) {
            _ if self.ended == ENDED => 10,
            (true, true) => 600,
            (true, false) => 60,
            (false, true) => 300,
            (false, false) => 30,
        };
        now.since(self.last) >= Time::seconds(seconds).0
    }

    /// A number that tells it from others.
    pub(super) fn id(&self, key: &Pair, seed: u64) -> u64 {
        mix(key.0.seeded_hash(seed) ^ self.begun.0) >> 11
    }
}

/// Does with flowbits what a rule that matched says.
pub(super) fn note_bits(rule: &IdsRule, flow: &mut Flow) {
    for (usage, bit) in &rule.flowbits {
        match usage {
            FlowbitUse::Set => flow.set_bit(*bit, true),
            FlowbitUse::Unset => flow.set_bit(*bit, false),
            FlowbitUse::Toggle => flow.set_bit(*bit, !flow.has_bit(*bit)),
            FlowbitUse::IsSet | FlowbitUse::IsNotSet => {}
        }
    }
}
