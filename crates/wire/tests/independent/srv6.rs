//! Segment routing, with telemetry and without, as tshark, scapy and Python's HMAC read it, and as scapy writes it.

use std::net::Ipv6Addr;

use catena_wire::icmp::error_message::{ErrorMessage, FRAME_BYTES_MAX, Said, emit_about_v6};
use catena_wire::scalar::{EtherType, FlowLabel, IpProtocol};
use catena_wire::srv6::{
    self, Encaps, HmacKey, Inner, SegmentFlags, Srv6View, Tlv, TlvType, container, decapsulation,
};
use catena_wire::srv6_int::{
    ArrivalTime, DetectionResult, FunctionLatency, Hop, IntEncaps, IntMetadata, IntTag, IntView,
    MapInfo, Tail, Visit, end_dt_int, end_t_int, end_t_int_return,
};

use crate::packets::{self, HOST_1, HOST_2, emitted};
use crate::programs::{scapy, tshark};

const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 1, 0, 0, 0, 0, 1);
const KEY_ID: u32 = 0x0102_0304;
const SECRET: &[u8; 16] = b"a secret of ours";

fn segment(node: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x5f00, 0, node, 0xe1, 0, 7, node, 0)
}

fn way() -> [Ipv6Addr; 3] {
    [2, 3, 4].map(segment)
}

fn encapsulation(way: &[Ipv6Addr]) -> Encaps<'_> {
    Encaps {
        source: SOURCE,
        way,
        traffic_class: 0xb8,
        flow_label: FlowLabel::new(0x1_2345).unwrap(),
        hop_limit: Encaps::HOP_LIMIT,
        inner: Inner::Ipv4,
        is_reduced: false,
        flags: SegmentFlags::default(),
        tag: 0,
        tlvs: &[],
        key_id: None,
    }
}

/// An IPv6 packet of these headers around what a tenant sends.
fn around(encapsulation: &Encaps<'_>) -> Vec<u8> {
    let inside = match encapsulation.inner {
        Inner::Ethernet => packets::tenant_frame(),
        _ => packets::tenant_packet(),
    };
    [emitted(|into| encapsulation.emit(inside.len(), into)), inside].concat()
}

fn with_telemetry(way: &[Ipv6Addr], key_id: Option<u32>) -> Vec<u8> {
    let inside = packets::tenant_packet();
    let encapsulation = IntEncaps {
        source: SOURCE,
        way,
        traffic_class: 0,
        flow_label: FlowLabel::new(0x1_2345).unwrap(),
        inner: Inner::Ipv4,
        map: MapInfo::ALL,
        tag: IntTag { is_for_functions: true, colour: 7, ..IntTag::default() },
        tail: Tail::Tlv,
        key_id,
    };
    [emitted(|into| encapsulation.emit(inside.len(), into)), inside].concat()
}

fn record(device: u16) -> IntMetadata {
    IntMetadata {
        device: Some(device),
        arrival: Some(ArrivalTime::from_ns(0x01_2345_6789)),
        is_synchronised: true,
        ..IntMetadata::default()
    }
}

/// A packet with telemetry on its way into a function, on its way back, and at its end.
fn journey() -> [Vec<u8>; 3] {
    let mut packet = with_telemetry(&way(), None);
    let visit = Visit::Function(DetectionResult::read(0x8100_0598));
    end_t_int(&mut packet, &record(2), visit, Tail::Tlv).unwrap();
    let into_function = packet.clone();
    let now = ArrivalTime::from_ns(0x01_2345_6789 + 128_000);
    end_t_int_return(&mut packet, 2, now, Tail::Tlv).unwrap();
    let back = packet.clone();
    end_t_int(&mut packet, &record(3), Visit::Passing, Tail::Tlv).unwrap();
    end_dt_int(&mut packet, &record(4), Tail::Tlv).unwrap();
    [into_function, back, packet]
}

fn signed(way: &[Ipv6Addr]) -> Vec<u8> {
    let mut packet = with_telemetry(way, Some(KEY_ID));
    srv6::sign(&mut packet, &HmacKey::new(SECRET).unwrap()).unwrap();
    packet
}

fn in_ethernet(packet: &[u8]) -> Vec<u8> {
    packets::frame(HOST_2, HOST_1, EtherType::IPV6, packet)
}

