//! Real packets that are followed: what each node writes down of one is what it would say of it, and
//! the packet goes on as if nobody looked.

use super::tell;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, with_chain};
use crate::town::node_name;
use catena_model::check::CheckQuestion;
use catena_model::explain::{Evidence, ExplainLine, PacketFilter, Witnesses, beside_what_was_seen};
use catena_model::resource::Encapsulation;
use catena_wire::digest;
use catena_wire::frame::FrameView;

const SEAL: u64 = 7;
const HOPS: &[&[&str]] = &[&["v1"], &["v2"], &["v4"]];

/// What every node has seen of the packet with a digest, or that they shall look.
fn ask(rig: &mut Rig, digest: Option<u64>) -> Witnesses {
    let filter: PacketFilter = format!("udp and dst port {CHAINED_PORT}").parse().unwrap();
    let question = CheckQuestion::Follow { seal: SEAL, filter, digest };
    let mut seen = Witnesses::new();
    for node in 0..rig.town.nodes {
        let sightings = rig.check_chain(node, &question).unwrap();
        let actions = sightings.into_iter().map(|sighting| sighting.action).collect();
        seen.insert(node_name(node), actions);
    }
    seen
}

fn digest_of(frame: &[u8]) -> u64 {
    digest::kept(&FrameView::parse(frame).unwrap(), frame)
}

fn rehearsed(lines: &[ExplainLine]) -> Vec<String> {
    let only = lines.iter().filter(|line| line.evidence == Some(Evidence::Rehearsed));
    only.map(|line| format!("{} {}", line.node, line.step.action.verb())).collect()
}

#[test]
fn every_node_tells_what_it_did_with_the_packet_itself() {
    for encapsulation in Encapsulation::ALL {
        for is_v4 in [true, false] {
            let mut rig = Rig::new(with_chain(encapsulation, HOPS));
            let like = if is_v4 { packet } else { packet_v6 };
            let frame = like(&rig.town, CHAINED_PORT).frame();
            let other = like(&rig.town, PLAIN_PORT).frame();
            ask(&mut rig, None);
            rig.send("S", &frame);
            rig.send("S", &other);
            // One of the same bytes is not the packet.
            rig.send("S", &frame);
            let seen = ask(&mut rig, Some(digest_of(&frame)));
            let told = tell(&rig, "S", &frame, None);
            let (lines, verdict) = beside_what_was_seen(told.lines, &told.verdict, seen);
            assert_eq!(rehearsed(&lines), [""; 0], "{verdict}");
            assert!(verdict.ends_with("observed at every step"), "{verdict}");
            assert_eq!(rig.take("D").len(), 3, "all go on");
            rig.check();
            let nothing = ask(&mut rig, Some(digest_of(&other)));
            assert!(nothing.values().all(Vec::is_empty), "nobody asked for it: {nothing:?}");
        }
    }
}

#[test]
fn behind_a_function_that_keeps_the_packet_lines_are_rehearsed() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, HOPS));
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    ask(&mut rig, None);
    rig.send("S", &frame);
    let seen = ask(&mut rig, Some(digest_of(&frame)));
    let told = tell(&rig, "S", &frame, None);
    let (lines, verdict) = beside_what_was_seen(told.lines, &told.verdict, seen);
    let behind = rehearsed(&lines);
    assert_eq!(behind[..2], ["host2 assume", "host2 recall"], "{behind:?}");
    assert!(behind.contains(&"host3 function".to_owned()), "{behind:?}");
    assert!(
        verdict.contains("observed as far as line") && verdict.ends_with("at host2"),
        "{verdict}"
    );
}

#[test]
fn few_follow_at_a_time_and_who_does_not_ask_follows_no_more() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, HOPS));
    let ask = |rig: &mut Rig, seal| {
        let filter = PacketFilter::default();
        rig.check_chain(0, &CheckQuestion::Follow { seal, filter, digest: None })
    };
    for seal in 0..4 {
        ask(&mut rig, seal).unwrap();
    }
    assert!(ask(&mut rig, 4).unwrap_err().contains("others follow packets"));
    rig.pass(5_001);
    ask(&mut rig, 4).unwrap();
}
