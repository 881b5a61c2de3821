//! Golden, exhaustive, property and damage tests of telemetry in segments.

use std::vec;
use std::vec::Vec;

macro_rules! golden {
    ($name:literal) => {
        hex(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../conformance/srv6_int/",
            $name,
            ".hex"
        )))
    };
}

mod steps;

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use crate::scalar::{FlowCounter, QueueId, QueueLength};

/// A record of all fields but what functions took, of a synchronised node.
fn record(device: u16, arrival: u64, queue: (u32, u64), packets: u64) -> IntMetadata {
    IntMetadata {
        device: Some(device),
        arrival: Some(ArrivalTime::from_ns(arrival)),
        latency: None,
        queue: Some(Queue {
            id: QueueId::new(queue.0).unwrap(),
            length: QueueLength::saturating(queue.1),
        }),
        counter: Some(FlowCounter::of(packets)),
        is_of_function: false,
        is_synchronised: true,
    }
}

fn with_latency(ns: u64, record: IntMetadata) -> IntMetadata {
    IntMetadata { latency: Some(FunctionLatency::from_ns(ns)), ..record }
}

#[test]
fn golden_records_are_written_and_read() {
    let one = record(1, 1, (0, 0), 1);
    let expected = [
        with_latency(90_074_880, record(48_879, 4_886_718_345, (5, 2_047), 344_865)),
        with_latency(191, one),
        with_latency(192, one),
        with_latency(3_000_000_000, one),
        one,
    ];
    let golden = golden!("records");
    let (entries, rest) = golden.as_chunks::<SEGMENT_BYTES>();
    assert_eq!((entries.len(), rest.len()), (expected.len(), 0));
    for (entry, meaning) in entries.iter().zip(expected) {
        assert_eq!(meaning.bytes(), *entry);
        assert_eq!(IntMetadata::read(entry), Ok(meaning));
    }
}

#[test]
fn latencies_are_rounded_to_the_nearest_unit_and_end_at_the_longest() {
    let longest = u64::from(LatencyUnits::MAX);
    let cases = [
        (0, 0, false),
        (63, 0, false),
        (64, 1, false),
        (127, 1, false),
        (191, 1, false),
        (192, 2, false),
        (longest * 128, longest, false),
        (longest * 128 + 63, longest, false),
        (longest * 128 + 64, longest, true),
        (u64::MAX, longest, true),
    ];
    for (ns, units, is_saturated) in cases {
        let latency = FunctionLatency::from_ns(ns);
        assert_eq!(
            (u64::from(latency.units().get()), latency.is_saturated()),
            (units, is_saturated)
        );
        assert_eq!(latency.ns(), units * 128);
        assert!(is_saturated || latency.ns().abs_diff(ns) <= 64, "half a unit at most");
    }
}

#[test]
fn times_and_counters_go_round() {
    let time = ArrivalTime::from_ns;
    assert_eq!(time(1 << 40 | 7).ns(), 7);
    assert_eq!(time((1 << 40) + 5).since(time((1 << 40) - 3)), 8);
    assert_eq!(FlowCounter::of((1 << 20) + 5).since(FlowCounter::of((1 << 20) - 3)), 8);
    assert_eq!(QueueLength::saturating(4_095).get(), 4_095);
    assert_eq!(QueueLength::saturating(1 << 32).get(), 4_095);
}

#[test]
fn every_value_of_the_short_fields_of_a_record_comes_back() {
    let back = |record: IntMetadata| assert_eq!(IntMetadata::read(&record.bytes()), Ok(record));
    for value in 0..=u16::MAX {
        let queue = (u32::from(value) & 15, u64::from(value) >> 4);
        back(record(value, u64::from(value) << 24, queue, u64::from(value) << 4));
        back(with_latency(u64::from(value) << 15, record(!value, 0, (0, 0), 0)));
    }
    let whole = with_latency(u64::MAX, record(0xffff, u64::MAX, (15, u64::MAX), u64::MAX));
    for bits in 0..32 {
        let map = MapInfo::new(bits).unwrap();
        for flags in 0..4 {
            let (is_of_function, is_synchronised) = (flags & 1 != 0, flags & 2 != 0);
            let record = IntMetadata { is_of_function, is_synchronised, ..whole }.limited_to(map);
            assert_eq!(record.valid(), map);
            back(record);
        }
        back(IntMetadata::default().limited_to(map));
    }
}

