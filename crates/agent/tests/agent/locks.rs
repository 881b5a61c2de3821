//! Whose an interface is: one port's, whoever spells it how; or the node's own, and then no port's.

use crate::authority::Authority;
use crate::controller::{PATIENCE, TestController, TestSession, reasons};
use crate::dataplane::{Book, TestDataplane, paths};
use crate::machine::{Machine, RunningAgent, is_privileged};
use crate::programs::{packed, packed_with, port};
use catena_kernel::{sysctl, tc};
use catena_model::resource::{Attachment, InterfaceRef, NamespaceRef};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

struct Scene {
    dataplane: TestDataplane,
    _controller: TestController,
    _agent: RunningAgent,
    session: TestSession,
}

async fn scene(machine: &Machine, devices: &[&str]) -> Scene {
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let mut config = machine.config(controller.address, &tls, &paths(machine.dir.path()));
    config.underlay_devices = devices.iter().map(ToString::to_string).collect();
    config.links = vec!["swp*".into()];
    let agent = machine.start_as(config);
    let (session, _) = controller.welcome().await;
    Scene { dataplane, _controller: controller, _agent: agent, session }
}

fn here(interface: &str) -> Attachment {
    InterfaceRef { namespace: None, interface: interface.into() }.into()
}

fn of(states: &BTreeMap<String, String>, number: u8) -> &str {
    &states[&port(number).to_string()]
}

#[tokio::test]
async fn an_interface_is_one_ports_however_it_is_spelled() {
    if !is_privileged("an_interface_is_one_ports_however_it_is_spelled") {
        return;
    }
    let machine = Machine::new().await;
    let mut scene = scene(&machine, &[]).await;
    machine.plug(1).await;
    let victim = (2, machine.beyond(1, "p1-far"));
    let (_, states) = scene.session.send(packed_with(1, std::slice::from_ref(&victim))).await;
    assert_eq!(of(&reasons(&states.unwrap()), 2), "");

    // The same by its name on the node, and by another path to the namespace.
    let victims = victim.1.interface().unwrap();
    let Some(NamespaceRef::Netns(path)) = &victims.namespace else { panic!("{victim:?}") };
    let path = path.replacen("/proc/", "/proc/./", 1);
    let namespace = Some(NamespaceRef::Netns(path));
    let other = InterfaceRef { namespace, ..victims.clone() }.into();
    let spelled = [(1, here("p1")), (3, other)];
    let wanted = [spelled[0].clone(), victim.clone(), spelled[1].clone()];
    let (_, states) = scene.session.send(packed_with(2, &wanted)).await;
    let states = reasons(&states.unwrap());
    assert_eq!(of(&states, 2), "", "who has it keeps it");
    for other in [1, 3] {
        assert!(of(&states, other).contains("that of another port"), "{states:?}");
        assert!(!of(&states, other).contains(&port(2).to_string()), "whose it is says nobody");
    }
    assert_eq!(scene.dataplane.book.lock().unwrap().ports, [port(2).to_string()]);

    // It goes, and the first that waits has it.
    let left = [spelled[0].clone(), spelled[1].clone()];
    let (_, states) = scene.session.send(packed_with(3, &left)).await;
    let both = |states: &BTreeMap<String, String>| {
        [1, 3].iter().filter(|number| of(states, **number).is_empty()).count() == 1
    };
    if !both(&reasons(&states.unwrap())) {
        scene.session.until(both).await;
    }
    let ifindex = machine.links.existing("p1").await.unwrap().index;
    assert!(tc::is_swallowing(&machine.links, ifindex).await.unwrap());
    assert!(machine.links.existing("p1").await.unwrap().is_up);
}

#[tokio::test]
async fn the_data_plane_is_told_by_which_devices_tunnels_come_in_and_when_that_changes() {
    if !is_privileged(
        "the_data_plane_is_told_by_which_devices_tunnels_come_in_and_when_that_changes",
    ) {
        return;
    }
    let machine = Machine::new().await;
    let own = scene(&machine, &[]).await;
    let loopback = machine.links.existing("lo").await.unwrap().index;
    wait_told(&own, &[vec![loopback]]).await;
    let own_mtus = own.dataplane.book.lock().unwrap().underlay_mtus.clone();
    drop(own);

    machine.plug_as(1, "up0").await;
    let first = machine.links.existing("up0").await.unwrap().index;
    let named = scene(&machine, &["up0", "up1"]).await;
    wait_told(&named, &[vec![first]]).await;
    machine.plug_as(2, "up1").await;
    let second = machine.links.existing("up1").await.unwrap().index;
    let both = vec![first, second];
    wait_told(&named, &[vec![first], both.clone()]).await;
    // What they take is told as it changes: the least of all, and nothing of devices that lead nowhere.
    assert_eq!(own_mtus, [0]);
    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
    machine.links.set_mac_and_mtu("up1", MAC, 1_300).await.unwrap();
    wait_told(&named, &[vec![first], both.clone(), both.clone()]).await;
    machine.links.set_mac_and_mtu("up1", MAC, 1_400).await.unwrap();
    wait_told(&named, &[vec![first], both.clone(), both.clone(), both]).await;
    let mtus = named.dataplane.book.lock().unwrap().underlay_mtus.clone();
    assert_eq!(mtus, [1_400, 1_400, 1_300, 1_400]);
}

