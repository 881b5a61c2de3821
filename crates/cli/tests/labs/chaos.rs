//! Everything at once, by chance: chains come, change and go, links of the management network are
//! cut and healed, agents and the controller die and come back, and all the while numbered traffic
//! flows. None of it may cost a packet, none may let one into half a path.

use crate::account;
use crate::capture::Capture;
use crate::deaths::{kill, start_agent_again, start_controller_again, wait_gone};
use crate::house::{House, in_own_house};
use crate::patience::{Chance, is_full};
use crate::streams::stream_while;
use crate::traffic::{BURST, Family, Receiver, Sender, Sending, address};
use crate::updates::{groups_of, number_of};
use catena_client::deploy::Deployment;
use catena_client::{ClientError, Kind};
use catena_model::DropReason;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One chain or none on each of these destination ports.
const PORTS: [u16; 3] = [5_110, 5_111, 5_112];
/// The routes of each port's chain; no two chains may have the same groups in the same order.
const ROUTES: [[&[&str]; 2]; 3] =
    [[&["v8"], &["v9", "v10"]], [&["v9"], &["v10", "v8"]], [&["v10"], &["v8", "v9"]]];
const FUNCTIONS: [&str; 3] = ["v8", "v9", "v10"];
const HOSTS: [&str; 4] = ["host1", "host2", "host3", "host4"];
const REST: Duration = Duration::from_millis(40);
/// Between two bursts of a stream: the way up to an engine holds what comes while the machine gives
/// it no processor for a while.
const PAUSE: Duration = Duration::from_millis(20);

struct Chaos<'h> {
    house: &'h mut House,
    chance: Chance,
    /// By port: the chain that may be there, and its rule.
    chains: [Option<(String, String)>; 3],
    cut: Option<&'static str>,
    /// The group of each function, there from the beginning.
    groups: BTreeMap<&'static str, String>,
    /// The port of S.
    source: Value,
}

impl Chaos<'_> {
    fn pick(&mut self, count: usize) -> usize {
        usize::try_from(self.chance.below(count as u64)).expect("a small number")
    }

    fn step(&mut self) -> String {
        // A node away makes every answer wait for it.
        let is_over = self.cut.is_some() && self.pick(2) == 0;
        match self.pick(10) {
            _ if is_over => self.change_link(),
            0..=3 => self.change_chain(),
            4 | 5 => self.move_chain(),
            6 | 7 => self.change_link(),
            8 => self.kill_agent(),
            _ => self.kill_controller(),
        }
    }

    /// The groups of a route.
    fn groups(&self, index: usize, route: usize) -> Vec<String> {
        ROUTES[index][route].iter().map(|name| self.groups[name].clone()).collect()
    }

    fn change_chain(&mut self) -> String {
        let (index, route) = (self.pick(3), self.pick(2));
        let client = &self.house.client;
        let what = if let Some((chain, rule)) = self.chains[index].take() {
            client.delete(Kind::PortChain, &chain).unwrap_or_else(|error| panic!("{error}"));
            client.delete(Kind::FlowClassifier, &rule).unwrap_or_else(|error| panic!("{error}"));
            "goes".to_owned()
        } else {
            let made = |kind, body: Value| {
                let made = client.create(kind, &body).unwrap_or_else(|error| panic!("{error}"));
                let is_active = made["status"] != "building";
                assert_eq!(is_active, made["status_reason"].as_str().is_none_or(str::is_empty));
                made["id"].as_str().expect("an id").to_owned()
            };
            let rule = made(
                Kind::FlowClassifier,
                json!({
                    "protocol": "udp", "logical_source_port": self.source,
                    "destination_port_range_min": PORTS[index],
                    "destination_port_range_max": PORTS[index],
                }),
            );
            let correlation = if index == 1 { "mpls" } else { "nsh" };
            let chain = made(
                Kind::PortChain,
                json!({
                    "name": format!("chaos-{index}"), "flow_classifiers": [rule],
                    "port_pair_groups": self.groups(index, route),
                    "chain_parameters": {"correlation": correlation, "symmetric": false},
                }),
            );
            self.chains[index] = Some((chain, rule));
            format!("comes by {:?}", ROUTES[index][route])
        };
        format!("chaos-{index} {what}")
    }

    fn move_chain(&mut self) -> String {
        let (index, route) = (self.pick(3), self.pick(2));
        let Some((chain, _)) = &self.chains[index] else { return self.change_chain() };
        let body = json!({"port_pair_groups": self.groups(index, route)});
        let moved = self.house.client.update(Kind::PortChain, chain, &body);
        moved.unwrap_or_else(|error| panic!("{error}"));
        format!("chaos-{index} moves to {:?}", ROUTES[index][route])
    }

    fn change_link(&mut self) -> String {
        let management = self.house.node("mgmt");
        if let Some(host) = self.cut.take() {
            management.ip(&format!("link set {host} up"));
            return format!("{host} is healed");
        }
        let host = HOSTS[self.pick(HOSTS.len())];
        management.ip(&format!("link set {host} down"));
        self.cut = Some(host);
        format!("{host} is cut")
    }

    fn kill_agent(&mut self) -> String {
        let host = HOSTS[self.pick(HOSTS.len())];
        let agent = self.house.process("agent", Some(host));
        kill(&agent);
        wait_gone(self.house, &agent);
        start_agent_again(self.house, host, &agent);
        format!("the agent of {host} dies")
    }

    fn kill_controller(&mut self) -> String {
        let controller = self.house.process("controller", None);
        kill(&controller);
        wait_gone(self.house, &controller);
        start_controller_again(self.house, &controller);
        "the controller dies".to_owned()
    }
}

