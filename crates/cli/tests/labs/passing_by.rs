//! What would pass a function by: fragments out of order and overlapping, functions that send by a
//! port that no pair names or nothing at all, and packets of another network, also where only MACs
//! tell it. Judged from captures
//! and counts.

use crate::account;
use crate::capture::{Capture, Frame};
use crate::hostile::send_frames;
use crate::house::{House, in_own_house, in_shared_house};
use crate::node::Node;
use crate::patience::wait_for;
use crate::traffic::{Family, Receiver, Sender, address, send_and_count};
use catena_client::Kind;
use catena_model::DropReason;
use catena_model::status::ChainState;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

const PORT: u16 = 5_120;
/// A port that no chain takes.
const OTHER_PORT: u16 = 5_121;
const DATAGRAMS: u32 = 24;
const ETHERNET_BYTES: usize = 14;

fn drops(house: &House, reasons: &[DropReason]) -> u64 {
    let nodes = account::counters(house);
    let dropped = nodes.iter().map(|node| node.total().dropped);
    dropped.map(|dropped| reasons.iter().filter_map(|it| dropped.get(it)).sum::<u64>()).sum()
}

/// A numbered datagram of 128 bytes from S to D, with its UDP header.
fn datagram(family: Family, number: u32, port: u16) -> Vec<u8> {
    let length = 128_u16;
    let mut bytes = vec![0; usize::from(length)];
    bytes[0..2].copy_from_slice(&40_000_u16.to_be_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..6].copy_from_slice(&length.to_be_bytes());
    bytes[16..20].copy_from_slice(&number.to_be_bytes());
    if family == Family::V6 {
        let mut whole = [octets(address("S", family)), octets(address("D", family))].concat();
        whole.extend([0, 0, 0, 128, 0, 0, 0, 17]);
        whole.extend(&bytes);
        bytes[6..8].copy_from_slice(&checksum(&whole).to_be_bytes());
    }
    bytes
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The sum of the Internet (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair[1]));
    let sum: u64 = words.sum();
    // Folded: what is left over sixteen bits goes round.
    let folded = u16::try_from(sum % 0xffff).unwrap_or_default();
    !folded
}

/// A part of a datagram as a frame from S to D.
fn part(
    macs: &[u8],
    family: Family,
    id: u16,
    (from, to): (usize, usize),
    is_last: bool,
    datagram: &[u8],
) -> Vec<u8> {
    let place = u16::try_from(from / 8).expect("a small offset");
    let more = u16::from(!is_last);
    let bytes = &datagram[from..to];
    let length = u16::try_from(bytes.len()).expect("a short part");
    let addresses = [octets(address("S", family)), octets(address("D", family))].concat();
    let header = match family {
        Family::V4 => {
            let mut header = vec![0x45, 0];
            header.extend((length + 20).to_be_bytes());
            header.extend(id.to_be_bytes());
            header.extend((more << 13 | place).to_be_bytes());
            header.extend([64, 17, 0, 0]);
            header.extend(&addresses);
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        }
        Family::V6 => {
            let mut header = vec![0x60, 0, 0, 0];
            header.extend((length + 8).to_be_bytes());
            header.extend([44, 64]);
            header.extend(&addresses);
            header.extend([17, 0]);
            header.extend((place << 3 | more).to_be_bytes());
            header.extend(u32::from(id).to_be_bytes());
            header
        }
    };
    let kind: [u8; 2] = if family == Family::V4 { [8, 0] } else { [0x86, 0xdd] };
    [macs, &kind, &header, bytes].concat()
}

/// The parts of a datagram, last first.
fn reversed(macs: &[u8], family: Family, id: u16, datagram: &[u8]) -> Vec<Vec<u8>> {
    let part = |range, is_last| part(macs, family, id, range, is_last, datagram);
    vec![part((104, 128), true), part((64, 104), false), part((0, 64), false)]
}

/// Parts that overlap, or a second first one for a port that no chain takes.
fn hostile(macs: &[u8], family: Family, id: u16, datagram: &[u8]) -> Vec<Vec<u8>> {
    let stranger = self::datagram(family, 9, OTHER_PORT);
    let part = |range, is_last, of: &[u8]| part(macs, family, id, range, is_last, of);
    let (first, rest) = (part((0, 64), false, datagram), part((64, 128), true, datagram));
    match id % 4 {
        // Over the first, behind the ports.
        0 => vec![part((8, 128), true, datagram), first],
        1 => vec![first, part((0, 64), false, &stranger), rest],
        // One byte off at either side of the cut.
        2 => vec![rest, part((0, 63), false, datagram)],
        _ => vec![part((56, 128), true, datagram), first],
    }
}

