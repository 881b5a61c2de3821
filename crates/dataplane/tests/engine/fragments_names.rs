//! Fragments of one name that are not of one packet: what a receiver refused or never got does not
//! let the others past a function.

use crate::fragments_order::{both, cut, nothing_is_dropped, pieces, upper};
use crate::frames::Spec;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, with_chain};
use catena_io::Offload;
use catena_model::resource::Encapsulation;
use catena_wire::ipv4;
use catena_wire::scalar::MacAddr;

/// Nobody in the network has it.
const NOBODY: MacAddr = MacAddr([2, 0xde, 0xad, 0, 0xbe, 0xef]);
/// How long receivers keep a fragment, in milliseconds, and a second more.
const KEPT_MS: u64 = 61_000;
const WAIT_MS: u64 = 1_000;
const IP: usize = 14;
const BEHIND_IPV4: usize = IP + 20;
const BEHIND_IPV6: usize = IP + 40;

fn rig() -> Rig {
    Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]))
}

/// The frame with an option that makes receivers refuse it: IPv4's source route, and of IPv6 one
/// that they do not know.
fn with_refused_option(mut frame: Vec<u8>, is_v4: bool) -> Vec<u8> {
    if is_v4 {
        frame.splice(BEHIND_IPV4..BEHIND_IPV4, [0x83, 7, 4, 10, 0, 0, 99, 0]);
        frame[IP] = 0x47;
        let length = u16::try_from(frame.len() - IP).unwrap();
        frame[IP + 2..IP + 4].copy_from_slice(&length.to_be_bytes());
        ipv4::refresh_checksum(&mut frame[IP..]).unwrap();
    } else {
        let next = frame[IP + 6];
        frame.splice(BEHIND_IPV6..BEHIND_IPV6, [next, 0, 0x5e, 4, 0, 0, 0, 0]);
        frame[IP + 6] = 0;
        let length = u16::try_from(frame.len() - BEHIND_IPV6).unwrap();
        frame[IP + 4..IP + 6].copy_from_slice(&length.to_be_bytes());
    }
    frame
}

/// A first fragment that no rule wants, eight bytes long; the rest of a datagram for the chain; its
/// own first fragment.
fn fake_rest_and_real(plain: &Spec, chained: &Spec) -> [Vec<u8>; 3] {
    let data = upper(chained);
    [
        cut(plain, 0, &upper(plain)[..8], true),
        cut(chained, 1, &data[8..], false),
        cut(chained, 0, &data[..8], true),
    ]
}

/// The real first fragment ends by name, behind all that came before.
fn the_real_one_ends(rig: &mut Rig, real: &[u8], what: &str) {
    rig.moved();
    rig.seen.clear();
    rig.send("S", real);
    assert_eq!(rig.moved().get("S dropped second_first_fragment"), Some(&1), "{what}");
    assert!(rig.take("D").is_empty() && rig.take("v1.in").is_empty(), "{what}");
}

#[test]
fn a_first_that_another_station_gets_or_none_opens_no_way_for_its_rest() {
    let mut rig = rig();
    for (identification, mac) in [(20, NOBODY), (21, MacAddr([0xff; 6]))] {
        let chained = both(&rig.town, CHAINED_PORT);
        for (plain, chained) in both(&rig.town, PLAIN_PORT).into_iter().zip(chained) {
            let astray = Spec { destination_mac: mac, identification, ..plain };
            let chained = Spec { identification, ..chained };
            let [fake, rest, real] = fake_rest_and_real(&astray, &chained);
            rig.send("S", &fake);
            assert_eq!(rig.moved().contains_key("S dropped unknown_mac"), mac == NOBODY);
            rig.send("S", &rest);
            the_real_one_ends(&mut rig, &real, "astray");
        }
    }
}

#[test]
fn a_first_that_receivers_refuse_opens_no_way_for_its_rest() {
    let mut rig = rig();
    let chained = both(&rig.town, CHAINED_PORT);
    for (plain, chained) in both(&rig.town, PLAIN_PORT).into_iter().zip(chained) {
        let [fake, rest, real] = fake_rest_and_real(&plain, &chained);
        let refused = with_refused_option(fake, plain.source.is_ipv4());
        rig.send("S", &refused);
        rig.send("S", &rest);
        assert_eq!(rig.take("D").len(), 2, "no rule wants it");
        the_real_one_ends(&mut rig, &real, "option");
        // As long as a receiver keeps the rest, and not for longer.
        rig.sleep(KEPT_MS - 2_000);
        the_real_one_ends(&mut rig, &real, "still");
        rig.sleep(2_000);
        rig.send("S", &real);
        assert_eq!((rig.take("v1.in").len(), rig.take("D").len()), (1, 1));
    }
}

