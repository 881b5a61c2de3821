//! Functions that data planes ask, and that die of it: which of them have of late, by what nodes count. Refuses to know
//! what that means for a chain.

use catena_model::NodeName;
use catena_model::account::NodeCounters;
use catena_model::id::InstanceId;
use catena_plan::Counted;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Who has lived so long since is told of no more.
const LATELY: Duration = Duration::from_secs(60);

/// Deaths of an instance, none of them long after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deaths {
    pub(super) count: u64,
    /// When the first of them was seen.
    pub(super) since: Duration,
    last: Duration,
}

/// What nodes have counted.
#[derive(Debug)]
pub(super) struct Lives {
    /// Who may have died when nobody looked.
    old: BTreeSet<InstanceId>,
    /// What each node told last.
    counted: BTreeMap<NodeName, BTreeMap<InstanceId, u64>>,
    died: BTreeMap<InstanceId, Deaths>,
}

impl Lives {
    /// Begins to look when there are these instances: what of them was counted before was at no known time.
    pub(super) fn since(old: BTreeSet<InstanceId>) -> Self {
        Self { old, counted: BTreeMap::new(), died: BTreeMap::new() }
    }

    /// Who has died of late, as nodes count now.
    pub(super) fn look(
        &mut self,
        counters: &Counted,
        now: Duration,
    ) -> BTreeMap<InstanceId, Deaths> {
        for (node, NodeCounters { deaths: told, .. }) in counters {
            // A node that does not answer is believed as before.
            let known = self.counted.insert(node.clone(), told.clone());
            for (instance, count) in told {
                let before = match &known {
                    // Whoever is not told of has not died yet.
                    Some(known) => known.get(instance).copied().unwrap_or_default(),
                    None if self.old.contains(instance) => continue,
                    None => 0,
                };
                // A data plane that began anew counts from 0.
                let more = count.checked_sub(before).unwrap_or(*count);
                if more > 0 {
                    let fresh = Deaths { count: 0, since: now, last: now };
                    let deaths = self.died.entry(*instance).or_insert(fresh);
                    (deaths.count, deaths.last) = (deaths.count + more, now);
                }
            }
        }
        self.died.retain(|_, deaths| now.saturating_sub(deaths.last) < LATELY);
        self.died.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::BlueprintNumber;
    use uuid::Uuid;

    const INSTANCE: InstanceId = InstanceId(Uuid::from_u128(7));

    fn counted(deaths: u64) -> Counted {
        let node = NodeName::new("host1").unwrap();
        let mut counters = NodeCounters::none(node.clone(), BlueprintNumber(1));
        counters.deaths.extend([(INSTANCE, deaths)].into_iter().filter(|(_, deaths)| *deaths > 0));
        [(node, counters)].into_iter().collect()
    }

    fn told(lives: &mut Lives, deaths: u64, now: u64) -> Option<(u64, u64)> {
        let found = lives.look(&counted(deaths), Duration::from_secs(now));
        found.get(&INSTANCE).map(|found| (found.count, found.since.as_secs()))
    }

    #[test]
    fn who_came_later_has_died_since_even_before_it_was_seen() {
        let mut lives = Lives::since(BTreeSet::new());
        assert_eq!(told(&mut lives, 2, 10), Some((2, 10)));
        assert_eq!(told(&mut lives, 2, 69), Some((2, 10)));
        assert_eq!(told(&mut lives, 2, 70), None);
    }

    #[test]
    fn deaths_are_told_of_from_the_first_that_is_seen_until_a_minute_after_the_last() {
        let mut lives = Lives::since([INSTANCE].into());
        let mut told = |deaths, now| told(&mut lives, deaths, now);
        assert_eq!(told(3, 10), None, "they were at no known time");
        assert_eq!(told(3, 11), None);
        assert_eq!(told(4, 12), Some((1, 12)));
        assert_eq!(told(6, 50), Some((3, 12)));
        assert_eq!(told(6, 109), Some((3, 12)));
        assert_eq!(told(6, 110), None);
        // Its data plane has begun anew.
        assert_eq!(told(0, 111), None);
        assert_eq!(told(1, 112), Some((1, 112)));
        assert_eq!(told(3, 113), Some((3, 112)));
        // And has died so often between two looks.
        assert_eq!(told(2, 114), Some((5, 112)));
    }
}
