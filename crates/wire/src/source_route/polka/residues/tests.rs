//! Vectors, counts and property tests of residues.

use std::vec;
use std::vec::Vec;

use proptest::collection::vec as any_vec;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::*;

fn polynomials(bits: &[u32]) -> Vec<Irreducible> {
    bits.iter().map(|bits| Irreducible::new(*bits).unwrap()).collect()
}

/// The number of a way, in as many octets as it needs.
fn number(residues: &[(Irreducible, u16)]) -> Vec<u8> {
    let degrees: u32 = residues.iter().map(|(by, _)| by.degree()).sum();
    let mut octets = vec![0xa5; degrees.div_ceil(8) as usize];
    identify(residues, &mut octets).unwrap();
    octets
}

fn ports_of(octets: &[u8], by: &[Irreducible]) -> Vec<u16> {
    by.iter().map(|by| Reducer::new(*by).residue(octets)).collect()
}

#[test]
fn the_vectors_have_these_numbers_and_leave_these_ports() {
    let degree_8 = [0x11b, 0x11d, 0x12b, 0x12d, 0x139, 0x13f, 0x14d, 0x15f, 0x163, 0x165];
    let degree_16 =
        [0x1002b, 0x1002d, 0x10039, 0x1003f, 0x10047, 0x10053, 0x1008d, 0x100bd, 0x100d7, 0x100f5];
    let ten: Vec<u16> = (11..=20).collect();
    let cases: [(&[u32], &[u16], &str); 3] = [
        (&[0b11, 0b111, 0b1011], &[0b1, 0b10, 0b110], "10"),
        (&degree_8, &ten, "3e807d59808b51dd12a4"),
        (&degree_16, &ten, "086ff4ff5ba2b05f944696624e2c3ac51f089c31"),
    ];
    for (by, ports, expected) in cases {
        let by = polynomials(by);
        let residues: Vec<_> = by.iter().copied().zip(ports.iter().copied()).collect();
        let octets = number(&residues);
        assert_eq!(octets, crate::golden::hex(expected));
        assert_eq!(ports_of(&octets, &by), ports);
    }
    let first: Vec<u32> = Irreducible::of_degree(16).map(Irreducible::bits).take(10).collect();
    assert_eq!(first, degree_16, "the lowest of all");
}

#[test]
fn each_degree_has_as_many_as_the_formula_says() {
    // By Möbius inversion: OEIS A001037.
    let counts = [2, 1, 2, 3, 6, 9, 18, 30, 56, 99, 186, 335, 630, 1_161, 2_182, 4_080];
    for (degree, count) in (1..).zip(counts) {
        assert_eq!(Irreducible::of_degree(degree).count(), count, "degree {degree}");
    }
    assert_eq!((Irreducible::of_degree(0).count(), Irreducible::of_degree(17).count()), (0, 0));
    for whole in [0, 1, 0b101, 0x10001, 0x2_0009] {
        assert_eq!(Irreducible::new(whole), None, "{whole:#x}");
    }
}

#[test]
fn what_has_no_number_is_refused() {
    let by = polynomials(&[0x1002b, 0x1002d]);
    let mut room = [0; IDENTIFIER_BYTES_MAX + 8];
    assert_eq!(identify(&[], &mut room[..4]), Err(SourceRouteError::NoPorts));
    let twice = [(by[0], 1), (by[0], 2)];
    assert_eq!(identify(&twice, &mut room[..4]), Err(SourceRouteError::Residue(2)));
    let wide = [(Irreducible::new(0x11b).unwrap(), 256)];
    assert_eq!(identify(&wide, &mut room[..4]), Err(SourceRouteError::Residue(256)));
    let two = [(by[0], 1), (by[1], 2)];
    let short = SourceRouteError::Truncated { need: 4, have: 3 };
    assert_eq!(identify(&two, &mut room[..3]), Err(short));
    let long = SourceRouteError::Length(IDENTIFIER_BYTES_MAX + 8);
    assert_eq!(identify(&two, &mut room), Err(long));
    // Octets in front are 0, and change no residue.
    let mut padded = [0xa5; 13];
    assert_eq!(identify(&two, &mut padded), Ok(()));
    assert_eq!(padded[..9], [0; 9]);
    assert_eq!(ports_of(&padded, &by), [1, 2]);
}

fn degree_16() -> Vec<Irreducible> {
    Irreducible::of_degree(16).collect()
}

proptest! {
    #[test]
    fn residues_of_random_ways_come_back(
        by in subsequence(degree_16(), 1..=IDENTIFIER_BYTES_MAX / 2),
        ports in any_vec(any::<u16>(), IDENTIFIER_BYTES_MAX / 2),
    ) {
        let residues: Vec<_> = by.iter().copied().zip(ports).collect();
        let octets = number(&residues);
        prop_assert_eq!(octets.len(), 2 * by.len());
        let found = ports_of(&octets, &by);
        prop_assert!(found.iter().zip(&residues).all(|(found, (_, port))| found == port));
        // Nothing lower has them, as the difference of two would be a multiple of all.
        let mut reversed: Vec<_> = residues;
        reversed.reverse();
        prop_assert_eq!(number(&reversed), octets, "whatever the order");
    }

    #[test]
    fn tables_divide_as_bit_by_bit(
        degree in 1..=DEGREE_MAX,
        place in any::<proptest::sample::Index>(),
        octets in any_vec(any::<u8>(), 0..=40),
    ) {
        let all: Vec<_> = Irreducible::of_degree(degree).collect();
        let by = all[place.index(all.len())];
        let expected = octets.iter().fold(0, |left, octet| {
            remainder(u64::from(left) << 8 | u64::from(*octet), by.bits())
        });
        prop_assert_eq!(u32::from(Reducer::new(by).residue(&octets)), expected);
        prop_assert_eq!(u32::from(by.residue(&octets)), expected);
    }
}
