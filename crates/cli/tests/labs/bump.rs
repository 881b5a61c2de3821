//! A function of Catena's between two interfaces, without a controller: what passes, what ends and how its
//! sender hears of it, and an account that adds up.

use crate::house::{CATENA, turn};
use crate::node::Node;
use crate::patience::wait_for;
use crate::streams::stream;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

pub(crate) const CLIENT: &str = "10.99.0.1";
pub(crate) const SERVER: &str = "10.99.0.2";
const TELNET: u16 = 23;
const DROPPED: u16 = 9_000;
const STREAMED: u16 = 5_201;
const DATAGRAMS: u64 = 20;
pub(crate) const PINGS: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(5);

/// Client, bump, server, in a row of two cables.
pub(crate) struct Row {
    pub(crate) client: Node,
    pub(crate) bump: Node,
    pub(crate) server: Node,
}

impl Row {
    pub(crate) fn new() -> Self {
        let [client, bump, server] = ["client", "bump", "server"].map(Node::made);
        for node in [&client, &bump, &server] {
            // Nobody speaks unasked: whatever is counted, the test has sent.
            for which in ["all", "default"] {
                node.set(&format!("net/ipv6/conf/{which}/disable_ipv6"), "1");
            }
        }
        for (end, name, near) in [(&client, "c0", "near0"), (&server, "s0", "near1")] {
            let pair = format!("link add {near} type veth peer name {name}");
            bump.ip(&pair);
            // A namespace without a name is known by one of its processes.
            let mut holder = end.start("sleep", &["60"]);
            bump.ip(&format!("link set {name} netns {}", holder.id()));
            holder.kill().and_then(|()| holder.wait()).expect("it ends");
        }
        for (node, name, address) in [(&client, "c0", CLIENT), (&server, "s0", SERVER)] {
            node.ip(&format!("addr add {address}/24 dev {name}"));
            node.ip(&format!("link set {name} up"));
            node.ip("link set lo up");
        }
        bump.ip("link set near0 up");
        bump.ip("link set near1 up");
        Self { client, bump, server }
    }

    /// A firewall that runs.
    fn start_firewall(&self, rules: &Path) -> Child {
        self.start(&["firewall", "--config", &rules.display().to_string()])
    }

    /// A bump that runs: the function, with what it is made of.
    pub(crate) fn start(&self, function: &[&str]) -> Child {
        let place = ["--in", "near0", "--out", "near1", "--json"];
        let words = [&["nf", "run"], function, &place].concat();
        let mut child = self.bump.start(CATENA, &words);
        let mut said = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let (mut line, mut all) = (String::new(), String::new());
        while !line.starts_with("runs between") {
            line.clear();
            let length = said.read_line(&mut line).expect("it speaks");
            assert!(length > 0, "it ended: {all}");
            all.push_str(&line);
        }
        child
    }

    pub(crate) fn ping(&self, to: &str, count: u64) {
        self.client.run("ping", &["-c", &count.to_string(), "-i", "0.05", "-W", "5", to]);
    }

    fn connect(&self, port: u16) -> std::io::Result<TcpStream> {
        let to = SocketAddr::new(SERVER.parse().expect("an address"), port);
        self.client.inside(|| TcpStream::connect_timeout(&to, PATIENCE))
    }

    /// Sends datagrams, and waits until the server has them if it is to.
    fn send_datagrams(&self, port: u16, arrive: bool) {
        let to = SocketAddr::new(SERVER.parse().expect("an address"), port);
        let server = self.server.inside(|| UdpSocket::bind(to)).expect("a free port");
        let client = self.client.inside(|| UdpSocket::bind((CLIENT, 0))).expect("a socket");
        for _ in 0..DATAGRAMS {
            client.send_to(b"hello", to).expect("a datagram leaves");
        }
        server.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut bytes = [0; 64];
        for _ in 0..DATAGRAMS * u64::from(arrive) {
            server.recv(&mut bytes).expect("it arrives");
        }
        // What leaves the bump behind them has them before it.
        self.ping(SERVER, 1);
        server.set_nonblocking(true).expect("it does not wait");
        let nothing = server.recv(&mut bytes).expect_err("nothing more arrives");
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    }
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it runs");
}

/// Ends a bump as a terminal does, and answers its last account.
pub(crate) fn end(mut child: Child) -> Value {
    signal(&child, Signal::INT);
    let mut said = String::new();
    child.stdout.take().expect("stdout").read_to_string(&mut said).expect("UTF-8");
    assert!(child.wait().expect("it ends").success(), "{said}");
    let line = said.lines().last().expect("an account");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"))
}

pub(crate) fn number(account: &Value, place: &str) -> u64 {
    let value = account.pointer(place).unwrap_or_else(|| panic!("no {place} in {account}"));
    value.as_u64().unwrap_or_else(|| panic!("{place} is no count in {account}"))
}

/// What a rule has counted, by a part of its words.
fn counted(account: &Value, words: &str) -> (u64, u64) {
    let rules = account["rules"].as_array().expect("rules");
    let of = |rule: &&Value| rule["rule"].as_str().is_some_and(|rule| rule.contains(words));
    let rule = rules.iter().find(of).unwrap_or_else(|| panic!("no {words} in {account}"));
    (number(rule, "/packets"), number(rule, "/bytes"))
}

