//! What tshark shows of telemetry with the dissector that we ship, and without it.

use catena_wire::int_report::{Report, ReportGroup, ReportMetadata, ReportedPacket};
use catena_wire::scalar::{EtherType, HardwareId, QueueOccupancy, ReportSequence};
use catena_wire::srv6;
use catena_wire::srv6_int::{ArrivalTime, IntMetadata, Tail, Visit, end_t_int};

use crate::packets::{self, HOST_1, HOST_2, emitted, tunnelled};
use crate::programs::{tshark, tshark_with};
use crate::tshark::decimal;

const DISSECTOR: &str =
    concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../docs/wireshark/srv6_int.lua");
/// Where operators have the reports of these tests go.
const PORT: u16 = 32_766;
const PORT_OPTION: &str = "int_report.port:32766";

/// What a complaint of the dissector is read as.
const COMPLAINT: &str = "!";

macro_rules! golden {
    ($name:literal) => {
        hex(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/", $name, ".hex")))
    };
}

fn hex(text: &str) -> Vec<u8> {
    let lines = text.lines().filter_map(|line| line.split('#').next());
    let digits: Vec<u8> = lines.flat_map(str::bytes).filter(u8::is_ascii_hexdigit).collect();
    let (octets, _) = digits.as_chunks::<2>();
    let octet = |digits: &[u8; 2]| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap();
    octets.iter().map(octet).collect()
}

fn in_ethernet(packet: &[u8]) -> Vec<u8> {
    packets::frame(HOST_2, HOST_1, EtherType::IPV6, packet)
}

/// Asserts that each packet is read as its row of expected readings, with the dissector.
fn assert_shown(test: &str, packets: &[Vec<u8>], fields: &[&str], expected: &[&[&str]]) {
    let options = ["-X", DISSECTOR, "-o", PORT_OPTION];
    let Some(rows) = tshark_with(test, &options, packets, fields) else { return };
    assert_eq!(rows.len(), expected.len());
    for (number, (row, expected)) in rows.iter().zip(expected).enumerate() {
        assert_eq!(expected.len(), fields.len());
        for ((field, read), expected) in fields.iter().zip(row).zip(*expected) {
            // How truth and complaints are written depends on the version.
            let is_complaint = field.ends_with(".unknown") || field.ends_with(".cut");
            let read = match read.as_str() {
                complaint if is_complaint && !complaint.is_empty() => COMPLAINT.to_owned(),
                other => other.replace("True", "1").replace("False", "0"),
            };
            assert_eq!(decimal(&read), decimal(expected), "{field} of packet {number}");
        }
    }
}

/// The fields of the header, as the dissector names them.
const MARKS: [&str; 15] = [
    "srv6_int.version",
    "srv6_int.functions",
    "srv6_int.pending",
    "srv6_int.incomplete",
    "srv6_int.mirrored",
    "srv6_int.colour",
    "srv6_int.tail",
    "srv6_int.map",
    "srv6_int.map.device",
    "srv6_int.map.queue",
    "srv6_int.result.valid",
    "srv6_int.result.function",
    "srv6_int.result.latency_ns",
    "srv6_int.silent",
    "srv6_int.unknown",
];

/// Those of records.
const RECORDS: [&str; 11] = [
    "srv6_int.record.entry",
    "srv6_int.record.valid",
    "srv6_int.record.saturated",
    "srv6_int.record.of_function",
    "srv6_int.record.synchronised",
    "srv6_int.record.device",
    "srv6_int.record.arrival_ns",
    "srv6_int.record.latency_ns",
    "srv6_int.record.queue",
    "srv6_int.record.queue_length",
    "srv6_int.record.counter",
];

fn journey() -> [Vec<u8>; 4] {
    [
        golden!("srv6_int/journey_1_ingress"),
        golden!("srv6_int/journey_2_to_first_function"),
        golden!("srv6_int/journey_3_from_first_function"),
        golden!("srv6_int/journey_4_to_second_function"),
    ]
}

#[test]
fn the_dissector_shows_the_marks_of_the_journey() {
    let packets = journey().map(|packet| in_ethernet(&packet));
    let same = |pending, result: [&'static str; 3]| {
        let [valid, function, latency] = result;
        ["1", "1", pending, "0", "1", "42", "tlv", "31", "1", "1", valid, function, latency, "", ""]
    };
    let expected = [
        same("0", ["0", "", ""]),
        same("1", ["1", "1", "183296"]),
        same("0", ["0", "", ""]),
        same("1", ["1", "2", "7000064"]),
    ];
    let expected = expected.each_ref().map(|row| &row[..]);
    assert_shown("the_dissector_shows_the_marks_of_the_journey", &packets, &MARKS, &expected);
}

#[test]
fn the_dissector_shows_the_records_of_the_journey() {
    let packets = journey().map(|packet| in_ethernet(&packet));
    let none = [""; 11];
    let away = ["2", "27", "0", "1", "1", "2", "4886718336", "", "3", "17", "1001"];
    let back = ["2", "31", "0", "1", "1", "2", "4886718336", "245760", "3", "17", "1001"];
    let both = [
        "2,1",
        "31,27",
        "0,0",
        "1,1",
        "1,1",
        "2,3",
        "4886718336,4887118336",
        "245760",
        "3,0",
        "17,0",
        "1001,990",
    ];
    let expected = [&none[..], &away, &back, &both];
    assert_shown("the_dissector_shows_the_records_of_the_journey", &packets, &RECORDS, &expected);
}

#[test]
fn the_dissector_shows_a_silent_hop_the_papers_tail_and_what_is_no_telemetry() {
    let ingress = || golden!("srv6_int/journey_1_ingress");
    let mut silent = ingress();
    srv6::end(&mut silent).unwrap();
    let record = IntMetadata {
        device: Some(0xffff),
        arrival: Some(ArrivalTime::from_ns(u64::MAX)),
        ..IntMetadata::default()
    };
    end_t_int(&mut silent, &record, Visit::Passing, Tail::Tlv).unwrap();
    let mut paper = ingress();
    paper[40..104].copy_from_slice(&golden!("srv6_int/paper_tail_dr_latency_183us"));
    let (mut version, mut tail, mut plain) = (ingress(), ingress(), ingress());
    version[46] = 0x29;
    tail[96] = 253;
    plain[45] = 0;
    let packets = [silent, paper, version, tail, plain].map(|packet| in_ethernet(&packet));
    let fields = [&MARKS[..1], &MARKS[6..8], &MARKS[10..], &RECORDS[..3], &RECORDS[5..8]].concat();
    let expected: [&[&str]; 5] = [
        &[
            "1",
            "tlv",
            "31",
            "0",
            "",
            "",
            "5f00:0:2:e1::",
            "",
            "1",
            "24",
            "0",
            "65535",
            "1099511627775",
            "",
        ],
        &["1", "paper", "31", "0", "", "", "", "", "", "", "", "", "", ""],
        &["2", "", "", "", "", "", "", COMPLAINT, "", "", "", "", "", ""],
        &["1", "", "", "", "", "", "", COMPLAINT, "", "", "", "", "", ""],
        &[""; 14],
    ];
    let test = "the_dissector_shows_a_silent_hop_the_papers_tail_and_what_is_no_telemetry";
    assert_shown(test, &packets, &fields, &expected);
}

const REPORTS: [&str; 22] = [
    "int_report.version",
    "int_report.hardware",
    "int_report.sequence",
    "int_report.node",
    "int_report.type",
    "int_report.inner_type",
    "int_report.length",
    "int_report.metadata_length",
    "int_report.dropped",
    "int_report.congested",
    "int_report.watched",
    "int_report.intermediate",
    "int_report.metadata_bits",
    "int_report.domain",
    "int_report.domain_bits",
    "int_report.latency_ns",
    "int_report.queue",
    "int_report.queue_occupancy",
    "int_report.arrival_ns",
    "int_report.counter",
    "srv6_int.record.device",
    "int_report.cut",
];

/// Two reports of one group: of a frame that was dropped, and of a packet between nodes.
fn group() -> Vec<u8> {
    let group = ReportGroup {
        hardware: HardwareId::new(63).unwrap(),
        sequence: ReportSequence::new(0x3f_fffe).unwrap(),
        node: 0xfedc_ba98,
    };
    let frame = packets::tenant_frame();
    let packet = packets::tenant_packet();
    let first = Report {
        is_dropped: true,
        is_congested: true,
        is_watched: false,
        is_intermediate: false,
        domain: Report::DOMAIN,
        metadata: ReportMetadata {
            latency_ns: Some(0x7fff_ff80),
            queue: Some((7, QueueOccupancy::new(0xab_cdef).unwrap())),
            arrival_ns: Some(0x1234_5678_9abc_def0),
            counter: Some(0xf_fffe),
        },
        packet_type: ReportedPacket::Ethernet,
        packet: &frame[..frame.len() / 4 * 4],
    };
    let second = Report {
        is_dropped: false,
        is_congested: false,
        is_intermediate: true,
        metadata: ReportMetadata::default(),
        packet_type: ReportedPacket::Ipv4,
        packet: &packet,
        ..first
    };
    assert!(!first.ends_group() && second.ends_group());
    let bytes = |report: &Report<'_>| emitted(|into| report.emit(into));
    [emitted(|into| group.emit(into)), bytes(&first), bytes(&second)].concat()
}

#[test]
fn the_dissector_shows_every_field_of_reports() {
    let mut cut = golden!("int_report/egress");
    cut.truncate(100);
    let packets = [golden!("int_report/egress"), group(), cut].map(|bytes| tunnelled(PORT, &bytes));
    let golden = "2|1|7|4|1|5|36|1|0|0|1|0|0x1000|0x5352|0||1|4095|||2,3,4|";
    let both = "2|63|4194302|4275878552|1,1|3,4|20,255|5,0|1,0|1,0|0,0|0,1|0x3800,0|0x5352,0x5352|0x8000,0|\
        2147483520|7|11259375|1311768467463790320|1048574||";
    let cut = "2|1|7|4|1|5|36|1|0|0|1|0||||||||||!";
    let rows = [golden, both, cut].map(|row| row.split('|').collect::<Vec<_>>());
    let expected = rows.each_ref().map(Vec::as_slice);
    assert_shown("the_dissector_shows_every_field_of_reports", &packets, &REPORTS, &expected);
}

#[test]
fn without_the_dissector_tshark_reads_the_packets_all_the_same() {
    let mut packets = journey().map(|packet| in_ethernet(&packet)).to_vec();
    packets.push(tunnelled(PORT, &golden!("int_report/egress")));
    let fields = [
        "ipv6.routing.segleft",
        "ipv6.routing.srh.tag",
        "ip.dst",
        "udp.dstport",
        "data.len",
        "_ws.malformed",
    ];
    let test = "without_the_dissector_tshark_reads_the_packets_all_the_same";
    let Some(rows) = tshark(test, &packets, &fields) else { return };
    let inside = ["198.51.100.20", "5001", "16", ""];
    let of_journey = [("2", "192a"), ("1", "1d2a"), ("1", "192a"), ("0", "1d2a")];
    for (row, (left, tag)) in rows.iter().zip(of_journey) {
        assert_eq!(
            (row[0].as_str(), row[1].as_str(), &row[2..]),
            (left, tag, &inside.map(str::to_owned)[..])
        );
    }
    assert_eq!(rows[4], ["", "", "192.0.2.2", "32766", "156", ""]);
}

#[test]
fn no_damage_stops_the_dissector() {
    let header = golden!("srv6_int/journey_4_to_second_function");
    let report = group();
    let flipped = |bytes: &[u8], bits: std::ops::Range<usize>| -> Vec<Vec<u8>> {
        let flip = |bit: usize| {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 0x80 >> (bit % 8);
            damaged
        };
        bits.map(flip).collect()
    };
    let mut packets: Vec<_> =
        flipped(&header, 320..832).iter().map(|bytes| in_ethernet(bytes)).collect();
    packets.extend(flipped(&report, 0..320).iter().map(|bytes| tunnelled(PORT, bytes)));
    packets.extend((0..=report.len()).map(|length| tunnelled(PORT, &report[..length])));
    let options = ["-X", DISSECTOR, "-o", PORT_OPTION];
    let fields = ["_ws.lua.error", "srv6_int.version", "int_report.version"];
    let Some(rows) = tshark_with("no_damage_stops_the_dissector", &options, &packets, &fields)
    else {
        return;
    };
    assert_eq!(rows.len(), packets.len());
    assert!(
        rows.iter().all(|row| row[0].is_empty()),
        "{:?}",
        rows.iter().find(|row| !row[0].is_empty())
    );
    let shown = rows.iter().filter(|row| row[1..].iter().any(|field| !field.is_empty())).count();
    assert!(shown > packets.len() / 2, "{shown} of {}", packets.len());
}
