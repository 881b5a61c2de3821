//! What passes a switch leaves nothing behind: all that its engines hold is the same before and after, but for
//! counters.

use crate::frames::{labelled, numbered, source_routed};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, three_hosts, with_chain};
use crate::town::{Town, link_name};
use catena_dataplane::engine::{Engine, EngineConfig};
use catena_model::resource::Encapsulation;
use catena_wire::source_route::classic::{ClassicHeader, Density};
use catena_wire::source_route::safe::SafeHeader;
use std::collections::BTreeSet;

/// Links of the switch, each to where nobody is.
const LINKS: u8 = 40;
const ROUTES: u32 = 1_000;

fn switch() -> Town {
    let mut town = Town::new(1);
    town.cables = (1..=LINKS).map(|number| [(0, number), (9, number)]).collect();
    town
}

/// Stores that can be told whole.
fn small(config: &mut EngineConfig) {
    (config.flows_max, config.inside_max, config.classified_max) = (1 << 10, 1 << 10, 1 << 10);
}

/// What the engines of a node hold, part by part.
fn dump(rig: &Rig, node: usize) -> Vec<(&'static str, String)> {
    let parts = rig.nodes[node].engines.iter().flat_map(Engine::dump);
    parts.map(|(name, part)| (name, format!("{part:?}"))).collect()
}

/// The parts that differ; whole parts are too long to be told.
fn changed(
    one: &[(&'static str, String)],
    other: &[(&'static str, String)],
) -> BTreeSet<&'static str> {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).filter(|(one, other)| one != other).map(|(one, _)| one.0).collect()
}

/// A frame of a chain of its own: another path, another way, another flow, in one of the profiles.
fn frame(number: u32) -> (u8, u8, Vec<u8>) {
    let octet = |number: u32| u8::try_from(number).unwrap();
    let links = u32::from(LINKS);
    let (came, leaves) = (octet(number % links) + 1, octet(number / links) + 1);
    let way = [leaves, octet(number % 200) + 1, octet(number / 200) + 1];
    let mut inner = packet(&three_hosts(), PLAIN_PORT);
    inner.ports.0 = 10_000 + u16::try_from(number).unwrap();
    let plain = inner.frame();
    let mut bytes = vec![0; 22];
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    match number % 5 {
        0 => return (came, leaves, source_routed(&way, number + 1, &plain)),
        1 => return (came, leaves, labelled(&way, 16 + number, &plain)),
        2 => {
            let way = [(0, way[0]), (1, way[1]), (2, way[2])];
            return (came, leaves, numbered(&way, 3, number + 1, &plain));
        }
        3 => SafeHeader::new(&way).unwrap().emit(&mut bytes).unwrap(),
        _ => ClassicHeader::new(&way, Density::Labels).unwrap().emit(&mut bytes).unwrap(),
    };
    bytes.extend(&plain[14..]);
    (came, leaves, bytes)
}

#[test]
fn a_thousand_routes_over_a_switch_leave_its_memory_as_it_was() {
    for engines in [1, 2] {
        let mut rig = Rig::of_engines(engines, switch(), small, 512);
        let before = dump(&rig, 0);
        assert!(before.iter().all(|(_, text)| !text.is_empty()));
        let frames: Vec<_> = (0..ROUTES).map(frame).collect();
        let distinct: BTreeSet<&Vec<u8>> = frames.iter().map(|(_, _, bytes)| bytes).collect();
        assert_eq!(distinct.len(), frames.len());
        let mut left = 0;
        // Twice: what is remembered may show in what comes again alone.
        for (came, leaves, bytes) in frames.iter().chain(&frames) {
            rig.bring(0, *came, std::slice::from_ref(bytes));
            left += rig.take(&link_name(0, *leaves)).len();
        }
        assert_eq!(left, 2 * frames.len());
        rig.pass(100);
        assert_eq!(changed(&before, &dump(&rig, 0)), BTreeSet::new());
        let moved = rig.moved();
        let counted = moved.iter().filter(|(name, _)| name.ends_with("forwarded"));
        assert_eq!(counted.map(|(_, count)| count).sum::<u64>(), 2 * u64::from(ROUTES));
    }
}

#[test]
fn what_an_edge_remembers_of_one_packet_shows() {
    let town = with_chain(Encapsulation::SourceRouteNative, &[&["v1"], &["v2"]]);
    let mut rig = Rig::with(town, small, 512);
    let before = dump(&rig, 0);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    let parts = changed(&before, &dump(&rig, 0));
    let flows = ["flow_cache", "affinity", "proxy_flows"];
    assert!(parts.iter().any(|part| flows.contains(part)), "{parts:?}");
}
