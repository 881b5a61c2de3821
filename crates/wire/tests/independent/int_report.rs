//! Telemetry reports as a reader in Python has them, written from the layout of Telemetry Report 2.0 alone.

use catena_wire::int_report::{Report, ReportGroup, ReportMetadata, ReportedPacket};
use catena_wire::scalar::{HardwareId, QueueOccupancy, ReportSequence};

use crate::packets::{self, emitted};
use crate::programs::scapy;

/// Individual reports, by the sections on group header, individual report header and main contents of INT.
const READER: &str = r"
import struct
# Bit of the metadata, from the highest: the words it has.
WORDS = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 1, 8: 1, 15: 1}
def read(group):
    word, node = struct.unpack('>II', group[:8])
    print('group', word >> 28, word >> 22 & 63, word & 0x3fffff, node)
    rest = group[8:]
    while rest:
        word, = struct.unpack('>I', rest[:4])
        kind, inner, length, metadata_words = word >> 28, word >> 24 & 15, word >> 16 & 255, word >> 8 & 255
        flags = ''.join(name for name, bit in zip('DQFI', (7, 6, 5, 4)) if word >> bit & 1)
        size = len(rest) if length == 255 else 4 + 4 * length
        report, rest = rest[:size], rest[size:]
        assert len(report) == size and kind == 1 and word & 15 == 0
        bits, domain, domain_bits, status = struct.unpack('>HHHH', report[4:12])
        metadata, inside = report[12:12 + 4 * metadata_words], report[12 + 4 * metadata_words:]
        fields = []
        for number in range(16):
            if bits >> (15 - number) & 1:
                taken, metadata = metadata[:4 * WORDS[number]], metadata[4 * WORDS[number]:]
                value = int.from_bytes(taken, 'big')
                fields.append('%d=%s' % (number, '%d/%d' % (value >> 24, value & 0xffffff) if number == 3 else value))
        own = [struct.unpack('>I', metadata[4 * at:4 * at + 4])[0] for at in range(bin(domain_bits).count('1'))]
        assert 4 * len(own) == len(metadata)
        print(inner, flags or '-', length, hex(domain), hex(domain_bits), status, *fields, own, inside.hex())
";

fn group(hardware: u32, sequence: u32, node: u32) -> ReportGroup {
    ReportGroup {
        hardware: HardwareId::new(hardware).unwrap(),
        sequence: ReportSequence::new(sequence).unwrap(),
        node,
    }
}

fn report(packet: &[u8]) -> Report<'_> {
    Report {
        is_dropped: false,
        is_congested: false,
        is_watched: false,
        is_intermediate: false,
        domain: Report::DOMAIN,
        metadata: ReportMetadata::default(),
        packet_type: ReportedPacket::Ipv4,
        packet,
    }
}

