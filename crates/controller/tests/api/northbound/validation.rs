//! The rules of the resources, as tables: what is sent, which status and type come back. The
//! numbers are those of the specification's tables.

use crate::support::lab::{Lab, id};
use crate::support::{Controller, kind, message, open};
use serde_json::{Value, json};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

struct Bench {
    controller: Controller,
    _data: tempfile::TempDir,
}

fn bench() -> Bench {
    let data = tempfile::tempdir().unwrap();
    Bench { controller: Controller::start(open(data.path())), _data: data }
}

/// Posts each body and compares status and type; accepted ones are deleted again.
pub(super) fn check_posts(controller: &Controller, path: &str, cases: &[(Value, u16, &str)]) {
    for (attributes, status, expected) in cases {
        let (got, body) = controller.post(path, attributes);
        let shown = if got == 201 { "" } else { kind(&body) };
        assert_eq!((got, shown), (*status, *expected), "POST {path} {attributes}: {body}");
        if got == 201 {
            let item = format!("{path}/{}", id(&body));
            assert_eq!(controller.call("DELETE", &item, None).0, 204);
        } else {
            assert!(message(&body).len() > 10, "{body}");
        }
    }
}

#[test]
fn generic_rules_of_3_1_hold_for_every_resource() {
    let bench = bench();
    let controller = &bench.controller;
    let network = id(&controller.create("/v2.0/networks", &json!({"name": "n"})));
    for path in [
        "/v2.0/networks",
        "/v2.0/subnets",
        "/v2.0/ports",
        "/v2.0/sfc/flow_classifiers",
        "/v2.0/sfc/port_pairs",
        "/v2.0/sfc/port_pair_groups",
        "/v2.0/sfc/port_chains",
    ] {
        let long = "x".repeat(256);
        // What each needs, so that only the tested attribute is wrong.
        let with = |key: &str, value: Value| {
            let mut body = json!({
                "network_id": network, "cidr": "10.0.0.0/24", "ingress": UNKNOWN,
                "egress": UNKNOWN, "port_pair_groups": [UNKNOWN],
            });
            let wanted: &[&str] = match path.rsplit('/').next().unwrap() {
                "subnets" => &["network_id", "cidr"],
                "ports" => &["network_id"],
                "port_pairs" => &["ingress", "egress"],
                "port_chains" => &["port_pair_groups"],
                _ => &[],
            };
            let map = body.as_object_mut().unwrap();
            map.retain(|key, _| wanted.contains(&key.as_str()));
            map.insert(key.into(), value);
            body
        };
        check_posts(
            controller,
            path,
            &[
                (with("colour", json!("red")), 400, "HTTPBadRequest"),
                (with("id", json!(UNKNOWN)), 400, "HTTPBadRequest"),
                (with("name", json!(5)), 400, "HTTPBadRequest"),
                (with("name", json!(long)), 400, "HTTPBadRequest"),
                (with("description", json!([])), 400, "HTTPBadRequest"),
                (with("project_id", json!(7)), 400, "HTTPBadRequest"),
            ],
        );
        let mut both = with("project_id", json!("a"));
        both["tenant_id"] = json!("b");
        let (status, body) = controller.post(path, &both);
        assert_eq!(status, 400, "{body}");
        assert_eq!(message(&body), "'project_id' and 'tenant_id' do not match");

        let plural = path.rsplit('/').next().unwrap();
        for (body, message_part) in [
            (json!({}), "Unable to find"),
            (json!({ crate::support::singular(path): null }), "Unable to find"),
            (json!({ plural: [{}] }), "Bulk operation not supported"),
            (json!([]), "Resource body required"),
        ] {
            let (status, answer) = controller.call("POST", path, Some(&body));
            assert_eq!((status, kind(&answer)), (400, "HTTPBadRequest"), "{path} {body}");
            assert!(message(&answer).contains(message_part), "{answer}");
        }
        for unknown in [UNKNOWN, "a-name"] {
            for method in ["GET", "PUT", "DELETE"] {
                let body = json!({ crate::support::singular(path): {} });
                let item = format!("{path}/{unknown}");
                let (status, answer) = controller.call(method, &item, Some(&body));
                assert_eq!(status, 404, "{method} {item}: {answer}");
                assert!(kind(&answer).ends_with("NotFound"), "{answer}");
                assert!(message(&answer).contains(unknown), "{answer}");
            }
        }
    }
}

