//! 8.4: the 27 cases of port pair groups.

use super::bench::{Bench, CHAINS, Case, GROUPS, UNKNOWN};
use serde_json::{Value, json};

const BAD: &str = "HTTPBadRequest";
const TWO_IN_TAP: &str = "MultiplePortPairsInTapPPGNotSupported";

#[test]
fn create_port_pair_group() {
    let bench = Bench::new();
    let [plain, other, mpls, nsh] =
        [json!(null), json!(null), json!("mpls"), json!("nsh")].map(|c| bench.pair(c));
    let with = |parameters: Value| json!({ "port_pair_group_parameters": parameters });
    let all_parameters = json!({
        "lb_fields": ["eth_src", "eth_dst", "ip_src", "ip_dst", "tcp_src", "tcp_dst", "udp_src", "udp_dst"],
        "ppg_n_tuple_mapping": {
            "ingress_n_tuple": {"source_ip_prefix": "10.0.0.0/24", "source_port_range_min": 1,
                                "source_port_range_max": 9},
            "egress_n_tuple": {"source_ip_prefix": "10.1.0.0/24"},
        },
    });
    let all = json!({"name": "n", "description": "d", "port_pairs": [],
                     "port_pair_group_parameters": all_parameters});
    let tap = |pairs: Value| json!({"tap_enabled": true, "port_pairs": pairs});
    let tap_with_all = json!({"tap_enabled": true, "port_pair_group_parameters": all_parameters});
    bench.creates(
        GROUPS,
        &[
            ("minimal", json!({}), 201, ""),
            ("all_fields", all, 201, ""),
            ("with_null_parameters", with(json!(null)), 201, ""),
            ("with_empty_parameters", with(json!({})), 201, ""),
            (
                "with_default_parameters",
                with(json!({"lb_fields": [], "ppg_n_tuple_mapping":
                {"ingress_n_tuple": {}, "egress_n_tuple": {}}})),
                201,
                "",
            ),
            ("with_tap_enabled_parameter_true", json!({"tap_enabled": true}), 201, ""),
            ("with_tap_and_all_parameters", tap_with_all, 201, ""),
            ("with_port_pairs", json!({"port_pairs": [plain, other]}), 201, ""),
            ("tap_enabled_single_port_pair", tap(json!([plain])), 201, ""),
            ("tap_enabled_multiple_port_pairs", tap(json!([plain, other])), 400, TWO_IN_TAP),
            ("consistent_correlations", json!({"port_pairs": [mpls]}), 201, ""),
            (
                "inconsistent_correlations",
                json!({"port_pairs": [plain, mpls]}),
                400,
                "InconsistentCorrelations",
            ),
            (
                "inconsistent_correlations, two",
                json!({"port_pairs": [nsh, mpls]}),
                400,
                "InconsistentCorrelations",
            ),
            ("nouuid_port_pairs", json!({"port_pairs": ["nouuid"]}), 400, BAD),
            ("unknown_port_pairs", json!({"port_pairs": [UNKNOWN]}), 404, "PortPairNotFound"),
            ("twice the same", json!({"port_pairs": [plain, plain]}), 400, BAD),
            ("invalid lb_fields", with(json!({"lb_fields": ["abc"]})), 400, BAD),
        ],
    );
    bench.made(GROUPS, json!({"port_pairs": [plain]}));
    bench.creates(
        GROUPS,
        &[("share_port_pairs", json!({"port_pairs": [plain]}), 409, "PortPairInUse")],
    );
    let quota = json!({"port_pair_group": 1});
    assert_eq!(bench.controller.put("/v2.0/quotas/fake_project_id", &quota).0, 200);
    bench.creates(GROUPS, &[("quota", json!({}), 409, "OverQuota")]);
}

#[test]
fn list_show_update_and_delete_port_pair_groups() {
    let bench = Bench::new();
    let [first, second, mpls, third_mpls] =
        [json!(null), json!(null), json!("mpls"), json!("mpls")].map(|c| bench.pair(c));
    let group = bench.made(GROUPS, json!({"name": "ppg", "port_pairs": [first]}));
    bench.lists_and_shows(GROUPS, &group, "PortPairGroupNotFound");
    let pairs = |pairs: Value| json!({ "port_pairs": pairs });
    let updates: [Case; 10] = [
        ("update", json!({"name": "n", "description": "d"}), 200, ""),
        ("add", pairs(json!([first, second])), 200, ""),
        ("replace", pairs(json!([second])), 200, ""),
        ("inconsistent", pairs(json!([second, mpls])), 400, "InconsistentCorrelations"),
        ("unknown", pairs(json!([UNKNOWN])), 404, "PortPairNotFound"),
        ("clear", pairs(json!([])), 200, ""),
        ("consistency_checks", pairs(json!([mpls, third_mpls])), 200, ""),
        ("parameters", json!({"port_pair_group_parameters": {}}), 400, BAD),
        ("tap_enabled", json!({"tap_enabled": true}), 400, BAD),
        ("group_id", json!({"group_id": 9}), 400, BAD),
    ];
    bench.updates(GROUPS, &group, &updates);
    assert_eq!(bench.show(GROUPS, &group)["port_pairs"], json!([mpls, third_mpls]));
    let tap = bench.made(GROUPS, json!({"tap_enabled": true, "port_pairs": [first]}));
    let two: Case = ("tap with two", pairs(json!([first, second])), 400, TWO_IN_TAP);
    bench.updates(GROUPS, &tap, &[two]);
    let chain = bench.made(CHAINS, json!({"port_pair_groups": [group]}));
    bench.refuses_to_delete(GROUPS, &group, 409, "PortPairGroupInUse");
    bench.delete(CHAINS, &chain);
    bench.delete(GROUPS, &group);
    bench.refuses_to_delete(GROUPS, &group, 404, "PortPairGroupNotFound");
}
