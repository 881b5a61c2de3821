//! 8.4: the 31 cases of port pairs.

use super::bench::{Bench, Case, GROUPS, PAIRS, PORTS, UNKNOWN};
use serde_json::{Value, json};

const BAD: &str = "HTTPBadRequest";

#[test]
fn create_port_pair() {
    let bench = Bench::new();
    let (a, b, elsewhere) = (bench.port("d"), bench.port("d"), bench.port("other"));
    let pair = |ingress: &str, egress: &str| json!({"ingress": ingress, "egress": egress});
    let with = |parameters: Value| json!({"ingress": a, "egress": b, "service_function_parameters": parameters});
    let all = json!({"name": "n", "description": "d", "ingress": a, "egress": b,
        "service_function_parameters": {"correlation": null, "weight": 2}});
    bench.creates(
        PAIRS,
        &[
            ("minimal", pair(&a, &b), 201, ""),
            ("all_fields", all, 201, ""),
            ("none_service_function_parameters", with(json!(null)), 201, ""),
            ("empty_service_function_parameters", with(json!({})), 201, ""),
            ("with_same_ingress_egress", pair(&a, &a), 201, ""),
            ("correlation mpls", with(json!({"correlation": "mpls"})), 201, ""),
            ("correlation nsh", with(json!({"correlation": "nsh"})), 201, ""),
            ("weight", with(json!({"weight": 5})), 201, ""),
            ("empty", json!({}), 400, BAD),
            ("nested_create without ingress", json!({ "egress": b }), 400, BAD),
            ("without_egress", json!({ "ingress": a }), 400, BAD),
            ("ingress not uuid", pair("abc", &b), 400, BAD),
            ("egress not uuid", pair(&a, "abc"), 400, BAD),
            ("unknown ingress", pair(UNKNOWN, &b), 404, "PortPairPortNotFound"),
            ("unknown egress", pair(&a, UNKNOWN), 404, "PortPairPortNotFound"),
            ("different device", pair(&a, &elsewhere), 400, "PortPairIngressEgressDifferentHost"),
            ("invalid parameters", with(json!({"abc": "def"})), 400, BAD),
            ("invalid correlation", with(json!({"correlation": "def"})), 400, BAD),
            ("invalid weight", with(json!({"weight": -1})), 400, BAD),
            ("weight that is none", with(json!({"weight": "def"})), 400, "InvalidInput"),
        ],
    );
    let made = bench.controller.create(PAIRS, &pair(&a, &b));
    let default = json!({"correlation": null, "weight": 1});
    assert_eq!(made["service_function_parameters"], default);
    bench.creates(
        PAIRS,
        &[
            ("the same again", pair(&a, &b), 400, "PortPairIngressEgressInUse"),
            ("the other way round", pair(&b, &a), 201, ""),
        ],
    );
}

#[test]
fn list_show_update_and_delete_port_pairs() {
    let bench = Bench::new();
    let (a, b) = (bench.port("d"), bench.port("d"));
    let pair = bench.made(PAIRS, json!({"name": "pp", "ingress": a, "egress": b}));
    bench.lists_and_shows(PAIRS, &pair, "PortPairNotFound");
    let update: [Case; 4] = [
        ("update", json!({"name": "n", "description": "d"}), 200, ""),
        ("parameters", json!({"service_function_parameters": {"weight": 2}}), 400, BAD),
        ("ingress", json!({ "ingress": b }), 400, BAD),
        ("egress", json!({ "egress": a }), 400, BAD),
    ];
    bench.updates(PAIRS, &pair, &update);
    let group = bench.made(GROUPS, json!({"port_pairs": [pair]}));
    bench.refuses_to_delete(PAIRS, &pair, 409, "PortPairInUse");
    // They assert 500 for their own fault here.
    bench.refuses_to_delete(PORTS, &a, 409, "PortInUse");
    bench.refuses_to_delete(PORTS, &b, 409, "PortInUse");
    bench.delete(GROUPS, &group);
    bench.delete(PAIRS, &pair);
    bench.delete(PORTS, &a);
    bench.refuses_to_delete(PAIRS, &pair, 404, "PortPairNotFound");
}

#[test]
fn quota_of_port_pairs() {
    let bench = Bench::new();
    let quota = "/v2.0/quotas/fake_project_id";
    assert_eq!(bench.controller.put(quota, &json!({"port_pair": 1, "flow_classifier": 0})).0, 200);
    bench.pair(json!(null));
    let port = bench.port("d");
    let second = json!({"ingress": port, "egress": port});
    bench.creates(PAIRS, &[("quota", second, 409, "OverQuota")]);
    bench.creates("/v2.0/sfc/flow_classifiers", &[("quota", json!({}), 409, "OverQuota")]);
}
