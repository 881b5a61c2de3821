//! Chains over links: headers begin and end at edges, and what is between knows nothing of them.

use crate::fragments_order::pieces;
use crate::frames::{self, Spec, source_routed};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6, with_chain};
use crate::town::{Town, function_number, link_name};
use catena_dataplane::engine::Tables;
use catena_model::DropReason;
use catena_model::limits::WAY_FLUSH_MS;
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use catena_wire::scalar::{EtherType, IpProtocol, Spi};
use catena_wire::source_route::native::NativeView;

const NATIVE: Encapsulation = Encapsulation::SourceRouteNative;
/// The node between the three hosts.
pub(crate) const SWITCH: usize = 3;

/// Three hosts, each plugged into port 1, 2 or 3 of one switch by its link 7, and a chain over all of them.
pub(crate) fn star(hops: &[&[&str]]) -> Town {
    star_of(NATIVE, hops)
}

/// The same over any encapsulation.
pub(crate) fn star_of(encapsulation: Encapsulation, hops: &[&[&str]]) -> Town {
    let mut town = with_chain(encapsulation, hops);
    town.nodes = 4;
    town.cables = vec![[(0, 7), (SWITCH, 1)], [(1, 7), (SWITCH, 2)], [(2, 7), (SWITCH, 3)]];
    let hosts = || 0..3;
    let pairs = hosts().flat_map(|from| hosts().map(move |to| (from, to)));
    let ways = pairs.filter(|(from, to)| from != to);
    town.ways = ways.map(|(from, to)| ((from, to), vec![7, to as u8 + 1])).collect();
    town
}

pub(crate) fn number_of(town: &Town, port: &str) -> u8 {
    function_number(town.ports.iter().position(|one| one.name == port).unwrap())
}

#[test]
fn a_chain_goes_over_a_switch_that_knows_nothing_of_it() {
    let mut rig = Rig::new(star(&[&["v1"], &["v2"], &["v4"]]));
    let empty = rig.tables(SWITCH).entries().clone();
    assert!(empty.paths.len() == 1, "the town tells all nodes of all paths");
    let mut alone = rig.town.program(SWITCH);
    alone.paths.clear();
    alone.rules.clear();
    alone.chains.clear();
    rig.apply_program(SWITCH, &alone);
    rig.moved();
    for sent in [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)] {
        rig.send("S", &sent.frame());
        let moved = rig.moved();
        for (node, name) in [(0, "tunnelled out"), (1, "tunnelled in"), (1, "tunnelled out")] {
            assert_eq!(moved.get(&format!("host{} path 100 {name}", node + 1)), Some(&1));
        }
        for (name, count) in [("host4-1 received", 1), ("host4-2 transmitted", 1)] {
            assert_eq!(moved.get(name), Some(&count));
        }
        assert!(!moved.keys().any(|name| name.starts_with("host4 path")));
        let arrived = rig.take("D");
        let expected = Spec {
            source_mac: rig.town.mac("v4.out"),
            destination_mac: rig.town.mac("D"),
            ttl: 61,
            ..sent
        };
        assert_eq!(arrived, [expected.frame()], "three routers lowered the TTL, nothing else");
    }
}

#[test]
fn the_whole_way_stands_in_the_frame_and_no_source_is_a_destination() {
    let mut rig = Rig::new(star(&[&["v1"], &["v2"]]));
    let sent = packet(&rig.town, CHAINED_PORT);
    rig.send("S", &sent.frame());
    let seen = rig.take(&link_name(0, 7));
    let view = NativeView::parse(&seen[0]).unwrap();
    let way: Vec<u8> = (1..=view.count()).rev().map(|position| view.port(position)).collect();
    assert_eq!(way, [7, 2, number_of(&rig.town, "v2.in")]);
    assert_eq!((view.counter(), view.path().map(Spi::get)), (2, Some(100)));
    let from_v1 = Spec { ttl: 63, source_mac: rig.town.mac("v1.out"), ..sent }.frame();
    assert_eq!(view.ether_type(), EtherType::IPV4);
    let on_links = frames::addresses_on_links(&from_v1);
    assert_eq!(seen[0][6..12], on_links[6..], "nobody is sent to there");
    assert_eq!(seen[0][view.len_bytes()..], from_v1[14..]);
    let into_v2 = rig.take("v2.in");
    assert_eq!(frames::destination_mac(&into_v2[0]), rig.town.mac("v2.in"));
    assert_eq!(into_v2[0][6..], from_v1[6..], "all but the destination MAC");
}

