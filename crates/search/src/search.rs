//! How the rule of a packet is found among the tables: several are asked before the first answer is
//! needed, so that their waits for memory are one, and so are those of a group of packets. Knows one
//! look-up; refuses to know how tables are made.

use crate::table::{Key, Rank, Ranked, Table};
use crate::words::{Words, start};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use std::sync::Arc;

/// Packets that are asked for together: what they wait for fits in the nearest cache.
pub const GROUP: usize = 16;
/// Tables that are asked at once.
const BLOCK: usize = 8;

/// What is asked for a packet.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'p> {
    /// The places that it is at and from which rules take packets.
    pub scopes: [Option<u32>; 2],
    /// What was read of it.
    pub view: &'p FrameView,
    /// Its flow.
    pub flow: &'p FlowKey,
}

/// A packet on its way through the tables.
struct Search<'t, 'p, T> {
    asked: Asking<'p>,
    words: Words,
    /// Where the packet is now, and what that begins keys with.
    at: (u32, u64),
    /// The tables that are asked, the best first, and those behind them.
    block: &'t [Arc<Table<T>>],
    rest: &'t [Arc<Table<T>>],
    keys: [Key; BLOCK],
    /// A bit for each table of the block that may hold a rule.
    hits: u32,
    found: Option<&'t Ranked<T>>,
}

impl<'t, 'p, T: Copy> Search<'t, 'p, T> {
    #[inline]
    fn new(asked: Asking<'p>) -> Self {
        Self {
            asked,
            words: Words::of(asked.flow),
            at: (0, 0),
            block: &[],
            rest: &[],
            keys: [Key(0); BLOCK],
            hits: 0,
            found: None,
        }
    }

    /// Goes on to the next block of tables; false: no rule in any is better than what was found.
    #[inline]
    fn enter(&mut self, tables: &'t [Arc<Table<T>>]) -> bool {
        while self.rest.first().is_none_or(|best| best.best >= self.bound()) {
            let Some(scope) = self.asked.scopes.iter_mut().find_map(Option::take) else {
                self.block = &[];
                return false;
            };
            self.at = (scope, start(scope, self.asked.view.vlan));
            self.rest = tables;
        }
        (self.block, self.rest) = self.rest.split_at(BLOCK.min(self.rest.len()));
        for (key, table) in self.keys.iter_mut().zip(self.block) {
            *key = table.key(&self.words, self.at.1);
            table.prefetch_filter(*key);
        }
        true
    }

    /// Finds out which of them may hold a rule.
    #[inline]
    fn ask(&mut self) {
        self.hits = 0;
        for (at, (table, key)) in self.block.iter().zip(self.keys).enumerate() {
            self.hits |= u32::from(table.may_hold(&self.words, key)) << at;
        }
        for (table, key) in self.hit() {
            table.prefetch(key);
        }
    }

    /// Looks for a better rule in those that the packet may have.
    #[inline]
    fn look(&mut self, accepts: impl Fn(&Ranked<T>) -> bool) {
        let Asking { view, flow, .. } = self.asked;
        for (table, key) in self.hit() {
            if table.best >= self.bound() {
                break;
            }
            let better = table.rules(key).take_while(|one| one.rank < self.bound());
            let mut here = better.filter(|one| one.scope == self.at.0);
            let meets = |one: &Ranked<T>| one.rule.failing(view, flow).is_none();
            self.found = here.find(|one| meets(one) && accepts(one)).or(self.found);
        }
    }

    /// The tables that may hold a rule, and its key.
    #[inline]
    fn hit(&self) -> impl Iterator<Item = (&'t Table<T>, Key)> + use<'t, T> {
        let (block, keys, mut hits) = (self.block, self.keys, self.hits);
        std::iter::from_fn(move || {
            let at = hits.trailing_zeros() as usize;
            hits &= hits.wrapping_sub(1);
            Some((&**block.get(at)?, *keys.get(at)?))
        })
    }

    #[inline]
    fn bound(&self) -> Rank {
        self.found.map_or(Rank::MAX, |one| one.rank)
    }
}

/// The first rule that each of some packets meets and that `accepts` takes for it, which hears the
/// packet's place among them. `tables` stand in the order of their best rules.
#[inline]
pub(crate) fn find_each<'t, 'p, T: Copy, const N: usize>(
    tables: &'t [Arc<Table<T>>],
    asked: impl Iterator<Item = Option<Asking<'p>>>,
    accepts: impl Fn(usize, &Ranked<T>) -> bool,
) -> [Option<&'t Ranked<T>>; N] {
    let mut searches: [Option<Search<'_, '_, T>>; N] = [const { None }; N];
    for (search, asked) in searches.iter_mut().zip(asked) {
        *search = asked.map(Search::new);
    }
    loop {
        let under_way = searches.iter_mut().flatten();
        if !under_way.fold(false, |goes_on, search| search.enter(tables) | goes_on) {
            break;
        }
        searches.iter_mut().flatten().for_each(Search::ask);
        for (at, search) in searches.iter_mut().enumerate() {
            if let Some(search) = search {
                search.look(|one| accepts(at, one));
            }
        }
    }
    searches.map(|search| search?.found)
}
