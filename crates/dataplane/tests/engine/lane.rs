//! The lane against the long way: whatever comes, an engine with it and one without do the same.

use crate::accounting::{Content, Shot, behave, chains_of, shoot, shots, towns, users_shots};
use crate::rig::{Rig, SeenDatagram};
use crate::slices;
use crate::town::Town;
use catena_model::program::PortRole;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    /// Anything, anywhere.
    Any(Shot),
    /// From an endpoint, rarely with anything special about it.
    Plain { from: &'static str, what: Content },
}

prop_compose! {
    fn plain()(
        from in select(vec!["S", "S", "D"]),
        is_v6 in prop::bool::weighted(0.1),
        is_tcp in prop::bool::weighted(0.3),
        port in 5_000u16..5_005,
        bytes in prop_oneof![4 => 0usize..200, 1 => 1_300usize..1_500],
        to in any::<Index>(),
        is_partial in prop::bool::weighted(0.1),
    ) -> Sent {
        let (vlan, segment_bytes) = (None, None);
        let what = Content { is_v6, is_tcp, port, vlan, bytes, to, segment_bytes, is_partial };
        Sent::Plain { from, what }
    }
}

pub(crate) fn sent() -> impl Strategy<Value = Sent> {
    // What a replay repeats hangs on the order of the datagrams, which rows may change.
    let shots = shots().prop_filter("no replay", |shot| !matches!(shot, Shot::Replay { .. }));
    prop_oneof![
        2 => shots.prop_map(Sent::Any),
        7 => plain(),
        1 => users_shots().prop_map(Sent::Any),
    ]
}

fn send(rig: &mut Rig, sent: &Sent) {
    match sent {
        // What looks like a packet that comes back meets no packet that goes in in its own vector:
        // there the one may be before the other or behind it, as no real one can.
        Sent::Any(shot) if is_from_function(rig, shot) => {
            rig.run();
            shoot(rig, shot);
            rig.run();
        }
        Sent::Any(shot) => shoot(rig, shot),
        Sent::Plain { from, what } => {
            let (bytes, offload) = what.make(&rig.town);
            rig.queue(from, &bytes, offload);
        }
    }
}

fn is_from_function(rig: &Rig, shot: &Shot) -> bool {
    let ports = &rig.town.ports;
    let Shot::Port { port, .. } = shot else { return false };
    ports[port.index(ports.len())].role == PortRole::Function
}

/// Wire packets of the underlay, in an order of their own: rows may be cut elsewhere.
fn wire_packets(datagrams: &[SeenDatagram]) -> Vec<(usize, String, u16, Vec<u8>)> {
    let mut packets: Vec<_> = datagrams
        .iter()
        .flat_map(|seen| {
            let size = seen.segment_bytes.map_or(seen.bytes.len(), usize::from).max(1);
            let kind = format!("{:?}", seen.kind);
            seen.bytes
                .chunks(size)
                .map(move |bytes| (seen.from, kind.clone(), seen.entropy, bytes.to_vec()))
        })
        .collect();
    packets.sort();
    packets
}

/// Between the repetitions of a volley.
const PAUSES_NS: [u64; 4] = [0, 0, 1_500_000, 61_000_000_000];

pub(crate) fn run(
    (has_lane, engines): (bool, usize),
    (first, second): (&Town, &Town),
    behaviours: &[usize],
    volleys: &[Vec<Sent>],
) -> Rig {
    let change = |config: &mut catena_dataplane::engine::EngineConfig| {
        config.has_lane = has_lane;
        // Which segments are joined hangs on what comes between them.
        config.is_coalescing = false;
    };
    let mut rig = Rig::of_engines(engines, first.clone(), change, 384);
    behave(&mut rig, first, behaviours);
    for (round, volley) in volleys.iter().enumerate() {
        if round == volleys.len() / 2 {
            chains_of(&mut rig, second, 1);
        }
        // Several times: first the flows are new, then they are known; then what is remembered of
        // them is due to be noted again, and at last too old.
        for pause_ns in PAUSES_NS {
            rig.now_ns += pause_ns;
            for sent in volley {
                send(&mut rig, sent);
            }
            rig.run();
        }
    }
    rig.check();
    rig
}

/// Packets that entered the path of the users' slice, and of the one at the end of its chain.
pub(crate) fn entered(rig: &Rig) -> [u64; 2] {
    let counters: Vec<_> = (0..3).flat_map(|node| rig.slice_counters(node)).collect();
    [1, 2].map(|number| {
        let of_slice = counters.iter().filter(|slice| slice.slice == slices::id(number));
        of_slice.map(|slice| slice.entered.packets).sum()
    })
}

pub(crate) fn sum(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0] + other[0], one[1] + other[1]]
}

/// Both were met often.
pub(crate) fn assert_entered([users, followers]: [u64; 2]) {
    assert!(users > 200, "only {users} packets were of users of a slice");
    assert!(followers > 20, "only {followers} packets went on by a slice at the end of a chain");
}

/// What left both rigs is the same, in whatever order.
pub(crate) fn compare_packets(one: &mut Rig, other: &mut Rig) -> Result<(), TestCaseError> {
    prop_assert_eq!(wire_packets(&one.datagrams), wire_packets(&other.datagrams));
    for rig in [&mut *one, &mut *other] {
        rig.seen.values_mut().for_each(|seen| seen.sort_by(|a, b| a.bytes.cmp(&b.bytes)));
    }
    prop_assert_eq!(&one.seen, &other.seen);
    Ok(())
}

#[test]
fn packets_and_books_are_the_same_by_the_lane_and_by_the_long_way() {
    let (by_lane, of_users) = (Cell::new(0), Cell::new([0; 2]));
    let volleys = vec(vec(sent(), 1..12), 1..4);
    // Without 1: a function that says of every hop that it was visited meets itself for ever where it
    // serves two hops in a row, by either way.
    let behaviours = vec(select(vec![0usize, 2, 3, 4, 5]), 4);
    let inputs = (towns(), towns(), behaviours, volleys);
    let mut runner = TestRunner::new(Config { cases: 600, ..Config::default() });
    let outcome = runner.run(&inputs, |(first, second, behaviours, volleys)| {
        let mut with = run((true, 1), (&first, &second), &behaviours, &volleys);
        let mut without = run((false, 1), (&first, &second), &behaviours, &volleys);
        by_lane.set(by_lane.get() + with.by_lane());
        of_users.set(sum(of_users.get(), entered(&with)));
        prop_assert_eq!(without.by_lane(), 0);
        prop_assert_eq!(with.counters(), without.counters());
        compare_packets(&mut with, &mut without)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(by_lane.get() > 1_000, "only {} packets went by the lane", by_lane.get());
    assert_entered(of_users.get());
}
