//! What flows must ask so that they take the packets that a rule's conditions do. Knows which subjects a switch shows;
//! refuses to know what follows from them.

use super::FLOWS_MAX;
use super::matches::{FlowMatch, ICMP, ICMPV6, MatchField, TCP, UDP};
use super::values::{greatest, ranges, ternaries};
use catena_rules::condition::{Condition, Range, Subject, Test, TupleCondition};
use catena_rules::rule_set::Statement;
use catena_wire::field::Field;
use std::borrow::Cow;

/// What flows cannot say, and what to do.
#[derive(Clone, Debug)]
pub(super) struct Unsayable {
    pub(super) what: Cow<'static, str>,
    pub(super) advice: &'static str,
}

impl Unsayable {
    const fn new(what: &'static str, advice: &'static str) -> Self {
        Self { what: Cow::Borrowed(what), advice }
    }
}

const RUN_IT: &str = "take the rule out, or run the rule set as a bundled firewall";

pub(super) const LIMIT: Unsayable = Unsayable::new(
    "it limits how often it takes packets, and a meter drops what it should pass on",
    RUN_IT,
);
pub(super) const LOG: Unsayable =
    Unsayable::new("it writes a line of log, and no flow does", RUN_IT);
pub(super) const COUNT: Unsayable =
    Unsayable::new("it counts packets before it has asked all", "write the counter last");
pub(super) const REJECT: Unsayable = Unsayable::new(
    "it tells senders that it rejects their packets, and no flow makes a packet",
    "write DROP, or run the rule set as a bundled firewall",
);
pub(super) const SIDES: Unsayable = Unsayable::new(
    "it asks at which interface packets came in or go out",
    "say which ports of the switch these are: --in PORT --out PORT",
);
pub(super) const TOO_MANY: Unsayable = Unsayable::new(
    "what it asks takes more than 65535 flows",
    "ask for prefixes instead of ranges, or for less in one rule",
);
const STATE: Unsayable = Unsayable::new(
    "it asks for the state of a connection, and OpenFlow 1.3 knows none",
    "write what packets show, such as --tcp-flags, or run the rule set as a bundled firewall",
);

/// What flows ask in the place of a condition.
#[derive(Clone, Debug)]
pub(super) enum Asks {
    /// One of these holds.
    Any(Vec<FlowMatch>),
    /// One of `there` holds, and none of `met`.
    Neither { met: Vec<FlowMatch>, there: Vec<FlowMatch> },
}

/// Matches that are asked one by one rather than those that must not hold.
const COMPLEMENT_MAX: usize = 64;

/// In the place of a condition on one value.
pub(super) fn condition(condition: &Condition, is_v6: bool) -> Result<Asks, Unsayable> {
    let Condition { subjects, test, is_negated } = condition;
    let (mut met, mut there) = (Vec::new(), Vec::new());
    for subject in subjects {
        let has = presence(*subject, is_v6)?;
        met.extend(product(&has, &taken(*subject, test, false, is_v6)?)?);
        there.extend(has);
    }
    match (is_negated, subjects.as_slice()) {
        (false, _) => Ok(Asks::Any(met)),
        (true, [one]) => {
            let others = product(&there, &taken(*one, test, true, is_v6)?)?;
            match others.len() > COMPLEMENT_MAX && met.len() < others.len() {
                true => Ok(Asks::Neither { met, there }),
                false => Ok(Asks::Any(others)),
            }
        }
        (true, _) => Ok(Asks::Neither { met, there }),
    }
}

/// In the place of a condition on several values at once.
pub(super) fn tuple(condition: &TupleCondition, is_v6: bool) -> Result<Asks, Unsayable> {
    let mut met = Vec::new();
    for ranges in &condition.tuples {
        met.extend(values(&condition.subjects, ranges, is_v6)?);
        if met.len() > FLOWS_MAX {
            return Err(TOO_MANY);
        }
    }
    if !condition.is_negated {
        return Ok(Asks::Any(met));
    }
    let there = condition.subjects.iter().try_fold(vec![FlowMatch::default()], |there, subject| {
        product(&there, &presence(*subject, is_v6)?)
    });
    Ok(Asks::Neither { met, there: there? })
}

/// Packets with values in these ranges, one for each subject.
pub(super) fn values(
    subjects: &[Subject],
    ranges: &[Range],
    is_v6: bool,
) -> Result<Vec<FlowMatch>, Unsayable> {
    let all = vec![FlowMatch::default()];
    subjects.iter().zip(ranges).try_fold(all, |matches, (subject, range)| {
        let matches = product(&matches, &presence(*subject, is_v6)?)?;
        product(&matches, &taken(*subject, &Test::In(vec![*range]), false, is_v6)?)
    })
}

/// Does it ask where packets came in?
pub(super) fn is_about_sides(statement: &Statement) -> bool {
    let subjects = match statement {
        Statement::Match(condition) => &condition.subjects,
        Statement::MatchTuple(condition) => &condition.subjects,
        Statement::Map(map) => &map.subjects,
        _ => return false,
    };
    subjects.contains(&Subject::CameIn)
}

/// What meets one of each.
pub(super) fn product(
    first: &[FlowMatch],
    second: &[FlowMatch],
) -> Result<Vec<FlowMatch>, Unsayable> {
    let mut both = Vec::new();
    for one in first {
        both.extend(second.iter().filter_map(|other| one.and(other)));
        if both.len() > FLOWS_MAX {
            return Err(TOO_MANY);
        }
    }
    Ok(both)
}

