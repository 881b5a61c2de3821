//! Requests of strangers to a real controller on loopback: whatever the body, the answer is an
//! answer, and no fault of ours.

use crate::seeds;
use catena_controller::{Auth, Config, ListenerSource};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

/// Longer than any answer takes; beyond it the controller hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Methods and paths that take a body, each with a body that is good.
const PLACES: &[(&str, &str, &str)] = &[
    ("POST", "/v2.0/networks", r#"{"network": {"name": "n", "tenant_id": "t", "shared": false}}"#),
    (
        "POST",
        "/v2.0/subnets",
        r#"{"subnet": {"network_id": "n", "cidr": "10.0.0.0/24", "ip_version": 4, "gateway_ip": null, "allocation_pools": [{"start": "10.0.0.2", "end": "10.0.0.9"}]}}"#,
    ),
    (
        "POST",
        "/v2.0/ports",
        r#"{"port": {"network_id": "n", "fixed_ips": [{"ip_address": "10.0.0.4"}], "binding:profile": {"interface": "x"}, "binding:host_id": "host1", "device_id": "d"}}"#,
    ),
    (
        "POST",
        "/v2.0/sfc/flow_classifiers",
        r#"{"flow_classifier": {"name": "f", "ethertype": "IPv4", "protocol": "tcp", "source_port_range_min": 1, "source_port_range_max": 9, "source_ip_prefix": "10.0.0.0/8", "logical_source_port": "p", "l7_parameters": {}}}"#,
    ),
    (
        "POST",
        "/v2.0/sfc/port_pairs",
        r#"{"port_pair": {"name": "p", "ingress": "a", "egress": "b", "service_function_parameters": {"correlation": "nsh", "weight": 2}}}"#,
    ),
    (
        "POST",
        "/v2.0/sfc/port_pair_groups",
        r#"{"port_pair_group": {"name": "g", "port_pairs": ["p"], "port_pair_group_parameters": {"lb_fields": ["ip_src"], "ppg_n_tuple_mapping": {"ingress_n_tuple": {}, "egress_n_tuple": {}}}, "tap_enabled": false}}"#,
    ),
    (
        "POST",
        "/v2.0/sfc/port_chains",
        r#"{"port_chain": {"name": "c", "port_pair_groups": ["g"], "flow_classifiers": ["f"], "chain_parameters": {"correlation": "nsh", "symmetric": true}}}"#,
    ),
    (
        "POST",
        "/v2.0/sfc/service_graphs",
        r#"{"service_graph": {"name": "s", "port_chains": {"a": ["b"]}}}"#,
    ),
    ("PUT", "/v2.0/quotas/tenant", r#"{"quota": {"port": 5, "port_chain": 3}}"#),
    ("POST", "/v1/tokens", r#"{"name": "t", "role": "tenant", "project": "p", "lifetime_s": 60}"#),
    ("POST", "/v1/plan", r#"{"chains": []}"#),
    ("POST", "/v1/bulk", r#"{"slice": {"name": "s", "chain": "c", "teids": [1, 5], "vni": 7}}"#),
    (
        "POST",
        "/v1/slices",
        r#"{"name": "s", "chain": "c", "vni": 5, "teids": [1, 9], "qfi": 3, "rate": {"bits_per_second": 1000000, "burst_bytes": 9000}}"#,
    ),
    (
        "POST",
        "/v1/explain",
        r#"{"from": "port", "packet": {"described": "tcp 10.0.0.1:1 > 10.0.0.2:2"}}"#,
    ),
];

/// The first byte chooses the place, the others are the body, or edits of a good one.
pub(crate) fn requests(bytes: &[u8]) {
    let Some((place, rest)) = bytes.split_first() else { return };
    let index = usize::from(*place) % PLACES.len();
    let Some((method, path, good)) = PLACES.get(index) else { return };
    let edited = seeds::edited(serde_json::from_str(good).unwrap(), rest).to_string();
    for body in [rest, edited.as_bytes()] {
        ask(method, path, body);
    }
}

fn ask(method: &str, path: &str, body: &[u8]) {
    let mut stream = TcpStream::connect(controller()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let kind = if path.ends_with("bulk") { "application/x-ndjson" } else { "application/json" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // An answer may come, and the connection end, before a long body is read.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset && !answer.is_empty() => {}
        Err(error) => panic!("{method} {path}: no answer: {error}"),
    }
    let status = answer.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let status = status.unwrap_or_else(|| panic!("{method} {path}: the connection ended"));
    assert_ne!(status, b"500", "{method} {path}: {}", String::from_utf8_lossy(&answer));
}

/// One controller for all inputs of a process; it ends with it.
fn controller() -> SocketAddr {
    static CONTROLLER: OnceLock<SocketAddr> = OnceLock::new();
    *CONTROLLER.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (ready, started) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let data = tempfile::tempdir().unwrap();
            let mut config = Config::new(ListenerSource::Bound(listener), data.path());
            config.auth = Auth::None;
            config.answer_wait = Duration::ZERO;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            ready.send(()).unwrap();
            let end = runtime.unwrap().block_on(catena_controller::run(config));
            panic!("the controller ended: {end:?}");
        });
        started.recv().unwrap();
        address
    })
}
