//! Slices that are refused: for where they begin, and for where they lead.
#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, id, label, port_id};
use super::slices::{slice_id, world};
use crate::check::tests::check;
use crate::{IndexedIntent, Intent, PlanError, Table};
use catena_model::id::{ChainId, FunctionId, GraphId, RuleId};
use catena_model::limits::CHAIN_FUNCTIONS_MAX;
use catena_model::resource::ChainGraph;

/// What is said of the whole; slices, and chains with slices, are judged alike as they are written.
fn judge(world: &World) -> Result<(), PlanError> {
    let whole = check(&world.intent);
    let slices = || world.intent.slices.values();
    let unsliced = Intent { slices: Table::new(), ..world.intent.clone() };
    let mut declared = IndexedIntent::from(unsliced.clone());
    let asked = slices().try_for_each(|slice| {
        declared.check_slice(slice)?;
        declared.put(slice.clone());
        declared.check()
    });
    let mut written = IndexedIntent::from(Intent { chains: Table::new(), ..unsliced });
    slices().for_each(|slice| written.put(slice.clone()));
    world.intent.chains.values().for_each(|chain| written.put(chain.clone()));
    assert_eq!(asked, whole);
    assert_eq!(written.check().is_ok(), whole.is_ok(), "{whole:?}");
    whole
}

/// Chain 1 in the customer's network and chain 2 in the internal one.
fn two_networks() -> (World, ChainId, ChainId) {
    let mut world = World::new(1);
    world.machine(1, 1, &[CUSTOMER, INTERNAL]);
    world.machine(2, 1, &[CUSTOMER, INTERNAL]);
    world.function(1, 2, CUSTOMER, INTERNAL);
    let first = world.chain(1, 1, &[1]);
    let second = world.chain(2, 1, &[1]);
    let rule = world.intent.rules.get_mut(&RuleId(id(6, 2))).unwrap();
    rule.source_port = Some(port_id(1, INTERNAL));
    (world, first, second)
}

#[test]
fn a_slice_begins_in_the_network_in_which_its_chain_delivers() {
    let (mut world, first, second) = two_networks();
    world.begin(1, first, Some(port_id(1, CUSTOMER)), None);
    world.begin(2, second, Some(port_id(1, INTERNAL)), None);
    world.slice(3, first, None);
    assert_eq!(judge(&world), Ok(()));
    world.begin(4, first, Some(port_id(1, INTERNAL)), None);
    let refused = judge(&world).unwrap_err().to_string();
    for word in ["slice 's4'", "begins in network 'internal'", "chain 'c1'", "network 'customer'"] {
        assert!(refused.contains(word), "{word}: {refused}");
    }
    world.slice_after(4, second, first);
    let refused = judge(&world).unwrap_err().to_string();
    assert!(refused.contains("begins in network 'customer'"), "{refused}");
    world.slice_after(4, first, second);
    assert!(judge(&world).is_err());
}

#[test]
fn of_a_chain_without_rules_the_last_function_says_where_slices_begin() {
    let (mut world, first, _) = two_networks();
    world.intent.chains.get_mut(&first).unwrap().rules.clear();
    world.begin(1, first, Some(port_id(1, INTERNAL)), None);
    assert_eq!(judge(&world), Ok(()));
    world.begin(1, first, Some(port_id(1, CUSTOMER)), None);
    assert!(judge(&world).unwrap_err().to_string().contains("its chain 'c1' delivers into"));
}

#[test]
fn a_chain_does_not_leave_the_network_of_its_slices() {
    let (mut world, first, second) = two_networks();
    world.begin(1, first, Some(port_id(1, CUSTOMER)), None);
    let mut declared = IndexedIntent::from(world.intent);
    let chain = declared.intent().chains[&first].clone();
    let rules = declared.intent().chains[&second].rules.clone();
    let moved = catena_model::resource::Chain { rules, ..chain };
    let mut draft = declared.clone();
    draft.put(moved.clone());
    let refused = draft.check().unwrap_err();
    assert_eq!(Err(refused.clone()), check(draft.intent()));
    assert!(refused.to_string().contains("slice 's1'"), "{refused}");
    // Together with its slice it does.
    let mut slice = declared.intent().slices[&slice_id(1)].clone();
    slice.source_port = Some(port_id(1, INTERNAL));
    declared.put(moved);
    declared.put(slice);
    assert_eq!(declared.check(), Ok(()));
    assert_eq!(declared, IndexedIntent::from(declared.intent().clone()));
}

