//! What collectors are told, read back as they read it.

use super::*;
use catena_protocol::message::PathEndReason;
use catena_wire::int_report::{Report, ReportGroup, ReportMetadata};
use catena_wire::ipfix::{HopRecord, Message, PacketRecord, TELEMETRY_TEMPLATES_BYTES};
use catena_wire::scalar::{FlowCounter, FlowLabel};
use catena_wire::srv6::Inner;
use catena_wire::srv6_int::{
    ArrivalTime, IntEncaps, IntMetadata, IntTag, MapInfo, Visit, end_dt_int, end_t_int,
    mark_incomplete,
};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

const DEVICE: u16 = 9;

/// The header of a packet over so many nodes, of which the first is no router of ours.
fn header(nodes: u16, counter: u32, map: MapInfo) -> Vec<u8> {
    let way: Vec<Ipv6Addr> =
        (1..=nodes).map(|node| Ipv6Addr::new(0x5f00, 0, node, 0xe1, 0, 0, 0, 0)).collect();
    let encapsulation = IntEncaps {
        source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        way: &way,
        traffic_class: 0,
        flow_label: FlowLabel::new(0x1_2345).unwrap(),
        inner: Inner::Ipv4,
        map,
        tag: IntTag { is_mirrored: true, colour: 7, ..IntTag::default() },
        tail: Tail::Tlv,
        key_id: None,
    };
    let mut header = vec![0; encapsulation.len_bytes()];
    encapsulation.emit(0, &mut header).unwrap();
    catena_wire::srv6::end(&mut header).unwrap();
    for node in 2..nodes {
        end_t_int(&mut header, &record(node, counter), Visit::Passing, Tail::Tlv).unwrap();
    }
    end_dt_int(&mut header, &record(DEVICE, counter), Tail::Tlv).unwrap();
    header
}

fn record(device: u16, counter: u32) -> IntMetadata {
    IntMetadata {
        device: Some(device),
        arrival: Some(ArrivalTime::from_ns(0x01_2345_6780)),
        counter: Some(FlowCounter::of(counter.into())),
        ..IntMetadata::default()
    }
}

fn end(flow: u64, header: Vec<u8>) -> PathEnd {
    let reason = PathEndReason::Latency.into();
    PathEnd { path: 3, flow, reason, header, ..PathEnd::default() }
}

/// What a writer writes of these, at this second.
fn written(writer: &mut Writer, headers: &[Vec<u8>], moment: Moment) -> Vec<Vec<u8>> {
    written_behind(writer, headers, moment, 0)
}

/// The same when so many datagrams could not be sent before.
fn written_behind(
    writer: &mut Writer,
    headers: &[Vec<u8>],
    moment: Moment,
    unsent: u64,
) -> Vec<Vec<u8>> {
    let ends: Vec<PathEnd> =
        (0..).zip(headers).map(|(flow, header)| end(flow, header.clone())).collect();
    let names = RandomState::new();
    let all = ends.iter().zip(headers);
    let told: Vec<_> = all.map(|(end, header)| Told::of(end, header, &names).unwrap()).collect();
    let datagrams = writer.write(&told, moment, unsent);
    assert!(datagrams.iter().all(|datagram| datagram.len() <= DATAGRAM_BYTES_MAX));
    datagrams
}

fn moment() -> Moment {
    Moment { now: Instant::now(), seconds: 1_700_000_000 }
}

fn headers(nodes: u16, count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| header(nodes, number, MapInfo::ALL)).collect()
}

