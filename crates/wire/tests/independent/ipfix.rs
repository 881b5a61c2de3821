//! What tshark reads in our messages of IPFIX, once it has the templates.

use catena_wire::flow::FlowKey;
use catena_wire::ipfix::{
    DelayRecord, EndReason, FlowRecord, HeaderRecord, HopRecord, MessageHeader, PORT, PacketRecord,
    ToldFields, ToldSegments, emit_data, emit_delays, emit_headers, emit_hops, emit_packets,
    emit_telemetry_templates, emit_templates, icmp_port,
};
use catena_wire::scalar::{FlowLabel, FunctionIndex, IpProtocol};
use catena_wire::srv6::SegmentFlags;
use catena_wire::srv6_int::{ArrivalTime, IntMetadata};
use catena_wire::tcp::TcpFlags;

use crate::packets::{emitted, tunnelled};
use crate::programs::tshark;
use crate::tshark::decimal;

fn records() -> [FlowRecord; 2] {
    let v4 = FlowRecord {
        flow: FlowKey {
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            protocol: IpProtocol::TCP,
            source_port: 40_000,
            destination_port: 443,
        },
        bytes: 5_000_000_000,
        packets: 4_000_000,
        tcp_flags: TcpFlags(0x1b),
        end: EndReason::Ended,
        is_egress: false,
        first_ms: 1_700_000_000_250,
        last_ms: 1_700_000_001_500,
    };
    let flow = FlowKey {
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::2".parse().unwrap(),
        protocol: IpProtocol::ICMPV6,
        source_port: 0,
        destination_port: icmp_port(128, 3),
    };
    let (bytes, packets, tcp_flags, end) = (104, 1, TcpFlags(0), EndReason::Full);
    [v4, FlowRecord { flow, bytes, packets, tcp_flags, end, is_egress: true, ..v4 }]
}

#[test]
fn flows_are_read_by_their_templates() {
    let header = MessageHeader { export_seconds: 1_700_000_002, sequence: 77, domain: 5 };
    let messages = [
        emitted(|into| emit_templates(header, into)),
        emitted(|into| emit_data(header, &records(), into)),
    ];
    let packets = messages.map(|message| tunnelled(PORT, &message));
    let expected = [
        ("cflow.version", "10"),
        ("cflow.sequence", "77"),
        ("cflow.od_id", "5"),
        ("cflow.flowset_id", "256,257"),
        ("cflow.srcaddr", "10.0.0.1"),
        ("cflow.dstaddr", "10.0.0.2"),
        ("cflow.srcaddrv6", "2001:db8::1"),
        ("cflow.dstaddrv6", "2001:db8::2"),
        ("cflow.srcport", "40000,0"),
        ("cflow.dstport", "443,0"),
        ("cflow.protocol", "6,58"),
        ("cflow.octets", "5000000000,104"),
        ("cflow.packets", "4000000,1"),
        ("cflow.tcpflags", "27,0"),
        ("cflow.flow_end_reason", "3,5"),
        ("cflow.direction", "0,1"),
        ("cflow.icmp_type_code_ipv4", "0"),
        ("cflow.abstimestart", "22:13:20.250000000"),
        ("cflow.abstimeend", "22:13:21.500000000"),
        ("_ws.malformed", ""),
    ];
    let fields: Vec<&str> = expected.iter().map(|(field, _)| *field).collect();
    let Some(rows) = tshark("flows_are_read_by_their_templates", &packets, &fields) else { return };
    assert_eq!(rows.len(), 2, "one message is one row");
    for ((field, expected), read) in expected.iter().zip(&rows[1]) {
        if field.starts_with("cflow.abstime") {
            // How the day is written depends on the version.
            assert_eq!(read.matches(expected).count(), 2, "{field}: {read}");
        } else {
            assert_eq!(decimal(read), decimal(expected), "{field}");
        }
    }
}

const HEADER: MessageHeader =
    MessageHeader { export_seconds: 1_700_000_002, sequence: 77, domain: 5 };

