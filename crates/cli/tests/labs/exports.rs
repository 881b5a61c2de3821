//! What collectors of others are told of packets with telemetry: as many packets as the controller hears of, with the
//! same header in both formats, and what cannot be told is counted.

use crate::account;
use crate::command_line::metrics;
use crate::deaths::document;
use crate::house::{House, in_own_house_with};
use crate::patience::wait_for;
use crate::traffic::{Family, address, roomy_socket, send_and_count};
use catena_model::export::ExportCounters;
use catena_wire::int_report::{Report, ReportGroup, ReportMetadata};
use catena_wire::ipfix::Message;
use catena_wire::srv6_int::{Hop, IntView, Tail};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};

const PORT: u16 = 5_032;
const PACKETS: u32 = 300;
/// At each host, where nobody but the test listens.
const COLLECTORS: [&str; 4] =
    ["--ipfix-collector", "127.0.0.1:4739", "--int-collector", "127.0.0.1:4740"];

fn exports(house: &House) -> BTreeMap<String, Vec<ExportCounters>> {
    let nodes = account::counters(house).into_iter();
    nodes.map(|node| (node.node.to_string(), node.exports)).collect()
}

/// Takes all datagrams that have come since.
fn take(collector: &UdpSocket, datagrams: &mut Vec<Vec<u8>>) {
    collector.set_nonblocking(true).expect("a socket");
    let mut bytes = [0; 2_000];
    while let Ok(length) = collector.recv(&mut bytes) {
        datagrams.push(bytes[..length].to_vec());
    }
}

/// The headers that a collector of IPFIX is told, which must have missed none, and how many hops of each.
fn by_ipfix(datagrams: &[Vec<u8>]) -> (Vec<Vec<u8>>, BTreeMap<u32, u64>) {
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
    (packets, hops)
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
        let [ipfix, reports] =
            [COLLECTORS[1], COLLECTORS[3]].map(|place| roomy_socket(&end, place));
        let mut chain = document("told", PORT, &["v1", "v2"]);
        chain["encapsulation"] = json!("srv6");
        chain["telemetry"] = json!({"mirror": 1});
        let chain = house.deploy(chain);
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        send_and_count(&house.node("S"), &house.node("D"), to, PACKETS);

        let packets = u64::from(PACKETS);
        let (mut messages, mut groups) = (Vec::new(), Vec::new());
        // A datagram that its node has written may not have left it yet.
        let (by_ipfix, hops, by_reports) = wait_for("all packets to be told of", || {
            take(&ipfix, &mut messages);
            take(&reports, &mut groups);
            let (by_ipfix, hops) = by_ipfix(&messages);
            let by_reports = by_reports(&groups);
            let told = exports(house).remove("host2").unwrap_or_default();
            let came = [&messages, &groups].map(|datagrams| (packets, datagrams.len() as u64));
            let is_counted = told.iter().map(|one| (one.packets, one.sent)).eq(came);
            let heard = (by_ipfix.len(), hops.values().sum::<u64>(), by_reports.len());
            if is_counted && heard == (PACKETS as usize, 2 * packets, PACKETS as usize) {
                return Ok((by_ipfix, hops, by_reports));
            }
            Err(format!("{heard:?} of {told:?}"))
        });
        assert!(hops.len() == PACKETS as usize && hops.values().all(|hops| *hops == 2), "{hops:?}");
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
