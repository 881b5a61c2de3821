//! Chains by source routes: their ways, numbers and routes, and what becomes of them when cables come and go.
#![allow(clippy::unwrap_used)]

use super::detours;
use super::fabric::{Arrival, Fabric, acknowledge_everywhere, programs, switch, ways};
use super::oracle::assert_programs;
use super::rig::{CUSTOMER, INTERNAL, World, id, node, port_id};
use crate::check::tests::check;
use crate::{IndexedIntent, PathPhase, SliceReach};
use catena_model::id::{ChainId, FunctionId};
use catena_model::program::ExitPlace;
use catena_model::resource::{Encapsulation, FailurePolicy};
use catena_model::status::{ChainState, Comparison};
use catena_model::topology::NodeRole;
use catena_model::{NodeName, NodeProgram};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const HOSTS: u32 = 4;
const FUNCTIONS: [u32; 4] = [11, 12, 13, 14];

/// Function 1N on host N; the endpoints on the first host and the last.
pub(super) fn world() -> (World, Fabric) {
    let mut world = World::new(HOSTS);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, HOSTS, &[CUSTOMER]);
    for (on, function) in (1..).zip(FUNCTIONS) {
        world.machine(function, on, &[CUSTOMER, INTERNAL]);
        world.function(function, function, CUSTOMER, INTERNAL);
    }
    let fabric = Fabric::leaf_spine(&mut world, HOSTS);
    fabric.settle(&mut world);
    (world, fabric)
}

pub(super) fn routed_chain(world: &mut World, number: u32, functions: &[u32]) -> ChainId {
    let chain = world.chain(number, 1, functions);
    carry(world, chain, Encapsulation::SourceRouteNative);
    chain
}

pub(super) fn carry(world: &mut World, chain: ChainId, encapsulation: Encapsulation) {
    world.intent.chains.get_mut(&chain).unwrap().encapsulation = encapsulation;
}

pub(super) fn assert_active(world: &World, chain: ChainId) {
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Active, "{}", status.reason);
}

/// The ports of functions that each node has a route to.
fn routes(world: &World) -> BTreeSet<(String, catena_model::id::PortId)> {
    let programs = programs(world).into_iter();
    let routes = programs.flat_map(|(node, program)| {
        program.routes.into_iter().map(move |route| (node.to_string(), route.to))
    });
    routes.collect()
}

/// Each route of each program comes out where it should.
fn assert_routes_lead(world: &World, fabric: &Fabric) {
    let running = programs(world);
    for (name, program) in &running {
        for route in &program.routes {
            let expected = Arrival::Port(route.node.clone(), route.to);
            for ports in std::iter::once(route.ports.clone()).chain(detours::detoured(route)) {
                let arrival = fabric.walk(&running, name, &ports);
                assert_eq!(arrival, expected, "{ports:?} of {route:?} of {name}");
            }
        }
        for way in &program.onward {
            let arrival = fabric.walk(&running, &way.from, &way.ports);
            assert_eq!(arrival, Arrival::Port(way.node.clone(), way.to), "{way:?} of {name}");
        }
    }
}

#[test]
fn a_chain_has_a_header_for_each_function_on_another_node_and_nothing_at_switches() {
    let (mut world, fabric) = world();
    let before = programs(&world);
    let chain = routed_chain(&mut world, 1, &[11, 12, 13]);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let expected = BTreeSet::from([
        ("host1".into(), port_id(12, CUSTOMER)),
        ("host2".into(), port_id(13, CUSTOMER)),
    ]);
    assert_eq!(routes(&world), expected);
    assert_routes_lead(&world, &fabric);
    let after = programs(&world);
    for number in 1..=4 {
        assert_eq!(before[&switch(number)], after[&switch(number)], "its number included");
    }
    // Host 2 is at the other leaf: over a spine; from host 2 to host 3 as well.
    let ways = ways(&world.blueprint.ledger.ways);
    let nodes: BTreeMap<_, usize> =
        ways.iter().map(|(ends, legs)| (ends.clone(), legs.len())).collect();
    let expected = [(("host1", "host2"), 4), (("host2", "host3"), 4)];
    let expected = expected.map(|((from, to), legs)| ((from.to_owned(), to.to_owned()), legs));
    assert_eq!(nodes, BTreeMap::from(expected));
}

