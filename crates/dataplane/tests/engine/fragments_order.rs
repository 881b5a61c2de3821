//! Fragments in whatever order: none is let past a function because its first has not come yet.

use crate::frames::Spec;
use crate::rig::{Behaviour, Rig, route};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, with_chain};
use crate::town::{Town, node_address};
use catena_dataplane::engine::TunnelKind;
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::limits::{PORT_FRAGMENT_BYTES_WAITING_MAX, PORT_FRAGMENTS_WAITING_MAX};
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_wire::scalar::IpProtocol;

const FUNCTIONS: [&str; 4] = ["v1.in", "v2.in", "v3.in", "v4.in"];
const ALL: &[&[&str]] = &[&["v1"], &["v2"], &["v3"], &["v4"]];
/// How long fragments wait, in milliseconds.
const WAIT_MS: u64 = 1_000;

/// A frame that holds these bytes of what is cut, from an offset in units of eight bytes on.
pub(crate) fn cut(whole: &Spec, start: u16, data: &[u8], more: bool) -> Vec<u8> {
    if whole.source.is_ipv4() {
        // As a later one, so that no header is made; then where it is.
        let spec = Spec { fragment: (1, more), payload: data.to_vec(), ..whole.clone() };
        let mut frame = spec.frame();
        let word = start | u16::from(more) << 13;
        frame[20..22].copy_from_slice(&word.to_be_bytes());
        catena_wire::ipv4::refresh_checksum(&mut frame[14..]).unwrap();
        return frame;
    }
    let mut payload = vec![whole.protocol.0, 0];
    payload.extend((start << 3 | u16::from(more)).to_be_bytes());
    payload.extend(u32::from(whole.identification).to_be_bytes());
    payload.extend(data);
    Spec { protocol: IpProtocol::FRAGMENT, payload, ..whole.clone() }.frame()
}

/// What follows the IP header of a whole packet.
pub(crate) fn upper(whole: &Spec) -> Vec<u8> {
    let from = if whole.source.is_ipv4() { 34 } else { 54 };
    whole.frame().split_off(from)
}

/// A datagram in pieces of 24 bytes, in order.
pub(crate) fn pieces(whole: &Spec) -> Vec<Vec<u8>> {
    let data = upper(whole);
    let last = data.len().div_ceil(24) - 1;
    let piece = |(number, part): (usize, &[u8])| {
        cut(whole, u16::try_from(number * 3).unwrap(), part, number != last)
    };
    data.chunks(24).enumerate().map(piece).collect()
}

pub(crate) fn both(town: &Town, port: u16) -> [Spec; 2] {
    [packet(town, port), packet_v6(town, port)].map(|spec| Spec { payload: vec![7; 85], ..spec })
}

/// Every order of four.
fn orders() -> Vec<[usize; 4]> {
    let numbers = (0..256_usize).map(|n| [n & 3, n >> 2 & 3, n >> 4 & 3, n >> 6]);
    numbers.filter(|order| (0..4).all(|n| order.contains(&n))).collect()
}

pub(crate) fn nothing_is_dropped(rig: &mut Rig) {
    let moved = rig.moved();
    assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
}

#[test]
fn fragments_in_any_order_meet_every_function_and_the_first_goes_first() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = Rig::new(with_chain(encapsulation, ALL));
        for whole in both(&rig.town, CHAINED_PORT) {
            for (number, order) in (1..).zip(orders()) {
                let whole = Spec { identification: number, ..whole.clone() };
                let pieces = pieces(&whole);
                assert_eq!(pieces.len(), 4);
                for place in order {
                    rig.send("S", &pieces[place]);
                }
                for port in FUNCTIONS {
                    let met = rig.take(port);
                    assert_eq!(met.len(), 4, "{port} {order:?}");
                    assert_eq!(met[0].len(), pieces[0].len(), "{port} {order:?}");
                }
                assert_eq!(rig.take("D").len(), 4, "{order:?}");
            }
        }
        nothing_is_dropped(&mut rig);
    }
}

#[test]
fn behind_a_rule_without_ports_all_meet_the_instance_of_the_first() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v2", "v4"]]);
    for (_, rule) in &mut town.chains[0].rules {
        rule.destination_ports = None;
    }
    let mut rig = Rig::new(town);
    let mut used = [0, 0];
    for number in 1..=40 {
        let whole = packet(&rig.town, CHAINED_PORT);
        let whole =
            Spec { identification: number, ports: (number, 7), payload: vec![7; 85], ..whole };
        for piece in pieces(&whole).iter().rev() {
            rig.send("S", piece);
        }
        let met = ["v2.in", "v4.in"].map(|port| rig.take(port).len());
        assert!(met == [4, 0] || met == [0, 4], "{met:?}");
        used[usize::from(met[0] == 0)] += 1;
    }
    assert!(used.iter().all(|used| *used > 5), "{used:?}");
    nothing_is_dropped(&mut rig);
}

