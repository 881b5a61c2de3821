//! Programs of others through a NAT: ping, one hop of a trace, iperf3, curl from a web server, from inside and from
//! outside, with our function between two interfaces and with the kernel's NAT in its place.
//!
//! Needs root, iproute2, iptables, ping, curl and iperf3: everything happens in namespaces of its own.

mod programs;

use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::process::{enter_namespace, spawn_bound};
use catena_kernel::sysctl::write_in;
use catena_nf::Function;
use catena_nf::nat::{Nat, NatOptions};
use programs::{Running, must, output};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::time::Duration;

const CONFIG: &str = "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\n\
    dnat: [{to: 203.0.113.4, protocol: tcp, port: 8080, inside: 10.0.1.7, inside_port: 80}]\n\
    filtering: address-and-port-dependent\n";
const SERVER: &str = "198.51.100.1";
const NAT: &str = "203.0.113.4";

/// A host inside, what translates, a router and a server outside.
struct World {
    inside: NetNamespace,
    middle: NetNamespace,
    router: NetNamespace,
    server: NetNamespace,
}

impl World {
    fn new(name: &str) -> Self {
        let make = |part: &str| {
            NetNamespace::create_unnamed(&format!("{name}-{part}")).expect("a namespace")
        };
        let world = Self {
            inside: make("inside"),
            middle: make("middle"),
            router: make("router"),
            server: make("server"),
        };
        let own = std::process::id();
        let path =
            |namespace: &NetNamespace| format!("/proc/{own}/fd/{}", namespace.as_fd().as_raw_fd());
        // Each has its address; what is in the middle has none yet.
        let links = [
            (&world.inside, "host", "02:00:00:00:00:07", &world.middle, "in", "02:00:00:00:00:01"),
            (&world.router, "near", "02:00:00:00:00:02", &world.middle, "out", "02:00:00:00:00:04"),
            (
                &world.server,
                "serves",
                "02:00:00:00:00:09",
                &world.router,
                "far",
                "02:00:00:00:00:08",
            ),
        ];
        for (left, one, mac, right, other, other_mac) in links {
            let peer = format!("peer name {other} address {other_mac} netns {}", path(right));
            must(left, &format!("ip link add {one} address {mac} type veth {peer}"));
            must(left, &format!("ip link set {one} up"));
            must(right, &format!("ip link set {other} up"));
        }
        for namespace in [&world.inside, &world.middle, &world.router, &world.server] {
            must(namespace, "ip link set lo up");
            let keys = ["net/ipv4/conf/all/rp_filter", "net/ipv4/conf/default/rp_filter"];
            keys.iter().for_each(|key| write_in(namespace, key, "0").expect("it can be set"));
        }
        write_in(&world.router, "net/ipv4/ip_forward", "1").expect("it can be set");
        let addresses = [
            (&world.inside, "10.0.1.7/24 dev host"),
            (&world.router, "203.0.113.1/24 dev near"),
            (&world.router, "198.51.100.254/24 dev far"),
            (&world.server, "198.51.100.1/24 dev serves"),
        ];
        addresses
            .iter()
            .for_each(|(of, address)| drop(must(of, &format!("ip addr add {address}"))));
        must(&world.server, "ip route add default via 198.51.100.254");
        world
    }

    /// With the kernel's NAT in the middle.
    fn kernel() -> Self {
        let world = Self::new("kernel");
        write_in(&world.middle, "net/ipv4/ip_forward", "1").expect("it can be set");
        for words in [
            "ip addr add 10.0.1.1/24 dev in",
            "ip addr add 203.0.113.4/24 dev out",
            "ip route add default via 203.0.113.1",
            "iptables-legacy -t nat -A POSTROUTING -s 10.0.1.0/24 -o out -j MASQUERADE",
            "iptables-legacy -t nat -A PREROUTING -i out -p tcp --dport 8080 -j DNAT --to-destination 10.0.1.7:80",
        ] {
            must(&world.middle, words);
        }
        must(&world.inside, "ip route add default via 10.0.1.1");
        world
    }

    /// With nobody in the middle who answers for an address: hardware addresses are known.
    fn bump() -> Self {
        let world = Self::new("bump");
        must(&world.inside, "ip neigh add 10.0.1.1 lladdr 02:00:00:00:00:02 dev host");
        must(&world.inside, "ip route add default via 10.0.1.1");
        must(&world.router, "ip neigh add 203.0.113.4 lladdr 02:00:00:00:00:07 dev near");
        world
    }
}