#[test]
fn a_collector_of_ipfix_reads_each_packet_and_each_hop_and_misses_none() {
    let headers = headers(4, 20);
    let mut writer = Writer::Ipfix(ipfix::Writer::default());
    let messages = written(&mut writer, &headers, moment());
    assert_eq!(messages[0].len(), TELEMETRY_TEMPLATES_BYTES);
    let mut records = 0;
    let (mut packets, mut hops) = (Vec::<PacketRecord<'_>>::new(), Vec::<HopRecord>::new());
    for message in &messages {
        let message = Message::parse(message).unwrap();
        assert_eq!((message.header.export_seconds, message.header.domain), (1_700_000_000, 1));
        assert_eq!(message.header.sequence as usize, records, "a message is missing");
        packets.extend(message.sets().flat_map(|set| set.packets()));
        hops.extend(message.sets().flat_map(|set| set.hops()));
        records = packets.len() + hops.len();
    }
    for ((number, packet), header) in (0..).zip(&packets).zip(&headers) {
        assert_eq!((packet.packet, packet.path), (number, 3));
        assert_eq!(i32::from(packet.reason), i32::from(PathEndReason::Latency));
        assert_eq!((packet.section, packet.fields.segments_left), (&header[40..], 0));
        assert_eq!(packet.fields.active, Ipv6Addr::new(0x5f00, 0, 4, 0xe1, 0, 0, 0, 0));
    }
    // The first node wrote nothing, and nobody says it did.
    let told: Vec<_> = hops.iter().map(|hop| (hop.packet, hop.place, hop.record)).collect();
    let wanted = (0..20).flat_map(|number| {
        [(1, 2), (2, 3), (3, DEVICE)].map(|(place, device)| (number, place, record(device, number)))
    });
    assert_eq!(told, wanted.collect::<Vec<_>>());
    assert_eq!(packets.len(), 20);
    let flows: BTreeSet<u64> = packets.iter().map(|packet| packet.flow).collect();
    assert!(flows.len() == 20 && !(0..20).any(|flow| flows.contains(&flow)), "{flows:?}");
}

#[test]
fn templates_come_again_for_who_has_missed_them_and_not_for_nothing() {
    let headers = headers(2, 1);
    let mut writer = Writer::Ipfix(ipfix::Writer::default());
    let at = |seconds: u64| {
        let moment = moment();
        Moment { now: moment.now + Duration::from_secs(seconds), ..moment }
    };
    assert!(written(&mut writer, &[], at(0)).is_empty());
    let counts: Vec<usize> = [0, 1, 59, 61, 62]
        .into_iter()
        .map(|seconds| written(&mut writer, &headers, at(seconds)).len())
        .collect();
    assert_eq!(counts, [3, 2, 2, 3, 2]);
    // What could not be sent may have been they.
    let behind =
        [1, 1, 2].map(|unsent| written_behind(&mut writer, &headers, at(63), unsent).len());
    assert_eq!(behind, [3, 2, 3]);
}

#[test]
fn reports_have_the_header_and_what_the_node_at_the_end_has_measured() {
    let headers = headers(4, 20);
    let mut writer = Writer::IntReports(int_reports::Writer::default());
    let groups = written(&mut writer, &headers, moment());
    let mut all = Vec::new();
    for (number, group) in (0..).zip(&groups) {
        let (head, mut rest) = ReportGroup::parse(group).unwrap();
        assert_eq!((head.node, head.sequence.get()), (DEVICE.into(), number));
        while !rest.is_empty() {
            let (report, behind) = Report::parse(rest).unwrap();
            all.push(report);
            rest = behind;
        }
    }
    assert!(groups.len() > 1 && all.len() == headers.len());
    for ((number, report), header) in (0..).zip(&all).zip(&headers) {
        assert_eq!(report.packet, header);
        assert_eq!(report.metadata, ReportMetadata::of(&record(DEVICE, number)));
        assert!(report.is_watched && !report.is_dropped && !report.is_congested);
    }
    // Who does not write its number has none here either.
    let nameless = header(2, 1, MapInfo::ARRIVAL);
    let [group] = &written(&mut writer, &[nameless], moment())[..] else { panic!("one group") };
    let (head, rest) = ReportGroup::parse(group).unwrap();
    assert_eq!((head.node, head.sequence.get() as usize), (0, groups.len()));
    let (report, _) = Report::parse(rest).unwrap();
    assert_eq!(report.metadata.arrival_ns, Some(0x01_2345_6780));
    assert_eq!((report.metadata.counter, report.metadata.latency_ns), (None, None));
    // Where a node could not write, what stands last may be of another.
    let mut doubtful = header(2, 1, MapInfo::ALL);
    mark_incomplete(&mut doubtful);
    let [group] = &written(&mut writer, &[doubtful], moment())[..] else { panic!("one group") };
    let (head, rest) = ReportGroup::parse(group).unwrap();
    let (report, _) = Report::parse(rest).unwrap();
    assert_eq!((head.node, report.metadata), (0, ReportMetadata::default()));
}

#[tokio::test]
async fn headers_go_to_collectors_and_no_further_and_what_became_of_them_is_counted() {
    let collector = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let place = collector.local_addr().unwrap().to_string();
    let exports =
        Exports { ipfix: Some(place.clone()), int_reports: Some("no such host:1".into()) };
    let mut exporter = Exporter::new(&exports);
    let header = header(3, 5, MapInfo::ALL);
    // Of a data plane of before, and of one that is mistaken.
    let cut = header[..60].to_vec();
    let mut ends = [end(1, header), end(2, Vec::new()), end(3, cut)];
    exporter.take(&mut ends);
    assert!(ends.iter().all(|end| end.header.is_empty()));
    let mut heard = [0; 1_500];
    for _ in 0..3 {
        let length = collector.recv(&mut heard).await.unwrap();
        Message::parse(&heard[..length]).unwrap();
    }
    let settled = |all: &[ExportCounters]| all.iter().all(|one| one.sent + one.unsent > 0);
    let told = loop {
        let told = exporter.exported.counters();
        if settled(&told) && told[0].sent == 3 {
            break told;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let [ipfix, reports] = &told[..] else { panic!("two lines") };
    assert_eq!((ipfix.packets, ipfix.unreadable, ipfix.sent, ipfix.unsent), (1, 2, 3, 0));
    assert_eq!((ipfix.collector.as_str(), ipfix.trouble.as_str()), (place.as_str(), ""));
    assert_eq!((reports.packets, reports.sent, reports.unsent), (1, 0, 1));
    assert!(reports.trouble.starts_with("collector 'no such host:1': "), "{}", reports.trouble);
    // Who has no collector keeps nothing.
    let mut exporter = Exporter::new(&Exports::default());
    let mut ends = [end(1, vec![1, 2])];
    exporter.take(&mut ends);
    assert!(ends[0].header.is_empty() && exporter.exported.counters().is_empty());
}
