//! Golden, poison, exhaustive and damage tests of VXLAN.

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};

const TENANT: &str = include_str!("../../../../conformance/vxlan/tenant.hex");
const RESERVED_BITS: &str = include_str!("../../../../conformance/vxlan/reserved_bits.hex");

fn vni(value: u32) -> Vni {
    Vni::new(value).unwrap()
}

#[test]
fn a_golden_header_is_read() {
    let mut bytes = hex(TENANT);
    bytes.extend([0xde, 0xad]);
    let (header, rest) = VxlanHeader::parse(&bytes).unwrap();
    assert_eq!(header, VxlanHeader { vni: vni(0x12_34a5) });
    assert_eq!(rest, [0xde, 0xad]);
}

#[test]
fn reserved_bits_are_ignored() {
    let bytes = hex(RESERVED_BITS);
    assert_eq!(VxlanHeader::parse(&bytes).unwrap().0.vni, vni(1));
}

#[test]
fn a_header_is_written_over_poison_and_nothing_after_it() {
    let mut into = [0xa5; VxlanHeader::LEN + 1];
    assert_eq!(VxlanHeader { vni: vni(0x12_34a5) }.emit(&mut into), Ok(VxlanHeader::LEN));
    assert_eq!(into[..VxlanHeader::LEN], hex(TENANT));
    assert_eq!(into[VxlanHeader::LEN], 0xa5);
}

#[test]
fn a_header_fits_no_shorter_buffer() {
    for have in 0..VxlanHeader::LEN {
        let mut into = std::vec![0xa5; have];
        let error = VxlanHeader { vni: vni(1) }.emit(&mut into).unwrap_err();
        assert_eq!(error, VxlanError::Truncated { need: 8, have });
        assert!(into.iter().all(|&byte| byte == 0xa5), "a refused buffer is left alone");
    }
}

#[test]
fn each_byte_of_the_identifier_takes_all_its_values() {
    for shift in [0, 8, 16] {
        for byte in 0..=0xff_u32 {
            let header = VxlanHeader { vni: vni(byte << shift) };
            let mut into = [0xa5; VxlanHeader::LEN];
            header.emit(&mut into).unwrap();
            assert_eq!(VxlanHeader::parse(&into), Ok((header, &[][..])));
        }
    }
}

#[test]
fn only_the_i_flag_decides_among_all_flags() {
    for flags in 0..=0xff {
        let parsed = VxlanHeader::parse(&[flags, 0, 0, 0, 0, 0, 7, 0]).map(|(header, _)| header);
        if flags & 0x08 == 0 {
            assert_eq!(parsed, Err(VxlanError::NoIdentifier { flags }));
        } else {
            assert_eq!(parsed, Ok(VxlanHeader { vni: vni(7) }));
        }
    }
}

#[test]
fn damaged_goldens_are_refused_or_mean_something_that_can_be_sent() {
    for golden in [hex(TENANT), hex(RESERVED_BITS)] {
        each_truncation(&golden, |cut| {
            let error = VxlanHeader::parse(cut).unwrap_err();
            assert_eq!(error, VxlanError::Truncated { need: 8, have: cut.len() });
        });
        each_bit_flip(&golden, |bytes| {
            let Ok((header, _)) = VxlanHeader::parse(bytes) else {
                return;
            };
            let mut again = [0xa5; VxlanHeader::LEN];
            header.emit(&mut again).unwrap();
            assert_eq!(VxlanHeader::parse(&again), Ok((header, &[][..])));
        });
    }
}
