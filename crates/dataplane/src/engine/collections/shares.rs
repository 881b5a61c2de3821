//! Who holds how much of a bounded table. Knows holders and counts; refuses to know what they hold.
//!
//! As long as a table has room, whoever comes may have it. Where it has none, he who holds most
//! gives way to one who holds less. So the many entries of one cost nobody else a place, and one who
//! is alone may have them all; nothing is kept back for those who do not come. Where nobody can give
//! up what he holds, he may hold so many for each that is free, so that some are left for others.

use super::short_keys::ShortKeys;
use std::collections::HashMap;
use std::hash::Hash;

/// Places that one may hold for each that is free, where nobody gives way: one alone has four fifths.
const HELD_PER_FREE: usize = 4;

/// A holder, as long as he holds anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder(u32);

impl Holder {
    /// Below the greatest number of holders that there were at one time.
    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
struct Share<K> {
    key: K,
    held: u32,
}

/// The shares of one table; who holds nothing has none.
#[derive(Debug)]
pub(crate) struct Shares<K> {
    holders: HashMap<K, Holder, ShortKeys>,
    shares: Vec<Share<K>>,
    free: Vec<Holder>,
}

impl<K: Copy + Eq + Hash> Shares<K> {
    pub(crate) fn new() -> Self {
        Self { holders: HashMap::default(), shares: Vec::new(), free: Vec::new() }
    }

    /// Nobody has any place.
    pub(crate) fn clear(&mut self) {
        self.holders.clear();
        self.shares.clear();
        self.free.clear();
    }

    /// How many places the holder of this key has.
    pub(crate) fn held_by(&self, key: &K) -> u32 {
        self.holders.get(key).map_or(0, |holder| self.held(*holder))
    }

    /// The holder of this key; none: it has no place.
    pub(crate) fn holder(&self, key: &K) -> Option<Holder> {
        self.holders.get(key).copied()
    }

    /// How many places a holder has.
    pub(crate) fn held(&self, Holder(index): Holder) -> u32 {
        self.shares.get(index as usize).map_or(0, |share| share.held)
    }

    /// Whose share it is; none: nobody's any more.
    pub(crate) fn key(&self, Holder(index): Holder) -> Option<K> {
        self.shares.get(index as usize).map(|share| share.key)
    }

    /// Who has most, and how many places. Looks at all holders.
    pub(crate) fn most(&self) -> Option<(K, u32)> {
        let most = self.shares.iter().max_by_key(|share| share.held)?;
        (most.held > 0).then_some((most.key, most.held))
    }

    /// The holder of this key has one place more.
    pub(crate) fn take(&mut self, key: K) -> Holder {
        let holder = *self.holders.entry(key).or_insert_with(|| {
            let opened = Share { key, held: 0 };
            if let Some(Holder(index)) = self.free.pop() {
                self.shares[index as usize] = opened;
                return Holder(index);
            }
            self.shares.push(opened);
            // No table has as many places.
            Holder(u32::try_from(self.shares.len() - 1).unwrap_or(u32::MAX))
        });
        if let Some(share) = self.shares.get_mut(holder.0 as usize) {
            share.held += 1;
        }
        holder
    }

    /// A holder has one place less.
    pub(crate) fn give_back(&mut self, holder: Holder) {
        let Some(share) = self.shares.get_mut(holder.0 as usize) else { return };
        share.held = share.held.saturating_sub(1);
        if share.held == 0 && self.holders.remove(&share.key).is_some() {
            self.free.push(holder);
        }
    }

    /// The same by the key.
    pub(crate) fn give_back_by(&mut self, key: &K) {
        if let Some(holder) = self.holders.get(key).copied() {
            self.give_back(holder);
        }
    }
}

/// Must one who has so many places give one up for one who has `own`?
pub(crate) fn must_yield(held: u32, own: u32) -> bool {
    held > own.saturating_add(1)
}

/// Where nobody gives way: may one who has so many places have one of those that are free?
pub(crate) fn leaves_room(held: u32, free: usize) -> bool {
    (held as usize) < free.saturating_mul(HELD_PER_FREE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_counted_and_forgotten_with_their_last_place() {
        let mut shares = Shares::<u32>::new();
        let one = shares.take(7);
        assert_eq!(shares.take(7), one);
        let other = shares.take(8);
        assert_eq!((shares.held(one), shares.held_by(&7), shares.held(other)), (2, 2, 1));
        shares.give_back_by(&8);
        assert_eq!(shares.held_by(&8), 0);
        assert_eq!(shares.take(9), other, "the place is used again");
        shares.give_back(one);
        shares.give_back(one);
        assert_eq!((shares.held_by(&7), shares.held_by(&9)), (0, 1));
        shares.give_back_by(&7);
    }

    #[test]
    fn who_has_more_yields_until_both_have_the_same() {
        assert!(!must_yield(1, 0), "nobody gives up his last for a first");
        let (mut one, mut other) = (9, 0);
        while must_yield(one, other) {
            (one, other) = (one - 1, other + 1);
        }
        assert_eq!((one, other), (5, 4));
    }

    #[test]
    fn who_is_alone_has_four_fifths_and_the_next_as_much_of_the_rest() {
        let mut free = 1_000;
        let taken = [0; 4].map(|mut held| {
            while leaves_room(held, free) {
                (held, free) = (held + 1, free - 1);
            }
            held
        });
        assert_eq!(taken, [800, 160, 32, 7]);
        assert!(!leaves_room(0, 0));
    }
}
