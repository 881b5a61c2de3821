//! Taps: each gets exactly one copy of each packet, wherever it is, and the packet does not wait.

use crate::frames::{self, Spec};
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, packet, packet_v6, with_chain};
use crate::super_frames::{stream, super_frame};
use catena_dataplane::engine::TunnelKind;
use catena_model::DropReason;
use catena_model::resource::Encapsulation;
use catena_wire::scalar::IpProtocol;

/// The scene with one chain, of which these hops are taps; taps keep what they get.
fn tapped(encapsulation: Encapsulation, hops: &[&[&str]], taps: &[usize]) -> Rig {
    let mut town = with_chain(encapsulation, hops);
    town.chains[0].taps = taps.to_vec();
    let mut rig = Rig::new(town);
    silence(&mut rig);
    rig
}

fn silence(rig: &mut Rig) {
    let chain = &rig.town.chains[0];
    let names: Vec<String> = chain.taps.iter().flat_map(|hop| chain.hops[*hop].clone()).collect();
    rig.behaviours.extend(names.into_iter().map(|name| (name, Behaviour::Swallow)));
}

#[test]
fn a_tap_here_gets_a_copy_and_the_packet_goes_on() {
    for encapsulation in Encapsulation::ALL {
        for make in [packet, packet_v6] {
            let mut rig = tapped(encapsulation, &[&["v1"], &["v2"]], &[0]);
            let sent = make(&rig.town, CHAINED_PORT);
            rig.send("S", &sent.frame());
            rig.assert_moved(&[
                ("S received", 1),
                ("S created tap", 1),
                ("S forwarded", 2),
                ("host1 path 100 entered", 1),
                ("host1 path 100 tapped", 1),
                ("host1 path 100 to v1", 1),
                ("v1.in transmitted", 1),
                ("host1 path 100 tunnelled out", 1),
                ("host1 tunnels transmitted", 1),
                ("host2 tunnels received", 1),
                ("host2 tunnels forwarded", 1),
                ("host2 path 100 tunnelled in", 1),
                ("host2 path 100 to v2", 1),
                ("v2.in transmitted", 1),
                ("v2.out received", 1),
                ("v2.out forwarded", 1),
                ("host2 path 100 from v2", 1),
                ("host2 path 100 finished", 1),
                ("host2 tunnels transmitted", 1),
                ("host3 tunnels received", 1),
                ("host3 tunnels forwarded", 1),
                ("D transmitted", 1),
            ]);
            let copy = Spec { destination_mac: rig.town.mac("v1.in"), ..sent };
            assert_eq!(rig.take("v1.in"), [copy.frame()], "addressed to the tap, else untouched");
            assert_eq!((rig.take("D").len(), rig.inside()), (1, 0));
        }
    }
}

#[test]
fn a_tap_on_another_host_gets_its_copy_through_the_tunnel() {
    for encapsulation in Encapsulation::ALL {
        for make in [packet, packet_v6] {
            let mut rig = tapped(encapsulation, &[&["v1"], &["v2"], &["v4"]], &[1]);
            let sent = make(&rig.town, CHAINED_PORT);
            rig.send("S", &sent.frame());
            rig.assert_moved(&[
                ("S received", 1),
                ("S forwarded", 1),
                ("host1 path 100 entered", 1),
                ("host1 path 100 to v1", 1),
                ("v1.in transmitted", 1),
                ("v1.out received", 1),
                ("v1.out created tap", 1),
                ("v1.out forwarded", 2),
                ("host1 path 100 from v1", 1),
                ("host1 path 100 tapped", 1),
                ("host1 path 100 tunnelled out", 2),
                ("host1 tunnels transmitted", 2),
                ("host2 tunnels received", 1),
                ("host2 tunnels forwarded", 1),
                ("host2 path 100 tunnelled in", 1),
                ("host2 path 100 to v2", 1),
                ("v2.in transmitted", 1),
                ("host3 tunnels received", 1),
                ("host3 tunnels forwarded", 1),
                ("host3 path 100 tunnelled in", 1),
                ("host3 path 100 to v4", 1),
                ("v4.in transmitted", 1),
                ("v4.out received", 1),
                ("v4.out forwarded", 1),
                ("host3 path 100 from v4", 1),
                ("host3 path 100 finished", 1),
                ("D transmitted", 1),
            ]);
            let copy = rig.take("v2.in").remove(0);
            assert_eq!(frames::destination_mac(&copy), rig.town.mac("v2.in"));
            let seen = Spec { ttl: sent.ttl - 1, ..sent }.frame();
            assert_eq!(copy[14..], seen[14..], "as the first function gave it back");
            assert_eq!(rig.inside(), 0);
        }
    }
}

