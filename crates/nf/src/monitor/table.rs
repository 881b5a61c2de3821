//! A bounded table whose entries have an order. Knows slots that are allocated once; refuses to know what
//! is in them and when it goes.

use crate::function::ENTRY_COST;

/// No slot.
const NONE: u32 = u32::MAX;

/// By what entries are found.
pub(crate) trait Keyed: Copy + Eq {
    /// A hash that nobody foretells who does not know the seed.
    fn hash(&self, seed: u64) -> u64;
}

#[derive(Clone, Debug)]
struct Slot<K, V> {
    entry: Option<(K, V)>,
    /// The next of those whose hashes meet.
    next: u32,
    older: u32,
    newer: u32,
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V> {
    seed: u64,
    /// The first of those whose hashes meet.
    heads: Vec<u32>,
    slots: Vec<Slot<K, V>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl<K: Keyed, V> Table<K, V> {
    /// An empty one with room for so many entries, 2^31 at most.
    pub(crate) fn new(entries: usize, seed: u64) -> Self {
        let none = || Slot { entry: None, next: NONE, older: NONE, newer: NONE };
        let slots = u32::try_from(entries).unwrap_or(NONE);
        Self {
            seed,
            heads: vec![NONE; entries.next_power_of_two()],
            slots: (0..slots).map(|_| none()).collect(),
            free: (0..slots).rev().collect(),
            oldest: NONE,
            newest: NONE,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn slot(&self, slot: u32) -> Option<&Slot<K, V>> {
        self.slots.get(slot as usize)
    }

    fn head(&self, key: &K) -> usize {
        key.hash(self.seed) as usize & (self.heads.len() - 1)
    }

    pub(crate) fn find(&self, key: &K) -> Option<u32> {
        let mut at = *self.heads.get(self.head(key))?;
        loop {
            let slot = self.slot(at)?;
            if slot.entry.as_ref().is_some_and(|(own, _)| own == key) {
                return Some(at);
            }
            at = slot.next;
        }
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&(K, V)> {
        self.slot(slot)?.entry.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut V> {
        self.slots.get_mut(slot as usize)?.entry.as_mut().map(|(_, value)| value)
    }

    /// The one that was touched longest ago.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Puts an entry in that is not there, as the newest; none: there is no room.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<u32> {
        let at = self.free.pop()?;
        let head = self.head(&key);
        let next = std::mem::replace(self.heads.get_mut(head)?, at);
        let slot = self.slots.get_mut(at as usize)?;
        (slot.entry, slot.next) = (Some((key, value)), next);
        self.link(at);
        Some(at)
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<(K, V)> {
        let slot = self.slots.get_mut(at as usize)?;
        let entry = slot.entry.take()?;
        let next = slot.next;
        let head = self.head(&entry.0);
        let mut before = *self.heads.get(head)?;
        if before == at {
            *self.heads.get_mut(head)? = next;
        } else {
            while let Some(slot) = self.slots.get_mut(before as usize) {
                if slot.next == at {
                    slot.next = next;
                    break;
                }
                before = slot.next;
            }
        }
        self.unlink(at);
        self.free.push(at);
        Some(entry)
    }

    /// Makes an entry the newest.
    pub(crate) fn touch(&mut self, at: u32) {
        if at != self.newest {
            self.unlink(at);
            self.link(at);
        }
    }

    fn link(&mut self, at: u32) {
        let newest = std::mem::replace(&mut self.newest, at);
        if let Some(slot) = self.slots.get_mut(at as usize) {
            (slot.older, slot.newer) = (newest, NONE);
        }
        match self.slots.get_mut(newest as usize) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(&Slot { older, newer, .. }) = self.slot(at) else { return };
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }

    /// All of them, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        let first = self.oldest();
        let slots = std::iter::successors(first, |at| {
            self.slot(*at).map(|slot| slot.newer).filter(|newer| *newer != NONE)
        });
        slots.filter_map(|at| self.get(at))
    }

    /// All of them, in any order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let entries = self.slots.iter_mut().filter_map(|slot| slot.entry.as_mut());
        entries.map(|(key, value)| (&*key, value))
    }

    /// Shows the next ones from `place` on, in any order, as many as the budget allows; `tell` answers whether an entry
    /// was appended. `place` is 0 behind the last of all.
    pub(crate) fn portion(
        &mut self,
        place: &mut usize,
        mut budget: usize,
        mut tell: impl FnMut(&K, &mut V) -> bool,
    ) {
        let from = *place;
        for slot in self.slots.iter_mut().skip(from) {
            if budget == 0 {
                return;
            }
            *place += 1;
            let is_told = slot.entry.as_mut().is_some_and(|(key, value)| tell(key, value));
            budget = budget.saturating_sub(if is_told { ENTRY_COST } else { 1 });
        }
        *place = 0;
    }

    /// Gives them the order of these.
    pub(crate) fn sort_by_key<O: Ord>(&mut self, order: impl Fn(&V) -> O) {
        let mut entries: Vec<(O, u32)> = (0..NONE)
            .zip(&self.slots)
            .filter_map(|(at, slot)| Some((order(&slot.entry.as_ref()?.1), at)))
            .collect();
        entries.sort_unstable();
        (self.oldest, self.newest) = (NONE, NONE);
        entries.iter().for_each(|(_, at)| self.link(*at));
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        while let Some(at) = self.oldest() {
            self.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::traffic::Random;
    use std::collections::BTreeMap;

    impl Keyed for u8 {
        /// Many of them meet.
        fn hash(&self, seed: u64) -> u64 {
            u64::from(self % 5) ^ seed
        }
    }

    #[test]
    fn it_is_a_map_with_an_order() {
        let mut random = Random::new(9);
        let mut table: Table<u8, u64> = Table::new(12, 77);
        let mut model: BTreeMap<u8, u64> = BTreeMap::new();
        for now in 0..20_000 {
            let key = random.below(20) as u8;
            let found = table.find(&key);
            assert_eq!(found.is_some(), model.contains_key(&key));
            match (random.below(4), found) {
                (0 | 1, None) => {
                    let is_in = table.insert(key, now).is_some();
                    assert_eq!(is_in, model.len() < 12);
                    is_in.then(|| model.insert(key, now));
                }
                (0 | 1, Some(at)) => {
                    table.touch(at);
                    *table.get_mut(at).unwrap() = now;
                    model.insert(key, now);
                }
                (2, Some(at)) => {
                    assert_eq!(table.remove(at).map(|(_, value)| value), model.remove(&key));
                }
                (3, _) if random.below(20) == 0 => table.sort_by_key(|value| *value),
                _ => {}
            }
            let mut order: Vec<(u8, u64)> = model.iter().map(|(key, at)| (*key, *at)).collect();
            order.sort_unstable_by_key(|(_, at)| *at);
            assert!(table.iter().eq(&order), "{order:?}");
            assert_eq!(table.len(), model.len());
        }
        let (mut place, mut found, mut calls) = (0, Vec::new(), 0);
        loop {
            table.portion(&mut place, 5, |key, _| {
                found.push(*key);
                false
            });
            calls += 1;
            if place == 0 {
                break;
            }
        }
        found.sort_unstable();
        assert_eq!((found, calls), (model.keys().copied().collect(), 3));
        table.clear();
        assert!(table.len() == 0 && table.oldest().is_none());
    }
}