#[test]
fn a_thousand_chains_leave_the_programs_of_switches_as_they_were() {
    let (mut world, fabric) = world();
    let versions = |world: &World| {
        let switches = (1..=4).map(switch);
        switches
            .map(|name| world.blueprint.programs.get(&name).unwrap().version())
            .collect::<Vec<_>>()
    };
    let before = (versions(&world), programs(&world));
    for number in 1..=1_000 {
        let functions = &FUNCTIONS[number as usize % 3..];
        routed_chain(&mut world, number, functions);
    }
    fabric.settle(&mut world);
    assert_active(&world, ChainId(id(7, 1_000)));
    assert_eq!(world.blueprint.ledger.paths.len(), 1_000);
    assert_eq!(versions(&world), before.0, "numbers and digests");
    for number in 1..=4 {
        assert_eq!(programs(&world)[&switch(number)], before.1[&switch(number)]);
    }
}

#[test]
fn a_chain_moves_to_source_routes_and_back_under_another_identifier() {
    let (mut world, fabric) = world();
    let chain = world.chain(1, 1, &[12, 13]);
    fabric.settle(&mut world);
    let first = world.status(chain).path.unwrap();
    carry(&mut world, chain, Encapsulation::SourceRouteNative);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let second = world.status(chain).path.unwrap();
    assert_ne!(first, second);
    assert_eq!(world.blueprint.ledger.paths[&first].phase, PathPhase::Superseded);
    carry(&mut world, chain, Encapsulation::Nsh);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert!(!routes(&world).is_empty(), "packets may still be under way");
    world.drain_all();
    fabric.settle(&mut world);
    assert!(routes(&world).is_empty() && world.blueprint.ledger.ways.is_empty());
    let books = world.blueprint.ledger.port_numbers.values();
    let is_port = |(_, of): &(_, ExitPlace)| matches!(of, ExitPlace::Port(_));
    let ports = books.clone().flat_map(|book| book.places()).filter(is_port).count();
    let resting = books.flat_map(|book| book.resting()).count();
    assert_eq!((ports, resting), (0, 2), "numbers rest");
}

#[test]
fn a_chain_without_a_way_waits_and_says_why_and_goes_on_when_cables_come() {
    let (mut world, mut fabric) = world();
    fabric.wires.iter_mut().filter(|wire| wire.ends[0].0 == node(2)).for_each(|w| w.is_up = false);
    fabric.settle(&mut world);
    let other = routed_chain(&mut world, 2, &[13]);
    let chain = world.chain(1, 1, &[12]);
    fabric.settle(&mut world);
    let path = world.status(chain).path;
    carry(&mut world, chain, Encapsulation::SourceRouteNative);
    fabric.settle(&mut world);
    let status = world.status(chain);
    assert_eq!((status.state, status.path), (ChainState::Degraded, path), "the former path stays");
    let says = |part: &str| assert!(status.reason.contains(part), "{}", status.reason);
    says("function 'v12' is out of reach by source routes");
    says("no way leads from node 'host1' to node 'host2'");
    says("catena link list");
    assert_active(&world, other);
    fabric.wires.iter_mut().for_each(|wire| wire.is_up = true);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert_routes_lead(&world, &fabric);
}

#[test]
fn a_dead_cable_changes_the_ways_over_it_alone_and_no_path() {
    let (mut world, mut fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12, 13, 14]);
    fabric.settle(&mut world);
    let (path, before) = (world.status(chain).path, ways(&world.blueprint.ledger.ways));
    let spine = before[&("host1".to_owned(), "host2".to_owned())][2].clone();
    let is_dead = |ends: &[NodeName; 2]| ends[0] == switch(1) && ends[1].as_str() == spine;
    let dead =
        fabric.wires.iter_mut().find(|wire| is_dead(&wire.ends.clone().map(|(node, _)| node)));
    dead.unwrap().is_up = false;
    fabric.settle(&mut world);
    let after = ways(&world.blueprint.ledger.ways);
    assert_eq!(world.status(chain).path, path);
    assert_active(&world, chain);
    assert_routes_lead(&world, &fabric);
    for (ends, legs) in &before {
        let leads_over = legs.windows(2).any(|two| {
            let two = [two[0].as_str(), two[1].as_str()];
            two == ["switch1", spine.as_str()] || two == [spine.as_str(), "switch1"]
        });
        assert_eq!(leads_over, after[ends] != *legs, "{ends:?}");
    }
    // When it is there again, nobody is better off for turning.
    fabric.wires.iter_mut().for_each(|wire| wire.is_up = true);
    fabric.settle(&mut world);
    assert_eq!(ways(&world.blueprint.ledger.ways), after);
}

