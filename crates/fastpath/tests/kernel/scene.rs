//! A node with ports between namespaces, and the least that stands for an engine behind its punt
//! device: it sends on what comes up, and may install the flow and open its gate.

use catena_fastpath::{
    Event, FlowKey, Kind, Operation, Port, Program, PuntTag, PuntedFrom, Settings, Sight, Tables,
    Transform,
};
use catena_io::{Buffer, BufferPool, Offload, PacketRing, RingConfig};
use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::netlink::Netlink;
use catena_kernel::{packet, sysctl, tc};
use catena_wire::scalar::MacAddr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Largest payload of the punt device: no frame of a port is too long for it.
const PUNT_MTU: u32 = 65_535;
const PUNT_RING: RingConfig = RingConfig { slots: 256, slot_bytes: 69_632 };

/// A namespace with its links, gone when dropped.
pub(crate) struct Host {
    pub(crate) namespace: NetNamespace,
    pub(crate) links: Netlink,
}

impl Host {
    pub(crate) fn new(name: &str) -> Self {
        let namespace = NetNamespace::create_unnamed(name).unwrap();
        for key in ["all.rp_filter", "default.rp_filter"] {
            sysctl::write_in(&namespace, &format!("net.ipv4.conf.{key}"), "0").unwrap();
        }
        sysctl::write_in(&namespace, "net.ipv6.conf.all.disable_ipv6", "1").unwrap();
        sysctl::write_in(&namespace, "net.ipv6.conf.default.disable_ipv6", "1").unwrap();
        let links = Netlink::open(&namespace).unwrap();
        Self { namespace, links }
    }

    pub(crate) async fn index(&self, link: &str) -> u32 {
        self.links.link(link).await.unwrap().unwrap().index
    }

    /// The neighbour is known, so that nothing has to be asked on the link.
    pub(crate) async fn knows(&self, link: &str, address: Ipv4Addr, mac: MacAddr) {
        self.links.add_neighbour(address.into(), mac.0, link).await.unwrap();
    }
}

/// An interface of a host and who it is.
#[derive(Clone, Copy)]
pub(crate) struct Seat {
    pub(crate) mac: MacAddr,
    pub(crate) address: Ipv4Addr,
}

/// The seat of a number: `10.0.0.number` behind a MAC made of it.
pub(crate) fn seat(number: u8) -> Seat {
    Seat { mac: MacAddr([2, 0, 0, 0, 0, number]), address: Ipv4Addr::new(10, 0, 0, number) }
}

/// A node under test.
pub(crate) struct Stand {
    pub(crate) host: Host,
    pub(crate) program: Program,
    pub(crate) tables: Arc<Tables>,
    /// Port number → interface of the node's side.
    pub(crate) ports: HashMap<u16, u32>,
}

impl Stand {
    pub(crate) async fn new(name: &str) -> Self {
        let host = Host::new(name);
        host.links.add_veth("punt0", "punt1", &host.namespace, PUNT_MTU, None, None).await.unwrap();
        for link in ["punt0", "punt1"] {
            host.links.set_up(link).await.unwrap();
        }
        tc::swallow_ingress(&host.links, host.index("punt1").await).await.unwrap();
        let (program, tables) = crate::load();
        let punt_ifindex = host.index("punt0").await;
        tables.set_settings(Settings { punt_ifindex, ..Settings::default() });
        Self { host, program, tables: Arc::new(tables), ports: HashMap::new() }
    }

    /// Gives a host an interface at the next port, with the seat of the port's number.
    pub(crate) async fn add_port(&mut self, number: u8, host: &Host, mtu: u32) {
        let near = format!("p{number}");
        self.add_port_of(u16::from(number), host, &near, "e0", mtu, seat(number)).await;
    }

    pub(crate) async fn add_port_of(
        &mut self,
        number: u16,
        host: &Host,
        near: &str,
        far: &str,
        mtu: u32,
        seat: Seat,
    ) {
        let mac = Some(seat.mac.0);
        self.host.links.add_veth(near, far, &host.namespace, mtu, None, mac).await.unwrap();
        self.host.links.set_up(near).await.unwrap();
        host.links.set_up(far).await.unwrap();
        host.links.add_address(far, seat.address.into(), 24).await.unwrap();
        let ifindex = self.host.index(near).await;
        self.tables
            .set_port(ifindex, Port { number: number.into(), is_watched: 0, link: 0 })
            .unwrap();
        tc::steer_ingress(&self.host.links, ifindex, self.program.for_port().as_fd())
            .await
            .unwrap();
        self.ports.insert(number, ifindex);
    }

    pub(crate) fn port(&self, number: u16) -> u32 {
        self.ports[&number]
    }

    /// How often each event has happened.
    pub(crate) fn events(&self) -> HashMap<Event, u64> {
        Event::ALL.into_iter().map(|event| (event, self.tables.events(event))).collect()
    }
}

/// What a relay has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) frames: u64,
    /// Super-frames whose checksum is not finished either.
    pub(crate) super_frames: u64,
    pub(crate) longest: usize,
    pub(crate) installed: u64,
    pub(crate) opened: u64,
    pub(crate) ring_full: u64,
}

/// How a relay installs what it has sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installs {
    Nothing,
    /// Every flow, behind a gate, with this last operation.
    Every(Kind),
}

