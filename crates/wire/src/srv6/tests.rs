//! Golden, exhaustive, property and damage tests of the segment routing header and of what endpoints do.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};

macro_rules! golden {
    ($name:literal) => {
        hex(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../conformance/srv6/",
            $name,
            ".hex"
        )))
    };
}

mod packets;

/// A segment of the goldens, by its number there.
fn segment(node: u16) -> Ipv6Addr {
    let function = if node == 4 { 0xd6 } else { 0xe1 };
    Ipv6Addr::new(0x5f00, 0, node, function, 0, 0, 0, 0)
}

fn way() -> [Ipv6Addr; 3] {
    [2, 3, 4].map(segment)
}

const UNKNOWN: Tlv<'static> = Tlv { kind: TlvType(0xfd), value: &[1, 2, 3] };

fn plain(way: &[Ipv6Addr]) -> SegmentRoutingHeader<'_> {
    SegmentRoutingHeader {
        next: IpProtocol::IPV4,
        segments_left: way.len() as u8 - 1,
        flags: SegmentFlags::default(),
        tag: 0,
        way,
        tlvs: &[],
        hmac: None,
    }
}

fn emitted(header: &SegmentRoutingHeader<'_>) -> Vec<u8> {
    let mut into = vec![0xa5; header.len_bytes()];
    assert_eq!(header.emit(&mut into), Ok(into.len()));
    into
}

/// Shows each golden that is written as it is read, and its meaning.
fn each_golden(mut see: impl FnMut(&[u8], SegmentRoutingHeader<'_>)) {
    let (way, short) = (way(), [3, 4].map(segment));
    see(&golden!("plain"), plain(&way));
    let next = IpProtocol::IPV6;
    see(&golden!("reduced"), SegmentRoutingHeader { next, segments_left: 2, ..plain(&short) });
    let tlvs = &[UNKNOWN];
    let (next, flags, tag) = (IpProtocol::ETHERNET, SegmentFlags::OAM, 0xabcd);
    see(&golden!("tlvs"), SegmentRoutingHeader { next, flags, tag, tlvs, ..plain(&short) });
    let signed = golden!("hmac_ingress");
    let digest = &signed[signed.len() - 32..];
    let hmac = Some(HmacTlv { is_reduced: false, key_id: 0x0102_0304, digest });
    let tlvs = &[Tlv { kind: TlvType(252), value: &[0, 0x1f, 0, 0, 0, 0] }];
    let flags = SegmentFlags(1).with(SegmentFlags::HMAC);
    let tag = 0x192a;
    see(&signed, SegmentRoutingHeader { flags, tag, tlvs, hmac, ..plain(&way) });
}

fn assert_means(view: &SegmentRoutingView<'_>, meaning: &SegmentRoutingHeader<'_>) {
    assert_eq!(view.next(), meaning.next);
    assert_eq!(view.segments_left(), meaning.segments_left);
    assert_eq!(usize::from(view.last_entry()) + 1, meaning.way.len());
    assert_eq!((view.flags(), view.tag()), (meaning.flags, meaning.tag));
    assert!(view.way().eq(meaning.way.iter().copied()));
    assert_eq!(view.hmac(), meaning.hmac);
    let others = view.tlvs().filter(|tlv| tlv.kind != TlvType::HMAC);
    assert!(others.eq(meaning.tlvs.iter().copied()));
    assert_eq!(view.len_bytes(), meaning.len_bytes());
}

#[test]
fn golden_headers_are_read() {
    each_golden(|golden, meaning| {
        let bytes = [golden, &[0xde, 0xad]].concat();
        let (view, rest) = SegmentRoutingView::parse(&bytes).unwrap();
        assert_means(&view, &meaning);
        assert_eq!(rest, [0xde, 0xad]);
    });
}

#[test]
fn golden_headers_are_written_over_poison_and_nothing_after_them() {
    each_golden(|golden, meaning| {
        let mut into = vec![0xa5; golden.len() + 1];
        assert_eq!(meaning.emit(&mut into), Ok(golden.len()));
        assert_eq!(into[..golden.len()], *golden);
        assert_eq!(into[golden.len()], 0xa5);
    });
}

#[test]
fn a_header_fits_no_shorter_buffer() {
    each_golden(|golden, meaning| {
        for have in 0..golden.len() {
            let mut into = vec![0xa5; have];
            let need = golden.len();
            assert_eq!(meaning.emit(&mut into), Err(Srv6Error::Truncated { need, have }));
            assert!(into.iter().all(|&byte| byte == 0xa5), "a refused buffer is left alone");
        }
    });
}

#[test]
fn every_value_of_the_short_fields_comes_back() {
    let way = way();
    let back = |header: SegmentRoutingHeader<'_>| {
        let bytes = emitted(&header);
        assert_means(&SegmentRoutingView::parse(&bytes).unwrap().0, &header);
    };
    for tag in 0..=u16::MAX {
        let [high, low] = tag.to_be_bytes();
        back(SegmentRoutingHeader { tag, next: IpProtocol(high), ..plain(&way) });
        back(SegmentRoutingHeader { flags: SegmentFlags(low), ..plain(&way) });
    }
    for segments_left in 0..=3 {
        back(SegmentRoutingHeader { segments_left, ..plain(&way) });
    }
    for kind in (0..=0xff).map(TlvType) {
        let value = [0xee; 255];
        let tlv = Tlv { kind, value: &value[..usize::from(kind.0)] };
        let header = SegmentRoutingHeader { tlvs: &[tlv], ..plain(&way) };
        if matches!(kind, TlvType::PAD_1 | TlvType::PAD_N | TlvType::HMAC) {
            let error = Srv6Error::TlvValue { kind, bytes: tlv.value.len() };
            assert_eq!(header.emit(&mut [0; 512]), Err(error), "it has a place of its own");
        } else {
            back(header);
        }
        assert_eq!(kind.is_mutable(), kind.0 >= 128);
    }
}

