//! Chains of two networks over one function: carried only where addresses tell them apart.
#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, id, port_id};
use crate::check::tests::check;
use crate::{IndexedIntent, Intent, PlanError};
use catena_model::id::{ChainId, FunctionId, InstanceId, NetworkId, RuleId, SubnetId};
use catena_model::resource::{Encapsulation, ServiceFunction, Subnet};

/// Chain 1 in the customer's network and chain 2 in the internal one, both over function 1.
fn two_networks() -> Intent {
    let mut world = World::new(1);
    world.machine(1, 1, &[CUSTOMER, INTERNAL]);
    world.machine(2, 1, &[CUSTOMER, INTERNAL]);
    world.machine(3, 1, &[CUSTOMER, INTERNAL]);
    world.function(1, 2, CUSTOMER, INTERNAL);
    world.function(2, 3, CUSTOMER, INTERNAL);
    world.chain(1, 1, &[1]);
    world.chain(2, 1, &[1]);
    let rule = world.intent.rules.get_mut(&RuleId(id(6, 2))).unwrap();
    rule.source_port = Some(port_id(1, INTERNAL));
    world.intent
}

fn subnet(network: u32, cidr: &str) -> Subnet {
    let number = SubnetId(id(2, 9));
    Subnet {
        id: number,
        label: super::rig::label(""),
        network: NetworkId(id(1, network)),
        cidr: cidr.parse().unwrap(),
        gateway: None,
    }
}

fn assert_refused(intent: &Intent) -> String {
    let refused = check(intent).unwrap_err();
    assert!(matches!(refused, PlanError::NetworksMeet { .. }), "{refused}");
    refused.to_string()
}

#[test]
fn networks_with_subnets_of_their_own_share_a_function() {
    assert_eq!(check(&two_networks()), Ok(()));
}

#[test]
fn networks_whose_subnets_overlap_share_none_and_no_name_of_the_other_is_told() {
    let mut intent = two_networks();
    let more = subnet(INTERNAL, "10.10.0.128/25");
    intent.subnets.insert(more.id, more);
    let refused = assert_refused(&intent);
    assert!(refused.contains("chain 'c2'") && refused.contains("subnets of the two overlap"));
    assert!(!refused.contains("c1") && !refused.contains("customer'"), "{refused}");
    let chain = intent.chains.get_mut(&ChainId(id(7, 2))).unwrap();
    chain.functions = vec![FunctionId(id(5, 2))];
    assert_eq!(check(&intent), Ok(()), "a function of its own");
}

#[test]
fn networks_of_unknown_addresses_share_no_function() {
    let mut intent = two_networks();
    intent.subnets.remove(&SubnetId(id(2, INTERNAL)));
    assert!(assert_refused(&intent).contains("no subnet"));
}

#[test]
fn behind_a_function_that_changes_sources_networks_share_none() {
    let masquerade = Some("192.0.2.1/32".parse().unwrap());
    let mut intent = two_networks();
    let shared = intent.functions.get_mut(&FunctionId(id(5, 1))).unwrap();
    shared.mapping.egress.source_prefix = masquerade;
    assert!(assert_refused(&intent).contains("changes source addresses"));
    shared_after(&mut intent, masquerade);
    assert!(assert_refused(&intent).contains("changes source addresses"));
}

/// Function 2 changes sources, and chain 1 passes it before the shared one.
fn shared_after(intent: &mut Intent, masquerade: Option<ipnet::IpNet>) {
    let shared = intent.functions.get_mut(&FunctionId(id(5, 1))).unwrap();
    shared.mapping.egress.source_prefix = None;
    let first = intent.functions.get_mut(&FunctionId(id(5, 2))).unwrap();
    first.mapping.egress.source_prefix = masquerade;
    let chain = intent.chains.get_mut(&ChainId(id(7, 1))).unwrap();
    chain.functions.insert(0, FunctionId(id(5, 2)));
}

#[test]
fn functions_that_read_headers_and_taps_take_any_networks() {
    let mut intent = two_networks();
    intent.subnets = Default::default();
    assert_refused(&intent);
    let mut aware = intent.clone();
    aware.instances.get_mut(&InstanceId(id(4, 1))).unwrap().speaks = Some(Encapsulation::Nsh);
    assert_eq!(check(&aware), Ok(()));
    intent.functions.get_mut(&FunctionId(id(5, 1))).unwrap().is_tap = true;
    assert_eq!(check(&intent), Ok(()));
}

