//! Plain readers against those of single layers, over every changed bit and every cut.

use super::*;
use crate::frame::{Fragment, FrameView};
use crate::nsh::{Metadata, NshHeader, NshNextProtocol, NshView};
use crate::scalar::{NshTtl, ServiceIndex, Spi, VlanId};
use std::vec;
use std::vec::Vec;

/// A frame of UDP or TCP over IPv4, with some bytes behind.
fn frame(protocol: u8) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    bytes.extend([0x45, 0, 0, 48, 0, 1, 0x40, 0, 64, protocol, 0, 0]);
    bytes.extend([10, 0, 0, 9, 10, 0, 0, 2]);
    bytes.extend(upper(protocol));
    bytes.resize(14 + 48 + 6, 0xa5);
    bytes
}

/// The same over IPv6.
fn frame_v6(protocol: u8) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
    bytes.extend([0x60, 0, 0, 0, 0, 28, protocol, 64]);
    for last in [9, 2] {
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    bytes.extend(upper(protocol));
    bytes.resize(14 + 68 + 6, 0xa5);
    bytes
}

fn upper(protocol: u8) -> Vec<u8> {
    let mut bytes = vec![0x30, 0x39, 0x01, 0xbb];
    bytes.extend(if protocol == 17 { [0, 28, 0, 0] } else { [0, 0, 0, 1] });
    bytes.extend([0, 0, 0, 0, 0x50, 0x10, 1, 0]);
    bytes
}

/// The same frame behind a tag.
fn tagged(frame: &[u8], tag: [u8; 4]) -> Vec<u8> {
    [&frame[..12], &tag, &frame[12..]].concat()
}

/// One of each kind.
fn frames() -> Vec<Vec<u8>> {
    let bare: Vec<_> = [17, 6].into_iter().flat_map(|p| [frame(p), frame_v6(p)]).collect();
    let tags = [[0x81, 0, 0x60, 7], [0x88, 0xa8, 0x0f, 0xff], [0x81, 0, 0xe0, 0]];
    let tagged = bare.iter().flat_map(|frame| tags.map(|tag| tagged(frame, tag)));
    bare.iter().cloned().chain(tagged).collect()
}

/// What the simple reader says of it must be the same.
fn agree(bytes: &[u8]) -> bool {
    let Some(plain) = PlainFrame::parse(bytes) else { return false };
    let view = FrameView::parse(bytes).expect("what is plain is sound");
    assert_eq!(view.flow, Some(plain.flow()));
    assert_eq!((view.l3_offset, view.fragment), (plain.l3_offset.into(), Fragment::Whole));
    assert_eq!(view.vlan.map_or(0, VlanId::get), plain.vlan());
    assert_eq!(view.network == crate::frame::Network::Ipv6, plain.is_v6());
    assert_eq!(view.varying, plain.varying(bytes));
    assert_eq!(view.destination.is_multicast(), plain.is_group());
    for seed in [0, 77] {
        assert_eq!(plain.flow().symmetric_hash(seed), plain.symmetric_hash(seed));
    }
    assert_eq!(plain.flow().seeded_hash(77), plain.seeded_hash(77));
    assert_eq!(plain.flow().protocol == IpProtocol::TCP, plain.is_tcp());
    let at = usize::from(view.l3_offset);
    let behind = &bytes[usize::from(view.l4_offset.unwrap())..view.end as usize];
    assert_eq!(plain.upper(bytes), Some(behind).filter(|_| !plain.is_v6()));
    if !plain.is_v6() {
        let found = PlainFrame::parse_packet(&bytes[at..]);
        let (packet, upper) = found.expect("the packet of the frame");
        let PlainFrame { is_group, l3_offset, vlan, .. } = plain;
        assert_eq!((PlainFrame { is_group, l3_offset, vlan, ..packet }, upper), (plain, behind));
    }
    assert_eq!(plain.is_multicast_or_link_local(), view.is_multicast_or_link_local());
    assert_eq!(plain.flow().destination, plain.destination());
    true
}

#[test]
fn a_plain_frame_is_what_the_simple_reader_sees() {
    assert!(frames().iter().all(|frame| agree(frame)));
    let narrow = frames().iter().filter(|f| PlainFrame::parse(f).unwrap().is_narrow()).count();
    assert_eq!(narrow, 4, "IPv4 without a tag, or with one that says no VLAN");
    assert!(!agree(&frame(1)), "neither TCP nor UDP");
    let twice = tagged(&tagged(&frame(17), [0x81, 0, 0, 7]), [0x88, 0xa8, 0, 8]);
    assert!(!agree(&twice), "two tags");
}

#[test]
fn flows_back_and_forth_have_one_symmetric_hash_and_words_tell_all_flows_apart() {
    let mut seen = Vec::new();
    for frame in frames() {
        let plain = PlainFrame::parse(&frame).unwrap();
        let PlainFrame { source, destination, ports, .. } = plain;
        let back = PlainFrame {
            source: destination,
            destination: source,
            ports: ports.rotate_left(16),
            ..plain
        };
        assert_eq!(plain.symmetric_hash(9), back.symmetric_hash(9));
        seen.push((plain.wide_words(), plain.vlan()));
        seen.push((back.wide_words(), back.vlan()));
    }
    // A compatible address is no IPv4 address.
    let mut compatible = frame_v6(17);
    compatible[22..34].fill(0);
    compatible[34..38].copy_from_slice(&[10, 0, 0, 9]);
    compatible[38..50].fill(0);
    compatible[50..54].copy_from_slice(&[10, 0, 0, 2]);
    assert!(agree(&compatible));
    seen.push((PlainFrame::parse(&compatible).unwrap().wide_words(), 0));
    seen.sort_unstable();
    seen.dedup();
    // Four kinds of flows, both ways, in no VLAN, in 7 and in 4095; and the compatible one.
    assert_eq!(seen.len(), 4 * 2 * 3 + 1);
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
    for whole in frames() {
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
fn a_plain_nsh_is_what_the_simple_reader_sees() {
    let header = |spi, ttl| NshHeader {
        spi: Spi::new(spi).unwrap(),
        si: ServiceIndex(254),
        ttl: NshTtl::new(ttl).unwrap(),
        metadata: Metadata::ZERO,
        next: NshNextProtocol::ETHERNET,
        is_oam: false,
    };
    let mut bytes = [0xa5; 40];
    header(0x65_4321, 7).emit(&mut bytes).unwrap();
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

#[test]
fn plain_labels_are_what_the_simple_reader_sees() {
    let pair = SfcLabelPair::new(MplsLabel::ordinary(0x1_2345).unwrap(), ServiceIndex(254), 63);
    let mut bytes = [0xa5; 12];
    pair.unwrap().emit(&mut bytes).unwrap();
    let mut read = 0;
    for bit in 0..8 * 8 {
        let mut changed = bytes;
        changed[bit / 8] ^= 1 << (bit % 8);
        let simple = SfcLabelPair::parse(&changed).ok().map(|(pair, _)| PlainLabels {
            path: pair.context.get(),
            index: pair.service_index().unwrap().0,
            ttl: pair.function_ttl,
        });
        assert_eq!(PlainLabels::parse(&changed), simple, "bit {bit}");
        read += usize::from(simple.is_some());
    }
    assert!(read > 40, "only {read} were pairs");
    let special = [0, 0, 0xf0, 1, 0xfe, 0, 1, 63];
    assert_eq!((PlainLabels::parse(&special), PlainLabels::parse(&bytes[..7])), (None, None));
}
