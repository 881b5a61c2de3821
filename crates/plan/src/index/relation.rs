//! Persistent sets that answer «which of these belong to that one». A copy costs nothing, a change
//! costs what it changes.

use crate::counts::Edit;
use catena_model::id::{
    ChainId, FunctionId, GraphId, InstanceId, NetworkId, PortId, RuleId, SliceId, SubnetId,
};
use imbl::{OrdMap, OrdSet};

/// A member of a [`Relation`]: ranges begin at the lowest.
pub(crate) trait Member: Copy + Ord {
    const MIN: Self;
}

macro_rules! members {
    ($($id:ident),+) => {
        $(impl Member for $id { const MIN: Self = $id::MIN; })+
    };
}

members!(ChainId, FunctionId, GraphId, InstanceId, NetworkId, PortId, RuleId, SliceId, SubnetId);

/// Which members belong to which key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Relation<K, M>(OrdSet<(K, M)>)
where
    K: Ord + Clone,
    M: Ord + Clone;

impl<K: Ord + Clone, M: Member> Default for Relation<K, M> {
    fn default() -> Self {
        Self(OrdSet::new())
    }
}

impl<K: Ord + Clone, M: Member> Relation<K, M> {
    pub(crate) fn edit(&mut self, edit: Edit, key: K, member: M) {
        edit.apply(&mut self.0, (key, member));
    }

    /// The members of a key, in order.
    pub(crate) fn of(&self, key: K) -> impl Iterator<Item = M> + '_ {
        let from = (key.clone(), M::MIN);
        self.0.range(from..).take_while(move |(found, _)| *found == key).map(|(_, member)| *member)
    }

    pub(crate) fn has_any(&self, key: K) -> bool {
        self.of(key).next().is_some()
    }
}

/// Numbers that are given out once in each scope, and to whom; the lowest free one is found without
/// looking at those that are taken.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numbers<S, M>
where
    S: Ord + Clone,
    M: Ord + Clone,
{
    owners: Relation<(S, u128), M>,
    /// The numbers that are taken, as first and last of each unbroken row.
    rows: OrdMap<(S, u128), u128>,
}

impl<S: Ord + Clone, M: Member> Default for Numbers<S, M> {
    fn default() -> Self {
        Self { owners: Relation::default(), rows: OrdMap::new() }
    }
}

impl<S: Ord + Clone, M: Member> Numbers<S, M> {
    pub(crate) fn edit(&mut self, edit: Edit, scope: &S, number: u128, owner: M) {
        let key = (scope.clone(), number);
        let was_taken = self.owners.has_any(key.clone());
        self.owners.edit(edit, key.clone(), owner);
        if self.owners.has_any(key) == was_taken {
            return;
        }
        match edit {
            Edit::Add => self.lengthen(scope, number),
            Edit::Remove => self.cut(scope, number),
        }
    }

    fn lengthen(&mut self, scope: &S, number: u128) {
        let next = number.checked_add(1).map(|next| (scope.clone(), next));
        let last = next.and_then(|next| self.rows.remove(&next)).unwrap_or(number);
        let before = number.checked_sub(1).and_then(|end| self.row_around(scope, end));
        let first = before.map_or(number, |(first, _)| first);
        self.rows.insert((scope.clone(), first), last);
    }

    fn cut(&mut self, scope: &S, number: u128) {
        let Some((first, last)) = self.row_around(scope, number) else { return };
        self.rows.remove(&(scope.clone(), first));
        if first < number {
            self.rows.insert((scope.clone(), first), number.saturating_sub(1));
        }
        if number < last {
            self.rows.insert((scope.clone(), number.saturating_add(1)), last);
        }
    }

    /// Who has the number.
    pub(crate) fn owners(&self, scope: S, number: u128) -> impl Iterator<Item = M> + '_ {
        self.owners.of((scope, number))
    }

    /// The lowest number from `from` on that nobody has; none: all have gone.
    pub(crate) fn lowest_free(&self, scope: &S, from: u128) -> Option<u128> {
        match self.row_around(scope, from) {
            Some((_, last)) => last.checked_add(1),
            None => Some(from),
        }
    }

    fn row_around(&self, scope: &S, number: u128) -> Option<(u128, u128)> {
        let ((found, first), last) = self.rows.get_prev(&(scope.clone(), number))?;
        (found == scope && *first <= number && number <= *last).then_some((*first, *last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use uuid::Uuid;

    proptest! {
        #[test]
        fn the_lowest_free_number_is_that_of_a_scan(
            steps in prop::collection::vec((any::<bool>(), 0..2u8, 0..20u128, 0..3u128), 0..200),
            from in 0..24u128,
        ) {
            let mut numbers: Numbers<u8, ChainId> = Numbers::default();
            let mut taken = BTreeSet::new();
            for (is_taken, scope, number, owner) in steps {
                let owner = ChainId(Uuid::from_u128(owner));
                if is_taken {
                    numbers.edit(Edit::Add, &scope, number, owner);
                    taken.insert((scope, number, owner));
                } else {
                    numbers.edit(Edit::Remove, &scope, number, owner);
                    taken.remove(&(scope, number, owner));
                }
                for scope in 0..2 {
                    let is_free = |n: &u128| !taken.iter().any(|(s, t, _)| *s == scope && t == n);
                    prop_assert_eq!(numbers.lowest_free(&scope, from), (from..).find(is_free));
                    let owners = taken.iter().filter(|(s, t, _)| *s == scope && *t == from);
                    let owners: Vec<ChainId> = owners.map(|(_, _, owner)| *owner).collect();
                    prop_assert_eq!(numbers.owners(scope, from).collect::<Vec<_>>(), owners);
                }
            }
        }

        #[test]
        fn the_highest_number_ends_no_count(number in u128::MAX - 3..=u128::MAX) {
            let mut numbers: Numbers<u8, ChainId> = Numbers::default();
            for taken in u128::MAX - 3..=u128::MAX {
                numbers.edit(Edit::Add, &0, taken, ChainId::MIN);
            }
            prop_assert_eq!(numbers.lowest_free(&0, number), None);
            numbers.edit(Edit::Remove, &0, number, ChainId::MIN);
            prop_assert_eq!(numbers.lowest_free(&0, u128::MAX - 3), Some(number));
        }
    }
}
