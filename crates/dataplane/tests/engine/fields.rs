//! Rules that look at fields beside the flow: one flow on several paths at once, told apart where they meet
//! in a function that knows nothing of chains, in every memory, in super-frames and in fragments.

use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, packet, packet_v6, rules, three_hosts};
use crate::super_frames::{stream, super_frame};
use crate::town::{Town, condition};
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::PathId;
use catena_model::classifier::FieldMatch;
use catena_model::program::{PROXY_MAC, PinEntry, RuleMatch, RulePlace};
use catena_model::resource::Encapsulation;
use catena_wire::frame::FrameView;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;
use catena_wire::varying::VaryingFields;

/// Expedited forwarding (RFC 3246).
const EF: u8 = 46;
const NUMBERS: usize = 42;

/// All packets for a port go by v2 and v3, those with a field by v2 and v4.
fn split(encapsulation: Encapsulation, fields: FieldMatch) -> Town {
    let mut town = three_hosts();
    town.chain("all", encapsulation, &[&["v2"], &["v3"]], &rules(CHAINED_PORT));
    let marked: Vec<_> =
        rules(CHAINED_PORT).into_iter().map(|matches| RuleMatch { fields, ..matches }).collect();
    let chain = town.chain("marked", encapsulation, &[&["v2"], &["v4"]], &marked);
    chain.rules.iter_mut().for_each(|(priority, _)| *priority = 11);
    town
}

fn with_dscp(spec: Spec, dscp: u8) -> Spec {
    Spec { varying: VaryingFields { dscp, ..spec.varying }, ..spec }
}

fn with_flags(spec: Spec, flags: TcpFlags) -> Spec {
    let varying = VaryingFields { tcp_flags: Some(flags), ..spec.varying };
    Spec { protocol: IpProtocol::TCP, varying, ..spec }
}

/// The last function that each packet met, in the order in which they were sent.
fn met(rig: &mut Rig, specs: &[Spec]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for spec in specs {
        rig.send("S", &spec.frame());
        rig.take("v2.in");
        let last =
            ["v3", "v4"].into_iter().find(|name| !rig.take(&format!("{name}.in")).is_empty());
        found.push(last.unwrap_or("none"));
    }
    found
}

#[test]
fn packets_of_one_flow_go_by_what_they_show_whether_new_or_remembered() {
    for encapsulation in Encapsulation::ALL {
        for make in [packet as fn(&Town, u16) -> Spec, packet_v6] {
            let mut rig = Rig::new(split(encapsulation, condition("dscp", "ef")));
            let sent = make(&rig.town, CHAINED_PORT);
            let specs: Vec<_> =
                [0, EF, EF, 10, 0, EF].map(|dscp| with_dscp(sent.clone(), dscp)).into();
            for round in 0..3 {
                let last = met(&mut rig, &specs);
                assert_eq!(last, ["v3", "v4", "v4", "v3", "v3", "v4"], "{encapsulation:?} {round}");
            }
            assert!(rig.by_fast_path() > 0);
            assert_eq!(rig.take("D").len(), 18);
            let moved = rig.moved();
            for (line, count) in [
                ("host1 path 100 entered", 9),
                ("host1 path 101 entered", 9),
                ("host2 path 100 finished", 9),
                ("host3 path 101 finished", 9),
            ] {
                assert_eq!(moved.get(line), Some(&count), "{line} {moved:#?}");
            }
            assert!(moved.keys().all(|line| !line.contains("dropped")), "{moved:#?}");
            rig.check();
        }
    }
}

#[test]
fn flags_of_tcp_choose_too_and_what_has_none_meets_no_condition_on_them() {
    let mut rig = Rig::new(split(Encapsulation::Nsh, condition("tcp_flags", "syn,!ack")));
    let sent = packet(&rig.town, CHAINED_PORT);
    let flags = [TcpFlags::SYN, TcpFlags::ACK, TcpFlags::SYN.with(TcpFlags::ACK), TcpFlags::SYN];
    let mut specs: Vec<_> = flags.map(|flags| with_flags(sent.clone(), flags)).into();
    specs.push(sent);
    for _ in 0..2 {
        assert_eq!(met(&mut rig, &specs), ["v4", "v3", "v3", "v4", "v3"]);
    }
}

