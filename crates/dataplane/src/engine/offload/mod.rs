//! The kernel path: what the engine has decided for a packet becomes a transform in the kernel's
//! tables, which repeats it for the others of its flow (docs/adr/0012-the-kernel-path.md).
//!
//! Knows what a decision depended on, when it holds no more, and how the counters and memories of the
//! engine hear of packets that it never saw. Refuses to decide: whatever a transform cannot say
//! stays with the engine, by name.

mod accounts;
mod arrival;
mod changes;
mod flows;
mod guards;
mod holdings;
mod key;
mod looks;
mod offload_tables;
mod report;
mod room;
mod rounds;
mod transform;
mod transits;
mod translate;
mod underlay;

pub use offload_tables::{HandOver, Losses, OffloadTables, Passed};
pub use underlay::UnderlayInterface;

use crate::engine::account::counters::Counters;
use crate::engine::account::slots::Slots;
use crate::engine::action::effects::Noted;
use crate::engine::packet::index::{PortIndex, UNTOLD_NETWORK};
use crate::engine::packet::{Arrived, Origin, Packet, PortSlot};
use crate::engine::state::affinity::FlowAffinity;
use crate::engine::state::link_board::LinkBoard;
use crate::engine::state::proxy_flows::{Key, ProxyFlows};
use crate::engine::tables::Tables;
use crate::engine::tables::descent::Dependency;
use crate::engine::transit::CameUp;
use crate::engine::vector::decision::Exit;
use accounts::Accounts;
use arrival::Arrival;
use catena_fastpath::FlowKey;
use catena_io::Buffer;
use catena_model::account::Volume;
use catena_model::id::{InstanceId, PortId};
use catena_model::kernel::{Declined, KernelCounters};
use catena_model::program::PROXY_MAC;
use catena_wire::ethernet::EthernetHeader;
use catena_wire::frame::FrameView;
use catena_wire::scalar::EtherType;
use flows::{Flow, Flows, UNDER_WAY_NS};
use guards::Guards;
use looks::Looks;
use rounds::{ROUND_NS, Rounds, Step};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use transform::Tunnels;
use transits::Transits;
use translate::{Translation, Translator};

/// How long a transform stays that nothing passes by, in nanoseconds.
const IDLE_NS: u64 = 30_000_000_000;
/// How long a flow that cannot be repeated is not looked at again, in nanoseconds.
const DECLINED_NS: u64 = 1_000_000_000;
/// Flows that are known not to be repeatable.
const DECLINED_MAX: usize = 16_384;

/// An interface of this node that the kernel can send by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPort {
    /// Its number in the kernel's table of ports.
    pub number: u32,
    /// The interface.
    pub interface: u32,
    /// Does another namespace hold the other end of its pair?
    pub has_peer: bool,
}

/// How a packet that came up is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// As all others.
    Ordinary,
    /// As all others, but that the kernel sends other packets of its flow.
    Followed,
    /// Alone, and the kernel repeats what comes of it.
    Record(Place),
}

/// Packets of a vector that pass together.
pub(crate) struct Run {
    pub(crate) count: usize,
    /// Does the kernel send other packets of their flows?
    pub(crate) is_followed: bool,
    /// What becomes of the packet behind them; none: the vector ends.
    pub(crate) then: Option<Treatment>,
}

/// By what a packet is known, and where its frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: FlowKey,
    /// Bytes of a tunnel's own header before it; 0: it came by a port.
    pub(crate) inner_offset: usize,
}

impl Place {
    /// The frame there. That of a packet which segments have brought is made first, as the engine makes it.
    pub(crate) fn view(&self, bytes: &[u8]) -> Option<FrameView> {
        let frame = bytes.get(self.inner_offset..)?;
        if Arrival::of(self.key.origin) == Arrival::Tunnel {
            return FrameView::parse(frame).ok();
        }
        let ether_type = if self.key.family == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let mut made = frame.to_vec();
        EthernetHeader::untagged(PROXY_MAC, PROXY_MAC, ether_type).emit(&mut made).ok()?;
        FrameView::parse(&made).ok()
    }
}

