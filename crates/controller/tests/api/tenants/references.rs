//! What one project declares of another's: nothing. What both declare is compared only where they
//! share it.

use crate::support::tokens::{Caller, start};
use catena_controller::Auth;
use serde_json::{Value, json};

/// A port, a pair on it, a group of it, a classifier and a chain over them, in a project.
struct Own {
    network: String,
    subnet: String,
    port: String,
    pair: String,
    group: String,
    rule: String,
    chain: String,
}

fn own(caller: &Caller<'_>) -> Own {
    let network = caller.create("/v2.0/networks", &json!({}));
    let subnet = json!({"network_id": network, "cidr": "10.0.0.0/24", "ip_version": 4});
    let subnet = caller.create("/v2.0/subnets", &subnet);
    let port = caller.create("/v2.0/ports", &json!({"network_id": network, "device_id": "d"}));
    let pair = caller.create("/v2.0/sfc/port_pairs", &json!({"ingress": port, "egress": port}));
    let group = caller.create("/v2.0/sfc/port_pair_groups", &json!({"port_pairs": [pair]}));
    let rule = caller.create("/v2.0/sfc/flow_classifiers", &json!({"protocol": "tcp"}));
    let chain = json!({"port_pair_groups": [group], "flow_classifiers": [rule]});
    let chain = caller.create("/v2.0/sfc/port_chains", &chain);
    Own { network, subnet, port, pair, group, rule, chain }
}

#[test]
fn what_is_another_projects_cannot_be_referenced_by_any_attribute() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let (owner, stranger) =
        (admin.with_role("a", "own", "tenant"), admin.with_role("b", "foreign", "tenant"));
    // The same classifier in both projects does not conflict: neither knows of the other's.
    let (mine, theirs) = (own(&owner), own(&stranger));
    let sfc = "/v2.0/sfc";
    let unused = owner.create("/v2.0/sfc/port_pair_groups", &json!({}));
    let cases: Vec<(String, Value, &str)> = vec![
        (
            "/v2.0/subnets".into(),
            json!({"network_id": theirs.network, "cidr": "10.1.0.0/24"}),
            "NetworkNotFound",
        ),
        ("/v2.0/ports".into(), json!({"network_id": theirs.network}), "NetworkNotFound"),
        (
            "/v2.0/ports".into(),
            json!({"network_id": mine.network,
            "fixed_ips": [{"subnet_id": theirs.subnet}]}),
            "SubnetNotFound",
        ),
        (
            format!("{sfc}/flow_classifiers"),
            json!({"logical_source_port": theirs.port}),
            "FlowClassifierPortNotFound",
        ),
        (
            format!("{sfc}/flow_classifiers"),
            json!({"logical_destination_port": theirs.port}),
            "FlowClassifierPortNotFound",
        ),
        (
            format!("{sfc}/port_pairs"),
            json!({"ingress": theirs.port, "egress": mine.port}),
            "PortPairPortNotFound",
        ),
        (
            format!("{sfc}/port_pairs"),
            json!({"ingress": mine.port, "egress": theirs.port}),
            "PortPairPortNotFound",
        ),
        (
            format!("{sfc}/port_pair_groups"),
            json!({"port_pairs": [theirs.pair]}),
            "PortPairNotFound",
        ),
        (
            format!("{sfc}/port_chains"),
            json!({"port_pair_groups": [theirs.group]}),
            "PortPairGroupNotFound",
        ),
        (
            format!("{sfc}/port_chains"),
            json!({"port_pair_groups": [unused],
            "flow_classifiers": [theirs.rule]}),
            "FlowClassifierNotFound",
        ),
        (
            format!("{sfc}/service_graphs"),
            json!({"port_chains": { &theirs.chain: [] }}),
            "PortChainNotFound",
        ),
    ];
    for (path, attributes, expected) in cases {
        let body = json!({ crate::support::singular(&path): attributes });
        let answer = owner.call("POST", &path, Some(&body));
        assert_eq!(
            (answer.status, answer.kind()),
            (404, expected.into()),
            "{path} {body}: {answer:?}"
        );
    }
    let item = format!("{sfc}/port_pair_groups/{}", mine.group);
    let steal = json!({"port_pair_group": {"port_pairs": [theirs.pair]}});
    let answer = owner.call("PUT", &item, Some(&steal));
    assert_eq!((answer.status, answer.kind()), (404, "PortPairNotFound".into()), "{answer:?}");
}