#[test]
fn what_nodes_told_outlives_their_sessions_and_the_controller() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12, 13]);
    fabric.settle(&mut world);
    let before = (world.blueprint.ledger.ways.clone(), world.blueprint.ledger.cables.clone());
    world.inventory.told.clear();
    assert_eq!(world.plan(), 0, "who says nothing unplugs nothing");
    world.restart();
    world.plan();
    let ledger = &world.blueprint.ledger;
    assert_eq!((ledger.ways.clone(), ledger.cables.clone()), before);
    assert_active(&world, chain);
    // A node that was started anew has heard nobody yet.
    let mut quiet = fabric.clone();
    let running = programs(&world);
    quiet.tell(&mut world, &switch(1), &running);
    let told = world.inventory.told.get_mut(&switch(1)).unwrap();
    std::sync::Arc::make_mut(told).iter_mut().for_each(|link| link.neighbours.clear());
    assert_eq!(world.plan(), 0);
    // One that says that a cable carries nothing does.
    quiet.wires.iter_mut().for_each(|wire| wire.is_up = false);
    let running = programs(&world);
    quiet.tell(&mut world, &switch(1), &running);
    assert!(world.plan() > 0);
    assert_eq!(world.status(chain).state, ChainState::Degraded);
}

#[test]
fn siblings_and_functions_that_may_be_passed_have_routes_from_wherever_packets_may_be() {
    let (mut world, fabric) = world();
    // v12 has a second instance, on the node of v14.
    let second = world.intent.functions[&FunctionId(id(5, 14))].instances[0];
    let function = world.intent.functions.get_mut(&FunctionId(id(5, 12))).unwrap();
    function.instances.push(second);
    function.on_failure = FailurePolicy::Bypass;
    let chain = routed_chain(&mut world, 1, &[12, 13]);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let host = |number: u32, machine: u32| (format!("host{number}"), port_id(machine, CUSTOMER));
    let to_first = [host(1, 12), host(4, 12), host(1, 14), host(2, 14)];
    let to_second = [host(1, 13), host(2, 13), host(4, 13)];
    assert_eq!(routes(&world), BTreeSet::from_iter(to_first.into_iter().chain(to_second)));
    assert_routes_lead(&world, &fabric);
}

#[test]
fn a_chain_from_anywhere_and_slices_everywhere_have_routes_at_every_host() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[13]);
    fabric.settle(&mut world);
    assert_eq!(routes(&world).len(), 1);
    let (id, record) = world.blueprint.ledger.paths.iter().next().unwrap();
    let (id, mut record) = (*id, record.clone());
    record.slices = SliceReach { is_everywhere: true, ..SliceReach::default() };
    let sends: Vec<_> = record.sends().into_iter().map(|(_, send)| send.from).collect();
    assert!(sends.contains(&None) && sends.contains(&Some(node(1))), "{id}: {sends:?}");
    let rule = world.intent.chains[&chain].rules[0];
    world.intent.rules.get_mut(&rule).unwrap().source_port = None;
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let from: BTreeSet<String> = routes(&world).into_iter().map(|(node, _)| node).collect();
    assert_eq!(from, BTreeSet::from(["host1", "host2", "host4"].map(str::to_owned)));
    assert_routes_lead(&world, &fabric);
}

