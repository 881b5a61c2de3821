//! What the planner does step by step, and what it never does.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, id, node, port_id};
use crate::check::tests::check;
use crate::{Blueprint, IndexedIntent, Intent, PlanError, Table};
use catena_model::id::{ChainId, FunctionId, InstanceId};
use catena_model::limits::PATH_ID_QUARANTINE_BLUEPRINTS;
use catena_model::program::{Location, PortRole, RulePlace};
use catena_model::resource::{ChainGraph, Encapsulation};
use catena_model::status::ChainState;
use catena_model::{BlueprintNumber, PathId};

/// Source m1 on host1, destination m2 on host4; functions v11 (host1), v12 (host2), v13 (host3).
fn testbed() -> World {
    let mut world = World::new(4);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 4, &[CUSTOMER]);
    for (function, host) in [(11, 1), (12, 2), (13, 3)] {
        world.machine(function, host, &[CUSTOMER, INTERNAL]);
        world.function(function, function, CUSTOMER, INTERNAL);
    }
    world.settle();
    world
}

#[test]
fn a_path_is_known_everywhere_before_any_packet_is_sent_into_it() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    assert_eq!(world.plan(), 1);
    for host in [1, 2] {
        assert_eq!(world.known(host), [PathId(1)]);
        assert!(world.classified(host).is_empty());
    }
    assert!(world.known(3).is_empty(), "a node without part in the path does not learn it");
    world.acknowledge(1);
    assert_eq!(world.plan(), 0, "host2 has not acknowledged");
    assert_eq!(world.status(chain).state, ChainState::Building);
    assert!(world.status(chain).reason.contains("host2"), "{}", world.status(chain).reason);
    world.acknowledge(2);
    assert_eq!(world.plan(), 1);
    assert_eq!(world.classified(1), [PathId(1)]);
    assert_eq!(world.status(chain).state, ChainState::Building, "host1 has not turned yet");
    world.acknowledge(1);
    assert_eq!(world.plan(), 0);
    assert_eq!(world.status(chain).state, ChainState::Active);
    assert_eq!(world.status(chain).path, Some(PathId(1)));
}

#[test]
fn what_the_planner_is_about_to_do_needs_nothing_but_waiting() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    assert!(world.can_be_laid(chain), "no path of it has been planned yet");
    world.plan();
    world.acknowledge_all();
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Building);
    assert!(status.reason.contains("about to turn"), "{}", status.reason);
    assert!(world.can_be_laid(chain));
    world.inventory.nodes.get_mut(&node(2)).unwrap().bound.remove(&port_id(12, CUSTOMER));
    assert!(!world.can_be_laid(chain), "somebody must bring the port back");
    let gone = ChainId(id(6, 77));
    assert!(!world.can_be_laid(gone), "nobody declared it");
}

#[test]
fn a_changed_chain_gets_a_new_path_and_no_packet_is_left_without_one() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    world.intent.chains.get_mut(&chain).unwrap().functions.reverse();
    let before = world.history.len();
    world.settle();
    assert_eq!(world.status(chain).state, ChainState::Active);
    assert_eq!(world.status(chain).path, Some(PathId(2)));
    for blueprint in &world.history[before..] {
        let rules = &blueprint.program(&node(1)).unwrap().rules;
        assert_eq!(rules.len(), 1, "exactly one path is classified at any time");
        let paths = &blueprint.program(&node(1)).unwrap().paths;
        assert!(paths.iter().any(|path| path.id == rules[0].path));
    }
    assert_eq!(world.known(2), [PathId(1), PathId(2)], "the old path still drains");
    world.drain_all();
    world.settle();
    assert_eq!(world.known(2), [PathId(2)]);
}

#[test]
fn an_update_that_waits_for_a_node_leaves_the_old_path_in_use() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11]);
    world.settle();
    world.inventory.nodes.get_mut(&node(3)).unwrap().is_connected = false;
    world.intent.chains.get_mut(&chain).unwrap().functions =
        vec![FunctionId(id(5, 11)), FunctionId(id(5, 13))];
    world.plan();
    world.acknowledge(1);
    world.acknowledge(2);
    world.acknowledge(4);
    assert_eq!(world.plan(), 0);
    assert_eq!(world.classified(1), [PathId(1)]);
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Updating);
    assert!(status.reason.contains("'host3' is not connected"), "{}", status.reason);
    world.inventory.nodes.get_mut(&node(3)).unwrap().is_connected = true;
    world.acknowledge(3);
    world.settle();
    assert_eq!(world.classified(1), [PathId(2)]);
}

