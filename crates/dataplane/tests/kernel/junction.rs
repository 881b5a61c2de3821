//! A node whose links end in the test, twice: an engine alone, and one with the kernel's program before its links.
//! Frames are sent into real cables, since a tag comes beside a frame only there; what leaves must be the same at both.

use crate::town::{Town, node_name};
use catena_dataplane::engine::{
    Engine, EngineConfig, KernelPort, LinkBoard, Origin, Output, Packet,
};
use catena_dataplane::engine::{PortSlot, Tables as Compiled};
use catena_dataplane::shell::KernelTables;
use catena_fastpath::{Event, Port, Program, PuntTag, PuntedFrom, Settings, Sizes, Tables};
use catena_io::{Buffer, BufferPool, PacketRing, RingConfig};
use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::netlink::Netlink;
use catena_kernel::{capabilities, packet, sysctl, tc};
use catena_model::account::NodeCounters;
use catena_model::topology::PortNumber;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

const PLACES: u32 = 8;
const PUNT_MTU: u32 = 65_535;
/// A frame that has not come by then never does.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
const SMALL: RingConfig = RingConfig { slots: 64, slot_bytes: 4_096 };

/// What left a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
    Frame(PortSlot, Vec<u8>),
    Datagram(Vec<u8>),
}

/// One of the two.
pub(crate) struct Half {
    pub(crate) engine: Engine,
    pool: BufferPool,
    board: Arc<LinkBoard>,
}

impl Half {
    fn new() -> Self {
        let mut config = EngineConfig::new(node_name(0));
        (config.flow_seed, config.probe_secret) = (7, 8);
        let board = Arc::clone(&config.links);
        Self { engine: Engine::new(config), pool: BufferPool::new(512), board }
    }

    fn buffer(&mut self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.pool.take().unwrap();
        assert!(buffer.fill(bytes));
        buffer
    }

    fn forward(&mut self, now_ns: u64, packet: Packet) -> Vec<Left> {
        let mut out = Output::default();
        self.engine.forward(now_ns, &mut vec![packet], &mut self.pool, &mut out);
        let left = self.left(out);
        self.engine.transmitted();
        left
    }

    fn left(&mut self, out: Output) -> Vec<Left> {
        let Output { frames, datagrams, mut batches } = out;
        let mut left = Vec::new();
        for frame in frames {
            left.push(Left::Frame(frame.to, frame.buffer.bytes().to_vec()));
            self.pool.put(frame.buffer);
        }
        for datagram in datagrams {
            left.push(Left::Datagram(datagram.buffer.bytes().to_vec()));
            self.pool.put(datagram.buffer);
        }
        self.engine.settle(&mut batches);
        left
    }
}

/// What the kernel's program has done with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Carried(u8, Vec<u8>),
    Up(Event),
}

pub(crate) struct Junction {
    pub(crate) town: Town,
    pub(crate) alone: Half,
    pub(crate) beside: Half,
    pub(crate) tables: Tables,
    interfaces: BTreeMap<u8, u32>,
    /// The other ends of its cables.
    ends: BTreeMap<u8, PacketRing>,
    punt: PacketRing,
    compiled: Compiled,
    pub(crate) now_ns: u64,
    _program: Program,
}

