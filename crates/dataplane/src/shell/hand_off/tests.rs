//! Workers under a load that crosses between all of them, by rings of four places: what one would do
//! with all the packets, they do together.

use crate::engine::{EngineConfig, Tables};
use crate::shell::order::Order;
use crate::shell::worker_pool::{WorkerPool, WorkerPoolParts};
use catena_io::{Buffer, BufferPool, LocalPort, Port};
use catena_model::account::NodeCounters;
use catena_model::id::{NetworkId, PortId};
use catena_model::program::{Location, MacEntry, NetworkEntry, PortEntry, PortRole, Underlay};
use catena_model::resource::{Attachment, InterfaceRef};
use catena_model::{BlueprintNumber, NodeName, NodeProgram};
use catena_wire::scalar::{MacAddr, Vni};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

const PORTS: u8 = 6;
/// Flows from each port to each other, and frames of each.
const FLOWS: u8 = 4;
const FRAMES: u32 = 200;
/// Frames that a port sends before it looks whether any have come.
const TURN: usize = 48;
/// Frames that may be under way: a port has room for all of them.
const UNDER_WAY_MAX: u32 = 1_024;
const TABLES_EVERY: u32 = 2_000;
const PATIENCE: Duration = Duration::from_secs(120);

fn mac(port: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port])
}

fn port_id(port: u8) -> PortId {
    PortId(Uuid::from_u128(u128::from(port) + 1))
}

/// Endpoints in one network, and nothing else.
fn program(number: u64) -> NodeProgram {
    let node = NodeName::new("host1").unwrap();
    let underlay = Underlay { address: Ipv4Addr::new(192, 0, 2, 1).into(), mtu: 1_500 };
    let mut program = NodeProgram::empty(node, BlueprintNumber(number), underlay);
    let network = NetworkId(Uuid::from_u128(100));
    program.networks.push(NetworkEntry {
        id: network,
        name: "customer".into(),
        vni: Vni::new(100).unwrap(),
        prefixes: vec!["10.0.0.0/24".parse().unwrap()],
        gateways: Vec::new(),
        members: Vec::new(),
    });
    for port in 0..PORTS {
        let (id, name) = (port_id(port), format!("p{port}"));
        let attachment =
            Attachment::Interface(InterfaceRef { namespace: None, interface: name.clone() });
        let (mac, role) = (mac(port), PortRole::Endpoint);
        let own_sources = None;
        let entry = PortEntry { id, name, network, mac, role, attachment, own_sources };
        program.ports.push(entry);
        program.macs.push(MacEntry { network, mac, at: Location::Port(id) });
    }
    program
}

fn change(workers: &mut WorkerPool, number: u64) {
    let tables = Arc::new(Tables::compile(&program(number)).unwrap());
    let order = |done| Order::Tables { tables: Arc::clone(&tables), is_inherited: false, done };
    workers.order_at_once(order).unwrap();
}

