//! How long packets are with functions outside, as engines measure it: whose time is told, and whose is not.

use crate::frames::Spec;
use crate::functions::from_port;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, with_chain};
use crate::super_frames::super_frame;
use crate::telemetry::{hang, hold};
use catena_io::Offload;
use catena_model::CounterScope;
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_model::sojourn_time::{RECENT_NS, SojournTime};
use catena_wire::ethernet;
use catena_wire::scalar::IpProtocol;

/// A chain over one function, which keeps what it gets until it is asked.
fn rig(by: Encapsulation) -> Rig {
    let mut rig = Rig::new(with_chain(by, &[&["v1"]]));
    hang(&mut rig, &["v1"]);
    rig
}

/// What all engines tell of the only function.
fn told(rig: &Rig) -> SojournTime {
    told_of(rig, "v1")
}

fn told_of(rig: &Rig, function: &str) -> SojournTime {
    let chains = rig.town.chains.iter().map(|chain| rig.town.chain_id(chain)).collect();
    let of = CounterScope { chains, ..CounterScope::default() };
    let mut sum = SojournTime::default();
    for node in &rig.nodes {
        let asked = node.counters_of(Some(&of));
        let hops = asked.chains.iter().flat_map(|chain| &chain.hops);
        for hop in hops.filter(|hop| hop.name == function) {
            sum.merge(&hop.sojourn_time);
        }
    }
    sum
}

/// Frames come out of the function as they are.
fn give_back(rig: &mut Rig, frames: Vec<Vec<u8>>) {
    for mut bytes in frames {
        ethernet::set_source(&mut bytes, rig.town.mac("v1.out")).unwrap();
        ethernet::set_destination(&mut bytes, PROXY_MAC).unwrap();
        rig.queue("v1.out", &bytes, Offload::default());
    }
    rig.run();
}

/// Drawn, timed, stood for, and together.
fn sums(rig: &Rig) -> [u64; 4] {
    let told = told(rig);
    [told.sampled, told.timed, told.packets, told.ns]
}

#[test]
fn packets_that_come_back_as_they_went_have_a_time_over_every_encapsulation() {
    for by in Encapsulation::ALL {
        let mut rig = rig(by);
        let sent = packet(&rig.town, CHAINED_PORT);
        rig.send("S", &sent.frame());
        assert_eq!(sums(&rig), [1, 0, 0, 0], "{by:?}");
        hold(&mut rig, ("v1", 12_800));
        assert_eq!(sums(&rig), [1, 1, 1, 12_800], "{by:?}");
        let told = told(&rig);
        let class = told.recent_quantile_ns(99).unwrap();
        assert!((12_800..12_800 * 9 / 8).contains(&class), "{class}");
        assert_eq!(told.recent_timed, 1);
        assert_eq!(rig.take("D").len(), 1, "{by:?}");
    }
}

#[test]
fn the_fast_path_times_what_the_reference_times() {
    let [with, without] = [true, false].map(|has_fast_path| {
        // What a function gives back takes the fast path where another one is next.
        let town = with_chain(Encapsulation::Nsh, &[&["v3"], &["v1"]]);
        let mut rig = Rig::with(town, |config| config.has_fast_path = has_fast_path, 512);
        hang(&mut rig, &["v3"]);
        let sent = packet(&rig.town, CHAINED_PORT);
        for round in 0..200_u64 {
            let frames = (0..3).map(|flow| {
                let payload = [round.to_be_bytes(), u64::from(flow).to_be_bytes()].concat();
                let spec = Spec { payload, ..from_port(&sent, 40 + flow) };
                (spec.frame(), Offload::default())
            });
            rig.send_all("S", frames);
            rig.now_ns += 3_000_000;
            hold(&mut rig, ("v3", 1_000 + 500 * round));
        }
        (told_of(&rig, "v3"), rig.by_fast_path())
    });
    assert_eq!(with.0, without.0);
    assert!(with.1 > 1_000 && without.1 == 0, "{} and {}", with.1, without.1);
    let SojournTime { sampled, timed, packets, .. } = with.0;
    assert_eq!(sampled, timed);
    assert!(packets.abs_diff(600) < 120, "{packets} of 600");
}