/// Gives back what a function holds, in this order, as a router does.
fn give_back(rig: &mut Rig, mut order: impl FnMut(&mut Vec<Vec<u8>>)) {
    let mut held = rig.take("v2.in");
    order(&mut held);
    for mut frame in held {
        frame[..6].copy_from_slice(&PROXY_MAC.0);
        frame[6..12].copy_from_slice(&rig.town.mac("v2.out").0);
        rig.send("v2.out", &frame);
    }
}

#[test]
fn a_shared_function_may_hold_both_and_give_them_back_in_any_order() {
    let mut rig = Rig::new(split(Encapsulation::Nsh, condition("dscp", "ef")));
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    for number in 0..8_u8 {
        let sent = packet(&rig.town, CHAINED_PORT);
        let sent = Spec { payload: vec![number; 40], ..sent };
        rig.send("S", &with_dscp(sent, if number % 3 == 0 { EF } else { 0 }).frame());
    }
    give_back(&mut rig, |held| held.reverse());
    let numbers = |frames: Vec<Vec<u8>>| frames.iter().map(|f| f[NUMBERS]).collect::<Vec<_>>();
    assert_eq!(numbers(rig.take("v4.in")), [6, 3, 0]);
    assert_eq!(numbers(rig.take("v3.in")), [7, 5, 4, 2, 1]);
    assert_eq!(rig.take("D").len(), 8);
}

#[test]
fn what_a_shared_function_holds_takes_no_other_port_from_the_fast_path() {
    let other = CHAINED_PORT + 1;
    let mut town = split(Encapsulation::Nsh, condition("dscp", "ef"));
    town.chain("other", Encapsulation::Nsh, &[&["v3"], &["v1"]], &rules(other));
    let mut rig = Rig::new(town);
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    let sent = packet(&rig.town, other).frame();
    let by_fast_path = |rig: &mut Rig| {
        let before = rig.by_fast_path();
        rig.send("S", &sent);
        rig.by_fast_path() - before
    };
    by_fast_path(&mut rig);
    let alone = by_fast_path(&mut rig);
    let held = packet(&rig.town, CHAINED_PORT);
    for dscp in [0, EF] {
        rig.send("S", &with_dscp(held.clone(), dscp).frame());
    }
    assert_eq!(rig.take("v2.in").len(), 2);
    assert_eq!((by_fast_path(&mut rig), alone), (4, 4), "in, into v3, back, and into v1");
}

#[test]
fn a_flow_that_is_pinned_is_pinned_with_its_field() {
    let mut rig = Rig::new(split(Encapsulation::Nsh, condition("dscp", "ef")));
    let sent = packet(&rig.town, CHAINED_PORT);
    let marked = with_dscp(sent.clone(), EF);
    let both = [sent.clone(), marked.clone()];
    assert_eq!(met(&mut rig, &both), ["v3", "v4"]);
    // The chain of the marked ones goes by v3 from now on; flows that are under way stay.
    let mut newer = rig.town.chains[1].clone();
    rig.town.chains[1].rules.clear();
    (newer.path, newer.hops[1]) = (102, vec!["v3".into()]);
    rig.town.chains.push(newer);
    let (old, new) = (PathId(101), PathId(102));
    rig.town.pins = vec![PinEntry { old, new, instances: Vec::new(), idle_ms: 500 }];
    rig.apply();
    assert_eq!(
        met(&mut rig, &both),
        ["v3", "v4"],
        "the marked packets stay, the others never were"
    );
    let other = Spec { ports: (41_000, CHAINED_PORT), ..marked.clone() };
    assert_eq!(met(&mut rig, &[other, marked]), ["v3", "v4"]);
}

#[test]
fn a_super_frame_is_cut_where_its_packets_are_judged_each_for_itself() {
    let town = || split(Encapsulation::Nsh, condition("tcp_flags", "fin"));
    let finishing = TcpFlags::ACK.with(TcpFlags::FIN);
    for make in [packet as fn(&Town, u16) -> Spec, packet_v6] {
        let mut rig = Rig::new(town());
        let sent = make(&rig.town, CHAINED_PORT);
        // Without the flag that is asked for it goes on whole.
        let (frame, offload) =
            super_frame(&stream(&with_flags(sent.clone(), TcpFlags::ACK), 4_000));
        rig.send_all("S", [(frame, offload)]);
        assert_eq!(rig.moved().get("host1 path 100 entered"), Some(&3));
        let (frame, offload) = super_frame(&stream(&with_flags(sent, finishing), 4_000));
        rig.send_all("S", [(frame, offload)]);
        let moved = rig.moved();
        assert_eq!(moved.get("host1 path 100 entered"), Some(&2), "{moved:#?}");
        assert_eq!(moved.get("host1 path 101 entered"), Some(&1), "{moved:#?}");
        assert_eq!(moved.get("host3 path 101 finished"), Some(&1), "{moved:#?}");
        let last = rig.take("v4.in");
        let flags = FrameView::parse(&last[0]).unwrap().varying.tcp_flags;
        assert_eq!((last.len(), flags), (1, Some(finishing)));
        rig.check();
    }
}

