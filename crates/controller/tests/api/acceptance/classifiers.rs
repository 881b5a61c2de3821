//! 8.3: the 34 cases of flow classifiers.

use super::bench::{Bench, Case, RULES, UNKNOWN};
use crate::support::kind;
use serde_json::{Value, json};

const BAD_PORT: &str = "FlowClassifierInvalidPortValue";
const BAD_RANGE: &str = "FlowClassifierInvalidPortRange";
const NO_PROTOCOL: &str = "FlowClassifierProtocolRequiredWithPorts";
const FAMILY: &str = "FlowClassifierIpPrefixFormatConflictWithEthertype";
const BAD: &str = "HTTPBadRequest";

#[test]
fn create_flow_classifier() {
    let bench = Bench::new();
    let (a, b) = (bench.port("a"), bench.port("b"));
    let all = json!({
        "name": "all", "description": "d", "ethertype": "IPv4", "protocol": "tcp",
        "source_port_range_min": 100, "source_port_range_max": 200,
        "destination_port_range_min": 101, "destination_port_range_max": 201,
        "source_ip_prefix": "10.100.0.0/16", "destination_ip_prefix": "10.200.0.0/16",
        "logical_source_port": a, "logical_destination_port": b, "l7_parameters": {},
    });
    bench.creates(
        RULES,
        &[
            ("minimal", json!({}), 201, ""),
            ("with_logical_destination_port", json!({"logical_destination_port": b}), 201, ""),
            ("all_fields", all, 201, ""),
            ("all_supported_ethertype IPv4", json!({"ethertype": "IPv4"}), 201, ""),
            ("all_supported_ethertype IPv6", json!({"ethertype": "IPv6"}), 201, ""),
            (
                "invalid_ethertype",
                json!({"ethertype": "unsupported"}),
                400,
                "FlowClassifierInvalidEthertype",
            ),
            ("all_supported_protocol none", json!({"protocol": null}), 201, ""),
            ("all_supported_protocol tcp", json!({"protocol": "tcp"}), 201, ""),
            ("all_supported_protocol udp", json!({"protocol": "udp"}), 201, ""),
            ("all_supported_protocol icmp", json!({"protocol": "icmp"}), 201, ""),
            (
                "invalid_protocol",
                json!({"protocol": "unsupported"}),
                400,
                "FlowClassifierInvalidProtocol",
            ),
            ("l7_parameters empty", json!({"l7_parameters": {}}), 201, ""),
            ("l7_parameters null", json!({"l7_parameters": null}), 201, ""),
            (
                "invalid_l7_parameters",
                json!({"l7_parameters": {"abc": "def"}}),
                400,
                "FlowClassifierInvalidL7Parameter",
            ),
            ("with_port_id", json!({"logical_source_port": a}), 201, ""),
            ("with_port_id, not a uuid", json!({"logical_source_port": "abc"}), 400, BAD),
            (
                "with_unknown_port_id",
                json!({"logical_source_port": UNKNOWN}),
                404,
                "FlowClassifierPortNotFound",
            ),
            (
                "with_unknown_port_id, destination",
                json!({"logical_destination_port": UNKNOWN}),
                404,
                "FlowClassifierPortNotFound",
            ),
        ],
    );
}

fn range(protocol: &str, way: &str, min: Value, max: Value) -> Value {
    json!({"protocol": protocol, format!("{way}_port_range_min"): min,
           format!("{way}_port_range_max"): max})
}

#[test]
fn create_flow_classifier_with_ports() {
    let bench = Bench::new();
    for way in ["source", "destination"] {
        let of = |protocol: &str, min: Value, max: Value| range(protocol, way, min, max);
        let mut cases: Vec<Case> = Vec::new();
        for protocol in ["tcp", "udp"] {
            cases.push(("min and max", of(protocol, json!(100), json!(200)), 201, ""));
            cases.push(("min only", of(protocol, json!(100), json!(null)), 201, ""));
            cases.push(("max only", of(protocol, json!(null), json!(200)), 201, ""));
            cases.push(("text", of(protocol, json!("100"), json!("200")), 201, ""));
            cases.push(("whole range", of(protocol, json!(0), json!(65_535)), 201, ""));
            cases.push(("equal", of(protocol, json!(100), json!(100)), 201, ""));
            for bad in
                [json!(-1), json!(65_536), json!("abc"), json!("-1"), json!("65536"), json!([])]
            {
                cases.push(("invalid min", of(protocol, bad.clone(), json!(null)), 400, BAD_PORT));
                cases.push(("invalid max", of(protocol, json!(null), bad.clone()), 400, BAD_PORT));
                cases.push(("invalid both", of(protocol, bad.clone(), bad), 400, BAD_PORT));
            }
            cases.push(("min > max", of(protocol, json!(200), json!(100)), 400, BAD_RANGE));
            cases.push(("min > max by one", of(protocol, json!(101), json!(100)), 400, BAD_RANGE));
        }
        cases.push((
            "without protocol",
            json!({ format!("{way}_port_range_min"): 100 }),
            400,
            NO_PROTOCOL,
        ));
        cases.push(("icmp with ports", of("icmp", json!(100), json!(200)), 400, NO_PROTOCOL));
        bench.creates(RULES, &cases);
    }
}