#[test]
fn required_attributes_are_named_and_read_only_ones_stay() {
    let bench = bench();
    let controller = &bench.controller;
    for (path, missing) in [
        ("/v2.0/subnets", "network_id"),
        ("/v2.0/ports", "network_id"),
        ("/v2.0/sfc/port_pairs", "ingress"),
        ("/v2.0/sfc/port_chains", "port_pair_groups"),
    ] {
        let (status, body) = controller.post(path, &json!({}));
        assert_eq!(status, 400);
        let expected = format!("Required attribute '{missing}' not specified");
        assert!(message(&body).contains(&expected), "{body}");
    }
    let lab = Lab::new(controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host1");
    let classifier = lab.classifier("fc", &source, 1);
    let chain = lab.chain("pc", &[&function], &[&classifier]);
    let chain = controller.create("/v2.0/sfc/port_chains", &chain);
    let pair = id(&controller.get("/v2.0/sfc/port_pairs")["port_pairs"][0]);
    for (item, attribute) in [
        (format!("/v2.0/sfc/flow_classifiers/{classifier}"), "protocol"),
        (format!("/v2.0/sfc/flow_classifiers/{classifier}"), "logical_source_port"),
        (format!("/v2.0/sfc/port_pairs/{pair}"), "ingress"),
        (format!("/v2.0/sfc/port_pairs/{pair}"), "service_function_parameters"),
        (format!("/v2.0/sfc/port_pair_groups/{function}"), "tap_enabled"),
        (format!("/v2.0/sfc/port_pair_groups/{function}"), "group_id"),
        (format!("/v2.0/sfc/port_chains/{}", id(&chain)), "chain_parameters"),
        (format!("/v2.0/sfc/port_chains/{}", id(&chain)), "chain_id"),
        (format!("/v2.0/sfc/port_chains/{}", id(&chain)), "status"),
        (format!("/v2.0/ports/{source}"), "network_id"),
        (format!("/v2.0/networks/{}", lab.network), "tenant_id"),
    ] {
        let (status, body) = controller.put(&item, &json!({ attribute: "x" }));
        assert_eq!(status, 400, "{item} {attribute}: {body}");
        let expected = format!("Cannot update read-only attribute {attribute}");
        assert_eq!(message(&body), expected);
        let before = controller.get(&item);
        assert_eq!(controller.put(&item, &json!({})).0, 200);
        assert_eq!(controller.get(&item), before, "an empty update changes nothing");
    }
}

#[test]
fn flow_classifier_rules_of_3_2() {
    let bench = bench();
    let controller = &bench.controller;
    let lab = Lab::new(controller);
    let (a, b) = (lab.port("a", "a", "host1"), lab.port("b", "b", "host1"));
    let path = "/v2.0/sfc/flow_classifiers";
    let ports = |protocol: Value, min: Value, max: Value| json!({"protocol": protocol, "source_port_range_min": min, "source_port_range_max": max});
    let invalid_port = "FlowClassifierInvalidPortValue";
    let needs_protocol = "FlowClassifierProtocolRequiredWithPorts";
    let family = "FlowClassifierIpPrefixFormatConflictWithEthertype";
    check_posts(
        controller,
        path,
        &[
            (json!({}), 201, ""),
            (json!({"name": null, "description": null, "ethertype": null}), 201, ""),
            (json!({"ethertype": "ipv6", "protocol": "ICMP"}), 201, ""),
            (json!({"ethertype": "ARP"}), 400, "FlowClassifierInvalidEthertype"),
            (json!({"protocol": "sctp"}), 400, "FlowClassifierInvalidProtocol"),
            (json!({"protocol": 6}), 400, "FlowClassifierInvalidProtocol"),
            (ports(json!("tcp"), json!("80"), json!(90)), 201, ""),
            (ports(json!("UDP"), json!(0), json!(null)), 201, ""),
            (ports(json!("tcp"), json!(65_536), json!(null)), 400, invalid_port),
            (ports(json!("tcp"), json!(-1), json!(null)), 400, invalid_port),
            (ports(json!("tcp"), json!("http"), json!(null)), 400, invalid_port),
            (ports(json!("tcp"), json!(1.5), json!(null)), 400, invalid_port),
            (ports(json!("tcp"), json!(9), json!(8)), 400, "FlowClassifierInvalidPortRange"),
            (ports(json!(null), json!(80), json!(80)), 400, needs_protocol),
            (ports(json!("icmp"), json!(80), json!(80)), 400, needs_protocol),
            (json!({"source_ip_prefix": "10.0.0.1/24"}), 201, ""),
            (json!({"source_ip_prefix": "10.0.0.1"}), 400, "HTTPBadRequest"),
            (json!({"destination_ip_prefix": "10.0.0.0/33"}), 400, "HTTPBadRequest"),
            (json!({"source_ip_prefix": "2001:db8::/32"}), 400, family),
            (json!({"ethertype": "IPv6", "destination_ip_prefix": "10.0.0.0/8"}), 400, family),
            (json!({"logical_source_port": a, "logical_destination_port": b}), 201, ""),
            (json!({"logical_source_port": "a"}), 400, "HTTPBadRequest"),
            (json!({"logical_source_port": UNKNOWN}), 404, "FlowClassifierPortNotFound"),
            (json!({"l7_parameters": {}}), 201, ""),
            (json!({"l7_parameters": null}), 201, ""),
            (json!({"l7_parameters": {"url": "x"}}), 400, "FlowClassifierInvalidL7Parameter"),
            (json!({"l7_parameters": "x"}), 400, "FlowClassifierInvalidL7Parameter"),
            (json!({"l7_parameters": 7}), 400, "HTTPBadRequest"),
        ],
    );
    let kept = controller.create(path, &json!({"source_ip_prefix": "10.0.0.1/24"}));
    assert_eq!(kept["source_ip_prefix"], "10.0.0.1/24", "host bits are kept");
}

#[test]
fn overlapping_classifiers_are_refused_and_disjoint_ones_accepted() {
    let bench = bench();
    let controller = &bench.controller;
    let lab = Lab::new(controller);
    let (a, b) = (lab.port("a", "a", "host1"), lab.port("b", "b", "host1"));
    let path = "/v2.0/sfc/flow_classifiers";
    let first = json!({
        "protocol": "tcp", "source_ip_prefix": "10.0.0.0/24",
        "destination_port_range_min": 80, "destination_port_range_max": 90,
        "logical_source_port": a,
    });
    let first = id(&controller.create(path, &first));
    for (change, overlaps) in [
        (json!({"dscp": "ef"}), true),
        (json!({}), true),
        (json!({"protocol": "udp"}), false),
        (json!({"source_ip_prefix": "10.0.0.128/25"}), true),
        (json!({"source_ip_prefix": "10.0.0.0/8"}), true),
        (json!({"source_ip_prefix": null}), true),
        (json!({"source_ip_prefix": "10.0.1.0/24"}), false),
        (json!({"destination_port_range_min": 90, "destination_port_range_max": null}), true),
        (json!({"destination_port_range_min": 91, "destination_port_range_max": 99}), false),
        (json!({"destination_ip_prefix": "192.0.2.0/24"}), true),
        (json!({"logical_source_port": null}), true),
        (json!({"logical_source_port": b}), false),
        (json!({"ethertype": "IPv6", "source_ip_prefix": null}), false),
    ] {
        let mut second = json!({
            "protocol": "tcp", "source_ip_prefix": "10.0.0.0/24",
            "destination_port_range_min": 80, "destination_port_range_max": 90,
            "logical_source_port": a,
        });
        for (key, value) in change.as_object().unwrap() {
            second[key] = value.clone();
        }
        let (status, body) = controller.post(path, &second);
        assert_eq!(status, if overlaps { 400 } else { 201 }, "{change}: {body}");
        if overlaps {
            assert_eq!(kind(&body), "FlowClassifierInConflict");
            assert!(message(&body).contains(&first), "{body}");
        } else {
            controller.call("DELETE", &format!("{path}/{}", id(&body)), None);
        }
    }
}

#[test]
fn port_pair_and_group_rules_of_3_3() {
    let bench = bench();
    let controller = &bench.controller;
    let lab = Lab::new(controller);
    let (a, b) = (lab.port("a", "vm1", "host1"), lab.port("b", "vm1", "host1"));
    let (other, bare) = (lab.port("c", "vm2", "host1"), lab.loose_port("d", ""));
    let pairs = "/v2.0/sfc/port_pairs";
    let pair = |ingress: &str, egress: &str| json!({"ingress": ingress, "egress": egress});
    let with = |parameters: Value| json!({"ingress": a, "egress": b, "service_function_parameters": parameters});
    check_posts(
        controller,
        pairs,
        &[
            (pair(&a, &b), 201, ""),
            (pair(&a, &a), 201, ""),
            (pair(UNKNOWN, &b), 404, "PortPairPortNotFound"),
            (pair("abc", &b), 400, "HTTPBadRequest"),
            (pair(&bare, &b), 400, "PortPairIngressNoHost"),
            (pair(&a, &bare), 400, "PortPairEgressNoHost"),
            (pair(&a, &other), 400, "PortPairIngressEgressDifferentHost"),
            (with(json!(null)), 201, ""),
            (with(json!([])), 201, ""),
            (with(json!("x")), 400, "HTTPBadRequest"),
            (with(json!({"colour": 1})), 400, "HTTPBadRequest"),
            (with(json!({"correlation": "vlan"})), 400, "HTTPBadRequest"),
            (with(json!({"weight": "x"})), 400, "InvalidInput"),
            (with(json!({"weight": -1})), 400, "HTTPBadRequest"),
        ],
    );
    // Surprise 2 of the original: what is not given is filled in.
    let filled = controller.create(pairs, &with(json!({"weight": "3"})));
    assert_eq!(filled["service_function_parameters"], json!({"correlation": null, "weight": 3}));
    let (status, body) = controller.post(pairs, &pair(&a, &b));
    assert_eq!((status, kind(&body)), (400, "PortPairIngressEgressInUse"));
    let mpls = json!({"ingress": b, "egress": a,
                      "service_function_parameters": {"correlation": "mpls"}});
    let mpls = id(&controller.create(pairs, &mpls));
    let third = id(&controller.create(pairs, &pair(&other, &other)));
    let filled = id(&filled);

    let groups = "/v2.0/sfc/port_pair_groups";
    let parameters = |value: Value| json!({ "port_pair_group_parameters": value });
    let tuple =
        |tuple: Value| parameters(json!({"ppg_n_tuple_mapping": {"ingress_n_tuple": tuple}}));
    let tap = json!({"port_pairs": [filled, third], "tap_enabled": true});
    check_posts(
        controller,
        groups,
        &[
            (json!({"port_pairs": null}), 201, ""),
            (json!({"port_pairs": [filled, third]}), 201, ""),
            (json!({"port_pairs": [filled, filled]}), 400, "HTTPBadRequest"),
            (json!({"port_pairs": ["abc"]}), 400, "HTTPBadRequest"),
            (json!({"port_pairs": [UNKNOWN]}), 404, "PortPairNotFound"),
            (json!({"port_pairs": [filled, mpls]}), 400, "InconsistentCorrelations"),
            (json!({"port_pairs": [third], "tap_enabled": "true"}), 201, ""),
            (tap, 400, "MultiplePortPairsInTapPPGNotSupported"),
            (json!({"tap_enabled": "perhaps"}), 400, "InvalidInput"),
            (json!({"group_id": 5}), 400, "HTTPBadRequest"),
            (parameters(json!({"lb_fields": ["ip_src", "tcp_dst"]})), 201, ""),
            (parameters(json!({"lb_fields": ["colour"]})), 400, "HTTPBadRequest"),
            (parameters(json!({"lb_fields": "ip_src"})), 400, "HTTPBadRequest"),
            (parameters(json!("x")), 400, "HTTPBadRequest"),
            (tuple(json!({"source_ip_prefix": "10.0.0.0/8"})), 201, ""),
            (tuple(json!({"source_ip_prefix": "x"})), 400, "HTTPBadRequest"),
            (tuple(json!({"colour": 1})), 400, "PPGParametersInvalidNTupleMappingParameter"),
        ],
    );
    let first = controller.create(groups, &json!({"port_pairs": [filled]}));
    assert_eq!(first["group_id"], 1, "numbers are used again");
    let second = controller.create(groups, &json!({}));
    assert_eq!(second["group_id"], 2);
    let in_use = |(status, body): (u16, Value), expected: &str| {
        assert_eq!((status, kind(&body)), (409, expected), "{body}");
    };
    in_use(controller.post(groups, &json!({"port_pairs": [filled]})), "PortPairInUse");
    let steal = json!({"port_pairs": [filled]});
    in_use(controller.put(&format!("{groups}/{}", id(&second)), &steal), "PortPairInUse");
    in_use(controller.call("DELETE", &format!("{pairs}/{filled}"), None), "PortPairInUse");
    in_use(controller.call("DELETE", &format!("/v2.0/ports/{a}"), None), "PortInUse");
    in_use(
        controller.call("DELETE", &format!("/v2.0/networks/{}", lab.network), None),
        "NetworkInUse",
    );
    let chain = json!({"port_pair_groups": [id(&first)]});
    controller.create("/v2.0/sfc/port_chains", &chain);
    let group = format!("{groups}/{}", id(&first));
    in_use(controller.call("DELETE", &group, None), "PortPairGroupInUse");
}

#[test]
fn port_chain_rules_of_3_4() {
    let bench = bench();
    let controller = &bench.controller;
    let lab = Lab::new(controller);
    let source = lab.port("S", "S", "host1");
    let other_source = lab.port("T", "T", "host1");
    let (f1, f2) = (lab.function_on("v1", "host1"), lab.function_on("v2", "host1"));
    let groups = "/v2.0/sfc/port_pair_groups";
    let tap =
        |name: &str| id(&controller.create(groups, &json!({"name": name, "tap_enabled": true})));
    let (t1, t2) = (tap("t1"), tap("t2"));
    let port = lab.port("m", "m", "host1");
    let pair = json!({"ingress": port, "egress": port,
                      "service_function_parameters": {"correlation": "mpls"}});
    let pair = id(&controller.create("/v2.0/sfc/port_pairs", &pair));
    let mpls = id(&controller.create(groups, &json!({"port_pairs": [pair]})));
    let fc = lab.classifier("fc1", &source, 1);
    let path = "/v2.0/sfc/port_chains";
    let of = |groups: Value| json!({ "port_pair_groups": groups });
    let with = |key: &str, value: Value| json!({ "port_pair_groups": [f1], key: value });
    let inconsistent = "PortChainInconsistentCorrelations";
    let nsh = json!({"port_pair_groups": [mpls], "chain_parameters": {"correlation": "nsh"}});
    check_posts(
        controller,
        path,
        &[
            (of(json!([f1])), 201, ""),
            (of(json!(f1)), 201, ""),
            (of(json!([])), 400, "PortPairGroupNotSpecified"),
            (of(json!(null)), 400, "PortPairGroupNotSpecified"),
            (of(json!(["abc"])), 400, "HTTPBadRequest"),
            (of(json!([f1, f1])), 400, "HTTPBadRequest"),
            (of(json!([UNKNOWN])), 404, "PortPairGroupNotFound"),
            (of(json!([f1, t1, t2])), 201, ""),
            (of(json!([t1, f1, t2])), 201, ""),
            (nsh, 400, inconsistent),
            (of(json!([mpls])), 201, ""),
            (with("flow_classifiers", json!(fc)), 201, ""),
            (with("flow_classifiers", json!(null)), 201, ""),
            (with("flow_classifiers", json!(["abc"])), 400, "HTTPBadRequest"),
            (with("flow_classifiers", json!([UNKNOWN])), 404, "FlowClassifierNotFound"),
            (with("chain_parameters", json!({})), 201, ""),
            (with("chain_parameters", json!({"symmetric": "false"})), 201, ""),
            (with("chain_parameters", json!({"symmetric": "x"})), 400, "InvalidInput"),
            (with("chain_parameters", json!({"correlation": null})), 400, "HTTPBadRequest"),
            (with("chain_parameters", json!({"colour": 1})), 400, "HTTPBadRequest"),
            (with("chain_id", json!(65_535)), 201, ""),
            (with("chain_id", json!(65_536)), 400, "HTTPBadRequest"),
            (with("chain_id", json!("x")), 400, "InvalidInput"),
            (with("status", json!("active")), 400, "HTTPBadRequest"),
        ],
    );
    let first = json!({"port_pair_groups": [f1, f2], "flow_classifiers": [fc], "chain_id": 7});
    let first = controller.create(path, &first);
    let reversed = controller.create(path, &of(json!([f2, f1])));
    assert_eq!((&first["chain_id"], &reversed["chain_id"]), (&json!(7), &json!(1)));
    let basic = json!({"protocol": "udp", "logical_source_port": other_source,
                       "destination_port_range_min": 1, "destination_port_range_max": 5});
    let overlapping = id(&controller.create("/v2.0/sfc/flow_classifiers", &basic));
    check_posts(
        controller,
        path,
        &[
            (of(json!([f1, f2])), 409, "InvalidPortPairGroups"),
            (with("chain_id", json!(7)), 400, "PortChainChainIdInConflict"),
            (with("flow_classifiers", json!([fc])), 409, "FlowClassifierInUse"),
            (
                with("flow_classifiers", json!([overlapping])),
                400,
                "PortChainFlowClassifierInConflict",
            ),
        ],
    );
    let item = format!("{path}/{}", id(&first));
    let (status, body) = controller.put(&item, &of(json!([mpls, f1])));
    assert_eq!(status, 200, "the chain speaks mpls: {body}");
    let nsh = json!({"port_pair_groups": [t1], "chain_parameters": {"correlation": "nsh"}});
    let nsh = format!("{path}/{}", id(&controller.create(path, &nsh)));
    // Surprise 3 of the original: an update is checked like a creation.
    let (status, body) = controller.put(&nsh, &of(json!([mpls])));
    assert_eq!((status, kind(&body)), (400, inconsistent));
    let (status, body) =
        controller.call("DELETE", &format!("/v2.0/sfc/flow_classifiers/{fc}"), None);
    assert_eq!((status, kind(&body)), (409, "FlowClassifierInUse"));
    assert_eq!(controller.put(&item, &json!({"flow_classifiers": []})).0, 200);
    let classifier = format!("/v2.0/sfc/flow_classifiers/{fc}");
    assert_eq!(controller.call("DELETE", &classifier, None).0, 204);
}

#[test]
fn an_interface_of_a_node_belongs_to_one_port() {
    let bench = bench();
    let controller = &bench.controller;
    let network = id(&controller.create("/v2.0/networks", &json!({})));
    let port = |host: &str, profile: Value| json!({"network_id": network, "binding:host_id": host, "binding:profile": profile});
    let profile = json!({"netns": "v1", "interface": "eth0"});
    let first = controller.create("/v2.0/ports", &port("host1", profile.clone()));
    let (status, body) = controller.post("/v2.0/ports", &port("host1", profile.clone()));
    assert_eq!((status, kind(&body)), (409, "InterfaceInUse"));
    assert!(message(&body).contains(&id(&first)), "{body}");
    let elsewhere = controller.create("/v2.0/ports", &port("host2", profile.clone()));
    let item = format!("/v2.0/ports/{}", id(&elsewhere));
    let (status, body) = controller.put(&item, &json!({"binding:host_id": "host1"}));
    assert_eq!((status, kind(&body)), (409, "InterfaceInUse"));
    let other = json!({"netns": "v1", "interface": "eth1"});
    controller.create("/v2.0/ports", &port("host1", other));
    // Itself is not in its own way, and what is nowhere is in nobody's.
    let item = format!("/v2.0/ports/{}", id(&first));
    assert_eq!(controller.put(&item, &json!({"binding:profile": profile})).0, 200);
    controller.create("/v2.0/ports", &port("", profile.clone()));
    controller.create("/v2.0/ports", &port("", profile));
}

#[test]
fn networks_subnets_and_ports_give_out_what_is_free() {
    let bench = bench();
    let controller = &bench.controller;
    let network = id(&controller.create("/v2.0/networks", &json!({})));
    let other = controller.create("/v2.0/networks", &json!({"mtu": 1_300}));
    assert_eq!(other["provider:segmentation_id"], 2);
    assert_eq!(other["mtu"], 1_300);
    let on = |cidr: &str, key: &str, value: Value| json!({"network_id": network, "cidr": cidr, key: value});
    check_posts(
        controller,
        "/v2.0/subnets",
        &[
            (on("10.0.0.0/24", "ip_version", json!(4)), 201, ""),
            (on("2001:db8::/64", "ip_version", json!(6)), 201, ""),
            (on("10.0.0.0/24", "ip_version", json!(6)), 400, "InvalidInput"),
            (on("10.0.0.0", "ip_version", json!(4)), 400, "InvalidInput"),
            (on("10.0.0.0/24", "gateway_ip", json!(null)), 201, ""),
            (on("10.0.0.0/24", "gateway_ip", json!("10.0.1.1")), 400, "InvalidInput"),
            (on("10.0.0.0/24", "gateway_ip", json!("10.0.0.255")), 400, "InvalidInput"),
            (on("10.0.0.0/24", "gateway_ip", json!("x")), 400, "HTTPBadRequest"),
            (on("10.0.0.0/24", "enable_dhcp", json!(true)), 400, "HTTPBadRequest"),
            (json!({"network_id": UNKNOWN, "cidr": "10.0.0.0/24"}), 404, "NetworkNotFound"),
        ],
    );
    let subnet = controller.create("/v2.0/subnets", &on("10.0.0.9/29", "name", json!("s")));
    assert_eq!(
        (&subnet["cidr"], &subnet["gateway_ip"]),
        (&json!("10.0.0.8/29"), &json!("10.0.0.9"))
    );
    let (status, body) = controller.post("/v2.0/subnets", &on("10.0.0.0/8", "name", json!("")));
    assert_eq!((status, kind(&body)), (400, "InvalidInput"), "overlaps");
    let port = |key: &str, value: Value| json!({"network_id": network, key: value});
    let address = |address: &str| json!([{ "ip_address": address }]);
    let profile = |profile: Value| port("binding:profile", profile);
    check_posts(
        controller,
        "/v2.0/ports",
        &[
            (port("fixed_ips", address("10.0.0.14")), 201, ""),
            (port("fixed_ips", json!([])), 201, ""),
            (port("fixed_ips", json!([{"subnet_id": subnet["id"]}])), 201, ""),
            (port("fixed_ips", json!([{"subnet_id": UNKNOWN}])), 404, "SubnetNotFound"),
            (port("fixed_ips", address("10.0.0.15")), 400, "InvalidIpForSubnet"),
            (port("fixed_ips", address("10.1.0.1")), 400, "InvalidIpForNetwork"),
            (port("fixed_ips", address("x")), 400, "HTTPBadRequest"),
            (port("fixed_ips", json!([{}])), 400, "HTTPBadRequest"),
            (port("mac_address", json!("02:00:00:00:00:01")), 201, ""),
            (port("mac_address", json!("01:00:5e:00:00:01")), 400, "HTTPBadRequest"),
            (port("mac_address", json!("02:ca:7e:00:00:01")), 400, "HTTPBadRequest"),
            (port("mac_address", json!("x")), 400, "HTTPBadRequest"),
            (port("binding:host_id", json!("-bad")), 400, "HTTPBadRequest"),
            (port("binding:host_id", json!("host1")), 201, ""),
            (profile(json!({"netns": "v1", "interface": "eth0"})), 201, ""),
            (profile(json!({"pid": 17, "interface": "eth0"})), 201, ""),
            (profile(json!({"interface": "tap0"})), 201, ""),
            (profile(json!({"netns": "v1"})), 400, "HTTPBadRequest"),
            (profile(json!({"netns": "../v1", "interface": "eth0"})), 400, "HTTPBadRequest"),
            (profile(json!({"netns": "v1", "pid": 1, "interface": "e"})), 400, "HTTPBadRequest"),
            (profile(json!({"interface": "eth0", "own_traffic": "all"})), 201, ""),
            (profile(json!({"interface": "eth0", "own_traffic": "some"})), 400, "HTTPBadRequest"),
            (profile(json!({"pid": 0, "interface": "eth0"})), 400, "HTTPBadRequest"),
            (profile(json!({"interface": "a-name-that-is-too-long"})), 400, "HTTPBadRequest"),
            (profile(json!({"colour": "red"})), 400, "HTTPBadRequest"),
        ],
    );
    let mut given = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let port = controller.create("/v2.0/ports", &json!({"network_id": network}));
        given.insert(port["fixed_ips"][0]["ip_address"].as_str().unwrap().to_owned());
    }
    let expected = ["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"];
    assert_eq!(given, expected.map(String::from).into());
    let (status, body) = controller.post("/v2.0/ports", &json!({"network_id": network}));
    assert_eq!((status, kind(&body)), (409, "IpAddressGenerationFailure"));
    let (status, body) = controller.post("/v2.0/ports", &port("fixed_ips", address("10.0.0.10")));
    assert_eq!((status, kind(&body)), (409, "IpAddressAlreadyAllocated"));
    let subnet = format!("/v2.0/subnets/{}", id(&subnet));
    let (status, body) = controller.call("DELETE", &subnet, None);
    assert_eq!((status, kind(&body)), (409, "SubnetInUse"));
}

