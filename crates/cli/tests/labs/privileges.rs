//! What the processes that touch tenants' packets may do, and from where they take such packets.

use crate::account;
use crate::house::{House, in_shared_house};
use crate::node::Node;
use crate::patience::wait_for;
use crate::traffic::{Family, address};
use catena_client::Kind;
use catena_model::DropReason;
use serde_json::json;
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

const HOSTS: [&str; 4] = ["host1", "host2", "host3", "host4"];
/// The user of a lab's data planes.
const OF_DATAPLANES: &str = "61181";
/// The user of its controller.
const OF_CONTROLLERS: &str = "61182";
/// Of VXLAN.
const TUNNEL_PORT: u16 = 4_789;
const PORT: u16 = 5_095;
const FORGED: u64 = 5;
/// A veth whose one end is a port of the node for a while.
const NEAR: &str = "wild0";
const FAR: &str = "wild1";
/// How long is waited for what must not come.
const SILENCE: Duration = Duration::from_millis(200);

/// Threads of a process that may do more than this user's without any right of root, each with the line
/// that says so.
fn privileged_threads(process: u32, user: &str, seccomp: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut threads = 0;
    for entry in fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten() {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).expect("it runs");
        let (name, status) = (read("comm"), read("status"));
        threads += 1;
        for (key, expected) in [
            ("CapInh", "0000000000000000"),
            ("CapPrm", "0000000000000000"),
            ("CapEff", "0000000000000000"),
            ("CapBnd", "0000000000000000"),
            ("CapAmb", "0000000000000000"),
            ("NoNewPrivs", "1"),
            ("Seccomp", seccomp),
            ("Uid", user),
            ("Gid", user),
            ("Groups", ""),
        ] {
            let line =
                status.lines().find(|line| line.split(':').next() == Some(key)).expect("a line");
            if !line.split_whitespace().skip(1).all(|word| word == expected) {
                found.push(format!("{}: {line}", name.trim()));
            }
        }
    }
    assert!(threads >= 2, "control and worker of {process}");
    found
}

#[test]
fn no_thread_of_a_data_plane_has_a_privilege() {
    in_shared_house(|house| {
        for host in HOSTS {
            let process = house.process("dataplane", Some(host)).pid;
            // A list of system calls, and nobody else's files.
            let privileged = privileged_threads(process, OF_DATAPLANES, "2");
            assert_eq!(privileged, Vec::<String>::new(), "{host}");
        }
    });
}

#[test]
fn data_planes_go_before_what_else_wants_the_processor() {
    in_shared_house(|house| {
        for host in HOSTS {
            let process = house.process("dataplane", Some(host)).pid;
            for thread in fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten()
            {
                let stat = fs::read_to_string(thread.path().join("stat")).expect("it runs");
                // Behind the name, which may hold anything: the 19th of all (proc(5)).
                let niceness = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(17));
                assert_eq!(niceness, Some("-10"), "{host}: {stat}");
            }
            // Absent where the kernel groups no tasks by session.
            let session = fs::read_to_string(format!("/proc/{process}/autogroup"));
            let of_session = session.as_deref().map(|line| line.trim().ends_with(" nice -10"));
            assert!(of_session.unwrap_or(true), "{host}: {session:?}");
        }
    });
}

#[test]
fn no_thread_of_a_controller_has_a_privilege_and_its_files_are_its_own() {
    in_shared_house(|house| {
        let process = house.process("controller", None).pid;
        let privileged = privileged_threads(process, OF_CONTROLLERS, "0");
        assert_eq!(privileged, Vec::<String>::new());
        let data = Path::new("/proc").join(process.to_string()).join("root/run/catena/controller");
        let (mut folders, mut files) = (vec![data], 0);
        while let Some(folder) = folders.pop() {
            let is = fs::metadata(&folder).expect("it is there");
            assert_eq!((is.uid().to_string().as_str(), is.mode() & 0o777), (OF_CONTROLLERS, 0o700));
            for entry in fs::read_dir(&folder).expect("a folder").flatten() {
                let is = entry.metadata().expect("it is there");
                assert_eq!(is.uid().to_string(), OF_CONTROLLERS, "{}", entry.path().display());
                if is.is_dir() {
                    folders.push(entry.path());
                }
                files += 1;
            }
        }
        assert!(files >= 4, "store, witness and authority: {files}");
    });
}

/// An address of a node on the data network.
fn underlay(node: &Node) -> [u8; 4] {
    let said = node.ip("-o -4 address show dev data0");
    let word = said.split_whitespace().skip_while(|word| *word != "inet").nth(1);
    let address = word.and_then(|word| word.split('/').next()).expect("an address");
    let address: IpAddr = address.parse().expect("an address");
    let IpAddr::V4(address) = address else { panic!("{address}") };
    address.octets()
}

fn mac(text: &str) -> Vec<u8> {
    text.split(':').map(|part| u8::from_str_radix(part, 16).expect("hex")).collect()
}

