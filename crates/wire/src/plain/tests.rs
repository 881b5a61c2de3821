//! Plain readers against those of single layers, over every changed bit and every cut.

use super::*;
use crate::frame::{Fragment, FrameView};
use crate::nsh::{Metadata, NshHeader, NshNextProtocol, NshView};
use crate::scalar::{NshTtl, ServiceIndex, Spi};
use std::vec;
use std::vec::Vec;

/// A frame of UDP or TCP, with some bytes behind.
fn frame(protocol: u8) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    bytes.extend([0x45, 0, 0, 48, 0, 1, 0x40, 0, 64, protocol, 0, 0]);
    bytes.extend([10, 0, 0, 9, 10, 0, 0, 2, 0x30, 0x39, 0x01, 0xbb]);
    match protocol {
        17 => bytes.extend([0, 28, 0, 0]),
        _ => bytes.extend([0, 0, 0, 1]),
    }
    bytes.extend([0, 0, 0, 0, 0x50, 0x10, 1, 0]);
    bytes.resize(14 + 48 + 6, 0xa5);
    bytes
}

/// What the simple reader says of it must be the same.
fn agree(bytes: &[u8]) -> bool {
    let Some(plain) = PlainFrame::parse(bytes) else { return false };
    let view = FrameView::parse(bytes).expect("what is plain is sound");
    assert_eq!(view.flow, Some(plain.flow()));
    assert_eq!((view.l3_offset, view.fragment, view.vlan), (14, Fragment::Whole, None));
    assert_eq!(view.destination.is_multicast(), plain.is_group());
    for seed in [0, 77] {
        assert_eq!(plain.flow().symmetric_hash(seed), plain.symmetric_hash(seed));
    }
    assert_eq!(plain.flow().seeded_hash(77), plain.seeded_hash(77));
    assert_eq!(plain.flow().protocol == IpProtocol::TCP, plain.is_tcp());
    let (packet, upper) = PlainFrame::parse_packet(&bytes[14..]).expect("the packet of the frame");
    assert_eq!(PlainFrame { is_group: plain.is_group, ..packet }, plain);
    assert_eq!(upper, &bytes[usize::from(view.l4_offset.unwrap())..view.end as usize]);
    assert_eq!(plain.upper(bytes), Some(upper));
    assert_eq!(plain.is_multicast_or_link_local(), view.is_multicast_or_link_local());
    assert_eq!(plain.flow().destination, plain.destination());
    true
}

#[test]
fn a_plain_frame_is_what_the_simple_reader_sees() {
    assert!(agree(&frame(17)) && agree(&frame(6)));
    assert!(!agree(&frame(1)), "neither TCP nor UDP");
}

#[test]
fn what_stays_on_its_link_is_what_the_simple_reader_says_does() {
    let places =
        [(0, 26, 10), (1, 26, 169), (1, 30, 169), (1, 30, 224), (1, 30, 255), (0, 26, 224)];
    for (stays, place, first) in places {
        let mut bytes = frame(17);
        bytes[place..place + 4].copy_from_slice(&[
            first,
            if first == 169 { 254 } else { 255 },
            255,
            255,
        ]);
        assert!(agree(&bytes));
        let plain = PlainFrame::parse(&bytes).unwrap();
        assert_eq!(plain.is_multicast_or_link_local(), stays == 1, "{first} at {place}");
    }
}

#[test]
fn every_changed_bit_and_every_cut_is_read_as_the_simple_reader_reads_it_or_not_at_all() {
    let mut read = 0;
    for protocol in [17, 6] {
        let whole = frame(protocol);
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            read += usize::from(agree(&bytes));
        }
        for len in 0..whole.len() {
            read += usize::from(agree(&whole[..len]));
        }
    }
    assert!(read > 500, "only {read} were plain");
}

#[test]
fn a_plain_nsh_is_what_the_simple_reader_sees_and_is_patched_as_it_is_emitted() {
    let header = |spi, ttl| NshHeader {
        spi: Spi::new(spi).unwrap(),
        si: ServiceIndex(254),
        ttl: NshTtl::new(ttl).unwrap(),
        metadata: Metadata::ZERO,
        next: NshNextProtocol::ETHERNET,
        is_oam: false,
    };
    let mut bytes = [0xa5; 40];
    header(0x12_3456, 63).emit(&mut bytes).unwrap();
    let mut patched = bytes;
    PlainNsh::patch(&mut patched, 0x65_4321, 7);
    header(0x65_4321, 7).emit(&mut bytes).unwrap();
    assert_eq!(patched, bytes);
    for bit in 0..24 * 8 {
        let mut changed = bytes;
        changed[bit / 8] ^= 1 << (bit % 8);
        let Some(plain) = PlainNsh::parse(&changed) else { continue };
        let (view, _) = NshView::parse(&changed).unwrap();
        assert_eq!((plain.spi, plain.si), (view.spi().get(), view.si().0));
        assert_eq!(plain.ttl, view.ttl().get());
        assert_eq!((view.next(), view.is_oam()), (NshNextProtocol::ETHERNET, false));
        assert!(matches!(view.metadata(), Metadata::Type1(_)));
    }
    let mut behind = vec![0x0c, 0, 0, 4, 0, 0, 7, 0];
    behind.extend(bytes);
    assert_eq!(PlainNsh::parse_behind_gpe(&behind), PlainNsh::parse(&bytes));
    behind[0] = 0x0d;
    assert_eq!(PlainNsh::parse_behind_gpe(&behind), None);
    assert_eq!(PlainNsh::parse(&bytes[..23]), None);
}
