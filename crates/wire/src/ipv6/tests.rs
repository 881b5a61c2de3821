//! IPv6 against golden packets.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::golden;

fn plain() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/ipv6/plain.hex"))
}

fn extension_headers() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/ipv6/extension_headers.hex"))
}

fn later_fragment() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/ipv6/later_fragment.hex"))
}

fn plain_header() -> Ipv6Header {
    Ipv6Header {
        traffic_class: 0xb9,
        flow_label: FlowLabel::new(0x1_2345).unwrap(),
        payload_length: 3,
        next_header: IpProtocol::NO_NEXT,
        hop_limit: 255,
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8:1::2".parse().unwrap(),
    }
}

#[test]
fn deconstruct() {
    let bytes = plain();
    let view = Ipv6View::parse(&bytes).unwrap();
    assert_eq!((view.traffic_class(), view.ecn()), (0xb9, 1));
    assert_eq!((view.flow_label().get(), view.payload_length()), (0x1_2345, 3));
    assert_eq!((view.next_header(), view.hop_limit()), (IpProtocol::NO_NEXT, 255));
    assert_eq!(view.source(), plain_header().source);
    assert_eq!(view.destination(), plain_header().destination);
    assert_eq!((view.payload(), view.upper()), (&[1, 2, 3][..], &[1, 2, 3][..]));
    assert_eq!((view.upper_protocol(), view.upper_offset()), (IpProtocol::NO_NEXT, 40));
    assert_eq!(view.fragment(), None);
}

