//! Chains over source routes in the other profiles: in fields of ordinary Ethernet, what is lost under way is there
//! again where a packet comes out, and what cannot be is not sent; behind labels all is kept.

use crate::edges::{SWITCH, number_of, star_of};
use crate::frames::{self, Spec};
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, with_chain};
use crate::town::{Town, identities, link_name};
use catena_dataplane::engine::Tables;
use catena_model::DropReason;
use catena_model::limits::WAY_FLUSH_MS;
use catena_model::program::{HopKind, IdentityEntry, NodeIdentity, RouteEntry};
use catena_model::resource::{Encapsulation, FailurePolicy};
use catena_model::topology::PortNumber;
use catena_wire::scalar::{IpProtocol, MacAddr, Spi};
use catena_wire::source_route::marked::{LEN, MarkedHeader};
use catena_wire::source_route::polka::PolkaView;
use catena_wire::source_route::polka::residues::Reducer;
use catena_wire::source_route::sr_mpls::SrMplsView;

const MARKED: [Encapsulation; 2] =
    [Encapsulation::SourceRouteSafe9, Encapsulation::SourceRouteClassic80];
const LABELLED: Encapsulation = Encapsulation::SourceRouteSrMpls;
const NUMBERED: Encapsulation = Encapsulation::SourceRoutePolka;
const OTHERS: [Encapsulation; 4] = [MARKED[0], MARKED[1], LABELLED, NUMBERED];
const HOPS: &[&[&str]] = &[&["v1"], &["v2"], &["v4"]];

/// A frame of this encapsulation on its way, with this many ports still to be taken.
pub(crate) fn on_its_way(by: Encapsulation, way: &[u8], path: u16, frame: &[u8]) -> Vec<u8> {
    if by == Encapsulation::SourceRouteNative {
        return frames::source_routed(way, path.into(), frame);
    }
    if by == LABELLED {
        return frames::labelled(way, path.into(), frame);
    }
    if by == NUMBERED {
        // Of the second host, whose function is reached.
        let hops = u8::try_from(way.len()).unwrap();
        return frames::numbered(&[(1, way[0])], hops, path.into(), frame);
    }
    let mut bytes = frames::addresses_on_links(frame);
    bytes.resize(LEN, 0);
    MarkedHeader::new(by.profile().unwrap(), way, path).unwrap().emit(&mut bytes).unwrap();
    bytes.extend(&frame[14..]);
    bytes
}

#[test]
fn functions_and_destination_get_the_same_bytes_as_under_nsh() {
    let behaviours: [fn(&mut Rig); 3] = [
        |_| {},
        // Gives frames back as it got them, addressed to itself.
        |rig| _ = rig.behaviours.insert("v4".into(), Behaviour::Bridge),
        |rig| _ = rig.behaviours.insert("v2".into(), Behaviour::Bridge),
    ];
    for by in OTHERS {
        for behave in behaviours {
            let mut rigs = [star_of(by, HOPS), with_chain(Encapsulation::Nsh, HOPS)].map(Rig::new);
            rigs.iter_mut().for_each(behave);
            let seen = rigs.map(|mut rig| {
                let of = packet(&rig.town, CHAINED_PORT);
                let gateway = Spec { destination_mac: MacAddr([2, 7, 7, 7, 7, 7]), ..of.clone() };
                let tcp = Spec { protocol: IpProtocol::TCP, ..of.clone() };
                // What stands behind the packet goes with it.
                let padded = [of.frame(), vec![0; 9]].concat();
                let v6 = packet_v6(&rig.town, CHAINED_PORT);
                for frame in [of.frame(), v6.frame(), gateway.frame(), tcp.frame(), padded] {
                    rig.send("S", &frame);
                }
                ["v1.in", "v2.in", "v4.in", "D"].map(|port| rig.take(port))
            });
            assert_eq!(seen[0], seen[1], "{}", by.name());
            assert!(seen[0].iter().all(|frames| frames.len() == 5));
        }
    }
}

