//! Controller and agent die under traffic: no packet is lost, nothing acknowledged is forgotten,
//! no half chain comes up.

use crate::account::{self, ChainTotal};
use crate::house::{House, in_own_house};
use crate::patience::{Chance, is_full, wait_for};
use crate::procfs::Process;
use crate::traffic::{Family, Receiver, Sender, address, send_and_count};
use catena_client::{Client, ClientError, Kind};
use catena_kernel::process::{inherit_fds, spawn_bound};
use catena_model::DropReason;
use catena_model::account::{Absences, DataplaneLife};
use catena_model::status::ChainState;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

const PORT: u16 = 5_030;
/// More than the packets of neighbour discovery that endpoints send by themselves meanwhile.
const FOREIGN: u64 = 32;

pub(crate) fn kill(process: &Process) {
    signal(process, Signal::KILL);
}

fn signal(process: &Process, signal: Signal) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).expect("a process number");
    kill_process(pid, signal).expect("it runs");
}

pub(crate) fn document(name: &str, port: u16, functions: &[&str]) -> Value {
    let steps: Vec<Value> =
        functions.iter().map(|name| json!({"name": name, "direction": "same"})).collect();
    json!({
        "name": name, "source": "S", "destination": "D", "chain": steps,
        "match_fields": {"protocol": "udp", "destination_port": port},
    })
}

pub(crate) fn wait_gone(house: &House, process: &Process) {
    wait_for("the end of a killed process", || {
        let still = house.processes().contains(process);
        if still { Err("it is still there".to_owned()) } else { Ok(()) }
    });
}

/// Starts an agent again with the words that it had, in its node.
pub(crate) fn start_agent_again(house: &House, host: &str, killed: &Process) {
    drop(spawn_agent_again(house, host, killed));
}

pub(crate) fn spawn_agent_again(house: &House, host: &str, killed: &Process) -> Child {
    let words = killed.words[1..].to_vec();
    spawn_bound(house.shell(host, &words, "agent-again.log")).expect("the binary starts")
}

/// Starts the controller again on the same store; a lab opens its API before it has namespaces,
/// and so does this.
pub(crate) fn start_controller_again(house: &mut House, killed: &Process) {
    drop(spawn_controller_again(house, killed));
}

pub(crate) fn spawn_controller_again(house: &mut House, killed: &Process) -> Child {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let api = listener.local_addr().expect("an address");
    let socket = OwnedFd::from(listener);
    let mut words = killed.words[1..].to_vec();
    let listen = words.iter().position(|word| word == "--listen").expect("it listens") + 1;
    words[listen] = format!("fd:{}", socket.as_raw_fd());
    let mut command = house.shell("controller", &words, "controller-again.log");
    inherit_fds(&mut command, vec![socket]);
    let child = spawn_bound(command).expect("the binary starts");
    house.client = Client::new(format!("http://{api}"), None).expect("a client can be made");
    wait_for("the new controller", || house.client.chains().map_err(|error| error.to_string()));
    child
}

#[test]
fn a_controller_killed_under_traffic_loses_no_packet_and_forgets_nothing() {
    in_own_house("pair.yaml", |house| {
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let chain = house.deploy(document("steady", PORT, &["v1", "v2"]));
        let declared = house.declared();
        let ring_full = account::ring_full(house);
        let path = house.chain(&chain.chain).status.path;
        let receiver = Receiver::new(&house.node("D"), to);
        let sending = Sender::new(&house.node("S"), to).keep_sending();
        std::thread::sleep(Duration::from_millis(300));
        let controller = house.process("controller", None);
        kill(&controller);
        wait_gone(house, &controller);
        std::thread::sleep(Duration::from_millis(300));
        start_controller_again(house, &controller);
        house.wait_settled();
        assert_eq!(house.declared(), declared);
        let status = house.chain(&chain.chain).status;
        assert_eq!((status.state, status.path), (ChainState::Active, path));
        std::thread::sleep(Duration::from_millis(300));
        let sent = sending.stop();
        receiver.assert_all(sent);
        let expected = ChainTotal::whole(sent.into(), &["v1", "v2"]);
        account::assert_chain(house, &chain.chain, &expected);
        assert_eq!(account::ring_full(house), ring_full);
        // And it goes on where it was: the next chain is answered as ever.
        let next = house.deploy(document("next", PORT + 1, &["v2"]));
        let to = SocketAddr::new(to.ip(), PORT + 1);
        send_and_count(&house.node("S"), &house.node("D"), to, 50);
        account::assert_chain(house, &next.chain, &ChainTotal::whole(50, &["v2"]));
    });
}

