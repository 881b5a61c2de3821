//! Golden, exhaustive, property and damage tests of headers with a mark.

use std::vec::Vec;

use proptest::collection::vec as any_vec;
use proptest::prelude::*;

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use crate::scalar::EtherType;
use crate::source_route::{Next, advance};

macro_rules! golden {
    ($name:literal) => {
        hex(include_str!(concat!("../../../../../conformance/source_route/", $name, ".hex")))
    };
}

const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn written(profile: Profile, way: &[u8], mark: u16) -> Vec<u8> {
    let mut frame = [0xa5; LEN + 2].to_vec();
    frame[6..12].copy_from_slice(&SOURCE);
    let header = MarkedHeader::new(profile, way, mark).unwrap();
    assert_eq!(header.emit(&mut frame), Ok(LEN));
    assert_eq!(frame.split_off(LEN), [0xa5; 2], "more than the header was written");
    frame
}

#[test]
fn golden_headers_are_written_walked_and_read_at_the_end() {
    let seven: Vec<u8> = (11..=17).collect();
    let most = [250, 251, 252, 253, 254, 255, 128];
    let goldens: [(_, _, &[u8], _); 4] = [
        (golden!("safe9_marked"), Profile::Safe9, &[1, 3, 5], 0x1234),
        (golden!("safe9_marked_seven"), Profile::Safe9, &seven, 0xffff),
        (golden!("classic_marked"), Profile::Classic80, &[1, 3, 6], 0x1234),
        (golden!("classic_marked_seven"), Profile::Classic80, &most, 0xffff),
    ];
    for (golden, profile, way, mark) in goldens {
        let mut frame = written(profile, way, mark);
        assert_eq!(frame, golden, "{profile:?}");
        for (taken, port) in way.iter().enumerate() {
            let header = MarkedHeader::parse(&frame).unwrap();
            assert_eq!(usize::from(header.counter()), way.len() - taken);
            assert_eq!(advance(&mut frame, &[]), Ok(Next::Port(*port)));
        }
        assert_eq!(advance(&mut frame, &[]), Ok(Next::End));
        let header = MarkedHeader::parse(&frame).unwrap();
        assert_eq!((header.profile(), header.mark(), header.counter()), (profile, mark, 0));
        assert_eq!(header.way().collect::<Vec<_>>(), way, "it stands there to the end");
    }
}

#[test]
fn no_header_is_made_of_a_way_that_reaches_the_mark_or_of_none() {
    for profile in PROFILES {
        let refusal = |way: &[u8]| MarkedHeader::new(profile, way, 1).err();
        assert_eq!(refusal(&[2; 7]), None);
        let most = SourceRouteError::TooManyPorts { ports: 8, most: PORTS };
        assert_eq!((refusal(&[2; 8]), refusal(&[])), (Some(most), Some(SourceRouteError::NoPorts)));
    }
    assert!(MarkedHeader::new(Profile::Native, &[2], 1).is_err());
}

#[test]
fn a_frame_is_made_whole_where_it_holds_an_ip_packet() {
    let station = MacAddr([2, 9, 9, 9, 9, 9]);
    for (first, ether_type) in [(0x45, EtherType::IPV4), (0x60, EtherType::IPV6)] {
        for profile in PROFILES {
            let mut frame = written(profile, &[2], 7);
            frame.extend([first, 1, 2, 3]);
            restore(&mut frame, station).unwrap();
            let expected =
                [&station.0[..], &SOURCE, &ether_type.0.to_be_bytes(), &[first, 1, 2, 3]].concat();
            assert_eq!(frame[ADDED_BYTES..], expected);
        }
    }
    for payload in [&[0x00, 1][..], &[0x50], &[]] {
        let mut frame = [written(Profile::Safe9, &[2], 7), payload.to_vec()].concat();
        let before = frame.clone();
        assert_eq!(restore(&mut frame, station), Err(SourceRouteError::NotIp));
        assert_eq!(frame, before);
    }
    assert!(restore(&mut [0; 5], station).is_err());
}

#[test]
fn an_odd_last_port_is_all_that_others_take_for_something_else() {
    for last in 1..=u8::MAX {
        for way in [&[last][..], &[255, 255, 255, 255, 255, 255, last]] {
            for mark in [0, 1, 0x7fff, 0x8000, 0xffff] {
                let header = MarkedHeader::new(Profile::Classic80, way, mark).unwrap();
                let expected = (last % 2 == 1).then_some(Reserved::GroupAddress);
                assert_eq!(header.reserved(), expected, "{way:?} {mark}");
                let safe = MarkedHeader::new(Profile::Safe9, way, mark).unwrap();
                assert_eq!(safe.reserved(), None);
            }
        }
    }
}

#[test]
fn what_has_no_mark_is_said_to_have_none() {
    let mut frame = [0; 64];
    ClassicHeader::new(&[2, 4], Density::Labels).unwrap().emit(&mut frame).unwrap();
    assert_eq!(MarkedHeader::parse(&frame), Err(SourceRouteError::NoMark));
    ClassicHeader::new(&[2; 12], Density::Labels).unwrap().emit(&mut frame).unwrap();
    assert_eq!(MarkedHeader::parse(&frame), Err(SourceRouteError::NoMark));
    SafeHeader::new(&[2; 9]).unwrap().emit(&mut frame).unwrap();
    let counter = SourceRouteError::Counter { counter: 9, ports: PORTS };
    assert_eq!(MarkedHeader::parse(&frame), Err(counter));
    assert_eq!(MarkedHeader::parse(&[0; 64]), Err(SourceRouteError::NoProfile));
}

#[test]
fn damage_is_refused_or_read_as_what_it_says_then() {
    for profile in PROFILES {
        let frame = written(profile, &[2, 4, 6], 0xbeef);
        each_truncation(&frame, |cut| assert!(MarkedHeader::parse(cut).is_err()));
        each_bit_flip(&frame, |damaged| {
            if let Ok(header) = MarkedHeader::parse(damaged) {
                assert!(usize::from(header.counter()) <= PORTS);
            }
            let _ = restore(&mut damaged.to_vec(), MacAddr([0; 6]));
        });
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(way in any_vec(1..=u8::MAX, 1..=PORTS), mark in any::<u16>()) {
        for profile in PROFILES {
            let header = MarkedHeader::parse(&written(profile, &way, mark)).unwrap();
            prop_assert_eq!(header, MarkedHeader::new(profile, &way, mark).unwrap());
            prop_assert_eq!(header.way().collect::<Vec<_>>(), way.clone());
        }
    }
}