#[test]
fn of_ipv6_all_parts_have_one_name_though_headers_stand_before_the_ports() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, ALL));
    let [_, whole] = both(&rig.town, CHAINED_PORT);
    // Eight bytes of destination options, before the datagram: the fragments say that they follow.
    let mut data = vec![IpProtocol::UDP.0, 0, 1, 4, 0, 0, 0, 0];
    data.extend(upper(&whole));
    let shape = Spec { protocol: IpProtocol::DESTINATION_OPTIONS, ..whole.clone() };
    for (number, is_reversed) in [(1, false), (2, true)] {
        let shape = Spec { identification: number, ..shape.clone() };
        // Later ones may name what they like.
        let other = Spec { protocol: IpProtocol::TCP, ..shape.clone() };
        let mut sent = vec![
            cut(&shape, 0, &data[..32], true),
            cut(&other, 4, &data[32..64], true),
            cut(&shape, 8, &data[64..], false),
        ];
        if is_reversed {
            sent.reverse();
        }
        for frame in &sent {
            rig.send("S", frame);
        }
        for port in FUNCTIONS {
            assert_eq!(rig.take(port).len(), 3, "{port}");
        }
        assert_eq!(rig.take("D").len(), 3);
    }
    nothing_is_dropped(&mut rig);
}

#[test]
fn what_no_rule_could_want_passes_at_once_and_the_rest_ends_by_name() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    for (_, rule) in &mut town.chains[0].rules {
        rule.source = "10.0.0.1/32".parse().ok();
    }
    let mut rig = Rig::new(town);
    let [whole, _] = both(&rig.town, CHAINED_PORT);
    let later = pieces(&whole).remove(1);
    for other in [
        Spec { source: "10.0.0.9".parse().unwrap(), ..whole.clone() },
        Spec { protocol: IpProtocol::ICMP, ..whole.clone() },
    ] {
        rig.send("S", &cut(&other, 8, &[1; 16], false));
        assert_eq!(rig.take("D").len(), 1, "{other:?}");
    }
    nothing_is_dropped(&mut rig);
    rig.send("S", &later);
    rig.sleep(WAIT_MS - 1);
    assert_eq!(rig.counters()[0].total().held, 1);
    rig.sleep(1);
    assert_eq!(rig.moved().get("S dropped fragment_without_first"), Some(&1));
    assert!(rig.take("D").is_empty() && rig.take("v1.in").is_empty());
}

#[test]
fn a_second_first_and_overlaps_with_the_first_end_by_name() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]));
    for (plain, chained) in
        both(&rig.town, PLAIN_PORT).into_iter().zip(both(&rig.town, CHAINED_PORT))
    {
        rig.moved();
        let (plain, chained) = (pieces(&plain), pieces(&chained));
        rig.send("S", &chained[0]);
        rig.send("S", &chained[0]);
        rig.send("S", &plain[0]);
        assert_eq!(rig.moved().get("S dropped second_first_fragment"), Some(&1));
        assert_eq!((rig.take("v1.in").len(), rig.take("D").len()), (2, 2));
    }
    let [udp, v6] = both(&rig.town, CHAINED_PORT);
    let tcp = Spec { protocol: IpProtocol::TCP, identification: 9, ..udp.clone() };
    for (number, whole) in [(30, udp), (31, v6), (32, tcp)] {
        let whole = Spec { identification: number, ..whole };
        let overlapping = cut(&whole, 1, &[9; 24], true);
        // Before the first, and behind it.
        for frame in [&overlapping, &pieces(&whole)[0], &overlapping] {
            rig.send("S", frame);
        }
        assert_eq!(rig.moved().get("S dropped fragment_overlap"), Some(&2));
        assert_eq!((rig.take("v1.in").len(), rig.take("D").len()), (1, 1));
    }
}

#[test]
fn lengths_that_are_off_by_one_let_nothing_past() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]));
    let mut number = 100;
    for whole in both(&rig.town, CHAINED_PORT) {
        let data = upper(&whole);
        for (first, second) in [(25, 3), (23, 3), (24, 2), (24, 4), (17, 2), (31, 4), (9, 1)] {
            for is_reversed in [false, true] {
                number += 1;
                let whole = Spec { identification: number, ..whole.clone() };
                let mut sent = [
                    cut(&whole, 0, &data[..first], true),
                    cut(&whole, second, &data[usize::from(second) * 8..], false),
                ];
                if is_reversed {
                    sent.reverse();
                }
                for frame in &sent {
                    rig.send("S", frame);
                }
                rig.sleep(WAIT_MS);
                let (met, delivered) = (rig.take("v1.in").len(), rig.take("D").len());
                assert_eq!(met, delivered, "{first} {second} {is_reversed}");
                let dropped: i64 = rig
                    .moved()
                    .iter()
                    .filter(|(name, _)| name.starts_with("S dropped"))
                    .map(|(_, count)| *count as i64)
                    .sum();
                assert_eq!(met as i64 + dropped, 2, "{first} {second} {is_reversed}");
            }
        }
    }
}

