//! What functions of the kernel need and do: neighbours, errors of their own, fragments, and
//! super-frames of every kind.

use crate::account::{self, ChainTotal};
use crate::house::{House, in_shared_house};
use crate::streams::stream;
use crate::traffic::{Family, Receiver, Sender, address, send_and_count};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

const PORT: u16 = 5_090;

/// A chain over everything of a family that S sends.
fn over_everything(family: Family, functions: &[&str]) -> Value {
    let steps: Vec<Value> =
        functions.iter().map(|name| json!({"name": name, "direction": "same"})).collect();
    json!({
        "name": format!("all-{}", family.ethertype()), "source": "S", "destination": "D",
        "match_fields": {"ethertype": family.ethertype()}, "chain": steps,
    })
}

fn ping(house: &House, to: &str, options: &[&str]) -> String {
    let mut arguments = vec!["-n", "-c", "3", "-i", "0.1", "-W", "1"];
    arguments.extend(options);
    arguments.push(to);
    let output = house.node("S").attempt("ping", &arguments);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn neighbours_are_found_beneath_a_chain_over_everything() {
    in_shared_house(|house| {
        for family in Family::BOTH {
            let chain = house.deploy(over_everything(family, &["v11", "v9"]));
            for node in ["S", "D", "v11", "v9"] {
                house.node(node).ip("neighbour flush all");
            }
            let to = address("D", family).to_string();
            let said = ping(house, &to, &[]);
            assert!(said.contains("3 received"), "{family:?}: {said}");
            account::assert_chain(house, &chain.chain, &ChainTotal::whole(3, &["v11", "v9"]));
            house.undeploy(&chain.chain);
        }
    });
}

#[test]
fn multicast_is_never_classified() {
    in_shared_house(|house| {
        let group = Ipv4Addr::new(239, 1, 2, 3);
        let chain = house.deploy(over_everything(Family::V4, &["v8"]));
        let (source, destination) = (house.node("S"), house.node("D"));
        let own: Ipv4Addr = "10.10.0.11".parse().expect("an address");
        let receiver = destination.inside(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).expect("a free port");
            socket.join_multicast_v4(&group, &own).expect("a membership");
            socket
        });
        receiver.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
        source.ip("route add 239.0.0.0/8 dev customer");
        let sender = source.inside(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
        sender.send_to(b"to all", (group, PORT)).expect("a datagram leaves");
        let mut bytes = [0; 64];
        let length = receiver.recv(&mut bytes).expect("multicast crosses hosts");
        assert_eq!(&bytes[..length], b"to all");
        account::assert_chain(house, &chain.chain, &ChainTotal::whole(0, &["v8"]));
        source.ip("route del 239.0.0.0/8");
    });
}

/// A function is a router: it says itself that a hop limit ran out, and that is its own traffic.
#[test]
fn what_a_function_says_of_its_own_is_ordinary_and_counted_as_created() {
    in_shared_house(|house| {
        for (family, own) in [(Family::V4, "10.10.0.108"), (Family::V6, "fd00:10::6c")] {
            let chain = house.deploy(over_everything(family, &["v8"]));
            let before = created_by(house, "v8@customer");
            let said = ping(house, &address("D", family).to_string(), &["-t", "1"]);
            assert!(said.contains(own), "{family:?}: {said}");
            assert!(said.contains("exceeded"), "{family:?}: {said}");
            assert!(created_by(house, "v8@customer") >= before + 3);
            house.undeploy(&chain.chain);
        }
    });
}

fn created_by(house: &House, port: &str) -> u64 {
    let counters = account::counters(house);
    let mut ports = counters.iter().flat_map(|node| &node.ports);
    ports.find(|counters| counters.name == port).expect("a port").created_by_function
}

#[test]
fn fragments_take_the_chain_of_their_first() {
    const DATAGRAMS: u32 = 50;
    /// Three fragments at a tenant MTU of 1,400 bytes, over either family.
    const BYTES: usize = 3_000;
    in_shared_house(|house| {
        for family in Family::BOTH {
            let chain = house.deploy(json!({
                "name": "pieces", "source": "S", "destination": "D",
                "match_fields": {
                    "ethertype": family.ethertype(), "protocol": "udp", "destination_port": PORT,
                },
                "chain": [{"name": "v11", "direction": "same"}, {"name": "v9", "direction": "same"}],
            }));
            let to = SocketAddr::new(address("D", family), PORT);
            let receiver = house.node("D").inside(|| UdpSocket::bind(to)).expect("a free port");
            receiver.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
            let any = if family == Family::V4 { "0.0.0.0:0" } else { "[::]:0" };
            let sender = house.node("S").inside(|| UdpSocket::bind(any)).expect("a socket");
            let mut bytes = vec![0; 4_096];
            for number in 0..DATAGRAMS {
                let byte = number.to_le_bytes()[0];
                sender.send_to(&vec![byte; BYTES], to).expect("a datagram leaves");
                let length = receiver.recv(&mut bytes).expect("it arrives");
                assert_eq!(bytes[..length], vec![byte; BYTES], "{family:?} {number}");
            }
            let pieces = ChainTotal::whole(u64::from(DATAGRAMS) * 3, &["v11", "v9"]);
            account::assert_chain(house, &chain.chain, &pieces);
            house.undeploy(&chain.chain);
        }
    });
}

