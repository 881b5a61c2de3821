//! Tuple space search (Srinivasan, Suri, Varghese: Packet classification using tuple space search,
//! 1999) with merged tuples (Daly et al.: TupleMerge, 2019): rules that give the same bits of the
//! same fields lie in one hash table, so a packet asks each table once. Knows bits and ranks;
//! refuses to know what a rule is for.
//!
//! A table asks for fewer bits than most of its rules give, so that few tables serve many shapes of
//! rules; what shares a bucket is compared one by one, and a bucket that is full sends further rules
//! to a table that asks for more. Tables stand in the order of the best rank in them: once a match
//! is better than all that follows, the search ends. Strangers may share a bucket: every rule in it is
//! held against the packet.

use crate::rule::Rule;
use crate::search::{self, Asking};
use crate::table::{Ranked, Table};
use crate::words::Words;
use catena_model::resource::IpFamily;
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::scalar::PortRange;
use std::sync::Arc;

/// Rules of a bucket before further ones go to a table that asks for more.
const BUCKET_MAX: usize = 8;
/// Address bits of both ends together from which on a table asks for no ports.
const BITS_WITHOUT_PORTS: u16 = 24;

/// Which bits of which fields a table asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuple {
    family: IpFamily,
    source: u8,
    destination: u8,
    has_protocol: bool,
    has_source_port: bool,
    has_destination_port: bool,
}

impl Tuple {
    /// All that a rule gives.
    #[inline]
    fn of(rule: &Rule) -> Self {
        let one = |range: Option<PortRange>| range.is_some_and(|range| range.min() == range.max());
        Self {
            family: rule.family,
            source: rule.source.bits(),
            destination: rule.destination.bits(),
            has_protocol: rule.protocol.is_some(),
            has_source_port: one(rule.source_ports),
            has_destination_port: one(rule.destination_ports),
        }
    }

    /// Less than that, so that rules of other shapes fit too; the least first.
    fn relaxed(self) -> [Self; 2] {
        let (step, width) = if self.family == IpFamily::Ipv4 { (8, 32) } else { (16, 128) };
        let [source, destination] = [self.source, self.destination].map(|bits| bits / step * step);
        let relaxed = self.asking(source, destination);
        // The last quarter of an address tells little that the other address does not.
        let most = width / 4 * 3;
        match (source.min(most), destination.min(most)) {
            (source, destination) if source + destination >= width => {
                [self.asking(source, destination), relaxed]
            }
            _ => [relaxed; 2],
        }
    }

    /// The same with so many bits of both addresses.
    fn asking(self, source: u8, destination: u8) -> Self {
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
    #[inline]
    fn is_within(self, other: Self) -> bool {
        self.family == other.family
            && self.source <= other.source
            && self.destination <= other.destination
            && self.has_protocol <= other.has_protocol
            && self.has_source_port <= other.has_source_port
            && self.has_destination_port <= other.has_destination_port
    }

    /// How much it asks for.
    #[inline]
    fn weight(self) -> u32 {
        let flags = [self.has_protocol, self.has_source_port, self.has_destination_port];
        let flags: u32 = flags.into_iter().map(|flag| if flag { 16 } else { 0 }).sum();
        u32::from(self.source) + u32::from(self.destination) + flags
    }

    /// What of a packet it asks for.
    pub(crate) fn mask(self) -> Words {
        let tail = [self.has_protocol, self.has_source_port, self.has_destination_port];
        Words::mask(self.family, (self.source, self.destination), tail)
    }
}

/// Rules, each in the table that its bits ask for. A copy shares what it has in common.
#[derive(Clone, Debug)]
pub struct Tuples<T> {
    /// The one with the best rule first.
    tables: Vec<Arc<Table<T>>>,
}

impl<T> Default for Tuples<T> {
    fn default() -> Self {
        Self { tables: Vec::new() }
    }
}

impl<T: Copy> Tuples<T> {
    /// The first rule that a packet meets from one of these places, and that `accepts` takes for it.
    #[inline]
    #[must_use]
    pub fn find(
        &self,
        scopes: [Option<u32>; 2],
        view: &FrameView,
        flow: &FlowKey,
        accepts: impl Fn(&Ranked<T>) -> bool,
    ) -> Option<&Ranked<T>> {
        let asked = std::iter::once(Some(Asking { scopes, view, flow }));
        let [found] = self.find_each(asked, |_, one| accepts(one));
        found
    }

