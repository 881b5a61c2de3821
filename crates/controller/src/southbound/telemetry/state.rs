//! What is watched, and what nodes told of it. Knows the moment that it is given; refuses to know clocks, locks and
//! connections.

use super::planned::{Planned, planned};
use catena_adapt::observe::{
    Delivery, Limits, NodeTelling, Observer, PathFigures, Refusal, Unwatchable,
};
use catena_model::NodeName;
use catena_model::id::{BlueprintNumber, ChainId, PathId};
use catena_model::telemetry::{DeviceId, PacketReport, PathEnd, Telemetry};
use catena_plan::{Direction, PathRecord};
use catena_protocol::message::PathEndsLost;
use std::collections::{BTreeMap, BTreeSet};

/// The name of reports of flows for which two hops are one.
const FOLDED: &str = "folded";
/// Why a path is watched no more.
const LET_GO: &str =
    "more paths have telemetry than are watched at a time: those that were made first are let go";

/// A path with telemetry.
#[derive(Debug)]
struct Known {
    chain: ChainId,
    direction: Direction,
    /// The blueprint by which it was first known. It stays for the life of the path.
    version: BlueprintNumber,
    telemetry: Telemetry,
    /// As it is watched, or why it is not.
    planned: Result<Planned, String>,
}

/// What a node told that the collector does not count by node.
#[derive(Clone, Copy, Debug, Default)]
struct Teller {
    lost: PathEndsLost,
    unknown: u64,
    folded: u64,
}

/// Where a report comes from.
pub(super) struct Sender<'n> {
    pub(super) node: &'n NodeName,
    pub(super) connection: u64,
    pub(super) now_ns: u64,
}

/// What is known of a path.
#[derive(Debug)]
pub(crate) struct PathTold {
    pub(crate) version: BlueprintNumber,
    /// What its packets take along.
    pub(crate) telemetry: Telemetry,
    /// Or why nothing is known, for people.
    pub(crate) told: Result<(Planned, PathFigures), String>,
}

/// What a node told, by name.
#[derive(Debug)]
pub(crate) struct NodeTold {
    pub(crate) telling: NodeTelling,
    pub(crate) refused: BTreeMap<&'static str, u64>,
    pub(crate) lost: PathEndsLost,
}

