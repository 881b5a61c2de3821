//! Prefixes that the host's stack leaves alone, and by which way addresses are reached.

use std::net::{IpAddr, Ipv6Addr};
use std::process::Command;
use std::time::{Duration, Instant};

use catena_kernel::netlink::Way;
use catena_kernel::{KernelError, namespace, sysctl};

use crate::{Node, PATIENCE, needs_privilege};

const LOCATOR: (Ipv6Addr, u8) = (Ipv6Addr::new(0x5f00, 0, 2, 0, 0, 0, 0, 0), 48);
const SID: &str = "5f00:0:2:e1::";

/// Runs `ip` with these arguments on a node.
#[track_caller]
fn ip(node: &Node, arguments: &str) {
    let run = || Command::new("ip").args(arguments.split(' ')).output().unwrap();
    let output = namespace::run_in(&node.namespace, run).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {complaint}");
}

/// The sum of some of a node's counters of IPv6 (`snmp6`).
fn counted(node: &Node, counters: &[&str]) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap();
    let text = namespace::run_in(&node.namespace, read).unwrap();
    let value = |name: &&str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(*name));
        line.unwrap().split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    counters.iter().map(value).sum()
}

/// What the stack of a node has done with packets for others: passed on, or complained of.
fn meddled(node: &Node) -> u64 {
    counted(
        node,
        &[
            "Ip6OutForwDatagrams",
            "Icmp6OutDestUnreachs",
            "Icmp6OutParmProblems",
            "Icmp6OutTimeExcds",
            "Icmp6OutRedirects",
        ],
    )
}

/// Sends a plain packet and one with a routing header to the SID; what the stack of the node that it
/// belongs to has done then.
async fn meddled_with(sender: &Node, node: &Node) -> u64 {
    let (before, received) = (meddled(node), counted(node, &["Ip6InDelivers"]));
    // The marker comes behind them, by the same link.
    let marker = node.udp("fd00::2", 0);
    let source = sender.udp("fd00::1", 0);
    for to in [SID, "fd02::5"] {
        source.send_to(b"to the SID", (to.parse::<IpAddr>().unwrap(), 9)).unwrap();
    }
    source.send_to(b"marker", marker.local_addr().unwrap()).unwrap();
    assert_eq!(crate::receive(&marker), "marker");
    assert!(counted(node, &["Ip6InDelivers"]) > received);
    meddled(node) - before
}

#[tokio::test]
async fn the_hosts_stack_is_silent_about_a_claimed_prefix_whether_it_forwards_or_not() {
    needs_privilege!("the_hosts_stack_is_silent_about_a_claimed_prefix_whether_it_forwards_or_not");
    let (a, b) = (Node::new("a"), Node::new("b"));
    a.connect("a0", &b, "b0").await;
    a.address("a0", "fd00::1", 64).await;
    b.address("b0", "fd00::2", 64).await;
    ip(&a, "-6 route add 5f00:0:2::/48 via fd00::2");
    // Linux encapsulates what goes there: next header 43 (RFC 8754).
    ip(&a, &format!("-6 route add fd02::/64 encap seg6 mode encap segs {SID} dev a0"));
    for forwarding in ["0", "1"] {
        // It says of each destination only once in a while that it is not reached.
        sysctl::write_in(&b.namespace, "net.ipv6.icmp.ratelimit", "0").unwrap();
        sysctl::write_in(&b.namespace, "net.ipv6.conf.all.forwarding", forwarding).unwrap();
        assert_eq!(meddled_with(&a, &b).await, 2, "forwarding {forwarding}, not claimed");
        for _ in 0..2 {
            b.links.claim_prefix(LOCATOR).await.unwrap();
            assert_eq!(meddled_with(&a, &b).await, 0, "forwarding {forwarding}, claimed");
        }
        for _ in 0..2 {
            b.links.release_prefix(LOCATOR).await.unwrap();
            assert_eq!(meddled_with(&a, &b).await, 2, "forwarding {forwarding}, released");
        }
    }
    // A way back, by which a host that forwards sends it.
    ip(&b, "-6 route add 5f00::/16 via fd00::1");
    assert!(meddled_with(&a, &b).await > 0);
    b.links.claim_prefix(LOCATOR).await.unwrap();
    assert_eq!(meddled_with(&a, &b).await, 0);
}

#[tokio::test]
async fn claims_are_listed_and_no_route_of_somebody_else_is_taken_for_one() {
    needs_privilege!("claims_are_listed_and_no_route_of_somebody_else_is_taken_for_one");
    let (a, b) = (Node::new("a"), Node::new("b"));
    a.connect("a0", &b, "b0").await;
    assert_eq!(a.links.claimed_prefixes().await.unwrap(), []);
    let longer: Ipv6Addr = "5f00:0:2:e1::1".parse().unwrap();
    a.links.claim_prefix((longer, 48)).await.unwrap();
    a.links.claim_prefix((longer, 128)).await.unwrap();
    let mut claimed = a.links.claimed_prefixes().await.unwrap();
    claimed.sort();
    assert_eq!(claimed, [LOCATOR, (longer, 128)]);

    let other: (Ipv6Addr, u8) = ("5f00:0:3::".parse().unwrap(), 48);
    ip(&a, "-6 route add blackhole 5f00:0:3::/48 metric 1");
    for _ in 0..2 {
        let taken = a.links.claim_prefix(other).await.unwrap_err();
        assert!(taken.is_already_there(), "{taken}");
        assert!(taken.to_string().contains("5f00:0:3::/48"), "{taken}");
        a.links.release_prefix(other).await.unwrap();
    }
    // The address of an interface with the length of the locator brings a route to all of it.
    a.address("a0", "5f00:0:4::1", 48).await;
    let (of_link, beside) = (("5f00:0:4::".parse().unwrap(), 48), "5f00:0:4::9".parse().unwrap());
    assert!(a.links.way_to(beside).await.unwrap().is_some());
    a.links.claim_prefix(of_link).await.unwrap();
    assert_eq!(a.links.way_to(beside).await.unwrap(), None);
    a.links.release_prefix(of_link).await.unwrap();
    assert!(a.links.way_to(beside).await.unwrap().is_some());

    let long = a.links.claim_prefix((longer, 129)).await.unwrap_err();
    assert!(matches!(long, KernelError::Invalid { .. }), "{long}");
}

