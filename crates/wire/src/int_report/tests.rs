//! Golden, exhaustive, property and damage tests of telemetry reports.

use std::vec;
use std::vec::Vec;

use proptest::collection::vec as any_vec;
use proptest::prelude::*;

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use crate::scalar::{LatencyUnits, QueueId, QueueLength};
use crate::srv6_int::{FunctionLatency, Hop, IntView, Queue, Tail};

const EGRESS: &str = include_str!("../../../../conformance/int_report/egress.hex");

fn group() -> ReportGroup {
    ReportGroup {
        hardware: HardwareId::new(1).unwrap(),
        sequence: ReportSequence::new(7).unwrap(),
        node: 4,
    }
}

fn report(packet: &[u8]) -> Report<'_> {
    let queue = Some((1, QueueOccupancy::new(4_095).unwrap()));
    Report {
        is_dropped: false,
        is_congested: false,
        is_watched: true,
        is_intermediate: false,
        domain: Report::DOMAIN,
        metadata: ReportMetadata { queue, ..ReportMetadata::default() },
        packet_type: ReportedPacket::Ipv6,
        packet,
    }
}

fn emitted(report: &Report<'_>) -> Vec<u8> {
    let mut into = vec![0xa5; report.len_bytes() + 1];
    assert_eq!(report.emit(&mut into), Ok(report.len_bytes()));
    assert_eq!(into.pop(), Some(0xa5), "nothing is written behind it");
    into
}

fn back(report: Report<'_>) {
    assert_eq!(Report::parse(&emitted(&report)), Ok((report, &[][..])));
}

#[test]
fn the_golden_report_is_read_and_written() {
    let golden = hex(EGRESS);
    let (head, rest) = ReportGroup::parse(&golden).unwrap();
    assert_eq!(head, group());
    let (read, rest) = Report::parse(rest).unwrap();
    assert_eq!((read, rest), (report(&golden[24..]), &[][..]));
    assert!(!read.ends_group());
    let mut written = vec![0xa5; ReportGroup::LEN];
    assert_eq!(group().emit(&mut written), Ok(8));
    written.extend(emitted(&read));
    assert_eq!(written, golden);
}