/// A datagram of a flow, with its number.
fn fill(buffer: &mut Buffer, (from, to, flow): (u8, u8, u8), number: u32) {
    let mut bytes = [mac(to).0, mac(from).0].concat();
    bytes.extend([8, 0, 0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    bytes.extend([40, flow, 0x13, 0x89, 0, 12, 0, 0]);
    bytes.extend(number.to_be_bytes());
    assert!(buffer.fill(&bytes));
}

/// The flow of a datagram, and its number.
fn read(bytes: &[u8]) -> ((u8, u8, u8), u32) {
    ((bytes[29], bytes[33], bytes[35]), u32::from_be_bytes(bytes[42..46].try_into().unwrap()))
}

/// The far end of a port: what it sends, and in which order what comes to it must come.
struct Far {
    port: LocalPort,
    pool: BufferPool,
    to_send: Vec<((u8, u8, u8), u32)>,
    next: BTreeMap<(u8, u8, u8), u32>,
}

impl Far {
    fn new(own: u8, port: LocalPort) -> Self {
        let others = || (0..PORTS).filter(move |other| *other != own);
        let flows = others().flat_map(|other| (0..FLOWS).map(move |flow| (own, other, flow)));
        let flows: Vec<_> = flows.collect();
        // Taken from the end.
        let frames = (0..FRAMES).rev().flat_map(|number| flows.iter().map(move |f| (*f, number)));
        let to_send = frames.collect();
        Self { port, pool: BufferPool::new(2 * TURN), to_send, next: BTreeMap::new() }
    }

    /// How many have left.
    fn send(&mut self, max: usize) -> u32 {
        let frame = |(flow, number)| {
            let mut buffer = self.pool.take().unwrap();
            fill(&mut buffer, flow, number);
            buffer
        };
        let rest = self.to_send.len().saturating_sub(max);
        let mut frames: Vec<Buffer> = self.to_send.drain(rest..).rev().map(frame).collect();
        let sent = self.port.transmit(&mut frames, &mut self.pool);
        assert_eq!(sent.failed, 0);
        sent.sent
    }

    /// How many have come.
    fn receive(&mut self) -> u32 {
        let mut came = Vec::new();
        let received = self.port.receive(&mut self.pool, &mut came, TURN);
        for buffer in came {
            let (flow, number) = read(buffer.bytes());
            let next = self.next.entry(flow).or_default();
            assert_eq!(number, *next, "of flow {flow:?}");
            *next += 1;
            self.pool.put(buffer);
        }
        received.frames
    }
}

fn counted(workers: &mut WorkerPool) -> NodeCounters {
    let (mut counters, others) =
        workers.order_all(|done| Order::Counters { of: None, done }).unwrap();
    others.iter().for_each(|other| counters.merge(other));
    *counters
}

fn cross(count: usize) {
    let parts = WorkerPoolParts {
        workers: NonZeroUsize::new(count).unwrap(),
        own_cores: Vec::new(),
        remembered: None,
        are_confined: false,
        function_threads: 0,
        function_form: None,
    };
    let config = EngineConfig::new(NodeName::new("host1").unwrap());
    let mut workers = WorkerPool::start(&config, parts).unwrap();
    change(&mut workers, 1);
    let attach = |port| {
        let (near, far) = LocalPort::pair(UNDER_WAY_MAX as usize).unwrap();
        assert!(workers.attach(port_id(port), Box::new(near), None).unwrap().is_ok());
        Far::new(port, far)
    };
    let mut fars: Vec<Far> = (0..PORTS).map(attach).collect();
    let all = u32::from(PORTS) * u32::from(PORTS - 1) * u32::from(FLOWS) * FRAMES;
    let (mut sent, mut came, mut number, begun) = (0, 0, 1, Instant::now());
    while came < all {
        for far in &mut fars {
            let room = UNDER_WAY_MAX - (sent - came);
            sent += far.send(TURN.min(room as usize));
            came += far.receive();
        }
        if came / TABLES_EVERY >= number {
            number += 1;
            change(&mut workers, number.into());
            assert_eq!(counted(&mut workers).total().unaccounted(), 0);
        }
        if begun.elapsed() >= PATIENCE {
            let total = counted(&mut workers).total();
            panic!("{count} workers: {came} of {all} came, {sent} were sent: {total:?}");
        }
    }
    // What was sent is booked once whoever sent it has said so.
    let mut counters = counted(&mut workers);
    while counters.total().held > 0 && begun.elapsed() < PATIENCE {
        counters = counted(&mut workers);
    }
    let total = counters.total();
    assert_eq!((total.received.packets, total.forwarded.packets), (all.into(), all.into()));
    assert_eq!((total.held, total.dropped_total(), total.unaccounted()), (0, 0, 0));
    // Everybody has had a share.
    let (first, others) = workers.order_all(|done| Order::Counters { of: None, done }).unwrap();
    assert_eq!(others.len() + 1, count);
    for counters in std::iter::once(&first).chain(&others) {
        let decided = counters.total().received.packets;
        assert!(decided > u64::from(all) / (4 * count as u64), "{decided} of {all}");
    }
}

#[test]
fn workers_that_hand_each_other_everything_lose_nothing_and_keep_the_order() {
    for workers in [1, 2, 3, 5] {
        cross(workers);
    }
}
