//! Two nodes and the underlay between them: super-frames cross whole under every tunnel header, also
//! when a function has had them in between.

use crate::frames::{self, Dice, OTHER, OTHER_LOCATOR, OTHER6, OWN, OWN_LOCATOR, OWN6, Way};
use crate::scene::{Host, Seat, Stand, seat};
use crate::{needs_privilege, streams};
use catena_fastpath::{Event, FlowKey, Operation, OuterHeader, Settings, Sight, Transform};
use catena_kernel::{sysctl, tc};
use catena_model::program::PROXY_MAC;
use catena_wire::scalar::MacAddr;
use catena_wire::srv6::Inner;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::process::Command;

const UNDERLAY_MTU: u32 = 1_600;
/// Leaves room for every tunnel header.
const TENANT_MTU: u32 = 1_400;
const STREAM_BYTES: usize = 32 << 20;
const STREAM_PORT: u16 = 5_001;

/// A node on the underlay.
struct Node {
    stand: Stand,
    address: Ipv4Addr,
    underlay: u32,
}

/// Addresses and locators of a node and of the other.
struct Segments {
    own: (Ipv6Addr, Ipv6Addr),
    other: (Ipv6Addr, Ipv6Addr),
}

impl Segments {
    fn of(node: Ipv4Addr) -> Self {
        let (one, two) = ((OWN6, OWN_LOCATOR), (OTHER6, OTHER_LOCATOR));
        let (own, other) = if node == OWN { (one, two) } else { (two, one) };
        Self { own, other }
    }

    /// Gives a host the address, and the way to the other locator.
    async fn join(&self, host: &Host) {
        let setting = "net/ipv6/conf/u/disable_ipv6";
        sysctl::write_in(&host.namespace, setting, "0").unwrap();
        host.links.add_address("u", self.own.0.into(), 64).await.unwrap();
        let (other, locator) = self.other;
        host.links.add_route((locator.into(), 48), Some(other.into()), "u", None).await.unwrap();
    }
}

impl Node {
    async fn pair() -> [Self; 2] {
        let stands = [Stand::new("n1").await, Stand::new("n2").await];
        let [one, two] = &stands;
        let links = &one.host.links;
        links.add_veth("u", "u", &two.host.namespace, UNDERLAY_MTU, None, None).await.unwrap();
        let mut nodes = Vec::new();
        for (stand, (own, other)) in stands.into_iter().zip([(OWN, OTHER), (OTHER, OWN)]) {
            let host = &stand.host;
            host.links.set_up("u").await.unwrap();
            host.links.add_address("u", own.into(), 24).await.unwrap();
            let underlay = host.index("u").await;
            tc::steer_ingress(&host.links, underlay, stand.program.for_underlay().as_fd())
                .await
                .unwrap();
            let segments = Segments::of(own);
            segments.join(host).await;
            stand.tables.add_source(other.into(), 0).unwrap();
            stand.tables.add_source(segments.other.0.into(), 0).unwrap();
            let settings = Settings {
                underlay_address: u32::from_ne_bytes(own.octets()),
                ..stand.tables.settings()
            };
            let locator = frames::locator(segments.own.1);
            stand.tables.set_settings(settings.at_locator(Some(locator)));
            nodes.push(Self { stand, address: own, underlay });
        }
        nodes.try_into().ok().unwrap()
    }

    fn other(&self) -> Ipv4Addr {
        if self.address == OWN { OTHER } else { OWN }
    }

    /// Installs: from a local port into a tunnel with this shim.
    fn send_by_tunnel(&self, port: u16, frame: &[u8], way: Way, shim: &[u8], account: u32) {
        let outer = OuterHeader {
            source: self.address,
            destination: self.other(),
            source_port: 0xc001,
            destination_port: way.udp_port(),
        };
        let list = Transform::default().then_push_tunnel(&outer.with(shim).unwrap()).unwrap();
        self.send(port, frame, list, account);
    }

    /// Installs: from the tunnel with this shim out of a local port.
    fn take_from_tunnel(
        &self,
        frame: &[u8],
        way: Way,
        shim: &[u8],
        port: u16,
        to: MacAddr,
        account: u32,
    ) {
        let key = tunnel_key(self.other(), self.address, way, shim, frame);
        let bytes = 28 + shim.len() + 14;
        let list = Transform::default().then(Operation::trim(bytes as u8)).unwrap();
        self.take(&key, list, (port, to), account);
    }

