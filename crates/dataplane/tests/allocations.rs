//! Once warm, the engine allocates nothing, whatever the packet is and wherever it goes.

// What is common to the tests stands outside of them, where the lint cannot see that it is one.
#![allow(clippy::unwrap_used)]

#[path = "engine/frames.rs"]
#[allow(dead_code, reason = "shared with the tests of the engine")]
mod frames;
#[path = "engine/scene.rs"]
#[allow(dead_code, reason = "shared with the tests of the engine")]
mod scene;
#[path = "engine/town.rs"]
#[allow(dead_code, reason = "shared with the tests of the engine")]
mod town;

use catena_dataplane::engine::{
    Engine, EngineConfig, Output, Packet, PortSlot, TunnelKind, VECTOR_PACKETS_MAX,
};
use catena_io::{BufferPool, CountingAllocator, PartialChecksum};
use catena_model::bundle::Configuration;
use catena_model::program::{
    PROXY_MAC, SliceEntry, SliceMatch, SlicePathEntry, SlicePolicy, SliceRate,
};
use catena_model::resource::Encapsulation;
use catena_model::slice::SlicePlace;
use catena_model::topology::PortNumber;
use catena_model::{PathId, SliceId};
use catena_wire::scalar::{EtherType, IpProtocol, MacAddr, Teid, TeidRange};
use frames::Spec;
use scene::{CUSTOMER, INTERNAL, PLAIN_PORT, packet, packet_v6, rules, three_hosts};
use std::net::IpAddr;
use std::sync::Arc;
use town::{Town, node_address, node_name};
use uuid::Uuid;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Buffers of all nodes together: they wander from one to the other.
const BUFFERS: usize = 2_048;
/// Ports and links of a node, at most.
const SLOTS: usize = 32;
/// Rounds before memory is counted, and while it is.
const ROUNDS: usize = 12;
/// Passes that take every packet of a round to its end.
const PASSES: usize = 12;

struct Node {
    engine: Engine,
    inbox: Vec<Packet>,
    out: Output,
    /// The port of each slot, by number in the town.
    ports: Vec<Option<usize>>,
    /// Of each slot with a link: the node at its other end, and the slot there.
    far_ends: Vec<Option<(usize, PortSlot)>>,
}

/// Three nodes with functions that do their work in place.
struct Street {
    town: Town,
    nodes: Vec<Node>,
    /// Where each node is on the underlay.
    addresses: Vec<IpAddr>,
    pool: BufferPool,
    now_ns: u64,
    delivered: usize,
}

impl Street {
    fn new(town: Town, has_fast_path: bool) -> Self {
        let node = |number: usize| {
            let mut config = EngineConfig::new(node_name(number));
            config.has_fast_path = has_fast_path;
            let mut engine = Engine::new(config);
            engine.replace_tables(Arc::new(town.tables(number)));
            let mut ports = vec![None; SLOTS];
            for (index, port) in town.ports.iter().enumerate() {
                if let Some(slot) = engine.slot_of(port.id) {
                    ports[slot.index()] = Some(index);
                }
            }
            let inbox = Vec::with_capacity(VECTOR_PACKETS_MAX * 2);
            let far_ends = vec![None; SLOTS];
            Node { engine, inbox, out: Output::default(), ports, far_ends }
        };
        let mut nodes: Vec<Node> = (0..town.nodes).map(node).collect();
        let link = |number| PortNumber::new(number).unwrap().link_id();
        for from in 0..town.nodes {
            for (number, (to, far)) in town.links(from) {
                let [near, far] = [(from, number), (to, far)]
                    .map(|(node, number)| nodes[node].engine.slot_of(link(number)).unwrap());
                nodes[from].far_ends[near.index()] = Some((to, far));
            }
        }
        let addresses = (0..town.nodes).map(node_address).collect();
        let pool = BufferPool::new(BUFFERS);
        Self { nodes, town, addresses, pool, now_ns: 1, delivered: 0 }
    }

    fn slot(&self, port: &str) -> (usize, PortSlot) {
        let port = self.town.port_named(port);
        (port.node, self.nodes[port.node].engine.slot_of(port.id).unwrap())
    }

    fn send(&mut self, (node, slot): (usize, PortSlot), frame: &[u8], checksum: Option<u16>) {
        let mut buffer = self.pool.take().unwrap();
        assert!(buffer.fill(frame));
        buffer.offload.checksum = checksum.map(|start| PartialChecksum { start, offset: 6 });
        self.nodes[node].inbox.push(Packet::from_port(slot, buffer));
    }

    /// Lets every node take what it has, and brings what comes out where it goes.
    fn pass(&mut self) {
        self.now_ns += 100_000;
        for number in 0..self.nodes.len() {
            let node = &mut self.nodes[number];
            node.engine.forward(self.now_ns, &mut node.inbox, &mut self.pool, &mut node.out);
            let mut out = std::mem::take(&mut self.nodes[number].out);
            self.nodes[number].engine.settle(&mut out.batches);
            for frame in out.frames.drain(..) {
                self.take_in(number, frame.to, frame.buffer);
            }
            for datagram in out.datagrams.drain(..) {
                let to = self.addresses.iter().position(|other| *other == datagram.to).unwrap();
                let from = self.addresses[number];
                let packet = Packet::from_tunnel(datagram.kind, from, datagram.buffer);
                self.nodes[to].inbox.push(packet);
            }
            self.nodes[number].out = out;
        }
    }

