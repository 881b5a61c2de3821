//! What holds for every request: versions, paths, methods, tokens, bodies of any bytes.

use crate::support::lab::id;
use crate::support::{Controller, kind, open};
use catena_controller::{Auth, Config, ControllerError, ListenerSource};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn a_client_finds_the_api_under_the_name_it_used() {
    let data = tempfile::tempdir().unwrap();
    let mut config = open(data.path());
    config.auth = Auth::Token;
    let controller = Controller::start(config);
    let (http, url) = controller.raw();
    let answer = http.get(url).header("Host", "net.example:9696").send().unwrap();
    assert_eq!(answer.status(), 200);
    assert!(!answer.headers().contains_key("x-openstack-request-id"));
    let versions: Value = answer.json().unwrap();
    assert_eq!(versions["versions"][0]["links"][0]["href"], "http://net.example:9696/v2.0/");
}

#[test]
fn extensions_are_told_one_by_one() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let (http, url) = controller.raw();
    let answer = http.get(format!("{url}/v2.0/extensions/sfc")).send().unwrap();
    let request_id = answer.headers()["x-openstack-request-id"].to_str().unwrap().to_owned();
    assert!(request_id.starts_with("req-") && request_id.len() == 40, "{request_id}");
    assert_eq!(answer.json::<Value>().unwrap()["extension"]["alias"], "sfc");
    let unknown = http.get(format!("{url}/v2.0/extensions/x")).send().unwrap();
    assert_eq!(unknown.status(), 404);
    assert!(unknown.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
    let resources = controller.get("/v2.0/")["resources"].as_array().unwrap().len();
    assert_eq!(resources, 8);
}

#[test]
fn paths_and_methods_are_answered_as_the_original_does() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let group = id(&controller.create("/v2.0/sfc/port_pair_groups", &json!({"name": "g"})));
    let item = format!("/v2.0/sfc/port_pair_groups/{group}");
    for (method, path, status, expected) in [
        ("GET", "/v2.0/sfc/nothing", 404, "HTTPNotFound"),
        ("GET", "/v2.0/nothing", 404, "HTTPNotFound"),
        ("GET", "/v2.0/sfc/port_pair_groups/a/b", 404, "HTTPNotFound"),
        ("GET", "/v2.0/sfc/port_pair_groups.xml", 404, "HTTPNotFound"),
        ("PUT", "/v2.0/sfc/port_pair_groups", 404, "HTTPNotFound"),
        ("DELETE", "/v2.0/sfc/port_pair_groups", 404, "HTTPNotFound"),
        ("PATCH", "/v2.0/sfc/port_pair_groups", 405, "HTTPMethodNotAllowed"),
        ("POST", &item, 405, "HTTPMethodNotAllowed"),
        ("PATCH", &item, 405, "HTTPMethodNotAllowed"),
        ("GET", "/v2.0/sfc/port_pair_groups/g", 404, "PortPairGroupNotFound"),
    ] {
        let (got, body) = controller.call(method, path, None);
        assert_eq!((got, kind(&body)), (status, expected), "{method} {path}");
    }
    assert_eq!(controller.get(&format!("{item}.json"))["port_pair_group"]["name"], "g");
    let one = controller.get(&format!("{item}?fields=name&fields=nothing"));
    assert_eq!(one, json!({"port_pair_group": {"name": "g"}}));
    let list = controller.get("/v2.0/sfc/port_pair_groups.json?name=g&fields=name");
    assert_eq!(list, json!({"port_pair_groups": [{"name": "g"}]}));
    let none = controller.get("/v2.0/sfc/port_pair_groups?name=h&tap_enabled=false");
    assert_eq!(none, json!({"port_pair_groups": []}));
    for (method, path, status) in
        [("GET", "/v1/nothing", 404), ("DELETE", "/v1/status", 405), ("GET", "/v1/chains/x", 404)]
    {
        let (got, problem) = controller.call(method, path, None);
        assert_eq!((got, &problem["status"]), (status, &json!(status)), "{method} {path}");
        assert!(problem["detail"].as_str().unwrap().len() > 10, "{problem}");
    }
    let (http, url) = controller.raw();
    let problem = http.get(format!("{url}/v1/nothing")).send().unwrap();
    assert_eq!(problem.headers()["content-type"], "application/problem+json");
}