#[test]
fn a_path_identifier_rests_before_it_is_used_again() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11]);
    world.settle();
    let declared = world.intent.chains.remove(&chain).unwrap();
    world.settle();
    world.drain_all();
    world.settle();
    assert!(world.known(1).is_empty());
    let removed_in = world.blueprint.number.0;
    world.intent.chains.insert(chain, declared);
    world.settle();
    assert_eq!(world.status(chain).path, Some(PathId(2)), "1 is in quarantine");
    let mut reversed = true;
    while world.blueprint.number.0 <= removed_in + PATH_ID_QUARANTINE_BLUEPRINTS {
        world.intent.chains.get_mut(&chain).unwrap().functions =
            if reversed { vec![FunctionId(id(5, 12))] } else { vec![FunctionId(id(5, 11))] };
        reversed = !reversed;
        world.settle();
        world.drain_all();
        world.settle();
    }
    world.chain(9, 1, &[13]);
    world.settle();
    assert!(world.blueprint.ledger.paths.contains_key(&PathId(1)), "1 has rested");
}

#[test]
fn a_deleted_chain_loses_its_rules_first_and_its_path_when_drained() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    world.intent.chains.remove(&chain);
    world.plan();
    assert!(world.classified(1).is_empty());
    assert_eq!(world.known(2), [PathId(1)]);
    let withdrawn = |w: &World| crate::is_withdrawn(&w.blueprint, &w.inventory, chain);
    assert!(!withdrawn(&world));
    world.acknowledge(1);
    assert!(withdrawn(&world));
    world.drain_all();
    world.settle();
    assert!(world.known(2).is_empty());
}

#[test]
fn a_chain_that_loses_its_last_rule_takes_nothing_until_it_has_one_again() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    let rules = std::mem::take(&mut world.intent.chains.get_mut(&chain).unwrap().rules);
    world.plan();
    assert!(world.classified(1).is_empty());
    let withdrawn = |w: &World| crate::is_withdrawn(&w.blueprint, &w.inventory, chain);
    assert!(!withdrawn(&world), "host1 may still send into it");
    world.acknowledge(1);
    assert!(withdrawn(&world));
    let status = world.status(chain);
    assert!(status.reason.contains("no classification rule"), "{status:?}");
    world.drain_all();
    world.settle();
    assert!(world.known(2).is_empty());
    world.intent.chains.get_mut(&chain).unwrap().rules = rules;
    world.settle();
    assert_eq!(world.status(chain).state, ChainState::Active);
}

#[test]
fn an_unbound_port_is_named_and_nothing_is_programmed() {
    let mut world = testbed();
    world.inventory.nodes.get_mut(&node(2)).unwrap().bound.remove(&port_id(12, INTERNAL));
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    assert!(world.known(1).is_empty() && world.known(2).is_empty());
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Building);
    assert!(status.reason.contains("'m12@2' is not bound on node 'host2'"), "{}", status.reason);
    world.inventory.nodes.get_mut(&node(2)).unwrap().bound.insert(port_id(12, INTERNAL));
    world.settle();
    assert_eq!(world.status(chain).state, ChainState::Active, "the port appeared later");
}

#[test]
fn a_port_that_vanishes_degrades_the_chain_but_never_lets_packets_past_it() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    world.inventory.nodes.get_mut(&node(2)).unwrap().bound.clear();
    world.settle();
    assert_eq!(world.status(chain).state, ChainState::Degraded);
    assert_eq!(world.classified(1), [PathId(1)]);
}

