//! A tenant that floods a node takes nothing from another who is quiet.

use crate::account;
use crate::house::{House, in_own_house_with};
use crate::node::Node;
use crate::patience::wait_for;
use crate::traffic::{Receiver, send_and_count};
use catena_model::DropReason;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Child;
use std::time::Duration;

const PORT: u16 = 5_001;
/// New flows of the quiet tenant, and how many of them come at once.
const FLOWS: u32 = 2_000;
const AT_ONCE: u32 = 10;
const PAUSE: Duration = Duration::from_millis(4);
/// Every second flow is a datagram of this many bytes: three fragments.
const LARGE_BYTES: usize = 3_000;
const SMALL_BYTES: usize = 18;

/// Sends without a pause: a packet of a new flow, a first fragment that nothing follows, and a later
/// one that had none before, in turns.
const FLOOD: &str = r"
import socket, struct, sys
interface, own, to, source, destination = sys.argv[1:]
mac = lambda text: bytes.fromhex(text.replace(':', ''))
address = socket.inet_aton
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((interface, 0))

def frame(number, identification, fragment, data):
    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(data), identification, fragment, 64, 17, 0,
                       address(source), address(destination))
    total = sum(struct.unpack('!10H', head))
    total = (total & 0xffff) + (total >> 16)
    head = head[:10] + struct.pack('!H', ~(total + (total >> 16)) & 0xffff) + head[12:]
    return mac(to) + mac(own) + b'\x08\x00' + head + data

frames = []
for number in range(1, 30000):
    small = struct.pack('!HHHH', number, 5001, 8 + 18, 0) + bytes(18)
    frames.append(frame(number, 0, 0, small))
    if number % 3 == 0:
        first = struct.pack('!HHHH', number, 5001, 48, 0) + bytes(16)
        frames.append(frame(number, number, 0x2000, first))
        frames.append(frame(number, number | 0x8000, 3, bytes(24)))
while True:
    for one in frames:
        try:
            s.send(one)
        except OSError:
            pass
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

fn flood(house: &House) -> Child {
    let (source, destination) = (house.node("S"), house.node("D"));
    let (own, to) = (source.mac("customer"), destination.mac("customer"));
    let from = own_address(&source, "customer");
    let at = own_address(&destination, "customer");
    source.start("python3", &["-c", FLOOD, "customer", &own, &to, &from, &at])
}

/// What a port dropped because fragments had no room.
fn refused(house: &House, port: &str) -> u64 {
    let ports = account::counters(house).into_iter().flat_map(|node| node.ports);
    let drops = ports.filter(|counters| counters.name == port);
    let reason = DropReason::FragmentsWaitingFull;
    drops.filter_map(|counters| counters.account.dropped.get(&reason).copied()).sum()
}

/// A numbered datagram of each of many flows.
fn send_flows(from: &Node, to: SocketAddr) {
    from.inside(|| {
        for number in 0..FLOWS {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            let length = if number % 2 == 0 { SMALL_BYTES } else { LARGE_BYTES };
            let mut payload = vec![0; length];
            payload[8..12].copy_from_slice(&number.to_be_bytes());
            socket.send_to(&payload, to).expect("a datagram leaves");
            if number % AT_ONCE == AT_ONCE - 1 {
                std::thread::sleep(PAUSE);
            }
        }
    });
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
        let mut flood = flood(house);
        wait_for("the flood to be refused", || {
            let refused = refused(house, "S@customer");
            if refused > 1_000 { Ok(()) } else { Err(refused.to_string()) }
        });
        let receiver = Receiver::new(&destination, to);
        send_flows(&source, to);
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
