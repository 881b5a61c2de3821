//! Golden, poison, exhaustive and damage tests of VXLAN-GPE.

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};

const NSH: &str = include_str!("../../../../conformance/vxlan_gpe/nsh.hex");
const OAM: &str = include_str!("../../../../conformance/vxlan_gpe/oam.hex");
const WITHOUT_NEXT: &str =
    include_str!("../../../../conformance/vxlan_gpe/without_next_protocol.hex");

fn header(vni: u32, next: GpeNextProtocol, is_oam: bool) -> VxlanGpeHeader {
    VxlanGpeHeader { vni: Vni::new(vni).unwrap(), next, is_oam }
}

fn goldens() -> [(std::vec::Vec<u8>, VxlanGpeHeader); 3] {
    [
        (hex(NSH), header(0x12_34a5, GpeNextProtocol::NSH, false)),
        (hex(OAM), header(1, GpeNextProtocol::ETHERNET, true)),
        (hex(WITHOUT_NEXT), header(1, GpeNextProtocol::ETHERNET, false)),
    ]
}

#[test]
fn golden_headers_are_read() {
    for (mut bytes, meaning) in goldens() {
        bytes.push(0xee);
        assert_eq!(VxlanGpeHeader::parse(&bytes), Ok((meaning, &[0xee][..])));
    }
}

#[test]
fn headers_are_written_over_poison_and_nothing_after_them() {
    for (bytes, meaning) in goldens().into_iter().take(2) {
        let mut into = [0xa5; VxlanGpeHeader::LEN + 1];
        assert_eq!(meaning.emit(&mut into), Ok(VxlanGpeHeader::LEN));
        assert_eq!(into[..VxlanGpeHeader::LEN], bytes);
        assert_eq!(into[VxlanGpeHeader::LEN], 0xa5);
    }
}

#[test]
fn a_header_fits_no_shorter_buffer() {
    for have in 0..VxlanGpeHeader::LEN {
        let mut into = std::vec![0xa5; have];
        let error = header(1, GpeNextProtocol::NSH, false).emit(&mut into).unwrap_err();
        assert_eq!(error, VxlanGpeError::Truncated { need: 8, have });
        assert!(into.iter().all(|&byte| byte == 0xa5), "a refused buffer is left alone");
    }
}

#[test]
fn every_next_protocol_and_oam_flag_comes_back() {
    for next in (0..=0xff).map(GpeNextProtocol) {
        for is_oam in [false, true] {
            let meaning = header(0xff_ffff, next, is_oam);
            let mut into = [0xa5; VxlanGpeHeader::LEN];
            meaning.emit(&mut into).unwrap();
            assert_eq!(VxlanGpeHeader::parse(&into), Ok((meaning, &[][..])));
        }
    }
}

#[test]
fn all_flags_have_the_meaning_of_the_draft() {
    for flags in 0..=0xff_u8 {
        let bytes = [flags, 0, 0, 4, 0, 0, 7, 0];
        let parsed = VxlanGpeHeader::parse(&bytes).map(|(header, _)| header);
        let version = flags >> 4 & 3;
        let next = if flags & 0x04 == 0 { GpeNextProtocol::ETHERNET } else { GpeNextProtocol::NSH };
        let expected = if version != 0 {
            Err(VxlanGpeError::Version(version))
        } else if flags & 0x08 == 0 {
            Err(VxlanGpeError::NoIdentifier { flags })
        } else {
            Ok(header(7, next, flags & 1 == 1))
        };
        assert_eq!(parsed, expected, "flags {flags:#04x}");
    }
}

#[test]
fn damaged_goldens_are_refused_or_mean_something_that_can_be_sent() {
    for (golden, _) in goldens() {
        each_truncation(&golden, |cut| {
            let error = VxlanGpeHeader::parse(cut).unwrap_err();
            assert_eq!(error, VxlanGpeError::Truncated { need: 8, have: cut.len() });
        });
        each_bit_flip(&golden, |bytes| {
            let Ok((header, _)) = VxlanGpeHeader::parse(bytes) else {
                return;
            };
            let mut again = [0xa5; VxlanGpeHeader::LEN];
            header.emit(&mut again).unwrap();
            assert_eq!(VxlanGpeHeader::parse(&again), Ok((header, &[][..])));
        });
    }
}