#[test]
fn a_port_at_two_places_of_a_chain_is_refused_where_the_port_says_which() {
    let (mut world, _) = world();
    let chain = routed_chain(&mut world, 1, &[12, 14]);
    // The tap gets copies by the port through which packets enter the other function.
    let instances = world.intent.functions[&FunctionId(id(5, 12))].instances.clone();
    let tap = world.intent.functions.get_mut(&FunctionId(id(5, 14))).unwrap();
    (tap.is_tap, tap.instances) = (true, instances);
    let refused = check(&world.intent).unwrap_err().to_string();
    for part in ["'c1'", "source-route/native", "port 'm12@1' at two positions"] {
        assert!(refused.contains(part), "{refused}");
    }
    carry(&mut world, chain, Encapsulation::Nsh);
    assert_eq!(check(&world.intent), Ok(()));
}

#[test]
fn a_port_that_moves_has_both_its_routes_until_nothing_is_on_the_former_path() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12]);
    fabric.settle(&mut world);
    for network in [CUSTOMER, INTERNAL] {
        let port = port_id(12, network);
        world.intent.ports.get_mut(&port).unwrap().node = Some(node(3));
        world.inventory.nodes.get_mut(&node(3)).unwrap().bound.insert(port);
    }
    let ends = |world: &World| {
        let routes = programs(world).remove(&node(1)).unwrap().routes.into_iter();
        routes.map(|route| route.node.to_string()).collect::<Vec<_>>()
    };
    world.plan();
    assert_eq!(ends(&world), ["host2", "host3"]);
    acknowledge_everywhere(&mut world);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert_eq!(ends(&world), ["host2", "host3"], "packets may be under way");
    world.drain_all();
    fabric.settle(&mut world);
    assert_eq!(ends(&world), ["host3"]);
    assert_routes_lead(&world, &fabric);
}

#[test]
fn a_chain_is_compared_by_what_the_planner_would_make_of_it() {
    let (mut world, mut fabric) = world();
    let chain = world.chain(1, 1, &[11, 12, 13]);
    fabric.settle(&mut world);
    let compared = |world: &World| {
        let (intent, chain) =
            (IndexedIntent::from(world.intent.clone()), &world.intent.chains[&chain]);
        crate::compare(&world.blueprint, &intent, &world.inventory, chain, &Encapsulation::ALL)
    };
    let all = compared(&world);
    let bytes = |one: &Comparison| one.legs.iter().map(|leg| leg.added_bytes).collect::<Vec<_>>();
    // Two functions are on other nodes than what is before them. Headers over segments get shorter.
    let over_segments = [[80, 64], [94, 78], [64, 40]];
    let expected = [[74; 2], [50; 2], [33; 2], [8; 2], [8; 2], [58, 38], [28; 2], [35; 2]];
    let expected = [&expected[..], &over_segments].concat();
    assert_eq!(all.iter().map(bytes).collect::<Vec<_>>(), expected);
    let ports = |one: &Comparison| one.legs.iter().map(|leg| leg.ports).collect::<Vec<_>>();
    // One header of ten ports leads to both, where there is room.
    for (one, expected) in all[2..8].iter().zip([10, 5, 5, 10, 10, 10]) {
        assert_eq!(ports(one), [Some(expected); 2], "{}", one.encapsulation.name());
        let written = one.legs.iter().filter(|leg| leg.is_written).count();
        assert_eq!(written, 10 / expected);
    }
    for one in &all {
        assert_eq!(one.trouble, None);
        // Moved there, the programs hold what was said.
        carry(&mut world, chain, one.encapsulation);
        fabric.settle(&mut world);
        world.drain_all();
        fabric.settle(&mut world);
        let programs = programs(&world);
        for entries in &one.entries {
            let program = &programs[&entries.node];
            let is_port = |exit: &&catena_model::program::ExitEntry| exit.link().is_none();
            let exits = program.exits.iter().filter(is_port).count();
            let [paths, rules, routes, onward] = [
                program.paths.len(),
                program.rules.len(),
                program.routes.len(),
                program.onward.len(),
            ];
            let said =
                (entries.paths, entries.rules, entries.routes, entries.exits, entries.onward);
            assert_eq!(
                said,
                (paths, rules, routes, exits, onward),
                "{} at {}",
                one.encapsulation.name(),
                entries.node
            );
        }
    }
    fabric.wires.iter_mut().for_each(|wire| wire.is_up = false);
    fabric.settle(&mut world);
    let trouble = compared(&world).remove(2).trouble.unwrap();
    assert!(trouble.contains("no way leads from"), "{trouble}");
}

