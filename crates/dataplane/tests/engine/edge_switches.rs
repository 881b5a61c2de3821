//! Switches that are edges: a header that has no room for the whole way ends there, and the next takes its place.

use crate::edges::{SWITCH, number_of, star_of};
use crate::frames::{self, Spec, step};
use crate::profiles::on_its_way;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6};
use crate::town::{Town, identities, link_name, node_name};
use catena_dataplane::engine::Tables;
use catena_model::DropReason;
use catena_model::explain::{DepartureBy, ExplainAction, ExplainAt, ExplainRequest, FrameBytes};
use catena_model::limits::WAY_FLUSH_MS;
use catena_model::program::{BorderEntry, ExitEntry, ExitPlace, NodeProgram, Pathlet};
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use catena_wire::scalar::{EtherType, Spi};
use catena_wire::source_route::native::{NativeHeader, PortWidth, TagKey};

const NUMBERED: Encapsulation = Encapsulation::SourceRoutePolka;
const TAGGED: Encapsulation = Encapsulation::SourceRouteNativeTagged;
/// By which the switch knows the header that it writes.
const NUMBER: u8 = 200;
const HOPS: &[&[&str]] = &[&["v2"], &["v4"]];

fn all() -> impl Iterator<Item = Encapsulation> {
    Encapsulation::ALL.into_iter().filter(|one| one.is_source_route())
}

fn port_number(number: u8) -> PortNumber {
    PortNumber::new(number).unwrap()
}

/// The switch writes headers to the function at the second host.
fn edge(town: &Town) -> NodeProgram {
    let pathlet = Pathlet {
        node: node_name(1),
        to: town.port_named("v2.in").id,
        end: node_name(1),
        ports: [2, number_of(town, "v2.in")].map(port_number).to_vec(),
        identities: vec![identities(1)[0]],
    };
    let mut program = town.program(SWITCH);
    let exit = ExitEntry { number: port_number(NUMBER), to: ExitPlace::Pathlet(pathlet) };
    program.exits.push(exit);
    // Of chains it knows nothing.
    (program.paths, program.rules, program.chains) = Default::default();
    program
}

/// The headers of the first host to that function end at the switch.
fn border(town: &Town, by: Encapsulation) -> BorderEntry {
    BorderEntry {
        node: node_name(1),
        to: town.port_named("v2.in").id,
        encapsulation: by,
        at: 1,
        number: port_number(NUMBER),
    }
}

/// A star with a chain from the first host over the second and the third; its first headers end at the switch.
fn cut(by: Encapsulation) -> Rig {
    let mut rig = Rig::new(star_of(by, HOPS));
    rig.apply_program(SWITCH, &edge(&rig.town));
    let mut program = rig.town.program(0);
    program.borders.push(border(&rig.town, by));
    rig.apply_program(0, &program);
    rig.sleep(WAY_FLUSH_MS);
    rig.moved();
    rig
}

/// A frame as it leaves whoever writes this header, its first port taken.
fn written(by: Encapsulation, (node, ports): (usize, &[u8]), path: u16, frame: &[u8]) -> Vec<u8> {
    if by == NUMBERED {
        return frames::numbered(&[(node, ports[1])], 1, path.into(), frame);
    }
    let mut frame = match by {
        Encapsulation::SourceRouteNative | TAGGED => native(by, ports, path.into(), frame),
        _ => on_its_way(by, ports, path, frame),
    };
    step(&mut frame).unwrap();
    frame
}

/// As edges write it, its ports no wider than they need be.
fn native(by: Encapsulation, way: &[u8], path: u32, frame: &[u8]) -> Vec<u8> {
    // Of a domain without a key.
    let key = TagKey::of_domain(&[0; 16]);
    let header = NativeHeader {
        width: PortWidth::for_port(way.iter().copied().max().unwrap()),
        way,
        path: Spi::new(path).ok(),
        tag: (by == TAGGED).then_some(&key),
        detours: &[],
        ether_type: EtherType::IPV4,
    };
    let mut bytes = frames::addresses_on_links(frame);
    bytes.resize(header.len_bytes(), 0);
    header.emit(&mut bytes).unwrap();
    bytes.extend(&frame[14..]);
    bytes
}