fn bytes(group: ReportGroup, reports: &[Report<'_>]) -> Vec<u8> {
    let mut bytes = emitted(|into| group.emit(into));
    bytes.extend(reports.iter().flat_map(|report| emitted(|into| report.emit(into))));
    bytes
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn a_reader_of_the_reports_layout_reads_what_we_meant() {
    let (packet, frame) = (packets::tenant_packet(), packets::tenant_frame());
    let occupancy = |packets: u32| QueueOccupancy::new(packets).unwrap();
    let all = ReportMetadata {
        latency_ns: Some(0x7fff_ff80),
        queue: Some((255, occupancy(QueueOccupancy::MAX))),
        arrival_ns: Some(0x0123_4567_89ab_cdef),
        counter: Some(0xf_ffff),
    };
    let queue = ReportMetadata { queue: Some((1, occupancy(4_095))), ..ReportMetadata::default() };
    let times = ReportMetadata { queue: None, counter: None, ..all };
    let reports = [
        Report { is_dropped: true, is_congested: true, metadata: all, ..report(&packet[..36]) },
        Report { is_watched: true, metadata: queue, ..report(&[]) },
        Report {
            is_intermediate: true,
            metadata: times,
            packet_type: ReportedPacket::Ethernet,
            ..report(&frame)
        },
    ];
    let v6 = Report { domain: 7, packet_type: ReportedPacket::Ipv6, ..report(&[0x60; 8]) };
    let groups = [bytes(group(63, 0x3f_ffff, u32::MAX), &reports), bytes(group(0, 0, 4), &[v6])];
    let script = format!("{READER}\nfor packet in packets:\n    read(packet)\n");
    let test = "a_reader_of_the_reports_layout_reads_what_we_meant";
    let Some(lines) = scapy(test, &script, &groups) else { return };
    let [inside, whole] = [&packet[..36], &frame].map(hex);
    let expected = [
        "group 2 63 4194303 4294967295".to_owned(),
        format!(
            "4 DQ 16 0x5352 0x8000 0 2=2147483520 3=255/16777215 4=81985529216486895 [1048575] {inside}"
        ),
        "4 F 3 0x5352 0x0 0 3=1/4095 [] ".to_owned(),
        // A frame of 53 bytes is no whole number of words.
        format!("3 I 255 0x5352 0x0 0 2=2147483520 4=81985529216486895 [] {whole}"),
        "group 2 0 0 4".to_owned(),
        "5 - 4 0x7 0x0 0 [] 6060606060606060".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn we_read_ours_among_all_metadata_that_the_layout_has() {
    const WRITER: &str = r"
import struct
# Each bit of the metadata that has a meaning, ours among them.
words = {1: [0x00010002], 2: [1000], 3: [7 << 24 | 42], 4: [1, 2], 5: [3, 4], 6: [5, 6], 7: [8], 8: [9], 15: [10]}
bits = sum(1 << (15 - number) for number in words)
metadata = b''.join(struct.pack('>I', word) for number in sorted(words) for word in words[number])
inside = bytes(IP(src='10.0.0.1', dst='10.0.0.2')/UDP(sport=1, dport=2)/b'data')
for domain, domain_bits, own in (0x5352, 0x8000, [1001]), (0x5352, 0xc000, [1001, 5]), (7, 0x8000, [1001]):
    extra = b''.join(struct.pack('>I', word) for word in own)
    count = (len(metadata) + len(extra)) // 4
    main = struct.pack('>HHHH', bits, domain, domain_bits, 0) + metadata + extra + inside
    head = struct.pack('>I', 1 << 28 | 4 << 24 | len(main) // 4 << 16 | count << 8 | 1 << 5)
    print((struct.pack('>II', 2 << 28 | 5 << 22 | 9, 77) + head + main).hex())
print(inside.hex())
";
    let test = "we_read_ours_among_all_metadata_that_the_layout_has";
    let Some(lines) = scapy(test, WRITER, &[]) else { return };
    let octets = |line: &String| -> Vec<u8> {
        let (digits, _) = line.as_bytes().as_chunks::<2>();
        let octet = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.iter().map(octet).collect()
    };
    let [groups @ .., inside] = &lines.iter().map(octets).collect::<Vec<_>>()[..] else {
        panic!("no line")
    };
    let domains = [(Report::DOMAIN, Some(1_001)), (Report::DOMAIN, Some(1_001)), (7, None)];
    assert_eq!(groups.len(), domains.len());
    for (bytes, (domain, counter)) in groups.iter().zip(domains) {
        let (head, rest) = ReportGroup::parse(bytes).unwrap();
        assert_eq!(head, group(5, 9, 77));
        let metadata = ReportMetadata {
            latency_ns: Some(1_000),
            queue: Some((7, QueueOccupancy::new(42).unwrap())),
            arrival_ns: Some(1 << 32 | 2),
            counter,
        };
        let meant = Report { is_watched: true, domain, metadata, ..report(inside) };
        assert_eq!(Report::parse(rest), Ok((meant, &[][..])));
    }
}
