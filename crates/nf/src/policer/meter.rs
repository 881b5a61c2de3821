//! The buckets of the three color markers. Knows RFC 2697 section 3 and RFC 2698 section 3, with their names;
//! refuses to know what becomes of a colour.

use crate::packet::{Packet, Time};
use crate::tokens;
use crate::tracking::carry::Bytes;
use catena_rules::Dscp;
use catena_rules::qos::{Meter, Precolours};

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Colour {
    Green,
    Yellow,
    Red,
}

impl Colour {
    /// All of them, in the order of their actions.
    pub(super) const ALL: [Self; 3] = [Self::Green, Self::Yellow, Self::Red];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }

    /// The one that a packet comes with.
    pub(super) fn of(aware: &Precolours, packet: &Packet<'_>) -> Self {
        let dscp = Dscp::new(packet.view.varying.dscp);
        let is_in = |all: &[Dscp]| dscp.is_some_and(|dscp| all.contains(&dscp));
        if is_in(&aware.red) {
            Self::Red
        } else if is_in(&aware.yellow) {
            Self::Yellow
        } else {
            Self::Green
        }
    }
}

/// The tokens that two buckets hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buckets {
    /// Tc of both RFCs.
    committed: u64,
    /// Te of RFC 2697, Tp of RFC 2698.
    other: u64,
    /// When that was so.
    at: Time,
}

impl Buckets {
    pub(super) const fn full(meter: &Meter) -> Self {
        let (committed, other) = depths(meter);
        Self { committed, other, at: Time(0) }
    }

    /// The colour of a packet of so many bytes that came with a colour; takes its tokens.
    pub(super) fn meter(
        &mut self,
        meter: &Meter,
        now: Time,
        (bytes, came): (u64, Colour),
    ) -> Colour {
        self.fill(meter, now);
        match meter {
            Meter::SingleRate { .. } => self.single_rate(bytes, came),
            Meter::TwoRate { .. } => self.two_rate(bytes, came),
        }
    }

    /// Lets tokens come until now.
    fn fill(&mut self, meter: &Meter, now: Time) {
        let now = now.max(self.at);
        match *meter {
            Meter::SingleRate { cir, cbs, ebs } => {
                let tokens = tokens::between(cir, self.at, now);
                let committed = tokens.min(cbs.saturating_sub(self.committed));
                self.committed += committed;
                self.other = self.other.saturating_add(tokens - committed).min(ebs);
            }
            Meter::TwoRate { cir, cbs, pir, pbs } => {
                let committed = tokens::between(cir, self.at, now);
                let peak = tokens::between(pir, self.at, now);
                self.committed = self.committed.saturating_add(committed).min(cbs);
                self.other = self.other.saturating_add(peak).min(pbs);
            }
        }
        self.at = now;
    }

    fn single_rate(&mut self, bytes: u64, came: Colour) -> Colour {
        if came == Colour::Green && self.committed >= bytes {
            self.committed -= bytes;
            Colour::Green
        } else if came <= Colour::Yellow && self.other >= bytes {
            self.other -= bytes;
            Colour::Yellow
        } else {
            Colour::Red
        }
    }

    fn two_rate(&mut self, bytes: u64, came: Colour) -> Colour {
        if came == Colour::Red || self.other < bytes {
            return Colour::Red;
        }
        self.other -= bytes;
        if came == Colour::Yellow || self.committed < bytes {
            return Colour::Yellow;
        }
        self.committed -= bytes;
        Colour::Green
    }

    pub(super) fn write(&self) -> Vec<u8> {
        [self.committed, self.other, self.at.0].map(u64::to_be_bytes).concat()
    }

    /// Reads them, never fuller than they may be.
    pub(super) fn read(bytes: &[u8], meter: &Meter) -> Option<Self> {
        let (committed, other) = depths(meter);
        let mut bytes = Bytes(bytes);
        Some(Self {
            committed: bytes.long()?.min(committed),
            other: bytes.long()?.min(other),
            at: Time(bytes.long()?),
        })
    }
}

/// How many tokens each bucket holds.
const fn depths(meter: &Meter) -> (u64, u64) {
    match *meter {
        Meter::SingleRate { cbs, ebs, .. } => (cbs, ebs),
        Meter::TwoRate { cbs, pbs, .. } => (cbs, pbs),
    }
}
