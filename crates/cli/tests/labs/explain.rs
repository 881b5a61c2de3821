//! `catena explain` beside the packets themselves: what it says of path, instances and header bytes
//! is what captures of functions and of the data network show of the same packet.

use crate::capture::{Capture, Frame};
use crate::house::{House, in_shared_house};
use crate::traffic::{Family, address};
use catena_model::explain::{
    ExplainAction, ExplainQuery, ExplainReport, ExplainSubject, WrittenMacs,
};
use serde_json::{Value, json};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PORT: u16 = 5_060;
const SOURCE_PORT: u16 = 40_060;
const HOSTS: [&str; 4] = ["host1", "host2", "host3", "host4"];
/// Outer Ethernet, IPv4 and UDP: where the payload of a tunnel begins.
const PAYLOAD_AT: usize = 42;
/// From the start of an inner frame to its destination port, over IPv4 and IPv6.
const PORT_AT: [usize; 2] = [36, 56];
const VXLAN: u16 = 4_789;
const CHAINS: [u16; 2] = [4_790, 6_635];
/// A tenfold hang guard.
const PATIENCE: Duration = Duration::from_secs(20);

fn document(encapsulation: &str, family: Family) -> Value {
    json!({
        "name": "told", "source": "S", "destination": "D", "encapsulation": encapsulation,
        "match_fields": {
            "ethertype": family.ethertype(), "protocol": "udp", "destination_port": PORT,
        },
        "chain": [
            {"name": "v1", "direction": "in"}, {"name": "v4", "direction": "same"},
            {"name": "v7", "direction": "out"},
        ],
    })
}

fn ends(family: Family) -> (SocketAddr, SocketAddr) {
    let end = |name, port| SocketAddr::new(address(name, family), port);
    (end("S", SOURCE_PORT), end("D", PORT))
}

fn described(family: Family) -> String {
    let (from, to) = ends(family);
    format!("udp {from} > {to}")
}

fn explain(house: &House, family: Family) -> ExplainReport {
    let packet = ExplainSubject::Described(described(family));
    let query = ExplainQuery { from: Some("port:S@customer".into()), packet, why_not: None };
    house.client.explain(&query).unwrap_or_else(|error| panic!("{error}"))
}

/// One datagram from S to D, which must arrive.
fn send(house: &House, family: Family) {
    let (from, to) = ends(family);
    let receiver = house.node("D").inside(|| UdpSocket::bind(to)).expect("a free port");
    receiver.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let sender = house.node("S").inside(|| UdpSocket::bind(from)).expect("a free port");
    sender.send_to(b"told", to).expect("a datagram leaves");
    let mut bytes = [0; 64];
    let (length, _) = receiver.recv_from(&mut bytes).expect("it arrives");
    assert_eq!(&bytes[..length], b"told");
}

/// What a frame of the data network carries, if it is the packet: chains' tunnels carry nothing
/// else here, VXLAN all ordinary traffic.
fn payload(frame: &Frame, family: Family) -> Option<Vec<u8>> {
    let pair =
        |at: usize| Some(u16::from_be_bytes([*frame.bytes.get(at)?, *frame.bytes.get(at + 1)?]));
    let tunnel = pair(PAYLOAD_AT - 6)?;
    let at = PORT_AT[usize::from(family == Family::V6)];
    let is_it =
        CHAINS.contains(&tunnel) || (tunnel == VXLAN && pair(PAYLOAD_AT + 8 + at) == Some(PORT));
    is_it.then(|| frame.bytes[PAYLOAD_AT..].to_vec())
}

