//! What a rule asks of a packet. Knows subjects and values; refuses to know what follows.

use crate::options::Side;
use catena_wire::field::Field;
use std::fmt;

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A field of the packet.
    Field(Field),
    /// The version of IP: 4 or 6.
    Version,
    /// Bytes of the IP packet, headers included.
    PacketBytes,
    /// 1 for the second and later fragments of a packet, else 0.
    IsLaterFragment,
    /// A side of the function where the packet came in: 0 in, 1 out.
    CameIn,
    /// The state of its connection: one bit of [`ConnectionState`].
    State,
    /// Is an option with this number in its TCP header: 1, else 0.
    TcpOption(u8),
    /// Type and code of an ICMP or ICMPv6 message as one number, the type above.
    IcmpMessage,
}

impl Subject {
    /// What stands in its place in packets on their way back.
    #[must_use]
    pub const fn mirrored(self) -> Self {
        match self {
            Self::Field(Field::Source) => Self::Field(Field::Destination),
            Self::Field(Field::Destination) => Self::Field(Field::Source),
            Self::Field(Field::SourcePort) => Self::Field(Field::DestinationPort),
            Self::Field(Field::DestinationPort) => Self::Field(Field::SourcePort),
            other => other,
        }
    }
}

/// States of connections, as the kernel names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ConnectionState {
    /// It belongs to none, or is none that could be.
    Invalid = 1,
    /// It belongs to one that has seen packets both ways.
    Established = 2,
    /// It opens one that another announced, or is an error about one.
    Related = 4,
    /// It opens one, or belongs to one that has seen no answer.
    New = 8,
    /// It is not looked after.
    Untracked = 64,
}

impl ConnectionState {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Invalid, "INVALID"),
        (Self::New, "NEW"),
        (Self::Established, "ESTABLISHED"),
        (Self::Related, "RELATED"),
        (Self::Untracked, "UNTRACKED"),
    ];
}

impl Side {
    /// As the value of [`Subject::CameIn`].
    #[must_use]
    pub const fn number(self) -> u128 {
        match self {
            Self::In => 0,
            Self::Out => 1,
        }
    }
}

/// Values from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The least.
    pub first: u128,
    /// The greatest.
    pub last: u128,
}

impl Range {
    /// One value.
    #[must_use]
    pub const fn one(value: u128) -> Self {
        Self { first: value, last: value }
    }

    /// Is the value among them?
    #[inline]
    #[must_use]
    pub const fn contains(&self, value: u128) -> bool {
        self.first <= value && value <= self.last
    }
}

/// Which values are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// Those in one of these ranges, which are sorted and do not touch.
    In(Vec<Range>),
    /// Those whose bits under `mask` are these.
    Bits {
        /// The bits that count.
        mask: u128,
        /// How they must be.
        value: u128,
    },
    /// Those with one of these bits at least.
    AnyBit(u128),
}

impl Test {
    /// Values in ranges, in any order.
    #[must_use]
    pub fn among(mut ranges: Vec<Range>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.first <= last.last.saturating_add(1) => {
                    last.last = last.last.max(range.last);
                }
                _ => joined.push(range),
            }
        }
        Self::In(joined)
    }

    /// Those whose bits under `mask` are `value`, of a subject with the bits `all`.
    #[must_use]
    pub fn under_mask(mask: u128, value: u128, all: u128) -> Self {
        let (mask, free) = (mask & all, !mask & all);
        if value & !mask != 0 {
            return Self::In(Vec::new());
        }
        // Free bits that are all below the others make a range.
        if free.wrapping_add(1) & free == 0 {
            return Self::In(vec![Range { first: value, last: value | free }]);
        }
        Self::Bits { mask, value }
    }

    /// One value.
    #[must_use]
    pub fn equals(value: u128) -> Self {
        Self::In(vec![Range::one(value)])
    }

    /// Does a value meet it?
    #[inline]
    #[must_use]
    pub fn takes(&self, value: u128) -> bool {
        match self {
            Self::In(ranges) => match ranges.as_slice() {
                [only] => only.contains(value),
                _ => {
                    let behind = ranges.partition_point(|range| range.first <= value);
                    behind > 0 && ranges.get(behind - 1).is_some_and(|range| range.contains(value))
                }
            },
            Self::Bits { mask, value: wanted } => value & mask == *wanted,
            Self::AnyBit(bits) => value & bits != 0,
        }
    }

    /// The bits of a value that decide.
    #[must_use]
    pub fn mask(&self) -> u128 {
        match self {
            Self::In(_) => u128::MAX,
            Self::Bits { mask, .. } | Self::AnyBit(mask) => *mask,
        }
    }
}

/// One condition: of a packet that has several of the subjects, one must meet the test; of one that has none
/// of them, it never holds, negated or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// What it is about: one subject, or the two of which either will do.
    pub subjects: Vec<Subject>,
    /// The values.
    pub test: Test,
    /// Are they those that must not be?
    pub is_negated: bool,
}

impl Condition {
    /// Of one subject.
    #[must_use]
    pub fn of(subject: Subject, test: Test, is_negated: bool) -> Self {
        Self { subjects: vec![subject], test, is_negated }
    }

    /// Does a packet meet it, whose values are these?
    #[inline]
    pub fn takes(&self, mut value: impl FnMut(Subject) -> Option<u128>) -> bool {
        let mut is_there = false;
        let mut is_met = false;
        for subject in &self.subjects {
            if let Some(value) = value(*subject) {
                is_there = true;
                is_met |= self.test.takes(value);
            }
        }
        is_there && is_met != self.is_negated
    }
}

