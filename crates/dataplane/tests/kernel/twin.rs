//! Two engines with the same programs; before one of them stands the kernel's program, which says
//! of each frame whether it would send it up or carry it, and how.

use crate::dice::Dice;
use crate::packets::{Sent, SentByTunnel, cut_arp};
use crate::passing::{advance, route};
use crate::side::{Left, Side, from_punt, names};
use crate::streets::{self, TownKind};
use crate::town::{Port, Town, node_address, node_segments};
use crate::watch;
use catena_dataplane::engine::{Engine, KernelPort, Origin, Packet, UnderlayInterface};
use catena_dataplane::shell::KernelTables;
use catena_fastpath::reference::{self, Outcome};
use catena_fastpath::{
    Event, FLAG_PUSHES, FlowKey, Hook, KERNEL_TAG, Kind, Operation, Program, PuntedFrom, Settings,
    Sight, Sizes, Tables, Transform, Verdict,
};
use catena_io::Offload;
use catena_model::kernel::Declined;
use catena_model::program::{PROXY_MAC, PortRole};
use catena_model::sojourn_time::SojournTime;
use catena_model::{DropReason, NodeCounters};
use catena_wire::ethernet::ethertype_is;
use catena_wire::frame::FrameView;
use catena_wire::ipv6::Ipv6Header;
use catena_wire::segment::{SegmentKind, SuperFrame};
use catena_wire::srv6;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A rehearsal takes frames up to this length, in bytes, and none whose header it finds cut short.
const REHEARSED_BYTES_MAX: usize = 3_400;
const REHEARSED_BYTES_MIN: usize = 54;
const REHEARSED_IPV4_BYTES_MIN: usize = 34;
const PUNT_INTERFACE: u32 = 1;
const FIRST_INTERFACE: u32 = 2;
pub(crate) const UNDERLAY_INTERFACE: u32 = 1;
/// Frames that one packet may give rise to, one after the other.
const STEPS_MAX: usize = 64;

/// Where there is no lane, one of so many frames that come up finds no buffer for what is made of it:
/// the fast path needs fewer buffers than the slow path, which a frame takes whose decisions are recorded.
const STARVED_ONE_IN: usize = 5;
/// One of so many that leave by the engine cannot be sent, for each of two reasons.
const UNSENT_ONE_IN: usize = 150;

/// How often what has happened.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) packets: usize,
    pub(crate) outcomes: BTreeMap<String, usize>,
    pub(crate) operations: BTreeMap<Kind, usize>,
    pub(crate) dropped: BTreeMap<String, u64>,
    pub(crate) declined: BTreeMap<Declined, u64>,
    pub(crate) deaths: usize,
}

/// What the kernel's program has done to a frame.
pub(crate) enum Done {
    /// It has sent these.
    Carried(Vec<Left>),
    /// It has left the frame to the engine; none: it was not asked.
    Up(Option<Event>),
}

pub(crate) struct Twin {
    pub(crate) town: Town,
    /// Of the town.
    seed: u64,
    kind: TownKind,
    pub(crate) alone: Side,
    pub(crate) beside: Side,
    program: Program,
    tables: Tables,
    pub(crate) now_ns: u64,
    /// Now and then no buffer is free, and what leaves by the engine cannot be sent.
    pub(crate) is_rough: bool,
    /// The function that does nothing.
    pub(crate) dead: Option<String>,
    pub(crate) report: Report,
}

impl Twin {
    /// `interfaces` exist in the namespace of the thread, one for each port.
    pub(crate) fn new(town: Town, seed: u64, interfaces: &[u32], report: Report) -> Self {
        Self::with_accounts(2_048, town, seed, interfaces, report)
    }