async fn wait_told(scene: &Scene, expected: &[Vec<u32>]) {
    let begun = Instant::now();
    loop {
        let told = scene.dataplane.book.lock().unwrap().underlay_devices.clone();
        if told == expected {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{told:?}, not {expected:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_the_node_needs_is_no_port_whoever_asks() {
    if !is_privileged("what_the_node_needs_is_no_port_whoever_asks") {
        return;
    }
    let machine = Machine::new().await;
    let links = &machine.links;
    for number in [1, 2] {
        machine.plug(number).await;
    }
    let far = machine.endpoint(1);
    for (name, other) in [("ct-punt1", "q1"), ("up0", "q2"), ("m0", "q3"), ("swp1", "q4")] {
        links.add_veth(name, other, far, 1_400, None, None).await.unwrap();
    }
    links.add_bridge("br0", 0).await.unwrap();
    links.set_master("p2", "br0").await.unwrap();
    links.set_master("m0", "br0").await.unwrap();
    links.add_address("p1", "198.51.100.7".parse().unwrap(), 24).await.unwrap();
    let mut scene = scene(&machine, &["up0"]).await;
    let wanted = [
        // By the namespace too: what counts is the node's side.
        (1, machine.beyond(1, "p1-far"), "198.51.100.7"),
        (2, machine.beyond(2, "p2-far"), "a member of 'br0'"),
        (3, here("ct-punt1"), "Catena's own"),
        (4, machine.beyond(1, "q1"), "Catena's own"),
        (5, here("up0"), "a link of its underlay"),
        (6, here("m0"), "a member of 'br0'"),
        (8, here("swp1"), "a link between nodes"),
        (9, machine.beyond(1, "q4"), "a link between nodes"),
    ];
    let ports: Vec<_> = wanted.iter().map(|(number, place, _)| (*number, place.clone())).collect();
    let (_, states) = scene.session.send(packed_with(1, &ports)).await;
    let states = reasons(&states.unwrap());
    for (number, place, word) in &wanted {
        assert!(of(&states, *number).contains(word), "{place:?}: {states:?}");
    }
    for name in ["p1", "p2", "ct-punt1", "up0", "m0", "swp1"] {
        let link = links.existing(name).await.unwrap();
        assert!(!link.is_up, "{name} was touched");
        assert!(!tc::is_swallowing(links, link.index).await.unwrap(), "{name} was touched");
    }
    assert_eq!(scene.dataplane.book.lock().unwrap().ports, [""; 0]);

    // An address inside the namespace is none of the node's, and a freed interface is taken.
    machine.plug_as(1, "p7").await;
    let (_, states) = scene.session.send(packed_with(2, &[(7, machine.beyond(1, "p7-far"))])).await;
    assert_eq!(of(&reasons(&states.unwrap()), 7), "");
}

#[tokio::test]
async fn an_interface_is_given_back_as_it_was_found_but_down() {
    if !is_privileged("an_interface_is_given_back_as_it_was_found_but_down") {
        return;
    }
    let machine = Machine::new().await;
    let mut scene = scene(&machine, &[]).await;
    let (links, place) = (&machine.links, &machine.namespace);
    for number in [1, 2] {
        machine.plug(number).await;
    }
    let ipv6 = |interface: &str| format!("net/ipv6/conf/{interface}/disable_ipv6");
    sysctl::write_in(place, &ipv6("p1"), "0").unwrap();
    links.set_up("p1").await.unwrap();
    let indexes = [links.existing("p1").await.unwrap(), links.existing("p2").await.unwrap()];
    let [first, second] = indexes.map(|link| link.index);
    assert!(tc::make_hook(links, second).await.unwrap());
    assert_eq!(scene.session.send(packed(1, &[1, 2])).await.0.refusal, "");
    for name in ["p1", "p2"] {
        assert_eq!(sysctl::read_in(place, &ipv6(name)).unwrap(), "1");
        assert!(links.existing(name).await.unwrap().is_up);
    }
    assert_eq!(scene.session.send(packed(2, &[])).await.0.refusal, "");
    let begun = Instant::now();
    for index in [first, second] {
        while tc::is_swallowing(links, index).await.unwrap() {
            assert!(begun.elapsed() < PATIENCE, "it is not given back");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    for name in ["p1", "p2"] {
        assert!(!links.existing(name).await.unwrap().is_up, "{name} is open");
    }
    assert_eq!(sysctl::read_in(place, &ipv6("p1")).unwrap(), "0");
    assert_eq!(sysctl::read_in(place, &ipv6("p2")).unwrap(), "1");
    // Only the hook that was there before is there after.
    assert!(!tc::make_hook(links, second).await.unwrap(), "the hook of another is gone");
    while !tc::make_hook(links, first).await.unwrap() {
        assert!(begun.elapsed() < PATIENCE, "our hook is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