#[test]
fn the_whole_way_stands_in_the_frame_with_the_path_behind_it() {
    for by in MARKED {
        let mut rig = Rig::new(star_of(by, HOPS));
        for (sent, first) in
            [(packet(&rig.town, CHAINED_PORT), 0x45), (packet_v6(&rig.town, CHAINED_PORT), 0x60)]
        {
            rig.moved();
            rig.send("S", &sent.frame());
            let seen = rig.take(&link_name(0, 7));
            let header = MarkedHeader::parse(&seen[0]).unwrap();
            let [v2, v4] = ["v2.in", "v4.in"].map(|port| number_of(&rig.town, port));
            assert_eq!(header.way().collect::<Vec<_>>(), [7, 2, v2, 7, 3, v4]);
            assert_eq!((header.counter(), header.mark()), (5, 100));
            assert_eq!((seen[0].len(), seen[0][LEN]), (sent.frame().len() + 8, first));
            let mut source = rig.town.mac("v1.out").0;
            source[0] ^= 2;
            assert_eq!(seen[0][6..12], source, "nobody is sent to there");
            let moved = rig.moved();
            for (name, count) in [
                ("host1 path 100 tunnelled out", 1),
                ("host2 path 100 tunnelled in", 1),
                ("host2 path 100 tunnelled out", 1),
                ("host3 path 100 tunnelled in", 1),
                ("host4-1 received", 1),
                ("host4-2 transmitted", 1),
                ("D transmitted", 1),
            ] {
                assert_eq!(moved.get(name), Some(&count), "{name}: {moved:?}");
            }
            assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
        }
    }
}

#[test]
fn labels_of_the_way_stand_before_the_whole_frame() {
    let mut rig = Rig::new(star_of(LABELLED, HOPS));
    let plain = packet(&rig.town, CHAINED_PORT);
    let tagged = Spec { vlan: Some(0), ..plain.clone() };
    for sent in [plain, packet_v6(&rig.town, CHAINED_PORT), tagged] {
        rig.moved();
        rig.send("S", &sent.frame());
        let from_v1 = Spec { source_mac: rig.town.mac("v1.out"), ttl: 63, ..sent }.frame();
        let [v2, v4] = ["v2.in", "v4.in"].map(|port| number_of(&rig.town, port));
        // The label of a port is taken off before the frame leaves by it.
        for (node, link, way) in [(0, 7, &[2, v2, 7, 3, v4][..]), (SWITCH, 2, &[v2, 7, 3, v4])] {
            let frame = rig.take(&link_name(node, link)).remove(0);
            let view = SrMplsView::parse(&frame).unwrap();
            assert_eq!(view.way().collect::<Vec<_>>(), way);
            assert_eq!((view.path().get(), usize::from(frame[17])), (100, 58 + way.len()));
            let inner = &frame[view.len_bytes()..];
            assert_eq!(inner[6..], from_v1[6..]);
            assert_eq!(frame[..12], frames::addresses_on_links(inner), "as they are on links");
        }
        let moved = rig.moved();
        assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
        assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (1, 1));
    }
}

#[test]
fn one_number_names_the_way_to_each_node_and_stays_what_it_is() {
    let mut rig = Rig::new(star_of(NUMBERED, HOPS));
    let plain = packet(&rig.town, CHAINED_PORT);
    let tagged = Spec { vlan: Some(0), ..plain.clone() };
    for sent in [plain, packet_v6(&rig.town, CHAINED_PORT), tagged] {
        rig.moved();
        rig.send("S", &sent.frame());
        let from_v1 = Spec { source_mac: rig.town.mac("v1.out"), ttl: 63, ..sent }.frame();
        let [first, second] =
            [(0, 7), (SWITCH, 2)].map(|(node, link)| rig.take(&link_name(node, link)).remove(0));
        let view = PolkaView::parse(&first).unwrap();
        assert_eq!((view.path().map(Spi::get), view.hops(), view.pass()), (Some(100), 5, 0));
        // What the first node itself takes is in no number.
        let number = number_of(&rig.town, "v2.in");
        for (node, port) in [(SWITCH, 2), (1, number)] {
            let own = Reducer::new(identities(node)[0].polynomial().unwrap());
            assert_eq!(own.residue(view.number()), u16::from(port));
        }
        assert_eq!(first[6..12], frames::addresses_on_links(&from_v1)[6..]);
        assert_eq!(
            first[view.len_bytes() - 2..],
            from_v1[12..],
            "the frame, with the header between"
        );
        let mut expected = first;
        expected[16] -= 1;
        assert_eq!(second, expected, "the hop limit is all that changes");
        let moved = rig.moved();
        assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
        assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (1, 1));
    }
}

