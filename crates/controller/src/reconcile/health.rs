//! Learns from the data planes which instances are dead, which functions give nothing back and
//! which machines send past the paths, and says what that means for a chain. Knows what was declared
//! for that case; the nodes act on it by themselves, long before.

use super::lives::{Deaths, Lives};
use super::{News, Signals, Situation};
use crate::error::ControllerError;
use crate::southbound::collector::Collector;
use crate::wall_clock;
use catena_model::NodeName;
use catena_model::id::{ChainId, InstanceId, PortId};
use catena_model::resource::{FailurePolicy, ServiceFunction};
use catena_model::status::Health;
use catena_plan::{Counted, FunctionWatch, Intent, Observed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often nodes are asked while there are chains, at most.
const INTERVAL: Duration = Duration::from_secs(1);
/// Asking takes at most one part in so many of the time.
const ASKING_SHARE: u32 = 20;

/// What nodes found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// The instances that their nodes found dead.
    pub(crate) dead: BTreeSet<InstanceId>,
    /// Those that data planes ask, and that have died and begun anew of late.
    died: BTreeMap<InstanceId, Deaths>,
    /// What the counters say of functions; moments are times since the watch began.
    observed: Observed<Duration>,
    /// When that was, in seconds since 1970.
    began_s: u64,
}

impl Findings {
    /// A moment as people read it.
    fn moment(&self, since: Duration) -> String {
        wall_clock::text(self.began_s.saturating_add(since.as_secs()))
    }
}

/// The newest findings.
pub(crate) type Found = Arc<Findings>;

/// Goes on until the controller stops.
pub(crate) async fn watch(
    mut situations: watch::Receiver<Situation>,
    collector: Arc<Collector>,
    signals: Signals,
    found: watch::Sender<Found>,
) -> Result<(), ControllerError> {
    let ended = || ControllerError::Ended("health watch");
    let mut rewriting = BTreeSet::new();
    let mut dead: BTreeMap<NodeName, BTreeSet<InstanceId>> = BTreeMap::new();
    let mut functions = FunctionWatch::default();
    let mut lives = Lives::since(situations.borrow().intent.instances.keys().copied().collect());
    let (start, began_s) = (Instant::now(), wall_clock::now());
    loop {
        let (blueprint, has_chains) = {
            let now = situations.borrow_and_update();
            (Arc::clone(&now.blueprint), !now.intent.chains.is_empty())
        };
        let asked = Instant::now();
        let mut findings = Findings { began_s, ..Findings::default() };
        if has_chains {
            let counters = collector.all(false).await;
            for instance in catena_plan::rewriting(&counters) {
                if rewriting.insert(instance) {
                    signals.send(News::Rewrites(instance)).await.map_err(|_| ended())?;
                }
            }
            findings.observed = functions.look(&blueprint, &counters, start.elapsed());
            findings.died = lives.look(&counters, start.elapsed());
            learn_deaths(counters, &mut dead);
            findings.dead = dead.values().flatten().copied().collect();
        } else {
            dead.clear();
            functions = FunctionWatch::default();
        }
        found.send_if_modified(|before| {
            let has_changed = **before != findings;
            if has_changed {
                *before = Arc::new(findings);
            }
            has_changed
        });
        if has_chains {
            tokio::time::sleep(INTERVAL.max(asked.elapsed() * ASKING_SHARE)).await;
        } else {
            situations.changed().await.map_err(|_| ended())?;
        }
    }
}

/// A node that does not answer is believed as before.
fn learn_deaths(counters: Counted, dead: &mut BTreeMap<NodeName, BTreeSet<InstanceId>>) {
    for (node, counters) in counters {
        let is_dead = |health: &Health| *health == Health::Dead;
        let watched = counters.health.into_iter();
        let found = watched.filter(|one| is_dead(&one.health)).map(|one| one.instance);
        dead.insert(node, found.collect());
    }
}