/// An IPv4 packet with a UDP datagram.
fn datagram(from: [u8; 4], to: [u8; 4], port: u16, payload: &[u8]) -> Vec<u8> {
    let pair = |length: usize| u16::try_from(length).expect("short").to_be_bytes();
    let mut header =
        [&[0x45, 0][..], &pair(28 + payload.len()), &[0, 0, 0x40, 0, 64, 17, 0, 0], &from, &to]
            .concat();
    let sum: u32 =
        header.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).expect("folded");
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp =
        [&9_999_u16.to_be_bytes()[..], &port.to_be_bytes(), &pair(8 + payload.len()), &[0; 2]];
    [&header[..], &udp.concat(), payload].concat()
}

/// What a node would send to the node of D, for D: VXLAN of the network `customer`.
fn vxlan(house: &House) -> Vec<u8> {
    let networks = house.client.list(Kind::Network, &[("name", "customer")]).expect("a list");
    let vni = networks[0]["provider:segmentation_id"].as_u64().expect("a number");
    let vni = u32::try_from(vni << 8).expect("24 bits").to_be_bytes();
    let (source, destination) = (house.node("S"), house.node("D"));
    let of = |name| match address(name, Family::V4) {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => panic!("{address}"),
    };
    let macs = [mac(&destination.mac("customer")), mac(&source.mac("customer"))].concat();
    let inner = datagram(of("S"), of("D"), PORT, b"forged");
    [&[8, 0, 0, 0][..], &vni, &macs, &[8, 0], &inner].concat()
}

fn foreign(house: &House) -> u64 {
    let nodes = account::counters(house);
    let named = nodes.iter().map(|node| node.tunnels.dropped.get(&DropReason::ForeignDevice));
    named.map(|count| count.copied().unwrap_or_default()).sum()
}

/// A port that carried traffic, deleted; its machine sets the link up again.
fn leave_a_port_behind(house: &House, host: &str) {
    let node = house.node(host);
    node.ip(&format!("link add {NEAR} type veth peer name {FAR}"));
    node.ip(&format!("link set {FAR} up"));
    let networks = house.client.list(Kind::Network, &[("name", "customer")]).expect("a list");
    let port = json!({
        "name": "wild", "network_id": networks[0]["id"], "binding:host_id": host,
        "binding:profile": {"interface": NEAR},
    });
    let port = house.client.create(Kind::Port, &port).expect("a port");
    let id = port["id"].as_str().expect("an id");
    wait_for("the port", || {
        let port = house.client.show(Kind::Port, id).expect("it is there");
        if port["status"] == "ACTIVE" { Ok(()) } else { Err(port.to_string()) }
    });
    house.client.delete(Kind::Port, id).expect("it goes");
    wait_for("the link to be given back", || {
        let link = node.ip(&format!("link show {NEAR}"));
        if link.contains("UP") { Err(link) } else { Ok(()) }
    });
    node.set(&format!("net/ipv4/conf/{NEAR}/rp_filter"), "0");
    node.set("net/ipv4/conf/all/rp_filter", "0");
    node.ip(&format!("link set {NEAR} up"));
}

/// Sends raw frames out of the far end.
fn forge(node: &Node, frame: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("frame");
    fs::write(&file, frame).expect("a file");
    let script = "
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
frame = open(sys.argv[2], 'rb').read()
for _ in range(int(sys.argv[3])):
    s.send(frame)
";
    let file = Path::new(&file).display().to_string();
    node.run("python3", &["-c", script, FAR, &file, &FORGED.to_string()]);
}

#[test]
fn a_deleted_ports_machine_reaches_nobody_by_forged_tunnels() {
    in_shared_house(|house| {
        let (host, other) = ("host4", house.node("host1"));
        let node = house.node(host);
        let (here, there) = (underlay(&node), underlay(&other));
        let destination = house.node("D");
        let to = address("D", Family::V4);
        let receiver = destination.inside(|| UdpSocket::bind((to, PORT))).expect("a socket");
        receiver.set_read_timeout(Some(SILENCE)).expect("a timeout");
        let payload = vxlan(house);
        let came = || (0..).take_while(|_| receiver.recv(&mut [0; 64]).is_ok()).count();

        // By the underlay the same datagram arrives: it is a good one.
        let socket = other.inside(|| UdpSocket::bind((IpAddr::from(there), 0))).expect("a socket");
        socket.send_to(&payload, (IpAddr::from(here), TUNNEL_PORT)).expect("it leaves");
        wait_for("what a node sends", || if came() == 1 { Ok(()) } else { Err("nothing".into()) });

        leave_a_port_behind(house, host);
        let before = foreign(house);
        let outer = datagram(there, here, TUNNEL_PORT, &payload);
        let frame = [mac(&node.mac(NEAR)), mac(&node.mac(FAR)), vec![8, 0], outer].concat();
        wait_for("the drops by name", || {
            // The filter goes a moment after the link went down.
            forge(&node, &frame);
            let count = foreign(house) - before;
            if count >= FORGED { Ok(()) } else { Err(format!("{count} of {FORGED}")) }
        });
        assert_eq!(came(), 0, "forged datagrams reached another's endpoint");
        node.ip(&format!("link delete {NEAR}"));
        account::assert_holds(house);
    });
}