#[test]
fn a_way_over_a_node_without_an_identity_ends_packets_by_name() {
    let mut rig = Rig::new(star_of(NUMBERED, &[&["v2"]]));
    turn(&mut rig, |route| route.identities.clear());
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.moved().get("S dropped route_unfit"), Some(&1));
    // And a node that has none itself reads nothing.
    let mut rig = Rig::new(star_of(NUMBERED, &[&["v2"]]));
    let mut program = rig.town.program(SWITCH);
    program.identities.clear();
    rig.apply_program(SWITCH, &program);
    rig.moved();
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.moved().get("host4-1 dropped malformed_source_route"), Some(&1));
    for (pass, identity) in [(0, NodeIdentity(0)), (1, identities(0)[0])] {
        program.identities = vec![IdentityEntry { pass, identity }];
        let refusal = Tables::compile(&program).map(drop).unwrap_err().to_string();
        assert!(refusal.contains("is none"), "{refusal}");
    }
}

#[test]
fn what_is_no_plain_ip_packet_is_not_sent() {
    for by in MARKED {
        let mut rig = Rig::new(star_of(by, &[&["v2"]]));
        let plain = packet(&rig.town, CHAINED_PORT);
        // A priority without a VLAN: the tag would be lost.
        let tagged = Spec { vlan: Some(0), ..plain.clone() };
        rig.moved();
        rig.send("S", &tagged.frame());
        let moved = rig.moved();
        assert_eq!(moved.get("S dropped not_plain_ip"), Some(&1), "{moved:?}");
        assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (0, 0));
        // It goes on over what keeps it.
        for by in [Encapsulation::Nsh, Encapsulation::SourceRouteNative, LABELLED, NUMBERED] {
            let mut rig = Rig::new(star_of(by, &[&["v2"]]));
            rig.send("S", &tagged.frame());
            assert_eq!(rig.take("v2.in").len(), 1, "{}", by.name());
        }
        // On no path nothing is asked of it.
        rig.send("S", &Spec { ports: (1, PLAIN_PORT), ..tagged }.frame());
        assert_eq!(rig.take("D").len(), 1);
    }
}

#[test]
fn what_comes_out_where_it_should_not_ends_by_name() {
    for by in OTHERS {
        let mut rig = Rig::new(star_of(by, HOPS));
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        let [v2, v3] = ["v2.in", "v3.in"].map(|port| number_of(&rig.town, port));
        let arp = [&frame[..12], &[8, 6], &[0, 1, 8, 0][..]].concat();
        let other = OTHERS.into_iter().find(|one| *one != by).unwrap();
        for (frame, reason) in [
            (on_its_way(by, &[v2], 999, &frame), DropReason::NoPath),
            (on_its_way(by, &[v3], 100, &frame), DropReason::PositionElsewhere),
            (on_its_way(by, &[250], 100, &frame), DropReason::UnknownExit),
            // A path of another encapsulation is none of its own.
            (on_its_way(other, &[v2], 100, &frame), DropReason::NoPath),
            (frames::source_routed(&[v2], 100, &frame), DropReason::NoPath),
        ] {
            rig.moved();
            rig.bring(1, 7, &[frame]);
            rig.assert_only_dropped(&link_name(1, 7), reason);
        }
        if MARKED.contains(&by) {
            rig.bring(1, 7, &[on_its_way(by, &[v2], 100, &arp)]);
            assert_eq!(rig.moved().get("host2-7 dropped not_plain_ip"), Some(&1));
        }
        rig.bring(1, 7, &[on_its_way(by, &[v2], 100, &frame)]);
        assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (1, 1));
    }
}

