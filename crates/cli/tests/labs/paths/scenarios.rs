//! The twenty path scenarios that tempest has for networking-sfc, its name above each test: no
//! function before, exactly the functions in order while the chain is there, none after.

use super::stage::{ASIDE, BESIDE, FORTH, Stage, V1, V4, V7, V8, V9, V10, V11, V13, V14, tell};
use super::witness::Way;
use catena_client::Kind;
use serde_json::json;

/// A chain's life: on its ways there is no function before it is made and none after it is gone.
fn life(stage: &mut Stage<'_>, ways: &[Way], story: impl Fn(&mut Stage<'_>) -> String) {
    for way in ways {
        stage.expect("before the chain", *way, &[]);
    }
    let chain = story(stage);
    stage.delete_chain(&chain);
    for way in ways {
        stage.expect("after the chain", *way, &[]);
    }
}

fn one_function(stage: &mut Stage<'_>) {
    life(stage, &[FORTH], |stage| {
        let chain = stage.chain(&[stage.group(V8)], &[stage.classifier(FORTH)]);
        stage.expect("one function", FORTH, &[&["v8"]]);
        chain
    });
}

/// create_port_chain
#[test]
fn a_chain_of_one_function_steers_through_it() {
    tell(false, one_function);
}

/// create_port_chain_symmetric
#[test]
fn a_symmetric_chain_of_one_function_steers_through_it_both_ways() {
    tell(true, one_function);
}

fn two_classifiers(stage: &mut Stage<'_>) {
    life(stage, &[FORTH, BESIDE], |stage| {
        let classifiers = [stage.classifier(FORTH), stage.classifier(BESIDE)];
        let groups = [stage.group(V9), stage.group(V8)];
        let chain = stage.chain(&groups, &classifiers);
        for way in [FORTH, BESIDE] {
            stage.expect("two classifiers", way, &[&["v9"], &["v8"]]);
        }
        chain
    });
}

/// multi_flow_classifiers
#[test]
fn every_classifier_of_a_chain_steers_into_it() {
    tell(false, two_classifiers);
}

/// multi_flow_classifiers_symmetric
#[test]
fn every_classifier_of_a_symmetric_chain_steers_into_it_both_ways() {
    tell(true, two_classifiers);
}

fn two_instances(stage: &mut Stage<'_>) {
    life(stage, &[FORTH], |stage| {
        let group = stage.group_of(&[stage.pair(V8), stage.pair(V10)]);
        let chain = stage.chain(&[group, stage.group(V9)], &[stage.classifier(FORTH)]);
        stage.expect("two instances", FORTH, &[&["v8", "v10"], &["v9"]]);
        chain
    });
}

/// multi_port_pairs
#[test]
fn each_flow_meets_one_instance_of_a_group() {
    tell(false, two_instances);
}

/// multi_port_pairs_symmetric
#[test]
fn each_flow_and_its_answers_meet_one_instance_of_a_group() {
    tell(true, two_instances);
}

/// multi_port_pair_groups
#[test]
fn the_functions_of_a_chain_are_met_in_order() {
    tell(false, |stage| {
        life(stage, &[FORTH], |stage| {
            let groups = [V1, V4, V7, V11, V8].map(|at| stage.group(at));
            let chain = stage.chain(&groups, &[stage.classifier(FORTH)]);
            let functions: &[&[&str]] = &[&["v1"], &["v4"], &["v7"], &["v11"], &["v8"]];
            stage.expect("five functions", FORTH, functions);
            chain
        });
    });
}

/// multi_port_pair_groups_symmetric
#[test]
fn the_functions_of_a_symmetric_chain_are_met_in_order_and_in_reverse() {
    tell(true, |stage| {
        life(stage, &[FORTH], |stage| {
            let groups = [V11, V13, V14, V10].map(|at| stage.group(at));
            let chain = stage.chain(&groups, &[stage.classifier(FORTH)]);
            stage.expect("four functions", FORTH, &[&["v11"], &["v13"], &["v14"], &["v10"]]);
            chain
        });
    });
}