/// From which identification on packets are posed.
const POSED: u16 = 300;

/// A first part for a port that no chain takes and a station that nobody is, then the rest, which
/// goes its way, and the first part that the rest belongs to.
fn posed(macs: &[u8], family: Family, id: u16, datagram: &[u8]) -> Vec<Vec<u8>> {
    let astray = [&[2, 0xde, 0xad, 0, 0xbe, 0xef], &macs[6..]].concat();
    let stranger = self::datagram(family, 9, OTHER_PORT);
    vec![
        part(&astray, family, id, (0, 8), false, &stranger),
        part(macs, family, id, (8, 128), true, datagram),
        part(macs, family, id, (0, 8), false, datagram),
    ]
}

/// What tells parts of one direction apart: identification, place, and the first bytes there.
type Key = (Vec<u8>, Vec<u8>, Vec<u8>);

fn is_posed(id: &[u8]) -> bool {
    id.last_chunk().is_some_and(|low| u16::from_be_bytes(*low) >= POSED)
}

fn keys(frames: Vec<Frame>, family: Family) -> BTreeSet<Key> {
    let key = |frame: Frame| {
        let ip = &frame.bytes[ETHERNET_BYTES..];
        let (id, place, rest) = match family {
            Family::V4 => (&ip[4..6], &ip[6..8], &ip[20..]),
            Family::V6 => (&ip[44..48], &ip[42..44], &ip[48..]),
        };
        (id.to_vec(), place.to_vec(), rest[..8].to_vec())
    };
    frames.into_iter().map(key).collect()
}

fn macs(house: &House) -> Vec<u8> {
    let mac = |node: &str| -> Vec<u8> {
        let text = house.node(node).mac("customer");
        text.split(':').map(|part| u8::from_str_radix(part, 16).expect("hex")).collect()
    };
    [mac("D"), mac("S")].concat()
}

#[test]
fn no_part_of_a_datagram_passes_a_function_by_whatever_the_order() {
    in_shared_house(|house| {
        let macs = macs(house);
        for family in Family::BOTH {
            let chain = house.deploy(json!({
                "name": "parts", "source": "S", "destination": "D",
                "match_fields": {
                    "ethertype": family.ethertype(), "protocol": "udp", "destination_port": PORT,
                },
                "chain": [{"name": "v11", "direction": "same"}, {"name": "v9", "direction": "same"}],
            }));
            let to = SocketAddr::new(address("D", family), PORT);
            house.node("S").attempt("ping", &["-c", "1", "-W", "2", &to.ip().to_string()]);
            let folder = tempfile::tempdir().expect("a folder");
            let filter = match family {
                Family::V4 => "src host 10.10.0.10 and ip[6:2] & 0x3fff != 0",
                Family::V6 => "src host fd00:10::a and ip6[6] == 44",
            };
            let captures = ["v11", "v9", "D"]
                .map(|node| Capture::start(&house.node(node), "customer", filter, folder.path()));
            let receiver = Receiver::new(&house.node("D"), to);
            let before = drops(house, &NAMES);
            let mut frames = Vec::new();
            for number in 0..DATAGRAMS {
                let id = u16::try_from(number).expect("few") + 100;
                frames.extend(reversed(&macs, family, id, &datagram(family, number, PORT)));
                let bad = datagram(family, number + DATAGRAMS, PORT);
                frames.extend(hostile(&macs, family, id + 100, &bad));
                let bad = datagram(family, number + 2 * DATAGRAMS, PORT);
                frames.extend(posed(&macs, family, id + POSED - 100, &bad));
            }
            send_frames(&house.node("S"), "customer", &frames);
            let came = receiver.stop(DATAGRAMS);
            let good = came.iter().filter(|(number, _)| **number < DATAGRAMS);
            assert_eq!(good.count(), DATAGRAMS as usize, "{family:?}: {came:?}");
            assert!(came.values().all(|times| *times == 1), "{family:?}: {came:?}");
            let posed = came.keys().filter(|number| **number >= 2 * DATAGRAMS);
            assert_eq!(posed.count(), 0, "{family:?}: {came:?}");
            assert!(drops(house, &NAMES) > before, "overlaps end by name");
            let [first, second, end] = captures.map(|capture| keys(capture.frames(), family));
            // The rest of a posed one is of a packet that no chain takes, as far as anybody was told.
            let end: Vec<_> = end.into_iter().filter(|(id, ..)| !is_posed(id)).collect();
            assert!(end.len() >= 3 * DATAGRAMS as usize, "{family:?}: {}", end.len());
            let past: Vec<_> = end.iter().filter(|key| !first.contains(*key)).collect();
            assert!(past.is_empty(), "{family:?} past v11: {past:?}");
            let past: Vec<_> = end.iter().filter(|key| !second.contains(*key)).collect();
            assert!(past.is_empty(), "{family:?} past v9: {past:?}");
            house.undeploy(&chain.chain);
        }
    });
}