#[test]
fn at_an_edge_the_next_header_takes_the_place_of_one_that_is_at_its_end() {
    for by in all() {
        let mut rig = cut(by);
        let mut whole = Rig::new(star_of(by, HOPS));
        let v2 = number_of(&rig.town, "v2.in");
        for sent in [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)] {
            for rig in [&mut rig, &mut whole] {
                rig.moved();
                rig.send("S", &sent.frame());
            }
            let is_v4 = sent.frame()[14] >> 4 == 4;
            let inner = sent.frame();
            let first = rig.take(&link_name(0, 7)).remove(0);
            let second = rig.take(&link_name(SWITCH, 2)).remove(0);
            if is_v4 {
                assert_eq!(
                    first,
                    written(by, (SWITCH, &[7, NUMBER]), 100, &inner),
                    "{}",
                    by.name()
                );
                assert_eq!(second, written(by, (1, &[2, v2]), 100, &inner), "{}", by.name());
            }
            for port in ["v2.in", "v4.in", "D"] {
                let taken = [&mut rig, &mut whole].map(|rig| rig.take(port));
                assert_eq!(taken[0], taken[1], "{} at {port}", by.name());
                assert_eq!(taken[0].len(), 1);
            }
            let moved = rig.moved();
            for (name, count) in [
                ("host1 path 100 tunnelled out", 1),
                ("host4-1 received", 1),
                ("host4-2 transmitted", 1),
                ("host2 path 100 tunnelled in", 1),
            ] {
                assert_eq!(moved.get(name), Some(&count), "{name}: {moved:?}");
            }
            let is_odd = |name: &String| name.contains("dropped") || name.starts_with("host4 path");
            assert!(!moved.keys().any(is_odd), "{moved:?}");
        }
    }
}

#[test]
fn what_fits_no_header_at_an_edge_ends_by_name() {
    for by in all() {
        let mut rig = cut(by);
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        let v2 = number_of(&rig.town, "v2.in");
        let to_edge = |ports: &[u8], path| match by {
            NUMBERED => frames::numbered(&[(SWITCH, ports[0])], ports.len() as u8, path, &frame),
            TAGGED => native(by, ports, path, &frame),
            _ => on_its_way(by, ports, path as u16, &frame),
        };
        for (frame, reason) in [
            // Behind the number of a header nothing is named.
            (to_edge(&[NUMBER, v2], 100), DropReason::MalformedSourceRoute),
            (to_edge(&[NUMBER + 2], 100), DropReason::UnknownExit),
        ] {
            rig.moved();
            rig.bring(SWITCH, 1, &[frame]);
            rig.assert_only_dropped(&link_name(SWITCH, 1), reason);
        }
        if !by.capabilities().keeps_frame {
            let arp = [&frame[..12], &[8, 6], &[0, 1, 8, 0][..]].concat();
            rig.moved();
            rig.bring(SWITCH, 1, &[on_its_way(by, &[NUMBER], 100, &arp)]);
            rig.assert_only_dropped(&link_name(SWITCH, 1), DropReason::NotPlainIp);
        }
        // Whose packet it is, edges at hosts ask.
        rig.moved();
        rig.bring(SWITCH, 1, &[to_edge(&[NUMBER], 999)]);
        assert_eq!(rig.moved().get("host2-7 dropped no_path"), Some(&1), "{}", by.name());
        rig.bring(SWITCH, 1, &[to_edge(&[NUMBER], 100)]);
        assert_eq!(rig.take("v2.in").len(), 1, "{}", by.name());
        // Its own cable is dead.
        rig.nodes[SWITCH].links.set_dark(&[port_number(2)]);
        rig.moved();
        rig.bring(SWITCH, 1, &[to_edge(&[NUMBER], 100)]);
        rig.assert_only_dropped(&link_name(SWITCH, 1), DropReason::LinkDead);
    }
}

#[test]
fn an_edge_remembers_nothing_of_what_it_has_written() {
    let mut rig = cut(Encapsulation::SourceRouteSafe9);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    let before = rig.tables(SWITCH).entries().clone();
    for path in 1..=300 {
        rig.bring(
            SWITCH,
            1,
            &[on_its_way(Encapsulation::SourceRouteSafe9, &[NUMBER], path, &frame)],
        );
    }
    assert_eq!(*rig.tables(SWITCH).entries(), before);
    let counters = &rig.counters()[SWITCH];
    assert!(counters.chains.is_empty(), "{:?}", counters.chains);
    assert_eq!(rig.take(&link_name(SWITCH, 2)).len(), 300);
}

#[test]
fn a_header_whose_link_has_gone_ends_frames_by_name_and_holds_no_program_up() {
    for by in all() {
        let mut rig = cut(by);
        let mut program = edge(&rig.town);
        program.exits.retain(|exit| exit.number != port_number(2));
        program.number.0 += 1;
        // Ways round the link, and what it divides by, go by it no more either.
        program.routes.retain(|route| route.ports.first() != Some(&port_number(2)));
        rig.apply_program(SWITCH, &program);
        rig.moved();
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let moved = rig.moved();
        assert_eq!(moved.get("host4-1 dropped unknown_exit"), Some(&1), "{}: {moved:?}", by.name());
    }
}

