//! What collectors of others are told of packets with telemetry: as many packets as the controller hears of, with the
//! same header in both formats, and what cannot be told is counted.

use crate::account;
use crate::command_line::metrics;
use crate::deaths::document;
use crate::house::{House, in_own_house_with};
use crate::patience::wait_for;
use crate::traffic::{Family, Receiver, Sender, address};
use catena_model::export::ExportCounters;
use catena_wire::int_report::{Report, ReportGroup, ReportMetadata};
use catena_wire::ipfix::Message;
use catena_wire::srv6_int::{Hop, IntView, Tail};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const PORT: u16 = 5_032;
const PACKETS: u32 = 300;
/// At each host, where nobody but the test listens.
const COLLECTORS: [&str; 4] =
    ["--ipfix-collector", "127.0.0.1:4739", "--int-collector", "127.0.0.1:4740"];

fn exports(house: &House) -> BTreeMap<String, Vec<ExportCounters>> {
    let nodes = account::counters(house).into_iter();
    nodes.map(|node| (node.node.to_string(), node.exports)).collect()
}

/// All datagrams that have come.
fn came(collector: &UdpSocket) -> Vec<Vec<u8>> {
    collector.set_nonblocking(true).expect("a socket");
    let mut datagrams = Vec::new();
    let mut bytes = [0; 2_000];
    while let Ok(length) = collector.recv(&mut bytes) {
        datagrams.push(bytes[..length].to_vec());
    }
    datagrams
}

/// The headers that a collector of IPFIX is told, which must have missed none.
fn by_ipfix(datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut packets, mut hops, mut records) = (Vec::new(), BTreeMap::<u32, u64>::new(), 0);
    for message in datagrams {
        let message = Message::parse(message).expect("it is IPFIX");
        assert_eq!(message.header.sequence, records, "a message is missing");
        for set in message.sets() {
            let told: Vec<_> = set.packets().collect();
            records += told.len() as u32;
            for packet in &told {
                assert_eq!(packet.packet as usize, packets.len());
                packets.push(packet.section.to_vec());
            }
            for hop in set.hops() {
                records += 1;
                *hops.entry(hop.packet).or_default() += 1;
            }
        }
    }
    assert!(hops.len() == packets.len() && hops.values().all(|hops| *hops == 2), "{hops:?}");
    packets
}

/// The headers that a collector of telemetry reports is told, of which each node at the end says what it wrote itself.
fn by_reports(datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut headers = Vec::new();
    for (number, group) in datagrams.iter().enumerate() {
        let (head, mut rest) = ReportGroup::parse(group).expect("it is a group of reports");
        assert_eq!(head.sequence.get() as usize, number, "a group is missing");
        while !rest.is_empty() {
            let (report, behind) = Report::parse(rest).expect("it is a report");
            let view = IntView::parse(report.packet, Tail::Tlv).expect("it has records");
            let Some(Hop::Recorded(own)) = view.hops().last() else { panic!("{view:?}") };
            assert_eq!(own.device.map(u32::from), Some(head.node));
            assert_eq!(report.metadata, ReportMetadata::of(&own));
            headers.push(report.packet[40..].to_vec());
            rest = behind;
        }
    }
    headers
}

#[test]
fn collectors_are_told_of_each_packet_that_the_controller_hears_of() {
    in_own_house_with("pair6.yaml", &COLLECTORS, |house| {
        let end = house.node("host2");
        let bind = |place: &str| end.inside(|| UdpSocket::bind(place)).expect("a socket");
        let [ipfix, reports] = [COLLECTORS[1], COLLECTORS[3]].map(bind);
        let mut chain = document("told", PORT, &["v1", "v2"]);
        chain["encapsulation"] = json!("srv6");
        chain["telemetry"] = json!({"mirror": 1});
        let chain = house.deploy(chain);
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let receiver = Receiver::new(&house.node("D"), to);
        Sender::new(&house.node("S"), to).every(Duration::from_millis(1)).send_many(PACKETS);
        assert_eq!(receiver.stop(PACKETS).len(), PACKETS as usize);

        let packets = u64::from(PACKETS);
        wait_for("all packets to be told of", || {
            let told = exports(house).remove("host2").unwrap_or_default();
            let is_told = |one: &ExportCounters| one.packets == packets && one.sent > 0;
            let is_told = told.len() == 2 && told.iter().all(is_told);
            if is_told { Ok(()) } else { Err(format!("{told:?}")) }
        });
        let (by_ipfix, by_reports) = (by_ipfix(&came(&ipfix)), by_reports(&came(&reports)));
        assert_eq!(by_ipfix.len(), PACKETS as usize);
        assert_eq!(by_ipfix, by_reports, "both are told the same");
        let distinct: BTreeSet<_> = by_ipfix.iter().collect();
        assert_eq!(distinct.len(), PACKETS as usize, "each packet has a number of its own");
        let heard = metric(house, "catena_telemetry_reports_total{node=\"host2\"}");
        assert_eq!(heard, packets, "the controller hears of as many");
        let all = exports(house);
        assert!(all["host1"].iter().all(|one| one.packets == 0 && one.sent == 0), "{all:?}");
        for told in &all["host2"] {
            assert_eq!((told.unsent, told.unreadable, told.trouble.as_str()), (0, 0, ""));
            let told_of = format!("told of {PACKETS} packets in {} datagrams", told.sent);
            let shown = house.tell(&["node", "show", "host2"]);
            assert!(shown.contains(&format!("to {}: {told_of}", told.collector)), "{shown}");
        }
        account::assert_holds(house);
        house.undeploy(&chain.chain);
    });
}

/// A metric, of those that a scrape has.
fn metric(house: &House, line: &str) -> u64 {
    let text = metrics(house);
    let value = text.lines().find_map(|told| told.strip_prefix(line)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{line} in {text}"))
}