#[test]
fn create_flow_classifier_with_prefixes() {
    let bench = Bench::new();
    for way in ["source_ip_prefix", "destination_ip_prefix"] {
        let mut cases: Vec<Case> = Vec::new();
        for good in ["10.100.0.0/16", "10.100.0.1/16", "0.0.0.0/0", "10.100.0.1/32"] {
            cases.push(("prefix", json!({ way: good }), 201, ""));
            cases.push(("mismatch", json!({ way: good, "ethertype": "IPv6" }), 400, FAMILY));
        }
        for good in ["2001:db8::/32", "::/0", "ff02::1/128"] {
            cases.push(("prefix v6", json!({ way: good, "ethertype": "IPv6" }), 201, ""));
            cases.push(("mismatch v6", json!({ way: good, "ethertype": "IPv4" }), 400, FAMILY));
        }
        for bad in
            ["10.100.0.0", "10.100.0.0/33", "10.100/16", "abc", "2001:db8::/129", "10.0.0.0/abc"]
        {
            cases.push(("invalid prefix", json!({ way: bad }), 400, BAD));
        }
        cases.push(("a number", json!({ way: 10 }), 400, BAD));
        bench.creates(RULES, &cases);
    }
}

#[test]
fn create_flow_classifier_conflicts() {
    let bench = Bench::new();
    let ports = |way: &str, min: u16, max: u16| range("tcp", way, json!(min), json!(max));
    let ethertype = |name: &str| json!({ "ethertype": name });
    let protocol = |name: &str| json!({ "protocol": name });
    let source = |prefix: &str| json!({ "source_ip_prefix": prefix });
    let destination = |prefix: &str| json!({ "destination_ip_prefix": prefix });
    for (name, first, second, is_conflict) in [
        ("ethertype", ethertype("IPv4"), ethertype("IPv4"), true),
        ("ethertype, disjoint", ethertype("IPv4"), ethertype("IPv6"), false),
        ("protocol", protocol("tcp"), protocol("tcp"), true),
        ("protocol, one without", protocol("tcp"), json!({}), true),
        ("protocol, disjoint", protocol("tcp"), protocol("udp"), false),
        ("source prefix", source("10.100.0.0/16"), source("10.100.0.0/16"), true),
        ("source prefix, inside", source("10.100.0.0/16"), source("10.100.100.0/24"), true),
        ("source prefix, around", source("10.100.100.0/24"), source("10.100.0.0/16"), true),
        ("source prefix, disjoint", source("10.100.0.0/16"), source("10.101.0.0/16"), false),
        ("destination prefix", destination("10.100.0.0/16"), destination("10.100.0.0/16"), true),
        (
            "destination prefix, inside",
            destination("10.100.0.0/16"),
            destination("10.100.9.0/24"),
            true,
        ),
        (
            "destination prefix, disjoint",
            destination("10.100.0.0/16"),
            destination("10.101.0.0/16"),
            false,
        ),
        ("source range", ports("source", 100, 200), ports("source", 100, 200), true),
        ("source range, cut", ports("source", 100, 200), ports("source", 200, 300), true),
        ("source range, disjoint", ports("source", 100, 200), ports("source", 201, 300), false),
        ("destination range", ports("destination", 100, 200), ports("destination", 100, 200), true),
        (
            "destination range, inside",
            ports("destination", 100, 200),
            ports("destination", 150, 160),
            true,
        ),
        (
            "destination range, disjoint",
            ports("destination", 100, 200),
            ports("destination", 201, 300),
            false,
        ),
        ("not all fields", source("10.100.0.0/16"), destination("10.200.0.0/16"), true),
    ] {
        let first = bench.made(RULES, first);
        let (status, body) = bench.controller.post(RULES, &second);
        assert_eq!(status, if is_conflict { 400 } else { 201 }, "{name}: {body}");
        if is_conflict {
            assert_eq!(kind(&body), "FlowClassifierInConflict", "{name}");
        } else {
            bench.delete(RULES, body["id"].as_str().unwrap());
        }
        bench.delete(RULES, &first);
    }
}

#[test]
fn list_show_update_and_delete_flow_classifiers() {
    let bench = Bench::new();
    let rule = bench.made(RULES, json!({"name": "fc", "protocol": "tcp"}));
    bench.lists_and_shows(RULES, &rule, "FlowClassifierNotFound");
    let mut updates: Vec<Case> =
        vec![("update", json!({"name": "n", "description": "d"}), 200, "")];
    for (attribute, value) in [
        ("ethertype", json!("IPv6")),
        ("protocol", json!("udp")),
        ("source_port_range_min", json!(1)),
        ("source_port_range_max", json!(1)),
        ("destination_port_range_min", json!(1)),
        ("destination_port_range_max", json!(1)),
        ("source_ip_prefix", json!("10.0.0.0/8")),
        ("destination_ip_prefix", json!("10.0.0.0/8")),
        ("logical_source_port", json!(UNKNOWN)),
        ("logical_destination_port", json!(UNKNOWN)),
        ("l7_parameters", json!({})),
    ] {
        updates.push(("immutable", json!({ attribute: value }), 400, BAD));
    }
    bench.updates(RULES, &rule, &updates);
    let shown = bench.show(RULES, &rule);
    assert_eq!((&shown["name"], &shown["description"]), (&json!("n"), &json!("d")));
    bench.delete(RULES, &rule);
    bench.refuses_to_delete(RULES, &rule, 404, "FlowClassifierNotFound");
}
