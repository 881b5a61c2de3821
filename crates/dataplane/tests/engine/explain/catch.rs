//! The next packet at a port: caught once, as it is on a wire, and never held up.

use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6, with_chain};
use crate::town::Town;
use catena_io::{Offload, PartialChecksum};
use catena_model::explain::CatchRequest;
use catena_model::resource::Encapsulation;

fn rig() -> Rig {
    Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]))
}

fn request(town: &Town, token: u64, port: &str, filter: &str) -> CatchRequest {
    CatchRequest { token, port: town.port_named(port).id, filter: filter.parse().unwrap() }
}

#[test]
fn the_next_packet_that_matches_is_caught_once_and_goes_on() {
    let mut rig = rig();
    let wanted = request(&rig.town, 1, "S", "ip6 and udp and dst port 5001");
    assert_eq!(rig.catch_next(0, &wanted), Ok(None));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.catch_next(0, &wanted), Ok(None), "another IP version");
    rig.now_ns += 1_000_000_000;
    let sent = packet_v6(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &sent);
    assert_eq!(rig.take("D").len(), 2, "nothing is held up");
    rig.now_ns += 2_000_000;
    let caught = rig.catch_next(0, &wanted).unwrap().unwrap();
    assert_eq!((caught.frame.0, caught.ago_ms), (sent.clone(), 2));
    rig.send("S", &sent);
    assert_eq!(rig.catch_next(0, &wanted), Ok(None), "the trap was disarmed, and is armed again");
}

#[test]
fn a_packet_whose_checksum_is_left_to_the_wire_is_caught_as_on_the_wire() {
    let mut rig = rig();
    let wanted = request(&rig.town, 1, "S", "");
    assert_eq!(rig.catch_next(0, &wanted), Ok(None));
    let whole = packet(&rig.town, CHAINED_PORT).frame();
    let mut partial = whole.clone();
    // UDP behind Ethernet and IPv4: the sum of the pseudo-header alone stands in the field.
    let mut sum: u32 =
        whole[26..34].chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum();
    sum += 17 + u32::try_from(whole.len() - 34).unwrap();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    partial[40..42].copy_from_slice(&u16::try_from(sum).unwrap().to_be_bytes());
    let checksum = Some(PartialChecksum { start: 34, offset: 6 });
    rig.send_all("S", [(partial, Offload { checksum, ..Offload::default() })]);
    assert_eq!(rig.catch_next(0, &wanted).unwrap().unwrap().frame.0, whole);
}

#[test]
fn traps_are_bounded_and_end_when_nobody_asks() {
    let mut rig = rig();
    for token in 0..8 {
        let wanted = request(&rig.town, token, "S", "tcp");
        assert_eq!(rig.catch_next(0, &wanted), Ok(None));
    }
    let late = request(&rig.town, 9, "S", "tcp");
    assert!(rig.catch_next(0, &late).is_err(), "there are eight");
    rig.now_ns += 6_000_000_000;
    assert_eq!(rig.catch_next(0, &late), Ok(None), "nobody asked for the others");
    let elsewhere = request(&rig.town, 10, "D", "");
    assert!(rig.catch_next(0, &elsewhere).is_err(), "D is a port of another node");
}