    /// The same for each of some packets, [`GROUP`] at best: they wait for memory together. `accepts`
    /// is asked last, and hears the packet's place among them; a rule that it refuses is none, and the
    /// search goes on.
    ///
    /// [`GROUP`]: crate::GROUP
    #[inline]
    pub fn find_each<'p, const N: usize>(
        &self,
        asked: impl Iterator<Item = Option<Asking<'p>>>,
        accepts: impl Fn(usize, &Ranked<T>) -> bool,
    ) -> [Option<&Ranked<T>>; N] {
        search::find_each(&self.tables, asked, accepts)
    }

    /// Takes a rule in. Of several with one rank, any may be found.
    pub fn insert(&mut self, new: Ranked<T>) {
        let whole = Tuple::of(&new.rule);
        let roomy = self.roomy(new.scope, &new.rule, whole);
        let index = roomy.unwrap_or_else(|| self.new_table(whole));
        Arc::make_mut(&mut self.tables[index]).insert(new);
        self.tables.sort_by_key(|table| table.best);
    }

    /// The table that asks for most of what the rule gives and has room for it.
    fn roomy(&self, scope: u32, rule: &Rule, whole: Tuple) -> Option<usize> {
        let fits = |(_, table): &&(usize, &Arc<Table<T>>)| {
            table.tuple.is_within(whole)
                && table.rules(table.key_of(scope, rule)).count() < BUCKET_MAX
        };
        let tables: Vec<(usize, &Arc<Table<T>>)> = self.tables.iter().enumerate().collect();
        let roomy = tables.iter().filter(fits).max_by_key(|(_, table)| table.tuple.weight());
        roomy.map(|(index, _)| *index)
    }

    /// A table for rules that give this, or the one that asks for all of it, full or not.
    fn new_table(&mut self, whole: Tuple) -> usize {
        let place = |tables: &[Arc<Table<T>>], tuple: Tuple| {
            tables.iter().position(|table| table.tuple == tuple)
        };
        let relaxed = whole.relaxed().into_iter();
        let mut new = relaxed.filter(|tuple| place(&self.tables, *tuple).is_none());
        let tuple = new.next().unwrap_or(whole);
        place(&self.tables, tuple).unwrap_or_else(|| {
            self.tables.push(Arc::new(Table::new(tuple)));
            self.tables.len() - 1
        })
    }

    /// Takes the rule out that was put in for this scope with this number; it gives what it gave then.
    pub fn remove(&mut self, scope: u32, number: u32, rule: &Rule) {
        let whole = Tuple::of(rule);
        let holds = |table: &Arc<Table<T>>| {
            let key = table.tuple.is_within(whole).then(|| table.key_of(scope, rule))?;
            table.rules(key).any(|one| one.number == number).then_some(key)
        };
        let mut tables = self.tables.iter().enumerate();
        let Some((index, key)) = tables.find_map(|(at, table)| Some((at, holds(table)?))) else {
            return;
        };
        let table = Arc::make_mut(&mut self.tables[index]);
        table.remove(key, number);
        if table.len() == 0 {
            self.tables.remove(index);
        }
    }

    /// The rules of a scope that may share packets with a rule; none: it gives less than some table asks
    /// for, so they may be anywhere in that one.
    #[must_use]
    pub fn near(&self, scope: u32, rule: &Rule) -> Option<Vec<u32>> {
        let whole = Tuple::of(rule);
        let mut found = Vec::new();
        for table in self.tables.iter().filter(|table| table.tuple.family == whole.family) {
            if !table.tuple.is_within(whole) {
                return None;
            }
            let near = table.rules(table.key_of(scope, rule));
            let near = near.filter(|one| one.scope == scope);
            found.extend(near.map(|one| one.number));
        }
        Some(found)
    }

    /// Tables there are: as many as a packet asks that meets nothing.
    #[must_use]
    pub fn tables(&self) -> usize {
        self.tables.len()
    }
}
