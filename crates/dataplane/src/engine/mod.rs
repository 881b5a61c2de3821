//! The engine: vectors of packets in, frames and datagrams out, and the counters of what happened.
//!
//! Knows the semantics of a node's program: classification, paths, proxies, switching, tunnels.
//! Refuses to know sockets, rings, clocks and threads: time is an argument, packets are values.
//! There is one implementation of these semantics; caches elsewhere may only repeat its verdicts.

mod account;
mod action;
mod collections;
mod config;
mod counting;
mod dispatch;
mod dump;
mod encap;
mod error;
mod fast_path;
mod following;
mod hellos;
mod inquiring;
mod lending;
mod observe;
mod offload;
mod offloading;
mod packet;
mod path_ends;
mod probing;
mod rehearsal;
mod setting_up;
mod stage;
mod stages;
mod state;
mod tables;
mod transit;
mod vector;
mod waiting;

pub use account::counters::RETIRED_PORTS_NAME;
pub use account::tx_batches::{TxBatches, TxCredit, TxRef};
pub use action::output::{Datagram, Frame, Output};
pub use catena_model::TunnelKind;
pub use catena_nf::function::StateEntry;
pub use config::{EngineConfig, FLOOD_FRAMES_PER_SECOND};
pub use error::CompileError;
pub use offload::{HandOver, KernelPort, Losses, OffloadTables, Passed, UnderlayInterface};
pub(crate) use packet::trim_front;
pub use packet::{Origin, Packet, PortSlot};
pub use rehearsal::{Rehearsal, Way};
pub use stage::{Call, Form, Lanes, Reply};
pub use state::function_messages::FunctionMessage;
pub(crate) use state::function_messages::MessageRoom;
pub use state::function_state::{RememberedState, StateChange};
pub use state::health::{Board, WatchDuty};
pub use state::link_board::LinkBoard;
pub use tables::classifier::Asked;
pub use tables::{Makers, Tables};
pub use vector::VECTOR_PACKETS_MAX;

use account::counters::Counters;
use account::slots::Slots;
use account::updates::CounterUpdate;
use action::actions::Actions;
use action::context::Context;
use action::effects::Trace;
use action::egress::Egress;
use action::pathlets::Pathlets;
use catena_io::BufferPool;
use catena_model::DropReason;
use catena_model::account::Volume;
use catena_model::explain::{CatchRequest, CaughtPacket};
use catena_model::id::PortId;
use collections::shares::Shares;
use encap::{Carried, Located};
pub use encap::{RecordLosses, ToldEnd};
use fast_path::{FastPath, FastPathContext};
use observe::checks::Checks;
use observe::follows::Follows;
use offload::{KernelPath, Run, Treatment};
use packet::subscriber::Inspection;
use stages::coalesce::OpenTrain;
use stages::functions::Access;
use stages::receive::Arrivals;
use stages::shared_functions::SharedFunctions;
use stages::{
    answer, answer_inside, classify, coalesce, functions, prober, proxy, receive, setup, shaping,
    switch,
};
use state::affinity::FlowAffinity;
use state::capture::Captures;
use state::floods::Floods;
use state::flow_cache::FlowCache;
use state::flushes::Flushes;
use state::fragments::Fragments;
use state::functions::Functions;
use state::health::{Due, Health};
use state::proxy_flows::ProxyFlows;
use state::scheduler::Shaper;
use state::setups::{Said, Setups};
use std::sync::Arc;
use tables::descent::Entered;
use transit::Transit;
use vector::Batch;
use vector::Work;
use vector::decision::Epoch;
use vector::owner::Owner;

/// What the stages work with, of an engine whose other parts they use as well.
macro_rules! context {
    ($engine:expr, $now_ns:expr, $pool:expr, $passing:expr) => {
        &mut Context {
            now_ns: $now_ns,
            epoch: $engine.epoch,
            tables: &$engine.tables,
            slots: &$engine.slots,
            actions: &$engine.actions,
            counters: &mut $engine.counters,
            pool: $pool,
            made: &mut $engine.made,
            health: &mut $engine.health,
            carried: &mut $engine.carried,
            pathlets: &mut $engine.pathlets,
            inspection: $engine.inspection,
            shaper: &mut $engine.shaper,
            setups: &mut $engine.setups,
            said: $passing.said,
            meter: $engine.config.meter,
            began_ns: $engine.config.began.map(|began| began.ns),
            is_uncharged: $passing.is_probe || $passing.is_asked,
            is_probe: $passing.is_probe,
            is_injected: $passing.is_injected,
            trace: $passing.trace,
            captures: &mut $engine.captures,
            floods: &mut $engine.floods,
            flushes: &mut $engine.flushes,
            links: &$engine.config.links,
            flow_cache: &mut $engine.flow_cache,
        }
    };
}

