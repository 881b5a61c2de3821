//! The journey of the reference packet through two functions, what steps leave alone, and what Linux says of the tails.

use proptest::collection::vec as any_vec;
use proptest::prelude::*;

use super::*;
use crate::scalar::FlowLabel;
use crate::srv6::{HmacKey, Inner, decapsulation, end, sign, verify};

const INSIDE: &str = "4500002c 12340000 3f117d3b c000020a c6336414 9c401389 001864b1
    73727636 2d696e74 2d766563 746f7221";
/// The wire form of what nodes of the journey have measured of earlier packets.
const SAMPLES: [u32; 2] = [0x8100_0598, 0x8200_d5a0];

pub(super) fn way() -> [Ipv6Addr; 3] {
    ["5f00:0:2:e1::", "5f00:0:3:e1::", "5f00:0:4:d6::"].map(|segment| segment.parse().unwrap())
}

pub(super) fn encapsulation(way: &[Ipv6Addr]) -> IntEncaps<'_> {
    IntEncaps {
        source: "fd00:0:1::1".parse().unwrap(),
        way,
        traffic_class: 0,
        flow_label: FlowLabel::new(0x1_2345).unwrap(),
        inner: Inner::Ipv4,
        map: MapInfo::ALL,
        tag: IntTag {
            is_for_functions: true,
            is_mirrored: true,
            colour: 0x2a,
            ..IntTag::default()
        },
        tail: Tail::Tlv,
        key_id: None,
    }
}

fn packet(encapsulation: &IntEncaps<'_>) -> Vec<u8> {
    let inside = hex(INSIDE);
    let mut packet = vec![0xa5; encapsulation.len_bytes()];
    assert_eq!(encapsulation.emit(inside.len(), &mut packet), Ok(packet.len()));
    packet.extend(inside);
    packet
}

fn of_function(record: IntMetadata) -> IntMetadata {
    IntMetadata { is_of_function: true, ..record }
}

fn first() -> IntMetadata {
    of_function(record(2, 0x01_2345_6780, (3, 17), 1_001))
}

fn into_function(sample: u32) -> Visit {
    Visit::Function(DetectionResult::read(sample))
}

#[test]
fn the_journey_through_two_functions_has_the_reference_bytes() {
    let way = way();
    let mut bytes = packet(&encapsulation(&way));
    assert_eq!(bytes, golden!("journey_1_ingress"));

    let step = end_t_int(&mut bytes, &first(), into_function(SAMPLES[0]), Tail::Tlv);
    assert_eq!(step, Ok(Step { next: way[1], is_recorded: true }));
    assert_eq!(bytes, golden!("journey_2_to_first_function"));

    let now = ArrivalTime::from_ns(0x01_2345_6780 + 245_760);
    let back = end_t_int_return(&mut bytes, 2, now, Tail::Tlv).unwrap();
    assert_eq!((back.next, back.latency.unwrap().ns()), (way[1], 245_760));
    assert_eq!(bytes, golden!("journey_3_from_first_function"));

    let second = of_function(record(3, 0x01_234b_8200, (0, 0), 990));
    let step = end_t_int(&mut bytes, &second, into_function(SAMPLES[1]), Tail::Tlv);
    assert_eq!(step, Ok(Step { next: way[2], is_recorded: true }));
    assert_eq!(bytes, golden!("journey_4_to_second_function"));

    let now = ArrivalTime::from_ns(0x01_234b_8200 + 7_040_000);
    let back = end_t_int_return(&mut bytes, 3, now, Tail::Tlv).unwrap();
    assert_eq!((back.next, back.latency.unwrap().ns()), (way[2], 7_040_000));

    let last = record(4, 0x01_23b7_d860, (1, u64::MAX), u64::MAX);
    let egress = end_dt_int(&mut bytes, &last, Tail::Tlv).unwrap();
    assert!(egress.is_recorded);
    assert_eq!(bytes[40..104], golden!("journey_5_egress_header"));
    assert_eq!(bytes[egress.inside.range.clone()], hex(INSIDE));
    assert_eq!(egress.inside.inner, Inner::Ipv4);
    let hops: Vec<Hop> = IntView::parse(&bytes, Tail::Tlv).unwrap().hops().collect();
    let measured = [with_latency(245_760, first()), with_latency(7_040_000, second), last];
    assert_eq!(hops, measured.map(Hop::Recorded));
}