/// create_multi_port_chain
#[test]
fn two_chains_that_share_functions_steer_side_by_side() {
    tell(false, |stage| {
        let [v8, v9, v10] = [V8, V9, V10].map(|at| stage.group(at));
        life(stage, &[FORTH, ASIDE], |stage| {
            let first = [v8.clone(), v9.clone()];
            let first = stage.chain(&first, &[stage.classifier(FORTH)]);
            let second = [v9.clone(), v10.clone(), v8.clone()];
            let second = stage.chain(&second, &[stage.classifier(ASIDE)]);
            stage.expect("the first chain", FORTH, &[&["v8"], &["v9"]]);
            stage.expect("the second chain", ASIDE, &[&["v9"], &["v10"], &["v8"]]);
            stage.delete_chain(&first);
            stage.expect("after the first chain", FORTH, &[]);
            stage.expect("the second chain alone", ASIDE, &[&["v9"], &["v10"], &["v8"]]);
            second
        });
    });
}

/// update_port_chain_add_flow_classifiers
#[test]
fn a_classifier_added_to_a_chain_steers_into_it() {
    tell(false, |stage| {
        life(stage, &[FORTH, BESIDE], |stage| {
            let [forth, beside] = [FORTH, BESIDE].map(|way| stage.classifier(way));
            let chain = stage.chain(&[stage.group(V8)], std::slice::from_ref(&forth));
            stage.expect("one classifier", FORTH, &[&["v8"]]);
            stage.expect("not yet", BESIDE, &[]);
            stage.set_classifiers(&chain, &[forth, beside]);
            stage.expect("still", FORTH, &[&["v8"]]);
            stage.expect("the added one", BESIDE, &[&["v8"]]);
            chain
        });
    });
}

/// update_port_chain_remove_flow_classifiers
#[test]
fn a_classifier_removed_from_a_chain_steers_no_more() {
    tell(false, |stage| {
        life(stage, &[FORTH, BESIDE], |stage| {
            let [forth, beside] = [FORTH, BESIDE].map(|way| stage.classifier(way));
            let chain = stage.chain(&[stage.group(V8)], &[forth.clone(), beside]);
            stage.expect("two classifiers", BESIDE, &[&["v8"]]);
            stage.set_classifiers(&chain, &[forth]);
            stage.expect("the one that stays", FORTH, &[&["v8"]]);
            stage.expect("the removed one", BESIDE, &[]);
            stage.set_classifiers(&chain, &[]);
            stage.expect("none left", FORTH, &[]);
            chain
        });
    });
}

/// update_port_chain_replace_flow_classifiers
#[test]
fn a_classifier_in_place_of_another_steers_alone() {
    tell(false, |stage| {
        life(stage, &[FORTH, BESIDE], |stage| {
            let [forth, beside] = [FORTH, BESIDE].map(|way| stage.classifier(way));
            let chain = stage.chain(&[stage.group(V8)], &[forth]);
            stage.expect("the first classifier", FORTH, &[&["v8"]]);
            stage.set_classifiers(&chain, &[beside]);
            stage.expect("the replaced one", FORTH, &[]);
            stage.expect("the one in its place", BESIDE, &[&["v8"]]);
            chain
        });
    });
}

/// A chain over the first instances, changed to the second ones.
fn changed(before: &[usize], after: &[usize]) {
    const FUNCTIONS: [&[&str]; 3] = [&["v8"], &["v9"], &["v10"]];
    tell(false, |stage| {
        life(stage, &[FORTH], |stage| {
            let groups = [V8, V9, V10].map(|at| stage.group(at));
            let chosen =
                |places: &[usize]| places.iter().map(|at| groups[*at].clone()).collect::<Vec<_>>();
            let named =
                |places: &[usize]| places.iter().map(|at| FUNCTIONS[*at]).collect::<Vec<_>>();
            let chain = stage.chain(&chosen(before), &[stage.classifier(FORTH)]);
            stage.expect("before the change", FORTH, &named(before));
            stage.set_groups(&chain, &chosen(after));
            stage.expect("after the change", FORTH, &named(after));
            chain
        });
    });
}

