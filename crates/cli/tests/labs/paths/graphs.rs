//! Service graphs over four hosts: chains that branch into others and join in one, made and removed
//! while the chains are in use.

use super::aware::Speaker;
use super::stage::{BESIDE, FORTH, Stage, V8, V9, V10, V11, tell};
use super::witness::{PORT, Way};
use crate::traffic::address;
use catena_client::Kind;
use serde_json::{Value, json};

/// A function that speaks, as both ends of a branch must.
fn speaker(stage: &Stage<'_>, at: super::stage::At) -> String {
    stage.group_of(&[stage.pair_with(at, &json!({"correlation": stage.encapsulation}))])
}

/// A chain for UDP on some ways, a destination port each.
fn later_chain(stage: &Stage<'_>, group: &str, ways: &[Way]) -> String {
    let classifier = |way: &Way| {
        let prefix = |end: &str| stage.prefix(address(end, stage.family));
        let mut fields = json!({
            "protocol": "udp",
            "destination_port_range_min": way.port, "destination_port_range_max": way.port,
            "logical_source_port": stage.port(way.from, "customer"),
            "source_ip_prefix": prefix(way.from), "destination_ip_prefix": prefix(way.to),
        });
        if stage.is_symmetric {
            fields["logical_destination_port"] = json!(stage.port(way.to, "customer"));
        }
        stage.classifier_with(fields)
    };
    let classifiers: Vec<String> = ways.iter().map(classifier).collect();
    stage.chain_with(&json!({
        "port_pair_groups": [group], "flow_classifiers": classifiers,
    }))
}

fn make_graph(stage: &Stage<'_>, branches: &Value, chains: &[&String]) -> String {
    let graph = stage.create(Kind::ServiceGraph, &json!({"port_chains": branches}));
    chains.iter().for_each(|chain| stage.house.wait_active(chain));
    super::stage::id_of(&graph)
}

fn delete_graph(stage: &Stage<'_>, graph: &str, chains: &[&String]) {
    let deleted = stage.house.client.delete(Kind::ServiceGraph, graph);
    deleted.unwrap_or_else(|error| panic!("{error}"));
    chains.iter().for_each(|chain| stage.house.wait_active(chain));
}

/// One chain goes on in either of two, by the destination port, or ends.
fn a_branch(stage: &mut Stage<'_>) {
    let speakers = ["v8", "v9", "v10"].map(|node| Speaker::start(stage.house, node));
    let [left_way, right_way, rest] = [PORT, PORT + 1, PORT + 2].map(|port| FORTH.with_port(port));
    let groups = [stage.group(V11), speaker(stage, V8)];
    let root = stage.chain(&groups, &[stage.classifier(FORTH)]);
    let left = later_chain(stage, &speaker(stage, V9), &[left_way]);
    let right = later_chain(stage, &speaker(stage, V10), &[right_way]);
    let chains = [&root, &left, &right];
    let apart = |stage: &mut Stage<'_>, when: &str| {
        stage.expect(&format!("left {when}"), left_way, &[&["v9"]]);
        stage.expect(&format!("right {when}"), right_way, &[&["v10"]]);
        stage.expect(&format!("the rest {when}"), rest, &[&["v11"], &["v8"]]);
    };
    apart(stage, "before the graph");
    let graph = make_graph(stage, &json!({&root: [&left, &right]}), &chains);
    stage.expect("left in the graph", left_way, &[&["v11"], &["v8"], &["v9"]]);
    stage.expect("right in the graph", right_way, &[&["v11"], &["v8"], &["v10"]]);
    stage.expect("the rest in the graph", rest, &[&["v11"], &["v8"]]);
    delete_graph(stage, &graph, &chains);
    apart(stage, "after the graph");
    drop(speakers);
}

/// Two chains go on in a common one.
fn a_join(stage: &mut Stage<'_>) {
    let speakers = ["v8", "v9", "v10"].map(|node| Speaker::start(stage.house, node));
    let one = stage.chain(&[speaker(stage, V8)], &[stage.classifier(FORTH)]);
    let other = stage.chain(&[stage.group(V11), speaker(stage, V10)], &[stage.classifier(BESIDE)]);
    let common = later_chain(stage, &speaker(stage, V9), &[FORTH, BESIDE]);
    let chains = [&one, &other, &common];
    let graph = make_graph(stage, &json!({&one: [&common], &other: [&common]}), &chains);
    stage.expect("one joins", FORTH, &[&["v8"], &["v9"]]);
    stage.expect("the other joins", BESIDE, &[&["v11"], &["v10"], &["v9"]]);
    delete_graph(stage, &graph, &chains);
    drop(speakers);
}

#[test]
fn a_chain_branches_into_others() {
    tell(false, a_branch);
}

#[test]
fn a_symmetric_chain_branches_into_others() {
    tell(true, a_branch);
}

#[test]
fn two_chains_join_in_a_common_one() {
    tell(false, a_join);
}

#[test]
fn two_symmetric_chains_join_in_a_common_one() {
    tell(true, a_join);
}
