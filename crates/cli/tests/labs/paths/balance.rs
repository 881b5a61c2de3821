//! `lb_fields`: which instance of a group a flow meets is chosen by the named fields and by nothing
//! else, the same both ways of a symmetric chain.

use super::stage::{BESIDE, FORTH, Stage, V8, V10, tell};
use super::witness::{PORT, Way};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const FLOWS: u32 = 100;
/// Of as many fair choices, a share outside comes once in a million.
const FAIR_FLOWS: std::ops::RangeInclusive<u64> = 25..=75;
/// Destination ports of the test of them.
const PORTS: u16 = 24;

/// Runs these ways through two instances that are chosen by some fields.
fn balanced(stage: &mut Stage<'_>, fields: &[&str], ways: &[Way]) {
    let pairs = [V8, V10].map(|at| stage.pair(at));
    let group = stage.group_with(&pairs, &json!({"lb_fields": fields}));
    let classifiers = [FORTH, BESIDE].map(|way| stage.classifier(way));
    let chain = stage.chain(&[group], &classifiers);
    for way in ways {
        let what = format!("port {} by {}", way.port, fields.join(" and "));
        stage.expect(&what, *way, &[&["v8", "v10"]]);
    }
    stage.delete_chain(&chain);
    stage.house.remove_chains();
}

/// How many flows of each probe met v8 and v10.
fn met(verdict: &Value) -> BTreeMap<String, [u64; 2]> {
    let mut met: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for share in verdict["shares"].as_array().expect("shares") {
        let probe = share["traffic"].as_str().expect("a name").to_owned();
        let flows = share["flows"].as_u64().expect("a number");
        met.entry(probe).or_default()[usize::from(share["instance"] == "v10")] += flows;
    }
    assert!(!met.is_empty());
    met
}

#[test]
fn flows_that_differ_in_no_named_field_meet_one_instance() {
    for fields in [&["ip_src"][..], &["ip_dst", "udp_dst"]] {
        let verdict = tell(true, |stage| {
            balanced(stage, fields, &[FORTH.of_flows(FLOWS), BESIDE.of_flows(FLOWS)]);
        });
        for (probe, flows) in met(&verdict) {
            assert!(flows.contains(&0), "{probe}: {flows:?} flows at v8 and v10");
        }
    }
}

#[test]
fn flows_that_differ_in_a_named_field_are_shared_among_the_instances() {
    for fields in [&["udp_src"][..], &["ip_src", "udp_src"], &[]] {
        let verdict = tell(true, |stage| balanced(stage, fields, &[FORTH.of_flows(FLOWS)]));
        for (probe, flows) in met(&verdict) {
            assert!(FAIR_FLOWS.contains(&flows[0]), "{probe}: {flows:?} flows at v8 and v10");
        }
    }
}

#[test]
fn a_destination_port_chooses_for_all_flows_to_it() {
    let verdict = tell(true, |stage| {
        let ways: Vec<Way> =
            (PORT..PORT + PORTS).map(|port| FORTH.with_port(port).of_flows(3)).collect();
        balanced(stage, &["udp_dst"], &ways);
    });
    let mut used: BTreeSet<usize> = BTreeSet::new();
    for (probe, flows) in met(&verdict) {
        assert!(flows.contains(&0), "{probe}: {flows:?} flows at v8 and v10");
        used.extend(flows.iter().position(|count| *count > 0));
    }
    assert_eq!(used.len(), 2, "no port chose the other instance");
}