#[test]
fn every_length_of_way_and_value_is_padded_to_the_unit_and_none_with_a_pad_1() {
    let way = [segment(2); SEGMENTS_MAX + 1];
    for length in 1..=SEGMENTS_MAX {
        let bytes = emitted(&plain(&way[..length]));
        assert_eq!(bytes.len(), 8 + 16 * length);
        assert_means(&SegmentRoutingView::parse(&bytes).unwrap().0, &plain(&way[..length]));
    }
    let value = [0xff; 64];
    for length in 0..value.len() {
        let tlvs = [Tlv { value: &value[..length], ..UNKNOWN }];
        let hmac = Some(HmacTlv::unsigned(7, length % 2 == 1));
        let header = SegmentRoutingHeader { tlvs: &tlvs, hmac, ..plain(&way[..2]) };
        let bytes = emitted(&header);
        assert_eq!(bytes.len() % 8, 0);
        assert_means(&SegmentRoutingView::parse(&bytes).unwrap().0, &header);
        let padding = &bytes[40 + 2 + length..bytes.len() - HmacTlv::LEN];
        match padding {
            [] => assert_eq!((length + 2) % 8, 0),
            [4, zeros, rest @ ..] => {
                assert_eq!(rest.len(), usize::from(*zeros));
                assert!(rest.iter().all(|&byte| byte == 0));
            }
            other => panic!("{other:?} is no PadN"),
        }
    }
}

#[test]
fn what_no_header_holds_is_not_written() {
    let way = [segment(2); SEGMENTS_MAX + 1];
    let mut into = [0; 4_096];
    let none = SegmentRoutingHeader { way: &[], segments_left: 0, ..plain(&way) };
    assert_eq!(none.emit(&mut into), Err(Srv6Error::NoSegments));
    let (segments, most) = (SEGMENTS_MAX + 1, SEGMENTS_MAX);
    let error = Srv6Error::TooManySegments { segments, most };
    assert_eq!(plain(&way).emit(&mut into), Err(error));
    let (segments_left, last_entry) = (4, 2);
    let error = Srv6Error::SegmentsLeft { segments_left, last_entry };
    let beyond = SegmentRoutingHeader { segments_left, ..plain(&way[..3]) };
    assert_eq!(beyond.emit(&mut into), Err(error));
    let tlvs = [Tlv { value: &[0; 256], ..UNKNOWN }];
    let error = Srv6Error::TlvValue { kind: UNKNOWN.kind, bytes: 256 };
    assert_eq!(
        SegmentRoutingHeader { tlvs: &tlvs, ..plain(&way[..3]) }.emit(&mut into),
        Err(error)
    );
    let error = Srv6Error::TooLong { bytes: 2_056, most: LEN_MAX };
    let tlvs = [UNKNOWN];
    let long = SegmentRoutingHeader { tlvs: &tlvs, ..plain(&way[..127]) };
    assert_eq!(long.emit(&mut into), Ok(2_048));
    let tlvs = [UNKNOWN; 2];
    assert_eq!(SegmentRoutingHeader { tlvs: &tlvs, ..long }.emit(&mut into), Err(error));
    let digest = &[0; 33];
    let hmac = Some(HmacTlv { is_reduced: false, key_id: 1, digest });
    let error = Srv6Error::HmacLength { bytes: 33 };
    assert_eq!(SegmentRoutingHeader { hmac, ..plain(&way[..3]) }.emit(&mut into), Err(error));
}

