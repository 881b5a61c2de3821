//! Headers that switches write, as edges, over several functions: each function's node keeps what is left of them, and
//! goes on under it where that leads along its own way.

use crate::edges::{SWITCH, number_of, star_of};
use crate::pathlets::{JOINING, left, stepped};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6};
use crate::town::{Town, link_name, node_name};
use catena_model::limits::WAY_FLUSH_MS;
use catena_model::program::{BorderEntry, ExitEntry, ExitPlace, Pathlet};
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;

/// By which the switch knows the header from the first host on.
const FIRST: u8 = 200;
/// The same from the second one on.
const SECOND: u8 = 190;
const HOPS: &[&[&str]] = &[&["v2"], &["v4"]];

fn port_number(number: u8) -> PortNumber {
    PortNumber::new(number).unwrap()
}

/// A header of the switch to a function at a host.
fn exit(town: &Town, number: u8, (host, function): (usize, &str), ports: &[u8]) -> ExitEntry {
    let pathlet = Pathlet {
        node: node_name(host),
        to: town.port_named(function).id,
        end: node_name(host),
        ports: ports.iter().copied().map(port_number).collect(),
        identities: Vec::new(),
    };
    ExitEntry { number: port_number(number), to: ExitPlace::Pathlet(pathlet) }
}

/// The headers of a host to a function end at the switch.
fn border(
    town: &Town,
    by: Encapsulation,
    (host, function): (usize, &str),
    number: u8,
) -> BorderEntry {
    let (node, to) = (node_name(host), town.port_named(function).id);
    BorderEntry { node, to, encapsulation: by, at: 1, number: port_number(number) }
}

/// A star with a chain over the second host and the third, its first header ending at the switch, whose own one leads
/// over the first function and by these ports on. `second`: so does that of the second host.
fn over(by: Encapsulation, onward: &[u8], second: Option<u8>) -> Rig {
    let mut rig = Rig::new(star_of(by, HOPS));
    let town = &rig.town;
    let [v2, v4] = ["v2.in", "v4.in"].map(|port| number_of(town, port));
    let mut switch = town.program(SWITCH);
    let whole = [&[2, v2][..], onward].concat();
    switch.exits.push(exit(town, FIRST, (1, "v2.in"), &whole));
    switch.exits.push(exit(town, SECOND, (2, "v4.in"), &[3, v4]));
    let mut programs = [town.program(0), town.program(1)];
    programs[0].borders.push(border(town, by, (1, "v2.in"), FIRST));
    programs[1].borders.extend(second.map(|number| border(town, by, (2, "v4.in"), number)));
    rig.apply_program(SWITCH, &switch);
    programs.iter().enumerate().for_each(|(node, program)| rig.apply_program(node, program));
    rig.sleep(WAY_FLUSH_MS);
    rig.moved();
    rig
}

/// What is seen at the links on the way, one frame at each.
fn seen(rig: &mut Rig) -> [Vec<u8>; 4] {
    [(0, 7), (SWITCH, 2), (1, 7), (SWITCH, 3)].map(|(node, link)| {
        let mut frames = rig.take(&link_name(node, link));
        assert_eq!(frames.len(), 1, "at {}", link_name(node, link));
        frames.remove(0)
    })
}

#[test]
fn what_is_left_of_an_edges_header_leads_on_behind_a_function_and_ends_at_an_edge_again() {
    for by in JOINING {
        let mut whole = Rig::new(star_of(by, HOPS));
        let [v2, v4] = ["v2.in", "v4.in"].map(|port| number_of(&whole.town, port));
        for (onward, second) in [(vec![7, 3, v4], None), (vec![7, SECOND], Some(SECOND))] {
            let mut rig = over(by, &onward, second);
            for sent in [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)] {
                for rig in [&mut rig, &mut whole] {
                    rig.moved();
                    rig.send("S", &sent.frame());
                }
                let [first, edge, second, last] = seen(&mut rig);
                assert_eq!(left(by, &first).0, [FIRST], "{}", by.name());
                let ports = [&[v2][..], &onward].concat();
                assert_eq!(left(by, &edge).0, ports, "{}", by.name());
                // Byte for byte as the switch wrote it, into the function and out.
                assert_eq!(left(by, &second), stepped(by, &edge, 2), "{}", by.name());
                assert_eq!(left(by, &last).0, [v4], "{}", by.name());
                for port in ["v2.in", "v4.in", "D"] {
                    let taken = [&mut rig, &mut whole].map(|rig| rig.take(port));
                    assert_eq!(taken[0], taken[1], "{} at {port}", by.name());
                    assert_eq!(taken[0].len(), 1);
                }
                let moved = rig.moved();
                assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
            }
        }
    }
}

/// It may be older than what the node knows: whoever does not lead there himself writes a header of his own.
#[test]
fn what_is_left_of_an_edges_header_is_used_along_its_nodes_own_way_alone() {
    for by in JOINING {
        let [v2, v4] = {
            let town = star_of(by, HOPS);
            ["v2.in", "v4.in"].map(|port| number_of(&town, port))
        };
        // An edge of which the node does not know, another number there, back to where it came from, and nowhere.
        for (onward, second) in [
            (vec![7, SECOND], None),
            (vec![7, SECOND + 4], Some(SECOND)),
            (vec![7, 2, v2], None),
            (vec![9, 3, v4], None),
        ] {
            let mut rig = over(by, &onward, second);
            rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
            let [_, edge, second_header, last] = seen(&mut rig);
            assert_eq!(left(by, &edge).0, [&[v2][..], &onward].concat(), "{}", by.name());
            let own = if second.is_some() { vec![SECOND] } else { vec![3, v4] };
            assert_eq!(left(by, &second_header).0, own, "{}", by.name());
            assert_eq!(left(by, &last).0, [v4], "{}", by.name());
            assert_eq!((rig.take("v2.in").len(), rig.take("v4.in").len()), (1, 1));
            assert_eq!(rig.take("D").len(), 1, "{}", by.name());
        }
    }
}