#[test]
fn the_packet_in_the_golden_report_has_all_records() {
    let golden = hex(EGRESS);
    // The packet is cut short, and its length field says how long it was.
    let whole = [&golden[24..], &[0; 16]].concat();
    let view = IntView::parse(&whole, Tail::Tlv).unwrap();
    let devices: Vec<u16> = view
        .hops()
        .map(|hop| match hop {
            Hop::Recorded(record) => record.device.unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(devices, [2, 3, 4]);
    let Some(Hop::Recorded(last)) = view.hops().last() else { panic!("no record") };
    let metadata = ReportMetadata::of(&last);
    assert_eq!(metadata.queue, report(&[]).metadata.queue);
    assert_eq!((metadata.arrival_ns, metadata.counter), (Some(0x01_23b7_d860), Some(0xf_ffff)));
    assert_eq!(metadata.latency_ns, None);
}

#[test]
fn a_record_is_widened_to_words_and_what_it_does_not_know_stays_unknown() {
    let longest = FunctionLatency::from_ns(u64::MAX);
    let record = IntMetadata {
        device: Some(9),
        arrival: Some(ArrivalTime::from_ns(u64::MAX)),
        latency: Some(longest),
        queue: Some(Queue { id: QueueId::new(15).unwrap(), length: QueueLength::saturating(9) }),
        counter: Some(FlowCounter::of(1_001)),
        is_of_function: true,
        is_synchronised: true,
    };
    let metadata = ReportMetadata::of(&record);
    assert_eq!(metadata.latency_ns, Some(LatencyUnits::MAX * 128));
    assert_eq!(metadata.queue, Some((15, QueueOccupancy::new(9).unwrap())));
    assert_eq!((metadata.arrival_ns, metadata.counter), (Some((1 << 40) - 1), Some(1_001)));
    assert_eq!(ReportMetadata::of(&IntMetadata::default()), ReportMetadata::default());
    back(Report { metadata, ..report(&[1; 8]) });
}

#[test]
fn every_value_of_the_short_fields_comes_back() {
    for value in 0..=u16::MAX {
        let [high, low] = value.to_be_bytes();
        let queue = Some((high, QueueOccupancy::new(u32::from(value) << 8).unwrap()));
        let metadata = ReportMetadata { queue, ..ReportMetadata::default() };
        back(Report { domain: value, metadata, ..report(&[]) });
        let head = ReportGroup {
            hardware: HardwareId::from_low_bits(low.into()),
            sequence: ReportSequence::from_low_bits(u32::from(value) << 6),
            node: u32::from(value) << 16,
        };
        let mut bytes = [0xa5; ReportGroup::LEN];
        head.emit(&mut bytes).unwrap();
        assert_eq!(ReportGroup::parse(&bytes), Ok((head, &[][..])));
    }
    for flags in 0..16 {
        let bit = |bit: u8| flags & bit != 0;
        let packet_type = ReportedPacket::Ipv4;
        let (is_dropped, is_congested) = (bit(8), bit(4));
        let (is_watched, is_intermediate) = (bit(2), bit(1));
        let report =
            Report { is_dropped, is_congested, is_watched, is_intermediate, ..report(&[]) };
        back(Report { packet_type, ..report });
    }
}

#[test]
fn reports_follow_one_another_and_the_longest_is_the_last() {
    let all = [0x77; 2_000];
    for length in 0..all.len() {
        let one = report(&all[..length]);
        let is_counted = length % 4 == 0 && (length + 12) / 4 < 255;
        assert_eq!(one.ends_group(), !is_counted);
        back(one);
        let followed = [emitted(&one), emitted(&report(&[1; 4]))].concat();
        let (first, rest) = Report::parse(&followed).unwrap();
        if is_counted {
            assert_eq!(first, one);
            assert_eq!(Report::parse(rest), Ok((report(&[1; 4]), &[][..])));
        } else {
            assert_eq!(rest, [], "it takes all that follows");
        }
    }
}

#[test]
fn what_is_no_report_of_ours_is_refused_by_name() {
    let golden = hex(EGRESS);
    for version in (0..16).filter(|version| *version != 2) {
        let bytes = [version << 4, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(ReportGroup::parse(&bytes), Err(ReportError::Version(version)));
    }
    let refused = |at: usize, octet: u8| {
        let mut bytes = golden[8..].to_vec();
        bytes[at] = octet;
        Report::parse(&bytes).unwrap_err()
    };
    for kind in (0..16).filter(|kind| *kind != 1) {
        assert_eq!(refused(0, kind << 4 | 5), ReportError::Type(kind));
    }
    for kind in (0..16).filter(|kind| !matches!(kind, 3..=5)) {
        assert_eq!(refused(0, 0x10 | kind), ReportError::InnerType(kind));
    }
    for words in 0..2 {
        assert_eq!(refused(1, words), ReportError::Length { words });
    }
    assert_eq!(refused(1, 37), ReportError::Truncated { need: 152, have: 148 });
    assert_eq!(refused(2, 35), ReportError::Length { words: 36 });
    assert_eq!(refused(2, 0), ReportError::MetadataLength { words: 0 });
    assert_eq!(refused(4, 0x90), ReportError::Metadata(0x9000));
    assert_eq!(refused(8, 0x80), ReportError::MetadataLength { words: 1 });
}

#[test]
fn metadata_of_others_are_gone_by() {
    // Interfaces, latency, queue, both times, interfaces of level 2, utilisation, buffer and drop reason.
    let words: Vec<u8> = (1..=13_u32).flat_map(u32::to_be_bytes).collect();
    let head = hex("1324 0d00 7f81 1234 8000 0000");
    let mut bytes = [&head[..], &words, &[0xee; 84]].concat();
    let (read, rest) = Report::parse(&bytes).unwrap();
    assert!(rest.is_empty());
    let queue = Some((0, QueueOccupancy::new(3).unwrap()));
    let (latency_ns, arrival_ns) = (Some(2), Some(4 << 32 | 5));
    let mut expected = ReportMetadata { latency_ns, queue, arrival_ns, counter: None };
    assert_eq!((read.metadata, read.packet.len()), (expected, 84));
    bytes[6..8].copy_from_slice(&Report::DOMAIN.to_be_bytes());
    expected.counter = Some(13);
    assert_eq!(
        Report::parse(&bytes).unwrap().0.metadata,
        expected,
        "of our domain it has a counter"
    );
}

#[test]
fn damaged_goldens_are_refused_or_are_written_as_they_are_read() {
    let golden = hex(EGRESS);
    each_truncation(&golden[..8], |cut| {
        let error = ReportError::Truncated { need: 8, have: cut.len() };
        assert_eq!(ReportGroup::parse(cut), Err(error));
    });
    each_truncation(&golden[8..], |cut| {
        let need = if cut.len() < 4 { 4 } else { golden.len() - 8 };
        assert_eq!(Report::parse(cut), Err(ReportError::Truncated { need, have: cut.len() }));
    });
    each_bit_flip(&golden[8..], |bytes| {
        if let Ok((report, _)) = Report::parse(bytes) {
            back(report);
        }
    });
    for have in 0..golden.len() - 8 {
        let mut into = vec![0xa5; have];
        let need = golden.len() - 8;
        let error = report(&golden[24..]).emit(&mut into);
        assert_eq!(error, Err(ReportError::Truncated { need, have }));
        assert!(into.iter().all(|&byte| byte == 0xa5), "a refused buffer is left alone");
    }
    assert_eq!(group().emit(&mut [0; 7]), Err(ReportError::Truncated { need: 8, have: 7 }));
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(bytes in any_vec(any::<u8>(), 0..100)) {
        let _ = ReportGroup::parse(&bytes);
        let _ = Report::parse(&bytes);
        let _ = Report::parse(&[&[0x15, 20, 3, 0][..], &bytes].concat());
    }

    #[test]
    fn whatever_is_written_is_read(
        latency_ns in any::<Option<u32>>(),
        queue in proptest::option::of((any::<u8>(), 0..=QueueOccupancy::MAX)),
        arrival_ns in any::<Option<u64>>(),
        counter in any::<Option<u32>>(),
        packet in any_vec(any::<u8>(), 0..1_100),
    ) {
        let queue = queue.map(|(id, occupancy)| (id, QueueOccupancy::new(occupancy).unwrap()));
        let metadata = ReportMetadata { latency_ns, queue, arrival_ns, counter };
        back(Report { metadata, ..report(&packet) });
    }
}