    /// With so many accounts in the kernel.
    pub(crate) fn with_accounts(
        accounts: u32,
        town: Town,
        seed: u64,
        interfaces: &[u32],
        report: Report,
    ) -> Self {
        let sizes = Sizes { flows: 4_096, slots: 512, gates: 4_097, accounts, places: 0 };
        let program = Program::load(sizes).unwrap();
        let given = || -> Vec<OwnedFd> {
            program.tables().map(|fd| fd.try_clone_to_owned().unwrap()).collect()
        };
        let tables = Tables::open(given()).unwrap();
        tables.set_settings(Settings { punt_ifindex: PUNT_INTERFACE, ..Settings::default() });
        let kind = TownKind::of(seed);
        let (alone, mut beside) = (Side::new(kind), Side::new(kind));
        let door = KernelTables::open(Tables::open(given()).unwrap()).unwrap();
        beside.engine.open_kernel_path(Box::new(door));
        beside.engine.set_kernel_underlay(Some(UnderlayInterface {
            interface: UNDERLAY_INTERFACE,
            locators: BTreeSet::from([node_segments(1).locator]),
        }));
        let now_ns = 1_000_000_000;
        let here = (1..).zip(&town.ports).zip(interfaces).filter(|((_, port), _)| port.node == 0);
        for ((number, _), interface) in here {
            tables
                .set_port(*interface, catena_fastpath::Port { number, is_watched: 0, link: 0 })
                .unwrap();
        }
        let (is_rough, dead) = (false, None);
        let mut twin = Self {
            town,
            seed,
            kind,
            alone,
            beside,
            program,
            tables,
            now_ns,
            is_rough,
            dead,
            report,
        };
        twin.apply();
        twin
    }

    /// A frame comes to the program at an interface.
    pub(crate) fn send_at_interface(&mut self, interface: u32, frame: &[u8]) {
        self.program.rehearse(Hook::Port, interface, frame, None, 1).unwrap();
    }

    /// The kernel repeats this for frames like it at the port with this number.
    pub(crate) fn install(&mut self, number: u16, frame: &[u8], operations: &[Operation]) {
        let list = operations.iter().try_fold(Transform::default(), |list, one| list.then(*one));
        let key = Sight::at_port(number, frame, None).unwrap().key;
        self.tables.install(&key, &list.unwrap(), None).unwrap();
    }

    /// What the data plane beside the kernel tells.
    pub(crate) fn counters_beside(&mut self) -> NodeCounters {
        let kernel = self.beside.engine.settle_kernel_path();
        let mut counters = self.beside.engine.counters();
        counters.dataplane.kernel = kernel.map(Box::new);
        counters
    }

    /// Puts the town as it is in force at both.
    pub(crate) fn apply(&mut self) {
        let tables = Arc::new(self.town.tables(0));
        self.alone.replace_tables(Arc::clone(&tables), &self.town);
        // What the kernel repeats is ended by what differs alone.
        let mut followed = self.beside.engine.tables().following(&self.town.told(0)).unwrap();
        followed.weigh();
        self.beside.replace_tables(Arc::new(followed), &self.town);
        for (place, port) in self.town.ports.iter().enumerate().filter(|(_, port)| port.node == 0) {
            let has_peer = place % 2 == 0;
            let (number, interface) = (place as u32 + 1, interface_of(place));
            // Who has left may send as long as nobody has taken the program from its interface.
            let port_of_kernel = KernelPort { number, interface, has_peer };
            self.beside.engine.set_kernel_port(port.id, Some(port_of_kernel));
        }
    }

    /// Lets time pass at both: packets that waited go on.
    pub(crate) fn pass(&mut self, nanoseconds: u64, dice: &mut Dice) {
        self.now_ns += nanoseconds;
        let [alone, beside] = [&mut self.alone, &mut self.beside].map(|side| {
            let left = side.tick(self.now_ns, &self.town);
            let names = names(&left);
            side.book(left, |_| None);
            names
        });
        assert_eq!(beside, alone);
        assert!(self.kind.has_slices || alone.is_empty(), "{alone:?}");
        for left in alone {
            if let Some(sent) = self.function(left, &Offload::default()) {
                self.send(rewritten(sent, dice), dice);
            }
        }
    }

