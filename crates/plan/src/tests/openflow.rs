//! What planned programs are in OpenFlow: what is said of edges, and what of the rest is named.
#![allow(clippy::unwrap_used)]

use super::fabric::switch;
use super::rig::{CUSTOMER, INTERNAL, World, id, node, port_id};
use super::source_routes::{carry, world};
use catena_model::NodeName;
use catena_model::id::RuleId;
use catena_model::openflow::{OpenFlowRules, TABLE_ORDINARY, TABLE_SOURCE, TABLE_UNSAID};
use catena_model::resource::{Encapsulation, IpFamily};
use catena_model::setup::Setup;
use std::collections::{BTreeMap, BTreeSet};

fn export(world: &World, node: &NodeName) -> OpenFlowRules {
    crate::node_openflow(&world.blueprint, &world.inventory, node).unwrap()
}

/// Ports are called by their numbers in the order of names.
fn text(rules: &OpenFlowRules) -> String {
    let ports = rules.rules.iter().flat_map(|rule| rule.from.iter().chain(&rule.to));
    let names: BTreeSet<&str> = ports.map(|port| port.name.as_str()).collect();
    let called = (1..).zip(names).map(|(number, name)| (name.to_owned(), u32::to_string(&number)));
    rules.text(&called.collect::<BTreeMap<_, _>>()).unwrap()
}

fn whats(rules: &OpenFlowRules) -> Vec<&str> {
    rules.unsaid.iter().map(|unsaid| unsaid.what.as_str()).collect()
}

#[test]
fn a_node_that_only_begins_chains_is_said_whole() {
    let (mut world, fabric) = world();
    for (number, by) in
        [(1, Encapsulation::SourceRouteSafe9), (2, Encapsulation::SourceRouteClassic80)]
    {
        let chain = world.chain(number, 1, &[12, 13]);
        carry(&mut world, chain, by);
    }
    fabric.settle(&mut world);
    let rules = export(&world, &node(1));
    // The function of the node is on no path.
    assert_eq!(rules.unsaid, []);
    let written: Vec<_> = rules.rules.iter().filter(|rule| rule.to.is_some()).collect();
    assert_eq!(written.len(), 2, "{written:?}");
    for rule in &written {
        assert_eq!(rule.then, Some(TABLE_SOURCE));
        assert_eq!(rule.from.as_ref().unwrap().name, "m1@1");
    }
    let text = text(&rules);
    let header = "actions=push_mpls:0x8847,set_field:";
    assert_eq!(text.matches(header).count(), 2, "{text}");
    assert!(text.contains(&format!("goto_table:{TABLE_ORDINARY}")), "{text}");
    // Each rule before those behind it, and each guard before all.
    let order: Vec<_> = rules.rules.iter().map(|rule| (rule.table, rule.priority)).collect();
    assert!(order.is_sorted_by(|a, b| a.0 < b.0 || (a.0 == b.0 && a.1 >= b.1)), "{order:?}");
}

/// Names are people's own, and nobody's packets go by another's port for having its name.
#[test]
fn ports_of_one_name_are_told_by_their_identities() {
    let (mut world, fabric) = world();
    let chain = world.chain(1, 1, &[12]);
    carry(&mut world, chain, Encapsulation::SourceRouteSafe9);
    let (source, other) = (port_id(1, CUSTOMER), port_id(11, CUSTOMER));
    let name = world.intent.ports[&source].label.name.clone();
    world.intent.ports.get_mut(&other).unwrap().label.name = name;
    fabric.settle(&mut world);
    let rules = export(&world, &node(1));
    let from: BTreeSet<&str> =
        rules.rules.iter().flat_map(|rule| &rule.from).map(|port| port.name.as_str()).collect();
    let [source, other] = [source, other].map(|port| port.to_string());
    assert!(from.contains(source.as_str()) && from.contains(other.as_str()), "{from:?}");
    assert!(!from.contains("m1@1"), "{from:?}");
}