#[test]
fn construct() {
    let mut bytes = vec![0xa5; plain().len()];
    let (traffic_class, source, destination) =
        (!plain_header().traffic_class, Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let (payload_length, hop_limit) = (0, 0);
    let flow_label = FlowLabel::from_low_bits(!plain_header().flow_label.get());
    let other = Ipv6Header {
        traffic_class,
        payload_length,
        hop_limit,
        source,
        destination,
        ..plain_header()
    };
    Ipv6Header { flow_label, ..other }.emit(&mut bytes).unwrap();
    set_payload_length(&mut bytes, 3).unwrap();
    set_hop_limit(&mut bytes, 255).unwrap();
    set_source(&mut bytes, plain_header().source).unwrap();
    set_destination(&mut bytes, plain_header().destination).unwrap();
    set_traffic_class(&mut bytes, plain_header().traffic_class).unwrap();
    set_flow_label(&mut bytes, plain_header().flow_label).unwrap();
    bytes[40..].copy_from_slice(&[1, 2, 3]);
    assert_eq!(bytes, plain());
}

#[test]
fn parse() {
    assert_eq!(Ipv6View::parse(&plain()).unwrap().header(), plain_header());
    assert_eq!(Ipv6Header::parse(&plain()), Ok((plain_header(), &[1, 2, 3][..])));
}

#[test]
fn emit() {
    let mut bytes = [0xa5; 42];
    assert_eq!(plain_header().emit(&mut bytes), Ok(40));
    assert_eq!(bytes[..40], plain()[..40]);
    assert_eq!(bytes[40..], [0xa5; 2]);
    assert_eq!(
        plain_header().emit(&mut bytes[..39]),
        Err(Ipv6Error::Truncated { need: 40, have: 39 })
    );
}

#[test]
fn every_value_of_every_field_survives() {
    let mut bytes = vec![0xa5; HEADER_BYTES + usize::from(u16::MAX)];
    for value in 0..=u16::MAX {
        let header = Ipv6Header {
            traffic_class: value as u8,
            flow_label: FlowLabel::from_low_bits(u32::from(value).rotate_left(4)),
            payload_length: value,
            hop_limit: (value >> 8) as u8,
            ..plain_header()
        };
        header.emit(&mut bytes).unwrap();
        assert_eq!(Ipv6View::parse(&bytes).unwrap().header(), header);
    }
    // Whatever header these octets are taken for, the next one is none.
    bytes[HEADER_BYTES..].fill(IpProtocol::NO_NEXT.0);
    for value in 0..=u8::MAX {
        let next_header = IpProtocol(value);
        let header = Ipv6Header { next_header, payload_length: 1_000, ..plain_header() };
        header.emit(&mut bytes).unwrap();
        assert_eq!(Ipv6View::parse(&bytes).unwrap().header(), header);
    }
}

#[test]
fn the_walk_passes_every_extension_header() {
    let bytes = extension_headers();
    let view = Ipv6View::parse(&bytes).unwrap();
    assert_eq!(view.next_header(), IpProtocol::HOP_BY_HOP);
    assert_eq!((view.upper_protocol(), view.upper_offset()), (IpProtocol::UDP, 40 + 80));
    assert_eq!(view.upper().len(), 11);
    let fragment = view.fragment().unwrap();
    assert!(fragment.is_atomic());
    assert_eq!(fragment.identification, 0x0102_0304);
}

#[test]
fn the_walk_ends_at_a_later_fragment() {
    let bytes = later_fragment();
    let view = Ipv6View::parse(&bytes).unwrap();
    let fragment = view.fragment().unwrap();
    assert_eq!((fragment.offset.get(), fragment.offset.bytes()), (181, 1448));
    assert!(fragment.more_fragments && !fragment.is_atomic());
    assert_eq!(fragment.identification, 0xcafe_babe);
    assert_eq!((view.upper_protocol(), view.upper_offset()), (IpProtocol::UDP, 48));
    assert_eq!(view.upper(), [0x5a; 8]);
}

#[test]
fn every_value_of_the_fragment_word_survives() {
    for value in 0..=u16::MAX {
        let [high, low] = value.to_be_bytes();
        let fragment = Ipv6Fragment::read(&[0, 0, high, low, 0, 0, 0, 0]);
        assert_eq!(fragment.offset.get() << 3 | u16::from(fragment.more_fragments), value & !6);
        assert_eq!(fragment.is_atomic(), value & !6 == 0);
    }
}

#[test]
fn an_extension_header_cut_short_is_named() {
    let bytes = extension_headers();
    let starts = [(0, 40), (60, 48), (43, 64), (44, 88), (51, 96)];
    for payload_length in 0..80_u16 {
        let mut bytes = bytes.clone();
        set_payload_length(&mut bytes, payload_length).unwrap();
        let end = 40 + usize::from(payload_length);
        let (header, offset) = *starts.iter().rev().find(|(_, start)| *start <= end).unwrap();
        let error = Ipv6Error::ExtensionTruncated { header: IpProtocol(header), offset };
        assert_eq!(Ipv6View::parse(&bytes).map(|_| ()), Err(error));
    }
}

#[test]
fn extension_headers_are_bounded() {
    let chain = |headers: usize| {
        let mut bytes = vec![0; HEADER_BYTES + headers * 8];
        let header = Ipv6Header {
            payload_length: (headers * 8) as u16,
            next_header: IpProtocol::DESTINATION_OPTIONS,
            ..plain_header()
        };
        header.emit(&mut bytes).unwrap();
        for i in 0..headers {
            bytes[HEADER_BYTES + i * 8] = if i + 1 == headers { 59 } else { 60 };
        }
        Ipv6View::parse(&bytes).map(|view| view.upper_offset())
    };
    assert_eq!(chain(EXTENSION_HEADERS_MAX), Ok(HEADER_BYTES + EXTENSION_HEADERS_MAX * 8));
    assert_eq!(chain(EXTENSION_HEADERS_MAX + 1), Err(Ipv6Error::TooManyExtensions));
}

#[test]
fn contradictions_are_named() {
    let mut bytes = plain();
    bytes[0] = 0x45;
    assert_eq!(Ipv6View::parse(&bytes).map(|_| ()), Err(Ipv6Error::Version(4)));
    golden::each_truncation(&plain(), |cut| {
        let error = match cut.len() {
            have @ 0..40 => Ipv6Error::Truncated { need: 40, have },
            have => Ipv6Error::PayloadLength { field: 3, have: have - 40 },
        };
        assert_eq!(Ipv6View::parse(cut).map(|_| ()), Err(error));
    });
}
