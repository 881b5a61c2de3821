//! Reads the counters of superseded paths until they are empty, so that the planner may remove
//! them, and keeps the receipts of changes that are over. What is empty and what is over is decided
//! by `plan`.

use super::receipts::Receipts;
use super::{News, Signals, Situation};
use crate::error::ControllerError;
use crate::southbound::collector::Collector;
use catena_model::id::InstanceId;
use catena_model::status::DrainProof;
use catena_plan::{
    Asked, Changes, Counted, DRAIN_INTERVAL, DRAIN_INTERVAL_MIN, DrainWatch, SliceDrainWatch,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What the watch remembers.
struct Watch {
    drains: DrainWatch<Instant>,
    slices: SliceDrainWatch<Instant>,
    changes: Changes<Instant>,
    /// Instances that the planner was told of.
    rewriting: BTreeSet<InstanceId>,
    receipts: watch::Sender<Arc<Receipts>>,
    signals: Signals,
}

/// Goes on until the controller stops.
pub(crate) async fn watch(
    mut situations: watch::Receiver<Situation>,
    collector: Arc<Collector>,
    signals: Signals,
    receipts: watch::Sender<Arc<Receipts>>,
) -> Result<(), ControllerError> {
    let ended = || ControllerError::Ended("drain watch");
    let mut watch = Watch {
        drains: DrainWatch::default(),
        slices: SliceDrainWatch::default(),
        changes: Changes::default(),
        rewriting: BTreeSet::new(),
        receipts,
        signals,
    };
    let mut interval = DRAIN_INTERVAL_MIN;
    loop {
        let now = situations.borrow_and_update().clone();
        let is_draining = watch.observe(&now);
        let are_slices_draining =
            watch.slices.observe(&now.blueprint, &now.inventory, Instant::now());
        if !is_draining && !are_slices_draining {
            situations.changed().await.map_err(|_| ended())?;
            interval = DRAIN_INTERVAL_MIN;
            continue;
        }
        let counters = watch.count(&collector).await;
        for news in watch.judge(&counters) {
            watch.signals.send(news).await.map_err(|_| ended())?;
        }
        if wait(&mut situations, interval).await.map_err(|_| ended())? {
            interval = DRAIN_INTERVAL_MIN;
        } else {
            interval = (interval * 2).min(DRAIN_INTERVAL);
        }
    }
}

/// Waits for a newer situation, but not for longer than this. Did one come?
async fn wait(
    situations: &mut watch::Receiver<Situation>,
    interval: Duration,
) -> Result<bool, watch::error::RecvError> {
    match tokio::time::timeout(interval, situations.changed()).await {
        Ok(changed) => changed.map(|()| true),
        Err(_) => Ok(false),
    }
}

impl Watch {
    /// Takes how things stand. Are there counters to read?
    fn observe(&mut self, now: &Situation) -> bool {
        let moment = Instant::now();
        let over = self.changes.observe(&now.blueprint, &now.inventory, moment);
        if !over.is_empty() {
            self.receipts.send_modify(|receipts| {
                let receipts = Arc::make_mut(receipts);
                for receipt in over {
                    receipts.keep(receipt);
                }
            });
        }
        self.drains.observe(&now.blueprint, &now.inventory, moment)
    }

    /// The counters of the paths that should be read, from the nodes that they touch.
    async fn count(&self, collector: &Arc<Collector>) -> Counted {
        let mut asked = Asked::default();
        self.drains.ask(&mut asked);
        self.slices.ask(&mut asked);
        let of = asked.scope();
        collector.some(asked.nodes, false, of).await
    }

    /// What the planner should know of these counters.
    fn judge(&mut self, counters: &Counted) -> Vec<News> {
        let now = Instant::now();
        let mut news = Vec::new();
        for instance in catena_plan::rewriting(counters) {
            if self.rewriting.insert(instance) {
                news.push(News::Rewrites(instance));
            }
        }
        for path in self.drains.unpinned(counters, now) {
            news.push(News::Unpinned(path));
        }
        for drained in self.drains.drained(counters, now) {
            if let DrainProof::Bound { after_ms } = drained.proof {
                let (path, kept) = (drained.path, drained.lost_in_function);
                tracing::warn!(%path, "taken as drained after {after_ms} ms; functions kept {kept}");
            }
            self.changes.note(&drained);
            news.push(News::Drained(drained.path));
        }
        news.extend(self.slices.drained(counters, now).into_iter().map(News::SlicesDrained));
        news
    }
}
