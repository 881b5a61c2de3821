//! Functions that read source routes: they get what is left of the header, and nothing that they write into it is gone
//! by.

use crate::edges::{number_of, star_of};
use crate::fragments_order::{both, pieces};
use crate::frames::{Spec, addresses_on_links, step};
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, packet, packet_v6, rules, with_chain};
use crate::town::{Town, link_name};
use catena_model::DropReason;
use catena_model::program::PROXY_MAC;
use catena_model::resource::{Encapsulation, FailurePolicy};
use catena_model::status::Health;
use catena_wire::scalar::Spi;
use catena_wire::source_route::native::{self, Detour, NativeHeader, NativeView, TagKey};

const NATIVE: Encapsulation = Encapsulation::SourceRouteNative;
const TAGGED: Encapsulation = Encapsulation::SourceRouteNativeTagged;
/// Two functions of host2, and one of host3.
const HOPS: &[&[&str]] = &[&["v2"], &["v3"], &["v4"]];
/// Where octets in front of the ports stand.
const COUNT_AT: usize = 15;
const COUNTER_AT: usize = 16;
const FLAGS_AT: usize = 17;

/// All functions read their headers.
fn readers(by: Encapsulation) -> Town {
    let mut town = star_of(by, HOPS);
    ["v2", "v3", "v4"].iter().for_each(|name| town.speaking(name, NATIVE));
    town
}

/// What stands between the addresses of a frame and its own EtherType.
fn header(frame: &[u8]) -> &[u8] {
    &frame[12..NativeView::parse_at_function(frame).unwrap().len_bytes() - 2]
}

/// The ports that are left to a frame.
fn left(frame: &[u8]) -> Vec<u8> {
    let view = NativeView::parse_at_function(frame).unwrap();
    (1..=view.counter()).rev().map(|position| view.port(position)).collect()
}

/// A frame after so many steps.
fn stepped(frame: &[u8], steps: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    (0..steps).for_each(|_| _ = step(&mut frame).unwrap());
    frame
}

#[test]
fn a_function_gets_what_is_left_of_the_header_and_it_goes_on_as_it_was_left() {
    for by in [NATIVE, TAGGED] {
        let mut rig = Rig::new(readers(by));
        let mut bare = Rig::new(with_chain(Encapsulation::Nsh, HOPS));
        let [v3, v4] = ["v3.in", "v4.in"].map(|port| number_of(&rig.town, port));
        // The second of each kind goes by the fast path.
        for sent in [packet, packet_v6, packet, packet_v6].map(|of| of(&rig.town, CHAINED_PORT)) {
            rig.moved();
            rig.send("S", &sent.frame());
            bare.send("S", &sent.frame());
            let first = rig.take(&link_name(0, 7)).remove(0);
            let [into_v2, into_v3, into_v4] =
                ["v2.in", "v3.in", "v4.in"].map(|port| rig.take(port).remove(0));
            assert_eq!(into_v2[..12], [rig.town.mac("v2.in").0, PROXY_MAC.0].concat());
            assert_eq!(left(&into_v2), [v3, 7, 3, v4], "{}", by.name());
            assert_eq!(left(&into_v3), [7, 3, v4]);
            // Byte for byte what the first node wrote, the ports taken that lead into each.
            assert_eq!(header(&into_v2), header(&stepped(&first, 2)));
            assert_eq!(header(&into_v3), header(&stepped(&first, 3)));
            let onward = rig.take(&link_name(1, 7)).remove(0);
            assert_eq!(header(&onward), header(&stepped(&first, 4)));
            let addresses = [PROXY_MAC.0, rig.town.mac("v3.out").0].concat();
            assert_eq!(onward[..12], addresses_on_links(&addresses));
            // The way has ended there.
            assert_eq!(header(&into_v4), native::without_ports(Spi::new(100).unwrap()));
            let bytes = NativeView::parse_at_function(&into_v4).unwrap().len_bytes();
            assert_eq!(into_v4[bytes..], bare.take("v4.in").remove(0)[14..]);
            assert_eq!(rig.take("D"), bare.take("D"), "as under NSH, by functions that read none");
            let moved = rig.moved();
            for (name, count) in [
                ("host1 path 100 entered", 1),
                ("host1 path 100 tunnelled out", 1),
                ("host2 path 100 tunnelled in", 1),
                ("host2 path 100 to v2", 1),
                ("host2 path 100 from v2", 1),
                ("host2 path 100 to v3", 1),
                ("host2 path 100 from v3", 1),
                ("host2 path 100 tunnelled out", 1),
                ("host3 path 100 tunnelled in", 1),
                ("host3 path 100 to v4", 1),
                ("host3 path 100 from v4", 1),
                ("host3 path 100 finished", 1),
            ] {
                assert_eq!(moved.get(name), Some(&count), "{name}: {moved:?}");
            }
            let is_other = |name: &&String| name.contains("dropped") || name.contains("created");
            assert_eq!(moved.keys().find(is_other), None, "{moved:?}");
        }
        rig.check();
    }
}

