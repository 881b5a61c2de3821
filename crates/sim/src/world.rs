//! One run: the queue of events in simulated time, and everything that exists. Knows when, not
//! what: what an event does is in the modules that extend this type.

use crate::agent::Agent;
use crate::cables::{Cable, SPARES, cables};
use crate::checks::Checks;
use crate::config::{Config, Fabric};
use crate::controller::{ConnectionId, Controller, ControllerEffect};
use crate::dataplane::Dataplane;
use crate::disk::Replaced;
use crate::journal_store::SharedJournal;
use crate::network::{End, Envelope, Network};
use crate::operator::Operator;
use crate::packets::Packet;
use crate::random::Random;
use crate::trace::Trace;
use crate::{Failure, Report, topology};
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::topology::NodeRole;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Events after which a run is taken for one that never ends.
const EVENTS_MAX: u64 = 2_000_000;

/// Something that happens at a moment. Those of a process name its incarnation: if it has died
/// meanwhile, nothing happens.
#[derive(Debug)]
pub(crate) enum Event {
    /// The operator, a fault or a packet: whatever chance brings.
    Turn,
    Deliver {
        connection: ConnectionId,
        to: End,
        envelope: Envelope,
    },
    /// An end has not heard its peer for too long, if that is still so.
    Silence {
        connection: ConnectionId,
        end: End,
    },
    StartController,
    StartAgent(usize),
    /// The agent looks for its data plane and starts it if there is none.
    Link {
        node: usize,
        agent: u32,
    },
    Dial {
        node: usize,
        agent: u32,
    },
    /// The controller ends sessions that newer ones have replaced.
    EndReplaced {
        controller: u32,
    },
    /// The reconciler makes a step.
    Reconcile {
        controller: u32,
    },
    /// What the controller wanted sent leaves.
    Flush {
        controller: u32,
        effects: Vec<ControllerEffect>,
        acknowledges: bool,
    },
    ReadCounters {
        controller: u32,
    },
    EndReading {
        controller: u32,
        reading: u64,
    },
    Advance {
        node: usize,
        agent: u32,
    },
    Heal(usize),
    DiskHasRoom(Option<usize>),
    InterfaceBack {
        node: usize,
        port: PortId,
    },
    Packet(u64),
    /// A period of hellos between data planes is over.
    Hellos,
    /// Agents say who they are at their links.
    Words,
    /// The agent looks at its links.
    Look(usize),
    /// A cable turns once more.
    Cable {
        cable: usize,
        turns: u32,
    },
    /// A link is there again.
    Plug {
        node: usize,
        interface: String,
    },
}

/// One host, or one switch.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: NodeName,
    pub(crate) role: NodeRole,
    /// The interfaces that are links, and whether each is there.
    pub(crate) plugs: BTreeMap<String, bool>,
    pub(crate) agent: Option<Agent>,
    pub(crate) agent_number: u32,
    pub(crate) session: Option<ConnectionId>,
    pub(crate) is_welcome: bool,
    pub(crate) link: Option<ConnectionId>,
    pub(crate) dataplane: Option<Dataplane>,
    pub(crate) dataplane_number: u32,
    pub(crate) disk: Replaced,
    pub(crate) interfaces: BTreeSet<PortId>,
    /// When the agent is asked next to go on by itself.
    pub(crate) wake: Option<Duration>,
}

/// Everything.
pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) random: Random,
    pub(crate) trace: Trace,
    pub(crate) now: Duration,
    queue: BTreeMap<(Duration, u64), Event>,
    next_event: u64,
    pub(crate) network: Network,
    pub(crate) controller: Option<Controller>,
    pub(crate) controller_number: u32,
    pub(crate) journal: SharedJournal,
    /// Until when the controller waits for its disk.
    pub(crate) busy_until: Duration,
    pub(crate) is_reconcile_due: bool,
    pub(crate) is_reading_due: bool,
    pub(crate) readings: u64,
    /// Hosts first, then switches.
    pub(crate) nodes: Vec<Node>,
    pub(crate) hosts: usize,
    pub(crate) cables: Vec<Cable>,
    pub(crate) operator: Operator,
    pub(crate) packets: BTreeMap<u64, Packet>,
    pub(crate) checks: Checks,
    pub(crate) turns_left: u32,
    pub(crate) is_healing: bool,
    /// The first promise that was broken.
    pub(crate) broken: Option<String>,
    seed: u64,
}

