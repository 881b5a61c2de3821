//! A chain that cannot stand yet: answered «building» with the reason, traffic stays ordinary and
//! is never sent into half a path; when what is missing comes, it becomes active by itself.

use crate::account::{self, ChainTotal};
use crate::house::{House, in_own_house, in_shared_house};
use crate::patience::wait_for;
use crate::traffic::{Family, Receiver, Sender, address, send_and_count};
use catena_client::Kind;
use catena_model::status::ChainState;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const PORT: u16 = 5_020;
/// Between an answer at once and one after five seconds.
const BETWEEN: Duration = Duration::from_secs(3);

fn document(functions: &[&str]) -> Value {
    let steps: Vec<Value> =
        functions.iter().map(|name| json!({"name": name, "direction": "same"})).collect();
    json!({
        "name": "waiting", "source": "S", "destination": "D", "chain": steps,
        "match_fields": {"protocol": "udp", "destination_port": PORT},
    })
}

fn destination() -> SocketAddr {
    SocketAddr::new(address("D", Family::V4), PORT)
}

/// Traffic passes as if there were no chain: all of it arrives, none is on the chain.
fn assert_ordinary(house: &House, chain: &str) {
    send_and_count(&house.node("S"), &house.node("D"), destination(), 200);
    let counted = ChainTotal::of(&house.chain(chain));
    let on_hops = counted.hops.values().map(|(_, delivered, _)| delivered).sum::<u64>();
    assert_eq!((counted.entered, counted.finished, on_hops), (0, 0, 0), "{counted:?}");
}

/// The next packets take the chain, all of them.
fn assert_taken(house: &House, chain: &str, functions: &[&str]) {
    send_and_count(&house.node("S"), &house.node("D"), destination(), 100);
    account::assert_chain(house, chain, &ChainTotal::whole(100, functions));
}

fn an_unreachable_node(house: &House, cut: &str) {
    let functions = ["v8", "v9"];
    let management = house.node("mgmt");
    management.ip(&format!("link set {cut} down"));
    let start = Instant::now();
    let deployed = house.declare(document(&functions));
    let waited = start.elapsed();
    println!("answered after {waited:?}: {}", deployed.status_reason);
    assert_eq!(deployed.status, "building");
    assert!(deployed.status_reason.contains(cut), "{}", deployed.status_reason);
    assert!(waited > BETWEEN, "it did not wait for the node: {waited:?}");
    assert_ordinary(house, &deployed.chain);
    management.ip(&format!("link set {cut} up"));
    house.wait_active(&deployed.chain);
    assert_taken(house, &deployed.chain, &functions);
    house.wait_settled();
    house.undeploy(&deployed.chain);
}

#[test]
fn an_unreachable_function_node_keeps_the_chain_building_and_is_named() {
    in_shared_house(|house| an_unreachable_node(house, "host3"));
}

#[test]
fn an_unreachable_classifier_node_keeps_the_chain_building_and_is_named() {
    in_shared_house(|house| an_unreachable_node(house, "host1"));
}

/// With a node long gone the controller knows it, and still answers with its name.
#[test]
fn a_node_that_was_away_catches_up() {
    in_shared_house(|house| {
        let management = house.node("mgmt");
        management.ip("link set host3 down");
        let is_away = |node: &catena_model::status::NodeReport| {
            node.status.node.as_str() == "host3" && !node.status.is_connected
        };
        wait_for("host3 noticed as away", || {
            let nodes = house.nodes();
            nodes.iter().find(|node| is_away(node)).map(drop).ok_or("connected".into())
        });
        let deployed = house.declare(document(&["v9"]));
        assert_eq!(deployed.status, "building");
        assert!(deployed.status_reason.contains("host3"), "{}", deployed.status_reason);
        // What does not need the node goes on.
        let beside = json!({
            "name": "beside", "source": "S", "destination": "D",
            "match_fields": {"protocol": "udp", "destination_port": PORT + 1},
            "chain": [{"name": "v8", "direction": "same"}],
        });
        let beside = house.deploy(beside);
        let to = SocketAddr::new(address("D", Family::V4), PORT + 1);
        send_and_count(&house.node("S"), &house.node("D"), to, 100);
        account::assert_chain(house, &beside.chain, &ChainTotal::whole(100, &["v8"]));
        // A chain that came and went meanwhile leaves nothing on the node.
        house.undeploy(&deployed.chain);
        let again = house.declare(document(&["v9", "v8"]));
        assert_eq!(again.status, "building");
        management.ip("link set host3 up");
        house.wait_active(&again.chain);
        assert_taken(house, &again.chain, &["v9", "v8"]);
        house.wait_settled();
    });
}

/// Hardware address of the interface that comes late.
const LATE_MAC: &str = "02:0a:00:00:0f:01";

/// Makes the port of an interface that is not there yet, as a user of the API does; answers the
/// identities of the port and of the function's other one.
fn late_port(house: &House, profile: &Value) -> (Value, Value) {
    let list = |kind, filters: &[(&str, &str)]| house.client.list(kind, filters).expect("a list");
    let network = list(Kind::Network, &[("name", "customer")])[0]["id"].clone();
    let port = json!({
        "name": "v8@late", "network_id": network, "mac_address": LATE_MAC, "device_id": "v8",
        "binding:host_id": "host2", "binding:profile": profile,
    });
    let port = house.client.create(Kind::Port, &port).expect("a port");
    let own = list(Kind::Port, &[("name", "v8@customer")]);
    (port["id"].clone(), own[0]["id"].clone())
}

