//! Headers that lead over several functions: written once, kept as they were left while a function has the packet, and
//! ended where only the next node knows on.

use crate::edges::{SWITCH, number_of, star_of};
use crate::frames::{Spec, destination_mac, step};
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, packet, packet_v6, with_chain};
use crate::town::{Town, identities, link_name};
use catena_model::limits::WAY_FLUSH_MS;
use catena_model::program::{RewriteEntry, TupleField};
use catena_model::resource::{Encapsulation, FailurePolicy, TuplePattern};
use catena_wire::scalar::IpProtocol;
use catena_wire::source_route::marked::{LEN, MarkedHeader};
use catena_wire::source_route::native::NativeView;
use catena_wire::source_route::polka::PolkaView;
use catena_wire::source_route::polka::residues::Reducer;
use catena_wire::source_route::sr_mpls::SrMplsView;

const NATIVE: Encapsulation = Encapsulation::SourceRouteNative;
const LABELLED: Encapsulation = Encapsulation::SourceRouteSrMpls;
const TAGGED: Encapsulation = Encapsulation::SourceRouteNativeTagged;
const NUMBERED: Encapsulation = Encapsulation::SourceRoutePolka;
pub(crate) const JOINING: [Encapsulation; 5] = [
    NATIVE,
    TAGGED,
    Encapsulation::SourceRouteSafe9,
    Encapsulation::SourceRouteClassic80,
    LABELLED,
];
/// Two functions of host2, and one of host3.
const HOPS: &[&[&str]] = &[&["v2"], &["v3"], &["v4"]];

/// The ports that are left to a frame, and its bytes up to what is its own.
pub(crate) fn left(by: Encapsulation, frame: &[u8]) -> (Vec<u8>, Vec<u8>) {
    match by {
        NATIVE | TAGGED => {
            let view = NativeView::parse(frame).unwrap();
            let ports = (1..=view.counter()).rev().map(|position| view.port(position));
            (ports.collect(), frame[12..view.len_bytes() - 2].to_vec())
        }
        LABELLED => {
            let view = SrMplsView::parse(frame).unwrap();
            (view.way().collect(), frame[12..view.len_bytes()].to_vec())
        }
        _ => {
            let header = MarkedHeader::parse(frame).unwrap();
            let taken = header.way().count() - usize::from(header.counter());
            let bytes = [&frame[..6], &frame[12..LEN]].concat();
            (header.way().skip(taken).collect(), bytes)
        }
    }
}

/// The next frame at a link, after so many steps, as another link would have it.
pub(crate) fn stepped(by: Encapsulation, frame: &[u8], steps: usize) -> (Vec<u8>, Vec<u8>) {
    let mut frame = frame.to_vec();
    (0..steps).for_each(|_| _ = step(&mut frame).unwrap());
    left(by, &frame)
}

#[test]
fn a_header_leads_over_several_functions_and_goes_on_as_it_was_left() {
    for by in JOINING {
        let mut rig = Rig::new(star_of(by, HOPS));
        let [v2, v3, v4] = ["v2.in", "v3.in", "v4.in"].map(|port| number_of(&rig.town, port));
        for sent in [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)] {
            rig.moved();
            rig.send("S", &sent.frame());
            let [first, second, third, fourth] =
                [(0, 7), (SWITCH, 2), (1, 7), (SWITCH, 3)].map(|(node, link)| {
                    let mut frames = rig.take(&link_name(node, link));
                    assert_eq!(frames.len(), 1, "{} at {node}", by.name());
                    frames.remove(0)
                });
            assert_eq!(left(by, &first).0, [2, v2, v3, 7, 3, v4], "{}", by.name());
            // Byte for byte what the first node wrote, its ports taken: by the switch, into both functions, and out.
            assert_eq!(left(by, &second), stepped(by, &first, 1));
            assert_eq!(left(by, &third), stepped(by, &first, 4));
            assert_eq!(left(by, &fourth), stepped(by, &first, 5));
            let moved = rig.moved();
            for node in 1..=3 {
                for (name, is_there) in [("in", node > 1), ("out", node < 3)] {
                    let counter = format!("host{node} path 100 tunnelled {name}");
                    assert_eq!(moved.contains_key(&counter), is_there, "{counter}: {moved:?}");
                }
            }
            assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
            assert_eq!(rig.take("D").len(), 1);
        }
    }
}