fn rules(folder: &Path, forward: &str) -> std::path::PathBuf {
    let file = folder.join("edge.iptables");
    let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{forward}COMMIT\n");
    fs::write(&file, text).expect("a file");
    file
}

#[test]
fn a_firewall_between_two_interfaces_passes_rejects_and_drops_and_accounts_for_all() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let reject = "-A FORWARD -p tcp -m tcp --dport 23 -j REJECT --reject-with tcp-reset\n";
    let drop = "-A FORWARD -i near0 -p udp -m udp --dport 9000 -j DROP\n";
    let count = "-A FORWARD -i near0 -p tcp -m tcp --dport 5201\n";
    // With the first rule super-frames are cut, without it they pass whole.
    for is_rejecting in [true, false] {
        let row = Row::new();
        let first = if is_rejecting { reject } else { "" };
        let child = row.start_firewall(&rules(folder.path(), &format!("{first}{drop}{count}")));
        row.ping(SERVER, PINGS);
        row.send_datagrams(DROPPED, false);
        row.send_datagrams(DROPPED + 1, true);
        let refused = row.connect(TELNET).expect_err("nobody listens, or a rule says no");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let to = SocketAddr::new(SERVER.parse().expect("an address"), STREAMED);
        let bytes = stream(&row.client, &row.server, to, Duration::from_millis(500));
        println!("rejecting {is_rejecting}: {} Mbit/s", bytes * 8 / 500_000);

        let account = end(child);
        println!("{account}");
        assert_eq!(account["unaccounted"], 0, "{account}");
        assert_eq!(counted(&account, "--dport 9000").0, DATAGRAMS);
        let (packets, with_headers) = counted(&account, "--dport 5201");
        assert!(with_headers > bytes, "{account}");
        // A super-frame counts as what it becomes on the wire.
        assert!(packets > bytes / 1_460, "{account}");
        let drops = account["dropped"]["rules"].as_array().expect("drops").len();
        assert_eq!(drops, 1 + usize::from(is_rejecting), "{account}");
        if is_rejecting {
            assert_eq!(counted(&account, "--dport 23"), (1, 60));
            assert_eq!(account["created"], serde_json::json!({"tcp_reset": 1}), "{account}");
        }
        let sent = number(&account, "/sent/out");
        assert!(sent >= packets + PINGS + DATAGRAMS, "{account}");
    }
}

#[test]
fn a_bump_tells_its_account_on_the_way_and_ends_when_it_is_told_to() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let row = Row::new();
    let mut child = row.start_firewall(&rules(folder.path(), ""));
    row.ping(SERVER, PINGS);
    let mut said = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    for _ in 0..2 {
        signal(&child, Signal::USR1);
        let mut line = String::new();
        said.read_line(&mut line).expect("it tells");
        let account: Value = serde_json::from_str(&line).expect("JSON");
        assert!(number(&account, "/sent/out") >= PINGS, "{account}");
        assert_eq!(account["unaccounted"], 0, "{account}");
    }
    // It has given up what it had; only its sockets are left.
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    signal(&child, Signal::TERM);
    wait_for("its end", || {
        let ended = child.try_wait().expect("it can be waited for");
        ended.filter(ExitStatus::success).ok_or_else(|| format!("{ended:?}"))
    });
}

#[test]
fn what_keeps_a_bump_from_running_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = rules(folder.path(), "").display().to_string();
    let bad = folder.path().join("bad.iptables");
    fs::write(&bad, "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m foo -j DROP\nCOMMIT\n")
        .expect("a file");
    let bad = bad.display().to_string();
    let row = Row::new();
    let run = |words: &[&str]| {
        let output = row.bump.attempt(CATENA, words);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let between = |config, at_in, at_out| {
        run(&["nf", "run", "firewall", "--config", config, "--in", at_in, "--out", at_out])
    };
    for ((code, said), wanted, reasons) in [
        (between(&good, "near0", "near0"), 2, ["both near0", "name another"]),
        (between(&good, "near0", "nix0"), 1, ["nix0", "ip link"]),
        (between(&bad, "near0", "near1"), 1, ["bad.iptables line 3", "--unsupported skip"]),
        (between("/nix", "near0", "near1"), 1, ["/nix", "iptables-save"]),
        (run(&["nf", "check", "firewall", "--config", &bad]), 1, ["line 3: the match foo", "; "]),
        (
            run(&["nf", "check", "firewall", "--config", &bad, "--unsupported", "skip"]),
            0,
            ["0, 1 left out", "-A FORWARD -m foo -j DROP"],
        ),
    ] {
        assert_eq!(code, Some(wanted), "{said}");
        assert!(reasons.iter().all(|reason| said.contains(reason)), "{reasons:?}: {said}");
    }
    let mut powerless = Command::new("setpriv");
    powerless.args(["--bounding-set", "-net_raw", "--inh-caps", "-net_raw", CATENA]);
    powerless.args(["nf", "run", "firewall", "--config", &good, "--in", "lo", "--out", "nix0"]);
    let output = powerless.output().expect("setpriv runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("CAP_NET_RAW"), "{said}");
}