#[test]
fn a_signed_header_is_signed_again_where_it_changed() {
    let key = HmacKey::new(&core::array::from_fn::<u8, 32, _>(|index| index as u8)).unwrap();
    let is_signed = |bytes: &[u8]| verify(&Srv6View::parse(bytes).unwrap(), &key).is_ok();
    let way = way();
    let mut bytes = packet(&IntEncaps { key_id: Some(0x0102_0304), ..encapsulation(&way) });
    assert!(!is_signed(&bytes));
    sign(&mut bytes, &key).unwrap();
    assert_eq!(
        bytes[40..144],
        hex(include_str!("../../../../../conformance/srv6/hmac_ingress.hex"))
    );
    end_t_int(&mut bytes, &first(), Visit::Function(None), Tail::Tlv).unwrap();
    assert!(!is_signed(&bytes), "a record is in the list that was signed");
    sign(&mut bytes, &key).unwrap();
    assert!(is_signed(&bytes));
    let now = ArrivalTime::from_ns(0x01_2345_6780 + 245_760);
    end_t_int_return(&mut bytes, 2, now, Tail::Tlv).unwrap();
    sign(&mut bytes, &key).unwrap();
    assert_eq!(
        bytes[40..144],
        hex(include_str!("../../../../../conformance/srv6/hmac_resigned.hex"))
    );
}

#[test]
fn passing_alone_leaves_the_detection_result_and_writes_what_the_map_has() {
    let way = way();
    let map = MapInfo::DEVICE.with(MapInfo::COUNTER);
    let mut bytes = packet(&IntEncaps { map, ..encapsulation(&way) });
    bytes[100..104].copy_from_slice(&SAMPLES[0].to_be_bytes());
    let passing = IntMetadata { is_of_function: false, ..first() };
    end_t_int(&mut bytes, &passing, Visit::Passing, Tail::Tlv).unwrap();
    let view = IntView::parse(&bytes, Tail::Tlv).unwrap();
    assert_eq!(view.result(), DetectionResult::read(SAMPLES[0]));
    assert!(!view.tag().is_pending);
    assert_eq!(view.hops().next(), Some(Hop::Recorded(passing.limited_to(map))));
}

#[test]
fn a_packet_without_telemetry_goes_on_as_it_is() {
    let way = way();
    for changed in [(45, 0), (45, 0x20)] {
        let mut bytes = packet(&encapsulation(&way));
        bytes[changed.0] = changed.1;
        let mut plain = bytes.clone();
        end(&mut plain).unwrap();
        let step = end_t_int(&mut bytes, &first(), into_function(SAMPLES[0]), Tail::Tlv);
        assert_eq!(step, Ok(Step { next: way[1], is_recorded: false }));
        assert_eq!(bytes, plain);
    }
}

#[test]
fn a_packet_without_room_for_the_record_says_so() {
    let way = way();
    for (at, octet) in [(96, 251), (98, 1), (43, 3)] {
        let mut bytes = packet(&encapsulation(&way));
        bytes[at] = octet;
        let mut expected = bytes.clone();
        let next = end(&mut expected).unwrap();
        expected[46] |= 0x02;
        let step = end_t_int(&mut bytes, &first(), into_function(SAMPLES[0]), Tail::Tlv);
        assert_eq!(step, Ok(Step { next, is_recorded: false }));
        assert_eq!(bytes, expected);
    }
    let mut bytes = packet(&encapsulation(&way));
    bytes[46] = 0x29;
    let mut expected = bytes.clone();
    end(&mut expected).unwrap();
    end_t_int(&mut bytes, &first(), Visit::Passing, Tail::Tlv).unwrap();
    assert_eq!(bytes, expected, "a tag of another version is left alone");
}

