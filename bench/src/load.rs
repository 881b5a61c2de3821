//! What is asked of a server: chains as clients make them, and crowds of clients at once.

use crate::client::Client;
use crate::error::BenchError;
use crate::servers::Server;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time of a call or of several, and the server's processor time meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) cpu_ns: u64,
}

impl Cost {
    pub(crate) fn wall_us(self) -> f64 {
        self.wall.as_secs_f64() * 1e6
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn cpu_us(self) -> f64 {
        self.cpu_ns as f64 / 1e3
    }
}

/// A server with the network that chains are made in.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) client: Client,
    network: String,
    /// Ports that are there already; empty: each chain gets its own.
    ports: Vec<String>,
    /// Grows with each thing that needs a number of its own.
    next: u32,
}

/// What one chain cost, step by step.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainCost {
    pub(crate) classifier: Cost,
    pub(crate) pairs: Vec<Cost>,
    pub(crate) groups: Vec<Cost>,
    pub(crate) chain: Cost,
    /// All of it, without the ports.
    pub(crate) whole: Cost,
    pub(crate) delete: Cost,
}

impl Site {
    pub(crate) fn new(server: Server) -> Result<Self, BenchError> {
        let mut client = Client::new(&server.address);
        let network = json!({"network": {"name": "bench"}});
        let network = client.expect("POST", "/v2.0/networks", Some(&network))?;
        let network = id(&network, "network");
        let subnet = json!({"subnet": {"network_id": network, "cidr": "10.0.0.0/8",
                                       "ip_version": 4, "enable_dhcp": false}});
        client.expect("POST", "/v2.0/subnets", Some(&subnet))?;
        Ok(Self { server, client, network, ports: Vec::new(), next: 0 })
    }

    /// The ports of a lab's functions on the customers' network, and that network.
    pub(crate) fn in_lab(server: Server) -> Result<Self, BenchError> {
        let mut client = Client::new(&server.address);
        let list = client.expect("GET", "/v2.0/networks?name=customer", None)?;
        let network = text(&list["networks"][0]["id"]);
        let path = format!("/v2.0/ports?network_id={network}");
        let list = client.expect("GET", &path, None)?;
        let all = list["ports"].as_array().into_iter().flatten();
        let of_functions = all.filter(|port| text(&port["device_id"]).starts_with('v'));
        let ports = of_functions.map(|port| text(&port["id"])).collect();
        Ok(Self { server, client, network, ports, next: 0 })
    }