#[test]
fn two_taps_in_a_row_at_the_end_each_get_one_copy() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = tapped(encapsulation, &[&["v1"], &["v3"], &["v4"]], &[1, 2]);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        rig.assert_moved(&[
            ("S received", 1),
            ("S forwarded", 1),
            ("host1 path 100 entered", 1),
            ("host1 path 100 to v1", 1),
            ("v1.in transmitted", 1),
            ("v1.out received", 1),
            ("v1.out created tap", 2),
            ("v1.out forwarded", 3),
            ("host1 path 100 from v1", 1),
            ("host1 path 100 tapped", 2),
            ("host1 path 100 tunnelled out", 2),
            ("host1 path 100 finished", 1),
            ("host1 tunnels transmitted", 3),
            ("host2 tunnels received", 1),
            ("host2 tunnels forwarded", 1),
            ("host2 path 100 tunnelled in", 1),
            ("host2 path 100 to v3", 1),
            ("v3.in transmitted", 1),
            ("host3 tunnels received", 2),
            ("host3 tunnels forwarded", 2),
            ("host3 path 100 tunnelled in", 1),
            ("host3 path 100 to v4", 1),
            ("v4.in transmitted", 1),
            ("D transmitted", 1),
        ]);
        assert_eq!(rig.inside(), 0);
    }
}

#[test]
fn a_chain_of_taps_alone_leaves_the_packet_as_it_was() {
    let mut rig = tapped(Encapsulation::Nsh, &[&["v1"], &["v2"]], &[0, 1]);
    let sent = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &sent);
    assert_eq!((rig.take("v1.in").len(), rig.take("v2.in").len()), (1, 1));
    assert_eq!(rig.take("D"), [sent]);
    assert_eq!(rig.inside(), 0);
}

#[test]
fn a_bridging_function_before_a_last_tap_ends_the_path() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]);
    town.chains[0].taps = vec![1];
    town.instances[0].egress = town.instances[0].ingress;
    let mut rig = Rig::new(town);
    silence(&mut rig);
    rig.behaviours.insert("v1".into(), Behaviour::Bridge);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (1, 1));
}

#[test]
fn an_aware_tap_gets_the_header_and_gives_none_back() {
    for encapsulation in Encapsulation::TUNNELLED {
        for name in ["v1", "v2"] {
            let mut town = with_chain(encapsulation, &[&[name], &["v4"]]);
            town.chains[0].taps = vec![0];
            town.speaking(name, encapsulation);
            let mut rig = Rig::new(town);
            let sent = packet(&rig.town, CHAINED_PORT).frame();
            silence(&mut rig);
            rig.send("S", &sent);
            let copy = rig.take(&format!("{name}.in")).remove(0);
            let expected = encapsulation.capabilities().ether_type;
            assert_eq!(Some(frames::ethertype(&copy)), expected);
            assert!(copy.ends_with(&sent));
            assert_eq!((rig.take("D").len(), rig.inside()), (1, 0));

            for behaviour in [Behaviour::Advance(encapsulation), Behaviour::Echo] {
                rig.behaviours.insert(name.into(), behaviour);
                rig.moved();
                rig.send("S", &sent);
                let moved = rig.moved();
                let dropped = format!("{name}.out dropped foreign_chain_header");
                assert_eq!(moved.get(&dropped), Some(&1), "{moved:?}");
                assert_eq!((rig.take("D").len(), rig.inside()), (1, 0));
            }
        }
    }
}

#[test]
fn what_a_tap_only_copied_goes_nowhere_and_what_it_made_is_its_own() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]);
    town.chains[0].taps = vec![0];
    let port = town.ports.iter_mut().find(|port| port.name == "v1.out").unwrap();
    port.addresses.push("10.1.0.11".parse().unwrap());
    let mut rig = Rig::new(town);
    // It routes, as a function that packets pass through would.
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let moved = rig.moved();
    assert_eq!(moved.get("v1.out dropped unknown_return"), Some(&1), "{moved:?}");
    assert_eq!(rig.take("D").len(), 1, "once, although the tap sent it on");
    let own = Spec {
        source_mac: rig.town.mac("v1.out"),
        destination_mac: rig.town.mac("v2.out"),
        source: "10.1.0.11".parse().unwrap(),
        ..packet(&rig.town, 514)
    };
    rig.send("v1.out", &own.frame());
    assert_eq!(rig.moved().get("v1.out created by function"), Some(&1));
    assert_eq!(rig.take("v2.out"), [own.frame()]);
}

#[test]
fn a_tap_and_a_function_behind_one_port_cannot_be_told_apart() {
    // What a routing tap sends on would be taken for what the function gave back.
    let mut rig = tapped(Encapsulation::Nsh, &[&["v1"], &["v1"]], &[0]);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.moved().get("host1 path 100 dropped no_instance"), Some(&1));
    // Two taps may be.
    let mut rig = tapped(Encapsulation::Nsh, &[&["v1"], &["v1"]], &[0, 1]);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!((rig.take("v1.in").len(), rig.take("D").len()), (2, 1));
}

