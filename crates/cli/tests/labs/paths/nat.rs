//! A function that rewrites addresses, and says so by `ppg_n_tuple_mapping`: the kernel's own NAT in
//! a function's namespace, passed both ways.

use super::stage::{FORTH, Stage, V8, V9, V11, tell};
use crate::house::House;
use crate::node::Node;
use crate::traffic::{Family, address};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

/// A node that gives all it sends its own address; until this value ends.
struct Masquerade(Node);

impl Masquerade {
    fn begin(house: &House, node: &str) -> Self {
        let node = house.node(node);
        turn(&node, "on");
        Self(node)
    }
}

impl Drop for Masquerade {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            turn(&self.0, "off");
        }
    }
}

fn turn(node: &Node, word: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/tests/masquerade.py");
    node.run("python3", &[&script.display().to_string(), word]);
}

/// The address of v8, the NAT.
fn outside(family: Family) -> IpAddr {
    let text = if family == Family::V4 { "10.10.0.108" } else { "fd00:10::6c" };
    text.parse().expect("an address")
}

fn a_nat_between_functions(stage: &mut Stage<'_>) {
    let (inner, outer) = (address("S", stage.family), outside(stage.family));
    let mapping = json!({"ppg_n_tuple_mapping": {
        "ingress_n_tuple": {"source_ip_prefix": stage.prefix(inner)},
        "egress_n_tuple": {"source_ip_prefix": stage.prefix(outer)},
    }});
    let nat = Masquerade::begin(stage.house, "v8");
    let seen = stage.expect("before the chain", FORTH, &[]);
    assert_eq!(seen, BTreeSet::from([inner]));
    let middle = stage.group_with(&[stage.pair(V8)], &mapping);
    let groups = [stage.group(V11), middle, stage.group(V9)];
    let chain = stage.chain(&groups, &[stage.classifier(FORTH)]);
    let seen = stage.expect("through a NAT", FORTH, &[&["v11"], &["v8"], &["v9"]]);
    assert_eq!(seen, BTreeSet::from([outer]), "{:?} by {}", stage.family, stage.encapsulation);
    stage.delete_chain(&chain);
    drop(nat);
    let seen = stage.expect("after the chain", FORTH, &[]);
    assert_eq!(seen, BTreeSet::from([inner]));
}

#[test]
fn packets_pass_a_nat_and_their_answers_pass_it_back() {
    tell(true, a_nat_between_functions);
}