#[test]
fn what_comes_back_is_this_nodes_or_says_that_it_is_not() {
    let now = ArrivalTime::from_ns(0x01_2345_6780 + 1_000);
    let out = golden!("journey_2_to_first_function");
    let mut other = out.clone();
    let back = end_t_int_return(&mut other, 9, now, Tail::Tlv).unwrap();
    assert_eq!(back.latency, None);
    let view = IntView::parse(&other, Tail::Tlv).unwrap();
    assert_eq!((view.tag().is_incomplete, view.tag().is_pending), (true, false));
    assert_eq!(view.result(), None);
    assert_eq!(view.hops().next(), Some(Hop::Recorded(first())), "the record stays another's");

    let mut twice = out.clone();
    end_t_int_return(&mut twice, 2, now, Tail::Tlv).unwrap();
    let before = twice.clone();
    assert_eq!(end_t_int_return(&mut twice, 2, now, Tail::Tlv), Err(IntError::NotPending));
    assert_eq!(twice, before);
    let refused = |at: usize, octet: u8, error: Srv6Error| {
        let mut bytes = out.clone();
        bytes[at] = octet;
        let before = bytes.clone();
        let back = end_t_int_return(&mut bytes, 2, now, Tail::Tlv);
        assert_eq!((back, &bytes), (Err(IntError::Srv6(error)), &before));
    };
    refused(7, 1, Srv6Error::HopLimit);
    refused(43, 2, Srv6Error::SegmentsLeft { segments_left: 2, last_entry: 2 });
}

#[test]
fn fields_outside_of_the_map_are_not_missed_when_a_packet_comes_back() {
    let way = way();
    let now = ArrivalTime::from_ns(0x01_2345_6780 + 1_280);
    for bits in 0..32 {
        let map = MapInfo::new(bits).unwrap();
        let mut bytes = packet(&IntEncaps { map, ..encapsulation(&way) });
        end_t_int(&mut bytes, &first(), Visit::Function(None), Tail::Tlv).unwrap();
        let back = end_t_int_return(&mut bytes, 2, now, Tail::Tlv).unwrap();
        let view = IntView::parse(&bytes, Tail::Tlv).unwrap();
        let has_arrival = map.contains(MapInfo::ARRIVAL);
        assert_eq!(back.latency, has_arrival.then(|| FunctionLatency::from_ns(1_280)));
        let is_missed = map.contains(MapInfo::LATENCY) && !has_arrival;
        assert_eq!(view.tag().is_incomplete, is_missed, "{bits:#07b}");
        let Some(Hop::Recorded(record)) = view.hops().next() else { panic!("{bits:#07b}") };
        assert!(record.is_of_function);
        assert_eq!(record.latency, back.latency.filter(|_| map.contains(MapInfo::LATENCY)));
    }
}

#[test]
fn the_tail_of_the_paper_is_written_read_and_stepped_along() {
    let way = way();
    let tail = Tail::Paper;
    let written = IntEncaps { tail, ..encapsulation(&way) };
    let mut bytes = packet(&written);
    assert_eq!(bytes[40..104], golden!("paper_tail_dr_zero"));
    end_t_int(&mut bytes, &first(), into_function(SAMPLES[0]), tail).unwrap();
    assert_eq!(bytes[96..104], [124, 2, 0, 0x1f, 0x81, 0, 5, 0x98]);
    assert_eq!(end(&mut bytes), Err(Srv6Error::Tlv { offset: 6 }), "no TLV ends there");
    let view = IntView::parse(&bytes, tail).unwrap();
    assert_eq!(view.result(), DetectionResult::read(SAMPLES[0]));
    let now = ArrivalTime::from_ns(0x01_2345_6780 + 245_760);
    end_t_int_return(&mut bytes, 2, now, tail).unwrap();
    let second = record(3, 5, (0, 0), 9);
    end_t_int(&mut bytes, &second, Visit::Passing, tail).unwrap();
    assert!(end_dt_int(&mut bytes, &second, tail).unwrap().is_recorded);
    let recorded = IntView::parse(&bytes, tail).unwrap().hops().collect::<Vec<_>>();
    assert_eq!(recorded, [with_latency(245_760, first()), second, second].map(Hop::Recorded));
    let signed = IntEncaps { key_id: Some(1), ..written };
    assert_eq!(signed.emit(0, &mut [0; 512]), Err(IntError::PaperSigned));
    let mut plain = golden!("journey_1_ingress");
    plain[45] = 0;
    plain[97] = 9;
    let error = Srv6Error::Tlv { offset: 0 };
    assert_eq!(end_t_int(&mut plain, &second, Visit::Passing, tail), Err(error));
}

