//! TCP against golden segments.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::golden;

fn with_options() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/tcp/with_options.hex"))
}

fn urgent() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/tcp/urgent.hex"))
}

fn ends_v4() -> (IpAddr, IpAddr) {
    ("192.0.2.1".parse().unwrap(), "198.51.100.2".parse().unwrap())
}

fn ends_v6() -> (IpAddr, IpAddr) {
    ("2001:db8::1".parse().unwrap(), "2001:db8:1::2".parse().unwrap())
}

fn urgent_header() -> TcpHeader {
    TcpHeader {
        source_port: 1,
        destination_port: 65_535,
        sequence: u32::MAX,
        acknowledgment: 0,
        flags: TcpFlags(0xff),
        window: 1,
        urgent_pointer: 0x0102,
    }
}

#[test]
fn deconstruct() {
    let bytes = with_options();
    let view = TcpView::parse(&bytes).unwrap();
    assert_eq!((view.source_port(), view.destination_port()), (40_000, 443));
    assert_eq!((view.sequence(), view.acknowledgment()), (0x0102_0304, 0x0a0b_0c0d));
    assert_eq!(view.flags(), TcpFlags::ACK.with(TcpFlags::PSH));
    assert_eq!((view.window(), view.urgent_pointer(), view.reserved()), (0xfedc, 0, 0));
    assert_eq!(view.checksum().to_be_bytes(), bytes[16..18]);
    assert_eq!(view.header_len(), 32);
    assert_eq!(view.options(), [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9]);
    assert_eq!(view.payload(), b"data!");
}

#[test]
fn construct() {
    let mut bytes = vec![0xa5; 20];
    TcpHeader { sequence: 0, flags: TcpFlags::default(), ..urgent_header() }
        .emit(&mut bytes)
        .unwrap();
    set_sequence(&mut bytes, u32::MAX).unwrap();
    set_flags(&mut bytes, TcpFlags(0xff)).unwrap();
    bytes[12] |= 5;
    refresh_checksum(&mut bytes, ends_v6().0, ends_v6().1).unwrap();
    assert_eq!(bytes, urgent());
}

#[test]
fn parse() {
    let bytes = urgent();
    let view = TcpView::parse(&bytes).unwrap();
    assert_eq!(view.header(), urgent_header());
    assert_eq!(view.reserved(), 5);
    assert_eq!((view.options(), view.payload()), (&[][..], &[][..]));
    for (bytes, (source, destination)) in [(urgent(), ends_v6()), (with_options(), ends_v4())] {
        assert!(TcpView::parse(&bytes).unwrap().is_checksum_correct(source, destination));
        golden::each_bit_flip(&bytes, |flipped| {
            if let Ok(view) = TcpView::parse(flipped) {
                assert!(!view.is_checksum_correct(source, destination));
            }
        });
    }
}

#[test]
fn emit() {
    let mut bytes = [0xa5; 21];
    assert_eq!(urgent_header().emit(&mut bytes), Ok(20));
    let mut expected = urgent();
    expected[12] = 0x50;
    set_checksum(&mut expected, 0).unwrap();
    assert_eq!(bytes[..20], expected);
    assert_eq!(bytes[20], 0xa5);
}

#[test]
fn every_value_of_every_field_survives() {
    let mut bytes = [0xa5; HEADER_BYTES];
    for value in 0..=u16::MAX {
        let header = TcpHeader {
            source_port: value,
            destination_port: !value,
            sequence: u32::from(value) << 16 | u32::from(!value),
            acknowledgment: u32::from(value),
            flags: TcpFlags(value as u8),
            window: value.rotate_left(3),
            urgent_pointer: value.rotate_left(7),
        };
        header.emit(&mut bytes).unwrap();
        set_checksum(&mut bytes, value).unwrap();
        let view = TcpView::parse(&bytes).unwrap();
        assert_eq!((view.header(), view.checksum()), (header, value));
    }
}

#[test]
fn flags_join_and_part() {
    let flags = TcpFlags::SYN.with(TcpFlags::ACK);
    assert!(flags.has_any(TcpFlags::ACK.with(TcpFlags::FIN)));
    assert!(!flags.has_any(TcpFlags::RST.with(TcpFlags::FIN)));
    assert_eq!(flags.without(TcpFlags::SYN), TcpFlags::ACK);
}

#[test]
fn a_data_offset_is_within_its_header_and_its_bytes() {
    for words in 0..16_u8 {
        let mut bytes = with_options();
        bytes[12] = words << 4;
        let result = TcpView::parse(&bytes).map(|view| view.payload().len());
        let expected = match usize::from(words) * 4 {
            0..20 => Err(TcpError::DataOffset { words }),
            need @ 40.. => Err(TcpError::Truncated { need, have: 37 }),
            need => Ok(37 - need),
        };
        assert_eq!(result, expected);
    }
    golden::each_truncation(&with_options()[..32], |cut| {
        let need = if cut.len() < 20 { 20 } else { 32 };
        let error = TcpError::Truncated { need, have: cut.len() };
        assert_eq!(TcpView::parse(cut).map(|_| ()), Err(error));
    });
}

/// RFC 9293 section 3.10.7.1: without ACK the reset acknowledges what came, with ACK it has the number that
/// was acknowledged.
#[test]
fn a_reset_has_the_numbers_that_its_receiver_takes() {
    let mut frame = golden::hex(include_str!("../../../../conformance/segment/tcp_segment_0.hex"));
    let view = crate::frame::FrameView::parse(&frame).unwrap();
    let (flow, l4) = (view.flow.unwrap(), usize::from(view.l4_offset.unwrap()));
    let refused = TcpView::parse(&frame[l4..view.end as usize]).unwrap();
    let payload = refused.payload().len() as u32;
    let (sequence, acknowledgment) = (refused.sequence(), refused.acknowledgment());
    for (flags, wanted) in [
        (TcpFlags::SYN, (0, sequence.wrapping_add(payload + 1), TcpFlags::RST.with(TcpFlags::ACK))),
        (TcpFlags::ACK, (acknowledgment, 0, TcpFlags::RST)),
        (TcpFlags::FIN, (0, sequence.wrapping_add(payload + 1), TcpFlags::RST.with(TcpFlags::ACK))),
    ] {
        set_flags(&mut frame[l4..], flags).unwrap();
        let mut into = [0; reset::FRAME_BYTES_MAX];
        let length = reset::emit(&frame, (view.destination, view.source), &mut into).unwrap();
        let answer = crate::frame::FrameView::parse(&into[..length]).unwrap();
        assert_eq!(answer.flow, Some(flow.reversed()));
        assert_eq!((answer.source, answer.destination), (view.destination, view.source));
        let segment =
            TcpView::parse(&into[usize::from(answer.l4_offset.unwrap())..length]).unwrap();
        assert!(segment.is_checksum_correct(flow.destination, flow.source));
        assert_eq!((segment.sequence(), segment.acknowledgment(), segment.flags()), wanted);
    }
    set_flags(&mut frame[l4..], TcpFlags::RST).unwrap();
    assert_eq!(reset::emit(&frame, (view.source, view.source), &mut [0; 200]), None);
}
