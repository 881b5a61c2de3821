//! A rig of engines: carries datagrams between them, lets functions do their work, and watches the
//! counters. No clock and no kernel: everything a test sees is a consequence of what it sent.

use crate::cables::UnderWay;
use crate::flat::flat;
use crate::node::{Node, assert_held, check_scope};
pub(crate) use crate::passing::{Behaviour, route};
use crate::passing::{advance, annotate};
use crate::questions::answer_question;
use crate::tables::changed;
use crate::town::{Town, UNDERLAY_MTU, lead_on, node_name, tunnel_end};
use catena_dataplane::engine::{
    Datagram, Engine, EngineConfig, Origin, Output, Packet, PortSlot, Rehearsal, Tables,
    TunnelKind, Way,
};
use catena_io::Offload;
use catena_model::account::{NodeCounters, SliceCounters};
use catena_model::check::{CheckQuestion, Sighting};
use catena_model::entry::Change;
use catena_model::explain::{
    CatchRequest, CaughtPacket, ExplainAt, ExplainReply, ExplainRequest, FrameBytes,
};
use catena_model::program::{PROXY_MAC, PortRole};
use catena_model::resource::Encapsulation;
use catena_model::status::Health;
use catena_model::{DropReason, NodeProgram};
use catena_wire::frame::FrameView;
use catena_wire::ipv6::Ipv6Header;
use catena_wire::probe::ProbeMark;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// Rounds after which a rig that is still busy has a loop.
const ROUNDS_MAX: usize = 400;
/// How often the shell tells the time, at least.
const TICK_MS: u64 = 10;

/// So much later than packets have come functions are heard that threads are asked for.
const ANSWERED_LATER_NS: u64 = 3_000_000;

/// A frame as a port saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) bytes: Vec<u8>,
    pub(crate) offload: Offload,
}

/// A datagram row as the underlay saw it.
#[derive(Clone, Debug)]
pub(crate) struct SeenDatagram {
    pub(crate) from: usize,
    pub(crate) kind: TunnelKind,
    pub(crate) entropy: u16,
    pub(crate) segment_bytes: Option<u16>,
    pub(crate) bytes: Vec<u8>,
}

/// What left a node, in the order in which it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    Frame { port: String, bytes: Vec<u8> },
    Datagram { from: usize, bytes: Vec<u8> },
}

pub(crate) struct Rig {
    pub(crate) town: Town,
    pub(crate) nodes: Vec<Node>,
    pub(crate) now_ns: u64,
    /// By name of the port.
    pub(crate) seen: BTreeMap<String, Vec<Seen>>,
    pub(crate) datagrams: Vec<SeenDatagram>,
    pub(crate) log: Vec<Happening>,
    pub(crate) under_way: Vec<UnderWay>,
    pub(crate) behaviours: HashMap<String, Behaviour>,
    /// Functions take frames at their egress too, and send them on by their ingress.
    pub(crate) is_two_way: bool,
    /// Outcome of transmissions at these ports.
    pub(crate) refusals: HashMap<String, DropReason>,
    before: BTreeMap<String, u64>,
}

impl Rig {
    pub(crate) fn new(town: Town) -> Self {
        Self::with(town, |_| {}, 512)
    }

    pub(crate) fn with(town: Town, change: impl Fn(&mut EngineConfig), buffers: usize) -> Self {
        Self::of_engines(
            std::env::var("RIG").map_or(1, |n| n.parse().unwrap()),
            town,
            change,
            buffers,
        )
    }