    /// Sends a packet in and lets functions do their work, until nothing moves.
    pub(crate) fn send(&mut self, sent: Sent, dice: &mut Dice) {
        let mut queue = vec![sent];
        for _ in 0..STEPS_MAX {
            let Some(sent) = queue.pop() else { return };
            for left in self.step(&sent).0 {
                let came = self.function(left, &sent.offload);
                queue.extend(came.map(|came| rewritten(came, dice)));
            }
            // A chain may change while packets are inside functions.
            if !queue.is_empty() && dice.once_in(20) {
                streets::change(&mut self.town, self.seed, dice);
                self.apply();
            }
        }
    }

    /// Brings a datagram in by a tunnel and lets functions do their work.
    pub(crate) fn send_by_tunnel(&mut self, sent: &SentByTunnel, dice: &mut Dice) {
        self.now_ns += 1_000;
        self.report.packets += 1;
        let frame = sent.on_the_wire(node_address(0));
        let run = self.program.rehearse(Hook::Underlay, UNDERLAY_INTERFACE, &frame, None, 1);
        let run = run.unwrap();
        let (done, what) = match run.verdict {
            Verdict::Punt(PUNT_INTERFACE, tag) => {
                let is_stranger = tag.from == PuntedFrom::STRANGERS && tag.cause == Event::Unkeyed;
                assert!(is_stranger || tag.from == PuntedFrom::node(sent.source), "{tag:?}");
                assert_eq!(run.bytes, frame);
                (Done::Up(Some(tag.cause)), tag.cause.name())
            }
            Verdict::Leave(kind, interface) => {
                let sight = match sent.kind.is_segmented() {
                    true => Sight::at_locator(node_segments(0).locator, &frame, None).unwrap(),
                    false => Sight::at_underlay(v4(node_address(0)), &frame, None).unwrap(),
                };
                let done = self.repeated(&frame, &sight);
                assert_eq!((run.bytes, Some((kind, interface))), (done.bytes.clone(), done.exit));
                (Done::Carried(self.carried(done, &Offload::default())), "carried")
            }
            // What no kernel can have sent, the socket of segments has.
            Verdict::Stack if sent.kind.is_segmented() => (Done::Up(None), "left to the socket"),
            other => panic!("the kernel's program says {other:?} of a datagram"),
        };
        let origin = Origin::Tunnel { kind: sent.kind, source: sent.source };
        let packet = |side: &mut Side, cause| {
            let mut buffer = side.pool.take().unwrap();
            assert!(buffer.fill(&sent.bytes));
            from_punt(origin, buffer, cause)
        };
        let left = self.decide(done, packet, &format!("{what} of {sent:?}"));
        *self.report.outcomes.entry(format!("{what} by tunnel")).or_default() += 1;
        for left in left {
            if let Some(sent) = self.function(left, &Offload::default()) {
                self.send(rewritten(sent, dice), dice);
            }
        }
    }

    /// Lets both decide a packet, the one beside the kernel if it came up to it, and counts what became
    /// of what they sent. The same leaves; answers what arrives.
    fn decide(
        &mut self,
        done: Done,
        packet: impl Fn(&mut Side, Option<Event>) -> Packet,
        what: &str,
    ) -> Vec<Left> {
        let now_ns = self.now_ns;
        let what = &format!("{what} in town {} without {:?}", self.seed, self.town.absent);
        let is_rough = self.is_rough;
        let may_starve = matches!(done, Done::Up(_)) && is_rough && !self.kind.has_fast_path;
        let is_starved = may_starve && Dice(now_ns).once_in(STARVED_ONE_IN);
        let arrived = packet(&mut self.alone, None);
        let alone = self.alone.forward(now_ns, vec![arrived], is_starved, &self.town);
        let expected = names(&alone);
        match done {
            Done::Carried(mut left) => {
                // What waited may go on while a packet passes.
                let released = self.beside.forward(now_ns, Vec::new(), false, &self.town);
                left.extend(names(&released));
                left.sort();
                assert_eq!(left, expected, "{what}");
                self.alone.book(alone, |_| None);
                self.beside.book(released, |_| None);
                expected
            }
            Done::Up(cause) => {
                let arrived = packet(&mut self.beside, cause);
                let beside = self.beside.forward(now_ns, vec![arrived], is_starved, &self.town);
                assert_eq!(names(&beside), expected, "{what}");
                let fate = |left: &Left| fate(now_ns, left).filter(|_| is_rough);
                self.alone.book(alone, fate);
                self.beside.book(beside, fate);
                expected.into_iter().filter(|left| fate(left).is_none()).collect()
            }
        }
    }