use context;

/// How a vector passes the stages.
#[derive(Default)]
struct Passing<'t> {
    trace: Trace<'t>,
    /// It is a probe of a chain: it leaves its path for nobody.
    is_probe: bool,
    /// Somebody asks what would become of it.
    is_asked: bool,
    /// The functions that are asked in the place of the engine's own; none: those decide.
    asks: Option<&'t Functions>,
    /// It was made here.
    is_injected: bool,
    /// What the controller has said of its flows.
    said: Said,
}

/// Flows that there is room for where there are none.
const NO_FLOWS: usize = 1;

/// One engine: the tables in force, the proxies' memory and the counters.
pub struct Engine {
    config: EngineConfig,
    tables: Arc<Tables>,
    epoch: Epoch,
    slots: Slots,
    counters: Counters,
    proxy_flows: ProxyFlows,
    shared_functions: SharedFunctions,
    affinity: FlowAffinity,
    inspection: Inspection,
    /// The latest time that the engine was told.
    now_ns: u64,
    fragments: Fragments,
    functions: Functions,
    egress: Egress,
    carried: Carried,
    pathlets: Pathlets,
    shaper: Shaper,
    setups: Setups,
    /// Other tables are in force than when packets were held.
    has_turned: bool,
    flushes: Flushes,
    captures: Captures,
    health: Health,
    checks: Checks,
    follows: Follows,
    actions: Actions,
    fast_path: FastPath,
    floods: Floods,
    made: Shares<Owner>,
    flow_cache: FlowCache,
    has_flow_stores: bool,
    transit: Transit,
    kernel: Option<Box<KernelPath>>,
    // Working memory of the stages, kept so that no vector allocates.
    arrivals: Arrivals,
    vector: Vec<Work>,
    trains: Vec<OpenTrain>,
    located: Vec<Result<Located, DropReason>>,
    due: Vec<Due>,
}

impl Engine {
    /// An engine with an empty program: it drops what it is given, by name.
    #[must_use]
    pub fn new(mut config: EngineConfig) -> Self {
        let functions = Functions::new(config.functions_began_ns, config.functions_keep.take());
        Self {
            proxy_flows: ProxyFlows::new(NO_FLOWS, NO_FLOWS, config.flow_seed),
            shared_functions: SharedFunctions::default(),
            affinity: FlowAffinity::new(NO_FLOWS, config.flow_seed),
            now_ns: 0,
            tables: Arc::new(Tables::empty(config.node.clone())),
            health: Health::new(config.probe_secret, config.watch_duty.clone()),
            inspection: Inspection { is_on: false, seed: config.flow_seed },
            carried: Carried::new(NO_FLOWS, NO_FLOWS, config.flow_seed),
            pathlets: Pathlets::default(),
            checks: Checks::default(),
            follows: Follows::default(),
            actions: Actions::default(),
            fast_path: FastPath::new(config.has_fast_path),
            floods: Floods::new(config.flood_frames_per_second, config.flow_seed),
            made: Shares::new(),
            flow_cache: FlowCache::new(NO_FLOWS, config.flow_seed),
            has_flow_stores: false,
            transit: Transit::new(Arc::clone(&config.links)),
            kernel: None,
            shaper: Shaper::new(config.slice_bits_per_second),
            setups: Setups::new(config.flow_seed),
            has_turned: false,
            flushes: Flushes::new(),
            fragments: Fragments::new(config.flow_seed),
            functions,
            config,
            epoch: Epoch::default(),
            slots: Slots::default(),
            counters: Counters::new(),
            egress: Egress::new(),
            captures: Captures::default(),
            arrivals: Arrivals::with_capacity(VECTOR_PACKETS_MAX),
            vector: Vec::with_capacity(VECTOR_PACKETS_MAX),
            trains: Vec::new(),
            located: Vec::with_capacity(VECTOR_PACKETS_MAX),
            due: Vec::new(),
        }
    }

    /// What functions have handed out since this was asked last, which are no packets.
    pub fn take_function_messages(&mut self) -> Vec<FunctionMessage> {
        self.functions.take_messages()
    }

