//! Any bytes from the wire, and a disk that is full: named drops, clear errors, and everything
//! goes on.

use crate::account::{self, ChainTotal};
use crate::capture::Capture;
use crate::house::{House, in_own_house, in_shared_house};
use crate::node::Node;
use crate::patience::{Chance, wait_for};
use crate::traffic::{Family, address, send_and_count};
use catena_client::Kind;
use catena_model::DropReason;
use serde_json::json;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const PORT: u16 = 5_100;
const FRAMES: u64 = 3_000;
/// VXLAN, VXLAN-GPE, MPLS over UDP.
const TUNNEL_PORTS: [u16; 3] = [4_789, 4_790, 6_635];
const BYTES_MAX: u64 = 1_400;
/// VXLAN-GPE.
const NSH_PORT: u16 = TUNNEL_PORTS[1];
/// Ethernet, IPv4 and UDP of the data network.
const OUTER_BYTES: usize = 42;
const REPEATS: usize = 5;
/// After which nothing comes any more.
const SILENCE: Duration = Duration::from_millis(300);

fn chain(house: &House, encapsulation: &str) -> String {
    let chain = json!({
        "name": "besieged", "source": "S", "destination": "D", "encapsulation": encapsulation,
        "match_fields": {"protocol": "udp", "destination_port": PORT},
        "chain": [{"name": "v9", "direction": "same"}],
    });
    house.deploy(chain).chain
}

/// The chain carries as ever, by the same data planes.
fn assert_unmoved(house: &House, chain: &str, dataplanes: &[u32]) {
    let to = SocketAddr::new(address("D", Family::V4), PORT);
    send_and_count(&house.node("S"), &house.node("D"), to, 200);
    // Bytes that name the path by chance end on it, as drops of their own.
    let dropped = ChainTotal::of(&house.chain(chain)).dropped;
    let whole = ChainTotal { dropped, ..ChainTotal::whole(200, &["v9"]) };
    account::assert_chain(house, chain, &whole);
    assert_eq!(pids(house), dataplanes, "a data plane died");
    account::assert_holds(house);
}

fn pids(house: &House) -> Vec<u32> {
    ["host1", "host2", "host3", "host4"]
        .map(|host| house.process("dataplane", Some(host)).pid)
        .to_vec()
}

fn dropped(house: &House) -> u64 {
    account::counters(house).iter().map(|node| node.total().dropped_total()).sum()
}

/// Bytes by chance; sometimes with a head that leads a parser further.
fn bytes(chance: &mut Chance, heads: &[&[u8]]) -> Vec<u8> {
    let length = chance.below(BYTES_MAX);
    let mut bytes: Vec<u8> = (0..length).map(|_| chance.below(256).to_le_bytes()[0]).collect();
    let pick = usize::try_from(chance.below(heads.len() as u64 + 1)).unwrap_or_default();
    if let Some(head) = heads.get(pick) {
        let kept = head.len().min(bytes.len());
        bytes[..kept].copy_from_slice(&head[..kept]);
    }
    bytes
}

/// Sends raw frames from an interface of a node.
pub(crate) fn send_frames(node: &Node, interface: &str, frames: &[Vec<u8>]) {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("frames");
    let mut out = std::fs::File::create(&file).expect("a file");
    for frame in frames {
        let length = u16::try_from(frame.len()).expect("a short frame").to_be_bytes();
        out.write_all(&length).and_then(|()| out.write_all(frame)).expect("a frame is written");
    }
    let script = "
import socket, struct, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
data = open(sys.argv[2], 'rb').read()
at = number = 0
while at < len(data):
    length = struct.unpack_from('!H', data, at)[0]
    try:
        s.send(data[at + 2:at + 2 + length])
    except OSError:
        pass  # shorter than an Ethernet header: the kernel itself refuses
    at += 2 + length
    number += 1
    if number % 50 == 0:
        time.sleep(0.005)
";
    node.run("python3", &["-c", script, interface, &file.display().to_string()]);
}