#[test]
fn what_comes_out_where_its_path_has_no_function_ends_by_name() {
    let mut rig = Rig::new(star(&[&["v1"], &["v2"], &["v4"]]));
    let spec = packet(&rig.town, CHAINED_PORT).frame();
    let [v2, v3] = ["v2.in", "v3.in"].map(|port| number_of(&rig.town, port));
    for (frame, reason) in [
        (source_routed(&[v2], 999, &spec), DropReason::NoPath),
        (source_routed(&[v3], 100, &spec), DropReason::PositionElsewhere),
        (source_routed(&[250], 100, &spec), DropReason::UnknownExit),
    ] {
        rig.bring(1, 7, &[frame]);
        rig.assert_only_dropped(&link_name(1, 7), reason);
    }
    rig.bring(1, 7, &[source_routed(&[v2], 100, &spec)]);
    assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (1, 1));
}

#[test]
fn a_sender_is_told_what_a_link_takes() {
    let mut rig = Rig::new(star(&[&["v1"], &["v4"]]));
    // Fixed octets, three ports, a path identifier.
    let header = 6 + 3 + 3;
    for (more, is_told) in [(0, false), (1, true)] {
        let payload = vec![0; 1_500 - header - 20 - 8 + more];
        let sent = Spec { payload, ..packet(&rig.town, CHAINED_PORT) };
        rig.send("S", &sent.frame());
        let moved = rig.moved();
        assert_eq!(moved.contains_key("v1.out dropped mtu_exceeded"), is_told, "{moved:?}");
        assert_eq!(rig.take("S").len(), usize::from(is_told));
        assert_eq!(rig.take("D").len(), usize::from(!is_told));
    }
}

#[test]
fn another_way_is_in_force_at_once_and_the_path_stays() {
    let mut rig = Rig::new(star(&[&["v1"], &["v2"]]));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    // A second cable beside the first.
    rig.town.cables.push([(0, 8), (SWITCH, 9)]);
    rig.town.ways.insert((0, 1), vec![8, 2]);
    rig.town.number += 1;
    rig.apply();
    rig.moved();
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    rig.sleep(WAY_FLUSH_MS);
    assert_eq!((rig.take(&link_name(0, 8)).len(), rig.take("v2.in").len()), (1, 2));
    let moved = rig.moved();
    assert_eq!(moved.get("host1 path 100 tunnelled out"), Some(&1));
    // A program whose route begins with no link.
    let mut program = rig.town.program(0);
    program.routes[0].ports = vec![PortNumber::new(9).unwrap()];
    let refusal = Tables::compile(&program).map(drop).unwrap_err().to_string();
    assert!(refusal.ends_with("begins with port number 9, which is no link of this node"));
    // Without any way, packets end by name.
    program.routes.clear();
    rig.apply_program(0, &program);
    rig.moved();
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.moved().get("v1.out dropped no_route"), Some(&1));
}

#[test]
fn whichever_engine_reads_a_link_each_flow_is_decided_by_one() {
    for engines in [1, 3] {
        let mut rig = Rig::of_engines(engines, star(&[&["v2"]]), |_| {}, 512);
        for port in 0..20 {
            let ports = (2_000 + port, CHAINED_PORT);
            let protocol = IpProtocol::TCP;
            rig.send("S", &Spec { ports, protocol, ..packet(&rig.town, CHAINED_PORT) }.frame());
        }
        assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (20, 20), "{engines} engines");
    }
}

#[test]
fn fragments_that_overtook_their_first_on_a_link_wait_for_it() {
    let mut rig = Rig::new(star(&[&["v1"], &["v2"]]));
    let v2 = number_of(&rig.town, "v2.in");
    let whole = Spec { payload: vec![7; 85], ..packet(&rig.town, CHAINED_PORT) };
    for piece in pieces(&whole).iter().rev() {
        rig.bring(1, 7, &[source_routed(&[v2], 100, piece)]);
    }
    assert_eq!(rig.take("v2.in").len(), 4);
    let moved = rig.moved();
    assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
}

#[test]
fn a_stream_over_two_links_is_in_the_account_of_each() {
    let mut town = star(&[&["v1"], &["v2"]]);
    town.cables.push([(1, 8), (SWITCH, 9)]);
    let mut rig = Rig::new(town);
    rig.moved();
    let v2 = number_of(&rig.town, "v2.in");
    for number in 0..8 {
        let spec = packet(&rig.town, CHAINED_PORT);
        let segment = Spec {
            protocol: IpProtocol::TCP,
            sequence: number * 500,
            payload: vec![7; 500],
            ..spec
        };
        let slot = rig.link_slot(1, if number % 2 == 0 { 7 } else { 8 }).unwrap();
        rig.queue_at_slot(1, slot, &source_routed(&[v2], 100, &segment.frame()));
    }
    rig.run();
    let moved = rig.moved();
    for link in ["host2-7", "host2-8"] {
        for what in ["received", "forwarded"] {
            assert_eq!(moved.get(&format!("{link} {what}")), Some(&4), "{moved:?}");
        }
    }
}
