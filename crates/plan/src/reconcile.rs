//! Keeps what nodes run in step with what is declared: the news it takes, the blueprints that
//! follow, and which programs may leave. Pure: a shell stores, sends and listens.
//!
//! The order is in the types: [`Reconciler::plan`] gives a [`Planned`] whose ledger must be on
//! disk; only [`Reconciler::adopt`] makes it the blueprint from which programs are handed out.

use crate::blueprint::Blueprint;
use crate::cables::ToldLinks;
use crate::index::IndexedIntent;
use crate::inventory::{Inventory, NodeFacts};
use crate::ledger::{Ledger, PathPhase};
use crate::next::{converged, next};
use crate::programs::Programs;
use crate::slices::{SliceBlock, SliceBook};
use catena_model::capacity::Capacity;
use catena_model::entry::{Program, ProgramVersion};
use catena_model::id::{InstanceId, PortId};
use catena_model::topology::{NodePlace, NodeRole};
use catena_model::{BlueprintNumber, NodeName, PathId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Blueprints that may follow from one piece of news; more means that planning does not converge.
const BLUEPRINTS_PER_STEP_MAX: usize = 1_000;

/// Something that may change what should run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A session tells of its node.
    Node {
        /// The node.
        node: NodeName,
        /// Grows with each session of the node.
        session: u64,
        /// What it learned.
        news: NodeNews,
    },
    /// No packet is on this superseded path any more.
    Drained(PathId),
    /// No flow is to stay on this superseded path any more.
    Unpinned(PathId),
    /// This instance changes the bytes of its packets.
    Rewrites(InstanceId),
    /// This node is away and will not come back: nobody waits for it any more.
    Forgotten(NodeName),
    /// This switch is an edge from now on, or none any more.
    Marked {
        /// The switch.
        node: NodeName,
        /// Is it one?
        is_edge: bool,
    },
    /// No packet is on the paths of slices any more that this blueprint turned away from.
    SlicesDrained(BlueprintNumber),
}

/// What a session learned about its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeNews {
    /// It introduced itself.
    Met {
        /// Its place on the data network, and what it is for.
        place: NodePlace,
        /// The program that it runs; 0: none.
        running: BlueprintNumber,
    },
    /// It runs this program.
    Acknowledged(BlueprintNumber),
    /// It refused this program and goes on with the former.
    Refused {
        /// The program.
        number: BlueprintNumber,
        /// Its reason.
        reason: String,
    },
    /// Which ports of its program have an interface, and why others have none.
    Ports {
        /// Those that have one.
        bound: BTreeSet<PortId>,
        /// Those that have none.
        unbound: BTreeMap<PortId, String>,
    },
    /// These interfaces of it are links between nodes, and no others.
    Links(BTreeSet<String>),
    /// It has this for instances; not told: it says nothing of it.
    Capacity(Capacity),
    /// The session is over.
    Lost,
}

/// A blueprint that is decided and not yet remembered.
#[derive(Debug)]
#[must_use = "its ledger must be stored before it is adopted"]
pub struct Planned {
    blueprint: Blueprint,
}

impl Planned {
    /// What must be on disk before any program leaves.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.blueprint.ledger
    }

    /// What of it must be on disk for the sake of slices, given the blueprint that it follows.
    pub fn slice_blocks(&self, former: &Blueprint) -> impl Iterator<Item = (u32, SliceBlock)> {
        self.blueprint.slices.blocks_since(&former.slices, self.blueprint.number)
    }

    /// The programs that its nodes are not told yet.
    pub fn programs<'p>(
        &'p self,
        former: &'p Blueprint,
    ) -> impl Iterator<Item = (&'p NodeName, &'p Program)> {
        self.blueprint.programs.since(&former.programs)
    }

    /// The number of the blueprint.
    #[must_use]
    pub fn number(&self) -> BlueprintNumber {
        self.blueprint.number
    }
}

/// Owner of blueprint and inventory.
#[derive(Debug)]
pub struct Reconciler {
    blueprint: Arc<Blueprint>,
    inventory: Inventory,
    /// The session that speaks for each node.
    sessions: BTreeMap<NodeName, u64>,
    /// Those that were handed out last.
    handed: Programs,
}