#[test]
fn changed_rules_turn_the_classifier_and_keep_the_path() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    let rule = world.intent.chains[&chain].rules[0];
    let mut second = world.intent.rules[&rule].clone();
    second.id = id(6, 99).into();
    second.destination_ports.min = Some(9_000);
    second.destination_ports.max = None;
    world.intent.rules.insert(second.id, second.clone());
    world.intent.chains.get_mut(&chain).unwrap().rules.push(second.id);
    world.settle();
    assert_eq!(world.classified(1), [PathId(1), PathId(1)]);
    assert_eq!(world.status(chain).state, ChainState::Active);
}

#[test]
fn the_same_input_gives_the_same_blueprints_byte_for_byte() {
    let history = || {
        let mut world = testbed();
        world.chain(1, 1, &[11, 12, 13]);
        world.chain(2, 1, &[13, 11]);
        world.settle();
        let told = |blueprint: &Blueprint| {
            let names = blueprint.programs.keys();
            names.filter_map(|name| blueprint.program(name)).collect::<Vec<_>>()
        };
        serde_json::to_string(&world.history.iter().map(told).collect::<Vec<_>>()).unwrap()
    };
    assert_eq!(history(), history());
}

#[test]
fn a_restarted_planner_goes_on_with_the_same_paths() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    let number = world.blueprint.number;
    world.restart();
    assert_eq!(world.status(chain).state, ChainState::Active, "nodes still run it");
    world.settle();
    assert_eq!(world.blueprint.number, number, "nothing is to be told");
    assert_eq!(world.status(chain).path, Some(PathId(1)));
    assert_eq!(world.classified(1), [PathId(1)]);
}

#[test]
fn mpls_paths_stay_clear_of_special_purpose_labels() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11]);
    world.intent.chains.get_mut(&chain).unwrap().encapsulation = Encapsulation::Mpls;
    world.settle();
    assert_eq!(world.status(chain).path, Some(PathId(16)));
}

#[test]
fn a_program_knows_where_every_mac_of_its_networks_is() {
    let mut world = testbed();
    world.chain(1, 1, &[11]);
    world.settle();
    let program = &world.blueprint.program(&node(1)).unwrap();
    assert_eq!(program.networks.len(), 2);
    let customer = &program.networks[0];
    assert_eq!(customer.members, [node(2), node(3), node(4)]);
    assert_eq!(customer.gateways, ["10.10.0.254".parse::<std::net::IpAddr>().unwrap()]);
    let place = |port| {
        let mac = world.intent.ports[&port].mac;
        program.macs.iter().find(|entry| entry.mac == mac).map(|entry| entry.at.clone())
    };
    assert_eq!(place(port_id(1, CUSTOMER)), Some(Location::Port(port_id(1, CUSTOMER))));
    assert_eq!(place(port_id(2, CUSTOMER)), Some(Location::Node(node(4))));
    let roles: Vec<PortRole> = program.ports.iter().map(|port| port.role).collect();
    assert_eq!(roles, [PortRole::Endpoint, PortRole::Function, PortRole::Function]);
}

#[test]
fn a_function_with_two_egresses_for_one_ingress_is_refused_by_name() {
    let mut world = testbed();
    world.chain(1, 1, &[11]);
    let twin = InstanceId(id(4, 50));
    let mut instance = world.intent.instances[&InstanceId(id(4, 11))].clone();
    instance.id = twin;
    instance.egress = instance.ingress;
    instance.label.name = "twin".into();
    world.intent.instances.insert(twin, instance);
    let function = FunctionId(id(5, 12));
    world.intent.functions.get_mut(&function).unwrap().instances = vec![twin];
    assert_eq!(check(&world.intent), Ok(()), "no chain uses both");
    world.chain(2, 1, &[12]);
    let error = check(&world.intent).unwrap_err();
    assert!(matches!(error, PlanError::TwoEgresses { .. }));
    let text = error.to_string();
    assert!(text.contains("'twin'") && text.contains("'m11@1'"), "{text}");
}

#[test]
fn a_chain_that_leaves_one_port_twice_is_refused() {
    let mut world = testbed();
    world.function(60, 11, INTERNAL, INTERNAL);
    world.chain(1, 1, &[11, 60]);
    assert!(matches!(check(&world.intent), Err(PlanError::AmbiguousReturn { .. })));
}