#[test]
fn records_that_contradict_themselves_are_refused_and_segments_are_none() {
    let entry = golden!("records")[64..].try_into().unwrap();
    let one = u128::from_be_bytes(entry);
    for magic in (0..16).filter(|magic| *magic != 1) {
        let other = one & u128::MAX >> 4 | magic << 124;
        assert_eq!(IntMetadata::read(&other.to_be_bytes()), Err(IntError::NoMetadata));
    }
    // Each bit of the latency, which is not valid, and that it were saturated.
    for bit in (32..56).chain([118]) {
        let other = (one | 1 << bit).to_be_bytes();
        assert_eq!(IntMetadata::read(&other), Err(IntError::Contradiction), "bit {bit}");
    }
    // Each field that is there and said not to be: device, arrival, queue and counter.
    let all = u128::from_be_bytes(golden!("records")[..16].try_into().unwrap());
    for bit in 119..124 {
        let other = (all & !(1 << bit)).to_be_bytes();
        assert_eq!(IntMetadata::read(&other), Err(IntError::Contradiction), "bit {bit}");
    }
    let short = (all | 1 << 118).to_be_bytes();
    assert_eq!(IntMetadata::read(&short), Err(IntError::Contradiction), "saturated and short");
}

#[test]
fn every_tag_is_of_version_1_and_comes_back_or_is_refused() {
    for bits in 0..=u16::MAX {
        match IntTag::read(bits) {
            Ok(tag) => assert_eq!((tag.bits(), bits >> 12), (bits, 1)),
            Err(error) => assert_eq!(error, IntError::Version((bits >> 12) as u8)),
        }
        let is_map = bits <= 31;
        assert_eq!(
            MapInfo::new(bits).map(|map| u16::from(map.bits())).ok(),
            is_map.then_some(bits)
        );
    }
    let tag = IntTag::read(0x1d2a).unwrap();
    assert_eq!((tag.is_for_functions, tag.is_pending, tag.is_incomplete), (true, true, false));
    assert_eq!((tag.is_mirrored, tag.colour), (true, 0x2a));
}

#[test]
fn a_detection_result_is_a_function_and_its_latency_or_nothing() {
    let result = DetectionResult::read(0x8100_0598).unwrap();
    assert_eq!((result.function.get(), result.latency.get()), (1, 1_432));
    for function in 0..=FunctionIndex::MAX {
        for latency in [0, 1, 0x0012_3456, LatencyUnits::MAX] {
            let latency = LatencyUnits::new(latency).unwrap();
            let result =
                DetectionResult { function: FunctionIndex::new(function).unwrap(), latency };
            assert_eq!(DetectionResult::read(result.bits()), Some(result));
            assert_eq!(DetectionResult::read(result.bits() & !(1 << 31)), None);
        }
    }
}

#[test]
fn bytes_are_those_of_the_reference_table() {
    // Segments; segment routing alone, with telemetry, with INT-MD of 16 bytes a hop; what a link of 1,500 leaves.
    let table = [
        (1, 64, 72, 96, 1_428),
        (2, 80, 88, 128, 1_412),
        (3, 96, 104, 160, 1_396),
        (4, 112, 120, 192, 1_380),
        (5, 128, 136, 224, 1_364),
        (6, 144, 152, 256, 1_348),
        (8, 176, 184, 320, 1_316),
        (10, 208, 216, 384, 1_284),
        (12, 240, 248, 448, 1_252),
        (16, 304, 312, 576, 1_188),
    ];
    for (segments, alone, with, beside, left) in table {
        let way = vec![Ipv6Addr::LOCALHOST; segments];
        let encapsulation = steps::encapsulation(&way);
        assert_eq!(encapsulation.len_bytes(), with);
        assert_eq!(encapsulation_bytes(segments), with);
        assert_eq!((with - TAIL_BYTES, 1_500 - with), (alone, left));
        // INT 2.1 sections 5.7 and 5.8: a shim of 4 bytes, a header of 12, and metadata.
        assert_eq!(alone + 4 + 12 + 16 * segments, beside);
        let signed = IntEncaps { key_id: Some(1), ..encapsulation };
        assert_eq!(signed.len_bytes(), with + 40);
    }
}

