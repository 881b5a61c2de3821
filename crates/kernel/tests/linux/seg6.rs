//! Segment routing of Linux beside that of `wire`: three namespaces, and packets that go through the middle one.
//!
//! ```text
//! sender s0 ──── to-s router to-r ──── r0 receiver
//! ```

mod draw;
mod endpoints;
mod ingress;
mod keys;
mod recorded;

use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::process::Command;

use catena_kernel::namespace::run_in;
use catena_kernel::{packet, sysctl};
use catena_wire::ethernet::EthernetHeader;
use catena_wire::ipv6::{self, Ipv6Header};
use catena_wire::scalar::{EtherType, FlowLabel, IpProtocol, MacAddr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::{Node, PATIENCE};

const SENDER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const ROUTER_IN: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const ROUTER_OUT: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const RECEIVER: MacAddr = MacAddr([2, 0, 0, 0, 0, 4]);
/// What the router says is in front of a packet that it encapsulates.
const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 1, 0, 0, 0, 0, 1);
/// The receiver's addresses on the link to the router.
const RECEIVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, 2);
const RECEIVER_V4: &str = "10.9.0.2";
/// One behind it. End.DX4 of Linux asks a link for the packet's own destination where the next hop is at the link.
const BEHIND_RECEIVER_V4: &str = "10.8.0.1";
const KEY_ID: u32 = 0x0102_0304;
/// The secret 00 01 .. 1f.
const SECRET: [u8; 32] = {
    let mut secret = [0; 32];
    let mut octet = 0;
    while octet < secret.len() {
        secret[octet] = octet as u8;
        octet += 1;
    }
    secret
};
/// `struct virtio_net_hdr`, which packet sockets have in front of a frame.
const VNET_HEADER_BYTES: usize = 10;
const ETHERNET_BYTES: usize = 14;

/// A router that knows segment routing, between two that send and receive bytes.
struct Testbed {
    _ends: [Node; 2],
    router: Node,
    out: OwnedFd,
    into: OwnedFd,
    marks: u32,
}

impl Testbed {
    /// One whose router sends everything on to the receiver, but for what routes say.
    async fn new(routes: &[String]) -> Self {
        let (sender, router, receiver) =
            (Node::new("sender"), Node::new("router"), Node::new("receiver"));
        for (link, mac, end, far, far_mac) in [
            ("to-s", ROUTER_IN, &sender, "s0", SENDER),
            ("to-r", ROUTER_OUT, &receiver, "r0", RECEIVER),
        ] {
            let macs = (Some(mac.0), Some(far_mac.0));
            router.links.add_veth(link, far, &end.namespace, 1500, macs.0, macs.1).await.unwrap();
            router.links.set_up(link).await.unwrap();
            end.links.set_up(far).await.unwrap();
        }
        for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            sysctl::write_in(&router.namespace, key, "1").unwrap();
        }
        router.address("to-r", "10.9.0.1", 24).await;
        router.address("to-r", "fd00:2::1", 64).await;
        for address in [RECEIVER_V6.into(), RECEIVER_V4.parse().unwrap()] {
            router.links.add_neighbour(address, RECEIVER.0, "to-r").await.unwrap();
        }
        let out = packet::open_sending_socket(&sender.namespace, "s0").unwrap();
        let into = packet::open_packet_socket(&receiver.namespace, "r0").unwrap();
        // On one processor the kernel sends packets on in the order in which they were sent.
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        sched_setaffinity(None, &one).unwrap();
        let testbed = Self { _ends: [sender, receiver], router, out, into, marks: 0 };
        let own = [
            format!("sr tunsrc set {SOURCE}"),
            format!("-6 route add default via {RECEIVER_V6} dev to-r"),
            format!("-6 route add default via {RECEIVER_V6} dev to-r table 100"),
            format!("-4 route add default via {RECEIVER_V4} dev to-r"),
        ];
        own.iter().chain(routes).for_each(|arguments| testbed.ip(arguments));
        testbed
    }

    /// The router does what `ip` is told.
    fn ip(&self, arguments: &str) {
        let run = || Command::new("ip").args(arguments.split(' ')).output().unwrap();
        let output = run_in(&self.router.namespace, run).unwrap();
        assert!(
            output.status.success(),
            "{arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn send(&self, packet: &[u8]) {
        let bytes = [&[0; VNET_HEADER_BYTES], &to_router(packet)[..]].concat();
        assert_eq!(rustix::io::write(&self.out, &bytes), Ok(bytes.len()));
    }

    /// The next frame that comes to the receiver.
    fn receive(&self) -> Vec<u8> {
        let limit = Timespec { tv_sec: PATIENCE.as_secs().try_into().unwrap(), tv_nsec: 0 };
        loop {
            let mut ready = [PollFd::new(&self.into, PollFlags::IN)];
            assert_eq!(poll(&mut ready, Some(&limit)), Ok(1), "not even the mark came");
            let mut bytes = [0; 2048];
            let length = rustix::io::read(&self.into, &mut bytes).unwrap();
            let frame = &bytes[VNET_HEADER_BYTES..length];
            // What the router itself has to say to all is of no interest.
            if frame.starts_with(&RECEIVER.0) {
                return frame.to_vec();
            }
        }
    }

    /// The frame that comes out of the router for a packet, if any. Behind the packet goes a mark that the router sends
    /// on, so that nothing need be waited for where nothing comes.
    fn answer(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        self.marks += 1;
        let mut mark = mark(self.marks);
        self.send(packet);
        self.send(&mark);
        ipv6::set_hop_limit(&mut mark, 63).unwrap();
        let mark = from_router(&mark);
        let first = Some(self.receive()).filter(|frame| *frame != mark)?;
        assert_eq!(self.receive(), mark, "one packet came out as two");
        Some(first)
    }
}

/// The frame in which the router gets a packet.
fn to_router(packet: &[u8]) -> Vec<u8> {
    framed(ROUTER_IN, SENDER, ethertype(packet), packet)
}

/// The frame in which it sends one on.
fn from_router(packet: &[u8]) -> Vec<u8> {
    framed(RECEIVER, ROUTER_OUT, ethertype(packet), packet)
}

fn ethertype(packet: &[u8]) -> EtherType {
    if packet[0] >> 4 == 6 { EtherType::IPV6 } else { EtherType::IPV4 }
}

fn framed(destination: MacAddr, source: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let header = EthernetHeader::untagged(destination, source, ethertype);
    [&emitted(|into| header.emit(into)), payload].concat()
}

/// A packet to the receiver that has a number and nothing else.
fn mark(number: u32) -> Vec<u8> {
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: FlowLabel::new(number).unwrap(),
        payload_length: 0,
        next_header: IpProtocol::NO_NEXT,
        hop_limit: 64,
        source: SOURCE,
        destination: RECEIVER_V6,
    };
    emitted(|into| header.emit(into))
}

/// Bytes written by an emitter that is given room enough.
fn emitted<E: std::fmt::Debug>(emit: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Vec<u8> {
    let mut into = vec![0xa5; 4096];
    let length = emit(&mut into).unwrap();
    into.truncate(length);
    into
}