#[test]
fn an_instance_that_speaks_another_encapsulation_is_refused() {
    let mut world = testbed();
    world.chain(1, 1, &[11]);
    let instance = world.intent.instances.get_mut(&InstanceId(id(4, 11))).unwrap();
    instance.speaks = Some(Encapsulation::Nsh);
    assert_eq!(check(&world.intent), Ok(()));
    world.intent.instances.get_mut(&InstanceId(id(4, 11))).unwrap().speaks =
        Some(Encapsulation::Mpls);
    let error = check(&world.intent).unwrap_err();
    assert!(error.to_string().contains("speaks mpls; carry the chain by mpls"), "{error}");
}

#[test]
fn an_instance_on_two_nodes_is_refused() {
    let mut world = testbed();
    world.intent.ports.get_mut(&port_id(11, INTERNAL)).unwrap().node = Some(node(2));
    world.chain(1, 1, &[11]);
    assert!(matches!(check(&world.intent), Err(PlanError::TornInstance { .. })));
}

#[test]
fn a_chain_over_a_function_that_does_not_exist_is_refused() {
    let mut world = testbed();
    world.chain(1, 1, &[77]);
    assert!(matches!(check(&world.intent), Err(PlanError::Missing { kind: "function", .. })));
}

#[test]
fn the_difference_of_programs_names_nodes_and_tables() {
    let mut world = testbed();
    let before = world.blueprint.clone();
    world.chain(1, 1, &[11, 12]);
    world.settle();
    let programs = &world.blueprint.programs;
    let nodes = programs.differences(&before.programs);
    assert_eq!(nodes.keys().cloned().collect::<Vec<_>>(), [node(1), node(2)]);
    let host1 = &nodes[&node(1)];
    assert_eq!(host1["paths"].added, 1);
    assert_eq!(host1["rules"].added, 1);
    assert!(!host1.contains_key("macs"));
    assert!(!nodes[&node(2)].contains_key("rules"));
    assert!(programs.differences(programs).is_empty());
}

#[test]
fn a_path_keeps_its_function_ports_until_it_is_drained() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    world.intent.chains.remove(&chain);
    world.settle();
    world.intent.functions.clear();
    world.intent.instances.clear();
    world.intent.ports.remove(&port_id(12, INTERNAL));
    world.settle();
    let roles = |world: &World| {
        let ports = &world.blueprint.program(&node(2)).unwrap().ports;
        ports.iter().map(|port| (port.id, port.role)).collect::<Vec<_>>()
    };
    let function = |network| (port_id(12, network), PortRole::Function);
    assert_eq!(roles(&world), [function(CUSTOMER), function(INTERNAL)]);
    world.drain_all();
    world.settle();
    assert_eq!(roles(&world), [(port_id(12, CUSTOMER), PortRole::Endpoint)]);
}

#[test]
fn a_node_that_lost_its_rule_holds_the_path_until_it_has_let_go() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[12]);
    world.chain(9, 2, &[12]);
    world.intent.chains.remove(&ChainId(id(7, 9)));
    let rules = [id(6, 1).into(), id(6, 9).into()];
    world.intent.chains.get_mut(&chain).unwrap().rules = rules.to_vec();
    world.settle();
    assert_eq!(world.classified(1), [PathId(1)]);
    assert_eq!(world.classified(4), [PathId(1)]);
    world.intent.chains.get_mut(&chain).unwrap().rules = vec![rules[0]];
    world.plan();
    for host in [1, 2, 3] {
        world.acknowledge(host);
    }
    assert_eq!(world.plan(), 0);
    assert_eq!(world.status(chain).state, ChainState::Updating, "host4 may still steer");
    assert!(world.status(chain).reason.contains("host4"));
    world.intent.chains.remove(&chain);
    world.plan();
    for host in [1, 2, 3] {
        world.acknowledge(host);
    }
    world.drain_all();
    world.plan();
    assert!(world.blueprint.ledger.paths.contains_key(&PathId(1)), "host4 may still send into it");
    world.settle_with_acknowledgements();
    assert!(world.blueprint.ledger.paths.is_empty());
}