#[test]
fn tshark_reads_segment_routing_to_the_packet_behind_it() {
    let way = way();
    let [into_function, back, at_the_end] = journey();
    let mut stepped = around(&encapsulation(&way));
    srv6::end(&mut stepped).unwrap();
    let mut popped = around(&encapsulation(&way[1..]));
    srv6::end(&mut popped).unwrap();
    let bytes = srv6::pop(&mut popped).unwrap();
    let compressed = [container([0xfc, 0, 0, 1], &[0x11, 0x22]).unwrap(), segment(4)];
    let mut shifted = around(&encapsulation(&compressed));
    srv6::next_csid(&mut shifted).unwrap();
    let (is_reduced, inner) = (true, Inner::Ethernet);
    let written = [
        around(&encapsulation(&way)),
        stepped,
        around(&Encaps { is_reduced, ..encapsulation(&way) }),
        around(&Encaps { inner, ..encapsulation(&way) }),
        popped.split_off(bytes),
        shifted,
        into_function,
        back,
        at_the_end,
        signed(&way),
    ];
    let fields = [
        "ipv6.dst",
        "ipv6.hlim",
        "ipv6.routing.type",
        "ipv6.routing.segleft",
        "ipv6.routing.srh.last_entry",
        "ipv6.routing.srh.flags",
        "ipv6.routing.srh.tag",
        "ipv6.routing.srh.addr",
        "ipv6.routing.undecoded",
        "ip.dst",
        "_ws.malformed",
    ];
    let frames: Vec<Vec<u8>> = written.iter().map(|packet| in_ethernet(packet)).collect();
    let test = "tshark_reads_segment_routing_to_the_packet_behind_it";
    let Some(rows) = tshark(test, &frames, &fields) else { return };
    let segments: [String; 3] = way.map(|segment| segment.to_string());
    let [first, second, last] = segments.each_ref().map(String::as_str);
    let list = format!("{last},{second},{first}");
    let reduced = format!("{last},{second}");
    let compressed = format!("{last},fc00:1:11:22::");
    let measured = "1e30:2:123:4567:8900:3e8::";
    let pending = format!("{last},{second},1c30:2:123:4567:8900::");
    let returned = format!("{last},{second},{measured}");
    let whole = format!("1c10:4:123:4567:8900::,1c10:3:123:4567:8900::,{measured}");
    let expected = [
        [first, "64", "4", "2", "2", "0x00", "0000", &list],
        [second, "63", "4", "1", "2", "0x00", "0000", &list],
        [first, "64", "4", "2", "1", "0x00", "0000", &reduced],
        [first, "64", "4", "2", "2", "0x00", "0000", &list],
        [last, "63", "", "", "", "", "", ""],
        ["fc00:1:22::", "63", "4", "1", "1", "0x00", "0000", &compressed],
        [second, "63", "4", "1", "2", "0x01", "1c07", &pending],
        [second, "62", "4", "1", "2", "0x01", "1807", &returned],
        [last, "61", "4", "0", "2", "0x01", "1807", &whole],
        [first, "64", "4", "2", "2", "0x09", "1807", &list],
    ];
    assert_eq!(rows.len(), expected.len());
    for (read, expected) in rows.iter().zip(expected) {
        assert_eq!(read[..8], expected);
        assert_eq!(read[8..], ["", "10.0.0.2", ""]);
    }
}

/// Of the headers that a message quotes, tshark tells the fields too, behind those of its own.
fn first_of(fields: &str) -> &str {
    fields.split(',').next().unwrap_or_default()
}

#[test]
fn tshark_reads_what_the_sender_of_a_malformed_header_is_told() {
    let mut packet = around(&encapsulation(&way()));
    packet[43] = 9;
    let (code, pointer) = srv6::end(&mut packet).unwrap_err().parameter_problem().unwrap();
    let problem = Said::parameter_problem_v6(code, pointer);
    let frame = in_ethernet(&packet);
    let message = ErrorMessage::judge(&frame).unwrap();
    let mut into = [0xa5; FRAME_BYTES_MAX];
    let length = message.emit(problem, (HOST_2, HOST_1), &mut into).unwrap();
    let mut messages = vec![into[..length].to_vec()];
    // The same about the packet alone, from an address of whoever says it.
    let from = "2001:db8::9".parse().unwrap();
    for said in [problem, Said::parameter_problem_v6(4, 96), Said::time_exceeded_v6()] {
        let length = emit_about_v6(&packet, from, said, &mut into).unwrap();
        messages.push(in_ethernet(&into[..length]));
    }
    let fields =
        ["icmpv6.type", "icmpv6.code", "icmpv6.pointer", "icmpv6.checksum.status", "ipv6.src"];
    let test = "tshark_reads_what_the_sender_of_a_malformed_header_is_told";
    let Some(rows) = tshark(test, &messages, &fields) else { return };
    let read: Vec<Vec<&str>> =
        rows.iter().map(|row| row.iter().map(|field| first_of(field)).collect()).collect();
    let from = "2001:db8::9";
    assert_eq!(read[0][..4], ["4", "0", "43", "1"]);
    assert_eq!(read[1], ["4", "0", "43", "1", from]);
    assert_eq!(read[2], ["4", "4", "96", "1", from]);
    assert_eq!(read[3], ["3", "0", "", "1", from]);
}

