//! Headers of packets as variables, and what rules ask of them as sets.
//!
//! Knows widths, and which headers a packet has together. What no bit of a packet says (is there a token, is an option
//! there) is a variable of its own, so that what is concluded holds whatever it is.

use super::bdd::{Bdd, Set, TooLarge, VISITS_MAX};
use catena_rules::Side;
use catena_rules::condition::{Condition, ConnectionState, Range, Subject, Test, TupleCondition};
use catena_rules::groups::GroupNames;
use catena_rules::rule_set::Limit;
use catena_wire::field::Field;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ICMP: u128 = 1;
const TCP: u128 = 6;
const UDP: u128 = 17;
const ICMPV6: u128 = 58;

/// Variables of one subject.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The first one, of the highest bit.
    first: u32,
    /// How many.
    bits: u32,
}

impl Block {
    /// The variable of a bit, the lowest being 0.
    const fn variable(self, bit: u32) -> u32 {
        self.first + self.bits - 1 - bit
    }
}

/// The headers of packets of one version of IP.
pub(crate) struct Headers {
    pub(crate) bdd: Bdd,
    is_v6: bool,
    blocks: BTreeMap<Subject, Block>,
    /// The variables that say whether a packet has what a subject is about.
    presences: BTreeMap<Presence, u32>,
    limits: HashMap<(usize, Limit), u32>,
    /// Conditions that were asked for, which are asked for again whenever rules are gone through.
    conditions: HashMap<Condition, Set>,
    variables: u32,
    /// Rules that were gone through.
    visits: usize,
    /// What can be: of all assignments, those of packets.
    universe: Set,
    /// Are these packets of one side alone?
    is_limited: bool,
    /// What addresses are called.
    groups: GroupNames,
}

/// What a packet may have or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Presence {
    /// Ports of TCP or UDP, in so much of the packet as there is.
    Ports,
    /// A whole header of TCP.
    Tcp,
    /// Type and code of ICMP.
    Icmp,
    /// Of what else there is, each for itself.
    Other(Subject),
}

/// Subjects in the order of their variables: what rules ask most often stands first.
const FIRST: [Subject; 5] = [
    Subject::Field(Field::Protocol),
    Subject::Field(Field::Destination),
    Subject::Field(Field::Source),
    Subject::Field(Field::DestinationPort),
    Subject::Field(Field::SourcePort),
];

impl Headers {
    /// Those of a version, as far as these subjects go.
    pub(crate) fn new(is_v6: bool, subjects: &BTreeSet<Subject>) -> Result<Self, TooLarge> {
        let mut headers = Self {
            bdd: Bdd::new(),
            is_v6,
            blocks: BTreeMap::new(),
            presences: BTreeMap::new(),
            limits: HashMap::new(),
            conditions: HashMap::new(),
            variables: 0,
            visits: 0,
            universe: Set::ALL,
            is_limited: false,
            groups: GroupNames::new(),
        };
        let asked: BTreeSet<Subject> = subjects.iter().map(|subject| home(*subject).0).collect();
        let first = FIRST.into_iter();
        let later = asked.into_iter().filter(|subject| !FIRST.contains(subject));
        for subject in first.chain(later) {
            let bits = headers.width(subject);
            headers.blocks.insert(subject, Block { first: headers.variables, bits });
            headers.variables += bits;
        }
        headers.limit_to_packets()?;
        Ok(headers)
    }

    /// Takes note of a rule that is gone through, of which there may be very many where chains lead into one another.
    pub(crate) fn visit(&mut self) -> Result<(), TooLarge> {
        self.visits += 1;
        if self.visits > VISITS_MAX { Err(TooLarge) } else { Ok(()) }
    }

    /// Takes note of what addresses are called.
    pub(crate) fn name(&mut self, groups: &GroupNames) {
        self.groups.extend(groups.iter().map(|(net, name)| (*net, name.clone())));
    }

    /// Leaves only packets that came in at a side, of which no words are made any more.
    pub(crate) fn limit_to(&mut self, side: Side) -> Result<(), TooLarge> {
        let came_in = self.values(Subject::CameIn, &Test::equals(side.number()))?;
        self.universe = self.bdd.and(self.universe, came_in)?;
        self.is_limited = true;
        Ok(())
    }

    /// All packets.
    pub(crate) const fn universe(&self) -> Set {
        self.universe
    }

    fn width(&self, subject: Subject) -> u32 {
        match subject {
            Subject::Field(Field::Source | Field::Destination) if !self.is_v6 => 32,
            Subject::Field(field) => field.bits(),
            Subject::PacketBytes | Subject::IcmpMessage => 16,
            Subject::State => 7,
            Subject::Version => 0,
            Subject::IsLaterFragment | Subject::CameIn | Subject::TcpOption(_) => 1,
        }
    }