#[tokio::test]
async fn the_way_to_an_address_is_told_with_its_router_and_the_size_it_takes() {
    needs_privilege!("the_way_to_an_address_is_told_with_its_router_and_the_size_it_takes");
    let (a, b) = (Node::new("a"), Node::new("b"));
    a.connect("a0", &b, "b0").await;
    a.links.set_up("lo").await.unwrap();
    a.address("a0", "fd00::1", 64).await;
    a.address("a0", "192.0.2.1", 24).await;
    ip(&a, "-6 route add 5f00:0:2::/48 via fd00::2");
    ip(&a, "-6 route add 5f00:0:3::/48 via fd00::2 mtu 1300");
    ip(&a, "-6 route add 5f00:0:4::/48 via fd00::2 mtu 9000");
    ip(&a, "-6 route add 5f00:0:8::/48 encap seg6 mode encap segs fd00::7 via fd00::2 dev a0");
    ip(&a, "-6 route add unreachable 5f00:0:5::/48");
    ip(&a, "-6 route add prohibit 5f00:0:6::/48");
    ip(&a, "route add 203.0.113.0/24 via 192.0.2.2");
    ip(&a, "route add 203.0.112.0/24 via inet6 fd00::2 dev a0");
    a.links.claim_prefix(("5f00:0:1::".parse().unwrap(), 48)).await.unwrap();
    let interface = a.links.link("a0").await.unwrap().unwrap().index;
    for (to, gateway, mtu) in [
        ("fd00::9", None, 1_500),
        (SID, Some("fd00::2"), 1_500),
        ("5f00:0:3::1", Some("fd00::2"), 1_300),
        ("5f00:0:4::1", Some("fd00::2"), 1_500),
        ("203.0.113.9", Some("192.0.2.2"), 1_500),
        ("203.0.112.9", Some("fd00::2"), 1_500),
    ] {
        let gateway = gateway.map(|gateway| gateway.parse().unwrap());
        let way = a.links.way_to(to.parse().unwrap()).await.unwrap();
        let is_plain = mtu == 1_500;
        assert_eq!(way, Some(Way { interface, gateway, mtu, is_plain }), "{to}");
    }
    let wrapping = a.links.way_to("5f00:0:8::1".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((wrapping.interface, wrapping.is_plain), (interface, false));
    for nowhere in ["5f00:0:1::1", "5f00:0:5::1", "5f00:0:6::1", "5f00:0:7::1", "198.51.100.1"] {
        let way = a.links.way_to(nowhere.parse().unwrap()).await.unwrap();
        assert_eq!(way, None, "{nowhere}");
    }
    let own = a.links.way_to("fd00::1".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(a.links.link_at(own.interface).await.unwrap().unwrap().name, "lo");
}

#[tokio::test]
async fn the_size_that_a_router_further_on_takes_is_told_once_it_has_said_so() {
    needs_privilege!("the_size_that_a_router_further_on_takes_is_told_once_it_has_said_so");
    let (a, b, c) = (Node::new("a"), Node::new("b"), Node::new("c"));
    a.connect("a0", &b, "b0").await;
    b.connect("b1", &c, "c0").await;
    for (node, link, address) in [
        (&a, "a0", "fd00:1::1"),
        (&b, "b0", "fd00:1::2"),
        (&b, "b1", "fd00:2::2"),
        (&c, "c0", "fd00:2::3"),
    ] {
        node.address(link, address, 64).await;
    }
    ip(&b, "link set b1 mtu 1300");
    sysctl::write_in(&b.namespace, "net.ipv6.conf.all.forwarding", "1").unwrap();
    ip(&a, "-6 route add fd00:2::/64 via fd00:1::2");
    let to = "fd00:2::3".parse().unwrap();
    let before = a.links.way_to(to).await.unwrap().unwrap();
    assert_eq!(before.mtu, 1_500);
    let sender = a.udp("fd00:1::1", 0);
    let began = Instant::now();
    while a.links.way_to(to).await.unwrap()
        != Some(Way { mtu: 1_300, is_plain: false, ..before.clone() })
    {
        assert!(began.elapsed() < PATIENCE, "never heard of it");
        // Once it is known, the socket refuses.
        let _ = sender.send_to(&[7; 1_400], (to, 9));
        std::thread::sleep(Duration::from_millis(5));
    }
}
