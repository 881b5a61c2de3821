//! The lab with its sixty-four functions, and the chains over them: made, changed and removed one by
//! one as clients do it, or by the thousand in a draft. Knows the API; refuses to know what it costs.

use super::stream::Stream;
use crate::client::Client;
use crate::engine::drive::wrong;
use crate::error::BenchError;
use crate::servers::Server;
use catena_lab::Doorway;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// The lab's name; its file is called so too.
pub(super) const LAB: &str = "bench-growth";
/// Where rules stand, by turns.
const SOURCES: [&str; 4] = ["S1", "S2", "S3", "S4"];
const DESTINATION: &str = "D";
pub(super) const FUNCTIONS: usize = 64;
/// Ways to choose three functions one after the other.
const TRIPLES: usize = FUNCTIONS * (FUNCTIONS - 1) * (FUNCTIONS - 2);
/// Has no factor in common with [`TRIPLES`]: its multiples meet each way once, in no order that shows.
const STRIDE: usize = 104_729;
/// Where the stream goes.
const STREAM_PORT: u16 = 5_001;
/// Chains that one draft holds at most: with a rule each they are nearly as much as one revision takes.
const DRAFT_CHAINS: usize = 2_000;
/// The controller holds no answer about a chain back for longer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// How long one chain may take to be in force, or gone.
const CHAIN_WAIT: Duration = Duration::from_secs(300);
/// Between two looks at a chain, at least.
const PAUSE: Duration = Duration::from_millis(2);
/// Part of the time waited so far that passes until the next look: among many chains looking costs
/// what would be waited for.
const PAUSE_PART: u32 = 50;
/// The same where all chains are looked at.
const LONG_PAUSE_PART: u32 = 10;
/// Between two looks at all chains, at least.
const LONG_PAUSE: Duration = Duration::from_millis(200);

/// A chain that is in force, with its rule.
pub(super) struct Chain {
    id: String,
    rule: String,
}

/// The lab.
pub(super) struct Site {
    pub(super) server: Server,
    client: Client,
    /// A group of one instance for each function.
    groups: Vec<String>,
    /// The ports where rules stand.
    sources: Vec<String>,
    /// IPv4 address where the stream goes.
    destination: String,
    /// The chain that it takes.
    streamed: String,
    /// Chains in force, without the stream's.
    chains: usize,
    /// Of the next chain or change: none has the functions, nor the rule, of another.
    next: usize,
}

impl Site {
    /// Brings the lab up, with a group for each function and the stream's chain.
    pub(super) fn start(root: &Path, has_one_port: bool) -> Result<Self, BenchError> {
        let server = Server::lab(root, &format!("{LAB}.yaml"))?;
        let mut client = Client::new(&server.address);
        let list = client.expect("GET", "/v2.0/networks?name=customer", None)?;
        let network = text(&list["networks"][0]["id"]);
        let path = format!("/v2.0/ports?network_id={network}");
        let list = client.expect("GET", &path, None)?;
        let port = |device: &str| {
            let mut all = list["ports"].as_array().into_iter().flatten();
            let found = all.find(|port| port["device_id"] == device);
            found.ok_or_else(|| wrong("the lab", &format!("it has no port of {device}")))
        };
        let mut groups = Vec::with_capacity(FUNCTIONS);
        for number in 1..=FUNCTIONS {
            let port = text(&port(&format!("v{number}"))?["id"]);
            let pair = json!({"ingress": port, "egress": port});
            let pair = create(&mut client, "port_pair", &pair)?;
            let group = json!({"name": format!("v{number}"), "port_pairs": [pair]});
            groups.push(create(&mut client, "port_pair_group", &group)?);
        }
        let used = if has_one_port { &SOURCES[..1] } else { &SOURCES[..] };
        let sources = used.iter().map(|name| Ok(text(&port(name)?["id"])));
        let sources = sources.collect::<Result<Vec<_>, BenchError>>()?;
        let destination = text(&port(DESTINATION)?["fixed_ips"][0]["ip_address"]);
        let streamed = String::new();
        let mut site =
            Self { server, client, groups, sources, destination, streamed, chains: 0, next: 0 };
        let rule = json!({
            "logical_source_port": site.sources[0], "protocol": "udp",
            "destination_port_range_min": STREAM_PORT, "destination_port_range_max": STREAM_PORT,
        });
        let groups = site.next_groups();
        site.streamed = site.make_of(&rule, &groups)?.id;
        Ok(site)
    }

    /// With the stream's.
    pub(super) fn chains_in_force(&self) -> usize {
        self.chains + 1
    }