/// Runs a test on a junction with links of these numbers and lengths of frames; without capabilities it is skipped.
pub(crate) async fn with_junction(
    name: &str,
    town: Town,
    mtus: &[(u8, u32)],
    test: impl FnOnce(&mut Junction) + Send,
) {
    let has_both =
        capabilities::effective_has_net_admin() && capabilities::effective_has_sys_admin();
    if !has_both {
        println!("SKIPPED: {name}: no capabilities");
        return;
    }
    let namespace = NetNamespace::create_unnamed("junction").unwrap();
    for which in ["all", "default"] {
        let setting = format!("net.ipv6.conf.{which}.disable_ipv6");
        sysctl::write_in(&namespace, &setting, "1").unwrap();
    }
    let links = Netlink::open(&namespace).unwrap();
    let sizes = Sizes { flows: 1, slots: PLACES + 1, gates: 1, accounts: 1, places: PLACES };
    let program = Program::load(sizes).unwrap();
    let (mut interfaces, mut ends) = (BTreeMap::new(), BTreeMap::new());
    for (number, mtu) in mtus {
        let (near, far) = (format!("near{number}"), format!("far{number}"));
        links.add_veth(&near, &far, &namespace, *mtu, None, None).await.unwrap();
        for end in [&near, &far] {
            links.set_up(end).await.unwrap();
        }
        let index = links.link(&near).await.unwrap().unwrap().index;
        tc::steer_ingress(&links, index, program.for_link().as_fd()).await.unwrap();
        interfaces.insert(*number, index);
        let socket = packet::open_link_socket(&namespace, &far).unwrap();
        ends.insert(*number, PacketRing::map(socket, SMALL).unwrap());
    }
    links.add_veth("punt0", "punt1", &namespace, PUNT_MTU, None, None).await.unwrap();
    for end in ["punt0", "punt1"] {
        links.set_up(end).await.unwrap();
    }
    let punt = packet::open_packet_socket(&namespace, "punt1").unwrap();
    let punt = PacketRing::map(punt, SMALL).unwrap();
    let punt_ifindex = links.link("punt0").await.unwrap().unwrap().index;
    run_in(&namespace, || {
        let mut junction = Junction::new(town, program, interfaces, ends, punt, punt_ifindex);
        test(&mut junction);
    })
    .unwrap();
}

impl Junction {
    fn new(
        town: Town,
        program: Program,
        interfaces: BTreeMap<u8, u32>,
        ends: BTreeMap<u8, PacketRing>,
        punt: PacketRing,
        punt_ifindex: u32,
    ) -> Self {
        let given = || -> Vec<OwnedFd> {
            program.tables().map(|fd| fd.try_clone_to_owned().unwrap()).collect()
        };
        let tables = Tables::open(given()).unwrap();
        tables.set_settings(Settings { punt_ifindex, ..Settings::default() });
        let (alone, mut beside) = (Half::new(), Half::new());
        let door = KernelTables::open(Tables::open(given()).unwrap()).unwrap();
        beside.engine.open_kernel_path(Box::new(door));
        let compiled = Compiled::empty(node_name(0));
        let mut junction = Self {
            town,
            alone,
            beside,
            tables,
            interfaces,
            ends,
            punt,
            compiled,
            now_ns: 1_000_000_000,
            _program: program,
        };
        junction.apply();
        for (number, interface) in junction.interfaces.clone() {
            junction.steer(number, Some(interface));
        }
        junction
    }

    /// Puts the program before a link, or takes it away.
    pub(crate) fn steer(&mut self, number: u8, interface: Option<u32>) {
        let kernel = interface.map(|interface| {
            let port = Port { number: number.into(), is_watched: 0, link: number.into() };
            self.tables.set_port(interface, port).unwrap();
            KernelPort { number: number.into(), interface, has_peer: false }
        });
        self.beside.engine.set_kernel_port(link_id(number), kernel);
    }

    /// Puts the town as it is in force.
    pub(crate) fn apply(&mut self) {
        self.town.number += 1;
        self.compiled = self.compiled.following(&self.town.told(0)).unwrap();
        let tables = Arc::new(self.compiled.clone());
        for half in [&mut self.alone, &mut self.beside] {
            half.engine.replace_tables(Arc::clone(&tables));
        }
    }

    /// Nothing is plugged into these links; both are told, and let time pass.
    pub(crate) fn darken(&mut self, dark: &[u8]) {
        let dark: Vec<PortNumber> = dark.iter().filter_map(|one| PortNumber::new(*one)).collect();
        for half in [&self.alone, &self.beside] {
            half.board.set_dark(&dark);
        }
        self.pass(1);
    }

