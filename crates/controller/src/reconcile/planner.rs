//! One step: give the news to the reconciler of `plan`, put the ledger on disk, hand programs out.
//! May block on the disk; knows no socket and decides nothing.

use super::journal::{Journal, Remembered};
use super::{News, NodeNews, Situation};
use crate::declared::Snapshot;
use crate::error::ControllerError;
use crate::southbound::fleet::Fleet;
use catena_model::NodeName;
use catena_model::program::Underlay;
use catena_plan::{Ledger, Reconciler};
use catena_store::{Expect, Key, Revision, Store, StoreError, Transaction};
use serde::Serialize;
use std::sync::Arc;

const LEDGER_KIND: &str = "ledger";
const NODE_KIND: &str = "node";

pub(super) struct Planner {
    store: Arc<dyn Store>,
    fleet: Arc<Fleet>,
    declared: Snapshot,
    reconciler: Reconciler,
    journal: Journal,
    trouble: Option<String>,
}

impl Planner {
    /// Goes on where the last controller on this store stopped.
    pub(super) fn resume(
        store: Arc<dyn Store>,
        fleet: Arc<Fleet>,
        declared: Snapshot,
        newest_slice: Revision,
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
        for (node, underlay) in &nodes {
            // Two that were remembered with one address connect as before: the first has it.
            let _ = fleet.place(node, underlay.address);
        }
        let Remembered { journal, mut book, number, declared: known } =
            Journal::read(store.as_ref())?;
        let is_declared = |slice| declared.intent.slices.contains_key(&slice);
        if newest_slice > known || !book.classified().all(is_declared) {
            // A slice has changed since nodes were told of it: who knows which of the two they run.
            book.distrust();
        }
        let reconciler = Reconciler::resume(ledger, nodes).with_slices(book, number);
        Ok(Self { store, fleet, declared, reconciler, journal, trouble: None })
    }

    pub(super) fn situation(&self) -> Situation {
        Situation {
            revision: self.declared.revision,
            intent: Arc::clone(&self.declared.intent),
            blueprint: Arc::clone(self.reconciler.blueprint()),
            inventory: Arc::new(self.reconciler.inventory().clone()),
            trouble: self.trouble.clone(),
            found: Arc::default(),
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
        for state in self.reconciler.hand_out() {
            self.fleet.want(state);
        }
    }

    fn take(&mut self, news: News) {
        if let News::Node { node, news: NodeNews::Refused { number, reason }, .. } = &news {
            tracing::warn!(%node, "program {number} was refused: {reason}");
        }
        if let News::Forgotten(node) = &news
            && !self.forget(node)
        {
            return;
        }
        let Some((node, underlay)) = self.reconciler.accept(news) else { return };
        if let Err(error) = self.store(Key::new(NODE_KIND, &node), &underlay) {
            // The node tells it again when it connects again.
            tracing::warn!(%node, "its address is not remembered: {error}");
        }
    }

    /// Strikes a node that is away off the store. False: it is there, or still in the store.
    fn forget(&self, node: &NodeName) -> bool {
        let facts = self.reconciler.inventory().nodes.get(node);
        if facts.is_none_or(|facts| facts.is_connected) {
            return false;
        }
        let mut transaction = Transaction::new();
        transaction.delete(Key::new(NODE_KIND, node), Expect::Any);
        if let Err(error) = self.store.commit(transaction) {
            tracing::warn!(%node, "it is not forgotten: {error}");
            return false;
        }
        self.fleet.forget(node);
        tracing::info!(%node, "forgotten");
        true
    }

    /// Nothing is adopted before its ledger is on disk.
    fn plan(&mut self) -> Result<(), StoreError> {
        let Some(planned) = self.reconciler.plan(&self.declared.intent) else {
            self.reconciler.rest(&self.declared.intent);
            return Ok(());
        };
        let former = self.reconciler.blueprint();
        let mut transaction = Transaction::new();
        if planned.ledger().number != former.ledger.number {
            transaction.put(ledger_key(), planned.ledger(), Expect::Any)?;
        }
        let revision = self.declared.revision;
        let journal = self.journal.add(&mut transaction, &planned, former, revision)?;
        self.store.commit(transaction)?;
        self.journal = journal.unwrap_or_else(|| std::mem::take(&mut self.journal));
        tracing::debug!(from = %former.number, to = %planned.number(), "new blueprint");
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
