//! A bundled NAT of a document: real hosts send through it, in one network and from one into another, and get their
//! answers through it.

use crate::account;
use crate::house::{House, in_shared_house};
use crate::traffic::{Family, address};
use catena_client::Kind;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// A tenfold hang guard.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long what must not come is waited for.
const SILENCE: Duration = Duration::from_millis(300);
const PORT: u16 = 5_300;
/// More than what is on its way at once.
const LONG_BYTES: usize = 3_000_000;

fn apply(house: &House, folder: &tempfile::TempDir, text: &str) -> String {
    let file = folder.path().join("nat.yaml");
    std::fs::write(&file, text).expect("a file");
    house.tell(&["apply", "-f", &file.display().to_string(), "--wait"])
}

fn document(pool: &str, networks: &str, destination: &str) -> String {
    format!(
        "
functions:
  - name: nat
    template:
      runs: {{bundled: nat}}
      config: {{masquerade: [10.10.0.0/25], pool: [{pool}]}}
      networks: [{networks}]
      on: [host2]
chains:
  - {{name: web, source: S, destination: {destination}, classify: tcp, through: [nat], symmetric: true}}
"
    )
}

fn listen(house: &House, node: &str, address: IpAddr) -> TcpListener {
    let at = SocketAddr::new(address, PORT);
    house.node(node).inside(|| TcpListener::bind(at).expect("a free port"))
}

/// The first address of the port with this attribute.
fn address_of_port(house: &House, attribute: (&str, &str)) -> IpAddr {
    let ports = house.client.list(Kind::Port, &[attribute]).expect("ports");
    let address = ports[0]["fixed_ips"][0]["ip_address"].as_str().expect("an address");
    address.parse().expect("an address")
}

/// A connection from S, and as whom the other end sees it.
fn connect(house: &House, listener: &TcpListener) -> (TcpStream, TcpStream, IpAddr) {
    let to = listener.local_addr().expect("an address");
    let near = house.node("S").inside(|| TcpStream::connect_timeout(&to, PATIENCE));
    let near = near.expect("it is let through");
    let (far, from) = listener.accept().expect("it arrives");
    for end in [&near, &far] {
        end.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        end.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    }
    (near, far, from.ip())
}

/// Much is said at one end and heard at the other, both ways.
fn talk(near: &mut TcpStream, far: &mut TcpStream) {
    let text: Vec<u8> = (0..LONG_BYTES).map(|at| (at % 251) as u8).collect();
    let say = |from: &mut TcpStream, to: &mut TcpStream| {
        let mut heard = vec![0; LONG_BYTES];
        std::thread::scope(|scope| {
            scope.spawn(|| from.write_all(&text).expect("it leaves"));
            to.read_exact(&mut heard).expect("it arrives");
        });
        assert!(heard == text, "what is heard is what was said");
    };
    say(near, far);
    say(far, near);
}

#[test]
fn hosts_of_one_network_reach_a_server_by_the_addresses_of_a_pool() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let before = house.declared();
        let told = apply(house, &folder, &document("10.10.0.200", "customer", "D"));
        assert!(told.contains("chain web   active"), "{told}");
        let pool: IpAddr = "10.10.0.200".parse().expect("an address");
        let listener = listen(house, "D", address("D", Family::V4));
        let (mut near, mut far, seen) = connect(house, &listener);
        assert_eq!(seen, pool, "the server sees the pool");
        talk(&mut near, &mut far);

        let shown = house.tell(&["function", "show", "nat"]);
        assert!(shown.contains("the bundled nat, inside the data planes"), "{shown}");
        assert!(shown.contains("masquerade"), "its rules have hits: {shown}");
        let packet =
            format!("tcp {}:40123 > {}:{PORT}", address("S", Family::V4), address("D", Family::V4));
        let story = house.tell(&["explain", &packet, "--from", "port:S@customer"]);
        assert!(story.contains("'nat' makes it 10.10.0.200:"), "{story}");

        // The pool's address answers pings of who is in no chain, and is nobody's port to connect to.
        house.node("ext").run("ping", &["-c", "2", "-W", "2", "10.10.0.200"]);
        let stranger = house.node("D").inside(|| {
            let socket = UdpSocket::bind((address("D", Family::V4), 0)).expect("a socket");
            socket.send_to(b"hello", (pool, 9)).expect("it leaves");
            socket.set_read_timeout(Some(SILENCE)).expect("a timeout");
            socket.recv(&mut [0; 16]).is_err()
        });
        assert!(stranger, "nobody answers");
        drop((near, far));
        account::assert_holds(house);
        house.tell(&[
            "apply",
            "-f",
            &folder.path().join("nat.yaml").display().to_string(),
            "--undeploy",
        ]);
        assert_eq!(house.declared(), before, "nothing of it is left");
    });
}

#[test]
fn a_host_reaches_a_server_of_another_network_through_a_nat_and_gets_its_answers() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let before = house.declared();
        let told = apply(house, &folder, &document("10.20.0.200", "customer, internal", "I"));
        assert!(told.contains("chain web   active"), "{told}");
        let gateway = address_of_port(house, ("name", "nat")).to_string();
        let source = house.node("S");
        source.ip(&format!("route add 10.20.0.0/24 via {gateway}"));
        source.run("ping", &["-c", "2", "-W", "2", &gateway]);

        let listener = listen(house, "I", address_of_port(house, ("device_id", "I")));
        let (mut near, mut far, seen) = connect(house, &listener);
        assert_eq!(seen.to_string(), "10.20.0.200", "the server sees the pool");
        talk(&mut near, &mut far);
        let checked = house.tell(&["chain", "check", "web"]);
        assert!(checked.contains("visited nat in order"), "{checked}");
        drop((near, far));
        source.ip(&format!("route del 10.20.0.0/24 via {gateway}"));
        account::assert_holds(house);
        house.tell(&[
            "apply",
            "-f",
            &folder.path().join("nat.yaml").display().to_string(),
            "--undeploy",
        ]);
        assert_eq!(house.declared(), before, "nothing of it is left");
    });
}

#[test]
fn a_nat_in_a_chain_of_one_direction_is_refused_with_that_advice() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let before = house.declared();
        let file = folder.path().join("nat.yaml");
        let text = document("10.10.0.200", "customer", "D").replace(", symmetric: true", "");
        std::fs::write(&file, text).expect("a file");
        let told = house.refuse(&["apply", "-f", &file.display().to_string()]);
        assert!(told.contains("make the chain symmetric"), "{told}");
        assert_eq!(house.declared(), before);
    });
}