/// However cables are moved, what an edge writes ends with a lower number than what it read.
#[test]
fn a_header_that_might_come_back_for_ever_is_not_written() {
    for last in [NUMBER, NUMBER + 2] {
        let mut rig = cut(Encapsulation::SourceRouteNative);
        let mut program = edge(&rig.town);
        if let ExitPlace::Pathlet(pathlet) = &mut program.exits.last_mut().unwrap().to {
            pathlet.ports = [2, last].map(port_number).to_vec();
        }
        program.number.0 += 1;
        rig.apply_program(SWITCH, &program);
        rig.moved();
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let moved = rig.moved();
        assert_eq!(moved.get("host4-1 dropped unknown_exit"), Some(&1), "{last}: {moved:?}");
    }
}

#[test]
fn a_sender_is_told_what_the_longest_header_of_an_edge_leaves_room_for() {
    for by in all() {
        let longest = vec![port_number(u8::MAX); by.route_ports_max()];
        let added = by.added_bytes(&longest, false);
        let mut rig = cut(by);
        for (more, is_told) in [(0, false), (1, true)] {
            let payload = vec![0; 1_500 - added - 20 - 8 + more];
            let sent = Spec { payload, ..packet(&rig.town, CHAINED_PORT) };
            rig.send("S", &sent.frame());
            assert_eq!(rig.take("S").len(), usize::from(is_told), "{}", by.name());
            assert_eq!(rig.take("D").len(), usize::from(!is_told), "{}", by.name());
        }
    }
}

#[test]
fn where_a_header_ends_otherwise_what_leaves_waits_for_the_former_way() {
    let mut rig = cut(Encapsulation::SourceRouteNative);
    let mut program = rig.town.program(0);
    program.number.0 += 1;
    rig.apply_program(0, &program);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.take(&link_name(0, 7)).len(), 0, "it waits");
    rig.sleep(WAY_FLUSH_MS);
    assert_eq!(rig.take(&link_name(0, 7)).len(), 1);
    assert_eq!(rig.take("D").len(), 1);
}

#[test]
fn explain_names_the_edge_and_where_its_header_ends() {
    for by in all() {
        let mut rig = cut(by);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let (brought, left) = (rig.take(&link_name(0, 7)), rig.take(&link_name(SWITCH, 2)));
        let request = ExplainRequest {
            at: ExplainAt::Link(port_number(1)),
            frame: FrameBytes(brought[0].clone()),
            why_not: Default::default(),
        };
        let reply = rig.explain(SWITCH, request).unwrap();
        let [step] = &reply.steps[..] else { panic!("{:?}", reply.steps) };
        assert!(
            step.text.starts_with("as an edge writes the next header, to host2: "),
            "{}",
            step.text
        );
        let ExplainAction::PassedOn { written_to, .. } = &step.action else { panic!("{step:?}") };
        assert_eq!(written_to.as_ref(), Some(&node_name(1)));
        assert_eq!(reply.departures[0].by, DepartureBy::Link(port_number(2)));
        assert_eq!(reply.departures[0].payload.0, left[0]);
    }
}

#[test]
fn headers_and_borders_that_lead_nowhere_are_refused() {
    let town = star_of(Encapsulation::SourceRouteSafe9, HOPS);
    let refusal =
        |program: &NodeProgram| Tables::compile(program).map(drop).unwrap_err().to_string();
    let mut program = edge(&town);
    let change = |program: &mut NodeProgram, ports: &[u8]| {
        if let ExitPlace::Pathlet(pathlet) = &mut program.exits.last_mut().unwrap().to {
            pathlet.ports = ports.iter().copied().map(port_number).collect();
        }
    };
    for (ports, words) in [(&[][..], "begins with nothing"), (&[2; 129], "ports in one route")] {
        change(&mut program, ports);
        let refused = refusal(&program);
        assert!(refused.contains(words), "{refused}");
    }
    change(&mut program, &[2, 4]);
    program.exits.push(program.exits.last().unwrap().clone());
    assert_eq!(refusal(&program), format!("port number {NUMBER} is in the program twice"));
    let mut program = town.program(0);
    for at in [0, 3] {
        let by = Encapsulation::SourceRouteSafe9;
        program.borders = vec![BorderEntry { at, ..border(&town, by) }];
        let refused = refusal(&program);
        assert!(refused.contains(&format!("shall end behind {at} of its ports")), "{refused}");
    }
    program.borders = vec![border(&town, Encapsulation::SourceRouteSafe9); 2];
    assert!(refusal(&program).contains("in source-route/safe-9"));
}