/// What the controller answered before it was killed.
#[derive(Debug, Default)]
struct Acknowledged {
    rules: Vec<String>,
    /// The rules of the chain that grows.
    of_chain: Vec<String>,
    /// Chains that came and went.
    flickers: usize,
}

/// A chain that grows and its groups, and in which round.
struct Work<'w> {
    round: usize,
    chain: &'w str,
    groups: &'w [String],
}

/// Works on the declared resources until nobody answers: gives one chain rule after rule, and
/// makes and removes another. The answer that does not come ends it.
fn work_until_dead(
    client: &Client,
    work: &Work<'_>,
    known: &mut Acknowledged,
) -> Result<(), ClientError> {
    let source = client.list(Kind::Port, &[("device_id", "S")])?[0]["id"].clone();
    let rule = |number: u16, port: u16| {
        json!({
            "name": format!("rule-{}-{number}", work.round), "protocol": "udp",
            "destination_port_range_min": port, "destination_port_range_max": port,
            "source_port_range_min": 1 + work.round, "source_port_range_max": 1 + work.round,
            "logical_source_port": source,
        })
    };
    let id = |resource: &Value| resource["id"].as_str().expect("an id").to_owned();
    for number in 0..20_000 {
        let made = id(&client.create(Kind::FlowClassifier, &rule(number, 10_000 + number))?);
        known.rules.push(made.clone());
        let rules: Vec<&String> = known.of_chain.iter().chain([&made]).collect();
        client.update(Kind::PortChain, work.chain, &json!({"flow_classifiers": rules}))?;
        known.of_chain.push(made);
        let made = id(&client.create(Kind::FlowClassifier, &rule(number, 30_000 + number))?);
        known.rules.push(made.clone());
        let flicker = json!({
            "name": "flicker", "port_pair_groups": [work.groups[1], work.groups[0]],
            "flow_classifiers": [made],
        });
        let flicker = id(&client.create(Kind::PortChain, &flicker)?);
        client.delete(Kind::PortChain, &flicker)?;
        known.flickers += 1;
    }
    Ok(())
}

/// Everything that was acknowledged is there, and every chain that is there is a whole one.
fn assert_remembered(house: &House, chain: &str, known: &mut Acknowledged) {
    let listed = house.client.list(Kind::FlowClassifier, &[]).expect("a list");
    let listed: BTreeSet<&str> = listed.iter().filter_map(|item| item["id"].as_str()).collect();
    for rule in &known.rules {
        assert!(listed.contains(rule.as_str()), "{rule} is forgotten");
    }
    let shown = house.client.show(Kind::PortChain, chain).expect("the chain");
    let rules = shown["flow_classifiers"].as_array().expect("a list");
    let rules: Vec<String> = rules.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    // The last request may have been done without an answer.
    let is_remembered = known.of_chain.iter().all(|rule| rules.contains(rule));
    assert!(is_remembered && rules.len() <= known.of_chain.len() + 1, "{rules:?}, {known:?}");
    known.of_chain = rules;
    for chain in house.client.chains().expect("a list") {
        let id = chain.status.chain.to_string();
        house.wait_active(&id);
        if chain.name == "flicker" {
            house.client.delete(Kind::PortChain, &id).expect("it goes");
        }
    }
}

#[test]
fn a_controller_killed_while_it_works_comes_back_with_all_it_acknowledged() {
    in_own_house("pair.yaml", |house| {
        let rounds = if is_full() { 20 } else { 4 };
        let mut chance =
            Chance::new("a_controller_killed_while_it_works_comes_back_with_all_it_acknowledged");
        let first = house.deploy(document("first", PORT, &["v1", "v2"]));
        let mut known = Acknowledged::default();
        known.of_chain.push(first.classifier.clone());
        for round in 0..rounds {
            let controller = house.process("controller", None);
            let moment = Duration::from_millis(50 + chance.below(400));
            let killer = std::thread::spawn(move || {
                std::thread::sleep(moment);
                kill(&controller);
                controller
            });
            let work = Work { round, chain: &first.chain, groups: &first.groups };
            let end = work_until_dead(&house.client, &work, &mut known);
            assert!(matches!(end, Err(ClientError::Unreachable { .. })), "{end:?}");
            let controller = killer.join().expect("the killer ends");
            wait_gone(house, &controller);
            start_controller_again(house, &controller);
            house.wait_settled();
            assert_remembered(house, &first.chain, &mut known);
            let (rules, flickers) = (known.rules.len(), known.flickers);
            println!("round {round}: killed after {moment:?}, {rules} rules, {flickers} flickers");
        }
        assert!(known.of_chain.len() > rounds, "{known:?}");
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        send_and_count(&house.node("S"), &house.node("D"), to, 100);
        account::assert_chain(house, "first", &ChainTotal::whole(100, &["v1", "v2"]));
    });
}