#[test]
fn a_graph_to_a_foreign_chain_is_refused_as_one_to_a_chain_that_is_not_there() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let (owner, stranger) =
        (admin.with_role("a", "own", "tenant"), admin.with_role("b", "foreign", "tenant"));
    let chain = |caller: &Caller<'_>| {
        let network = caller.create("/v2.0/networks", &json!({}));
        let port = json!({"network_id": network, "device_id": "d"});
        let port = caller.create("/v2.0/ports", &port);
        let pair = json!({"ingress": port, "egress": port,
                          "service_function_parameters": {"correlation": "mpls"}});
        let pair = caller.create("/v2.0/sfc/port_pairs", &pair);
        let group = caller.create("/v2.0/sfc/port_pair_groups", &json!({"port_pairs": [pair]}));
        caller.create("/v2.0/sfc/port_chains", &json!({"port_pair_groups": [group]}))
    };
    let graphs = "/v2.0/sfc/service_graphs";
    let (mine, in_graph) = (chain(&owner), chain(&owner));
    owner.create(graphs, &json!({"port_chains": {&in_graph: []}}));
    let (free, taken, onward) = (chain(&stranger), chain(&stranger), chain(&stranger));
    stranger.create(graphs, &json!({"port_chains": {&taken: [&onward]}}));
    let absent = uuid::Uuid::new_v4().to_string();
    let tried = |of: &str, branches: &Value| {
        let body = json!({"service_graph": {"port_chains": branches}});
        let answer = owner.call("POST", graphs, Some(&body));
        (answer.status, answer.text.replace(of, "ID"))
    };
    for foreign in [&free, &taken, &onward] {
        for (branches, status) in [
            (|of: &str, _: &str, _: &str| json!({of: []}), 404),
            (|of: &str, mine: &str, _: &str| json!({mine: [of]}), 404),
            (|of: &str, mine: &str, _: &str| json!({of: [mine]}), 404),
            // What is wrong besides is told as if there were no such chain.
            (|of: &str, mine: &str, _: &str| json!({mine: [of, of]}), 404),
            (|of: &str, _: &str, in_graph: &str| json!({in_graph: [of]}), 409),
        ] as [(fn(&str, &str, &str) -> Value, u16); 5]
        {
            let answer = tried(foreign, &branches(foreign, &mine, &in_graph));
            let of_absent = tried(&absent, &branches(&absent, &mine, &in_graph));
            assert_eq!((answer.0, &answer), (status, &of_absent));
        }
    }
}

#[test]
fn who_sees_everything_is_told_of_conflicts_that_owners_do_not_have() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let owner = admin.with_role("a", "own", "tenant");
    let operator = admin.with_role("o", "ops", "operator");
    let rules = "/v2.0/sfc/flow_classifiers";
    owner.create(rules, &json!({"protocol": "tcp"}));
    let same = json!({"flow_classifier": {"protocol": "tcp"}});
    let answer = operator.call("POST", rules, Some(&same));
    assert_eq!((answer.status, answer.kind()), (400, "FlowClassifierInConflict".into()));
    // Who may make things for another project, and who may not.
    let foreign = json!({"flow_classifier": {"protocol": "udp", "project_id": "third"}});
    let answer = owner.call("POST", rules, Some(&foreign));
    assert_eq!((answer.status, answer.kind()), (400, "HTTPBadRequest".into()), "{answer:?}");
    let made = operator.call("POST", rules, Some(&foreign));
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["flow_classifier"]["project_id"], "third");
    let list = owner.call("GET", &format!("{rules}?project_id=third"), None).json();
    assert_eq!(list["flow_classifiers"], json!([]));
}

#[test]
fn numbers_are_given_once_in_the_whole_deployment() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let callers = ["own", "foreign"].map(|project| admin.with_role(project, project, "tenant"));
    let mut numbers = Vec::new();
    for caller in &callers {
        let (groups, chains) = ("/v2.0/sfc/port_pair_groups", "/v2.0/sfc/port_chains");
        let group = caller.create(groups, &json!({}));
        let chain = caller.create(chains, &json!({"port_pair_groups": [group]}));
        let shown = |path: &str, id: &str| caller.call("GET", &format!("{path}/{id}"), None).json();
        numbers.push((
            shown(groups, &group)["port_pair_group"]["group_id"].clone(),
            shown(chains, &chain)["port_chain"]["chain_id"].clone(),
        ));
    }
    let operator = admin.with_role("o", "foreign", "operator");
    let other = operator.create("/v2.0/sfc/port_pair_groups", &json!({}));
    let taken = json!({"port_chain": {"port_pair_groups": [other], "chain_id": 1}});
    let answer = operator.call("POST", "/v2.0/sfc/port_chains", Some(&taken));
    assert_eq!((answer.status, answer.kind()), (400, "PortChainChainIdInConflict".into()));
    assert_eq!(numbers, [(json!(1), json!(1)), (json!(2), json!(2))]);
}
