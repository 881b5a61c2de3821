//! Graphs of chains: where packets go on, where answers come from, and that nothing turns by halves.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, id, label, node, port_id};
use crate::check::tests::check;
use crate::{Direction, PathPhase, PlanError};
use catena_model::PathId;
use catena_model::id::{ChainId, FunctionId, GraphId, RuleId};
use catena_model::limits::{CHAIN_ANSWER_RULES_MAX, CHAIN_FUNCTIONS_MAX};
use catena_model::program::{Balance, RuleEntry, RulePlace, TupleField};
use catena_model::resource::{ChainGraph, FlowField, PortBounds, TupleMapping, TuplePattern};
use catena_model::status::ChainState;

/// Endpoints m1 on host1 and m2 on host4; functions v11 to v14, one on each host.
fn testbed() -> World {
    let mut world = World::new(4);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 4, &[CUSTOMER]);
    for host in 1..=4 {
        world.machine(10 + host, host, &[CUSTOMER, INTERNAL]);
        world.function(10 + host, 10 + host, CUSTOMER, INTERNAL);
    }
    world.settle();
    world
}

fn chain_id(number: u32) -> ChainId {
    ChainId(id(7, number))
}

/// A graph whose branches are given by numbers of chains.
fn graph(world: &mut World, branches: &[(u32, &[u32])]) {
    let branches = branches.iter().map(|(source, destinations)| {
        (chain_id(*source), destinations.iter().map(|chain| chain_id(*chain)).collect())
    });
    let graph = GraphId(id(8, 1));
    let branches = branches.collect();
    world.intent.graphs.insert(graph, ChainGraph { id: graph, label: label("g"), branches });
}

/// Chain `number`'s rule looks at no ports.
fn open_rule(world: &mut World, number: u32) {
    let rule = world.intent.rules.get_mut(&RuleId(id(6, number))).unwrap();
    rule.destination_ports = PortBounds::default();
}

/// Chain 1 over v11 and v12 goes on in chain 2 over v13 or chain 3 over v14.
fn branching(world: &mut World) -> [ChainId; 3] {
    let chains = [world.chain(1, 1, &[11, 12]), world.chain(2, 1, &[13]), world.chain(3, 1, &[14])];
    open_rule(world, 1);
    graph(world, &[(1, &[2, 3])]);
    chains
}

fn rules(world: &World, host: u32) -> Vec<RuleEntry> {
    world.blueprint.program(&node(host)).unwrap().rules.clone()
}

fn path_of(world: &World, chain: ChainId, direction: Direction) -> PathId {
    let mut paths = world.blueprint.ledger.paths.iter();
    let found = paths.find(|(_, path)| {
        path.chain == chain && path.direction == direction && path.phase == PathPhase::Classified
    });
    *found.unwrap().0
}

fn forward(world: &World, chain: ChainId) -> PathId {
    path_of(world, chain, Direction::Forward)
}

#[test]
fn branches_stand_where_the_source_ends_and_in_order() {
    let mut world = testbed();
    let [root, left, right] = branching(&mut world);
    assert_eq!(check(&world.intent), Ok(()));
    world.settle();
    for chain in [root, left, right] {
        assert_eq!(world.status(chain).state, ChainState::Active, "{}", world.status(chain).reason);
    }
    let at = |host| -> Vec<(RulePlace, PathId)> {
        rules(&world, host).iter().map(|rule| (rule.matches.place, rule.path)).collect()
    };
    let start = forward(&world, root);
    assert_eq!(at(1), [(RulePlace::Port(port_id(1, CUSTOMER)), start)]);
    let after = RulePlace::After(start);
    assert_eq!(at(2), [(after, forward(&world, left)), (after, forward(&world, right))]);
    assert_eq!((at(3), at(4)), (vec![], vec![]));
    let priorities: Vec<u32> = rules(&world, 2).iter().map(|rule| rule.priority).collect();
    assert!(priorities[0] > priorities[1] + 1_000, "{priorities:?}");
    // The chains are delivered where the root begins.
    let customers = world.intent.ports[&port_id(1, CUSTOMER)].network;
    let paths = &world.blueprint.ledger.paths;
    assert!(paths.values().all(|path| path.destination == customers));
}

