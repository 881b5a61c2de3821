//! What a packet socket takes, the stack must not see: the proof, with and without the filter.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::Duration;

use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::{packet, sysctl, tc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Node, PATIENCE, needs_privilege, receive};

const LINK_PAIRS: usize = 40;
const TARGET: &str = "10.0.2.2:7000";

/// `a` — `router` (forwarding) — `b`, with fixed neighbours, so that no ARP is needed.
struct Path {
    a: Node,
    router: Node,
    b: Node,
    router_index: u32,
}

impl Path {
    async fn new() -> Self {
        let (a, router, b) = (Node::new("a"), Node::new("router"), Node::new("b"));
        a.connect("a0", &router, "to-a").await;
        router.connect("to-b", &b, "b0").await;
        a.address("a0", "10.0.1.2", 24).await;
        router.address("to-a", "10.0.1.1", 24).await;
        router.address("to-b", "10.0.2.1", 24).await;
        b.address("b0", "10.0.2.2", 24).await;
        a.default_route("10.0.1.1", "a0").await;
        b.default_route("10.0.2.1", "b0").await;
        let side = router.links.link("to-a").await.unwrap().unwrap();
        let gateway = "10.0.1.1".parse().unwrap();
        a.links.add_neighbour(gateway, side.mac.unwrap(), "a0").await.unwrap();
        sysctl::write_in(&router.namespace, "net.ipv4.ip_forward", "1").unwrap();
        Self { a, router, b, router_index: side.index }
    }

    fn send(&self, text: &str) {
        self.a.udp("10.0.1.2", 0).send_to(text.as_bytes(), TARGET).unwrap();
    }

    fn received_by_the_stack(&self) -> u64 {
        ip_packets_received(&self.router.namespace)
    }
}

/// `Ip: … InReceives …` of the namespace.
fn ip_packets_received(namespace: &NetNamespace) -> u64 {
    let text = run_in(namespace, || std::fs::read_to_string("/proc/thread-self/net/snmp"))
        .unwrap()
        .unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let names = lines.next().unwrap().split_whitespace();
    let position = names.into_iter().position(|name| name == "InReceives").unwrap();
    lines.next().unwrap().split_whitespace().nth(position).unwrap().parse().unwrap()
}

/// Next frame that holds `text`, waiting for it; the socket puts 10 bytes of `vnet_hdr` first.
fn frame_with(socket: &OwnedFd, text: &str) -> Vec<u8> {
    let limit = Timespec { tv_sec: PATIENCE.as_secs().try_into().unwrap(), tv_nsec: 0 };
    loop {
        let mut ready = [PollFd::new(socket, PollFlags::IN)];
        assert_eq!(poll(&mut ready, Some(&limit)), Ok(1), "no frame with {text:?} came");
        let mut bytes = [0; 4096];
        let length = rustix::io::read(socket, &mut bytes).unwrap();
        if bytes[..length].windows(text.len()).any(|part| part == text.as_bytes()) {
            return bytes[..length].to_vec();
        }
    }
}

fn receives_nothing(socket: &UdpSocket) {
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    assert!(socket.recv_from(&mut [0; 64]).is_err());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
}

#[tokio::test]
async fn without_the_filter_the_stack_forwards_what_the_tap_took() {
    needs_privilege!("without_the_filter_the_stack_forwards_what_the_tap_took");
    let path = Path::new().await;
    let tap = packet::open_packet_socket(&path.router.namespace, "to-a").unwrap();
    let receiver = path.b.udp("10.0.2.2", 7000);
    path.send("twice");
    frame_with(&tap, "twice");
    assert_eq!(receive(&receiver), "twice");
}

#[tokio::test]
async fn with_the_filter_the_tap_gets_every_frame_and_the_stack_none() {
    needs_privilege!("with_the_filter_the_tap_gets_every_frame_and_the_stack_none");
    let path = Path::new().await;
    let router = &path.router;
    let receiver = path.b.udp("10.0.2.2", 7000);
    tc::swallow_ingress(&router.links, path.router_index).await.unwrap();
    let tap = packet::open_packet_socket(&router.namespace, "to-a").unwrap();
    let before = path.received_by_the_stack();
    for number in 0..100 {
        let text = format!("frame {number}.");
        path.send(&text);
        frame_with(&tap, &text);
    }
    assert_eq!(path.received_by_the_stack(), before, "the stack saw nothing");
    receives_nothing(&receiver);
    // The first datagram to arrive is the one sent after the release: none was only late.
    tc::release_ingress(&router.links, path.router_index).await.unwrap();
    path.send("released");
    assert_eq!(receive(&receiver), "released");
}

