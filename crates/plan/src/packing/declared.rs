//! What is declared and told as a question of hosts and instances, and the answer in the names that people gave. Knows
//! templates, chains and what nodes say of themselves; refuses to know how hosts are chosen.

use super::obstacle::{Unplaced, why};
use super::state::State;
use super::{Answer, End, Host, Item, Leg, Problem, solve};
use crate::intent::Intent;
use crate::inventory::Inventory;
use catena_model::NodeName;
use catena_model::capacity::{HostRoom, PackedInstance, Packing, Room};
use catena_model::id::{FunctionId, InstanceId};
use catena_model::resource::{Chain, FunctionTemplate, ServiceFunction};
use std::collections::BTreeMap;

/// The host of each instance of functions that are placed, in the order of [`ServiceFunction::instance_names`]; none:
/// it goes without.
pub type Assignment = BTreeMap<FunctionId, Vec<Option<NodeName>>>;

/// Where instances go, and what to tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// For whoever makes them.
    pub hosts: Assignment,
    /// For people.
    pub told: Packing,
}

/// Hosts for all instances that no `on` names any for. Those that have one keep it while they fit there. What is told
/// of it is told beside what was declared before, `former`.
///
/// # Errors
/// Some that have no priority do not fit, or not together.
pub fn packing(
    intent: &Intent,
    former: &Intent,
    inventory: &Inventory,
) -> Result<Packed, Unplaced> {
    let question = Question::new(intent, inventory);
    let answer = solve(&question.problem);
    let problem = &question.problem;
    let must = |item: usize| problem.items[item].priority.is_none();
    let refused = answer.misfits.iter().filter(|misfit| must(misfit.item)).map(|misfit| {
        let Item { name, needs, .. } = &problem.items[misfit.item];
        (name.clone(), *needs, why(problem, misfit))
    });
    let instances: Vec<_> = refused.collect();
    if !instances.is_empty() {
        return Err(Unplaced { instances, is_sure: answer.is_sure });
    }
    let before = Question::new(former, inventory);
    Ok(Packed { hosts: question.assignment(&answer), told: question.told(&answer, &before) })
}

struct Question {
    problem: Problem,
    /// The function of each item.
    owners: Vec<FunctionId>,
    /// The first item of each function that is placed, and how many it has.
    placed: BTreeMap<FunctionId, (usize, usize)>,
}

impl Question {
    fn new(intent: &Intent, inventory: &Inventory) -> Self {
        let numbers: BTreeMap<&NodeName, usize> = inventory.nodes.keys().zip(0..).collect();
        let node = |id: &InstanceId| {
            let port = intent.ports.get(&intent.instances.get(id)?.ingress)?;
            numbers.get(port.node.as_ref()?).copied()
        };
        let mut problem = Problem { hosts: hosts(inventory), ..Problem::default() };
        let mut functions: Vec<(&ServiceFunction, &FunctionTemplate)> = intent
            .functions
            .values()
            .filter_map(|function| Some((function, function.template.as_ref()?)))
            .filter(|(_, template)| template.is_run_by_nodes())
            .collect();
        functions.sort_by_cached_key(|(function, _)| (function.name(), function.id));
        let (mut owners, mut placed) = (Vec::new(), BTreeMap::new());
        for (function, template) in functions {
            if !template.is_placed() {
                for host in function.instances.iter().filter_map(node) {
                    problem.hosts[host].taken.push(template.needs());
                }
                continue;
            }
            let known: BTreeMap<String, &InstanceId> = function
                .instances
                .iter()
                .filter_map(|id| Some((intent.instances.get(id)?.name(), id)))
                .collect();
            let names = function.instance_names(template);
            owners.extend(names.iter().map(|_| function.id));
            placed.insert(function.id, (problem.items.len(), names.len()));
            problem.items.extend(names.into_iter().map(|name| Item {
                now: known.get(&name).and_then(|id| node(id)),
                name,
                needs: template.needs(),
                priority: template.priority,
            }));
        }
        let mut question = Self { problem, owners, placed };
        for chain in intent.chains.values() {
            question.join(intent, chain, &node);
        }
        question
    }

