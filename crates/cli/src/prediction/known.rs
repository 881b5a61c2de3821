//! What is known of functions: how long they take by the counters of data planes and, before there are any, by default;
//! and where they stand. Knows where each figure comes from; refuses to know what follows from it.

use super::Seen;
use catena_model::NodeName;
use catena_model::account::HopCounters;
use catena_model::resource::Runs;
use catena_model::service_time::ServiceTime;
use catena_model::status::{ChainAtNode, ChainReport, FunctionReport};
use catena_plan::prediction::{
    CoreShare, EstimateSource, FunctionLoad, FunctionThread, ServiceEstimate,
};
use catena_plan::queueing::Scv;
use std::collections::BTreeMap;

const NS: f64 = 1e-9;
/// Nanoseconds of a millisecond.
const NS_PER_MS: f64 = 1e6;

/// What kinds take for a packet as long as nobody has timed any, in nanoseconds, and by which figure of
/// bench/RESULTS.md, section functions (of commit a8501aa123c6).
pub(super) const DEFAULTS: [(&str, f64, &str); 8] = [
    ("balancer", 167.8, "balancer_ns"),
    // About as much as one with states of connections (147.4); one rule alone takes 46.5.
    ("firewall", 148.2, "firewall_100_ns"),
    // 1,500 bytes at 2.78 Gbit/s, by 611 rules; small packets take less.
    ("ids", 4_317.0, "ids_500_rules_gbit"),
    ("ips", 4_317.0, "ids_500_rules_gbit"),
    ("marker", 56.88, "marker_ns"),
    ("monitor", 45.2, "monitor_ns"),
    ("nat", 180.5, "nat_ns"),
    ("policer", 54.16, "policer_ns"),
];

/// What a data plane takes of its own for a pass of functions inside it, in nanoseconds: `segment_pass_ns` (820.4) less
/// the firewall with states (147.4) and the monitor (45.2) in it. No counter times that.
const STEERING_NS: f64 = 627.8;

/// As long as nobody knows how times vary, they count as exponential.
const SCV_DEFAULT: Scv = Scv::EXPONENTIAL;

fn default_of(ns: f64) -> ServiceEstimate {
    let source = EstimateSource::Default;
    ServiceEstimate { mean_s: ns * NS, scv: SCV_DEFAULT, source }
}

/// What a data plane takes of its own.
pub(super) fn steering() -> ServiceEstimate {
    default_of(STEERING_NS)
}

/// The kind of a function that data planes ask in place; none: it runs elsewhere.
pub(super) fn kind_inside(function: &FunctionReport) -> Option<String> {
    let template = function.template.as_ref()?;
    let Runs::Bundled(kind) = &template.runs else { return None };
    template.door.is_inside().then(|| kind.clone())
}

/// A function of a chain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KnownFunction {
    pub(super) name: String,
    /// Its kind, where data planes ask it in place; none: nobody times it.
    pub(super) kind: Option<String>,
    /// Nodes and weights of its instances.
    pub(super) instances: Vec<(Option<NodeName>, u32)>,
    pub(super) is_tap: bool,
    /// The hop at which it stands; none: the chain has no path yet.
    pub(super) hop: Option<u16>,
}

impl KnownFunction {
    /// `thread`: that which asks it in the worker's place.
    pub(super) fn load(&self, times: &Times, thread: Option<FunctionThread>) -> FunctionLoad {
        let kind = self.kind.as_ref();
        let service = kind.and_then(|kind| times.of(&self.name, kind));
        // Where none takes flows, or none is known, there is still one that would.
        let is_weighed = self.instances.iter().any(|(_, weight)| *weight > 0);
        let share = |weight: u32| if is_weighed { f64::from(weight) } else { 1.0 };
        let core = |(node, weight): &(Option<NodeName>, u32)| CoreShare {
            node: node.clone(),
            thread,
            share: share(*weight),
        };
        let mut cores: Vec<CoreShare> = self.instances.iter().map(core).collect();
        if cores.is_empty() {
            cores.push(CoreShare { node: None, thread, share: 1.0 });
        }
        FunctionLoad { name: self.name.clone(), service, cores }
    }
}

