//! What comes out of a function and nobody expects: it passes only if the function may have made
//! it itself.

use crate::frames::Spec;
use crate::rig::{Rig, route};
use crate::scene::{CHAINED_PORT, packet, packet_v6, three_hosts, with_chain};
use crate::town::Town;
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_wire::scalar::IpProtocol;

/// Datagrams of which fragments are on their way at one time.
const DATAGRAMS: u16 = 1_000;

/// A packet of S as v1 would send it on.
fn routed(town: &Town, next: catena_wire::scalar::MacAddr) -> Spec {
    Spec { source_mac: town.mac("v1.out"), destination_mac: next, ..packet(town, CHAINED_PORT) }
}

#[test]
fn a_packet_that_no_path_expects_is_not_let_past_the_functions_that_remain() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]));
    for next in [PROXY_MAC, rig.town.mac("D"), rig.town.mac("v2.out")] {
        for port in ["v1.in", "v1.out"] {
            rig.moved();
            let sent = routed(&rig.town, next);
            rig.send(port, &sent.frame());
            rig.assert_only_dropped(port, DropReason::UnknownReturn);
            let later = Spec { fragment: (4, false), ..sent };
            rig.send(port, &later.frame());
            rig.sleep(1_000);
            rig.assert_only_dropped(port, DropReason::FragmentWithoutFirst);
        }
    }
}

#[test]
fn a_path_that_got_the_identifier_of_another_takes_over_none_of_its_packets() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]));
    rig.behaviours.insert("v1".into(), crate::rig::Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let mut late = rig.take("v1.in").remove(0);
    assert!(route(&mut late, PROXY_MAC, rig.town.mac("v1.out")));

    // The second chain gets the identifier of the first.
    let rules = crate::scene::rules(9_999);
    rig.town.chain("other", Encapsulation::Nsh, &[&["v1"], &["v2"]], &rules);
    rig.town.chains[0].path = 101;
    rig.town.chains[1].path = 100;
    rig.apply();
    rig.moved();
    rig.send("v1.out", &late);
    rig.assert_only_dropped("v1.out", DropReason::PathRemoved);

    // The first chain comes again with its identifier.
    rig.town.chains.truncate(1);
    rig.town.chains[0].path = 100;
    rig.apply();
    rig.send("v1.out", &late);
    rig.assert_only_dropped("v1.out", DropReason::PathRemoved);
}

#[test]
fn a_path_that_stays_takes_its_packets_over() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]));
    rig.behaviours.insert("v1".into(), crate::rig::Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let mut late = rig.take("v1.in").remove(0);
    assert!(route(&mut late, PROXY_MAC, rig.town.mac("v1.out")));
    let rules = crate::scene::rules(9_999);
    rig.town.chain("other", Encapsulation::Nsh, &[&["v1"]], &rules);
    rig.town.chains[1].path = 99;
    rig.apply();
    rig.send("v1.out", &late);
    assert_eq!(rig.take("v4.in").len(), 1);
}

#[test]
fn a_function_on_no_path_is_an_ordinary_router() {
    let mut rig = Rig::new(three_hosts());
    let sent = routed(&rig.town, rig.town.mac("v2.out"));
    rig.send("v1.out", &sent.frame());
    assert_eq!(rig.take("v2.out"), [sent.frame()]);
}

#[test]
fn what_a_function_may_have_made_itself_passes() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]);
    for (port, address) in
        [("v1.in", "10.0.0.11"), ("v1.out", "10.1.0.11"), ("v1.out", "2001:db8:1::b")]
    {
        let port = town.ports.iter_mut().find(|known| known.name == port).unwrap();
        port.addresses.push(address.parse().unwrap());
    }
    let mut rig = Rig::new(town);
    let to_d = routed(&rig.town, PROXY_MAC);
    let icmp = |kind: u8| Spec {
        protocol: IpProtocol::ICMP,
        payload: vec![kind, 0, 0, 0, 0, 0, 0, 0],
        ..to_d.clone()
    };
    let v6 = Spec {
        source_mac: rig.town.mac("v1.out"),
        destination_mac: PROXY_MAC,
        ..packet_v6(&rig.town, 9)
    };
    let icmp_v6 =
        Spec { protocol: IpProtocol::ICMPV6, payload: vec![2, 0, 0, 0, 0, 0, 0, 0], ..v6.clone() };
    let passing = [
        Spec { source: "10.1.0.11".parse().unwrap(), ..to_d.clone() },
        // The address of its other port.
        Spec { source: "10.0.0.11".parse().unwrap(), ..to_d.clone() },
        Spec { source: "0.0.0.0".parse().unwrap(), ..to_d.clone() },
        Spec { source: "169.254.3.4".parse().unwrap(), ..to_d.clone() },
        Spec { source: "2001:db8:1::b".parse().unwrap(), ..v6.clone() },
        icmp(3),
        icmp(5),
        icmp(11),
        icmp(12),
        icmp_v6.clone(),
    ];
    for sent in passing {
        rig.send("v1.out", &sent.frame());
        assert_eq!(rig.moved().get("v1.out created by function"), Some(&1), "{sent:?}");
        assert_eq!(rig.take("D").len(), 1, "{sent:?}");
    }
    let echo_v6 = Spec { payload: vec![128, 0, 0, 0, 0, 0, 0, 0], ..icmp_v6 };
    for sent in [icmp(8), icmp(0), echo_v6] {
        rig.send("v1.out", &sent.frame());
        rig.assert_only_dropped("v1.out", DropReason::UnknownReturn);
    }
}

#[test]
fn interleaved_fragments_of_many_datagrams_meet_every_function_or_end_by_name() {
    let mut rig = Rig::with(
        with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"], &["v4"]]),
        |_| {},
        2 * usize::from(DATAGRAMS),
    );
    let first =
        Spec { fragment: (0, true), payload: vec![1; 24], ..packet(&rig.town, CHAINED_PORT) };
    let frames = |shape: &Spec| -> Vec<(Vec<u8>, Offload)> {
        let numbered =
            (0..DATAGRAMS).map(|number| Spec { identification: number, ..shape.clone() });
        numbered.map(|spec| (spec.frame(), Offload::default())).collect()
    };
    let firsts = frames(&first);
    let laters = frames(&Spec { fragment: (4, false), payload: vec![2; 9], ..first });
    for (firsts, laters) in firsts.chunks(200).zip(laters.chunks(200)) {
        rig.send_all("S", firsts.iter().chain(laters).cloned());
    }
    assert_eq!(rig.take("v4.in").len(), 2 * usize::from(DATAGRAMS));
    assert_eq!(rig.take("D").len(), 2 * usize::from(DATAGRAMS), "all came by the last function");
    let moved = rig.moved();
    assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
}

#[test]
fn a_function_that_keeps_and_returns_what_it_got_too_late_is_heard_by_nobody() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]));
    rig.behaviours.insert("v1".into(), crate::rig::Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let mut late = rig.take("v1.in").remove(0);
    assert!(route(&mut late, rig.town.mac("v2.out"), rig.town.mac("v1.out")));
    rig.now_ns += 61_000_000_000;
    rig.moved();
    rig.send("v1.out", &late);
    rig.assert_only_dropped("v1.out", DropReason::UnknownReturn);
}
