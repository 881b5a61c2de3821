//! Trains: what was cut becomes one again, and nothing else does.

use std::vec::Vec;

use proptest::prelude::*;

use super::super::tests::{STREAM, Shape, segments};
use super::super::{SegmentKind, complete_checksum};
use super::*;
use crate::segment::SuperFrame;

fn read(bytes: &[u8]) -> Option<Segment> {
    Segment::read(&FrameView::parse(bytes).unwrap(), bytes)
}

/// Merges as a caller does; the trains in order.
fn merge(frames: &[Vec<u8>]) -> Vec<(Vec<u8>, Train)> {
    let mut trains: Vec<(Vec<u8>, Train)> = Vec::new();
    for bytes in frames {
        let segment = read(bytes).unwrap();
        if let Some((merged, train)) = trains.last_mut()
            && train.join(&segment)
        {
            merged.extend_from_slice(&bytes[segment.payload()]);
            continue;
        }
        let train = Train::begin(segment);
        trains.push((bytes[..train.frame_bytes()].to_vec(), train));
    }
    trains
}

/// Does a segment changed in this way still join the train of its predecessor?
fn joins_after(edit: impl Fn(&mut Vec<u8>)) -> bool {
    let mut frames = segments(&STREAM.frame(), SegmentKind::Tcp, 1_000);
    edit(&mut frames[1]);
    let train = Train::begin(read(&frames[0]).unwrap());
    read(&frames[1]).is_some_and(|segment| train.accepts(&segment))
}

fn refresh_transport(bytes: &mut [u8]) {
    let flow = FrameView::parse(bytes).unwrap().flow.unwrap();
    tcp::refresh_checksum(&mut bytes[34..], flow.source, flow.destination).unwrap();
}

/// As [`joins_after`], for an edit of the TCP header that repairs its checksum.
fn joins_after_tcp(edit: impl Fn(&mut [u8])) -> bool {
    joins_after(|bytes| {
        edit(&mut bytes[34..]);
        refresh_transport(bytes);
    })
}

#[test]
fn a_train_says_what_the_kernel_needs() {
    let shape = Shape { flags: TcpFlags::ACK.with(TcpFlags::CWR), ..STREAM };
    let mut trains = merge(&segments(&shape.frame(), SegmentKind::Tcp, 1_200));
    assert_eq!(trains.len(), 1);
    let (mut merged, train) = trains.remove(0);
    assert_eq!((train.count(), train.is_closed()), (5, true));
    let expected = Offload {
        network: Network::Ipv4,
        checksum_start: 34,
        checksum_offset: 16,
        header_bytes: 66,
        segment_bytes: 1_200,
        has_cwr: true,
    };
    assert_eq!(finish_merged(&mut merged, &train), Some(expected));
}

#[test]
fn one_segment_is_sent_as_it_came() {
    let bytes = Shape { payload_bytes: 100, ..STREAM }.frame();
    let (mut merged, train) = merge(core::slice::from_ref(&bytes)).remove(0);
    assert_eq!(finish_merged(&mut merged, &train), None);
    assert_eq!(merged, bytes);
}

#[test]
fn a_frame_of_another_length_is_left_alone() {
    let (mut merged, train) = merge(&segments(&STREAM.frame(), SegmentKind::Tcp, 1_000)).remove(0);
    merged.push(0);
    let before = merged.clone();
    assert_eq!(finish_merged(&mut merged, &train), None);
    assert_eq!(merged, before);
}

#[test]
fn padding_is_not_merged() {
    let mut frames = segments(&STREAM.frame(), SegmentKind::Tcp, 1_000);
    let unpadded = merge(&frames);
    frames.iter_mut().for_each(|frame| frame.extend_from_slice(&[0xee; 9]));
    assert_eq!(merge(&frames), unpadded);
}

#[test]
fn an_unchanged_successor_joins() {
    assert!(joins_after(|_| {}));
}

#[test]
fn another_link_or_network_header_does_not_join() {
    assert!(!joins_after(|bytes| bytes[5] ^= 1));
    assert!(!joins_after(|bytes| bytes[11] ^= 1));
    assert!(!joins_after(|bytes| ipv4::set_ttl(&mut bytes[14..], 63).unwrap()));
    for at in [1, 6, 15, 19] {
        assert!(!joins_after(|bytes| {
            bytes[14 + at] ^= 0x40;
            ipv4::refresh_checksum(&mut bytes[14..]).unwrap();
            refresh_transport(bytes);
        }));
    }
}

#[test]
fn identification_counts_up_unless_fragmenting_is_forbidden() {
    for dont_fragment in [false, true] {
        let shape = Shape { dont_fragment, identification: 10, ..STREAM };
        let mut frames = segments(&shape.frame(), SegmentKind::Tcp, 1_000);
        ipv4::set_identification(&mut frames[1][14..], 12).unwrap();
        let train = Train::begin(read(&frames[0]).unwrap());
        assert_eq!(train.accepts(&read(&frames[1]).unwrap()), dont_fragment);
    }
}

#[test]
fn another_transport_header_does_not_join() {
    for at in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 18, 19, 20, 31] {
        assert!(!joins_after_tcp(|tcp| tcp[at] ^= 1), "octet {at}");
    }
    for bit in [0x01, 0x02, 0x04, 0x08] {
        assert!(!joins_after_tcp(|tcp| tcp[12] ^= bit), "reserved bit {bit:#x}");
    }
}

