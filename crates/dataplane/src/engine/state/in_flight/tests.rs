//! Bounds and age, which packets alone cannot show.

use super::*;
use crate::engine::encap::Positions;
use crate::engine::vector::decision::Epoch;
use catena_model::PathId;
use catena_model::id::InstanceId;
use uuid::Uuid;

const SECOND_NS: u64 = 1_000_000_000;
const OWN: Payer = Payer::Port(1);

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
    let mut inside = InFlight::new(3);
    for digest in 1..=4 {
        inside.push(digest, (0, 7), digest, (visit(digest), OWN));
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
fn who_has_most_gives_up_his_oldest_until_the_other_has_as_many() {
    const PLACES: u64 = 64;
    let mut inside = InFlight::new(PLACES as usize);
    // The oldest are those of who will have fewer.
    let (few, flood) = (Payer::Path(9), Payer::Port(2));
    for digest in 0..8 {
        inside.push(digest, (0, 7), digest, (visit(digest), few));
    }
    for digest in 0..1_000 {
        inside.push(10 + digest, (0, 8), digest, (visit(digest), flood));
    }
    assert_eq!((inside.shares.held_by(&few), inside.shares.held_by(&flood)), (8, 56));
    assert!((0..944).all(|digest| inside.take(1_010, 8, digest).is_none()));
    for digest in 8..100 {
        inside.push(1_010, (0, 7), digest, (visit(digest), few));
    }
    // Who has most is found by chance, and the nearer they are the more rarely.
    assert!((30..=32).contains(&inside.shares.held_by(&few)));
    for digest in 0..PLACES {
        inside.push(1_010, (0, digest), 1, (visit(digest), Payer::Path(100 + digest)));
    }
    assert!(inside.shares.held_by(&few) <= 2 && inside.shares.held_by(&flood) <= 2);
}

#[test]
fn flows_do_not_see_each_other() {
    // One list for all of them.
    let mut inside = InFlight::new(1);
    inside.push(0, (0, 1), 5, (visit(1), OWN));
    assert_eq!(serial(inside.take(0, 2, 5)), None);
    assert!(!inside.holds(2) && inside.holds(1));
    inside.push(0, (0, 2), 5, (visit(2), OWN));
    assert!(inside.holds(2) && !inside.holds(1), "it has taken the only place");
}

#[test]
fn what_went_in_unwatched_is_counted_and_trusted_where_bytes_are_kept() {
    let mut inside = InFlight::new(8);
    for keeps_bytes in [true, false] {
        inside.push(10, (0, 7), 1, (visit(2), OWN));
        inside.push_untold(10, 5, (0, 7), (visit(1), OWN), 2);
        inside.push(10, (0, 7), 3, (visit(3), OWN));
        if keeps_bytes {
            assert_eq!(serial(inside.take(11, 7, 1)), Some(2));
        }
        // Nothing younger than a second is there, or what is left of the unwatched counts on.
        let late = 3 * SECOND_NS;
        inside.push(late, (0, 7), 4, (visit(4), OWN));
        let found = inside.take_oldest(late, 7, |_| true).unwrap();
        let expected = if keeps_bytes { (1, false, true) } else { (4, true, false) };
        assert_eq!((found.visit.serial, found.is_rewritten, found.is_ambiguous), expected);
        while inside.take_oldest(late, 7, |_| true).is_some() {}
        assert!(inside.is_empty());
    }
}

#[test]
fn visits_of_paths_that_are_gone_do_not_count_and_the_old_expire() {
    let mut inside = InFlight::new(64);
    for digest in 0..40 {
        inside.push(0, (0, 7), digest, (visit(digest % 2), OWN));
    }
    let found = inside.take_oldest(1, 7, |visit| visit.serial == 1).unwrap();
    assert_eq!(found.visit.serial, 1);
    for _ in 0..3 {
        assert_eq!(serial(inside.take(FLOW_IDLE_NS + 1, 7, 99)), None);
    }
    assert!(inside.is_empty(), "a minute is over");
}

#[test]
fn what_is_inside_is_known_by_the_port_that_it_will_come_out_of() {
    let mut inside = InFlight::new(2);
    inside.push(0, (4, 7), 1, (visit(1), OWN));
    inside.push_untold(0, 0, (5, 8), (visit(2), OWN), 1);
    assert_eq!([3, 4, 5].map(|egress| inside.holds_at(egress)), [false, true, true]);
    // It gives up the oldest, which is the only one of its port.
    inside.push(0, (5, 7), 2, (visit(1), OWN));
    assert_eq!([4, 5].map(|egress| inside.holds_at(egress)), [false, true]);
    assert!(inside.take_oldest(0, 8, |_| true).is_some() && inside.holds_at(5));
    assert!(inside.take(0, 7, 2).is_some() && !inside.holds_at(5) && inside.is_empty());
}
