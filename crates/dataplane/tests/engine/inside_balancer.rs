//! A balancer inside that asks its servers whether they serve: what it asks goes over its chain behind it, answers come
//! back as those to clients do, and who does not answer gets no new connections.

use crate::frames::{Spec, flow};
use crate::rig::Rig;
use crate::scene::CHAINED_PORT;
use crate::town::{Town, rule};
use catena_dataplane::engine::EngineConfig;
use catena_model::bundle::Configuration;
use catena_model::program::{RuleMatch, RulePlace};
use catena_model::resource::{Encapsulation, IpFamily, Transport};
use catena_wire::frame::FrameView;
use catena_wire::scalar::{IpProtocol, PortRange};
use catena_wire::tcp::{TcpFlags, TcpView};
use catena_wire::varying::VaryingFields;

const NETWORK: usize = 0;
pub(crate) const CLIENT: &str = "10.0.0.1";
pub(crate) const SERVERS: [(&str, &str); 2] = [("D1", "10.0.0.11"), ("D2", "10.0.0.12")];
pub(crate) const VIRTUAL: &str = "10.0.0.200";
const ASKER: &str = "10.0.0.201";
const HEADERS: usize = 34;

/// A client at host1, a balancer at host2, two servers at host3, and functions beside it.
pub(crate) fn town(encapsulation: Encapsulation, hops: &[&[&str]]) -> Town {
    let mut town = Town::new(3);
    town.network(100, &["10.0.0.0/24"]);
    town.endpoint("S", 0, NETWORK, &[CLIENT]);
    for (name, address) in SERVERS {
        town.endpoint(name, 2, NETWORK, &[address]);
    }
    town.function("lb", 1, (NETWORK, NETWORK));
    town.function("log", 1, (NETWORK, NETWORK));
    town.function("v4", 2, (NETWORK, NETWORK));
    for (port, address) in [("lb.in", VIRTUAL), ("lb.out", ASKER)] {
        let port = town.ports.iter_mut().find(|one| one.name == port).unwrap();
        port.addresses = vec![address.parse().unwrap()];
    }
    let ports = PortRange::new(CHAINED_PORT, CHAINED_PORT).unwrap();
    let at = |name: &str| RulePlace::Port(town.port_named(name).id);
    let forward =
        RuleMatch { place: at("S"), ..rule(IpFamily::Ipv4, Transport::Tcp, CHAINED_PORT) };
    let answers = SERVERS.map(|(name, _)| RuleMatch {
        place: at(name),
        source_ports: Some(ports),
        destination_ports: None,
        ..forward.clone()
    });
    town.chain("out", encapsulation, hops, &[forward]);
    let back: Vec<&[&str]> = hops.iter().rev().copied().collect();
    town.chain("back", encapsulation, &back, &answers).is_reverse = true;
    let backends =
        SERVERS.map(|(_, address)| serde_json::json!({"address": address, "port": CHAINED_PORT}));
    let config = serde_json::json!({"services": [{
        "name": "web", "address": VIRTUAL, "protocol": "tcp", "port": CHAINED_PORT, "backends": backends,
        "health": {"kind": "http", "from": ASKER, "interval_ms": 1_000, "timeout_ms": 500, "rise": 1, "fall": 2},
    }]});
    let bundled = |kind: &str, config: String| Configuration::new(kind, config);
    town.bundled.insert(("lb".into(), String::new()), bundled("balancer", config.to_string()));
    town.bundled.insert(("log".into(), String::new()), bundled("monitor", "{}".into()));
    town
}

/// A segment of TCP from an endpoint.
pub(crate) fn segment(
    town: &Town,
    (from, own): (&str, &str),
    to: &str,
    ports: (u16, u16),
    flags: TcpFlags,
) -> Spec {
    Spec {
        source_mac: town.mac(from),
        destination_mac: town.mac(if from == "S" { "lb.in" } else { "lb.out" }),
        source: own.parse().unwrap(),
        destination: to.parse().unwrap(),
        protocol: IpProtocol::TCP,
        ports,
        vlan: None,
        ttl: 64,
        sequence: 5_000,
        identification: 7,
        fragment: (0, false),
        payload: Vec::new(),
        varying: VaryingFields { tcp_flags: Some(flags), ..VaryingFields::default() },
    }
}

