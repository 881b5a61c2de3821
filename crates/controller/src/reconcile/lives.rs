//! Functions that data planes ask, and that die of it: which of them have of late, by what nodes count. Refuses to know
//! what that means for a chain.

use catena_model::NodeName;
use catena_model::id::InstanceId;
use catena_plan::Counted;
use std::collections::BTreeMap;
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
#[derive(Debug, Default)]
pub(super) struct Lives {
    counted: BTreeMap<(NodeName, InstanceId), u64>,
    died: BTreeMap<InstanceId, Deaths>,
}

impl Lives {
    /// Who has died of late, as nodes count now. What they have counted before anybody looked was at no known time.
    pub(super) fn look(
        &mut self,
        counters: &Counted,
        now: Duration,
    ) -> BTreeMap<InstanceId, Deaths> {
        let mut counted = BTreeMap::new();
        for (node, counters) in counters {
            for function in &counters.functions {
                let key = (node.clone(), function.instance);
                let before = self.counted.get(&key).copied();
                counted.insert(key, function.deaths);
                // A data plane that began anew counts from 0.
                let more = before.map_or(0, |before| function.deaths.saturating_sub(before));
                if more > 0 {
                    let fresh = Deaths { count: 0, since: now, last: now };
                    let deaths = self.died.entry(function.instance).or_insert(fresh);
                    (deaths.count, deaths.last) = (deaths.count + more, now);
                }
            }
        }
        // A node that does not answer is believed as before; what it runs no more is forgotten.
        self.counted.retain(|(node, _), _| !counters.contains_key(node));
        self.counted.append(&mut counted);
        self.died.retain(|_, deaths| now.saturating_sub(deaths.last) < LATELY);
        self.died.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::account::{FunctionCounters, NodeCounters};
    use catena_model::id::BlueprintNumber;
    use serde_json::json;
    use uuid::Uuid;

    const INSTANCE: InstanceId = InstanceId(Uuid::from_u128(7));

    fn counted(deaths: u64) -> Counted {
        let node = NodeName::new("host1").unwrap();
        let mut counters = NodeCounters::none(node.clone(), BlueprintNumber(1));
        let function: FunctionCounters = serde_json::from_value(json!({
            "instance": INSTANCE, "name": "edge-1", "configuration": "00".repeat(32), "rules": [],
            "rules_untold": 0, "events": 0, "errors_withheld": 0, "deaths": deaths,
        }))
        .unwrap();
        counters.functions.push(function);
        [(node, counters)].into_iter().collect()
    }

    #[test]
    fn deaths_are_told_of_from_the_first_that_is_seen_until_a_minute_after_the_last() {
        let mut lives = Lives::default();
        let mut told = |deaths, now| {
            let found = lives.look(&counted(deaths), Duration::from_secs(now));
            found.get(&INSTANCE).map(|found| (found.count, found.since.as_secs()))
        };
        assert_eq!(told(3, 10), None, "they were at no known time");
        assert_eq!(told(3, 11), None);
        assert_eq!(told(4, 12), Some((1, 12)));
        assert_eq!(told(6, 50), Some((3, 12)));
        assert_eq!(told(6, 109), Some((3, 12)));
        assert_eq!(told(6, 110), None);
        // Its data plane has begun anew.
        assert_eq!(told(0, 111), None);
        assert_eq!(told(1, 112), Some((1, 112)));
    }
}
