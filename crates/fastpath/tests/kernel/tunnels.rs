//! Two nodes and the underlay between them: super-frames cross whole under every tunnel header, also
//! when a function has had them in between.

use crate::frames::{self, Dice, OTHER, OWN, Way};
use crate::scene::{Host, Seat, Stand, seat};
use crate::{needs_privilege, streams};
use catena_fastpath::{Event, FlowKey, Operation, OuterHeader, Settings, Sight, Transform};
use catena_kernel::{sysctl, tc};
use catena_wire::scalar::MacAddr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;

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
            stand.tables.add_source(other, 0).unwrap();
            stand.tables.set_settings(Settings {
                underlay_address: u32::from_ne_bytes(own.octets()),
                ..stand.tables.settings()
            });
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
        let list = list.then(Operation::count(account)).unwrap();
        let list = list.then(Operation::transmit_to_neighbour(self.underlay)).unwrap();
        let key = Sight::at_port(port, frame, None).unwrap().key;
        self.stand.tables.install(&key, &list, None).unwrap();
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
        let list = list.then(Operation::set_destination(to)).unwrap();
        let list = list.then(Operation::count(account)).unwrap();
        let list = list.then(Operation::transmit(self.stand.port(port))).unwrap();
        self.stand.tables.install(&key, &list, None).unwrap();
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

/// `a` and `b` at one node, a routing function at the other: what comes out of it is still marked as
/// encapsulated, and gets a header again.
#[tokio::test(flavor = "multi_thread")]
async fn super_frames_stay_whole_through_a_function_on_another_node() {
    needs_privilege!("super_frames_stay_whole_through_a_function_on_another_node");
    let [mut one, mut two] = Node::pair().await;
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
    let mut dice = Dice(7);
    let (way, back_way) = (Way::Nsh, Way::Mpls);
    let (shim, back_shim) = (way.shim(&mut dice), back_way.shim(&mut dice));
    let there = frame(seat(1), seat(2), [seat(1).mac, seat(2).mac]);
    one.send_by_tunnel(1, &there, way, &shim, 1);
    two.take_from_tunnel(&there, way, &shim, 3, seat(3).mac, 1);
    let routed = frame(seat(1), seat(2), [seat(4).mac, seat(2).mac]);
    two.send_by_tunnel(4, &routed, back_way, &back_shim, 2);
    one.take_from_tunnel(&routed, back_way, &back_shim, 2, seat(2).mac, 2);
    let back = frame(seat(2), seat(1), [seat(2).mac, seat(1).mac]);
    let key = Sight::at_port(2, &back, None).unwrap().key;
    let list = Transform::default().then(Operation::transmit(one.stand.port(1))).unwrap();
    one.stand.tables.install(&key, &list, None).unwrap();
    run_stream(&a, &b);
    for node in [&one, &two] {
        node.is_whole(1);
        node.is_whole(2);
    }
    assert_eq!(one.stand.tables.account(2), two.stand.tables.account(1));
}