/// What a server answers to a segment of a check.
fn answer(
    town: &Town,
    (server, own): (&str, &str),
    asked: &[u8],
    flags: TcpFlags,
    payload: &[u8],
) -> Vec<u8> {
    let asked_by = flow(asked);
    let view = FrameView::parse(asked).unwrap();
    let question = TcpView::parse(&asked[usize::from(view.l4_offset.unwrap())..]).unwrap();
    let ports = (asked_by.destination_port, asked_by.source_port);
    let spec = Spec {
        payload: payload.to_vec(),
        sequence: if payload.is_empty() { 5_000 } else { 5_001 },
        ..segment(town, (server, own), ASKER, ports, flags)
    };
    let mut frame = spec.frame();
    let taken =
        u32::from(question.flags().has_any(TcpFlags::SYN)) + question.payload().len() as u32;
    let next = question.sequence().wrapping_add(taken);
    frame[HEADERS + 8..HEADERS + 12].copy_from_slice(&next.to_be_bytes());
    let source = own.parse().unwrap();
    catena_wire::tcp::refresh_checksum(&mut frame[HEADERS..], source, ASKER.parse().unwrap())
        .unwrap();
    frame
}

fn flags(frame: &[u8]) -> TcpFlags {
    TcpView::parse(&frame[HEADERS..]).unwrap().flags()
}

/// A check of each server, which the second one answers as it may; the first does not listen.
fn asks_once(rig: &mut Rig, status: &[u8]) {
    const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);
    let until_asked = |rig: &mut Rig| {
        rig.pass(100);
        Some(rig.take("D2")).filter(|asked| !asked.is_empty())
    };
    let mut asked = (0..20).find_map(|_| until_asked(rig)).expect("a check of the second server");
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(flags(&asked[0]), TcpFlags::SYN);
    let key = flow(&asked[0]);
    assert_eq!(
        (key.source.to_string(), key.destination.to_string()),
        (ASKER.into(), SERVERS[1].1.into())
    );
    assert_eq!(FrameView::parse(&asked[0]).unwrap().destination, rig.town.mac("D2"));
    let taken = answer(&rig.town, SERVERS[1], &asked.remove(0), SYN_ACK, &[]);
    rig.send("D2", &taken);
    let requested = rig.take("D2");
    assert_eq!(requested.len(), 1, "{requested:?}");
    let text = String::from_utf8_lossy(&requested[0][HEADERS + 20..]).into_owned();
    assert!(text.starts_with("GET / HTTP/1.1\r\nHost: 10.0.0.12\r\n"), "{text}");
    let told = answer(&rig.town, SERVERS[1], &requested[0], TcpFlags::ACK, status);
    rig.send("D2", &told);
    let ended = rig.take("D2");
    assert!(ended.len() == 1 && flags(&ended[0]).has_any(TcpFlags::RST), "{ended:?}");
    rig.take("D1");
}

/// To which servers new connections go.
fn servers_of_connections(rig: &mut Rig, first: u16) -> [usize; 2] {
    for port in first..first + 40 {
        let asked = segment(&rig.town, ("S", CLIENT), VIRTUAL, (port, CHAINED_PORT), TcpFlags::SYN);
        rig.send("S", &asked.frame());
    }
    ["D1", "D2"].map(|server| rig.take(server).len())
}

#[test]
fn a_balancer_asks_its_servers_over_its_chain_and_who_does_not_answer_gets_no_new_connections() {
    for encapsulation in [Encapsulation::Nsh, Encapsulation::Mpls] {
        let mut rig = Rig::new(town(encapsulation, &[&["lb"]]));
        let [one, other] = servers_of_connections(&mut rig, 20_000);
        assert!(one > 5 && other > 5, "{one} and {other} of 40");
        for _ in 0..3 {
            asks_once(&mut rig, b"HTTP/1.1 200 OK\r\n\r\n");
        }
        assert_eq!(servers_of_connections(&mut rig, 21_000), [0, 40]);
        // One that says that it cannot serve is as one that says nothing; without any, connections end by name.
        for _ in 0..2 {
            asks_once(&mut rig, b"HTTP/1.1 503 Not now\r\n\r\n");
        }
        rig.moved();
        assert_eq!(servers_of_connections(&mut rig, 22_000), [0, 0]);
        let moved = rig.moved();
        assert_eq!(moved["host2 path 100 dropped function_denied"], 40, "{moved:?}");
        asks_once(&mut rig, b"HTTP/1.1 204 Here again\r\n\r\n");
        assert_eq!(servers_of_connections(&mut rig, 23_000), [0, 40]);
    }
}