    /// A connection has one state; ports, flags and messages are those of their protocols.
    fn limit_to_packets(&mut self) -> Result<(), TooLarge> {
        if let Some(block) = self.blocks.get(&Subject::State).copied() {
            let mut states = Set::NONE;
            for (state, _) in ConnectionState::ALL {
                let value = state as u128;
                let one = self.range(block, Range::one(value))?;
                states = self.bdd.or(states, one)?;
            }
            self.universe = self.bdd.and(self.universe, states)?;
        }
        for (presence, protocols) in [
            (Presence::Ports, &[TCP, UDP][..]),
            (Presence::Tcp, &[TCP]),
            (Presence::Icmp, if self.is_v6 { &[ICMPV6] } else { &[ICMP] }),
        ] {
            let there = self.presence(presence)?;
            let test =
                Test::among(protocols.iter().map(|protocol| Range::one(*protocol)).collect());
            let block = self.blocks[&Subject::Field(Field::Protocol)];
            let of_these = self.test(block, &test)?;
            let possible = self.bdd.or(!there, of_these)?;
            self.universe = self.bdd.and(self.universe, possible)?;
        }
        // Where there is a whole header, there are ports.
        let (ports, tcp) = (self.presence(Presence::Ports)?, self.presence(Presence::Tcp)?);
        let possible = self.bdd.or(!tcp, ports)?;
        self.universe = self.bdd.and(self.universe, possible)?;
        Ok(())
    }

    /// Packets that meet a condition.
    pub(crate) fn condition(&mut self, condition: &Condition) -> Result<Set, TooLarge> {
        if let Some(known) = self.conditions.get(condition) {
            return Ok(*known);
        }
        let (mut there, mut met) = (Set::NONE, Set::NONE);
        for subject in &condition.subjects {
            let has = self.has(*subject)?;
            let takes = self.takes(*subject, &condition.test)?;
            let takes = self.bdd.and(has, takes)?;
            there = self.bdd.or(there, has)?;
            met = self.bdd.or(met, takes)?;
        }
        let packets = self.bdd.and(there, if condition.is_negated { !met } else { met })?;
        self.conditions.insert(condition.clone(), packets);
        Ok(packets)
    }

    /// Packets that meet a condition on several values at once.
    pub(crate) fn tuple(&mut self, condition: &TupleCondition) -> Result<Set, TooLarge> {
        let mut met = Set::NONE;
        for ranges in &condition.tuples {
            let one = self.tuple_of(&condition.subjects, ranges)?;
            met = self.bdd.or(met, one)?;
        }
        let there = self.have(&condition.subjects)?;
        self.bdd.and(there, if condition.is_negated { !met } else { met })
    }

    /// Is it about IPv6?
    pub(crate) const fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Packets that have a subject, with a value that meets a test.
    pub(crate) fn values(&mut self, subject: Subject, test: &Test) -> Result<Set, TooLarge> {
        self.condition(&Condition::of(subject, test.clone(), false))
    }

    /// Packets that have all of the subjects, with values in these ranges.
    pub(crate) fn tuple_of(
        &mut self,
        subjects: &[Subject],
        ranges: &[Range],
    ) -> Result<Set, TooLarge> {
        let mut met = self.have(subjects)?;
        for (subject, range) in subjects.iter().zip(ranges) {
            let takes = self.takes(*subject, &Test::In(vec![*range]))?;
            met = self.bdd.and(met, takes)?;
        }
        Ok(met)
    }

    fn have(&mut self, subjects: &[Subject]) -> Result<Set, TooLarge> {
        subjects.iter().try_fold(Set::ALL, |all, subject| {
            let has = self.has(*subject)?;
            self.bdd.and(all, has)
        })
    }

    /// Where there is a token for a rule; `owner` tells rules of the same words apart.
    pub(crate) fn limit(&mut self, owner: usize, limit: &Limit) -> Result<Set, TooLarge> {
        let next = self.variables;
        let variable = *self.limits.entry((owner, limit.clone())).or_insert(next);
        self.variables = self.variables.max(variable + 1);
        self.bdd.variable(variable)
    }

    /// Packets that have what a subject is about.
    fn has(&mut self, subject: Subject) -> Result<Set, TooLarge> {
        let presence = match subject {
            Subject::Version
            | Subject::PacketBytes
            | Subject::IsLaterFragment
            | Subject::CameIn
            | Subject::State => return Ok(Set::ALL),
            Subject::Field(
                Field::Source | Field::Destination | Field::Dscp | Field::Ecn | Field::Ttl,
            ) => {
                return Ok(Set::ALL);
            }
            Subject::Field(Field::Protocol) if !self.is_v6 => return Ok(Set::ALL),
            Subject::Field(Field::SourcePort | Field::DestinationPort) => Presence::Ports,
            Subject::Field(Field::TcpFlags) | Subject::TcpOption(_) => Presence::Tcp,
            Subject::Field(Field::IcmpType | Field::IcmpCode) | Subject::IcmpMessage => {
                Presence::Icmp
            }
            other => Presence::Other(other),
        };
        self.presence(presence)
    }

