//! Namespaces, links, addresses, routes, rules, settings.

use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::netlink::{IpFamily, LinkChange, Netlink};
use catena_kernel::{KernelError, sysctl};

use crate::{Node, needs_privilege, receive};

const MAC_A: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0a];
const MAC_B: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0b];

#[test]
fn work_in_a_namespace_leaves_the_callers_thread_where_it_was() {
    needs_privilege!("work_in_a_namespace_leaves_the_callers_thread_where_it_was");
    let before = NetNamespace::current().unwrap();
    let other = NetNamespace::create_unnamed("other").unwrap();
    let inside = run_in(&other, || NetNamespace::current().unwrap()).unwrap();
    assert!(inside.same_as(&other).unwrap());
    assert!(!inside.same_as(&before).unwrap());
    assert!(NetNamespace::current().unwrap().same_as(&before).unwrap());
}

#[test]
fn a_namespace_that_is_missing_may_appear_later_and_a_file_is_none() {
    let missing = NetNamespace::open("/run/netns/catena-kernel-missing".as_ref()).unwrap_err();
    assert!(matches!(missing, KernelError::NotFoundYet { .. }), "{missing}");
    let process = NetNamespace::open_pid(u32::MAX).unwrap_err();
    assert!(process.is_not_found(), "{process}");
    let file = NetNamespace::open("/etc/passwd".as_ref()).unwrap_err();
    assert!(!file.is_not_found(), "{file}");
}

#[tokio::test]
async fn a_veth_pair_has_the_addresses_it_was_given_and_carries_both_ip_versions() {
    needs_privilege!("a_veth_pair_has_the_addresses_it_was_given_and_carries_both_ip_versions");
    let (a, b) = (Node::new("a"), Node::new("b"));
    a.links.add_veth("a0", "b0", &b.namespace, 1400, Some(MAC_A), Some(MAC_B)).await.unwrap();
    for (node, link, mac) in [(&a, "a0", MAC_A), (&b, "b0", MAC_B)] {
        let found = node.links.link(link).await.unwrap().unwrap();
        assert_eq!((found.mac, found.mtu, found.is_up), (Some(mac), 1400, false));
        assert!(found.is_veth());
        node.links.set_up(link).await.unwrap();
    }
    for (node, link, last) in [(&a, "a0", 1), (&b, "b0", 2)] {
        node.address(link, &format!("192.0.2.{last}"), 24).await;
        node.address(link, &format!("2001:db8::{last}"), 64).await;
    }
    for (from, to) in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")] {
        let receiver = b.udp(to, 7000);
        let target = receiver.local_addr().unwrap();
        a.udp(from, 7000).send_to(b"hello", target).unwrap();
        assert_eq!(receive(&receiver), "hello");
    }
    let seen = b.links.link("b0").await.unwrap().unwrap();
    assert!(seen.has_carrier && seen.statistics.rx_packets >= 2);
    assert!(seen.statistics.rx_bytes > 0);
}

#[tokio::test]
async fn a_bridge_forwards_between_its_ports() {
    needs_privilege!("a_bridge_forwards_between_its_ports");
    let (a, switch, b) = (Node::new("a"), Node::new("switch"), Node::new("b"));
    switch.links.add_bridge("ovs01", 0).await.unwrap();
    switch.links.set_up("ovs01").await.unwrap();
    for (port, node) in [("to-a", &a), ("to-b", &b)] {
        switch.connect(port, node, "eth0").await;
        switch.links.set_master(port, "ovs01").await.unwrap();
    }
    let bridge = switch.links.link("ovs01").await.unwrap().unwrap();
    assert_eq!(bridge.kind, "bridge");
    let port = switch.links.link("to-a").await.unwrap().unwrap();
    assert_eq!(port.master_index, Some(bridge.index));
    a.address("eth0", "192.0.2.1", 24).await;
    b.address("eth0", "192.0.2.2", 24).await;
    let receiver = b.udp("192.0.2.2", 7000);
    a.udp("192.0.2.1", 7000).send_to(b"over the bridge", "192.0.2.2:7000").unwrap();
    assert_eq!(receive(&receiver), "over the bridge");
}

#[tokio::test]
async fn links_are_described_listed_and_deleted_by_name() {
    needs_privilege!("links_are_described_listed_and_deleted_by_name");
    let (a, b) = (Node::new("a"), Node::new("b"));
    a.connect("a0", &b, "b0").await;
    let link = a.links.link("a0").await.unwrap().unwrap();
    assert_eq!((link.mtu, link.is_up, link.has_carrier), (1500, true, true));
    let names: Vec<String> = a.links.links().await.unwrap().into_iter().map(|l| l.name).collect();
    assert_eq!(names, ["lo", "a0"]);
    a.links.delete_link("a0").await.unwrap();
    assert_eq!(a.links.link("a0").await.unwrap(), None);
    assert_eq!(b.links.link("b0").await.unwrap(), None, "the other end goes with it");
}

#[tokio::test]
async fn errors_name_the_object_and_tell_missing_from_present() {
    needs_privilege!("errors_name_the_object_and_tell_missing_from_present");
    let (a, b) = (Node::new("alpha"), Node::new("b"));
    let missing = a.links.set_up("nowhere").await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    assert!(missing.to_string().contains("nowhere in network namespace alpha"), "{missing}");
    a.connect("a0", &b, "b0").await;
    let taken = a.links.add_bridge("a0", 0).await.unwrap_err();
    assert!(taken.is_already_there(), "{taken}");
    let mismatch = a
        .links
        .add_route(("::".parse().unwrap(), 0), Some("192.0.2.1".parse().unwrap()), "a0", None)
        .await
        .unwrap_err();
    assert!(matches!(mismatch, KernelError::Invalid { .. }), "{mismatch}");
    let long = a.links.add_address("a0", "192.0.2.1".parse().unwrap(), 33).await.unwrap_err();
    assert!(matches!(long, KernelError::Invalid { .. }), "{long}");
}