impl Reconciler {
    /// Goes on where the last controller with this ledger stopped; `nodes` are all that it had met,
    /// `told` the programs that it has handed out last.
    #[must_use]
    pub fn resume(
        ledger: Ledger,
        nodes: impl IntoIterator<Item = (NodeName, NodePlace)>,
        told: BTreeMap<NodeName, ProgramVersion>,
    ) -> Self {
        Self {
            blueprint: Arc::new(Blueprint::resume(ledger, told)),
            inventory: Inventory::of(nodes),
            sessions: BTreeMap::new(),
            handed: Programs::default(),
        }
    }

    /// The same with the slices that were planned, by this blueprint at last.
    #[must_use]
    pub fn with_slices(self, slices: SliceBook, number: BlueprintNumber) -> Self {
        let blueprint = Blueprint::clone(&self.blueprint).with_slices(slices, number);
        Self { blueprint: Arc::new(blueprint), ..self }
    }

    /// The blueprint that nodes should run.
    #[must_use]
    pub fn blueprint(&self) -> &Arc<Blueprint> {
        &self.blueprint
    }

    /// What is known of the nodes.
    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Takes one piece of news. Answers a node whose place is new and must outlive the controller:
    /// plans need it at once.
    #[must_use = "the place must be stored"]
    pub fn accept(&mut self, news: News) -> Option<(NodeName, NodePlace)> {
        let inventory = &mut self.inventory;
        match news {
            // A late word must not be taken for the next path of that identifier.
            News::Drained(path) | News::Unpinned(path)
                if !is_superseded(&self.blueprint.ledger, path) => {}
            News::Drained(path) => {
                inventory.drained.insert(path);
            }
            News::Unpinned(path) => {
                inventory.unpinned.insert(path);
                // Whoever counted it empty did so while flows could still enter it.
                inventory.drained.remove(&path);
            }
            News::Rewrites(instance) => {
                inventory.rewriting.insert(instance);
            }
            News::SlicesDrained(number) => {
                inventory.slices_drained.insert(number);
            }
            News::Forgotten(node) => self.forget(&node),
            News::Marked { node, is_edge } => {
                let marked = inventory.mark(&node, is_edge)?.place(NodeRole::Switch);
                return Some((node, marked));
            }
            News::Node { node, session, news } => {
                let known = self.sessions.get(&node).copied().unwrap_or_default();
                if session < known {
                    // A session that was replaced has nothing more to say.
                    return None;
                }
                self.sessions.insert(node.clone(), session);
                let met = match &news {
                    NodeNews::Met { place, .. } => {
                        let role = self.inventory.role(&node);
                        if role.is_some_and(|role| role != place.role) {
                            Arc::make_mut(&mut self.blueprint).forget(&node);
                        }
                        let is_new = self.inventory.place(node.clone(), *place);
                        let facts = self.inventory.facts(&node).filter(|_| is_new);
                        facts.map(|facts| (node.clone(), facts.place(place.role)))
                    }
                    _ => None,
                };
                self.take_news(&node, news);
                return met;
            }
        }
        None
    }

    /// Takes what all nodes told of their links last.
    pub fn hear_links(&mut self, told: ToldLinks) {
        self.inventory.told = told;
    }

    /// A node that is connected is not forgotten.
    fn forget(&mut self, node: &NodeName) {
        if self.inventory.facts(node).is_none_or(|facts| facts.is_connected) {
            return;
        }
        self.inventory.remove(node);
        self.sessions.remove(node);
        self.handed.remove(node);
        Arc::make_mut(&mut self.blueprint).forget(node);
    }