#[test]
fn a_graph_over_chains_in_use_turns_in_one_blueprint() {
    let mut world = testbed();
    let [root, left, _] = branching(&mut world);
    world.intent.graphs.clear();
    world.settle();
    let before = [forward(&world, root), forward(&world, left)];
    graph(&mut world, &[(1, &[2, 3])]);
    world.plan();
    // Until all on the new root know it, every node goes on as it did.
    for host in [1, 3, 4] {
        world.acknowledge(host);
        world.plan();
    }
    assert_eq!([forward(&world, root), forward(&world, left)], before);
    let ports = rules(&world, 1).into_iter().filter(|rule| rule.matches.place.port().is_some());
    assert_eq!(ports.count(), 3);
    assert_ne!(world.status(root).state, ChainState::Active);
    world.acknowledge_all();
    assert_eq!(world.plan(), 1);
    assert_ne!(forward(&world, root), before[0]);
    let ports = rules(&world, 1).into_iter().filter(|rule| rule.matches.place.port().is_some());
    assert_eq!(ports.count(), 1, "only the root begins at a port");
    // What is on the old root is delivered at its end as before.
    let old = &world.blueprint.ledger.paths[&before[0]];
    assert_eq!((old.phase, old.branches.len()), (PathPhase::Superseded, 0));
    world.settle_with_acknowledgements();
    // And back.
    world.intent.graphs.clear();
    let joined = forward(&world, root);
    world.plan();
    assert_eq!(forward(&world, root), joined);
    world.settle_with_acknowledgements();
    let old = &world.blueprint.ledger.paths[&joined];
    assert_eq!((old.phase, old.branches.len()), (PathPhase::Superseded, 2));
    let ports = rules(&world, 1).into_iter().filter(|rule| rule.matches.place.port().is_some());
    assert_eq!(ports.count(), 3);
}

#[test]
fn a_graph_waits_for_a_chain_that_lacks_something_and_says_so() {
    let mut world = testbed();
    let [root, left, right] = branching(&mut world);
    world.intent.graphs.clear();
    world.settle();
    let bound = &mut world.inventory.nodes.get_mut(&node(4)).unwrap().bound;
    bound.remove(&port_id(14, INTERNAL));
    graph(&mut world, &[(1, &[2, 3])]);
    world.settle();
    let ports = rules(&world, 1).into_iter().filter(|rule| rule.matches.place.port().is_some());
    assert_eq!(ports.count(), 3, "nothing has turned");
    let status = world.status(root);
    assert!(status.reason.contains("together with chain 'c3'"), "{}", status.reason);
    assert_ne!(world.status(left).state, ChainState::Active);
    assert_eq!(world.status(right).state, ChainState::Degraded);
}

#[test]
fn a_path_whose_next_path_goes_before_it_turned_is_learned_anew() {
    let mut world = testbed();
    let [source, next] = [world.chain(1, 1, &[13]), world.chain(2, 1, &[12])];
    world.settle();
    let [former, kept] = [forward(&world, source), forward(&world, next)];
    let over = |world: &mut World, function| {
        let chain = world.intent.chains.get_mut(&next).unwrap();
        chain.functions = vec![FunctionId(id(5, function))];
    };
    // Host 3 learns that the source's path leads to one over v14, which host 4 is never told of.
    graph(&mut world, &[(1, &[2])]);
    over(&mut world, 14);
    world.plan();
    [1, 3].into_iter().for_each(|host| world.acknowledge(host));
    world.plan();
    let led = rules(&world, 3).pop().unwrap().path;
    assert_ne!(led, kept);
    over(&mut world, 12);
    world.plan();
    assert_eq!(forward(&world, source), former, "host 3 may still send into path {led}");
    assert!(rules(&world, 3).iter().all(|rule| rule.path != led));
    world.acknowledge_all();
    world.plan();
    assert_ne!(forward(&world, source), former);
    assert_eq!(rules(&world, 3).pop().unwrap().path, kept);
}