#[test]
fn what_is_lost_rewritten_or_like_another_is_drawn_and_has_no_time() {
    // Lost.
    let mut lost = rig(Encapsulation::Nsh);
    let sent = packet(&lost.town, CHAINED_PORT);
    lost.send("S", &sent.frame());
    lost.take("v1.in");
    assert_eq!(sums(&lost), [1, 0, 0, 0]);
    // With other bytes.
    let mut other = rig(Encapsulation::Nsh);
    other.send("S", &sent.frame());
    let mut held = other.take("v1.in");
    *held[0].last_mut().unwrap() ^= 1;
    give_back(&mut other, held);
    assert_eq!((sums(&other), other.take("D").len()), ([1, 0, 0, 0], 1));
    // Three that are alike are inside: the second one, which is drawn, may be any.
    let mut alike = rig(Encapsulation::Nsh);
    let elsewhere = from_port(&sent, 99);
    alike.send("S", &elsewhere.frame());
    for _ in 0..3 {
        alike.send("S", &sent.frame());
    }
    let drawn = sums(&alike)[0];
    assert!(drawn > 1, "{drawn}");
    hold(&mut alike, ("v1", 700));
    let [_, timed, ..] = sums(&alike);
    // The first of all, the one of the other flow, and the first of the three: nothing was before them.
    assert!(timed < drawn && timed >= 1, "{timed} of {drawn}");
}

#[test]
fn what_overtakes_within_its_flow_has_its_own_time() {
    let mut rig = rig(Encapsulation::Nsh);
    let sent = packet(&rig.town, CHAINED_PORT);
    let frame = |number: u8| Spec { payload: vec![number; 32], ..sent.clone() }.frame();
    // The first is drawn as nothing was before; draws are far enough apart for each of these, too.
    for number in 0..3 {
        rig.send("S", &frame(number));
        rig.now_ns += 10_000_000;
    }
    assert_eq!(sums(&rig), [3, 0, 0, 0]);
    let mut held = rig.take("v1.in");
    held.reverse();
    for frame in held {
        give_back(&mut rig, vec![frame]);
        rig.now_ns += 1_000_000;
    }
    // The last one was there for 10 ms, the second for 21, the first for 32.
    assert_eq!(sums(&rig), [3, 3, 3, 63_000_000]);
}

#[test]
fn a_super_frame_is_one_that_is_timed() {
    let mut rig = rig(Encapsulation::Nsh);
    let sent = packet(&rig.town, CHAINED_PORT);
    let spec = Spec { protocol: IpProtocol::TCP, payload: vec![7; 4_000], ..sent };
    let (bytes, offload) = super_frame(&spec);
    rig.queue("S", &bytes, offload);
    rig.run();
    let at = rig.seen.remove("v1.in").unwrap();
    assert_eq!((at.len(), sums(&rig)), (1, [1, 0, 0, 0]));
    rig.now_ns += 5_000;
    let mut back = at[0].bytes.clone();
    ethernet::set_source(&mut back, rig.town.mac("v1.out")).unwrap();
    ethernet::set_destination(&mut back, PROXY_MAC).unwrap();
    rig.queue("v1.out", &back, offload);
    rig.run();
    assert_eq!(sums(&rig), [1, 1, 1, 5_000]);
}

#[test]
fn what_is_recent_grows_old_while_sums_stay() {
    let mut rig = rig(Encapsulation::Nsh);
    let sent = packet(&rig.town, CHAINED_PORT);
    rig.send("S", &sent.frame());
    hold(&mut rig, ("v1", 12_800));
    rig.now_ns += RECENT_NS * 2;
    rig.send("S", &from_port(&sent, 7).frame());
    let told = told(&rig);
    assert_eq!((told.timed, told.recent_timed, told.recent.len()), (1, 0, 0));
}