#[test]
fn a_number_leads_over_two_functions_and_goes_on_in_the_next_pass() {
    let hops: [&[&[&str]]; 2] = [&[&["v2"], &["v4"]], HOPS];
    for (hops, is_far) in hops.into_iter().zip([true, false]) {
        let mut rig = Rig::new(star_of(NUMBERED, hops));
        let [v2, v3, v4] = ["v2.in", "v3.in", "v4.in"].map(|port| number_of(&rig.town, port));
        for sent in [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)] {
            rig.moved();
            rig.send("S", &sent.frame());
            let first = rig.take(&link_name(0, 7)).remove(0);
            let expected = match is_far {
                true => vec![(SWITCH, 0, 2), (1, 0, v2), (1, 1, 7), (SWITCH, 1, 3), (2, 1, v4)],
                false => vec![(SWITCH, 0, 2), (1, 0, v2), (1, 1, v3)],
            };
            let view = PolkaView::parse(&first).unwrap();
            assert_eq!((view.pass(), usize::from(view.hops())), (0, expected.len()));
            for (node, pass, port) in expected {
                let by = identities(node)[pass].polynomial().unwrap();
                assert_eq!(
                    Reducer::new(by).residue(view.number()),
                    u16::from(port),
                    "{node} {pass}"
                );
            }
            let second = rig.take(&link_name(1, 7)).remove(0);
            let later = PolkaView::parse(&second).unwrap();
            match is_far {
                true => {
                    assert_eq!((later.pass(), later.hops()), (1, 2));
                    assert_eq!(later.number(), view.number());
                }
                false => assert_eq!((later.pass(), later.hops()), (0, 2), "a header of its own"),
            }
            let moved = rig.moved();
            assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
            assert_eq!((rig.take("v4.in").len(), rig.take("D").len()), (1, 1));
        }
    }
}

#[test]
fn a_node_that_cannot_tell_where_a_number_goes_on_writes_one_of_its_own() {
    let mut rig = Rig::new(star_of(NUMBERED, &[&["v2"], &["v4"]]));
    let mut program = rig.town.program(1);
    program.routes.iter_mut().for_each(|route| route.later_identities.clear());
    rig.apply_program(1, &program);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(PolkaView::parse(&rig.take(&link_name(0, 7))[0]).unwrap().hops(), 5);
    let second = rig.take(&link_name(1, 7)).remove(0);
    let view = PolkaView::parse(&second).unwrap();
    assert_eq!((view.pass(), view.hops()), (0, 2));
    assert_eq!((rig.take("v4.in").len(), rig.take("D").len()), (1, 1));
}

#[test]
fn a_header_ends_at_a_function_that_rewrites_and_where_it_has_no_room() {
    let mut town = star_of(NATIVE, HOPS);
    let rewrites =
        RewriteEntry { fields: vec![TupleField::Source], leaves: TuplePattern::default() };
    town.chains[0].rewrites.insert(0, rewrites);
    let long = star_of(Encapsulation::SourceRouteSafe9, &[&["v2"], &["v4"], &["v3"]]);
    for (town, by, expected) in [
        (town, NATIVE, vec!["v2.in"]),
        (long, Encapsulation::SourceRouteSafe9, vec!["v2.in", "v4.in"]),
    ] {
        let mut rig = Rig::new(town);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let first = rig.take(&link_name(0, 7)).remove(0);
        let functions = left(by, &first).0.into_iter().filter(|port| *port >= 100);
        let expected: Vec<u8> = expected.iter().map(|port| number_of(&rig.town, port)).collect();
        assert_eq!(functions.collect::<Vec<_>>(), expected, "{}", by.name());
    }
}

