//! Golden, poison, exhaustive and damage tests of NSH.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};

const MD_TYPE_1: &str = include_str!("../../../../conformance/nsh/md_type_1.hex");
const MD_TYPE_2: &str = include_str!("../../../../conformance/nsh/md_type_2.hex");
const BASE_TYPES: &str = include_str!("../../../../conformance/nsh/md_type_2_base_types.hex");
const EMPTY: &str = include_str!("../../../../conformance/nsh/md_type_2_empty.hex");

/// The context headers of the second golden, as bytes.
const CONTEXT: [u8; 16] = [0, 0, 4, 5, 1, 2, 3, 4, 5, 0, 0, 0, 1, 0, 0xff, 0];

fn header(spi: u32, si: u8, ttl: u32, metadata: Metadata<'_>, next: u8) -> NshHeader<'_> {
    NshHeader {
        spi: Spi::new(spi).unwrap(),
        si: ServiceIndex(si),
        ttl: NshTtl::new(ttl).unwrap(),
        metadata,
        next: NshNextProtocol(next),
        is_oam: false,
    }
}

fn plain() -> NshHeader<'static> {
    header(1, 255, 63, Metadata::ZERO, 3)
}

/// The context headers of the fourth golden, as they are written.
pub(super) fn base_types() -> Vec<u8> {
    [
        (ContextHeader::TENANT, &b"acme"[..]),
        (ContextHeader::INGRESS_NODE, b"host1"),
        (ContextHeader::FLOW, &[1, 2, 3, 4]),
        (ContextHeader::POLICY, &[0, 0, 0, 7]),
    ]
    .iter()
    .flat_map(|(kind, value)| {
        let header = ContextHeader { class: ContextHeader::CLASS_BASE, kind: *kind, value };
        let mut into = vec![0xa5; header.len_bytes()];
        assert_eq!(header.emit(&mut into), Ok(into.len()));
        into
    })
    .collect()
}

fn goldens() -> [(Vec<u8>, NshHeader<'static>); 4] {
    let metadata = core::array::from_fn(|index| index as u8 * 0x11);
    let context = Metadata::Type2(ContextHeaders::parse(&CONTEXT).unwrap());
    let empty = Metadata::Type2(ContextHeaders::default());
    let base_types = Metadata::Type2(ContextHeaders::parse(base_types().leak()).unwrap());
    [
        (hex(MD_TYPE_1), header(42, 255, 63, Metadata::Type1(metadata), 3)),
        (hex(MD_TYPE_2), header(0xab_cdef, 254, 62, context, 1)),
        (hex(BASE_TYPES), header(100, 255, 63, base_types, 3)),
        (hex(EMPTY), NshHeader { is_oam: true, ..header(1, 1, 63, empty, 4) }),
    ]
}

fn emitted(header: &NshHeader<'_>) -> Vec<u8> {
    let mut into = vec![0xa5; header.len_bytes()];
    assert_eq!(header.emit(&mut into), Ok(into.len()));
    into
}

#[test]
fn golden_headers_are_read() {
    for (mut bytes, meaning) in goldens() {
        let length = bytes.len();
        bytes.extend([0xde, 0xad]);
        let (view, rest) = NshView::parse(&bytes).unwrap();
        assert_eq!(view.header(), meaning);
        assert_eq!(view.len_bytes(), length);
        assert_eq!(rest, [0xde, 0xad]);
    }
}

#[test]
fn golden_headers_are_written_over_poison_and_nothing_after_them() {
    for (bytes, meaning) in goldens() {
        let mut into = vec![0xa5; bytes.len() + 1];
        assert_eq!(meaning.emit(&mut into), Ok(bytes.len()));
        assert_eq!(into[..bytes.len()], bytes);
        assert_eq!(into[bytes.len()], 0xa5);
    }
}

#[test]
fn context_headers_are_walked_and_written() {
    let bytes = hex(MD_TYPE_2);
    let (view, _) = NshView::parse(&bytes).unwrap();
    let Metadata::Type2(headers) = view.metadata() else {
        panic!("MD type 2");
    };
    let expected = [
        ContextHeader { class: 0, kind: 4, value: &[1, 2, 3, 4, 5] },
        ContextHeader { class: 0x0100, kind: 255, value: &[] },
    ];
    assert_eq!(headers.collect::<Vec<_>>(), expected);
    let mut into = [0xa5; CONTEXT.len()];
    let first = expected[0].emit(&mut into).unwrap();
    assert_eq!(first, expected[0].len_bytes());
    assert_eq!(expected[1].emit(&mut into[first..]), Ok(4));
    assert_eq!(into, CONTEXT);
}

#[test]
fn a_header_fits_no_shorter_buffer() {
    for (bytes, meaning) in goldens() {
        for have in 0..bytes.len() {
            let mut into = vec![0xa5; have];
            let need = bytes.len();
            assert_eq!(meaning.emit(&mut into), Err(NshError::Truncated { need, have }));
            assert!(into.iter().all(|&byte| byte == 0xa5), "a refused buffer is left alone");
        }
    }
}

#[test]
fn every_value_of_the_short_fields_comes_back() {
    let back = |header: NshHeader<'_>| {
        let bytes = emitted(&header);
        assert_eq!(NshView::parse(&bytes).unwrap().0.header(), header);
    };
    for value in 0..=0xff {
        back(NshHeader { si: ServiceIndex(value), ..plain() });
        back(NshHeader { next: NshNextProtocol(value), is_oam: true, ..plain() });
        for shift in [0, 8, 16] {
            back(NshHeader { spi: Spi::new(u32::from(value) << shift).unwrap(), ..plain() });
        }
    }
    for ttl in 0..=NshTtl::MAX {
        back(NshHeader { ttl: NshTtl::new(ttl).unwrap(), ..plain() });
    }
    for class in 0..=0xffff {
        let value = ContextHeader { class, kind: class.to_be_bytes()[1], value: &[7] };
        let mut bytes = [0xa5; 8];
        assert_eq!(value.emit(&mut bytes), Ok(8));
        let headers = ContextHeaders::parse(&bytes).unwrap();
        assert_eq!(headers.last(), Some(value));
    }
}

