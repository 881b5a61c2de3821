//! Golden, poison, exhaustive and damage tests of MPLS and the SFC label pair.

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use crate::scalar::ServiceIndex;

const PAIR: &str = include_str!("../../../../conformance/mpls/sfc_pair.hex");
const STACK: &str = include_str!("../../../../conformance/mpls/stack.hex");

fn label(value: u32) -> MplsLabel {
    MplsLabel::new(value).unwrap()
}

fn entry(value: u32, traffic_class: u8, is_bottom: bool, ttl: u8) -> LabelStackEntry {
    LabelStackEntry { label: label(value), traffic_class, is_bottom, ttl }
}

fn pair(index: u8, ttl: u8) -> SfcLabelPair {
    SfcLabelPair::new(label(0x1_2345), ServiceIndex(index), ttl).unwrap()
}

#[test]
fn golden_entries_are_read() {
    let bytes = hex(STACK);
    let expected = [entry(16, 5, false, 64), entry(0xf_ffff, 0, false, 255), entry(3, 0, true, 1)];
    for (place, expected) in expected.into_iter().enumerate() {
        let (read, rest) = LabelStackEntry::parse(&bytes[place * 4..]).unwrap();
        assert_eq!((read, rest), (expected, &bytes[place * 4 + 4..]));
    }
}

#[test]
fn a_stack_is_written_over_poison_entry_by_entry() {
    let mut into = [0xa5; 13];
    let mut at = 0;
    for entry in [entry(16, 5, false, 64), entry(0xf_ffff, 0, false, 255), entry(3, 0, true, 1)] {
        at += entry.emit(&mut into[at..]).unwrap();
    }
    assert_eq!(into[..12], hex(STACK));
    assert_eq!(into[12], 0xa5);
}

#[test]
fn every_value_of_the_short_fields_of_an_entry_comes_back() {
    let back = |entry: LabelStackEntry| {
        let mut into = [0xa5; LabelStackEntry::LEN];
        assert_eq!(entry.emit(&mut into), Ok(4));
        assert_eq!(LabelStackEntry::parse(&into), Ok((entry, &[][..])));
    };
    for low in 0..=0xffff {
        back(entry(low, 0, false, 0));
        back(entry(low << 4, 7, true, 255));
    }
    for ttl in 0..=255 {
        for traffic_class in 0..8 {
            back(entry(0xf_ffff, traffic_class, false, ttl));
            back(entry(0, traffic_class, true, ttl));
        }
    }
    let outside = entry(0, 0xff, false, 0).to_bytes();
    assert_eq!(outside, entry(0, 7, false, 0).to_bytes(), "a class keeps to its three bits");
}

#[test]
fn a_golden_pair_is_read() {
    let mut bytes = hex(PAIR);
    bytes.push(0xee);
    let (read, rest) = SfcLabelPair::parse(&bytes).unwrap();
    assert_eq!(read, pair(255, 63));
    assert_eq!(read.context.get(), 0x1_2345);
    assert_eq!((read.context_ttl, read.function_ttl), (1, 63));
    assert_eq!(read.service_index(), Ok(ServiceIndex(255)));
    assert_eq!(rest, [0xee]);
}

#[test]
fn a_pair_is_written_over_poison_and_nothing_after_it() {
    let mut into = [0xa5; SfcLabelPair::LEN + 1];
    assert_eq!(pair(255, 63).emit(&mut into), Ok(SfcLabelPair::LEN));
    assert_eq!(into[..SfcLabelPair::LEN], hex(PAIR));
    assert_eq!(into[SfcLabelPair::LEN], 0xa5);
}

#[test]
fn entry_and_pair_fit_no_shorter_buffer() {
    for have in 0..SfcLabelPair::LEN {
        let mut into = std::vec![0xa5; have];
        assert_eq!(pair(1, 1).emit(&mut into), Err(MplsError::Truncated { need: 8, have }));
        if have < LabelStackEntry::LEN {
            let error = entry(1, 0, true, 1).emit(&mut into).unwrap_err();
            assert_eq!(error, MplsError::Truncated { need: 4, have });
        }
        assert!(into.iter().all(|&byte| byte == 0xa5), "a refused buffer is left alone");
    }
}

