//! Keeps what nodes run in step with what is declared.
//!
//! Knows when to plan and what must be on disk before a program leaves. Refuses to decide anything
//! about paths: that is `plan`'s.

pub(crate) mod drain;
pub(crate) mod health;
pub(crate) mod instances;
mod ledger_store;
mod lives;
mod planner;
pub(crate) mod receipts;
pub(crate) mod settle;

use crate::declared::{Declared, Snapshot};
use crate::error::ControllerError;
use crate::southbound::fleet::Fleet;
use crate::southbound::links::Board;
use catena_model::id::ChainId;
use catena_model::slice::{Slice, SliceStatus};
use catena_model::status::{ChainState, ChainStatus};
use catena_plan::{Blueprint, IndexedIntent, Intent, Inventory};
pub(crate) use catena_plan::{News, NodeNews};
use catena_store::{Revision, Store};
use planner::Planner;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// News that may wait for the reconciler; beyond it sessions wait.
const SIGNALS_MAX: usize = 1_024;
/// How long after a failure of the store the reconciler tries again.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// Way to the reconciler.
pub(crate) type Signals = mpsc::Sender<News>;

/// How things stand: published after every step of the reconciler.
#[derive(Clone, Debug)]
pub(crate) struct Situation {
    /// The declared revision that this takes into account.
    pub(crate) revision: Revision,
    pub(crate) intent: Arc<IndexedIntent>,
    pub(crate) blueprint: Arc<Blueprint>,
    pub(crate) inventory: Arc<Inventory>,
    /// Why planning does not go on, if it does not.
    pub(crate) trouble: Option<String>,
    /// What nodes found out about functions.
    pub(crate) found: health::Found,
}

impl Situation {
    /// State of a chain of an intent that may be newer than this situation.
    pub(crate) fn chain_status(&self, intent: &Intent, chain: ChainId) -> ChainStatus {
        let mut status = catena_plan::chain_status(&self.blueprint, intent, &self.inventory, chain);
        if status.state != ChainState::Active
            && let Some(trouble) = &self.trouble
        {
            status.reason.clone_from(trouble);
        }
        if status.state == ChainState::Active
            && let Some(complaint) = health::complaint(intent, &self.found, chain)
        {
            status.state = ChainState::Degraded;
            status.reason = complaint;
        }
        if matches!(status.state, ChainState::Active | ChainState::Degraded)
            && let Some(remark) = health::remark(&self.found, chain)
        {
            let before = std::mem::take(&mut status.reason);
            status.reason = if before.is_empty() { remark } else { format!("{before}; {remark}") };
        }
        status
    }

    /// State of a slice as it is declared.
    pub(crate) fn slice_status(&self, slice: &Slice) -> SliceStatus {
        let mut status = catena_plan::slice_status(&self.blueprint, &self.inventory, slice);
        if status.state != ChainState::Active
            && let Some(trouble) = &self.trouble
        {
            status.reason.clone_from(trouble);
        }
        status
    }
}

/// The one task that owns blueprint and inventory.
pub(crate) struct Reconciler {
    planner: Planner,
    declared: watch::Receiver<Snapshot>,
    signals: mpsc::Receiver<News>,
    situation: watch::Sender<Situation>,
    found: watch::Receiver<health::Found>,
    links: watch::Receiver<Board>,
}

/// Reads what was known before the last stop and makes the first plan.
pub(crate) fn prepare(
    store: Arc<dyn Store>,
    declared: &Declared,
    fleet: Arc<Fleet>,
    found: watch::Receiver<health::Found>,
) -> Result<(Signals, watch::Receiver<Situation>, Reconciler), ControllerError> {
    let links = fleet.links.follow();
    let mut planner = Planner::resume(store, fleet, declared.snapshot())?;
    planner.advance(Vec::new(), declared.snapshot());
    let (sender, signals) = mpsc::channel(SIGNALS_MAX);
    let (situation, watcher) = watch::channel(planner.situation());
    let declared = declared.subscribe();
    Ok((sender, watcher, Reconciler { planner, declared, signals, situation, found, links }))
}

impl Reconciler {
    /// Goes on until the controller stops.
    pub(crate) async fn run(mut self) -> Result<(), ControllerError> {
        let ended = || ControllerError::Ended("reconciler");
        loop {
            let mut news = Vec::new();
            tokio::select! {
                signal = self.signals.recv() => news.push(signal.ok_or_else(ended)?),
                changed = self.declared.changed() => changed.map_err(|_| ended())?,
                changed = self.found.changed() => changed.map_err(|_| ended())?,
                changed = self.links.changed() => changed.map_err(|_| ended())?,
                () = tokio::time::sleep(RETRY_WAIT), if self.planner.is_in_trouble() => {}
            }
            while news.len() < SIGNALS_MAX
                && let Ok(signal) = self.signals.try_recv()
            {
                news.push(signal);
            }
            let snapshot = self.declared.borrow_and_update().clone();
            tokio::task::block_in_place(|| self.planner.advance(news, snapshot));
            let found = Arc::clone(&self.found.borrow_and_update());
            self.situation.send_replace(Situation { found, ..self.planner.situation() });
        }
    }
}