/// Answers each connection with the address that it comes from, as the web does, and then so many bytes.
fn serve(namespace: &NetNamespace) {
    let listener =
        run_in(namespace, || TcpListener::bind("0.0.0.0:80")).expect("a thread").expect("a port");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut asked = [0; 4_096];
            let _ = stream.read(&mut asked);
            let from = stream.peer_addr().map(|from| from.ip().to_string()).unwrap_or_default();
            let body = format!("{from} {}", "x".repeat(200_000));
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
        }
    });
}

/// What a page says of who asked, and how long it is.
fn page(namespace: &NetNamespace, url: &str) -> (String, usize) {
    let said = must(namespace, &format!("curl -s -S -m 10 {url}"));
    let from = said.split(' ').next().expect("an address");
    (from.to_owned(), said.len())
}

/// What programs find out.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    pings: bool,
    hop: bool,
    refused: Option<std::io::ErrorKind>,
    outwards: (String, usize),
    inwards: (String, usize),
    streams: [bool; 3],
    closed: bool,
}

fn look(world: &World, hops: u8) -> Found {
    serve(&world.server);
    serve(&world.inside);
    let mut iperf = Command::new("iperf3");
    iperf.args(["-s"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    enter_namespace(&mut iperf, &world.server);
    let mut iperf = spawn_bound(iperf).expect("iperf3 is installed");
    let listens = || must(&world.server, "ss -ltn").contains(":5201");
    (0..100)
        .find(|_| {
            listens() || {
                std::thread::sleep(Duration::from_millis(50));
                false
            }
        })
        .expect("it listens");
    let hop = output(&world.inside, &format!("ping -c 1 -W 2 -t {hops} {SERVER}")).1;
    let refused = run_in(&world.inside, || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(Duration::from_secs(3)))?;
        socket.connect((SERVER, 9))?;
        socket.send(b"nobody listens")?;
        socket.recv(&mut [0; 8])
    });
    let stream = |how: &str| {
        let (is_well, said) = output(&world.inside, &format!("iperf3 -c {SERVER} {how}"));
        if !is_well {
            println!("{said}");
        }
        is_well
    };
    let found = Found {
        pings: must(&world.inside, &format!("ping -c 3 -i 0.05 -W 2 {SERVER}"))
            .contains(" 3 received"),
        hop: hop.contains("From 203.0.113.1") && hop.contains("Time to live exceeded"),
        refused: refused.expect("a thread").err().map(|error| error.kind()),
        outwards: page(&world.inside, &format!("http://{SERVER}/")),
        inwards: page(&world.server, &format!("http://{NAT}:8080/")),
        streams: ["-n 8M", "-n 8M -R", "-u -b 20M -n 2M"].map(stream),
        closed: output(&world.server, &format!("curl -s -m 2 http://{NAT}:8081/")).0,
    };
    iperf.kill().expect("it ran");
    iperf.wait().expect("it ends");
    found
}

#[test]
fn programs_find_the_same_behind_our_nat_and_behind_the_kernels() {
    let kernel = look(&World::kernel(), 2);
    let world = World::bump();
    let config = catena_rules::nat::read(CONFIG, "nat.yaml").expect("a configuration");
    let nat: Box<dyn Function> =
        Box::new(Nat::new(&config, &NatOptions::default()).expect("a NAT"));
    let running = Running::start(nat, &world.middle, None);
    let ours = look(&world, 1);
    let account = running.stop();
    println!("{kernel:?}\n{ours:?}\n{account:?}");
    assert_eq!(ours, kernel);
    let wanted = Found {
        pings: true,
        hop: true,
        refused: Some(std::io::ErrorKind::ConnectionRefused),
        outwards: (NAT.to_owned(), NAT.len() + 200_001),
        inwards: (SERVER.to_owned(), SERVER.len() + 200_001),
        streams: [true; 3],
        closed: false,
    };
    assert_eq!(ours, wanted);
    assert_eq!(account.unaccounted, 0, "{account:?}");
    assert!(account.received.at_in > 1_000 && account.received.at_out > 1_000, "{account:?}");
}
