//! A lab that makes sense: every name refers to something, every attachment is possible. Knows
//! the meaning of a lab file; refuses to know addresses (see `wiring`) and how anything runs.

use super::bundled::Bundled;
use super::check::{Claim, Statement};
use super::faults::{CableFault, Kill};
use super::ordered::Ordered;
use super::programs::{Call, Program};
use super::threads::FunctionThreads;
use super::units::{BitRate, Seconds};
use super::updates::Updates;
use super::users::Users;
use catena_client::deploy::ChainDocument;
use catena_model::resource::{Encapsulation, IpFamily};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Families of IP between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Families {
    /// IPv4 alone: no node has a place for segments.
    #[default]
    Ipv4,
    /// IPv6 alone, tunnels over UDP included.
    Ipv6,
    /// IPv4 for tunnels over UDP, and IPv6 for segments.
    Both,
}

/// A whole lab.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The file it came from.
    pub file: PathBuf,
    /// Its name; one lab of a name runs at a time.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Hosts: each runs an agent and a data plane.
    pub hosts: Vec<String>,
    /// What hosts have that ask functions, where the file says.
    pub function_threads: BTreeMap<String, FunctionThreads>,
    /// Which families of IP are between nodes.
    pub underlay: Families,
    /// Plain switches, of which the data network consists.
    pub bridges: Vec<String>,
    /// Switches that read source routes: each runs an agent and a data plane, too.
    pub switches: Vec<String>,
    /// Those of them at which headers may end, and which write the next ones.
    pub edges: Vec<String>,
    /// Plain machines with Linux that route between parts of it, and run nothing of ours.
    pub routers: Vec<String>,
    /// What is plugged into the data network.
    pub links: Vec<Link>,
    /// Cables from node to node, whose interfaces are the links of these nodes.
    pub cables: Vec<NodeCable>,
    /// Tenant networks.
    pub networks: Ordered<Network>,
    /// Hosts of the tenant: where traffic begins and ends.
    pub endpoints: Ordered<Endpoint>,
    /// Service functions, SFC-unaware.
    pub functions: Ordered<Function>,
    /// Service functions that come with Catena, and have neither namespace nor interface.
    pub bundled: Ordered<Bundled>,
    /// Programs that stand in nodes during a run.
    pub programs: Vec<Program>,
    /// Chains, as the chain client understands them.
    pub chains: Vec<LabChain>,
    /// Traffic of one run.
    pub traffic: Vec<Traffic>,
    /// Programs that are its traffic, too.
    pub calls: Vec<Call>,
    /// Changes of a chain during a run.
    pub updates: Option<Updates>,
    /// What befalls cables during a run, in the order in which it does.
    pub faults: Vec<CableFault>,
    /// Functions that die during a run, in the order in which they do.
    pub kills: Vec<Kill>,
    /// The experiment with 5G users.
    pub users: Option<Users>,
    /// Endpoints and functions whose interfaces are captured.
    pub capture: Vec<String>,
    /// Is captured, too, what chains send from node to node?
    pub captures_links: bool,
    /// What varies between runs.
    pub sweep: Sweep,
    /// Truths: a failed one fails the run.
    pub checks: Vec<Statement>,
    /// Speeds and times: printed as met or missed.
    pub goals: Vec<Statement>,
    /// Figures.
    pub plots: Vec<Plot>,
    /// The document all this was read from, merged: what is decided once is not read twice.
    pub(crate) merged: String,
}

/// A cable of the data network: at least one of its ends is a plain switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// One end.
    pub left: String,
    /// The other end.
    pub right: String,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
}

/// A cable from node to node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCable {
    /// Its ends.
    pub ends: [LinkEnd; 2],
    /// Largest IP packet, in bytes, with all headers on it.
    pub mtu: u32,
    /// What stands in it, that knows nothing of source routes; none: it is one piece.
    pub through: Option<Equipment>,
}

/// Ordinary equipment in a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equipment {
    /// A bridge of the kernel, which learns addresses as any does, and passes LLDP.
    Bridge,
    /// Open vSwitch with its user-space datapath, which does the same.
    OpenVswitch,
}