#[test]
fn bodies_that_are_no_json_or_too_large_are_refused_by_name() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let (http, url) = controller.raw();
    let post = |body: Vec<u8>| {
        let request = http.post(format!("{url}/v2.0/networks")).body(body);
        let answer = request.header("Content-Type", "application/json").send().unwrap();
        (answer.status().as_u16(), answer.json::<Value>().unwrap())
    };
    let nested = "[".repeat(100_000).into_bytes();
    for broken in [&b"{"[..], b"  \n", b"\xff\xfe", b"{\"network\": nan}", b"{}{}", &nested] {
        let (status, body) = post(broken.to_vec());
        assert_eq!((status, kind(&body)), (400, "MalformedRequestBody"));
    }
    for empty in [&b""[..], b"null", b"7"] {
        let (status, body) = post(empty.to_vec());
        assert_eq!((status, kind(&body)), (400, "HTTPBadRequest"));
    }
    let (status, body) = post(vec![b' '; 1024 * 1024 + 1]);
    assert_eq!((status, kind(&body)), (413, "HTTPRequestEntityTooLarge"));
    let mut largest = json!({"network": {"name": "n"}}).to_string().into_bytes();
    largest.resize(1024 * 1024, b' ');
    assert_eq!(post(largest).0, 201);
}

#[test]
fn what_a_browser_sends_for_a_foreign_page_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let (http, url) = controller.raw();
    let body = json!({"network": {"name": "n"}}).to_string();
    let post = |content_type: Option<&str>| {
        let request = http.post(format!("{url}/v2.0/networks")).body(body.clone());
        let request = match content_type {
            Some(content_type) => request.header("Content-Type", content_type),
            None => request,
        };
        request.send().unwrap()
    };
    // A page may send these to any address without asking; JSON it may not.
    for simple in
        [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("text/json")]
    {
        let answer = post(simple);
        assert_eq!(answer.status(), 415, "{simple:?}");
        assert_eq!(kind(&answer.json().unwrap()), "HTTPUnsupportedMediaType");
    }
    for json in ["application/json", "Application/JSON; charset=utf-8"] {
        assert_eq!(post(Some(json)).status(), 201, "{json}");
    }
    // A name of the page's own that leads here (DNS rebinding).
    for path in ["/", "/v2.0/networks", "/v1/status", "/metrics"] {
        let get = |host: &str| {
            let request = http.get(format!("{url}{path}")).header("Host", host);
            request.send().unwrap().status().as_u16()
        };
        for strange in ["page.example", "page.example:9696", "192.0.2.1", "localhost.example", ""] {
            assert_eq!(get(strange), 403, "{strange} {path}");
        }
        for own in
            ["localhost", "LOCALHOST:9696", "127.0.0.1", "127.8.9.1:1", "[::1]:9696", "[::1]"]
        {
            assert_eq!(get(own), 200, "{own} {path}");
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!("10.0.0.1/24")),
        Just(json!("7d4f6a0e-97a9-4f29-8f0a-3a2b6d1d8c55")),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn no_value_of_any_attribute_breaks_the_server() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let network = id(&controller.create("/v2.0/networks", &json!({})));
    let subnet = json!({"network_id": network, "cidr": "10.0.0.0/16"});
    controller.create("/v2.0/subnets", &subnet);
    let attributes = [
        ("/v2.0/networks", "mtu"),
        ("/v2.0/networks", "name"),
        ("/v2.0/subnets", "cidr"),
        ("/v2.0/subnets", "gateway_ip"),
        ("/v2.0/ports", "fixed_ips"),
        ("/v2.0/ports", "binding:profile"),
        ("/v2.0/ports", "mac_address"),
        ("/v2.0/sfc/flow_classifiers", "source_ip_prefix"),
        ("/v2.0/sfc/flow_classifiers", "l7_parameters"),
        ("/v2.0/sfc/port_pairs", "ingress"),
        ("/v2.0/sfc/port_pair_groups", "port_pair_group_parameters"),
        ("/v2.0/sfc/port_pair_groups", "port_pairs"),
        ("/v2.0/sfc/port_chains", "port_pair_groups"),
        ("/v2.0/sfc/port_chains", "chain_parameters"),
        ("/v2.0/sfc/port_chains", "chain_id"),
        ("/v2.0/sfc/service_graphs", "port_chains"),
    ];
    let config = ProptestConfig { cases: 300, ..ProptestConfig::default() };
    proptest!(config, |(which in 0..attributes.len(), value in json_value())| {
        let (path, attribute) = attributes[which];
        let mut body = json!({"network_id": network, "cidr": "10.1.0.0/24"});
        let needed = path.ends_with("ports") || path.ends_with("subnets");
        if !needed {
            body = json!({});
        } else if path.ends_with("ports") {
            body.as_object_mut().unwrap().remove("cidr");
        }
        body[attribute] = value;
        let (status, answer) = controller.post(path, &body);
        prop_assert!(status < 500, "{} {}: {}", path, body, answer);
        if status >= 400 {
            prop_assert!(kind(&answer) != "no NeutronError", "{}", answer);
        } else {
            controller.call("DELETE", &format!("{path}/{}", id(&answer)), None);
        }
    });
}