#[test]
fn what_is_asked_moves_exactly_these_counters() {
    for has_segments in [false, true] {
        asked_and_counted(has_segments);
    }
}

/// `has_segments`: balancer and monitor are one hop.
fn asked_and_counted(has_segments: bool) {
    let mut town = town(Encapsulation::Nsh, &[&["lb"], &["log"], &["v4"]]);
    town.has_segments = has_segments;
    let mut rig = Rig::new(town);
    rig.is_two_way = true;
    rig.moved();
    rig.pass(100);
    rig.assert_moved(&[
        ("lb.in created function", 2),
        ("lb.in forwarded", 2),
        ("host2 path 100 entered", 2),
        ("host2 path 100 to log", 2),
        ("host2 path 100 from log", 2),
        ("host2 path 100 tunnelled out", 2),
        ("host2 tunnels transmitted", 2),
        ("host3 tunnels received", 2),
        ("host3 tunnels forwarded", 2),
        ("host3 path 100 tunnelled in", 2),
        ("host3 path 100 to v4", 2),
        ("host3 path 100 from v4", 2),
        ("v4.in transmitted", 2),
        ("v4.out received", 2),
        ("v4.out forwarded", 2),
        ("host3 path 100 finished", 2),
        ("D1 transmitted", 1),
        ("D2 transmitted", 1),
    ]);
    assert_eq!(rig.inside(), 0);
}

/// The servers that were asked within a second, by nobody who answers.
fn asked_in_a_second(rig: &mut Rig) -> [usize; 2] {
    for server in ["D1", "D2"] {
        rig.take(server);
    }
    rig.pass(1_000);
    ["D1", "D2"].map(|server| rig.take(server).len())
}

#[test]
fn checks_go_where_packets_of_clients_go_and_one_value_of_an_instance_asks() {
    let mut town = town(Encapsulation::Nsh, &[&["lb"]]);
    // One that is only prepared, with a lower identifier than the one that packets take.
    town.chain("prepared", Encapsulation::Nsh, &[&["lb"]], &[]);
    town.chains.rotate_right(1);
    let mut rig = Rig::new(town);
    servers_of_connections(&mut rig, 20_000);
    rig.moved();
    assert_eq!(asked_in_a_second(&mut rig), [1, 1]);
    let moved = rig.moved();
    assert_eq!(moved.get("host2 path 100 entered"), Some(&2), "{moved:?}");
    assert!(!moved.contains_key("host2 path 102 entered"), "{moved:?}");
    // Under another configuration there, it is two values, of which packets come to the former.
    let key = ("lb".to_owned(), String::new());
    let mut other = rig.town.bundled[&key].clone();
    other.config = other.config.replace("1000", "1001");
    assert_ne!(other, rig.town.bundled[&key]);
    rig.town.bundled.insert(("lb".into(), "prepared".into()), other);
    rig.apply();
    servers_of_connections(&mut rig, 21_000);
    assert_eq!(asked_in_a_second(&mut rig), [1, 1]);
    // That is taken back.
    rig.town.bundled.retain(|(_, chain), _| chain.is_empty());
    rig.apply();
    assert_eq!(asked_in_a_second(&mut rig), [1, 1]);
}

#[test]
fn of_several_engines_one_asks() {
    let change = |_: &mut EngineConfig| {};
    let mut rig = Rig::of_engines(3, town(Encapsulation::Nsh, &[&["lb"]]), change, 64);
    rig.pass(100);
    assert_eq!(["D1", "D2"].map(|server| rig.take(server).len()), [1, 1]);
    let [one, other] = servers_of_connections(&mut rig, 20_000);
    assert!(one > 5 && other > 5, "{one} and {other} of 40");
}