/// The kernel path of one engine.
pub(crate) struct KernelPath {
    pub(crate) kernel_tables: Box<dyn OffloadTables>,
    guards: Guards,
    accounts: Accounts,
    flows: Flows,
    ports: HashMap<PortId, KernelPort>,
    /// That of the underlay; none: tunnels are not the kernel's.
    underlay_interface: Option<UnderlayInterface>,
    /// Addresses of nodes whose packets the kernel takes, and their numbers in its keys.
    sources: BTreeMap<IpAddr, u16>,
    /// No node has a higher number: none gets that of another, whose flows may still be there.
    last_source: u16,
    declined: HashMap<FlowKey, (Declined, u64)>,
    next_sweep_ns: u64,
    /// Counted packets in the vector that is being forwarded.
    counted: Vec<FlowKey>,
    /// Instances that were dead when last looked.
    dead: BTreeSet<InstanceId>,
    is_listening: bool,
    rounds: Rounds,
    looks: Looks,
    transits: Transits,
    counters: KernelCounters,
}

/// What of the engine the kernel path moves or asks.
pub(crate) struct OffloadContext<'e> {
    pub(crate) now_ns: u64,
    pub(crate) tables: &'e Tables,
    pub(crate) slots: &'e Slots,
    pub(crate) counters: &'e mut Counters,
    pub(crate) proxy_flows: &'e mut ProxyFlows,
    pub(crate) affinity: &'e mut FlowAffinity,
    pub(crate) links: &'e LinkBoard,
}

impl OffloadContext<'_> {
    fn interface(&self, slot: PortSlot, ports: &HashMap<PortId, KernelPort>) -> Option<KernelPort> {
        self.interface_of(self.slots.owner(slot).1?, ports)
    }

    fn interface_of(
        &self,
        port: PortIndex,
        ports: &HashMap<PortId, KernelPort>,
    ) -> Option<KernelPort> {
        ports.get(&self.tables.port(port).entry.id).copied()
    }
}

/// A packet that passed the engine while it was listened to.
pub(crate) struct Witnessed<'n> {
    pub(crate) place: Place,
    /// None: it came by a tunnel.
    pub(crate) slot: Option<PortSlot>,
    pub(crate) view: &'n FrameView,
    pub(crate) notes: &'n [Noted],
}

impl KernelPath {
    pub(crate) fn new(kernel_tables: Box<dyn OffloadTables>) -> Self {
        Self {
            kernel_tables,
            guards: Guards::default(),
            accounts: Accounts::new(),
            flows: Flows::default(),
            ports: HashMap::new(),
            underlay_interface: None,
            sources: BTreeMap::new(),
            last_source: 0,
            declined: HashMap::new(),
            next_sweep_ns: 0,
            counted: Vec::new(),
            dead: BTreeSet::new(),
            is_listening: false,
            rounds: Rounds::default(),
            looks: Looks::default(),
            transits: Transits::default(),
            counters: KernelCounters::default(),
        }
    }

    /// What to do with a packet that came up; the memory learns what the kernel did with its flow.
    pub(crate) fn treat(&mut self, packet: &Packet, with: &mut OffloadContext<'_>) -> Treatment {
        let is_counted = match packet.arrived {
            Arrived::Plainly | Arrived::AtExit(_) => return Treatment::Ordinary,
            Arrived::Watched => return Treatment::Followed,
            Arrived::FromKernel { is_counted } => is_counted,
        };
        self.counters.punted += 1;
        let Some((key, inner_offset)) = self.key(packet.origin, &packet.buffer, with) else {
            return Treatment::Ordinary;
        };
        if is_counted {
            self.counted.push(key);
            return Treatment::Followed;
        }
        if let Some(flow) = self.flows.get(&key) {
            // It waits, or the packet was under way when it was put in; or the kernel lost it.
            let is_young = with.now_ns.saturating_sub(flow.installed_ns) < UNDER_WAY_NS;
            if flow.forwarded.is_some() || is_young || self.kernel_tables.passed(&key).is_some() {
                return Treatment::Followed;
            }
            self.counters.evicted += 1;
            self.remove(&[key], with);
        }
        if let Some((reason, until_ns)) = self.declined.get(&key)
            && with.now_ns < *until_ns
        {
            *self.counters.declined.entry(*reason).or_default() += 1;
            return if reason.is_passing() { Treatment::Followed } else { Treatment::Ordinary };
        }
        Treatment::Record(Place { key, inner_offset })
    }

    /// The key of a packet, and where its frame begins; the memory is told of its flow.
    fn key(
        &mut self,
        origin: Origin,
        buffer: &Buffer,
        with: &mut OffloadContext<'_>,
    ) -> Option<(FlowKey, usize)> {
        match origin {
            Origin::Port(slot) => {
                let number = with.interface(slot, &self.ports)?.number;
                let view = FrameView::parse(buffer.bytes()).ok()?;
                self.tell_memory(slot, &view, with);
                Some((key::of_frame(number, buffer)?, 0))
            }
            Origin::Tunnel { kind, source } => {
                key::of_payload(kind, *self.sources.get(&source)?, buffer)
            }
        }
    }