fn the_packet_goes_as_it_was_told(encapsulation: &str) {
    in_shared_house(|house| {
        for family in Family::BOTH {
            let chain = house.deploy(document(encapsulation, family));
            // All neighbours are known afterwards.
            send(house, family);
            let told = explain(house, family);
            assert!(told.verdict.contains("delivered by port D@customer of host4"), "{told:?}");
            assert!(told.verdict.contains("3 functions"), "{told:?}");

            let folder = tempfile::tempdir().expect("a folder");
            let filter = "udp and (dst port 4789 or dst port 4790 or dst port 6635)";
            let start = |host| Capture::start(&house.node(host), "data0", filter, folder.path());
            let data = HOSTS.map(start);
            let doors: Vec<(String, Capture)> = doors(house, folder.path());
            send(house, family);
            let frames = data.into_iter().flat_map(Capture::frames);
            let mut seen: Vec<Vec<u8>> =
                frames.filter_map(|frame| payload(&frame, family)).collect();
            let mut visited: Vec<(String, WrittenMacs)> = Vec::new();
            for line in &told.lines {
                match &line.step.action {
                    // Each datagram is seen where it leaves and where it arrives.
                    ExplainAction::Encapsulated { header, .. } => {
                        for _ in 0..2 {
                            let is_it = |payload: &Vec<u8>| payload.starts_with(&header.bytes.0);
                            let place = seen.iter().position(is_it);
                            let place = place.unwrap_or_else(|| {
                                panic!("{family:?}: {} was not seen: {seen:02x?}", line.step.text)
                            });
                            seen.remove(place);
                        }
                    }
                    ExplainAction::Visited { port, macs, .. } => {
                        visited.push((port.clone(), *macs));
                    }
                    _ => {}
                }
            }
            assert!(seen.is_empty(), "{family:?}: nobody told of {seen:02x?}");
            let ports: Vec<&str> = visited.iter().map(|(port, _)| port.as_str()).collect();
            assert_eq!(ports, ["v1@customer", "v4@internal", "v7@internal"], "{told:?}");
            for (door, capture) in doors {
                let frames = capture.frames();
                let written = visited.iter().find(|(port, _)| *port == door);
                assert_eq!(!frames.is_empty(), written.is_some(), "{family:?} {door}");
                let Some((_, WrittenMacs { destination, .. })) = written else { continue };
                assert!(destination.is_some(), "{family:?} {door}: nothing addresses it");
                // What the function gives back by the same port comes behind.
                let first = frames.first().and_then(|frame| frame.bytes.first_chunk());
                assert_eq!(first.copied(), destination.map(|mac| mac.0), "{family:?} {door}");
            }
            house.undeploy(&chain.chain);
        }
    });
}

/// Captures at the ports by which functions take packets in.
fn doors(house: &House, folder: &std::path::Path) -> Vec<(String, Capture)> {
    let ports = [("v1", "customer"), ("v2", "customer"), ("v4", "internal"), ("v7", "internal")];
    let filter = format!("udp dst port {PORT}");
    let door = |(node, network): (&str, &str)| {
        let capture = Capture::start(&house.node(node), network, &filter, folder);
        (format!("{node}@{network}"), capture)
    };
    ports.into_iter().map(door).collect()
}

#[test]
fn explain_and_captures_agree_by_nsh() {
    the_packet_goes_as_it_was_told("nsh");
}

#[test]
fn explain_and_captures_agree_by_mpls() {
    the_packet_goes_as_it_was_told("mpls");
}

/// The lines of an explanation without its head, which says where the packet is from.
fn decisions(said: &str) -> Vec<&str> {
    said.lines().skip(1).collect()
}

#[test]
fn a_described_a_captured_and_a_real_packet_of_one_flow_have_one_explanation() {
    in_shared_house(|house| {
        let chain = house.deploy(document("nsh", Family::V4));
        send(house, Family::V4);
        let from = "port:S@customer";
        let packet = described(Family::V4);
        let told = house.tell(&["explain", "--from", from, &packet]);
        assert!(told.starts_with(&format!("packet {packet} by port S@customer")), "{told}");
        assert!(told.contains(" 1 host1 classify    rule 'told"), "{told}");

        let folder = tempfile::tempdir().expect("a folder");
        let filter = format!("udp dst port {PORT}");
        let capture = Capture::start(&house.node("S"), "customer", &filter, folder.path());
        send(house, Family::V4);
        let file = capture.stop().display().to_string();
        let captured = house.tell(&["explain", "--pcap", &file, "--packet", "1"]);
        assert_eq!(decisions(&captured), decisions(&told));
        assert!(
            house.refuse(&["explain", "--pcap", &file, "--packet", "9"]).contains("no packet 9")
        );

        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    send(house, Family::V4);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let words = ["explain", "--from", from, "--real", "--match", &filter_words()];
            let output = house.catena(&words);
            is_over.store(true, Ordering::Relaxed);
            let real = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(real.lines().next().is_some_and(|head| head.contains("seen ")), "{real}");
            // Each node tells what it saw of the packet itself, and that functions gave it back.
            assert!(!real.contains("(rehearsed)") && !real.contains("(assumed)"), "{real}");
            assert!(real.trim_end().ends_with(" · observed at every step"), "{real}");
            let (seen, foreseen) = (decided(&real), decided(&told));
            assert_eq!(seen[..seen.len() - 1], foreseen[..foreseen.len() - 1]);
        });
        let words =
            ["explain", "--from", from, "--real", "--match", "tcp dst port 1", "--wait", "0"];
        assert!(house.refuse(&words).contains("No such packet"));
        house.undeploy(&chain.chain);
    });
}