#[test]
fn netlink_without_a_runtime_is_an_error_and_no_panic() {
    let namespace = NetNamespace::current().unwrap();
    assert!(Netlink::open(&namespace).is_err());
}

#[tokio::test]
async fn what_arrives_on_an_interface_follows_the_rule_of_that_interface() {
    needs_privilege!("what_arrives_on_an_interface_follows_the_rule_of_that_interface");
    let (source, router) = (Node::new("source"), Node::new("router"));
    let (left, right) = (Node::new("left"), Node::new("right"));
    for (way, name, egress) in [(1, "1", &left), (2, "2", &right)] {
        let (inside, outside) = (format!("in{name}"), format!("out{name}"));
        source.connect(&format!("s{name}"), &router, &inside).await;
        router.connect(&outside, egress, "eth0").await;
        source.address(&format!("s{name}"), &format!("10.1.{way}.1"), 24).await;
        router.address(&inside, &format!("10.1.{way}.2"), 24).await;
        router.address(&outside, &format!("10.2.{way}.1"), 24).await;
        egress.address("eth0", &format!("10.2.{way}.2"), 24).await;
        egress.links.set_up("lo").await.unwrap();
        egress.address("lo", "203.0.113.9", 32).await;
        let table = 100 + way;
        router.links.add_rule_iif(&inside, table, IpFamily::V4, 1000 + way).await.unwrap();
        let gateway = format!("10.2.{way}.2").parse().unwrap();
        let any = ("0.0.0.0".parse().unwrap(), 0);
        router.links.add_route(any, Some(gateway), &outside, Some(table)).await.unwrap();
    }
    sysctl::write_in(&router.namespace, "net.ipv4.ip_forward", "1").unwrap();
    for (way, dev, egress) in [(1, "s1", &left), (2, "s2", &right)] {
        let receiver = egress.udp("203.0.113.9", 7000);
        let table = 200 + way;
        let gateway = format!("10.1.{way}.2").parse().unwrap();
        let target = ("203.0.113.9".parse().unwrap(), 32);
        source.links.add_route(target, Some(gateway), dev, Some(table)).await.unwrap();
        // What a host sends itself counts as arriving on `lo`; the later rule comes first.
        source.links.add_rule_iif("lo", table, IpFamily::V4, 2000 - way).await.unwrap();
        source.udp("0.0.0.0", 0).send_to(dev.as_bytes(), "203.0.113.9:7000").unwrap();
        assert_eq!(receive(&receiver), dev);
    }
}

#[tokio::test]
async fn ipv6_rules_and_routes_work_like_ipv4_ones() {
    needs_privilege!("ipv6_rules_and_routes_work_like_ipv4_ones");
    let (a, b) = (Node::new("a"), Node::new("b"));
    a.connect("a0", &b, "b0").await;
    a.address("a0", "2001:db8::1", 64).await;
    b.address("b0", "2001:db8::2", 64).await;
    b.links.set_up("lo").await.unwrap();
    b.address("lo", "2001:db8:1::9", 128).await;
    let via = Some("2001:db8::2".parse().unwrap());
    a.links.add_route(("2001:db8:1::".parse().unwrap(), 48), via, "a0", Some(300)).await.unwrap();
    a.links.add_rule_iif("lo", 300, IpFamily::V6, 500).await.unwrap();
    let receiver = b.udp("2001:db8:1::9", 7000);
    a.udp("2001:db8::1", 0).send_to(b"routed", "[2001:db8:1::9]:7000").unwrap();
    assert_eq!(receive(&receiver), "routed");
}

#[test]
fn a_setting_of_one_namespace_is_not_the_setting_of_another() {
    needs_privilege!("a_setting_of_one_namespace_is_not_the_setting_of_another");
    const KEY: &str = "net.ipv4.ip_default_ttl";
    let (a, b) =
        (NetNamespace::create_unnamed("a").unwrap(), NetNamespace::create_unnamed("b").unwrap());
    sysctl::write_in(&a, KEY, "33").unwrap();
    sysctl::write_in(&b, KEY, "44").unwrap();
    assert_eq!(sysctl::read_in(&a, KEY).unwrap(), "33");
    assert_eq!(sysctl::read_in(&b, KEY).unwrap(), "44");
    let unknown = sysctl::write_in(&a, "net.ipv4.no_such_setting", "1").unwrap_err();
    assert!(unknown.to_string().contains("no_such_setting=1"), "{unknown}");
}

#[tokio::test]
async fn a_watch_tells_of_links_that_come_and_go() {
    needs_privilege!("a_watch_tells_of_links_that_come_and_go");
    let (a, b) = (Node::new("a"), Node::new("b"));
    let mut watch = a.links.watch_links().unwrap();
    b.links.add_veth("b0", "late", &a.namespace, 1500, None, None).await.unwrap();
    let index = loop {
        match watch.next().await.unwrap() {
            LinkChange::Present(link) if link.name == "late" => break link.index,
            _ => {}
        }
    };
    b.links.delete_link("b0").await.unwrap();
    loop {
        if let LinkChange::Gone { index: gone, name } = watch.next().await.unwrap() {
            assert_eq!((gone, name.as_str()), (index, "late"));
            break;
        }
    }
}