/// Takes frames from the punt device and sends each out of the port that it does not come from, of
/// ports 1 and 2.
pub(crate) struct Relay {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Relay {
    pub(crate) fn start(stand: &Stand, installs: Installs) -> Self {
        let open = |name| packet::open_packet_socket(&stand.host.namespace, name).unwrap();
        let punt = PacketRing::map(open("punt1"), PUNT_RING).unwrap();
        let small = RingConfig { slots: 1, slot_bytes: 4_096 };
        let outs = ["p1", "p2"].map(|name| PacketRing::map(open(name), small).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let mut worker = Worker {
            punt,
            outs,
            ifindexes: [stand.port(1), stand.port(2)],
            tables: Arc::clone(&stand.tables),
            installs,
            gates: HashMap::new(),
            seen: Seen::default(),
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut pool = BufferPool::new(512);
            let mut frames = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                worker.turn(&mut pool, &mut frames);
            }
            worker.seen.ring_full = worker.punt.ring_full();
            worker.seen
        });
        Self { stop, thread }
    }

    pub(crate) fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

struct Worker {
    punt: PacketRing,
    outs: [PacketRing; 2],
    ifindexes: [u32; 2],
    tables: Arc<Tables>,
    installs: Installs,
    /// The gate of each flow that waits, and how many of its counted frames were sent on.
    gates: HashMap<FlowKey, (u32, u64)>,
    seen: Seen,
}

impl Worker {
    fn turn(&mut self, pool: &mut BufferPool, frames: &mut Vec<Buffer>) {
        self.punt.receive(pool, frames, 64);
        if frames.is_empty() {
            let mut ready = [PollFd::new(&self.punt, PollFlags::IN)];
            let limit = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            poll(&mut ready, Some(&limit)).unwrap();
        }
        for mut frame in frames.drain(..) {
            let Some(tag) = untag(&mut frame) else { continue };
            self.relay(frame, tag, pool);
        }
    }

    fn relay(&mut self, frame: Buffer, tag: PuntTag, pool: &mut BufferPool) {
        let segments = frame.offload.segmentation;
        self.seen.frames += 1;
        self.seen.longest = self.seen.longest.max(frame.len());
        if segments.is_some() && frame.offload.checksum.is_some() {
            self.seen.super_frames += 1;
        }
        let PuntedFrom::Port(number) = tag.from else { return };
        let to = if number == 1 { 1 } else { 0 };
        let segment_bytes = segments.map(|one| one.segment_bytes);
        let sight = Sight::at_port(number, frame.bytes(), segment_bytes);
        if let (Some(sight), Event::Miss) = (sight, tag.cause) {
            self.install(&sight, to);
        }
        self.outs[to].transmit(&mut vec![frame], pool);
        if let (Some(sight), Event::Waiting) = (sight, tag.cause) {
            self.sent_on(&sight.key);
        }
    }

    fn install(&mut self, sight: &Sight, to: usize) {
        let Installs::Every(exit) = self.installs else { return };
        if self.gates.contains_key(&sight.key) {
            return;
        }
        let gates = self.tables.gates_max();
        let gate = 1 + (self.gates.len() as u32) % (gates - 1);
        self.tables.gate(gate).unwrap().reset();
        let ifindex = self.ifindexes[to];
        let exit = match exit {
            Kind::HandOver => Operation::hand_over(ifindex),
            _ => Operation::transmit(ifindex),
        };
        let list = Transform::default().then(Operation::count(1 + to as u32)).unwrap();
        let list = list.then(exit).unwrap().guarded_by(self.tables.guard(1)).unwrap();
        self.tables.install(&sight.key, &list, Some(gate)).unwrap();
        self.gates.insert(sight.key, (gate, 0));
        self.seen.installed += 1;
    }

    fn sent_on(&mut self, key: &FlowKey) {
        let Some((gate, passed)) = self.gates.get_mut(key) else { return };
        *passed += 1;
        let gate = self.tables.gate(*gate).unwrap();
        if !gate.is_open() && gate.open_after(*passed) {
            self.seen.opened += 1;
        }
    }
}

/// Takes the punt tag off.
pub(crate) fn untag(frame: &mut Buffer) -> Option<PuntTag> {
    let bytes = frame.bytes_mut();
    let (kind, control) = (bytes.get(12..14)?, bytes.get(14..16)?);
    let kind = u16::from_be_bytes([kind[0], kind[1]]);
    let control = u16::from_be_bytes([control[0], control[1]]);
    let tag = PuntTag::parse(control).filter(|_| kind == PuntTag::ETHER_TYPE)?;
    bytes.copy_within(0..12, 4);
    assert!(frame.trim_front(4));
    let Offload { checksum, segmentation } = &mut frame.offload;
    if let Some(checksum) = checksum {
        checksum.start -= 4;
    }
    if let Some(segmentation) = segmentation {
        segmentation.header_bytes = segmentation.header_bytes.saturating_sub(4);
    }
    Some(tag)
}

/// Runs something in a host's namespace on a thread of its own.
pub(crate) fn spawn_in<T: Send + 'static>(
    host: &Host,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let namespace = host.namespace.as_fd().try_clone_to_owned().unwrap();
    std::thread::spawn(move || {
        catena_kernel::namespace::enter(namespace.as_fd()).unwrap();
        work()
    })
}

/// Runs something in a host's namespace and waits for it.
pub(crate) fn within<T: Send>(host: &Host, work: impl FnOnce() -> T + Send) -> T {
    run_in(&host.namespace, work).unwrap()
}
