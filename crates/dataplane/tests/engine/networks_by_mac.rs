//! Networks with equal addresses over functions that keep MACs: each packet comes out in its own,
//! and where a function does not keep what is declared, in none.

use crate::explain::tell;
use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, packet, rules, three_hosts};
use crate::town::Town;
use catena_dataplane::engine::EngineConfig;
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::program::NETWORK_MAC_PREFIX;
use catena_model::resource::Encapsulation;
use catena_wire::scalar::IpProtocol;

const OTHER_VNI: u32 = 0x01_02_03;

/// S and D in the one network, T and E with equal addresses in another of which no subnet is known, a
/// chain of each over the same functions, which are declared to keep MACs.
fn town(hops: &[&[&str]]) -> Town {
    let mut town = three_hosts();
    let other = town.network(OTHER_VNI, &[]);
    town.endpoint("T", 0, other, &["10.0.0.1", "2001:db8::1"]);
    town.endpoint("E", 2, other, &["10.0.0.2", "2001:db8::2"]);
    town.chain("one", Encapsulation::Nsh, hops, &rules(CHAINED_PORT));
    town.chain("other", Encapsulation::Nsh, hops, &rules(CHAINED_PORT)).destination = other;
    town.keeping = hops.iter().flat_map(|hop| hop.iter().map(ToString::to_string)).collect();
    town
}

fn rig_of(town: Town, has_fast_path: bool, behaviour: Behaviour) -> Rig {
    let set = |config: &mut EngineConfig| config.has_fast_path = has_fast_path;
    let mut rig = Rig::with(town, set, 512);
    let keeping = rig.town.keeping.clone();
    rig.behaviours.extend(keeping.into_iter().map(|name| (name, behaviour)));
    rig
}