#[test]
fn a_node_without_a_rule_any_more_forgets_the_path() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[12]);
    world.chain(9, 2, &[12]);
    world.intent.chains.remove(&ChainId(id(7, 9)));
    let rules = [id(6, 1).into(), id(6, 9).into()];
    world.intent.chains.get_mut(&chain).unwrap().rules = rules.to_vec();
    world.settle();
    world.intent.chains.get_mut(&chain).unwrap().rules = vec![rules[0]];
    world.settle();
    assert_eq!(world.status(chain).state, ChainState::Active);
    assert!(world.known(4).is_empty());
}

#[test]
fn a_chain_that_no_packet_could_take_is_not_active() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11]);
    let rule = world.intent.chains[&chain].rules[0];
    world.intent.rules.get_mut(&rule).unwrap().destination_port = Some(port_id(2, CUSTOMER));
    world.intent.ports.get_mut(&port_id(2, CUSTOMER)).unwrap().fixed_ips.clear();
    world.settle();
    assert_eq!(world.status(chain).state, ChainState::Building);
    assert!(world.status(chain).reason.contains("has no address"));
}

#[test]
fn a_pair_over_the_source_of_a_chain_changes_nothing_until_a_chain_wants_it() {
    let mut world = testbed();
    world.chain(1, 1, &[11]);
    world.settle();
    world.function(70, 1, CUSTOMER, CUSTOMER);
    world.settle();
    let ports = &world.blueprint.program(&node(1)).unwrap().ports;
    let source = ports.iter().find(|port| port.id == port_id(1, CUSTOMER)).unwrap();
    assert_eq!(source.role, PortRole::Endpoint);
    assert_eq!(check(&world.intent), Ok(()));
    world.chain(2, 2, &[70]);
    assert_eq!(check(&world.intent), Ok(()));
    world.settle();
    let program = &world.blueprint.program(&node(1)).unwrap();
    let source = program.ports.iter().find(|port| port.id == port_id(1, CUSTOMER)).unwrap();
    assert_eq!(source.role, PortRole::Function);
    let begins = RulePlace::Port(source.id);
    assert!(program.rules.iter().any(|rule| rule.matches.place == begins), "its own traffic");
}

#[test]
fn a_chain_that_begins_at_its_own_function_or_in_a_circle_of_chains_is_refused() {
    let judge = |world: &World| {
        let whole = check(&world.intent);
        let before = Intent { chains: Table::new(), graphs: Table::new(), ..world.intent.clone() };
        let mut written = IndexedIntent::from(before);
        world.intent.chains.values().for_each(|chain| written.put(chain.clone()));
        world.intent.graphs.values().for_each(|graph| written.put(graph.clone()));
        assert_eq!(written.check().is_ok(), whole.is_ok(), "{whole:?}");
        whole
    };
    let mut world = testbed();
    world.chain(1, 11, &[11]);
    let own = judge(&world).unwrap_err();
    assert!(matches!(own, PlanError::SourceIsFunction { .. }), "{own}");
    // Chain 1 begins at function 11 of chain 2, and chain 2 at function 12 of chain 1.
    world.chain(1, 11, &[12]);
    assert_eq!(judge(&world), Ok(()));
    world.chain(2, 1, &[11]);
    assert_eq!(judge(&world), Ok(()));
    world.chain(2, 12, &[11]);
    let circle = judge(&world).unwrap_err().to_string();
    assert!(circle.contains("'c1', 'c2'") || circle.contains("'c2', 'c1'"), "{circle}");
    // The same where packets come back by a graph: 1 begins at 11, and goes on over 11.
    world.chain(2, 1, &[11]);
    world.chain(3, 1, &[11]);
    let id = catena_model::id::GraphId(id(8, 1));
    let branches = [(ChainId(self::id(7, 1)), vec![ChainId(self::id(7, 3))])].into();
    let graph = ChainGraph { id, label: super::rig::label("g"), branches };
    world.intent.graphs.insert(id, graph);
    let circle = judge(&world).unwrap_err();
    assert!(matches!(circle, PlanError::SourceLoop { .. }), "{circle}");
}