    /// What functions remember that this has not answered before, about once a second and in portions, where somebody
    /// keeps it. `is_last`: all of it, now.
    pub fn take_function_state(&mut self, is_last: bool) -> Vec<StateChange> {
        self.functions.take_state(self.now_ns, is_last)
    }

    /// Is there more of that before a second has passed?
    #[must_use]
    pub const fn is_handing_out(&self) -> bool {
        self.functions.is_handing_out()
    }

    /// What was answered of that is lost: everything is told with the next.
    pub fn tell_function_state_anew(&mut self) {
        self.functions.tell_anew();
    }

    /// Puts new tables in force, between vectors. Ports and paths that stay keep their slots and
    /// sums; the sums of ports that leave are kept in one line of the counters. Packets that were
    /// handed out may be counted before or after.
    pub fn replace_tables(&mut self, tables: Arc<Tables>) {
        if tables.has_flows() {
            self.make_flow_stores();
        }
        self.change_kernel_path(&tables);
        self.flush_former_ways(&tables);
        let former = Arc::clone(&self.tables);
        let changed = tables.descent.since(&former.descent);
        for slot in self.slots.align(&tables, changed, &mut self.counters) {
            self.fast_path.close_gate(slot);
        }
        self.transit.align(&tables, &self.slots);
        let links = tables.exits.links().map(|(number, _)| number);
        self.config.links.align(links, tables.discovery_key());
        self.health.align(&tables);
        self.counters.align_paths(&tables, changed, &self.slots);
        // What went into functions with its user must be told by it until the end.
        self.inspection.is_on |= tables.has_slices();
        self.epoch = Epoch(self.epoch.0 + 1);
        self.flow_cache.forget(changed.map_or(&Entered::All, |changed| &changed.entered));
        self.actions.align(&tables, changed, &self.slots);
        if self.config.has_functions {
            self.functions.align(&tables.bundles);
        }
        self.forget_headers();
        self.fast_path.align(&self.tables, &tables, changed, &self.slots);
        let [flows, inside] = self.proxy_flows.crowded_mut();
        for crowded in [flows, inside, &mut self.affinity.crowded] {
            crowded.align(&tables, &self.slots);
        }
        self.has_turned |= !self.setups.is_empty();
        self.setups.align(|chain| tables.entries.chains.contains_key(&chain));
        self.tables = tables;
        self.look_at_links();
    }

    /// Room for flows, which a node has from its first port or path on: a switch has neither, and remembers nothing.
    fn make_flow_stores(&mut self) {
        if std::mem::replace(&mut self.has_flow_stores, true) {
            return;
        }
        let config = &self.config;
        let seed = config.flow_seed;
        self.proxy_flows = ProxyFlows::new(config.flows_max, config.inside_max, seed);
        self.proxy_flows.note_turns(self.kernel.is_some());
        self.affinity = FlowAffinity::new(config.classified_max, seed);
        self.carried = Carried::new(config.flows_max, config.records_max, seed);
        self.flow_cache = FlowCache::new(config.classified_max, seed);
    }

    /// The tables in force.
    #[must_use]
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// The slot of a port of the program.
    #[must_use]
    pub fn slot_of(&self, port: PortId) -> Option<PortSlot> {
        self.slots.of_port(port)
    }

