//! The monitor beside softflowd, on the same packets: what collectors know of each flow in the end.

use crate::collector::{Collector, Row, Workplace, ended, has};
use catena_kernel::namespace::NetNamespace;
use catena_kernel::process::{enter_namespace, spawn_bound};
use catena_nf::Function;
use catena_nf::harness::{Input, traffic};
use catena_nf::monitor::{Monitor, MonitorConfig};
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Packet, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// When the first packet came: softflowd looks at no clock when it reads a file.
const EPOCH: u64 = 1_700_000_000;
/// Packets of the test.
const PACKETS: usize = 20_000;
/// How long they take: records end for being idle and for being old.
const SECONDS: u64 = 100;

/// Packets, bytes and flags of TCP of each five-tuple.
type Flows = BTreeMap<(IpAddr, IpAddr, String, String, String), (u64, u64, BTreeSet<char>)>;

fn inputs() -> Vec<Input> {
    let drawn = traffic::draw(31, PACKETS);
    let last = drawn.last().expect("there are some").at.0;
    let slow = |input: Input| Input {
        at: Time(input.at.0 * (SECONDS * 1_000_000_000 / last) / 1_000 * 1_000),
        ..input
    };
    drawn.into_iter().map(slow).collect()
}

/// Writes packets as a capture of Ethernet (classic pcap, microseconds, little endian).
fn write_capture(path: &Path, inputs: &[Input]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 1 << 18, 1_u32] {
        file.extend(word.to_le_bytes());
    }
    for input in inputs {
        let second = u32::try_from(EPOCH + input.at.0 / 1_000_000_000).expect("before 2106");
        let microsecond = (input.at.0 % 1_000_000_000 / 1_000) as u32;
        let length = input.frame.len() as u32;
        for word in [second, microsecond, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&input.frame);
    }
    fs::write(path, file).expect("it is written");
}

/// The messages of a monitor that sees these packets.
fn messages(inputs: &[Input]) -> Vec<Vec<u8>> {
    let config = MonitorConfig { epoch_seconds: EPOCH, domain: 7, ..MonitorConfig::default() };
    let mut monitor = Monitor::new(config).expect("a monitor");
    let mut outcomes = Outcomes::default();
    let mut messages = Vec::new();
    let mut take = |outcomes: &Outcomes| {
        let handed_out = outcomes.handed_out().iter();
        messages.extend(handed_out.map(|(_, one)| outcomes.bytes(one.message.clone()).to_vec()));
    };
    for input in inputs {
        let packet = Packet::read(&input.frame).expect("a packet");
        monitor.process(input.at, input.direction, &[packet], &mut outcomes);
        take(&outcomes);
    }
    monitor.end_all(Time::seconds(SECONDS), &mut outcomes);
    take(&outcomes);
    messages
}

fn flows(rows: &[Row]) -> Flows {
    let mut flows = Flows::new();
    for row in rows {
        let address = |name: &str| row[name].parse().expect("an address");
        let number = |name: &str| row[name].parse::<u64>().expect("a number");
        let word = |name: &str| row[name].clone();
        let flow = (address("sa"), address("da"), word("pr"), word("sp"), word("dp"));
        let (packets, bytes, flags) = flows.entry(flow).or_default();
        *packets += number("ipkt");
        *bytes += number("ibyt");
        flags.extend(row["flg"].chars().filter(|flag| *flag != '.'));
    }
    flows
}

#[test]
fn collectors_know_of_each_flow_what_softflowd_tells() {
    const TEST: &str = "collectors_know_of_each_flow_what_softflowd_tells";
    if !has(TEST, &[("nfcapd", "-V"), ("nfdump", "-V"), ("softflowd", "-h")]) {
        return;
    }
    let workplace = Workplace::new("monitor");
    let namespace = NetNamespace::create_unnamed("collectors").expect("a namespace");
    let run = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
        enter_namespace(&mut command, &namespace);
        let status = ended(spawn_bound(command).expect("it starts"));
        assert!(status.success(), "{program} {words:?}");
    };
    run("ip", &["link", "set", "lo", "up"]);
    let inputs = inputs();
    let ours = Collector::start(&namespace, &workplace.0, 9_995);
    ours.send(&messages(&inputs));
    let theirs = Collector::start(&namespace, &workplace.0, 9_996);
    // It tells of all flows at the end of a file, at once: of no more than a socket has room for.
    for part in inputs.chunks(2_000) {
        let [capture, pid] = ["packets.pcap", "pid"].map(|name| workplace.0.join(name));
        write_capture(&capture, part);
        let [capture, pid] = [&capture, &pid].map(|path| path.to_str().expect("a path"));
        let from = ["-r", capture, "-m", "65536", "-c", "none", "-p", pid];
        run("softflowd", &[&from[..], &["-n", "127.0.0.1:9996", "-v", "10"]].concat());
        theirs.wait_until_read();
    }
    let (ours, said) = ours.flows();
    assert!(said.contains("Sequence Errors: 0, Bad Packets: 0"), "{said}");
    let (theirs, _) = theirs.flows();
    let began =
        |row: &Row| ("2023-11-14 22:13:20".."2023-11-14 22:15:01").contains(&row["ts"].as_str());
    assert!(ours.iter().all(began));
    let records = (ours.len(), theirs.len());
    let (ours, theirs) = (flows(&ours), flows(&theirs));
    let both = ours.keys().chain(theirs.keys());
    let differing: Vec<_> = both.filter(|flow| ours.get(*flow) != theirs.get(*flow)).collect();
    let show = |flow| format!("{flow:?}: {:?}, softflowd {:?}", ours.get(flow), theirs.get(flow));
    let shown: Vec<String> = differing.iter().take(20).copied().map(show).collect();
    assert!(differing.is_empty(), "{} flows differ: {shown:#?}", differing.len());
    let packets: u64 = ours.values().map(|(packets, ..)| packets).sum();
    println!("{packets} packets in {} flows are equal; records: {records:?}", ours.len());
    assert!(packets == PACKETS as u64 && ours.len() > 5_000 && records.0 > records.1);
}