#[test]
fn scapy_reads_segment_routing_and_writes_the_same_bytes() {
    // Scapy takes the length of an HMAC for 48 more than RFC 8754 has, so signed headers are left to Python's HMAC.
    const SCRIPT: &str = r"
for packet in packets:
    ours = IPv6(packet)
    header = ours[IPv6ExtHdrSegmentRouting]
    tlvs = [(tlv.type, bytes(tlv).hex()) for tlv in header.tlv_objects]
    print(ours.src, ours.dst, ours.plen, header.nh, header.segleft, header.lastentry, header.tag, header.oam, tlvs)
    print(*header.addresses, header.payload.name)
    ours.delfieldval('plen')
    for field in ('len', 'lastentry') if header.segleft == header.lastentry + 1 else ('len', 'lastentry', 'segleft'):
        header.delfieldval(field)
    print(bytes(ours) == packet)
";
    let way = way();
    let tlvs = [Tlv { kind: TlvType(253), value: &[1, 2, 3] }];
    let (flags, tag, is_reduced) = (SegmentFlags::OAM, 0xabcd, true);
    let written = [
        around(&encapsulation(&way)),
        around(&Encaps { is_reduced, ..encapsulation(&way) }),
        around(&Encaps { flags, tag, tlvs: &tlvs, ..encapsulation(&way) }),
        with_telemetry(&way, None),
    ];
    let test = "scapy_reads_segment_routing_and_writes_the_same_bytes";
    let Some(lines) = scapy(test, SCRIPT, &written) else { return };
    let segments: [String; 3] = way.map(|segment| segment.to_string());
    let [first, second, last] = segments.each_ref().map(String::as_str);
    let list = format!("{last} {second} {first} IP");
    let reduced = format!("{last} {second} IP");
    let read = |fields: &str| format!("{SOURCE} {first} {fields}");
    let expected = [
        (read("95 4 2 2 0 0 []"), &list),
        (read("79 4 2 1 0 0 []"), &reduced),
        (read("103 4 2 2 43981 1 [(253, 'fd03010203'), (4, '040100')]"), &list),
        (read("103 4 2 2 6151 0 [(252, 'fc06001f00000000')]"), &list),
    ];
    let (rows, rest) = lines.as_chunks::<3>();
    assert_eq!((rows.len(), rest.len()), (expected.len(), 0));
    for ([fields, addresses, is_same], (expected, list)) in rows.iter().zip(expected) {
        assert_eq!((fields, addresses, is_same.as_str()), (&expected, list, "True"));
    }
}

#[test]
fn we_read_the_segment_routing_that_scapy_writes() {
    const SCRIPT: &str = r"
inside = IP(src='10.0.0.1', dst='10.0.0.2')/UDP(sport=50001, dport=50002)/b'tenant data'
way = ['5f00:0:2:e1:0:7:2:0', '5f00:0:3:e1:0:7:3:0', '5f00:0:4:e1:0:7:4:0']
unknown = IPv6ExtHdrSegmentRoutingTLV(type=253, len=3, value=b'abc')
telemetry = IPv6ExtHdrSegmentRoutingTLV(type=252, len=6, value=bytes.fromhex('001f81000598'))
for tlvs, tag, left in ([], 0, 2), ([unknown], 0xabcd, 1), ([telemetry], 0x1907, 2):
    outer = IPv6(src='fd00:0:1::1', dst=way[2 - left], hlim=64)
    header = IPv6ExtHdrSegmentRouting(addresses=way[::-1], segleft=left, tag=tag, tlv_objects=tlvs)
    packet = bytearray(bytes(outer/header/inside))
    packet[45] = 1 if tlvs == [telemetry] else 0
    print(packet.hex())
print(bytes(inside).hex())
";
    let test = "we_read_the_segment_routing_that_scapy_writes";
    let Some(lines) = scapy(test, SCRIPT, &[]) else { return };
    let octets = |line: &String| -> Vec<u8> {
        let (digits, _) = line.as_bytes().as_chunks::<2>();
        let octet = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.iter().map(octet).collect()
    };
    let [plain, unknown, telemetry, inside] = &lines.iter().map(octets).collect::<Vec<_>>()[..]
    else {
        panic!("four packets, not {}", lines.len());
    };
    for (packet, tag, left, tlvs) in
        [(plain, 0, 2, 0), (unknown, 0xabcd, 1, 1), (telemetry, 0x1907, 2, 1)]
    {
        let view = Srv6View::parse(packet).unwrap();
        let routing = view.routing();
        assert!(routing.way().eq(way()));
        assert_eq!(
            (routing.tag(), routing.segments_left(), routing.tlvs().count()),
            (tag, left, tlvs)
        );
        assert_eq!((routing.next(), view.payload()), (IpProtocol::IPV4, &inside[..]));
        let mut walked = packet.clone();
        for next in &way()[usize::from(3 - left)..] {
            assert_eq!(srv6::end(&mut walked), Ok(*next));
        }
        assert_eq!(walked[decapsulation(&walked).unwrap().range], inside[..]);
    }
    let view = IntView::parse(telemetry, Tail::Tlv).unwrap();
    assert_eq!((view.map(), view.result()), (MapInfo::ALL, DetectionResult::read(0x8100_0598)));
    assert!(view.tag().is_mirrored);
    assert!(view.hops().eq(way().map(Hop::Ahead)));
}

