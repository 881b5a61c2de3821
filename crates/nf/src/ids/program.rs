//! Rules as they are run: in the order in which they are held, and found by one content of each.

use super::config::IdsError;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use catena_model::limits::FUNCTION_RULES_MAX;
use catena_rules::snort::{Buffer, FlowbitUse, IdsRule, IdsRules, Protocol};
use catena_wire::scalar::IpProtocol;
use std::collections::HashMap;
use std::sync::Arc;

/// A rule's place in the order in which they are held.
pub(super) type Rank = u32;

/// Bytes of contents up to which their search is made for speed: it takes up to 1 KiB for each of them.
const DFA_BYTES_MAX: usize = 16_384;
/// Protocols whose packets meet rules of their own.
const GROUPS: usize = 4;

/// Rules, compiled.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) rules: Arc<IdsRules>,
    /// The rules, by their numbers, in their order.
    pub(super) order: Vec<u32>,
    groups: [Group; GROUPS],
    /// What is the same in two sets of rules.
    pub(super) contents: Vec<u64>,
    /// Rules with thresholds.
    pub(super) counted: Vec<u32>,
}

/// Rules that packets of one protocol meet.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Those without a content to be looked for, of packets and of requests.
    always: Vec<Rank>,
    on_request: Vec<Rank>,
    finders: Vec<(Buffer, Finder)>,
}

#[derive(Clone, Debug)]
struct Finder {
    search: AhoCorasick,
    /// The rule of each content.
    ranks: Vec<Rank>,
}

/// Rules to be held, as bits by their ranks.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates(Vec<u64>);

impl Candidates {
    pub(super) fn new(rules: usize) -> Self {
        Self(vec![0; rules.div_ceil(64)])
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(super) fn set(&mut self, rank: Rank) {
        if let Some(word) = self.0.get_mut(rank as usize / 64) {
            *word |= 1 << (rank % 64);
        }
    }

    /// The first at this rank or behind.
    pub(super) fn next(&self, from: Rank) -> Option<Rank> {
        let mut at = from as usize / 64;
        let mut word = self.0.get(at)? & (u64::MAX << (from % 64));
        while word == 0 {
            at += 1;
            word = *self.0.get(at)?;
        }
        Some(at as u32 * 64 + word.trailing_zeros())
    }
}

fn group_of(protocol: IpProtocol) -> usize {
    match protocol {
        IpProtocol::TCP => 0,
        IpProtocol::UDP => 1,
        IpProtocol::ICMP | IpProtocol::ICMPV6 => 2,
        _ => 3,
    }
}

fn is_in(rule: &IdsRule, group: usize) -> bool {
    match rule.protocol {
        Protocol::Ip => true,
        Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream | Protocol::Http => group == 0,
        Protocol::Udp => group == 1,
        Protocol::Icmp => group == 2,
    }
}

impl Program {
    pub(super) fn compile(rules: IdsRules) -> Result<Self, IdsError> {
        if rules.rules.len() > FUNCTION_RULES_MAX {
            return Err(IdsError::Rules(rules.rules.len()));
        }
        let mut order: Vec<u32> = (0..).take(rules.rules.len()).collect();
        let rule_of = |number: &u32| rules.rules.get(*number as usize);
        order.sort_by_key(|number| {
            rule_of(number).map(|rule| (rule.action, bits_first(rule), rule.severity))
        });
        let ranked: Vec<(Rank, &IdsRule)> = (0..).zip(order.iter().filter_map(rule_of)).collect();
        let mut groups: [Group; GROUPS] = Default::default();
        for (number, group) in groups.iter_mut().enumerate() {
            let own: Vec<(Rank, &IdsRule)> =
                ranked.iter().filter(|(_, rule)| is_in(rule, number)).copied().collect();
            *group = Group::of(&own)?;
        }
        let mut seen = HashMap::new();
        let contents = rules.rules.iter().map(|rule| {
            let hash = stable_hash(&rule.text);
            let nth: &mut u64 = seen.entry(hash).or_default();
            *nth += 1;
            hash ^ catena_wire::flow::mix(*nth)
        });
        let contents = contents.collect();
        let counted = (0..).zip(&rules.rules).filter(|(_, rule)| !rule.thresholds.is_empty());
        let counted = counted.map(|(number, _)| number).collect();
        Ok(Self { order, groups, contents, counted, rules: Arc::new(rules) })
    }

