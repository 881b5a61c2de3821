//! Golden, poison and damage tests of STT.

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};

const HEADER: &str = include_str!("../../../../conformance/stt/header.hex");

#[test]
fn the_golden_is_read_and_written() {
    let bytes = hex(HEADER);
    let expected = SttHeader {
        flags: 0x0a,
        l4_offset: 34,
        segment_bytes_max: 1_460,
        vlan: 0x1005,
        context: 0x1122_3344_5566_7788,
    };
    let beyond = [&bytes[..], &[1, 2]].concat();
    assert_eq!(SttHeader::parse(&beyond), Ok((expected, &[1, 2][..])));
    let mut into = [0xa5; HEADER_BYTES + 1];
    assert_eq!(expected.emit(&mut into), Ok(HEADER_BYTES));
    assert_eq!(into[..HEADER_BYTES], bytes);
    assert_eq!(into[HEADER_BYTES], 0xa5);
    for have in 0..HEADER_BYTES {
        let refused = expected.emit(&mut into[..have]);
        assert_eq!(refused, Err(SttError::Truncated { need: HEADER_BYTES, have }));
    }
}

#[test]
fn a_sequence_number_says_length_and_place() {
    for value in [0, 1, 0xffff] {
        let segment = SttSegment { frame_bytes: value, offset: 0xffff - value };
        assert_eq!(segment.sequence(), u32::from(value) << 16 | u32::from(0xffff - value));
    }
}

#[test]
fn damaged_goldens_are_refused_or_mean_something_that_can_be_sent() {
    let golden = hex(HEADER);
    each_truncation(&golden, |cut| assert!(SttHeader::parse(cut).is_err()));
    each_bit_flip(&golden, |bytes| {
        let Ok((header, _)) = SttHeader::parse(bytes) else {
            assert_ne!(bytes[0], 0, "only the version is judged");
            return;
        };
        let mut again = [0xa5; HEADER_BYTES];
        header.emit(&mut again).unwrap();
        assert_eq!(SttHeader::parse(&again), Ok((header, &[][..])));
    });
}
