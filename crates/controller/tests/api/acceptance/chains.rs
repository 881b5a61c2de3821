//! 8.4: the 55 cases of port chains and the 15 of service graphs, as far as they are about chains
//! (the rest is where graphs are tested).

use super::bench::{Bench, CHAINS, Case, GRAPHS, GROUPS, RULES, UNKNOWN};
use crate::support::lab::id;
use serde_json::{Value, json};

const BAD: &str = "HTTPBadRequest";
const INCONSISTENT: &str = "PortChainInconsistentCorrelations";
const CONFLICT: &str = "PortChainFlowClassifierInConflict";

fn of(groups: Value) -> Value {
    json!({ "port_pair_groups": groups })
}

#[test]
fn create_port_chain() {
    let bench = Bench::new();
    let [a, b] = [(); 2].map(|()| bench.made(GROUPS, json!({})));
    let full = bench.group(json!(null));
    let (mpls, nsh) = (bench.group(json!("mpls")), bench.group(json!("nsh")));
    let with = |key: &str, value: Value| json!({"port_pair_groups": [a], key: value});
    let nsh_with = |group: &str| json!({"port_pair_groups": [group], "chain_parameters": {"correlation": "nsh"}});
    let all = json!({"name": "n", "description": "d", "port_pair_groups": [a],
        "flow_classifiers": [], "chain_id": 99,
        "chain_parameters": {"correlation": "mpls", "symmetric": true}});
    bench.creates(
        CHAINS,
        &[
            ("minimal", of(json!([a])), 201, ""),
            ("all_fields", all, 201, ""),
            ("all_fields_with_chain_id", with("chain_id", json!(99)), 201, ""),
            (
                "all_fields_with_symmetric",
                with("chain_parameters", json!({"symmetric": true})),
                201,
                "",
            ),
            ("multi_port_pair_groups", of(json!([a, b])), 201, ""),
            ("with_empty_chain_parameters", with("chain_parameters", json!({})), 201, ""),
            ("with_none_chain_parameters", with("chain_parameters", json!(null)), 201, ""),
            (
                "with_default_chain_parameters",
                with("chain_parameters", json!({"correlation": "mpls", "symmetric": false})),
                201,
                "",
            ),
            ("with_nsh_correlation", nsh_with(&a), 201, ""),
            ("with_nsh_correlation, group of nsh", nsh_with(&nsh), 201, ""),
            ("with_nsh_correlation_incompatible_ppg", nsh_with(&mpls), 400, INCONSISTENT),
            ("mpls with a group of nsh", of(json!([nsh])), 400, INCONSISTENT),
            ("none_flow_classifiers", with("flow_classifiers", json!(null)), 201, ""),
            ("empty_flow_classifiers", with("flow_classifiers", json!([])), 201, ""),
            ("with_port_pairs", of(json!([full])), 201, ""),
            ("with_empty_port_pair_groups", of(json!([])), 400, "PortPairGroupNotSpecified"),
            ("with_nouuid_port_pair_group", of(json!(["nouuid"])), 400, BAD),
            ("with_unknown_port_pair_group", of(json!([UNKNOWN])), 404, "PortPairGroupNotFound"),
            ("with_same_port_pair_group", of(json!([a, a])), 400, BAD),
            ("with_no_port_pair_groups", json!({}), 400, BAD),
            (
                "with_invalid_chain_parameters",
                with("chain_parameters", json!({"abc": "def"})),
                400,
                BAD,
            ),
            (
                "invalid_chain_parameters_symmetric",
                with("chain_parameters", json!({"symmetric": "abc"})),
                400,
                "InvalidInput",
            ),
            (
                "invalid correlation",
                with("chain_parameters", json!({"correlation": "abc"})),
                400,
                BAD,
            ),
            (
                "unknown_flow_classifiers",
                with("flow_classifiers", json!([UNKNOWN])),
                404,
                "FlowClassifierNotFound",
            ),
            ("nouuid_flow_classifiers", with("flow_classifiers", json!(["nouuid"])), 400, BAD),
        ],
    );
    bench.made(CHAINS, with("chain_id", json!(7)));
    bench.creates(
        CHAINS,
        &[
            (
                "with_conflict_chain_id",
                json!({"port_pair_groups": [b], "chain_id": 7}),
                400,
                "PortChainChainIdInConflict",
            ),
            ("same group list", of(json!([a])), 409, "InvalidPortPairGroups"),
            ("shared group, longer list", of(json!([a, b])), 201, ""),
            ("shared group, other order", of(json!([b, a])), 201, ""),
        ],
    );
    let quota = json!({"port_chain": 1});
    assert_eq!(bench.controller.put("/v2.0/quotas/fake_project_id", &quota).0, 200);
    bench.creates(CHAINS, &[("quota", of(json!([b])), 409, "OverQuota")]);
}

