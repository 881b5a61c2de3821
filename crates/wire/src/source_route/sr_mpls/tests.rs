//! Golden, exhaustive, property and damage tests of stacks of labels.

use std::vec;
use std::vec::Vec;

use proptest::collection::vec as any_vec;
use proptest::prelude::*;

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use crate::source_route::{self, Profile};

macro_rules! golden {
    ($name:literal) => {
        hex(include_str!(concat!("../../../../../conformance/source_route/", $name, ".hex")))
    };
}

const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

fn written(way: &[u8], path: u32) -> Vec<u8> {
    let header = SrMplsHeader::new(way, MplsLabel::from_low_bits(path)).unwrap();
    let mut frame = vec![0xa5; header.len_bytes() + 2];
    frame[..12].copy_from_slice(&ADDRESSES);
    assert_eq!(header.emit(&mut frame), Ok(header.len_bytes()));
    assert_eq!(frame.split_off(header.len_bytes()), [0xa5; 2], "more than the header was written");
    frame
}

/// A node's step, with what comes off taken off.
fn step(frame: &mut Vec<u8>) -> Result<Next, SourceRouteError> {
    let (before, seen) = (frame.clone(), source_route::next(frame, &[]));
    let next = source_route::advance(frame, &[]);
    assert_eq!(seen, next, "who looks and who goes see the same");
    match next {
        Ok(Next::Pop(_)) => drop(frame.drain(..PORT_BYTES)),
        _ => assert_eq!(*frame, before, "what does not go on is left alone"),
    }
    next
}

fn goldens() -> [(Vec<u8>, Vec<u8>, u32); 2] {
    [
        (golden!("sr_mpls_three"), vec![1, 3, 5], 0x1234),
        (golden!("sr_mpls_widest"), vec![255, 1], 0x7_ffff),
    ]
}

#[test]
fn golden_headers_are_written_walked_and_read_at_the_end() {
    for (golden, way, path) in goldens() {
        let mut frame = written(&way, path);
        assert_eq!(frame, golden);
        for (taken, port) in (0..).zip(&way) {
            let view = SrMplsView::parse(&frame).unwrap();
            assert_eq!(view.way().collect::<Vec<_>>(), way[usize::from(taken)..]);
            assert_eq!((view.len_bytes(), view.path().get()), (frame.len(), path));
            assert_eq!(source_route::profile(&frame), Some(Profile::SrMpls));
            assert_eq!(frame[17], 64 - taken, "the time to live of the first label");
            let mut expected = frame.clone();
            expected.drain(14..18);
            assert_eq!(step(&mut frame), Ok(Next::Pop(*port)));
            expected[17] = 63 - taken;
            assert_eq!(frame, expected);
        }
        assert_eq!(step(&mut frame), Ok(Next::End));
        let view = SrMplsView::parse(&frame).unwrap();
        assert_eq!((view.counter(), view.path().get()), (0, path));
    }
}

#[test]
fn headers_that_say_what_they_cannot_are_refused_by_name() {
    let golden = golden!("sr_mpls_three");
    let with = |at: usize, value: u8| {
        let mut frame = golden.clone();
        frame[at] = value;
        frame
    };
    for (mut frame, expected) in [
        (with(13, 0x48), SourceRouteError::NoProfile),
        // The block of ports, and the bottom of the stack.
        (with(14, 0x7f), SourceRouteError::Label(0x7_ff01)),
        (with(15, 0xe0), SourceRouteError::Label(0xf_fe01)),
        (with(16, 0x11), SourceRouteError::Label(0xf_ff01)),
        // What would be 0 behind this node, and what is.
        (with(17, 1), SourceRouteError::TtlExpired),
        (with(17, 0), SourceRouteError::TtlExpired),
    ] {
        assert_eq!(step(&mut frame), Err(expected));
    }
    let parsed = |frame: &[u8]| SrMplsView::parse(frame).map(drop);
    for (frame, expected) in [
        (with(20, 0x31), SourceRouteError::Label(0xf_ff03)),
        (with(28, 0x40), SourceRouteError::Label(0x1234)),
        (with(33, 1), SourceRouteError::ControlWord(1)),
    ] {
        assert_eq!(parsed(&frame), Err(expected));
    }
    for reserved in [15, 0x8_0000, PORT_LABELS_FROM] {
        let mut frame = golden.clone();
        frame[26..29].copy_from_slice(&(reserved << 4 | 1).to_be_bytes()[1..]);
        assert_eq!(parsed(&frame), Err(SourceRouteError::Label(reserved)));
    }
    // Its first label is the last: the way is at its end, unless its time is.
    let mut ended = golden;
    ended.drain(14..26);
    assert_eq!(step(&mut ended.clone()), Ok(Next::End));
    ended[17] = 0;
    assert_eq!(step(&mut ended), Err(SourceRouteError::TtlExpired));
}

