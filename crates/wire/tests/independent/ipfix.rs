//! What tshark reads in our messages of IPFIX, once it has the templates.

use catena_wire::flow::FlowKey;
use catena_wire::ipfix::{
    EndReason, FlowRecord, MessageHeader, PORT, emit_data, emit_templates, icmp_port,
};
use catena_wire::scalar::IpProtocol;
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
