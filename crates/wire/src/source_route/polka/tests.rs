//! Golden, property and damage tests of numbers of ways in frames.

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use proptest::collection::vec as any_vec;
use proptest::prelude::*;

use super::residues::{Irreducible, identify};
use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use crate::source_route::{self, Profile};

macro_rules! golden {
    ($name:literal) => {
        hex(include_str!(concat!("../../../../../conformance/source_route/", $name, ".hex")))
    };
}

const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// The polynomials of some nodes, so many to each.
fn nodes(degree: Degree, count: usize, each: usize) -> Vec<Box<[Reducer]>> {
    let all = Irreducible::of_degree(u32::from(degree.get())).take(count * each);
    let all: Vec<Reducer> = all.map(Reducer::new).collect();
    all.chunks(each).map(Box::from).collect()
}

/// A frame that goes over nodes in their first pass.
fn written(degree: Degree, way: &[(&[Reducer], u8)], path: Option<Spi>) -> Vec<u8> {
    let residues: Vec<_> = way.iter().map(|(own, port)| (own[0].by(), u16::from(*port))).collect();
    let mut number = vec![0; degree.octets(way.len())];
    identify(&residues, &mut number).unwrap();
    let hops = u8::try_from(way.len()).unwrap();
    let ether_type = EtherType::IPV4;
    let header = PolkaHeader { degree, pass: 0, hops, number: &number, path, ether_type };
    frame_of(&header)
}

fn frame_of(header: &PolkaHeader<'_>) -> Vec<u8> {
    let mut frame = vec![0xa5; header.len_bytes() + 2];
    frame[..12].copy_from_slice(&ADDRESSES);
    assert_eq!(header.emit(&mut frame), Ok(header.len_bytes()));
    assert_eq!(frame.split_off(header.len_bytes()), [0xa5; 2], "more than the header was written");
    frame
}

/// The port that a node takes.
fn step(frame: &mut [u8], own: &[Reducer]) -> Result<u8, SourceRouteError> {
    let (before, seen) = (frame.to_vec(), source_route::next(frame, own));
    let next = source_route::advance(frame, own);
    assert_eq!(seen, next, "who looks and who goes see the same");
    let mut expected = before;
    if next.is_ok() {
        expected[HOPS_AT] -= 1;
    }
    assert_eq!(frame, expected, "the hop limit is all that changes");
    next.map(|next| next.port().unwrap())
}

#[test]
fn golden_headers_are_written_and_walked() {
    let ports: Vec<u8> = (11..=20).collect();
    let path = Spi::from_low_bits(0x12_3456);
    for (golden, degree, path) in [
        (golden!("polka_degree_8"), Degree::Eight, None),
        (golden!("polka_degree_16"), Degree::Sixteen, Some(path)),
    ] {
        let eight = [0x11b, 0x11d, 0x12b, 0x12d, 0x139, 0x13f, 0x14d, 0x15f, 0x163, 0x165];
        let of_eight = eight.map(|bits| vec![Reducer::new(Irreducible::new(bits).unwrap())].into());
        let nodes = match degree {
            Degree::Eight => of_eight.into(),
            Degree::Sixteen => nodes(degree, 10, 1),
        };
        let way: Vec<_> = nodes.iter().map(|own| &**own).zip(ports.iter().copied()).collect();
        let mut frame = written(degree, &way, path);
        assert_eq!(frame, golden, "{degree:?}");
        assert_eq!(source_route::profile(&frame), Some(Profile::Polka));
        for (left, (own, port)) in (0..10).rev().zip(&way) {
            assert_eq!(step(&mut frame, own), Ok(*port));
            let view = PolkaView::parse(&frame).unwrap();
            assert_eq!((view.hops(), view.path(), view.pass()), (left, path, 0));
            assert_eq!((view.degree(), view.ether_type()), (degree, EtherType::IPV4));
            assert_eq!(view.len_bytes(), frame.len());
        }
        assert_eq!(step(&mut frame, way[0].0), Err(SourceRouteError::TtlExpired));
    }
}

#[test]
fn a_node_that_a_way_comes_by_twice_has_a_polynomial_for_each_pass() {
    let nodes = nodes(Degree::Sixteen, 3, 2);
    // Over 0, 1 and 2, and in the second pass over 1 and 0.
    let way = [(0, 0, 5), (1, 0, 6), (2, 0, 7), (1, 1, 8), (0, 1, 9)];
    let residues =
        way.map(|(node, pass, port): (usize, usize, u8)| (nodes[node][pass].by(), u16::from(port)));
    let mut number = [0; 10];
    identify(&residues, &mut number).unwrap();
    for (node, pass, port) in way {
        let pass_octet = u8::try_from(pass).unwrap();
        let mut frame = frame_of(&PolkaHeader {
            degree: Degree::Sixteen,
            pass: pass_octet,
            hops: 5,
            number: &number,
            path: None,
            ether_type: EtherType::IPV6,
        });
        assert_eq!(step(&mut frame, &nodes[node]), Ok(port));
        let refused = step(&mut frame, &nodes[node][..pass]);
        assert_eq!(refused, Err(SourceRouteError::Pass(pass_octet)));
    }
}