/// The scene's chain with two instances of the function behind the first, on two hosts.
fn with_siblings(by: Encapsulation, policy: FailurePolicy) -> Town {
    let mut town = star_of(by, &[&["v2"], &["v3", "v4"]]);
    town.chains[0].on_failure = policy;
    for (number, port) in (100..).zip(&mut town.ports) {
        if port.name.ends_with(".in") {
            port.addresses = vec![format!("10.{}.0.{number}", port.network).parse().unwrap()];
        }
    }
    town
}

fn send_flows(rig: &mut Rig) {
    for port in 0..20 {
        let ports = (1_000 + port, CHAINED_PORT);
        let protocol = IpProtocol::TCP;
        rig.send("S", &Spec { ports, protocol, ..packet(&rig.town, CHAINED_PORT) }.frame());
    }
}

#[test]
fn whatever_instances_flows_meet_and_whichever_die_all_get_the_bytes_that_they_get_over_nsh() {
    for policy in [FailurePolicy::Unwatched, FailurePolicy::Reroute, FailurePolicy::Bypass] {
        for dying in ["v2", "v3", "v4"] {
            let by_nsh = met(Encapsulation::Nsh, policy, dying);
            for by in JOINING.into_iter().chain([NUMBERED]) {
                assert_eq!(met(by, policy, dying), by_nsh, "{} {policy:?} {dying}", by.name());
            }
        }
    }
}

/// What everybody gets before an instance dies, and after.
fn met(by: Encapsulation, policy: FailurePolicy, dying: &str) -> [Vec<Vec<Vec<u8>>>; 2] {
    let mut rig = Rig::new(with_siblings(by, policy));
    let seen = |rig: &mut Rig| {
        send_flows(rig);
        let seen = ["v2.in", "v3.in", "v4.in", "D"].map(|port| rig.take(port));
        seen.to_vec()
    };
    let before = seen(&mut rig);
    assert_eq!((before[0].len(), before[3].len()), (20, 20));
    assert!(before[1].len() > 2 && before[2].len() > 2, "both instances are met");
    rig.pass(200);
    rig.behaviours.insert(dying.into(), Behaviour::Swallow);
    rig.pass(400);
    rig.seen.clear();
    [before, seen(&mut rig)]
}

#[test]
fn a_flow_has_the_header_of_the_instances_that_it_meets() {
    let mut rig = Rig::new(with_siblings(NATIVE, FailurePolicy::Unwatched));
    send_flows(&mut rig);
    let [v2, v3, v4] = ["v2.in", "v3.in", "v4.in"].map(|port| number_of(&rig.town, port));
    let met = [rig.take("v3.in").len(), rig.take("v4.in").len()];
    let ways: Vec<Vec<u8>> =
        rig.take(&link_name(0, 7)).iter().map(|frame| left(NATIVE, frame).0).collect();
    let of = |way: &[u8]| ways.iter().filter(|other| *other == way).count();
    assert_eq!([of(&[2, v2, v3]), of(&[2, v2, 7, 3, v4])], met);
    assert_eq!(met.iter().sum::<usize>(), 20);
}

#[test]
fn what_was_left_of_a_header_is_not_used_with_other_tables() {
    for by in JOINING.into_iter().chain([NUMBERED]) {
        let mut rig = Rig::new(star_of(by, &[&["v2"], &["v4"]]));
        rig.behaviours.insert("v2".into(), Behaviour::Swallow);
        let sent = packet(&rig.town, CHAINED_PORT);
        for others in [false, true] {
            rig.send("S", &sent.frame());
            assert_eq!(rig.take("v2.in").len(), 1);
            if others {
                // Its way leads by another cable now.
                rig.town.cables.push([(1, 8), (SWITCH, 9)]);
                rig.town.ways.insert((1, 2), vec![8, 3]);
                rig.town.number += 1;
                rig.apply();
            }
            let back = Spec { source_mac: rig.town.mac("v2.out"), ttl: 63, ..sent.clone() };
            rig.send("v2.out", &back.frame());
            rig.sleep(WAY_FLUSH_MS);
            let taken = [7, 8].map(|link| rig.take(&link_name(1, link)).len());
            assert_eq!(taken, if others { [0, 1] } else { [1, 0] }, "{}", by.name());
            assert_eq!((rig.take("v4.in").len(), rig.take("D").len()), (1, 1));
        }
    }
}

