//! One step: give the news to the reconciler of `plan`, put the ledger on disk, hand programs out.
//! May block on the disk; knows no socket and decides nothing.

use super::{News, NodeNews, Situation};
use crate::declared::Snapshot;
use crate::error::ControllerError;
use crate::southbound::fleet::Fleet;
use catena_model::NodeName;
use catena_model::program::Underlay;
use catena_plan::{Ledger, Reconciler};
use catena_store::{Expect, Key, Store, StoreError, Transaction};
use serde::Serialize;
use std::sync::Arc;

const LEDGER_KIND: &str = "ledger";
const NODE_KIND: &str = "node";

pub(super) struct Planner {
    store: Arc<dyn Store>,
    fleet: Arc<Fleet>,
    declared: Snapshot,
    reconciler: Reconciler,
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
        let mut nodes = Vec::new();
        for document in store.list(NODE_KIND)? {
            let underlay: Underlay = document.decode()?;
            nodes.extend(NodeName::new(document.key.id).map(|node| (node, underlay)));
        }
        let reconciler = Reconciler::resume(ledger, nodes);
        Ok(Self { store, fleet, declared, reconciler, trouble: None })
    }

    pub(super) fn situation(&self) -> Situation {
        Situation {
            revision: self.declared.revision,
            intent: Arc::clone(&self.declared.intent),
            blueprint: Arc::clone(self.reconciler.blueprint()),
            inventory: Arc::new(self.reconciler.inventory().clone()),
            trouble: self.trouble.clone(),
            dead: Arc::default(),
        }
    }

    pub(super) fn is_in_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    /// Takes the news and brings the programs of all nodes in step.
    pub(super) fn advance(&mut self, news: Vec<News>, declared: Snapshot) {
        self.declared = declared;
        self.trouble = None;
        for news in news {
            self.take(news);
        }
        if let Err(error) = self.plan() {
            tracing::error!("the plan cannot be carried out: {error}");
            self.trouble = Some(format!("the controller cannot record its plan: {error}"));
        }
        for program in self.reconciler.hand_out() {
            self.fleet.want(&program.node, catena_protocol::program::pack(&program));
        }
    }

    fn take(&mut self, news: News) {
        if let News::Node { node, news: NodeNews::Refused { number, reason }, .. } = &news {
            tracing::warn!(%node, "program {number} was refused: {reason}");
        }
        let Some((node, underlay)) = self.reconciler.accept(news) else { return };
        if let Err(error) = self.store(Key::new(NODE_KIND, &node), &underlay) {
            // The node tells it again when it connects again.
            tracing::warn!(%node, "its address is not remembered: {error}");
        }
    }

    /// Nothing is adopted before its ledger is on disk.
    fn plan(&mut self) -> Result<(), StoreError> {
        let Some(planned) = self.reconciler.plan(&self.declared.intent) else {
            self.reconciler.rest(&self.declared.intent);
            return Ok(());
        };
        self.store(ledger_key(), planned.ledger())?;
        let from = self.reconciler.blueprint().number;
        tracing::debug!(%from, to = %planned.ledger().number, "new blueprint");
        self.reconciler.adopt(planned);
        Ok(())
    }

    fn store(&self, key: Key, value: &impl Serialize) -> Result<(), StoreError> {
        let mut transaction = Transaction::new();
        transaction.put(key, value, Expect::Any)?;
        self.store.commit(transaction).map(drop)
    }
}

fn ledger_key() -> Key {
    Key::new(LEDGER_KIND, "current")
}
