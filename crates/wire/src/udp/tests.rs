//! UDP against golden datagrams.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::golden;

fn v4() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/udp/v4.hex"))
}

fn v6() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/udp/v6.hex"))
}

fn ends_v4() -> (IpAddr, IpAddr) {
    ("192.0.2.1".parse().unwrap(), "198.51.100.2".parse().unwrap())
}

fn ends_v6() -> (IpAddr, IpAddr) {
    ("2001:db8::1".parse().unwrap(), "2001:db8:1::2".parse().unwrap())
}

#[test]
fn deconstruct() {
    let bytes = v4();
    let view = UdpView::parse(&bytes).unwrap();
    assert_eq!((view.source_port(), view.destination_port(), view.length()), (5353, 53, 13));
    assert_eq!(view.checksum().to_be_bytes(), bytes[6..8]);
    assert_eq!(view.payload(), b"hello");
}

#[test]
fn construct() {
    let mut bytes = vec![0xa5; v6().len()];
    let header =
        UdpHeader { source_port: 49_152, destination_port: 4789, length: 0, checksum: 0xa5a5 };
    header.emit(&mut bytes).unwrap();
    set_length(&mut bytes, 14).unwrap();
    bytes[8..].copy_from_slice(b"abcdef");
    refresh_checksum(&mut bytes, ends_v6().0, ends_v6().1).unwrap();
    assert_eq!(bytes, v6());
}

#[test]
fn parse() {
    for (bytes, (source, destination)) in [(v4(), ends_v4()), (v6(), ends_v6())] {
        let view = UdpView::parse(&bytes).unwrap();
        assert!(view.is_checksum_correct(source, destination));
        assert_eq!(usize::from(view.header().length), bytes.len());
        golden::each_bit_flip(&bytes, |flipped| {
            if let Ok(view) = UdpView::parse(flipped) {
                assert!(!view.is_checksum_correct(source, destination));
            }
        });
    }
}

#[test]
fn emit() {
    let mut bytes = [0xa5; 10];
    assert_eq!(UdpHeader::read(&v4()).unwrap().emit(&mut bytes), Ok(8));
    assert_eq!(bytes[..8], v4()[..8]);
    assert_eq!(bytes[8..], [0xa5; 2]);
}

#[test]
fn every_value_of_every_field_survives() {
    let mut bytes = [0xa5; HEADER_BYTES];
    for value in 0..=u16::MAX {
        let header = UdpHeader {
            source_port: value,
            destination_port: !value,
            length: value.rotate_left(3),
            checksum: value.rotate_left(7),
        };
        header.emit(&mut bytes).unwrap();
        assert_eq!(UdpHeader::read(&bytes), Ok(header));
    }
}

#[test]
fn no_checksum_is_a_held_one_and_a_computed_one_is_never_zero() {
    let (source, destination) = ends_v4();
    let mut bytes = v4();
    set_checksum(&mut bytes, 0).unwrap();
    assert!(UdpView::parse(&bytes).unwrap().is_checksum_correct(source, destination));
    let mut datagram = [0; 10];
    set_length(&mut datagram, 10).unwrap();
    let mut other_zeros = 0;
    for value in 0..=u16::MAX {
        datagram[8..].copy_from_slice(&value.to_be_bytes());
        refresh_checksum(&mut datagram, source, destination).unwrap();
        let view = UdpView::parse(&datagram).unwrap();
        assert_ne!(view.checksum(), 0);
        assert!(view.is_checksum_correct(source, destination));
        other_zeros += u32::from(view.checksum() == 0xffff);
    }
    assert_eq!(other_zeros, 1);
}

#[test]
fn a_length_is_within_its_header_and_its_bytes() {
    for field in 0..=u16::MAX {
        let mut bytes = v4();
        set_length(&mut bytes, field).unwrap();
        let result = UdpView::parse(&bytes).map(|view| view.payload().len());
        if (8..=13).contains(&field) {
            assert_eq!(result, Ok(usize::from(field) - 8));
        } else {
            assert_eq!(result, Err(UdpError::Length { field, have: 13 }));
        }
    }
    golden::each_truncation(&v4()[..8], |cut| {
        let error = UdpError::Truncated { need: 8, have: cut.len() };
        assert_eq!(UdpView::parse(cut).map(|_| ()), Err(error));
    });
    let long = UdpError::Length { field: u16::MAX, have: 65_536 };
    assert_eq!(refresh_checksum(&mut vec![0; 65_536], ends_v4().0, ends_v4().1), Err(long));
}