#[tokio::test]
async fn a_swallowed_host_does_not_answer_for_its_own_address() {
    needs_privilege!("a_swallowed_host_does_not_answer_for_its_own_address");
    let path = Path::new().await;
    let own = path.router.udp("10.0.1.1", 7001);
    let tap = packet::open_packet_socket(&path.router.namespace, "to-a").unwrap();
    tc::swallow_ingress(&path.router.links, path.router_index).await.unwrap();
    let sender = path.a.udp("10.0.1.2", 0);
    sender.send_to(b"to the router", "10.0.1.1:7001").unwrap();
    frame_with(&tap, "to the router");
    receives_nothing(&own);
}

#[tokio::test]
async fn swallowing_twice_is_swallowing_once() {
    needs_privilege!("swallowing_twice_is_swallowing_once");
    let (a, b) = (Node::new("a"), Node::new("b"));
    a.connect("a0", &b, "b0").await;
    let index = a.links.link("a0").await.unwrap().unwrap().index;
    assert!(!tc::is_swallowing(&a.links, index).await.unwrap());
    for _ in 0..2 {
        tc::swallow_ingress(&a.links, index).await.unwrap();
        assert!(tc::is_swallowing(&a.links, index).await.unwrap());
    }
    tc::release_ingress(&a.links, index).await.unwrap();
    assert!(!tc::is_swallowing(&a.links, index).await.unwrap());
    let missing = tc::swallow_ingress(&a.links, 4242).await.unwrap_err();
    assert!(missing.to_string().contains("link 4242"), "{missing}");
}

#[tokio::test]
async fn a_packet_socket_sees_what_arrives_and_not_what_is_sent() {
    needs_privilege!("a_packet_socket_sees_what_arrives_and_not_what_is_sent");
    let path = Path::new().await;
    let tap = packet::open_packet_socket(&path.router.namespace, "to-b").unwrap();
    let receiver = path.b.udp("10.0.2.2", 7000);
    path.send("outgoing");
    assert_eq!(receive(&receiver), "outgoing");
    path.b.udp("10.0.2.2", 0).send_to(b"incoming", "10.0.1.2:9").unwrap();
    let mut ready = [PollFd::new(&tap, PollFlags::IN)];
    let limit = Timespec { tv_sec: PATIENCE.as_secs().try_into().unwrap(), tv_nsec: 0 };
    loop {
        assert_eq!(poll(&mut ready, Some(&limit)), Ok(1));
        let mut bytes = [0; 4096];
        let length = rustix::io::read(&tap, &mut bytes).unwrap();
        let frame = String::from_utf8_lossy(&bytes[..length]).into_owned();
        assert!(!frame.contains("outgoing"), "the tap gave back what was sent");
        if frame.contains("incoming") {
            break;
        }
    }
}

#[test]
fn a_packet_socket_on_a_missing_interface_may_work_later() {
    needs_privilege!("a_packet_socket_on_a_missing_interface_may_work_later");
    let namespace = NetNamespace::create_unnamed("empty").unwrap();
    let error = packet::open_packet_socket(&namespace, "eth9").unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_are_asked_for_at_once_over_one_connection_all_come() {
    needs_privilege!("lists_that_are_asked_for_at_once_over_one_connection_all_come");
    let path = Path::new().await;
    let (links, namespace) = (&path.router.links, &path.router.namespace);
    tc::swallow_ingress(links, path.router_index).await.unwrap();
    // More than the kernel says at once.
    for number in 0..LINK_PAIRS {
        let (one, other) = (format!("one{number}"), format!("other{number}"));
        links.add_veth(&one, &other, namespace, 1500, None, None).await.unwrap();
    }
    let ask = |_| async {
        let filter = tc::is_swallowing(links, path.router_index);
        let (filter, listed) = tokio::join!(filter, links.links());
        assert!(filter.unwrap());
        assert_eq!(listed.unwrap().len(), 3 + 2 * LINK_PAIRS, "with loopback, to-a, to-b");
    };
    futures::future::join_all((0..32).map(ask)).await;
}