    /// Takes all packets of `input` through the engine. `now_ns` is a monotonic time in
    /// nanoseconds. Buffers of packets that end here go back to `pool`; all others are in `out`,
    /// and their packets are held until [`Engine::settle`] gets its batches; what could not be sent is
    /// withdrawn from them before, for [`Engine::credit_failed`].
    pub fn forward(
        &mut self,
        now_ns: u64,
        input: &mut Vec<Packet>,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        self.elapse(now_ns);
        self.release_flushed(pool, out);
        self.made.clear();
        if self.transit.is_open() {
            self.transit.pass_on(input, (&self.slots, &mut self.counters), pool, out);
            self.look_at_turned_links();
        }
        self.release_turned(pool, out);
        let mut said = None;
        let mut input = input.drain(..);
        while let Some(first) = input.as_slice().first() {
            let mut count = input.len().min(VECTOR_PACKETS_MAX);
            if self.checks.are_on(now_ns) {
                if let Some(probe) = self.checks.probe(first) {
                    let Some(packet) = input.next() else { break };
                    self.forward_probe(now_ns, probe, packet, false, pool, out);
                    continue;
                }
                let mut others = input.as_slice().iter();
                let next = others.position(|packet| self.checks.probe(packet).is_some());
                count = count.min(next.unwrap_or(count));
            }
            let mut sought = None;
            if self.follows.are_on(now_ns) {
                (count, sought) = self.follows.until_sought(input.as_slice(), count);
                if sought.is_some() {
                    self.settle_lent(now_ns, pool, out);
                }
            }
            let Run { count, is_followed, then } = self.treat(input.as_slice(), count, said.take());
            self.egress.gso().follow(is_followed);
            let batch = &mut Batch::new(&mut input, count);
            if let Some(sought) = sought.filter(|_| count > 0) {
                let Some(packet) = batch.next() else { break };
                self.forward_followed(now_ns, &sought, packet, pool, out);
            } else if count > 0 && self.fast_path.is_open() && self.captures.is_empty() {
                self.forward_fast(now_ns, batch, pool, out);
            } else if count > 0 {
                self.forward_vector(now_ns, batch, pool, out, Passing::default());
            }
            self.egress.gso().follow(false);
            self.end_turned();
            if let Some(Treatment::Record(place)) = then {
                let Some(packet) = input.next() else { break };
                self.forward_recorded(place, packet, pool, out);
            } else {
                said = then;
            }
        }
        drop(input);
        self.release_waiting(now_ns, pool, out);
        self.fragments.end_overdue(now_ns, &mut self.counters, pool);
    }

    fn forward_vector(
        &mut self,
        now_ns: u64,
        packets: impl Iterator<Item = Packet>,
        pool: &mut BufferPool,
        out: &mut Output,
        passing: Passing<'_>,
    ) {
        self.carried.open(now_ns);
        let (is_probe, asks) = (passing.is_probe, passing.asks);
        let vector = &mut self.vector;
        let context = context!(self, now_ns, pool, passing);
        receive::receive(packets, &mut self.arrivals, &mut self.fragments, vector, context);
        if self.config.is_coalescing {
            coalesce::coalesce(vector, &mut self.trains, context);
        }
        prober::receive(vector, context);
        answer::answer(vector, context);
        let Self { proxy_flows, shared_functions, fragments, located, functions, .. } = self;
        let access = &mut asks.map_or(Access::Live(functions), Access::Asked);
        proxy::receive_returned(vector, proxy_flows, shared_functions, fragments, located, context);
        classify::classify(vector, &mut self.affinity, context);
        shaping::set_aside(vector, context);
        setup::set_aside(vector, &self.affinity, context);
        functions::forward(vector, &mut self.affinity, access, context);
        answer_inside::answer(vector, context);
        switch::switch(vector, context);
        if is_probe {
            prober::consume(vector);
        }
        self.egress.emit(vector, &mut self.proxy_flows, context, out);
    }

    /// Takes packets through the fast path as far as it knows them, and all others through the stages, in order.
    pub(crate) fn forward_fast(
        &mut self,
        now_ns: u64,
        packets: &mut Batch<'_, '_>,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        self.carried.open(now_ns);
        let mut fast_path = std::mem::take(&mut self.fast_path);
        loop {
            let context = &mut FastPathContext {
                now_ns,
                epoch: self.epoch,
                tables: &self.tables,
                slots: &self.slots,
                actions: &self.actions,
                health: &self.health,
                links: &self.config.links,
                flushes: &self.flushes,
                is_coalescing: self.config.is_coalescing,
                inspection: self.inspection,
                counters: &mut self.counters,
                proxy_flows: &mut self.proxy_flows,
                affinity: &mut self.affinity,
                flow_cache: &mut self.flow_cache,
                carried: &mut self.carried,
                pathlets: &mut self.pathlets,
                gso: self.egress.gso(),
                pool,
                out,
            };
            fast_path.run(packets, context);
            if fast_path.waiting.is_empty() {
                break;
            }
            let waiting = fast_path.waiting.drain(..);
            self.forward_vector(now_ns, waiting, pool, out, Passing::default());
        }
        self.fast_path = fast_path;
    }

    /// Packets that took the fast path since the start: the rest took the slow path.
    #[must_use]
    pub fn by_fast_path(&self) -> u64 {
        self.fast_path.passed()
    }

    /// Asks for the next packet at a port: arms a trap, or answers what is in it.
    ///
    /// # Errors
    /// Why the trap cannot be armed, for people.
    pub fn catch_next(
        &mut self,
        request: &CatchRequest,
        now_ns: u64,
    ) -> Result<Option<CaughtPacket>, String> {
        if self.slots.of_port(request.port).is_none() {
            return Err(format!("port {} is not in the program of this node", request.port));
        }
        self.listen_to_kernel_path();
        self.captures.ask(request, now_ns)
    }

