//! Sums against a slow and obvious one.

use proptest::prelude::*;

use super::*;

/// Word by word, as RFC 1071 section 4.1 describes it.
fn slow_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u64::from);
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    u16::try_from(sum).unwrap()
}

#[test]
fn the_example_of_rfc_1071_section_3_sums_as_printed() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::of(&bytes).folded(), 0xddf2);
    assert_eq!(Sum::of(&bytes).checksum(), 0x220d);
}

#[test]
fn the_example_of_rfc_1624_section_4_updates_to_zero() {
    assert_eq!(update_word(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn a_word_changed_to_itself_never_turns_a_checksum_into_another_zero_than_recomputation() {
    // The header holds 0x0001 and the changed word; its checksum is never 0xffff.
    for old in 0..=u16::MAX {
        let before = Sum::of_word(1).then(Sum::of_word(old)).checksum();
        for new in [0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff, old] {
            let after = Sum::of_word(1).then(Sum::of_word(new)).checksum();
            assert_eq!(update_word(before, old, new), after);
        }
    }
}

#[test]
fn nothing_sums_to_zero_and_ones_to_ones() {
    assert_eq!(Sum::of(&[]), Sum::EMPTY);
    assert_eq!(Sum::EMPTY.checksum(), 0xffff);
    assert_eq!(Sum::of(&[0xff; 65_550]).folded(), 0xffff);
}

#[test]
fn the_other_zero_stands_for_a_computed_zero() {
    assert_eq!(Sum::of_word(0xffff).checksum(), 0);
    assert_eq!(Sum::of_word(0xffff).checksum_never_zero(), 0xffff);
    assert_eq!(Sum::of_word(0xfffe).checksum_never_zero(), 1);
}

#[test]
fn pseudo_headers_equal_their_bytes() {
    let (a, b) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 254));
    let bytes = [192, 0, 2, 1, 198, 51, 100, 254, 0, 6, 0x12, 0x34];
    assert_eq!(pseudo_header_v4(a, b, IpProtocol::TCP, 0x1234), Sum::of(&bytes));
    assert_eq!(pseudo_header(a.into(), b.into(), IpProtocol::TCP, 0x1234), Sum::of(&bytes));

    let (a, b): (Ipv6Addr, Ipv6Addr) =
        ("2001:db8::1".parse().unwrap(), "fe80::ffff:2".parse().unwrap());
    let mut bytes = [0; 40];
    bytes[..16].copy_from_slice(&a.octets());
    bytes[16..32].copy_from_slice(&b.octets());
    bytes[32..36].copy_from_slice(&0x0001_0203_u32.to_be_bytes());
    bytes[39] = 58;
    assert_eq!(pseudo_header_v6(a, b, IpProtocol::ICMPV6, 0x0001_0203), Sum::of(&bytes));
    assert_eq!(pseudo_header(a.into(), b.into(), IpProtocol::ICMPV6, 0x0001_0203), Sum::of(&bytes));
}

proptest! {
    #[test]
    fn the_fast_sum_is_the_slow_sum(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(Sum::of(&bytes).folded(), slow_sum(&bytes));
    }

    #[test]
    fn parts_combine_wherever_the_string_is_cut(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        first in 0_usize..100,
        second in 0_usize..100,
    ) {
        let first = first.min(bytes.len());
        let second = second.clamp(first, bytes.len());
        let parts = Sum::of(&bytes[..first])
            .then(Sum::of(&bytes[first..second]))
            .then_bytes(&bytes[second..]);
        prop_assert_eq!(parts, Sum::of(&bytes));
    }

    #[test]
    fn an_update_equals_recomputation(
        mut bytes in prop::collection::vec(any::<u8>(), 20..60),
        new in any::<[u8; 4]>(),
        at in 0_usize..8,
    ) {
        bytes[18] = 1; // never all zeros
        let at = at * 2;
        let old = Sum::of(&bytes[at..at + 4]);
        let before = Sum::of(&bytes).checksum();
        bytes[at..at + 4].copy_from_slice(&new);
        prop_assert_eq!(update(before, old, Sum::of(&new)), Sum::of(&bytes).checksum());
    }
}
