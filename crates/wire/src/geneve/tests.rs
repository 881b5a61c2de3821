//! Golden, poison, exhaustive and damage tests of GENEVE.

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};

const TENANT: &str = include_str!("../../../../conformance/geneve/tenant.hex");
const OPTIONS: &str = include_str!("../../../../conformance/geneve/options.hex");

fn vni(value: u32) -> Vni {
    Vni::new(value).unwrap()
}

fn plain() -> GeneveHeader<'static> {
    GeneveHeader {
        vni: vni(0x12_34a5),
        protocol: EtherType::TRANSPARENT_ETHERNET,
        is_oam: false,
        is_critical: false,
        options: &[],
    }
}

#[test]
fn the_goldens_are_read() {
    let bytes = [hex(TENANT), std::vec![0xde, 0xad]].concat();
    assert_eq!(GeneveHeader::parse(&bytes), Ok((plain(), &[0xde, 0xad][..])));
    let bytes = hex(OPTIONS);
    let options = &bytes[HEADER_BYTES..];
    let expected = GeneveHeader { vni: vni(0x0a_0b0c), is_critical: true, options, ..plain() };
    assert_eq!(GeneveHeader::parse(&bytes), Ok((expected, &[][..])));
}

#[test]
fn headers_are_written_over_poison_and_nothing_after_them() {
    for golden in [hex(TENANT), hex(OPTIONS)] {
        let (header, _) = GeneveHeader::parse(&golden).unwrap();
        let mut into = [0xa5; 32];
        assert_eq!(header.emit(&mut into), Ok(golden.len()));
        assert_eq!(into[..golden.len()], golden);
        assert_eq!(into[golden.len()], 0xa5);
        for have in 0..golden.len() {
            let need = golden.len();
            let refused = header.emit(&mut into[..have]);
            assert_eq!(refused, Err(GeneveError::Truncated { need, have }));
        }
    }
}

#[test]
fn every_value_of_the_first_two_bytes_is_judged() {
    let mut bytes = std::vec![0; HEADER_BYTES + OPTIONS_BYTES_MAX];
    for first in 0..=0xff_u8 {
        for flags in 0..=0xff_u8 {
            bytes[..2].copy_from_slice(&[first, flags]);
            let parsed = GeneveHeader::parse(&bytes);
            let Ok((header, rest)) = parsed else {
                assert_eq!(parsed, Err(GeneveError::Version(first >> 6)));
                continue;
            };
            assert_eq!(first >> 6, 0);
            assert_eq!(header.options.len(), usize::from(first & 0x3f) * 4);
            assert_eq!((header.is_oam, header.is_critical), (flags & 0x80 != 0, flags & 0x40 != 0));
            assert_eq!(header.options.len() + rest.len(), OPTIONS_BYTES_MAX);
        }
    }
}

#[test]
fn an_option_that_ends_behind_the_options_is_refused() {
    let parse = |options: &[u8]| {
        let words = u8::try_from(options.len() / 4).unwrap();
        let bytes = [&[words, 0, 0x65, 0x58, 0, 0, 1, 0], options].concat();
        GeneveHeader::parse(&bytes).map(|_| ())
    };
    assert_eq!(parse(&[0, 0, 0, 0]), Ok(()));
    assert_eq!(parse(&[0, 0, 0, 1]), Err(GeneveError::Option { offset: 0 }));
    assert_eq!(parse(&[0, 0, 0, 0xe0, 0, 0, 0, 31]), Err(GeneveError::Option { offset: 4 }));
    let odd = GeneveHeader { options: &[0; 3], ..plain() };
    assert!(odd.emit(&mut [0; 64]).is_err(), "half a word of options");
    let long = GeneveHeader { options: &[0; OPTIONS_BYTES_MAX + 4], ..plain() };
    assert!(long.emit(&mut [0; 512]).is_err());
}

#[test]
fn damaged_goldens_are_refused_or_mean_something_that_can_be_sent() {
    for golden in [hex(TENANT), hex(OPTIONS)] {
        each_truncation(&golden, |cut| assert!(GeneveHeader::parse(cut).is_err()));
        each_bit_flip(&golden, |bytes| {
            let Ok((header, _)) = GeneveHeader::parse(bytes) else { return };
            let mut again = [0xa5; HEADER_BYTES + OPTIONS_BYTES_MAX];
            let length = header.emit(&mut again).unwrap();
            assert_eq!(GeneveHeader::parse(&again[..length]), Ok((header, &[][..])));
        });
    }
}