#[test]
fn the_end_of_a_path_leads_into_chains_in_use_before_any_packet_is_sent_into_it() {
    let mut world = testbed();
    let [root, left, right] = branching(&mut world);
    world.intent.graphs.clear();
    world.settle();
    let kept = [forward(&world, left), forward(&world, right)];
    let former = forward(&world, root);
    graph(&mut world, &[(1, &[2, 3])]);
    world.plan();
    let of_root = world.blueprint.ledger.paths.of_chain(root).map(|(id, _)| id);
    let new = of_root.filter(|id| *id != former).max().unwrap();
    let led = |world: &World| -> Vec<PathId> {
        let ended = rules(world, 2).into_iter();
        let ended = ended.filter(|rule| rule.matches.place == RulePlace::After(new));
        ended.map(|rule| rule.path).collect()
    };
    assert_eq!(led(&world), kept);
    assert!(kept.iter().all(|path| world.known(2).contains(path)));
    [1, 3, 4].into_iter().for_each(|host| world.acknowledge(host));
    world.plan();
    assert_eq!(forward(&world, root), former, "host 2 may not lead on from path {new} yet");
    world.acknowledge(2);
    world.plan();
    assert_eq!([root, left, right].map(|chain| forward(&world, chain)), [new, kept[0], kept[1]]);
    assert_eq!(led(&world), kept);
    // What waits is forgotten with the graph, at both.
    world.settle_with_acknowledgements();
    world.intent.graphs.clear();
    world.settle_with_acknowledgements();
    world.drain_all();
    world.settle_with_acknowledgements();
    assert!(led(&world).is_empty());
    assert!(!world.known(2).contains(&kept[0]));
}

#[test]
fn an_update_of_a_destination_turns_the_branch_and_nothing_else() {
    let mut world = testbed();
    let [root, left, right] = branching(&mut world);
    world.settle();
    let kept = [forward(&world, root), forward(&world, right)];
    let old = forward(&world, left);
    let declared = world.intent.chains.get_mut(&left).unwrap();
    declared.functions = vec![FunctionId(id(5, 14)), FunctionId(id(5, 13))];
    world.plan();
    // Installed: the branch still leads into the old path.
    assert!(rules(&world, 2).iter().any(|rule| rule.path == old));
    world.acknowledge_all();
    assert_eq!(world.plan(), 1);
    let new = forward(&world, left);
    assert_ne!(new, old);
    assert!(rules(&world, 2).iter().any(|rule| rule.path == new));
    assert_eq!([forward(&world, root), forward(&world, right)], kept);
    // The old path is drained only when the node of the branch has turned.
    let record = &world.blueprint.ledger.paths[&old];
    assert!(world.blueprint.lagging_nodes(&world.inventory, record).contains(&node(2)));
    world.settle_with_acknowledgements();
    world.drain_all();
    world.settle_with_acknowledgements();
    assert!(!world.blueprint.ledger.paths.contains_key(&old));
}

#[test]
fn an_update_of_a_source_brings_its_branches_to_its_new_end() {
    let mut world = testbed();
    let [root, left, _] = branching(&mut world);
    world.settle();
    let old = forward(&world, root);
    world.intent.chains.get_mut(&root).unwrap().functions = vec![FunctionId(id(5, 13))];
    world.plan();
    // Before anything is sent into the new path, its end knows where packets go on.
    assert_eq!(forward(&world, root), old);
    let ended = rules(&world, 3);
    assert!(ended.iter().any(|rule| rule.path == forward(&world, left)), "{ended:?}");
    world.settle_with_acknowledgements();
    assert_ne!(forward(&world, root), old);
    // What is inside the old path goes on as well, until it is empty.
    assert!(rules(&world, 2).iter().any(|rule| rule.matches.place == RulePlace::After(old)));
    world.drain_all();
    world.settle_with_acknowledgements();
    assert!(rules(&world, 2).is_empty());
    assert!(!world.known(2).contains(&forward(&world, left)));
}