#[test]
fn at_the_end_of_a_chain_it_is_cut_as_well() {
    let mut town = three_hosts();
    town.chain("root", Encapsulation::Nsh, &[&["v1"]], &rules(CHAINED_PORT));
    let after = |fields, name: &str, hop: &str, priority, town: &mut Town| {
        let place = RulePlace::After(PathId(100));
        let rules: Vec<_> = rules(CHAINED_PORT)
            .into_iter()
            .map(|matches| RuleMatch { place, fields, ..matches })
            .collect();
        let chain = town.chain(name, Encapsulation::Nsh, &[&[hop]], &rules);
        chain.rules.iter_mut().for_each(|(own, _)| *own = priority);
    };
    after(condition("tcp_flags", "fin"), "last", "v4", 11, &mut town);
    after(FieldMatch::default(), "others", "v3", 10, &mut town);
    let mut rig = Rig::new(town);
    let sent = packet(&rig.town, CHAINED_PORT);
    let finishing = TcpFlags::ACK.with(TcpFlags::FIN);
    let (frame, offload) = super_frame(&stream(&with_flags(sent, finishing), 4_000));
    rig.send_all("S", [(frame, offload)]);
    let moved = rig.moved();
    for (line, count) in [
        ("host1 path 100 entered", 3),
        ("host1 path 100 finished", 3),
        ("host1 path 101 entered", 1),
        ("host1 path 102 entered", 2),
    ] {
        assert_eq!(moved.get(line), Some(&count), "{line} {moved:#?}");
    }
    rig.check();
}

/// The first and the last fragment of a datagram.
fn pieces(whole: &Spec, first_bytes: usize) -> [Spec; 2] {
    let offset = u16::try_from(first_bytes / 8).unwrap();
    let header = if whole.protocol == IpProtocol::TCP { 20 } else { 8 };
    let first = vec![1; first_bytes - header];
    let first = Spec { fragment: (0, true), payload: first, ..whole.clone() };
    [first.clone(), Spec { fragment: (offset, false), payload: vec![2; 9], ..first }]
}

#[test]
fn later_fragments_are_judged_by_what_the_first_one_shows() {
    for (fields, whole) in [
        (condition("dscp", "ef"), with_dscp(packet(&three_hosts(), CHAINED_PORT), EF)),
        (
            condition("tcp_flags", "syn"),
            with_flags(packet(&three_hosts(), CHAINED_PORT), TcpFlags::SYN),
        ),
    ] {
        for is_first_late in [false, true] {
            let mut rig = Rig::new(split(Encapsulation::Nsh, fields));
            // A router on the way may have marked them differently.
            let [first, last] = pieces(&whole, 32);
            let last = with_dscp(last, 10);
            let mut sent = [first.frame(), last.frame()];
            if is_first_late {
                sent.reverse();
            }
            sent.iter().for_each(|frame| rig.send("S", frame));
            assert_eq!((rig.take("v4.in").len(), rig.take("v3.in").len()), (2, 0), "{fields:?}");
            assert_eq!(rig.take("D").len(), 2);
        }
    }
}