/// Lets a route of the first host have these ports, and its former way be flushed.
fn turn(rig: &mut Rig, change: impl Fn(&mut RouteEntry)) {
    let mut program = rig.town.program(0);
    program.routes.iter_mut().for_each(change);
    rig.apply_program(0, &program);
    rig.sleep(WAY_FLUSH_MS);
    rig.moved();
}

#[test]
fn a_way_that_fits_no_header_ends_packets_by_name() {
    for by in OTHERS {
        let mut rig = Rig::new(star_of(by, &[&["v2"]]));
        let last = |route: &RouteEntry| *route.ports.last().unwrap();
        turn(&mut rig, |route| {
            let (first, last) = (route.ports[0], last(route));
            route.ports = [vec![first], vec![last; by.route_ports_max()]].concat();
        });
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        assert_eq!(rig.moved().get("S dropped route_unfit"), Some(&1));
        turn(&mut rig, |route| route.ports.truncate(3));
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        assert_eq!(rig.take("v2.in").len(), 1);
    }
}

#[test]
fn a_sender_is_told_what_a_link_takes() {
    for by in OTHERS {
        let mut rig = Rig::new(star_of(by, &[&["v1"], &["v4"]]));
        let added = by.added_bytes(&[PortNumber::new(7).unwrap(); 3], false);
        for (more, is_told) in [(0, false), (1, true)] {
            let payload = vec![0; 1_500 - added - 20 - 8 + more];
            let sent = Spec { payload, ..packet(&rig.town, CHAINED_PORT) };
            rig.send("S", &sent.frame());
            assert_eq!(rig.take("S").len(), usize::from(is_told));
            assert_eq!(rig.take("D").len(), usize::from(!is_told));
        }
    }
}

#[test]
fn a_link_takes_what_it_takes_whatever_the_underlay_does() {
    for by in OTHERS.into_iter().chain([Encapsulation::SourceRouteNative]) {
        let added = match by {
            // Fixed octets, three ports, a path identifier.
            Encapsulation::SourceRouteNative => 6 + 3 + 3,
            _ => by.added_bytes(&[PortNumber::new(7).unwrap(); 3], false),
        };
        for mtu in [1_280, 1_600] {
            let mut town = star_of(by, &[&["v1"], &["v4"]]);
            town.mtus.extend((0..town.nodes).map(|to| ((0, to), mtu)));
            let mut rig = Rig::new(town);
            for (more, is_told) in [(0, false), (1, true)] {
                let payload = vec![0; usize::from(mtu) - added - 20 - 8 + more];
                let sent = Spec { payload, ..packet(&rig.town, CHAINED_PORT) };
                // Twice: what is remembered may show in the second.
                for _ in 0..2 {
                    rig.send("S", &sent.frame());
                    let told = rig.take("S");
                    assert_eq!(told.len(), usize::from(is_told), "{} {mtu} {more}", by.name());
                    // RFC 1191: the next hop's MTU is in the last two octets of the ICMP header.
                    let most = told.iter().map(|told| u16::from_be_bytes([told[40], told[41]]));
                    assert!(most.eq(told.iter().map(|_| mtu - added as u16)), "{}", by.name());
                    assert_eq!(rig.take("v4.in").len(), usize::from(!is_told), "{}", by.name());
                }
            }
        }
    }
}

/// A node may say anything of its links.
#[test]
fn links_that_take_next_to_nothing_end_packets_by_name() {
    for by in OTHERS.into_iter().chain([Encapsulation::SourceRouteNative]) {
        for mtu in [0, 1, 13, 20, 67] {
            let mut town = star_of(by, &[&["v1"], &["v4"]]);
            town.mtus.extend((0..town.nodes).map(|to| ((0, to), mtu)));
            let mut rig = Rig::new(town);
            let sent = Spec { payload: vec![0; 100], ..packet(&rig.town, CHAINED_PORT) };
            rig.send("S", &sent.frame());
            let moved = rig.moved();
            assert_eq!(moved.get("v1.out dropped mtu_exceeded"), Some(&1), "{mtu}: {moved:?}");
            assert_eq!(rig.take("v4.in").len(), 0, "{} {mtu}", by.name());
        }
    }
}