impl World {
    pub(crate) fn new(seed: u64, config: Config) -> Self {
        let mut random = Random::new(seed);
        let has_switches = config.fabric.has_switches();
        let (hosts, switches) = match config.fabric {
            Fabric::None => (random.between(2, 5), 0),
            Fabric::Mesh => (random.between(2, 5), random.between(2, 3)),
            Fabric::Ring => (random.between(2, 3), random.between(8, 13)),
        };
        let hosts = usize::try_from(hosts).unwrap_or(2);
        let intent = topology::intent(hosts);
        let count = hosts + usize::try_from(switches).unwrap_or_default();
        let cables =
            if has_switches { cables(config.fabric, hosts, count - hosts) } else { Vec::new() };
        let node = |index: usize| {
            let (role, name) = match index.checked_sub(hosts) {
                None => (NodeRole::Host, topology::node_name(index)?),
                Some(switch) => (NodeRole::Switch, topology::switch_name(switch)?),
            };
            let ports = intent.ports.values();
            let own = ports.filter(|port| port.node.as_ref() == Some(&name)).map(|port| port.id);
            let ends = cables.iter().flat_map(|cable| &cable.ends).filter(|end| end.0 == index);
            let spares = SPARES.into_iter().filter(|_| has_switches);
            Some(Node {
                interfaces: own.collect(),
                name,
                role,
                plugs: ends
                    .map(|(_, interface)| (interface.clone(), true))
                    .chain(spares.map(|spare| (spare.to_owned(), false)))
                    .collect(),
                agent: None,
                agent_number: 0,
                session: None,
                is_welcome: false,
                link: None,
                dataplane: None,
                dataplane_number: 0,
                disk: Replaced::default(),
                wake: None,
            })
        };
        let nodes: Vec<Node> = (0..count).filter_map(node).collect();
        let mut world = Self {
            random,
            trace: Trace::new(),
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            next_event: 0,
            network: Network::default(),
            controller: None,
            controller_number: 0,
            journal: SharedJournal::default(),
            busy_until: Duration::ZERO,
            is_reconcile_due: false,
            is_reading_due: false,
            readings: 0,
            operator: Operator::new(intent, config.fabric),
            hosts,
            cables,
            packets: BTreeMap::new(),
            checks: Checks::new(nodes.len()),
            turns_left: config.turns,
            is_healing: false,
            broken: None,
            nodes,
            config,
            seed,
        };
        world.after_ms(0, Event::StartController);
        for node in 0..count {
            world.after_ms(0, Event::StartAgent(node));
        }
        world.after_ms(300, Event::Turn);
        if has_switches {
            world.after_ms(2, Event::Words);
            world.after_ms(3, Event::Hellos);
        }
        world
    }

    pub(crate) fn at(&mut self, at: Duration, event: Event) {
        self.next_event += 1;
        self.queue.insert((at, self.next_event), event);
    }

    pub(crate) fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now + wait, event);
    }

    pub(crate) fn after_ms(&mut self, wait: u64, event: Event) {
        self.after(Duration::from_millis(wait), event);
    }

    /// A random wait, in microseconds.
    pub(crate) fn wait_us(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.random.between(low, high))
    }

    /// A promise does not hold: the run ends after this event.
    pub(crate) fn fail(&mut self, sentence: String) {
        self.trace.note(format_args!("BROKEN: {sentence}"));
        self.broken.get_or_insert(sentence);
    }

    pub(crate) fn run(mut self) -> Result<Report, Box<Failure>> {
        let mut events = 0;
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.now = at;
            self.trace.set_time(at);
            events += 1;
            self.happen(event);
            if events > EVENTS_MAX {
                self.fail("the run does not come to an end".into());
            }
            if let Some(promise) = self.broken.take() {
                return Err(Box::new(self.failure(promise)));
            }
            if self.is_over() {
                break;
            }
        }
        self.check_end();
        match self.broken.take() {
            Some(promise) => Err(Box::new(self.failure(promise))),
            None => Ok(Report {
                seed: self.seed,
                events,
                digest: self.trace.digest(),
                tally: self.checks.tally,
            }),
        }
    }

    fn failure(&self, promise: String) -> Failure {
        Failure {
            seed: self.seed,
            promise,
            event: self.trace.events(),
            digest: self.trace.digest(),
            last: self.trace.last(),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Turn => self.turn(),
            Event::Deliver { connection, to, envelope } => self.deliver(connection, to, envelope),
            Event::Silence { connection, end } => self.silence(connection, end),
            Event::StartController => self.start_controller(),
            Event::StartAgent(node) => self.start_agent(node),
            Event::Link { node, agent } => self.link(node, agent),
            Event::Dial { node, agent } => self.dial(node, agent),
            Event::Advance { node, agent } => self.wake_agent(node, agent),
            Event::EndReplaced { controller } => self.end_replaced(controller),
            Event::Reconcile { controller } => self.reconcile(controller),
            Event::Flush { controller, effects, acknowledges } => {
                self.flush(controller, effects, acknowledges);
            }
            Event::ReadCounters { controller } => self.read_counters(controller),
            Event::EndReading { controller, reading } => self.end_reading(controller, reading),
            Event::Heal(node) => self.heal(node),
            Event::DiskHasRoom(node) => self.give_room(node),
            Event::InterfaceBack { node, port } => self.interface_back(node, port),
            Event::Packet(id) => self.step_packet(id),
            Event::Hellos => self.say_hello(),
            Event::Words => self.say_words(),
            Event::Look(node) => self.look(node),
            Event::Cable { cable, turns } => self.flap(cable, turns),
            Event::Plug { node, interface } => self.plug(node, interface),
        }
    }
}
