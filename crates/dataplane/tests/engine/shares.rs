//! What all tenants of a node share: a flood of one takes nothing from another who is quiet.

use crate::frames::Spec;
use crate::proxy::arp_request;
use crate::rig::{Behaviour, Rig, route};
use crate::scene::{CHAINED_PORT, CUSTOMER, INTERNAL, packet, rules, three_hosts};
use crate::town::Town;
use catena_io::Offload;
use catena_model::program::{PROXY_MAC, PinEntry, RulePlace};
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};

/// New flows of the quiet tenant, and how many of them come between two parts of a flood.
const QUIET_FLOWS: u16 = 2_000;
const QUIET_AT_ONCE: u16 = 20;
/// Packets of a flood between two parts of the quiet tenant's.
const FLOOD_AT_ONCE: u32 = 400;
/// What the rig's buffers have room for.
const AT_ONCE: usize = 100;

/// Two tenants with a network, endpoints and a chain each: two functions on one host, a third on
/// another. Those of `noisy` may be the quiet one's too.
fn two_tenants() -> Town {
    let mut town = three_hosts();
    let other = town.network(300, &["10.3.0.0/24"]);
    let inner = town.network(400, &["10.4.0.0/24"]);
    town.endpoint("Q", 0, other, &["10.3.0.1"]);
    town.endpoint("R", 2, other, &["10.3.0.2"]);
    town.function("a1", 0, (CUSTOMER, INTERNAL));
    for (name, node) in [("w1", 0), ("x1", 0), ("w2", 1)] {
        town.function(name, node, (other, inner));
    }
    chain(&mut town, "noisy", "S", CUSTOMER, &[&["v1"], &["a1"], &["v2"]]);
    chain(&mut town, "quiet", "Q", other, &[&["w1"], &["x1"], &["w2"]]);
    town
}

fn chain(town: &mut Town, name: &str, source: &str, network: usize, hops: &[&[&str]]) {
    let port = town.port_named(source).id;
    let mut matches = rules(CHAINED_PORT);
    matches.iter_mut().for_each(|rule| rule.place = RulePlace::Port(port));
    town.chain(name, Encapsulation::Nsh, hops, &matches).destination = network;
}

fn noisy(town: &Town, number: u32) -> Spec {
    let [_, a, b, c] = number.to_be_bytes();
    let source = format!("10.0.0.{}", 10 + a % 200).parse().unwrap();
    let ports = (u16::from_be_bytes([b, c]), CHAINED_PORT);
    Spec { source, ports, ..packet(town, CHAINED_PORT) }
}

fn quiet(town: &Town, number: u16) -> Spec {
    Spec {
        source_mac: town.mac("Q"),
        destination_mac: town.mac("R"),
        source: "10.3.0.1".parse().unwrap(),
        destination: "10.3.0.2".parse().unwrap(),
        ports: (number, CHAINED_PORT),
        ..packet(town, CHAINED_PORT)
    }
}

fn send(rig: &mut Rig, port: &str, frames: impl IntoIterator<Item = Vec<u8>>) {
    let frames: Vec<_> = frames.into_iter().map(|frame| (frame, Offload::default())).collect();
    for part in frames.chunks(AT_ONCE) {
        rig.send_all(port, part.to_vec());
        // What a test of so many packets does not ask for.
        rig.log.clear();
        rig.datagrams.clear();
        rig.seen.retain(|port, _| port == "R");
    }
}

fn drops(rig: &Rig, port: &str, reason: DropReason) -> u64 {
    let ports = rig.counters().into_iter().flat_map(|node| node.ports);
    let found = ports.filter(|counters| counters.name == port);
    found.filter_map(|counters| counters.account.dropped.get(&reason).copied()).sum()
}

fn drops_of_chain(rig: &Rig, path: u32, reason: DropReason) -> u64 {
    let paths = rig.counters().into_iter().flat_map(|node| node.chains);
    let found = paths.filter(|counters| counters.path == PathId(path));
    found.filter_map(|counters| counters.dropped.get(&reason).copied()).sum()
}

#[test]
fn two_thousand_new_flows_of_a_quiet_tenant_arrive_beside_a_flood_of_small_flows() {
    let mut rig = Rig::with(two_tenants(), |config| config.flows_max = 8_192, 512);
    // The last of its functions keeps what it gets, so that all flows stay inside there.
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    let mut flood = 0;
    for first in (1..=QUIET_FLOWS).step_by(usize::from(QUIET_AT_ONCE)) {
        let frames: Vec<_> =
            (flood..flood + FLOOD_AT_ONCE).map(|n| noisy(&rig.town, n).frame()).collect();
        flood += FLOOD_AT_ONCE;
        send(&mut rig, "S", frames);
        let numbers = first..first + QUIET_AT_ONCE;
        let frames: Vec<_> = numbers.map(|n| quiet(&rig.town, n).frame()).collect();
        send(&mut rig, "Q", frames);
    }
    assert_eq!(rig.take("R").len(), usize::from(QUIET_FLOWS));
    // What is refused is counted where it came from: at the flood's port and at its chain.
    assert!(drops(&rig, "S", DropReason::FlowMemoryFull) > 1_000);
    assert!(drops_of_chain(&rig, 100, DropReason::FlowMemoryFull) > 1_000);
    // So is what is forgotten: of the quiet one what has come back, once it has as many flows.
    let crowded = rig.counters().swap_remove(0).crowded.ports;
    let [noisy, quiet] = ["S", "Q"].map(|port| crowded[&rig.town.port_named(port).id]);
    assert!(noisy > 1_000 && quiet < 100, "{noisy} {quiet}");
    assert_eq!(drops(&rig, "Q", DropReason::FlowMemoryFull), 0);
    assert_eq!(drops_of_chain(&rig, 101, DropReason::FlowMemoryFull), 0);
}

