//! What clients, services and backends get of what was sent, byte by byte.

use super::bench::*;
use crate::packet::Direction;
use catena_wire::checksum::{Sum, pseudo_header};
use catena_wire::field::UpperChecksum;
use catena_wire::frame::FrameView;
use catena_wire::icmp::error_message::{ErrorMessage, FRAME_BYTES_MAX, Said};
use catena_wire::scalar::IpProtocol;

const KINDS: [(bool, IpProtocol); 4] = [
    (false, IpProtocol::TCP),
    (false, IpProtocol::UDP),
    (true, IpProtocol::TCP),
    (true, IpProtocol::UDP),
];

/// The checksum of the upper layer, left open: the sum of the pseudo header.
fn open(mut frame: Vec<u8>) -> Vec<u8> {
    let view = FrameView::parse(&frame).unwrap();
    let (flow, at) = (view.flow.unwrap(), usize::from(view.l4_offset.unwrap()));
    let length = view.end - u32::from(view.l4_offset.unwrap());
    let sum = pseudo_header(flow.source, flow.destination, flow.protocol, length).folded();
    let field = at + if flow.protocol == IpProtocol::TCP { 16 } else { 6 };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn a_packet_is_to_the_backend_and_its_answer_from_the_service() {
    for (is_v6, protocol) in KINDS {
        let mut bench = Bench::new(&text((is_v6, protocol), 3, ("", "", "")));
        for number in 0..40 {
            let (client, service) = (client(is_v6, number), service(is_v6));
            let sent = frame(protocol, client, service, SYN);
            let out = bench.forward(&sent).out.unwrap();
            let to = ends(&out).1;
            assert!((1..=3).any(|one| backend(is_v6, one) == to), "{to:?}");
            assert_eq!(out, frame(protocol, client, to, SYN));
            let answer = frame(protocol, to, client, SYN_ACK);
            let back = bench.backward(&answer).out.unwrap();
            assert_eq!(back, frame(protocol, service, client, SYN_ACK));
            // The same left open, and as one of five.
            for packets in [1, 5] {
                let how = (UpperChecksum::Open, packets);
                let out = bench.pass_as(Direction::Forward, &open(sent.clone()), how).out;
                assert_eq!(out.unwrap(), open(frame(protocol, client, to, SYN)));
                let back = bench.pass_as(Direction::Backward, &open(answer.clone()), how).out;
                assert_eq!(back.unwrap(), open(frame(protocol, service, client, SYN_ACK)));
            }
        }
        assert_eq!(bench.counted("backend"), 40 * 14);
        // What is none of its own passes as it is.
        let others = frame(protocol, client(is_v6, 1), (service(is_v6).0, 81), SYN);
        assert_eq!(bench.forward(&others).out.unwrap(), others);
        let others = frame(protocol, backend(is_v6, 1), client(is_v6, 999), SYN_ACK);
        assert_eq!(bench.backward(&others).out.unwrap(), others);
    }
}

#[test]
fn a_datagram_without_a_checksum_keeps_none() {
    let mut bench = Bench::new(&text((false, IpProtocol::UDP), 2, ("", "", "")));
    let mut sent = frame(IpProtocol::UDP, client(false, 1), service(false), SYN);
    sent[40..42].fill(0);
    let out = bench.forward(&sent).out.unwrap();
    assert_eq!(out[40..42], [0, 0]);
    assert_eq!(ends(&out).1.1, 8_080);
}

#[test]
fn fragments_go_where_their_first_went() {
    for (is_v6, protocol) in KINDS {
        let mut bench = Bench::new(&text((is_v6, protocol), 3, ("", "", "")));
        let (client, service) = (client(is_v6, 3), service(is_v6));
        let [first, later] = fragments(&frame(protocol, client, service, SYN), 32);
        let came = bench.forward(&later);
        assert!(bench.why(&came).contains("whose first has not been seen"), "{came:?}");
        let out = bench.forward(&first).out.unwrap();
        let to = FrameView::parse(&out).unwrap().flow.unwrap().destination;
        let to = (to, 8_080);
        let expected = fragments(&frame(protocol, client, to, SYN), 32);
        assert_eq!([out, bench.forward(&later).out.unwrap()], expected);
        let answer = fragments(&frame(protocol, to, client, SYN_ACK), 40);
        let expected = fragments(&frame(protocol, service, client, SYN_ACK), 40);
        assert_eq!(answer.map(|part| bench.backward(&part).out.unwrap()), expected);
        // After half a minute they are forgotten (RFC 791 section 3.2).
        bench.elapse(30_000);
        assert!(bench.forward(&later).out.is_err());
    }
}

#[test]
fn a_first_fragment_without_its_checksum_ends() {
    let mut bench = Bench::new(&text((false, IpProtocol::TCP), 3, ("", "", "")));
    let sent = frame(IpProtocol::TCP, client(false, 3), service(false), SYN);
    let came = bench.forward(&fragments(&sent, 16)[0]);
    assert!(came.out.is_err(), "{came:?}");
}

/// An error about a frame, which some router or host sends back.
fn error(about: &[u8], from: Place) -> Vec<u8> {
    let (is_v6, to) = (from.0.is_ipv6(), ends(about).0.0);
    let mut room = vec![0; FRAME_BYTES_MAX];
    let said = if is_v6 { Said::unreachable_v6(4) } else { Said::unreachable_v4(3) };
    let macs = shape(IpProtocol::TCP, from, from, SYN).macs;
    let message = ErrorMessage::judge(about).unwrap();
    let length = message.emit(said, macs, &mut room).unwrap();
    room.truncate(length);
    let view = FrameView::parse(&room).unwrap();
    let own = match from.0 {
        std::net::IpAddr::V4(v4) => v4.to_bits().into(),
        std::net::IpAddr::V6(v6) => v6.to_bits(),
    };
    let bits = (own, u128::MAX);
    let field = catena_wire::field::Field::Source;
    field.write(&mut room, &view, bits, UpperChecksum::Closed).unwrap();
    assert_eq!(FrameView::parse(&room).unwrap().flow.unwrap().destination, to);
    room
}

/// Are the checksums right?
pub(super) fn is_sound(frame: &[u8]) -> bool {
    let view = FrameView::parse(frame).unwrap();
    let flow = view.flow.unwrap();
    let upper = &frame[usize::from(view.l4_offset.unwrap())..view.end as usize];
    let before = if flow.protocol == IpProtocol::ICMP {
        Sum::EMPTY
    } else {
        pseudo_header(flow.source, flow.destination, flow.protocol, upper.len() as u32)
    };
    let is_headed = flow.source.is_ipv6() || Sum::of(&frame[14..34]).is_correct();
    is_headed && before.then_bytes(upper).is_correct()
}

#[test]
fn errors_say_what_who_gets_them_has_sent() {
    for (is_v6, protocol) in KINDS {
        let mut bench = Bench::new(&text((is_v6, protocol), 3, ("", "", "")));
        let (client, service) = (client(is_v6, 5), service(is_v6));
        let router = place(is_v6, ("192.0.2.1", "2001:db8:a::1"), 0);
        let sent = frame(protocol, client, service, SYN);
        let out = bench.forward(&sent).out.unwrap();
        let to = ends(&out).1;
        let answer = frame(protocol, to, client, SYN_ACK);
        let back = bench.backward(&answer).out.unwrap();
        for (direction, about, original, from, seen_from) in [
            (Direction::Backward, &out, &sent, to, service),
            (Direction::Backward, &out, &sent, router, router),
            (Direction::Forward, &back, &answer, client, client),
            (Direction::Forward, &back, &answer, router, router),
        ] {
            let said = error(about, from);
            let came = bench.pass(direction, &said).out.unwrap();
            assert!(is_sound(&came), "{is_v6} {protocol:?} {direction:?}");
            let expected = error(original, seen_from);
            // Headers differ in nothing but what is translated; quotes are of the sender's own bytes.
            assert_eq!(came, expected, "{is_v6} {protocol:?} {direction:?} {from:?}");
        }
        // About what nobody has sent: as it is.
        let strange = frame(protocol, (client.0, 1), to, SYN);
        let said = error(&strange, to);
        assert_eq!(bench.backward(&said).out.unwrap(), said);
    }
}

#[test]
fn errors_that_quote_eight_bytes_are_translated() {
    let mut bench = Bench::new(&text((false, IpProtocol::TCP), 3, ("", "", "")));
    let (client, service) = (client(false, 5), service(false));
    let out = bench.forward(&frame(IpProtocol::TCP, client, service, SYN)).out.unwrap();
    let to = ends(&out).1;
    // RFC 792: the header and 64 bits of what was sent.
    let cut = |mut said: Vec<u8>| {
        said.truncate(14 + 20 + 8 + 20 + 8);
        said[16..18].copy_from_slice(&56_u16.to_be_bytes());
        for (range, at) in [(14..34, 24), (34..70, 36)] {
            said[at..at + 2].fill(0);
            let sum = Sum::of(&said[range]).checksum();
            said[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        said
    };
    let came = bench.backward(&cut(error(&out, to))).out.unwrap();
    let sent = frame(IpProtocol::TCP, client, service, SYN);
    assert_eq!(came, cut(error(&sent, service)));
}