/// Interfaces of a node that no cable is plugged into.
fn spare(fabric: &mut Fabric, of: &NodeName, count: usize) {
    let spares = (0..count).map(|number| (of.clone(), format!("spare{number}")));
    fabric.spares.extend(spares);
}

#[test]
fn the_port_that_finds_no_number_waits_for_one_and_is_turned_to_when_its_nodes_know_it() {
    let (mut world, mut fabric) = world();
    // Host 2 has one cable, and one number left for two functions.
    world.machine(15, 2, &[CUSTOMER, INTERNAL]);
    world.function(15, 15, CUSTOMER, INTERNAL);
    spare(&mut fabric, &node(2), 253);
    fabric.settle(&mut world);
    let chain = routed_chain(&mut world, 1, &[12, 13, 15]);
    fabric.settle(&mut world);
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Building);
    assert!(status.reason.contains("all are given"), "{}", status.reason);
    let short = routed_chain(&mut world, 2, &[12]);
    fabric.settle(&mut world);
    assert_active(&world, short);
    fabric.spares.truncate(200);
    fabric.settle(&mut world);
    for turn in 0..40 {
        // Blueprints are what rests are counted in.
        routed_chain(&mut world, 50 + turn, &[13]);
        fabric.settle(&mut world);
    }
    assert_active(&world, chain);
    assert_routes_lead(&world, &fabric);
}

#[derive(Clone, Debug)]
enum Step {
    Declare(u32, Vec<u32>, Encapsulation),
    Delete(u32),
    Mirror(u32),
    Wire(usize, bool),
    /// An interface is no link any more, or is one again.
    Absent(usize, usize, bool),
    Tell(usize),
    /// The session of a node is over.
    Silent(usize),
    Run(usize),
    Drain,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let functions = proptest::sample::subsequence(FUNCTIONS.to_vec(), 1..=4).prop_shuffle();
    let encapsulation = prop_oneof![
        1 => Just(Encapsulation::Nsh),
        2 => Just(Encapsulation::SourceRouteNative),
        1 => Just(Encapsulation::SourceRouteSafe9),
        1 => Just(Encapsulation::SourceRouteClassic80),
    ];
    let (wire, node) = (|| 0..8usize, || 0..8usize);
    let step = prop_oneof![
        4 => (1..4u32, functions, encapsulation).prop_map(|(n, f, e)| Step::Declare(n, f, e)),
        1 => (1..4u32).prop_map(Step::Delete),
        1 => (1..4u32).prop_map(Step::Mirror),
        2 => wire().prop_map(|wire| Step::Wire(wire, false)),
        2 => wire().prop_map(|wire| Step::Wire(wire, true)),
        1 => (wire(), 0..2usize, any::<bool>()).prop_map(|(w, e, is)| Step::Absent(w, e, is)),
        10 => node().prop_map(Step::Tell),
        1 => node().prop_map(Step::Silent),
        12 => node().prop_map(Step::Run),
        2 => Just(Step::Drain),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}

struct Domain {
    world: World,
    fabric: Fabric,
    /// What each node runs.
    running: BTreeMap<NodeName, NodeProgram>,
}

impl Domain {
    fn node(&self, place: usize) -> NodeName {
        self.running.keys().nth(place).unwrap().clone()
    }