    /// Sends a frame in and lets functions do their work, and no more. Answers what arrived, and what
    /// became of each frame.
    pub(crate) fn follow(&mut self, sent: Sent) -> (Vec<Left>, Vec<String>) {
        let (mut all, mut outcomes, mut queue) = (Vec::new(), Vec::new(), vec![sent]);
        for _ in 0..STEPS_MAX {
            let Some(sent) = queue.pop() else { break };
            let (left, what) = self.step(&sent);
            outcomes.push(what);
            for left in left {
                queue.extend(self.function(left.clone(), &sent.offload));
                all.push(left);
            }
        }
        (all, outcomes)
    }

    /// One frame, at both; what leaves is the same. Answers what arrives, and what became of it.
    fn step(&mut self, sent: &Sent) -> (Vec<Left>, String) {
        self.now_ns += 1_000;
        self.report.packets += 1;
        let port = self.town.port_named(&sent.port).clone();
        let (done, what) = self.before_the_engine(&port, sent);
        let packet = |side: &mut Side, cause| side.packet(&port, sent, cause);
        let left = self.decide(done, packet, &format!("{what} of a frame at {}", port.name));
        *self.report.outcomes.entry(what.clone()).or_default() += 1;
        if what == "carried" {
            let what = format!("carried, {} town", self.kind.name());
            *self.report.outcomes.entry(what).or_default() += 1;
        }
        (left, what)
    }

    /// What the kernel's program does to a frame, and what that is called.
    pub(crate) fn before_the_engine(&mut self, port: &Port, sent: &Sent) -> (Done, String) {
        let number = self.town.ports.iter().position(|other| other.id == port.id).unwrap();
        let interface = interface_of(number);
        let segment_bytes = sent.offload.segmentation.map(|one| one.segment_bytes);
        let is_rehearsed = is_rehearsed(&sent.bytes)
            && !self.is_pushed_super_frame(number as u16 + 1, &sent.bytes, segment_bytes);
        if !is_rehearsed {
            return (Done::Up(None), "not rehearsed".to_owned());
        }
        let run = self.program.rehearse(Hook::Port, interface, &sent.bytes, segment_bytes, 1);
        let run = run.unwrap();
        match run.verdict {
            Verdict::Punt(PUNT_INTERFACE, tag) => {
                assert_eq!(run.bytes, sent.bytes);
                (Done::Up(Some(tag.cause)), tag.cause.name().to_owned())
            }
            Verdict::Leave(kind, interface) => {
                let sight = Sight::at_port(number as u16 + 1, &sent.bytes, segment_bytes).unwrap();
                let done = self.repeated(&sent.bytes, &sight);
                assert_eq!((&run.bytes, Some((kind, interface))), (&done.bytes, done.exit));
                (Done::Carried(self.carried(done, &sent.offload)), "carried".to_owned())
            }
            other => panic!("the kernel's program says {other:?}"),
        }
    }

    /// A rehearsal knows no kind of super-frame, and without one the kernel makes no room in it: the
    /// live tests of `fastpath` send those.
    fn is_pushed_super_frame(&self, number: u16, bytes: &[u8], segment_bytes: Option<u16>) -> bool {
        let sight = segment_bytes.and_then(|_| Sight::at_port(number, bytes, segment_bytes));
        let entry = sight.and_then(|sight| self.tables.entry(&sight.key).unwrap());
        entry.is_some_and(|entry| entry.transform.flags & FLAG_PUSHES != 0)
    }

