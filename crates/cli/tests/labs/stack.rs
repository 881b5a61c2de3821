//! The host's own stack stays out of it: what the ring took is neither forwarded nor answered nor
//! received a second time by the kernel, even on a host that forwards.

use crate::account;
use crate::house::{House, in_shared_house};
use crate::node::Node;
use crate::traffic::{Family, Receiver, Sender, address};
use serde_json::json;
use std::net::SocketAddr;

const PORT: u16 = 5_060;
const PACKETS: u32 = 5_000;
/// What the management session of a host may say meanwhile, in packets.
const MANAGEMENT_PACKETS_MAX: u64 = 1_000;

/// What a stack does with foreign packets.
#[derive(Clone, Copy, Debug)]
struct Stack {
    received: u64,
    forwarded: u64,
    told: u64,
    wrong: u64,
}

impl Stack {
    fn of(node: &Node) -> Self {
        let ip = |counter: &str| node.stack_counter("Ip", counter);
        Self {
            received: ip("InReceives"),
            forwarded: ip("ForwDatagrams"),
            told: node.stack_counter("Icmp", "OutMsgs"),
            wrong: ip("InAddrErrors") + ip("OutNoRoutes"),
        }
    }
}

impl Stack {
    /// Since `before`, the stack has seen nothing of `PACKETS` packets.
    fn assert_untouched(node: &Node, before: Self) {
        let now = Self::of(node);
        let received = now.received - before.received;
        assert!(received < MANAGEMENT_PACKETS_MAX, "{} received {received}", node.name);
        assert_eq!(now.forwarded, before.forwarded, "{} forwards", node.name);
        assert_eq!(now.told, before.told, "{} sends ICMP", node.name);
        assert_eq!(now.wrong, before.wrong, "{} looks for routes", node.name);
    }
}

fn with_forwarding(house: &House, test: impl FnOnce(&Node)) {
    let host = house.node("host1");
    host.set("net/ipv4/ip_forward", "1");
    host.set("net/ipv4/conf/all/rp_filter", "0");
    test(&host);
    host.set("net/ipv4/ip_forward", "0");
}

#[test]
fn the_host_stack_never_sees_what_the_ring_took() {
    in_shared_house(|house| {
        with_forwarding(house, |host| {
            let chain = json!({
                "name": "local", "source": "S", "destination": "ext",
                "match_fields": {"protocol": "udp", "destination_port": PORT},
                "chain": [{"name": "v11", "direction": "same"}],
            });
            house.deploy(chain);
            let before = Stack::of(host);
            for port in [PORT, PORT + 1] {
                let to = SocketAddr::new(address("ext", Family::V4), port);
                let receiver = Receiver::new(&house.node("ext"), to);
                let mut sender = Sender::new(&house.node("S"), to);
                sender.send_many(PACKETS);
                receiver.assert_all(PACKETS);
            }
            Stack::assert_untouched(host, before);
        });
    });
}

/// Frames that name the host's own end of the cable are what a forwarding stack would take.
#[test]
fn a_tenant_cannot_reach_through_the_host_that_forwards() {
    in_shared_house(|house| {
        with_forwarding(house, |host| {
            let source = house.node("S");
            let gateway = host.mac("S.customer");
            source.ip("route add 172.30.0.0/16 via 10.10.0.99 dev customer");
            source.ip(&format!(
                "neighbour replace 10.10.0.99 lladdr {gateway} dev customer nud permanent"
            ));
            let (before, ring_full) = (Stack::of(host), account::ring_full(house));
            // The host itself, another host over the data network, the controller.
            for to in ["172.30.0.1:7", "172.30.0.2:7", "172.30.1.254:6650"] {
                let mut sender = Sender::new(&source, to.parse().expect("an address"));
                sender.send_many(PACKETS);
            }
            let ping = ["-q", "-c", "2", "-i", "0.1", "-W", "1", "172.30.0.1"];
            assert!(!source.attempt("ping", &ping).status.success(), "the host answers a tenant");
            Stack::assert_untouched(host, before);
            assert_eq!(account::ring_full(house), ring_full);
            source.ip("neighbour del 10.10.0.99 dev customer");
            source.ip("route del 172.30.0.0/16");
        });
    });
}
