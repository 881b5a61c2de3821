//! The same of segment routing and its telemetry.

use super::*;
use crate::scalar::{FlowCounter, FlowLabel, FunctionIndex, QueueId, QueueLength};
use crate::srv6::{SegmentFlags, SegmentRoutingView};
use crate::srv6_int::{ArrivalTime, FunctionLatency, IntMetadata, MapInfo, Queue};

macro_rules! golden {
    ($name:literal) => {
        hex(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../conformance/ipfix/",
            $name,
            ".hex"
        )))
    };
}

const INGRESS: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 1, 0, 0, 0, 0, 1);
const ACTIVE: Ipv6Addr = Ipv6Addr::new(0x5f00, 0, 3, 0xe1, 0, 0, 0, 0);

fn header(segments: ToldSegments<'_>) -> HeaderRecord<'_> {
    HeaderRecord {
        fields: ToldFields {
            source: INGRESS,
            destination: ACTIVE,
            flow_label: FlowLabel::new(0x1_2345).unwrap(),
            flags: SegmentFlags(1),
            tag: 0x192a,
            segments_left: 1,
            active: ACTIVE,
        },
        known_by: 0,
        locator_bits: 48,
        behaviour: 9,
        bytes: 1_500,
        packets: 3,
        first_ms: 0x018b_cfe5_6800,
        last_ms: 0x018b_cfe5_6801,
        segments,
    }
}

fn hop(place: u8, record: IntMetadata, packet: u32) -> HopRecord {
    HopRecord {
        source: INGRESS,
        destination: Ipv6Addr::new(0x5f00, 0, 4, 0xd6, 0, 0, 0, 0),
        flow_label: FlowLabel::new(0x1_2345).unwrap(),
        tag: 0x192a,
        place,
        record,
        packet,
    }
}

fn hops() -> [HopRecord; 2] {
    let first = IntMetadata {
        device: Some(2),
        arrival: Some(ArrivalTime::from_ns(0x01_2345_6780)),
        latency: Some(FunctionLatency::from_ns(245_760)),
        queue: Some(Queue { id: QueueId::new(3).unwrap(), length: QueueLength::new(17).unwrap() }),
        counter: Some(FlowCounter::of(1_001)),
        is_of_function: true,
        is_synchronised: true,
    };
    let third = IntMetadata {
        device: Some(4),
        latency: Some(FunctionLatency::from_ns(u64::MAX)),
        ..IntMetadata::default()
    };
    [hop(0, first, 42), hop(2, third, u32::MAX)]
}

fn delays() -> [DelayRecord; 2] {
    let none = DelayRecord {
        segment: Ipv6Addr::new(0x5f00, 0, 2, 0xe1, 0, 0, 0, 0),
        device: 2,
        function: None,
        first_ms: 0x018b_cfe5_6800,
        last_ms: 0x018b_cfe5_6be8,
        packets: 0,
        least_ns: 0,
        most_ns: 0,
        sum_ns: 0,
    };
    let function = Some(FunctionIndex::new(1).unwrap());
    let (packets, least_ns, most_ns, sum_ns) = (3, 1_000, 2_000, 4_000);
    [DelayRecord { function, packets, least_ns, most_ns, sum_ns, ..none }, none]
}

fn emitted(emit: impl Fn(&mut [u8]) -> Result<usize, IpfixError>) -> Vec<u8> {
    let mut into = vec![0xa5; 70_000];
    let need = emit(&mut into).unwrap();
    assert!(into[need..].iter().all(|&byte| byte == 0xa5), "nothing is written behind it");
    into.truncate(need);
    let mut short = vec![0xa5; need - 1];
    let cut = IpfixError::Truncated { need, have: need - 1 };
    assert_eq!(emit(&mut short), Err(cut));
    assert!(short.iter().all(|&byte| byte == 0xa5), "a refused buffer is left alone");
    into
}

fn all<'p, T, I: Iterator<Item = T> + 'p>(bytes: &'p [u8], of: impl FnMut(Set<'p>) -> I) -> Vec<T> {
    Message::parse(bytes).unwrap().sets().flat_map(of).collect()
}

#[test]
fn golden_headers_are_told_in_each_form_and_read() {
    let golden = golden!("headers");
    let whole = &golden[113..185];
    let (view, rest) = SegmentRoutingView::parse(whole).unwrap();
    assert_eq!((view.tag(), view.segments_left(), rest.len()), (0x192a, 1, 0));
    let list: Vec<[u8; 16]> =
        [view.segment(0), view.segment(1)].map(|at| at.unwrap().octets()).into();
    let forms =
        [ToldSegments::Header(whole), ToldSegments::Section(&list), ToldSegments::List(&list)];
    // Each form has its set, whatever their order was.
    let records = forms.map(header);
    let [first, second, third] = records;
    assert_eq!(emitted(|into| emit_headers(HEADER, &[third, first, second], into)), golden);
    assert_eq!(all(&golden, |set| set.headers()), records);
    assert_eq!(records.map(|record| record.len_bytes()), [0xa9 - 4, 0x81 - 4, 0x86 - 4]);
}

