//! Entries that keep their places, whatever comes and goes beside them. A copy shares all that is not
//! written. Knows places; refuses to know who has which.

use super::chunks::Chunks;
use std::sync::Arc;

/// The entries. A place without one reads as the default, so that there is no place that cannot be
/// read.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    entries: Chunks<Option<Arc<T>>>,
    vacant: Arc<T>,
}

impl<T: Default> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Chunks::default(), vacant: Arc::default() }
    }
}

impl<T: Clone + Default> Slab<T> {
    #[inline]
    pub(crate) fn get(&self, place: u32) -> &T {
        self.find(place).unwrap_or(&self.vacant)
    }

    /// The entry at a place; none: there is none.
    #[inline]
    pub(crate) fn find(&self, place: u32) -> Option<&T> {
        self.entries.get(place as usize)?.as_deref()
    }

    pub(crate) fn put(&mut self, place: u32, entry: T) {
        *self.entries.entry(place as usize) = Some(Arc::new(entry));
    }

    /// The entry at a place, to be written; the default if there is none.
    pub(crate) fn write(&mut self, place: u32) -> &mut T {
        Arc::make_mut(self.entries.entry(place as usize).get_or_insert_default())
    }

    /// Takes the entry of a place out, and answers it.
    pub(crate) fn take(&mut self, place: u32) -> Option<Arc<T>> {
        self.find(place)?;
        self.entries.entry(place as usize).take()
    }

    /// All entries with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let entries = (0..).zip(self.entries.iter());
        entries.filter_map(|(place, entry)| Some((place, &**entry.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_where_they_are_and_copies_as_they_were() {
        let mut slab: Slab<u32> = Slab::default();
        slab.put(3, 7);
        slab.put(700, 8);
        let copy = slab.clone();
        *slab.write(3) += 1;
        assert_eq!(slab.take(700).as_deref(), Some(&8));
        assert_eq!(slab.take(700), None);
        assert_eq!(
            (slab.get(3), slab.get(700), slab.find(700), slab.get(9_000)),
            (&8, &0, None, &0)
        );
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(3, &8)]);
        assert_eq!(copy.iter().collect::<Vec<_>>(), [(3, &7), (700, &8)]);
    }
}