/// Equal packets of both networks, but for what they carry and the MACs of their ends.
fn equal_packets(town: &Town) -> [(&'static str, Spec); 2] {
    let one = Spec { payload: b"of the one".into(), ..packet(town, CHAINED_PORT) };
    let (source_mac, destination_mac) = (town.mac("T"), town.mac("E"));
    let other =
        Spec { source_mac, destination_mac, payload: b"of the other".into(), ..one.clone() };
    [("S", one), ("T", other)]
}

/// How many packets of each network came to a port.
fn arrived(rig: &mut Rig, port: &str) -> (usize, usize) {
    let frames = rig.take(port);
    let of = |text: &[u8]| frames.iter().filter(|frame| frame.ends_with(text)).count();
    (of(b"of the one"), of(b"of the other"))
}

#[test]
fn equal_packets_of_two_networks_pass_functions_that_keep_macs_each_in_its_own() {
    let ways: [&[&[&str]]; 3] = [&[&["v1"]], &[&["v1"], &["v2"], &["v4"]], &[&["v1", "v2"]]];
    for (hops, has_fast_path) in ways.into_iter().flat_map(|way| [(way, true), (way, false)]) {
        let mut rig = rig_of(town(hops), has_fast_path, Behaviour::Bridge);
        let packets = equal_packets(&rig.town);
        for _ in 0..3 {
            for (from, spec) in &packets {
                rig.queue(from, &spec.frame(), Offload::default());
                rig.queue(from, &spec.frame(), Offload::default());
            }
            rig.run();
        }
        let came = (arrived(&mut rig, "D"), arrived(&mut rig, "E"));
        assert_eq!(came, ((6, 0), (0, 6)), "{hops:?}");
        assert_eq!(rig.by_fast_path() > 0, has_fast_path);
    }
}

#[test]
fn on_the_way_back_and_over_ipv6_and_tcp_too() {
    for protocol in [IpProtocol::UDP, IpProtocol::TCP] {
        for is_v6 in [false, true] {
            let mut town = town(&[&["v1"], &["v2"]]);
            town.chains.iter_mut().for_each(|chain| chain.is_reverse = true);
            let mut rig = rig_of(town, true, Behaviour::Bridge);
            rig.is_two_way = true;
            for (from, mut spec) in equal_packets(&rig.town) {
                if is_v6 {
                    let [source, destination] = ["2001:db8::1", "2001:db8::2"];
                    spec.source = source.parse().unwrap();
                    spec.destination = destination.parse().unwrap();
                }
                rig.send(from, &Spec { protocol, ..spec }.frame());
            }
            assert_eq!((arrived(&mut rig, "D"), arrived(&mut rig, "E")), ((1, 0), (0, 1)));
        }
    }
}

#[test]
fn a_packet_goes_in_from_the_mac_of_its_network() {
    let mut rig = rig_of(town(&[&["v1"]]), true, Behaviour::Swallow);
    for (from, spec) in equal_packets(&rig.town) {
        rig.send(from, &spec.frame());
    }
    let sources = rig.take("v1.in").into_iter().map(|frame| frame[6..12].to_vec());
    let [a, b, c] = NETWORK_MAC_PREFIX;
    assert_eq!(sources.collect::<Vec<_>>(), [[a, b, c, 0, 0, 100], [a, b, c, 1, 2, 3]]);
}

#[test]
fn fragments_of_equal_datagrams_stay_in_their_networks() {
    let mut rig = rig_of(town(&[&["v1"], &["v2"]]), true, Behaviour::Bridge);
    let pieces = |whole: &Spec| {
        let first = Spec { fragment: (0, true), ..whole.clone() };
        [Spec { fragment: (4, false), ..whole.clone() }, first]
    };
    let [(one, ours), (other, theirs)] = equal_packets(&rig.town);
    let theirs = Spec { ports: (50_000, CHAINED_PORT), ..theirs };
    let long = |spec: Spec, text: &[u8]| Spec { payload: [&[0; 14], text].concat(), ..spec };
    let (ours, theirs) = (long(ours, b"of the one"), long(theirs, b"of the other"));
    for (ours, theirs) in pieces(&ours).into_iter().zip(pieces(&theirs)) {
        rig.send(one, &ours.frame());
        rig.send(other, &theirs.frame());
    }
    assert_eq!((arrived(&mut rig, "D"), arrived(&mut rig, "E")), ((2, 0), (0, 2)));
}

/// Functions that are declared to keep MACs, and do not.
const LIARS: [Behaviour; 2] =
    [Behaviour::Route(catena_model::program::PROXY_MAC), Behaviour::Reflect];

#[test]
fn of_a_function_that_does_not_keep_macs_nothing_comes_out_in_any_network() {
    for (liar, has_fast_path) in LIARS.into_iter().flat_map(|liar| [(liar, true), (liar, false)]) {
        let mut rig = rig_of(town(&[&["v1"]]), has_fast_path, liar);
        for (from, spec) in equal_packets(&rig.town) {
            rig.moved();
            rig.send(from, &spec.frame());
            rig.send(from, &spec.frame());
            assert_eq!(rig.moved().get("v1.out dropped unknown_return"), Some(&2));
        }
        assert_eq!((arrived(&mut rig, "D"), arrived(&mut rig, "E")), ((0, 0), (0, 0)));
        // Nor as its own: what went in is none of its making, whatever it looks like.
        let own =
            Spec { source: "10.0.0.1".parse().unwrap(), ..equal_packets(&rig.town)[0].1.clone() };
        let told = tell(&rig, "v1.out", &own.frame(), None);
        assert!(told.verdict.starts_with("dropped at host1: unknown_return"), "{}", told.verdict);
    }
}

#[test]
fn a_packet_that_says_another_network_than_its_own_ends_by_name() {
    let mut rig = rig_of(town(&[&["v1"]]), true, Behaviour::Swallow);
    let [(one, ours), (other, theirs)] = equal_packets(&rig.town);
    rig.send(one, &ours.frame());
    rig.send(other, &theirs.frame());
    let [ours, theirs] = <[Vec<u8>; 2]>::try_from(rig.take("v1.in")).unwrap();
    rig.moved();
    // No flow of this one is inside in the network that it says.
    let mut forged =
        Spec { ports: (9, CHAINED_PORT), ..equal_packets(&rig.town)[0].1.clone() }.frame();
    forged[..12].copy_from_slice(&theirs[..12]);
    rig.send("v1.out", &forged);
    rig.assert_only_dropped("v1.out", DropReason::UnknownReturn);
    for frame in [theirs, ours] {
        rig.send("v1.out", &frame);
    }
    assert_eq!((arrived(&mut rig, "D"), arrived(&mut rig, "E")), ((1, 0), (0, 1)));
}

#[test]
fn a_function_of_one_network_may_be_declared_whatever_it_does() {
    for (behaviour, has_fast_path) in
        LIARS.into_iter().flat_map(|liar| [(liar, true), (liar, false)])
    {
        let mut town = town(&[&["v1"]]);
        town.chains.truncate(1);
        let mut rig = rig_of(town, has_fast_path, behaviour);
        for _ in 0..3 {
            let (from, spec) = &equal_packets(&rig.town)[0];
            rig.send(from, &spec.frame());
        }
        assert_eq!(arrived(&mut rig, "D"), (3, 0));
        assert_eq!(rig.by_fast_path() > 0, has_fast_path);
    }
}

/// What went in while its network was alone there comes back to its path when it is not any more.
#[test]
fn a_network_that_comes_costs_the_other_no_packet() {
    let mut rig = rig_of(town(&[&["v1"]]), true, Behaviour::Swallow);
    let later = rig.town.chains.pop().unwrap();
    rig.apply();
    let [(one, ours), _] = equal_packets(&rig.town);
    rig.send(one, &ours.frame());
    let inside = rig.take("v1.in").pop().unwrap();
    rig.town.chains.push(later);
    rig.apply();
    rig.send("v1.out", &inside);
    assert_eq!(arrived(&mut rig, "D"), (1, 0));
}

/// While one of the paths is older than the declaration, addresses tell as they did.
#[test]
fn macs_tell_nothing_while_a_function_behind_the_port_does_not_keep_them() {
    let mut town = town(&[&["v1"]]);
    town.networks.last_mut().unwrap().prefixes = vec!["10.2.0.0/24".into()];
    let old = town.chain("old", Encapsulation::Nsh, &[&["v2"]], &[]);
    old.hops = vec![vec!["v1".into(), "v2".into()]];
    let mut rig = rig_of(town, true, Behaviour::Bridge);
    let [(one, ours), (other, theirs)] = equal_packets(&rig.town);
    rig.send(one, &ours.frame());
    rig.moved();
    rig.send(other, &theirs.frame());
    assert_eq!(rig.moved().get("T dropped foreign_address"), Some(&1));
    assert_eq!((arrived(&mut rig, "D"), arrived(&mut rig, "E")), ((1, 0), (0, 0)));
}