#[test]
fn golden_hops_and_delays_are_written_and_read() {
    let golden = golden!("hops");
    assert_eq!(emitted(|into| emit_hops(HEADER, &hops(), into)), golden);
    assert_eq!(all(&golden, |set| set.hops()), hops());
    let golden = golden!("delays");
    assert_eq!(emitted(|into| emit_delays(HEADER, &delays(), into)), golden);
    assert_eq!(all(&golden, |set| set.delays()), delays());
    assert_eq!(delays().map(|record| record.mean_ns()), [1_333, 0]);
}

fn packet(section: &[u8]) -> PacketRecord<'_> {
    PacketRecord {
        fields: ToldFields {
            source: INGRESS,
            destination: ACTIVE,
            flow_label: FlowLabel::new(0x1_2345).unwrap(),
            flags: SegmentFlags(1),
            tag: 0x192a,
            segments_left: 0,
            active: ACTIVE,
        },
        packet: 42,
        path: 0x0102_0304,
        flow: 0x1112_1314_1516_1718,
        reason: 5,
        section,
    }
}

#[test]
fn golden_packets_are_told_and_read() {
    let golden = golden!("packets");
    let section = &golden[102..];
    assert_eq!((section.len(), golden[101]), (48, 48));
    assert!(SegmentRoutingView::parse(section).is_ok_and(|(_, rest)| rest.is_empty()));
    assert_eq!(emitted(|into| emit_packets(HEADER, &[packet(section)], into)), golden);
    assert_eq!(all(&golden, |set| set.packets()), [packet(section)]);
    // From 255 bytes on a length takes two more.
    let long = [0xa5; 255];
    let two = [packet(&long), packet(&long[1..])];
    assert_eq!(two.map(|record| record.len_bytes()), [81 + 3 + 255, 81 + 1 + 254]);
    let message = emitted(|into| emit_packets(HEADER, &two, into));
    assert_eq!(all(&message, |set| set.packets()), two);
}

#[test]
fn messages_without_records_have_no_set() {
    let empty = emitted(|into| emit_hops(HEADER, &[], into));
    assert_eq!(empty.len(), HEADER_BYTES);
    assert_eq!(emitted(|into| emit_delays(HEADER, &[], into)), empty);
    assert_eq!(emitted(|into| emit_headers(HEADER, &[], into)), empty);
    assert_eq!(emitted(|into| emit_packets(HEADER, &[], into)), empty);
    assert_eq!(all(&empty, |set| set.hops()), []);
}

#[test]
fn templates_of_telemetry_have_the_elements_of_rfc_9487_and_ours() {
    let message = emitted(|into| emit_telemetry_templates(HEADER, into));
    assert_eq!(message.len(), TELEMETRY_TEMPLATES_BYTES);
    let [set] = &Message::parse(&message).unwrap().sets().collect::<Vec<_>>()[..] else {
        panic!("one set");
    };
    let mut rest = set.content;
    let mut number = || {
        let (taken, behind) = rest.split_first_chunk().unwrap();
        rest = behind;
        u16::from_be_bytes(*taken)
    };
    let mut told = Vec::new();
    for template in TEMPLATE_HEADER..=TEMPLATE_PACKETS {
        assert_eq!(number(), template);
        for _ in 0..number() {
            let (element, bytes) = (number(), number());
            let enterprise = (element & 0x8000 != 0).then(|| [number(), number()]);
            assert!(enterprise.is_none_or(|words| words == [0, 32_473]));
            told.push((template, element & 0x7fff, bytes, enterprise.is_some()));
        }
    }
    assert!(rest.is_empty());
    // RFC 9487 section 5, what each takes.
    for (element, bytes) in [(492, 1), (493, 2), (495, 16), (498, 1), (500, 1), (501, 1), (502, 2)]
    {
        assert!(told.contains(&(TEMPLATE_HEADER, element, bytes, false)), "{element}");
    }
    for (template, element) in [
        (TEMPLATE_HEADER, 499),
        (TEMPLATE_LIST_SECTION, 497),
        (TEMPLATE_BASIC_LIST, 496),
        (TEMPLATE_PACKETS, 499),
    ] {
        assert!(told.contains(&(template, element, 0xffff, false)), "{element}");
    }
    let own: Vec<u16> = told.iter().filter(|told| told.3).map(|told| told.1).collect();
    assert_eq!(own, [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 4, 10, 11, 12, 13, 14, 15, 16, 17, 18]);
    let bytes = |of: u16| -> u16 {
        told.iter().filter(|(template, ..)| *template == of).map(|(_, _, bytes, _)| bytes).sum()
    };
    assert_eq!(usize::from(bytes(TEMPLATE_HOPS)), HOP_BYTES);
    assert_eq!(usize::from(bytes(TEMPLATE_DELAYS)), DELAY_BYTES);
}

