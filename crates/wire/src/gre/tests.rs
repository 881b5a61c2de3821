//! Golden, poison, exhaustive and damage tests of GRE.

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use std::vec::Vec;

fn goldens() -> [Vec<u8>; 3] {
    [
        include_str!("../../../../conformance/gre/plain.hex"),
        include_str!("../../../../conformance/gre/all_words.hex"),
        include_str!("../../../../conformance/gre/nvgre.hex"),
    ]
    .map(hex)
}

#[test]
fn the_goldens_are_read_and_written() {
    let plain = GreHeader { protocol: EtherType::IPV4, checksum: None, key: None, sequence: None };
    let protocol = EtherType::TRANSPARENT_ETHERNET;
    let (checksum, key, sequence) = (Some(0xabcd), Some(0x1122_3344), Some(5));
    let all = GreHeader { protocol, checksum, key, sequence };
    let nvgre = GreHeader { protocol, key: Some(0x1234_5607), ..plain };
    for (bytes, expected) in goldens().iter().zip([plain, all, nvgre]) {
        let (header, rest) = GreHeader::parse(bytes).unwrap();
        assert_eq!((header, rest.len()), (expected, 0));
        let mut into = [0xa5; 20];
        assert_eq!(header.emit(&mut into), Ok(bytes.len()));
        assert_eq!(into[..bytes.len()], bytes[..]);
        assert_eq!(into[bytes.len()], 0xa5);
        for have in 0..bytes.len() {
            let refused = header.emit(&mut into[..have]);
            assert_eq!(refused, Err(GreError::Truncated { need: bytes.len(), have }));
        }
    }
    assert_eq!(nvgre.virtual_subnet(), Vni::new(0x12_3456).ok());
    assert_eq!(plain.virtual_subnet(), None);
}

#[test]
fn all_values_of_the_flags_are_judged() {
    for flags in 0..=u16::MAX {
        let [high, low] = flags.to_be_bytes();
        let bytes = [[high, low, 8, 0].as_slice(), &[0; 12]].concat();
        let parsed = GreHeader::parse(&bytes).map(|(header, _)| header.len_bytes());
        if flags & 7 != 0 {
            assert_eq!(parsed, Err(GreError::Version(low & 7)));
        } else if flags & 0x4c00 != 0 {
            assert_eq!(parsed, Err(GreError::Reserved { flags }));
        } else {
            assert_eq!(parsed, Ok(4 + 4 * (flags & 0xb000).count_ones() as usize));
        }
    }
}

#[test]
fn damaged_goldens_are_refused_or_mean_something_that_can_be_sent() {
    for golden in goldens() {
        each_truncation(&golden, |cut| assert!(GreHeader::parse(cut).is_err()));
        each_bit_flip(&golden, |bytes| {
            let Ok((header, _)) = GreHeader::parse(bytes) else { return };
            let mut again = [0xa5; 16];
            let length = header.emit(&mut again).unwrap();
            assert_eq!(GreHeader::parse(&again[..length]), Ok((header, &[][..])));
        });
    }
}
