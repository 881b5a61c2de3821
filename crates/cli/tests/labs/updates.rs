//! Chains change under traffic: every packet takes the old path or the new one, whole, and none is
//! lost; the flows of a group stay with their instance.

use crate::account;
use crate::capture::{Capture, Frame};
use crate::house::{House, in_shared_house};
use crate::traffic::{Family, Receiver, Sender, address};
use catena_client::Kind;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

const PORT: u16 = 5_080;
const CHANGES: u32 = 12;
const BETWEEN_CHANGES: Duration = Duration::from_millis(60);
const FUNCTIONS: [&str; 3] = ["v8", "v9", "v10"];

fn document(functions: &[&str]) -> Value {
    let steps: Vec<Value> =
        functions.iter().map(|name| json!({"name": name, "direction": "same"})).collect();
    json!({
        "name": "moving", "source": "S", "destination": "D", "chain": steps,
        "match_fields": {"protocol": "udp", "destination_port": PORT},
    })
}

fn destination() -> SocketAddr {
    SocketAddr::new(address("D", Family::V4), PORT)
}

/// Number of a datagram of ours over IPv4: Ethernet 14, IPv4 20, UDP 8, then 8 of the payload.
pub(crate) fn number_of(frame: &Frame) -> u32 {
    let four = frame.bytes.get(50..54).and_then(|four| four.try_into().ok());
    u32::from_be_bytes(four.expect("a numbered datagram"))
}

fn source_port_of(frame: &Frame) -> u16 {
    let two = frame.bytes.get(34..36).and_then(|two| two.try_into().ok());
    u16::from_be_bytes(two.expect("a datagram"))
}

/// Groups of one function each, made beforehand so that chains can come and change by one request.
pub(crate) fn groups_of(
    house: &House,
    functions: &[&'static str],
) -> BTreeMap<&'static str, String> {
    let create = |kind, body: Value| {
        let made = house.client.create(kind, &body).unwrap_or_else(|error| panic!("{error}"));
        made["id"].as_str().expect("an id").to_owned()
    };
    let make = |name: &&'static str| {
        let port = house.client.list(Kind::Port, &[("name", &format!("{name}@customer"))]);
        let port = port.expect("a list")[0]["id"].clone();
        let pair = json!({"name": name, "ingress": port, "egress": port});
        let pair = create(Kind::PortPair, pair);
        (*name, create(Kind::PortPairGroup, json!({"name": name, "port_pairs": [pair]})))
    };
    functions.iter().map(make).collect()
}

/// What each packet was seen at, a name for each time.
type Visits = BTreeMap<u32, Vec<&'static str>>;

/// Sends from before to after `change`, which must cost no packet; answers how many were sent and
/// which functions each visited.
fn visits_during(house: &House, change: impl FnOnce()) -> (u32, Visits) {
    let ring_full = account::ring_full(house);
    let folder = tempfile::tempdir().expect("a folder");
    let filter = format!("udp dst port {PORT}");
    let captures = FUNCTIONS
        .map(|name| (name, Capture::start(&house.node(name), "customer", &filter, folder.path())));
    let receiver = Receiver::new(&house.node("D"), destination());
    let sending = Sender::new(&house.node("S"), destination()).keep_sending();
    std::thread::sleep(BETWEEN_CHANGES);
    change();
    std::thread::sleep(BETWEEN_CHANGES);
    let sent = sending.stop();
    receiver.assert_all(sent);
    assert_eq!(account::ring_full(house), ring_full);
    let mut visits = Visits::new();
    for (name, capture) in captures {
        for frame in capture.frames() {
            visits.entry(number_of(&frame)).or_default().push(name);
        }
    }
    (sent, visits)
}

/// How many packets took each path; one that took none of `paths` whole is a failure.
fn count_by_path(sent: u32, visits: &Visits, paths: &[&[&str]]) -> Vec<u32> {
    let mut counts = vec![0; paths.len()];
    for number in 0..sent {
        let seen = visits.get(&number).map(Vec::as_slice).unwrap_or_default();
        // Each function is seen twice: into it and out of it.
        let took = |path: &&[&str]| {
            path.len() * 2 == seen.len()
                && path.iter().all(|name| seen.iter().filter(|seen| *seen == name).count() == 2)
        };
        let Some(taken) = paths.iter().position(took) else {
            panic!("packet {number} of {sent} was seen at {seen:?}");
        };
        counts[taken] += 1;
    }
    counts
}

