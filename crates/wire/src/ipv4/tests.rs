//! IPv4 against golden packets.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::golden;

fn udp() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/ipv4/udp.hex"))
}

fn fragment() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/ipv4/fragment_with_options.hex"))
}

fn udp_header() -> Ipv4Header {
    Ipv4Header {
        traffic_class: 0xb9,
        payload_bytes: 4,
        identification: 0x1234,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: FragmentOffset::new(0).unwrap(),
        ttl: 63,
        protocol: IpProtocol::UDP,
        source: Ipv4Addr::new(192, 0, 2, 1),
        destination: Ipv4Addr::new(198, 51, 100, 2),
    }
}

#[test]
fn deconstruct() {
    let bytes = fragment();
    let view = Ipv4View::parse(&bytes).unwrap();
    assert_eq!((view.traffic_class(), view.ecn()), (0, 0));
    assert_eq!(view.total_length(), 32);
    assert_eq!(view.identification(), 0xabcd);
    assert_eq!((view.reserved_flag(), view.dont_fragment(), view.more_fragments()), {
        (false, false, true)
    });
    assert_eq!((view.fragment_offset().get(), view.fragment_offset().bytes()), (185, 1480));
    assert_eq!((view.ttl(), view.protocol()), (1, IpProtocol::UDP));
    assert!(view.is_checksum_correct());
    assert_eq!(view.source(), Ipv4Addr::new(192, 0, 2, 1));
    assert_eq!(view.destination(), Ipv4Addr::new(198, 51, 100, 2));
    assert_eq!((view.header_len(), view.options()), (24, &[0x94, 4, 0, 0][..]));
    assert_eq!(view.payload(), [0x11; 8]);
}

#[test]
fn construct() {
    let mut bytes = vec![0xa5; udp().len()];
    Ipv4Header { payload_bytes: 0, identification: 0, ttl: 1, ..udp_header() }
        .emit(&mut bytes)
        .unwrap();
    set_total_length(&mut bytes, 24).unwrap();
    set_identification(&mut bytes, 0x1234).unwrap();
    set_ttl(&mut bytes, 63).unwrap();
    bytes[20..].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(bytes, udp());
    assert_eq!(identification(&bytes), Some(0x1234));
}

#[test]
fn parse() {
    let bytes = udp();
    let view = Ipv4View::parse(&bytes).unwrap();
    assert_eq!(view.header(), udp_header());
    assert_eq!((view.traffic_class(), view.ecn()), (0xb9, 1));
    assert!(view.is_checksum_correct());
    assert_eq!(view.checksum().to_be_bytes(), bytes[10..12]);
}

#[test]
fn emit() {
    let mut bytes = [0xa5; 24];
    assert_eq!(udp_header().emit(&mut bytes), Ok(20));
    assert_eq!(bytes[..20], udp()[..20]);
    assert_eq!(bytes[20..], [0xa5; 4]);
}

#[test]
fn every_value_of_every_field_survives() {
    let mut bytes = vec![0xa5; PACKET_BYTES_MAX];
    for value in 0..=u16::MAX {
        let [high, low] = value.to_be_bytes();
        let header = Ipv4Header {
            traffic_class: low,
            payload_bytes: usize::from(value).min(PACKET_BYTES_MAX - HEADER_BYTES),
            identification: value,
            dont_fragment: value & DONT_FRAGMENT != 0,
            more_fragments: value & MORE_FRAGMENTS != 0,
            fragment_offset: FragmentOffset::from_low_bits(u32::from(value)),
            ttl: low,
            protocol: IpProtocol(high),
            ..udp_header()
        };
        header.emit(&mut bytes).unwrap();
        let view = Ipv4View::parse(&bytes).unwrap();
        assert_eq!(view.header(), header);
        assert!(view.is_checksum_correct());
    }
}

#[test]
fn every_edit_keeps_the_checksum() {
    let mut bytes = udp();
    for value in 0..=u16::MAX {
        set_identification(&mut bytes, value).unwrap();
        set_ttl(&mut bytes, value as u8).unwrap();
        set_traffic_class(&mut bytes, (value >> 8) as u8).unwrap();
        let view = Ipv4View::parse(&bytes).unwrap();
        assert!(view.is_checksum_correct());
        assert_eq!(view.traffic_class(), (value >> 8) as u8);
    }
    for value in 20..=24 {
        set_total_length(&mut bytes, value).unwrap();
        let view = Ipv4View::parse(&bytes).unwrap();
        assert!(view.is_checksum_correct());
        assert_eq!(view.payload().len(), usize::from(value) - 20);
    }
}

#[test]
fn an_edit_does_not_heal_a_wrong_checksum_but_a_refresh_does() {
    let mut bytes = fragment();
    bytes[10] ^= 0x40;
    set_ttl(&mut bytes, 9).unwrap();
    assert!(!Ipv4View::parse(&bytes).unwrap().is_checksum_correct());
    refresh_checksum(&mut bytes).unwrap();
    assert!(Ipv4View::parse(&bytes).unwrap().is_checksum_correct());
    set_ttl(&mut bytes, 1).unwrap();
    assert_eq!(bytes, fragment());
}

#[test]
fn every_single_bit_error_in_the_header_breaks_its_checksum() {
    golden::each_bit_flip(&udp()[..20], |header| {
        let mut bytes = udp();
        bytes[..20].copy_from_slice(header);
        if let Ok(view) = Ipv4View::parse(&bytes) {
            assert!(!view.is_checksum_correct());
        }
    });
}

#[test]
fn contradictions_are_named() {
    let with = |at: usize, value: u8| {
        let mut bytes = udp();
        bytes[at] = value;
        Ipv4View::parse(&bytes).map(|_| ()).unwrap_err()
    };
    assert_eq!(with(0, 0x65), Ipv4Error::Version(6));
    assert_eq!(with(0, 0x44), Ipv4Error::HeaderLength { words: 4 });
    assert_eq!(with(0, 0x4f), Ipv4Error::Truncated { need: 60, have: 24 });
    assert_eq!(with(3, 19), Ipv4Error::TotalLength { field: 19, have: 24 });
    assert_eq!(with(3, 25), Ipv4Error::TotalLength { field: 25, have: 24 });
    golden::each_truncation(&udp(), |cut| {
        let error = match cut.len() {
            have @ 0..20 => Ipv4Error::Truncated { need: 20, have },
            have => Ipv4Error::TotalLength { field: 24, have },
        };
        assert_eq!(Ipv4View::parse(cut).map(|_| ()), Err(error));
    });
    let long = Ipv4Header { payload_bytes: 65_516, ..udp_header() };
    assert_eq!(long.emit(&mut [0; 20]), Err(Ipv4Error::TooLong { payload: 65_516 }));
    assert_eq!(refresh_checksum(&mut [0x41; 20]), Err(Ipv4Error::HeaderLength { words: 1 }));
}
