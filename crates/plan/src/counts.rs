//! How many members each key has: a key goes with its last one. Knows numbers; refuses to know
//! members.

use crate::intent::{Table, differences};
use imbl::OrdSet;

/// Does something come, or does it go?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// It comes.
    Add,
    /// It goes.
    Remove,
}

impl Edit {
    /// Puts a member into a set, or takes it out; was that anything new?
    pub(crate) fn apply<T: Ord + Clone>(self, set: &mut OrdSet<T>, member: T) -> bool {
        match self {
            Self::Add => set.insert(member).is_none(),
            Self::Remove => set.remove(&member).is_some(),
        }
    }
}

/// A copy costs nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counts<K: Ord + Clone>(Table<K, u32>);

impl<K: Ord + Clone> Default for Counts<K> {
    fn default() -> Self {
        Self(Table::new())
    }
}

impl<K: Ord + Clone> Counts<K> {
    /// One member more or less.
    pub(crate) fn edit(&mut self, edit: Edit, key: K) {
        let count = match edit {
            Edit::Add => self.of(&key).saturating_add(1),
            Edit::Remove => self.of(&key).saturating_sub(1),
        };
        match count {
            0 => self.0.remove(&key),
            count => self.0.insert(key, count),
        };
    }

    pub(crate) fn of(&self, key: &K) -> u32 {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// Has no key a member?
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys that have members, in order, and how many.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, u32)> {
        self.0.iter().map(|(key, count)| (key, *count))
    }

    /// The keys that have members, from this one on.
    pub(crate) fn keys_from(&self, first: K) -> impl Iterator<Item = &K> {
        self.0.range(first..).map(|(key, _)| key)
    }

    /// The keys that got their first member, or lost the last. Costs what differs.
    pub(crate) fn changed_keys<'c>(&'c self, other: &'c Self) -> impl Iterator<Item = &'c K> {
        let changed = differences(&self.0, &other.0);
        changed.filter(|(_, old, new)| old.is_none() || new.is_none()).map(|(key, ..)| key)
    }
}

/// One member more or less of a key's; a key without members is none.
pub(crate) fn edit_within<K: Ord + Clone, M: Ord + Clone>(
    table: &mut Table<K, Counts<M>>,
    edit: Edit,
    key: &K,
    member: M,
) {
    let of_key = table.entry(key.clone()).or_default();
    of_key.edit(edit, member);
    if of_key.is_empty() {
        table.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_there_as_long_as_it_has_members() {
        let mut counts = Counts::default();
        counts.edit(Edit::Add, 'a');
        let once = counts.clone();
        counts.edit(Edit::Add, 'a');
        assert!(counts.changed_keys(&once).next().is_none() && counts != once);
        counts.edit(Edit::Add, 'b');
        assert!(counts.changed_keys(&once).eq(&['b']));
        assert_eq!((counts.of(&'a'), counts.of(&'b'), counts.of(&'c')), (2, 1, 0));
        assert!(counts.keys_from('b').eq(&['b']));
        for gone in ['b', 'a', 'c'] {
            counts.edit(Edit::Remove, gone);
        }
        assert_eq!(counts, once);
        counts.edit(Edit::Remove, 'a');
        assert_eq!(counts.iter().count(), 0);
    }
}
