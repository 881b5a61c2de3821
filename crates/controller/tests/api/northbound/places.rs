//! Where nodes say that they are: what is of two nodes, or of none, opens no session, and what is a node's is no
//! network's.

use crate::support::agent::{dial, enroll};
use crate::support::tokens::{self, Caller};
use crate::support::{Controller, eventually, message, open};
use catena_controller::Auth;
use catena_model::topology::NodeRole;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A controller, and two nodes that tell it where they are.
struct Nodes {
    controller: Controller,
    certificates: [PathBuf; 2],
    runtime: Runtime,
    _data: TempDir,
}

impl Nodes {
    fn new(start: impl FnOnce(&Path) -> Controller) -> Self {
        let data = tempfile::tempdir().unwrap();
        let controller = start(data.path());
        let certificates = ["host1", "host2"].map(|node| enroll(data.path(), node));
        Self { controller, certificates, runtime: Runtime::new().unwrap(), _data: data }
    }

    /// The session's first word, and why it ends; none: it is taken.
    fn session(&self, number: usize, address: &str, locator: &str) -> Option<String> {
        let mut first = catena_protocol::session::hello(
            ["host1", "host2"][number],
            "",
            (format!("192.0.2.{}", number + 1), 1_500),
            NodeRole::Host,
            (Vec::new(), &Default::default()),
            Default::default(),
        );
        if let Some(catena_protocol::message::from_agent::Message::Hello(hello)) =
            &mut first.message
        {
            (hello.segment_address, hello.locator) = (address.into(), locator.into());
        }
        let own = &self.certificates[number];
        self.runtime.block_on(async {
            let opened = dial(own, own, self.controller.southbound, first).await;
            let Ok((_outgoing, mut incoming)) = opened else { return opened.err() };
            loop {
                let told = tokio::time::timeout(Duration::from_millis(300), incoming.message());
                match told.await {
                    Ok(Err(status)) => return Some(status.message().to_owned()),
                    Ok(Ok(Some(_))) => {}
                    Ok(Ok(None)) => return Some("closed without a reason".into()),
                    Err(_) => return None,
                }
            }
        })
    }
}

#[test]
fn an_address_or_a_locator_of_another_node_is_refused_by_name() {
    let nodes = Nodes::new(|data| Controller::start(open(data)));
    let session =
        |number: usize, address: &str, locator: &str| nodes.session(number, address, locator);
    assert_eq!(session(0, "2001:db8::1", "5f00:0:1::/48"), None);
    for (address, locator, parts) in [
        ("2001:db8::1", "5f00:0:2::/48", ["the address 2001:db8::1 in the IPv6", "node 'host1'"]),
        // That of its tunnels.
        ("::ffff:192.0.2.1", "5f00:0:2::/48", ["'::ffff:192.0.2.1' is", "--underlay6"]),
        ("2001:db8::2", "5f00:0:1::/48", ["the locator 5f00:0:1::/48", "node 'host1'"]),
        ("2001:db8::2", "1000::/48", ["'1000::/48' is no locator", "--locator"]),
        ("2001:db8::2", "5f00:0:2::/64", ["'5f00:0:2::/64' is no locator", "--locator"]),
        ("5f00:0:2::7", "5f00:0:2::/48", ["below the locator 5f00:0:2::/48", "--underlay6"]),
        ("::1", "5f00:0:2::/48", ["the loopback address", "--underlay6"]),
        ("fe80::1", "5f00:0:2::/48", ["of one link alone", "--underlay6"]),
        ("ff02::1", "5f00:0:2::/48", ["a multicast group", "--underlay6"]),
        ("192.0.2.9", "5f00:0:2::/48", ["no address", "--underlay6"]),
    ] {
        let error = session(1, address, locator).expect("it is refused");
        for part in parts {
            assert!(error.contains(part), "no '{part}' in '{error}'");
        }
    }
    assert_eq!(session(1, "2001:db8::2", "5f00:0:2::/48"), None);
    // Who moves keeps what is its own alone.
    assert_eq!(session(0, "2001:db8::9", "5f00:0:9::/48"), None);
    assert_eq!(session(1, "2001:db8::1", "5f00:0:1::/48"), None);
}

#[test]
fn a_network_has_no_address_that_is_a_segment_of_a_node() {
    let nodes = Nodes::new(|data| tokens::start(data, Auth::Token));
    let admin = Caller::admin(&nodes.controller);
    let tenant = admin.with_role("t", "p", "tenant");
    let networks = [&admin, &tenant].map(|caller| caller.create("/v2.0/networks", &json!({})));
    let body = |number: usize, cidr: &str| json!({"subnet": {"network_id": networks[number], "cidr": cidr}});
    let ask = |number: usize, cidr: &str| {
        let caller = [&admin, &tenant][number];
        let answer = caller.call("POST", "/v2.0/subnets", Some(&body(number, cidr)));
        (answer.status, answer.json())
    };
    // Nothing is a segment yet.
    let (status, made) = ask(1, "5f00:0:1:7::/64");
    assert_eq!(status, 201, "{made}");
    let made = format!("/v2.0/subnets/{}", made["subnet"]["id"].as_str().unwrap());
    assert_eq!(tenant.call("DELETE", &made, None).status, 204);
    // The node is known also when it is away again.
    assert_eq!(nodes.session(0, "2001:db8::1", "5f00:0:1::/48"), None);
    eventually("the node is known", || {
        let told = admin.call("GET", "/v1/nodes/host1", None).json();
        (told["segments"]["locator"] == "5f00:0:1::/48").then_some(())
    });
    let told = ["the locator 5f00:0:1::/48 of a node", "segments of the data network"];
    for cidr in ["5f00:0:1:7::/64", "5f00:0:1::/48", "5f00::/32", "::/0"] {
        for (number, what) in told.into_iter().enumerate() {
            let (status, told) = ask(number, cidr);
            assert_eq!(status, 400, "{cidr}: {told}");
            let wanted = format!(
                "Invalid input for operation: Requested subnet with cidr: {cidr} overlaps with {what}, \
                 and packets of ports to these are dropped. Choose another cidr."
            );
            assert_eq!(message(&told), wanted);
        }
    }
    for cidr in ["5f00:0:2::/64", "5f00::/48", "0.0.0.0/0"] {
        let (status, told) = ask(1, cidr);
        assert_eq!(status, 201, "{cidr}: {told}");
    }
    // Who comes where a network is already is not kept out by its owner: the operator is told.
    let warnings = || admin.call("GET", "/v1/status", None).json()["warnings"].clone();
    assert_eq!(warnings(), json!([]));
    assert_eq!(nodes.session(1, "2001:db8::2", "5f00:0:2::/48"), None);
    eventually("it is said", || {
        let told = warnings();
        let said = told[0].as_str()?;
        for part in ["subnet 5f00:0:2::/64", "locator 5f00:0:2::/48 of node 'host2'", "--locator"] {
            assert!(said.contains(part), "no '{part}' in '{said}'");
        }
        Some(())
    });
    // One of many at once ends as one alone.
    let (client, base) = nodes.controller.raw();
    let line = body(1, "5f00:0:1:8::/64").to_string();
    let asked = client.post(format!("{base}/v1/bulk")).bearer_auth(tenant.token.unwrap());
    let answer = asked.header("Content-Type", "application/x-ndjson").body(line).send().unwrap();
    let told = answer.text().unwrap();
    assert!(told.contains("overlaps with segments"), "{told}");
}
