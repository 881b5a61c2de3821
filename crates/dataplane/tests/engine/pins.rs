//! Pins: flows that a function changes, or that an instance serves, stay on their version.

use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, rules, three_hosts};
use crate::versions::{Manner, Stage, route_of};
use catena_model::PathId;
use catena_model::program::PinEntry;
use catena_model::resource::Encapsulation;
use proptest::prelude::*;
use proptest::sample::Index;

const OLD: [&str; 2] = ["v1", "v2"];
const NEW: [&str; 2] = ["v1", "v4"];
const IDLE_MS: u32 = 500;
const IDLE_NS: u64 = 500_000_000;

fn pin(old: u32, new: u32) -> PinEntry {
    PinEntry { old: PathId(old), new: PathId(new), instances: Vec::new(), idle_ms: IDLE_MS }
}

fn pinned(rig: &mut Rig, path: u32) -> u64 {
    rig.elapse();
    let counters = rig.counters();
    let chains = counters[0].chains.iter().filter(|chain| chain.path.0 == path);
    chains.map(|chain| chain.pinned_flows).sum()
}

#[test]
fn a_pinned_flow_stays_until_it_pauses_and_new_flows_go_the_new_way() {
    let mut stage = Stage::new(Encapsulation::Nsh, &OLD);
    // Before anybody thinks of a change.
    stage.send(1, false, 1, 1);
    stage.send(2, false, 2, 1);
    stage.release_all(Manner::Rewritten);
    stage.install(&NEW);
    stage.rig.town.pins = vec![pin(100, 101)];
    stage.turn();
    assert_eq!(pinned(&mut stage.rig, 100), 2);
    stage.rig.now_ns += IDLE_NS;
    stage.send(1, false, 3, 1);
    stage.rig.now_ns += 1_000_000;
    assert_eq!(pinned(&mut stage.rig, 100), 1, "flow 2 has paused for too long");
    stage.send(2, false, 4, 1);
    stage.send(3, false, 5, 1);
    stage.send(1, false, 6, 1);
    stage.release_all(Manner::Rewritten);
    for (number, version) in [(3, OLD), (4, NEW), (5, NEW), (6, OLD)] {
        assert_eq!(stage.routes[&number], route_of(&version), "{number}");
    }
    assert_eq!(stage.hop_count(100, "v1", |hop| hop.ambiguous), 0);
    // Without the pin the flow follows the rules at once.
    stage.rig.town.pins.clear();
    stage.rig.apply();
    stage.send(1, false, 7, 1);
    stage.release_all(Manner::Routed);
    assert_eq!(stage.routes[&7], route_of(&NEW));
    assert_eq!(pinned(&mut stage.rig, 100), 0);
}

#[test]
fn a_pin_of_paths_that_are_not_there_holds_nobody() {
    let mut stage = Stage::new(Encapsulation::Nsh, &OLD);
    stage.send(1, false, 1, 1);
    stage.install(&NEW);
    stage.rig.town.pins = vec![pin(7, 101), pin(100, 7), pin(100, 101)];
    stage.turn();
    stage.send(1, false, 2, 1);
    stage.rig.town.pins = vec![pin(7, 101), pin(100, 7)];
    stage.rig.apply();
    stage.send(1, false, 3, 1);
    stage.release_all(Manner::Routed);
    assert_eq!(stage.routes[&2], route_of(&OLD));
    assert_eq!(stage.routes[&3], route_of(&NEW));
}

#[test]
fn an_instance_that_is_drained_keeps_its_flows_and_gets_no_new_ones() {
    const FLOWS: u16 = 400;
    let mut town = three_hosts();
    town.chain("c", Encapsulation::Nsh, &[&["v1"], &["v2", "v4"]], &rules(CHAINED_PORT));
    let mut rig = Rig::new(town);
    let met = |rig: &mut Rig, flow: u16| -> [usize; 2] {
        let mut sent = packet(&rig.town, CHAINED_PORT);
        sent.ports.0 = flow;
        rig.send("S", &sent.frame());
        assert_eq!(rig.take("D").len(), 1);
        ["v2.in", "v4.in"].map(|port| rig.take(port).len())
    };
    let before: Vec<[usize; 2]> = (1..=FLOWS).map(|flow| met(&mut rig, flow)).collect();
    // The new version leaves v4 out; flows that meet it stay on the old one.
    rig.town.chain("c", Encapsulation::Nsh, &[&["v1"], &["v2"]], &rules(CHAINED_PORT));
    rig.town.chains[0].rules.clear();
    let instances = vec![rig.town.instance_id("v4")];
    rig.town.pins = vec![PinEntry { instances, ..pin(100, 101) }];
    rig.apply();
    let after: Vec<[usize; 2]> = (1..=FLOWS).map(|flow| met(&mut rig, flow)).collect();
    assert_eq!(before, after, "nobody had to move");
    let of_v4 = before.iter().filter(|met| met[1] == 1).count() as u64;
    assert_eq!(pinned(&mut rig, 100), of_v4, "the others are on the new path now");
    let new = (FLOWS + 1..2 * FLOWS).map(|flow| met(&mut rig, flow)[1]);
    assert_eq!(new.sum::<usize>(), 0, "no new flow meets the instance that is drained");
    rig.now_ns += IDLE_NS + 1_000_000;
    assert_eq!(pinned(&mut rig, 100), 0);
    let later: usize = (1..=FLOWS).map(|flow| met(&mut rig, flow)[1]).sum();
    assert_eq!(later, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn with_pins_no_packet_is_mixed_though_functions_rewrite_and_hold_them(
        before in prop::collection::vec((1u16..5, any::<Index>(), any::<bool>()), 1..15),
        after in prop::collection::vec((1u16..9, any::<Index>(), any::<bool>()), 1..25),
    ) {
        let mut stage = Stage::new(Encapsulation::Nsh, &OLD);
        let mut known = std::collections::BTreeSet::new();
        let mut number = 0;
        let mut expected = Vec::new();
        for (phase, steps) in [&before, &after].into_iter().enumerate() {
            if phase == 1 {
                stage.install(&NEW);
                stage.rig.town.pins = vec![pin(100, 101)];
                stage.turn();
            }
            for (flow, which, is_sent) in steps {
                if *is_sent {
                    stage.send(*flow, false, number, 1);
                    if phase == 0 {
                        known.insert(*flow);
                    }
                    expected.push(if known.contains(flow) { OLD } else { NEW });
                    number += 1;
                } else if !stage.held.is_empty() {
                    stage.release(which.index(stage.held.len()), Manner::Rewritten);
                }
            }
        }
        stage.release_all(Manner::Rewritten);
        for (number, version) in (0..).zip(&expected) {
            prop_assert_eq!(&stage.routes[&number], &route_of(version), "{}", number);
        }
        let ambiguous = |path| stage.hop_count(path, "v1", |hop| hop.ambiguous);
        prop_assert_eq!(ambiguous(100) + ambiguous(101), 0);
    }
}