    /// A function gives its frame back, routed or moved on; an endpoint keeps it.
    fn take_in(&mut self, node: usize, slot: PortSlot, mut buffer: catena_io::Buffer) {
        if let Some((to, far)) = self.nodes[node].far_ends[slot.index()] {
            self.nodes[to].inbox.push(Packet::from_port(far, buffer));
            return;
        }
        let index = self.nodes[node].ports[slot.index()].unwrap();
        let instance = self.town.instances.iter().find(|instance| instance.ingress == index);
        let Some(instance) = instance else {
            self.delivered += 1;
            self.pool.put(buffer);
            return;
        };
        let egress = self.nodes[node].engine.slot_of(self.town.ports[instance.egress].id).unwrap();
        let bytes = buffer.bytes_mut();
        match u16::from_be_bytes([bytes[12], bytes[13]]) {
            kind if kind == EtherType::NSH.0 => bytes[14 + 7] -= 1,
            kind if kind == EtherType::MPLS.0 => {
                // The index is in the label of the second entry.
                let index = u32::from_be_bytes([0, bytes[18], bytes[19], bytes[20]]) - (1 << 4);
                bytes[18..21].copy_from_slice(&index.to_be_bytes()[1..]);
            }
            _ => bytes[..6].copy_from_slice(&PROXY_MAC.0),
        }
        self.nodes[node].inbox.push(Packet::from_port(egress, buffer));
    }
}

/// Users of these tunnels have a slice with a rate, whose packets carry who they are.
const USERS: (u32, u32) = (1, 1_000);
/// This one has a slice with neither.
const PLAIN_USER: u32 = 2_000;

/// Chains in both encapsulations, past proxies and functions that read headers, and past a tap; and a
/// slice of users.
fn town() -> Town {
    let mut town = three_hosts();
    town.speaking("v3", Encapsulation::Nsh);
    town.chain("proxies", Encapsulation::Nsh, &[&["v1"], &["v2"], &["v4"]], &rules(5_001));
    town.chain("aware", Encapsulation::Nsh, &[&["v3"], &["v4"]], &rules(5_002));
    town.chain("labels", Encapsulation::Mpls, &[&["v2"], &["v4"]], &rules(5_003));
    town.chain("either", Encapsulation::Nsh, &[&["v1", "v2"], &["v4"]], &rules(5_004));
    let routed = Encapsulation::SourceRouteNative;
    town.chain("routed", routed, &[&["v2"], &["v4"]], &rules(5_006));
    town.function("v5", 1, (CUSTOMER, INTERNAL));
    town.speaking("v5", routed);
    town.chain("read", routed, &[&["v5"], &["v2"], &["v4"]], &rules(5_009));
    let safe = Encapsulation::SourceRouteSafe9;
    town.chain("safe", safe, &[&["v2"], &["v4"]], &rules(5_007));
    let classic = Encapsulation::SourceRouteClassic80;
    town.chain("classic", classic, &[&["v2"], &["v4"]], &rules(5_008));
    town.function("v6", 1, (CUSTOMER, INTERNAL));
    town.bundled.insert(("v6".into(), String::new()), firewall());
    town.chain("inside", Encapsulation::Nsh, &[&["v6"], &["v4"]], &rules(5_010));
    town.chain("tapped", Encapsulation::Nsh, &[&["v2"], &["v4"]], &rules(5_005)).taps = vec![0];
    let (id, path, like) = (SliceId(Uuid::from_u128(1)), PathId(500_000), town.chains[0].path);
    let teids = TeidRange::new(Teid(USERS.0), Teid(USERS.1)).unwrap();
    let place = SlicePlace::Endpoints;
    let matches = SliceMatch { place, tunnel_id: None, teids: Some(teids), qfi: None };
    let rate = SliceRate { bits_per_second: 10_000_000_000, burst_bytes: 1_000_000 };
    let policy = SlicePolicy { rate: Some(rate), ..SlicePolicy::default() };
    let name = "users".to_owned();
    town.slices.push(SliceEntry { id, name, matches, path, policy, is_injected: false });
    let like = PathId(like);
    town.slice_paths.push(SlicePathEntry { id: path, slice: id, like, carries_metadata: true });
    let (id, path) = (SliceId(Uuid::from_u128(2)), PathId(500_001));
    let matches = SliceMatch { teids: Some(TeidRange::one(Teid(PLAIN_USER))), ..matches };
    let (name, policy) = ("plain".to_owned(), SlicePolicy::default());
    town.slices.push(SliceEntry { id, name, matches, path, policy, is_injected: false });
    town.slice_paths.push(SlicePathEntry { id: path, slice: id, like, carries_metadata: false });
    town
}

