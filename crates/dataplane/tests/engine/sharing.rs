//! Several engines that share a node's packets against one that has them all: whatever comes, the
//! same leaves and the same is counted.

use crate::accounting::towns;
use crate::lane::{run, sent, wire_packets};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;

#[test]
fn packets_and_books_are_the_same_by_one_engine_and_by_several() {
    let by_others = Cell::new(0);
    let volleys = vec(vec(sent(), 1..12), 1..4);
    let behaviours = vec(select(vec![0usize, 2, 3, 4, 5]), 4);
    let inputs = (towns(), towns(), behaviours, volleys, 2usize..5);
    let mut runner = TestRunner::new(Config { cases: 600, ..Config::default() });
    let outcome = runner.run(&inputs, |(first, second, behaviours, volleys, engines)| {
        let mut one = run((true, 1), (&first, &second), &behaviours, &volleys);
        let mut several = run((true, engines), (&first, &second), &behaviours, &volleys);
        by_others.set(by_others.get() + several.received_by_others());
        prop_assert_eq!(one.counters(), several.counters());
        prop_assert_eq!(wire_packets(&one.datagrams), wire_packets(&several.datagrams));
        for rig in [&mut one, &mut several] {
            rig.seen.values_mut().for_each(|seen| seen.sort_by(|a, b| a.bytes.cmp(&b.bytes)));
        }
        prop_assert_eq!(&one.seen, &several.seen);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(by_others.get() > 1_000, "only {} packets were others'", by_others.get());
}
