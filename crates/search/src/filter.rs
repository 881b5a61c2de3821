//! Which keys are surely not in a table: two bits of a word for each hash, so that most tables are
//! passed by with one look at a line that stays in the processor's cache. Knows hashes; refuses to
//! forget one: what is taken out leaves its bits, which costs only time, until there are so many that
//! a new filter is due.

use catena_io::prefetch;
use std::sync::Arc;

/// Bits for each key at least, so that one of sixteen keys that are not there seems to be.
const BITS_PER_KEY: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Filter {
    /// A power of two of them.
    words: Arc<[u64]>,
    added: usize,
}

impl Filter {
    /// A filter of these hashes, with room for as many again.
    pub(crate) fn of(hashes: impl Iterator<Item = u64> + Clone) -> Self {
        let bits = (hashes.clone().count() + 1) * 2 * BITS_PER_KEY;
        let words = vec![0; bits.div_ceil(64).next_power_of_two()].into();
        let mut filter = Self { words, added: 0 };
        hashes.for_each(|hash| filter.add(hash));
        filter
    }

    /// False: no key with this hash is in the table.
    #[inline]
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        let (word, bits) = self.place(hash);
        self.words.get(word).is_some_and(|word| word & bits == bits)
    }

    /// Asks the processor for what [`Self::may_hold`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(word) = self.words.get(self.place(hash).0) {
            prefetch(word);
        }
    }

    /// Is it still as sure as it shall be?
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.added * BITS_PER_KEY < self.words.len() * 64
    }

    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        let (word, bits) = self.place(hash);
        Arc::make_mut(&mut self.words)[word] |= bits;
        self.added += 1;
    }

    /// From the middle of the hash: both ends say where in the table the key is.
    #[inline]
    fn place(&self, hash: u64) -> (usize, u64) {
        let bits = 1 << (hash >> 16 & 63) | 1 << (hash >> 22 & 63);
        (((hash >> 28) as usize) & (self.words.len() - 1), bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::flow::mix;

    #[test]
    fn what_was_added_is_never_denied_and_most_of_the_rest_is() {
        let mut filter = Filter::of((0..1_000).map(mix));
        let mut added = 1_000;
        while filter.has_room() {
            filter.add(mix(added));
            added += 1;
        }
        assert!(added >= 2_000);
        assert!((0..added).all(|key| filter.may_hold(mix(key))));
        let wrong = (added..added + 100_000).filter(|key| filter.may_hold(mix(*key))).count();
        assert!(wrong < 8_000, "{wrong} of 100,000");
    }
}