    /// Starts the stream through its chain.
    pub(super) fn stream(&self) -> Result<Stream, BenchError> {
        let (from, to) = (Doorway::to(LAB, SOURCES[0])?, Doorway::to(LAB, DESTINATION)?);
        Stream::start(&from, &to, &self.destination, STREAM_PORT)
    }

    /// Packets that the stream's chain has carried to its end.
    pub(super) fn carried(&mut self) -> Result<u64, BenchError> {
        let report = self.client.expect("GET", &format!("/v1/chains/{}", self.streamed), None)?;
        let nodes = report["nodes"].as_array().into_iter().flatten();
        let finished = nodes.map(|node| node["counters"]["finished"]["packets"].as_u64());
        Ok(finished.map(Option::unwrap_or_default).sum())
    }

    /// Three functions that no other chain has in this order.
    fn next_groups(&mut self) -> Vec<String> {
        let triple = triple(self.next);
        self.next += 1;
        triple.map(|function| self.groups[function].clone()).into()
    }

    /// The rule of the chain that is numbered next; it overlaps no other.
    fn next_rule(&self) -> Value {
        let [.., b, c, d] = self.next.to_be_bytes();
        let source = &self.sources[self.next % self.sources.len()];
        json!({"logical_source_port": source, "protocol": "tcp",
               "source_ip_prefix": format!("10.{b}.{c}.{d}/32")})
    }

    /// Makes a chain and waits until it is active.
    pub(super) fn make(&mut self) -> Result<(Chain, Duration), BenchError> {
        let (rule, groups) = (self.next_rule(), self.next_groups());
        let began = Instant::now();
        let chain = self.make_of(&rule, &groups)?;
        let took = began.elapsed();
        self.chains += 1;
        Ok((chain, took))
    }

    fn make_of(&mut self, rule: &Value, groups: &[String]) -> Result<Chain, BenchError> {
        let began = Instant::now();
        let rule = create(&mut self.client, "flow_classifier", rule)?;
        let body = json!({"port_chain": {"port_pair_groups": groups, "flow_classifiers": [rule]}});
        let answer = self.client.expect("POST", "/v2.0/sfc/port_chains", Some(&body))?;
        let chain = Chain { id: text(&answer["port_chain"]["id"]), rule };
        self.wait_for(&chain.id, began, &answer["port_chain"], is_active)?;
        Ok(chain)
    }

    /// Gives a chain three other functions and waits until it is active and the old path is gone: no
    /// node knows it any more, and what became of its packets is accounted for.
    pub(super) fn change(&mut self, chain: &Chain) -> Result<Duration, BenchError> {
        let path = format!("/v2.0/sfc/port_chains/{}", chain.id);
        let before = self.client.expect("GET", &path, None)?["port_chain"]["path_id"].take();
        let body = json!({"port_chain": {"port_pair_groups": self.next_groups()}});
        let began = Instant::now();
        let answer = self.client.expect("PUT", &path, Some(&body))?;
        let is_over = |now: &Value| {
            let paths = now["last_change"]["paths"].as_array();
            let is_told = paths.is_some_and(|paths| paths.contains(&now["path_id"]));
            is_active(now) && now["path_id"] != before && is_told
        };
        self.wait_for(&chain.id, began, &answer["port_chain"], is_over)?;
        Ok(began.elapsed())
    }

    /// Removes a chain with its rule, and waits until no node sends into its path any more.
    pub(super) fn remove(&mut self, chain: &Chain) -> Result<Duration, BenchError> {
        let began = Instant::now();
        let path = format!("/v2.0/sfc/port_chains/{}", chain.id);
        self.client.expect("DELETE", &path, None)?;
        while began.elapsed() >= ANSWER_WAIT && self.is_withdrawing(&chain.id)? {
            check_time(began, "removed", &chain.id)?;
            std::thread::sleep(LONG_PAUSE.max(began.elapsed() / LONG_PAUSE_PART));
        }
        let path = format!("/v2.0/sfc/flow_classifiers/{}", chain.rule);
        self.client.expect("DELETE", &path, None)?;
        self.chains -= 1;
        Ok(began.elapsed())
    }

    fn is_withdrawing(&mut self, chain: &str) -> Result<bool, BenchError> {
        let status = self.client.expect("GET", "/v1/status", None)?;
        let all = status["withdrawing"].as_array();
        Ok(all.is_some_and(|all| all.iter().any(|one| one["chain"] == chain)))
    }