    /// Of a flow that the kernel passes through a function, the memory must know how many packets
    /// are inside before it judges one that came out.
    fn tell_memory(&mut self, slot: PortSlot, view: &FrameView, with: &mut OffloadContext<'_>) {
        let Some(flow) = view.flow else { return };
        let (_, Some(index)) = with.slots.owner(slot) else { return };
        let port = with.tables.port(index);
        if !port.is_function() {
            return;
        }
        let (serial, told) = (with.slots.serial(index), (UNTOLD_NETWORK, flow));
        let keys = crate::engine::state::rewrite::keys(port, serial, told, translate::NOBODY);
        let networks = |key: Key| port.networks().map(move |network| Key { network, ..key });
        let known: Vec<Key> = keys.flat_map(networks).filter(|k| self.flows.knows(k)).collect();
        for key in known {
            self.flows.tell(&key, with.now_ns, with.proxy_flows, &mut *self.kernel_tables);
        }
    }

    /// Takes the decisions about a packet into the kernel, if a transform can say them. Will the
    /// kernel send other packets of its flow?
    pub(crate) fn record(&mut self, seen: &Witnessed<'_>, with: &mut OffloadContext<'_>) -> bool {
        let Err(reason) = self.try_record(seen, with) else { return true };
        self.decline(seen.place.key, reason, with.now_ns);
        reason.is_passing()
    }

    fn try_record(
        &mut self,
        seen: &Witnessed<'_>,
        with: &mut OffloadContext<'_>,
    ) -> Result<(), Declined> {
        let flow = seen.view.flow.ok_or(Declined::Moved)?;
        if with.tables.has_slices() && key::may_hide_slices(&flow) {
            return Err(Declined::Slices);
        }
        let translator = Translator { tables: with.tables, protocol: flow.protocol };
        let translation = translator.translate(seen.notes)?;
        self.install(seen, translation, flow, with)
    }

    fn install(
        &mut self,
        seen: &Witnessed<'_>,
        made: Translation,
        flow: catena_wire::flow::FlowKey,
        with: &mut OffloadContext<'_>,
    ) -> Result<(), Declined> {
        let holder = room::holder(seen.slot, &made, with).ok_or(Declined::Moved)?;
        let kernel_tables = &mut *self.kernel_tables;
        let mut guards = Vec::with_capacity(made.dependencies.len());
        for dependency in &made.dependencies {
            guards.push(self.guards.of(*dependency, kernel_tables).ok_or(Declined::TooManyGuards)?);
        }
        let came = match (seen.slot, made.back) {
            (None, _) => Some(Arrival::of(seen.place.key.origin)),
            // What went in by the kernel came as it did there; else by what the path comes by, if by anything.
            (Some(_), Some(back)) => self.flows.came(&back).unwrap_or(made.recalled),
            (Some(_), None) => None,
        };
        if let Some(into) = &made.into {
            // They leave by the mark of what brings packets, of which nothing was known when they were put in.
            let otherwise = self.flows.back_from(&into.keys, came);
            self.counters.ended += otherwise.len() as u64;
            self.remove(&otherwise, with);
        }
        let underlay = self.underlay(with.tables);
        let tunnels = Tunnels {
            tables: with.tables,
            protocol: flow.protocol,
            came,
            is_classified: made.classified.is_some(),
            taken_off: seen.place.inner_offset,
            underlay,
        };
        let port_of = |port| with.interface_of(port, &self.ports);
        let draft = transform::draft(&made.leaves, &guards, seen.view, &tunnels, &port_of)?;
        let segments_to = draft.segments_to;
        let kernel_tables = &mut *self.kernel_tables;
        let Some(account) = self.accounts.take(made.updates, holder, kernel_tables) else {
            self.make_room_for_account(holder, with);
            return Err(Declined::NoAccount);
        };
        let transform = draft.counting(account);
        // Nobody gives way to what could not be taken anyway.
        let has_room = transform.is_err() || self.make_room(holder, with);
        let kernel_tables = &mut *self.kernel_tables;
        let is_taken = has_room
            && transform.is_ok_and(|transform| kernel_tables.install(&seen.place.key, &transform));
        if !is_taken {
            self.accounts.leave(account);
            return Err(if has_room { Declined::Refused } else { Declined::Full });
        }
        self.counters.installed += 1;
        self.declined.remove(&seen.place.key);
        let exits = made.leaves.iter().filter_map(|leaving| match leaving.exit {
            Exit::Port(port) => Some(with.slots.of_index(port)),
            Exit::Node(_) | Exit::Link(..) => None,
        });
        let leaves_node = made.leaves.iter().any(|leaving| matches!(leaving.exit, Exit::Node(_)));
        let classified =
            made.classified.map(|(path, chain)| (with.affinity.key(&flow, chain), path));
        let flow = Flow {
            holder,
            origin: seen.slot,
            exits: exits.collect(),
            leaves_node,
            segments_to,
            dependencies: made.dependencies,
            account,
            into: made.into,
            back: made.back,
            came,
            classified,
            forwarded: Some(0),
            passed: 0,
            seen_ns: with.now_ns,
            installed_ns: with.now_ns,
        };
        self.flows.add(seen.place.key, flow);
        Ok(())
    }

