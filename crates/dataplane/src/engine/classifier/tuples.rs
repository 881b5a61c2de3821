//! Tuple space search (Srinivasan, Suri, Varghese: Packet classification using tuple space search,
//! 1999) with merged tuples (Daly et al.: TupleMerge, 2019): rules that give the same bits of the
//! same fields lie in one hash table, so a packet asks each table once. Knows bits and ranks;
//! refuses to know what a rule is for.
//!
//! A table asks for fewer bits than most of its rules give, so that few tables serve many shapes of
//! rules; what shares a bucket is compared one by one, and a bucket that is full sends further rules
//! to a table that asks for more. Tables stand in the order of the best rank in them: once a match
//! is better than all that follows, the search ends. Key collisions cost a comparison, never a
//! wrong answer, so 64 bits of hash are key enough.

use super::filter::Filter;
use super::rule::{Rule, number};
use crate::engine::sharing::{Hashed, SharedMap};
use catena_model::resource::IpFamily;
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::scalar::PortRange;
use std::sync::Arc;

/// Rules of a bucket before further ones go to a table that asks for more.
const BUCKET_MAX: usize = 8;
/// Address bits of both ends together from which on a table asks for no ports.
const BITS_WITHOUT_PORTS: u16 = 24;

/// Order of a rule: the lesser goes first.
pub(super) type Rank = u64;

/// A rule in a bucket.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    rank: Rank,
    /// Its number among all rules.
    number: u32,
    /// Where it takes packets from.
    scope: u32,
    rule: Rule,
}

/// Which bits of which fields a table asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tuple {
    family: IpFamily,
    source: u8,
    destination: u8,
    has_protocol: bool,
    has_source_port: bool,
    has_destination_port: bool,
}

impl Tuple {
    /// All that a rule gives.
    fn of(rule: &Rule) -> Self {
        let one = |range: Option<PortRange>| range.is_some_and(|range| range.min() == range.max());
        Self {
            family: rule.family,
            source: rule.source.bits,
            destination: rule.destination.bits,
            has_protocol: rule.protocol.is_some(),
            has_source_port: one(rule.source_ports),
            has_destination_port: one(rule.destination_ports),
        }
    }

    /// Less than that, so that rules of other shapes fit too.
    fn relaxed(self) -> Self {
        let step = if self.family == IpFamily::Ipv4 { 8 } else { 16 };
        let (source, destination) = (self.source / step * step, self.destination / step * step);
        let is_coarse = u16::from(source) + u16::from(destination) < BITS_WITHOUT_PORTS;
        Self {
            source,
            destination,
            has_protocol: false,
            has_source_port: self.has_source_port && is_coarse,
            has_destination_port: self.has_destination_port && is_coarse,
            ..self
        }
    }

    /// Does a rule that gives all of `other` give all that this asks for?
    fn is_within(self, other: Self) -> bool {
        self.family == other.family
            && self.source <= other.source
            && self.destination <= other.destination
            && self.has_protocol <= other.has_protocol
            && self.has_source_port <= other.has_source_port
            && self.has_destination_port <= other.has_destination_port
    }

    /// How much it asks for.
    fn weight(self) -> u32 {
        let flags = [self.has_protocol, self.has_source_port, self.has_destination_port];
        let flags: u32 = flags.into_iter().map(|flag| if flag { 16 } else { 0 }).sum();
        u32::from(self.source) + u32::from(self.destination) + flags
    }

    fn mask(self, bits: u8) -> u128 {
        let width = if self.family == IpFamily::Ipv4 { 32 } else { 128 };
        // Without bits the mask is empty, for which no shift is small enough.
        match bits {
            0 => 0,
            bits => (u128::MAX >> (128 - width)) & (u128::MAX << (width - u32::from(bits))),
        }
    }
}

/// What a table is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Folded(u64);

impl Hashed for Folded {
    fn hash(&self) -> u64 {
        self.0
    }
}

/// The fields of a packet or rule as tables take them.
#[derive(Clone, Copy)]
struct Fields {
    source: u128,
    destination: u128,
    protocol: u8,
    source_port: u16,
    destination_port: u16,
    /// What every table asks for: scope and VLAN.
    start: u64,
}

