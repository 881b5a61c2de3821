//! A tenant that floods a node takes nothing from another who is quiet.

use crate::account;
use crate::house::{House, in_own_house_with};
use crate::node::Node;
use crate::patience::wait_for;
use crate::traffic::{Receiver, send_and_count};
use catena_model::DropReason;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::process::Child;

const PORT: u16 = 5_001;
/// New flows of the quiet tenant.
const FLOWS: u32 = 2_000;

/// How both tenants make their frames: a whole datagram, or a part of one.
const FRAMES: &str = r"
import socket, struct, sys, time
interface, own, to, source, destination = sys.argv[1:]
mac = lambda text: bytes.fromhex(text.replace(':', ''))
address = socket.inet_aton
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((interface, 0))

def frame(identification, fragment, data):
    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(data), identification, fragment, 64, 17, 0,
                       address(source), address(destination))
    total = sum(struct.unpack('!10H', head))
    total = (total & 0xffff) + (total >> 16)
    head = head[:10] + struct.pack('!H', ~(total + (total >> 16)) & 0xffff) + head[12:]
    return mac(to) + mac(own) + b'\x08\x00' + head + data

datagram = lambda port, data: struct.pack('!HHHH', port, 5001, 8 + len(data), 0) + data
";

/// Without a pause: a packet of a new flow, a first fragment that nothing follows, and a later one
/// that had none before, in turns.
const FLOOD: &str = r"
frames = []
for number in range(1, 20000):
    frames.append(frame(0, 0, datagram(number, bytes(18))))
    frames.append(frame(number, 0x2000, datagram(number, bytes(40))[:24]))
    frames.append(frame(number | 0x8000, 3, bytes(24)))
while True:
    for one in frames:
        try:
            s.send(one)
        except OSError:
            pass
";

/// Each flow has one numbered datagram; every second one comes in two fragments with a pause between,
/// a hundred flows at a time.
const QUIET: &str = r"
for first in range(0, 2000, 100):
    later = []
    for number in range(first, first + 100):
        whole = datagram(10000 + number, struct.pack('!III', 1, 2, number) + bytes(36))
        if number % 2 == 0:
            s.send(frame(0, 0, whole))
        else:
            s.send(frame(number, 0x2000, whole[:32]))
            later.append(frame(number, 4, whole[32:]))
    time.sleep(0.1)
    for one in later:
        s.send(one)
";

fn chain(name: &str, source: &str, destination: &str, function: &str) -> Value {
    json!({
        "name": name, "source": source, "destination": destination,
        "match_fields": {"protocol": "udp", "destination_port": PORT},
        "chain": [{"name": function, "direction": "same"}],
    })
}

fn own_address(node: &Node, interface: &str) -> String {
    let said = node.ip(&format!("-4 -o address show dev {interface}"));
    let mut words = said.split_whitespace().skip_while(|word| *word != "inet").skip(1);
    words.next().and_then(|word| word.split('/').next()).expect("an address").to_owned()
}

/// Starts a script that sends from one node to another of the same network.
fn send(script: &str, network: &str, source: &Node, destination: &Node) -> Child {
    let (own, to) = (source.mac(network), destination.mac(network));
    let (from, at) = (own_address(source, network), own_address(destination, network));
    let script = format!("{FRAMES}{script}");
    source.start("python3", &["-c", &script, network, &own, &to, &from, &at])
}

/// What a port dropped because fragments had no room.
fn refused(house: &House, port: &str) -> u64 {
    let ports = account::counters(house).into_iter().flat_map(|node| node.ports);
    let drops = ports.filter(|counters| counters.name == port);
    let reason = DropReason::FragmentsWaitingFull;
    drops.filter_map(|counters| counters.account.dropped.get(&reason).copied()).sum()
}

#[test]
fn two_thousand_new_flows_of_a_quiet_tenant_arrive_beside_a_flood_on_the_same_node() {
    in_own_house_with("shares.yaml", &["--no-fastpath"], |house| {
        house.deploy(chain("noisy", "S", "D", "v1"));
        house.deploy(chain("quiet", "Q", "R", "w1"));
        let (source, destination) = (house.node("Q"), house.node("R"));
        let address: IpAddr = own_address(&destination, "quiet").parse().expect("an address");
        let to = SocketAddr::new(address, PORT);
        send_and_count(&source, &destination, to, 20);
        let mut flood = send(FLOOD, "customer", &house.node("S"), &house.node("D"));
        wait_for("the flood to be refused", || {
            let refused = refused(house, "S@customer");
            if refused > 1_000 { Ok(()) } else { Err(refused.to_string()) }
        });
        let receiver = Receiver::new(&destination, to);
        let quiet = send(QUIET, "quiet", &source, &destination).wait_with_output();
        let quiet = quiet.expect("it ends");
        assert!(quiet.status.success(), "{}", String::from_utf8_lossy(&quiet.stderr));
        receiver.assert_all(FLOWS);
        assert!(flood.try_wait().expect("a child").is_none(), "the flood has ended before");
        flood.kill().expect("it ends");
        flood.wait().expect("it has ended");
        assert_eq!(refused(house, "Q@quiet"), 0);
        // Its fragments that still wait end by their time.
        wait_for("nothing to wait", || {
            let held: u64 = account::counters(house).iter().map(|node| node.total().held).sum();
            if held == 0 { Ok(()) } else { Err(format!("{held} wait")) }
        });
    });
}