/// One condition on several subjects at once: their values must be one of the tuples; of a packet that
/// lacks one of the subjects, it never holds, negated or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TupleCondition {
    /// What it is about, each once for its place in the tuples.
    pub subjects: Vec<Subject>,
    /// The tuples, each a range for each subject; they may overlap.
    pub tuples: Vec<Vec<Range>>,
    /// Are they those that must not be?
    pub is_negated: bool,
}

impl TupleCondition {
    /// Does a packet meet it, whose values are these?
    #[must_use]
    pub fn takes(&self, value: impl FnMut(Subject) -> Option<u128>) -> bool {
        values_of(&self.subjects, value).is_some_and(|values| {
            let is_met = self.tuples.iter().any(|ranges| are_in(values.as_slice(), ranges));
            is_met != self.is_negated
        })
    }
}

/// Subjects of one tuple or map: more than nftables has room for.
pub const SUBJECTS_MAX: usize = 16;

/// The values of some subjects.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    all: [u128; SUBJECTS_MAX],
    len: usize,
}

impl Values {
    /// In the order of the subjects.
    #[must_use]
    pub fn as_slice(&self) -> &[u128] {
        self.all.get(..self.len).unwrap_or_default()
    }
}

/// The values of all subjects; none: one is not there.
#[inline]
pub fn values_of(
    subjects: &[Subject],
    mut value: impl FnMut(Subject) -> Option<u128>,
) -> Option<Values> {
    let mut all = [0; SUBJECTS_MAX];
    for (place, subject) in all.iter_mut().zip(subjects) {
        *place = value(*subject)?;
    }
    Some(Values { all, len: subjects.len() })
}

/// Is each value in the range at its place?
#[inline]
#[must_use]
pub fn are_in(values: &[u128], ranges: &[Range]) -> bool {
    values.len() == ranges.len()
        && values.iter().zip(ranges).all(|(value, range)| range.contains(*value))
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => f.write_str(field.title()),
            Self::Version => f.write_str("IP version"),
            Self::PacketBytes => f.write_str("packet length"),
            Self::IsLaterFragment => f.write_str("fragment"),
            Self::CameIn => f.write_str("interface"),
            Self::State => f.write_str("connection state"),
            Self::IcmpMessage => f.write_str("ICMP type and code"),
            Self::TcpOption(kind) => write!(f, "TCP option {kind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_asked_by_halves() {
        let range = |first, last| Range { first, last };
        let test = Test::among(vec![range(80, 90), range(10, 20), range(21, 25), range(85, 99)]);
        assert_eq!(test, Test::In(vec![range(10, 25), range(80, 99)]));
        let taken: Vec<u128> = (0..120).filter(|value| test.takes(*value)).collect();
        let wanted: Vec<u128> = (10..=25).chain(80..=99).collect();
        assert_eq!(taken, wanted);
        assert!(!Test::In(Vec::new()).takes(0));
    }

    #[test]
    fn what_a_packet_does_not_have_meets_no_condition() {
        let port = Subject::Field(Field::DestinationPort);
        for is_negated in [false, true] {
            let condition = Condition::of(port, Test::equals(80), is_negated);
            assert!(!condition.takes(|_| None));
            assert_eq!(condition.takes(|_| Some(80)), !is_negated);
            assert_eq!(condition.takes(|_| Some(81)), is_negated);
        }
    }

    #[test]
    fn tuples_ask_for_all_of_their_values_at_once() {
        let subjects =
            vec![Subject::Field(Field::Protocol), Subject::Field(Field::DestinationPort)];
        let web = vec![Range::one(6), Range { first: 80, last: 81 }];
        let names = vec![Range::one(17), Range::one(53)];
        let one = TupleCondition { subjects, tuples: vec![web, names], is_negated: false };
        let none = TupleCondition { is_negated: true, ..one.clone() };
        let packet = |protocol: u128, port: Option<u128>| {
            move |subject| match subject {
                Subject::Field(Field::Protocol) => Some(protocol),
                _ => port,
            }
        };
        assert!(one.takes(packet(6, Some(81))) && !none.takes(packet(6, Some(81))));
        assert!(!one.takes(packet(17, Some(80))) && none.takes(packet(17, Some(80))));
        assert!(!one.takes(packet(1, None)) && !none.takes(packet(1, None)));
    }

    #[test]
    fn masks_make_ranges_where_they_can() {
        let range = |first, last| Test::In(vec![Range { first, last }]);
        assert_eq!(Test::under_mask(0xff00, 0x1200, 0xffff), range(0x1200, 0x12ff));
        assert_eq!(Test::under_mask(0xffff, 5, 0xffff), range(5, 5));
        assert_eq!(Test::under_mask(0, 0, 0xffff), range(0, 0xffff));
        assert_eq!(Test::under_mask(2, 2, 0xffff), Test::Bits { mask: 2, value: 2 });
        assert_eq!(Test::under_mask(2, 3, 0xffff), Test::In(Vec::new()));
    }

    #[test]
    fn either_of_two_subjects_will_do() {
        let subjects =
            vec![Subject::Field(Field::SourcePort), Subject::Field(Field::DestinationPort)];
        let either = Condition { subjects, test: Test::equals(53), is_negated: false };
        let neither = Condition { is_negated: true, ..either.clone() };
        let ports = |source: u128, destination: u128| {
            move |subject| match subject {
                Subject::Field(Field::SourcePort) => Some(source),
                _ => Some(destination),
            }
        };
        assert!(either.takes(ports(53, 9)) && either.takes(ports(9, 53)));
        assert!(!either.takes(ports(9, 9)));
        assert!(!neither.takes(ports(53, 9)) && neither.takes(ports(9, 9)));
    }
}