    /// Looks at a chain, first at what an answer says of it, until it is as wanted.
    fn wait_for(
        &mut self,
        chain: &str,
        began: Instant,
        answered: &Value,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<(), BenchError> {
        let path = format!("/v2.0/sfc/port_chains/{chain}");
        let mut now = answered.clone();
        while !is_so(&now) {
            check_time(began, "in force", chain)?;
            std::thread::sleep(PAUSE.max(began.elapsed() / PAUSE_PART));
            now = self.client.expect("GET", &path, None)?["port_chain"].take();
        }
        Ok(())
    }

    /// Brings the domain up to so many chains, by drafts; false: they were not in force in time.
    pub(super) fn fill(&mut self, chains: usize, deadline: Instant) -> Result<bool, BenchError> {
        while self.chains < chains {
            let count = DRAFT_CHAINS.min(chains - self.chains);
            if !self.apply_draft(count, deadline)? {
                return Ok(false);
            }
            eprintln!("bench: {} of {chains} chains declared", self.chains);
        }
        while self.active()? != self.chains_in_force() {
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(LONG_PAUSE);
        }
        Ok(true)
    }

    fn active(&mut self) -> Result<usize, BenchError> {
        let status = self.client.expect("GET", "/v1/status", None)?;
        let active = status["chains"]["active"].as_u64().unwrap_or_default();
        Ok(usize::try_from(active).unwrap_or_default())
    }

    /// So many chains in one revision, and waits until the last of them is active.
    fn apply_draft(&mut self, count: usize, deadline: Instant) -> Result<bool, BenchError> {
        let draft = self.client.expect("POST", "/v1/plan", Some(&json!({})))?;
        let draft = text(&draft["draft"]);
        let mut inside = Client::in_draft(&self.server.address, &draft);
        let mut last = String::new();
        for _ in 0..count {
            if Instant::now() > deadline {
                return Ok(false);
            }
            let (rule, groups) = (self.next_rule(), self.next_groups());
            let rule = create(&mut inside, "flow_classifier", &rule)?;
            let chain = json!({"port_pair_groups": groups, "flow_classifiers": [rule]});
            last = create(&mut inside, "port_chain", &chain)?;
        }
        let path = format!("/v1/plan/{draft}/apply");
        self.client.expect("POST", &path, Some(&json!({"wait": false})))?;
        self.chains += count;
        let path = format!("/v2.0/sfc/port_chains/{last}");
        while !is_active(&self.client.expect("GET", &path, None)?["port_chain"]) {
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(LONG_PAUSE);
        }
        Ok(true)
    }
}

fn create(client: &mut Client, kind: &str, attributes: &Value) -> Result<String, BenchError> {
    let path = format!("/v2.0/sfc/{kind}s");
    let answer = client.expect("POST", &path, Some(&json!({ kind: attributes })))?;
    Ok(text(&answer[kind]["id"]))
}

fn is_active(chain: &Value) -> bool {
    chain["status"] == "active"
}

fn check_time(began: Instant, what: &str, chain: &str) -> Result<(), BenchError> {
    if began.elapsed() < CHAIN_WAIT {
        return Ok(());
    }
    Err(wrong("the controller", &format!("chain {chain} is not {what} within {CHAIN_WAIT:?}")))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Three different functions: those of each number below [`TRIPLES`] once.
pub(super) fn triple(number: usize) -> [usize; 3] {
    let way = number * STRIDE % TRIPLES;
    let first = way / ((FUNCTIONS - 1) * (FUNCTIONS - 2));
    let among_others = |place: usize, mut taken: Vec<usize>| {
        taken.sort_unstable();
        taken.into_iter().fold(place, |at, taken| at + usize::from(at >= taken))
    };
    let second = among_others(way / (FUNCTIONS - 2) % (FUNCTIONS - 1), vec![first]);
    let third = among_others(way % (FUNCTIONS - 2), vec![first, second]);
    [first, second, third]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_chains_have_the_same_functions_and_each_function_is_in_as_many() {
        let count = 12_000;
        let all: BTreeSet<[usize; 3]> = (0..count).map(triple).collect();
        assert_eq!(all.len(), count);
        let mut uses = [0_usize; FUNCTIONS];
        for [first, second, third] in all {
            assert!(first != second && second != third && third != first);
            for function in [first, second, third] {
                uses[function] += 1;
            }
        }
        let mean = 3 * count / FUNCTIONS;
        assert!(uses.iter().all(|uses| uses.abs_diff(mean) < mean / 5), "{uses:?}");
    }
}