    /// With so many engines at each node.
    pub(crate) fn of_engines(
        engines: usize,
        town: Town,
        change: impl Fn(&mut EngineConfig),
        buffers: usize,
    ) -> Self {
        let nodes = (0..town.nodes).map(|node| Node::new(node, &change, buffers, engines));
        let behaviours = town.instances.iter().map(|instance| {
            let behaviour = instance.speaks.map_or(Behaviour::Route(PROXY_MAC), Behaviour::Advance);
            (instance.name.clone(), behaviour)
        });
        let mut rig = Self {
            nodes: nodes.collect(),
            now_ns: 1,
            seen: BTreeMap::new(),
            datagrams: Vec::new(),
            log: Vec::new(),
            under_way: Vec::new(),
            behaviours: behaviours.collect(),
            is_two_way: false,
            refusals: HashMap::new(),
            before: BTreeMap::new(),
            town,
        };
        rig.apply();
        rig.moved();
        rig
    }

    /// Puts the town as it is now in force at every node.
    pub(crate) fn apply(&mut self) {
        for node in 0..self.nodes.len() {
            let tables = self.tables(node).following(&self.town.told(node));
            self.nodes[node].replace_tables(tables.expect("the program is sound"));
        }
    }

    /// Puts another program in force at one node.
    pub(crate) fn apply_program(&mut self, node: usize, program: &NodeProgram) {
        let tables = catena_dataplane::engine::Tables::compile(program).unwrap();
        self.nodes[node].replace_tables(tables);
    }

    /// Sends one frame into a port and lets everything happen.
    pub(crate) fn send(&mut self, port: &str, frame: &[u8]) {
        self.send_all(port, [(frame.to_vec(), Offload::default())]);
    }

    /// Sends frames of one vector into a port and lets everything happen.
    pub(crate) fn send_all(
        &mut self,
        port: &str,
        frames: impl IntoIterator<Item = (Vec<u8>, Offload)>,
    ) {
        for (bytes, offload) in frames {
            self.queue(port, &bytes, offload);
        }
        self.run();
    }

    /// Puts a frame into a port's inbox.
    pub(crate) fn queue(&mut self, port: &str, bytes: &[u8], offload: Offload) {
        let port = self.town.port_named(port);
        let node = &mut self.nodes[port.node];
        let slot = node.slot_of(port.id).expect("the port is in the program");
        node.queue(slot, bytes, offload);
    }

    /// Puts a datagram into a node's inbox.
    pub(crate) fn queue_datagram(
        &mut self,
        node: usize,
        kind: TunnelKind,
        source: IpAddr,
        bytes: &[u8],
    ) {
        let node = &mut self.nodes[node];
        // Without a buffer the kernel would lose it, before anybody counts.
        let Some(mut buffer) = node.pool.take() else { return };
        assert!(buffer.fill(bytes));
        node.inbox.push(Packet::from_tunnel(kind, source, buffer));
    }

    pub(crate) fn send_datagram(
        &mut self,
        node: usize,
        kind: TunnelKind,
        source: IpAddr,
        bytes: &[u8],
    ) {
        self.queue_datagram(node, kind, source, bytes);
        self.run();
    }

    pub(crate) fn slot(&self, port: &str) -> Option<PortSlot> {
        let port = self.town.port_named(port);
        self.nodes[port.node].slot_of(port.id)
    }

    /// Drives all nodes until nothing moves any more, then checks the counters.
    pub(crate) fn run(&mut self) {
        let mut rounds = 0;
        while rounds < ROUNDS_MAX {
            // Whoever is waited for takes his time.
            rounds += usize::from(!self.nodes.iter().any(Node::is_lending));
            if self.nodes.iter().all(Node::is_idle) {
                self.check();
                return;
            }
            for node in 0..self.nodes.len() {
                self.step_once(node);
            }
        }
        panic!("packets go round in circles: {:#?}", flat(&self.counters()));
    }