#[test]
fn a_node_that_lost_its_program_degrades_the_chain() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    world.inventory.nodes.get_mut(&node(2)).unwrap().acknowledged = BlueprintNumber(0);
    assert_eq!(world.status(chain).state, ChainState::Degraded);
    assert!(world.status(chain).reason.contains("host2"));
}

#[test]
fn an_active_chain_names_a_node_that_is_away() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    world.inventory.nodes.get_mut(&node(2)).unwrap().is_connected = false;
    assert_eq!(world.status(chain).state, ChainState::Active);
    assert!(world.status(chain).reason.contains("'host2' is not connected"));
}

#[test]
fn a_late_word_about_a_drained_path_does_not_remove_its_successor() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11]);
    world.settle();
    world.inventory.drained.insert(PathId(1));
    world.intent.chains.remove(&chain);
    assert_eq!(world.plan(), 1);
    assert_eq!(world.known(1), [PathId(1)], "the classifier has not acknowledged the turn");
}

#[test]
fn another_chains_change_does_not_put_an_active_chain_in_doubt() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    world.chain(2, 1, &[12]);
    assert_eq!(world.plan(), 1);
    assert_eq!(world.status(chain).state, ChainState::Active, "{}", world.status(chain).reason);
}

#[test]
fn an_identifier_is_not_used_again_while_a_node_that_is_away_knows_its_path() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[12]);
    world.settle();
    let settle_without_host2 = |world: &mut World| {
        for _ in 0..6 {
            world.plan();
            [1, 3, 4].into_iter().for_each(|host| world.acknowledge(host));
            world.drain_all();
        }
    };
    // Host 2 hears that the path is superseded, and then nothing any more.
    world.intent.chains.remove(&chain);
    world.settle();
    settle_without_host2(&mut world);
    assert!(world.blueprint.ledger.paths.is_empty(), "the path is removed");
    for turn in 0..2 * u32::try_from(PATH_ID_QUARANTINE_BLUEPRINTS).unwrap() {
        let (chain, function) = (2 + turn % 2, [11, 13][turn as usize % 2]);
        world.intent.chains.clear();
        world.chain(chain, 1, &[function]);
        settle_without_host2(&mut world);
        assert!(!world.blueprint.ledger.paths.contains_key(&PathId(1)), "host2 knows another 1");
    }
    world.acknowledge(2);
    world.intent.chains.clear();
    world.chain(4, 1, &[11]);
    world.settle();
    assert!(world.blueprint.ledger.paths.contains_key(&PathId(1)), "nobody knows it any more");
}

#[test]
fn all_ports_of_a_functions_machine_are_guarded_while_a_path_goes_through_it() {
    let mut world = testbed();
    // Another machine's port is told to belong to v12's, and one of somebody else's that has its name.
    world.machine(14, 2, &[CUSTOMER]);
    world.machine(15, 2, &[CUSTOMER]);
    for (machine, project) in [(14, "p"), (15, "q")] {
        let port = world.intent.ports.get_mut(&port_id(machine, CUSTOMER)).unwrap();
        port.device_id = "m12".into();
        port.label.project = catena_model::ProjectId(project.into());
    }
    world.settle();
    let guards = |world: &World| -> Vec<Option<usize>> {
        let program = &world.blueprint.program(&node(2)).unwrap();
        let of = |machine, network| {
            let entry = program.ports.iter().find(|entry| entry.id == port_id(machine, network));
            entry.unwrap().own_sources.as_ref().map(Vec::len)
        };
        vec![of(12, CUSTOMER), of(12, INTERNAL), of(14, CUSTOMER), of(15, CUSTOMER)]
    };
    assert_eq!(guards(&world), [None; 4], "no path goes through it");
    world.chain(1, 1, &[11, 12]);
    world.settle();
    assert_eq!(guards(&world), [Some(3), Some(3), Some(3), None]);
    let port = world.intent.ports.get_mut(&port_id(14, CUSTOMER)).unwrap();
    port.own_traffic = catena_model::resource::OwnTraffic::All;
    world.settle();
    assert_eq!(guards(&world), [Some(3), Some(3), None, None], "the operator vouches for it");
}
