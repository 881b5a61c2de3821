//! A chain changes while packets are inside its functions: each packet meets the functions of
//! exactly one version, in order, and none is lost or doubled.

use crate::versions::{Manner, Stage, route_of};
use catena_model::resource::Encapsulation;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const OLD: [&str; 2] = ["v1", "v2"];
/// Reordered, inserted, removed, replaced.
const NEW: [&[&str]; 6] =
    [&["v2", "v1"], &["v1", "v3", "v2"], &["v1"], &["v2"], &["v1", "v4"], &["v3", "v2", "v4"]];

#[test]
fn a_packet_inside_when_the_rules_turn_stays_on_its_version() {
    for encapsulation in Encapsulation::ALL {
        for new in NEW {
            let mut stage = Stage::new(encapsulation, &OLD);
            stage.send(1, false, 1, 1);
            stage.install(new);
            stage.send(1, false, 2, 1);
            stage.turn();
            stage.send(1, false, 3, 1);
            // The youngest comes back first.
            while !stage.held.is_empty() {
                let last = stage.held.len() - 1;
                stage.release(last, Manner::Routed);
            }
            assert_eq!(stage.routes[&1], route_of(&OLD), "{new:?}");
            assert_eq!(stage.routes[&2], route_of(&OLD), "{new:?}");
            assert_eq!(stage.routes[&3], route_of(new), "{new:?}");
            assert_eq!(stage.hop_count(100, "v1", |hop| hop.ambiguous + hop.rewritten), 0);
        }
    }
}

#[test]
fn what_a_function_never_gave_back_is_lost_in_it_when_its_path_goes() {
    let mut stage = Stage::new(Encapsulation::Nsh, &OLD);
    stage.send(1, false, 1, 1);
    stage.install(&["v1", "v4"]);
    stage.send(1, false, 2, 3);
    stage.turn();
    stage.send(1, false, 5, 1);
    stage.release(0, Manner::Routed);
    stage.rig.moved();
    stage.remove_old();
    stage.rig.assert_moved(&[("v1.in lost in function", 3), ("v2.in lost in function", 1)]);
    // What comes after all ends by name; the new version is not touched.
    while !stage.held.is_empty() {
        stage.release(0, Manner::Routed);
    }
    assert_eq!(stage.routes[&1], ["v1", "v2"]);
    assert_eq!(stage.routes[&4], ["v1"]);
    assert_eq!(stage.routes[&5], route_of(&["v1", "v4"]));
    let moved = stage.rig.moved();
    assert_eq!(moved["v1.out dropped path_removed"], 3);
    assert_eq!(moved["v2.out dropped path_removed"], 1);
}

#[test]
fn a_super_frame_that_a_function_joined_from_both_versions_is_cut() {
    let mut stage = Stage::new(Encapsulation::Nsh, &OLD);
    stage.install(&["v1", "v4"]);
    stage.send(1, false, 1, 2);
    stage.turn();
    stage.send(1, false, 3, 2);
    stage.release_joined();
    stage.release_all(Manner::Routed);
    for number in 1..=4 {
        let version = if number < 3 { OLD } else { ["v1", "v4"] };
        assert_eq!(stage.routes[&number], route_of(&version), "{number}");
    }
    assert_eq!(stage.hop_count(100, "v1", |hop| hop.ambiguous + hop.rewritten), 0);
}

#[test]
fn what_comes_back_with_other_bytes_goes_by_order_and_is_counted() {
    let mut stage = Stage::new(Encapsulation::Nsh, &OLD);
    stage.send(1, false, 1, 1);
    stage.install(&["v1", "v4"]);
    stage.send(1, false, 2, 1);
    stage.turn();
    stage.send(1, false, 3, 1);
    stage.send(2, false, 4, 1);
    for _ in 0..4 {
        stage.release(0, Manner::Rewritten);
    }
    stage.release_all(Manner::Routed);
    for number in 1..=4 {
        let version = if number < 3 { OLD } else { ["v1", "v4"] };
        assert_eq!(stage.routes[&number], route_of(&version), "{number}");
    }
    let counts = |path| {
        let count = |of: fn(&catena_model::HopCounters) -> u64| stage.hop_count(path, "v1", of);
        (count(|hop| hop.rewritten), count(|hop| hop.ambiguous))
    };
    // The first went in unwatched, so nobody knows what it looked like.
    assert_eq!(counts(100), (1, 2));
    assert_eq!(counts(101), (2, 0));
}

