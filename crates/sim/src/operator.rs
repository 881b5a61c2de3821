//! The operator: random changes of chains and functions, one after the other, and a careful memory
//! of which of them were acknowledged. Knows the API's answers; refuses to know how they are made.

use crate::config::Fabric;
use crate::random::Random;
use crate::topology;
use crate::world::World;
use catena_model::NodeName;
use catena_model::resource::{Chain, Encapsulation};
use catena_model::setup::Setup;
use catena_plan::Intent;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was asked for and what was promised.
#[derive(Debug)]
pub(crate) struct Operator {
    /// The state after the last acknowledged change.
    pub(crate) acknowledged: Arc<Intent>,
    /// A change whose answer has not come (yet): it may be kept, or not, but whole.
    pub(crate) in_doubt: Option<Arc<Intent>>,
    /// Which switches are edges, as was answered last.
    pub(crate) marks: BTreeMap<NodeName, bool>,
    /// A mark, or that one goes, whose answer has not come (yet).
    pub(crate) marking: Option<(NodeName, bool)>,
    /// What is declared first of all.
    topology: Arc<Intent>,
    /// Those that chains may have; the tunnelled ones first.
    carriers: Vec<Encapsulation>,
}

/// What chains have beside tunnels where there are cables.
const OVER_CABLES: [&str; 4] =
    ["source-route/native", "source-route/sr-mpls", "source-route/safe-9", "source-route/polka"];

/// What they have where ways are long: the second has no room for all of them.
const OVER_EDGES: [&str; 3] = ["source-route/native", "source-route/safe-9", "source-route/polka"];

impl Operator {
    pub(crate) fn new(topology: Intent, fabric: Fabric) -> Self {
        let others: &[&str] = match fabric {
            Fabric::None => &[],
            Fabric::Mesh => &OVER_CABLES,
            Fabric::Ring => &OVER_EDGES,
        };
        let others = others.iter().filter_map(|name| Encapsulation::of_name(name));
        Self {
            acknowledged: Arc::default(),
            in_doubt: None,
            marks: BTreeMap::new(),
            marking: None,
            topology: Arc::new(topology),
            carriers: Encapsulation::TUNNELLED.into_iter().chain(others).collect(),
        }
    }

    fn next(&self, random: &mut Random) -> (Intent, String) {
        if self.acknowledged.networks.is_empty() {
            return (Intent::clone(&self.topology), "the topology".into());
        }
        let mut intent = Intent::clone(&self.acknowledged);
        let number = u32::try_from(random.between(1, u64::from(topology::CHAINS))).unwrap_or(1);
        let id = topology::chain_id(number);
        let words = match (random.below(10), intent.chains.get_mut(&id)) {
            (0, Some(_)) => {
                intent.chains.remove(&id);
                format!("delete chain {number}")
            }
            (1, Some(chain)) => {
                let mut all = self.carriers.iter().copied().cycle();
                let _ = all.find(|one| *one == chain.encapsulation);
                chain.encapsulation = all.next().unwrap_or_default();
                format!("carry chain {number} by {}", chain.encapsulation.name())
            }
            (2 | 3, Some(chain)) => {
                let last = chain.functions.len() - 1;
                chain.functions.swap(random.index(last + 1), last);
                format!("reorder chain {number}")
            }
            (4, Some(chain)) => {
                let endpoints = random.between(1, 3);
                chain.rules = rules(number, endpoints);
                format!("start chain {number} at {endpoints:#b}")
            }
            (5 | 6, Some(_)) => change_group(&mut intent, random),
            _ => declare(&mut intent, number, &self.carriers, random),
        };
        (intent, words)
    }
}

fn rules(chain: u32, endpoints: u64) -> Vec<catena_model::id::RuleId> {
    let wanted = [1, 2].into_iter().filter(|bit| endpoints & u64::from(*bit) != 0);
    wanted.map(|endpoint| topology::rule_id(chain, endpoint)).collect()
}

