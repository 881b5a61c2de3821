//! Which slices claim which users: ranges of identifiers that may overlap in any way, cut into
//! segments that each know their claimants. Knows numbers and an order of claimants; refuses to
//! know what a slice is.
//!
//! A look-up is two searches by halves, in the first identifiers of the chunks and in one chunk. A
//! new range is cut in where it begins and ends, and is written into each segment between: one that
//! spans many others costs in proportion to them, one that lies among disjoint ones a chunk.

use catena_wire::scalar::{Teid, TeidRange};
use std::sync::Arc;

/// Segments of a chunk before it is halved.
const CHUNK_MAX: usize = 128;

/// The number of a slice's entry, never zero.
pub(super) type Claimant = std::num::NonZeroU32;

/// Who claims the same packets, the first of them first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    first: Claimant,
    /// All of them, where they are several.
    all: Option<Arc<Vec<Claimant>>>,
}

impl Claim {
    pub(super) fn new(claimant: Claimant) -> Self {
        Self { first: claimant, all: None }
    }

    pub(super) fn first(&self) -> Claimant {
        self.first
    }

    /// Adds one; `goes_before` orders them.
    pub(super) fn add(
        &mut self,
        claimant: Claimant,
        goes_before: &impl Fn(Claimant, Claimant) -> bool,
    ) {
        let all = self.all.get_or_insert_with(|| Arc::new(vec![self.first]));
        let all = Arc::make_mut(all);
        let place = all.partition_point(|other| goes_before(*other, claimant));
        all.insert(place, claimant);
        self.first = all[0];
    }

    /// Takes one away; false: nobody is left.
    pub(super) fn remove(&mut self, claimant: Claimant) -> bool {
        let Some(all) = &mut self.all else { return self.first != claimant };
        let left = Arc::make_mut(all);
        left.retain(|other| *other != claimant);
        match **left {
            [] => return false,
            [only] => *self = Self::new(only),
            [first, ..] => self.first = first,
        }
        true
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    /// Its first identifier; it ends before the next segment's.
    first: u32,
    claim: Option<Claim>,
}

/// The ranges of one place, network and QoS flow.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    /// First identifier of each chunk.
    firsts: Vec<u32>,
    chunks: Vec<Arc<Vec<Segment>>>,
    /// Ranges there are.
    len: usize,
}

