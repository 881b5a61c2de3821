//! Golden, poison, exhaustive and damage tests of ARP.

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};

const REQUEST: &str = include_str!("../../../../conformance/arp/request.hex");
const REPLY_FRAME: &str = include_str!("../../../../conformance/arp/reply_frame.hex");
const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OWNER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xff]);

fn request() -> ArpPacket {
    ArpPacket {
        operation: ArpOperation::Request,
        sender_mac: ASKER,
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: MacAddr::default(),
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    }
}

#[test]
fn a_golden_request_is_read_with_or_without_padding() {
    let mut bytes = hex(REQUEST);
    assert_eq!(ArpPacket::parse(&bytes), Ok(request()));
    bytes.resize(46, 0x5a);
    assert_eq!(ArpPacket::parse(&bytes), Ok(request()));
}

#[test]
fn a_packet_is_written_over_poison_and_nothing_after_it() {
    let mut into = [0xa5; ArpPacket::LEN + 1];
    assert_eq!(request().emit(&mut into), Ok(ArpPacket::LEN));
    assert_eq!(into[..ArpPacket::LEN], hex(REQUEST));
    assert_eq!(into[ArpPacket::LEN], 0xa5);
}

#[test]
fn the_reply_to_the_golden_request_is_the_golden_frame() {
    let mut into = [0xa5; ArpPacket::FRAME_LEN + 1];
    let length = request().reply(OWNER).emit_frame(&mut into).unwrap();
    assert_eq!(into[..length], hex(REPLY_FRAME));
    assert_eq!(into[length..], [0xa5]);
    let packet = &into[ethernet::HEADER_BYTES..];
    assert_eq!(ArpPacket::parse(packet), Ok(request().reply(OWNER)));
}

#[test]
fn a_request_frame_goes_to_all() {
    let mut into = [0xa5; ArpPacket::FRAME_LEN];
    request().emit_frame(&mut into).unwrap();
    let frame = ethernet::EthernetView::parse(&into).unwrap();
    assert_eq!(frame.destination(), MacAddr::BROADCAST);
    assert_eq!((frame.source(), frame.ethertype()), (ASKER, EtherType::ARP));
    assert_eq!(ArpPacket::parse(frame.payload()), Ok(request()));
}

#[test]
fn packet_and_frame_fit_no_shorter_buffer() {
    for have in 0..ArpPacket::FRAME_LEN {
        let mut into = std::vec![0xa5; have];
        let error = request().emit_frame(&mut into).unwrap_err();
        assert_eq!(error, ArpError::Truncated { need: ArpPacket::FRAME_LEN, have });
        if have < ArpPacket::LEN {
            let error = request().emit(&mut into).unwrap_err();
            assert_eq!(error, ArpError::Truncated { need: ArpPacket::LEN, have });
        }
        assert!(into.iter().all(|&byte| byte == 0xa5), "a refused buffer is left alone");
    }
}

#[test]
fn every_operation_but_two_is_refused() {
    let mut bytes = hex(REQUEST);
    for code in 0..=0xffff_u16 {
        bytes[6..8].copy_from_slice(&code.to_be_bytes());
        let parsed = ArpPacket::parse(&bytes).map(|packet| packet.operation);
        let expected = match code {
            1 => Ok(ArpOperation::Request),
            2 => Ok(ArpOperation::Reply),
            other => Err(ArpError::Operation(other)),
        };
        assert_eq!(parsed, expected);
    }
}

#[test]
fn every_byte_of_the_addresses_comes_back() {
    for byte in 0..=255 {
        let packet = ArpPacket {
            operation: ArpOperation::Reply,
            sender_mac: MacAddr([byte, 1, 2, 3, 4, byte]),
            sender_ip: Ipv4Addr::new(byte, 5, 6, byte),
            target_mac: MacAddr([byte, 7, 8, 9, 10, byte]),
            target_ip: Ipv4Addr::new(byte, 11, 12, byte),
        };
        let mut into = [0xa5; ArpPacket::LEN];
        packet.emit(&mut into).unwrap();
        assert_eq!(ArpPacket::parse(&into), Ok(packet));
    }
}

#[test]
fn damaged_goldens_are_refused_or_come_back_byte_by_byte() {
    let golden = hex(REQUEST);
    each_truncation(&golden, |cut| {
        let need = ArpPacket::LEN;
        assert_eq!(ArpPacket::parse(cut), Err(ArpError::Truncated { need, have: cut.len() }));
    });
    each_bit_flip(&golden, |bytes| match ArpPacket::parse(bytes) {
        Ok(packet) => {
            let mut again = [0xa5; ArpPacket::LEN];
            packet.emit(&mut again).unwrap();
            assert_eq!(again, bytes);
        }
        Err(ArpError::AddressTypes) => assert_ne!(bytes[..6], golden[..6]),
        Err(ArpError::Operation(code)) => assert_ne!(code, 1),
        Err(ArpError::Truncated { .. }) => panic!("nothing was cut"),
    });
}