#[test]
fn who_is_alone_may_have_all_of_the_memory() {
    const FLOWS: u32 = 1_024;
    let mut town = three_hosts();
    chain(&mut town, "noisy", "S", CUSTOMER, &[&["v1"]]);
    let mut rig = Rig::with(town, |config| config.flows_max = FLOWS as usize, 512);
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    let frames: Vec<_> = (0..FLOWS).map(|n| noisy(&rig.town, n).frame()).collect();
    send(&mut rig, "S", frames);
    // A set may overflow before the limit is reached.
    assert!(drops(&rig, "S", DropReason::FlowMemoryFull) < u64::from(FLOWS) / 50);
    let frames: Vec<_> = (FLOWS..FLOWS + 100).map(|n| noisy(&rig.town, n).frame()).collect();
    send(&mut rig, "S", frames);
    assert!(drops(&rig, "S", DropReason::FlowMemoryFull) > 70);
}

/// The first and the last fragment of a datagram.
fn pieces(whole: &Spec) -> [Vec<u8>; 2] {
    let first = Spec { fragment: (0, true), payload: vec![1; 24], ..whole.clone() };
    let last = Spec { fragment: (4, false), payload: vec![2; 9], ..first.clone() };
    [first, last].map(|piece| piece.frame())
}

#[test]
fn two_thousand_new_flows_of_a_quiet_tenant_arrive_in_fragments_beside_a_flood_of_fragments() {
    let mut rig = Rig::new(two_tenants());
    let mut flood = 0;
    for first in (1..=QUIET_FLOWS).step_by(usize::from(QUIET_AT_ONCE)) {
        // First fragments that nothing follows, and later ones that had none before.
        let mut parts = Vec::new();
        for number in flood..flood + FLOOD_AT_ONCE {
            let identification = (number % 60_000) as u16;
            let [head, _] = pieces(&Spec { identification, ..noisy(&rig.town, number) });
            let identification = identification | 0x8000;
            let [_, tail] = pieces(&Spec { identification, ..noisy(&rig.town, number) });
            parts.extend([head, tail]);
        }
        flood += FLOOD_AT_ONCE;
        let numbers = first..first + QUIET_AT_ONCE;
        let quiet = numbers
            .map(|number| pieces(&Spec { identification: number, ..quiet(&rig.town, number) }));
        // Half of them in order, the others the other way round, with the flood between.
        let (one, other): (Vec<_>, Vec<_>) = quiet
            .enumerate()
            .map(|(number, [head, tail])| if number % 2 == 0 { (head, tail) } else { (tail, head) })
            .unzip();
        send(&mut rig, "Q", one);
        send(&mut rig, "S", parts);
        send(&mut rig, "Q", other);
        // The functions' fragments on the way are few; what waits of the flood ends by its time.
        rig.pass(20);
    }
    assert_eq!(rig.take("R").len(), 2 * usize::from(QUIET_FLOWS));
    assert!(drops(&rig, "S", DropReason::FragmentsWaitingFull) > 1_000);
    for reason in [DropReason::FragmentsWaitingFull, DropReason::FragmentWithoutFirst] {
        assert_eq!(drops(&rig, "Q", reason), 0, "{reason}");
    }
}

#[test]
fn flows_of_a_quiet_tenant_stay_on_their_version_beside_a_flood_of_flows() {
    const FLOWS: u16 = 60;
    let mut rig = Rig::with(two_tenants(), |config| config.classified_max = 1_024, 512);
    let frames: Vec<_> = (1..=FLOWS).map(|n| quiet(&rig.town, n).frame()).collect();
    send(&mut rig, "Q", frames.clone());
    rig.now_ns += 1_000_000;
    let flood: Vec<_> = (0..20_000).map(|n| noisy(&rig.town, n).frame()).collect();
    send(&mut rig, "S", flood);
    assert_eq!(rig.take("R").len(), usize::from(FLOWS));
    // A new version of the quiet chain, whose flows stay on the old one.
    let other = rig.town.chains[1].destination;
    chain(&mut rig.town, "quiet", "Q", other, &[&["x1"]]);
    rig.town.chains[1].rules.clear();
    let idle_ms = 30_000;
    let pin = PinEntry { old: PathId(101), new: PathId(102), instances: Vec::new(), idle_ms };
    rig.town.pins = vec![pin];
    rig.apply();
    send(&mut rig, "Q", frames);
    let paths = rig.counters().into_iter().flat_map(|node| node.chains);
    let entered = |path: u32| -> u64 {
        let own = paths.clone().filter(|counters| counters.path == PathId(path));
        own.map(|counters| counters.entered.packets).sum()
    };
    assert_eq!((entered(101), entered(102)), (2 * u64::from(FLOWS), 0));
    // What is forgotten is counted at whose flow it was.
    let crowded = rig.counters().swap_remove(0).crowded.paths;
    assert!(crowded[&PathId(100)] > 10_000 && !crowded.contains_key(&PathId(101)), "{crowded:?}");
}