#[test]
fn the_last_segment_comes_last_and_what_is_inside_is_known() {
    let refused = |at: usize, octet: u8, error: Srv6Error| {
        let mut bytes = golden!("journey_4_to_second_function");
        bytes[at] = octet;
        let before = bytes.clone();
        assert_eq!(end_dt_int(&mut bytes, &first(), Tail::Tlv), Err(error));
        assert_eq!(bytes, before);
    };
    refused(43, 1, Srv6Error::SegmentsRemain(1));
    let protocol = crate::scalar::IpProtocol::UDP;
    refused(40, 17, Srv6Error::Inner { protocol, offset: 104 });
}

/// What Linux made of headers, and whether we make the same of them. Where a TLV is cut short behind a Pad1, Linux
/// takes the next octet for its length and RFC 8754 does not; and no step of ours asks for a key, as Linux does.
#[test]
fn linux_steps_along_the_headers_that_we_step_along() {
    const ANSWERS: &str = include_str!("../../../../../conformance/srv6/linux_answers.txt");
    const DIFFERENT: [&str; 4] = [
        "paper_tail_End_dr_ns_183296_byte1_is_2_by_chance",
        "tail_Pad1_then_tlv252_len5",
        "hmac_signed_but_key_unknown_to_router",
        "hmac_entry_replaced_not_resigned",
    ];
    let (_, cases) = ANSWERS.split_once("\n\n").unwrap();
    for case in cases.split("\n\n") {
        let (title, header) = case.split_once('\n').unwrap();
        let (name, title) = title.split_once(": ").unwrap();
        let (behaviour, linux) = title.split_once(" -> ").unwrap();
        let around = golden!("journey_1_ingress");
        let mut bytes = [&around[..40], &hex(header), &around[104..]].concat();
        ipv6::set_payload_length(&mut bytes, (around.len() - 104 + hex(header).len()) as u16)
            .unwrap();
        let before = bytes.clone();
        if behaviour == "End.DX4" {
            let is_whole = decapsulation(&bytes).is_ok_and(|out| out.inner == Inner::Ipv4);
            assert_eq!(linux, "the packet inside");
            assert_eq!(is_whole, name == "profile_v1_linux_End.DX4_all_consumed", "{name}");
            continue;
        }
        let ours = end(&mut bytes).map(|next| std::format!("{} {next}", bytes[43]));
        let is_same = ours.as_deref().unwrap_or("nothing") == linux;
        assert_eq!(is_same, !DIFFERENT.contains(&name), "{name}: {ours:?}");
        if ours.is_ok() {
            assert_eq!(bytes[44..], before[44..], "{name}: the rest of the header is untouched");
        }
    }
}

#[test]
fn reference_tails_are_written_as_they_are_read() {
    let paper = [
        (golden!("paper_tail_dr_zero"), None),
        (golden!("paper_tail_dr_latency_183us"), None),
        (golden!("paper_tail_dr_ns_183296"), None),
        (golden!("paper_tail_dr_valid_idx1"), DetectionResult::read(0x8100_0598)),
        (golden!("paper_tail_dr_byte1_is_2"), DetectionResult::read(0x8102_0010)),
    ];
    let around = |header: &[u8]| {
        let mut bytes = golden!("journey_1_ingress");
        bytes[40..104].copy_from_slice(header);
        bytes
    };
    for (header, result) in paper {
        let bytes = around(&header);
        let view = IntView::parse(&bytes, Tail::Paper).unwrap();
        assert_eq!((view.map(), view.result()), (MapInfo::ALL, result));
        assert!(IntView::parse(&bytes, Tail::Tlv).is_err(), "a domain has one of them");
    }
    let bytes = around(&golden!("profile_v1_tail"));
    let view = IntView::parse(&bytes, Tail::Tlv).unwrap();
    assert_eq!(view.result(), DetectionResult::read(0x8100_0598));
    assert_eq!(IntView::parse(&bytes, Tail::Paper).err(), Some(IntError::NoTail));
}