    /// Installs: from a local port onto segments with these headers.
    fn send_by_segments(&self, port: u16, frame: &[u8], header: &[u8], account: u32) {
        let list = Transform::default().then_push_segments(header).unwrap();
        self.send(port, frame, list, account);
    }

    /// Installs: from segments with these headers out of a local port.
    fn take_from_segments(
        &self,
        frame: &[u8],
        header: &[u8],
        port: u16,
        to: MacAddr,
        account: u32,
    ) {
        let mut packet = [header, &frame[14..]].concat();
        let payload = (packet.len() - 40) as u16;
        catena_wire::ipv6::set_payload_length(&mut packet, payload).unwrap();
        let key = Sight::in_segments(&packet, None).unwrap().key;
        let trim = Operation::trim_segments(header.len() as u8, PROXY_MAC);
        let list = Transform::default().then(trim).unwrap();
        self.take(&key, list, (port, to), account);
    }

    /// Headers from this node to the other, over so many segments.
    fn header(&self, dice: &mut Dice, count: usize) -> Vec<u8> {
        let Segments { own, other } = Segments::of(self.address);
        frames::segments(dice, own.0, other.1, count, Inner::Ipv4)
    }

    /// Installs: from a local port to the other node, behind what the list puts in front.
    fn send(&self, port: u16, frame: &[u8], list: Transform, account: u32) {
        let list = list.then(Operation::count(account)).unwrap();
        let list = list.then(Operation::transmit_to_neighbour(self.underlay)).unwrap();
        let key = Sight::at_port(port, frame, None).unwrap().key;
        self.stand.tables.install(&key, &list, None).unwrap();
    }

    /// Installs: out of a local port, to this address, what the list has taken the headers off.
    fn take(&self, key: &FlowKey, list: Transform, (port, to): (u16, MacAddr), account: u32) {
        let list = list.then(Operation::set_destination(to)).unwrap();
        let list = list.then(Operation::count(account)).unwrap();
        let list = list.then(Operation::transmit(self.stand.port(port))).unwrap();
        self.stand.tables.install(key, &list, None).unwrap();
    }

    /// Everything took the kernel's path, and by far most of it in super-frames.
    fn is_whole(&self, account: u32) {
        let events = self.stand.events();
        let volume = self.stand.tables.account(account);
        println!("{} account {account}: {volume:?} {events:?}", self.address);
        for event in [Event::Broken, Event::Unfit, Event::Stale, Event::Swallowed, Event::Miss] {
            assert_eq!(events[&event], 0, "{event:?}");
        }
        assert!(volume.bytes > STREAM_BYTES as u64);
        assert!(volume.packets > 5 * events[&Event::Hit], "{volume:?} in {events:?}");
    }
}

fn tunnel_key(from: Ipv4Addr, to: Ipv4Addr, way: Way, shim: &[u8], inner: &[u8]) -> FlowKey {
    let outer = OuterHeader {
        source: from,
        destination: to,
        source_port: 0xc001,
        destination_port: way.udp_port(),
    };
    let mut frame = inner[..12].to_vec();
    frame.extend([8, 0]);
    frame.extend(outer.with(shim).unwrap());
    frame.extend(inner);
    let total = (frame.len() - 14) as u16;
    catena_wire::ipv4::set_total_length(&mut frame[14..], total).unwrap();
    catena_wire::udp::set_length(&mut frame[34..], total - 20).unwrap();
    Sight::at_underlay(to, &frame, None).unwrap().key
}

fn end(seat: Seat) -> SocketAddrV4 {
    SocketAddrV4::new(seat.address, STREAM_PORT)
}

/// A frame of the stream between two seats with these MAC addresses.
fn frame(from: Seat, to: Seat, macs: [MacAddr; 2]) -> Vec<u8> {
    frames::tcp_frame(macs, [end(from), end(to)])
}

fn run_stream(a: &Host, b: &Host) {
    let ends = [seat(1), seat(2)].map(|seat| SocketAddr::V4(end(seat)));
    streams::tcp(a, ends[0], b, ends[1], STREAM_BYTES);
}

/// Both know each other's hardware address.
async fn acquaint(a: &Host, b: &Host) {
    a.knows("e0", seat(2).address, seat(2).mac).await;
    b.knows("e0", seat(1).address, seat(1).mac).await;
}

