//! How often rules match within a time (Suricata's `threshold` and `detection_filter`). Knows counters;
//! refuses to know packets.

use super::flow::{Counter, CounterKey};
use super::state::Counters;
use crate::packet::Time;
use catena_rules::snort::{Threshold, ThresholdKind};

/// What becomes of a match that is counted.
pub(super) enum Counted {
    NoMatch,
    Silent,
    Told,
}

/// Counts a match, as Suricata does; none: there is no room to count it, and it is told.
pub(super) fn count(
    threshold: &Threshold,
    key: CounterKey,
    counters: &mut Counters,
    now: Time,
) -> Option<Counted> {
    let slot = match counters.find(&key) {
        Some(slot) => slot,
        None => counters.insert(key, Counter { since: now, count: 0, is_dirty: true })?,
    };
    let counter = counters.get_mut(slot)?;
    if now.since(counter.since) >= Time::seconds(threshold.seconds.into()).0 {
        (counter.since, counter.count) = (now, 0);
    }
    counter.count = counter.count.saturating_add(1);
    counter.is_dirty = true;
    let (count, wanted) = (counter.count, threshold.count);
    let counted = match threshold.kind {
        ThresholdKind::Limit if count <= wanted => Counted::Told,
        ThresholdKind::Filter if count > wanted => Counted::Told,
        ThresholdKind::Both if count == wanted => Counted::Told,
        ThresholdKind::Each if count >= wanted => {
            counter.count = 0;
            Counted::Told
        }
        ThresholdKind::Limit => Counted::Silent,
        ThresholdKind::Both if count > wanted => Counted::Silent,
        ThresholdKind::Filter | ThresholdKind::Both | ThresholdKind::Each => Counted::NoMatch,
    };
    counters.touch(slot);
    Some(counted)
}