#[test]
fn a_function_at_the_node_where_its_chain_begins_gets_a_header_without_ports() {
    let mut town = star_of(NATIVE, &[&["v1"], &["v4"]]);
    town.speaking("v1", NATIVE);
    let mut rig = Rig::new(town);
    for _ in 0..2 {
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let into_v1 = rig.take("v1.in").remove(0);
        assert_eq!(header(&into_v1), native::without_ports(Spi::new(100).unwrap()));
        assert_eq!((rig.take("v4.in").len(), rig.take("D").len()), (1, 1));
    }
}

/// A town in which v2 keeps what it gets, another chain leads past it, and one of NSH over it; and what it got.
fn captured() -> (Rig, Vec<u8>) {
    let mut town = readers(NATIVE);
    // Of these v2 is no function.
    town.chain("past", NATIVE, &[&["v3"]], &rules(CHAINED_PORT + 1));
    town.chain("away", NATIVE, &[&["v1"]], &rules(CHAINED_PORT + 2));
    let mut rig = Rig::new(town);
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let given = rig.take("v2.in").remove(0);
    rig.seen.clear();
    rig.moved();
    (rig, given)
}

/// A frame with another header in the place of its own.
fn headed(frame: &[u8], between: &[u8]) -> Vec<u8> {
    [&frame[..12], between, &frame[12 + header(frame).len()..]].concat()
}