/// By which fragments end that contradict one another.
const NAMES: [DropReason; 3] = [
    DropReason::FragmentOverlap,
    DropReason::SecondFirstFragment,
    DropReason::FragmentWithoutFirst,
];

/// The lab's chain over v3 and v2.
fn through_both(house: &House) -> String {
    let chain = house.deploy(json!({
        "name": "both", "source": "S", "destination": "D",
        "match_fields": {"protocol": "udp", "destination_port": PORT},
        "chain": [{"name": "v3", "direction": "same"}, {"name": "v2", "direction": "same"}],
    }));
    chain.chain
}

fn wait_status(house: &House, chain: &str, state: ChainState, is_told: impl Fn(&str) -> bool) {
    wait_for("the status of the chain", || {
        let status = house.chain(chain).status;
        let is_it = status.state == state && is_told(&status.reason);
        if is_it { Ok(()) } else { Err(format!("{:?}: {}", status.state, status.reason)) }
    });
}

/// Datagrams from S to D's port, of which nobody knows whether they arrive.
fn send_some(from: &Node, to: SocketAddr, source: &str, count: u32) {
    let socket = from.inside(|| UdpSocket::bind((source, 0))).expect("a socket");
    for number in 0..count {
        socket.send_to(&number.to_be_bytes(), to).expect("a datagram leaves");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_function_that_forwards_nothing_is_told_and_one_that_sends_astray_passes_nobody_by() {
    const COUNT: u32 = 40;
    in_own_house("strays.yaml", |house| {
        let chain = through_both(house);
        let (source, astray) = (house.node("S"), house.node("v3"));
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        send_and_count(&source, &house.node("D"), to, COUNT);
        // Its kernel forwards nothing: told, and no fault of the chain.
        astray.set("net/ipv4/ip_forward", "0");
        let sending = Sender::new(&source, to).keep_sending();
        let is_told =
            |reason: &str| reason.contains("'v3'") && reason.contains("gives nothing back");
        wait_status(house, &chain, ChainState::Active, is_told);
        sending.stop();
        astray.set("net/ipv4/ip_forward", "1");
        send_and_count(&source, &house.node("D"), to, COUNT);
        wait_status(house, &chain, ChainState::Active, str::is_empty);

        // It forwards by its other port, to the MAC of somebody there.
        let taker = house.node("I");
        astray.ip(&format!(
            "neigh replace {} lladdr {} dev internal",
            to.ip(),
            taker.mac("internal")
        ));
        astray.ip(&format!("route add {}/32 dev internal table 99", to.ip()));
        astray.ip(&format!("rule add pref 1 to {} lookup 99", to.ip()));
        let folder = tempfile::tempdir().expect("a folder");
        let filter = format!("udp and dst port {PORT}");
        let places = [("v3", "internal"), ("v2", "customer"), ("D", "customer"), ("I", "internal")];
        let captures = places.map(|(node, interface)| {
            Capture::start(&house.node(node), interface, &filter, folder.path())
        });
        let before = drops(house, &[DropReason::UndeclaredPort]);
        send_some(&source, to, "0.0.0.0", COUNT);
        wait_for("each by its name", || {
            let dropped = drops(house, &[DropReason::UndeclaredPort]) - before;
            if dropped == u64::from(COUNT) { Ok(()) } else { Err(dropped.to_string()) }
        });
        let seen = captures.map(|capture| capture.frames().len());
        assert_eq!(seen, [COUNT as usize, 0, 0, 0], "v3 sent them, and nobody else had any");
        let is_told =
            |reason: &str| reason.contains("function 'v3'") && reason.contains("v3@internal");
        wait_status(house, &chain, ChainState::Degraded, is_told);
    });
}

/// The first of a kind by its name.
fn named(house: &House, kind: Kind, name: &str) -> Value {
    let all = house.client.list(kind, &[]).expect("a list");
    let found = all.into_iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn two_networks_share_a_function_by_their_addresses_or_not_at_all() {
    const COUNT: u32 = 40;
    in_own_house("strays.yaml", |house| {
        let create = |kind, body: Value| {
            let made = house.client.create(kind, &body).unwrap_or_else(|error| panic!("{error}"));
            made["id"].as_str().expect("an id").to_owned()
        };
        through_both(house);
        let pairs = named(house, Kind::PortPair, "v3");
        let group = house.client.list(Kind::PortPairGroup, &[]).expect("a list");
        let of_v3 = group.iter().find(|group| group["port_pairs"] == json!([pairs["id"]]));
        let group = of_v3.expect("the function of v3")["id"].clone();
        let classifier = |name: &str, port: &str| {
            json!({"name": name, "ethertype": "IPv4", "protocol": "udp",
                   "destination_port_range_min": PORT, "destination_port_range_max": PORT,
                   "logical_source_port": port})
        };
        let chain = |name: &str, classifier: &str| json!({"name": name, "port_pair_groups": [group], "flow_classifiers": [classifier]});

        // A network with the customers' addresses: nothing would tell its packets from theirs.
        let twin = create(Kind::Network, json!({"name": "twin"}));
        create(Kind::Subnet, json!({"network_id": twin, "cidr": "10.10.0.0/24"}));
        let port = create(Kind::Port, json!({"network_id": twin, "name": "T"}));
        let from_twin = create(Kind::FlowClassifier, classifier("from-twin", &port));
        let refused = house.client.create(Kind::PortChain, &chain("twin", &from_twin));
        let refused = refused.expect_err("it is refused").to_string();
        assert!(refused.contains("subnets of the two overlap"), "{refused}");

        // One with addresses of its own shares it, and nothing of one comes out in the other.
        let port = named(house, Kind::Port, "I@internal");
        let port = port["id"].as_str().expect("an id");
        let from_inside = create(Kind::FlowClassifier, classifier("from-inside", port));
        let inside = create(Kind::PortChain, chain("inside", &from_inside));
        house.wait_active(&inside);
        let folder = tempfile::tempdir().expect("a folder");
        let filter = format!("udp and dst port {PORT}");
        let places = [("v3", "customer"), ("D", "customer"), ("J", "internal")];
        let captures = places.map(|(node, interface)| {
            Capture::start(&house.node(node), interface, &filter, folder.path())
        });
        let to_d = SocketAddr::new(address("D", Family::V4), PORT);
        let of_j = house.node("J").ip("-4 -o address show dev internal");
        let of_j = of_j.split_whitespace().nth(3).and_then(|net| net.split('/').next());
        let to_j = SocketAddr::new(of_j.expect("an address").parse().expect("an address"), PORT);
        send_and_count(&house.node("S"), &house.node("D"), to_d, COUNT);
        send_and_count(&house.node("I"), &house.node("J"), to_j, COUNT);
        // From S's address in the other network: it does not go in.
        let forger = house.node("I");
        forger.ip("address add 10.10.0.10/32 dev internal");
        let before = drops(house, &[DropReason::ForeignAddress]);
        send_some(&forger, to_j, "10.10.0.10", COUNT);
        wait_for("each by its name", || {
            let dropped = drops(house, &[DropReason::ForeignAddress]) - before;
            if dropped == u64::from(COUNT) { Ok(()) } else { Err(dropped.to_string()) }
        });
        let [through, at_d, at_j] = captures.map(Capture::frames);
        let to = |frame: &Frame| frame.bytes[ETHERNET_BYTES + 16..][..4].to_vec();
        assert_eq!((at_d.len(), at_j.len()), (COUNT as usize, COUNT as usize));
        assert!(at_d.iter().all(|frame| to(frame) == octets(to_d.ip())));
        assert!(at_j.iter().all(|frame| to(frame) == octets(to_j.ip())));
        // In and out once each.
        assert_eq!(through.len(), 4 * COUNT as usize);
    });
}

/// A function of layer 2 at the ports of v3; ended with this value.
struct Wire(Child);

impl Wire {
    fn start(house: &House, more: &[&str]) -> Self {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/tests/wire_function.py");
        let script = script.display().to_string();
        let arguments = [&[script.as_str(), "customer", "internal"], more].concat();
        let mut child = house.node("v3").start("python3", &arguments);
        let mut line = String::new();
        let said = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(said).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "the function did not begin");
        Self(child)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gives an endpoint of the twin network the address that another has in the customers'.
fn be_like(house: &House, endpoint: &str, address: IpAddr) -> String {
    let port = named(house, Kind::Port, &format!("{endpoint}@twin"));
    let port = port["id"].as_str().expect("an id").to_owned();
    let body = json!({"fixed_ips": [{"ip_address": address}]});
    house.client.update(Kind::Port, &port, &body).unwrap_or_else(|error| panic!("{error}"));
    house.node(endpoint).ip("address flush dev twin");
    house.node(endpoint).ip(&format!("address add {address}/24 dev twin"));
    port
}

/// Datagrams of one five-tuple in each of two networks, in turn, and what came of them to each end.
fn send_alike(house: &House, to: SocketAddr, count: u32) -> [Vec<Vec<u8>>; 2] {
    let ends = ["D", "E"].map(|end| {
        let socket = house.node(end).inside(|| UdpSocket::bind(to)).expect("a free port");
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        socket
    });
    let sources = ["S", "T"].map(|source| {
        let socket = house.node(source).inside(|| UdpSocket::bind(("0.0.0.0", 40_000)));
        (source, socket.expect("a free port"))
    });
    for _ in 0..count {
        for (name, socket) in &sources {
            socket.send_to(name.as_bytes(), to).expect("a datagram leaves");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    ends.map(|end| {
        let mut bytes = [0; 64];
        let came = std::iter::from_fn(|| end.recv(&mut bytes).ok().map(|n| bytes[..n].to_vec()));
        came.collect()
    })
}

#[test]
fn two_networks_with_equal_addresses_share_a_function_that_keeps_macs() {
    const COUNT: u32 = 40;
    in_own_house("twins.yaml", |house| {
        let create = |kind, body: Value| house.client.create(kind, &body);
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        house.deploy(json!({
            "name": "ours", "source": "S", "destination": "D",
            "match_fields": {"protocol": "udp", "destination_port": PORT},
            "chain": [{"name": "v3", "direction": "in"}],
        }));
        for node in ["v1", "v3"] {
            house.node(node).set("net/ipv4/ip_forward", "0");
        }
        let from = be_like(house, "T", address("S", Family::V4));
        be_like(house, "E", to.ip());
        let classifier = json!({
            "name": "from-twin", "ethertype": "IPv4", "protocol": "udp",
            "destination_port_range_min": PORT, "destination_port_range_max": PORT,
            "logical_source_port": from,
        });
        let classifier = create(Kind::FlowClassifier, classifier).expect("a classifier");
        let group = named(house, Kind::PortPairGroup, "v3");
        // No two chains have the same functions: this one has a tap as well.
        let port = &named(house, Kind::Port, "v1@customer")["id"];
        let pair = json!({"name": "v1", "ingress": port, "egress": port});
        let pair = create(Kind::PortPair, pair).expect("a pair");
        let tap = json!({"name": "v1", "port_pairs": [pair["id"]], "tap_enabled": true});
        let tap = create(Kind::PortPairGroup, tap).expect("a function");
        let theirs = json!({
            "name": "theirs", "port_pair_groups": [group["id"], tap["id"]],
            "flow_classifiers": [classifier["id"]],
        });
        let refused = create(Kind::PortChain, theirs.clone()).expect_err("it is refused");
        assert!(refused.to_string().contains("keeps MAC addresses"), "{refused}");
        let said = house.tell(&["function", "update", "v3", "--keeps-mac", "true"]);
        assert!(said.contains("keeps MACs"), "{said}");
        let theirs = create(Kind::PortChain, theirs).unwrap_or_else(|error| panic!("{error}"));
        house.wait_active(theirs["id"].as_str().expect("an id"));
        house.wait_settled();

        let wire = Wire::start(house, &[]);
        let came = send_alike(house, to, COUNT);
        let all_of = |name: &str| vec![name.as_bytes().to_vec(); COUNT as usize];
        assert_eq!(came, [all_of("S"), all_of("T")]);
        drop(wire);
        // It says that it keeps MACs, and does not: of neither network anything comes out.
        let own = house.node("v3").mac("internal");
        let _liar = Wire::start(house, &[&own]);
        let before = drops(house, &[DropReason::UnknownReturn]);
        let came = send_alike(house, to, COUNT);
        assert_eq!(came, [Vec::<Vec<u8>>::new(), Vec::new()]);
        wait_for("each by its name", || {
            let dropped = drops(house, &[DropReason::UnknownReturn]) - before;
            if dropped == 2 * u64::from(COUNT) { Ok(()) } else { Err(dropped.to_string()) }
        });
    });
}
