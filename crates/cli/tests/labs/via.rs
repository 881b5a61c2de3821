//! Chains whose packets visit segments of plain Linux on their way: the kernel of a router says how many it led on, each
//! arrives, and what writes nothing is told of as such.

use crate::account;
use crate::house::{House, in_own_house};
use crate::node::Node;
use crate::patience::wait_for;
use crate::traffic::{Family, Sender, address, send_and_count};
use catena_model::DropReason;
use serde_json::{Value, json};
use std::net::SocketAddr;

const PORT: u16 = 5_061;
const PACKETS: u32 = 200;
/// What the router does for whom (RFC 8986 sections 4.1 to 4.3); the address is that of host2 in its subnet.
const SEGMENTS: [(&str, &str); 3] = [
    ("fc00:0:99::e", "End"),
    ("fc00:0:99::a", "End.X nh6 2001:db8:30:1::2"),
    ("fc00:0:99::f", "End.T table 254"),
];

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

fn chains(house: &House, more: &Value) -> Vec<String> {
    let deploy = |family: Family| {
        let mut chain = json!({
            "name": format!("led-{}", family.ethertype()), "source": "S", "destination": "D",
            "encapsulation": "srv6", "chain": ["v1", "v2"],
            "match_fields": {
                "ethertype": family.ethertype(), "protocol": "udp", "destination_port": PORT,
            },
        });
        chain.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        house.deploy(chain).name
    };
    [Family::V4, Family::V6].map(deploy).into()
}

/// What packets with telemetry say of the hops of a chain, once all have been told of.
fn hops(house: &House, chain: &str) -> Vec<Value> {
    wait_for("all packets to be told of", || {
        let told = house.tell(&["chain", "delays", chain, "--output", "json"]);
        let told: Value = serde_json::from_str(&told).expect("it is JSON");
        let is_whole = |path: &&Value| path["taken"]["reports"] == json!(PACKETS);
        let path = told["paths"].as_array().and_then(|paths| paths.iter().find(is_whole));
        path.and_then(|path| path["hops"].as_array().cloned()).ok_or_else(|| told.to_string())
    })
}

#[test]
fn packets_visit_segments_of_plain_linux_and_nobody_takes_their_silence_for_a_fault() {
    in_own_house("routed6.yaml", |house| {
        let (router, host) = (house.node("r1"), house.node("host1"));
        for (segment, action) in SEGMENTS {
            router.ip(&format!(
                "-6 route add {segment}/128 encap seg6local action {action} count dev left"
            ));
        }
        host.ip("-6 route add fc00:0:99::/48 via 2001:db8:30::c9 dev data0");
        let names = SEGMENTS.map(|(segment, _)| segment);
        let plain = chains(house, &json!({"via": {"v2": names}}));
        send(house, PACKETS);
        for segment in names {
            assert_eq!(led_on(&router, segment), (2 * u64::from(PACKETS), 0), "{segment}");
        }
        let told = house.tell(&["chain", "show", &plain[0]]);
        assert!(told.contains(&format!("to v2 via {}", names.join(", "))), "{told}");
        for chain in &plain {
            house.tell(&["chain", "update", chain, "--via", "none"]);
            house.wait_active(chain);
        }
        send(house, PACKETS);
        assert_eq!(led_on(&router, names[0]).0, 2 * u64::from(PACKETS), "nobody goes there now");

        // Four segments: the first node, two of the router, the last node.
        let both = format!("{{v2: [\"{}\", \"{}\"]}}", names[0], names[1]);
        for chain in &plain {
            house.tell(&["chain", "update", chain, "--via", &both, "--telemetry", "{mirror: 1}"]);
            house.wait_active(chain);
        }
        send(house, PACKETS);
        assert_eq!(led_on(&router, names[1]), (4 * u64::from(PACKETS), 0));
        for chain in &plain {
            let hops = hops(house, chain);
            let silent: Vec<&Value> = hops.iter().map(|hop| &hop["silent"]).collect();
            assert_eq!(silent, [0, PACKETS, PACKETS, 0], "{hops:?}");
        }

        // Where nobody is, packets end by name.
        house.tell(&[
            "chain",
            "update",
            &plain[0],
            "--telemetry",
            "none",
            "--via",
            "{v2: [\"fc00:0:77::e\"]}",
        ]);
        house.wait_active(&plain[0]);
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let mut sender = Sender::new(&house.node("S"), to);
        sender.send_many(20);
        wait_for("drops by name", || {
            let dropped = account::dropped(house);
            let ended = dropped.get(&("host1".to_owned(), DropReason::NoSegmentRoute)).copied();
            if ended == Some(20) { Ok(()) } else { Err(format!("{dropped:?}")) }
        });
        account::assert_holds(house);
    });
}