#[test]
fn every_length_of_a_context_value_comes_back_and_a_longer_one_is_refused() {
    let content: Vec<u8> = (0..=ContextHeader::VALUE_LEN_MAX as u8).collect();
    for length in 0..=ContextHeader::VALUE_LEN_MAX {
        let value = ContextHeader { class: 1, kind: 2, value: &content[..length] };
        let mut bytes = vec![0xa5; value.len_bytes()];
        value.emit(&mut bytes).unwrap();
        assert_eq!(ContextHeaders::parse(&bytes).unwrap().next(), Some(value));
        let header = header(1, 1, 1, Metadata::Type2(ContextHeaders::parse(&bytes).unwrap()), 3);
        assert_eq!(NshView::parse(&emitted(&header)).unwrap().0.header(), header);
    }
    let long = ContextHeader { class: 1, kind: 2, value: &content };
    assert_eq!(long.emit(&mut [0; 256]), Err(NshError::MetadataTooLong { have: 128 }));
}

#[test]
fn metadata_of_63_words_fit_and_of_64_do_not() {
    let most = [0; ContextHeaders::LEN_MAX];
    let header = header(1, 1, 1, Metadata::Type2(ContextHeaders::parse(&most).unwrap()), 3);
    assert_eq!(header.len_bytes(), NshHeader::LEN_MAX);
    assert_eq!(NshView::parse(&emitted(&header)).unwrap().0.header(), header);
    let too_many = [0; ContextHeaders::LEN_MAX + 4];
    assert_eq!(
        ContextHeaders::parse(&too_many),
        Err(NshError::MetadataTooLong { have: ContextHeaders::LEN_MAX + 4 })
    );
}

#[test]
fn every_first_word_is_judged_by_version_length_and_type() {
    for half in 0..=0xffff_u16 {
        let [first, second] = half.to_be_bytes();
        for md_type in 0..=15 {
            // Zeros are whole context headers, so MD type 2 may have any length.
            let mut bytes = [0; NshHeader::LEN_MAX];
            bytes[..3].copy_from_slice(&[first, second, md_type]);
            let (version, words) = (first >> 6, second & 0x3f);
            let expected = match (version, words, md_type) {
                (1.., ..) => Err(NshError::Version(version)),
                (0, 0..=1, _) => Err(NshError::Length { words }),
                (0, 6, 1) | (0, _, 2) => Ok(usize::from(words) * 4),
                (0, _, 1) => Err(NshError::Length { words }),
                (0, _, other) => Err(NshError::MdType(other)),
            };
            let parsed = NshView::parse(&bytes);
            assert_eq!(parsed.map(|(view, _)| view.len_bytes()), expected, "{half:#06x}");
            if let Ok((view, _)) = parsed {
                let ttl = (half >> 6 & 0x3f) as u8;
                assert_eq!((view.ttl().get(), view.is_oam()), (ttl, first & 0x20 != 0));
            }
        }
    }
}

#[test]
fn a_context_header_that_is_cut_short_is_named_by_its_place() {
    for (bytes, offset) in [
        (&[0, 0, 4, 1][..], 0),
        (&[0, 0, 4, 0, 0, 0, 4, 5, 1, 2, 3, 4], 4),
        (&[0, 0, 4, 0, 0, 0], 4),
        (&[0, 0, 4, 0x80, 0, 0, 0, 0x7f], 4),
    ] {
        assert_eq!(ContextHeaders::parse(bytes), Err(NshError::ContextHeader { offset }));
    }
}

#[test]
fn every_time_to_live_goes_on_as_rfc_8300_section_2_2_says() {
    for before in 0..=63_u8 {
        let header = NshHeader { ttl: NshTtl::new(before.into()).unwrap(), ..plain() };
        let bytes = emitted(&header);
        let after = NshView::parse(&bytes).unwrap().0.next_ttl();
        let expected = match before {
            0 => Ok(63),
            1 => Err(NshError::TtlExpired),
            more => Ok(more - 1),
        };
        assert_eq!(after.map(NshTtl::get), expected);
    }
}

#[test]
fn damaged_goldens_are_refused_or_mean_something_that_can_be_sent() {
    for (golden, _) in goldens() {
        each_truncation(&golden, |cut| {
            let error = NshView::parse(cut).unwrap_err();
            let need = if cut.len() < 8 { 8 } else { golden.len() };
            assert_eq!(error, NshError::Truncated { need, have: cut.len() });
        });
        each_bit_flip(&golden, |bytes| {
            let Ok((view, rest)) = NshView::parse(bytes) else {
                return;
            };
            assert_eq!(view.len_bytes() + rest.len(), bytes.len());
            let again = emitted(&view.header());
            assert_eq!(NshView::parse(&again).unwrap().0.header(), view.header());
        });
    }
}