#[test]
fn whichever_engine_reads_a_link_each_flow_is_decided_by_one() {
    for by in OTHERS {
        let mut rig = Rig::of_engines(3, star_of(by, &[&["v2"]]), |_| {}, 512);
        for port in 0..20 {
            let ports = (2_000 + port, CHAINED_PORT);
            let sent = Spec { ports, ..packet(&rig.town, CHAINED_PORT) };
            rig.send("S", &Spec { protocol: IpProtocol::TCP, ..sent.clone() }.frame());
            let frame = Spec { protocol: IpProtocol::TCP, ..sent }.frame();
            let number = number_of(&rig.town, "v2.in");
            let routed = on_its_way(by, &[number], 100, &frame);
            let native = frames::source_routed(&[number], 100, &frame);
            let at = |number| catena_model::explain::ExplainAt::Link(number);
            let link = catena_model::topology::PortNumber::new(7).unwrap();
            let of = |frame: &[u8]| rig.decider(1, &at(link), frame);
            assert_eq!(of(&routed), of(&native), "whatever carries it");
        }
        assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (20, 20));
    }
}

/// The scene's chain with a second instance of the function in its middle, on another host, and a policy.
fn with_siblings(by: Encapsulation, policy: FailurePolicy) -> Town {
    let mut town = star_of(by, &[&["v1"], &["v2", "v4"]]);
    town.chains[0].on_failure = policy;
    for (number, port) in (100..).zip(&mut town.ports) {
        if port.name.ends_with(".in") {
            port.addresses = vec![format!("10.{}.0.{number}", port.network).parse().unwrap()];
        }
    }
    town
}

#[test]
fn siblings_and_functions_that_are_passed_by_get_the_same_bytes_as_under_nsh() {
    for policy in [FailurePolicy::Reroute, FailurePolicy::Bypass] {
        for by in OTHERS {
            let seen = [by, Encapsulation::Nsh].map(|by| {
                let mut rig = Rig::new(with_siblings(by, policy));
                let send = |rig: &mut Rig| {
                    for port in 0..20 {
                        let ports = (1_000 + port, CHAINED_PORT);
                        rig.send("S", &Spec { ports, ..packet(&rig.town, CHAINED_PORT) }.frame());
                    }
                };
                send(&mut rig);
                rig.pass(200);
                rig.behaviours.insert("v2".into(), Behaviour::Swallow);
                rig.pass(400);
                rig.seen.clear();
                send(&mut rig);
                let met = rig.take("v4.in");
                (met, rig.take("D"))
            });
            assert_eq!(seen[0], seen[1], "{} {policy:?}", by.name());
            assert_eq!(seen[0].1.len(), 20);
            assert_eq!(seen[0].0.len() == 20, policy == FailurePolicy::Reroute);
        }
    }
}

#[test]
fn a_tap_gets_its_copy_by_a_header_of_its_own() {
    for by in OTHERS {
        let mut town = star_of(by, &[&["v2"], &["v4"]]);
        town.chains[0].taps = vec![0];
        let mut rig = Rig::new(town);
        let hops = &rig.tables(1).entries().paths.values().next().unwrap().hops;
        assert_eq!(hops[0].kind, HopKind::Tap);
        rig.behaviours.insert("v2".into(), Behaviour::Swallow);
        let sent = packet(&rig.town, CHAINED_PORT).frame();
        rig.send("S", &sent);
        let copy = rig.take("v2.in").remove(0);
        assert_eq!(frames::destination_mac(&copy), rig.town.mac("v2.in"));
        assert_eq!(copy[6..], sent[6..]);
        assert_eq!(rig.take("D").len(), 1);
    }
}