    /// Another engine of the node has caught the packet that was asked for by this token.
    pub fn forget_catch(&mut self, token: u64) {
        self.captures.forget(token);
    }

    /// Packets of slices whose turn it is go on, a vector of them at most.
    fn release_waiting(&mut self, now_ns: u64, pool: &mut BufferPool, out: &mut Output) {
        if self.shaper.is_empty() {
            return;
        }
        self.carried.open(now_ns);
        let vector = &mut self.vector;
        // They have been charged.
        let passing = Passing { is_asked: true, ..Passing::default() };
        let context = context!(self, now_ns, pool, passing);
        shaping::release(vector, context);
        classify::classify(vector, &mut self.affinity, context);
        let access = &mut Access::Live(&mut self.functions);
        functions::forward(vector, &mut self.affinity, access, context);
        switch::switch(vector, context);
        self.egress.emit(vector, &mut self.proxy_flows, context, out);
    }

    /// Later fragments that wait for the first of their packets.
    #[must_use]
    pub fn fragments_waiting(&self) -> usize {
        self.fragments.waiting()
    }

    /// Lets time pass for what waits and for what is watched: lets packets of slices go on, judges
    /// who is dead, and hands out the probes that are due. Answers when it wants to be called again;
    /// none: when other tables are in force.
    pub fn tick(&mut self, now_ns: u64, pool: &mut BufferPool, out: &mut Output) -> Option<u64> {
        self.elapse(now_ns);
        self.release_flushed(pool, out);
        self.made.clear();
        self.release_turned(pool, out);
        self.release_waiting(now_ns, pool, out);
        self.look_after_setups(pool, out);
        self.fragments.end_overdue(now_ns, &mut self.counters, pool);
        // Before the kernel's: it shall not go on with who is found dead now.
        let health_ns = self.health.tick(now_ns, &mut self.due);
        if self.functions.is_elapse_due(now_ns) {
            self.settle_lent(now_ns, pool, out);
        }
        let functions_ns = self.functions.elapse(now_ns);
        self.inquire(now_ns, pool, out);
        let kernel_ns = self.tick_kernel_path(now_ns);
        let hello_ns = self.say_hello(now_ns, pool, out);
        self.look_at_turned_links();
        if !self.due.is_empty() {
            let context = context!(self, now_ns, pool, Passing::default());
            prober::make(&mut self.due, &mut self.vector, context);
            self.egress.emit(&mut self.vector, &mut self.proxy_flows, context, out);
        }
        let release_ns = self.next_release_ns(now_ns);
        [health_ns, functions_ns, kernel_ns, hello_ns, release_ns].into_iter().flatten().min()
    }

    /// All that is left in these batches was handed to the kernel.
    pub fn settle(&mut self, batches: &mut TxBatches) {
        self.counters.settle(batches);
    }

    /// What was withdrawn from a batch was handed to the kernel, here or by another worker.
    pub fn credit_sent(&mut self, credit: TxCredit) {
        self.counters.sent(credit);
    }

    /// A frame or datagram could not be sent and ends here: [`DropReason::TransmitFailed`],
    /// [`DropReason::MtuExceeded`] or [`DropReason::PortUnbound`].
    pub fn credit_failed(&mut self, credit: TxCredit, reason: DropReason) {
        self.counters.failed(credit, reason);
    }

    /// Packets that the shell received but could not bring here: received and dropped. `bytes` are
    /// those of the frames, as far as known.
    pub fn note_received_lost(
        &mut self,
        origin: Origin,
        reason: DropReason,
        packets: u64,
        bytes: u64,
    ) {
        let owner = match origin {
            Origin::Port(slot) => self.slots.owner(slot).0,
            Origin::Tunnel { .. } => Owner::Tunnels,
        };
        self.counters.apply(CounterUpdate::Received(owner), Volume { packets, bytes });
        self.counters.dropped(owner, None, reason, packets);
    }

    /// Tells the time when there may be no packets, before counters that depend on it are read.
    pub fn elapse(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// The longest IP packet that the underlay's devices take now, in bytes: where that is less than
    /// the program says, it holds.
    pub fn limit_underlay_mtu(&mut self, mtu: u16) {
        self.egress.gso().limit_to(mtu);
    }
}