async fn crosses_whole(way: Way) {
    let [mut one, mut two] = Node::pair().await;
    let (a, b) = (Host::new("a"), Host::new("b"));
    one.stand.add_port(1, &a, TENANT_MTU).await;
    two.stand.add_port(2, &b, TENANT_MTU).await;
    acquaint(&a, &b).await;
    let mut dice = Dice(way as u64);
    let (shim, back_shim) = (way.shim(&mut dice), way.shim(&mut dice));
    let there = frame(seat(1), seat(2), [seat(1).mac, seat(2).mac]);
    let back = frame(seat(2), seat(1), [seat(2).mac, seat(1).mac]);
    one.send_by_tunnel(1, &there, way, &shim, 1);
    two.take_from_tunnel(&there, way, &shim, 2, seat(2).mac, 1);
    two.send_by_tunnel(2, &back, way, &back_shim, 2);
    one.take_from_tunnel(&back, way, &back_shim, 1, seat(1).mac, 2);
    run_stream(&a, &b);
    one.is_whole(1);
    two.is_whole(1);
    // What one counted going in, the other counted coming out.
    for account in [1, 2] {
        assert_eq!(one.stand.tables.account(account), two.stand.tables.account(account));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn super_frames_cross_between_nodes_whole_under_nsh() {
    needs_privilege!("super_frames_cross_between_nodes_whole_under_nsh");
    crosses_whole(Way::Nsh).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn super_frames_cross_between_nodes_whole_under_mpls() {
    needs_privilege!("super_frames_cross_between_nodes_whole_under_mpls");
    crosses_whole(Way::Mpls).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn super_frames_cross_between_nodes_whole_under_vxlan() {
    needs_privilege!("super_frames_cross_between_nodes_whole_under_vxlan");
    crosses_whole(Way::Network).await;
}

/// Two hosts at one node, and a function at the other that routes from one to the other.
async fn through_a_function(one: &mut Node, two: &mut Node) -> (Host, Host, Host) {
    let (a, b, function) = (Host::new("a"), Host::new("b"), Host::new("function"));
    one.stand.add_port(1, &a, TENANT_MTU).await;
    one.stand.add_port(2, &b, TENANT_MTU).await;
    two.stand.add_port_of(3, &function, "p3", "in", TENANT_MTU, seat(3)).await;
    two.stand.add_port_of(4, &function, "p4", "out", TENANT_MTU, seat(4)).await;
    acquaint(&a, &b).await;
    sysctl::write_in(&function.namespace, "net.ipv4.ip_forward", "1").unwrap();
    let target = (IpAddr::V4(seat(2).address), 32);
    function.links.add_route(target, None, "out", None).await.unwrap();
    function.knows("out", seat(2).address, seat(2).mac).await;
    (a, b, function)
}

/// What answers goes at once from port 2 to port 1.
fn send_back_plainly(one: &Node) {
    let back = frame(seat(2), seat(1), [seat(2).mac, seat(1).mac]);
    let key = Sight::at_port(2, &back, None).unwrap().key;
    let list = Transform::default().then(Operation::transmit(one.stand.port(1))).unwrap();
    one.stand.tables.install(&key, &list, None).unwrap();
}

async fn crosses_over_segments(is_segmented: bool) -> [Node; 2] {
    let [mut one, mut two] = Node::pair().await;
    let (a, b) = (Host::new("a"), Host::new("b"));
    one.stand.add_port(1, &a, TENANT_MTU).await;
    two.stand.add_port(2, &b, TENANT_MTU).await;
    acquaint(&a, &b).await;
    if is_segmented {
        for node in [&one, &two] {
            crate::scene::within(&node.stand.host, || {
                let arguments = ["link", "set", "u", "gso_max_size", "1500"];
                assert!(Command::new("ip").args(arguments).status().unwrap().success());
            });
        }
    }
    let mut dice = Dice(5);
    let (header, back_header) = (one.header(&mut dice, 2), two.header(&mut dice, 1));
    let there = frame(seat(1), seat(2), [seat(1).mac, seat(2).mac]);
    let back = frame(seat(2), seat(1), [seat(2).mac, seat(1).mac]);
    one.send_by_segments(1, &there, &header, 1);
    two.take_from_segments(&there, &header, 2, seat(2).mac, 1);
    two.send_by_segments(2, &back, &back_header, 2);
    one.take_from_segments(&back, &back_header, 1, seat(1).mac, 2);
    run_stream(&a, &b);
    for account in [1, 2] {
        assert_eq!(one.stand.tables.account(account), two.stand.tables.account(account));
    }
    [one, two]
}

#[tokio::test(flavor = "multi_thread")]
async fn super_frames_cross_between_nodes_whole_over_segments() {
    needs_privilege!("super_frames_cross_between_nodes_whole_over_segments");
    for node in crosses_over_segments(false).await {
        node.is_whole(1);
    }
}

/// A link that takes no super-frame: the kernel makes packets of them, each with headers of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_cuts_super_frames_over_segments_for_a_link_that_takes_none() {
    needs_privilege!("a_kernel_cuts_super_frames_over_segments_for_a_link_that_takes_none");
    let [one, two] = crosses_over_segments(true).await;
    one.is_whole(1);
    let (events, volume) = (two.stand.events(), two.stand.tables.account(1));
    assert!(volume.bytes > STREAM_BYTES as u64, "{volume:?} {events:?}");
    assert!(events[&Event::Hit] >= volume.packets, "each came alone: {volume:?} {events:?}");
    assert_eq!(events[&Event::Broken] + events[&Event::Unkeyed] + events[&Event::Miss], 0);
}

/// As below, by segments there and by segments back.
#[tokio::test(flavor = "multi_thread")]
async fn super_frames_stay_whole_through_a_function_over_segments() {
    needs_privilege!("super_frames_stay_whole_through_a_function_over_segments");
    let [mut one, mut two] = Node::pair().await;
    let (a, b, function) = through_a_function(&mut one, &mut two).await;
    let mut dice = Dice(7);
    let (header, back_header) = (one.header(&mut dice, 3), two.header(&mut dice, 2));
    let there = frame(seat(1), seat(2), [seat(1).mac, seat(2).mac]);
    one.send_by_segments(1, &there, &header, 1);
    two.take_from_segments(&there, &header, 3, seat(3).mac, 1);
    let routed = frame(seat(1), seat(2), [seat(4).mac, seat(2).mac]);
    two.send_by_segments(4, &routed, &back_header, 2);
    one.take_from_segments(&routed, &back_header, 2, seat(2).mac, 2);
    send_back_plainly(&one);
    run_stream(&a, &b);
    for node in [&one, &two] {
        node.is_whole(1);
        node.is_whole(2);
    }
    assert_eq!(one.stand.tables.account(2), two.stand.tables.account(1));
    // What has come by segments is marked, and is not for who takes the unmarked alone.
    let list = Transform::default().then_push_segments(&back_header).unwrap().for_unmarked();
    let list = list.then(Operation::transmit_to_neighbour(two.underlay)).unwrap();
    let key = Sight::at_port(4, &routed, None).unwrap().key;
    two.stand.tables.install(&key, &list, None).unwrap();
    let entry = one.stand.tables.account(1).packets;
    let ends = [seat(1), seat(2)].map(|seat| SocketAddr::V4(end(seat)));
    crate::scene::within(&a, || streams::knock(ends[0], ends[1]));
    assert!(one.stand.tables.account(1).packets > entry, "it has set out");
    let events = two.stand.events();
    assert!(events[&Event::Unfit] > 0, "{events:?}");
    drop(function);
}

/// `a` and `b` at one node, a routing function at the other: what comes out of it is still marked as
/// encapsulated, and gets a header again.
#[tokio::test(flavor = "multi_thread")]
async fn super_frames_stay_whole_through_a_function_on_another_node() {
    needs_privilege!("super_frames_stay_whole_through_a_function_on_another_node");
    let [mut one, mut two] = Node::pair().await;
    let (a, b, _function) = through_a_function(&mut one, &mut two).await;
    let mut dice = Dice(7);
    let (way, back_way) = (Way::Nsh, Way::Mpls);
    let (shim, back_shim) = (way.shim(&mut dice), back_way.shim(&mut dice));
    let there = frame(seat(1), seat(2), [seat(1).mac, seat(2).mac]);
    one.send_by_tunnel(1, &there, way, &shim, 1);
    two.take_from_tunnel(&there, way, &shim, 3, seat(3).mac, 1);
    let routed = frame(seat(1), seat(2), [seat(4).mac, seat(2).mac]);
    two.send_by_tunnel(4, &routed, back_way, &back_shim, 2);
    one.take_from_tunnel(&routed, back_way, &back_shim, 2, seat(2).mac, 2);
    send_back_plainly(&one);
    run_stream(&a, &b);
    for node in [&one, &two] {
        node.is_whole(1);
        node.is_whole(2);
    }
    assert_eq!(one.stand.tables.account(2), two.stand.tables.account(1));
}