#[test]
fn malformed_headers_are_refused_by_name() {
    let refused = |at: usize, octet: u8, error: Srv6Error| {
        let mut bytes = golden!("plain");
        bytes.resize(8 + 255 * 8, 0);
        bytes[at] = octet;
        assert_eq!(SegmentRoutingView::parse(&bytes).err(), Some(error));
    };
    for kind in (0..=0xff).filter(|kind| *kind != 4) {
        refused(2, kind, Srv6Error::RoutingType(kind));
    }
    for octets in 0..6 {
        refused(1, octets, Srv6Error::LastEntry { last_entry: 2, octets });
    }
    for last_entry in 3..=0xff {
        refused(4, last_entry, Srv6Error::LastEntry { last_entry, octets: 6 });
    }
    for segments_left in 4..=0xff {
        refused(3, segments_left, Srv6Error::SegmentsLeft { segments_left, last_entry: 2 });
    }
}

#[test]
fn tlvs_are_walked_to_the_exact_end_and_a_pad_1_is_one_octet() {
    let with = |tlvs: [u8; 8]| {
        let mut bytes = golden!("plain");
        bytes[1] = 7;
        bytes.extend(tlvs);
        SegmentRoutingView::parse(&bytes).map(|(view, _)| view.tlvs().count())
    };
    assert_eq!(with([0; 8]), Ok(0));
    assert_eq!(with([0, 252, 5, 1, 2, 3, 4, 5]), Ok(1));
    assert_eq!(with([4, 4, 9, 9, 9, 9, 4, 0]), Ok(0));
    assert_eq!(with([252, 1, 9, 253, 0, 0, 254, 0]), Ok(3));
    assert_eq!(with([252, 7, 0, 0, 0, 0, 0, 0]), Err(Srv6Error::Tlv { offset: 0 }));
    assert_eq!(with([0, 0, 0, 0, 0, 252, 2, 0]), Err(Srv6Error::Tlv { offset: 5 }));
    assert_eq!(with([252, 5, 0, 0, 0, 0, 0, 9]), Err(Srv6Error::Tlv { offset: 7 }));
    assert_eq!(with([5, 6, 0, 0, 0, 0, 0, 9]), Err(Srv6Error::HmacLength { bytes: 6 }));
}

#[test]
fn damaged_goldens_are_refused_or_mean_something_that_can_be_sent() {
    each_golden(|golden, _| {
        each_truncation(golden, |cut| {
            let need = if cut.len() < FIXED_BYTES { FIXED_BYTES } else { golden.len() };
            let error = Srv6Error::Truncated { need, have: cut.len() };
            assert_eq!(SegmentRoutingView::parse(cut).err(), Some(error));
        });
        each_bit_flip(golden, |bytes| {
            let Ok((view, rest)) = SegmentRoutingView::parse(bytes) else {
                return;
            };
            assert_eq!(view.len_bytes() + rest.len(), bytes.len());
            let way: Vec<Ipv6Addr> = view.way().collect();
            let tlvs: Vec<Tlv<'_>> = view.tlvs().filter(|tlv| tlv.kind != TlvType::HMAC).collect();
            let (segments_left, flags) = (view.segments_left(), view.flags());
            let (next, tag, hmac) = (view.next(), view.tag(), view.hmac());
            let (way, tlvs) = (&way[..], &tlvs[..]);
            let meaning = SegmentRoutingHeader { next, segments_left, flags, tag, way, tlvs, hmac };
            assert_means(&SegmentRoutingView::parse(&emitted(&meaning)).unwrap().0, &meaning);
        });
    });
}
