//! Functions of a lab whose instances are made from a template: those that come with Catena, and commands that agents
//! run. Knows what a file says of one, and what cannot be asked of it, as the lab makes neither a namespace nor an
//! interface for it; refuses to know what it does.

use super::check::{Claim, FunctionCount, Statement};
use super::document::{Document, FunctionEntry};
use super::error::Fault;
use super::lab::{Lab, LabChain, Network};
use super::ordered::Ordered;
use super::programs::Word;
use super::topology::Topology;
use super::validate::{attachment, unknown};
use catena_client::deploy::ChainStep;
use catena_model::instance::{Door, InstanceBounds};
use catena_model::resource::{FailurePolicy, FunctionTemplate, Runs};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Kinds that end no packet, whatever their rules say.
const KINDS_THAT_ONLY_LOOK_ON: [&str; 2] = ["monitor", "ids"];

/// A function that nodes run.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundled {
    /// Its kind, or the command that it is.
    pub runs: Runs,
    /// Where a bundled one runs.
    pub door: Door,
    /// The host that runs it.
    pub on: String,
    /// The networks of its ports.
    pub networks: Vec<String>,
    /// What it is told, the text of its rules included.
    pub config: Map<String, Value>,
    /// How much of its host it may take.
    pub bounds: InstanceBounds,
    /// How often it runs.
    pub instances: u32,
    /// What becomes of packets when an instance dies.
    pub on_failure: FailurePolicy,
}

impl Bundled {
    /// Which function of Catena it is; empty: none.
    #[must_use]
    pub fn kind(&self) -> &str {
        match &self.runs {
            Runs::Bundled(kind) => kind,
            _ => "",
        }
    }

    /// The template that the API is given; `told`: what it is told in place of what the file says.
    #[must_use]
    pub fn template(&self, told: Option<&Map<String, Value>>) -> FunctionTemplate {
        let InstanceBounds { cpu_milli, memory_mib } = self.bounds;
        FunctionTemplate {
            runs: self.runs.clone(),
            door: self.door,
            cpu_milli,
            memory_mib,
            config: told.unwrap_or(&self.config).clone(),
            networks: self.networks.clone(),
            priority: None,
            bandwidth_mbit: None,
            delay_us: None,
            instances: self.instances,
            on: self.on.parse().into_iter().collect(),
            labels: BTreeMap::new(),
        }
    }
}

pub(super) fn understand(
    document: &Document,
    topology: &Topology,
    networks: &Ordered<Network>,
) -> Result<Ordered<Bundled>, Fault> {
    let of = |(name, entry): (&str, &FunctionEntry)| {
        let key = format!("functions.{name}");
        if let Some((what, problem, advice)) = misplaced(name, entry) {
            return Some(Err(Fault::new(format!("{key}.{what}"), problem, advice)));
        }
        let words = || entry.command.iter().map(Word::text).collect();
        let runs = match &entry.bundled {
            Some(kind) => Runs::Bundled(kind.clone()),
            None if entry.command.is_empty() => return None,
            None => Runs::Command(words()),
        };
        let said = [("routes", !entry.routes.is_empty()), ("programs", !entry.programs.is_empty())];
        if let Some((what, _)) = said.into_iter().find(|(_, is_said)| *is_said) {
            let problem = format!("'{name}' is run by its host, and has no namespace of the lab");
            return Some(Err(Fault::new(format!("{key}.{what}"), problem, "leave it out")));
        }
        let attached = attachment(&key, entry.on.as_deref(), &entry.networks, topology, networks);
        Some(attached.map(|(on, networks)| {
            let bounds =
                InstanceBounds { cpu_milli: entry.cpu_milli, memory_mib: entry.memory_mib };
            let (door, config) = (entry.door.unwrap_or_default(), entry.config.clone());
            let instances = entry.instances.unwrap_or(1);
            let on_failure = entry.on_failure.unwrap_or_default();
            let bundled =
                Bundled { runs, door, on, networks, config, bounds, instances, on_failure };
            (name.to_owned(), bundled)
        }))
    };
    document.functions.iter().filter_map(of).collect()
}

/// What is said of a function that does not run so: where, what is wrong, and what to do.
fn misplaced(name: &str, entry: &FunctionEntry) -> Option<(&'static str, &'static str, String)> {
    let is_bundled = entry.bundled.is_some();
    let has_command = !entry.command.is_empty();
    let bundle = || format!("add bundled: firewall, or another kind, to '{name}'");
    if is_bundled && has_command {
        return Some((
            "command",
            "is what another function runs",
            "leave out one of bundled and command".into(),
        ));
    }
    if !is_bundled && !entry.config.is_empty() {
        return Some(("config", "is for bundled functions", bundle()));
    }
    if !is_bundled && entry.door.is_some() {
        return Some(("door", "is for bundled functions", bundle()));
    }
    let bounds = [
        ("cpu_milli", entry.cpu_milli.is_some()),
        ("memory_mib", entry.memory_mib.is_some()),
        ("instances", entry.instances.is_some()),
        ("on_failure", entry.on_failure.is_some()),
    ];
    let bound = bounds.into_iter().find(|(_, is_said)| *is_said);
    bound.filter(|_| !is_bundled && !has_command).map(|(what, _)| {
        (what, "is for functions that hosts run", format!("add a command or bundled to '{name}'"))
    })
}

