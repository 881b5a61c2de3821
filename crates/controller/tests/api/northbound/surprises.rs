//! The faults of the original server, by their number in the specification (section 3.6), and what
//! is answered instead. Numbers 6, 10 and 12 are tested where lists, graphs and quotas are.

use crate::support::lab::{Lab, id};
use crate::support::{Controller, kind, message, with_controller};
use serde_json::{Value, json};

const PAIRS: &str = "/v2.0/sfc/port_pairs";
const GROUPS: &str = "/v2.0/sfc/port_pair_groups";
const CHAINS: &str = "/v2.0/sfc/port_chains";
const RULES: &str = "/v2.0/sfc/flow_classifiers";

fn with_lab(test: impl FnOnce(&Controller, &Lab<'_>)) {
    with_controller(|controller| test(controller, &Lab::new(controller)));
}

fn refused((status, body): (u16, Value), expected: (u16, &str)) {
    assert_eq!((status, kind(&body)), expected, "{body}");
    let text = message(&body);
    let is_whole = text.len() > 10 && text.ends_with('.') && !text.ends_with("..");
    assert!(is_whole && !text.contains('%'), "{text}");
}

#[test]
fn surprise_1_of_the_original_an_update_keeps_the_order_of_the_groups() {
    with_lab(|controller, lab| {
        let [a, b, c] = ["a", "b", "c"].map(|name| lab.function_on(name, "host1"));
        let chain = controller.create(CHAINS, &json!({"port_pair_groups": [a, b]}));
        let item = format!("{CHAINS}/{}", id(&chain));
        for groups in [json!([b, a]), json!([c, b, a]), json!([a, c, b]), json!([b])] {
            let (status, answer) = controller.put(&item, &json!({ "port_pair_groups": groups }));
            assert_eq!((status, &answer["port_pair_groups"]), (200, &groups));
            assert_eq!(controller.get(&item)["port_chain"]["port_pair_groups"], groups);
        }
    });
}

#[test]
fn surprise_2_of_the_original_partial_parameters_of_a_pair_are_filled_in() {
    with_lab(|controller, lab| {
        for (number, (given, kept)) in [
            (json!({"weight": "3"}), json!({"correlation": null, "weight": 3})),
            (json!({"correlation": "nsh"}), json!({"correlation": "nsh", "weight": 1})),
            (json!({}), json!({"correlation": null, "weight": 1})),
        ]
        .into_iter()
        .enumerate()
        {
            let port = lab.loose_port(&format!("p{number}"), "d");
            let pair = json!({"ingress": port, "egress": port,
                              "service_function_parameters": given});
            let pair = controller.create(PAIRS, &pair);
            assert_eq!(pair["service_function_parameters"], kept);
            controller.create(GROUPS, &json!({"port_pairs": [id(&pair)]}));
        }
    });
}

#[test]
fn surprise_3_of_the_original_an_update_is_checked_for_correlation_like_a_creation() {
    with_lab(|controller, lab| {
        let nsh = lab.function_speaking("nsh", "n", "host1");
        let mpls = lab.function_speaking("mpls", "m", "host1");
        let chain = json!({"port_pair_groups": [nsh], "chain_parameters": {"correlation": "nsh"}});
        let item = format!("{CHAINS}/{}", id(&controller.create(CHAINS, &chain)));
        let inconsistent = (400, "PortChainInconsistentCorrelations");
        refused(controller.put(&item, &json!({"port_pair_groups": [nsh, mpls]})), inconsistent);
        // Nor may a group of the chain get members of another correlation.
        let pairs =
            controller.get(&format!("{GROUPS}/{mpls}"))["port_pair_group"]["port_pairs"].clone();
        assert_eq!(controller.put(&format!("{GROUPS}/{mpls}"), &json!({"port_pairs": []})).0, 200);
        refused(
            controller.put(&format!("{GROUPS}/{nsh}"), &json!({ "port_pairs": pairs })),
            inconsistent,
        );
        assert_eq!(controller.get(&item)["port_chain"]["port_pair_groups"], json!([nsh]));
    });
}

#[test]
fn surprise_4_of_the_original_odd_spellings_are_taken_or_refused_but_never_crash() {
    with_lab(|controller, lab| {
        for (number, empty) in [json!([]), json!(""), json!({}), json!(null)].iter().enumerate() {
            let port = lab.loose_port(&format!("p{number}"), "d");
            let pair = json!({"ingress": port, "egress": port,
                              "service_function_parameters": empty});
            let pair = controller.create(PAIRS, &pair);
            let default = json!({"correlation": null, "weight": 1});
            assert_eq!(pair["service_function_parameters"], default, "{empty}");
            let group = controller.create(GROUPS, &json!({"port_pair_group_parameters": empty}));
            assert_eq!(group["port_pair_group_parameters"]["lb_fields"], json!([]), "{empty}");
            // A bare id is a list of one.
            let chain = json!({"port_pair_groups": id(&group), "chain_parameters": empty});
            let chain = controller.create(CHAINS, &chain);
            assert_eq!(chain["port_pair_groups"], json!([id(&group)]));
            let default = json!({"correlation": "mpls", "symmetric": false});
            assert_eq!(chain["chain_parameters"], default, "{empty}");
        }
        let group = id(&controller.create(GROUPS, &json!({})));
        for odd in [json!("x"), json!(7), json!(true), json!(["x"])] {
            let parameters = json!({ "port_pair_group_parameters": odd });
            refused(controller.post(GROUPS, &parameters), (400, "HTTPBadRequest"));
            let chain = json!({"port_pair_groups": [group], "chain_parameters": odd});
            refused(controller.post(CHAINS, &chain), (400, "HTTPBadRequest"));
        }
    });
}

#[test]
fn surprise_5_of_the_original_values_inside_n_tuples_are_checked() {
    with_lab(|controller, _| {
        let with = |mapping: Value| json!({"port_pair_group_parameters": { "ppg_n_tuple_mapping": mapping }});
        let ingress = |key: &str, value: Value| with(json!({"ingress_n_tuple": { key: value }}));
        for bad in [
            ingress("source_ip_prefix", json!("x")),
            ingress("source_ip_prefix", json!("10.0.0.1")),
            ingress("destination_ip_prefix", json!("10.0.0.0/33")),
            ingress("source_port_range_min", json!(70_000)),
            ingress("destination_port_range_max", json!("http")),
            with(json!({"sideways_n_tuple": {}})),
            with(json!({"egress_n_tuple": "x"})),
            with(
                json!({"egress_n_tuple": {"source_port_range_min": 2, "source_port_range_max": 1}}),
            ),
        ] {
            refused(controller.post(GROUPS, &bad), (400, "HTTPBadRequest"));
        }
        let unknown = (400, "PPGParametersInvalidNTupleMappingParameter");
        refused(controller.post(GROUPS, &ingress("colour", json!(1))), unknown);
        let good = json!({"ingress_n_tuple": {"source_ip_prefix": "10.0.0.0/24"},
                          "egress_n_tuple": {"source_ip_prefix": "192.0.2.1/32"}});
        let made = controller.create(GROUPS, &with(good.clone()));
        assert_eq!(made["port_pair_group_parameters"]["ppg_n_tuple_mapping"], good);
    });
}

#[test]
fn surprise_7_of_the_original_a_port_in_use_is_refused_by_name() {
    with_lab(|controller, lab| {
        let [pair_port, from, to] = ["a", "b", "c"].map(|name| lab.loose_port(name, "d"));
        let pair = json!({"ingress": pair_port, "egress": pair_port});
        let pair = id(&controller.create(PAIRS, &pair));
        let rule = json!({"logical_source_port": from, "logical_destination_port": to});
        let rule = id(&controller.create(RULES, &rule));
        for (port, user) in [(&pair_port, &pair), (&from, &rule), (&to, &rule)] {
            let item = format!("/v2.0/ports/{port}");
            let (status, body) = controller.call("DELETE", &item, None);
            assert!(message(&body).contains(user.as_str()), "{body}");
            refused((status, body), (409, "PortInUse"));
        }
        assert_eq!(controller.call("DELETE", &format!("{PAIRS}/{pair}"), None).0, 204);
        assert_eq!(controller.call("DELETE", &format!("{RULES}/{rule}"), None).0, 204);
        for port in [&pair_port, &from, &to] {
            assert_eq!(controller.call("DELETE", &format!("/v2.0/ports/{port}"), None).0, 204);
        }
    });
}

#[test]
fn surprise_8_of_the_original_messages_are_whole_sentences() {
    with_lab(|controller, _| {
        let l7 = json!({"l7_parameters": {"url": "x"}});
        refused(controller.post(RULES, &l7), (400, "FlowClassifierInvalidL7Parameter"));
        let tuple = json!({"port_pair_group_parameters":
            {"ppg_n_tuple_mapping": {"ingress_n_tuple": {"colour": 1}}}});
        let unknown = (400, "PPGParametersInvalidNTupleMappingParameter");
        refused(controller.post(GROUPS, &tuple), unknown);
        let graph = json!({"port_chains": {"abc": []}});
        let (status, body) = controller.post("/v2.0/sfc/service_graphs", &graph);
        assert!(message(&body).contains("'abc'"), "{body}");
        refused((status, body), (400, "InvalidUUID"));
    });
}

#[test]
fn surprise_9_of_the_original_classifiers_of_two_chains_may_not_overlap_whatever_their_ports() {
    with_lab(|controller, lab| {
        let [s, t] = ["s", "t"].map(|name| lab.port(name, name, "host1"));
        let [f, g] = ["f", "g"].map(|name| lab.function_on(name, "host1"));
        let (a, b) = (lab.classifier("a", &s, 80), lab.classifier("b", &t, 80));
        let both = json!({"port_pair_groups": [f], "flow_classifiers": [a, b]});
        let both = controller.create(CHAINS, &both);
        let item = format!("{CHAINS}/{}", id(&both));
        assert_eq!(controller.put(&item, &json!({"flow_classifiers": [a]})).0, 200);
        let second = json!({"port_pair_groups": [g], "flow_classifiers": [b]});
        let conflict = (400, "PortChainFlowClassifierInConflict");
        let (status, body) = controller.post(CHAINS, &second);
        for named in [&a, &b, &id(&both)] {
            assert!(message(&body).contains(named.as_str()), "{body}");
        }
        refused((status, body), conflict);
    });
}

#[test]
fn where_overlap_is_allowed_a_chain_goes_on_in_one_that_takes_a_part_of_its_packets() {
    let data = tempfile::tempdir().unwrap();
    let mut config = crate::support::open(data.path());
    config.overlap = catena_controller::Overlap::Allowed;
    let controller = Controller::start(config);
    let lab = Lab::new(&controller);
    let s = lab.port("s", "s", "host1");
    let chain = |name: &str, fields: &Value| {
        let rule = id(&controller.create(RULES, fields));
        let group = lab.function_speaking("mpls", name, "host1");
        let chain = json!({"port_pair_groups": [group], "flow_classifiers": [rule]});
        id(&controller.create(CHAINS, &chain))
    };
    let wide = chain("f", &json!({"protocol": "tcp", "logical_source_port": s}));
    let narrow = chain(
        "g",
        &json!({"protocol": "tcp", "logical_source_port": s, "destination_port_range_min": 80,
                "destination_port_range_max": 80}),
    );
    let graph = json!({"port_chains": {&wide: [&narrow]}});
    let made = controller.create("/v2.0/sfc/service_graphs", &graph);
    assert_eq!(made["port_chains"], graph["port_chains"]);
}

#[test]
fn surprise_11_of_the_original_a_wrong_method_is_said_to_be_one() {
    with_lab(|controller, _| {
        let group = id(&controller.create(GROUPS, &json!({})));
        for path in [GROUPS.to_owned(), format!("{GROUPS}/{group}")] {
            let (status, body) = controller.call("PATCH", &path, None);
            assert!(message(&body).contains("method"), "{body}");
            refused((status, body), (405, "HTTPMethodNotAllowed"));
        }
    });
}
