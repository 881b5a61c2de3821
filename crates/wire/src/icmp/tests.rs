//! Golden, exhaustive and damage tests of the head of ICMP messages.

use super::error_message::{Said, emit_about_v6};
use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use crate::ipv6::{self, Ipv6Header};
use crate::scalar::FlowLabel;
use std::vec;

const ECHO_REQUEST: &str = include_str!("../../../../conformance/icmp/echo_request.hex");

#[test]
fn a_golden_echo_request_is_read() {
    let bytes = hex(ECHO_REQUEST);
    let view = IcmpView::parse(&bytes).unwrap();
    assert_eq!(view.v4_type(), IcmpV4Type::ECHO_REQUEST);
    assert_eq!((view.code(), view.checksum()), (0, 0x8468));
    assert_eq!(view.v4_identifier(), Some(0x1234));
    assert_eq!(view.v6_identifier(), None, "type 8 is no echo of ICMPv6");
    assert_eq!(view.body(), b"ab");
    assert!(view.is_v4_checksum_correct());
}

#[test]
fn an_echo_request_is_made_as_the_golden_one_and_its_checksum_holds_over_ipv6_too() {
    let golden = hex(ECHO_REQUEST);
    let mut made = [0xff; 10];
    made[8..].copy_from_slice(b"ab");
    let v4 = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    emit_echo_request(&mut made, v4, 0x1234, 1).unwrap();
    assert_eq!(made[..], golden[..]);
    let (source, destination) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let v6 = (IpAddr::V6(source), IpAddr::V6(destination));
    emit_echo_request(&mut made, v6, 0x1234, 1).unwrap();
    let view = IcmpView::parse(&made).unwrap();
    assert_eq!((view.v6_type(), view.v6_identifier()), (IcmpV6Type::ECHO_REQUEST, Some(0x1234)));
    assert!(view.is_v6_checksum_correct(source, destination));
    assert!(emit_echo_request(&mut made[..7], v4, 1, 1).is_err());
}

#[test]
fn every_type_has_an_identifier_only_in_an_echo() {
    let mut bytes = hex(ECHO_REQUEST);
    for kind in 0..=255 {
        bytes[0] = kind;
        let view = IcmpView::parse(&bytes).unwrap();
        assert_eq!(view.v4_identifier().is_some(), matches!(kind, 0 | 8));
        assert_eq!(view.v6_identifier().is_some(), matches!(kind, 128 | 129));
        assert_eq!(view.v6_type().is_neighbour_discovery(), (133..=137).contains(&kind));
    }
}

#[test]
fn every_code_checksum_and_identifier_is_read() {
    let mut bytes = hex(ECHO_REQUEST);
    for value in 0..=0xffff_u16 {
        let [high, low] = value.to_be_bytes();
        bytes[1..6].copy_from_slice(&[low, high, low, high, low]);
        let view = IcmpView::parse(&bytes).unwrap();
        assert_eq!((view.code(), view.checksum()), (low, value));
        assert_eq!(view.v4_identifier(), Some(value));
    }
}

#[test]
fn a_message_over_ipv6_is_summed_with_its_addresses() {
    let (source, destination) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    let mut bytes = [128, 0, 0, 0, 0, 1, 0, 2, 3];
    let checksum = v6_sum(&bytes, source, destination).checksum();
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    let view = IcmpView::parse(&bytes).unwrap();
    assert!(view.is_v6_checksum_correct(source, destination));
    assert!(!view.is_v6_checksum_correct(source, source));
}

#[test]
fn a_message_that_is_cut_short_is_refused_and_each_damaged_bit_shows_in_the_checksum() {
    let golden = hex(ECHO_REQUEST);
    each_truncation(&golden[..IcmpView::HEADER_LEN], |cut| {
        let error = IcmpView::parse(cut).unwrap_err();
        assert_eq!(error, IcmpError::Truncated { need: 8, have: cut.len() });
    });
    each_bit_flip(&golden, |bytes| {
        assert!(!IcmpView::parse(bytes).unwrap().is_v4_checksum_correct());
    });
}

#[test]
fn nobody_is_told_of_what_may_be_an_error_itself() {
    let hosts = ["2001:db8::1", "2001:db8::2"];
    let packet = |[source, destination]: [&str; 2], next_header: u8, payload: &[u8]| {
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: FlowLabel::new(0).unwrap(),
            payload_length: u16::try_from(payload.len()).unwrap(),
            next_header: IpProtocol(next_header),
            hop_limit: 1,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        };
        let mut bytes = vec![0; ipv6::HEADER_BYTES];
        header.emit(&mut bytes).unwrap();
        [&bytes, payload].concat()
    };
    let own = "2001:db8::9".parse().unwrap();
    let said = Said::time_exceeded_v6();
    let mut into = [0; 1_280];
    let mut told = |packet: &[u8]| emit_about_v6(packet, own, said, &mut into);
    let good = packet(hosts, 43, &[4, 0, 4, 0]);
    assert_eq!(told(&good), Some(ipv6::HEADER_BYTES + 8 + good.len()));
    assert_eq!(told(&packet(hosts, 43, &[])), Some(2 * ipv6::HEADER_BYTES + 8));
    assert_eq!(told(&packet(hosts, 4, &[0; 3_000])), Some(1_280), "as much as fits");
    // What a link has padded is not quoted.
    assert_eq!(told(&[&good[..], &[0; 9]].concat()), told(&good));
    for silent in [
        packet(hosts, 58, &[1, 0, 0, 0, 0, 0, 0, 0]),
        packet(hosts, 43, &[58, 0, 4, 0]),
        packet(["::", hosts[1]], 43, &[4, 0, 4, 0]),
        packet(["::1", hosts[1]], 43, &[4, 0, 4, 0]),
        packet(["ff02::1", hosts[1]], 43, &[4, 0, 4, 0]),
        packet([hosts[0], "ff02::1"], 43, &[4, 0, 4, 0]),
        good[..30].to_vec(),
        good[..good.len() - 1].to_vec(),
    ] {
        assert_eq!(told(&silent), None, "{silent:02x?}");
    }
    assert_eq!(emit_about_v6(&good, own, said, &mut [0; 60]), None, "there is no room");
}
