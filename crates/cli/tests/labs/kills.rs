//! Random processes are killed at random moments, under a stream and while chains change: nothing
//! that was acknowledged is lost, the accounts hold, and every chain goes on.

use crate::account::{self, ChainTotal};
use crate::deaths::{kill, start_agent_again, start_controller_again, wait_gone};
use crate::house::{House, in_own_house};
use crate::patience::{Chance, is_full, wait_for};
use crate::procfs::Process;
use crate::traffic::{Family, Receiver, Sender, Sending, address, send_and_count};
use crate::updates::groups_of;
use catena_client::{Client, ClientError, Kind};
use catena_model::account::DataplaneLife;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const HOSTS: [&str; 2] = ["host1", "host2"];
/// Destination port of each chain.
const PORTS: [u16; 2] = [5_210, 5_211];
/// The two routes of each; no two chains may have the same groups in the same order.
const ROUTES: [[&[&str]; 2]; 2] = [[&["v1", "v2"], &["v2"]], [&["v2", "v1"], &["v1"]]];
const MOMENT_MS_MAX: u64 = 150;
/// Packets that show that a chain goes on.
const PROOF: u32 = 50;

/// Whom the kill hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Controller,
    Agent(&'static str),
    Dataplane(&'static str),
}

impl Victim {
    fn by(chance: &mut Chance) -> Self {
        let host = HOSTS[usize::from(chance.below(2) == 1)];
        match chance.below(5) {
            0 => Self::Controller,
            1 | 2 => Self::Agent(host),
            _ => Self::Dataplane(host),
        }
    }
}

/// A chain that moves between its two routes.
#[derive(Clone, Debug)]
struct Chain {
    id: String,
    groups: [Vec<String>; 2],
    /// The route that was acknowledged last.
    route: usize,
    /// One that was asked for, and no answer came.
    asked: Option<usize>,
    moves: u32,
}

impl Chain {
    fn new(house: &House, index: usize, source: &Value, groups: &BTreeMap<&str, String>) -> Self {
        let create = |kind, body: Value| {
            let made = house.client.create(kind, &body).unwrap_or_else(|error| panic!("{error}"));
            made["id"].as_str().expect("an id").to_owned()
        };
        let rule = json!({
            "protocol": "udp", "logical_source_port": source,
            "destination_port_range_min": PORTS[index], "destination_port_range_max": PORTS[index],
        });
        let rule = create(Kind::FlowClassifier, rule);
        let groups = ROUTES[index].map(|route| route.iter().map(|f| groups[*f].clone()).collect());
        let chain = json!({
            "name": format!("moving-{index}"), "flow_classifiers": [rule],
            "port_pair_groups": groups[0],
        });
        Self { id: create(Kind::PortChain, chain), groups, route: 0, asked: None, moves: 0 }
    }

    /// Moves to and fro until it is told to stop, or nobody answers any more.
    fn keep_moving(mut self, client: Client, stop: Arc<AtomicBool>) -> JoinHandle<Self> {
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let next = 1 - self.route;
                let body = json!({"port_pair_groups": self.groups[next]});
                match client.update(Kind::PortChain, &self.id, &body) {
                    Ok(_) => (self.route, self.moves) = (next, self.moves + 1),
                    Err(ClientError::Unreachable { .. }) => {
                        self.asked = Some(next);
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            self
        })
    }

    /// What was acknowledged is declared, or what was asked for after it.
    fn assert_remembered(&mut self, house: &House) {
        let shown = house.client.show(Kind::PortChain, &self.id).expect("the chain");
        let groups: Vec<&str> = shown["port_pair_groups"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let is_it = |route: &usize| self.groups[*route] == groups;
        let found = [Some(self.route), self.asked].into_iter().flatten().find(is_it);
        self.route = found.unwrap_or_else(|| panic!("{groups:?} is neither of {self:?}"));
        self.asked = None;
    }
}

fn to(index: usize) -> SocketAddr {
    SocketAddr::new(address("D", Family::V4), PORTS[index])
}

fn life(house: &House, host: &str) -> Option<DataplaneLife> {
    let nodes = house.client.nodes().ok()?;
    let node = nodes.into_iter().find(|node| node.status.node.as_str() == host)?;
    Some(node.counters?.dataplane)
}

/// Kills; whoever does not come back by itself is started again.
pub(crate) fn strike(house: &mut House, victim: Victim) {
    let find = |house: &House| match victim {
        Victim::Controller => house.process("controller", None),
        Victim::Agent(host) => house.process("agent", Some(host)),
        Victim::Dataplane(host) => house.process("dataplane", Some(host)),
    };
    let process = find(house);
    kill(&process);
    wait_gone(house, &process);
    match victim {
        Victim::Controller => start_controller_again(house, &process),
        Victim::Agent(host) => start_agent_again(house, host, &process),
        Victim::Dataplane(_) => wait_for("another data plane", || {
            // An agent that was started again names the same program by another path.
            let is_it =
                |p: &Process| p.words.get(1..) == process.words.get(1..) && p.pid != process.pid;
            house.processes().into_iter().find(is_it).map(drop).ok_or("none yet".into())
        }),
    }
}

/// Waits until a data plane that died is replaced and its agent has said so.
fn wait_replaced(house: &House, victim: Victim, before: &DataplaneLife) {
    let Victim::Dataplane(host) = victim else { return };
    wait_for("the word of the data plane's end", || match life(house, host) {
        Some(now) if now.process != before.process && now.absences.seen > before.absences.seen => {
            Ok(())
        }
        other => Err(format!("{other:?} after {before:?}")),
    });
}

/// Every packet came once, and the last; how many did not come.
fn count_lost(victim: Victim, receiver: Receiver, sent: u32) -> u64 {
    let came = receiver.stop(sent);
    assert!(came.values().all(|times| *times == 1), "{victim:?}: a packet came twice");
    let last = came.last_key_value().map(|(number, _)| *number);
    assert_eq!(last, Some(sent - 1), "{victim:?}: packets do not flow again");
    u64::from(sent) - came.len() as u64
}

/// Each chain takes packets as it is declared, and loses none.
fn assert_goes_on(house: &House, index: usize, chain: &Chain) {
    let before = ChainTotal::of(&house.chain(&chain.id));
    send_and_count(&house.node("S"), &house.node("D"), to(index), PROOF);
    let proof = u64::from(PROOF);
    wait_for("the packets on the chain", || {
        let now = ChainTotal::of(&house.chain(&chain.id));
        let took = [now.entered - before.entered, now.finished - before.finished];
        let is_whole = took == [proof; 2] && now.dropped == before.dropped;
        let names: Vec<&str> = now.hops.values().map(|hop| hop.0.as_str()).collect();
        if is_whole && names == ROUTES[index][chain.route] {
            return Ok(());
        }
        Err(format!("{now:?} after {before:?}"))
    });
}

fn one_kill(house: &mut House, chance: &mut Chance, chains: &mut Vec<Chain>) -> String {
    let victim = Victim::by(chance);
    let moment = Duration::from_millis(chance.below(MOMENT_MS_MAX));
    let before = match victim {
        Victim::Dataplane(host) => life(house, host).expect("its life"),
        _ => DataplaneLife::default(),
    };
    let ring_full = account::ring_full(house);
    let streams: Vec<(Receiver, Sending)> = (0..PORTS.len())
        .map(|index| {
            let receiver = Receiver::new(&house.node("D"), to(index));
            (receiver, Sender::new(&house.node("S"), to(index)).keep_sending())
        })
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let moving: Vec<JoinHandle<Chain>> = chains
        .drain(..)
        .map(|chain| chain.keep_moving(house.client.clone(), Arc::clone(&stop)))
        .collect();
    std::thread::sleep(moment);
    strike(house, victim);
    stop.store(true, Ordering::Relaxed);
    chains.extend(moving.into_iter().map(|chain| chain.join().expect("every answer held")));
    wait_replaced(house, victim, &before);
    house.wait_settled();
    for chain in &mut *chains {
        house.wait_active(&chain.id);
        chain.assert_remembered(house);
    }
    let mut lost = 0;
    let mut sent = 0;
    for (receiver, sending) in streams {
        let count = sending.stop();
        lost += count_lost(victim, receiver, count);
        sent += count;
    }
    if !matches!(victim, Victim::Dataplane(_)) {
        // Two processors may be too few for all that runs: the kernel counts what it could not
        // deliver then. The death itself costs nothing.
        let ring_full = account::ring_full(house) - ring_full;
        assert!(lost <= ring_full, "{victim:?}: {lost} lost, {ring_full} by full rings");
    }
    account::assert_holds(house);
    for (index, chain) in chains.iter().enumerate() {
        assert_goes_on(house, index, chain);
    }
    account::assert_holds(house);
    let moves: u32 = chains.iter().map(|chain| chain.moves).sum();
    format!("{victim:?} after {moment:?}: {lost} of {sent} lost, {moves} moves so far")
}

#[test]
fn nothing_acknowledged_is_lost_whoever_dies_and_whenever() {
    in_own_house("pair.yaml", |house| {
        let kills = if is_full() { 200 } else { 20 };
        let mut chance = Chance::new("nothing_acknowledged_is_lost_whoever_dies_and_whenever");
        let groups = groups_of(house, &["v1", "v2"]);
        let source = house.client.list(Kind::Port, &[("device_id", "S")]).expect("a list");
        let source = source[0]["id"].clone();
        let mut chains: Vec<Chain> =
            (0..PORTS.len()).map(|index| Chain::new(house, index, &source, &groups)).collect();
        for number in 0..kills {
            let told = one_kill(house, &mut chance, &mut chains);
            println!("{number}: {told}");
        }
        assert!(chains.iter().all(|chain| chain.moves > 0), "chains moved: {chains:?}");
    });
}