#[test]
fn stacks_without_an_end_and_frames_without_a_header_are_refused() {
    let mut frame = ADDRESSES.to_vec();
    frame.extend([0x88, 0x47]);
    let label = [0xff, 0xf0, 0x10, 0x40];
    (0..300).for_each(|_| frame.extend(label));
    assert_eq!(SrMplsView::parse(&frame), Err(SourceRouteError::MoreLabels));
    frame.truncate(14 + 4 * 3);
    let expected = SourceRouteError::Truncated { need: 30, have: 26 };
    assert_eq!(SrMplsView::parse(&frame), Err(expected));
    // The first label stands alone: nothing is there to go on with.
    frame.truncate(18);
    assert_eq!(step(&mut frame), Err(SourceRouteError::Truncated { need: 22, have: 18 }));
}

#[test]
fn what_no_header_holds_is_not_written() {
    let label = MplsLabel::from_low_bits;
    assert_eq!(SrMplsHeader::new(&[], label(16)), Err(SourceRouteError::NoPorts));
    let many = SourceRouteError::TooManyPorts { ports: 256, most: 255 };
    assert_eq!(SrMplsHeader::new(&[1; 256], label(16)), Err(many));
    for reserved in [0, 15, 0x8_0000, PORT_LABELS_FROM] {
        let refused = SrMplsHeader::new(&[1], label(reserved));
        assert_eq!(refused, Err(SourceRouteError::Label(reserved)));
    }
    let header = SrMplsHeader::new(&[1, 2], label(16)).unwrap();
    let need = header.len_bytes();
    for have in 0..need {
        let truncated = Err(SourceRouteError::Truncated { need, have });
        assert_eq!(header.emit(&mut [0; 64][..have]), truncated);
    }
}

#[test]
fn damaged_goldens_are_refused_or_can_be_walked() {
    let walk =
        |frame: &mut Vec<u8>| (0..=PORTS_MAX).find(|_| !matches!(step(frame), Ok(Next::Pop(_))));
    for (golden, ..) in goldens() {
        each_truncation(&golden, |cut| {
            assert!(SrMplsView::parse(cut).is_err());
            assert!(walk(&mut cut.to_vec()).is_some());
        });
        each_bit_flip(&golden, |damaged| {
            let _ = SrMplsView::parse(damaged);
            assert!(walk(&mut damaged.to_vec()).is_some(), "the way has an end");
        });
    }
}

proptest! {
    #[test]
    fn every_way_comes_back(way in any_vec(any::<u8>(), 1..=63), path in PATH_LABELS) {
        let mut frame = written(&way, path);
        let view = SrMplsView::parse(&frame).unwrap();
        prop_assert_eq!(view.way().collect::<Vec<_>>(), way.clone());
        prop_assert_eq!(view.path().get(), path);
        for port in way {
            prop_assert!(begins_with_port(&frame));
            prop_assert_eq!(step(&mut frame), Ok(Next::Pop(port)));
        }
        prop_assert_eq!(step(&mut frame), Ok(Next::End));
        prop_assert!(!begins_with_port(&frame));
    }
}