/// The first fragment of a packet, with eight bytes of TCP: ports and sequence number.
fn tiny(spec: &Spec) -> Vec<u8> {
    let mut frame = Spec { fragment: (0, true), ..spec.clone() }.frame();
    frame.truncate(14 + 20 + 8);
    frame[16..18].copy_from_slice(&28_u16.to_be_bytes());
    frame[24..26].fill(0);
    let sum = catena_wire::checksum::Sum::of(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn a_first_fragment_that_hides_what_rules_look_at_goes_nowhere() {
    let spec = with_flags(packet(&three_hosts(), CHAINED_PORT), TcpFlags::SYN);
    let mut rig = Rig::new(split(Encapsulation::Nsh, condition("tcp_flags", "syn")));
    rig.send("S", &tiny(&spec));
    rig.assert_only_dropped("S", DropReason::MalformedTransport);
    // Nothing was learned of it: the rest, which has the flags, finds no first one, and an honest first
    // one is the first.
    let rest = Spec { fragment: (1, false), payload: vec![0; 32], ..spec.clone() };
    rig.send("S", &rest.frame());
    assert!(["v2.in", "D"].iter().all(|port| rig.take(port).is_empty()));
    rig.pass(60_000);
    assert!(["v2.in", "D"].iter().all(|port| rig.take(port).is_empty()));
    let mut rig = Rig::new(split(Encapsulation::Nsh, condition("dscp", "ef")));
    rig.queue("S", &tiny(&spec), Offload::default());
    rig.run();
    assert_eq!(
        rig.take("v3.in").len(),
        1,
        "where nobody looks at flags, it is a fragment as others"
    );
}

#[test]
fn nor_does_it_pass_a_rule_at_the_end_of_a_chain() {
    let mut town = three_hosts();
    town.chain("root", Encapsulation::Nsh, &[&["v1"]], &rules(CHAINED_PORT));
    let (place, fields) = (RulePlace::After(PathId(100)), condition("tcp_flags", "syn"));
    let marked =
        rules(CHAINED_PORT).into_iter().map(|matches| RuleMatch { place, fields, ..matches });
    town.chain("openings", Encapsulation::Nsh, &[&["v4"]], &marked.collect::<Vec<_>>());
    let mut rig = Rig::new(town);
    let spec = with_flags(packet(&rig.town, CHAINED_PORT), TcpFlags::SYN);
    rig.send("S", &tiny(&spec));
    rig.assert_only_dropped("S", DropReason::MalformedTransport);
    assert!(rig.take("D").is_empty());
}

#[test]
fn a_pin_holds_while_rules_with_fields_come_and_go() {
    let mut town = three_hosts();
    town.chain("all", Encapsulation::Nsh, &[&["v2"], &["v3"]], &rules(CHAINED_PORT));
    let mut rig = Rig::new(town);
    let sent = with_dscp(packet(&rig.town, CHAINED_PORT), EF);
    assert_eq!(met(&mut rig, std::slice::from_ref(&sent)), ["v3"]);
    let mut newer = rig.town.chains[0].clone();
    rig.town.chains[0].rules.clear();
    (newer.path, newer.hops[1]) = (101, vec!["v4".into()]);
    rig.town.chains.push(newer);
    let (old, new) = (PathId(100), PathId(101));
    rig.town.pins = vec![PinEntry { old, new, instances: Vec::new(), idle_ms: 500 }];
    rig.apply();
    assert_eq!(met(&mut rig, std::slice::from_ref(&sent)), ["v3"]);
    let other = rules(9).into_iter().map(|matches| {
        let fields = condition("dscp", "ef");
        RuleMatch { fields, ..matches }
    });
    rig.town.chain("other", Encapsulation::Nsh, &[&["v4"]], &other.collect::<Vec<_>>()).path = 102;
    rig.apply();
    assert_eq!(met(&mut rig, std::slice::from_ref(&sent)), ["v3"], "a rule has come");
    rig.town.chains.pop();
    rig.apply();
    assert_eq!(met(&mut rig, std::slice::from_ref(&sent)), ["v3"], "it has gone");
    let flow = Spec { ports: (41_000, CHAINED_PORT), ..sent };
    assert_eq!(met(&mut rig, &[flow]), ["v4"], "others go the new way");
}

#[test]
fn a_rule_that_comes_or_goes_makes_nobody_remember_what_no_longer_holds() {
    let mut rig = Rig::new(split(Encapsulation::Nsh, condition("dscp", "ef")));
    let sent = packet(&rig.town, CHAINED_PORT);
    let both = [with_dscp(sent.clone(), EF), with_dscp(sent.clone(), 10)];
    assert_eq!(met(&mut rig, &both), ["v4", "v3"]);
    let conditions = [
        (condition("dscp", "af11"), ["v3", "v4"]),
        (FieldMatch::default(), ["v4", "v4"]),
        (condition("dscp", "ef"), ["v4", "v3"]),
    ];
    for (fields, expected) in conditions {
        rig.town.chains[1].rules.iter_mut().for_each(|(_, matches)| matches.fields = fields);
        rig.apply();
        assert_eq!(met(&mut rig, &both), expected);
        assert_eq!(met(&mut rig, &both), expected);
    }
}