#[test]
fn what_a_node_gives_its_functions_is_said_where_its_packets_are_of_one_kind() {
    let (mut world, fabric) = world();
    let chain = world.chain(1, 1, &[12]);
    carry(&mut world, chain, Encapsulation::SourceRouteSafe9);
    fabric.settle(&mut world);
    let rules = export(&world, &node(2));
    assert_eq!(whats(&rules), ["what port 'm12@2' gives back"]);
    let ends: Vec<_> = rules.rules.iter().filter(|rule| rule.to.is_some()).collect();
    assert!(ends.iter().all(|rule| rule.actions[1] == "pop_mpls:0x0800"), "{ends:?}");
    let mac = world.intent.ports[&port_id(12, CUSTOMER)].mac;
    assert!(ends.iter().all(|rule| rule.actions[2] == format!("set_field:{mac}->eth_dst")));
    assert!(ends.iter().all(|rule| rule.to.as_ref().unwrap().name == "m12@1"));
    // What the function gives back goes to a table of its own.
    let back = rules.rules.iter().find(|rule| {
        rule.matches.is_empty() && rule.from.as_ref().is_some_and(|port| port.name == "m12@2")
    });
    assert_eq!(back.unwrap().then, Some(TABLE_UNSAID));
    // A second rule, of the other family: nothing under a label says of which a packet is.
    let rule = RuleId(id(6, 1));
    let other = catena_model::resource::ClassificationRule {
        id: RuleId(id(6, 9)),
        family: IpFamily::Ipv6,
        ..world.intent.rules[&rule].clone()
    };
    world.intent.rules.insert(other.id, other.clone());
    world.intent.chains.get_mut(&chain).unwrap().rules.push(other.id);
    fabric.settle(&mut world);
    let rules = export(&world, &node(2));
    assert_eq!(rules.unsaid.len(), 2, "{:?}", rules.unsaid);
    let why = &rules.unsaid[0].why;
    assert!(why.contains("IPv4 and IPv6") && whats(&rules)[0].contains("'i12'"), "{why}");
    assert!(!text(&rules).contains("pop_mpls"));
}

#[test]
fn what_openflow_cannot_say_is_named_by_rule_path_and_chain() {
    let (mut world, fabric) = world();
    for (number, by) in (1..).zip(Encapsulation::ALL) {
        let chain = world.chain(number, 1, &[12]);
        carry(&mut world, chain, by);
    }
    // Its first function is here, one has two instances, and one asks for each flow.
    let here = world.chain(11, 1, &[11, 12]);
    world.function(21, 12, CUSTOMER, INTERNAL);
    let second = world.intent.functions[&catena_model::id::FunctionId(id(5, 13))].instances[0];
    let of = catena_model::id::FunctionId(id(5, 21));
    world.intent.functions.get_mut(&of).unwrap().instances.push(second);
    let two = world.chain(12, 1, &[21]);
    let asks = world.chain(13, 1, &[12]);
    for chain in [here, two, asks] {
        carry(&mut world, chain, Encapsulation::SourceRouteSafe9);
    }
    world.intent.chains.get_mut(&asks).unwrap().setup = Setup::Reactive;
    fabric.settle(&mut world);
    let rules = export(&world, &node(1));
    let told: Vec<String> =
        rules.unsaid.iter().map(|unsaid| format!("{}: {}", unsaid.what, unsaid.why)).collect();
    for (chain, why) in [
        ("c1", "NSH travels in UDP"),
        ("c2", "MPLS travels in UDP"),
        ("c3", "source-route/native is a header of its own"),
        ("c6", "push_mpls puts labels behind its addresses"),
        ("c7", "source-route/polka is a header of its own"),
        ("c11", "'v11' is on this node"),
        ("c12", "'v21' has several instances"),
        ("c13", "its flows are asked of the controller"),
    ] {
        let chain = format!("of chain '{chain}'");
        let is_it = |line: &&String| line.contains(&chain) && line.contains(why);
        assert_eq!(told.iter().filter(is_it).count(), 1, "{chain} {why}: {told:#?}");
    }
    let said = ["'c4'", "'c5'"];
    assert!(told.iter().all(|line| said.iter().all(|chain| !line.contains(chain))), "{told:#?}");
    // What is not said takes its packets to where they end, before rules that come behind.
    let of_c1 = |rule: &&catena_model::openflow::OpenFlowRule| {
        rule.purpose.contains("'c1'") && rule.matches.iter().any(|word| word == "tp_dst=5001")
    };
    let unsaid: Vec<_> = rules.rules.iter().filter(of_c1).collect();
    assert!(!unsaid.is_empty());
    let ends = |rule: &&&catena_model::openflow::OpenFlowRule| {
        rule.then == Some(TABLE_UNSAID) || (rule.then.is_none() && rule.actions.is_empty())
    };
    assert_eq!(unsaid.iter().filter(ends).count(), unsaid.len(), "{unsaid:?}");
    let switch = export(&world, &switch(1));
    assert_eq!((whats(&switch), switch.rules.len()), (vec!["frames that only pass (transit)"], 0));
}