#[test]
fn what_was_left_of_a_header_is_used_along_its_nodes_own_way_alone() {
    for by in JOINING.into_iter().chain([NUMBERED]) {
        let mut rig = Rig::new(star_of(by, &[&["v2"], &["v4"]]));
        // The node of the first function knows another way by now, and who writes the headers does not.
        rig.town.cables.push([(1, 8), (SWITCH, 9)]);
        rig.town.ways.insert((1, 2), vec![8, 3]);
        rig.apply_program(1, &rig.town.program(1));
        rig.apply_program(SWITCH, &rig.town.program(SWITCH));
        rig.sleep(WAY_FLUSH_MS);
        rig.moved();
        for _ in 0..3 {
            rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
            let first = rig.take(&link_name(0, 7)).remove(0);
            let count = match by {
                NUMBERED => PolkaView::parse(&first).unwrap().hops().into(),
                _ => left(by, &first).0.len(),
            };
            assert_eq!(count, 5, "{}", by.name());
            let taken = [7, 8].map(|link| rig.take(&link_name(1, link)).len());
            assert_eq!(taken, [0, 1], "{}", by.name());
            assert_eq!((rig.take("v4.in").len(), rig.take("D").len()), (1, 1));
        }
    }
}

#[test]
fn a_tap_between_gets_its_copy_and_the_packet_goes_on_by_its_header() {
    for hops in [&[&["v2"][..], &["v4"], &["v3"]][..], &[&["v2"], &["v3"], &["v4"]]] {
        let seen = JOINING.into_iter().chain([Encapsulation::Nsh]).map(|by| {
            let mut town = match by {
                Encapsulation::Nsh => with_chain(by, hops),
                _ => star_of(by, hops),
            };
            town.chains[0].taps = vec![1];
            let mut rig = Rig::new(town);
            rig.behaviours.insert(hops[1][0].into(), Behaviour::Swallow);
            rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
            let first = rig.take(&link_name(0, 7));
            let functions = first
                .first()
                .map(|frame| left(by, frame).0.into_iter().filter(|port| *port >= 100).count());
            assert!(functions.is_none_or(|count| count == 2), "{}", by.name());
            ["v2.in", "v3.in", "v4.in", "D"].map(|port| rig.take(port))
        });
        let seen: Vec<_> = seen.collect();
        assert!(seen.iter().all(|one| *one == seen[JOINING.len()]));
        assert!(seen[0].iter().all(|frames| frames.len() == 1));
    }
}

#[test]
fn whoever_does_not_know_on_writes_what_he_knows() {
    let mut town = star_of(NATIVE, HOPS);
    town.is_apart = true;
    let mut rig = Rig::new(town);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let [v2, v4] = ["v2.in", "v4.in"].map(|port| number_of(&rig.town, port));
    let [first, third] =
        [(0, 7), (1, 7)].map(|(node, link)| rig.take(&link_name(node, link)).remove(0));
    assert_eq!((left(NATIVE, &first).0, left(NATIVE, &third).0), (vec![2, v2], vec![3, v4]));
    let delivered = rig.take("D").remove(0);
    assert_eq!(destination_mac(&delivered), rig.town.mac("D"));
}

#[test]
fn a_sender_is_told_what_all_of_a_header_leaves_room_for() {
    for by in JOINING {
        let mut rig = Rig::new(star_of(by, HOPS));
        let ports = [catena_model::topology::PortNumber::new(200).unwrap(); 7];
        let added = by.added_bytes(&ports, false);
        for (more, is_told) in [(0, false), (1, true)] {
            let payload = vec![0; 1_500 - added - 20 - 8 + more];
            let sent = Spec { payload, ..packet(&rig.town, CHAINED_PORT) };
            rig.send("S", &sent.frame());
            assert_eq!(rig.take("S").len(), usize::from(is_told), "{}", by.name());
            assert_eq!(rig.take("D").len(), usize::from(!is_told));
        }
    }
}