#[test]
fn only_fin_and_psh_may_differ() {
    for bit in 0..8 {
        let flag = TcpFlags(1 << bit);
        let is_allowed = flag == TcpFlags::FIN || flag == TcpFlags::PSH;
        assert_eq!(joins_after_tcp(|tcp| tcp[13] ^= flag.0), is_allowed, "{flag:?}");
    }
}

#[test]
fn damaged_segments_travel_alone() {
    let frames = segments(&STREAM.frame(), SegmentKind::Tcp, 1_000);
    for at in [14 + 1, 14 + 10, 34 + 4, 34 + 16, 500, frames[1].len() - 1] {
        let mut bytes = frames[1].clone();
        bytes[at] ^= 4;
        assert_eq!(read(&bytes), None, "octet {at}");
    }
}

#[test]
fn segments_that_never_merge_are_not_read() {
    let alone = |shape: Shape| read(&shape.frame()).is_none();
    for flag in [TcpFlags::SYN, TcpFlags::RST, TcpFlags::URG] {
        assert!(alone(Shape { flags: flag.with(TcpFlags::ACK), ..STREAM }));
    }
    assert!(alone(Shape { payload_bytes: 0, ..STREAM }));
    assert!(alone(Shape { kind: SegmentKind::Udp, ..STREAM }));
    assert!(!alone(STREAM));
}

#[test]
fn a_short_or_pushed_segment_ends_its_train_and_a_longer_one_begins_another() {
    let of = |payload_bytes: usize, flags, before: usize| {
        let sequence = STREAM.sequence.wrapping_add(before as u32);
        Shape { payload_bytes, flags, sequence, dont_fragment: true, ..STREAM }.frame()
    };
    let ack = TcpFlags::ACK;
    let short = [of(500, ack, 0), of(499, ack, 500), of(499, ack, 999)];
    assert_eq!(merge(&short).iter().map(|(_, train)| train.count()).collect::<Vec<_>>(), [2, 1]);
    let long = [of(500, ack, 0), of(501, ack, 500)];
    assert_eq!(merge(&long).len(), 2);
    let pushed = [of(500, ack.with(TcpFlags::PSH), 0), of(500, ack, 500)];
    let trains = merge(&pushed);
    assert_eq!(trains.len(), 2);
    assert_eq!(trains.iter().map(|(_, train)| train.is_closed()).collect::<Vec<_>>(), {
        [true, false]
    });
}

#[test]
fn a_train_is_never_longer_than_an_ip_packet() {
    for is_v6 in [false, true] {
        let of = |i: u32| {
            let sequence = STREAM.sequence.wrapping_add(i * 8_000);
            let shape = Shape { payload_bytes: 8_000, sequence, is_v6, ..STREAM };
            Shape { dont_fragment: true, flags: TcpFlags::ACK, ..shape }.frame()
        };
        let trains = merge(&(0..10).map(of).collect::<Vec<_>>());
        assert_eq!(trains.iter().map(|(_, train)| train.count()).collect::<Vec<_>>(), [8, 2]);
        assert!(trains[0].0.len() <= 14 + ipv4::PACKET_BYTES_MAX);
    }
}

prop_compose! {
    fn stream()(
        (is_v6, is_tagged, dont_fragment) in any::<(bool, bool, bool)>(),
        (identification, sequence) in any::<(u16, u32)>(),
        flags in any::<u8>(),
        options_words in 0_u8..=10,
        payload_bytes in 1_usize..6_000,
    ) -> Shape {
        let flags = TcpFlags(flags).without(ALONE);
        Shape {
            is_v6, is_tagged, dont_fragment, identification, sequence, flags, options_words,
            payload_bytes, ..STREAM
        }
    }
}

proptest! {
    #[test]
    fn what_was_cut_becomes_one_again(shape in stream(), segment_bytes in 16_u16..2_000) {
        let original = shape.frame();
        // A device writes one zero for the other, and both are correct.
        let tcp = usize::from(FrameView::parse(&original).unwrap().l4_offset.unwrap());
        prop_assume!(TcpView::parse(&original[tcp..]).unwrap().checksum() != 0);
        let frames = segments(&original, SegmentKind::Tcp, segment_bytes);
        let mut trains = merge(&frames);
        prop_assert_eq!(trains.len(), 1);
        let (mut merged, train) = trains.remove(0);
        prop_assert_eq!(train.count() as usize, frames.len());
        if let Some(offload) = finish_merged(&mut merged, &train) {
            prop_assert_eq!(offload.segment_bytes, segment_bytes);
            prop_assert_eq!(offload.has_cwr, shape.flags.has_any(TcpFlags::CWR));
            // Cut by a device it is the same frames again.
            let cut = SuperFrame::parse(&merged, SegmentKind::Tcp, offload.segment_bytes).unwrap();
            prop_assert_eq!(cut.header_bytes(), usize::from(offload.header_bytes));
            prop_assert_eq!(segments(&merged, SegmentKind::Tcp, segment_bytes), frames);
            complete_checksum(&mut merged, offload.checksum_start, offload.checksum_offset)
                .unwrap();
        }
        prop_assert_eq!(merged, original);
    }
}