/// Sends super-datagrams that the kernel cuts only where it must (UDP_SEGMENT of `udp(7)`), after
/// one plain one that makes all neighbours known: what waits for a neighbour is bounded in bytes.
const SUPER_SENDER: &str = r"
import socket, struct, sys, time
host, port, count, segment, per = sys.argv[1], *map(int, sys.argv[2:])
s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM)
s.connect((host, port))
datagram = lambda number: struct.pack('!III', 1, 2, number) + bytes(segment - 12)
s.send(datagram(0))
time.sleep(0.3)
s.setsockopt(17, 103, segment)
for first in range(1, 1 + count * per, per):
    s.send(b''.join(datagram(first + number) for number in range(per)))
    time.sleep(0.005)
";

#[test]
fn udp_super_frames_of_a_tenant_pass_functions_here_and_over_hosts() {
    const SUPER_FRAMES: u32 = 40;
    const SEGMENTS: u32 = 30;
    in_shared_house(|house| {
        for encapsulation in ["nsh", "mpls"] {
            for family in Family::BOTH {
                let chain = house.deploy(json!({
                    "name": "super", "source": "S", "destination": "D",
                    "encapsulation": encapsulation,
                    "match_fields": {
                        "ethertype": family.ethertype(), "protocol": "udp",
                        "destination_port": PORT,
                    },
                    "chain": [
                        {"name": "v11", "direction": "same"}, {"name": "v9", "direction": "same"},
                    ],
                }));
                let to = SocketAddr::new(address("D", family), PORT);
                let receiver = Receiver::new(&house.node("D"), to);
                let numbers = [u32::from(PORT), SUPER_FRAMES, 1_200, SEGMENTS];
                let numbers = numbers.map(|number| number.to_string());
                let host = to.ip().to_string();
                let mut arguments = vec!["-c", SUPER_SENDER, &host];
                arguments.extend(numbers.iter().map(String::as_str));
                house.node("S").run("python3", &arguments);
                let count = 1 + SUPER_FRAMES * SEGMENTS;
                receiver.assert_all(count);
                let whole = ChainTotal::whole(count.into(), &["v11", "v9"]);
                account::assert_chain(house, &chain.chain, &whole);
                house.undeploy(&chain.chain);
            }
        }
    });
}

/// Forth and back by chains of their own: either direction is a chain with its own classifier.
#[test]
fn a_stream_goes_forth_by_one_chain_and_back_by_another() {
    in_shared_house(|house| {
        let chain = |name: &str, from: &str, to: &str, fields: Value, function: &str| {
            json!({
                "name": name, "source": from, "destination": to, "match_fields": fields,
                "chain": [{"name": function, "direction": "same"}],
            })
        };
        let forth = json!({
            "protocol": "tcp", "destination_port": PORT, "source_ip_prefix": "10.10.0.10/32",
        });
        let back = json!({
            "protocol": "tcp", "source_port": PORT, "source_ip_prefix": "10.10.0.11/32",
        });
        let forth = house.deploy(chain("forth", "S", "D", forth, "v8"));
        let back = house.deploy(chain("back", "D", "S", back, "v9"));
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        stream(&house.node("S"), &house.node("D"), to, Duration::from_millis(300));
        // The last words of the stream may still be on their way; nothing moves after them.
        account::still_ports(house);
        for (chain, function) in [(&forth.chain, "v8"), (&back.chain, "v9")] {
            let total = ChainTotal::of(&house.chain(chain));
            assert!(total.entered > 10, "{function}: {total:?}");
            let whole = ChainTotal { dropped: 0, ..ChainTotal::whole(total.entered, &[function]) };
            account::assert_chain(house, chain, &whole);
        }
    });
}

/// The numbers of a chain are its own: what other chains carry beside it changes none of them.
#[test]
fn chains_beside_each_other_share_functions_and_keep_their_counters() {
    in_shared_house(|house| {
        let ports = [PORT + 1, PORT + 2, PORT + 3];
        let routes: [&[&str]; 3] = [&["v8", "v9"], &["v9", "v8"], &["v9"]];
        let chains: Vec<String> = ports
            .iter()
            .zip(routes)
            .map(|(port, functions)| {
                let steps: Vec<Value> = functions
                    .iter()
                    .map(|name| json!({"name": name, "direction": "same"}))
                    .collect();
                let document = json!({
                    "name": format!("beside-{port}"), "source": "S", "destination": "D",
                    "match_fields": {"protocol": "udp", "destination_port": port}, "chain": steps,
                });
                house.deploy(document).chain
            })
            .collect();
        let (source, destination) = (house.node("S"), house.node("D"));
        // A host holds few datagrams back for a neighbour whose MAC it does not know yet; the oldest of more end in it.
        let known = SocketAddr::new(address("D", Family::V4), PORT + 4);
        send_and_count(&source, &destination, known, 1);
        let runs: Vec<(Receiver, Sender)> = ports
            .iter()
            .map(|port| {
                let to = SocketAddr::new(address("D", Family::V4), *port);
                (Receiver::new(&destination, to), Sender::new(&source, to))
            })
            .collect();
        let counts = [200, 300, 400];
        let senders: Vec<_> = runs
            .into_iter()
            .zip(counts)
            .map(|((receiver, mut sender), count)| {
                let run = move || {
                    sender.send_many(count);
                    receiver.assert_all(count);
                };
                std::thread::spawn(run)
            })
            .collect();
        for sender in senders {
            sender.join().expect("all datagrams arrive");
        }
        for ((chain, functions), count) in chains.iter().zip(routes).zip(counts) {
            account::assert_chain(house, chain, &ChainTotal::whole(count.into(), functions));
        }
    });
}
