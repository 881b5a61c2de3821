//! A namespace that forwards between two interfaces, whose rules the kernel applies.

use catena_kernel::namespace::NetNamespace;
use catena_kernel::packet::open_packet_socket;
use catena_kernel::process::{enter_namespace, spawn_bound};
use catena_kernel::sysctl::write_in;
use catena_nf::packet::Direction;
use catena_wire::scalar::MacAddr;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What stands before each frame of the sockets: nothing is left to be done to it.
const NO_OFFLOAD: [u8; 10] = [0; 10];
/// Hardware addresses of the router's interfaces and of what is behind them.
const ROUTER: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 1, 1]), MacAddr([2, 0, 0, 0, 1, 2])];
const BEHIND: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 2, 1]), MacAddr([2, 0, 0, 0, 2, 2])];
/// How long nothing may come before all has come.
const QUIET: Duration = Duration::from_millis(20);
/// How long a packet that should come may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The router, with a socket at the far end of each of its interfaces.
pub(crate) struct Router {
    namespace: NetNamespace,
    ends: [OwnedFd; 2],
}

impl Router {
    /// What comes in by one interface leaves by the other, whatever its addresses are.
    pub(crate) fn new(name: &str) -> Self {
        let namespace = NetNamespace::create_unnamed(name).expect("a namespace");
        let keys = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];
        keys.iter().for_each(|key| write_in(&namespace, key, "1").expect("it can be set"));
        let quiet = ["net/ipv4/conf/all/rp_filter", "net/ipv4/conf/default/rp_filter"];
        quiet.iter().for_each(|key| write_in(&namespace, key, "0").expect("it can be set"));
        let ip = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            run(&namespace, "ip", &words, "");
        };
        for (at, end) in ["one", "two"].into_iter().enumerate() {
            let (router, behind) = (mac(ROUTER[at]), mac(BEHIND[at]));
            ip(&format!(
                "link add {end} address {behind} type veth peer name {end}.in address {router}"
            ));
            ip(&format!("link set {end} up"));
            ip(&format!("link set {end}.in up"));
            // Whoever is there is a socket: the kernel's own stack must not see once more what came out, or
            // it would follow each connection twice.
            write_in(&namespace, &format!("net/ipv6/conf/{end}/disable_ipv6"), "1")
                .expect("it can be set");
            let drop = ["-t", "raw", "-A", "PREROUTING", "-i", end, "-j", "DROP"];
            run(&namespace, "iptables-legacy", &drop, "");
            ip(&format!("addr add 192.0.2.{}/32 dev {end}.in", at + 1));
            ip(&format!("-6 addr add 2001:db8:ffff::{}/128 dev {end}.in nodad", at + 1));
        }
        for (from, to, table) in [(0, 1, 100), (1, 0, 101)] {
            let (came, leaves) = (["one.in", "two.in"][from], ["one.in", "two.in"][to]);
            let next = ["192.0.2.101", "192.0.2.102"][to];
            let next_v6 = ["2001:db8:ffff::101", "2001:db8:ffff::102"][to];
            let behind = mac(BEHIND[to]);
            ip(&format!("rule add iif {came} lookup {table} pref 10"));
            ip(&format!("-6 rule add iif {came} lookup {table} pref 10"));
            ip(&format!("neigh add {next} lladdr {behind} dev {leaves}"));
            ip(&format!("-6 neigh add {next_v6} lladdr {behind} dev {leaves}"));
            ip(&format!("route add default via {next} dev {leaves} onlink table {table}"));
            ip(&format!("-6 route add default via {next_v6} dev {leaves} onlink table {table}"));
        }
        // What it says of its own accord leaves by some interface, as its connections are told of it then.
        ip("route add 10.0.0.0/8 via 192.0.2.101 dev one.in onlink");
        ip("-6 route add 2001:db8::/32 via 2001:db8:ffff::101 dev one.in onlink");
        let ends = ["one", "two"].map(|end| open_packet_socket(&namespace, end).expect("a socket"));
        let router = Self { namespace, ends };
        // What the kernel says when interfaces come up.
        router.collect(&mut Vec::new(), 0);
        router
    }

    /// The addresses that a frame has which is sent into it this way: to whom, from whom.
    pub(crate) fn macs(direction: Direction) -> (MacAddr, MacAddr) {
        let at = side(direction);
        (ROUTER[at], BEHIND[at])
    }

    /// Writes a setting of its network.
    pub(crate) fn set(&self, key: &str, value: &str) {
        write_in(&self.namespace, key, value).expect("it can be set");
    }

    /// Runs a program in it, which must succeed, and answers what it says.
    pub(crate) fn run(&self, program: &str, arguments: &[&str], input: &str) -> String {
        run(&self.namespace, program, arguments, input)
    }

    /// Sends a frame into it.
    pub(crate) fn send(&self, direction: Direction, frame: &[u8]) {
        let bytes = [NO_OFFLOAD.as_slice(), frame].concat();
        let sent = send(&self.ends[side(direction)], &bytes, SendFlags::empty());
        assert_eq!(sent, Ok(bytes.len()), "the frame is sent");
    }

    /// Takes the frames that have come out, each with the way it came; false: none has.
    pub(crate) fn take(&self, came: &mut Vec<(Direction, Vec<u8>)>) -> bool {
        let before = came.len();
        let mut room = [0; 2_048];
        for (end, direction) in self.ends.iter().zip([Direction::Backward, Direction::Forward]) {
            while let Ok((length, _)) = recv(end, &mut room, RecvFlags::DONTWAIT) {
                came.push((direction, room[NO_OFFLOAD.len()..length].to_vec()));
            }
        }
        came.len() > before
    }

    /// The same until all have come: so many in all at least, unless they take too long.
    pub(crate) fn collect(&self, came: &mut Vec<(Direction, Vec<u8>)>, wanted: usize) {
        let began = Instant::now();
        let mut last = began;
        while last.elapsed() < QUIET || (came.len() < wanted && began.elapsed() < PATIENCE) {
            if self.take(came) {
                last = Instant::now();
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

const fn side(direction: Direction) -> usize {
    match direction {
        Direction::Forward => 0,
        Direction::Backward => 1,
    }
}

fn mac(address: MacAddr) -> String {
    address.0.map(|octet| format!("{octet:02x}")).join(":")
}

fn run(namespace: &NetNamespace, program: &str, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    enter_namespace(&mut command, namespace);
    let mut child = spawn_bound(command).unwrap_or_else(|error| panic!("{program}: {error}"));
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {wrong}\n{input}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
