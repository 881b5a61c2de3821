//! A node of the rig: its engines, its buffers, what has come to it. Knows whose each packet is.

use crate::town::node_name;
use catena_dataplane::engine::{
    Board, Engine, EngineConfig, LinkBoard, Output, Packet, PortSlot, Tables, WatchDuty,
};
use catena_io::{BufferPool, Offload};
use catena_model::CounterScope;
use catena_model::account::NodeCounters;
use catena_model::check::CheckQuestion;
use catena_model::explain::{ExplainAt, FrameBytes};
use catena_model::id::PortId;
use std::sync::Arc;

/// A node, with one engine or several that share its packets.
pub(crate) struct Node {
    pub(crate) engines: Vec<Engine>,
    pub(crate) pool: BufferPool,
    pub(crate) inbox: Vec<Packet>,
    pub(crate) links: Arc<LinkBoard>,
    /// Packets that it takes before it looks whether threads have answered.
    pub(crate) at_once: usize,
}

impl Node {
    pub(crate) fn new(
        node: usize,
        change: &impl Fn(&mut EngineConfig),
        buffers: usize,
        engines: usize,
    ) -> Self {
        let board = Arc::new(Board::default());
        let links = Arc::new(LinkBoard::new(900 + node as u64));
        let engine = |number| {
            let mut config = EngineConfig::new(node_name(node));
            config.flow_seed = 7;
            config.probe_secret = 8;
            config.links = Arc::clone(&links);
            config.watch_duty = match number {
                _ if engines == 1 => WatchDuty::Alone,
                0 => WatchDuty::Judges(Arc::clone(&board)),
                _ => WatchDuty::Tells(Arc::clone(&board), number),
            };
            change(&mut config);
            Engine::new(config)
        };
        let engines = (0..engines).map(engine).collect();
        let (pool, inbox) = (BufferPool::new(buffers), Vec::new());
        Self { engines, pool, inbox, links, at_once: usize::MAX }
    }

    /// The one that is asked what all of them know.
    pub(crate) fn first(&self) -> &Engine {
        &self.engines[0]
    }

    pub(crate) fn slot_of(&self, port: PortId) -> Option<PortSlot> {
        let slot = self.first().slot_of(port);
        assert!(self.engines.iter().all(|engine| engine.slot_of(port) == slot));
        slot
    }

    pub(crate) fn replace_tables(&mut self, tables: Tables) {
        tables.prepare_functions(self.engines.len());
        let tables = Arc::new(tables);
        for engine in &mut self.engines {
            engine.replace_tables(Arc::clone(&tables));
        }
    }

    pub(crate) fn counters(&self) -> NodeCounters {
        self.counters_of(None)
    }

    pub(crate) fn counters_of(&self, of: Option<&CounterScope>) -> NodeCounters {
        let mut counters = self.first().counters_of(of);
        for other in &self.engines[1..] {
            counters.merge(&other.counters_of(of));
        }
        counters
    }

    /// The engine that decides such a packet.
    pub(crate) fn decider_asked(&self, at: &ExplainAt, frame: &FrameBytes) -> usize {
        self.first().decider_asked(at, frame, self.engines.len())
    }

    /// What one of the engines is asked: of probes to be sent, those that it decides.
    pub(crate) fn own_question(&self, engine: usize, question: &CheckQuestion) -> CheckQuestion {
        let CheckQuestion::Inject { seal, port, frames } = question else {
            return question.clone();
        };
        let (seal, port, at) = (*seal, *port, ExplainAt::Port(*port));
        let is_own = |frame: &&FrameBytes| self.decider_asked(&at, frame) == engine;
        let frames = frames.iter().filter(is_own).cloned().collect();
        CheckQuestion::Inject { seal, port, frames }
    }

    /// Is there nothing to be done at it?
    pub(crate) fn is_idle(&self) -> bool {
        self.inbox.is_empty() && !self.is_lending()
    }

    /// Has a thread packets of it?
    pub(crate) fn is_lending(&self) -> bool {
        self.engines.iter().any(Engine::is_lending)
    }

    /// What waits in its engines.
    pub(crate) fn waiting(&self) -> u64 {
        self.engines.iter().map(waiting).sum()
    }

    /// Packets that another engine than the first has received.
    pub(crate) fn received_by_others(&self) -> u64 {
        let others = self.engines[1..].iter();
        others.map(|engine| engine.counters().total().received.packets).sum()
    }

    /// Puts a frame of a port into the inbox.
    pub(crate) fn queue(&mut self, slot: PortSlot, bytes: &[u8], offload: Offload) {
        // Without a buffer the kernel would lose it, before anybody counts.
        let Some(mut buffer) = self.pool.take() else { return };
        assert!(buffer.fill(bytes));
        buffer.offload = offload;
        self.inbox.push(Packet::from_port(slot, buffer));
    }

    /// Takes what is in the inbox apart by the engines that decide it, as many as it takes at once.
    pub(crate) fn shares(&mut self) -> Vec<Vec<Packet>> {
        let mut shares: Vec<Vec<Packet>> = self.engines.iter().map(|_| Vec::new()).collect();
        let rest = self.inbox.split_off(self.at_once.min(self.inbox.len()));
        for packet in std::mem::replace(&mut self.inbox, rest) {
            // What any engine may decide: here always another than the one that is asked about all else.
            let decider = self.first().decider(&packet, self.engines.len());
            shares[decider.unwrap_or(self.engines.len() - 1)].push(packet);
        }
        shares
    }
}

/// Later fragments that wait for their first, packets that wait for the controller, and such as wait until their
/// former way is flushed.
fn waiting(engine: &Engine) -> u64 {
    let waits = engine.fragments_waiting() + engine.setups_waiting() + engine.flushes_waiting();
    waits as u64 + engine.lent_packets()
}

/// What is handed out and not booked yet is held, and so is what waits.
pub(crate) fn assert_held(engine: &Engine, out: &Output) {
    let counters = engine.counters();
    let frames = out.frames.iter().map(|frame| frame.share);
    let shares = frames.chain(out.datagrams.iter().map(|datagram| datagram.share));
    let leaving: u64 = shares.map(|share| share.volume().packets).sum();
    assert_eq!(counters.total().held, leaving + waiting(engine));
    assert_eq!(counters.total().unaccounted(), 0);
}

/// Who asks for one chain, one port that is there and one link is told of these what all are told, and more of times.
pub(crate) fn check_scope(node: &Node, all: &NodeCounters) {
    let chains = all.chains.first().map(|counted| counted.chain).into_iter().collect();
    let port = all.ports.iter().find(|counted| !counted.port.0.is_nil());
    let of = CounterScope {
        chains,
        ports: port.into_iter().chain(all.links.last()).map(|counted| counted.port).collect(),
        ..CounterScope::default()
    };
    let mut expected = all.clone();
    expected.chains.retain(|counted| of.chains.contains(&counted.chain));
    expected.ports.retain(|counted| of.ports.contains(&counted.port));
    expected.links.retain(|counted| of.ports.contains(&counted.port));
    expected.link_lives.retain(|life| of.ports.contains(&life.port));
    expected.setups.chains.retain(|chain, _| of.chains.contains(chain));
    let mut told = node.counters_of(Some(&of));
    let hops = told.chains.iter_mut().flat_map(|chain| &mut chain.hops);
    hops.for_each(|hop| {
        hop.service_time.counts.clear();
        hop.sojourn_time.recent.clear();
    });
    assert_eq!(told, expected);
}
