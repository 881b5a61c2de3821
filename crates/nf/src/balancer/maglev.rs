//! The lookup table of Maglev (Eisenbud et al., NSDI 2016, section 3.4), with weights: from the hash of a
//! session to a backend.
//!
//! Knows permutations and turns. Refuses to know whether a backend lives: whoever asks does, and what falls to
//! one that takes nothing goes on to another by weighted rendezvous (Schindelhauer and Schomaker, SPAA 2005), so
//! that only what would be the former's moves, and all of it comes back.
//!
//! Backends take turns; in each, one takes the next free slot of its permutation. One with the greatest weight
//! takes each turn, another so many of them as its weight is to the greatest.

use catena_wire::flow::mix;

/// What a table knows of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// A hash of what it is, whatever its place among others.
    pub(super) identity: u64,
    /// Its share.
    pub(super) weight: u32,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    members: Box<[Member]>,
    slots: Box<[u16]>,
}

/// A backend's way through the slots: each once, as their number is a prime.
#[derive(Clone, Copy)]
struct Permutation {
    next: u32,
    skip: u32,
}

/// Set apart, so that offset and skip of a backend tell nothing of each other.
const OFFSET: u64 = 0x6f66_6673_6574_0001;
const SKIP: u64 = 0x736b_6970_0000_0001;
const RENDEZVOUS: u64 = 0x7265_6e64_657a_0001;

impl Permutation {
    fn of(member: &Member, slots: u32) -> Self {
        let below = |hash: u64, bound: u32| (hash % u64::from(bound.max(1))) as u32;
        let skip = below(mix(member.identity ^ SKIP), slots.saturating_sub(1)) + 1;
        Self { next: below(mix(member.identity ^ OFFSET), slots), skip }
    }

    fn step(&mut self, slots: u32) -> usize {
        let at = self.next;
        self.next = ((u64::from(at) + u64::from(self.skip)) % u64::from(slots)) as u32;
        at as usize
    }
}

/// No backend yet.
const FREE: u16 = u16::MAX;

impl Lookup {
    /// The table of these members, fewer than 65,535 of them, with so many slots, a prime. Which order they
    /// are given in makes no difference but for their numbers.
    pub(super) fn new(members: &[Member], slots: u32) -> Self {
        let mut table = vec![FREE; slots as usize].into_boxed_slice();
        let most = members.iter().map(|member| member.weight).max().unwrap_or(0);
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|at| members.get(*at).map(|member| member.identity));
        let mut turns: Vec<(u16, u32, u32, Permutation)> = order
            .iter()
            .filter_map(|at| {
                let member = members.get(*at)?;
                let number = u16::try_from(*at).ok().filter(|_| member.weight > 0)?;
                Some((number, member.weight, 0, Permutation::of(member, slots)))
            })
            .collect();
        let mut taken = 0;
        while taken < table.len() && !turns.is_empty() {
            for (number, weight, credit, way) in &mut turns {
                *credit += *weight;
                if *credit < most || taken == table.len() {
                    continue;
                }
                *credit -= most;
                // Some slot is free, and the way meets each.
                while let Some(slot) = table.get_mut(way.step(slots)) {
                    if *slot == FREE {
                        *slot = *number;
                        taken += 1;
                        break;
                    }
                }
            }
        }
        Self { members: members.into(), slots: table }
    }

    /// The backend of a session with this hash, by its number; none: no backend is open to it.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        let slot = (hash % (self.slots.len().max(1) as u64)) as usize;
        let named = usize::from(*self.slots.get(slot)?);
        if is_open(named) { Some(named) } else { self.rendezvous(hash, is_open) }
    }

    /// Of those that are open, the one with the greatest score.
    fn rendezvous(&self, hash: u64, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        let score = |member: &Member| {
            let drawn = mix(mix(hash ^ RENDEZVOUS) ^ member.identity) >> 11;
            // Within 0 and 1, and neither.
            let drawn = (drawn as f64 + 0.5) / (1_u64 << 53) as f64;
            drawn.ln() / f64::from(member.weight)
        };
        let open =
            self.members.iter().enumerate().filter(|(at, one)| one.weight > 0 && is_open(*at));
        let scored = open.map(|(at, member)| (at, score(member)));
        scored.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(at, _)| at)
    }

    /// What each slot names.
    #[cfg(test)]
    pub(super) fn slots(&self) -> &[u16] {
        &self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: u64) -> Vec<Member> {
        let weight = |at: u64| 1 + (at % 4) as u32;
        (0..count).map(|at| Member { identity: mix(at + 1_000), weight: weight(at) }).collect()
    }

    #[test]
    fn shares_are_weights_and_a_drain_moves_the_least() {
        const FLOWS: u64 = 100_000;
        for (count, slots) in [(2, 65_537), (5, 65_537), (12, 65_537), (13, 655_373), (20, 655_373)]
        {
            let members = members(count);
            let table = Lookup::new(&members, slots);
            let all: u32 = members.iter().map(|one| one.weight).sum();
            let hash = |flow: u64| mix(flow ^ 0x5eed);
            let mut met = vec![0_u32; members.len()];
            for flow in 0..FLOWS {
                let own = table.find(hash(flow), |_| true).unwrap();
                met[own] += 1;
                let other = table.find(hash(flow), |one| one != 0).unwrap();
                assert!(other != 0 && (own == 0 || own == other));
            }
            for (one, met) in members.iter().zip(met) {
                let off = f64::from(met) / FLOWS as f64 - f64::from(one.weight) / f64::from(all);
                assert!(off.abs() < 0.02, "{count} backends: {off}");
            }
            let less = Lookup::new(&members[1..], slots);
            let pairs = || table.slots().iter().zip(less.slots());
            let moved = pairs().filter(|(was, is)| **was != **is + 1).count() as f64;
            let least = pairs().filter(|(was, _)| **was == 0).count() as f64;
            assert!(moved <= 1.1 * least, "{count} backends: {}", moved / least);
        }
    }

    /// The same slots change when the backend comes back.
    #[test]
    fn whichever_backend_goes_others_keep_nearly_all() {
        for (count, slots) in [(12, 65_537), (32, 655_373)] {
            let members = members(count);
            let table = Lookup::new(&members, slots);
            for gone in 0..members.len() {
                let mut rest = members.clone();
                rest.remove(gone);
                let less = Lookup::new(&rest, slots);
                let now = |at: u16| usize::from(at) + usize::from(usize::from(at) >= gone);
                let pairs = table.slots().iter().zip(less.slots());
                let moved = pairs.filter(|(was, is)| usize::from(**was) != now(**is)).count();
                let least = table.slots().iter().filter(|was| usize::from(**was) == gone).count();
                assert!(moved * 10 <= least * 11, "{gone} of {count}: {moved} for {least}");
            }
        }
    }
}