/// What nodes decide by themselves. A real function addresses what it gives back, and a rehearsed one does not: at
/// the end of its path the second alone is given a MAC.
fn decided(said: &str) -> Vec<String> {
    let is_decision = |line: &&str| !line.contains(" assume ") && !line.contains(" finish ");
    let lines = decisions(said).into_iter().filter(is_decision);
    let unaddressed = lines.map(|line| match line.split_once(", addressed to ") {
        Some((before, written)) if before.contains(" encapsulate VXLAN ") => {
            let (_, behind) = written.split_once(' ').expect("a MAC and what is behind it");
            format!("{before} {behind}")
        }
        _ => line.to_owned(),
    });
    unaddressed.collect()
}

fn filter_words() -> String {
    format!("udp and src 10.10.0.10 and dst port {PORT}")
}

#[test]
fn explain_says_why_a_chain_does_not_take_a_packet_and_what_it_cannot_answer() {
    in_shared_house(|house| {
        let chain = house.deploy(document("mpls", Family::V4));
        let from = ["explain", "--from", "port:S@customer"];
        let ask = |packet: &str| {
            house.tell(&[&from[..], &[packet, "--why-not", "chain", "told"]].concat())
        };
        let takes = ask(&described(Family::V4));
        assert!(takes.contains("chain 'told' takes it"), "{takes}");
        let tcp = ask("tcp 10.10.0.10:1 > 10.10.0.11:5060");
        assert!(tcp.contains("chain 'told' does not take it"), "{tcp}");
        assert!(tcp.contains("it wants UDP, the packet is TCP"), "{tcp}");
        let other = ["explain", "--from", "port:ext@customer", "udp 10.10.0.1:1 > 10.10.0.11:5060"];
        let other = house.tell(&[&other[..], &["--why-not", "told"]].concat());
        assert!(other.contains("it wants port S@customer"), "{other}");
        let back = ["explain", "--from", "port:D@customer", "udp 10.10.0.11:1 > 10.10.0.10:5060"];
        let back = house.tell(&[&back[..], &["--why-not", "told"]].concat());
        assert!(back.contains("it stands on node host1, where its port S@customer is"), "{back}");

        let json = house.tell(&[&from[..], &[&described(Family::V4), "-o", "json"]].concat());
        let json: ExplainReport = serde_json::from_str(&json).expect("a report");
        assert!(json.lines.iter().any(|line| line.step.action.verb() == "encapsulate"));

        let nobody =
            house.refuse(&["explain", "--from", "port:nobody", "icmp 10.10.0.10 > 10.10.0.11"]);
        assert!(nobody.contains("There is no port 'nobody'"), "{nobody}");
        let broken = house.refuse(&[&from[..], &["tcp 10.10.0.10 > 10.10.0.11"]].concat());
        assert!(broken.contains("no address with a port"), "{broken}");
        let stranger = house.refuse(&[&from[..], &["icmp 10.10.0.10 > 10.10.0.99"]].concat());
        assert!(stranger.contains("Nobody in network 'customer'"), "{stranger}");
        house.undeploy(&chain.chain);
    });
}

/// A function that takes packets and gives none back, as `tc` in its namespace does to it.
#[test]
fn a_real_packet_is_told_as_far_as_it_was_seen_and_counters_speak_against_the_rest() {
    in_shared_house(|house| {
        let chain = house.deploy(document("nsh", Family::V4));
        send(house, Family::V4);
        let v4 = house.node("v4");
        v4.run("sysctl", &["-qw", "net.ipv4.ip_forward=0"]);
        let (from, to) = ends(Family::V4);
        let sender = house.node("S").inside(|| UdpSocket::bind(from)).expect("a free port");
        let is_over = AtomicBool::new(false);
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    sender.send_to(b"told", to).expect("a datagram leaves");
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let from = "port:S@customer";
            let output =
                house.catena(&["explain", "--from", from, "--real", "--match", &filter_words()]);
            is_over.store(true, Ordering::Relaxed);
            output
        });
        v4.run("sysctl", &["-qw", "net.ipv4.ip_forward=1"]);
        let real = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = |words: &str| {
            let found = real.lines().find(|line| line.contains(words));
            found.unwrap_or_else(|| panic!("no '{words}' in {real}"))
        };
        assert!(!line("'v1' gave it back by port").contains("(rehearsed)"), "{real}");
        assert!(!line("'v4' gets the bare packet").contains("(rehearsed)"), "{real}");
        assert!(
            line("'v4' gives it back unchanged").ends_with("(assumed)   (rehearsed)"),
            "{real}"
        );
        assert!(line("'v7' gets the bare packet").ends_with("(rehearsed)"), "{real}");
        assert!(line("verdict ").contains("observed as far as line "), "{real}");
        let contradiction = line("counters contradict line ");
        assert!(contradiction.contains("'v7' at host3 has had nothing of chain 'told'"), "{real}");
        house.undeploy(&chain.chain);
    });
}