/// Why a chain does not do what was declared, in one line; none: it does as far as known.
pub(crate) fn complaint(intent: &Intent, found: &Findings, chain: ChainId) -> Option<String> {
    let mut complaints = Vec::new();
    for function in functions(intent, chain) {
        complaints.extend(deaths(intent, &found.dead, function));
        complaints.extend(begun_anew(intent, found, function));
        complaints.extend(strays(intent, found, function));
    }
    (!complaints.is_empty()).then(|| complaints.join("; "))
}

/// What people should know of a chain that may be all right: a firewall drops rightly.
pub(crate) fn remark(found: &Findings, chain: ChainId) -> Option<String> {
    let silent = found.observed.silent.get(&chain)?;
    // Of the dead that is said already.
    let silent = silent.iter().filter(|one| !found.dead.contains(&one.id));
    let remarks: Vec<String> = silent.map(|one| one.words(|since| found.moment(*since))).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

fn functions(intent: &Intent, chain: ChainId) -> impl Iterator<Item = &ServiceFunction> {
    let functions = intent.chains.get(&chain).into_iter().flat_map(|chain| &chain.functions);
    functions.filter_map(|id| intent.functions.get(id))
}

/// The dead instances of a function, and what becomes of their packets.
fn deaths(intent: &Intent, dead: &BTreeSet<InstanceId>, function: &ServiceFunction) -> Vec<String> {
    let has_others = function.instances.iter().any(|instance| !dead.contains(instance));
    let treatment = match function.on_failure {
        FailurePolicy::Unwatched => return Vec::new(),
        FailurePolicy::Reroute if has_others => "rerouted",
        FailurePolicy::Bypass => "bypassed",
        FailurePolicy::Reroute | FailurePolicy::Block => "blocked",
    };
    let told = |instance: &InstanceId| {
        let name = intent.instances.get(instance).map(|instance| instance.label.name.as_str());
        let (name, function) = (name.unwrap_or("?"), &function.label.name);
        format!("instance '{name}' of function '{function}' is dead: {treatment}")
    };
    function.instances.iter().filter(|instance| dead.contains(*instance)).map(told).collect()
}

/// The instances of a function that have died of what they were asked.
fn begun_anew(intent: &Intent, found: &Findings, function: &ServiceFunction) -> Vec<String> {
    let died = function.instances.iter().filter_map(|id| Some((id, found.died.get(id)?)));
    let told = |(id, deaths): (&InstanceId, &Deaths)| {
        let name = intent.instances.get(id).map(|instance| instance.label.name.as_str());
        let (name, function) = (name.unwrap_or("?"), &function.label.name);
        let (count, since) = (deaths.count, found.moment(deaths.since));
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
        format!(
            "instance '{name}' of function '{function}' has died {times} since {since} and begun anew; the log of its \
             data plane says of what"
        )
    };
    died.map(told).collect()
}

/// The ports by which the machines of a function send past its paths.
fn strays(intent: &Intent, found: &Findings, function: &ServiceFunction) -> Vec<String> {
    let machine = |port: &PortId| {
        let port = intent.ports.get(port)?;
        let name = Some(&port.device_id).filter(|name| !name.is_empty())?;
        Some((&port.label.project, name))
    };
    let instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
    let own = instances.flat_map(|instance| [instance.ingress, instance.egress]);
    let machines: BTreeSet<_> = own.filter_map(|port| machine(&port)).collect();
    let is_own = |port: &PortId| machine(port).is_some_and(|machine| machines.contains(&machine));
    let strays = found.observed.undeclared.iter().filter(|(port, _)| is_own(port));
    let told = |(port, since): (&PortId, &Duration)| {
        let (port, function) = (intent.ports.get(port), &function.label.name);
        let port = port.map_or("?", |port| port.label.name.as_str());
        let since = found.moment(*since);
        format!(
            "the machine of function '{function}' sends by port '{port}' what no path expects there: \
             dropped as undeclared_port since {since}"
        )
    };
    strays.map(told).collect()
}