#[test]
fn an_agent_killed_under_traffic_loses_no_packet() {
    in_own_house("pair.yaml", |house| {
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let chain = house.deploy(document("steady", PORT, &["v1", "v2"]));
        let ring_full = account::ring_full(house);
        let receiver = Receiver::new(&house.node("D"), to);
        let sending = Sender::new(&house.node("S"), to).keep_sending();
        for host in ["host1", "host2"] {
            let dataplane = house.process("dataplane", Some(host));
            let agent = house.process("agent", Some(host));
            let before = life(house, host);
            std::thread::sleep(Duration::from_millis(200));
            kill(&agent);
            wait_gone(house, &agent);
            std::thread::sleep(Duration::from_millis(200));
            start_agent_again(house, host, &agent);
            wait_for("the agent's return", || {
                let nodes = house.nodes();
                let node = nodes.iter().find(|n| n.status.node.as_str() == host).expect("known");
                let is_back = node.status.is_connected && node.counters.is_some();
                if is_back { Ok(()) } else { Err(format!("{:?}", node.status)) }
            });
            house.wait_settled();
            assert_eq!(house.process("dataplane", Some(host)), dataplane, "a second data plane");
            let now = life(house, host);
            assert_eq!((now.process, now.absences), (before.process, Absences::default()));
            assert!(now.up_ms > before.up_ms, "it began anew: {now:?}");
        }
        let sent = sending.stop();
        receiver.assert_all(sent);
        let expected = ChainTotal::whole(sent.into(), &["v1", "v2"]);
        account::assert_chain(house, &chain.chain, &expected);
        assert_eq!(account::ring_full(house), ring_full);
        // The new agents carry programs as the old ones did.
        house.undeploy(&chain.chain);
        let next = house.deploy(document("next", PORT + 1, &["v2"]));
        let to = SocketAddr::new(to.ip(), PORT + 1);
        send_and_count(&house.node("S"), &house.node("D"), to, 50);
        account::assert_chain(house, &next.chain, &ChainTotal::whole(50, &["v2"]));
    });
}

/// The node tells of the gap: what it counted is among what the stream lost. The rest is what the
/// dead data plane held: its sockets are open until the kernel has taken it apart.
fn assert_told(house: &House, host: &str, before: &DataplaneLife, lost: u64) {
    let now = life(house, host);
    assert_ne!(now.process, before.process);
    let Absences { seen, last_ms, missed_at_ports, missed_at_tunnels, .. } = now.absences;
    let nodes = account::counters(house);
    let node = nodes.iter().find(|counters| counters.node.as_str() == host).expect("known");
    // Its successor dropped what came before it had its ports, by name.
    let dropped = node.total().dropped_total();
    println!(
        "{host}: away {last_ms} ms, {lost} lost: missed {missed_at_ports} at ports, \
         {missed_at_tunnels} at tunnels, dropped {:?}",
        node.total().dropped
    );
    let told = missed_at_ports + missed_at_tunnels + dropped;
    assert_eq!(seen, before.absences.seen + 1);
    assert!(told > 0 || lost == 0, "nothing was missed, {lost} lost");
    assert!(told <= lost + FOREIGN, "{now:?}, {lost} lost");
}

/// What a node tells of its data plane.
fn life(house: &House, host: &str) -> DataplaneLife {
    wait_for("the node's own words", || {
        let nodes = house.nodes();
        let node = nodes.into_iter().find(|node| node.status.node.as_str() == host);
        let counters = node.and_then(|node| node.counters);
        counters.map(|counters| counters.dataplane).ok_or_else(|| "it tells nothing".into())
    })
}

