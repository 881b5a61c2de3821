//! One hash table of rules that are asked for the same bits of the same fields. Knows its rules; refuses
//! to know why they are in it.

use crate::filter::Filter;
use crate::map::{Hashed, SharedMap};
use crate::rule::Rule;
use crate::tuples::Tuple;
use crate::words::{Tail, Words, start};
use catena_wire::scalar::PortRange;
use std::sync::Arc;

/// Order of a rule: the lesser goes first.
pub type Rank = u64;

/// A rule in a table.
#[derive(Clone, Copy, Debug)]
pub struct Ranked<T> {
    /// Its place in the order of all rules.
    pub rank: Rank,
    /// Its number among all rules.
    pub number: u32,
    /// Where it takes packets from.
    pub scope: u32,
    /// What it stands for.
    pub tag: T,
    /// What a packet must meet.
    pub rule: Rule,
}

/// What rules are filed under: 64 bits of hash, as a collision costs a comparison, never a wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) u64);

impl Hashed for Key {
    fn hash(&self) -> u64 {
        self.0
    }
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    mask: Words,
    /// No rule in it goes before this; after a removal it may be too low, which costs only time.
    pub(crate) best: Rank,
    /// Most packets meet nothing in most tables, and learn it here.
    filter: Filter,
    buckets: SharedMap<Key, Bucket<T>, 64>,
    pub(crate) tuple: Tuple,
    len: usize,
}

/// Rules that a table cannot tell apart, in their order. Most are alone, and such a rule is found with
/// the place of its key, without another wait for memory.
#[derive(Clone, Debug)]
struct Bucket<T> {
    first: Ranked<T>,
    rest: Option<Arc<[Ranked<T>]>>,
}

impl<T: Copy> Bucket<T> {
    fn new(rules: &[Ranked<T>]) -> Option<Self> {
        let (first, rest) = rules.split_first()?;
        Some(Self { first: *first, rest: Some(rest.into()).filter(|_| !rest.is_empty()) })
    }

    #[inline]
    fn rules(&self) -> impl Iterator<Item = &Ranked<T>> {
        std::iter::once(&self.first).chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }
}

impl<T: Copy> Table<T> {
    pub(crate) fn new(tuple: Tuple) -> Self {
        Self {
            mask: tuple.mask(),
            best: Rank::MAX,
            filter: Filter::of(std::iter::empty()),
            buckets: SharedMap::default(),
            tuple,
            len: 0,
        }
    }

    /// Rules in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What a packet's rules would be filed under.
    #[inline]
    pub(crate) fn key(&self, words: &Words, start: u64) -> Key {
        Key(words.key(&self.mask, start))
    }

    /// False: no rule that such a packet meets is in it.
    #[inline]
    pub(crate) fn may_hold(&self, words: &Words, key: Key) -> bool {
        self.filter.may_hold(key.0) & (self.mask.family == words.family)
    }

    /// Asks the processor for what [`Self::may_hold`] reads.
    #[inline]
    pub(crate) fn prefetch_filter(&self, key: Key) {
        self.filter.prefetch(key.0);
    }

    /// Asks the processor for what [`Self::rules`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key) {
        self.buckets.prefetch(&key);
    }

    /// The rules that are filed under a key, in their order.
    #[inline]
    pub(crate) fn rules(&self, key: Key) -> impl Iterator<Item = &Ranked<T>> {
        self.buckets.get(&key).into_iter().flat_map(Bucket::rules)
    }

    /// What a rule is filed under.
    pub(crate) fn key_of(&self, scope: u32, rule: &Rule) -> Key {
        let least = |range: Option<PortRange>| range.map(PortRange::min);
        let tail = Tail {
            protocol: rule.protocol.map(|protocol| protocol.0),
            source_port: least(rule.source_ports),
            destination_port: least(rule.destination_ports),
        };
        let words = Words::new(rule.family, rule.source.base(), rule.destination.base(), tail);
        self.key(&words, start(scope, rule.vlan))
    }

    pub(crate) fn insert(&mut self, new: Ranked<T>) {
        let key = self.key_of(new.scope, &new.rule);
        let mut rules: Vec<Ranked<T>> = self.rules(key).copied().collect();
        rules.insert(rules.partition_point(|other| other.rank < new.rank), new);
        self.put(key, &rules);
        self.len += 1;
        self.best = self.best.min(new.rank);
    }

    /// Takes a rule out that is in it.
    pub(crate) fn remove(&mut self, key: Key, number: u32) {
        let left: Vec<Ranked<T>> =
            self.rules(key).filter(|one| one.number != number).copied().collect();
        self.put(key, &left);
        self.len -= 1;
    }

    fn put(&mut self, key: Key, rules: &[Ranked<T>]) {
        let Some(bucket) = Bucket::new(rules) else {
            self.buckets.remove(&key);
            return;
        };
        if self.buckets.insert(key, bucket).is_some() {
            return;
        }
        if self.filter.has_room() {
            self.filter.add(key.0);
        } else {
            self.filter = Filter::of(self.buckets.keys().map(|key| key.0));
        }
    }
}
