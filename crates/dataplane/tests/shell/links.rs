//! Links: source routes between two cables pass the data plane, and all else on them is the host's.

use crate::agent::{PATIENCE, TestAgent};
use crate::is_privileged;
use crate::node::{Machine, Place, UNDERLAY, whole};
use catena_io::{BufferPool, PacketRing, RingConfig};
use catena_kernel::namespace::run_in;
use catena_kernel::packet;
use catena_model::account::PortCounters;
use catena_model::id::NodeName;
use catena_model::program::{ExitEntry, ExitPlace, Underlay};
use catena_model::topology::PortNumber;
use catena_model::{BlueprintNumber, NodeProgram};
use catena_wire::scalar::{EtherType, MplsLabel, Spi};
use catena_wire::source_route::classic::{ClassicHeader, Density};
use catena_wire::source_route::native::{NativeHeader, PortWidth};
use catena_wire::source_route::safe::SafeHeader;
use catena_wire::source_route::sr_mpls::{PORT_BYTES, SrMplsHeader};
use catena_wire::source_route::{Next, advance};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Instant;

/// One end of a cable, outside of the node.
struct End {
    ring: PacketRing,
    pool: BufferPool,
}

impl End {
    fn new(place: &Place, interface: &str) -> Self {
        let socket = packet::open_packet_socket(&place.namespace, interface).unwrap();
        let ring = PacketRing::map(socket, RingConfig::default()).unwrap();
        Self { ring, pool: BufferPool::new(512) }
    }

    fn send(&mut self, frame: &[u8]) {
        let mut buffer = self.pool.take().unwrap();
        assert!(buffer.fill(frame));
        self.ring.transmit(&mut vec![buffer], &mut self.pool);
        assert!(self.ring.refused().is_empty());
    }

    /// The next frame on a source route.
    fn hear(&mut self) -> Vec<u8> {
        let (begun, mut heard) = (Instant::now(), Vec::new());
        loop {
            assert!(begun.elapsed() < PATIENCE, "nothing comes");
            self.ring.receive(&mut self.pool, &mut heard, 1);
            let Some(buffer) = heard.pop() else { continue };
            let frame = buffer.bytes().to_vec();
            self.pool.put(buffer);
            if catena_wire::source_route::profile(&frame).is_some() {
                return frame;
            }
        }
    }
}

fn link(number: u8) -> PortNumber {
    PortNumber::new(number).unwrap()
}

/// A node with two links and nothing else.
fn program() -> NodeProgram {
    let underlay = Underlay { address: UNDERLAY, mtu: 1_500 };
    let node = NodeName::new("host1").unwrap();
    let exit = |(number, interface): (u8, &str)| ExitEntry {
        number: link(number),
        to: ExitPlace::Link(interface.into()),
    };
    let exits = [(1, "s0"), (9, "d0")].map(exit);
    NodeProgram { exits: exits.into(), ..NodeProgram::empty(node, BlueprintNumber(1), underlay) }
}

/// A frame of each profile for the way over port 9, and behind it whatever its header ends with.
fn frames() -> [Vec<u8>; 4] {
    let way = [9, 4];
    let native = NativeHeader {
        width: PortWidth::Eight,
        way: &way,
        path: Spi::new(7).ok(),
        tag: None,
        detours: &[],
        ether_type: EtherType::IPV4,
    };
    let classic = ClassicHeader::new(&way, Density::Labels).unwrap();
    let labels = SrMplsHeader::new(&way, MplsLabel::ordinary(77).unwrap()).unwrap();
    let lengths = [native.len_bytes(), 22, classic.len_bytes(), labels.len_bytes()];
    let mut frames = lengths.map(|length| vec![0; length]);
    frames.iter_mut().for_each(|frame| frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x55]));
    native.emit(&mut frames[0]).unwrap();
    SafeHeader::new(&way).unwrap().emit(&mut frames[1]).unwrap();
    classic.emit(&mut frames[2]).unwrap();
    labels.emit(&mut frames[3]).unwrap();
    frames.iter_mut().for_each(|frame| frame.extend([0x45; 60]));
    frames
}

/// What is no source route, though it is near one: labels of another kind, a tag without one, two tags.
fn others() -> Vec<Vec<u8>> {
    let of = |types: &[u16]| {
        let mut frame = vec![2; 12];
        types.iter().for_each(|octets| frame.extend(octets.to_be_bytes()));
        frame.extend([0x45; 60]);
        frame
    };
    let mut twice = frames()[2].clone();
    twice.splice(12..12, [0x81, 0, 0, 5]);
    vec![of(&[0x8848]), of(&[0x8100, 5, 0x0800]), of(&[0x88cc]), twice]
}

fn line(agent: &mut TestAgent, number: u8) -> PortCounters {
    let counters = agent.counters();
    counters.links.into_iter().find(|line| line.port == link(number).link_id()).unwrap()
}

