//! Wirings of small labs, and of the ready ones.

use super::*;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_wiring_of_the_study_s_test_bed_is_the_reviewed_one() {
    let lab = Lab::read(&root().join("labs/openstack-testbed.yaml"), false).unwrap();
    let golden = root().join("crates/lab/tests/golden/openstack-testbed.txt");
    let found = plan(&lab).unwrap().to_string();
    if std::env::var_os("CATENA_GOLDEN_UPDATE").is_some() {
        std::fs::write(&golden, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(golden).unwrap());
}

#[test]
fn a_part_of_a_wiring_has_no_cable_to_outside() {
    let lab = Lab::read(&root().join("labs/5g-slices.yaml"), false).unwrap();
    let whole = plan(&lab).unwrap();
    let part = whole.part(&["gnb", "red1", "upf", "sff"]);
    assert_eq!((part.namespaces.len(), part.cables.len(), part.ports.len()), (4, 3, 3));
    assert_eq!((part.bridges.len(), part.policy_routes.len()), (0, 1));
    let all: Vec<&str> = whole.namespaces.iter().map(String::as_str).collect();
    assert_eq!(whole.part(&all), whole);
}

#[test]
fn a_function_without_routes_keeps_what_it_gets() {
    let lab = Lab::read(&root().join("labs/taps.yaml"), false).unwrap();
    let plan = plan(&lab).unwrap();
    let forwards = |device: &str| {
        let of = |setting: &&Setting| {
            setting.namespace == device && setting.key == "net.ipv4.ip_forward"
        };
        plan.settings.iter().filter(of).map(|setting| setting.value).collect::<Vec<_>>()
    };
    assert_eq!((forwards("v8"), forwards("t1"), forwards("S")), (vec!["1"], vec!["0"], vec![]));
}

#[test]
fn no_two_interfaces_of_a_lab_share_a_hardware_address_or_a_name() {
    let labs = ["labs/openstack-testbed.yaml", "labs/tests/triangle.yaml"];
    labs.iter().for_each(|lab| check_interfaces(lab));
}

fn check_interfaces(lab: &str) {
    let lab = Lab::read(&root().join(lab), false).unwrap();
    let plan = plan(&lab).unwrap();
    let mut macs: Vec<Mac> =
        plan.cables.iter().flat_map(|c| &c.ends).filter_map(|end| end.mac).collect();
    let mut names: Vec<String> = plan
        .cables
        .iter()
        .flat_map(|c| &c.ends)
        .map(|end| format!("{}/{}", end.namespace, end.interface))
        .collect();
    let counts = (macs.len(), names.len());
    macs.sort_unstable();
    macs.dedup();
    names.sort();
    names.dedup();
    assert_eq!((macs.len(), names.len()), counts);
}

#[test]
fn a_switch_that_reads_source_routes_is_wired_as_a_node_whose_cables_are_its_links() {
    let lab = Lab::read(&root().join("labs/tests/triangle.yaml"), false).unwrap();
    let plan = plan(&lab).unwrap();
    assert_eq!(plan.bridges, [MANAGEMENT_SWITCH, "data"]);
    let node = |name: &str| plan.nodes.iter().find(|node| node.name == name).unwrap();
    let (host, switch) = (node("h1"), node("a1"));
    assert_eq!((host.role, switch.role), (NodeRole::Host, NodeRole::Switch));
    assert_eq!(host.links, ["l-a1", "l-h3"]);
    assert_eq!(switch.links, ["l-h1", "l-a2", "l-a3", "l-a2-2"]);
    assert_eq!(
        [host.data, switch.data].map(|data| data.to_string()),
        ["172.30.0.1", "172.30.0.101"]
    );
    let told = plan.to_string();
    for cable in [
        "a1/data0 172.30.0.101/24 -- data/a1 in bridge mtu 1500",
        "a1/mgmt0 172.30.1.101/24",
        "a1/l-a2-2 -- a2/l-a1-2 mtu 1500",
    ] {
        assert!(told.contains(&format!("cable {cable}")), "{cable} in {told}");
    }
}

#[test]
fn equipment_in_a_cable_has_a_namespace_of_its_own_and_passes_what_its_ends_say() {
    let lab = Lab::read(&root().join("labs/plain-equipment.yaml"), false).unwrap();
    let plan = plan(&lab).unwrap();
    assert_eq!((plan.transparent.len(), plan.open_vswitches.len()), (7, 1));
    for line in [
        "cable h2/l-leaf1 -- h2.leaf1.1/h2 in bridge mtu 1500",
        "bridge h2.leaf1.1/br0 passes LLDP",
        "cable h1/l-leaf1 -- h1.leaf1.0/h1 mtu 1500",
        "open vswitch h1.leaf1.0 passes LLDP",
        "bridge data/br0\n",
    ] {
        assert!(plan.to_string().contains(line), "{line} in {plan}");
    }
}

#[test]
fn hosts_behind_a_router_are_in_subnets_of_their_own_with_ways_to_all_places_of_others() {
    let lab = Lab::read(&root().join("labs/srv6-linux.yaml"), false).unwrap();
    let plan = plan(&lab).unwrap();
    let told = plan.to_string();
    for line in [
        "namespace r1\n",
        "set r1 net.ipv4.ip_forward=1\n",
        "set r1 net.ipv6.conf.all.forwarding=1\n",
        "set r1 net.ipv6.conf.default.seg6_enabled=1\n",
        "cable sw2/data0 172.30.0.2/24 -- left/sw2 in bridge mtu 1500\n",
        "cable sw3/data0 172.30.2.3/24 -- right/sw3 in bridge mtu 1500\n",
        "cable r1/left 172.30.0.201/24 2001:db8:30::c9/64 -- left/r1 in bridge mtu 1500\n",
        "cable r1/right 172.30.2.201/24 2001:db8:30:1::c9/64 -- right/r1 in bridge mtu 1500\n",
        "route sw1 to 172.30.2.0/24 via 172.30.0.201 by data0\n",
        "route sw3 to 2001:db8:30::/64 via 2001:db8:30:1::c9 by data0\n",
        "route r1 to 5f00:0:2::/48 via 2001:db8:30::2 by left\n",
        "route r1 to 5f00:0:4::/48 via 2001:db8:30:1::4 by right\n",
    ] {
        assert!(told.contains(line), "{line} in {told}");
    }
    assert_eq!(told.matches("\nroute r1 ").count(), 4, "{told}");
    assert!(plan.nodes.iter().all(|node| node.name != "r1"), "no agent runs there");
    let of_sw1 = plan.segment_places.iter().find(|place| place.namespace == "sw1").unwrap();
    let gateways = of_sw1.others.iter().map(|(locator, by)| format!("{locator} {by}"));
    let expected = [
        "5f00:0:2::/48 2001:db8:30::2",
        "5f00:0:3::/48 2001:db8:30::c9",
        "5f00:0:4::/48 2001:db8:30::c9",
    ];
    assert_eq!(gateways.collect::<Vec<_>>(), expected);
    let without = Lab::read(&root().join("labs/srv6-int.yaml"), false).unwrap();
    let without = super::plan(&without).unwrap();
    assert!(without.routes.is_empty(), "{without}");
    let own = |place: &SegmentWiring| (place.own.locator, place.own.address);
    let places: Vec<_> = without.segment_places.iter().map(own).collect();
    for place in &without.segment_places {
        let others: Vec<_> = places.iter().copied().filter(|it| *it != own(place)).collect();
        assert_eq!(place.others, others);
    }
}

#[test]
fn a_router_that_joins_no_subnet_of_a_node_has_a_route_by_the_next_router() {
    let text = "name: x\nhosts: {h1: {}, h2: {}}\nswitches: [a, b, c]\nunderlay: ipv6\n\
                routers: {r1: {}, r2: {}}\nlinks: [h1-a, r1-a, r1-b, r2-b, r2-c, h2-c]\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.yaml");
    std::fs::write(&file, text).unwrap();
    let told = plan(&Lab::read(&file, false).unwrap()).unwrap().to_string();
    let routes: Vec<&str> = told.lines().filter(|line| line.starts_with("route r1 ")).collect();
    let expected = [
        "route r1 to 2001:db8:30:2::/64 via 2001:db8:30:1::ca by b",
        "route r1 to 5f00:0:1::/48 via 2001:db8:30::1 by a",
        "route r1 to 5f00:0:2::/48 via 2001:db8:30:1::ca by b",
    ];
    assert_eq!(routes, expected);
}

#[test]
fn a_network_without_room_is_named_with_the_remedy() {
    let text = "name: x\nhosts: {h: {}}\nnetworks: {n: {cidrs: [10.0.0.0/28]}}\n\
                functions: {v: {on: h, networks: [n]}}\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.yaml");
    std::fs::write(&file, text).unwrap();
    let problem = plan(&Lab::read(&file, false).unwrap()).unwrap_err().to_string();
    assert!(problem.contains("10.0.0.0/28 has no address number 101 for 'v'"), "{problem}");
}
