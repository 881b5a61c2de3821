//! Headers over several functions that end at a switch between two of them, which writes the next one.

use crate::edges::{SWITCH, number_of, star_of};
use crate::pathlets::left;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6};
use crate::town::{Town, link_name, node_name};
use catena_dataplane::engine::Tables;
use catena_model::limits::WAY_FLUSH_MS;
use catena_model::program::{ExitEntry, ExitPlace, NodeProgram, Pathlet, StitchEntry};
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;

const SHORT: [Encapsulation; 2] =
    [Encapsulation::SourceRouteSafe9, Encapsulation::SourceRouteClassic80];
/// By which the switch knows the header that it writes.
const NUMBER: u8 = 200;
const HOPS: &[&[&str]] = &[&["v2"], &["v4"], &["v3"]];

fn port_number(number: u8) -> PortNumber {
    PortNumber::new(number).unwrap()
}

/// A star with a chain from the first host over the second, the third and the second again. Frames go twice over a
/// cable from the switch to itself on the way to the third.
fn town(by: Encapsulation) -> Town {
    let mut town = star_of(by, HOPS);
    town.cables.push([(SWITCH, 5), (SWITCH, 6)]);
    town.ways.insert((1, 2), vec![7, 5, 5, 3]);
    town
}

/// The header of the first node, and what is left of it, end at the switch on the way to the third host.
fn stitch(town: &Town, by: Encapsulation) -> StitchEntry {
    let port = |name: &str| town.port_named(name).id;
    StitchEntry {
        from: node_name(1),
        to: vec![(node_name(2), port("v4.in")), (node_name(1), port("v3.in"))],
        encapsulation: by,
        at: 1,
        number: port_number(NUMBER),
    }
}

/// The switch writes headers over the function at the third host to the last one.
fn edge(town: &Town) -> NodeProgram {
    let ports = [5, 5, 3, number_of(town, "v4.in"), 7, 2, number_of(town, "v3.in")];
    let pathlet = Pathlet {
        node: node_name(2),
        to: town.port_named("v4.in").id,
        end: node_name(1),
        ports: ports.map(port_number).to_vec(),
        identities: Vec::new(),
    };
    let mut program = town.program(SWITCH);
    let exit = ExitEntry { number: port_number(NUMBER), to: ExitPlace::Pathlet(pathlet) };
    program.exits.push(exit);
    (program.paths, program.rules, program.chains) = Default::default();
    program
}

/// These hosts know of the edge.
fn stitched(by: Encapsulation, knowing: &[usize]) -> Rig {
    let mut rig = Rig::new(town(by));
    rig.apply_program(SWITCH, &edge(&rig.town));
    for host in knowing {
        let mut program = rig.town.program(*host);
        program.stitches.push(stitch(&rig.town, by));
        rig.apply_program(*host, &program);
    }
    rig.sleep(WAY_FLUSH_MS);
    rig.moved();
    rig
}

#[test]
fn what_is_left_behind_a_function_ends_at_an_edge_whose_header_leads_over_the_next() {
    for by in SHORT {
        let mut rig = stitched(by, &[0, 1]);
        let mut by_nsh = Rig::new(star_of(Encapsulation::Nsh, HOPS));
        let [v2, v4, v3] = ["v2.in", "v4.in", "v3.in"].map(|port| number_of(&rig.town, port));
        for sent in [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)] {
            rig.moved();
            [&mut rig, &mut by_nsh].into_iter().for_each(|rig| rig.send("S", &sent.frame()));
            let mut ports = |node, link| {
                let frames = rig.take(&link_name(node, link));
                frames.iter().map(|frame| left(by, frame).0).collect::<Vec<_>>()
            };
            assert_eq!(ports(0, 7), [vec![2, v2, 7, NUMBER]], "{}", by.name());
            assert_eq!(ports(1, 7), [vec![NUMBER]], "as it was left");
            let around = [vec![5, 3, v4, 7, 2, v3], vec![3, v4, 7, 2, v3]];
            assert_eq!(ports(SWITCH, 5), around);
            assert_eq!(ports(SWITCH, 3), [vec![v4, 7, 2, v3]]);
            assert_eq!(ports(2, 7), [vec![2, v3]], "as the edge has written it");
            for port in ["v2.in", "v4.in", "v3.in", "D"] {
                let [got, expected] = [&mut rig, &mut by_nsh].map(|rig| rig.take(port));
                assert_eq!(got, expected, "{} at {port}", by.name());
                assert_eq!(got.len(), 1);
            }
            let moved = rig.moved();
            assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
        }
    }
}

#[test]
fn a_node_that_does_not_know_of_the_edge_writes_a_header_of_its_own() {
    for by in SHORT {
        let mut rig = stitched(by, &[0]);
        let v4 = number_of(&rig.town, "v4.in");
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let frame = rig.take(&link_name(1, 7)).remove(0);
        let ports = left(by, &frame).0;
        assert_eq!(ports, [5, 5, 3, v4], "{}", by.name());
        assert_eq!(rig.take("D").len(), 1);
        // Nor does it where its header is for other instances.
        let mut rig = stitched(by, &[1]);
        let mut program = rig.town.program(0);
        let mut other = stitch(&rig.town, by);
        other.to[1].1 = rig.town.port_named("v2.in").id;
        program.stitches.push(other);
        rig.apply_program(0, &program);
        rig.sleep(WAY_FLUSH_MS);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let frame = rig.take(&link_name(0, 7)).remove(0);
        assert!(!left(by, &frame).0.contains(&NUMBER));
        assert_eq!(rig.take("D").len(), 1);
    }
}

#[test]
fn an_edge_before_the_way_or_said_twice_is_refused() {
    let town = town(SHORT[0]);
    let refused = |change: &dyn Fn(&mut NodeProgram)| {
        let mut program = town.program(0);
        change(&mut program);
        Tables::compile(&program).map(drop).unwrap_err().to_string()
    };
    let own = stitch(&town, SHORT[0]);
    let before = refused(&|program| program.stitches = vec![StitchEntry { at: 0, ..own.clone() }]);
    assert!(before.contains("shall end behind 0 of its ports"), "{before}");
    let twice = refused(&|program| program.stitches = vec![own.clone(), own.clone()]);
    assert!(twice.contains("edge on a way over functions"), "{twice}");
}