#[test]
fn slices_that_lead_in_a_circle_or_too_far_are_refused() {
    let (mut world, first, second) = world();
    let verdict = |world: &World| check(&world.intent);
    world.slice_after(1, second, first);
    assert_eq!(verdict(&world), Ok(()));
    world.slice_after(2, first, second);
    assert!(matches!(verdict(&world), Err(PlanError::SliceLoop { .. })));
    world.slice_after(2, first, first);
    assert!(matches!(verdict(&world), Err(PlanError::SliceLoop { .. })), "in itself");
    world.slice_after(2, first, ChainId(id(7, 99)));
    assert!(matches!(verdict(&world), Err(PlanError::SliceMissing { .. })));
    world.begin(2, first, Some(port_id(1, CUSTOMER)), Some(second));
    assert!(matches!(verdict(&world), Err(PlanError::BadSlice { .. })), "one place of the two");
    world.intent.slices.remove(&slice_id(2));
    let graph = ChainGraph {
        id: GraphId(id(8, 1)),
        label: label("g"),
        branches: [(second, vec![first])].into(),
    };
    world.intent.graphs.insert(graph.id, graph);
    assert!(matches!(verdict(&world), Err(PlanError::SliceLoop { .. })), "closed by a graph");
    world.intent.graphs.clear();
    // Two chains, each within the limit, and together not.
    let many = u32::try_from(CHAIN_FUNCTIONS_MAX / 2).unwrap();
    for (chain, machines) in [(first, 100..100 + many), (second, 150..150 + many)] {
        for machine in machines.clone() {
            world.machine(machine, 1, &[CUSTOMER]);
            world.function(machine, machine, CUSTOMER, CUSTOMER);
        }
        let functions = machines.map(|machine| FunctionId(id(5, machine))).collect();
        world.intent.chains.get_mut(&chain).unwrap().functions = functions;
    }
    let refused = verdict(&world);
    assert!(matches!(refused, Err(PlanError::SliceRouteTooLong { length: 63, .. })), "{refused:?}");
}

#[test]
fn a_circle_that_slices_close_through_a_functions_own_port_is_refused() {
    let (mut world, first, second) = world();
    // The first chain begins at the function of the second.
    let rule = world.intent.chains[&first].rules[0];
    world.intent.rules.get_mut(&rule).unwrap().source_port = Some(port_id(4, CUSTOMER));
    world.intent.chains.get_mut(&first).unwrap().functions.truncate(1);
    world.slice(1, second, Some(2));
    assert_eq!(judge(&world), Ok(()));
    world.slice_after(2, second, first);
    let refused = judge(&world).unwrap_err();
    let more = [world.intent.slices.remove(&slice_id(2)).unwrap()];
    let by_hand = IndexedIntent::from(world.intent).check_more_slices(&more);
    assert_eq!(by_hand, Err(refused.clone()));
    let refused = refused.to_string();
    for word in ["chain 'c1' starts at port 'm4@1'", "function of chain 'c2'", "slices"] {
        assert!(refused.contains(word), "{word}: {refused}");
    }
}

#[test]
fn a_slice_put_in_by_hand_begins_where_a_declared_one_may() {
    let (mut world, first, second) = two_networks();
    world.slice_after(1, first, second);
    let more = [world.intent.slices.remove(&slice_id(1)).unwrap()];
    let by_hand = IndexedIntent::from(world.intent).check_more_slices(&more);
    assert!(matches!(by_hand, Err(PlanError::BadSlice { .. })), "{by_hand:?}");
}