    fn presence(&mut self, presence: Presence) -> Result<Set, TooLarge> {
        let next = self.variables;
        let variable = *self.presences.entry(presence).or_insert(next);
        self.variables = self.variables.max(variable + 1);
        self.bdd.variable(variable)
    }

    /// Packets whose value of a subject meets a test, as far as they have one.
    fn takes(&mut self, subject: Subject, test: &Test) -> Result<Set, TooLarge> {
        if subject == Subject::Version {
            let version = if self.is_v6 { 6 } else { 4 };
            return Ok(if test.takes(version) { Set::ALL } else { Set::NONE });
        }
        let (home, skipped, bits) = home(subject);
        let Some(block) = self.blocks.get(&home).copied() else { return Ok(Set::ALL) };
        let bits = bits.unwrap_or(block.bits);
        self.test(Block { first: block.first + skipped, bits }, test)
    }

    fn test(&mut self, block: Block, test: &Test) -> Result<Set, TooLarge> {
        match test {
            Test::In(ranges) => ranges.iter().try_fold(Set::NONE, |all, range| {
                let one = self.range(block, *range)?;
                self.bdd.or(all, one)
            }),
            Test::Bits { mask, value } => self.bits(block, *mask, *value),
            Test::AnyBit(mask) => Ok(!self.bits(block, *mask, 0)?),
        }
    }

    /// Values whose bits under a mask are these.
    fn bits(&mut self, block: Block, mask: u128, value: u128) -> Result<Set, TooLarge> {
        if block.bits < 128 && (value & mask) >> block.bits != 0 {
            return Ok(Set::NONE);
        }
        (0..block.bits).try_fold(Set::ALL, |below, bit| {
            let variable = block.variable(bit);
            match (mask >> bit & 1 == 1, value >> bit & 1 == 1) {
                (false, _) => Ok(below),
                (true, true) => self.bdd.choice(variable, Set::NONE, below),
                (true, false) => self.bdd.choice(variable, below, Set::NONE),
            }
        })
    }

    /// Values in a range, as many as the block has bits for.
    fn range(&mut self, block: Block, range: Range) -> Result<Set, TooLarge> {
        let all = 1_u128.checked_shl(block.bits).map_or(u128::MAX, |beyond| beyond - 1);
        let (first, last) = (range.first, range.last.min(all));
        if first > last {
            return Ok(Set::NONE);
        }
        // Bits that both bounds share, then one that parts them, then those of each bound for itself.
        let parted = u128::BITS - (first ^ last).leading_zeros();
        let inner = match parted.checked_sub(1) {
            None => Set::ALL,
            Some(bit) => {
                let from = self.bound(block, bit, first, true)?;
                let to = self.bound(block, bit, last, false)?;
                self.bdd.choice(block.variable(bit), from, to)?
            }
        };
        (parted..block.bits).try_fold(inner, |below, bit| match first >> bit & 1 == 1 {
            true => self.bdd.choice(block.variable(bit), Set::NONE, below),
            false => self.bdd.choice(block.variable(bit), below, Set::NONE),
        })
    }

    /// Values whose lowest bits are not below the bound, or not above it.
    fn bound(
        &mut self,
        block: Block,
        bits: u32,
        bound: u128,
        is_least: bool,
    ) -> Result<Set, TooLarge> {
        (0..bits).try_fold(Set::ALL, |below, bit| {
            let variable = block.variable(bit);
            match (bound >> bit & 1 == 1, is_least) {
                (true, true) => self.bdd.choice(variable, Set::NONE, below),
                (false, true) => self.bdd.choice(variable, below, Set::ALL),
                (true, false) => self.bdd.choice(variable, Set::ALL, below),
                (false, false) => self.bdd.choice(variable, below, Set::NONE),
            }
        })
    }
}

/// Where the bits of a subject stand: the subject that has them, how many of its bits come before, and how many they
/// are, if not all.
const fn home(subject: Subject) -> (Subject, u32, Option<u32>) {
    match subject {
        Subject::Field(Field::IcmpType) => (Subject::IcmpMessage, 0, Some(8)),
        Subject::Field(Field::IcmpCode) => (Subject::IcmpMessage, 8, Some(8)),
        other => (other, 0, None),
    }
}