#[test]
fn two_thousand_packets_of_a_quiet_tenant_keep_their_version_beside_a_flood_inside_a_function() {
    let mut rig = Rig::with(two_tenants(), |config| config.inside_max = 8_192, 512);
    for name in ["v1", "w1", "x1"] {
        rig.behaviours.insert(name.into(), Behaviour::Swallow);
    }
    // A further version of either chain, so that what is inside the first function is known one by one.
    let other = rig.town.chains[1].destination;
    chain(&mut rig.town, "noisy", "S", CUSTOMER, &[&["v1"]]);
    chain(&mut rig.town, "quiet", "Q", other, &[&["w1"]]);
    for new in [2, 3] {
        rig.town.chains[new].rules.clear();
    }
    rig.apply();
    let numbers = || 1..=QUIET_FLOWS;
    let earlier: Vec<_> = numbers().map(|n| quiet(&rig.town, n).frame()).collect();
    send(&mut rig, "Q", earlier.clone());
    rig.town.chains[3].rules = std::mem::take(&mut rig.town.chains[1].rules);
    rig.apply();
    let later = |n| Spec { payload: b"later".to_vec(), ..quiet(&rig.town, n) }.frame();
    let later: Vec<_> = numbers().map(later).collect();
    send(&mut rig, "Q", later);
    let flood = |n: u32| Spec { payload: n.to_be_bytes().to_vec(), ..noisy(&rig.town, n % 64) };
    let flood: Vec<_> = (0..20_000).map(|n| flood(n).frame()).collect();
    send(&mut rig, "S", flood);
    let back = |mut frame: Vec<u8>| {
        let mac = rig.town.mac("w1.out");
        assert!(route(&mut frame, PROXY_MAC, mac));
        frame
    };
    let back: Vec<_> = earlier.into_iter().map(back).collect();
    send(&mut rig, "w1.out", back);
    assert_eq!(rig.take("R").len(), 0, "none passes the function by that only the old version has");
    let paths = rig.counters().swap_remove(0).chains;
    let old = paths.iter().find(|counters| counters.path == PathId(101)).unwrap();
    assert_eq!(old.hops[1].delivered.packets, u64::from(QUIET_FLOWS));
    let crowded = rig.counters().swap_remove(0).crowded.ports;
    let [noisy, quiet] = ["S", "Q"].map(|port| rig.town.port_named(port).id);
    assert!(crowded[&noisy] > 10_000 && !crowded.contains_key(&quiet), "{crowded:?}");
}

#[test]
fn two_thousand_broadcasts_of_a_quiet_tenant_reach_all_beside_a_flood_of_broadcasts() {
    const STATIONS: u8 = 30;
    const FLOOD: usize = 60;
    const AT_ONCE: usize = 10;
    let mut town = two_tenants();
    for number in 0..STATIONS {
        let address = format!("10.0.0.{}", 100 + number);
        town.endpoint(&format!("E{number}"), 0, CUSTOMER, &[&address]);
    }
    let other = town.port_named("Q").network;
    town.endpoint("T", 0, other, &["10.3.0.3"]);
    let unlimited = std::num::NonZeroU32::MAX;
    let mut rig = Rig::with(town, |config| config.flood_frames_per_second = unlimited, 512);
    let flood = arp_request(rig.town.mac("S"), "10.0.0.1", "10.0.0.2");
    let quiet = arp_request(rig.town.mac("Q"), "10.3.0.1", "10.3.0.2");
    for _ in 0..usize::from(QUIET_FLOWS) / AT_ONCE {
        for _ in 0..FLOOD {
            rig.queue("S", &flood, Offload::default());
        }
        // They come last, when the flood has taken what it may.
        for _ in 0..AT_ONCE {
            rig.queue("Q", &quiet, Offload::default());
        }
        rig.run();
        rig.log.clear();
        rig.datagrams.clear();
        rig.seen.retain(|port, _| port == "R" || port == "T");
    }
    for port in ["R", "T"] {
        assert_eq!(rig.take(port).len(), usize::from(QUIET_FLOWS), "{port}");
    }
    assert!(drops(&rig, "S", DropReason::BuffersExhausted) > 1_000);
    assert_eq!(drops(&rig, "Q", DropReason::BuffersExhausted), 0);
}
