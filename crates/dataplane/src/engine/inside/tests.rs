//! Bounds and age, which packets alone cannot show.

use super::super::encap::Positions;
use super::super::transform::Epoch;
use super::*;
use catena_model::PathId;
use catena_model::id::InstanceId;
use uuid::Uuid;

const SECOND_NS: u64 = 1_000_000_000;

/// A visit of the path with this serial.
fn visit(serial: u64) -> Visit {
    Visit {
        position: Positions::for_tests(),
        path: PathId(1),
        serial,
        hop: 0,
        instance: InstanceId(Uuid::nil()),
        epoch: Epoch(0),
    }
}

fn serial(found: Option<Visit>) -> Option<u64> {
    found.map(|visit| visit.serial)
}

#[test]
fn when_the_memory_is_full_the_oldest_goes_and_nobody_is_said_to_rewrite() {
    let mut inside = Inside::new(3);
    for digest in 1..=4 {
        inside.push(digest, 7, digest, visit(digest));
    }
    assert_eq!(serial(inside.take(5, 7, 1)), None);
    assert_eq!(serial(inside.take(5, 7, 3)), Some(3));
    let found = inside.take_oldest(5, 7, |_| true).unwrap();
    assert_eq!((found.visit.serial, found.is_rewritten, found.is_ambiguous), (2, false, true));
    let found = inside.take_oldest(SECOND_NS + 5, 7, |_| true).unwrap();
    assert_eq!((found.visit.serial, found.is_rewritten, found.is_ambiguous), (4, true, false));
    assert!(inside.is_empty() && inside.take_oldest(5, 7, |_| true).is_none());
}

#[test]
fn flows_do_not_see_each_other() {
    // One list for all of them.
    let mut inside = Inside::new(1);
    inside.push(0, 1, 5, visit(1));
    assert_eq!(serial(inside.take(0, 2, 5)), None);
    assert!(!inside.holds(2) && inside.holds(1));
    inside.push(0, 2, 5, visit(2));
    assert!(inside.holds(2) && !inside.holds(1), "it has taken the only place");
}

#[test]
fn what_went_in_unwatched_is_counted_and_trusted_where_bytes_are_kept() {
    let mut inside = Inside::new(8);
    for keeps_bytes in [true, false] {
        inside.push(10, 7, 1, visit(2));
        inside.push_untold(10, 5, 7, visit(1), 2);
        inside.push(10, 7, 3, visit(3));
        if keeps_bytes {
            assert_eq!(serial(inside.take(11, 7, 1)), Some(2));
        }
        // Nothing younger than a second is there, or what is left of the unwatched counts on.
        let late = 3 * SECOND_NS;
        inside.push(late, 7, 4, visit(4));
        let found = inside.take_oldest(late, 7, |_| true).unwrap();
        let expected = if keeps_bytes { (1, false, true) } else { (4, true, false) };
        assert_eq!((found.visit.serial, found.is_rewritten, found.is_ambiguous), expected);
        while inside.take_oldest(late, 7, |_| true).is_some() {}
        assert!(inside.is_empty());
    }
}

#[test]
fn visits_of_paths_that_are_gone_do_not_count_and_the_old_expire() {
    let mut inside = Inside::new(64);
    for digest in 0..40 {
        inside.push(0, 7, digest, visit(digest % 2));
    }
    let found = inside.take_oldest(1, 7, |visit| visit.serial == 1).unwrap();
    assert_eq!(found.visit.serial, 1);
    for _ in 0..3 {
        assert_eq!(serial(inside.take(FLOW_IDLE_NS + 1, 7, 99)), None);
    }
    assert!(inside.is_empty(), "a minute is over");
}