#[test]
fn any_datagrams_from_the_data_network_are_named_drops() {
    in_shared_house(|house| {
        let mut chance = Chance::new("any_datagrams_from_the_data_network_are_named_drops");
        for encapsulation in ["nsh", "mpls"] {
            let (chain, dataplanes) = (chain(house, encapsulation), pids(house));
            let before = dropped(house);
            // A known node's address, and one that is no node's.
            let host = house.node("host2");
            host.ip("address add 172.30.0.200/24 dev data0");
            for own in ["172.30.0.2", "172.30.0.200"] {
                let socket = host.inside(|| UdpSocket::bind((own, 0))).expect("a socket");
                for number in 0..FRAMES {
                    let port = TUNNEL_PORTS[usize::try_from(number % 3).expect("small")];
                    // VNI flag and a VNI; GPE with NSH inside; labels that are legal.
                    let heads: [&[u8]; 3] = [
                        &[8, 0, 0, 0, 0, 0, 1, 0],
                        &[0x0c, 0, 0, 4, 0, 0, 1, 0, 0x0f, 0xc6, 1, 3, 0, 0, 1, 255],
                        &[0, 1, 0, 63, 0, 15, 1, 63],
                    ];
                    let to = SocketAddr::new([172, 30, 0, 3].into(), port);
                    socket.send_to(&bytes(&mut chance, &heads), to).expect("a datagram leaves");
                    if number % 50 == 0 {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                }
            }
            host.ip("address del 172.30.0.200/24 dev data0");
            assert_unmoved(house, &chain, &dataplanes);
            assert!(dropped(house) - before > FRAMES, "{}", dropped(house) - before);
            let strangers: u64 = account::counters(house)
                .iter()
                .filter_map(|node| node.tunnels.dropped.get(&DropReason::UnknownTunnelSource))
                .sum();
            assert!(strangers > 0, "an unknown source is a reason of its own");
            house.undeploy(&chain);
        }
    });
}

/// The underlay address of a host.
fn underlay(host: u8) -> SocketAddr {
    SocketAddr::new([172, 30, 0, host].into(), NSH_PORT)
}

/// Datagrams that no node has any business to send to where they went.
fn foreign(house: &House) -> u64 {
    let nodes = account::counters(house);
    let named = nodes.iter().map(|node| node.tunnels.dropped.get(&DropReason::ForeignPath));
    named.map(|count| count.copied().unwrap_or_default()).sum()
}

/// What one node sent to the next function is the same bytes from another: only where it comes from
/// tells who may.
#[test]
fn a_node_that_repeats_what_another_sent_reaches_no_function() {
    in_shared_house(|house| {
        let chain = house.deploy(json!({
            "name": "watched", "source": "S", "destination": "D", "encapsulation": "nsh",
            "match_fields": {"protocol": "udp", "destination_port": PORT},
            "chain": [{"name": "v8", "direction": "same"}, {"name": "v9", "direction": "same"}],
        }));
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let receiver = house.node("D").inside(|| UdpSocket::bind(to)).expect("a socket");
        receiver.set_read_timeout(Some(SILENCE)).expect("a timeout");
        let came = || (0..).take_while(|_| receiver.recv(&mut [0; 64]).is_ok()).count();

        let folder = tempfile::tempdir().expect("a folder");
        let filter = "udp dst port 4790 and src host 172.30.0.2";
        let capture = Capture::start(&house.node("host3"), "data0", filter, folder.path());
        let source = house.node("S").inside(|| UdpSocket::bind((address("S", Family::V4), 0)));
        source.expect("a socket").send_to(b"once", to).expect("it leaves");
        assert_eq!(came(), 1, "what S sent");
        let frames = capture.frames();
        let frame = frames.first().expect("the datagram between the functions");
        let payload = frame.bytes.get(OUTER_BYTES..frame.length).expect("the whole datagram");
        let repeat = |host: u8| {
            let node = house.node(&format!("host{host}"));
            let from = SocketAddr::new(underlay(host).ip(), 0);
            let socket = node.inside(|| UdpSocket::bind(from)).expect("a socket");
            for _ in 0..REPEATS {
                socket.send_to(payload, underlay(3)).expect("it leaves");
            }
            came()
        };

        let before = foreign(house);
        assert_eq!(repeat(2), REPEATS, "from the node of the function before it is a good one");
        assert_eq!(foreign(house), before);
        // One that classifies into the path, and one that carries none of its functions.
        for (number, host) in (1..).zip([1, 4]) {
            assert_eq!(repeat(host), 0, "by host{host}");
            wait_for("the drops by name", || {
                let count = foreign(house) - before;
                if count == number * REPEATS as u64 { Ok(()) } else { Err(count.to_string()) }
            });
        }
        house.undeploy(&chain.chain);
        account::assert_holds(house);
    });
}

#[test]
fn any_frames_from_a_tenant_are_accounted_for() {
    in_shared_house(|house| {
        let mut chance = Chance::new("any_frames_from_a_tenant_are_accounted_for");
        let (chain, dataplanes) = (chain(house, "nsh"), pids(house));
        let before = account::counters(house);
        // To D and to everybody, as: IPv4, IPv6, ARP, NSH, MPLS, a VLAN tag, nothing known.
        let kinds: [[u8; 2]; 7] =
            [[8, 0], [0x86, 0xdd], [8, 6], [0x89, 0x4f], [0x88, 0x47], [0x81, 0], [0x12, 0x34]];
        let (own, other) = (house.node("S").mac("customer"), house.node("D").mac("customer"));
        let mac = |text: &str| -> Vec<u8> {
            text.split(':').map(|part| u8::from_str_radix(part, 16).expect("hex")).collect()
        };
        let mut frames = Vec::new();
        for number in 0..FRAMES {
            let to = if number % 2 == 0 { mac(&other) } else { vec![255; 6] };
            let kind = kinds[usize::try_from(chance.below(7)).expect("small")];
            let first: [&[u8]; 3] = [&[0x45, 0], &[0x60, 0], &[0, 1, 8, 0, 6, 4, 0, 1]];
            let rest = bytes(&mut chance, &first);
            let rest = &rest[..rest.len().min(1_380)];
            frames.push([&to[..], &mac(&own), &kind, rest].concat());
        }
        send_frames(&house.node("S"), "customer", &frames);
        assert_unmoved(house, &chain, &dataplanes);
        let named = |reason: DropReason| -> u64 {
            let of = |counters: &[catena_model::NodeCounters]| -> u64 {
                counters.iter().filter_map(|node| node.total().dropped.get(&reason).copied()).sum()
            };
            of(&account::counters(house)) - of(&before)
        };
        // A tenant must not speak the language of chains.
        assert!(named(DropReason::ForeignChainHeader) > 0);
        assert!(named(DropReason::MalformedIp) > 0);
    });
}

#[test]
fn a_full_disk_is_a_clear_error_and_packets_go_on() {
    in_own_house("pair.yaml", |house| {
        let document = |name: &str, port: u16| {
            json!({
                "name": name, "source": "S", "destination": "D",
                "match_fields": {"protocol": "udp", "destination_port": port},
                "chain": [{"name": "v2", "direction": "same"}],
            })
        };
        let chain = house.deploy(document("kept", PORT));
        let before = house.declared();
        let filler = house.path("/run/catena/filler");
        let written = std::fs::File::create(&filler).and_then(|file| fill(&file));
        assert_eq!(written.map_err(|error| error.kind()), Err(std::io::ErrorKind::StorageFull));
        // The store may have room in its pages for a while; then it must say so.
        let rule = |number: u16| {
            json!({
                "name": "x".repeat(200), "protocol": "tcp", "destination_port_range_min": number,
                "destination_port_range_max": number,
            })
        };
        let refusal = (1..2_000)
            .find_map(|number| house.client.create(Kind::FlowClassifier, &rule(number)).err())
            .expect("a full disk is told");
        println!("told: {refusal}");
        let said = refusal.to_string().to_lowercase();
        assert!(said.contains("full") || said.contains("space"), "{said}");
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        send_and_count(&house.node("S"), &house.node("D"), to, 200);
        account::assert_chain(house, &chain.chain, &ChainTotal::whole(200, &["v2"]));
        std::fs::remove_file(&filler).expect("the filler goes");
        for made in house.client.list(Kind::FlowClassifier, &[]).expect("a list") {
            if made["protocol"] == "tcp" {
                let id = made["id"].as_str().expect("an id");
                house.client.delete(Kind::FlowClassifier, id).expect("it goes");
            }
        }
        assert_eq!(house.declared(), before);
        house.undeploy(&chain.chain);
        let again = house.deploy(document("again", PORT));
        send_and_count(&house.node("S"), &house.node("D"), to, 100);
        account::assert_chain(house, &again.chain, &ChainTotal::whole(100, &["v2"]));
    });
}

/// Writes until there is no room.
fn fill(mut file: &std::fs::File) -> std::io::Result<()> {
    use std::io::Write;
    let block = vec![0; 1024 * 1024];
    loop {
        if let Err(error) = file.write_all(&block) {
            // The last bytes, too.
            while file.write(&[0]).is_ok_and(|written| written > 0) {}
            return Err(error);
        }
    }
}