    /// What the interpreter makes of a frame that the program has carried.
    fn repeated(&mut self, frame: &[u8], sight: &Sight) -> Outcome {
        // Of all numbers that the other node has had, one flow is there.
        let mut senders = (0..=u16::MAX).map(|sender| FlowKey { sender, ..sight.key });
        let entry = senders.find_map(|key| self.tables.entry(&key).unwrap()).unwrap();
        for operation in entry.transform.operations() {
            let kind = Kind::of(operation.kind).unwrap();
            *self.report.operations.entry(kind).or_default() += 1;
        }
        reference::apply(&entry.transform, frame, sight).unwrap()
    }

    /// What left by the kernel, as the engine would have handed it out.
    fn carried(&self, done: Outcome, offload: &Offload) -> Vec<Left> {
        let is_super_frame = offload.segmentation.is_some();
        let by_port = |interface: u32, bytes: Vec<u8>| {
            let place = (interface - FIRST_INTERFACE) as usize;
            let port = self.town.ports[place].name.clone();
            Left::Frame { port, bytes, is_super_frame }
        };
        let (kind, interface) = done.exit.unwrap();
        let main = if kind == Kind::TransmitToNeighbour {
            datagram(&done.bytes, offload)
        } else {
            by_port(interface, done.bytes)
        };
        let copies = done.copies.into_iter().map(|(interface, bytes)| by_port(interface, bytes));
        let mut left: Vec<Left> = copies.chain([main]).collect();
        left.sort();
        left
    }

    /// What a function makes of a frame: most route, one gives it back as it is, who speaks an
    /// encapsulation moves its header on.
    pub(crate) fn function(&self, left: Left, offload: &Offload) -> Option<Sent> {
        let Left::Frame { port, mut bytes, .. } = left else { return None };
        let port = self.town.port_named(&port);
        if port.role != PortRole::Function {
            return None;
        }
        let instance =
            self.town.instances.iter().find(|one| self.town.ports[one.ingress].id == port.id)?;
        FrameView::parse(&bytes).ok().filter(|view| view.destination == port.mac)?;
        if self.dead.as_ref() == Some(&instance.name) {
            return None;
        }
        let egress = &self.town.ports[instance.egress];
        let is_sent = match instance.speaks {
            Some(encapsulation) => {
                let header = encapsulation.capabilities().ether_type?;
                ethertype_is(&bytes, header) && advance(&mut bytes, encapsulation, egress.mac)
            }
            None => instance.name == "f2" || route(&mut bytes, PROXY_MAC, egress.mac),
        };
        is_sent.then(|| Sent { port: egress.name.clone(), bytes, offload: *offload })
    }

    /// Both have counted the same. Whom each times differs: an engine beside the kernel sees fewer.
    pub(crate) fn compare_counters(&mut self) {
        self.beside.engine.settle_kernel_path();
        let slices = |engine: &Engine| engine.slice_counters(None, usize::MAX);
        assert_eq!(slices(&self.beside.engine), slices(&self.alone.engine));
        let (mut alone, mut beside) = (self.alone.engine.counters(), self.beside.engine.counters());
        if self.kind.is_watched {
            [&mut alone, &mut beside].into_iter().for_each(watch::forget_sizes);
        }
        for side in [&mut alone, &mut beside] {
            let hops = side.chains.iter_mut().flat_map(|chain| &mut chain.hops);
            hops.for_each(|hop| hop.sojourn_time = SojournTime::default());
        }
        let lines = |counters: &NodeCounters| {
            let NodeCounters { ports, tunnels, tunnels_transmitted, chains, .. } = counters;
            (ports.clone(), tunnels.clone(), *tunnels_transmitted, chains.clone())
        };
        assert_eq!(lines(&beside), lines(&alone));
        assert_eq!(beside.total().unaccounted(), 0);
    }

    /// Notes what was dropped, for the report.
    pub(crate) fn end(mut self) -> Report {
        self.compare_counters();
        let kernel = self.beside.engine.settle_kernel_path().unwrap();
        for (reason, packets) in kernel.declined {
            *self.report.declined.entry(reason).or_default() += packets;
        }
        for (reason, packets) in &self.alone.engine.counters().total().dropped {
            *self.report.dropped.entry(reason.name().to_owned()).or_default() += packets;
        }
        self.report
    }
}

