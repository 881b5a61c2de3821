//! The collector: from reports of packets to figures that decisions may read.
//!
//! Knows what is planned, who told what by which connection, and the moment that it is given. Refuses to know clocks,
//! sockets and headers, and to decide.
//!
//! A report is believed if the node of its connection serves the end of that path, if it is new, within the rate of its
//! node, on the way that was planned, and if its stamps and counters fit one another and those before. All else is
//! counted by name ([`Refusal`]) and changes nothing else. What a node tells reaches the figures of paths that it ends
//! alone: memory, rates and what is remembered are kept apart by node and by path, so nobody can drive out what another
//! told. docs/internals/telemetry.md says what can still be forged.

mod figures;
mod flow;
mod histogram;
pub mod limits;
mod marks;
mod node;
mod passage;
mod path;
mod refusal;
mod series;
mod step;
#[cfg(test)]
mod tests;
mod way;

pub use figures::{HopFigures, HopTaken, PathFigures, PathLetGo, Taken, VisitFigures};
pub use flow::{FlowFigures, FlowHopFigures, Losses, Rate};
pub use histogram::{Histogram, LONGEST_NS, Precision, Quantile, Quantiles};
pub use limits::Limits;
pub use node::NodeTelling;
pub use passage::{PassageFigures, PassageWindow};
pub use refusal::{Refusal, Refusals};
pub use series::{DelayFigures, Window};
pub use step::{STEP_REFERENCE_WINDOWS, STEP_WINDOWS, Step};

use catena_model::id::{BlueprintNumber, PathId};
use catena_model::telemetry::{ArrivalTime, DelayReport, DeviceId, PacketReport, PlannedPath};
use limits::{HOPS_MAX, VISITS_PER_HOP_MAX};
use node::Node;
use path::WatchedPath;
use std::collections::BTreeMap;
use way::Clocks;

/// Who brought a report, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The node whose certificate opened the connection.
    pub device: DeviceId,
    /// The number of the connection, higher than those of all that it had before.
    pub connection: u64,
    /// Now, by our monotonic clock, nanoseconds.
    pub now_ns: u64,
    /// Now, by the clock that synchronised nodes agree on, if ours does; none: their stamps are held against one
    /// another alone.
    pub wall: Option<ArrivalTime>,
}

/// Why a path cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwatchable {
    /// It has no hop, or more than [`limits::HOPS_MAX`].
    Hops(usize),
    /// A hop has more nodes than [`limits::VISITS_PER_HOP_MAX`].
    Visits(usize),
}

/// Watches paths.
#[derive(Clone, Debug)]
pub struct Observer {
    limits: Limits,
    paths: BTreeMap<(PathId, BlueprintNumber), WatchedPath>,
    nodes: BTreeMap<DeviceId, Node>,
    clocks: Clocks,
    /// Reports of nodes that are on no path.
    strangers: u64,
    planned: u64,
    let_go: u64,
}

