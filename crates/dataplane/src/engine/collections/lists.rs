//! Lists of numbered places, any number of them over one stock of places, in fixed memory. Knows
//! first, last and neighbours; refuses to know what is at a place.

use super::places::Places;

/// No place.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq)]
struct ListEnds {
    first: u32,
    last: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Links {
    before: u32,
    after: u32,
}

/// A place is in one list at most.
#[derive(Debug)]
pub(crate) struct Lists {
    ends: Places<ListEnds>,
    links: Places<Links>,
}

impl Lists {
    /// Empty lists over places below `places`, which must be below 2^32 − 1.
    pub(crate) fn new(lists: usize, places: usize) -> Self {
        Self {
            ends: Places::new(ListEnds { first: NONE, last: NONE }, lists.max(1)),
            links: Places::new(Links { before: NONE, after: NONE }, places),
        }
    }

    /// The list that a hash falls into.
    pub(crate) fn of_hash(&self, hash: u64) -> usize {
        usize::try_from(hash % self.ends.len() as u64).unwrap_or(0)
    }

    pub(crate) fn append(&mut self, list: usize, place: u32) {
        let last = self.ends[list].last;
        self.links[place as usize] = Links { before: last, after: NONE };
        match last {
            NONE => self.ends[list].first = place,
            last => self.links[last as usize].after = place,
        }
        self.ends[list].last = place;
    }

    pub(crate) fn prepend(&mut self, list: usize, place: u32) {
        let first = self.ends[list].first;
        self.links[place as usize] = Links { before: NONE, after: first };
        match first {
            NONE => self.ends[list].last = place,
            first => self.links[first as usize].before = place,
        }
        self.ends[list].first = place;
    }

    pub(crate) fn remove(&mut self, list: usize, place: u32) {
        let Links { before, after } = self.links[place as usize];
        match before {
            NONE => self.ends[list].first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.ends[list].last = before,
            after => self.links[after as usize].before = before,
        }
    }

    pub(crate) fn first(&self, list: usize) -> Option<u32> {
        Some(self.ends[list].first).filter(|place| *place != NONE)
    }

    /// From the first on.
    pub(crate) fn forward(&self, list: usize) -> impl Iterator<Item = u32> + '_ {
        let some = |place: u32| (place != NONE).then_some(place);
        let next = move |place: &u32| some(self.links[*place as usize].after);
        std::iter::successors(self.first(list), next)
    }

    /// From the last on.
    pub(crate) fn backward(&self, list: usize) -> impl Iterator<Item = u32> + '_ {
        let some = |place: u32| (place != NONE).then_some(place);
        let next = move |place: &u32| some(self.links[*place as usize].before);
        std::iter::successors(some(self.ends[list].last), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn lists_are_what_they_were_made_of(
            steps in proptest::collection::vec((0usize..3, 0u32..12, any::<bool>()), 0..80),
        ) {
            let mut lists = Lists::new(3, 12);
            let mut model = vec![VecDeque::<u32>::new(); 3];
            for (list, place, at_end) in steps {
                if let Some(holder) = model.iter().position(|held| held.contains(&place)) {
                    lists.remove(holder, place);
                    model[holder].retain(|held| *held != place);
                } else if at_end {
                    lists.append(list, place);
                    model[list].push_back(place);
                } else {
                    lists.prepend(list, place);
                    model[list].push_front(place);
                }
                for (number, held) in model.iter().enumerate() {
                    prop_assert!(lists.forward(number).eq(held.iter().copied()));
                    prop_assert!(lists.backward(number).eq(held.iter().rev().copied()));
                }
            }
        }
    }
}