fn start(scope: u32, vlan: Option<catena_wire::scalar::VlanId>) -> u64 {
    let vlan = vlan.map_or(0, |vlan| u64::from(vlan.get()) + 1);
    (u64::from(scope) << 16 | vlan).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Both halves of a product, so that each bit of the result hangs on each of the word. A tenth of the
/// price of a mix that no one sees through, and every packet asks for it once a table.
#[inline]
fn fold(word: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(word ^ 0xbf58_476d_1ce4_e5b9) * u128::from(FACTOR);
    (product >> 64) as u64 ^ product as u64
}

#[derive(Clone)]
struct Table {
    tuple: Tuple,
    source_mask: u128,
    destination_mask: u128,
    /// No rule in it goes before this; after a removal it may be too low, which costs only time.
    best: Rank,
    len: usize,
    /// Most packets meet nothing in most tables, and learn it here.
    filter: Filter,
    buckets: SharedMap<Folded, Bucket, 64>,
}

/// Rules that a table cannot tell apart, in their order.
#[derive(Clone)]
struct Bucket {
    /// That of the first: who has found a better one need not look further.
    best: Rank,
    rules: Arc<[Ranked]>,
}

impl Bucket {
    fn new(rules: Vec<Ranked>) -> Option<Self> {
        let best = rules.first()?.rank;
        Some(Self { best, rules: rules.into() })
    }
}

impl Table {
    fn new(tuple: Tuple) -> Self {
        Self {
            tuple,
            source_mask: tuple.mask(tuple.source),
            destination_mask: tuple.mask(tuple.destination),
            best: Rank::MAX,
            len: 0,
            filter: Filter::of(std::iter::empty()),
            buckets: SharedMap::default(),
        }
    }

    fn put(&mut self, key: Folded, bucket: Bucket) {
        if self.buckets.insert(key, bucket).is_some() {
            return;
        }
        if self.filter.has_room() {
            self.filter.add(key.0);
        } else {
            self.filter = Filter::of(self.buckets.keys().map(|key| key.0));
        }
    }

    #[inline]
    fn fold(&self, fields: &Fields) -> Folded {
        let Tuple { family, has_protocol, has_source_port, has_destination_port, .. } = self.tuple;
        let source = fields.source & self.source_mask;
        let destination = fields.destination & self.destination_mask;
        let state = match family {
            IpFamily::Ipv4 => fields.start ^ (source as u64) << 32 ^ destination as u64,
            IpFamily::Ipv6 => {
                let halves = [(source >> 64) as u64, source as u64, (destination >> 64) as u64];
                let state = halves.into_iter().fold(fields.start, |state, half| fold(state ^ half));
                state ^ destination as u64
            }
        };
        let ask = |is_asked: bool, value: u64| if is_asked { value + 1 } else { 0 };
        let tail = ask(has_protocol, u64::from(fields.protocol)) << 34
            | ask(has_source_port, u64::from(fields.source_port)) << 17
            | ask(has_destination_port, u64::from(fields.destination_port));
        Folded(fold(fold(state) ^ tail))
    }

    fn bucket_of(&self, scope: u32, rule: &Rule) -> Folded {
        self.fold(&Fields {
            source: rule.source.base,
            destination: rule.destination.base,
            protocol: rule.protocol.map_or(0, |protocol| protocol.0),
            source_port: rule.source_ports.map_or(0, PortRange::min),
            destination_port: rule.destination_ports.map_or(0, PortRange::min),
            start: start(scope, rule.vlan),
        })
    }
}

/// All tables.
#[derive(Clone, Default)]
pub(super) struct Tuples {
    tables: Vec<Arc<Table>>,
}

impl Tuples {
    /// Rank and number of the first rule of one of these scopes that a packet meets.
    #[inline]
    pub(super) fn find(
        &self,
        scopes: &(impl Iterator<Item = u32> + Clone),
        view: &FrameView,
        flow: &FlowKey,
    ) -> Option<u32> {
        let family = IpFamily::of(flow.source);
        let mut fields = Fields {
            source: number(flow.source),
            destination: number(flow.destination),
            protocol: flow.protocol.0,
            source_port: flow.source_port,
            destination_port: flow.destination_port,
            start: 0,
        };
        let mut found: Option<(Rank, u32)> = None;
        for table in &self.tables {
            let bound = found.map_or(Rank::MAX, |(rank, _)| rank);
            if table.best >= bound {
                break;
            }
            if table.tuple.family != family {
                continue;
            }
            for scope in scopes.clone() {
                fields.start = start(scope, view.vlan);
                let key = table.fold(&fields);
                if !table.filter.may_hold(key.0) {
                    continue;
                }
                let bound = found.map_or(Rank::MAX, |(rank, _)| rank);
                let bucket = table.buckets.get(&key).filter(|bucket| bucket.best < bound);
                let Some(Bucket { rules, .. }) = bucket else { continue };
                let better = rules.iter().take_while(|one| one.rank < bound);
                let mut meets = better
                    .filter(|one| one.scope == scope && one.rule.failing(view, flow).is_none());
                if let Some(one) = meets.next() {
                    found = Some((one.rank, one.number));
                }
            }
        }
        found.map(|(_, number)| number)
    }

    pub(super) fn insert(&mut self, scope: u32, rank: Rank, number: u32, rule: Rule) {
        let whole = Tuple::of(&rule);
        let index = self.roomy(scope, &rule, whole).unwrap_or_else(|| self.new_table(whole));
        let table = Arc::make_mut(&mut self.tables[index]);
        let key = table.bucket_of(scope, &rule);
        let before = table.buckets.get(&key);
        let mut rules = before.map_or_else(Vec::new, |bucket| bucket.rules.to_vec());
        let place = rules.partition_point(|other| other.rank < rank);
        rules.insert(place, Ranked { rank, number, scope, rule });
        if let Some(bucket) = Bucket::new(rules) {
            table.put(key, bucket);
        }
        table.len += 1;
        table.best = table.best.min(rank);
        self.tables.sort_by_key(|table| table.best);
    }

    /// The table that asks for most of what the rule gives and has room for it.
    fn roomy(&self, scope: u32, rule: &Rule, whole: Tuple) -> Option<usize> {
        let fits = |table: &&(usize, &Arc<Table>)| {
            let bucket = table.1.buckets.get(&table.1.bucket_of(scope, rule));
            table.1.tuple.is_within(whole)
                && bucket.is_none_or(|bucket| bucket.rules.len() < BUCKET_MAX)
        };
        let tables: Vec<(usize, &Arc<Table>)> = self.tables.iter().enumerate().collect();
        let roomy = tables.iter().filter(fits).max_by_key(|(_, table)| table.tuple.weight());
        roomy.map(|(index, _)| *index)
    }

    /// A table for rules that give this, or the one that asks for all of it, full or not.
    fn new_table(&mut self, whole: Tuple) -> usize {
        let place = |tables: &[Arc<Table>], tuple: Tuple| {
            tables.iter().position(|table| table.tuple == tuple)
        };
        let relaxed = whole.relaxed();
        let tuple = if place(&self.tables, relaxed).is_none() { relaxed } else { whole };
        place(&self.tables, tuple).unwrap_or_else(|| {
            self.tables.push(Arc::new(Table::new(tuple)));
            self.tables.len() - 1
        })
    }

    /// Takes a rule out that is in one of the tables.
    pub(super) fn remove(&mut self, scope: u32, number: u32, rule: &Rule) {
        let whole = Tuple::of(rule);
        let holds = |table: &Arc<Table>| {
            let bucket = table.tuple.is_within(whole).then(|| table.bucket_of(scope, rule));
            let bucket = bucket.and_then(|key| table.buckets.get(&key));
            bucket.is_some_and(|bucket| bucket.rules.iter().any(|one| one.number == number))
        };
        let Some(index) = self.tables.iter().position(holds) else { return };
        let table = Arc::make_mut(&mut self.tables[index]);
        let key = table.bucket_of(scope, rule);
        let Some(Bucket { rules, .. }) = table.buckets.get(&key) else { return };
        let left = rules.iter().filter(|one| one.number != number).copied().collect();
        match Bucket::new(left) {
            Some(left) => table.put(key, left),
            None => {
                table.buckets.remove(&key);
            }
        }
        table.len -= 1;
        if table.len == 0 {
            self.tables.remove(index);
        }
    }

    /// Tables there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.tables.len()
    }
}