    /// Lets time pass as the shell does: every node is told it every ten milliseconds.
    pub(crate) fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds.div_ceil(TICK_MS) {
            self.sleep(TICK_MS);
        }
    }

    /// Lets time pass with one look at its end.
    pub(crate) fn sleep(&mut self, milliseconds: u64) {
        self.now_ns += milliseconds * 1_000_000;
        self.arrive();
        for number in 0..self.nodes.len() {
            for engine in 0..self.nodes[number].engines.len() {
                let mut out = Output::default();
                let Node { engines, pool, .. } = &mut self.nodes[number];
                engines[engine].tick(self.now_ns, pool, &mut out);
                self.deliver((number, engine), out);
            }
        }
        self.run();
    }

    /// Asks a node about a check, and lets everything happen.
    pub(crate) fn check_chain(
        &mut self,
        number: usize,
        question: &CheckQuestion,
    ) -> Result<Vec<Sighting>, String> {
        let mut sightings = Vec::new();
        for engine in 0..self.nodes[number].engines.len() {
            let own = self.nodes[number].own_question(engine, question);
            let mut out = Output::default();
            let Node { engines, pool, .. } = &mut self.nodes[number];
            let answer = engines[engine].check(&own, self.now_ns, pool, &mut out);
            self.deliver((number, engine), out);
            sightings.extend(answer?);
        }
        self.run();
        Ok(sightings)
    }

    /// How the watched instances of all nodes are, by name.
    pub(crate) fn health(&self) -> BTreeMap<String, Health> {
        let counters = self.counters().into_iter().flat_map(|counters| counters.health);
        counters.map(|instance| (instance.name, instance.health)).collect()
    }

    pub(crate) fn step_once(&mut self, number: usize) {
        let shares = self.nodes[number].shares();
        for (engine, mut share) in shares.into_iter().enumerate() {
            let mut out = Output::default();
            let Node { engines, pool, .. } = &mut self.nodes[number];
            engines[engine].forward(self.now_ns, &mut share, pool, &mut out);
            self.deliver((number, engine), out);
            self.take_answers((number, engine));
        }
    }

    /// Goes on with what threads have said of packets that are lent to them, a while after these came.
    pub(crate) fn take_answers(&mut self, (number, engine): (usize, usize)) {
        let Node { engines, pool, .. } = &mut self.nodes[number];
        if engines[engine].is_lending() {
            let mut out = Output::default();
            let later_ns = self.now_ns + ANSWERED_LATER_NS;
            if !engines[engine].take_answers(later_ns, pool, &mut out) {
                std::thread::yield_now();
            }
            self.deliver((number, engine), out);
        }
    }

    /// Sends what an engine of a node has handed out.
    pub(crate) fn deliver(&mut self, from: (usize, usize), out: Output) {
        let number = from.0;
        assert_held(&self.nodes[number].engines[from.1], &out);
        let Output { frames, datagrams, mut batches } = out;
        for frame in frames {
            let seen = Seen { bytes: frame.buffer.bytes().to_vec(), offload: frame.buffer.offload };
            let node = &mut self.nodes[number];
            node.pool.put(frame.buffer);
            if self.crosses_cable(number, frame.to, &seen) {
                continue;
            }
            let node = &self.nodes[number];
            let is_its = |id| node.slot_of(id) == Some(frame.to);
            let mut ports = self.town.ports.iter();
            let port = ports.find(|port| port.node == number && is_its(port.id));
            let port = port.expect("a frame for a port of the node").clone();
            if let Some(reason) = self.refusals.get(&port.name) {
                let engine = &mut self.nodes[number].engines[from.1];
                engine.credit_failed(batches.withdraw(frame.share), *reason);
                continue;
            }
            let happening = Happening::Frame { port: port.name.clone(), bytes: seen.bytes.clone() };
            self.log.push(happening);
            if port.role == PortRole::Function {
                self.let_function_act(&port.name, &seen);
            }
            self.seen.entry(port.name).or_default().push(seen);
        }
        let engine = &mut self.nodes[number].engines[from.1];
        // One by itself, as where others of its lot fail.
        if let Some(datagram) = datagrams.first() {
            engine.credit_sent(batches.withdraw(datagram.share));
        }
        engine.settle(&mut batches);
        assert_held(engine, &Output::default());
        for datagram in datagrams {
            self.carry(number, datagram);
        }
    }

    fn carry(&mut self, from: usize, datagram: Datagram) {
        let bytes = datagram.buffer.bytes().to_vec();
        self.nodes[from].pool.put(datagram.buffer);
        let size = datagram.segment_bytes.map_or(bytes.len(), usize::from);
        assert!(bytes.len() <= catena_io::TUNNEL_PAYLOAD_BYTES_MAX);
        assert!(bytes.len().div_ceil(size) <= catena_io::TUNNEL_SEGMENTS_MAX);
        let outer = if datagram.kind.is_segmented() { 0 } else { 28 };
        assert!(size + outer <= usize::from(UNDERLAY_MTU), "a packet of {size} bytes does not fit");
        let address = |node| tunnel_end(node, datagram.kind);
        let to = (0..self.nodes.len()).find(|node| address(*node) == datagram.to);
        let to = to.expect("the datagram is for a node");
        for payload in bytes.chunks(size) {
            if datagram.kind.is_segmented() {
                let header = Ipv6Header::parse(payload).expect("a packet of its own").0;
                assert_eq!(IpAddr::from(header.source), address(from), "who has sent it");
            }
            self.log.push(Happening::Datagram { from, bytes: payload.to_vec() });
            let mut payload = payload.to_vec();
            if !datagram.kind.is_segmented() || lead_on(self.nodes.len(), &mut payload) {
                self.queue_datagram(to, datagram.kind, address(from), &payload);
            }
        }
        self.datagrams.push(SeenDatagram {
            from,
            kind: datagram.kind,
            entropy: datagram.entropy,
            segment_bytes: datagram.segment_bytes,
            bytes,
        });
    }

    fn let_function_act(&mut self, port: &str, seen: &Seen) {
        let town = &self.town;
        let found = town.instances.iter().find_map(|i| {
            let (ingress, egress) = (&town.ports[i.ingress], &town.ports[i.egress]);
            if ingress.name == port {
                Some((i, ingress, egress))
            } else {
                let is_heard = self.is_two_way || self.behaviours[&i.name].repeats();
                (is_heard && egress.name == port).then_some((i, egress, ingress))
            }
        });
        let Some((instance, ingress, egress)) = found else { return };
        let view = FrameView::parse(&seen.bytes).unwrap();
        let is_heard = view.destination == ingress.mac
            || (self.behaviours[&instance.name].repeats() && view.destination.is_multicast());
        if !is_heard {
            return;
        }
        let (instance, egress) = (instance.clone(), egress.clone());
        let mut bytes = seen.bytes.clone();
        let mut all = Encapsulation::ALL.into_iter();
        let has_header = all.any(|one| one.capabilities().ether_type == Some(view.ethertype));
        let behaviour = self.behaviours[&instance.name];
        if behaviour.has_kernel()
            && let Some(reply) = answer_question(&bytes, ingress)
        {
            let name = ingress.name.clone();
            self.queue(&name, &reply, Offload::default());
            return;
        }
        let is_sent = match behaviour {
            Behaviour::Swallow | Behaviour::Hang => false,
            Behaviour::Bridge | Behaviour::Repeat => !has_header,
            Behaviour::Reflect => {
                bytes[6..12].copy_from_slice(&egress.mac.0);
                !has_header
            }
            Behaviour::Route(next) => !has_header && route(&mut bytes, next, egress.mac),
            Behaviour::Advance(by) => has_header && advance(&mut bytes, by, egress.mac),
            Behaviour::Annotate(bytes_of_value) => {
                has_header && annotate(&mut bytes, bytes_of_value)
            }
            Behaviour::Echo => has_header,
            Behaviour::Filter => {
                ProbeMark::find(&view, &bytes).is_none() && route(&mut bytes, PROXY_MAC, egress.mac)
            }
        };
        if !is_sent {
            return;
        }
        self.queue(&egress.name, &bytes, seen.offload);
    }

    /// The frames that a port has seen, and forgets.
    pub(crate) fn take(&mut self, port: &str) -> Vec<Vec<u8>> {
        let seen = self.seen.remove(port).unwrap_or_default();
        seen.into_iter().map(|seen| seen.bytes).collect()
    }

    /// How many frames each port that saw any has seen.
    pub(crate) fn visits(&self) -> BTreeMap<&str, usize> {
        self.seen.iter().map(|(port, seen)| (port.as_str(), seen.len())).collect()
    }

    /// Tells the nodes the time, though there are no packets.
    pub(crate) fn elapse(&mut self) {
        for engine in self.nodes.iter_mut().flat_map(|node| &mut node.engines) {
            engine.elapse(self.now_ns);
        }
    }

    /// The devices of the underlay take packets of this size at one node.
    pub(crate) fn limit_underlay(&mut self, node: usize, mtu: u16) {
        for engine in &mut self.nodes[node].engines {
            engine.limit_underlay_mtu(mtu);
        }
    }

    /// The tables in force at one node.
    pub(crate) fn tables(&self, node: usize) -> &Tables {
        self.nodes[node].first().tables()
    }

    /// Puts others in force.
    pub(crate) fn replace_tables(&mut self, node: usize, tables: Tables) {
        self.nodes[node].replace_tables(tables);
    }

    /// Puts a change of slices in force at one node.
    pub(crate) fn change_slices(&mut self, node: usize, changes: &[Change]) {
        let tables = changed(self.tables(node), changes).unwrap();
        self.replace_tables(node, tables);
    }

    /// The counters of all slices at a node, asked for in parts of two.
    pub(crate) fn slice_counters(&self, node: usize) -> Vec<SliceCounters> {
        let mut all: Vec<SliceCounters> = Vec::new();
        loop {
            let after = all.last().map(|slice| slice.slice);
            let mut parts = self.nodes[node].engines.iter().map(|e| e.slice_counters(after, 2));
            let mut part = parts.next().unwrap();
            for other in parts {
                part.iter_mut().zip(&other).for_each(|(own, other)| own.merge(other));
            }
            let is_last = part.len() < 2;
            all.extend(part);
            if is_last {
                return all;
            }
        }
    }

    /// The engine of a node that decides such a packet.
    pub(crate) fn decider(&self, node: usize, at: &ExplainAt, frame: &[u8]) -> usize {
        self.nodes[node].decider_asked(at, &FrameBytes(frame.to_vec()))
    }

    /// Packets that another engine of a node than its first has received.
    pub(crate) fn received_by_others(&self, node: usize) -> u64 {
        self.nodes[node].received_by_others()
    }

    /// Packets that took the fast path.
    pub(crate) fn by_fast_path(&self) -> u64 {
        self.nodes.iter().flat_map(|node| &node.engines).map(Engine::by_fast_path).sum()
    }

    pub(crate) fn counters(&self) -> Vec<NodeCounters> {
        self.nodes.iter().map(Node::counters).collect()
    }

    /// The identity at every port, for the tunnels, the node and each path; no buffer is lost.
    pub(crate) fn check(&self) {
        for node in &self.nodes {
            let counters = node.counters();
            let waiting = node.waiting();
            let ports = counters.ports.iter().chain(&counters.links);
            let accounts = ports.map(|port| (port.name.as_str(), &port.account));
            for (name, account) in accounts.chain([("tunnels", &counters.tunnels)]) {
                assert_eq!(account.unaccounted(), 0, "{} {name}: {account:?}", counters.node);
                assert!(account.held <= waiting, "{} {name}", counters.node);
            }
            assert_eq!(counters.total().unaccounted(), 0);
            assert_eq!(counters.total().held, waiting);
            for path in &counters.chains {
                let hops = |volume: fn(&catena_model::HopCounters) -> u64| -> u64 {
                    path.hops.iter().map(volume).sum()
                };
                let came = path.entered.packets
                    + path.tapped.packets
                    + path.tunnelled_in.packets
                    + hops(|hop| hop.returned.packets);
                let went = path.finished.packets
                    + path.tunnelled_out.packets
                    + hops(|hop| hop.delivered.packets)
                    + path.dropped.values().sum::<u64>();
                let is_right = went <= came && came <= went + waiting;
                assert!(is_right, "{} path {}: {path:?}", counters.node, path.path);
            }
            let buffers = node.pool.free() + waiting as usize;
            assert_eq!(buffers, node.pool.capacity(), "buffers are missing");
            check_scope(node, &counters);
        }
    }

    /// Packets of the first chain that functions hold, by the identity of `ChainCounters`.
    pub(crate) fn inside(&self) -> u64 {
        let (mut came, mut went) = (0, 0);
        for node in self.counters() {
            let path = &node.chains[0];
            came += path.entered.packets + path.tapped.packets;
            went += path.finished.packets + path.dropped.values().sum::<u64>();
            let taps = &self.town.chains[0].taps;
            let of_taps = path.hops.iter().filter(|hop| taps.contains(&usize::from(hop.hop)));
            went += of_taps.map(|hop| hop.delivered.packets).sum::<u64>();
        }
        came - went
    }

    /// The counters that moved since the last call, by how much.
    pub(crate) fn moved(&mut self) -> BTreeMap<String, u64> {
        let now = flat(&self.counters());
        let before = std::mem::replace(&mut self.before, now.clone());
        let moved = now.into_iter().map(|(name, value)| {
            let old = before.get(&name).copied().unwrap_or(0);
            (name, value - old)
        });
        moved.filter(|(_, by)| *by > 0).collect()
    }

    /// Exactly these counters moved since the last call.
    #[track_caller]
    pub(crate) fn assert_moved(&mut self, expected: &[(&str, u64)]) {
        let expected: BTreeMap<String, u64> =
            expected.iter().map(|(name, by)| ((*name).to_owned(), *by)).collect();
        assert_eq!(self.moved(), expected);
    }

    /// One packet that came in by a port or tunnel was dropped for this reason; nothing else moved
    /// but that it was received.
    #[track_caller]
    pub(crate) fn assert_only_dropped(&mut self, at: &str, reason: DropReason) {
        let (received, dropped) = (format!("{at} received"), format!("{at} dropped {reason}"));
        self.assert_moved(&[(&received, 1), (&dropped, 1)]);
    }

    /// Asks one node what it would do with a packet.
    pub(crate) fn explain(
        &self,
        node: usize,
        request: ExplainRequest,
    ) -> Result<ExplainReply, String> {
        let node_asked = &self.nodes[node];
        let decider = node_asked.decider_asked(&request.at, &request.frame);
        let live = &node_asked.engines[decider];
        let tables = Arc::clone(live.tables());
        let refuses = |way: Way| {
            let of_node = self.town.ports.iter().filter(|port| port.node == node);
            let mut named =
                of_node.filter(|port| live.slot_of(port.id).map(Way::Port) == Some(way));
            self.refusals.get(&named.next()?.name).copied()
        };
        let mut rehearsal = Rehearsal::new(node_name(node), tables, request);
        rehearsal.run(live, self.now_ns, &refuses);
        rehearsal.reply()
    }

    /// Asks the engine of a node for the next packet at a port.
    pub(crate) fn catch_next(
        &mut self,
        node: usize,
        request: &CatchRequest,
    ) -> Result<Option<CaughtPacket>, String> {
        let engines = self.nodes[node].engines.iter_mut();
        let caught = engines.map(|engine| engine.catch_next(request, self.now_ns));
        Ok(caught.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().next())
    }

    /// Lost before the engine, as the shell tells.
    pub(crate) fn note_lost(&mut self, node: usize, origin: Origin, reason: DropReason) {
        self.nodes[node].engines[0].note_received_lost(origin, reason, 1, 60);
    }
}
