//! Chains whose packets visit segments of plain Linux on their way: the kernel of a router says how many it led on,
//! each arrives, and what writes nothing is told of as such.

use crate::account;
use crate::house::{House, in_own_house};
use crate::node::Node;
use crate::patience::wait_for;
use crate::traffic::{Family, Sender, address, send_and_count};
use catena_client::Kind;
use catena_client::deploy::Deployed;
use catena_model::DropReason;
use catena_model::explain::{ExplainQuery, ExplainSubject};
use serde_json::{Value, json};
use std::net::SocketAddr;

const PORT: u16 = 5_061;
const PACKETS: u32 = 200;
/// What the router does for whom (RFC 8986 sections 4.1 to 4.3). The last leads straight to host2, by its address.
const ACTIONS: [(&str, &str); 5] = [
    ("fc00:0:99::e", "End"),
    ("fc00:0:99::f", "End.T table 254"),
    ("fcbb:bb:1::/48", "End flavors next-csid lblen 32 nflen 16"),
    ("fcbb:bb:2::/48", "End flavors next-csid lblen 32 nflen 16"),
    ("fc00:0:99::a", "End.X nh6 2001:db8:30:1::2"),
];
/// What packets visit there; one is a container of two identifiers (RFC 9800).
const SEGMENTS: [&str; 4] = ["fc00:0:99::e", "fc00:0:99::f", "fcbb:bb:1:2::", "fc00:0:99::a"];

/// How many packets a segment has led on, as the router's kernel counts them, and how many it could not.
fn led_on(router: &Node, segment: &str) -> (u64, u64) {
    let told = router.ip(&format!("-6 -s route show {segment}"));
    let count = |name: &str| {
        let mut words = told.split_whitespace().skip_while(|word| *word != name);
        let value = words.nth(1).and_then(|word| word.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {told}"))
    };
    (count("packets"), count("errors"))
}

fn send(house: &House, count: u32) {
    for family in [Family::V4, Family::V6] {
        let to = SocketAddr::new(address("D", family), PORT);
        send_and_count(&house.node("S"), &house.node("D"), to, count);
    }
}

/// Deploys a chain over both functions whose packets, of both families, visit these segments before the second.
fn deploy(house: &House, segments: &[&str]) -> Deployed {
    let chain = house.deploy(json!({
        "name": "led", "source": "S", "destination": "D", "encapsulation": "srv6",
        "chain": ["v1", "v2"], "via": {"v2": segments},
        "match_fields": {"protocol": "udp", "destination_port": PORT},
    }));
    let source = house.client.list(Kind::Port, &[("device_id", "S")]).expect("a list");
    let six = json!({
        "name": "led-six", "ethertype": "IPv6", "protocol": "udp",
        "destination_port_range_min": PORT, "destination_port_range_max": PORT,
        "logical_source_port": source[0]["id"],
    });
    let six = house.client.create(Kind::FlowClassifier, &six).expect("a classifier");
    let both = json!({"flow_classifiers": [chain.classifier, six["id"]]});
    house.client.update(Kind::PortChain, &chain.chain, &both).expect("a chain of both");
    house.wait_active(&chain.chain);
    chain
}

/// What packets with telemetry say of the hops of a chain, once all have been told of.
fn hops(house: &House, chain: &str) -> Vec<Value> {
    wait_for("all packets to be told of", || {
        let told = house.tell(&["chain", "delays", chain, "--output", "json"]);
        let told: Value = serde_json::from_str(&told).expect("it is JSON");
        let is_whole = |path: &&Value| path["taken"]["reports"] == json!(2 * PACKETS);
        let path = told["paths"].as_array().and_then(|paths| paths.iter().find(is_whole));
        path.and_then(|path| path["hops"].as_array().cloned()).ok_or_else(|| told.to_string())
    })
}

#[test]
fn packets_visit_segments_of_plain_linux_and_nobody_takes_their_silence_for_a_fault() {
    in_own_house("routed6.yaml", |house| {
        let (router, host) = (house.node("r1"), house.node("host1"));
        for (segment, action) in ACTIONS {
            router.ip(&format!(
                "-6 route add {segment} encap seg6local action {action} count dev left"
            ));
        }
        host.ip("-6 route add fcbb:bb::/32 via 2001:db8:30::c9 dev data0");
        host.ip("-6 route add fc00:0:99::/48 via 2001:db8:30::c9 dev data0");
        let chain = deploy(house, &SEGMENTS).name;
        let update = |words: &[&str]| {
            house.tell(&[&["chain", "update", &chain], words].concat());
            house.wait_active(&chain);
        };
        let twice = 2 * u64::from(PACKETS);
        send(house, PACKETS);
        for (segment, _) in ACTIONS {
            assert_eq!(led_on(&router, segment), (twice, 0), "{segment}");
        }
        let told = house.tell(&["chain", "show", &chain]);
        assert!(told.contains(&format!("to v2 via {}", SEGMENTS.join(", "))), "{told}");
        for family in [Family::V4, Family::V6] {
            let [from, to] = ["S", "D"].map(|name| SocketAddr::new(address(name, family), PORT));
            let packet = ExplainSubject::Described(format!("udp {from} > {to}"));
            let query =
                ExplainQuery { from: Some("port:S@customer".into()), packet, why_not: None };
            let told = house.client.explain(&query).expect("an explanation");
            assert_eq!(
                told.verdict,
                "delivered by port D@customer of host2 · 2 nodes · 2 functions"
            );
        }
        update(&["--via", "none"]);
        send(house, PACKETS);
        assert_eq!(led_on(&router, SEGMENTS[0]), (twice, 0), "nobody goes there now");

        // Four segments: the first node, two of the router, the last node.
        let two = format!("{{v2: [\"{}\", \"{}\"]}}", SEGMENTS[0], SEGMENTS[1]);
        update(&["--via", &two, "--telemetry", "{mirror: 1}"]);
        send(house, PACKETS);
        assert_eq!(led_on(&router, SEGMENTS[1]), (2 * twice, 0));
        let hops = hops(house, &chain);
        let silent: Vec<&Value> = hops.iter().map(|hop| &hop["silent"]).collect();
        assert_eq!(silent, [0, 2 * PACKETS, 2 * PACKETS, 0], "{hops:?}");

        // Where nobody is, packets end by name.
        update(&["--telemetry", "none", "--via", "{v2: [\"fc00:0:77::e\"]}"]);
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        Sender::new(&house.node("S"), to).send_many(20);
        wait_for("drops by name", || {
            let dropped = account::dropped(house);
            let ended = dropped.get(&("host1".to_owned(), DropReason::NoSegmentRoute)).copied();
            if ended == Some(20) { Ok(()) } else { Err(format!("{dropped:?}")) }
        });
        account::assert_holds(house);
    });
}