impl NodeTold {
    /// What was not told of, by where there was no room for it, and packets that went on without records.
    pub(crate) const fn lost_by_place(&self) -> [(&'static str, u64); 6] {
        let PathEndsLost { engine, dataplane, agent, unwanted, unplaced, strayed } = self.lost;
        [
            ("engine", engine),
            ("dataplane", dataplane),
            ("agent", agent),
            ("unwanted", unwanted),
            ("unplaced", unplaced),
            ("strayed", strayed),
        ]
    }
}

/// All of it.
#[derive(Debug)]
pub(super) struct State {
    observer: Observer,
    paths: BTreeMap<PathId, Known>,
    /// The nodes of those that are watched.
    devices: BTreeMap<NodeName, DeviceId>,
    /// By which clocks nodes stamp packets.
    clocks: BTreeMap<NodeName, u64>,
    tellers: BTreeMap<NodeName, Teller>,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            observer: Observer::new(Limits::default()),
            paths: BTreeMap::new(),
            devices: BTreeMap::new(),
            clocks: BTreeMap::new(),
            tellers: BTreeMap::new(),
        }
    }

    /// Watches these paths, and no others.
    pub(super) fn follow<'r>(
        &mut self,
        paths: impl Iterator<Item = (PathId, &'r PathRecord, &'r Telemetry)>,
        device_of: impl Fn(&NodeName) -> Option<DeviceId>,
        now_ns: u64,
    ) {
        let mut there = BTreeSet::new();
        for (id, record, telemetry) in paths {
            there.insert(id);
            let is_same =
                |known: &&Known| (known.chain, known.direction) == (record.chain, record.direction);
            let known = self.paths.get(&id).filter(is_same);
            let version = known.map_or(record.since, |known| known.version);
            let planned = planned((id, version), record, telemetry.mirror, &device_of);
            if known.is_none_or(|known| known.planned != planned) {
                let (chain, direction) = (record.chain, record.direction);
                let telemetry = telemetry.clone();
                let known = Known { chain, direction, version, telemetry, planned };
                self.watch(id, known, now_ns);
            }
        }
        let gone: Vec<PathId> =
            self.paths.keys().filter(|id| !there.contains(id)).copied().collect();
        gone.into_iter().for_each(|id| self.forget(id));
        // Those that were let go, as long as there is room again.
        for (id, known) in &self.paths {
            if let Ok(planned) = &known.planned
                && self.observer.has_room()
                && !self.observer.watches(*id, known.version)
            {
                // It was watched as it is planned.
                let _ = self.observer.plan(planned.path.clone(), now_ns);
            }
        }
        let watched = self.paths.values().filter_map(|known| known.planned.as_ref().ok());
        let nodes = watched.flat_map(|planned| &planned.nodes);
        self.devices = nodes.map(|(device, node)| (node.clone(), *device)).collect();
        self.tell_clocks();
    }

    /// A node said by which clock it stamps packets; none: it does not know.
    pub(super) fn note_clock(&mut self, node: &NodeName, clock: Option<u64>) {
        match clock {
            Some(clock) => self.clocks.insert(node.clone(), clock),
            None => self.clocks.remove(node),
        };
        self.tell_clocks();
    }

    fn tell_clocks(&mut self) {
        let clock = |(node, device): (&NodeName, &DeviceId)| {
            Some((*device, self.clocks.get(node).copied()?))
        };
        let clocks = self.devices.iter().filter_map(clock).collect();
        self.observer.know_clocks(clocks);
    }

    fn watch(&mut self, id: PathId, mut known: Known, now_ns: u64) {
        self.forget(id);
        if let Ok(planned) = &known.planned
            && let Err(reason) = self.observer.plan(planned.path.clone(), now_ns)
        {
            known.planned = Err(match reason {
                Unwatchable::Hops(hops) => format!("it has {hops} hops, which are not watched"),
                Unwatchable::Visits(nodes) => {
                    format!("a hop is served by {nodes} nodes, which are not watched")
                }
            });
        }
        self.paths.insert(id, known);
    }

    fn forget(&mut self, id: PathId) {
        if let Some(known) = self.paths.remove(&id) {
            self.observer.forget(id, known.version);
        }
    }

    /// Forgets what a node told that is on no path.
    pub(super) fn forget_node(&mut self, node: &NodeName) {
        self.tellers.remove(node);
        self.clocks.remove(node);
    }

    /// A node told what it left out.
    pub(super) fn note_lost(&mut self, node: &NodeName, lost: PathEndsLost) {
        self.tellers.entry(node.clone()).or_default().lost = lost;
    }

    /// A node told of a packet; `sequence`: its number among all of the connection.
    pub(super) fn take(&mut self, from: &Sender<'_>, sequence: u64, end: PathEnd) {
        let Sender { node, connection, now_ns } = *from;
        let teller = self.tellers.entry(node.clone()).or_default();
        let Some(device) = self.devices.get(node).copied() else {
            teller.unknown = teller.unknown.saturating_add(1);
            return;
        };
        let PathEnd { path, flow, reason, is_incomplete, hops } = end;
        let known = self.paths.get(&path);
        let planned = known.and_then(|known| known.planned.as_ref().ok());
        let is_folded =
            |planned: &Planned| planned.may_fold && hops.len() < planned.path.hops.len();
        if planned.is_some_and(is_folded) {
            teller.folded = teller.folded.saturating_add(1);
            return;
        }
        let version = known.map_or(BlueprintNumber::default(), |known| known.version);
        let report = PacketReport { path, version, flow, sequence, reason, is_incomplete, hops };
        // Stamps are held against one another alone: nobody says whether the clock of this machine goes with them.
        let delivery = Delivery { device, connection, now_ns, wall: None };
        if self.observer.report(&delivery, &report) == Err(Refusal::UnknownNode) {
            // Its paths were let go.
            teller.unknown = teller.unknown.saturating_add(1);
        }
    }

    /// What is known of a path; none: it has no telemetry.
    pub(super) fn told_of(&mut self, path: PathId, now_ns: u64) -> Option<PathTold> {
        let Known { version, telemetry, planned, .. } = self.paths.get(&path)?;
        let figures = self.observer.figures(path, *version, now_ns);
        let told = planned.clone().and_then(|planned| Ok((planned, figures.ok_or(LET_GO)?)));
        Some(PathTold { version: *version, telemetry: telemetry.clone(), told })
    }

    /// What a node told.
    pub(super) fn told_by(&self, node: &NodeName) -> NodeTold {
        let device = self.devices.get(node);
        let telling = device.and_then(|device| self.observer.telling(*device));
        let telling = telling.copied().unwrap_or_default();
        let Teller { lost, unknown, folded } = self.tellers.get(node).copied().unwrap_or_default();
        let refused = Refusal::ALL.iter().map(|reason| {
            let own = if *reason == Refusal::UnknownNode { unknown } else { 0 };
            (reason.name(), telling.refused.of(*reason).saturating_add(own))
        });
        let refused = refused.chain([(FOLDED, folded)]).filter(|(_, count)| *count > 0);
        NodeTold { telling, refused: refused.collect(), lost }
    }

    /// Those that told anything, or may.
    pub(super) fn nodes(&self) -> BTreeSet<NodeName> {
        self.devices.keys().chain(self.tellers.keys()).cloned().collect()
    }

    /// The paths with telemetry.
    pub(super) fn paths(&self) -> Vec<PathId> {
        self.paths.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests;
