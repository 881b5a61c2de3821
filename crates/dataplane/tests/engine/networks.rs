//! Paths of two networks over one function that knows nothing of chains: packets of one never come
//! out in the other, whatever addresses they have.

use crate::explain::tell;
use crate::frames::Spec;
use crate::rig::{Behaviour, Rig, route};
use crate::scene::{CHAINED_PORT, packet, rules, three_hosts};
use crate::town::Town;
use catena_dataplane::engine::EngineConfig;
use catena_model::DropReason;
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;

/// S and D in the one network, T and E with such addresses in the other, a chain of each over v1.
fn two_networks(prefix: &str, [t, e]: [&str; 2]) -> Town {
    let mut town = three_hosts();
    let other = town.network(300, &[prefix]);
    town.endpoint("T", 0, other, &[t]);
    town.endpoint("E", 2, other, &[e]);
    town.chain("one", Encapsulation::Nsh, &[&["v1"]], &rules(CHAINED_PORT));
    town.chain("other", Encapsulation::Nsh, &[&["v1"]], &rules(CHAINED_PORT)).destination = other;
    town
}

fn apart() -> Town {
    two_networks("10.2.0.0/24", ["10.2.0.1", "10.2.0.2"])
}

fn alike() -> Town {
    two_networks("10.0.0.0/24", ["10.0.0.1", "10.0.0.2"])
}

fn lane(is_there: bool) -> impl Fn(&mut EngineConfig) {
    move |config| config.has_fast_path = is_there
}

/// A packet of the other network.
fn of_other(town: &Town, source: &str, destination: &str) -> Spec {
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    let (source_mac, destination_mac) = (town.mac("T"), town.mac("E"));
    Spec { source_mac, destination_mac, source, destination, ..packet(town, CHAINED_PORT) }
}

/// What v1 got last, as it sends it on.
fn come_back(rig: &mut Rig) -> Vec<u8> {
    let mut frame = rig.take("v1.in").pop().unwrap();
    assert!(route(&mut frame, PROXY_MAC, rig.town.mac("v1.out")));
    frame
}

#[test]
fn networks_with_addresses_of_their_own_share_a_function() {
    for has_fast_path in [true, false] {
        let mut rig = Rig::with(apart(), lane(has_fast_path), 512);
        let one = packet(&rig.town, CHAINED_PORT).frame();
        let other = of_other(&rig.town, "10.2.0.1", "10.2.0.2").frame();
        for _ in 0..3 {
            rig.send("S", &one);
            rig.send("T", &other);
        }
        assert_eq!((rig.take("D").len(), rig.take("E").len()), (3, 3));
        assert_eq!(rig.by_fast_path() > 0, has_fast_path);
        rig.check();
    }
}

#[test]
fn a_packet_with_an_address_of_another_network_does_not_go_in() {
    for has_fast_path in [true, false] {
        let mut rig = Rig::with(apart(), lane(has_fast_path), 512);
        let one = packet(&rig.town, CHAINED_PORT);
        rig.send("S", &one.frame());
        let forged = of_other(&rig.town, "10.0.0.1", "10.0.0.2").frame();
        let told = tell(&rig, "T", &forged, None);
        assert!(told.verdict.starts_with("dropped at host1: foreign_address"), "{}", told.verdict);
        for _ in 0..3 {
            rig.moved();
            rig.send("T", &forged);
            assert_eq!(rig.moved().get("T dropped foreign_address"), Some(&1));
        }
        // Of no network that anybody knows.
        rig.send("S", &Spec { source: "192.168.0.1".parse().unwrap(), ..one }.frame());
        assert_eq!((rig.take("D").len(), rig.take("E").len()), (1, 0));
        rig.check();
    }
}

#[test]
fn on_the_way_back_the_destination_is_of_the_network() {
    let mut town = apart();
    town.chains.iter_mut().for_each(|chain| chain.is_reverse = true);
    let mut rig = Rig::new(town);
    rig.is_two_way = true;
    let answer = |source: &str, destination| of_other(&rig.town, source, destination).frame();
    let (own, foreign) = (answer("192.168.0.1", "10.2.0.2"), answer("10.2.0.1", "192.168.0.1"));
    rig.send("T", &own);
    rig.send("T", &foreign);
    assert_eq!((rig.take("E").len(), rig.take("v1.out").len()), (1, 1));
    rig.check();
}

#[test]
fn a_function_of_one_network_takes_any_address() {
    let mut town = apart();
    town.chains.truncate(1);
    let mut rig = Rig::new(town);
    let one = packet(&rig.town, CHAINED_PORT);
    rig.send("S", &Spec { source: "192.168.0.1".parse().unwrap(), ..one }.frame());
    assert_eq!(rig.take("D").len(), 1);
}

/// No plan gives two networks with equal addresses one function; while an old path drains, a
/// program may.
#[test]
fn what_could_have_come_from_either_network_goes_to_neither() {
    let mut rig = Rig::new(alike());
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    let one = packet(&rig.town, CHAINED_PORT).frame();
    let other = of_other(&rig.town, "10.0.0.1", "10.0.0.2").frame();
    rig.send("S", &one);
    let back = come_back(&mut rig);
    rig.send("T", &other);
    let told = tell(&rig, "v1.out", &back, None);
    assert!(told.verdict.starts_with("dropped at host1: unknown_return"), "{}", told.verdict);
    for _ in 0..2 {
        rig.moved();
        rig.send("v1.out", &back);
        rig.assert_only_dropped("v1.out", DropReason::UnknownReturn);
    }
    // What is not seen for a second is not inside any more.
    rig.sleep(2_000);
    rig.send("T", &other);
    let back = come_back(&mut rig);
    rig.send("v1.out", &back);
    assert_eq!((rig.take("D").len(), rig.take("E").len()), (0, 1));
    rig.check();
}

/// The same where the first network's path is there no more, so that the port is of one network.
#[test]
fn what_is_late_of_a_network_that_has_gone_does_not_come_out_in_the_next() {
    for has_fast_path in [true, false] {
        let mut rig = Rig::with(alike(), lane(has_fast_path), 512);
        let other = rig.town.chains.pop().unwrap();
        rig.apply();
        rig.behaviours.insert("v1".into(), Behaviour::Swallow);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let late = come_back(&mut rig);
        rig.town.chains = vec![other];
        rig.apply();
        rig.send("v1.out", &late);
        rig.send("T", &of_other(&rig.town, "10.0.0.1", "10.0.0.2").frame());
        rig.send("v1.out", &late);
        assert_eq!((rig.take("D").len(), rig.take("E").len()), (0, 0));
        rig.check();
    }
}
