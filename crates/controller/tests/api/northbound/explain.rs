//! `POST /v1/explain` as far as no data plane is needed: what is refused, by which words, and that
//! the first node is asked. What data planes answer is shown by `crates/cli/tests/labs/explain.rs`.

use crate::support::agent::FakeAgent;
use crate::support::lab::Lab;
use crate::support::{Controller, eventually, open};
use serde_json::{Value, json};

const PATH: &str = "/v1/explain";

fn ask(controller: &Controller, query: &Value) -> (u16, String) {
    let (status, body) = controller.call("POST", PATH, Some(query));
    (status, body["detail"].as_str().unwrap_or_default().to_owned())
}

fn described(from: &str, packet: &str) -> Value {
    json!({"from": from, "packet": {"described": packet}})
}

#[test]
fn what_cannot_be_explained_says_why_and_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let lab = Lab::new(&controller);
    lab.port("S", "S", "host1");
    lab.loose_port("loose", "loose");
    let ports = controller.get("/v2.0/ports");
    let address = |name: &str| {
        let ports = ports["ports"].as_array().unwrap();
        let port = ports.iter().find(|port| port["name"] == name).unwrap();
        port["fixed_ips"][0]["ip_address"].as_str().unwrap().to_owned()
    };
    let good = format!("udp {}:1 > {}:2", address("S"), address("loose"));
    let strange = format!("udp {}:1 > 10.0.0.250:2", address("S"));
    let far = format!("udp {}:1 > 192.0.2.9:2", address("S"));
    for (query, status, words) in [
        (json!({"packet": {"described": good}}), 400, "name a port by --from"),
        (json!({"from": "S"}), 400, "packet"),
        (described("nobody", &good), 404, "There is no port 'nobody'"),
        (described("S", "udp here > there"), 400, "describes no packet"),
        (described("S", &strange), 409, "Nobody in network 'customer' has the address 10.0.0.250"),
        (described("S", &far), 409, "192.0.2.9, or that of its gateway"),
        (described("loose", &good), 409, "binding:host_id"),
        (described("port:S", &good), 409, "node 'host1' is not connected"),
        (json!({"packet": {"frame": "00"}}), 400, "The frame cannot be read"),
        (json!({"packet": {"frame": "xy"}}), 400, "two hexadecimal digits"),
        (
            json!({"from": "S", "packet": {"next": {"filter": "colour red", "wait_ms": 1}}}),
            400,
            "is no filter",
        ),
        (
            json!({"from": "S", "packet": {"described": good}, "why_not": "web"}),
            404,
            "There is no chain 'web'",
        ),
    ] {
        let (answered, detail) = ask(&controller, &query);
        assert_eq!(answered, status, "{query}: {detail}");
        assert!(detail.contains(words), "{query}: {detail}");
    }
    let (status, _) = controller.call("GET", PATH, None);
    assert_eq!(status, 405);

    // A node that answers something else is no explanation either.
    let _agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let detail = eventually("an answer of the node", || {
        let (_, detail) = ask(&controller, &described("S", &good));
        (!detail.contains("is not connected")).then_some(detail)
    });
    assert!(detail.contains("node 'host1' answered something else"), "{detail}");
}