impl Default for Ranges {
    fn default() -> Self {
        let whole = Segment { first: 0, claim: None };
        Self { firsts: vec![0], chunks: vec![Arc::new(vec![whole])], len: 0 }
    }
}

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first claimant of an identifier.
    #[inline]
    pub(super) fn get(&self, teid: Teid) -> Option<Claimant> {
        let (chunk, place) = self.locate(teid.0);
        self.chunks.get(chunk)?.get(place)?.claim.as_ref().map(Claim::first)
    }

    pub(super) fn add(
        &mut self,
        range: TeidRange,
        claimant: Claimant,
        goes_before: &impl Fn(Claimant, Claimant) -> bool,
    ) {
        self.len += 1;
        self.each_within(range, |segment| match &mut segment.claim {
            Some(claim) => claim.add(claimant, goes_before),
            free => *free = Some(Claim::new(claimant)),
        });
    }

    pub(super) fn remove(&mut self, range: TeidRange, claimant: Claimant) {
        self.len = self.len.saturating_sub(1);
        self.each_within(range, |segment| {
            if !segment.claim.as_mut().is_some_and(|claim| claim.remove(claimant)) {
                segment.claim = None;
            }
        });
        self.join_at(range.first().0);
        if let Some(behind) = range.last().0.checked_add(1) {
            self.join_at(behind);
        }
    }

    /// Chunk of a segment and its place in it.
    fn locate(&self, teid: u32) -> (usize, usize) {
        let chunk = self.firsts.partition_point(|first| *first <= teid).saturating_sub(1);
        let segments = self.chunks.get(chunk).map_or(&[][..], |chunk| chunk.as_slice());
        (chunk, segments.partition_point(|segment| segment.first <= teid).saturating_sub(1))
    }

    fn each_within(&mut self, range: TeidRange, mut change: impl FnMut(&mut Segment)) {
        let (first, last) = (range.first().0, range.last().0);
        self.cut_at(first);
        if let Some(behind) = last.checked_add(1) {
            self.cut_at(behind);
        }
        let (from, _) = self.locate(first);
        let (to, _) = self.locate(last);
        for chunk in &mut self.chunks[from..=to] {
            let within = |segment: &&mut Segment| (first..=last).contains(&segment.first);
            Arc::make_mut(chunk).iter_mut().filter(within).for_each(&mut change);
        }
    }

    /// Lets a segment begin at an identifier.
    fn cut_at(&mut self, teid: u32) {
        let (chunk, place) = self.locate(teid);
        let segments = Arc::make_mut(&mut self.chunks[chunk]);
        if segments[place].first == teid {
            return;
        }
        let claim = segments[place].claim.clone();
        segments.insert(place + 1, Segment { first: teid, claim });
        if segments.len() > CHUNK_MAX {
            let upper = segments.split_off(CHUNK_MAX / 2);
            self.firsts.insert(chunk + 1, upper[0].first);
            self.chunks.insert(chunk + 1, Arc::new(upper));
        }
    }

    /// Joins the segment that begins at an identifier with the one before it, if they are alike.
    fn join_at(&mut self, teid: u32) {
        let Some(before) = teid.checked_sub(1) else { return };
        let (chunk, place) = self.locate(teid);
        let (other, its_place) = self.locate(before);
        let one = &self.chunks[chunk][place];
        if one.first != teid || one.claim != self.chunks[other][its_place].claim {
            return;
        }
        let segments = Arc::make_mut(&mut self.chunks[chunk]);
        segments.remove(place);
        match segments.first() {
            Some(first) => self.firsts[chunk] = first.first,
            None => {
                self.chunks.remove(chunk);
                self.firsts.remove(chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claimant(number: u32) -> Claimant {
        Claimant::new(number).unwrap()
    }

    fn range(first: u32, last: u32) -> TeidRange {
        TeidRange::new(Teid(first), Teid(last)).unwrap()
    }

    /// What the ranges say, found by looking at each.
    fn reference(ranges: &[(TeidRange, Claimant)], teid: Teid) -> Option<Claimant> {
        let inside = ranges.iter().filter(|(range, _)| range.contains(teid));
        inside.map(|(_, claimant)| *claimant).min()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn ranges_claim_what_they_claim_one_by_one(
            steps in proptest::collection::vec((0u32..900, 0u32..90, any::<bool>(), any::<u16>()), 1..400),
            is_high in any::<bool>(),
        ) {
            // The end of the numbers too.
            let shift = if is_high { u32::MAX - 989 } else { 0 };
            let (mut ranges, mut model) = (Ranges::default(), Vec::new());
            let before = |one: Claimant, other: Claimant| one < other;
            for (number, (first, width, is_new, pick)) in (1..).zip(steps) {
                if is_new || model.is_empty() {
                    let range = range(first + shift, first + width + shift);
                    ranges.add(range, claimant(number), &before);
                    model.push((range, claimant(number)));
                } else {
                    let (range, gone) = model.swap_remove(usize::from(pick) % model.len());
                    ranges.remove(range, gone);
                }
            }
            for teid in (0..990).map(|teid| Teid(teid + shift)) {
                prop_assert_eq!(ranges.get(teid), reference(&model, teid));
            }
            for (range, gone) in model {
                ranges.remove(range, gone);
            }
            prop_assert!(ranges.is_empty());
            prop_assert_eq!((ranges.chunks.len(), ranges.chunks[0].len()), (1, 1), "all joined");
        }
    }
}