#[test]
fn every_index_and_ttl_but_0_makes_a_pair_that_comes_back() {
    for value in 0..=255 {
        let by_index = SfcLabelPair::new(label(16), ServiceIndex(value), 63);
        let by_ttl = SfcLabelPair::new(label(0xf_ffff), ServiceIndex(1), value);
        if value == 0 {
            assert_eq!(by_index, Err(MplsError::IndexExhausted));
            assert_eq!(by_ttl, Err(MplsError::TtlExpired));
            continue;
        }
        assert_eq!(by_index.unwrap().service_index(), Ok(ServiceIndex(value)));
        for pair in [by_index.unwrap(), by_ttl.unwrap()] {
            let mut bytes = [0xa5; SfcLabelPair::LEN];
            pair.emit(&mut bytes).unwrap();
            assert_eq!(SfcLabelPair::parse(&bytes), Ok((pair, &[][..])));
        }
    }
}

#[test]
fn special_purpose_labels_are_no_path_and_no_index() {
    for special in 0..16 {
        let refused = |offset| Err(MplsError::SpecialPurpose { label: special, offset });
        assert_eq!(SfcLabelPair::new(label(special), ServiceIndex(1), 1), refused(0));
        let words = |first: u32, second: u32| {
            let mut bytes = entry(first, 0, false, 1).to_bytes().to_vec();
            bytes.extend(entry(second, 0, true, 1).to_bytes());
            bytes
        };
        let parse = |bytes: &[u8]| SfcLabelPair::parse(bytes).map(|(pair, _)| pair);
        assert_eq!(parse(&words(special, 0x1000)), refused(0));
        assert_eq!(parse(&words(16, special)), refused(4));
    }
}

#[test]
fn a_function_label_has_twelve_zero_bits() {
    for low in 1..=0xfff {
        let value = 0x7_f000 | low;
        let mut bytes = entry(16, 0, false, 1).to_bytes().to_vec();
        bytes.extend(entry(value, 0, true, 1).to_bytes());
        assert_eq!(SfcLabelPair::parse(&bytes), Err(MplsError::Index { label: value }));
    }
}

#[test]
fn the_s_bit_is_clear_and_then_set() {
    for (first, second, expected) in [
        (false, true, None),
        (true, true, Some(MplsError::EndsEarly)),
        (true, false, Some(MplsError::EndsEarly)),
        (false, false, Some(MplsError::GoesOn)),
    ] {
        let mut bytes = entry(16, 0, first, 1).to_bytes().to_vec();
        bytes.extend(entry(0x1000, 0, second, 1).to_bytes());
        assert_eq!(SfcLabelPair::parse(&bytes).err(), expected);
    }
}

#[test]
fn traffic_classes_are_ignored_and_sent_as_zero() {
    let mut bytes = hex(PAIR);
    for class in 0..8_u8 {
        bytes[2] = bytes[2] & !0x0e | class << 1;
        bytes[6] = bytes[6] & !0x0e | class << 1;
        assert_eq!(SfcLabelPair::parse(&bytes).unwrap().0, pair(255, 63));
    }
}

#[test]
fn a_time_to_live_goes_on_one_less_and_never_as_0() {
    for ttl in 2..=255 {
        assert_eq!(pair(7, ttl).next_ttl(), Ok(ttl - 1));
    }
    assert_eq!(pair(7, 1).next_ttl(), Err(MplsError::TtlExpired));
    let spent = SfcLabelPair { function_ttl: 0, ..pair(7, 1) };
    assert_eq!(spent.next_ttl(), Err(MplsError::TtlExpired));
}

#[test]
fn damaged_goldens_are_refused_or_mean_something_that_can_be_sent() {
    each_truncation(&hex(PAIR), |cut| {
        let error = SfcLabelPair::parse(cut).unwrap_err();
        assert_eq!(error, MplsError::Truncated { need: 8, have: cut.len() });
    });
    each_bit_flip(&hex(PAIR), |bytes| {
        let Ok((pair, _)) = SfcLabelPair::parse(bytes) else {
            return;
        };
        let mut again = [0xa5; SfcLabelPair::LEN];
        pair.emit(&mut again).unwrap();
        assert_eq!(SfcLabelPair::parse(&again), Ok((pair, &[][..])));
    });
}