#[test]
fn a_name_holds_nothing_that_cannot_be_seen() {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(folder.path()));
    let lab = Lab::new(&controller);
    let port = lab.loose_port("v1", "v1");
    let pair = json!({"name": "v1", "ingress": port, "egress": port});
    let pair = id(&controller.create("/v2.0/sfc/port_pairs", &pair));
    let rule = json!({"name": "web", "logical_source_port": port, "protocol": "udp"});
    let rule = id(&controller.create("/v2.0/sfc/flow_classifiers", &rule));
    let group = json!({"name": "v1", "port_pairs": [pair]});
    let group = id(&controller.create("/v2.0/sfc/port_pair_groups", &group));
    for (path, attribute) in [
        ("/v2.0/networks", "name"),
        ("/v2.0/subnets", "name"),
        ("/v2.0/ports", "name"),
        ("/v2.0/ports", "device_id"),
        ("/v2.0/sfc/flow_classifiers", "name"),
        ("/v2.0/sfc/port_pairs", "name"),
        ("/v2.0/sfc/port_pair_groups", "name"),
        ("/v2.0/sfc/port_chains", "name"),
        ("/v2.0/sfc/service_graphs", "name"),
        ("/v2.0/networks", "project_id"),
    ] {
        for unseen in ['\n', '\u{1b}', '\u{7f}', '\u{9b}', '\u{202e}', '\u{200b}'] {
            let mut given = json!({
                "network_id": lab.network, "cidr": "10.9.0.0/24", "ip_version": 4,
                "ingress": port, "egress": port, "port_pair_groups": [group],
                "flow_classifiers": [rule], "port_chains": {},
            });
            let takes: &[&str] = match path.rsplit('/').next().unwrap() {
                "subnets" => &["network_id", "cidr", "ip_version"],
                "ports" => &["network_id"],
                "port_pairs" => &["ingress", "egress"],
                "port_chains" => &["port_pair_groups", "flow_classifiers"],
                "service_graphs" => &["port_chains"],
                _ => &[],
            };
            given.as_object_mut().unwrap().retain(|key, _| takes.contains(&key.as_str()));
            given[attribute] = json!(format!("web{unseen}forged"));
            let (status, body) = controller.post(path, &given);
            assert_eq!(status, 400, "{path} {attribute} {unseen:?}: {body}");
            let message = body["NeutronError"]["message"].as_str().unwrap();
            let code = format!("U+{:04X}", u32::from(unseen));
            assert!(message.contains(attribute) && message.contains(&code), "{message}");
        }
    }
    let network = format!("/v2.0/networks/{}", lab.network);
    assert_eq!(controller.put(&network, &json!({"name": "a\u{7}"})).0, 400);
    let fine = json!({"name": "\"web\" \\ 漢 é", "description": "two\nlines"});
    assert_eq!(controller.put(&network, &fine).0, 200);
    let slice = json!({"name": "a\nb", "chain": "web", "vni": 7, "teid": 1});
    let (status, body) = controller.call("POST", "/v1/slices", Some(&slice));
    assert_eq!(status, 400, "{body}");
    assert!(body["detail"].as_str().unwrap().contains("cannot be seen"), "{body}");
}