#[test]
fn golden_packets_are_read() {
    let silent = |address: &str| Hop::Silent(address.parse().unwrap());
    let ahead = |address: &str| Hop::Ahead(address.parse().unwrap());
    let bytes = golden!("journey_1_ingress");
    let view = IntView::parse(&bytes, Tail::Tlv).unwrap();
    assert_eq!((view.map(), view.result(), view.tag().bits()), (MapInfo::ALL, None, 0x192a));
    let [first, second, last] = ["5f00:0:2:e1::", "5f00:0:3:e1::", "5f00:0:4:d6::"];
    let hops: Vec<Hop> = view.hops().collect();
    assert_eq!(hops, [ahead(first), ahead(second), ahead(last)]);

    let bytes = golden!("journey_4_to_second_function");
    let view = IntView::parse(&bytes, Tail::Tlv).unwrap();
    let result = view.result().unwrap();
    assert_eq!((result.function.get(), result.latency.get()), (2, 0xd5a0));
    let hops: Vec<Hop> = view.hops().collect();
    let [Hop::Recorded(one), Hop::Recorded(two), end] = hops[..] else { panic!("{hops:?}") };
    assert_eq!((one.device, one.latency.unwrap().ns()), (Some(2), 245_760));
    assert_eq!((two.device, two.latency), (Some(3), None));
    assert_eq!(end, ahead(last));

    // A node that knows no telemetry leaves its segment where it is.
    let mut bytes = golden!("journey_1_ingress");
    crate::srv6::end(&mut bytes).unwrap();
    let hops: Vec<Hop> = IntView::parse(&bytes, Tail::Tlv).unwrap().hops().collect();
    assert_eq!(hops, [silent(first), ahead(second), ahead(last)]);
}

#[test]
fn records_outside_of_the_map_or_ahead_of_the_packet_are_malformed() {
    let mut bytes = golden!("journey_4_to_second_function");
    bytes[40 + 59] = 0x1b;
    let hops: Vec<Hop> = IntView::parse(&bytes, Tail::Tlv).unwrap().hops().collect();
    assert_eq!(hops[0], Hop::Malformed, "it has a latency");
    assert!(matches!(hops[1], Hop::Recorded(_)));
    let mut bytes = golden!("journey_2_to_first_function");
    bytes[43] = 2;
    let hops: Vec<Hop> = IntView::parse(&bytes, Tail::Tlv).unwrap().hops().collect();
    assert_eq!(hops[0], Hop::Malformed, "nobody was there");
}

#[test]
fn packets_that_take_no_records_along_are_refused_by_name() {
    let refused = |at: usize, octets: &[u8], error: IntError| {
        let mut bytes = golden!("journey_1_ingress");
        bytes[at..at + octets.len()].copy_from_slice(octets);
        assert_eq!(IntView::parse(&bytes, Tail::Tlv).err(), Some(error));
    };
    refused(45, &[0], IntError::NoFlag);
    refused(45, &[0xfe], IntError::NoFlag);
    refused(46, &[0x29], IntError::Version(2));
    refused(96, &[251], IntError::NoTail);
    refused(96, &[252, 4, 0, 0x1f, 0, 0, 4, 0], IntError::NoTail);
    refused(98, &[0, 0x3f], IntError::MapInfo(0x3f));
    refused(98, &[0x80, 0x1f], IntError::MapInfo(0x801f));
    let (segments_left, last_entry) = (3, 2);
    let reduced = Srv6Error::SegmentsLeft { segments_left, last_entry };
    refused(43, &[3], IntError::Srv6(reduced));
    refused(97, &[7], IntError::Srv6(Srv6Error::Tlv { offset: 0 }));
}

#[test]
fn damaged_goldens_are_refused_or_say_something_of_each_hop() {
    for golden in [golden!("journey_1_ingress"), golden!("journey_4_to_second_function")] {
        each_truncation(&golden, |cut| assert!(IntView::parse(cut, Tail::Tlv).is_err()));
        each_bit_flip(&golden, |bytes| {
            if let Ok(view) = IntView::parse(bytes, Tail::Tlv) {
                assert_eq!(view.hops().count(), view.packet().routing().way().len());
            }
        });
    }
}