    fn decline(&mut self, key: FlowKey, reason: Declined, now_ns: u64) {
        *self.counters.declined.entry(reason).or_default() += 1;
        // Not for every packet of a flood of flows.
        if self.declined.len() >= DECLINED_MAX && self.next_sweep_ns <= now_ns {
            self.next_sweep_ns = now_ns.saturating_add(ROUND_NS);
            self.declined.retain(|_, (_, until_ns)| now_ns < *until_ns);
        }
        if self.declined.len() < DECLINED_MAX {
            self.declined.insert(key, (reason, now_ns.saturating_add(DECLINED_NS)));
        }
    }

    /// What the engine handed out has been given to the ports. Does any flow wait? `came_up`: from links.
    pub(crate) fn transmitted(&mut self, came_up: &mut CameUp, now_ns: u64) -> bool {
        self.counters.punted += came_up.take_frames();
        for (reason, frames) in came_up.take_kept() {
            *self.counters.declined.entry(reason).or_default() += frames;
        }
        let counted = came_up.take_counted();
        self.transits.note_forwarded(counted, now_ns, &mut *self.kernel_tables);
        for key in self.counted.drain(..) {
            self.flows.note_forwarded(&key);
        }
        self.flows.any_waits()
    }

    /// Somebody looks for packets, or nobody does: then the kernel may carry them. It begins anew
    /// with each flow, so that none of its packets passes those that are still on their way up.
    pub(crate) fn listen(&mut self, is_listening: bool, with: &mut OffloadContext<'_>) {
        if self.is_listening == is_listening {
            return;
        }
        self.is_listening = is_listening;
        if !is_listening {
            self.end_all(with);
        }
        self.kernel_tables.switch(!is_listening);
    }

    /// Everything that has been received was forwarded: flows that wait may be the kernel's now.
    pub(crate) fn hand_over(&mut self, with: &mut OffloadContext<'_>) {
        let failed = self.flows.hand_over(with.now_ns, &mut *self.kernel_tables);
        self.remove(&failed, with);
    }

    /// Looks after some flows: those that nothing passes by leave the kernel, the others are known
    /// as alive. Answers when it wants to be called again.
    pub(crate) fn tick(&mut self, with: &mut OffloadContext<'_>) -> u64 {
        let now_ns = with.now_ns;
        let Some(Step { flows, is_last }) = self.rounds.step(now_ns, self.flows.len()) else {
            return self.rounds.next_ns();
        };
        let mut leaving = Vec::new();
        for key in self.flows.next_round(flows) {
            if !self.flows.read(&key, now_ns, &mut *self.kernel_tables) {
                self.counters.evicted += 1;
                leaving.push(key);
                continue;
            }
            let Some(flow) = self.flows.get(&key) else { continue };
            if now_ns.saturating_sub(flow.seen_ns) > IDLE_NS {
                self.counters.aged += 1;
                leaving.push(key);
                continue;
            }
            leaving.extend(self.looks.let_up(flow, &self.flows, now_ns));
            let into = flow.into.as_ref().map(|into| into.keys.clone()).unwrap_or_default();
            for known in into {
                self.flows.tell(&known, now_ns, with.proxy_flows, &mut *self.kernel_tables);
            }
            self.note_classified(&key, with);
        }
        self.remove(&leaving, with);
        if is_last {
            self.looks.forget_unused(now_ns);
            self.hand_over(with);
            self.transits.hand_over(now_ns, &mut *self.kernel_tables);
            self.settle_transits(with);
        }
        self.rounds.next_ns()
    }

    fn note_classified(&self, key: &FlowKey, with: &mut OffloadContext<'_>) {
        if let Some(flow) = self.flows.get(key)
            && let Some((known, path)) = flow.classified
        {
            with.affinity.note(flow.seen_ns, known, path);
        }
    }