impl fmt::Display for NodeCable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [left, right] = &self.ends;
        write!(f, "{left} -- {right}")
    }
}

/// Where a cable is plugged into a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkEnd {
    /// A host, or a switch that reads source routes.
    pub node: String,
    /// Its interface.
    pub interface: String,
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.interface)
    }
}

/// A tenant network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its prefixes, at most one of each family.
    pub cidrs: Vec<IpNet>,
    /// The endpoint that holds the first address and is everybody's default route.
    pub gateway: Option<String>,
    /// Largest IP packet of its ports, in bytes.
    pub mtu: u32,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The host it is attached to.
    pub on: String,
    /// Its networks.
    pub networks: Vec<String>,
    /// Other networks that it reaches, each by the bundled function that has a port in both.
    pub routes: Ordered<String>,
}

/// A service function: a plain router that knows nothing of chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The host it is attached to.
    pub on: String,
    /// Its networks.
    pub networks: Vec<String>,
    /// What came in by the first leaves by the second; one egress per ingress.
    pub routes: Ordered<String>,
}

/// A chain of the file.
#[derive(Clone, Debug)]
pub struct LabChain {
    /// Its name.
    pub name: String,
    /// What the chain client deploys.
    pub document: ChainDocument,
    /// Which figure it belongs to.
    pub group: Option<String>,
    /// How the figure calls it; without one, its name.
    pub label: String,
}

impl LabChain {
    /// Do both carry the same packets the same way?
    fn is_as(&self, other: &Self) -> bool {
        let bare = |chain: &Self| ChainDocument {
            name: None,
            group: None,
            label: None,
            ..chain.document.clone()
        };
        bare(self) == bare(other)
    }

    /// Do nodes write of its packets?
    pub(crate) fn takes_records(&self) -> bool {
        self.document.telemetry.as_ref().is_some_and(Option::is_some)
    }

    /// Are both for the same packets?
    fn takes_the_traffic_of(&self, other: &Self) -> bool {
        self.document.source == other.document.source
            && self.document.match_fields == other.document.match_fields
    }
}

/// What makes traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// iperf3 over UDP.
    IperfUdp,
    /// iperf3 over TCP.
    IperfTcp,
    /// ICMP echo.
    Ping,
    /// Numbered datagrams of our own.
    Datagrams,
    /// TCP streams of our own, whose bytes are checked at the far end.
    Streams,
}

impl Tool {
    /// Does it send TCP?
    #[must_use]
    pub const fn is_tcp(self) -> bool {
        matches!(self, Self::IperfTcp | Self::Streams)
    }
}

/// When datagrams of our own generator leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At an even pace, those of a millisecond together.
    #[default]
    Even,
    /// As Poisson processes, one for each flow, all of the same rate; how long each datagram takes is told.
    Poisson,
}

/// What our own generator sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many flows or streams, told apart by source port.
    pub flows: u32,
    /// Datagrams of each flow; none: as many as the time allows.
    pub packets: Option<u32>,
    /// Datagrams a second, all flows together.
    pub packets_per_second: u32,
    /// When they leave.
    pub arrivals: Arrivals,
    /// Does the receiver send each datagram back?
    pub is_answered: bool,
}

/// A rate by what a chain carries at most, which is measured before the first run.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadShare {
    /// The chain.
    pub chain: String,
    /// The share of its ceiling.
    pub share: f64,
}

/// Traffic of a run.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Its name.
    pub name: String,
    /// What makes it.
    pub tool: Tool,
    /// The endpoint that sends.
    pub from: String,
    /// The endpoint that receives.
    pub to: String,
    /// Destination port.
    pub port: u16,
    /// Offered rate; none: as fast as possible.
    pub rate: Option<BitRate>,
    /// How long.
    pub seconds: Seconds,
    /// Or until the chain has taken its last update.
    pub is_until_updated: bool,
    /// What our own generator sends.
    pub load: Load,
    /// How many packets a second, by what a chain carries; none: as many as the load says.
    pub share: Option<LoadShare>,
    /// When it starts, after the run's beginning.
    pub at: Seconds,
    /// TCP congestion control; none: the machine's.
    pub congestion: Option<String>,
    /// IP version.
    pub family: IpFamily,
    /// The chain that carries it, where the sweep does not say.
    pub chain: Option<String>,
}

