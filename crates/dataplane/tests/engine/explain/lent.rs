//! What the live engine knows beside its tables decides, and is left as it was.

use super::live::{explain_and_send, send_and_compare};
use super::{tell, text};
use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, rules, with_chain};
use catena_model::program::{NETWORK_MAC_PREFIX, PROXY_MAC, RuleMatch, RulePlace};
use catena_model::resource::Encapsulation;
use catena_wire::scalar::MacAddr;

/// A packet of S as a router behind v1 would send it on.
fn routed(rig: &Rig) -> Vec<u8> {
    let (source_mac, sent) = (rig.town.mac("v1.out"), packet(&rig.town, CHAINED_PORT));
    Spec { source_mac, destination_mac: PROXY_MAC, ttl: sent.ttl - 1, ..sent }.frame()
}

#[test]
fn a_flow_that_is_inside_a_function_is_recalled_also_when_asked_about() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]));
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let back = routed(&rig);
    explain_and_send("recalled-by-live-memory", &mut rig, "v1.out", &back);
}

#[test]
fn asking_does_not_keep_a_flow_alive() {
    const IDLE_NS: u64 = 60_000_000_000;
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]));
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let back = routed(&rig);
    rig.now_ns += IDLE_NS;
    assert!(text(&tell(&rig, "v1.out", &back, None)).contains("remembers 100/254"));
    rig.now_ns += IDLE_NS;
    let told = tell(&rig, "v1.out", &back, None);
    assert!(told.verdict.starts_with("dropped at host1: unknown_return"), "{}", told.verdict);
    send_and_compare(&mut rig, "v1.out", &back, &told);
}

#[test]
fn a_flow_of_a_path_that_has_gone_ends_by_the_name_it_would_live() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]));
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let back = routed(&rig);
    rig.town.chains.clear();
    rig.apply();
    explain_and_send("drop-path-removed", &mut rig, "v1.out", &back);
}

#[test]
fn a_later_fragment_has_the_ports_of_its_first_also_when_asked_about() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]));
    let first = Spec { fragment: (0, true), payload: vec![1; 24], ..packet(&rig.town, 5_001) };
    let later = Spec { fragment: (4, false), payload: vec![2; 9], ..packet(&rig.town, 5_001) };
    let before = tell(&rig, "S", &later.frame(), None);
    assert!(text(&before).contains("fragment_without_first"), "{}", text(&before));
    rig.send("S", &first.frame());
    let told = tell(&rig, "S", &later.frame(), None);
    assert!(text(&told).contains("'v2' gets the bare packet"), "{}", text(&told));
    send_and_compare(&mut rig, "S", &later.frame(), &told);
}

/// The two fragments of a packet.
fn pieces(whole: &Spec) -> [Vec<u8>; 2] {
    let first = Spec { fragment: (0, true), payload: vec![1; 24], ..whole.clone() };
    let later = Spec { fragment: (4, false), payload: vec![2; 9], ..whole.clone() };
    [first.frame(), later.frame()]
}

#[test]
fn the_way_that_a_name_went_is_kept_also_when_asked_about() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]));
    let [plain, chained] = [PLAIN_PORT, CHAINED_PORT].map(|port| pieces(&packet(&rig.town, port)));
    plain.iter().for_each(|frame| rig.send("S", frame));
    let told = tell(&rig, "S", &chained[0], None);
    assert!(text(&told).contains("second_first_fragment"), "{}", text(&told));
    send_and_compare(&mut rig, "S", &chained[0], &told);
}

#[test]
fn the_way_that_a_name_went_from_a_function_that_keeps_macs_is_kept_also_when_asked_about() {
    let mut rig = rig_with_own_chain();
    let [plain, chained] = [PLAIN_PORT, CHAINED_PORT].map(|port| pieces(&returned(&rig, port)));
    plain.iter().for_each(|frame| rig.send("v1.out", frame));
    let told = tell(&rig, "v1.out", &chained[0], None);
    assert!(text(&told).contains("second_first_fragment"), "{}", text(&told));
    send_and_compare(&mut rig, "v1.out", &chained[0], &told);
}

/// What v1 gives back: it keeps the MAC that tells the network.
fn returned(rig: &Rig, port: u16) -> Spec {
    let [a, b, c] = NETWORK_MAC_PREFIX;
    let source_mac = MacAddr([a, b, c, 0, 0, 100]);
    Spec { source_mac, destination_mac: rig.town.mac("D"), ..packet(&rig.town, port) }
}

/// A chain through v1, which keeps MACs, and one that begins at its way out.
fn rig_with_own_chain() -> Rig {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]);
    town.keeping = [String::from("v1")].into();
    let place = RulePlace::Port(town.port_named("v1.out").id);
    let own = rules(CHAINED_PORT).into_iter().map(|rule| RuleMatch { place, ..rule });
    let own: Vec<_> = own.collect();
    town.chain("own", Encapsulation::Nsh, &[&["v3"]], &own);
    Rig::new(town)
}