#[test]
fn a_source_without_functions_to_pass_ends_where_it_begins() {
    let mut world = testbed();
    let [root, left, _] = branching(&mut world);
    for function in [11, 12] {
        world.intent.functions.get_mut(&FunctionId(id(5, function))).unwrap().is_tap = true;
    }
    world.settle();
    let after = RulePlace::After(forward(&world, root));
    let left = forward(&world, left);
    assert!(rules(&world, 1).iter().any(|rule| rule.matches.place == after && rule.path == left));
    assert!(rules(&world, 2).is_empty());
}

fn make_symmetric(world: &mut World, chains: &[ChainId]) {
    for chain in chains {
        world.intent.chains.get_mut(chain).unwrap().is_symmetric = true;
    }
}

#[test]
fn answers_go_back_through_the_chain_they_came_from_and_then_its_source() {
    let mut world = testbed();
    let chains = branching(&mut world);
    make_symmetric(&mut world, &chains);
    let [root, left, right] = chains;
    world.settle();
    let back = |chain| path_of(&world, chain, Direction::Reverse);
    // At every endpoint: what is deeper goes first, the root's own rule last.
    let entered: Vec<_> = rules(&world, 4)
        .into_iter()
        .filter(|rule| rule.matches.place == RulePlace::Endpoints)
        .map(|rule| (rule.path, rule.name))
        .collect();
    assert_eq!(
        entered,
        [
            (back(left), "r1 and r2".to_owned()),
            (back(right), "r1 and r3".to_owned()),
            (back(root), "r1".to_owned()),
        ]
    );
    let mut at_end = rules(&world, 4).into_iter();
    let left_rule = at_end.find(|rule| rule.path == back(left)).unwrap().matches;
    assert_eq!(left_rule.destination, Some("10.10.0.1/32".parse().unwrap()));
    assert_eq!(left_rule.source_ports.map(catena_wire::scalar::PortRange::min), Some(5_002));
    // Behind v13 on host3 and v14 on host4 the answers go on in the root's way back.
    for (host, chain) in [(3, left), (4, right)] {
        let place = RulePlace::After(back(chain));
        let mut after = rules(&world, host).into_iter();
        assert_eq!(after.find(|rule| rule.matches.place == place).unwrap().path, back(root));
    }
}

#[test]
fn answers_to_rewritten_packets_are_told_by_what_the_functions_made_of_them() {
    let mut world = testbed();
    let chains = branching(&mut world);
    make_symmetric(&mut world, &chains);
    let source = |net: &str| TuplePattern {
        source_prefix: Some(net.parse().unwrap()),
        ..TuplePattern::default()
    };
    let mapping = TupleMapping { ingress: source("10.10.0.0/24"), egress: source("10.20.0.11/32") };
    let function = world.intent.functions.get_mut(&FunctionId(id(5, 11))).unwrap();
    function.mapping = mapping.clone();
    world.settle();
    let at_endpoints = rules(&world, 4).into_iter();
    let at_endpoints = at_endpoints.filter(|rule| rule.matches.place == RulePlace::Endpoints);
    let inside: Vec<_> = at_endpoints.map(|rule| rule.matches.destination).collect();
    assert_eq!(inside, [mapping.egress.source_prefix; 3]);
    // Behind the way back of a following chain the function has not undone it yet.
    let place = RulePlace::After(path_of(&world, chains[1], Direction::Reverse));
    let mut after = rules(&world, 3).into_iter();
    let after = after.find(|rule| rule.matches.place == place).unwrap();
    assert_eq!(after.matches.destination, mapping.egress.source_prefix);
    // Both ways choose by what the function leaves alone, and say how its packets come back.
    let paths = &world.blueprint.ledger.paths;
    let hop = |direction, hop: usize| &paths[&path_of(&world, chains[0], direction)].hops[hop];
    let (forth, back) = (hop(Direction::Forward, 0), hop(Direction::Reverse, 1));
    use FlowField::{IpDst, IpSrc, TcpDst, TcpSrc, UdpDst, UdpSrc};
    let forward_fields = vec![IpDst, TcpSrc, TcpDst, UdpSrc, UdpDst];
    assert_eq!(forth.balance, Balance::Fields(forward_fields));
    assert_eq!(back.balance, Balance::Fields(vec![IpSrc, TcpDst, TcpSrc, UdpDst, UdpSrc]));
    let made = forth.rewrites.as_ref().unwrap();
    assert_eq!((&made.fields[..], &made.leaves), (&[TupleField::Source][..], &mapping.egress));
    let undone = back.rewrites.as_ref().unwrap();
    assert_eq!(undone.fields, [TupleField::Destination]);
    assert_eq!(undone.leaves.destination_prefix, mapping.ingress.source_prefix);
    assert_eq!(hop(Direction::Forward, 1).balance, Balance::Flow);
}