    /// The legs between neighbours of a chain, of which one or both are placed.
    fn join(
        &mut self,
        intent: &Intent,
        chain: &Chain,
        node: &impl Fn(&InstanceId) -> Option<usize>,
    ) {
        let functions: Vec<&ServiceFunction> =
            chain.functions.iter().filter_map(|id| intent.functions.get(id)).collect();
        for pair in functions.windows(2) {
            let both = [pair[0], pair[1]];
            let of = |function: &ServiceFunction| self.placed.get(&function.id).copied();
            if both.iter().all(|function| of(function).is_none()) {
                continue;
            }
            let ends = both.map(|function| match of(function) {
                Some((first, count)) => (first..first + count).map(End::Item).collect(),
                None => function.instances.iter().filter_map(node).map(End::Host).collect(),
            });
            let [from, to]: [Vec<End>; 2] = ends;
            // Instances share the packets of a chain out among themselves.
            let rates = both.iter().zip([from.len(), to.len()]).filter_map(|(function, count)| {
                let mbit =
                    function.template.as_ref().filter(|one| one.is_placed())?.bandwidth_mbit?;
                Some(u64::from(mbit) * count as u64)
            });
            let legs = (from.len() * to.len()).max(1) as u64;
            let mbit = rates.min().unwrap_or(0).div_ceil(legs);
            let bounds = both.iter().filter_map(|function| function.template.as_ref()?.delay_us);
            let delay_us_max = bounds.min().map(u64::from);
            if mbit == 0 && delay_us_max.is_none() {
                continue;
            }
            for one in &from {
                let legs = to.iter().map(|other| Leg { ends: [*one, *other], mbit, delay_us_max });
                self.problem.legs.extend(legs);
            }
        }
    }

    fn host(&self, host: usize) -> NodeName {
        self.problem.hosts[host].name.clone()
    }

    fn assignment(&self, answer: &Answer) -> Assignment {
        let seat = |item: usize| answer.seats[item].map(|seat| self.host(seat.host));
        let of = |(function, (first, count)): (&FunctionId, &(usize, usize))| {
            (*function, (*first..first + count).map(seat).collect())
        };
        self.placed.iter().map(of).collect()
    }

    /// Where an instance is that has this name among those of a function.
    fn at(&self, function: FunctionId, name: &str) -> Option<usize> {
        let (first, count) = *self.placed.get(&function)?;
        let mut own = self.problem.items[first..first + count].iter();
        own.find(|item| item.name == name)?.now
    }

    fn told(&self, answer: &Answer, before: &Self) -> Packing {
        let problem = &self.problem;
        let instance = |(number, item): (usize, &Item)| {
            let misfit = answer.misfits.iter().find(|misfit| misfit.item == number);
            let seat = answer.seats[number];
            PackedInstance {
                instance: item.name.clone(),
                host: seat.map(|seat| self.host(seat.host)),
                former: before.at(self.owners[number], &item.name).map(|now| self.host(now)),
                needs: item.needs,
                spans_numa: seat.is_some_and(|seat| seat.spans),
                missing: misfit.map(|misfit| why(problem, misfit)),
            }
        };
        let everything: Vec<usize> = (0..problem.items.len()).collect();
        let after = State::seated(problem, &everything, &answer.seats);
        let mut then = State::new(&before.problem);
        for (item, known) in before.problem.items.iter().enumerate() {
            // Of a host that was given more than it has, nothing is left.
            let _ = known.now.map(|now| then.put(item, now));
        }
        let before = then;
        let is_told = |host: &usize| before.is_touched(*host) || after.is_touched(*host);
        let host = |host: usize| {
            let capacity = &problem.hosts[host].capacity;
            HostRoom {
                host: self.host(host),
                total: capacity.is_told().then(|| capacity.total()),
                before: before.left(host),
                after: after.left(host),
            }
        };
        Packing {
            instances: problem.items.iter().enumerate().map(instance).collect(),
            hosts: (0..problem.hosts.len()).filter(is_told).map(host).collect(),
            hosts_used: answer.hosts_used,
            hosts_least: answer.hosts_least,
            is_proved: answer.is_proved,
        }
    }
}

/// What the instances take of a node that nodes run there.
#[must_use]
pub fn taken(intent: &Intent, node: &NodeName) -> Room {
    let mut taken = Room::default();
    for function in intent.functions.values() {
        let run = function.template.as_ref().filter(|template| template.is_run_by_nodes());
        let Some(template) = run else { continue };
        let is_there = |id: &&InstanceId| {
            let instance = intent.instances.get(*id);
            let port = instance.and_then(|instance| intent.ports.get(&instance.ingress));
            port.is_some_and(|port| port.node.as_ref() == Some(node))
        };
        for _ in function.instances.iter().filter(is_there) {
            taken = taken.plus(template.needs());
        }
    }
    taken
}

fn hosts(inventory: &Inventory) -> Vec<Host> {
    let hosts = inventory.nodes.iter().map(|(name, facts)| {
        let capacity = facts.capacity.as_deref().cloned().unwrap_or_default();
        Host {
            name: name.clone(),
            link_mbit: capacity.link_mbit,
            capacity,
            taken: Vec::<Room>::new(),
            is_away: !facts.is_connected,
        }
    });
    hosts.collect()
}
