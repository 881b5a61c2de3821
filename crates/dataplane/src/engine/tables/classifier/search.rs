//! How the rule of a packet is found among the tables: several are asked before the first answer is
//! needed, so that their waits for memory are one, and so are those of a group of packets. Knows one
//! look-up; refuses to know how tables are made.

use super::table::{Key, Rank, Ranked, Table};
use super::words::{Words, start};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use std::sync::Arc;

/// Packets that are asked for together: what they wait for fits in the nearest cache.
pub(crate) const GROUP: usize = 16;
/// Tables that are asked at once.
const BLOCK: usize = 8;

/// What is asked for a packet.
#[derive(Clone, Copy)]
pub(super) struct Asking<'p> {
    /// The places that it is at and from which rules take packets.
    pub(super) scopes: [Option<u32>; 2],
    pub(super) view: &'p FrameView,
    pub(super) flow: &'p FlowKey,
}

/// A packet on its way through the tables.
struct Search<'t, 'p> {
    asked: Asking<'p>,
    words: Words,
    /// Where the packet is now, and what that begins keys with.
    at: (u32, u64),
    /// The tables that are asked, the best first, and those behind them.
    block: &'t [Arc<Table>],
    rest: &'t [Arc<Table>],
    keys: [Key; BLOCK],
    /// A bit for each table of the block that may hold a rule.
    hits: u32,
    found: Option<&'t Ranked>,
}

impl<'t, 'p> Search<'t, 'p> {
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
    fn enter(&mut self, tables: &'t [Arc<Table>]) -> bool {
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

    /// Looks for a better rule in those.
    #[inline]
    fn look(&mut self) {
        let Asking { view, flow, .. } = self.asked;
        for (table, key) in self.hit() {
            if table.best >= self.bound() {
                break;
            }
            let better = table.rules(key).take_while(|one| one.rank < self.bound());
            let mut here = better.filter(|one| one.scope == self.at.0);
            self.found = here.find(|one| one.rule.failing(view, flow).is_none()).or(self.found);
        }
    }

    /// The tables that may hold a rule, and its key.
    #[inline]
    fn hit(&self) -> impl Iterator<Item = (&'t Table, Key)> + use<'t> {
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

/// The first rule that each of some packets meets. `tables` stand in the order of their best rules.
#[inline]
pub(super) fn find_each<'t, 'p, const N: usize>(
    tables: &'t [Arc<Table>],
    asked: impl Iterator<Item = Option<Asking<'p>>>,
) -> [Option<&'t Ranked>; N] {
    let mut searches: [Option<Search<'_, '_>>; N] = [const { None }; N];
    for (search, asked) in searches.iter_mut().zip(asked) {
        *search = asked.map(Search::new);
    }
    loop {
        let under_way = searches.iter_mut().flatten();
        if !under_way.fold(false, |goes_on, search| search.enter(tables) | goes_on) {
            break;
        }
        searches.iter_mut().flatten().for_each(Search::ask);
        searches.iter_mut().flatten().for_each(Search::look);
    }
    searches.map(|search| search?.found)
}