/// Packets that left all interfaces named `customer` of these nodes so far.
fn delivered(house: &House, nodes: &[&str]) -> u64 {
    let of = |name: &&str| {
        let text = house.node(name).inside(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let text = text.expect("the kernel tells");
        let line = text.lines().find_map(|line| line.trim().strip_prefix("customer:"));
        let sent = line.expect("its line").split_whitespace().nth(9).expect("packets sent");
        sent.parse::<u64>().expect("a number")
    };
    nodes.iter().map(of).sum()
}

/// While nothing else moves the gap is counted to the packet: what came to the ports of the node
/// before another data plane had them.
#[test]
fn what_comes_while_there_is_no_data_plane_is_counted_and_told() {
    const HOST: &str = "host1";
    const COUNT: u32 = 200;
    in_own_house("pair.yaml", |house| {
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let chain = house.deploy(document("steady", PORT, &["v1", "v2"]));
        send_and_count(&house.node("S"), &house.node("D"), to, 20);
        assert_eq!(life(house, HOST).absences, Absences::default());
        let dataplane = house.process("dataplane", Some(HOST));
        let lock = house.path("/run/catena/node").join(HOST).join("state/lock");
        let lock = File::open(lock).expect("its lock");
        // Whoever holds the state directory keeps the next data plane from starting.
        let holding = std::thread::spawn(move || {
            flock(&lock, FlockOperation::LockExclusive).expect("the lock is given");
            lock
        });
        let before = delivered(house, &["S", "v1"]);
        kill(&dataplane);
        wait_gone(house, &dataplane);
        let lock = holding.join().expect("the lock is held");
        wait_for("the agent's word that it has no data plane", || {
            let status = house.chain(&chain.chain).status;
            let is_told = status.reason.contains("the data plane of this node does not run");
            if is_told { Ok(()) } else { Err(format!("{status:?}")) }
        });
        let mut sender = Sender::new(&house.node("S"), to);
        sender.send_many(COUNT);
        drop(lock);
        house.wait_settled();
        house.wait_active(&chain.chain);
        let after = delivered(house, &["S", "v1"]);
        let life = life(house, HOST);
        let Absences { seen, missed_at_ports, last_ms, .. } = life.absences;
        println!("{COUNT} came while nobody took them: {missed_at_ports} missed, {last_ms} ms");
        assert_eq!(seen, 1);
        // Endpoints look for their neighbours once in a while; that was missed as well.
        assert!((u64::from(COUNT)..=after - before).contains(&missed_at_ports), "{life:?}");
        let said = house.tell(&["status"]);
        assert!(said.contains(&format!("{missed_at_ports} packets at ports")), "{said}");
        send_and_count(&house.node("S"), &house.node("D"), to, 50);
        // The other node's data plane lived: its counters go on, and tell what never came to it.
        let report = house.chain(&chain.chain);
        let partial: Vec<(&str, bool)> = report
            .nodes
            .iter()
            .map(|n| (n.node.as_ref().map_or("", |node| node.as_str()), n.counters.is_partial))
            .collect();
        assert_eq!(partial, [("host1", true), ("host2", false)]);
        let shown = house.tell(&["chain", "show", &chain.chain]);
        assert!(shown.contains("* host1 began to count anew "), "{shown}");
        assert!(!shown.contains("* host2"), "{shown}");
    });
}

/// The data plane itself dies: nothing passes a function by meanwhile, and it comes back alone.
#[test]
fn a_data_plane_that_was_killed_comes_back_by_itself() {
    in_own_house("pair.yaml", |house| {
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let chain = house.deploy(document("steady", PORT, &["v1", "v2"]));
        // SIGSYS is what the kernel ends it by for a system call that it has no business with.
        for (host, end) in [("host1", Signal::KILL), ("host2", Signal::SYS)] {
            let dataplane = house.process("dataplane", Some(host));
            let before = life(house, host);
            let receiver = Receiver::new(&house.node("D"), to);
            let sending = Sender::new(&house.node("S"), to).keep_sending();
            std::thread::sleep(Duration::from_millis(100));
            end_until_replaced(house, &dataplane, end);
            house.wait_active(&chain.chain);
            std::thread::sleep(Duration::from_millis(100));
            let sent = sending.stop();
            let came = receiver.stop(sent);
            let last = came.last_key_value().map(|(number, _)| *number);
            assert_eq!(last, Some(sent - 1), "{host}: packets do not flow again");
            assert!(came.values().all(|times| *times == 1), "{host}: a packet came twice");
            assert_told(house, host, &before, u64::from(sent) - came.len() as u64);
            let before = ChainTotal::of(&house.chain(&chain.chain));
            send_and_count(&house.node("S"), &house.node("D"), to, 200);
            let after = ChainTotal::of(&house.chain(&chain.chain));
            assert_eq!(after.finished - before.finished, 200, "{host}");
            account::assert_holds(house);
            let log = house.path("/run/catena/log").join(format!("agent-{host}.log"));
            let log = std::fs::read_to_string(log).expect("a log");
            let is_named = log.contains("a system call outside its list (SIGSYS)");
            assert_eq!(is_named, end == Signal::SYS, "{host}: {log}");
        }
    });
}

/// Kills a data plane and waits until the node has settled with another.
pub(crate) fn kill_until_replaced(house: &House, dataplane: &Process) {
    end_until_replaced(house, dataplane, Signal::KILL);
}

fn end_until_replaced(house: &House, dataplane: &Process, end: Signal) {
    signal(dataplane, end);
    wait_until_replaced(house, dataplane);
}

/// Waits for the end of a data plane, and for the next one to be settled.
pub(crate) fn wait_until_replaced(house: &House, dataplane: &Process) {
    wait_gone(house, dataplane);
    wait_for("another data plane", || {
        let is_it = |p: &Process| p.words == dataplane.words && p.pid != dataplane.pid;
        house.processes().into_iter().find(is_it).map(drop).ok_or("none yet".into())
    });
    house.wait_settled();
}

/// What the kernel repeats goes on without a data plane, and what it sends up while the next one gets
/// its ports waits for them. Packets that are inside a function when the next one begins were let in
/// by nobody that it knows: those it drops by name.
#[test]
fn flows_that_the_kernel_knows_outlive_their_data_plane() {
    in_own_house("pair.yaml", |house| {
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let chain = house.deploy(document("steady", PORT, &["v1", "v2"]));
        for host in ["host1", "host2"] {
            let dataplane = house.process("dataplane", Some(host));
            let receiver = Receiver::new(&house.node("D"), to);
            let sending = Sender::new(&house.node("S"), to).keep_sending();
            wait_for("flows in the kernel", || kernel_carries(house));
            kill_until_replaced(house, &dataplane);
            house.wait_active(&chain.chain);
            let sent = sending.stop();
            let came = receiver.stop(sent);
            let lost = u64::from(sent) - came.len() as u64;
            let nodes = account::counters(house);
            let dropped = nodes.iter().find(|node| node.node.as_str() == host);
            let dropped = dropped.expect("known").total().dropped;
            let inside = dropped.get(&DropReason::UnknownReturn).copied().unwrap_or_default();
            println!("{host}: {lost} of {sent} lost, dropped {dropped:?}");
            assert!(came.values().all(|times| *times == 1), "{host}: a packet came twice");
            assert!(lost <= inside.min(INSIDE_MAX), "{host}: {lost} of {sent} lost: {dropped:?}");
            account::assert_holds(house);
        }
    });
}

/// Packets that functions may hold at one moment: some bursts of the sender.
const INSIDE_MAX: u64 = 100;

/// Does each node carry packets that no engine sees: does nothing come up between two looks?
fn kernel_carries(house: &House) -> Result<(), String> {
    let look = || -> Vec<(u64, u64)> {
        let nodes = account::counters(house);
        let kernels = nodes.iter().filter_map(|node| node.dataplane.kernel.as_ref());
        kernels.map(|kernel| (kernel.flows, kernel.punted)).collect()
    };
    let before = look();
    std::thread::sleep(Duration::from_millis(100));
    let after = look();
    let is_carried =
        before.len() == 2 && before == after && after.iter().all(|(flows, _)| *flows > 0);
    if is_carried { Ok(()) } else { Err(format!("{before:?}, then {after:?}")) }
}

/// Without controller and agents the network stands: packets go on by the last program.
#[test]
fn with_neither_controller_nor_agents_the_packets_go_on() {
    in_own_house("pair.yaml", |house| {
        let to = SocketAddr::new(address("D", Family::V6), PORT);
        let mut document = document("alone", PORT, &["v2", "v1"]);
        document["match_fields"]["ethertype"] = json!("IPv6");
        let chain = house.deploy(document);
        let controller = house.process("controller", None);
        let agents = ["host1", "host2"].map(|host| (host, house.process("agent", Some(host))));
        for process in agents.iter().map(|(_, agent)| agent).chain([&controller]) {
            kill(process);
            wait_gone(house, process);
        }
        send_and_count(&house.node("S"), &house.node("D"), to, 500);
        for (host, agent) in &agents {
            start_agent_again(house, host, agent);
        }
        start_controller_again(house, &controller);
        house.wait_settled();
        account::assert_chain(house, &chain.chain, &ChainTotal::whole(500, &["v2", "v1"]));
    });
}
