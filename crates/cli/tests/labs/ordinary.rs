//! Traffic that no chain takes: ordinary Ethernet inside its tenant network, across hosts, and
//! nothing across networks.

use crate::account;
use crate::house::{House, in_shared_house};
use crate::traffic::{Family, address, send_and_count};
use std::net::SocketAddr;

/// Pings; did every request find its answer?
fn is_reached(house: &House, from: &str, to: &str, options: &[&str]) -> bool {
    let mut arguments = vec!["-q", "-c", "3", "-i", "0.1", "-W", "1"];
    arguments.extend(options);
    arguments.push(to);
    house.node(from).attempt("ping", &arguments).status.success()
}

#[test]
fn ordinary_traffic_crosses_hosts_in_its_network() {
    in_shared_house(|house| {
        let before = account::ring_full(house);
        for family in Family::BOTH {
            for (from, to) in [("S", "D"), ("D", "S"), ("ext", "S"), ("ext", "D")] {
                let address = address(to, family).to_string();
                assert!(is_reached(house, from, &address, &[]), "{from} to {to} {family:?}");
            }
        }
        // Functions are reached on their networks, from anywhere.
        for (from, to) in [("S", "10.10.0.107"), ("I", "10.20.0.107"), ("I", "fd00:20::65")] {
            assert!(is_reached(house, from, to, &[]), "{from} to {to}");
        }
        assert_eq!(account::ring_full(house), before);
    });
}

#[test]
fn packets_of_every_size_cross_hosts_also_in_fragments() {
    in_shared_house(|house| {
        for family in Family::BOTH {
            let to = address("D", family).to_string();
            let largest = if family == Family::V4 { "1372" } else { "1352" };
            for size in ["0", "1", "56", "1000", largest] {
                assert!(
                    is_reached(house, "S", &to, &["-M", "do", "-s", size]),
                    "{size} {family:?}"
                );
            }
            for size in ["1400", "4000", "20000", "60000"] {
                assert!(is_reached(house, "S", &to, &["-s", size]), "{size} {family:?}");
            }
        }
    });
}

#[test]
fn ordinary_datagrams_arrive_all_and_once() {
    in_shared_house(|house| {
        let before = account::ring_full(house);
        let interfaces = account::still_ports(house);
        let (source, destination) = (house.node("S"), house.node("D"));
        for family in Family::BOTH {
            let to = SocketAddr::new(address("D", family), 4_000);
            send_and_count(&source, &destination, to, 1_000);
        }
        assert_eq!(account::ring_full(house), before);
        account::assert_interfaces_agree(house, &interfaces);
    });
}

#[test]
fn networks_do_not_reach_each_other() {
    in_shared_house(|house| {
        let source = house.node("S");
        for family in Family::BOTH {
            let inner = address("I", family).to_string();
            assert!(!is_reached(house, "S", &inner, &[]), "by the gateway, {family:?}");
        }
        // Nor when the address is looked for on the wrong network itself.
        source.ip("address add 10.20.0.200/24 dev customer");
        source.ip("address add fd00:20::200/64 dev customer nodad");
        for (family, function) in [(Family::V4, "10.20.0.101"), (Family::V6, "fd00:20::65")] {
            let inner = address("I", family).to_string();
            for to in [inner.as_str(), function] {
                assert!(!is_reached(house, "S", to, &[]), "{to} on the customer network");
            }
        }
        source.ip("address del 10.20.0.200/24 dev customer");
        source.ip("address del fd00:20::200/64 dev customer");
        assert!(is_reached(house, "S", "10.10.0.11", &[]));
    });
}
