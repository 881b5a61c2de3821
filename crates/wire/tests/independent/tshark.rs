//! What tshark reads in the packets we write, field by field.

use std::net::{Ipv4Addr, Ipv6Addr};

use catena_wire::arp::{ArpOperation, ArpPacket};
use catena_wire::neighbour::{NeighbourSolicitation, emit_neighbour_advertisement};
use catena_wire::nsh::{ContextHeader, ContextHeaders, Metadata};
use catena_wire::scalar::MacAddr;
use catena_wire::segment::{SegmentKind, SuperFrame};

use crate::packets::{self, CLIENT, SERVER, emitted};
use crate::programs::tshark;

/// tshark's word for a correct checksum.
const GOOD: &str = "1";

/// Asserts that one packet is read as the given pairs of field and reading.
fn assert_read(test: &str, packet: Vec<u8>, expected: &[(&str, &str)]) {
    let fields: Vec<&str> = expected.iter().map(|(field, _)| *field).collect();
    let Some(rows) = tshark(test, &[packet], &fields) else {
        return;
    };
    assert_eq!(rows.len(), 1, "one packet is one row");
    for ((field, expected), read) in expected.iter().zip(&rows[0]) {
        assert_eq!(decimal(read), decimal(expected), "{field}");
    }
}

/// Readings with each hexadecimal number in decimal: which one is printed depends on the version.
pub(crate) fn decimal(readings: &str) -> Vec<String> {
    readings
        .split(',')
        .map(|reading| {
            let number = reading.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
            number.map_or_else(|| reading.to_owned(), |number| number.unwrap().to_string())
        })
        .collect()
}

#[test]
fn vxlan_is_read_to_the_tenant_data() {
    assert_read(
        "vxlan_is_read_to_the_tenant_data",
        packets::over_vxlan(),
        &[
            ("eth.dst", "02:00:00:00:01:02,02:00:00:00:02:02"),
            ("eth.src", "02:00:00:00:01:01,02:00:00:00:02:01"),
            ("ip.src", "192.0.2.1,10.0.0.1"),
            ("ip.dst", "192.0.2.2,10.0.0.2"),
            ("ip.checksum.status", "1,1"),
            ("udp.dstport", "4789,50002"),
            ("udp.checksum.status", "1,1"),
            ("vxlan.flags", "0x0800"),
            ("vxlan.vni", "1193125"),
        ],
    );
}

#[test]
fn nsh_over_vxlan_gpe_is_read_to_the_tenant_data() {
    assert_read(
        "nsh_over_vxlan_gpe_is_read_to_the_tenant_data",
        packets::nsh_over_vxlan_gpe(),
        &[
            ("udp.dstport", "4790,50002"),
            ("udp.checksum.status", "1,1"),
            ("ip.checksum.status", "1,1"),
            ("vxlan.ver", "0"),
            ("vxlan.i_bit", "1"),
            ("vxlan.p_bit", "1"),
            ("vxlan.o_bit", "0"),
            ("vxlan.next_proto", "4"),
            ("vxlan.vni", "1193125"),
            ("nsh.version", "0"),
            ("nsh.Obit", "0"),
            ("nsh.ttl", "60"),
            ("nsh.length", "6"),
            ("nsh.mdtype", "1"),
            ("nsh.nextproto", "3"),
            ("nsh.spi", "11259375"),
            ("nsh.si", "252"),
            ("nsh.contextheader", "10111213,14151617,18191a1b,1c1d1e1f"),
            ("eth.dst", "02:00:00:00:01:02,02:00:00:00:02:02"),
        ],
    );
}

#[test]
fn nsh_with_context_headers_over_ethernet_is_read_to_the_tenant_data() {
    let tenant = ContextHeader { class: 0x0100, kind: 7, value: &[1, 2, 3, 4, 5] };
    let mark = ContextHeader { class: 0, kind: 4, value: &[0xaa; 4] };
    let context = [emitted(|into| tenant.emit(into)), emitted(|into| mark.emit(into))].concat();
    let metadata = Metadata::Type2(ContextHeaders::parse(&context).unwrap());
    assert_read(
        "nsh_with_context_headers_over_ethernet_is_read_to_the_tenant_data",
        packets::nsh_over_ethernet(metadata),
        &[
            ("eth.type", "0x894f"),
            ("nsh.ttl", "60"),
            ("nsh.length", "7"),
            ("nsh.mdtype", "2"),
            ("nsh.nextproto", "1"),
            ("nsh.spi", "11259375"),
            ("nsh.si", "252"),
            ("nsh.metadataclass", "256,0"),
            ("nsh.metadatatype", "7,4"),
            ("nsh.metadatalen", "5,4"),
            ("nsh.metadata", "0102030405,aaaaaaaa"),
            ("udp.checksum.status", GOOD),
            ("ip.dst", "10.0.0.2"),
        ],
    );
}

