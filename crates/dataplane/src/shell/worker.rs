//! The thread that moves packets: waits for ports, takes vectors of packets through the engine,
//! sends what comes out, and obeys orders between two vectors.
//!
//! Knows rings, sockets and the engine's edge. Refuses to know agents, files and programs as text:
//! whatever takes time or may fail in many ways is done by the control thread before.

mod lending;
mod path_ends;
mod reporting;
mod turn;

use super::barrier::Rendezvous;
use super::clock;
use super::dump;
use super::hand_off::HandOff;
use super::kernel_tables::KernelTables;
use super::order::{Order, Report, Reports};
use super::punt::Punt;
use super::rings::{LostPort, Rings};
use super::segment_sockets::SegmentSockets;
use super::tunnels::{TUNNEL_TOKENS, Tunnels};
use super::underlay::Underlay;
use super::waker::Waker;
use crate::engine::{
    Engine, EngineConfig, Form, KernelPort, Lanes, OffloadTables, Output, Packet, Rehearsal,
    TunnelKind, VECTOR_PACKETS_MAX, Way,
};
use catena_fastpath::Queues;
use catena_io::{BufferPool, IoError, PacketRing, Poller, rest};
use catena_model::account::NodeCounters;
use catena_model::check::ClockTime;
use catena_model::explain::{ExplainAt, FrameBytes};
use catena_model::id::PortId;
use catena_model::program::SegmentPlace;
use catena_model::{CounterScope, DropReason, PathId};
use path_ends::EndReports;
use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};
use turn::TurnRoom;

/// Packet buffers of the worker: a vector, and what the engine makes of it.
const POOL_BUFFERS: usize = 2_560;
/// How often an idle worker looks again before it sleeps. A look costs about a microsecond, waking
/// up costs several; sleeping sooner leaves the processor to the functions.
const LOOKS_BEFORE_SLEEP: u32 = 16;

/// How long a worker that waits for others sleeps before it looks again.
const REST: Duration = Duration::from_micros(20);

const TOKEN_BELL: u64 = 0;
const TOKEN_UNDERLAY: u64 = 1;
const TOKEN_PUNT: u64 = TOKEN_UNDERLAY + TUNNEL_TOKENS;
const TOKEN_RINGS: u64 = TOKEN_PUNT + 1;

/// What became of a kernel path, and what is used no more: to be taken apart by the control thread.
/// A worker has no system call to close anything.
pub(super) struct KernelPathTurn {
    pub(super) outcome: Result<(), IoError>,
    punt: Option<Punt>,
    ring: Option<Box<PacketRing>>,
    queues: Option<Queues>,
    kernel_tables: Option<Box<dyn OffloadTables>>,
}

/// Threads that ask functions, and the form in which they do whatever it costs; none: that which costs least.
pub(super) type FunctionLanes = (Box<dyn Lanes>, Option<Form>);

/// The state of the thread.
pub(super) struct Worker {
    engine: Engine,
    pool: BufferPool,
    poller: Poller,
    rings: Rings,
    tunnels: Tunnels,
    /// Where the kernel sends up what it does not repeat.
    punt: Option<Punt>,
    /// What former punt rings had lost.
    punt_full_before: u64,
    /// What was lost before it reached them.
    punt_lost_before: u64,
    orders: Receiver<Order>,
    waker: Waker,
    reports: Reports,
    started: Instant,
    /// Paths on which another process began to count.
    inherited: BTreeSet<PathId>,
    /// When the engine wants to be told the time, in nanoseconds since the start; none: it does
    /// not, while its tables stay.
    tick_ns: Option<u64>,
    /// What the engine's links had gone through when that was reported last.
    link_turns: u64,
    end_reports: EndReports,
    ready: Vec<u64>,
    /// Which of the ready sources goes first; another with each vector.
    turn: usize,
    input: Vec<Packet>,
    /// The part of it that is decided now.
    part: Vec<Packet>,
    turn_room: TurnRoom,
    output: Output,
    /// The other workers of the node; none: it is the only one.
    hand_off: Option<HandOff>,
}