#[test]
fn what_a_function_gives_back_in_another_order_waits_for_its_first_too() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]));
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    for whole in both(&rig.town, CHAINED_PORT) {
        for piece in pieces(&whole) {
            rig.send("S", &piece);
        }
        let mut inside = rig.take("v1.in");
        assert_eq!(inside.len(), 4);
        inside.reverse();
        for (given, mut frame) in inside.into_iter().enumerate() {
            assert!(route(&mut frame, PROXY_MAC, rig.town.mac("v1.out")));
            assert_eq!(rig.seen.get("v4.in").map_or(0, Vec::len), 0, "{given}");
            rig.send("v1.out", &frame);
        }
        assert_eq!((rig.take("v4.in").len(), rig.take("D").len()), (4, 4));
    }
    nothing_is_dropped(&mut rig);
}

#[test]
fn what_an_aware_function_and_the_underlay_turn_round_waits_too_also_for_other_tables() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2", "v4"]]);
    town.speaking("v1", Encapsulation::Nsh);
    let mut rig = Rig::new(town);
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    for whole in both(&rig.town, CHAINED_PORT) {
        for piece in pieces(&whole) {
            rig.send("S", &piece);
        }
        let mut inside = rig.take("v1.in");
        inside.reverse();
        for mut frame in inside {
            frame[21] -= 1;
            frame[6..12].copy_from_slice(&rig.town.mac("v1.out").0);
            // Other tables with each packet.
            rig.apply();
            rig.send("v1.out", &frame);
        }
        let met = ["v2.in", "v4.in"].map(|port| rig.take(port).len());
        assert!(met == [4, 0] || met == [0, 4], "{met:?}");
        assert_eq!(rig.take("D").len(), 4);
    }
    nothing_is_dropped(&mut rig);

    // Datagrams of a tunnel that overtook one another.
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v2"], &["v4"]]));
    let [whole, _] = both(&rig.town, CHAINED_PORT);
    for piece in pieces(&whole) {
        rig.send("S", &piece);
    }
    let sent: Vec<Vec<u8>> =
        rig.datagrams.iter().filter(|sent| sent.from == 0).map(|sent| sent.bytes.clone()).collect();
    assert_eq!(sent.len(), 4);
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v2"], &["v4"]]));
    for payload in sent.iter().rev() {
        rig.apply();
        rig.send_datagram(1, TunnelKind::Path(Encapsulation::Nsh), node_address(0), payload);
    }
    assert_eq!(["v2.in", "v4.in", "D"].map(|port| rig.take(port).len()), [4, 4, 4]);
}

#[test]
fn what_waits_is_bounded_in_bytes_too() {
    const BYTES: usize = 8_000;
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]));
    let [whole, _] = both(&rig.town, CHAINED_PORT);
    let orphan = |number: u16| {
        let orphan = Spec { identification: number, ..whole.clone() };
        cut(&orphan, 4, &[1; BYTES], false)
    };
    let fit = PORT_FRAGMENT_BYTES_WAITING_MAX / orphan(1).len();
    assert!(fit < PORT_FRAGMENTS_WAITING_MAX);
    for number in 0..fit as u16 {
        rig.send("S", &orphan(number));
    }
    rig.assert_moved(&[("S received", fit as u64)]);
    rig.send("S", &orphan(fit as u16));
    rig.assert_only_dropped("S", DropReason::FragmentsWaitingFull);
    // A small one still fits, and when those have ended, all do.
    rig.send("S", &cut(&Spec { identification: 999, ..whole.clone() }, 4, &[1; 16], false));
    rig.assert_moved(&[("S received", 1)]);
    rig.sleep(WAIT_MS);
    rig.moved();
    rig.send("S", &orphan(1));
    rig.assert_moved(&[("S received", 1)]);
}

#[test]
fn what_waits_is_bounded_by_port_and_takes_no_place_from_others() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    for number in 3..9 {
        town.endpoint(&format!("E{number}"), 0, 0, &[&format!("10.0.0.{number}")]);
    }
    let mut rig = Rig::with(town, |_| {}, 1_024);
    let [whole, _] = both(&rig.town, CHAINED_PORT);
    let flood = |number: u16| {
        let orphan = Spec { identification: number, ..whole.clone() };
        (cut(&orphan, 4, &[1; 16], false), Offload::default())
    };
    for port in ["E3", "E4", "E5", "E6", "E7", "E8"] {
        rig.moved();
        rig.send_all(port, (1..=200).map(flood));
        let refused = *rig.moved().get(&format!("{port} dropped fragments_waiting_full")).unwrap();
        assert!(refused >= 72, "{port} {refused}");
    }
    // A quiet one, whose datagrams come last part first.
    rig.moved();
    for number in 1..=100 {
        let quiet = Spec { identification: number, ports: (number, CHAINED_PORT), ..whole.clone() };
        for piece in pieces(&quiet).iter().rev() {
            rig.send("S", piece);
        }
    }
    assert_eq!((rig.take("v1.in").len(), rig.take("D").len()), (400, 400));
    let moved = rig.moved();
    assert!(!moved.keys().any(|name| name.starts_with("S dropped")), "{moved:?}");
    rig.sleep(WAIT_MS);
    rig.check();
    let left: u64 = rig.counters().iter().map(|node| node.total().held).sum();
    assert_eq!(left, 0);
    let named = DropReason::FragmentsWaitingFull;
    assert!(rig.counters()[0].total().dropped[&named] > 6 * 72);
}
