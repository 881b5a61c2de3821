//! What counts and what does not, bit by bit, and numbers that a second implementation (in another
//! language) made from the description.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::golden;
use crate::segment::{SegmentKind, SuperFrame};

/// A golden frame, where its packet begins and ends, the bytes that do not count, and its digest.
struct Case {
    name: &'static str,
    frame: Vec<u8>,
    packet: core::ops::Range<usize>,
    changing: &'static [usize],
    digest: u64,
}

macro_rules! golden {
    ($name:literal, $start:literal, $end:literal, $changing:expr, $digest:literal) => {
        Case {
            name: $name,
            frame: golden::hex(include_str!(concat!("../../../../conformance/", $name, ".hex"))),
            packet: $start..$end,
            changing: $changing,
            digest: $digest,
        }
    };
}

fn cases() -> Vec<Case> {
    std::vec![
        golden!("frame/tcp_ipv4_padded", 14, 54, &[22, 24, 25, 50, 51], 0x0e7f_648f_460c_47a7),
        golden!("frame/udp_ipv6_vlan", 18, 67, &[25, 64, 65], 0xac49_4e4c_7715_723f),
        golden!("frame/icmp_echo_request", 14, 46, &[22, 24, 25, 36, 37], 0x2dc2_43a6_4ba3_b58a),
        golden!("frame/icmpv6_echo_reply", 14, 66, &[21, 56, 57], 0xb1a1_056b_7954_2895),
        golden!("frame/first_fragment", 14, 58, &[22, 24, 25, 40, 41], 0x3dec_2b57_af15_5380),
        golden!("frame/last_fragment", 14, 58, &[22, 24, 25], 0x2e61_233f_e915_2aa3),
        golden!("frame/arp_request", 14, 42, &[], 0x095e_f132_f1b5_d774),
        golden!("segment/tcp_segment_0", 14, 74, &[22, 24, 25, 50, 51], 0xf8fe_b908_b75b_3393),
        golden!("segment/udp_segment_0", 14, 82, &[21, 68, 69], 0x2c13_1a70_3578_c47e),
    ]
}

fn digest(frame: &[u8]) -> u64 {
    kept(&FrameView::parse(frame).unwrap(), frame)
}

#[test]
fn the_goldens_have_the_digests_of_the_second_implementation() {
    for case in cases() {
        assert_eq!(digest(&case.frame), case.digest, "{}: {:#x}", case.name, digest(&case.frame));
    }
}

#[test]
fn each_bit_counts_but_those_of_the_link_the_time_to_live_and_the_checksums() {
    for case in cases() {
        let (mut same, mut other) = (0, 0);
        let mut bit = 0;
        golden::each_bit_flip(&case.frame, |flipped| {
            let place = bit / 8;
            bit += 1;
            // The type and the tag say what follows.
            if (12..case.packet.start).contains(&place) {
                return;
            }
            let Ok(view) = FrameView::parse(flipped) else { return };
            let counts = case.packet.contains(&place) && !case.changing.contains(&place);
            let is_same = kept(&view, flipped) == case.digest;
            assert_eq!(is_same, !counts, "{}: bit {} of byte {place}", case.name, bit % 8);
            *(if counts { &mut other } else { &mut same }) += 1;
        });
        assert!(same >= 96 && other >= 100, "{}: {same} and {other} bits were seen", case.name);
    }
}

#[test]
fn a_tag_is_the_links_and_does_not_count() {
    let tagged = &cases()[1];
    let mut plain = tagged.frame.clone();
    plain.drain(12..16);
    assert_eq!(digest(&plain), tagged.digest);
}

#[test]
fn a_partial_checksum_does_not_count() {
    for case in cases().iter().filter(|case| case.changing.len() > 3) {
        let mut frame = case.frame.clone();
        for place in &case.changing[case.changing.len() - 2..] {
            frame[*place] = 0xa5;
        }
        assert_eq!(digest(&frame), case.digest, "{}", case.name);
    }
}

#[test]
fn the_segments_of_a_super_frame_have_digests_of_their_own() {
    let frame = golden::hex(include_str!("../../../../conformance/segment/tcp_super_frame.hex"));
    let cut = SuperFrame::parse(&frame, SegmentKind::Tcp, 8).unwrap();
    let segments = (0..cut.count()).map(|index| {
        let mut segment = std::vec![0; cut.segment_len(index)];
        assert_eq!(cut.write_segment(&frame, index, &mut segment), segment.len());
        digest(&segment)
    });
    let mut digests: Vec<u64> = segments.collect();
    assert_eq!(digests[0], cases()[7].digest);
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), cut.count() as usize);
}

proptest! {
    #[test]
    fn however_bytes_are_cut_the_digest_is_the_same(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..5),
    ) {
        let mut whole = Digest::new();
        whole.absorb(&bytes);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.sort_unstable();
        let mut pieces = Digest::new();
        let mut from = 0;
        for place in places {
            pieces.absorb(&bytes[from..place]);
            from = place;
        }
        pieces.absorb(&bytes[from..]);
        prop_assert_eq!(whole.finish(), pieces.finish());
    }

    #[test]
    fn longer_and_shorter_are_other(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let of = |bytes: &[u8]| {
            let mut digest = Digest::new();
            digest.absorb(bytes);
            digest.finish()
        };
        let mut longer = bytes.clone();
        longer.push(0);
        prop_assert_ne!(of(&bytes), of(&longer));
    }
}