/// update_port_chain_add_port_pair_groups; ours honours a new order, too.
#[test]
fn a_function_added_to_a_chain_is_met_where_it_was_put() {
    changed(&[0, 1], &[2, 1, 0]);
}

/// update_port_chain_remove_port_pair_groups
#[test]
fn a_function_removed_from_a_chain_is_met_no_more() {
    changed(&[0, 1, 2], &[0, 2]);
}

/// update_port_chain_replace_port_pair_groups
#[test]
fn a_function_in_place_of_another_is_met_alone() {
    changed(&[0], &[1]);
}

/// update_port_chain_replace_flow_classifiers_port_pair_groups
#[test]
fn functions_and_classifiers_are_replaced_at_once() {
    tell(false, |stage| {
        life(stage, &[FORTH, BESIDE], |stage| {
            let [v8, v9] = [V8, V9].map(|at| stage.group(at));
            let [forth, beside] = [FORTH, BESIDE].map(|way| stage.classifier(way));
            let chain = stage.chain(&[v8], &[forth]);
            stage.expect("before the change", FORTH, &[&["v8"]]);
            let change = json!({"port_pair_groups": [v9], "flow_classifiers": [beside]});
            stage.update(Kind::PortChain, &chain, &change);
            stage.expect("the former way", FORTH, &[]);
            stage.expect("the new way", BESIDE, &[&["v9"]]);
            chain
        });
    });
}

/// A group of some instances, changed to others, in front of a function that stays.
fn regrouped(before: &[usize], after: &[usize]) {
    const INSTANCES: [&str; 2] = ["v8", "v10"];
    tell(false, |stage| {
        life(stage, &[FORTH], |stage| {
            let pairs = [V8, V10].map(|at| stage.pair(at));
            let chosen =
                |places: &[usize]| places.iter().map(|at| pairs[*at].clone()).collect::<Vec<_>>();
            let named =
                |places: &[usize]| places.iter().map(|at| INSTANCES[*at]).collect::<Vec<_>>();
            let group = stage.group_of(&chosen(before));
            let chain = stage.chain(&[group.clone(), stage.group(V9)], &[stage.classifier(FORTH)]);
            stage.expect("before the change", FORTH, &[&named(before), &["v9"]]);
            stage.set_pairs(&group, &chosen(after));
            stage.expect("after the change", FORTH, &[&named(after), &["v9"]]);
            chain
        });
    });
}

/// update_port_pair_group_add_port_pairs
#[test]
fn an_instance_added_to_a_group_shares_its_flows() {
    regrouped(&[0], &[0, 1]);
}

/// update_port_pair_group_remove_port_pairs
#[test]
fn an_instance_removed_from_a_group_is_met_no_more() {
    regrouped(&[0, 1], &[1]);
}

/// update_port_pair_group_replace_port_pairs
#[test]
fn an_instance_in_place_of_another_is_met_alone() {
    regrouped(&[0], &[1]);
}

/// multi_port_chains_update_port_pair_group_replace_port_pairs
#[test]
fn an_instance_replaced_in_a_shared_group_changes_every_chain_of_it() {
    tell(false, |stage| {
        let [v9, v11] = [V9, V11].map(|at| stage.group(at));
        life(stage, &[FORTH, ASIDE], |stage| {
            let pairs = [V8, V10].map(|at| stage.pair(at));
            let shared = stage.group_of(&pairs[..1]);
            let first = stage.chain(&[shared.clone(), v9.clone()], &[stage.classifier(FORTH)]);
            let second = stage.chain(&[v11.clone(), shared.clone()], &[stage.classifier(ASIDE)]);
            stage.expect("the first chain before", FORTH, &[&["v8"], &["v9"]]);
            stage.expect("the second chain before", ASIDE, &[&["v11"], &["v8"]]);
            stage.set_pairs(&shared, &pairs[1..]);
            stage.expect("the first chain after", FORTH, &[&["v10"], &["v9"]]);
            stage.expect("the second chain after", ASIDE, &[&["v11"], &["v10"]]);
            stage.delete_chain(&first);
            second
        });
    });
}
