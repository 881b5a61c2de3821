//! Where nodes say that they are: what is of two nodes, or of none, opens no session.

use crate::support::agent::{dial, enroll};
use crate::support::{Controller, open};
use catena_model::topology::NodeRole;
use std::time::Duration;

#[test]
fn an_address_or_a_locator_of_another_node_is_refused_by_name() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let certificates = ["host1", "host2"].map(|node| enroll(data.path(), node));
    // The session's first word, and why it ends; none: it is taken.
    let session = |number: usize, address: &str, locator: &str| -> Option<String> {
        let node = ["host1", "host2"][number];
        let mut first = catena_protocol::session::hello(
            node,
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
        let own = &certificates[number];
        runtime.block_on(async {
            let opened = dial(own, own, controller.southbound, first).await;
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
    };
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