    /// Lets time pass, in milliseconds.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now_ns += ms * 1_000_000;
        for half in [&mut self.alone, &mut self.beside] {
            let mut out = Output::default();
            half.engine.tick(self.now_ns, &mut half.pool, &mut out);
            assert_eq!(half.left(out), []);
        }
    }

    /// Sends a frame into a cable. What leaves is the same at both.
    pub(crate) fn send(&mut self, number: u8, frame: &[u8]) -> (Fate, Vec<Left>) {
        self.now_ns += 1_000;
        self.put(number, frame);
        let buffer = self.alone.buffer(frame);
        let slot = self.alone.engine.slot_of(link_id(number)).unwrap();
        let expected = self.alone.forward(self.now_ns, Packet::from_port(slot, buffer));
        let (fate, left) = self.take(number);
        assert_eq!(left, expected, "{fate:?} of {frame:02x?} at {number}");
        (fate, left)
    }

    /// Sends a frame into a cable, and does no more.
    pub(crate) fn put(&mut self, number: u8, frame: &[u8]) {
        let buffer = self.alone.buffer(frame);
        let end = self.ends.get_mut(&number).unwrap();
        let sent = end.transmit(&mut vec![buffer], &mut self.alone.pool);
        assert_eq!(sent.failed, 0, "{frame:02x?} was not sent");
    }

    /// Takes the next frame that comes out, or up to the engine, which it goes on by.
    pub(crate) fn take(&mut self, number: u8) -> (Fate, Vec<Left>) {
        let (from, mut buffer) = self.arrival();
        if let Some(to) = from {
            let bytes = buffer.bytes().to_vec();
            self.beside.pool.put(buffer);
            let slot = self.beside.engine.slot_of(link_id(to)).unwrap();
            return (Fate::Carried(to, bytes.clone()), vec![Left::Frame(slot, bytes)]);
        }
        let tag = take_tag(&mut buffer);
        assert_eq!(tag.from, PuntedFrom::Port(number.into()), "{tag:?}");
        let origin = Origin::Port(self.beside.engine.slot_of(link_id(number)).unwrap());
        let packet = match tag.cause {
            Event::Miss | Event::Stale => Packet::from_kernel(origin, buffer, false),
            Event::Waiting => Packet::from_kernel(origin, buffer, true),
            Event::Watched => Packet::watched(origin, buffer),
            _ => Packet::plainly(origin, buffer),
        };
        (Fate::Up(tag.cause), self.beside.forward(self.now_ns, packet))
    }

    /// The next frame is lost on its way.
    pub(crate) fn lose(&mut self) {
        let (_, buffer) = self.arrival();
        self.beside.pool.put(buffer);
    }

    pub(crate) fn slot(&self, number: u8) -> PortSlot {
        self.alone.engine.slot_of(link_id(number)).unwrap()
    }

    /// The next frame, and the link that it has left by; none: it came up.
    fn arrival(&mut self) -> (Option<u8>, Buffer) {
        let mut frames = Vec::new();
        loop {
            let pool = &mut self.beside.pool;
            self.punt.receive(pool, &mut frames, 1);
            if let Some(frame) = frames.pop() {
                return (None, frame);
            }
            for (number, end) in &mut self.ends {
                end.receive(pool, &mut frames, 1);
                if let Some(frame) = frames.pop() {
                    return (Some(*number), frame);
                }
            }
            let rings = self.ends.values().chain([&self.punt]);
            let mut ready: Vec<_> = rings.map(|ring| PollFd::new(ring, PollFlags::IN)).collect();
            assert!(poll(&mut ready, Some(&PATIENCE)).unwrap() > 0, "a frame has come nowhere");
        }
    }

    /// The counters of both, which are the same.
    pub(crate) fn counters(&mut self) -> NodeCounters {
        let kernel = self.beside.engine.settle_kernel_path();
        let mut counters = [&self.alone, &self.beside].map(|half| half.engine.counters());
        for counters in &mut counters {
            assert_eq!(counters.total().unaccounted(), 0);
            for link in &counters.links {
                assert_eq!(link.account.unaccounted(), 0, "{}", link.name);
            }
        }
        let [alone, mut beside] = counters;
        assert_eq!(beside, alone);
        beside.dataplane.kernel = kernel.map(Box::new);
        beside
    }

    /// All that the kernel's tables hold, but for what is counted.
    pub(crate) fn dump(&self) -> String {
        self.tables.dump().unwrap()
    }

    /// What the rows of frames that passed have counted.
    pub(crate) fn passed(&self) -> u64 {
        self.tables.ways().map(|way| self.tables.transits().passed(way).packets).sum()
    }
}

pub(crate) fn link_id(number: u8) -> catena_model::id::PortId {
    PortNumber::new(number).unwrap().link_id()
}

/// Takes the punt tag off.
fn take_tag(frame: &mut Buffer) -> PuntTag {
    let bytes = frame.bytes_mut();
    assert_eq!(bytes[12..14], PuntTag::ETHER_TYPE.to_be_bytes());
    let tag = PuntTag::parse(u16::from_be_bytes([bytes[14], bytes[15]])).unwrap();
    bytes.copy_within(0..12, 4);
    assert!(frame.trim_front(4));
    tag
}