#[test]
fn the_context_headers_of_rfc_9263_are_read_to_the_tenant_data() {
    let headers = [
        (ContextHeader::TENANT, &b"acme"[..]),
        (ContextHeader::INGRESS_NODE, b"host1"),
        (ContextHeader::FLOW, &[1, 2, 3, 4]),
        (ContextHeader::POLICY, &[0, 0, 0, 7]),
    ];
    let context: Vec<u8> = headers
        .iter()
        .flat_map(|(kind, value)| {
            let class = ContextHeader::CLASS_BASE;
            emitted(|into| ContextHeader { class, kind: *kind, value }.emit(into))
        })
        .collect();
    let metadata = Metadata::Type2(ContextHeaders::parse(&context).unwrap());
    assert_read(
        "the_context_headers_of_rfc_9263_are_read_to_the_tenant_data",
        packets::nsh_over_ethernet(metadata),
        &[
            ("nsh.length", "11"),
            ("nsh.mdtype", "2"),
            ("nsh.metadataclass", "0,0,0,0"),
            ("nsh.metadatatype", "5,6,8,10"),
            ("nsh.metadatalen", "4,5,4,4"),
            ("nsh.metadata", "61636d65,686f737431,01020304,00000007"),
            ("udp.checksum.status", GOOD),
            ("ip.dst", "10.0.0.2"),
        ],
    );
}

#[test]
fn an_sfc_label_pair_over_udp_is_read_to_the_tenant_data() {
    assert_read(
        "an_sfc_label_pair_over_udp_is_read_to_the_tenant_data",
        packets::over_mpls_udp(),
        &[
            ("udp.dstport", "6635,50002"),
            ("udp.checksum.status", "1,1"),
            ("mpls.label", "74565,1032192"),
            ("mpls.exp", "0,0"),
            ("mpls.bottom", "0,1"),
            ("mpls.ttl", "1,60"),
            ("eth.dst", "02:00:00:00:01:02,02:00:00:00:02:02"),
            ("ip.dst", "192.0.2.2,10.0.0.2"),
            ("ip.checksum.status", "1,1"),
        ],
    );
}

#[test]
fn tcp_segments_are_one_stream_with_correct_checksums() {
    const SEGMENT_BYTES: u16 = 1_000;
    let bytes = packets::tcp_super_frame(2_500);
    let plan = SuperFrame::parse(&bytes, SegmentKind::Tcp, SEGMENT_BYTES).unwrap();
    let segments: Vec<Vec<u8>> = (0..plan.count())
        .map(|index| {
            let mut into = vec![0xa5; plan.segment_len(0)];
            let length = plan.write_segment(&bytes, index, &mut into);
            into.truncate(length);
            into
        })
        .collect();
    let fields = [
        "tcp.seq_raw",
        "tcp.len",
        "tcp.flags",
        "ip.id",
        "ip.checksum.status",
        "tcp.checksum.status",
    ];
    let test = "tcp_segments_are_one_stream_with_correct_checksums";
    if let Some(rows) = tshark(test, &segments, &fields) {
        let expected = [
            ["4294967040", "1000", "0x0090", "0x1d1d", GOOD, GOOD],
            ["744", "1000", "0x0010", "0x1d1e", GOOD, GOOD],
            ["1744", "500", "0x0018", "0x1d1f", GOOD, GOOD],
        ];
        assert_eq!(rows.len(), expected.len());
        for (read, expected) in rows.iter().flatten().zip(expected.iter().flatten()) {
            assert_eq!(decimal(read), decimal(expected));
        }
    }
}

#[test]
fn an_arp_reply_is_read_as_a_reply() {
    let request = ArpPacket {
        operation: ArpOperation::Request,
        sender_mac: CLIENT,
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: MacAddr::default(),
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    };
    assert_read(
        "an_arp_reply_is_read_as_a_reply",
        emitted(|into| request.reply(SERVER).emit_frame(into)),
        &[
            ("eth.dst", "02:00:00:00:02:01"),
            ("eth.src", "02:00:00:00:02:02"),
            ("arp.opcode", "2"),
            ("arp.src.hw_mac", "02:00:00:00:02:02"),
            ("arp.src.proto_ipv4", "10.0.0.2"),
            ("arp.dst.hw_mac", "02:00:00:00:02:01"),
            ("arp.dst.proto_ipv4", "10.0.0.1"),
        ],
    );
}

#[test]
fn a_neighbour_advertisement_is_read_with_a_correct_checksum() {
    let solicitation = NeighbourSolicitation {
        source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        target: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        source_link_layer: Some(CLIENT),
    };
    assert_read(
        "a_neighbour_advertisement_is_read_with_a_correct_checksum",
        emitted(|into| emit_neighbour_advertisement(&solicitation, CLIENT, SERVER, into)),
        &[
            ("eth.dst", "02:00:00:00:02:01"),
            ("ipv6.src", "2001:db8::2"),
            ("ipv6.dst", "2001:db8::1"),
            ("ipv6.hlim", "255"),
            ("icmpv6.type", "136"),
            ("icmpv6.checksum.status", GOOD),
            ("icmpv6.nd.na.flag.r", "0"),
            ("icmpv6.nd.na.flag.s", "1"),
            ("icmpv6.nd.na.flag.o", "1"),
            ("icmpv6.nd.na.target_address", "2001:db8::2"),
            ("icmpv6.opt.linkaddr", "02:00:00:00:02:02"),
        ],
    );
}