#[test]
fn the_rest_keeps_its_way_from_when_it_came() {
    let mut rig = rig();
    let chained = both(&rig.town, CHAINED_PORT);
    for (plain, chained) in both(&rig.town, PLAIN_PORT).into_iter().zip(chained) {
        let [fake, rest, real] = fake_rest_and_real(&plain, &chained);
        rig.send("S", &fake);
        rig.sleep(KEPT_MS - 2_000);
        rig.send("S", &rest);
        rig.sleep(KEPT_MS - 2_000);
        the_real_one_ends(&mut rig, &real, "a late rest");
        rig.sleep(KEPT_MS);
    }
}

#[test]
fn a_first_that_comes_again_keeps_its_way_from_then() {
    let mut rig = rig();
    let chained = both(&rig.town, CHAINED_PORT);
    for (plain, chained) in both(&rig.town, PLAIN_PORT).into_iter().zip(chained) {
        let [fake, _, real] = fake_rest_and_real(&plain, &chained);
        for _ in 0..2 {
            rig.send("S", &real);
            assert_eq!(rig.take("v1.in").len(), 1);
            rig.sleep(KEPT_MS - 2_000);
        }
        the_real_one_ends(&mut rig, &fake, "it is the fake one here");
    }
}

#[test]
fn a_name_that_others_pushed_out_of_memory_keeps_its_way() {
    let mut rig = rig();
    for (plain, chained) in
        both(&rig.town, PLAIN_PORT).into_iter().zip(both(&rig.town, CHAINED_PORT))
    {
        let astray = Spec { destination_mac: NOBODY, ..plain };
        let data = upper(&chained);
        rig.send("S", &cut(&astray, 0, &upper(&astray)[..8], true));
        rig.send("S", &cut(&chained, 2, &data[16..], false));
        let others = (0..6_000_u16).map(|number| {
            let other = Spec { identification: 10_000 + number, ..astray.clone() };
            (cut(&other, 0, &upper(&other)[..8], true), Offload::default())
        });
        let others: Vec<_> = others.collect();
        for part in others.chunks(100) {
            rig.send_all("S", part.to_vec());
        }
        // The piece that was missing.
        the_real_one_ends(&mut rig, &cut(&chained, 0, &data[..16], true), "pushed out");
    }
}

#[test]
fn a_name_that_comes_again_passes_the_same_way_only() {
    let mut rig = rig();
    for (plain, chained) in
        both(&rig.town, PLAIN_PORT).into_iter().zip(both(&rig.town, CHAINED_PORT))
    {
        let other = Spec { ports: (7, PLAIN_PORT), ..plain.clone() };
        for whole in [&plain, &other, &plain] {
            pieces(whole).iter().rev().for_each(|piece| rig.send("S", piece));
            assert_eq!((rig.take("v1.in").len(), rig.take("D").len()), (0, 4));
        }
        nothing_is_dropped(&mut rig);
        // Which chain takes them, or none: all of the other packet ends.
        pieces(&chained).iter().rev().for_each(|piece| rig.send("S", piece));
        rig.sleep(WAIT_MS);
        let moved = rig.moved();
        assert_eq!(moved.get("S dropped second_first_fragment"), Some(&1));
        assert_eq!(moved.get("S dropped fragment_without_first"), Some(&3));
        assert!(rig.take("D").is_empty() && rig.take("v1.in").is_empty());
        rig.sleep(KEPT_MS);
        for _ in 0..2 {
            pieces(&chained).iter().rev().for_each(|piece| rig.send("S", piece));
            assert_eq!((rig.take("v1.in").len(), rig.take("D").len()), (4, 4));
        }
        nothing_is_dropped(&mut rig);
        for elsewhere in [plain, Spec { ports: (7, CHAINED_PORT), ..chained }] {
            the_real_one_ends(&mut rig, &pieces(&elsewhere)[0], "the other way round");
        }
    }
}

#[test]
fn two_ports_do_not_share_their_names() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    town.endpoint("E", 0, 0, &["10.0.0.3"]);
    let mut rig = Rig::new(town);
    let plain = Spec { payload: vec![7; 85], ..packet(&rig.town, PLAIN_PORT) };
    let chained = Spec { ports: (40_000, CHAINED_PORT), ..plain.clone() };
    pieces(&plain).iter().for_each(|piece| rig.send("E", piece));
    pieces(&chained).iter().for_each(|piece| rig.send("S", piece));
    assert_eq!((rig.take("v1.in").len(), rig.take("D").len()), (4, 8));
    nothing_is_dropped(&mut rig);
}
