//! Golden, property and damage tests of LLDP.

use std::vec::Vec;

use proptest::collection::vec as any_vec;
use proptest::prelude::*;

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};

const OWN: &str = include_str!("../../../../conformance/lldp/own.hex");
const FOREIGN: &str = include_str!("../../../../conformance/lldp/foreign.hex");
const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

const fn local(value: &[u8]) -> Identifier<'_> {
    Identifier { subtype: Identifier::LOCAL, value }
}

/// A signature that says what it was made of.
fn sign(signed: &[u8]) -> [u8; 16] {
    let sum = signed.iter().fold(signed.len() as u8, |sum, octet| sum.wrapping_mul(31) ^ octet);
    [sum; 16]
}

fn own() -> LldpFrame<'static> {
    LldpFrame {
        source: SOURCE,
        chassis: local(b"a1"),
        port: Identifier { subtype: Identifier::INTERFACE_NAME, value: b"c1" },
        seconds: 4,
        port_description: None,
        system_name: Some(b"a1"),
        own: Some(OwnTlv { boot: 0x0102, sequence: 3, port: 17, signature: [0; 16] }),
        signed: &[],
    }
}

fn written(frame: &LldpFrame<'_>) -> Vec<u8> {
    let mut into = [0xa5; FRAME_MAX];
    let len = frame.emit(&mut into, sign).unwrap();
    into[..len].to_vec()
}

#[test]
fn the_golden_frame_is_written_and_read() {
    let golden = hex(OWN);
    assert_eq!(written(&own()), golden);
    let read = LldpFrame::parse(&golden).unwrap();
    assert_eq!(sign(read.signed), read.own.unwrap().signature);
    let end_and_signature = 2 + 16;
    assert_eq!(read.signed, &golden[SOURCE_AT..golden.len() - end_and_signature]);
    let signature = read.own.unwrap().signature;
    let expected = OwnTlv { signature, ..own().own.unwrap() };
    assert_eq!(read, LldpFrame { own: Some(expected), signed: read.signed, ..own() });
}

#[test]
fn a_foreign_frame_is_read_past_what_nobody_knows() {
    let golden = hex(FOREIGN);
    let read = LldpFrame::parse(&golden).unwrap();
    assert_eq!(read.system_name, Some(&b"tor-7"[..]));
    assert_eq!(read.port_description, Some(&b"uplink"[..]));
    assert_eq!(read.chassis, Identifier { subtype: 4, value: &[2, 0, 0, 0, 0, 9] });
    assert_eq!((read.seconds, read.own, read.signed), (120, None, &[][..]));
}

#[test]
fn frames_whose_tlvs_are_not_in_order_are_refused_by_name() {
    let golden = hex(FOREIGN);
    let (head, tlvs) = golden.split_at(HEADER_BYTES);
    let chassis = &tlvs[..9];
    let with = |tlvs: &[&[u8]]| [head, &tlvs.concat()].concat();
    let port: &[u8] = &[0x04, 0x02, 7, b'p'];
    let seconds: &[u8] = &[0x06, 0x02, 0, 1];
    let end: &[u8] = &[0, 0];
    let cases: [(&[&[u8]], LldpError); 10] = [
        (&[end], LldpError::Order(0)),
        (&[port, chassis, seconds, end], LldpError::Order(2)),
        (&[chassis, port, end], LldpError::Order(0)),
        (&[chassis, port, seconds, chassis, end], LldpError::Order(1)),
        (&[chassis, port, seconds], LldpError::NoEnd),
        (&[chassis, port, seconds, &[0x0a, 9, b'n'], end], LldpError::Cut(5)),
        (&[chassis, port, seconds, &[0x0a, 0], &[0x0a, 0], end], LldpError::Twice(5)),
        (&[&[0x02, 1, 7], port, seconds, end], LldpError::Value(1)),
        (&[chassis, port, &[0x06, 1, 0], end], LldpError::Value(3)),
        (&[chassis, port, seconds, &[0xfe, 5, 0x0a, 0xca, 0x7e, 1, 0], end], LldpError::Value(127)),
    ];
    for (tlvs, expected) in cases {
        assert_eq!(LldpFrame::parse(&with(tlvs)), Err(expected));
    }
    let mut other = golden.clone();
    other[13] = 0xcd;
    assert_eq!(LldpFrame::parse(&other), Err(LldpError::EtherType(EtherType(0x88cd))));
    let mut further = golden.clone();
    further[5] = 0x03;
    assert_eq!(LldpFrame::parse(&further), Err(LldpError::NotFromNeighbour));
    let tagged = [&golden[..12], &[0x81, 0, 0, 5], &golden[12..]].concat();
    assert_eq!(LldpFrame::parse(&tagged), Err(LldpError::NotFromNeighbour));
}