/// The functions of a chain in force, in the order of its first path; `all`: what is declared of functions.
pub(super) fn of_report(report: &ChainReport, all: &[FunctionReport]) -> Vec<KnownFunction> {
    let path = report.paths.iter().find(|path| Some(path.path) == report.status.path);
    let mut functions = Vec::new();
    for hop in path.into_iter().flat_map(|path| &path.hops) {
        let declared = all.iter().find(|function| function.name == hop.function);
        let instances = hop.instances.iter().map(|one| (one.node.clone(), one.weight));
        functions.push(KnownFunction {
            name: hop.function.clone(),
            kind: declared.and_then(kind_inside),
            instances: instances.collect(),
            is_tap: hop.is_tap,
            hop: Some(hop.hop),
        });
    }
    functions
}

/// How long functions took for packets, by their names.
#[derive(Default)]
pub(super) struct Times(BTreeMap<String, ServiceTime>);

impl Times {
    /// Adds what the nodes of a chain have timed, on all its paths.
    pub(super) fn add(&mut self, report: &ChainReport) {
        for node in &report.nodes {
            for counted in &node.counters.hops {
                let function = function_of(report, node, counted);
                if let Some(function) = function.filter(|_| !counted.service_time.is_empty()) {
                    self.0.entry(function.to_owned()).or_default().merge(&counted.service_time);
                }
            }
        }
    }

    /// Has nobody timed any?
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As it was timed, or the default of its kind.
    fn of(&self, function: &str, kind: &str) -> Option<ServiceEstimate> {
        let measured = self.0.get(function).and_then(ServiceEstimate::measured);
        let default = || DEFAULTS.iter().find(|(name, _, _)| *name == kind);
        measured.or_else(|| default().map(|(_, ns, _)| default_of(*ns)))
    }
}

/// Whose instance was counted; none: nodes know its path no longer.
fn function_of<'r>(
    report: &'r ChainReport,
    node: &ChainAtNode,
    counted: &HopCounters,
) -> Option<&'r str> {
    let path = report.paths.iter().find(|path| path.path == node.counters.path)?;
    let place = (counted.hop, counted.member);
    let hop = path.hops.iter().find(|hop| (hop.hop, hop.member) == place)?;
    Some(&hop.function)
}

/// What came between two readings of a chain, by the clocks of its data planes. A data plane that began anew between
/// them is left out.
pub(super) fn between(first: &ChainReport, second: &ChainReport) -> Seen {
    let is_same = |one: &ChainAtNode, other: &ChainAtNode| {
        one.node == other.node && one.counters.path == other.counters.path
    };
    let pairs = || first.nodes.iter().zip(&second.nodes);
    let mut seen = Seen::default();
    // Whoever is told no node tells them apart by their order alone.
    if first.nodes.len() != second.nodes.len() || !pairs().all(|(one, other)| is_same(one, other)) {
        return seen;
    }
    for (one, other) in pairs().filter(|(one, other)| one.counting_ms < other.counting_ms) {
        let ms = (other.counting_ms - one.counting_ms) as f64;
        let entered = |node: &ChainAtNode| node.counters.entered.packets;
        let packets = entered(other).saturating_sub(entered(one)) as f64;
        *seen.rate.get_or_insert_default() += packets * 1e3 / ms;
        let took = |node: &ChainAtNode| {
            let times = node.counters.hops.iter().map(|hop| hop.service_time.ns);
            times.fold(0, u64::saturating_add)
        };
        let is_timed = other.counters.hops.iter().any(|hop| !hop.service_time.is_empty());
        if is_timed {
            let node = other.node.as_ref().map_or("-", NodeName::as_str).to_owned();
            let busy = took(other).saturating_sub(took(one)) as f64 / (ms * NS_PER_MS);
            *seen.busy.entry(node).or_default() += busy;
        }
    }
    seen
}
