//! What is told of segment routing, as a collector takes it in.

use catena_kernel::namespace::NetNamespace;
use catena_kernel::process::{enter_namespace, spawn_bound};
use catena_wire::ipfix::{
    DelayRecord, HeaderRecord, HopRecord, MessageHeader, PacketRecord, ToldFields, ToldSegments,
    emit_delays, emit_headers, emit_hops, emit_packets, emit_telemetry_templates,
};
use catena_wire::scalar::FlowLabel;
use catena_wire::srv6::SegmentFlags;
use catena_wire::srv6_int::IntMetadata;
use std::net::Ipv6Addr;
use std::process::Command;

use crate::collector::{Collector, Workplace, ended, has};

/// Headers of each form.
const HEADERS: u64 = 20;

fn header(number: u64, segments: ToldSegments<'_>) -> HeaderRecord<'_> {
    HeaderRecord {
        fields: ToldFields {
            source: Ipv6Addr::new(0xfd00, 0, 1, 0, 0, 0, 0, number as u16),
            destination: "5f00:0:3:e1::".parse().expect("an address"),
            flow_label: FlowLabel::new(7).expect("a label"),
            flags: SegmentFlags(1),
            tag: 0x192a,
            segments_left: 1,
            active: "5f00:0:3:e1::".parse().expect("an address"),
        },
        known_by: 0,
        locator_bits: 48,
        behaviour: 9,
        bytes: 1_000 + number,
        packets: 1 + number,
        first_ms: 1_700_000_000_250,
        last_ms: 1_700_000_001_500,
        segments,
    }
}

fn message(emit: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut into = vec![0; 1_400];
    let length = emit(&mut into);
    into.truncate(length);
    into
}

#[test]
fn a_collector_takes_in_what_is_told_of_segment_routing() {
    const TEST: &str = "a_collector_takes_in_what_is_told_of_segment_routing";
    if !has(TEST, &[("nfcapd", "-V"), ("nfdump", "-V")]) {
        return;
    }
    let workplace = Workplace::new("segments");
    let namespace = NetNamespace::create_unnamed("collector").expect("a namespace");
    let mut up = Command::new("ip");
    up.args(["link", "set", "lo", "up"]);
    enter_namespace(&mut up, &namespace);
    assert!(ended(spawn_bound(up).expect("it starts")).success());
    let collector = Collector::start(&namespace, &workplace.0, 9_997);
    let at = |sequence: u32| MessageHeader { export_seconds: 1_700_000_002, sequence, domain: 5 };
    let list = [[0x5f; 16]; 16];
    let forms = [
        ToldSegments::Header(list.as_flattened()),
        ToldSegments::Section(&list),
        ToldSegments::List(&list[..2]),
    ];
    let records: Vec<_> =
        (0..HEADERS).flat_map(|number| forms.map(|form| header(number, form))).collect();
    let mut sequence = 0;
    let mut messages =
        vec![message(|into| emit_telemetry_templates(at(0), into).expect("there is room"))];
    for three in records.chunks(3) {
        let write = |into: &mut [u8]| emit_headers(at(sequence), three, into);
        messages.push(message(|into| write(into).expect("there is room")));
        sequence += 3;
    }
    let ToldFields { source, destination, flow_label, tag, .. } = records[0].fields;
    let hop = HopRecord {
        source,
        destination,
        flow_label,
        tag,
        place: 0,
        record: IntMetadata::default(),
        packet: 42,
    };
    let delay = DelayRecord {
        segment: destination,
        device: 2,
        function: None,
        first_ms: 1_700_000_000_250,
        last_ms: 1_700_000_001_500,
        packets: 3,
        least_ns: 1,
        most_ns: 3,
        sum_ns: 6,
    };
    messages.push(message(|into| emit_hops(at(sequence), &[hop], into).expect("there is room")));
    messages.push(message(|into| {
        emit_delays(at(sequence + 1), &[delay], into).expect("there is room")
    }));
    let packet = PacketRecord {
        fields: ToldFields {
            source,
            destination,
            flow_label,
            flags: SegmentFlags(1),
            tag,
            segments_left: 0,
            active: destination,
        },
        packet: 42,
        path: 7,
        flow: 8,
        reason: 1,
        section: list.as_flattened(),
    };
    messages.push(message(|into| {
        emit_packets(at(sequence + 2), &[packet], into).expect("there is room")
    }));
    collector.send(&messages);
    let (rows, said) = collector.flows();
    assert!(said.contains("Sequence Errors: 0, Bad Packets: 0"), "{said}");
    let one = rows.iter().filter(|row| row["ipkt"] == "1" && row["ibyt"] == "0");
    assert_eq!(one.count(), 1, "{rows:?}");
    let mut told: Vec<(Ipv6Addr, u64, u64)> = rows
        .iter()
        .filter(|row| row["ipkt"] != "0" && row["ibyt"] != "0")
        .map(|row| {
            let number = |name: &str| row[name].parse().expect("a number");
            (row["sa"].parse().expect("an address"), number("ipkt"), number("ibyt"))
        })
        .collect();
    told.sort_unstable();
    let expected: Vec<_> =
        records.iter().map(|record| (record.fields.source, record.packets, record.bytes)).collect();
    assert_eq!(told, expected);
}
