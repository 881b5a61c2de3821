//! Whatever operators do and however late nodes acknowledge: no packet is ever sent into a path
//! that some node on it does not know.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, id, label, node, port_id};
use crate::{Direction, PathPhase, PathRecord};
use catena_model::id::{ChainId, FunctionId, GraphId, InstanceId, RuleId};
use catena_model::program::{HopKind, RuleEntry, RulePlace};
use catena_model::resource::{ChainGraph, Encapsulation};
use catena_model::{NodeName, NodeProgram, PathId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const HOSTS: u32 = 4;
const FUNCTIONS: [u32; 5] = [11, 12, 13, 14, 15];

#[derive(Clone, Debug)]
enum Step {
    /// Declare or change chain `n` to go through these functions.
    Declare(u32, Vec<u32>, bool),
    Delete(u32),
    /// Let chain `n` start at the first endpoint, the second, or both.
    StartAt(u32, bool, bool),
    /// A node acknowledges what it should run now.
    Acknowledge(u32),
    Disconnect(u32),
    Connect(u32),
    Unbind(u32),
    Bind(u32),
    Drain,
    /// Flows that stayed on old paths have ended.
    Unpin,
    /// Chain `n` has a way back or has none any more.
    Mirror(u32),
    /// A function becomes a tap, or passes packets on again.
    Tap(u32),
    /// An instance drains, or takes flows again.
    DrainInstance(u32),
    /// It is found out that an instance changes bytes.
    Rewrite(u32),
    /// Chains go on in chains of higher numbers, or each goes on its own.
    Join(Vec<(u32, u32)>),
    /// The controller dies and comes back with its ledger.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let functions = proptest::sample::subsequence(FUNCTIONS.to_vec(), 1..=5).prop_shuffle();
    let step = prop_oneof![
        4 => (1..4u32, functions, any::<bool>()).prop_map(|(n, f, m)| Step::Declare(n, f, m)),
        1 => (1..4u32).prop_map(Step::Delete),
        2 => (1..4u32, 0..3u8).prop_map(|(n, at)| Step::StartAt(n, at != 1, at != 0)),
        8 => (1..=HOSTS).prop_map(Step::Acknowledge),
        1 => (1..=HOSTS).prop_map(Step::Disconnect),
        1 => (1..=HOSTS).prop_map(Step::Connect),
        1 => proptest::sample::select(FUNCTIONS.to_vec()).prop_map(Step::Unbind),
        2 => proptest::sample::select(FUNCTIONS.to_vec()).prop_map(Step::Bind),
        2 => Just(Step::Drain),
        2 => Just(Step::Unpin),
        1 => (1..4u32).prop_map(Step::Mirror),
        1 => proptest::sample::select(FUNCTIONS.to_vec()).prop_map(Step::Tap),
        1 => proptest::sample::select(FUNCTIONS.to_vec()).prop_map(Step::DrainInstance),
        1 => proptest::sample::select(FUNCTIONS.to_vec()).prop_map(Step::Rewrite),
        2 => prop::collection::vec((1..3u32, 1..3u32), 0..4).prop_map(Step::Join),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

struct Domain {
    world: World,
    /// What each node runs for certain: the program it acknowledged.
    running: BTreeMap<NodeName, NodeProgram>,
    /// The paths that packets may have been on before the last step.
    entered_before: BTreeSet<PathId>,
}

impl Domain {
    fn new() -> Self {
        let mut world = World::new(HOSTS);
        world.machine(1, 1, &[CUSTOMER]);
        world.machine(2, HOSTS, &[CUSTOMER]);
        for (index, function) in FUNCTIONS.iter().enumerate() {
            let on = u32::try_from(index).unwrap() % HOSTS + 1;
            world.machine(*function, on, &[CUSTOMER, INTERNAL]);
            world.function(*function, *function, CUSTOMER, INTERNAL);
        }
        world.settle();
        let names = world.blueprint.programs.keys();
        let told = |name: &NodeName| (name.clone(), world.blueprint.program(name).unwrap());
        let running = names.map(told).collect();
        Self { world, running, entered_before: BTreeSet::new() }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Declare(number, functions, is_mpls) => self.declare(*number, functions, *is_mpls),
            Step::Delete(number) => {
                self.world.intent.chains.remove(&ChainId(id(7, *number)));
            }
            Step::StartAt(number, first, second) => self.start_at(*number, *first, *second),
            Step::Acknowledge(host) => self.acknowledge(*host),
            Step::Disconnect(host) => self.connect(*host, false),
            Step::Connect(host) => self.connect(*host, true),
            Step::Unbind(function) => self.bind(*function, false),
            Step::Bind(function) => self.bind(*function, true),
            Step::Drain => self.world.drain_all(),
            Step::Unpin => self.world.unpin_all(),
            Step::Mirror(number) => self.mirror(*number),
            Step::Tap(function) => {
                let function = FunctionId(id(5, *function));
                let function = self.world.intent.functions.get_mut(&function).unwrap();
                function.is_tap = !function.is_tap;
            }
            Step::DrainInstance(number) => {
                let instance = InstanceId(id(4, *number));
                let instance = self.world.intent.instances.get_mut(&instance).unwrap();
                instance.is_draining = !instance.is_draining;
            }
            Step::Rewrite(number) => {
                self.world.inventory.rewriting.insert(InstanceId(id(4, *number)));
            }
            Step::Join(pairs) => self.join(pairs),
            Step::Restart => {
                self.world.restart();
            }
        }
        self.world.plan();
        let World { blueprint, intent, inventory, .. } = &self.world;
        super::oracle::assert_programs(blueprint, intent, inventory);
    }

    fn declare(&mut self, number: u32, functions: &[u32], is_mpls: bool) {
        let chain = ChainId(id(7, number));
        if !self.world.intent.chains.contains_key(&chain) {
            self.world.chain(number, 1, functions);
        }
        let declared = self.world.intent.chains.get_mut(&chain).unwrap();
        declared.functions = functions.iter().map(|f| FunctionId(id(5, *f))).collect();
        declared.encapsulation = if is_mpls { Encapsulation::Mpls } else { Encapsulation::Nsh };
    }

    fn acknowledge(&mut self, host: u32) {
        let name = node(host);
        if self.world.inventory.nodes[&name].is_connected {
            self.world.acknowledge(host);
            let program = self.world.blueprint.program(&name).unwrap();
            self.running.insert(name, program);
        }
    }

    fn connect(&mut self, host: u32, is_connected: bool) {
        self.world.inventory.nodes.get_mut(&node(host)).unwrap().is_connected = is_connected;
    }

    fn bind(&mut self, function: u32, is_bound: bool) {
        for port in [port_id(function, CUSTOMER), port_id(function, INTERNAL)] {
            let on = self.world.intent.ports[&port].node.clone().unwrap();
            let bound = &mut self.world.inventory.nodes.get_mut(&on).unwrap().bound;
            if is_bound {
                bound.insert(port);
            } else {
                bound.remove(&port);
            }
        }
    }

    /// Of each pair the first goes on in the one that is so many numbers behind it.
    fn join(&mut self, pairs: &[(u32, u32)]) {
        let mut branches: BTreeMap<ChainId, Vec<ChainId>> = BTreeMap::new();
        for (source, further) in pairs {
            let (source, next) = (ChainId(id(7, *source)), ChainId(id(7, source + further)));
            let destinations = branches.entry(source).or_default();
            if source != next && !destinations.contains(&next) {
                destinations.push(next);
            }
        }
        let graph = GraphId(id(8, 1));
        let declared = ChainGraph { id: graph, label: label("g"), branches };
        self.world.intent.graphs.insert(graph, declared);
    }

    /// The answers of a chain begin at the second endpoint, or anywhere.
    fn mirror(&mut self, number: u32) {
        let Some(chain) = self.world.intent.chains.get_mut(&ChainId(id(7, number))) else { return };
        chain.is_symmetric = !chain.is_symmetric;
        if number == 1 {
            let rule = self.world.intent.rules.get_mut(&RuleId(id(6, number))).unwrap();
            rule.destination_port = Some(port_id(2, CUSTOMER));
        }
    }

    /// The chain starts at the first endpoint, at the second, or at both.
    fn start_at(&mut self, number: u32, at_first: bool, at_second: bool) {
        let (first, second) = (RuleId(id(6, number)), RuleId(id(6, 50 + number)));
        let Some(chain) = self.world.intent.chains.get_mut(&ChainId(id(7, number))) else { return };
        let wanted = [(first, at_first), (second, at_second)];
        chain.rules = wanted.iter().filter(|(_, is_in)| *is_in).map(|(rule, _)| *rule).collect();
        let mut rule = self.world.intent.rules[&first].clone();
        rule.id = second;
        rule.source_port = Some(port_id(2, CUSTOMER));
        self.world.intent.rules.insert(second, rule);
    }

    /// The two ways of a symmetric chain are in force together or not at all.
    fn assert_no_half_chain(&self) {
        let ledger = &self.world.blueprint.ledger;
        for chain in self.world.intent.chains.keys() {
            let of = |direction| {
                let paths = ledger.paths.values();
                let of_chain = paths.filter(|p| p.chain == *chain && p.direction == direction);
                of_chain.filter(|p| p.phase == PathPhase::Classified).count()
            };
            let (forward, reverse) = (of(Direction::Forward), of(Direction::Reverse));
            assert!(forward <= 1 && reverse <= forward, "{forward} forth and {reverse} back");
        }
    }

    /// A node may already run its newest program though we do not know it yet. Whichever it runs,
    /// a path it sends into must be known by all nodes of the path in whichever they run.
    fn assert_no_half_path(&self) {
        let entered_somewhere = self.entered();
        for sender in self.world.blueprint.programs.keys() {
            let wanted = self.world.blueprint.program(sender).unwrap();
            for program in [&wanted, &self.running[sender]] {
                // A flow that stays on a former path is sent into that one.
                let pinned = program.pins.iter().map(|pin| pin.old);
                let entered = program.rules.iter().filter(|rule| match rule.matches.place {
                    RulePlace::After(ended) => entered_somewhere.contains(&ended),
                    RulePlace::Port(_) | RulePlace::Endpoints => true,
                });
                for entered in entered.map(|rule| rule.path).chain(pinned) {
                    let path = program.paths.iter().find(|path| path.id == entered);
                    let path = path.expect("a classifier knows its own paths");
                    let nodes = path.hops.iter().flat_map(|hop| &hop.instances).map(|i| &i.node);
                    for receiver in nodes {
                        self.assert_knows(receiver, path.id);
                    }
                }
            }
        }
    }

    /// Paths that packets may be on: some node sends into them at a port, or at the end of such a
    /// path, or they are not empty yet.
    fn entered(&self) -> BTreeSet<PathId> {
        let names = self.world.blueprint.programs.keys();
        let wanted: Vec<_> = names.filter_map(|name| self.world.blueprint.program(name)).collect();
        let programs = wanted.iter().chain(self.running.values());
        let rules: Vec<_> = programs.flat_map(|program| &program.rules).collect();
        let ledger = &self.world.blueprint.ledger.paths;
        let superseded = ledger.iter().filter(|(_, path)| path.phase == PathPhase::Superseded);
        let mut entered: BTreeSet<PathId> = superseded.map(|(id, _)| *id).collect();
        loop {
            let before = entered.len();
            for rule in &rules {
                match rule.matches.place {
                    RulePlace::After(ended) if !entered.contains(&ended) => {}
                    _ => {
                        entered.insert(rule.path);
                    }
                }
            }
            if entered.len() == before {
                return entered;
            }
        }
    }

    /// Where a path that packets are on ends, each node knows what goes on from there. It runs that before any
    /// packet is sent into the path.
    fn assert_no_lost_branch(&mut self) {
        let entered = self.entered();
        let before = std::mem::replace(&mut self.entered_before, entered.clone());
        let ledger = &self.world.blueprint.ledger.paths;
        for (id, path) in entered.iter().filter_map(|id| Some((*id, ledger.get(id)?))) {
            if path.phase != PathPhase::Classified || path.leads_to.is_empty() {
                continue;
            }
            let Some(last) = path.hops.iter().rfind(|hop| hop.kind == HopKind::Through) else {
                continue;
            };
            for next in &path.leads_to {
                let is_it = |other: &&PathRecord| {
                    other.chain == *next
                        && other.direction == path.direction
                        && other.phase == PathPhase::Classified
                };
                let Some(next) = ledger.values().find(is_it) else { continue };
                for end in last.instances.iter().map(|instance| &instance.node) {
                    let wanted = self.world.blueprint.program(end).unwrap();
                    let running = (!before.contains(&id)).then(|| self.running[end].clone());
                    for program in [Some(wanted), running].into_iter().flatten() {
                        let at_end = |rule: &&RuleEntry| {
                            rule.matches.place == RulePlace::After(id)
                                && ledger.get(&rule.path).is_some_and(|to| to.chain == next.chain)
                        };
                        let count = program.rules.iter().filter(at_end).count();
                        assert_eq!(count, next.joins.len(), "{end} at the end of path {id}");
                    }
                }
            }
        }
    }

    fn assert_knows(&self, receiver: &NodeName, path: PathId) {
        let wanted = self.world.blueprint.program(receiver).unwrap();
        for program in [&wanted, &self.running[receiver]] {
            let knows = program.paths.iter().any(|known| known.id == path);
            assert!(knows, "{receiver} may get packets of path {path}, which it does not know");
        }
    }

    fn settle_everything(&mut self) {
        for host in 1..=HOSTS {
            self.connect(host, true);
        }
        for function in FUNCTIONS {
            self.bind(function, true);
        }
        for _ in 0..10 {
            self.world.plan();
            for host in 1..=HOSTS {
                self.acknowledge(host);
            }
            self.world.unpin_all();
            self.world.drain_all();
            self.assert_no_half_path();
        }
        assert_eq!(self.world.plan(), 0, "the domain comes to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_packet_is_sent_into_a_path_that_a_node_on_it_does_not_know(steps in steps()) {
        let mut domain = Domain::new();
        for step in &steps {
            domain.apply(step);
            domain.assert_no_half_path();
            domain.assert_no_half_chain();
            domain.assert_no_lost_branch();
        }
        domain.settle_everything();
        let chains: Vec<ChainId> = domain.world.intent.chains.keys().copied().collect();
        let ways = domain.world.intent.chains.values().map(|c| 1 + usize::from(c.is_symmetric));
        prop_assert_eq!(domain.world.blueprint.ledger.paths.len(), ways.sum::<usize>());
        for chain in chains {
            let status = domain.world.status(chain);
            prop_assert_eq!(status.state, catena_model::status::ChainState::Active, "{}", status.reason);
        }
    }
}