#[test]
fn a_one_way_chain_chooses_by_the_declared_fields_as_they_are() {
    let mut world = testbed();
    let [root, ..] = branching(&mut world);
    let function = world.intent.functions.get_mut(&FunctionId(id(5, 11))).unwrap();
    function.balance = vec![FlowField::IpSrc, FlowField::EthSrc];
    world.settle();
    let hops = |world: &World| world.blueprint.ledger.paths[&forward(world, root)].hops.clone();
    let declared = Balance::Fields(vec![FlowField::EthSrc, FlowField::IpSrc]);
    assert_eq!(hops(&world)[0].balance, declared);
    // A way back sees other MACs.
    make_symmetric(&mut world, &[root]);
    world.settle_with_acknowledgements();
    assert_eq!(hops(&world)[0].balance, Balance::Fields(vec![FlowField::IpSrc]));
}

#[test]
fn what_no_data_plane_could_carry_is_refused() {
    let mut world = testbed();
    branching(&mut world);
    graph(&mut world, &[(1, &[2]), (2, &[3]), (3, &[1])]);
    assert!(matches!(check(&world.intent), Err(PlanError::GraphLoop { .. })));
    graph(&mut world, &[(1, &[2])]);
    assert_eq!(check(&world.intent), Ok(()));
    // Two chains, each within the limit, and together not.
    let many = u32::try_from(CHAIN_FUNCTIONS_MAX / 2).unwrap();
    for (chain, machines) in [(1, 100..100 + many), (2, 150..150 + many)] {
        for machine in machines.clone() {
            world.machine(machine, 1, &[CUSTOMER, INTERNAL]);
            world.function(machine, machine, CUSTOMER, INTERNAL);
        }
        let functions = machines.map(|machine| FunctionId(id(5, machine))).collect();
        world.intent.chains.get_mut(&chain_id(chain)).unwrap().functions = functions;
    }
    let refused = check(&world.intent);
    assert!(matches!(refused, Err(PlanError::RouteTooLong { length: 63, .. })), "{refused:?}");
}

#[test]
fn answers_of_too_many_combinations_are_refused() {
    let mut world = testbed();
    let [root, left, _] = branching(&mut world);
    graph(&mut world, &[(1, &[2])]);
    make_symmetric(&mut world, &[root, left]);
    assert_eq!(check(&world.intent), Ok(()));
    let each = u32::try_from(CHAIN_ANSWER_RULES_MAX.isqrt()).unwrap() + 1;
    for (chain, own) in [(root, 1), (left, 2)] {
        let template = world.intent.rules[&RuleId(id(6, own))].clone();
        for number in 0..each {
            let mut rule = template.clone();
            rule.id = RuleId(id(6, 1_000 * own + number));
            rule.destination_ports = PortBounds::default();
            world.intent.chains.get_mut(&chain).unwrap().rules.push(rule.id);
            world.intent.rules.insert(rule.id, rule);
        }
    }
    let refused = check(&world.intent);
    assert!(matches!(refused, Err(PlanError::TooManyAnswers { .. })), "{refused:?}");
}
