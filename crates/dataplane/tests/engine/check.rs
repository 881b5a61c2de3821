//! Probes of chains: they take the real path, are told of at every node, and reach nobody.

use crate::frames::flow;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, with_chain};
use catena_model::DropReason;
use catena_model::check::{CheckQuestion, ClockTime, Sighting};
use catena_model::explain::{ExplainAction, FrameBytes};
use catena_model::resource::Encapsulation;
use catena_wire::probe::{ProbeCarrier, ProbeFrame, ProbeMark};
use std::collections::BTreeSet;

const SEAL: u64 = 0x5ea1;
const NODES: usize = 3;

fn probe(rig: &Rig, number: u64, is_v4: bool, port: u16, packet_bytes: usize) -> Vec<u8> {
    let like = if is_v4 { packet(&rig.town, port) } else { packet_v6(&rig.town, port) };
    let frame = ProbeFrame {
        destination: rig.town.mac("D"),
        source: rig.town.mac("S"),
        flow: flow(&like.frame()),
        carrier: ProbeCarrier::Udp,
        varying: ProbeCarrier::Udp.varying(),
        mark: ProbeMark { number, seal: SEAL },
        packet_bytes,
    };
    let mut room = vec![0; 2_000];
    let length = frame.emit(&mut room).unwrap();
    room.truncate(length);
    room
}

fn arm(rig: &mut Rig) {
    for node in 0..NODES {
        rig.check_chain(node, &CheckQuestion::Arm { seal: SEAL }).unwrap();
    }
    rig.moved();
}

fn inject(rig: &mut Rig, frame: Vec<u8>) {
    let port = rig.town.port_named("S").id;
    let frames = vec![FrameBytes(frame)];
    let question = CheckQuestion::Inject { seal: SEAL, port, frames };
    rig.check_chain(0, &question).unwrap();
}

fn seen(rig: &mut Rig, node: usize) -> Vec<Sighting> {
    rig.check_chain(node, &CheckQuestion::Sightings { seal: SEAL }).unwrap()
}

/// What was seen of a probe at a node, in words.
fn words(rig: &mut Rig, node: usize, probe: u64) -> Vec<String> {
    let of_probe = seen(rig, node).into_iter().filter(|sighting| sighting.probe == probe);
    let word = |sighting: Sighting| match sighting.action {
        ExplainAction::Visited { instance, .. } => format!("function {instance}"),
        ExplainAction::Encapsulated { to, .. } => format!("to {to}"),
        ExplainAction::Dropped { reason } => format!("drop {reason}"),
        action => action.verb().to_owned(),
    };
    of_probe.map(word).collect()
}

#[test]
fn a_probe_takes_the_path_is_told_of_everywhere_and_reaches_nobody() {
    for encapsulation in Encapsulation::ALL {
        for is_v4 in [true, false] {
            let mut rig = Rig::new(with_chain(encapsulation, &[&["v1"], &["v2"], &["v4"]]));
            arm(&mut rig);
            let frame = probe(&rig, 7, is_v4, CHAINED_PORT, 0);
            inject(&mut rig, frame);
            assert_eq!(
                words(&mut rig, 0, 7),
                ["classify", "forward", "function v1", "recall", "forward", "to host2"]
            );
            assert_eq!(
                words(&mut rig, 1, 7),
                ["forward", "function v2", "recall", "forward", "to host3"]
            );
            assert_eq!(
                words(&mut rig, 2, 7),
                ["forward", "function v4", "recall", "finish", "switch"]
            );
            let moved = rig.moved();
            assert_eq!(moved.get("S created probe"), Some(&1), "{moved:?}");
            assert_eq!(moved.get("S received"), None);
            assert_eq!(moved.get("v4.out consumed"), Some(&1));
            assert_eq!(moved.get("D transmitted"), None);
            assert_eq!(rig.visits().get("D"), None);
        }
    }
}

#[test]
fn what_goes_wrong_with_a_probe_is_the_last_thing_seen_of_it() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]));
    arm(&mut rig);
    // No rule takes it: it must not reach the endpoint as ordinary traffic.
    let frame = probe(&rig, 1, true, PLAIN_PORT, 0);
    inject(&mut rig, frame);
    assert_eq!(words(&mut rig, 0, 1), ["classify", "switch"]);
    // Larger than the underlay takes with its header.
    let frame = probe(&rig, 2, true, CHAINED_PORT, 1_450);
    inject(&mut rig, frame);
    let dropped = format!("drop {}", DropReason::MtuExceeded);
    assert_eq!(words(&mut rig, 0, 2)[3..], ["recall", "forward", "to host2", &dropped]);
    // A function keeps it.
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    let frame = probe(&rig, 3, true, CHAINED_PORT, 0);
    inject(&mut rig, frame);
    assert_eq!(words(&mut rig, 1, 3), ["forward", "function v2"]);
    assert!(rig.take("D").is_empty());
}

#[test]
fn without_a_check_a_packet_with_a_mark_is_a_packet_and_few_checks_are_on_at_a_time() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]));
    let frame = probe(&rig, 1, true, CHAINED_PORT, 0);
    rig.send("S", &frame);
    assert_eq!(rig.take("D").len(), 1);
    let port = rig.town.port_named("S").id;
    let frames = vec![FrameBytes(frame.clone())];
    let question = CheckQuestion::Inject { seal: SEAL, port, frames };
    assert!(rig.check_chain(0, &question).is_err(), "nothing is armed");
    arm(&mut rig);
    let other = |seal: u64| CheckQuestion::Arm { seal: SEAL + seal };
    (1..8).for_each(|seal| rig.check_chain(0, &other(seal)).unwrap().clear());
    assert!(rig.check_chain(0, &other(8)).is_err());
    let plain = packet(&rig.town, CHAINED_PORT).frame();
    let frames = vec![FrameBytes(plain.clone())];
    let question = CheckQuestion::Inject { seal: SEAL, port, frames };
    assert!(rig.check_chain(0, &question).is_err(), "only probes are sent");
    // Traffic goes on beside the probes of a check.
    let all = [plain.clone(), frame.clone(), plain].map(|frame| (frame, Default::default()));
    rig.send_all("S", all);
    assert_eq!(rig.take("D").len(), 2);
    rig.now_ns += 6_000_000_000;
    rig.send("S", &frame);
    assert_eq!(rig.take("D").len(), 1, "it is a packet again");
    assert!(rig.check_chain(0, &other(8)).is_ok(), "they ended");
}

#[test]
fn a_probe_is_told_of_with_the_time_by_the_clock_that_nodes_share() {
    let town = || with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]);
    let times = |began| {
        let mut rig = Rig::with(town(), |config| config.began = began, 512);
        rig.now_ns = 5;
        arm(&mut rig);
        let frame = probe(&rig, 7, true, CHAINED_PORT, 0);
        inject(&mut rig, frame);
        let all = (0..2).flat_map(|node| seen(&mut rig, node).into_iter().map(|one| one.at));
        all.collect::<BTreeSet<_>>()
    };
    let began = ClockTime { clock: 9, ns: 1_000 };
    assert_eq!(times(Some(began)), BTreeSet::from([Some(ClockTime { clock: 9, ns: 1_005 })]));
    assert_eq!(times(None), BTreeSet::from([None]), "without such a clock nothing is said");
}
