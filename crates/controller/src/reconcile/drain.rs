//! Reads the counters of superseded paths until they are empty, so that the planner may remove them.
//! What is empty is decided by `plan`.

use super::{News, Signals, Situation};
use crate::error::ControllerError;
use crate::southbound::fleet::Fleet;
use catena_model::status::DrainProof;
use catena_plan::{DRAIN_INTERVAL, DrainWatch};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// Goes on until the controller stops.
pub(crate) async fn watch(
    mut situations: watch::Receiver<Situation>,
    fleet: Arc<Fleet>,
    signals: Signals,
) -> Result<(), ControllerError> {
    let ended = || ControllerError::Ended("drain watch");
    let mut drains = DrainWatch::default();
    loop {
        let now = situations.borrow_and_update().clone();
        if !drains.observe(&now.blueprint, &now.inventory, Instant::now()) {
            situations.changed().await.map_err(|_| ended())?;
            continue;
        }
        tokio::time::sleep(DRAIN_INTERVAL).await;
        let counters = fleet.counters(false).await;
        for (path, proof) in drains.drained(&counters, Instant::now()) {
            if let DrainProof::Bound { after_ms } = proof {
                tracing::warn!(%path, "taken as drained after {after_ms} ms");
            }
            signals.send(News::Drained(path)).await.map_err(|_| ended())?;
        }
    }
}