#[test]
fn of_equal_packets_the_first_in_is_the_first_out() {
    let mut stage = Stage::new(Encapsulation::Mpls, &OLD);
    stage.install(&["v1", "v4"]);
    stage.send(1, true, 9, 1);
    stage.send(1, true, 9, 1);
    stage.turn();
    stage.send(1, true, 9, 1);
    stage.release(2, Manner::Routed);
    assert_eq!(stage.routes[&9], ["v1", "v1", "v1", "v2"]);
    stage.release_all(Manner::Bridged);
    let met = |name: &str| stage.routes[&9].iter().filter(|met| *met == name).count();
    assert_eq!(["v1", "v2", "v4", "D"].map(met), [3, 2, 1, 3]);
}

#[test]
fn a_flow_whose_lost_packets_are_long_gone_goes_by_the_order_of_the_young() {
    let mut stage = Stage::new(Encapsulation::Nsh, &OLD);
    for number in 1..=3 {
        stage.send(1, false, number, 1);
        stage.release(0, Manner::Lost);
    }
    stage.install(&["v1", "v4"]);
    stage.send(1, false, 4, 1);
    stage.release(0, Manner::Lost);
    stage.turn();
    stage.rig.now_ns += 1_000_000_001;
    stage.send(1, false, 5, 1);
    stage.release_all(Manner::Rewritten);
    assert_eq!(stage.routes[&5], route_of(&["v1", "v4"]));
}

#[test]
fn nothing_is_watched_while_a_chain_has_one_version() {
    let mut stage = Stage::new(Encapsulation::Nsh, &OLD);
    let counts = |stage: &Stage, path| stage.hop_count(path, "v1", |hop| hop.rewritten);
    stage.send(1, false, 1, 1);
    stage.release_all(Manner::Rewritten);
    assert_eq!(counts(&stage, 100), 0);
    stage.install(&["v1", "v4"]);
    stage.turn();
    stage.send(1, false, 2, 1);
    stage.release_all(Manner::Rewritten);
    assert_eq!(counts(&stage, 101), 1);
    stage.remove_old();
    stage.send(1, false, 3, 1);
    stage.release_all(Manner::Rewritten);
    assert_eq!(counts(&stage, 101), 1);
    assert_eq!(stage.routes[&3], route_of(&["v1", "v4"]));
}

#[derive(Clone, Debug)]
enum Move {
    Send { flow: u16, is_v6: bool, packets: u32 },
    Release { which: Index, manner: Manner },
    Wait,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let manners = vec![Manner::Routed, Manner::Bridged, Manner::Cut, Manner::Lost];
    let one = prop_oneof![
        3 => (1u16..4, any::<bool>(), prop_oneof![3 => Just(1u32), 1 => 2u32..5])
            .prop_map(|(flow, is_v6, packets)| Move::Send { flow, is_v6, packets }),
        6 => (any::<Index>(), select(manners))
            .prop_map(|(which, manner)| Move::Release { which, manner }),
        1 => Just(Move::Wait),
    ];
    prop::collection::vec(one, 0..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_packet_meets_exactly_one_version_of_its_chain(
        encapsulation in select(Encapsulation::ALL.to_vec()),
        new in select(&NEW[..]),
        before in moves(),
        installed in moves(),
        turned in moves(),
    ) {
        let mut stage = Stage::new(encapsulation, &OLD);
        let mut number = 0;
        let mut of_old = 0;
        for (phase, moves) in [before, installed, turned].into_iter().enumerate() {
            match phase {
                0 => {}
                1 => stage.install(new),
                _ => {
                    of_old = number;
                    stage.turn();
                }
            }
            for step in moves {
                match step {
                    Move::Send { flow, is_v6, packets } => {
                        stage.send(flow, is_v6, number, packets);
                        number += packets;
                    }
                    Move::Release { which, manner } => {
                        if !stage.held.is_empty() {
                            stage.release(which.index(stage.held.len()), manner);
                        }
                    }
                    Move::Wait => stage.rig.now_ns += 1_000_000,
                }
            }
        }
        stage.release_all(Manner::Routed);
        for (number, route) in &stage.routes {
            let version = route_of(if *number < of_old { &OLD } else { new });
            if stage.lost.contains(number) {
                prop_assert!(version.starts_with(route), "{number}: {route:?}, {version:?}");
            } else {
                prop_assert_eq!(route, &version, "{}", number);
            }
        }
        let functions = ["v1", "v2", "v3", "v4"];
        for (path, name) in [100, 101].into_iter().flat_map(|path| functions.map(|f| (path, f))) {
            prop_assert_eq!(stage.hop_count(path, name, |hop| hop.rewritten), 0);
        }
        let lost = stage.lost.len() as u64;
        let inside = |path| -> u64 {
            let held = |hop: &catena_model::HopCounters| {
                hop.delivered.packets - hop.returned.packets
            };
            functions.iter().map(|name| stage.hop_count(path, name, held)).sum()
        };
        prop_assert_eq!(inside(100) + inside(101), lost, "what was lost is inside for ever");
    }
}