fn in_header(segments: ToldSegments<'_>) -> HeaderRecord<'_> {
    HeaderRecord {
        fields: ToldFields {
            source: "fd00:0:1::1".parse().unwrap(),
            destination: "5f00:0:3:e1::".parse().unwrap(),
            flow_label: FlowLabel::new(0x1_2345).unwrap(),
            flags: SegmentFlags(1),
            tag: 0x192a,
            segments_left: 1,
            active: "5f00:0:3:e1::".parse().unwrap(),
        },
        known_by: 4,
        locator_bits: 48,
        behaviour: 9,
        bytes: 5_000_000_000,
        packets: 4_000_000,
        first_ms: 1_700_000_000_250,
        last_ms: 1_700_000_001_500,
        segments,
    }
}

/// A tshark that does not know elements of RFC 9487 gives them unopened, as it does with ours.
#[test]
fn what_is_told_of_segment_routing_is_read_by_its_templates() {
    let list = [[0x5f; 16], [0x1f; 16]];
    let long = [0xa5; 300];
    let records =
        [ToldSegments::Header(&long), ToldSegments::Section(&list), ToldSegments::List(&list)]
            .map(in_header);
    let record = IntMetadata {
        device: Some(0xbeef),
        arrival: Some(ArrivalTime::from_ns(0x01_2345_6780)),
        ..IntMetadata::default()
    };
    let ToldFields { source, destination, flow_label, tag, .. } = records[0].fields;
    let hop = HopRecord { source, destination, flow_label, tag, place: 2, record, packet: 42 };
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
        section: &long,
    };
    let delay = DelayRecord {
        segment: destination,
        device: 2,
        function: Some(FunctionIndex::new(1).unwrap()),
        first_ms: 1_700_000_000_250,
        last_ms: 1_700_000_001_500,
        packets: 3,
        least_ns: 1_000,
        most_ns: 2_000,
        sum_ns: 4_000,
    };
    let messages = [
        emitted(|into| emit_telemetry_templates(HEADER, into)),
        emitted(|into| emit_headers(HEADER, &records[..1], into)),
        emitted(|into| emit_headers(HEADER, &records[1..], into)),
        emitted(|into| emit_hops(HEADER, &[hop], into)),
        emitted(|into| emit_delays(HEADER, &[delay], into)),
        emitted(|into| emit_packets(HEADER, &[packet], into)),
    ];
    let packets = messages.map(|message| tunnelled(PORT, &message));
    let fields = [
        "cflow.flowset_id",
        "cflow.srcaddrv6",
        "cflow.dstaddrv6",
        "cflow.ipv6flowlabel",
        "cflow.octets",
        "cflow.packets",
        "cflow.enterprise_private_entry",
        "_ws.malformed",
    ];
    let test = "what_is_told_of_segment_routing_is_read_by_its_templates";
    let Some(rows) = tshark(test, &packets, &fields) else { return };
    let active = "5f000000000300e10000000000000000";
    let of_header = format!("01,192a,01,{active},04,30,0009");
    let [list, long] = [list.as_flattened(), &long].map(hex);
    let both = format!("{of_header},{list},{of_header},0401ee0010{list}");
    let expected = [
        ["2", "", "", "", "", "", "", ""].map(str::to_owned),
        read("258", 1, &format!("{of_header},{long}")),
        read("259,260", 2, &both),
        [
            "261",
            "fd00:0:1::1",
            "5f00:0:3:e1::",
            "74565",
            "",
            "",
            "192a,02,18,00,beef,0000000123456780,00000000,00,0000,00000000,0000002a",
            "",
        ]
        .map(str::to_owned),
        [
            "262",
            "",
            "",
            "",
            "",
            "3",
            &format!(
                "{active},0002,01,00000000000003e8,0000000000000535,00000000000007d0,0000000000000fa0"
            ),
            "",
        ]
        .map(str::to_owned),
        [
            "263",
            "fd00:0:1::1",
            "5f00:0:3:e1::",
            "74565",
            "",
            "1",
            &format!("01,192a,00,{active},0000002a,00000007,0000000000000008,01,{long}"),
            "",
        ]
        .map(str::to_owned),
    ];
    assert_eq!(rows, expected);
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// What is read of so many records of a header, in sets of these templates.
fn read(templates: &str, records: usize, unopened: &str) -> [String; 8] {
    let each = |field: &str| vec![field; records].join(",");
    let [source, destination] = ["fd00:0:1::1", "5f00:0:3:e1::"].map(each);
    let [label, bytes, packets] = ["74565", "5000000000", "4000000"].map(each);
    let (templates, unopened) = (templates.to_owned(), unopened.to_owned());
    [templates, source, destination, label, bytes, packets, unopened, String::new()]
}