/// What varies between runs.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// One of these chains at a time; empty: all chains at once.
    pub chains: Vec<String>,
    /// The first chain cut to each of these lengths, deployed and removed without traffic.
    pub lengths: Option<std::ops::RangeInclusive<usize>>,
    /// Each of these encapsulations; empty: what each chain says.
    pub encapsulations: Vec<Encapsulation>,
    /// How often.
    pub repeat: u32,
}

/// The form of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotKind {
    /// Time of the four steps of a deployment by chain length.
    DeploySteps,
    /// Throughput per second at functions' egress.
    Timeline,
    /// Throughput by chain.
    Bars,
    /// What was under way on the old path at each change, and how long each change took.
    Changes,
    /// Delay of 5G users' packets by their size, beside that of plain ones.
    DelayBySize,
    /// Delay of 5G users' packets by hops, for each rate.
    DelayByHops,
    /// Mean delay of our own datagrams by traffic, one line for each chain, and beside it what is predicted.
    DelayByTraffic,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Plot {
    /// File name without ending.
    pub file: String,
    /// Its form.
    pub kind: PlotKind,
    /// Its title.
    pub title: String,
    /// Chains of this group only.
    pub group: Option<String>,
    /// Which functions it shows.
    pub of: Vec<String>,
    /// What the paper reports, by the same labels; text where it gives only a bound.
    pub paper: Ordered<serde_json::Value>,
}

impl Lab {
    /// Everything that runs an agent: hosts, then switches that read source routes.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().chain(&self.switches).map(String::as_str)
    }

    /// Switches at which no header ends: all that they do is read the next port.
    pub(crate) fn transit_switches(&self) -> impl Iterator<Item = &String> {
        self.switches.iter().filter(|switch| !self.edges.contains(switch))
    }

    /// Does a check or a goal say this?
    pub(crate) fn asks_for(&self, claim: &Claim) -> bool {
        let mut statements = self.checks.iter().chain(&self.goals);
        statements.any(|statement| statement.claim == *claim)
    }

    /// A chain by name.
    #[must_use]
    pub fn chain(&self, name: &str) -> Option<&LabChain> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    /// Why a chain cannot stand beside those before it in the file; none: it can.
    #[must_use]
    pub fn why_not(&self, chain: &LabChain) -> Option<String> {
        if chain.document.chain.is_empty() {
            return Some("it has no function: its traffic goes straight".to_owned());
        }
        let before = self.chains.iter().take_while(|other| other.name != chain.name);
        let mut stands = before.filter(|other| !other.document.chain.is_empty());
        let same = stands.find(|other| other.takes_the_traffic_of(chain))?;
        Some(format!("'{}' takes its traffic", same.name))
    }

    /// The first chain of the sweep that is the same as this one but for what figures call it.
    #[must_use]
    pub fn measured_for<'l>(&'l self, chain: &'l LabChain) -> &'l LabChain {
        let of_sweep = self.sweep.chains.iter().filter_map(|name| self.chain(name));
        let mut same = of_sweep.filter(|other| other.is_as(chain));
        same.next().unwrap_or(chain)
    }

    /// The host of a function of any kind.
    #[must_use]
    pub fn host_of(&self, function: &str) -> Option<&str> {
        let own = self.functions.get(function).map(|function| function.on.as_str());
        own.or_else(|| self.bundled.get(function).map(|bundled| bundled.on.as_str()))
    }

    /// Is it an endpoint or a function with interfaces?
    #[must_use]
    pub fn is_attached(&self, name: &str) -> bool {
        self.endpoints.contains(name) || self.functions.contains(name)
    }

    /// Networks of an endpoint or function.
    #[must_use]
    pub fn networks_of(&self, name: &str) -> &[String] {
        let endpoint = self.endpoints.get(name).map(|endpoint| endpoint.networks.as_slice());
        endpoint
            .or_else(|| self.functions.get(name).map(|function| function.networks.as_slice()))
            .unwrap_or_default()
    }
}