#[test]
fn a_chain_that_changes_its_path_under_traffic_loses_no_packet_and_mixes_none() {
    in_shared_house(|house| {
        let first = house.deploy(document(&["v8"]));
        let other = house.deploy(json!({
            "name": "other", "source": "S", "destination": "D",
            "match_fields": {"protocol": "udp", "destination_port": PORT + 1},
            "chain": [{"name": "v9", "direction": "same"}, {"name": "v10", "direction": "same"}],
        }));
        house.client.delete(Kind::PortChain, &other.chain).expect("the chain goes");
        let (sent, visits) = visits_during(house, || {
            for change in 0..CHANGES {
                let groups = if change % 2 == 0 { &other.groups } else { &first.groups };
                let body = json!({"port_pair_groups": groups});
                let chain = house.client.update(Kind::PortChain, &first.chain, &body);
                let chain = chain.unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(chain["status"], "active", "{change}: {}", chain["status_reason"]);
                std::thread::sleep(BETWEEN_CHANGES);
            }
        });
        let counts = count_by_path(sent, &visits, &[&["v8"], &["v9", "v10"]]);
        println!("{sent} packets, by path {counts:?}");
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    });
}

#[test]
fn a_chain_that_comes_and_goes_under_traffic_loses_no_packet_and_halves_none() {
    in_shared_house(|house| {
        let (sent, visits) = visits_during(house, || {
            for _ in 0..CHANGES {
                let chain = house.deploy(document(&["v8", "v9"]));
                std::thread::sleep(BETWEEN_CHANGES);
                house.undeploy(&chain.chain);
                std::thread::sleep(BETWEEN_CHANGES);
            }
        });
        let counts = count_by_path(sent, &visits, &[&[], &["v8", "v9"]]);
        println!("{sent} packets, by path {counts:?}");
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    });
}

/// A group of three instances on three hosts, made as a user of the API does.
fn group_of_three(house: &House) -> String {
    let create = |kind, body: Value| {
        let made = house.client.create(kind, &body).unwrap_or_else(|error| panic!("{error}"));
        made["id"].as_str().expect("an id").to_owned()
    };
    let port = |device: &str| {
        let listed = house.client.list(Kind::Port, &[("name", &format!("{device}@customer"))]);
        listed.expect("a list")[0]["id"].clone()
    };
    let pairs = FUNCTIONS.map(|name| {
        let port = port(name);
        create(Kind::PortPair, json!({"name": name, "ingress": port, "egress": port}))
    });
    let group = create(Kind::PortPairGroup, json!({"name": "three", "port_pairs": pairs}));
    let rule = create(
        Kind::FlowClassifier,
        json!({
            "name": "three", "protocol": "udp", "destination_port_range_min": PORT,
            "destination_port_range_max": PORT, "logical_source_port": port("S"),
        }),
    );
    let chain = json!({"name": "three", "port_pair_groups": [group], "flow_classifiers": [rule]});
    let chain = house.client.create(Kind::PortChain, &chain).expect("a chain");
    assert_eq!(chain["status"], "active", "{}", chain["status_reason"]);
    chain["id"].as_str().expect("an id").to_owned()
}

#[test]
fn the_flows_of_a_group_stay_with_their_instance_and_use_all_of_them() {
    const FLOWS: u32 = 48;
    const PACKETS: u32 = 10;
    in_shared_house(|house| {
        let chain = group_of_three(house);
        let folder = tempfile::tempdir().expect("a folder");
        let filter = format!("udp dst port {PORT}");
        let captures = FUNCTIONS.map(|name| {
            (name, Capture::start(&house.node(name), "customer", &filter, folder.path()))
        });
        let receiver = Receiver::new(&house.node("D"), destination());
        let mut senders: Vec<Sender> =
            (0..FLOWS).map(|_| Sender::new(&house.node("S"), destination())).collect();
        for _ in 0..PACKETS {
            for sender in &mut senders {
                sender.send();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // Each flow numbers from zero.
        let came = receiver.stop(PACKETS);
        assert_eq!(came, (0..PACKETS).map(|number| (number, FLOWS)).collect::<BTreeMap<_, _>>());
        let mut instances: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
        let mut loads: BTreeMap<&str, u32> = BTreeMap::new();
        for (name, capture) in captures {
            for frame in capture.frames() {
                instances.entry(source_port_of(&frame)).or_default().insert(name);
                *loads.entry(name).or_default() += 1;
            }
        }
        println!("frames by instance: {loads:?}");
        assert_eq!(instances.len(), FLOWS as usize);
        assert!(instances.values().all(|names| names.len() == 1), "{instances:?}");
        assert_eq!(loads.len(), FUNCTIONS.len(), "{loads:?}");
        assert_eq!(loads.values().sum::<u32>(), 2 * FLOWS * PACKETS);
        let total = account::ChainTotal::of(&house.chain(&chain));
        let packets = u64::from(FLOWS * PACKETS);
        assert_eq!((total.entered, total.finished, total.dropped), (packets, packets, 0));
    });
}