/// Asserts that a step wrote inside the segment routing header, and beside it the destination and the hop limit alone.
fn assert_inside(before: &[u8], after: &[u8]) {
    assert_eq!(before.len(), after.len());
    let end = before.get(41).map_or(0, |octets| 48 + 8 * usize::from(*octets));
    for (at, (one, other)) in before.iter().zip(after).enumerate() {
        let may_change = at == 7 || (24..end).contains(&at);
        assert!(one == other || may_change, "byte {at} of {}", before.len());
    }
}

/// All steps with bytes that may be no packet: none panics, and what is refused is left as it was.
fn try_all(bytes: &[u8]) {
    let now = ArrivalTime::from_ns(1 << 39);
    for tail in [Tail::Tlv, Tail::Paper] {
        for visit in [Visit::Passing, into_function(SAMPLES[0])] {
            let mut after = bytes.to_vec();
            match end_t_int(&mut after, &first(), visit, tail) {
                Ok(_) => assert_inside(bytes, &after),
                Err(_) => assert_eq!(after, bytes),
            }
        }
        let mut after = bytes.to_vec();
        match end_t_int_return(&mut after, 2, now, tail) {
            Ok(_) => assert_inside(bytes, &after),
            Err(_) => assert_eq!(after, bytes),
        }
        let mut after = bytes.to_vec();
        match end_dt_int(&mut after, &first(), tail) {
            Ok(egress) => {
                assert_inside(bytes, &after);
                assert_eq!(after[egress.inside.range.clone()], bytes[egress.inside.range]);
            }
            Err(_) => assert_eq!(after, bytes),
        }
        let _ = IntView::parse(bytes, tail).map(|view| view.hops().count());
    }
}

#[test]
fn no_golden_cut_or_flipped_makes_a_step_write_elsewhere() {
    for golden in [
        golden!("journey_1_ingress"),
        golden!("journey_2_to_first_function"),
        golden!("journey_4_to_second_function"),
    ] {
        each_truncation(&golden, try_all);
        each_bit_flip(&golden, try_all);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_step_write_elsewhere(header in any_vec(any::<u8>(), 0..120)) {
        try_all(&header);
        let mut bytes = golden!("journey_1_ingress");
        let most = header.len().min(bytes.len() - 43);
        bytes[43..43 + most].copy_from_slice(&header[..most]);
        bytes[44] %= 4;
        bytes[43] %= 4;
        bytes[45] |= 1;
        try_all(&bytes);
    }

    #[test]
    fn a_journey_of_any_length_keeps_its_length_and_all_that_was_measured(
        segments in 1..=100_usize,
        devices in any_vec(any::<u16>(), 100),
        arrivals in any_vec(any::<u64>(), 100),
        away in any_vec(0..1_u64 << 30, 100),
        is_signed in any::<bool>(),
    ) {
        let way: Vec<Ipv6Addr> = (1..=segments as u16)
            .map(|node| Ipv6Addr::new(0x5f00, 0, node, 0xe1, 0, 7, 0, 0))
            .collect();
        let key_id = is_signed.then_some(1);
        let mut bytes = packet(&IntEncaps { key_id, ..encapsulation(&way) });
        crate::ipv6::set_hop_limit(&mut bytes, 255).unwrap();
        let length = bytes.len();
        let mut measured = Vec::new();
        for (hop, segment) in way.iter().enumerate() {
            let own = record(devices[hop], arrivals[hop], (1, 2), 3);
            if hop + 1 == segments {
                let egress = end_dt_int(&mut bytes, &own, Tail::Tlv).unwrap();
                prop_assert_eq!(&bytes[egress.inside.range], &hex(INSIDE)[..]);
                measured.push(own);
            } else {
                prop_assert_eq!(Srv6View::parse(&bytes).unwrap().header().destination, *segment);
                let own = of_function(own);
                end_t_int(&mut bytes, &own, Visit::Function(None), Tail::Tlv).unwrap();
                let now = ArrivalTime::from_ns(arrivals[hop].wrapping_add(away[hop]));
                end_t_int_return(&mut bytes, devices[hop], now, Tail::Tlv).unwrap();
                measured.push(with_latency(away[hop], own));
            }
            prop_assert_eq!(bytes.len(), length);
        }
        let view = IntView::parse(&bytes, Tail::Tlv).unwrap();
        prop_assert!(view.hops().eq(measured.into_iter().map(Hop::Recorded)));
        prop_assert!(!view.tag().is_incomplete);
    }
}
