//! Golden, poison, exhaustive and damage tests of MPLS and the SFC label pair.

use std::vec::Vec;

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

/// The second word of a pair.
fn function_entry(index: u8, ttl: u8) -> [u8; 4] {
    let mut bytes = [0; SfcLabelPair::LEN];
    pair(index, ttl).emit(&mut bytes).unwrap();
    bytes[SfcLabelPair::FUNCTION_ENTRY].try_into().unwrap()
}

#[test]
fn a_golden_stack_is_read_to_its_bottom() {
    let mut bytes = hex(STACK);
    bytes.extend([0xde, 0xad]);
    let (stack, rest) = LabelStack::parse(&bytes).unwrap();
    assert_eq!(stack.depth(), 3);
    let expected = [entry(16, 5, false, 64), entry(0xf_ffff, 0, false, 255), entry(3, 0, true, 1)];
    assert_eq!(stack.entries().collect::<Vec<_>>(), expected);
    assert_eq!(rest, [0xde, 0xad]);
    assert_eq!(LabelStackEntry::parse(&bytes), Ok((expected[0], &bytes[4..])));
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
fn a_stack_of_the_greatest_depth_is_read_and_a_deeper_one_is_refused() {
    for depth in 1..=STACK_ENTRIES_MAX + 1 {
        let mut bytes = std::vec![0; depth * 4];
        bytes[depth * 4 - 2] = 1;
        let parsed = LabelStack::parse(&bytes).map(|(stack, rest)| (stack.depth(), rest.len()));
        let expected =
            if depth > STACK_ENTRIES_MAX { Err(MplsError::TooDeep) } else { Ok((depth, 0)) };
        assert_eq!(parsed, expected);
    }
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
fn a_position_advances_until_index_1() {
    let mut word = function_entry(255, 63);
    for index in (1..255).rev() {
        assert_eq!(advance(&mut word), Ok(ServiceIndex(index)));
        assert_eq!(word, function_entry(index, 63));
    }
    assert_eq!(advance(&mut word), Err(MplsError::IndexExhausted));
    assert_eq!(word, function_entry(1, 63));
    let mut no_index = entry(0x1001, 0, true, 1).to_bytes();
    assert_eq!(advance(&mut no_index), Err(MplsError::Index { label: 0x1001 }));
}

#[test]
fn a_time_to_live_is_decremented_and_never_to_0() {
    let mut word = function_entry(7, 255);
    for ttl in (1..255).rev() {
        assert_eq!(decrement_ttl(&mut word), Ok(ttl));
        assert_eq!(word, function_entry(7, ttl));
    }
    assert_eq!(decrement_ttl(&mut word), Err(MplsError::TtlExpired));
    assert_eq!(word, function_entry(7, 1));
    let mut spent = entry(0x7000, 0, true, 0).to_bytes();
    assert_eq!(decrement_ttl(&mut spent), Err(MplsError::TtlExpired));
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
    each_truncation(&hex(STACK), |cut| {
        let need = (cut.len() / 4 + 1) * 4;
        let error = LabelStack::parse(cut).unwrap_err();
        assert_eq!(error, MplsError::Truncated { need, have: cut.len() });
    });
    each_bit_flip(&hex(STACK), |bytes| {
        let Ok((stack, rest)) = LabelStack::parse(bytes) else {
            return;
        };
        let again: Vec<u8> = stack.entries().flat_map(LabelStackEntry::to_bytes).collect();
        assert_eq!(again, bytes[..bytes.len() - rest.len()]);
    });
}