    fn remove(&mut self, keys: &[FlowKey], with: &mut OffloadContext<'_>) {
        if keys.is_empty() {
            return;
        }
        for key in keys {
            self.flows.read(key, with.now_ns, &mut *self.kernel_tables);
            self.note_classified(key, with);
        }
        let accounts = &mut self.accounts;
        self.flows.remove(keys, with.now_ns, with.proxy_flows, &mut *self.kernel_tables, |flow| {
            accounts.leave(flow.account);
        });
    }

    /// Ends what was decided by what changes between two programs, before the new one is in force.
    pub(crate) fn change(&mut self, new: &Tables, with: &mut OffloadContext<'_>) {
        let old = with.tables;
        let changed = new.descent.since(&old.descent);
        let changed = changed.filter(|_| new.has_slices() == old.has_slices());
        let turned = if let Some((changed, turned)) = changed.and_then(changes::dependencies) {
            let ports = changed.gone_ports.iter().chain(&changed.other_ports);
            // Who may still send there sends to nobody, or to others: the engine knows.
            let slots = ports.filter_map(|port| with.slots.of_port(*port)).collect();
            self.end_at(&slots, with);
            turned
        } else {
            self.guards.all().map(|(one, _)| one).collect()
        };
        self.end(&turned, with);
        for dependency in turned.into_iter().filter(|one| changes::is_gone(*one, new)) {
            self.guards.forget(dependency, &mut *self.kernel_tables);
        }
        self.declined.clear();
        self.settle(with);
        self.transits.end_others(&new.exits, &mut *self.kernel_tables);
        self.tell_underlay(new);
    }

    fn end(&mut self, changed: &BTreeSet<Dependency>, with: &mut OffloadContext<'_>) {
        if changed.is_empty() {
            return;
        }
        for dependency in changed {
            self.guards.bump(*dependency, &mut *self.kernel_tables);
        }
        let ended = self.flows.decided_by(changed);
        self.counters.ended += ended.len() as u64;
        self.remove(&ended, with);
    }

    /// Flows visit a function by another path than the one before, though no table has changed:
    /// another node has sent them there. What comes back must not be put on the former path.
    pub(crate) fn end_turned(&mut self, with: &mut OffloadContext<'_>) {
        let turned = with.proxy_flows.take_turned();
        let ended: Vec<FlowKey> =
            turned.iter().flat_map(|key| self.flows.of(key)).copied().collect();
        self.counters.ended += ended.len() as u64;
        self.remove(&ended, with);
    }

    /// Ends every transform.
    pub(crate) fn end_all(&mut self, with: &mut OffloadContext<'_>) {
        let all: BTreeSet<Dependency> = self.guards.all().map(|(one, _)| one).collect();
        self.end(&all, with);
        self.transits.end_all(&mut *self.kernel_tables);
    }

    /// Instances that died or came back change their paths.
    pub(crate) fn note_health(
        &mut self,
        dead: BTreeSet<InstanceId>,
        with: &mut OffloadContext<'_>,
    ) {
        if self.dead == dead {
            return;
        }
        let turned: BTreeSet<InstanceId> = self.dead.symmetric_difference(&dead).copied().collect();
        self.dead = dead;
        let visits = turned.iter().flat_map(|id| with.tables.names.visited(*id));
        let changed = visits.map(|(_, path, ..)| Dependency::Path(path)).collect();
        self.end(&changed, with);
    }

    /// A port has this interface now; none: it has no longer any.
    pub(crate) fn port(
        &mut self,
        id: PortId,
        port: Option<KernelPort>,
        with: &mut OffloadContext<'_>,
    ) {
        if self.ports.get(&id).copied() == port {
            return;
        }
        match port {
            Some(port) => self.ports.insert(id, port),
            None => self.ports.remove(&id),
        };
        self.declined.clear();
        if let Some(slot) = with.slots.of_port(id) {
            self.end_at(&HashSet::from([slot]), with);
        }
    }

    /// Ends all flows that come in or go out by one of these.
    fn end_at(&mut self, slots: &HashSet<PortSlot>, with: &mut OffloadContext<'_>) {
        if slots.is_empty() {
            return;
        }
        let touched = self.flows.which(|flow| {
            let mut ports = flow.origin.iter().chain(&flow.exits);
            ports.any(|port| slots.contains(port))
        });
        self.counters.ended += touched.len() as u64;
        self.remove(&touched, with);
    }

    /// Counts what the kernel has carried since the last time.
    pub(crate) fn settle(&mut self, with: &mut OffloadContext<'_>) {
        let carried: Volume = self.accounts.settle(&mut *self.kernel_tables, with.counters);
        self.counters.carried.merge(carried);
        self.settle_transits(with);
    }
}
