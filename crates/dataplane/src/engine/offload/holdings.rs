//! Whose flows the kernel repeats, and who gives way where it can take no more: the one with most, of
//! its own the one that was idle for longest. Knows holders and counts; refuses to know flows.

use catena_fastpath::FlowKey;
use catena_model::PathId;
use catena_model::id::{NetworkId, PortId};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Of so many of its flows that were there first, the one that was idle for longest gives way.
const CANDIDATES: usize = 4;
/// Places of flows that are gone, beyond those of flows that are there.
const GONE_MAX: usize = 64;

/// Whose a flow is: a share of the table is that of one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Holder {
    /// Of the port that sends it.
    Port(PortId),
    /// Of the path on which it comes from a function or from another node.
    Path(PathId),
    /// Of the network in which it comes from another node, on no path.
    Network(NetworkId),
}

/// What one of them has.
#[derive(Debug, Default)]
struct Holding {
    count: usize,
    /// In the order of their coming, each with its time; some are gone.
    flows: VecDeque<(FlowKey, u64)>,
}

/// All that is held.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    by_holder: HashMap<Holder, Holding>,
    /// The last has most.
    ranking: BTreeSet<(usize, Holder)>,
}

impl Holdings {
    /// One more of it, put in at this time. `is_there`: is the flow of this time still there?
    pub(super) fn add(
        &mut self,
        holder: Holder,
        flow: (FlowKey, u64),
        is_there: impl Fn(&(FlowKey, u64)) -> bool,
    ) {
        self.recount(holder, |count| count + 1);
        let Some(holding) = self.by_holder.get_mut(&holder) else { return };
        holding.flows.push_back(flow);
        if holding.flows.len() > 2 * holding.count + GONE_MAX {
            holding.flows.retain(is_there);
        }
    }

    /// One less.
    pub(super) fn remove(&mut self, holder: Holder) {
        self.recount(holder, |count| count.saturating_sub(1));
    }

    fn recount(&mut self, holder: Holder, change: impl FnOnce(usize) -> usize) {
        let holding = self.by_holder.entry(holder).or_default();
        self.ranking.remove(&(holding.count, holder));
        holding.count = change(holding.count);
        if holding.count == 0 {
            self.by_holder.remove(&holder);
        } else {
            self.ranking.insert((holding.count, holder));
        }
    }

    /// Which flow makes room for one of this holder, and whose it is; none: nobody has more than it
    /// would have then. `seen`: when something passed by the flow last; none: it is gone.
    pub(super) fn who_gives_way(
        &mut self,
        to: Holder,
        seen: impl Fn(&(FlowKey, u64)) -> Option<u64>,
    ) -> Option<(Holder, FlowKey)> {
        let own = self.by_holder.get(&to).map_or(0, |holding| holding.count);
        let (most, from) = self.ranking.last().copied().filter(|(most, _)| *most > own + 1)?;
        let holding = self.by_holder.get_mut(&from)?;
        let mut candidates: Vec<(u64, (FlowKey, u64))> = Vec::with_capacity(CANDIDATES);
        while candidates.len() < CANDIDATES.min(most)
            && let Some(flow) = holding.flows.pop_front()
        {
            candidates.extend(seen(&flow).map(|seen_ns| (seen_ns, flow)));
        }
        let idlest = (0..candidates.len()).min_by_key(|place| candidates[*place].0)?;
        let (_, (key, _)) = candidates.remove(idlest);
        holding.flows.extend(candidates.into_iter().map(|(_, flow)| flow));
        Some((from, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn key(number: u32) -> FlowKey {
        FlowKey { door: number, ..FlowKey::default() }
    }

    fn port(number: u128) -> Holder {
        Holder::Port(PortId(Uuid::from_u128(number)))
    }

    /// Adds the flow with this number; its time is its number.
    fn add(holdings: &mut Holdings, holder: Holder, number: u32) {
        holdings.add(holder, (key(number), u64::from(number)), |_| true);
    }

    #[test]
    fn who_has_most_gives_way_until_all_have_as_much() {
        let (flood, quiet, mut holdings) = (port(1), port(2), Holdings::default());
        (0..10).for_each(|number| add(&mut holdings, flood, number));
        let seen = |flow: &(FlowKey, u64)| Some(flow.1);
        assert_eq!(holdings.who_gives_way(flood, seen), None, "it has most itself");
        let mut gone = BTreeSet::new();
        for number in 10..15 {
            let (from, key) = holdings.who_gives_way(quiet, seen).unwrap();
            assert!(from == flood && gone.insert(key) && key.door < 10);
            holdings.remove(from);
            add(&mut holdings, quiet, number);
        }
        assert_eq!(gone.first(), Some(&key(0)), "the one idle for longest");
        assert_eq!(holdings.who_gives_way(quiet, seen), None, "five each");
        assert_eq!(holdings.who_gives_way(port(3), seen).map(|(from, _)| from), Some(quiet));
    }

    #[test]
    fn a_flow_in_use_stays_before_those_that_are_idle_and_those_gone_are_left_out() {
        let (flood, mut holdings) = (port(1), Holdings::default());
        (0..8).for_each(|number| add(&mut holdings, flood, number));
        let seen = |flow: &(FlowKey, u64)| match flow.1 {
            0 => Some(1_000),
            1 => None,
            number => Some(number),
        };
        holdings.remove(flood);
        let mut gone = BTreeSet::new();
        while let Some((from, key)) = holdings.who_gives_way(port(2), seen) {
            holdings.remove(from);
            gone.insert(key.door);
        }
        assert!(gone.into_iter().eq(2..8), "all but the one in use and the one that was gone");
    }

    #[test]
    fn places_of_flows_that_are_gone_are_given_back() {
        let (one, mut holdings) = (port(1), Holdings::default());
        for number in 0..10_000 {
            holdings.add(one, (key(number), 0), |flow| flow.0 == key(number));
            holdings.remove(one);
        }
        assert!(holdings.by_holder.is_empty() && holdings.ranking.is_empty());
        add(&mut holdings, one, 0);
        for number in 1..10_000 {
            holdings.add(one, (key(number), 0), |flow| flow.0 == key(number));
            holdings.remove(one);
        }
        assert!(holdings.by_holder[&one].flows.len() <= GONE_MAX + 4);
    }
}