/// The interface of the port at a place of the town.
fn interface_of(place: usize) -> u32 {
    FIRST_INTERFACE + place as u32
}

/// Few functions rewrite, or send what they should not.
fn rewritten(mut sent: Sent, dice: &mut Dice) -> Sent {
    let ports = FrameView::parse(&sent.bytes).ok().and_then(|view| view.l4_offset);
    if let Some(at) = ports.map(usize::from)
        && dice.once_in(40)
        && sent.bytes.len() > at + 8
    {
        sent.bytes[at + 1] ^= 0x10;
    }
    if dice.once_in(60) {
        sent.bytes[12..14].copy_from_slice(&dice.pick(&[[0x89, 0x4f], [0x88, 0x47]]));
    } else if dice.once_in(60) {
        sent.bytes = cut_arp(&sent.bytes[6..12], dice);
        sent.offload = Offload::default();
    }
    sent
}

/// Why what leaves by the engine cannot be sent; none: it can.
fn fate(now_ns: u64, left: &Left) -> Option<DropReason> {
    let (bytes, is_frame) = match left {
        Left::Frame { bytes, .. } => (bytes, true),
        Left::Datagram { bytes, .. } => (bytes, false),
    };
    let sum =
        bytes.iter().fold(now_ns, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    match Dice(sum).below(UNSENT_ONE_IN) {
        0 => Some(DropReason::TransmitFailed),
        1 if is_frame => Some(DropReason::PortUnbound),
        _ => None,
    }
}

fn is_rehearsed(bytes: &[u8]) -> bool {
    let is_v4 = bytes.get(12..14) == Some(&[0x08, 0x00]);
    let least = if is_v4 { REHEARSED_IPV4_BYTES_MIN } else { REHEARSED_BYTES_MIN };
    (least..=REHEARSED_BYTES_MAX).contains(&bytes.len())
}

/// A tunnel packet of the kernel as the engine would have packed it: a super-frame as a row of its
/// wire packets.
fn datagram(frame: &[u8], offload: &Offload) -> Left {
    const OUTER_BYTES: usize = 42;
    if frame[12..14] == [0x86, 0xdd] {
        return by_segments(&frame[14..]);
    }
    let to = Ipv4Addr::from(*frame[30..].first_chunk::<4>().unwrap()).to_string();
    let port = u16::from_be_bytes(*frame[36..].first_chunk().unwrap());
    let payload = &frame[OUTER_BYTES..];
    let segment_bytes = offload.segmentation.map(|one| one.segment_bytes);
    let Some(segment_bytes) = segment_bytes else {
        return Left::Datagram { to, bytes: payload.to_vec() };
    };
    let sight = Sight::in_tunnel(port, payload, Some(segment_bytes)).unwrap();
    let (header, inner) = payload.split_at(sight.inner_offset);
    let cut = SuperFrame::parse(inner, SegmentKind::Tcp, segment_bytes).unwrap();
    let mut bytes = Vec::new();
    for index in 0..cut.count() {
        bytes.extend(header);
        let mut segment = vec![0; cut.segment_len(index)];
        assert!(cut.write_segment(inner, index, &mut segment) > 0);
        bytes.extend(segment);
    }
    Left::Datagram { to, bytes }
}

/// The same of a packet over segments: an engine tags none.
fn by_segments(packet: &[u8]) -> Left {
    let mut bytes = packet.to_vec();
    assert_eq!(packet[46..48], KERNEL_TAG.to_be_bytes());
    srv6::set_tag(&mut bytes, 0).unwrap();
    let (header, _) = Ipv6Header::parse(&bytes).unwrap();
    let to = node_segments(1);
    assert!(to.locator.contains(header.destination));
    Left::Datagram { to: to.address.to_string(), bytes }
}

fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => panic!("the town's underlay is IPv4"),
    }
}