#[tokio::test]
async fn a_frame_that_is_longer_than_its_link_ends_by_name_and_is_never_torn() {
    if !is_privileged("a_frame_that_is_longer_than_its_link_ends_by_name_and_is_never_torn") {
        return;
    }
    let machine = Machine::new().await;
    for interface in ["s0", "d0"] {
        // Longer ones come than the link was attached for.
        let mac = [2, 0, 0, 0, 9, interface.as_bytes()[0]];
        machine.node.links.set_mac_and_mtu(interface, mac, 9_000).await.unwrap();
        machine.node.links.set_up(interface).await.unwrap();
    }
    for (place, interface) in [(&machine.source, "s0-far"), (&machine.destination, "d0-far")] {
        let mac = [2, 0, 0, 0, 8, interface.as_bytes()[0]];
        place.links.set_mac_and_mtu(interface, mac, 9_000).await.unwrap();
    }
    let _dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.offer(whole(&program())), "");
    for (number, interface) in [(1, "s0"), (9, "d0")] {
        let socket = packet::open_link_socket(&machine.node.namespace, interface).unwrap();
        assert_eq!(agent.attach_for(1_518, link(number).link_id(), &socket), "");
    }
    let mut source = End::new(&machine.source, "s0-far");
    let mut destination = End::new(&machine.destination, "d0-far");
    let of_bytes = |bytes: usize| {
        let mut frame = frames()[0].clone();
        frame.resize(bytes, 0x46);
        frame
    };
    let (mut passed, mut ended) = (0, 0);
    for bytes in [1_518, 8_000, 64, 5_000, 1_518, 4_096] {
        let frame = of_bytes(bytes);
        source.send(&frame);
        if bytes > 1_518 {
            ended += 1;
            let begun = Instant::now();
            let dropped = |agent: &mut TestAgent| line(agent, 1).account.dropped;
            let expected = [(catena_model::DropReason::TruncatedByRing, ended)];
            while dropped(&mut agent) != expected.into() && begun.elapsed() < PATIENCE {}
            assert_eq!(dropped(&mut agent), expected.into());
            continue;
        }
        passed += 1;
        let mut expected = frame;
        advance(&mut expected, &[]).unwrap();
        assert_eq!(destination.hear(), expected, "whole");
    }
    let came = line(&mut agent, 1);
    assert_eq!(
        (came.account.received.packets, came.account.forwarded.packets),
        (passed + ended, passed)
    );
    assert_eq!((came.account.unaccounted(), came.ring_full), (0, 0));
}

#[tokio::test]
async fn links_carry_source_routes_beside_what_the_host_says_there() {
    if !is_privileged("links_carry_source_routes_beside_what_the_host_says_there") {
        return;
    }
    let machine = Machine::new().await;
    let own = Ipv4Addr::new(10, 9, 9, 1);
    let far = Ipv4Addr::new(10, 9, 9, 2);
    machine.node.links.add_address("s0", own.into(), 24).await.unwrap();
    machine.source.links.add_address("s0-far", far.into(), 24).await.unwrap();
    for interface in ["s0", "d0"] {
        machine.node.links.set_up(interface).await.unwrap();
    }
    let _dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.offer(whole(&program())), "");
    for (number, interface) in [(1, "s0"), (9, "d0")] {
        let socket = packet::open_link_socket(&machine.node.namespace, interface).unwrap();
        assert_eq!(agent.attach(link(number).link_id(), &socket), "");
    }
    let mut source = End::new(&machine.source, "s0-far");
    let mut destination = End::new(&machine.destination, "d0-far");
    for other in others() {
        source.send(&other);
    }
    for frame in frames() {
        source.send(&frame);
        let mut expected = frame;
        if let Next::Pop(_) = advance(&mut expected, &[]).unwrap() {
            expected.drain(..PORT_BYTES);
        }
        assert_eq!(destination.hear(), expected, "but for its counter");
    }
    // What the host says there, it says by itself, also while frames pass.
    let bind = |address: IpAddr| move || UdpSocket::bind((address, 9_000));
    let here = run_in(&machine.node.namespace, bind(own.into())).unwrap().unwrap();
    let there = run_in(&machine.source.namespace, bind(far.into())).unwrap().unwrap();
    here.set_read_timeout(Some(PATIENCE)).unwrap();
    there.send_to(b"over the link", (own, 9_000)).unwrap();
    let mut bytes = [0; 64];
    let (length, from) = here.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..length], from.ip()), (&b"over the link"[..], IpAddr::from(far)));
    let begun = Instant::now();
    while line(&mut agent, 9).transmitted.packets < 4 && begun.elapsed() < PATIENCE {}
    let (came, left) = (line(&mut agent, 1), line(&mut agent, 9));
    assert_eq!((came.account.received.packets, came.account.forwarded.packets), (4, 4));
    assert_eq!((left.transmitted.packets, left.account.received.packets), (4, 0));
    assert_eq!((came.name.as_str(), came.account.unaccounted(), came.ring_full), ("s0", 0, 0));
    // A link without a ring is dead: no frame here knows a way round it.
    assert_eq!(agent.detach(link(9).link_id()), "");
    source.send(&frames()[0]);
    let begun = Instant::now();
    while line(&mut agent, 1).account.dropped.is_empty() && begun.elapsed() < PATIENCE {}
    let dropped = line(&mut agent, 1).account.dropped;
    assert_eq!(dropped.into_iter().collect::<Vec<_>>(), [(catena_model::DropReason::LinkDead, 1)]);
}