    pub(super) fn rule(&self, rank: Rank) -> Option<(u32, &IdsRule)> {
        let number = *self.order.get(rank as usize)?;
        Some((number, self.rules.rules.get(number as usize)?))
    }

    /// Notes the rules that any packet of a protocol may be for.
    pub(super) fn note_always(&self, protocol: IpProtocol, into: &mut Candidates) {
        let group = self.groups.get(group_of(protocol));
        group.iter().flat_map(|group| &group.always).for_each(|rank| into.set(*rank));
    }

    /// Finds the rules that bytes of a packet, or of its stream, may be for, each with where its content ends.
    pub(super) fn find(&self, protocol: IpProtocol, bytes: &[u8], found: impl FnMut(Rank, usize)) {
        if let Some(group) = self.groups.get(group_of(protocol)) {
            group.find(Buffer::Payload, bytes, found);
        }
    }

    /// Bytes before a place in which a content may begin that ends behind it.
    pub(super) fn overlap(&self, protocol: IpProtocol) -> usize {
        let finder = self.groups.get(group_of(protocol)).and_then(|it| it.finder(Buffer::Payload));
        finder.map_or(0, |finder| finder.search.max_pattern_len().saturating_sub(1))
    }

    /// Notes the rules that a request may be for.
    pub(super) fn look_in_request<'b>(
        &self,
        buffers: impl Iterator<Item = (Buffer, &'b [u8])>,
        into: &mut Candidates,
    ) {
        let Some(group) = self.groups.first() else { return };
        group.on_request.iter().for_each(|rank| into.set(*rank));
        buffers.for_each(|(buffer, bytes)| group.find(buffer, bytes, |rank, _| into.set(rank)));
    }
}

impl Group {
    fn of(rules: &[(Rank, &IdsRule)]) -> Result<Self, IdsError> {
        let mut group = Self::default();
        for (rank, rule) in rules.iter().filter(|(_, rule)| rule.fast.is_none()) {
            if rule.is_of_requests() { &mut group.on_request } else { &mut group.always }
                .push(*rank);
        }
        for buffer in Buffer::ALL {
            let own = rules.iter().filter_map(|(rank, rule)| {
                rule.fast.as_ref().filter(|(of, _)| *of == buffer).map(|(_, bytes)| (*rank, bytes))
            });
            let (ranks, contents): (Vec<Rank>, Vec<&Vec<u8>>) = own.unzip();
            if ranks.is_empty() {
                continue;
            }
            let bytes: usize = contents.iter().map(|content| content.len()).sum();
            let kind = if bytes <= DFA_BYTES_MAX {
                AhoCorasickKind::DFA
            } else {
                AhoCorasickKind::ContiguousNFA
            };
            let search = AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .match_kind(MatchKind::Standard)
                .kind(Some(kind))
                .build(contents)
                .map_err(|error| IdsError::Search(error.to_string()))?;
            group.finders.push((buffer, Finder { search, ranks }));
        }
        Ok(group)
    }

    fn finder(&self, buffer: Buffer) -> Option<&Finder> {
        self.finders.iter().find(|(of, _)| *of == buffer).map(|(_, finder)| finder)
    }

    fn find(&self, buffer: Buffer, bytes: &[u8], mut found: impl FnMut(Rank, usize)) {
        let Some(finder) = self.finder(buffer) else { return };
        for place in finder.search.find_overlapping_iter(bytes) {
            if let Some(rank) = finder.ranks.get(place.pattern().as_usize()) {
                found(*rank, place.end());
            }
        }
    }
}

/// Rules that set bits come before those that ask for them.
fn bits_first(rule: &IdsRule) -> u8 {
    let sets = rule.flowbits.iter().any(|(usage, _)| {
        matches!(usage, FlowbitUse::Set | FlowbitUse::Unset | FlowbitUse::Toggle)
    });
    let asks = rule
        .flowbits
        .iter()
        .any(|(usage, _)| matches!(usage, FlowbitUse::IsSet | FlowbitUse::IsNotSet));
    match (sets, asks) {
        (true, false) => 0,
        (true, true) => 1,
        (false, true) => 2,
        (false, false) => 3,
    }
}

/// A hash that is the same in every build (FNV-1a, Fowler, Noll, Vo).
pub(super) fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