    fn apply(&mut self, step: &Step) {
        let Self { world, fabric, running } = self;
        match step {
            Step::Declare(number, functions, encapsulation) => {
                let chain = ChainId(id(7, *number));
                if !world.intent.chains.contains_key(&chain) {
                    world.chain(*number, 1, functions);
                }
                let declared = world.intent.chains.get_mut(&chain).unwrap();
                declared.functions = functions.iter().map(|f| FunctionId(id(5, *f))).collect();
                declared.encapsulation = *encapsulation;
            }
            Step::Delete(number) => {
                world.intent.chains.remove(&ChainId(id(7, *number)));
            }
            Step::Mirror(number) => {
                if let Some(chain) = world.intent.chains.get_mut(&ChainId(id(7, *number))) {
                    chain.is_symmetric = !chain.is_symmetric;
                }
            }
            Step::Wire(wire, is_up) => fabric.wires[*wire].is_up = *is_up,
            Step::Absent(wire, end, is_absent) => {
                let plug = fabric.wires[*wire].ends[*end].clone();
                match is_absent {
                    true => fabric.absent.insert(plug),
                    false => fabric.absent.remove(&plug),
                };
            }
            Step::Tell(place) => {
                let node = self.node(*place);
                self.fabric.tell(&mut self.world, &node, &self.running);
            }
            Step::Silent(place) => {
                let node = running.keys().nth(*place).unwrap();
                world.inventory.told.remove(node);
            }
            Step::Run(place) => self.run(*place),
            Step::Drain => world.drain_all(),
            Step::Restart => world.restart(),
        }
        self.world.plan();
        let World { blueprint, intent, inventory, .. } = &self.world;
        assert_programs(blueprint, intent, inventory);
    }

    fn run(&mut self, place: usize) {
        let node = self.node(place);
        let program = self.world.blueprint.program(&node).unwrap();
        self.world.inventory.facts_mut(&node).unwrap().acknowledged = program.number;
        self.running.insert(node, program);
    }

    /// Whatever program a node runs, no packet comes out of a port that it was not sent to.
    fn assert_nothing_is_misled(&self) {
        let wanted = programs(&self.world);
        for (name, program) in self.running.iter().chain(&wanted) {
            for route in &program.routes {
                match self.fabric.walk(&self.running, name, &route.ports) {
                    Arrival::Port(node, port) => {
                        assert_eq!((&node, port), (&route.node, route.to), "{route:?} of {name}");
                    }
                    Arrival::Lost => {}
                }
            }
        }
    }

    /// A classifier turns to a path on source routes when every packet has a way.
    fn assert_ways_before_packets(&self) {
        for blueprint in &self.world.history {
            let paths = blueprint.ledger.paths.values();
            let turned = paths.filter(|path| {
                path.phase == PathPhase::Classified
                    && path.since == blueprint.number
                    && !path.is_update
            });
            for path in turned {
                assert!(crate::routing::is_routed(&blueprint.ledger, &self.world.inventory, path));
            }
        }
    }

    fn settle_everything(&mut self) {
        self.fabric.wires.iter_mut().for_each(|wire| wire.is_up = true);
        self.fabric.absent.clear();
        for _ in 0..40 {
            for place in 0..self.running.len() {
                let node = self.node(place);
                self.fabric.tell(&mut self.world, &node, &self.running);
            }
            self.world.plan();
            (0..self.running.len()).for_each(|place| self.run(place));
            self.world.unpin_all();
            self.world.drain_all();
            self.assert_nothing_is_misled();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_packet_comes_where_it_was_not_sent_whatever_cables_and_nodes_do(steps in steps()) {
        let (world, fabric) = world();
        let running = programs(&world);
        let mut domain = Domain { world, fabric, running };
        for step in &steps {
            domain.apply(step);
            domain.assert_nothing_is_misled();
        }
        domain.assert_ways_before_packets();
        domain.settle_everything();
        let chains: Vec<ChainId> = domain.world.intent.chains.keys().copied().collect();
        for chain in chains {
            let status = domain.world.status(chain);
            prop_assert_eq!(status.state, ChainState::Active, "{}", status.reason);
        }
        assert_routes_lead(&domain.world, &domain.fabric);
        for (name, program) in programs(&domain.world) {
            if domain.world.inventory.role(&name) == Some(NodeRole::Switch) {
                prop_assert!(program.paths.is_empty() && program.routes.is_empty());
            }
        }
    }
}

#[test]
fn nodes_that_run_what_they_are_told_are_asked_for_nothing_more() {
    let (mut world, fabric) = world();
    routed_chain(&mut world, 1, &[12]);
    fabric.settle(&mut world);
    acknowledge_everywhere(&mut world);
    assert_eq!(world.plan(), 0);
}