#[test]
fn create_port_chain_with_taps() {
    let bench = Bench::new();
    let plain = bench.made(GROUPS, json!({}));
    let tap = || bench.made(GROUPS, json!({"tap_enabled": true}));
    let (first, second) = (tap(), tap());
    bench.creates(
        CHAINS,
        &[
            ("non-consecutive", of(json!([first, plain, second])), 201, ""),
            // 400 ConsecutiveTapPPGNotSupported there: here each gets its copy.
            ("consecutive", of(json!([first, second, plain])), 201, ""),
        ],
    );
    let chain = bench.made(CHAINS, of(json!([plain, first])));
    let update: [Case; 2] = [
        ("non-consecutive", of(json!([first, plain])), 200, ""),
        ("consecutive", of(json!([plain, first, second])), 200, ""),
    ];
    bench.updates(CHAINS, &chain, &update);
}

#[test]
fn create_port_chains_with_classifiers() {
    let bench = Bench::new();
    let groups = [(); 3].map(|()| bench.made(GROUPS, json!({})));
    let [a, b, c] = &groups;
    let chain =
        |group: &str, rules: Value| json!({"port_pair_groups": [group], "flow_classifiers": rules});
    let (first, second) = (bench.rule(80), bench.rule(81));
    let (s, t) = (bench.port("s"), bench.port("t"));
    let basic =
        |port: &str| bench.made(RULES, json!({"protocol": "udp", "logical_source_port": port}));
    let (same, basic) = (basic(&s), basic(&t));
    bench.creates(
        CHAINS,
        &[
            ("one", chain(a, json!([first])), 201, ""),
            ("multi_flow_classifiers", chain(a, json!([first, second])), 201, ""),
            ("flow_classifiers_basic_the_same", chain(a, json!([same, basic])), 201, ""),
        ],
    );
    let made = bench.controller.create(CHAINS, &chain(a, json!([first, same])));
    bench.creates(
        CHAINS,
        &[
            ("multi_port_chains_with_flow_classifiers", chain(b, json!([second])), 201, ""),
            (
                "multi_port_chains_with_conflict_flow_classifiers",
                chain(b, json!([basic])),
                400,
                CONFLICT,
            ),
            (
                "multi_port_chains_with_same_flow_classifier",
                chain(b, json!([first])),
                409,
                "FlowClassifierInUse",
            ),
        ],
    );
    let other = bench.made(CHAINS, chain(b, json!([])));
    let rules = |rules: Value| json!({ "flow_classifiers": rules });
    bench.updates(
        CHAINS,
        &other,
        &[
            ("add", rules(json!([second])), 200, ""),
            ("in use", rules(json!([second, first])), 409, "FlowClassifierInUse"),
            ("conflict", rules(json!([second, basic])), 400, CONFLICT),
            ("unknown", rules(json!([UNKNOWN])), 404, "FlowClassifierNotFound"),
            ("remove", rules(json!([])), 200, ""),
        ],
    );
    bench.updates(
        CHAINS,
        &id(&made),
        &[
            ("basic the same", rules(json!([first, same, basic])), 200, ""),
            ("replace", rules(json!([second])), 200, ""),
            ("groups add", of(json!([a, c])), 200, ""),
            ("groups replace", of(json!([c])), 200, ""),
            ("groups as another chain's", of(json!([b])), 409, "InvalidPortPairGroups"),
            ("groups empty", of(json!([])), 400, "PortPairGroupNotSpecified"),
            ("groups unknown", of(json!([UNKNOWN])), 404, "PortPairGroupNotFound"),
            ("chain_parameters", json!({"chain_parameters": {}}), 400, BAD),
            ("chain_id", json!({"chain_id": 5}), 400, BAD),
        ],
    );
    bench.refuses_to_delete(RULES, &second, 409, "FlowClassifierInUse");
    bench.delete(CHAINS, &id(&made));
    bench.delete(RULES, &second);
}

#[test]
fn list_show_update_and_delete_port_chains_also_in_a_graph() {
    let bench = Bench::new();
    let groups = [(); 2].map(|()| bench.made(GROUPS, json!({})));
    let chain = bench.made(CHAINS, json!({"name": "pc", "port_pair_groups": [groups[0]]}));
    let next = bench.made(CHAINS, of(json!([groups[1]])));
    bench.lists_and_shows(CHAINS, &chain, "PortChainNotFound");
    let graph = bench.made(GRAPHS, json!({"name": "g", "port_chains": { &chain: [next] }}));
    bench.lists_and_shows(GRAPHS, &graph, "ServiceGraphNotFound");
    let in_use = "ServiceGraphPortChainInUse";
    for member in [&chain, &next] {
        bench.updates(
            CHAINS,
            member,
            &[
                ("name", json!({"name": "n", "description": "d"}), 200, ""),
                ("classifiers", json!({"flow_classifiers": []}), 409, in_use),
                ("groups", of(json!([groups[0]])), 409, in_use),
            ],
        );
        bench.refuses_to_delete(CHAINS, member, 409, in_use);
    }
    bench.updates(
        GRAPHS,
        &graph,
        &[
            ("update", json!({"name": "n", "description": "d"}), 200, ""),
            ("port_chains", json!({"port_chains": {}}), 400, BAD),
        ],
    );
    bench.delete(GRAPHS, &graph);
    bench.refuses_to_delete(GRAPHS, &graph, 404, "ServiceGraphNotFound");
    bench.delete(CHAINS, &chain);
    bench.refuses_to_delete(CHAINS, &chain, 404, "PortChainNotFound");
}