impl Headers {
    /// The largest part of some of all packets that few words describe; none: there are none.
    pub(crate) fn in_words(&mut self, packets: Set) -> Option<String> {
        // What packets have, and whether tokens are there, is not said.
        let mut unsaid: Vec<u32> =
            self.presences.values().chain(self.limits.values()).copied().collect();
        let side = self.blocks.get(&Subject::CameIn).filter(|_| self.is_limited);
        unsaid.extend(side.map(|block| block.first));
        unsaid.sort_unstable();
        let packets = self.bdd.without(packets, &unsaid).ok()?;
        let Some(block) = self.blocks.get(&Subject::State).copied() else {
            return self.part_in_words(packets);
        };
        // Those whose connection may be in any state, or else the first state that some are in.
        let (mut in_any, mut first) = (Set::ALL, None);
        let states = ConnectionState::ALL.into_iter();
        // INVALID, which is first there, people think of last.
        for (state, name) in states.clone().skip(1).chain(states.take(1)) {
            let mut of_state = packets;
            for bit in 0..block.bits {
                let variable = block.variable(bit);
                of_state = self.bdd.fixed(of_state, variable, state as u32 >> bit & 1 == 1).ok()?;
            }
            in_any = self.bdd.and(in_any, of_state).ok()?;
            first = first.or((!of_state.is_empty()).then_some((of_state, name)));
        }
        if !in_any.is_empty() {
            return self.part_in_words(in_any);
        }
        let (of_state, name) = first?;
        Some(format!("{}, state {name}", self.part_in_words(of_state)?))
    }

    fn part_in_words(&mut self, packets: Set) -> Option<String> {
        let fixed: BTreeMap<u32, bool> = self.bdd.largest(packets)?.into_iter().collect();
        let mut words = Vec::new();
        for (subject, block) in &self.blocks {
            let (mut mask, mut value) = (0_u128, 0_u128);
            for bit in 0..block.bits {
                if let Some(is_set) = fixed.get(&(block.variable(bit))) {
                    mask |= 1 << bit;
                    value |= u128::from(*is_set) << bit;
                }
            }
            if mask != 0 {
                words.push(part_in_words(*subject, block.bits, (mask, value), &self.groups));
            }
        }
        if words.is_empty() {
            words.push("all packets".to_owned());
        }
        Some(words.join(", "))
    }
}

/// What is said of one subject.
fn part_in_words(
    subject: Subject,
    bits: u32,
    (mask, value): (u128, u128),
    groups: &GroupNames,
) -> String {
    let all = u128::MAX >> (128 - bits);
    let free = !mask & all;
    let is_prefix = free.wrapping_add(1) & free == 0;
    let name = match subject {
        Subject::Field(field) => field.name().to_owned(),
        other => other.to_string(),
    };
    match subject {
        Subject::Field(Field::Protocol) if free == 0 => match value {
            ICMP => "icmp".to_owned(),
            TCP => "tcp".to_owned(),
            UDP => "udp".to_owned(),
            ICMPV6 => "icmpv6".to_owned(),
            other => format!("protocol {other}"),
        },
        Subject::Field(Field::Source | Field::Destination) if is_prefix => {
            let address = match bits {
                32 => IpAddr::from(Ipv4Addr::from(u32::try_from(value).unwrap_or_default())),
                _ => IpAddr::from(Ipv6Addr::from(value)),
            };
            let length = u8::try_from(bits - free.count_ones()).unwrap_or_default();
            let group = IpNet::new(address, length).ok().and_then(|net| groups.get(&net));
            let group = group.map_or_else(String::new, |group| format!(" ({group})"));
            match free == 0 {
                true => format!("{name} {address}{group}"),
                false => format!("{name} {address}/{length}{group}"),
            }
        }
        _ if free == 0 => format!("{name} {value}"),
        _ if is_prefix => format!("{name} {value}-{}", value | free),
        _ => format!("{name} & {mask:#x} = {value:#x}"),
    }
}

#[cfg(test)]
impl Headers {
    /// Is a packet with these values in a set?
    pub(crate) fn has_packet(&self, set: Set, value: impl Fn(Subject) -> Option<u128>) -> bool {
        let there = |presence: &Presence| match presence {
            Presence::Ports => value(Subject::Field(Field::SourcePort)).is_some(),
            Presence::Tcp => value(Subject::Field(Field::TcpFlags)).is_some(),
            Presence::Icmp => value(Subject::IcmpMessage).is_some(),
            Presence::Other(subject) => value(*subject).is_some(),
        };
        self.bdd.has(set, |variable| {
            let in_block =
                |block: &Block| (block.first..block.first + block.bits).contains(&variable);
            if let Some((subject, block)) = self.blocks.iter().find(|(_, block)| in_block(block)) {
                let bit = block.first + block.bits - 1 - variable;
                return value(*subject).is_some_and(|value| value >> bit & 1 == 1);
            }
            self.presences.iter().any(|(presence, own)| *own == variable && there(presence))
        })
    }
}