    fn take_news(&mut self, node: &NodeName, news: NodeNews) {
        let newest = self.blueprint.number;
        let Some(facts) = self.inventory.facts_mut(node) else { return };
        match news {
            NodeNews::Met { running, .. } => {
                facts.is_connected = true;
                facts.acknowledged = BlueprintNumber::default();
                facts.refusal = None;
                if running == BlueprintNumber::default() {
                    // It has lost everything: what it said before says nothing now.
                    facts.bound.clear();
                    facts.unbound.clear();
                }
                acknowledge(facts, running, newest);
            }
            NodeNews::Acknowledged(number) => acknowledge(facts, number, newest),
            NodeNews::Refused { reason, .. } => facts.refusal = Some(reason),
            NodeNews::Ports { mut bound, unbound } => {
                // A port that the node has not spoken of is undecided: that does not unbind it.
                let program = self.blueprint.programs.get(node);
                let ports =
                    program.iter().flat_map(|program| program.entries.ports.keys()).copied();
                let is_kept = |id: &PortId| facts.bound.contains(id) && !unbound.contains_key(id);
                bound.extend(ports.filter(is_kept));
                // Changed in place: what stays is shared with what was looked at before.
                let gone = facts.bound.iter().filter(|port| !bound.contains(port)).copied();
                for port in gone.collect::<Vec<PortId>>() {
                    facts.bound.remove(&port);
                }
                for port in bound {
                    if !facts.bound.contains(&port) {
                        facts.bound.insert(port);
                    }
                }
                facts.unbound = unbound;
            }
            NodeNews::Links(links) => {
                // What stays is shared with what was looked at before.
                if facts.links.as_deref() != Some(&links) {
                    facts.links = Some(Arc::new(links));
                }
            }
            NodeNews::Capacity(capacity) => {
                facts.capacity = capacity.is_told().then(|| Arc::new(capacity));
            }
            NodeNews::Lost => facts.is_connected = false,
        }
    }

    /// Plans until nothing changes; none: nothing is to be changed now.
    #[must_use]
    pub fn plan(&self, intent: &IndexedIntent) -> Option<Planned> {
        let mut latest: Option<Blueprint> = None;
        for _ in 0..BLUEPRINTS_PER_STEP_MAX {
            let previous = latest.as_ref().unwrap_or(&self.blueprint);
            match next(previous, intent, &self.inventory) {
                Some(blueprint) => latest = Some(blueprint),
                None => break,
            }
        }
        latest.map(|blueprint| Planned { blueprint })
    }

    /// Remembers that nothing was to be changed for this intent: what is declared next is held
    /// against it.
    pub fn converged(&mut self, intent: &IndexedIntent) {
        self.blueprint = Arc::new(converged(&self.blueprint, intent, &self.inventory));
    }

    /// Makes a planned blueprint the current one: its ledger is on disk.
    pub fn adopt(&mut self, planned: Planned) {
        let Planned { blueprint } = planned;
        self.inventory.drained.retain(|path| is_superseded(&blueprint.ledger, *path));
        self.inventory.unpinned.retain(|path| blueprint.ledger.is_pinned(*path));
        let superseded: BTreeSet<BlueprintNumber> = blueprint.slices.superseded().collect();
        self.inventory.slices_drained.retain(|number| superseded.contains(number));
        self.blueprint = Arc::new(blueprint);
    }

    /// The programs that changed since this was asked last.
    #[must_use = "they count as handed out"]
    pub fn hand_out(&mut self) -> Vec<(NodeName, Program)> {
        let programs = self.blueprint.programs.clone();
        let changed = programs.since(&self.handed);
        let changed = changed.map(|(node, program)| (node.clone(), program.clone())).collect();
        // What a former controller has told is no program that anybody here was handed.
        self.handed = programs.present();
        changed
    }
}

fn is_superseded(ledger: &Ledger, path: PathId) -> bool {
    ledger.paths.get(&path).is_some_and(|record| record.phase == PathPhase::Superseded)
}

/// A number that this controller never gave out stands for nothing it planned.
fn acknowledge(facts: &mut NodeFacts, number: BlueprintNumber, newest: BlueprintNumber) {
    if number > newest {
        facts.refusal = Some(format!(
            "it runs program {number}, newer than blueprint {newest} of this controller, whose \
             data directory must be older or another; restore the newer one"
        ));
    } else {
        facts.acknowledged = facts.acknowledged.max(number);
        facts.refusal = None;
    }
}
