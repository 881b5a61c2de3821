//! One step: take the news, plan until nothing changes, put the ledger on disk, hand programs out.
//! May block on the disk; knows no socket.

use super::{NodeNews, Signal, Situation};
use crate::declared::Snapshot;
use crate::error::ControllerError;
use crate::southbound::fleet::Fleet;
use catena_model::id::PortId;
use catena_model::program::Underlay;
use catena_model::{BlueprintNumber, NodeName, PathId};
use catena_plan::{Blueprint, Inventory, Ledger, NodeFacts, PathPhase};
use catena_store::{Expect, Key, Store, StoreError, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

const LEDGER_KIND: &str = "ledger";
const NODE_KIND: &str = "node";
/// Blueprints that may follow from one piece of news; more means that planning does not converge.
const BLUEPRINTS_PER_STEP_MAX: usize = 1_000;

pub(super) struct Planner {
    store: Arc<dyn Store>,
    fleet: Arc<Fleet>,
    declared: Snapshot,
    blueprint: Arc<Blueprint>,
    inventory: Inventory,
    /// The session that speaks for each node.
    sessions: BTreeMap<NodeName, u64>,
    /// The program that each node's session was given last.
    handed: BTreeMap<NodeName, BlueprintNumber>,
    trouble: Option<String>,
}

impl Planner {
    /// Goes on where the last controller on this store stopped.
    pub(super) fn resume(
        store: Arc<dyn Store>,
        fleet: Arc<Fleet>,
        declared: Snapshot,
    ) -> Result<Self, ControllerError> {
        let ledger: Ledger = match store.get(&ledger_key())? {
            Some(document) => document.decode()?,
            None => Ledger::default(),
        };
        let mut inventory = Inventory::default();
        for document in store.list(NODE_KIND)? {
            let underlay: Underlay = document.decode()?;
            if let Ok(node) = NodeName::new(document.key.id) {
                inventory.nodes.insert(node, NodeFacts::new(underlay));
            }
        }
        Ok(Self {
            store,
            fleet,
            declared,
            blueprint: Arc::new(Blueprint::resume(ledger)),
            inventory,
            sessions: BTreeMap::new(),
            handed: BTreeMap::new(),
            trouble: None,
        })
    }

    pub(super) fn situation(&self) -> Situation {
        Situation {
            revision: self.declared.revision,
            intent: Arc::clone(&self.declared.intent),
            blueprint: Arc::clone(&self.blueprint),
            inventory: Arc::new(self.inventory.clone()),
            trouble: self.trouble.clone(),
        }
    }

    pub(super) fn is_in_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    /// Takes the news and brings the programs of all nodes in step.
    pub(super) fn advance(&mut self, news: Vec<Signal>, declared: Snapshot) {
        self.declared = declared;
        self.trouble = None;
        for signal in news {
            self.take(signal);
        }
        if let Err(error) = self.plan() {
            tracing::error!("the plan cannot be carried out: {error}");
            self.trouble = Some(format!("the controller cannot record its plan: {error}"));
        }
        self.hand_out();
    }

    fn take(&mut self, signal: Signal) {
        match signal {
            // A late word must not be taken for the next path of that identifier.
            Signal::Drained(path) if is_superseded(&self.blueprint.ledger, path) => {
                self.inventory.drained.insert(path);
            }
            Signal::Drained(_) => {}
            Signal::Node { node, session, news } => {
                let known = self.sessions.get(&node).copied().unwrap_or_default();
                // A session that was replaced has nothing more to say.
                if session >= known {
                    self.sessions.insert(node.clone(), session);
                    self.take_news(&node, news);
                }
            }
        }
    }

    fn take_news(&mut self, node: &NodeName, news: NodeNews) {
        let newest = self.blueprint.number;
        if let NodeNews::Met { underlay, .. } = &news {
            self.remember(node, *underlay);
        }
        let Some(facts) = self.inventory.nodes.get_mut(node) else { return };
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
            NodeNews::Refused { number, reason } => {
                tracing::warn!(%node, "program {number} was refused: {reason}");
                facts.refusal = Some(reason);
            }
            NodeNews::Ports { mut bound, unbound } => {
                // A port that the node has not spoken of is undecided: that does not unbind it.
                let program = self.blueprint.programs.get(node);
                let ports = program.iter().flat_map(|program| &program.ports).map(|port| port.id);
                let is_kept = |id: &PortId| facts.bound.contains(id) && !unbound.contains_key(id);
                bound.extend(ports.filter(is_kept));
                facts.bound = bound;
                facts.unbound = unbound;
            }
            NodeNews::Lost => facts.is_connected = false,
        }
    }

    /// Where a node is on the data network outlives the controller: plans need it at once.
    fn remember(&mut self, node: &NodeName, underlay: Underlay) {
        let facts = self.inventory.nodes.get_mut(node);
        if facts.as_ref().is_some_and(|facts| facts.underlay == underlay) {
            return;
        }
        match facts {
            Some(facts) => facts.underlay = underlay,
            None => {
                self.inventory.nodes.insert(node.clone(), NodeFacts::new(underlay));
            }
        }
        let mut transaction = Transaction::new();
        let stored = transaction
            .put(Key::new(NODE_KIND, node), &underlay, Expect::Any)
            .and_then(|()| self.store.commit(transaction));
        if let Err(error) = stored {
            // The node tells it again when it connects again.
            tracing::warn!(%node, "its address is not remembered: {error}");
        }
    }

    /// Plans until nothing changes. Nothing is adopted before its ledger is on disk.
    fn plan(&mut self) -> Result<(), StoreError> {
        let mut latest: Option<Blueprint> = None;
        for _ in 0..BLUEPRINTS_PER_STEP_MAX {
            let previous = latest.as_ref().unwrap_or(&self.blueprint);
            match catena_plan::next(previous, &self.declared.intent, &self.inventory) {
                Some(blueprint) => latest = Some(blueprint),
                None => break,
            }
        }
        let Some(blueprint) = latest else { return Ok(()) };
        let mut transaction = Transaction::new();
        transaction.put(ledger_key(), &blueprint.ledger, Expect::Any)?;
        self.store.commit(transaction)?;
        tracing::debug!(from = %self.blueprint.number, to = %blueprint.number, "new blueprint");
        self.inventory.drained.retain(|path| is_superseded(&blueprint.ledger, *path));
        self.blueprint = Arc::new(blueprint);
        Ok(())
    }

    fn hand_out(&mut self) {
        for (node, program) in &self.blueprint.programs {
            if self.handed.get(node) != Some(&program.number) {
                self.fleet.want(node, catena_protocol::program::pack(program));
                self.handed.insert(node.clone(), program.number);
            }
        }
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

fn ledger_key() -> Key {
    Key::new(LEDGER_KIND, "current")
}
