//! A monitor of Catena's between two interfaces: what its messages tell a collector is what has passed.

use crate::bump::{CLIENT, PINGS, Row, SERVER, end, number, signal};
use crate::house::turn;
use crate::streams::stream;
use catena_wire::ipfix::{EndReason, FlowRecord, Message};
use catena_wire::scalar::IpProtocol;
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

const STREAMED: u16 = 5_202;
const DOMAIN: u32 = 7;
/// Frames of two neighbours that look for each other, and then look again.
const ARP_MAX: u64 = 20;
const QUIET: Duration = Duration::from_millis(500);

/// All that has come: messages, and the records in them.
fn collected(collector: &UdpSocket) -> (u64, Vec<FlowRecord>) {
    collector.set_read_timeout(Some(QUIET)).expect("a timeout");
    let (mut messages, mut records) = (0, Vec::new());
    let mut bytes = [0; 65_535];
    while let Ok(length) = collector.recv(&mut bytes) {
        let message = Message::parse(&bytes[..length]).expect("IPFIX");
        assert_eq!(message.header.domain, DOMAIN);
        assert_eq!(message.header.sequence as usize, records.len(), "a message is missing");
        records.extend(message.sets().flat_map(|set| set.records()));
        messages += 1;
    }
    (messages, records)
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis()
}

#[test]
fn records_of_a_monitor_between_two_interfaces_add_up_to_its_account() {
    let _turn = turn();
    let row = Row::new();
    row.bump.ip("link set lo up");
    let collector = row.bump.inside(|| UdpSocket::bind("127.0.0.1:0")).expect("a socket");
    let to = collector.local_addr().expect("an address").to_string();
    let domain = DOMAIN.to_string();
    let start = now_ms();
    let mut child = row.start(&["monitor", "--ipfix", &to, "--domain", &domain]);
    row.ping(SERVER, PINGS);
    let server = SocketAddr::new(SERVER.parse().expect("an address"), STREAMED);
    let bytes = stream(&row.client, &row.server, server, Duration::from_millis(500));

    signal(&child, Signal::USR1);
    let mut said = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it tells");
    let account: Value = serde_json::from_str(&line).expect("JSON");
    assert!(number(&account, "/monitor/flows/open") >= 2, "{account}");
    child.stdout = Some(said.into_inner());

    let account = end(child);
    println!("{account}");
    let (messages, records) = collected(&collector);
    assert_eq!(account["unaccounted"], 0, "{account}");
    assert_eq!(number(&account, "/messages/sent"), messages, "{account}");
    assert_eq!(number(&account, "/messages/handed_out"), messages, "{account}");
    assert_eq!(number(&account, "/messages/refused"), 0, "{account}");
    assert_eq!(number(&account, "/monitor/flows/open"), 0, "{account}");
    assert_eq!(number(&account, "/monitor/flows/ended"), records.len() as u64, "{account}");
    let sums = records
        .iter()
        .fold((0, 0), |(packets, bytes), record| (packets + record.packets, bytes + record.bytes));
    let counted = (number(&account, "/rules/0/packets"), number(&account, "/rules/0/bytes"));
    assert_eq!(sums, counted, "{account}");
    // All that passed, but for ARP.
    let passed = number(&account, "/sent/in") + number(&account, "/sent/out");
    assert!((sums.0..sums.0 + ARP_MAX).contains(&passed), "{account}");

    // The stream is by far the longest flow, and ended by itself; echoes were open to the end.
    let longest = records.iter().max_by_key(|record| record.bytes).expect("records");
    assert_eq!((longest.flow.destination_port, longest.end), (STREAMED, EndReason::Ended));
    assert_eq!(longest.flow.source.to_string(), CLIENT);
    assert!(longest.bytes > bytes, "{longest:?}");
    assert_eq!(number(&account, "/monitor/top/0/bytes"), longest.bytes, "{account}");
    assert_eq!(number(&account, "/monitor/round_trips/to_asked/0/count"), 1, "{account}");
    let echoes: Vec<_> =
        records.iter().filter(|record| record.flow.protocol == IpProtocol::ICMP).collect();
    assert_eq!(echoes.len(), 2, "{records:?}");
    for echo in echoes {
        assert_eq!((echo.packets, echo.end), (PINGS, EndReason::Forced), "{echo:?}");
        let times = [echo.first_ms, echo.last_ms].map(u128::from);
        assert!(times.iter().all(|time| (start..=now_ms()).contains(time)), "{echo:?}");
    }
}

#[test]
fn a_collector_that_cannot_be_reached_is_said_with_what_to_do() {
    let row = Row::new();
    for (collector, reason) in [("192.0.2.7", "HOST:PORT"), ("192.0.2.7:4739", "ip route get")] {
        let words = ["nf", "run", "monitor", "--in", "near0", "--out", "near1"];
        let words = [&words[..], &["--ipfix", collector]].concat();
        let output = row.bump.attempt(crate::house::CATENA, &words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(collector) && said.contains(reason), "{said}");
    }
}