#[test]
fn without_the_token_nothing_is_told_but_the_versions() {
    let data = tempfile::tempdir().unwrap();
    let mut config = open(data.path());
    config.auth = Auth::Token;
    let controller = Controller::start(config);
    let (http, url) = controller.raw();
    assert_eq!(controller.call("GET", "/", None).0, 200);
    for path in ["/v2.0/networks", "/v2.0/", "/v2.0/extensions", "/v2.0/nothing"] {
        let (status, body) = controller.call("GET", path, None);
        assert_eq!((status, kind(&body)), (401, "HTTPUnauthorized"), "{path}");
    }
    for path in ["/v1/status", "/v1/nodes", "/metrics", "/nothing"] {
        let (status, body) = controller.call("GET", path, None);
        assert_eq!((status, &body["status"]), (401, &json!(401)), "{path}");
    }
    let network = json!({"network": {"name": "n"}});
    let wrong = http.post(format!("{url}/v2.0/networks")).header("X-Auth-Token", "wrong");
    assert_eq!(wrong.json(&network).send().unwrap().status(), 401);
}

#[test]
fn an_open_api_is_refused_beyond_loopback() {
    let data = tempfile::tempdir().unwrap();
    let everywhere = ListenerSource::Address("0.0.0.0:0".parse().unwrap());
    let mut config = Config::new(everywhere, data.path());
    config.auth = Auth::None;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime.block_on(catena_controller::run(config)).unwrap_err();
    assert!(matches!(error, ControllerError::OpenApi(_)), "{error}");
    assert!(error.to_string().contains("use 'token'"), "{error}");
}

#[test]
fn tokens_do_not_travel_in_the_clear_beyond_loopback() {
    let data = tempfile::tempdir().unwrap();
    let everywhere = ListenerSource::Address("0.0.0.0:0".parse().unwrap());
    let config = Config::new(everywhere, data.path());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let run = async {
        tokio::select! {
            // Whatever serves does not end; whatever refuses is there first.
            biased;
            end = catena_controller::run(config) => end,
            () = tokio::task::yield_now() => Ok(()),
        }
    };
    let error = runtime.block_on(run).expect_err("it serves tokens to everybody");
    assert!(matches!(error, ControllerError::PlainHttp(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("TLS") && text.contains("loopback"), "{text}");
}