impl Worker {
    /// A worker without ports and with an empty program.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn new(
        mut config: EngineConfig,
        orders: Receiver<Order>,
        waker: Waker,
        (reports, lanes): (Reports, Option<FunctionLanes>),
        hand_off: Option<HandOff>,
    ) -> Result<Self, IoError> {
        let mut poller = Poller::new()?;
        poller.add(&waker, TOKEN_BELL)?;
        // At one moment: times are told by the one and taken by the other.
        let started = Instant::now();
        config.began = config.began.map(|began| ClockTime { ns: clock::now_ns(), ..began });
        config.functions_began_ns = clock::since(config.functions_epoch_seconds);
        let mut engine = Engine::new(config);
        if let Some((lanes, form)) = lanes {
            engine.lend_to(lanes, form);
        }
        Ok(Self {
            engine,
            pool: BufferPool::new(POOL_BUFFERS),
            poller,
            rings: Rings::new(TOKEN_RINGS),
            tunnels: Tunnels::default(),
            punt: None,
            punt_full_before: 0,
            punt_lost_before: 0,
            orders,
            waker,
            reports,
            started,
            inherited: BTreeSet::new(),
            tick_ns: None,
            link_turns: 0,
            end_reports: EndReports::default(),
            ready: Vec::new(),
            turn: 0,
            input: Vec::with_capacity(VECTOR_PACKETS_MAX),
            part: Vec::with_capacity(VECTOR_PACKETS_MAX),
            turn_room: TurnRoom::default(),
            output: Output::default(),
            hand_off,
        })
    }

    /// Moves packets until nobody can give orders any more; a worker that spins never sleeps, which
    /// is right only where nobody else needs the core.
    ///
    /// # Errors
    /// Waiting fails, or an order cannot be carried out: the process must begin anew.
    pub(super) fn run(&mut self, spins: bool) -> Result<(), IoError> {
        let mut looks = 0;
        loop {
            self.wait(spins || looks < LOOKS_BEFORE_SLEEP || self.engine.is_handing_out())?;
            if self.ready.contains(&TOKEN_BELL) {
                self.waker.silence();
                if !self.obey()? {
                    return Ok(());
                }
            }
            let has_relieved = self.relieve();
            self.receive();
            if self.input.is_empty() {
                looks = if has_relieved { 0 } else { LOOKS_BEFORE_SLEEP.min(looks + 1) };
                if !has_relieved && self.hand_off.as_ref().is_some_and(HandOff::is_backed_up) {
                    // Whoever must make room may need this very core.
                    rest(REST);
                }
            } else {
                looks = 0;
                self.decide();
            }
            self.hear_functions();
            self.tick();
            self.report_function_state();
            self.report_links();
            self.ask_for_flows();
            self.report_path_ends();
        }
    }

    /// Does what other workers want done; false: there was nothing.
    fn relieve(&mut self) -> bool {
        let Some(hand_off) = &mut self.hand_off else { return false };
        let (engine, pool) = (&mut self.engine, &mut self.pool);
        hand_off.relieve(engine, &mut self.rings, &mut self.tunnels, pool) > 0
    }

    /// Goes on with what other workers hand over until all have come to the rendezvous and nothing is
    /// on its way between them.
    fn meet(&mut self, rendezvous: &Rendezvous) {
        self.settle_functions();
        rendezvous.arrive();
        while self
            .hand_off
            .as_ref()
            .is_some_and(|hand_off| !hand_off.barrier().is_quiet(rendezvous))
        {
            let has_relieved = self.relieve();
            if let Some(hand_off) =
                self.hand_off.as_mut().filter(|hand_off| !hand_off.are_sends_waiting())
            {
                hand_off.collect(&mut self.input, &mut self.pool);
            }
            if !self.input.is_empty() {
                self.decide();
                self.settle_functions();
            } else if !has_relieved {
                // Who is waited for may need this very core.
                rest(REST);
            }
        }
    }

    /// After what has arrived was seen: a late answer is one.
    fn tick(&mut self) {
        let Some(tick_ns) = self.tick_ns else { return };
        let now_ns = self.now_ns();
        if tick_ns <= now_ns {
            self.tick_ns = self.engine.tick(now_ns, &mut self.pool, &mut self.output);
            if let Some(punt) = &mut self.punt {
                punt.look(now_ns, &mut self.engine);
            }
            self.transmit();
            self.report_messages();
        }
    }

    /// The time that the engine knows, in nanoseconds.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Finds out which sources have something.
    fn wait(&mut self, is_brief: bool) -> Result<(), IoError> {
        let has_pending = self.tunnels.pending().next().is_some();
        let may_sleep =
            !is_brief && !has_pending && self.hand_off.as_mut().is_none_or(HandOff::falls_asleep);
        let timeout = if may_sleep {
            self.tick_ns.map(|at| Duration::from_nanos(at.saturating_sub(self.now_ns())))
        } else {
            Some(Duration::ZERO)
        };
        self.poller.wait(timeout, &mut self.ready)?;
        if let Some(hand_off) = self.hand_off.as_ref().filter(|_| may_sleep) {
            hand_off.is_awake();
        }
        for pending in self.tunnels.pending() {
            let token = TOKEN_UNDERLAY + pending;
            if !self.ready.contains(&token) {
                self.ready.push(token);
            }
        }
        Ok(())
    }

    /// Fills a vector with packets that are decided here.
    fn receive(&mut self) {
        let Some(hand_off) = &self.hand_off else {
            return self.receive_from_sources(VECTOR_PACKETS_MAX);
        };
        if hand_off.are_sends_waiting() {
            return;
        }
        if !hand_off.is_backed_up() {
            // A flood at the own ports must not starve those of others.
            let others = if hand_off.has_to_decide() { VECTOR_PACKETS_MAX / 2 } else { 0 };
            self.receive_from_sources(VECTOR_PACKETS_MAX - others);
        }
        if let Some(hand_off) = &mut self.hand_off {
            hand_off.share(&self.engine, &mut self.input, &mut self.pool);
            hand_off.collect(&mut self.input, &mut self.pool);
        }
    }

    /// Takes up to `max` packets, each ready source an equal share.
    fn receive_from_sources(&mut self, max: usize) {
        let sources = self.ready.len();
        if sources == 0 {
            return;
        }
        let share = (max / sources).max(1);
        self.turn = self.turn.wrapping_add(1);
        // What another node's engine has sent by itself comes by a socket, what it and its kernel send
        // of the same flow later, in turns, comes up here: in this order.
        let has_punted = self.ready.contains(&TOKEN_PUNT);
        self.ready.retain(|token| *token != TOKEN_PUNT);
        let others = self.ready.len();
        let punted = has_punted.then_some(TOKEN_PUNT);
        for number in 0..sources {
            let room = max.saturating_sub(self.input.len());
            let place = self.turn.wrapping_add(number) % others.max(1);
            let other = self.ready.get(place).copied().filter(|_| number < others);
            let Some(token) = other.or(punted) else { continue };
            self.take_from(token, share.min(room));
        }
    }

    fn take_from(&mut self, token: u64, max: usize) {
        let (engine, pool, input) = (&mut self.engine, &mut self.pool, &mut self.input);
        if let Some(seat) = token.checked_sub(TOKEN_RINGS) {
            let gone = self.rings.receive(seat as usize, max, engine, pool, input);
            if let Some((id, errno)) = gone {
                self.give_up(id, errno);
            }
        } else if token == TOKEN_PUNT {
            if let Some(punt) = &mut self.punt {
                punt.receive(max, engine, pool, input);
            }
        } else if let Some(which) = token.checked_sub(TOKEN_UNDERLAY) {
            self.tunnels.receive(which, max, engine, pool, input);
        }
    }

    fn give_up(&mut self, id: PortId, errno: i32) {
        self.name_kernel_port(id, None);
        if let Some(ring) = self.rings.detach(id, &mut self.poller) {
            self.reports.send(Report::PortLost(LostPort { id, errno, ring }));
        }
    }

    fn transmit(&mut self) {
        let (engine, pool) = (&mut self.engine, &mut self.pool);
        if let Some(hand_off) = &mut self.hand_off {
            hand_off.hand_out(&mut self.output, &self.rings, pool);
        }
        let Output { frames, datagrams, batches } = &mut self.output;
        for frame in frames.drain(..) {
            self.rings.queue(frame, batches, engine, pool);
        }
        self.rings.transmit(batches, engine, pool);
        for datagram in datagrams.drain(..) {
            self.tunnels.transmit(datagram, batches, engine, pool);
        }
        engine.settle(batches);
    }

    /// Carries out all orders that wait; false: nobody will give one any more.
    fn obey(&mut self) -> Result<bool, IoError> {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Meet(rendezvous)) => {
                    self.meet(&rendezvous);
                    if !self.obey_until_all_part()? {
                        return Ok(false);
                    }
                }
                Ok(order) => self.carry_out(order)?,
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    /// Carries out what is ordered at a rendezvous; false: nobody will order anything any more.
    fn obey_until_all_part(&mut self) -> Result<bool, IoError> {
        loop {
            match self.orders.recv() {
                Ok(Order::Part) => return Ok(true),
                Ok(order) => self.carry_out(order)?,
                Err(_) => return Ok(false),
            }
        }
    }

    /// Whoever gave an order and does not wait for its outcome any more needs none: the results
    /// of sending it are not looked at.
    fn carry_out(&mut self, order: Order) -> Result<(), IoError> {
        self.settle_functions();
        match order {
            Order::Tables { tables, is_inherited, done } => {
                self.engine.replace_tables(tables);
                self.note_paths(is_inherited);
                self.tick_ns = Some(0);
                self.rings.index(&self.engine, &mut self.poller, &mut self.pool)?;
                done.send(()).ok();
            }
            // Only read where workers meet.
            Order::Meet(_) | Order::Part => {}
            Order::Elsewhere { id, worker, done } => {
                self.rings.note_elsewhere(id, worker, &self.engine);
                done.send(()).ok();
            }
            Order::Deciders { packets, done } => {
                done.send(self.deciders(&packets)).ok();
            }
            Order::Underlay { underlay, done } => {
                done.send(self.exchange_underlay(underlay)?).ok();
            }
            Order::Segments { place, sockets, done } => {
                done.send(self.stand_at(place, sockets)).ok();
            }
            Order::UnderlayDevices { interfaces, done } => {
                self.tunnels.take_only_from(&interfaces);
                done.send(()).ok();
            }
            Order::UnderlayMtu { mtu, done } => {
                self.engine.limit_underlay_mtu(mtu);
                done.send(()).ok();
            }
            Order::Attach { id, ring, kernel, done } => {
                let (poller, pool) = (&mut self.poller, &mut self.pool);
                let taken = self.rings.attach(id, ring, &self.engine, poller, pool);
                self.name_kernel_port(id, kernel.filter(|_| taken.outcome.is_ok()));
                done.send(taken).ok();
            }
            Order::Detach { id, done } => {
                self.name_kernel_port(id, None);
                done.send(self.rings.detach(id, &mut self.poller)).ok();
            }
            Order::KernelPath { kernel_tables, ring, queues, numbers, attached, done } => {
                let turn = self.open_kernel_path(kernel_tables, ring, queues, numbers);
                for (id, kernel) in attached.into_iter().filter(|_| turn.outcome.is_ok()) {
                    self.name_kernel_port(id, Some(kernel));
                }
                done.send(Box::new(turn)).ok();
            }
            Order::KernelUnderlay { place, done } => {
                self.engine.set_kernel_underlay(place);
                done.send(()).ok();
            }
            Order::Rehearse { mut rehearsal, done } => {
                self.rehearse(&mut rehearsal);
                done.send(rehearsal).ok();
            }
            Order::ForgetCatch { token, done } => {
                self.engine.forget_catch(token);
                done.send(()).ok();
            }
            Order::Catch { request, done } => {
                done.send(self.engine.catch_next(&request, self.now_ns())).ok();
            }
            Order::Check { question, done } => {
                let now_ns = self.now_ns();
                let (pool, out) = (&mut self.pool, &mut self.output);
                let answer = self.engine.check(&question, now_ns, pool, out);
                self.transmit();
                done.send(answer).ok();
            }
            Order::LinksTurned => self.engine.look_at_links(),
            Order::SetUp(answers) => {
                let now_ns = self.now_ns();
                self.engine.set_up(&answers, now_ns, &mut self.pool, &mut self.output);
                self.transmit();
            }
            Order::Controller { is_there } => {
                let now_ns = self.now_ns();
                self.engine.note_controller(is_there, now_ns, &mut self.pool, &mut self.output);
                self.transmit();
            }
            Order::FunctionState { done } => {
                done.send(self.engine.take_function_state(true)).ok();
            }
            Order::FunctionStateAnew => self.engine.tell_function_state_anew(),
            Order::Counters { of, done } => {
                // What others have sent is not held any more.
                self.relieve();
                done.send(Box::new(self.counters(of.as_deref()))).ok();
            }
            Order::Dump { key, done } => {
                done.send(dump::of_engine(&self.engine, &key)).ok();
            }
            Order::Slices { after, limit, done } => {
                done.send(self.engine.slice_counters(after, limit)).ok();
            }
        }
        Ok(())
    }

    fn open_kernel_path(
        &mut self,
        kernel_tables: Box<KernelTables>,
        mut ring: Box<PacketRing>,
        queues: Queues,
        numbers: HashMap<u16, PortId>,
    ) -> KernelPathTurn {
        let punt = self.punt.take();
        let mut turn =
            KernelPathTurn { outcome: Ok(()), punt, ring: None, queues: None, kernel_tables: None };
        if let Some(former) = &mut turn.punt {
            former.book(&mut self.engine);
            self.punt_full_before += former.ring_full();
            self.punt_lost_before += former.lost_before(&mut ring, &mut self.engine);
            turn.outcome = self.poller.remove(former.ring());
        }
        if turn.outcome.is_ok() {
            turn.outcome = self.poller.add(&*ring, TOKEN_PUNT);
        }
        if turn.outcome.is_err() {
            turn.ring = Some(ring);
            turn.queues = Some(queues);
            turn.kernel_tables = Some(kernel_tables);
            return turn;
        }
        turn.kernel_tables = self.engine.open_kernel_path(kernel_tables);
        self.punt = Some(Punt::new(ring, numbers, queues, &mut self.engine));
        self.tick_ns = Some(0);
        turn
    }

    fn name_kernel_port(&mut self, id: PortId, kernel: Option<KernelPort>) {
        if let Some(punt) = &mut self.punt {
            match kernel.map(|port| u16::try_from(port.number)) {
                Some(Ok(number)) => punt.name(number, id),
                _ => punt.forget(id, &mut self.engine),
            }
        }
        self.engine.set_kernel_port(id, kernel);
    }

    fn exchange_underlay(
        &mut self,
        underlay: Box<Underlay>,
    ) -> Result<Option<Box<Underlay>>, IoError> {
        let former = self.tunnels.exchange(underlay, &mut self.poller, TOKEN_UNDERLAY)?;
        self.tell_tunnels(false);
        Ok(former)
    }

    fn tell_tunnels(&self, are_segmented: bool) {
        if let Some(hand_off) = &self.hand_off {
            hand_off.barrier().open_tunnels(are_segmented);
        }
    }

    /// Takes packets of segments below this place's locator; `sockets`: by these, where there are none yet.
    fn stand_at(
        &mut self,
        place: SegmentPlace,
        sockets: Option<Box<SegmentSockets>>,
    ) -> Result<(), IoError> {
        if let Some(sockets) = sockets {
            self.tunnels.add_segments(sockets, &mut self.poller, TOKEN_UNDERLAY)?;
            self.tell_tunnels(true);
        }
        self.tunnels.segments().map_or(Ok(()), |segments| segments.stand_at(place))
    }

    /// What would be closed to the packet is closed to its rehearsal.
    fn rehearse(&self, rehearsal: &mut Rehearsal) {
        let are_open = |kind: TunnelKind| match &self.hand_off {
            Some(hand_off) => hand_off.barrier().has_tunnels(kind.is_segmented()),
            None => self.tunnels.are_open(kind),
        };
        let refuses = |way: Way| match way {
            Way::Port(slot) if !self.rings.has(slot) => Some(DropReason::PortUnbound),
            Way::Tunnel(kind) if !are_open(kind) => Some(DropReason::TransmitFailed),
            Way::Port(_) | Way::Tunnel(_) => None,
        };
        rehearsal.run(&self.engine, self.now_ns(), &refuses);
    }

    /// By which workers such packets are decided, from 0.
    fn deciders(&self, packets: &[(ExplainAt, FrameBytes)]) -> Vec<usize> {
        let workers = self.hand_off.as_ref().map_or(1, |hand_off| hand_off.barrier().workers());
        let decider =
            |(at, frame): &(ExplainAt, FrameBytes)| self.engine.decider_asked(at, frame, workers);
        packets.iter().map(decider).collect()
    }

    fn note_paths(&mut self, are_inherited: bool) {
        if are_inherited || !self.inherited.is_empty() {
            let counters = self.engine.counters();
            let paths = counters.chains.iter().map(|chain| chain.path);
            self.inherited =
                paths.filter(|path| are_inherited || self.inherited.contains(path)).collect();
        }
    }

    fn counters(&mut self, of: Option<&CounterScope>) -> NodeCounters {
        self.engine.elapse(self.now_ns());
        if let Some(punt) = &mut self.punt {
            punt.book(&mut self.engine);
        }
        let kernel = self.engine.settle_kernel_path();
        let mut counters = self.engine.counters_of(of);
        counters.dataplane.kernel = kernel.map(Box::new);
        if let (Some(kernel), Some(punt)) = (&mut counters.dataplane.kernel, &mut self.punt) {
            kernel.ring_full = self.punt_full_before + punt.ring_full();
            kernel.punt_lost = self.punt_lost_before + punt.lost();
        }
        for chain in &mut counters.chains {
            chain.is_partial = self.inherited.contains(&chain.path);
        }
        let up_ms = self.started.elapsed().as_millis();
        counters.dataplane.up_ms = u64::try_from(up_ms).unwrap_or(u64::MAX);
        self.rings.count(&mut counters);
        counters.tunnels_ring_full = self.tunnels.kernel_drops();
        counters
    }
}