/// Is that what a fault should say of a name that has no interface?
pub(super) fn without_interface(lab: &Lab, key: &str, name: &str, what: &str) -> Option<Fault> {
    lab.bundled.contains(name).then(|| {
        let problem = format!("'{name}' is bundled, and has no interface to {what}");
        Fault::new(key, problem, "name functions with namespaces, or leave it out")
    })
}

/// Nothing is asked of bundled functions that takes an interface, or that holds of those alone that end no packet.
pub(super) fn check(lab: &Lab) -> Result<(), Fault> {
    let mut chains = lab.chains.iter();
    let within = |chain: &LabChain| bundled_step(lab, &chain.document.chain).map(str::to_owned);
    let Some((chain, name)) = chains.find_map(|chain| Some((&chain.name, within(chain)?))) else {
        return Ok(());
    };
    let problem = |what: &str| format!("{what}, and '{name}' of chain '{chain}' is bundled");
    for (section, statements) in [("check", &lab.checks), ("goal", &lab.goals)] {
        for (index, statement) in statements.iter().enumerate() {
            let what = match &statement.claim {
                Claim::Order
                | Claim::Sum { .. }
                | Claim::Paths
                | Claim::Shares { .. }
                | Claim::Moves
                | Claim::Streams => "is judged from captures at the interfaces of functions",
                Claim::BothVersions if !changes_rules(lab) => {
                    "is judged from captures at the interfaces of functions"
                }
                Claim::Hops => "says that functions give back all that goes on",
                _ => continue,
            };
            let advice = "leave it out, and write 'unaccounted == 0', 'denied' or 'alerts'";
            return Err(Fault::new(format!("{section}[{index}]"), problem(what), advice));
        }
    }
    if changes_rules(lab) {
        // What packets have met of them is seen at the functions behind.
        return Ok(());
    }
    let versions = lab.updates.iter().flat_map(|updates| &updates.versions);
    let of_updates =
        |chain: &&LabChain| lab.updates.as_ref().is_some_and(|updates| updates.chain == chain.name);
    let changing = lab.chains.iter().filter(of_updates).map(|chain| &chain.document.chain);
    let mut changing = changing.chain(versions.map(|version| &version.steps));
    if let Some(name) = changing.find_map(|steps| bundled_step(lab, steps)) {
        let problem = format!("is judged from captures, and '{name}' is bundled");
        return Err(Fault::new("updates", problem, "change a chain of other functions"));
    }
    Ok(())
}

/// Do bundled functions change what they are told?
fn changes_rules(lab: &Lab) -> bool {
    lab.updates.as_ref().is_some_and(|updates| !updates.rule_sets.is_empty())
}

fn bundled_step<'s>(lab: &Lab, steps: &'s [ChainStep]) -> Option<&'s str> {
    steps.iter().map(|step| step.name.as_str()).find(|name| lab.bundled.contains(name))
}

/// What functions are said to have told or ended can be told of them.
pub(super) fn check_counted(lab: &Lab, statement: &Statement, key: &str) -> Result<(), Fault> {
    let Claim::Function { what, function, .. } = &statement.claim else { return Ok(()) };
    if !lab.bundled.contains(function) {
        return Err(unknown(key, "bundled function", function, lab.bundled.names()));
    }
    let stands_in =
        |chain: &&LabChain| chain.document.chain.iter().any(|step| step.name == *function);
    if !lab.chains.iter().any(|chain| stands_in(&chain)) {
        let problem = format!("'{function}' is in no chain");
        return Err(Fault::new(key, problem, "put it into one"));
    }
    let other = (*what == FunctionCount::Denied).then(|| denies_beside(lab, function)).flatten();
    other.map_or(Ok(()), |other| {
        let problem =
            format!("cannot be told from what '{other}' of the same chain ends on the same host");
        Err(Fault::new(key, problem, "put one of them on another host"))
    })
}

/// Another bundled function of a chain of this one, whose rules may end packets on the same host: a node counts what
/// ends on a path by its reason alone.
pub(crate) fn denies_beside<'l>(lab: &'l Lab, function: &str) -> Option<&'l str> {
    let on = lab.host_of(function)?;
    let has_it = |chain: &&LabChain| chain.document.chain.iter().any(|step| step.name == function);
    let chains = lab.chains.iter().filter(has_it);
    let mut names = chains.flat_map(|chain| &chain.document.chain).map(|step| step.name.as_str());
    names.find(|name| {
        let other = lab.bundled.get(name).filter(|_| *name != function);
        other
            .is_some_and(|other| other.on == on && !KINDS_THAT_ONLY_LOOK_ON.contains(&other.kind()))
    })
}