#[test]
fn a_subnet_that_would_make_networks_meet_is_refused_where_it_is_written() {
    let mut declared = IndexedIntent::from(two_networks());
    let mut draft = declared.clone();
    draft.put(subnet(INTERNAL, "10.10.0.0/16"));
    let refused = draft.check().unwrap_err();
    assert!(matches!(refused, PlanError::NetworksMeet { .. }), "{refused}");
    declared.put(subnet(INTERNAL, "10.30.0.0/16"));
    assert_eq!(declared.check(), Ok(()));
    assert!(declared.remove::<Subnet>(SubnetId(id(2, 9))));
    assert_eq!(declared.check(), Ok(()));
    assert!(declared.remove::<Subnet>(SubnetId(id(2, INTERNAL))));
    assert!(declared.check().is_err(), "nothing tells its addresses any more");
}

/// The same with subnets of the one that tell nothing, and equal ones: no address tells them apart.
fn alike() -> [Intent; 2] {
    let (mut unknown, mut equal) = (two_networks(), two_networks());
    unknown.subnets.clear();
    let more = subnet(INTERNAL, "10.10.0.0/24");
    equal.subnets.insert(more.id, more);
    [unknown, equal]
}

fn declare(intent: &mut Intent, function: u32) {
    intent.functions.get_mut(&FunctionId(id(5, function))).unwrap().keeps_mac = true;
}

#[test]
fn any_networks_share_a_function_that_keeps_macs() {
    for mut intent in alike() {
        let refused = assert_refused(&intent);
        assert!(refused.contains("does not declare that it keeps MAC addresses"), "{refused}");
        declare(&mut intent, 1);
        assert_eq!(check(&intent), Ok(()));
        // Whatever it does to sources.
        let shared = intent.functions.get_mut(&FunctionId(id(5, 1))).unwrap();
        shared.mapping.egress.source_prefix = Some("192.0.2.1/32".parse().unwrap());
        assert_eq!(check(&intent), Ok(()));
    }
}

#[test]
fn a_port_that_two_functions_send_from_tells_by_mac_only_if_both_keep_it() {
    for mut intent in alike() {
        // The second function's instance sends from the port of the first.
        let egress = intent.instances[&InstanceId(id(4, 1))].egress;
        intent.instances.get_mut(&InstanceId(id(4, 2))).unwrap().egress = egress;
        let chain = intent.chains.get_mut(&ChainId(id(7, 2))).unwrap();
        chain.functions = vec![FunctionId(id(5, 2))];
        declare(&mut intent, 1);
        let meets = |intent: &Intent| matches!(check(intent), Err(PlanError::NetworksMeet { .. }));
        assert!(meets(&intent), "{:?}", check(&intent));
        let mut declared = intent.clone();
        declare(&mut declared, 2);
        assert!(!meets(&declared), "{:?}", check(&declared));
    }
}

#[test]
fn a_declaration_that_networks_hang_on_is_not_taken_back() {
    let [mut intent, _] = alike();
    declare(&mut intent, 1);
    let mut declared = IndexedIntent::from(intent);
    assert_eq!(declared.check(), Ok(()));
    let mut draft = declared.clone();
    let function = draft.intent().functions[&FunctionId(id(5, 1))].clone();
    draft.put(ServiceFunction { keeps_mac: false, ..function });
    let refused = draft.check().unwrap_err();
    assert!(matches!(refused, PlanError::NetworksMeet { .. }), "{refused}");
}

#[test]
fn the_nodes_are_told_which_functions_keep_macs_and_no_tap_is_among_them() {
    let mut world = World::new(1);
    for machine in 1..=3 {
        world.machine(machine, 1, &[CUSTOMER]);
        world.function(machine, machine, CUSTOMER, CUSTOMER);
    }
    world.machine(4, 1, &[CUSTOMER]);
    world.chain(1, 4, &[1, 2, 3]);
    declare(&mut world.intent, 2);
    declare(&mut world.intent, 3);
    world.intent.functions.get_mut(&FunctionId(id(5, 3))).unwrap().is_tap = true;
    world.settle();
    let paths = &world.blueprint.program(&super::rig::node(1)).unwrap().paths;
    let keeps: Vec<bool> = paths[0].hops.iter().map(|hop| hop.keeps_mac).collect();
    assert_eq!(keeps, [false, true, false]);
}