/// A chain by a function that is entered by one port and left by the other; it is answered without
/// waiting, since nothing but an interface is missing.
fn late_chain(house: &House, ingress: &Value, egress: &Value) -> Value {
    let create = |kind, body: Value| house.client.create(kind, &body).expect("a resource");
    let source = house.client.list(Kind::Port, &[("device_id", "S")]).expect("a list");
    let pair =
        create(Kind::PortPair, json!({"name": "late", "ingress": ingress, "egress": egress}));
    let group = create(Kind::PortPairGroup, json!({"name": "late", "port_pairs": [pair["id"]]}));
    let rule = json!({
        "name": "late", "protocol": "udp", "destination_port_range_min": PORT,
        "destination_port_range_max": PORT, "logical_source_port": source[0]["id"],
    });
    let rule = create(Kind::FlowClassifier, rule);
    let chain = json!({
        "name": "late", "port_pair_groups": [group["id"]], "flow_classifiers": [rule["id"]],
    });
    let start = Instant::now();
    let chain = create(Kind::PortChain, chain);
    assert!(start.elapsed() < BETWEEN, "there is nothing to wait for: {:?}", start.elapsed());
    chain
}

/// Makes the late interface: one end in the function's namespace, the other on its host.
fn plug(house: &House) {
    let host = house.node("host2");
    host.ip(&format!("link add v8.late type veth peer name late address {LATE_MAC}"));
    host.ip(&format!("link set late netns /proc/{}/root/run/netns/v8", house.init()));
    host.ip("link set v8.late mtu 1400 up");
    let function = house.node("v8");
    function.set("net/ipv4/conf/late/rp_filter", "0");
    function.set("net/ipv4/conf/late/send_redirects", "0");
    function.ip("link set late mtu 1400 up");
}

/// Waits until the API says so of a port.
fn wait_port(house: &House, port: &str, wanted: &str) {
    wait_for("the port's status", || {
        let shown = house.client.show(Kind::Port, port).expect("a port");
        if shown["status"] == wanted { Ok(()) } else { Err(shown["status"].to_string()) }
    });
}

/// A port that is declared before its interface exists: the chain waits and names it; the interface
/// comes, goes and comes again, and each time the port and the chain say so.
fn a_port_comes_late(profile: &Value) {
    in_shared_house(|house| {
        let (late, own) = late_port(house, profile);
        let port = late.as_str().expect("an id");
        let chain = late_chain(house, &late, &own);
        wait_port(house, port, "DOWN");
        assert_eq!(chain["status"], "building");
        let reason = chain["status_reason"].as_str().expect("a reason");
        assert!(reason.contains("v8@late") || reason.contains(port), "{reason}");
        let id = chain["id"].as_str().expect("an id");
        assert_ordinary(house, id);
        plug(house);
        house.wait_active(id);
        wait_port(house, port, "ACTIVE");
        assert_taken(house, id, &["late"]);
        house.node("v8").ip("link del late");
        wait_for("a degraded chain", || {
            let status = house.chain(id).status;
            let is_told = status.state == ChainState::Degraded && status.reason.contains("v8@late");
            if is_told { Ok(()) } else { Err(format!("{status:?}")) }
        });
        wait_port(house, port, "DOWN");
        let receiver = Receiver::new(&house.node("D"), destination());
        let mut sender = Sender::new(&house.node("S"), destination());
        sender.send_many(50);
        assert!(receiver.stop(1).is_empty(), "a packet passed without its function");
        plug(house);
        house.wait_active(id);
        wait_port(house, port, "ACTIVE");
        send_and_count(&house.node("S"), &house.node("D"), destination(), 100);
        house.remove_chains();
        house.client.delete(Kind::Port, port).expect("the port goes");
        house.node("v8").ip("link del late");
        house.wait_settled();
    });
}

#[test]
fn a_port_whose_interface_comes_late_in_a_namespace_says_whether_it_is_bound() {
    a_port_comes_late(&json!({"netns": "v8", "interface": "late"}));
}

/// The interface of the host itself, as a virtual machine's is.
#[test]
fn a_port_whose_interface_comes_late_on_its_host_says_whether_it_is_bound() {
    a_port_comes_late(&json!({"interface": "v8.late"}));
}

/// The interface of a running chain goes away: what misses it is dropped by name, never let past
/// the function; when it is back, so is the chain.
#[test]
fn a_chain_whose_interface_vanishes_says_so_and_lets_nothing_past() {
    in_own_house("pair.yaml", |house| {
        let deployed = house.deploy(document(&["v1"]));
        assert_taken(house, &deployed.chain, &["v1"]);
        let host = house.node("host1");
        let mac = house.node("v1").mac("customer");
        host.ip("link del v1.customer");
        wait_for("a degraded chain", || {
            let status = house.chain(&deployed.chain).status;
            let is_told = status.state == ChainState::Degraded && status.reason.contains("v1");
            if is_told { Ok(()) } else { Err(format!("{status:?}")) }
        });
        let receiver = Receiver::new(&house.node("D"), destination());
        let mut sender = Sender::new(&house.node("S"), destination());
        sender.send_many(50);
        assert!(receiver.stop(1).is_empty(), "a packet passed without its function");
        host.ip(&format!("link add v1.customer type veth peer name customer address {mac}"));
        host.ip(&format!("link set customer netns /proc/{}/root/run/netns/v1", house.init()));
        let function = house.node("v1");
        function.ip("address add 10.10.0.101/24 dev customer");
        function.ip("link set customer mtu 1400 up");
        function.set("net/ipv4/conf/customer/rp_filter", "0");
        function.set("net/ipv4/conf/customer/send_redirects", "0");
        // The route of its table went with the interface; the rule stayed.
        function.ip("route add default dev customer table 101");
        house.wait_active(&deployed.chain);
        send_and_count(&house.node("S"), &house.node("D"), destination(), 50);
    });
}