/// A firewall that follows connections, and drops some.
fn firewall() -> Configuration {
    let text = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
                -A FORWARD -p udp -m udp --sport 40001 -j DROP\n\
                -A FORWARD -p udp -m udp --sport 40002 -j REJECT\nCOMMIT\n";
    let config = serde_json::json!({"file": {"name": "edge.iptables", "text": text}});
    Configuration::new("firewall", config.to_string())
}

/// A packet of a user behind his GTP-U header (3GPP TS 29.281, section 5.1).
fn of_user(town: &Town, teid: u32, flow: u16) -> Vec<u8> {
    let outer = packet(town, PLAIN_PORT);
    let inner = Spec { ports: (flow, 80), ..outer.clone() }.frame().split_off(14);
    let mut payload = vec![0x30, 0xff];
    payload.extend((inner.len() as u16).to_be_bytes());
    payload.extend(teid.to_be_bytes());
    payload.extend(inner);
    Spec { protocol: IpProtocol::UDP, ports: (2_152, 2_152), payload, ..outer }.frame()
}

/// Every kind of packet: chained and not, both families, TCP and UDP, and those that end by name.
fn kinds(town: &Town) -> Vec<(Vec<u8>, Option<u16>)> {
    let mut kinds = Vec::new();
    for port in (5_001..=5_010).chain([PLAIN_PORT]) {
        for (is_v6, protocol) in
            [(false, IpProtocol::UDP), (false, IpProtocol::TCP), (true, IpProtocol::UDP)]
        {
            let spec = if is_v6 { packet_v6(town, port) } else { packet(town, port) };
            for flow in 0..3 {
                let ports = (40_000 + flow, port);
                // Of lengths that let no two share a row: the street cuts none.
                let payload = vec![7; 40 + 100 * usize::from(flow)];
                let spec = Spec { ports, protocol, payload, ..spec.clone() };
                kinds.push((spec.frame(), None));
            }
        }
    }
    // Users of the slices, and one of none.
    for teid in [USERS.0, USERS.1, PLAIN_USER, USERS.1 + 1] {
        kinds.extend((0..3).map(|flow| (of_user(town, teid, 50_000 + flow), None)));
    }
    let plain = packet(town, PLAIN_PORT);
    kinds.push((packet(town, 5_001).frame(), Some(34)));
    let nowhere = Spec { destination_mac: MacAddr([2; 6]), ..plain.clone() };
    kinds.push((nowhere.frame(), None));
    let everybody = Spec { destination_mac: MacAddr::BROADCAST, ..plain.clone() };
    kinds.push((everybody.frame(), None));
    kinds.push((Spec { vlan: Some(3), ..plain.clone() }.frame(), None));
    kinds.push((Spec { fragment: (0, true), ..plain.clone() }.frame(), None));
    // The last part of a datagram first: it waits.
    let chained = Spec { identification: 99, payload: vec![7; 24], ..packet(town, 5_001) };
    for fragment in [(4, false), (0, true)] {
        kinds.push((Spec { fragment, ..chained.clone() }.frame(), None));
    }
    kinds.push((plain.frame()[..30].to_vec(), None));
    kinds
}

fn allocations_of(has_fast_path: bool) -> (u64, usize, u64) {
    let town = town();
    let kinds = kinds(&town);
    let mut street = Street::new(town, has_fast_path);
    let source = street.slot("S");
    // Two that are other nodes, and one that is nobody.
    let senders = [1, 1, 7].map(node_address);
    let mut asked = 0;
    for round in 0..2 * ROUNDS {
        if round == ROUNDS {
            street.delivered = 0;
            asked = CountingAllocator::asked();
        }
        for (frame, checksum) in &kinds {
            street.send(source, frame, *checksum);
        }
        // Datagrams that mean nothing, and from nobody.
        for (kind, from) in TunnelKind::ALL.into_iter().zip(senders) {
            let mut buffer = street.pool.take().unwrap();
            assert!(buffer.fill(&[0x5a; 60]));
            street.nodes[0].inbox.push(Packet::from_tunnel(kind, from, buffer));
        }
        for _ in 0..PASSES {
            street.pass();
        }
    }
    let asked = CountingAllocator::asked() - asked;
    let of_users = street.nodes[0].engine.slice_counters(None, 1);
    assert_eq!(of_users[0].entered.packets, 2 * ROUNDS as u64 * 6, "{:?}", of_users[0]);
    assert_eq!(street.pool.free(), BUFFERS, "a buffer is lost");
    (asked, street.delivered, street.nodes.iter().map(|node| node.engine.by_fast_path()).sum())
}

#[test]
fn no_packet_of_any_kind_allocates_once_the_engine_is_warm() {
    let (asked, delivered, by_fast_path) = allocations_of(true);
    assert!(delivered > ROUNDS * 54, "only {delivered} packets were delivered");
    assert!(by_fast_path > 1_000, "only {by_fast_path} packets went by the lane");
    assert_eq!(asked, 0, "memory was asked for {asked} times");
}

#[test]
fn the_long_way_allocates_nothing_either() {
    let (asked, delivered, by_fast_path) = allocations_of(false);
    assert!(delivered > ROUNDS * 54, "only {delivered} packets were delivered");
    assert_eq!((asked, by_fast_path), (0, 0), "memory was asked for {asked} times");
}
