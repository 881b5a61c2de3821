//! What a list may be asked: filters, order, pages, attributes. The expected answers are those of
//! the original server where it has one.
// Values are made where they are passed.
#![allow(clippy::needless_pass_by_value)]

use crate::support::lab::{Lab, id};
use crate::support::{Controller, kind, message, with_controller};
use serde_json::{Value, json};

const GROUPS: &str = "/v2.0/sfc/port_pair_groups";

/// Names of what a query finds.
fn names(controller: &Controller, query: &str) -> Vec<String> {
    let (path, _) = query.split_once('?').unwrap();
    let body = controller.get(query);
    let items = body[path.rsplit('/').next().unwrap()].as_array().unwrap();
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

fn refusal(controller: &Controller, query: &str) -> (u16, String) {
    let (status, body) = controller.call("GET", query, None);
    assert!(status == 200 || message(&body).len() > 10, "{body}");
    (status, kind(&body).to_owned())
}

fn group(controller: &Controller, name: &str, more: Value) -> String {
    let mut group = json!({ "name": name });
    group.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    id(&controller.create(GROUPS, &group))
}

#[test]
fn repeated_keys_mean_or_different_keys_mean_and_and_unknown_ones_nothing() {
    with_controller(|controller| {
        let a = group(controller, "a", json!({"description": "x"}));
        group(controller, "a", json!({"tap_enabled": true}));
        group(controller, "b", json!({"tap_enabled": true, "description": "x"}));
        group(controller, "", json!({}));
        for (query, expected) in [
            ("name=a".to_owned(), &["a", "a"][..]),
            ("name=a&name=b".to_owned(), &["a", "a", "b"]),
            ("name=a&tap_enabled=TRUE".to_owned(), &["a"]),
            ("tap_enabled=1&description=x".to_owned(), &["b"]),
            ("name=".to_owned(), &[""]),
            (format!("id={a}"), &["a"]),
            (format!("id={a}&name=b"), &[]),
            ("id=abc".to_owned(), &[]),
            ("group_id=3".to_owned(), &["b"]),
            ("group_id=x".to_owned(), &[]),
            ("project_id=fake_project_id&name=b".to_owned(), &["b"]),
            ("tenant_id=another".to_owned(), &[]),
            ("colour=red&name=b".to_owned(), &["b"]),
            ("name=A".to_owned(), &[]),
        ] {
            let mut found = names(controller, &format!("{GROUPS}?{query}"));
            found.sort();
            assert_eq!(found, expected, "{query}");
        }
    });
}

#[test]
fn filters_take_values_in_every_spelling_and_refuse_what_no_attribute_can_be() {
    with_controller(|controller| {
        let path = "/v2.0/sfc/flow_classifiers";
        let tcp = json!({"name": "t", "protocol": "tcp", "source_port_range_min": 80,
                         "source_ip_prefix": "10.0.0.0/8"});
        controller.create(path, &tcp);
        controller.create(path, &json!({"name": "six", "ethertype": "IPv6"}));
        for (query, expected) in [
            ("protocol=TCP", &["t"][..]),
            ("ethertype=ipv6", &["six"]),
            ("source_port_range_min=80", &["t"]),
            ("source_port_range_min=81", &[]),
            ("source_ip_prefix=10.0.0.0/8", &["t"]),
            ("source_ip_prefix=nonsense", &[]),
            ("logical_source_port=nonsense", &[]),
        ] {
            assert_eq!(names(controller, &format!("{path}?{query}")), expected, "{query}");
        }
        for (query, expected) in [
            ("flow_classifiers?protocol=sctp", "FlowClassifierInvalidProtocol"),
            ("flow_classifiers?ethertype=x", "FlowClassifierInvalidEthertype"),
            ("flow_classifiers?source_port_range_min=x", "FlowClassifierInvalidPortValue"),
            ("flow_classifiers?source_port_range_max=70000", "FlowClassifierInvalidPortValue"),
            ("flow_classifiers?l7_parameters=x", "FlowClassifierInvalidL7Parameter"),
            ("port_pair_groups?tap_enabled=x", "InvalidInput"),
            ("port_chains?chain_id=x", "InvalidInput"),
        ] {
            let (status, found) = refusal(controller, &format!("/v2.0/sfc/{query}"));
            assert_eq!((status, found.as_str()), (400, expected), "{query}");
        }
    });
}

#[test]
fn surprise_6_of_the_original_filters_on_members_filter_and_on_dictionaries_are_ignored() {
    with_controller(|controller| {
        let lab = Lab::new(controller);
        let (v1, v2) = (lab.function_on("v1", "host1"), lab.function_on("v2", "host1"));
        let source = lab.port("S", "S", "host1");
        let rule = lab.classifier("fc", &source, 1);
        let chains = "/v2.0/sfc/port_chains";
        controller.create(chains, &lab.chain("one", &[&v1], &[&rule]));
        controller.create(chains, &lab.chain("two", &[&v1, &v2], &[]));
        let pair = &controller.get(&format!("{GROUPS}/{v1}"))["port_pair_group"]["port_pairs"][0];
        let pair = pair.as_str().unwrap();
        let sorted = |query: String| {
            let mut found = names(controller, &query);
            found.sort();
            found
        };
        assert_eq!(sorted(format!("{GROUPS}?port_pairs={pair}")), ["v1"]);
        assert_eq!(sorted(format!("{chains}?port_pair_groups={v2}")), ["two"]);
        assert_eq!(sorted(format!("{chains}?flow_classifiers={rule}")), ["one"]);
        assert_eq!(sorted(format!("{chains}?flow_classifiers=")), ["two"]);
        for ignored in ["chain_parameters=x", "chain_parameters="] {
            assert_eq!(sorted(format!("{chains}?{ignored}")), ["one", "two"], "{ignored}");
        }
        let pairs = "/v2.0/sfc/port_pairs?service_function_parameters=x";
        assert_eq!(sorted(pairs.into()), ["v1", "v2"]);
        let graph = json!({"name": "g", "port_chains": {}});
        controller.create("/v2.0/sfc/service_graphs", &graph);
        assert_eq!(sorted("/v2.0/sfc/service_graphs?port_chains=x".into()), ["g"]);
    });
}

#[test]
fn ports_are_found_by_their_addresses() {
    with_controller(|controller| {
        let lab = Lab::new(controller);
        lab.loose_port("a", "a");
        lab.loose_port("b", "b");
        for (query, expected) in [
            ("fixed_ips=ip_address%3D10.0.0.3", &["b"][..]),
            ("fixed_ips=ip_address%3D10.0.0.9", &[]),
            ("device_id=a", &["a"]),
        ] {
            assert_eq!(names(controller, &format!("/v2.0/ports?{query}")), expected, "{query}");
        }
        let mac = controller.get("/v2.0/ports?name=a")["ports"][0]["mac_address"].clone();
        let loud = mac.as_str().unwrap().to_uppercase();
        assert_eq!(names(controller, &format!("/v2.0/ports?mac_address={loud}")), ["a"]);
        let network = &lab.network;
        let mut all = names(controller, &format!("/v2.0/ports?network_id={network}"));
        all.sort();
        assert_eq!(all, ["a", "b"]);
    });
}

#[test]
fn every_simple_attribute_has_an_order() {
    with_controller(|controller| {
        for (name, description) in [("b", "1"), ("a", "2"), ("c", "1")] {
            group(controller, name, json!({ "description": description }));
        }
        let sorted = |query: &str| names(controller, &format!("{GROUPS}?{query}")).join("");
        assert_eq!(sorted("sort_key=name&sort_dir=asc"), "abc");
        assert_eq!(sorted("sort_key=name&sort_dir=desc"), "cba");
        assert_eq!(sorted("sort_key=group_id&sort_dir=desc"), "cab");
        let two = "sort_key=description&sort_dir=asc&sort_key=name&sort_dir=desc";
        assert_eq!(sorted(two), "cba");
        for query in [
            "sort_key=name",
            "sort_dir=asc",
            "sort_key=name&sort_key=id&sort_dir=asc",
            "sort_key=colour&sort_dir=asc",
            "sort_key=port_pairs&sort_dir=asc",
            "sort_key=name&sort_dir=up",
        ] {
            let refused = refusal(controller, &format!("{GROUPS}?{query}"));
            assert_eq!(refused, (400, "HTTPBadRequest".to_owned()), "{query}");
        }
    });
}

/// Ids of a page, and the query of each link.
fn page(controller: &Controller, query: &str) -> (Vec<String>, Vec<(String, String)>) {
    let body = controller.get(&format!("{GROUPS}?{query}"));
    let items = body["port_pair_groups"].as_array().unwrap();
    let base = format!("{}{GROUPS}?", controller.url);
    let link = |link: &Value| {
        let href = link["href"].as_str().unwrap().strip_prefix(&base).unwrap();
        (link["rel"].as_str().unwrap().to_owned(), href.to_owned())
    };
    let links = body["port_pair_groups_links"].as_array();
    (items.iter().map(id).collect(), links.into_iter().flatten().map(link).collect())
}

#[test]
fn pages_and_their_links_are_those_of_the_original() {
    with_controller(|controller| {
        let mut ids: Vec<String> =
            ["n", "n", "m"].iter().map(|name| group(controller, name, json!({}))).collect();
        ids.sort();
        let [a, b, c] = [&ids[0], &ids[1], &ids[2]];
        let next = |query: String| ("next".to_owned(), query);
        let previous = |query: String| ("previous".to_owned(), query);
        for (query, items, links) in [
            (
                "limit=2".to_owned(),
                &[a, b][..],
                vec![
                    next(format!("limit=2&marker={b}")),
                    previous(format!("limit=2&marker={a}&page_reverse=True")),
                ],
            ),
            (
                "limit=4".to_owned(),
                &[a, b, c],
                vec![previous(format!("limit=4&marker={a}&page_reverse=True"))],
            ),
            (
                format!("limit=2&marker={b}"),
                &[c],
                vec![previous(format!("limit=2&marker={c}&page_reverse=True"))],
            ),
            (
                format!("limit=1&marker={c}"),
                &[],
                vec![previous("limit=1&page_reverse=True".into())],
            ),
            (
                format!("limit=2&marker={b}&page_reverse=True"),
                &[a],
                vec![next(format!("limit=2&marker={a}"))],
            ),
            (
                "limit=2&page_reverse=True".to_owned(),
                &[b, c],
                vec![
                    next(format!("limit=2&marker={c}")),
                    previous(format!("limit=2&marker={b}&page_reverse=True")),
                ],
            ),
            (
                "limit=2&marker=0a0a0a0a-0b0b-4c0c-8d0d-0e0e0e0e0e0e".to_owned(),
                &[],
                vec![previous("limit=2&page_reverse=True".into())],
            ),
            ("limit=0".to_owned(), &[a, b, c], vec![]),
            (format!("marker={c}"), &[a, b, c], vec![]),
        ] {
            let (found, told) = page(controller, &query);
            assert_eq!(found.iter().collect::<Vec<_>>(), items, "{query}");
            assert_eq!(told, links, "{query}");
        }
        let named = controller.get(&format!("{GROUPS}?limit=1&name=n&fields=name"));
        assert_eq!(named["port_pair_groups"], json!([{"name": "n"}]));
        let href = named["port_pair_groups_links"][0]["href"].as_str().unwrap();
        assert!(href.contains("?limit=1&name=n&fields=name&marker="), "{href}");
        for bad in ["x", "-1", "1.5", ""] {
            let (status, body) = controller.call("GET", &format!("{GROUPS}?limit={bad}"), None);
            assert_eq!((status, kind(&body)), (400, "BadRequest"), "{bad}");
            assert!(message(&body).starts_with("Bad limit request"), "{body}");
        }
    });
}

#[test]
fn whoever_follows_the_links_meets_every_item_once_in_either_direction_and_any_order() {
    with_controller(|controller| {
        for number in 0..7 {
            group(controller, &format!("{}", number % 3), json!({}));
        }
        for order in ["", "&sort_key=name&sort_dir=desc", "&sort_key=name&sort_dir=asc"] {
            let (whole, _) = page(controller, &format!("limit=100{order}"));
            let (mut forward, mut query) = (Vec::new(), format!("limit=2{order}"));
            loop {
                let (items, links) = page(controller, &query);
                forward.extend(items);
                match links.into_iter().find(|(rel, _)| rel == "next") {
                    Some((_, next)) => query = next,
                    None => break,
                }
            }
            assert_eq!(forward, whole, "{order}");
            let (mut backward, mut query) =
                (Vec::new(), format!("limit=2&page_reverse=True{order}"));
            loop {
                let (items, links) = page(controller, &query);
                backward.splice(0..0, items);
                match links.into_iter().find(|(rel, _)| rel == "previous") {
                    Some((_, previous)) => query = previous,
                    None => break,
                }
            }
            assert_eq!(backward, whole, "{order}");
        }
    });
}