/// What may take packets though the control plane does nothing: an engine that has no processor takes
/// none from the kernel, and what finds no place any more is lost under that name.
struct Starved {
    /// By host: frames lost so, and how long the engine's thread was ready and not run.
    hosts: BTreeMap<&'static str, (u64, Duration)>,
    /// Frames lost under any other name.
    others: u64,
}

impl Starved {
    fn until_now(house: &House) -> Self {
        let dropped = account::dropped(house);
        let named = |host| {
            let of = |(node, reason): &(String, DropReason)| {
                node == host && *reason == DropReason::PuntShareFull
            };
            dropped.iter().filter(|(key, _)| of(key)).map(|(_, count)| count).sum()
        };
        let waited = |host| house.process("dataplane", Some(host)).waited("worker");
        let hosts = HOSTS.map(|host| (host, (named(host), waited(host))));
        let is_other = |(_, reason): &(String, DropReason)| *reason != DropReason::PuntShareFull;
        let others = dropped.iter().filter(|(key, _)| is_other(key)).map(|(_, count)| count).sum();
        Self { hosts: hosts.into(), others }
    }

    /// What streams lost is named so at hosts whose engines had to wait for as long as it takes to send
    /// it, and nothing is lost under another name.
    fn explains(&self, lost: &[Vec<u32>], house: &House) -> Result<(), String> {
        let now = Self::until_now(house);
        let all: u64 = lost.iter().map(|lost| lost.len() as u64).sum();
        let mut told = Vec::new();
        let mut explained = 0;
        for (host, (named, waited)) in &now.hosts {
            let before = self.hosts[host];
            let (named, waited) = (named - before.0, *waited - before.1);
            let sent = u64::from(BURST) * PORTS.len() as u64;
            let sent = waited.as_nanos() as u64 / PAUSE.as_nanos() as u64 * sent;
            explained += named.min(sent);
            told.push(format!("{host}: {named} in {waited:?}"));
        }
        let others = now.others - self.others;
        if all == 0 || (all <= explained && others == 0) {
            return Ok(());
        }
        let first: Vec<Option<&u32>> = lost.iter().map(|lost| lost.first()).collect();
        Err(format!(
            "{all} lost, by stream from {first:?} on; {others} frames were dropped by another name than \
             for want of a place on the way up, and of those, while the engine waited for a processor: \
             {told:?}"
        ))
    }
}

/// Was a packet where its chain leads, as far as it came?
fn is_on_its_way(seen: &[&str], route: &[&str]) -> bool {
    let passed = |name: &&str| seen.iter().filter(|seen| *seen == name).count();
    let counts: Vec<usize> = route.iter().map(passed).collect();
    let is_whole_before = counts.windows(2).all(|pair| pair[0] == 2 || pair[1] == 0);
    is_whole_before && counts.iter().all(|n| *n <= 2) && counts.iter().sum::<usize>() == seen.len()
}

fn document(index: usize, functions: &[&str]) -> Value {
    let steps: Vec<Value> =
        functions.iter().map(|name| json!({"name": name, "direction": "same"})).collect();
    json!({
        "name": format!("chaos-{index}"), "source": "S", "destination": "D", "chain": steps,
        "encapsulation": if index == 1 { "mpls" } else { "nsh" },
        "match_fields": {"protocol": "udp", "destination_port": PORTS[index]},
    })
}