/// One that its writer made: of ports, a tag and detours.
fn written(frame: &[u8], way: &[u8], tag: Option<&TagKey>, detours: &[Detour<'_>]) -> Vec<u8> {
    let view = NativeView::parse(frame).unwrap();
    let path = view.path();
    let (width, ether_type) = (view.width(), view.ether_type());
    let own = NativeHeader { width, way, path, tag, detours, ether_type };
    let mut bytes = vec![0; own.len_bytes()];
    own.emit(&mut bytes).unwrap();
    headed(frame, &bytes[12..bytes.len() - 2])
}

#[test]
fn nothing_that_a_function_writes_leads_elsewhere() {
    let (rig, given) = captured();
    let [v3, v4] = ["v3.in", "v4.in"].map(|port| number_of(&rig.town, port));
    let with = |place: usize, octet: u8| {
        let mut frame = given.clone();
        frame[place] = octet;
        frame
    };
    let path = |path: u32| headed(&given, &native::without_ports(Spi::new(path).unwrap()));
    // Round the switch and back, and past the next function.
    let round = Detour { counter: 3, rejoin: 0, ports: &[7, 2, v4] };
    let forged = TagKey::of_domain(&[9; 16]);
    let frames = [
        ("as it was given", given.clone()),
        ("another first port", written(&given, &[v4, 7, 3, v4], None, &[])),
        ("past the next function", written(&given, &[7, 3, v4], None, &[])),
        ("to itself", written(&given, &[number_of(&rig.town, "v2.in"); 4], None, &[])),
        ("ports behind the next function", written(&given, &[v3, 7, 2, v4], None, &[])),
        ("another way round", written(&given, &[v3, 7, 3, v4], None, &[round])),
        ("fewer ports left", with(COUNTER_AT, 1)),
        ("more ports left", with(COUNTER_AT, given[COUNT_AT])),
        ("no ports left", with(COUNTER_AT, 0)),
        ("no ports", path(100)),
    ];
    for (what, frame) in frames {
        let (mut rig, _) = captured();
        rig.send("v2.out", &frame);
        let met = ["v3.in", "v4.in", "D"].map(|port| rig.take(port).len());
        assert_eq!(met, [1, 1, 1], "{what}: {:?}", rig.moved());
        let onward = rig.take(&link_name(1, 7));
        let sent: Vec<_> = onward.iter().map(|frame| left(frame)).collect();
        assert_eq!(sent, [vec![3, v4]], "{what}");
        let view = NativeView::parse(&onward[0]).unwrap();
        assert_eq!((view.detours().count(), view.has_tag()), (0, false), "{what}");
        assert!(rig.take("v1.in").is_empty() && rig.take("v2.in").is_empty(), "{what}");
        rig.check();
    }
    let malformed = DropReason::MalformedSourceRoute;
    let foreign = DropReason::ForeignChainHeader;
    let mut detour_alone =
        written(&given, &[v3], None, &[Detour { counter: 1, rejoin: 0, ports: &[v4] }]);
    detour_alone[COUNTER_AT] = 0;
    let refused = [
        ("a path that nobody has", path(999), DropReason::NoPath),
        ("a path past its port", path(101), foreign),
        ("a path of another node", path(102), foreign),
        (
            "a source route within",
            [&given[..12], &native::without_ports(Spi::new(100).unwrap())[..], &given[12..]]
                .concat(),
            foreign,
        ),
        ("a tag", written(&given, &[v3, 7, 3, v4], Some(&forged), &[]), malformed),
        ("ways round nothing", detour_alone, malformed),
        ("a flag that nobody knows", with(FLAGS_AT, 0x0c), malformed),
        ("no path", with(FLAGS_AT, 0), malformed),
        ("more ports left than there are", with(COUNTER_AT, given[COUNT_AT] + 1), malformed),
        ("another version", with(14, 0x28), malformed),
        ("another width", with(14, 0x15), malformed),
        (
            "a tag of a VLAN before it",
            [&given[..12], &[0x81, 0, 0, 0], &given[12..]].concat(),
            foreign,
        ),
    ];
    for (what, frame, reason) in refused {
        let (mut rig, _) = captured();
        rig.send("v2.out", &frame);
        let line = format!("v2.out dropped {}", reason.name());
        let moved = rig.moved();
        assert_eq!(moved.get(&line), Some(&1), "{what}: {moved:?}");
        assert!(rig.seen.is_empty(), "{what}: {:?}", rig.seen.keys());
        rig.check();
    }
}

#[test]
fn a_forged_tag_is_no_better_than_none_on_a_path_that_has_some() {
    let mut rig = Rig::new(readers(TAGGED));
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let given = rig.take("v2.in").remove(0);
    let [v3, v4] = ["v3.in", "v4.in"].map(|port| number_of(&rig.town, port));
    let forged = written(&given, &[v3, 7, 2, v4], Some(&TagKey::of_domain(&[9; 16])), &[]);
    let bare = headed(&given, &native::without_ports(Spi::new(100).unwrap()));
    for frame in [given, forged, bare] {
        rig.seen.clear();
        rig.send("v2.out", &frame);
        assert_eq!(["v3.in", "v4.in", "D"].map(|port| rig.take(port).len()), [1, 1, 1]);
        let onward = rig.take(&link_name(1, 7)).remove(0);
        assert_eq!(left(&onward), [3, v4]);
        // By the key of the domain, which is nobody's here.
        let view = NativeView::parse(&onward).unwrap();
        assert_eq!(view.check(&TagKey::of_domain(&[0; 16])), Ok(()));
    }
}

#[test]
fn what_was_brought_under_former_tables_is_not_gone_by() {
    let (mut rig, given) = captured();
    rig.town.number += 1;
    rig.apply();
    rig.moved();
    rig.send("v2.out", &given);
    assert_eq!(["v3.in", "v4.in", "D"].map(|port| rig.take(port).len()), [1, 1, 1]);
    // A header of its own: it leads to the next function, and the one that was given leads on from there.
    let onward = rig.take(&link_name(1, 7)).remove(0);
    assert_ne!(header(&onward), header(&stepped(&given, 2)));
    assert_eq!(left(&onward), [3, number_of(&rig.town, "v4.in")]);
}

#[test]
fn no_damage_of_a_header_leads_past_a_function() {
    let (mut rig, given) = captured();
    // The frame's own EtherType behind it is the function's affair.
    let bytes = 12 + header(&given).len();
    let cut = (12..bytes).map(|len| given[..len].to_vec());
    let flipped = (12 * 8..bytes * 8).map(|bit| {
        let mut frame = given.clone();
        frame[bit / 8] ^= 1 << (bit % 8);
        frame
    });
    let (mut refused, mut passed) = (0, 0);
    for frame in cut.chain(flipped) {
        rig.seen.clear();
        rig.moved();
        rig.send("v2.out", &frame);
        let [v1, v2, v3, v4] =
            ["v1.in", "v2.in", "v3.in", "v4.in"].map(|port| rig.take(port).len());
        let delivered = rig.take("D").len();
        let moved = rig.moved();
        assert_eq!((v1, v2), (0, 0), "{frame:x?}: {moved:?}");
        let is_dropped = moved.keys().any(|name| name.contains("dropped"));
        if v3 == 1 {
            assert_eq!((v4, delivered), (1, 1), "{frame:x?}: {moved:?}");
            passed += 1;
        } else {
            assert_eq!((v3, v4, delivered), (0, 0, 0), "{frame:x?}: {moved:?}");
            refused += u32::from(is_dropped);
        }
        rig.check();
    }
    assert!(refused > 80 && passed > 50, "{refused} were refused, {passed} went on");
}

#[test]
fn flows_share_functions_that_read_headers_as_they_share_others() {
    let mut town = star_of(NATIVE, &[&["v2", "v3"], &["v4"]]);
    ["v2", "v3"].iter().for_each(|name| town.speaking(name, NATIVE));
    let mut bare = Rig::new(with_chain(Encapsulation::Nsh, &[&["v2", "v3"], &["v4"]]));
    let mut rig = Rig::new(town);
    for number in 0..32 {
        let sent = packet(&rig.town, CHAINED_PORT);
        let spec = Spec { ports: (sent.ports.0 + number % 16, sent.ports.1), ..sent };
        for rig in [&mut rig, &mut bare] {
            rig.send("S", &spec.frame());
        }
        let met = ["v2.in", "v3.in", "v4.in", "D"];
        assert_eq!(met.map(|port| rig.take(port).len()), met.map(|port| bare.take(port).len()));
    }
    let moved = rig.moved();
    let visits = ["v2", "v3"].map(|name| moved[&format!("host2 path 100 from {name}")]);
    assert!(visits[0] > 4 && visits[1] > 4 && visits[0] + visits[1] == 32, "{visits:?}");
    assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
    rig.check();
}

#[test]
fn a_dead_function_that_reads_headers_is_gone_round_by_its_own_node() {
    for policy in [FailurePolicy::Reroute, FailurePolicy::Bypass] {
        let mut town = star_of(NATIVE, &[&["v2", "v3"], &["v4"]]);
        ["v2", "v3"].iter().for_each(|name| town.speaking(name, NATIVE));
        town.chains[0].on_failure = policy;
        let mut rig = Rig::new(town);
        let sent = packet(&rig.town, CHAINED_PORT).frame();
        rig.send("S", &sent);
        rig.pass(300);
        let is_second = rig.moved().contains_key("host2 path 100 from v3");
        let [dead, other] = if is_second { ["v3", "v2"] } else { ["v2", "v3"] };
        rig.behaviours.insert(dead.into(), Behaviour::Swallow);
        rig.pass(2_000);
        assert_eq!(rig.health()[dead], Health::Dead, "it has let a probe through before");
        rig.moved();
        rig.take("D");
        rig.send("S", &sent);
        let moved = rig.moved();
        assert_eq!(rig.take("D").len(), 1, "{moved:?}");
        let is_other = moved.contains_key(&format!("host2 path 100 from {other}"));
        assert_eq!(is_other, policy == FailurePolicy::Reroute, "{moved:?}");
        let is_past = moved.contains_key(&format!("host2 path 100 past {dead}"));
        assert_eq!(is_past, policy == FailurePolicy::Bypass, "{moved:?}");
        rig.check();
    }
}

#[test]
fn a_tap_that_reads_headers_gets_one_and_gives_none_back() {
    let mut town = star_of(NATIVE, &[&["v2"], &["v4"]]);
    town.chains[0].taps = vec![0];
    town.speaking("v2", NATIVE);
    let mut rig = Rig::new(town);
    for behaviour in [Behaviour::Swallow, Behaviour::Echo, Behaviour::Advance(NATIVE)] {
        rig.behaviours.insert("v2".into(), behaviour);
        rig.moved();
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let copy = rig.take("v2.in").remove(0);
        assert_eq!(header(&copy), native::without_ports(Spi::new(100).unwrap()));
        assert_eq!(rig.take("D").len(), 1);
        let dropped = rig.moved().get("v2.out dropped foreign_chain_header").copied();
        assert_eq!(dropped, (behaviour != Behaviour::Swallow).then_some(1));
    }
}

#[test]
fn pieces_of_a_packet_go_on_as_the_first_does() {
    let mut rig = Rig::new(readers(NATIVE));
    for whole in both(&rig.town, CHAINED_PORT) {
        let frames = pieces(&whole);
        frames.iter().for_each(|frame| rig.send("S", frame));
        let met = ["v2.in", "v3.in", "v4.in", "D"].map(|port| rig.take(port).len());
        assert_eq!(met, [frames.len(); 4]);
    }
    rig.check();
}

#[test]
fn a_function_at_two_places_of_a_source_route_gets_no_packet() {
    let mut town = star_of(NATIVE, &[&["v2"], &["v4"], &["v2"]]);
    town.speaking("v2", NATIVE);
    let mut rig = Rig::new(town);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let moved = rig.moved();
    assert!(moved.keys().any(|name| name.ends_with("dropped no_instance")), "{moved:?}");
    assert!(rig.take("v2.in").is_empty() && rig.take("D").is_empty());
}