#[test]
fn records_that_contradict_themselves_end_those_that_are_read() {
    // Of the second hop: each field that is not valid, and a saturated latency that is short.
    let golden = golden!("hops");
    let second = golden.len() - HOP_BYTES;
    for at in (43..51).chain(55..62).chain([52]) {
        let mut damaged = golden.clone();
        damaged[second + at] ^= 1;
        assert_eq!(all(&damaged, |set| set.hops()), hops()[..1], "octet {at}");
    }
    // Of the first delays: a function beyond the last, another mean, and one below the least or above the most.
    let golden = golden!("delays");
    for (at, octet) in [(18, 0x80), (58, 0x06), (49, 0x06), (65, 0x04)] {
        let mut damaged = golden.clone();
        damaged[20 + at] = octet;
        assert_eq!(all(&damaged, |set| set.delays()), [], "octet {at}");
    }
    // A packet that says it is two.
    let mut damaged = golden!("packets");
    damaged[83] = 2;
    assert_eq!(all(&damaged, |set| set.packets()), []);
    // A list whose length is no multiple, or that is of other elements.
    let golden = golden!("headers");
    let list = golden.len() - 37;
    for (at, octet) in [(list - 1, 0x24), (list, 3), (list + 2, 0xef), (list + 4, 4)] {
        let mut damaged = golden.clone();
        damaged[at] = octet;
        assert_eq!(all(&damaged, |set| set.headers()).len(), 2, "octet {at}");
    }
}

#[test]
fn damaged_messages_of_telemetry_are_refused_or_read_without_panic() {
    for golden in [golden!("headers"), golden!("hops"), golden!("delays"), golden!("packets")] {
        each_truncation(&golden, |cut| assert!(Message::parse(cut).is_err()));
        each_bit_flip(&golden, |damaged| {
            let Ok(message) = Message::parse(damaged) else { return };
            for set in message.sets() {
                let headers: Vec<_> = set.headers().collect();
                let (hops, delays) =
                    (set.hops().collect::<Vec<_>>(), set.delays().collect::<Vec<_>>());
                let packets: Vec<_> = set.packets().collect();
                for read in [
                    emitted(|into| emit_packets(HEADER, &packets, into)),
                    emitted(|into| emit_headers(HEADER, &headers, into)),
                    emitted(|into| emit_hops(HEADER, &hops, into)),
                    emitted(|into| emit_delays(HEADER, &delays, into)),
                ] {
                    assert!(Message::parse(&read).is_ok());
                }
            }
        });
    }
}

fn any_record() -> impl Strategy<Value = IntMetadata> {
    (any::<(u16, u64, u64)>(), 0..16u32, any::<(u64, u64)>(), 0..32u16, any::<(bool, bool)>())
        .prop_map(|((device, arrival, latency), id, (length, counter), map, flags)| {
            let whole = IntMetadata {
                device: Some(device),
                arrival: Some(ArrivalTime::from_ns(arrival)),
                latency: Some(FunctionLatency::from_ns(latency)),
                queue: Some(Queue {
                    id: QueueId::new(id).unwrap(),
                    length: QueueLength::saturating(length),
                }),
                counter: Some(FlowCounter::of(counter)),
                is_of_function: flags.0,
                is_synchronised: flags.1,
            };
            whole.limited_to(MapInfo::new(map).unwrap())
        })
}

proptest! {
    #[test]
    fn all_hops_are_read_back(records in any_vec((any::<(u8, u32)>(), any_record()), 0..20)) {
        let hop = |((place, packet), record)| hop(place, record, packet);
        let records: Vec<_> = records.into_iter().map(hop).collect();
        let message = emitted(|into| emit_hops(HEADER, &records, into));
        prop_assert_eq!(all(&message, |set| set.hops()), records);
    }

    #[test]
    fn all_delays_are_read_back(
        counts in any_vec((any::<(u16, u32, u32)>(), any::<u16>(), 0..129u32), 0..20),
    ) {
        let records: Vec<_> = counts
            .into_iter()
            .map(|((packets, least, more), device, function)| {
                let (packets, least_ns) = (u64::from(packets), u64::from(least));
                let most_ns = least_ns + u64::from(more);
                let sum_ns = packets * (least_ns + most_ns) / 2;
                let function = FunctionIndex::new(function).ok();
                DelayRecord { device, function, packets, least_ns, most_ns, sum_ns, ..delays()[0] }
            })
            .collect();
        let message = emitted(|into| emit_delays(HEADER, &records, into));
        prop_assert_eq!(all(&message, |set| set.delays()), records);
    }

    #[test]
    fn lists_of_any_length_are_read_back(
        list in any_vec(any::<[u8; 16]>(), 0..128),
        section in any_vec(any::<u8>(), 0..2_048),
        tag in any::<u16>(),
    ) {
        let forms = [ToldSegments::Header(&section), ToldSegments::Section(&list), ToldSegments::List(&list)];
        let records = forms.map(|form| {
            let of_form = header(form);
            HeaderRecord { fields: ToldFields { tag, ..of_form.fields }, ..of_form }
        });
        let message = emitted(|into| emit_headers(HEADER, &records, into));
        prop_assert_eq!(all(&message, |set| set.headers()), records);
    }
}