#[test]
fn what_has_no_room_is_not_written() {
    let mut into = [0; FRAME_MAX];
    for have in 0..hex(OWN).len() {
        let error = own().emit(&mut into[..have], sign).unwrap_err();
        assert!(matches!(error, LldpError::Ethernet(EthernetError::Truncated { .. })), "{error}");
    }
    let long = [b'x'; TEXT_MAX + 1];
    let cases = [
        (LldpFrame { chassis: local(&[]), ..own() }, kind::CHASSIS),
        (LldpFrame { port: local(&long), ..own() }, kind::PORT),
        (LldpFrame { system_name: Some(&long), ..own() }, kind::SYSTEM_NAME),
    ];
    for (frame, kind) in cases {
        assert_eq!(frame.emit(&mut into, sign), Err(LldpError::Value(kind)));
    }
}

#[test]
fn damaged_frames_are_refused_or_have_another_signature() {
    let golden = hex(OWN);
    each_truncation(&golden, |cut| assert!(LldpFrame::parse(cut).is_err()));
    let parsed = LldpFrame::parse(&golden).unwrap();
    let signature = parsed.own.unwrap().signature;
    each_bit_flip(&golden, |damaged| {
        let Ok(LldpFrame { own: Some(own), signed, .. }) = LldpFrame::parse(damaged) else {
            return;
        };
        let is_same = own.signature == signature && signed == parsed.signed;
        assert_eq!(is_same, damaged == golden);
    });
}

proptest! {
    #[test]
    fn whatever_is_written_is_read(
        chassis in any_vec(any::<u8>(), 1..=TEXT_MAX),
        port in any_vec(any::<u8>(), 1..=TEXT_MAX),
        description in proptest::option::of(any_vec(any::<u8>(), 0..=TEXT_MAX)),
        name in proptest::option::of(any_vec(any::<u8>(), 0..=TEXT_MAX)),
        numbers in proptest::option::of(any::<(u64, u64, u8)>()),
        seconds in any::<u16>(),
    ) {
        let own = numbers.map(|(boot, sequence, port)| {
            OwnTlv { boot, sequence, port, signature: [0; 16] }
        });
        let frame = LldpFrame {
            source: SOURCE,
            chassis: local(&chassis),
            port: local(&port),
            seconds,
            port_description: description.as_deref(),
            system_name: name.as_deref(),
            own,
            signed: &[],
        };
        let bytes = written(&frame);
        let read = LldpFrame::parse(&bytes).unwrap();
        let signature = own.map_or([0; 16], |_| sign(read.signed));
        let own = own.map(|own| OwnTlv { signature, ..own });
        prop_assert_eq!(read, LldpFrame { own, signed: read.signed, ..frame });
    }

    #[test]
    fn no_bytes_are_too_much(bytes in any_vec(any::<u8>(), 0..200)) {
        let frame = [&[1, 0x80, 0xc2, 0, 0, 0xe, 2, 0, 0, 0, 0, 1, 0x88, 0xcc], &bytes[..]];
        let _ = LldpFrame::parse(&frame.concat());
    }
}