#[test]
fn nothing_that_happens_to_the_control_plane_costs_a_packet_or_halves_a_path() {
    in_own_house("house.yaml", |house| {
        let test = "nothing_that_happens_to_the_control_plane_costs_a_packet_or_halves_a_path";
        let steps = if is_full() { 300 } else { 25 };
        let ring_full = account::ring_full(house);
        let starved = Starved::until_now(house);
        let folder = tempfile::tempdir().expect("a folder");
        let filter = format!("udp dst portrange {}-{}", PORTS[0], PORTS[2]);
        let captures = FUNCTIONS.map(|name| {
            (name, Capture::start(&house.node(name), "customer", &filter, folder.path()))
        });
        let runs: Vec<(Receiver, Sending)> = PORTS
            .iter()
            .map(|port| {
                let to = SocketAddr::new(address("D", Family::V4), *port);
                let receiver = Receiver::new(&house.node("D"), to);
                (receiver, Sender::new(&house.node("S"), to).every(PAUSE).keep_sending())
            })
            .collect();
        let to = SocketAddr::new(address("D", Family::V4), PORTS[0]);
        let (source, destination) = (house.node("S"), house.node("D"));
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let until = move || !told.load(Ordering::Relaxed);
        let tcp = std::thread::spawn(move || stream_while(&source, &destination, to, until));
        let groups = groups_of(house, &FUNCTIONS);
        let chance = Chance::new(test);
        let source = house.client.list(Kind::Port, &[("device_id", "S")]).expect("a list");
        let source = source[0]["id"].clone();
        let chains = [const { None }; 3];
        let mut chaos = Chaos { house, chance, chains, cut: None, groups, source };
        for step in 0..steps {
            let what = chaos.step();
            println!("{step}: {what}");
            std::thread::sleep(REST);
        }
        if let Some(host) = chaos.cut {
            chaos.house.node("mgmt").ip(&format!("link set {host} up"));
        }
        house.wait_settled();
        for chain in house.client.chains().expect("a list") {
            house.wait_active(&chain.name);
        }
        is_over.store(true, Ordering::Relaxed);
        let streamed = tcp.join().expect("the stream ends");
        let (sent, lost): (Vec<u32>, Vec<Vec<u32>>) = runs
            .into_iter()
            .map(|(receiver, sending)| {
                let sent = sending.stop();
                (sent, receiver.missing(sent))
            })
            .unzip();
        starved.explains(&lost, house).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(account::ring_full(house), ring_full);
        let mut visits: BTreeMap<(u16, u32), Vec<&str>> = BTreeMap::new();
        for (name, capture) in captures {
            for frame in capture.frames() {
                let port = u16::from_be_bytes([frame.bytes[36], frame.bytes[37]]);
                visits.entry((port, number_of(&frame))).or_default().push(name);
            }
        }
        for ((port, number), seen) in &visits {
            let index = PORTS.iter().position(|p| p == port).expect("a port of ours");
            let is_lost = lost[index].binary_search(number).is_ok();
            // Each function is seen twice: into it and out of it.
            let is_right = ROUTES[index].iter().any(|route| {
                is_on_its_way(seen, route) && (is_lost || seen.len() == 2 * route.len())
            });
            assert!(is_right, "packet {number} to {port} was seen at {seen:?}");
        }
        let lost: Vec<usize> = lost.iter().map(Vec::len).collect();
        println!("sent {sent:?}, lost {lost:?} for want of a processor");
        println!("on chains {}, streamed {streamed} bytes", visits.len());
        house.remove_chains();
    });
}

/// Requests of several people at once: each is answered for itself, and what is answered holds.
#[test]
fn chains_of_several_people_at_once_are_each_answered_truly() {
    in_own_house("house.yaml", |house| {
        let people: Vec<_> = (0..PORTS.len())
            .map(|index| {
                let client = house.client.clone();
                let to = SocketAddr::new(address("D", Family::V4), PORTS[index]);
                let (source, destination) = (house.node("S"), house.node("D"));
                let work = move || {
                    let mut sender = Sender::new(&source, to);
                    let receiver = Receiver::new(&destination, to);
                    for round in 0..20 {
                        let route = ROUTES[index][round % 2];
                        let document = serde_json::from_value(document(index, route));
                        let document = document.expect("a chain document");
                        let deployed = deploy(&client, &document);
                        assert_eq!(deployed.status, "active", "{}", deployed.status_reason);
                        sender.send();
                        let finished = || {
                            let report = client.chain(&deployed.chain).expect("the chain");
                            let total = account::ChainTotal::of(&report);
                            let whole = account::ChainTotal::whole(1, route);
                            if total == whole { Ok(()) } else { Err(format!("{total:?}")) }
                        };
                        crate::patience::wait_for("the first packet on the chain", finished);
                        Deployment::undeploy(&client, &deployed.chain).expect("it goes");
                    }
                    receiver.assert_all(20);
                };
                std::thread::spawn(work)
            })
            .collect();
        for person in people {
            person.join().expect("every answer held");
        }
        assert!(house.client.list(Kind::PortPair, &[]).expect("a list").is_empty());
    });
}

/// Pairs and groups are shared: another person may take one away between two requests of ours.
fn deploy(
    client: &catena_client::Client,
    document: &catena_client::deploy::ChainDocument,
) -> catena_client::deploy::Deployed {
    use catena_client::deploy::DeployError;
    crate::patience::wait_for("a deployment", || match Deployment::deploy(client, document) {
        Ok(deployed) => Ok(deployed),
        Err(DeployError::Api(ClientError::Refused {
            status: 400 | 404 | 409, message, ..
        })) => Err(message),
        Err(error) => panic!("{error}"),
    })
}