/// Creates a chain or gives it other functions.
fn declare(
    intent: &mut Intent,
    number: u32,
    carriers: &[Encapsulation],
    random: &mut Random,
) -> String {
    let id = topology::chain_id(number);
    let encapsulation = random.pick(carriers).copied().unwrap_or_default();
    let former = intent.chains.get(&id).cloned();
    let encapsulation = former.as_ref().map_or(encapsulation, |chain| chain.encapsulation);
    // The functions that speak another encapsulation would only be refused, mostly.
    let spoken = (1..).zip(Encapsulation::SPOKEN);
    let foreign = spoken.filter(|(_, one)| encapsulation.spoken() != Some(*one));
    let foreign: Vec<u32> = foreign.map(|(number, _)| number).collect();
    let mut choice: Vec<u32> = topology::FUNCTIONS.to_vec();
    if random.chance(950) {
        choice.retain(|function| !foreign.contains(function));
    }
    let wanted = random.between(1, 4);
    let mut functions = Vec::new();
    while !choice.is_empty() && (functions.len() as u64) < wanted {
        functions.push(choice.swap_remove(random.index(choice.len())));
    }
    let words = format!("chain {number} through {functions:?} by {}", encapsulation.name());
    let endpoints = random.between(1, 3);
    let chain = Chain {
        id,
        label: topology::label(format!("c{number}")),
        functions: functions.into_iter().map(topology::function_id).collect(),
        rules: former.map_or_else(|| rules(number, endpoints), |chain| chain.rules),
        encapsulation,
        declared_correlation: None,
        setup: Setup::default(),
        is_symmetric: false,
        context: Vec::new(),
        telemetry: None,
        via: BTreeMap::new(),
        number,
    };
    intent.chains.insert(id, chain);
    words
}

/// Instances come and go, and change their weights.
fn change_group(intent: &mut Intent, random: &mut Random) -> String {
    let members = random.between(1, 3);
    let weight = u32::try_from(random.between(1, 3)).unwrap_or(1);
    if let Some(group) = intent.functions.get_mut(&topology::function_id(topology::GROUP)) {
        let wanted = [(1, topology::GROUP), (2, topology::GROUP + 1)].into_iter();
        let wanted = wanted.filter(|(bit, _)| members & bit != 0);
        group.instances = wanted.map(|(_, instance)| topology::instance_id(instance)).collect();
    }
    if let Some(instance) = intent.instances.get_mut(&topology::instance_id(topology::GROUP + 1)) {
        instance.weight = weight;
    }
    format!("instances {members:#b} of the group, weight {weight}")
}

impl World {
    /// One request to the API, if the controller is there and the last one is answered.
    pub(crate) fn change(&mut self) {
        let is_busy = self.now < self.busy_until;
        if self.operator.in_doubt.is_some() || is_busy {
            return;
        }
        if self.config.fabric == Fabric::Ring && self.random.chance(350) {
            return self.mark_any();
        }
        let Some(controller) = &mut self.controller else { return };
        let (wanted, words) = self.operator.next(&mut self.random);
        let wanted = Arc::new(wanted);
        self.operator.in_doubt = Some(Arc::clone(&wanted));
        let outcome = controller.change(&wanted);
        self.trace.note(format_args!("operator: {words}"));
        if self.die_if_due() {
            return;
        }
        match outcome {
            Ok(()) => {
                self.leave_after_disk(Vec::new(), true);
                let wait = self.again() / 100;
                self.reconcile_soon(wait);
            }
            Err(refused) => {
                self.trace.note(format_args!("controller refuses: {refused}"));
                self.checks.tally.refusals += 1;
                self.operator.in_doubt = None;
            }
        }
    }

    /// The answer leaves: from here on the change must never be lost.
    pub(crate) fn acknowledge_change(&mut self) {
        if let Some(kept) = self.operator.in_doubt.take() {
            self.operator.acknowledged = kept;
            self.checks.tally.acknowledged += 1;
            self.trace.note("operator: acknowledged");
        }
    }
}
