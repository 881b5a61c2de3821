//! Every packet visits exactly its functions, in order, once: proved from captures at all
//! interfaces by a script that links nothing of ours, and by every counter on the way.

use crate::account::{self, ChainTotal};
use crate::capture::Captures;
use crate::house::{House, in_shared_house};
use crate::patience::is_full;
use crate::traffic::{Family, Receiver, Sender, address};
use serde_json::{Value, json};
use std::net::SocketAddr;

const PORT: u16 = 5_001;

fn document(encapsulation: &str, family: Family) -> Value {
    json!({
        "name": "walk", "source": "S", "destination": "D", "encapsulation": encapsulation,
        "match_fields": {
            "ethertype": family.ethertype(), "protocol": "udp", "destination_port": PORT,
        },
        "chain": [
            {"name": "v1", "direction": "in"}, {"name": "v4", "direction": "same"},
            {"name": "v7", "direction": "out"},
        ],
    })
}

fn every_packet_visits_exactly_its_functions(encapsulation: &str, family: Family) {
    in_shared_house(|house| {
        let count = if is_full() { 50_000 } else { 1_500 };
        let ring_full = account::ring_full(house);
        let interfaces = account::still_ports(house);
        let document = document(encapsulation, family);
        let deployed = house.deploy(document.clone());
        let verdict = send_and_prove(house, &document, family, count);
        assert_eq!(verdict["packets"], count);
        assert_eq!(verdict["proved"], count);
        let expected = ChainTotal::whole(count.into(), &["v1", "v4", "v7"]);
        account::assert_chain(house, &deployed.chain, &expected);
        account::assert_interfaces_agree(house, &interfaces);
        assert_eq!(account::ring_full(house), ring_full);
        house.undeploy(&deployed.chain);
    });
}

fn send_and_prove(house: &House, document: &Value, family: Family, count: u32) -> Value {
    let to = SocketAddr::new(address("D", family), PORT);
    let captures = Captures::start(house, &format!("udp port {PORT}"));
    let receiver = Receiver::new(&house.node("D"), to);
    let mut sender = Sender::new(&house.node("S"), to);
    sender.send_many(count);
    receiver.assert_all(count);
    captures.prove(document, PORT)
}

#[test]
fn every_packet_visits_exactly_its_functions_by_nsh_over_ipv4() {
    every_packet_visits_exactly_its_functions("nsh", Family::V4);
}

#[test]
fn every_packet_visits_exactly_its_functions_by_nsh_over_ipv6() {
    every_packet_visits_exactly_its_functions("nsh", Family::V6);
}

#[test]
fn every_packet_visits_exactly_its_functions_by_mpls_over_ipv4() {
    every_packet_visits_exactly_its_functions("mpls", Family::V4);
}

#[test]
fn every_packet_visits_exactly_its_functions_by_mpls_over_ipv6() {
    every_packet_visits_exactly_its_functions("mpls", Family::V6);
}

/// Nothing that the chain does not name takes it: other ports, other protocols, other sources.
#[test]
fn what_the_classifier_does_not_name_passes_no_function() {
    in_shared_house(|house| {
        let deployed = house.deploy(document("nsh", Family::V4));
        let destination = house.node("D");
        let captures = Captures::start(house, "udp port 5002 or udp port 5001 or icmp");
        for (from, family, port) in
            [("S", Family::V4, 5_002), ("S", Family::V6, 5_001), ("ext", Family::V4, 5_001)]
        {
            let to = SocketAddr::new(address("D", family), port);
            let receiver = Receiver::new(&destination, to);
            let mut sender = Sender::new(&house.node(from), to);
            sender.send_many(50);
            receiver.assert_all(50);
        }
        house.node("S").run("ping", &["-q", "-c", "3", "-i", "0.1", "10.10.0.11"]);
        for (node, seen) in captures.seen() {
            assert!(!node.starts_with('v') || seen == 0, "{node} saw {seen}");
        }
        account::assert_chain(house, &deployed.chain, &ChainTotal::whole(0, &["v1", "v4", "v7"]));
    });
}