    /// Does something and tells what it cost.
    pub(crate) fn measure<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, BenchError>,
    ) -> Result<(T, Cost), BenchError> {
        let before = self.server.cpu_ns();
        let began = Instant::now();
        let answer = work(self)?;
        let wall = began.elapsed();
        let cpu_ns = self.server.cpu_ns().saturating_sub(before);
        Ok((answer, Cost { wall, cpu_ns }))
    }

    fn create(&mut self, plural: &str, singular: &str, body: &Value) -> Result<String, BenchError> {
        let body = json!({ singular: body });
        let path = format!("/v2.0/{plural}");
        Ok(id(&self.client.expect("POST", &path, Some(&body))?, singular))
    }

    pub(crate) fn port(&mut self) -> Result<String, BenchError> {
        let port = json!({"network_id": self.network, "device_id": "bench"});
        self.create("ports", "port", &port)
    }

    /// A classifier that overlaps no other.
    pub(crate) fn classifier(&mut self) -> Result<String, BenchError> {
        self.next += 1;
        let [_, b, c, d] = self.next.to_be_bytes();
        let rule = json!({"protocol": "tcp", "source_ip_prefix": format!("10.{b}.{c}.{d}/32")});
        self.create("sfc/flow_classifiers", "flow_classifier", &rule)
    }

    pub(crate) fn pair(&mut self, port: &str) -> Result<String, BenchError> {
        self.create("sfc/port_pairs", "port_pair", &json!({"ingress": port, "egress": port}))
    }

    pub(crate) fn group(&mut self, pair: &str) -> Result<String, BenchError> {
        self.create("sfc/port_pair_groups", "port_pair_group", &json!({"port_pairs": [pair]}))
    }

    pub(crate) fn chain(
        &mut self,
        groups: &[String],
        rules: &[String],
    ) -> Result<String, BenchError> {
        let chain = json!({"port_pair_groups": groups, "flow_classifiers": rules});
        self.create("sfc/port_chains", "port_chain", &chain)
    }

    /// Brings so many chains in force that go on being there, each with a rule of its own, over as many
    /// functions: the last ports that there are.
    pub(crate) fn fill(&mut self, chains: usize, functions: usize) -> Result<(), BenchError> {
        let mut groups = Vec::with_capacity(functions);
        let last: Vec<String> = self.ports.iter().rev().take(functions).cloned().collect();
        for port in last {
            let pair = self.pair(&port)?;
            groups.push(self.group(&pair)?);
        }
        for number in 0..chains {
            // No two chains may have the same functions in the same order.
            let (mut rest, mut code, mut order) = (groups.clone(), number, Vec::new());
            while !rest.is_empty() {
                let left = rest.len();
                order.push(rest.swap_remove(code % left));
                code /= left;
            }
            let rule = self.classifier()?;
            self.chain(&order, &[rule])?;
        }
        let status = self.client.expect("GET", "/v1/status", None)?;
        if status["chains"]["active"] == chains {
            return Ok(());
        }
        let reason = format!("of {chains} chains these are in force: {}", status["chains"]);
        Err(BenchError::Start { what: "what carries them".into(), reason })
    }

    fn delete(&mut self, plural: &str, ids: &[String]) -> Result<(), BenchError> {
        for id in ids {
            self.client.expect("DELETE", &format!("/v2.0/{plural}/{id}"), None)?;
        }
        Ok(())
    }

    /// Makes and deletes a chain of so many functions.
    pub(crate) fn chain_of(&mut self, functions: usize) -> Result<ChainCost, BenchError> {
        let mut ports: Vec<String> = self.ports.iter().take(functions).cloned().collect();
        let known = ports.len();
        for _ in known..functions {
            ports.push(self.port()?);
        }
        let mut cost = ChainCost::default();
        let (made, whole) = self.measure(|site| {
            let (rule, classifier) = site.measure(Self::classifier)?;
            let (mut pairs, mut groups) = (Vec::new(), Vec::new());
            for port in &ports {
                let (pair, paired) = site.measure(|site| site.pair(port))?;
                let (group, grouped) = site.measure(|site| site.group(&pair))?;
                cost.pairs.push(paired);
                cost.groups.push(grouped);
                pairs.push(pair);
                groups.push(group);
            }
            let (chain, chained) =
                site.measure(|site| site.chain(&groups, std::slice::from_ref(&rule)))?;
            (cost.classifier, cost.chain) = (classifier, chained);
            Ok((vec![chain], groups, pairs, vec![rule]))
        })?;
        cost.whole = whole;
        let (chain, groups, pairs, rule) = made;
        let ((), deleted) = self.measure(|site| {
            site.delete("sfc/port_chains", &chain)?;
            site.delete("sfc/port_pair_groups", &groups)?;
            site.delete("sfc/port_pairs", &pairs)?;
            site.delete("sfc/flow_classifiers", &rule)
        })?;
        cost.delete = deleted;
        self.delete("ports", ports.get(known..).unwrap_or_default())?;
        Ok(cost)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn id(body: &Value, singular: &str) -> String {
    body.get(singular).and_then(|r| r.get("id")).and_then(Value::as_str).unwrap_or_default().into()
}

/// What a crowd did in a while: how many requests a second, and how long each took in microseconds.
pub(crate) struct Crowd {
    pub(crate) per_second: f64,
    pub(crate) latencies_us: Vec<f64>,
}

/// So many clients at once, each asking again as soon as it is answered.
pub(crate) fn crowd(
    address: &str,
    clients: usize,
    duration: Duration,
    ask: impl Fn(&mut Client, usize, usize) -> Result<(), BenchError> + Sync,
) -> Result<Crowd, BenchError> {
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    let latencies = std::thread::scope(|scope| {
        let (is_over, ask) = (&is_over, &ask);
        let client = move |number: usize| {
            let mut client = Client::new(address);
            let mut latencies = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                ask(&mut client, number, latencies.len())?;
                latencies.push(asked.elapsed().as_secs_f64() * 1e6);
            }
            Ok(latencies)
        };
        let clients: Vec<_> =
            (0..clients).map(|number| scope.spawn(move || client(number))).collect();
        std::thread::sleep(duration);
        is_over.store(true, Ordering::Relaxed);
        let answers =
            clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Ok(Vec::new())));
        answers.collect::<Result<Vec<Vec<f64>>, BenchError>>()
    })?;
    let elapsed = began.elapsed().as_secs_f64();
    let latencies_us: Vec<f64> = latencies.into_iter().flatten().collect();
    #[allow(clippy::cast_precision_loss)]
    let per_second = latencies_us.len() as f64 / elapsed;
    Ok(Crowd { per_second, latencies_us })
}