#[test]
fn each_packet_meets_one_instance_of_a_tap_and_always_the_same() {
    let mut rig = tapped(Encapsulation::Mpls, &[&["v1", "v2", "v4"], &["v3"]], &[0]);
    for _ in 0..2 {
        for port in 1..=60 {
            let mut sent = packet(&rig.town, CHAINED_PORT);
            sent.ports.0 = port;
            rig.send("S", &sent.frame());
        }
    }
    let copies: Vec<Vec<Vec<u8>>> = ["v1.in", "v2.in", "v4.in"].map(|port| rig.take(port)).into();
    assert_eq!(copies.iter().map(Vec::len).sum::<usize>(), 120);
    for copies in copies {
        let (first, second) = copies.split_at(copies.len() / 2);
        assert!(!first.is_empty());
        assert_eq!(first, second, "the flow decides");
    }
    assert_eq!((rig.take("D").len(), rig.inside()), (120, 0));
}

#[test]
fn without_a_buffer_the_copy_ends_by_name_and_the_packet_goes_on() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v1"], &["v3"]]);
    town.chains[0].taps = vec![0, 1];
    let mut rig = Rig::with(town, |_| {}, 2);
    silence(&mut rig);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let moved = rig.moved();
    for (name, by) in [
        ("S created tap", 2),
        ("S dropped buffers_exhausted", 1),
        ("S forwarded", 2),
        ("host1 path 100 tapped", 2),
        ("host1 path 100 dropped buffers_exhausted", 1),
        ("v1.in transmitted", 1),
        ("D transmitted", 1),
    ] {
        assert_eq!(moved.get(name), Some(&by), "{name}: {moved:?}");
    }
    assert_eq!(rig.inside(), 0);
}

#[test]
fn a_copy_goes_to_an_instance_of_its_hop_and_no_further() {
    for (encapsulation, kind) in [
        (Encapsulation::Nsh, TunnelKind::Path(Encapsulation::Nsh)),
        (Encapsulation::Mpls, TunnelKind::Path(Encapsulation::Mpls)),
    ] {
        let mut rig = tapped(encapsulation, &[&["v2"], &["v4"]], &[0]);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let copy = rig.datagrams[1].clone();
        rig.moved();
        // The same at the node of the next function.
        rig.send_datagram(2, kind, crate::town::node_address(0), &copy.bytes);
        rig.assert_moved(&[
            ("host3 tunnels received", 1),
            ("host3 tunnels dropped position_elsewhere", 1),
            ("host3 path 100 tunnelled in", 1),
            ("host3 path 100 dropped position_elsewhere", 1),
        ]);
        rig.send_datagram(1, kind, crate::town::node_address(0), &copy.bytes);
        rig.assert_moved(&[
            ("host2 tunnels received", 1),
            ("host2 tunnels forwarded", 1),
            ("host2 path 100 tunnelled in", 1),
            ("host2 path 100 to v2", 1),
            ("v2.in transmitted", 1),
        ]);
    }
}

#[test]
fn a_copy_of_a_super_frame_is_one_too() {
    let mut rig = tapped(Encapsulation::Nsh, &[&["v1"], &["v4"]], &[0]);
    let spec = Spec { protocol: IpProtocol::TCP, ..packet(&rig.town, CHAINED_PORT) };
    let (frame, offload) = super_frame(&stream(&spec, 5_000));
    rig.send_all("S", [(frame.clone(), offload)]);
    let copy = rig.seen["v1.in"][0].clone();
    assert_eq!((copy.bytes.len(), copy.bytes[14..] == frame[14..]), (frame.len(), true));
    let segments = copy.offload.segmentation.map(|s| s.segment_bytes);
    assert_eq!(segments, offload.segmentation.map(|s| s.segment_bytes));
    let moved = rig.moved();
    assert_eq!(moved["host1 path 100 tapped"], moved["S received"], "in wire packets");
    assert_eq!(moved["host1 path 100 to v1"], moved["S received"]);
    assert_eq!(rig.inside(), 0);
}

#[test]
fn what_functions_hold_is_what_the_identity_says() {
    let mut rig = tapped(Encapsulation::Mpls, &[&["v2"], &["v1"], &["v3"], &["v4"]], &[0, 2]);
    rig.behaviours.insert("v4".into(), Behaviour::Swallow);
    let sent = packet(&rig.town, CHAINED_PORT).frame();
    for _ in 0..7 {
        rig.send("S", &sent);
    }
    assert_eq!(rig.inside(), 7, "in v4");
    rig.refusals.insert("v3.in".into(), DropReason::TransmitFailed);
    rig.send("S", &sent);
    assert_eq!(rig.inside(), 8, "a lost copy is no packet inside");
}