impl Observer {
    /// Watches nothing yet.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            paths: BTreeMap::new(),
            nodes: BTreeMap::new(),
            clocks: BTreeMap::new(),
            strangers: 0,
            planned: 0,
            let_go: 0,
        }
    }

    /// Watches a path from now on. One that is watched as it is planned goes on; where there are too many, the one that
    /// was planned first is let go.
    ///
    /// # Errors
    /// When it has more hops, or nodes at a hop, than are watched.
    pub fn plan(&mut self, planned: PlannedPath, now_ns: u64) -> Result<(), Unwatchable> {
        let hops = planned.hops.len();
        if !(1..=HOPS_MAX).contains(&hops) {
            return Err(Unwatchable::Hops(hops));
        }
        let visits = planned.hops.iter().map(|hop| hop.visits.len()).max().unwrap_or_default();
        if visits > VISITS_PER_HOP_MAX {
            return Err(Unwatchable::Visits(visits));
        }
        let key = (planned.path, planned.version);
        if self.paths.get(&key).is_some_and(|known| *known.planned() == planned) {
            return Ok(());
        }
        self.paths.remove(&key);
        if self.paths.len() >= self.limits.paths.max(1) {
            let oldest = self.paths.iter().min_by_key(|(_, path)| path.order).map(|(key, _)| *key);
            self.let_go += u64::from(oldest.is_some());
            oldest.and_then(|oldest| self.paths.remove(&oldest));
        }
        self.planned += 1;
        self.paths.insert(key, WatchedPath::new(planned, self.planned, &self.limits));
        self.keep_nodes(now_ns);
        Ok(())
    }

    /// Is a path watched?
    #[must_use]
    pub fn watches(&self, path: PathId, version: BlueprintNumber) -> bool {
        self.paths.contains_key(&(path, version))
    }

    /// Can one more be watched, and none is let go for it?
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.paths.len() < self.limits.paths.max(1)
    }

    /// Watches a path no more.
    pub fn forget(&mut self, path: PathId, version: BlueprintNumber) {
        self.paths.remove(&(path, version));
        // No node is new, so the moment is nobody's.
        self.keep_nodes(0);
    }

    /// Those that are on some path.
    fn keep_nodes(&mut self, now_ns: u64) {
        let hops = self.paths.values().flat_map(|path| &path.planned().hops);
        let devices = hops.flat_map(|hop| hop.visits.iter().map(|visit| visit.device));
        let mut before = std::mem::take(&mut self.nodes);
        for device in devices {
            if !self.nodes.contains_key(&device) {
                let node = before.remove(&device);
                let node = node.unwrap_or_else(|| Node::new(now_ns, &self.limits));
                self.nodes.insert(device, node);
            }
        }
    }

    /// By which clocks nodes stamp packets, as they said: stamps of two that share one, as those of one machine do, are
    /// compared as if both said that they are synchronised. Of others only those that say so.
    pub fn know_clocks(&mut self, clocks: BTreeMap<DeviceId, u64>) {
        self.clocks = clocks;
    }

    /// A packet came to the end of its path.
    ///
    /// # Errors
    /// Why nothing of it is believed; that is counted already.
    pub fn report(&mut self, delivery: &Delivery, report: &PacketReport) -> Result<(), Refusal> {
        let key = (report.path, report.version);
        self.hear(delivery, report.sequence, key, |path, known| {
            path.report(delivery, report, known)
        })
    }

    /// A node measured delays otherwise than by records in packets.
    ///
    /// # Errors
    /// Why nothing of it is believed; that is counted already.
    pub fn delays(&mut self, delivery: &Delivery, report: &DelayReport) -> Result<(), Refusal> {
        let key = (report.path, report.version);
        self.hear(delivery, report.sequence, key, |path, (limits, _)| {
            path.delays(delivery, report, limits)
        })
    }

    fn hear(
        &mut self,
        delivery: &Delivery,
        sequence: u64,
        key: (PathId, BlueprintNumber),
        note: impl FnOnce(&mut WatchedPath, (&Limits, &Clocks)) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let Some(node) = self.nodes.get_mut(&delivery.device) else {
            self.strangers = self.strangers.saturating_add(1);
            return Err(Refusal::UnknownNode);
        };
        let limits = &self.limits;
        let believed = node.admit(delivery, sequence, limits).and_then(|()| {
            let path = self.paths.get_mut(&key).ok_or(Refusal::UnplannedPath)?;
            note(path, (limits, &self.clocks))
        });
        match believed {
            Ok(()) => node.telling.believed = node.telling.believed.saturating_add(1),
            Err(refusal) => node.refuse(refusal),
        }
        believed
    }

    /// What is known of a path until the window that is open now; none: it is not watched.
    pub fn figures(
        &mut self,
        path: PathId,
        version: BlueprintNumber,
        now_ns: u64,
    ) -> Option<PathFigures> {
        let watched = self.paths.get_mut(&(path, version))?;
        Some(watched.figures(now_ns, &self.limits))
    }

    /// What a node told; none: it is on no path that is watched.
    #[must_use]
    pub fn telling(&self, device: DeviceId) -> Option<&NodeTelling> {
        self.nodes.get(&device).map(|node| &node.telling)
    }

    /// Reports of nodes that are on no path that is watched.
    #[must_use]
    pub const fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Paths that were let go so that others could be watched.
    #[must_use]
    pub const fn let_go(&self) -> u64 {
        self.let_go
    }
}