#[test]
fn whoever_begins_a_pass_changes_that_alone_and_there_is_a_last_one() {
    let golden = golden!("polka_degree_16");
    let mut frame = golden.clone();
    for pass in 1..=PASS_MAX {
        assert_eq!(begin_pass(&mut frame), Ok(()));
        let mut expected = golden.clone();
        expected[FORM_AT] |= pass;
        assert_eq!(frame, expected);
        assert_eq!(PolkaView::parse(&frame).unwrap().pass(), pass);
    }
    let last = frame.clone();
    assert_eq!(begin_pass(&mut frame), Err(SourceRouteError::Pass(PASS_MAX)));
    assert_eq!(frame, last);
    each_truncation(&golden[..NUMBER_AT], |cut| {
        let mut cut = cut.to_vec();
        let before = cut.clone();
        assert!(begin_pass(&mut cut).is_err());
        assert_eq!(cut, before);
    });
}

#[test]
fn headers_that_say_what_they_cannot_are_refused_by_name() {
    let golden = golden!("polka_degree_16");
    let own = &nodes(Degree::Sixteen, 1, 1)[0];
    let of_eight = &nodes(Degree::Eight, 1, 1)[0];
    let with = |at: usize, value: u8| {
        let mut frame = golden.clone();
        frame[at] = value;
        frame
    };
    let have = golden.len();
    for (mut frame, expected) in [
        (with(13, 0xb7), SourceRouteError::NoProfile),
        (with(14, 0x20), SourceRouteError::Version(2)),
        (with(14, 0x11), SourceRouteError::Pass(1)),
        (with(15, 12), SourceRouteError::Degree(12)),
        (with(16, 0), SourceRouteError::TtlExpired),
        (with(17, 0x05), SourceRouteError::Flags(0x05)),
        (with(18, 0), SourceRouteError::Length(0)),
        (with(18, 19), SourceRouteError::Length(19)),
        (with(18, 130), SourceRouteError::Length(130)),
        (with(18, 128), SourceRouteError::Truncated { need: 147, have }),
    ] {
        assert_eq!(step(&mut frame, own), Err(expected));
    }
    // Of the right length, and of another degree than the node's.
    assert_eq!(step(&mut with(15, 8), own), Err(SourceRouteError::Degree(8)));
    assert_eq!(step(&mut golden.clone(), of_eight), Err(SourceRouteError::Degree(16)));
    // One bit in the number is another port, and none mostly.
    let strayed = step(&mut with(19, golden[19] ^ 1), own);
    assert!(matches!(strayed, Err(SourceRouteError::Residue(_))), "{strayed:?}");
    assert_eq!(step(&mut golden.clone(), &[]), Err(SourceRouteError::Pass(0)));
}

#[test]
fn what_no_header_holds_is_not_written() {
    let header = PolkaHeader {
        degree: Degree::Sixteen,
        pass: 0,
        hops: 1,
        number: &[0; 4],
        path: Spi::new(7).ok(),
        ether_type: EtherType::IPV4,
    };
    let mut room = [0; 400];
    for (number, length) in [(&[][..], 0), (&[0; 3], 3), (&[0; 130], 130), (&[0; 256], 256)] {
        let refused = PolkaHeader { number, ..header }.emit(&mut room);
        assert_eq!(refused, Err(SourceRouteError::Length(length)));
    }
    let refused = PolkaHeader { pass: 16, ..header }.emit(&mut room);
    assert_eq!(refused, Err(SourceRouteError::Pass(16)));
    let need = header.len_bytes();
    for have in 0..need {
        let truncated = Err(SourceRouteError::Truncated { need, have });
        assert_eq!(header.emit(&mut room[..have]), truncated);
    }
}

#[test]
fn damaged_goldens_are_refused_or_walked_no_further_than_their_hops() {
    let own = &nodes(Degree::Sixteen, 1, 2)[0];
    for golden in [golden!("polka_degree_8"), golden!("polka_degree_16")] {
        each_truncation(&golden, |cut| {
            assert!(PolkaView::parse(cut).is_err());
            let _ = step(&mut cut.to_vec(), own);
        });
        each_bit_flip(&golden, |damaged| {
            let _ = PolkaView::parse(damaged);
            let mut frame = damaged.to_vec();
            assert!((0..=255).any(|_| step(&mut frame, own).is_err()));
        });
    }
}

proptest! {
    #[test]
    fn random_ways_are_walked_node_by_node(
        ports in any_vec(1..=u8::MAX, 1..=64),
        path in proptest::option::of(0..0xff_ffff_u32),
    ) {
        let nodes = nodes(Degree::Sixteen, ports.len(), 1);
        let way: Vec<_> = nodes.iter().map(|own| &**own).zip(ports).collect();
        let mut frame = written(Degree::Sixteen, &way, path.map(Spi::from_low_bits));
        for (own, port) in way {
            prop_assert_eq!(step(&mut frame, own), Ok(port));
        }
    }
}
