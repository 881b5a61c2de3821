//! Ordinary traffic: unicast, groups, both sides of a tunnel.

use crate::proxy::arp_request;
use crate::rig::Rig;
use crate::scene::{CUSTOMER, PLAIN_PORT, packet, three_hosts};
use crate::town::node_address;
use catena_dataplane::engine::TunnelKind;
use catena_model::DropReason;
use catena_wire::scalar::{MacAddr, Vni};
use catena_wire::vxlan::VxlanHeader;

fn vxlan(vni: u32, frame: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; VxlanHeader::LEN];
    VxlanHeader { vni: Vni::new(vni).unwrap() }.emit(&mut bytes).unwrap();
    bytes.extend(frame);
    bytes
}

#[test]
fn a_broadcast_reaches_every_other_port_of_the_network_once() {
    let mut town = three_hosts();
    town.endpoint("T", 0, CUSTOMER, &["10.0.0.3"]);
    let mut rig = Rig::new(town);
    let question = arp_request(rig.town.mac("S"), "10.0.0.1", "10.0.0.2");
    rig.send("S", &question);
    // host1: T, v1.in, host2, host3; the customer's ports at host2: v2.in, at host3: D.
    rig.assert_moved(&[
        ("S received", 1),
        ("S created replica", 3),
        ("S forwarded", 4),
        ("T transmitted", 1),
        ("v1.in transmitted", 1),
        ("host1 tunnels transmitted", 2),
        ("host2 tunnels received", 1),
        ("host2 tunnels forwarded", 1),
        ("v2.in transmitted", 1),
        ("host3 tunnels received", 1),
        ("host3 tunnels forwarded", 1),
        ("D transmitted", 1),
    ]);
    for port in ["T", "v1.in", "v2.in", "D"] {
        assert_eq!(rig.take(port), std::slice::from_ref(&question), "{port}");
    }
    assert_eq!(rig.take("S"), Vec::<Vec<u8>>::new());
}

#[test]
fn a_replica_without_a_buffer_is_created_and_dropped() {
    let mut town = three_hosts();
    town.endpoint("T", 0, CUSTOMER, &["10.0.0.3"]);
    let mut rig = Rig::with(town, |_| {}, 2);
    let question = arp_request(rig.town.mac("S"), "10.0.0.1", "10.0.0.2");
    rig.send("S", &question);
    let moved = rig.moved();
    assert_eq!(moved["S created replica"], 3);
    assert_eq!(moved["S dropped buffers_exhausted"], 2);
    assert_eq!(moved["S forwarded"], 2);
}

#[test]
fn what_comes_from_a_node_goes_to_no_third() {
    let mut rig = Rig::new(three_hosts());
    let source = node_address(1);
    let frame = packet(&rig.town, PLAIN_PORT).frame();
    rig.send_datagram(0, TunnelKind::Vxlan, source, &vxlan(100, &frame));
    rig.assert_only_dropped("host1 tunnels", DropReason::UnknownMac);
    let question = arp_request(rig.town.mac("D"), "10.0.0.2", "10.0.0.1");
    rig.send_datagram(0, TunnelKind::Vxlan, source, &vxlan(100, &question));
    rig.assert_moved(&[
        ("host1 tunnels received", 1),
        ("host1 tunnels created replica", 1),
        ("host1 tunnels forwarded", 2),
        ("S transmitted", 1),
        ("v1.in transmitted", 1),
    ]);
}

#[test]
fn networks_are_apart() {
    let mut rig = Rig::new(three_hosts());
    let mut frame = packet(&rig.town, PLAIN_PORT);
    frame.destination_mac = rig.town.mac("v3.in");
    rig.send("S", &frame.frame());
    rig.assert_only_dropped("S", DropReason::UnknownMac);
}

#[test]
fn a_broadcast_that_nobody_can_hear_ends_by_name() {
    let mut town = three_hosts();
    let lonely = town.network(300, &["10.3.0.0/24"]);
    town.endpoint("L", 0, lonely, &["10.3.0.1"]);
    let mut rig = Rig::new(town);
    rig.send("L", &arp_request(rig.town.mac("L"), "10.3.0.1", "10.3.0.2"));
    rig.assert_only_dropped("L", DropReason::UnknownMac);
}

#[test]
fn no_bridge_passes_what_is_for_bridges() {
    let mut rig = Rig::new(three_hosts());
    let mut frame = packet(&rig.town, PLAIN_PORT);
    frame.destination_mac = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    rig.send("S", &frame.frame());
    rig.assert_only_dropped("S", DropReason::UnknownMac);
}
