//! A hash map in parts, each of which is shared until it is written and grows by itself. Knows keys
//! that tell their hash; refuses to know what is kept.
//!
//! Open addressing with linear probing: a look-up is one access to the list of parts, which stays
//! in the cache, and as a rule one entry of the part. Removal shifts back, so that no marks of
//! the removed are left over.

use catena_io::prefetch_whole;
use catena_model::{PathId, SliceId};
use catena_wire::flow::mix;
use std::sync::Arc;

/// Places of the smallest part.
const PLACES_MIN: usize = 4;

/// A key that tells its hash: 64 bits, all of them good. Keys of outside origin need no seed: those
/// who choose them are the planner and its user, not senders of packets.
pub trait Hashed: Copy + Eq {
    /// Its hash.
    fn hash(&self) -> u64;
}

impl Hashed for PathId {
    #[inline]
    fn hash(&self) -> u64 {
        mix(u64::from(self.0))
    }
}

impl Hashed for SliceId {
    #[inline]
    fn hash(&self) -> u64 {
        let (high, low) = self.0.as_u64_pair();
        mix(mix(high) ^ low)
    }
}

type Part<K, V> = Arc<[Option<(K, V)>]>;

/// The map. Of its parts, a power of two, a change of one entry copies one.
#[derive(Clone, Debug)]
pub struct SharedMap<K, V, const PARTS: usize = 4_096> {
    /// Empty while the map is: then it costs nothing to have one.
    parts: Vec<Part<K, V>>,
    len: usize,
}

impl<K, V, const PARTS: usize> Default for SharedMap<K, V, PARTS> {
    fn default() -> Self {
        Self { parts: Vec::new(), len: 0 }
    }
}

impl<K: Hashed, V: Clone, const PARTS: usize> SharedMap<K, V, PARTS> {
    /// Entries in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is nothing in it?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a key.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        let hash = key.hash();
        let part = self.parts.get(part_of::<PARTS>(hash))?;
        let place = find(part, key, hash)?;
        part[place].as_ref().map(|(_, value)| value)
    }

    /// Asks the processor for the place of a key, if it is there. Worth it where much else is asked
    /// for before the key is looked up.
    #[inline]
    pub fn prefetch(&self, key: &K) {
        let hash = key.hash();
        let part = self.parts.get(part_of::<PARTS>(hash)).filter(|part| !part.is_empty());
        if let Some(place) = part.and_then(|part| part.get(place_of(hash, part.len()))) {
            prefetch_whole(place);
        }
    }

    /// All values, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.parts.iter().flat_map(|part| part.iter().flatten()).map(|(_, value)| value)
    }

    /// All keys, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.parts.iter().flat_map(|part| part.iter().flatten()).map(|(key, _)| key)
    }

    /// Puts a value in; answers the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.parts.is_empty() {
            self.parts = vec![Arc::from(Vec::new()); PARTS];
        }
        let hash = key.hash();
        let part = &mut self.parts[part_of::<PARTS>(hash)];
        if let Some(place) = find(part, &key, hash) {
            let before = Arc::make_mut(part)[place].replace((key, value));
            return before.map(|(_, value)| value);
        }
        let used = part.iter().flatten().count();
        if (used + 1) * 4 > part.len() * 3 {
            *part = grown(part);
        }
        put(Arc::make_mut(part), (key, value));
        self.len += 1;
        None
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let hash = key.hash();
        let part = self.parts.get_mut(part_of::<PARTS>(hash))?;
        let mut hole = find(part, key, hash)?;
        let part = Arc::make_mut(part);
        let (_, value) = part[hole].take()?;
        let mask = part.len() - 1;
        let mut next = (hole + 1) & mask;
        while let Some((other, _)) = &part[next] {
            let home = place_of(other.hash(), part.len());
            // It may move into the hole if that is not before its home.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                part.swap(hole, next);
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.len -= 1;
        Some(value)
    }
}

#[inline]
fn part_of<const PARTS: usize>(hash: u64) -> usize {
    (hash >> (u64::BITS - PARTS.trailing_zeros())) as usize
}

#[inline]
fn place_of(hash: u64, places: usize) -> usize {
    usize::try_from(hash & (places as u64 - 1)).unwrap_or(0)
}

#[inline]
fn find<K: Hashed, V>(part: &[Option<(K, V)>], key: &K, hash: u64) -> Option<usize> {
    if part.is_empty() {
        return None;
    }
    let mask = part.len() - 1;
    let mut place = place_of(hash, part.len());
    // A quarter of the places is always free.
    while let Some((other, _)) = &part[place] {
        if other == key {
            return Some(place);
        }
        place = (place + 1) & mask;
    }
    None
}

fn put<K: Hashed, V>(part: &mut [Option<(K, V)>], entry: (K, V)) {
    let mask = part.len() - 1;
    let mut place = place_of(entry.0.hash(), part.len());
    while part[place].is_some() {
        place = (place + 1) & mask;
    }
    part[place] = Some(entry);
}

fn grown<K: Hashed, V: Clone>(part: &[Option<(K, V)>]) -> Part<K, V> {
    let places = (part.len() * 2).max(PLACES_MIN);
    let mut larger: Vec<Option<(K, V)>> = (0..places).map(|_| None).collect();
    for entry in part.iter().flatten() {
        put(&mut larger, entry.clone());
    }
    larger.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Few values of the hash, so that places collide.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    struct Crowded(u16);

    impl Hashed for Crowded {
        fn hash(&self) -> u64 {
            u64::from(self.0 % 7)
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(
            steps in proptest::collection::vec((0u16..40, any::<u32>(), any::<bool>()), 0..200),
        ) {
            let (mut map, mut model) = (SharedMap::<_, _, 8>::default(), HashMap::new());
            for (key, value, is_insert) in steps {
                let key = Crowded(key);
                let copy = map.clone();
                if is_insert {
                    prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
                prop_assert_eq!(map.len(), model.len());
                for key in (0..40).map(Crowded).filter(|other| *other != key) {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                    prop_assert_eq!(copy.get(&key), model.get(&key), "the copy is as it was");
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
            }
        }
    }

    #[test]
    fn a_million_entries_are_found() {
        #[derive(Clone, Copy, PartialEq, Eq)]
        struct Number(u64);
        impl Hashed for Number {
            fn hash(&self) -> u64 {
                mix(self.0)
            }
        }
        let mut map: SharedMap<Number, u64> = SharedMap::default();
        for number in 0..1_000_000 {
            map.insert(Number(number), number);
        }
        assert_eq!(map.len(), 1_000_000);
        assert!((0..1_000_000).all(|number| map.get(&Number(number)) == Some(&number)));
        assert_eq!(map.get(&Number(1_000_000)), None);
    }
}
