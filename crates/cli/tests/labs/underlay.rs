//! What the data network between hosts carries: no frame larger than its MTU, nothing in
//! fragments, and of larger ones only UDP super-frames of our tunnels, whose segments each fit.
//!
//! The kernel shows a super-frame as one large frame wherever an interface takes it whole. So each
//! stream runs twice: once as it is, where only declared super-frames may be large, and once with
//! interfaces that take no super-frames: there the kernel cuts them before they leave, as it would
//! for a card, and every frame on the wire is seen by itself.

use crate::account;
use crate::capture::{Capture, Frame};
use crate::house::{House, in_shared_house};
use crate::patience::wait_for;
use crate::streams::{stream, stream_with};
use crate::traffic::{Family, address};
use catena_model::account::{Created, NodeCounters};
use serde_json::json;
use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

const PORT: u16 = 5_050;
/// Underlay MTU of 1,500 bytes and the Ethernet header.
const FRAME_BYTES_MAX: usize = 1_514;
/// VXLAN (RFC 7348), VXLAN-GPE, MPLS over UDP (RFC 7510).
const TUNNEL_PORTS: [u16; 3] = [4_789, 4_790, 6_635];
const HOSTS: [&str; 4] = ["host1", "host2", "host3", "host4"];

/// A frame of the underlay: IPv4, UDP, to a port of our tunnels; whether it is a fragment.
fn tunnel_frame(frame: &Frame) -> (u16, bool) {
    let byte = |at: usize| frame.bytes.get(at).copied().expect("a whole header");
    let pair = |at: usize| u16::from_be_bytes([byte(at), byte(at + 1)]);
    assert_eq!(pair(12), 0x0800, "neither ARP nor IPv4 on the underlay");
    let is_fragment = pair(20) & 0x3fff != 0;
    assert_eq!(byte(23), 17, "something other than UDP on the underlay");
    let header = usize::from(byte(14) & 0x0f) * 4;
    (pair(14 + header + 2), is_fragment)
}

/// A stream over hosts with captures on the data network: the frames of all hosts.
fn frames_of_a_stream(house: &House, encapsulation: &str, family: Family) -> Vec<Frame> {
    let chain = json!({
        "name": "wide", "source": "S", "destination": "D", "encapsulation": encapsulation,
        "chain": [{"name": "v8", "direction": "same"}, {"name": "v9", "direction": "same"}],
        "match_fields": {
            "ethertype": family.ethertype(), "protocol": "tcp", "destination_port": PORT,
        },
    });
    let chain = house.deploy(chain);
    let folder = tempfile::tempdir().expect("a folder");
    let captures =
        HOSTS.map(|host| Capture::start(&house.node(host), "data0", "not arp", folder.path()));
    let to = SocketAddr::new(address("D", family), PORT);
    stream(&house.node("S"), &house.node("D"), to, Duration::from_millis(300));
    let frames: Vec<Frame> = captures.into_iter().flat_map(Capture::frames).collect();
    assert!(frames.len() > 100, "{} frames", frames.len());
    house.undeploy(&chain.chain);
    frames
}

fn no_underlay_frame_is_larger_than_its_mtu(encapsulation: &str) {
    in_shared_house(|house| {
        for family in Family::BOTH {
            for frame in frames_of_a_stream(house, encapsulation, family) {
                let (port, is_fragment) = tunnel_frame(&frame);
                assert!(TUNNEL_PORTS.contains(&port), "port {port}");
                assert!(!is_fragment, "a fragment of {} bytes", frame.length);
            }
        }
        for host in HOSTS {
            house.node(host).ip("link set data0 gso_max_size 1514");
        }
        let mut largest = 0;
        for family in Family::BOTH {
            for frame in frames_of_a_stream(house, encapsulation, family) {
                let (_, is_fragment) = tunnel_frame(&frame);
                assert!(frame.length <= FRAME_BYTES_MAX, "a frame of {} bytes", frame.length);
                assert!(!is_fragment, "a fragment of {} bytes", frame.length);
                largest = largest.max(frame.length);
            }
        }
        for host in HOSTS {
            house.node(host).ip("link set data0 gso_max_size 65536");
        }
        println!("{encapsulation}: largest frame {largest} bytes");
        account::assert_holds(house);
    });
}

#[test]
fn no_underlay_frame_is_larger_than_its_mtu_by_nsh() {
    no_underlay_frame_is_larger_than_its_mtu("nsh");
}

#[test]
fn no_underlay_frame_is_larger_than_its_mtu_by_mpls() {
    no_underlay_frame_is_larger_than_its_mtu("mpls");
}

/// How a data plane begins what it says of an underlay that is too small.
const NARROW: &str = "the underlay's devices take packets of";

/// Gives the data network of all hosts an MTU, and waits until every data plane knows it.
fn resize(house: &House, mtu: u16) {
    for host in HOSTS {
        house.node(host).ip(&format!("link set data0 mtu {mtu}"));
    }
    let is_small = mtu < 1_500;
    wait_for("data planes that know their underlay", || {
        let knows = |node: &NodeCounters| {
            let troubles = &node.dataplane.troubles;
            let told =
                if is_small { format!("take packets of {mtu} bytes") } else { NARROW.into() };
            troubles.iter().any(|line| line.contains(&told)) == is_small
        };
        let all = account::counters(house);
        let late = all.iter().find(|node| !knows(node));
        late.map_or(Ok(()), |node| Err(format!("{}: {:?}", node.node, node.dataplane.troubles)))
    });
}

/// Answers that all nodes made to packets that were too big.
fn told(house: &House) -> u64 {
    let of = |node: &NodeCounters| {
        node.total().created.get(&Created::PacketTooBig).copied().unwrap_or_default()
    };
    account::counters(house).iter().map(of).sum()
}

/// What a stream still moves behind the fall: more than all buffers between its ends.
const WRITES_AFTER: u32 = 300;

#[test]
fn tcp_through_a_chain_lives_when_the_underlay_shrinks() {
    in_shared_house(|house| {
        let (source, destination) = (house.node("S"), house.node("D"));
        for encapsulation in ["nsh", "mpls"] {
            let chain = house.deploy(json!({
                "name": "narrow", "source": "S", "destination": "D", "encapsulation": encapsulation,
                "chain": [{"name": "v8", "direction": "same"}, {"name": "v9", "direction": "same"}],
                "match_fields": {
                    "ethertype": Family::V4.ethertype(), "protocol": "tcp", "destination_port": PORT,
                },
            }));
            let (writes, before) = (Cell::new(0), told(house));
            let to = SocketAddr::new(address("D", Family::V4), PORT);
            let bytes = stream_with(&source, &destination, to, None, || {
                writes.set(writes.get() + 1);
                if writes.get() == 50 {
                    resize(house, 1_300);
                }
                writes.get() < 50 + WRITES_AFTER
            });
            let answers = told(house) - before;
            assert!(answers > 0, "nobody was told");
            println!("{encapsulation}: {bytes} bytes, {answers} answers");
            resize(house, 1_500);
            // What the sender has learned is not for the tests after this.
            source.ip("route flush cache");
            account::assert_holds(house);
            house.undeploy(&chain.chain);
        }
    });
}