/// Packets that have a subject.
fn presence(subject: Subject, is_v6: bool) -> Result<Vec<FlowMatch>, Unsayable> {
    let icmp = if is_v6 { ICMPV6 } else { ICMP };
    let protocols: &[u128] = match subject {
        Subject::Version | Subject::IsLaterFragment | Subject::CameIn => {
            return Ok(vec![FlowMatch::default()]);
        }
        Subject::Field(
            Field::EthernetSource
            | Field::EthernetDestination
            | Field::Source
            | Field::Destination
            | Field::Dscp
            | Field::Ecn
            | Field::Ttl
            | Field::Protocol,
        ) => return Ok(vec![FlowMatch::default()]),
        Subject::Field(Field::FlowLabel) if is_v6 => return Ok(vec![FlowMatch::default()]),
        Subject::Field(Field::FragmentOffset) if !is_v6 => return Ok(vec![FlowMatch::default()]),
        Subject::Field(Field::FlowLabel | Field::FragmentOffset) => &[],
        Subject::Field(Field::SourcePort | Field::DestinationPort) => &[TCP, UDP],
        Subject::Field(Field::TcpFlags) => &[TCP],
        Subject::Field(Field::IcmpType | Field::IcmpCode) | Subject::IcmpMessage => &[icmp],
        Subject::State => return Err(STATE),
        Subject::Field(_) | Subject::PacketBytes | Subject::TcpOption(_) => {
            let what = format!("it asks for the {subject}, which no flow sees");
            return Err(Unsayable { what: Cow::Owned(what), advice: RUN_IT });
        }
    };
    let whole = FlowMatch::equals(MatchField::LaterFragment, 0);
    let of = |protocol: &u128| FlowMatch::equals(MatchField::Protocol, *protocol).and(&whole);
    Ok(protocols.iter().filter_map(of).collect())
}

/// Packets that have a subject and whose value of it meets a test, or does not.
fn taken(
    subject: Subject,
    test: &Test,
    is_negated: bool,
    is_v6: bool,
) -> Result<Vec<FlowMatch>, Unsayable> {
    let field = match subject {
        Subject::Version => {
            let is_met = test.takes(if is_v6 { 6 } else { 4 }) != is_negated;
            return Ok(is_met.then(FlowMatch::default).into_iter().collect());
        }
        Subject::IcmpMessage => return Ok(messages(&ranges(test, is_negated, 16))),
        Subject::Field(Field::FragmentOffset) => return offsets(&ranges(test, is_negated, 13)),
        Subject::IsLaterFragment => MatchField::LaterFragment,
        Subject::CameIn => MatchField::Side,
        Subject::Field(Field::EthernetSource) => MatchField::EthernetSource,
        Subject::Field(Field::EthernetDestination) => MatchField::EthernetDestination,
        Subject::Field(Field::Source) => MatchField::Source,
        Subject::Field(Field::Destination) => MatchField::Destination,
        Subject::Field(Field::Dscp) => MatchField::Dscp,
        Subject::Field(Field::Ecn) => MatchField::Ecn,
        Subject::Field(Field::Ttl) => MatchField::Ttl,
        Subject::Field(Field::FlowLabel) => MatchField::FlowLabel,
        Subject::Field(Field::Protocol) => MatchField::Protocol,
        Subject::Field(Field::SourcePort) => MatchField::SourcePort,
        Subject::Field(Field::DestinationPort) => MatchField::DestinationPort,
        Subject::Field(Field::TcpFlags) => MatchField::TcpFlags,
        Subject::Field(Field::IcmpType) => MatchField::IcmpType,
        Subject::Field(Field::IcmpCode) => MatchField::IcmpCode,
        // Of what is not seen it was told by its presence.
        Subject::State | Subject::PacketBytes | Subject::TcpOption(_) | Subject::Field(_) => {
            return Ok(Vec::new());
        }
    };
    let found = ternaries(test, is_negated, field.bits(is_v6), field.is_maskable());
    Ok(found.into_iter().map(|ternary| FlowMatch::of(field, ternary)).collect())
}

/// Types and codes as one number.
fn messages(ranges: &[Range]) -> Vec<FlowMatch> {
    let mut found = Vec::new();
    for Range { first, last } in ranges {
        if (*first, *last) == (0, greatest(16)) {
            return vec![FlowMatch::default()];
        }
        for kind in first >> 8..=last >> 8 {
            let of_kind = FlowMatch::equals(MatchField::IcmpType, kind);
            let (from, to) = ((*first).max(kind << 8), (*last).min(kind << 8 | 0xff));
            if to - from == 0xff {
                found.push(of_kind);
                continue;
            }
            let codes =
                (from..=to).map(|code| FlowMatch::equals(MatchField::IcmpCode, code & 0xff));
            found.extend(codes.filter_map(|code| of_kind.and(&code)));
        }
    }
    found
}

/// Offsets of fragments, of which a switch shows whether they are zero.
fn offsets(ranges: &[Range]) -> Result<Vec<FlowMatch>, Unsayable> {
    let is_later = |value| FlowMatch::equals(MatchField::LaterFragment, value);
    match ranges {
        [] => Ok(Vec::new()),
        [Range { first: 0, last: 0 }] => Ok(vec![is_later(0)]),
        [Range { first: 1, last }] if *last == greatest(13) => Ok(vec![is_later(1)]),
        [Range { first: 0, last }] if *last == greatest(13) => Ok(vec![FlowMatch::default()]),
        _ => {
            Err(Unsayable::new("it asks for the offset of a fragment, which no flow sees", RUN_IT))
        }
    }
}