#[test]
fn pythons_hmac_signs_what_we_sign() {
    const SCRIPT: &str = r"
import hashlib, hmac
for packet in packets:
    ours = IPv6(packet)
    header = packet[40:48 + 8 * packet[41]]
    count = header[4] + 1
    entries, tlv = header[8:8 + 16 * count], header[-40:]
    text = socket.inet_pton(socket.AF_INET6, ours.src) + header[4:6] + tlv[4:8] + entries
    digest = hmac.new(b'a secret of ours', text, hashlib.sha256).digest()
    print(tlv[:2].hex(), tlv[2] >> 7, tlv[4:8].hex(), digest == tlv[8:])
";
    let way = way();
    let key = HmacKey::new(SECRET).unwrap();
    let mut again = signed(&way);
    end_t_int(&mut again, &record(2), Visit::Passing, Tail::Tlv).unwrap();
    srv6::sign(&mut again, &key).unwrap();
    let reduced = Encaps { is_reduced: true, key_id: Some(KEY_ID), ..encapsulation(&way) };
    let mut reduced = around(&reduced);
    srv6::sign(&mut reduced, &key).unwrap();
    let long: Vec<Ipv6Addr> = (1..=20).map(segment).collect();
    let written = [signed(&way), again, signed(&long), reduced];
    let Some(lines) = scapy("pythons_hmac_signs_what_we_sign", SCRIPT, &written) else { return };
    let expected = |is_reduced: u8| format!("0526 {is_reduced} 01020304 True");
    assert_eq!(lines, [0, 0, 0, 1].map(expected));
}

#[test]
fn scapy_takes_records_apart_as_they_were_written() {
    const SCRIPT: &str = r"
class Record(Packet):
    fields_desc = [BitField('magic', 0, 4), BitField('valid', 0, 5), BitField('O', 0, 1), BitField('F', 0, 1),
                   BitField('T', 0, 1), BitField('queue', 0, 4), BitField('device', 0, 16),
                   BitField('arrival', 0, 40), BitField('latency', 0, 24), BitField('length', 0, 12),
                   BitField('counter', 0, 20)]
for packet in packets:
    for entry in range(packet[44], packet[43], -1):
        record = Record(packet[48 + 16 * entry:64 + 16 * entry])
        print(*[record.getfieldval(field.name) for field in Record.fields_desc])
";
    let [into_function, back, at_the_end] = journey();
    let written = [into_function, back.clone(), at_the_end];
    let test = "scapy_takes_records_apart_as_they_were_written";
    let Some(lines) = scapy(test, SCRIPT, &written) else { return };
    let arrival = 0x01_2345_6789_u64;
    let pending = format!("1 24 0 1 1 0 2 {arrival} 0 0 0");
    let measured = format!("1 28 0 1 1 0 2 {arrival} 1000 0 0");
    let passed = format!("1 24 0 0 1 0 3 {arrival} 0 0 0");
    assert_eq!(lines, [pending, measured.clone(), measured, passed]);
    let view = IntView::parse(&back, Tail::Tlv).unwrap();
    let Some(Hop::Recorded(record)) = view.hops().next() else { panic!("no record") };
    assert_eq!(record.latency.map(FunctionLatency::ns), Some(128_000));
}
