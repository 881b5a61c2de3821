//! When a superseded path is empty: by counting what entered and left it at all its nodes, or when
//! a bound has passed; and when the flows that stayed on it have ended. Pure: time is an argument,
//! of whatever kind its caller counts in.

mod between;
mod tally;

use crate::blueprint::Blueprint;
use crate::inventory::Inventory;
use crate::ledger::PathRecord;
use crate::next::draining;
use between::Between;
use catena_model::id::{ChainId, InstanceId};
use catena_model::limits::{DRAIN_WAIT_MAX_MS, PIN_WAIT_MAX_MS};
use catena_model::program::HopKind;
use catena_model::status::{DrainProof, DrainedPath};
use catena_model::topology::PortNumber;
use catena_model::{CounterScope, NodeCounters, NodeName, PathId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;
use std::time::Duration;
use tally::Tally;

/// How soon counters should be read after classifiers have turned.
pub const DRAIN_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// How often counters should be read while a path goes on draining.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// After this a path counts as drained whatever the counters say: a function may have swallowed
/// packets, and no network keeps one that long.
pub const DRAIN_WAIT_MAX: Duration = Duration::from_millis(DRAIN_WAIT_MAX_MS);
/// From here on those are asked, too, who could tell where packets were lost: some readings before the bound.
const BOUND_NEARS: Duration = Duration::from_millis(DRAIN_WAIT_MAX_MS - 300);
/// After this flows are no longer kept on a former path.
pub const PIN_WAIT_MAX: Duration = Duration::from_millis(PIN_WAIT_MAX_MS);

/// The answers of those nodes that gave one.
pub type Counted = BTreeMap<NodeName, NodeCounters>;

/// Whose counters show whether paths are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The nodes that the paths touch.
    pub nodes: BTreeSet<NodeName>,
    /// The chains that they are of.
    pub chains: BTreeSet<ChainId>,
    /// The links that may have lost packets of theirs, by the numbers that they have at these nodes.
    pub links: BTreeSet<PortNumber>,
}

impl Asked {
    /// What to ask of each node.
    #[must_use]
    pub fn scope(&self) -> CounterScope {
        let ports = self.links.iter().map(|number| number.link_id()).collect();
        CounterScope { chains: self.chains.clone(), ports, ..CounterScope::default() }
    }
}

/// How far a superseded path has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage<T> {
    /// A classifier may still send into it.
    Turning,
    /// Only flows that stay on it enter it, since this moment.
    Pinned(T),
    /// Nothing enters it, since this moment.
    Turned(T),
}

/// A superseded path.
#[derive(Debug)]
struct Watched<T> {
    stage: Stage<T>,
    counting: Counting,
    /// As it was last known before its classifiers had turned, or first after.
    before: Option<Tally>,
    /// Packets on it by the first counters after its classifiers had turned.
    in_flight: Option<u64>,
    pinned_flows: u64,
    moved_flows: u64,
    between: Between,
    /// Is it time to ask those between? Each of them that is dead delays every answer.
    asks_between: bool,
}

impl<T> Watched<T> {
    fn new(counting: Counting) -> Self {
        Self {
            stage: Stage::Turning,
            counting,
            before: None,
            in_flight: None,
            pinned_flows: 0,
            moved_flows: 0,
            between: Between::default(),
            asks_between: false,
        }
    }
}

/// A path as its nodes count it.
#[derive(Clone, Debug)]
pub(crate) struct Counting {
    id: PathId,
    chain: ChainId,
    /// The nodes that its packets may have met.
    nodes: BTreeSet<NodeName>,
    /// Positions of its taps: what they get does not come back.
    taps: BTreeSet<u16>,
    /// All that entered it is counted at these.
    is_whole: bool,
}

impl Counting {
    /// Counts a path, at these nodes too.
    pub(crate) fn of(
        id: PathId,
        path: &PathRecord,
        more: &BTreeSet<NodeName>,
        inventory: &Inventory,
    ) -> Self {
        let mut nodes = path.nodes(inventory.nodes.keys());
        nodes.extend(more.iter().cloned());
        let taps = path.hops.iter().zip(0..).filter(|(hop, _)| hop.kind == HopKind::Tap);
        let taps = taps.map(|(_, place)| place).collect();
        Self { id, chain: path.chain, nodes, taps, is_whole: !path.is_partly_counted }
    }

    /// Names the nodes that count it, and its chain.
    pub(crate) fn ask(&self, asked: &mut Asked) {
        asked.nodes.extend(self.nodes.iter().cloned());
        asked.chains.insert(self.chain);
    }

    /// Has every packet left it that entered it, by the answers of all its nodes?
    pub(crate) fn is_empty(&self, counters: &Counted) -> bool {
        self.is_whole && self.have_answered(counters) && self.tally(counters).is_empty()
    }

    /// Who does not answer may hold some.
    fn have_answered(&self, counters: &Counted) -> bool {
        self.nodes.iter().all(|node| counters.contains_key(node))
    }

    fn tally(&self, counters: &Counted) -> Tally {
        Tally::of(counters, self.id, self.chain, &self.taps)
    }
}

/// The superseded paths and how long their classifiers have been turned away.
#[derive(Debug)]
pub struct DrainWatch<T> {
    paths: BTreeMap<PathId, Watched<T>>,
}

impl<T> Default for DrainWatch<T> {
    fn default() -> Self {
        Self { paths: BTreeMap::new() }
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>> DrainWatch<T> {
    /// Takes how things stand. Is there a path whose counters should be read?
    pub fn observe(&mut self, blueprint: &Blueprint, inventory: &Inventory, now: T) -> bool {
        let mut former = std::mem::take(&mut self.paths);
        for id in draining(blueprint) {
            let Some(record) = blueprint.ledger.paths.get(&id) else { continue };
            if inventory.drained.contains(&id) {
                continue;
            }
            let counting = Counting::of(id, record, &BTreeSet::new(), inventory);
            let known =
                former.remove(&id).map(|path| Watched { counting: counting.clone(), ..path });
            let mut path = known.unwrap_or_else(|| Watched::new(counting));
            let has_turned = blueprint.lagging_nodes(inventory, record).is_empty();
            let is_pinned = blueprint.ledger.is_pinned(id);
            path.stage = match (has_turned, is_pinned, path.stage) {
                (false, _, _) => Stage::Turning,
                (true, true, Stage::Pinned(since)) => Stage::Pinned(since),
                (true, true, _) => Stage::Pinned(now),
                (true, false, Stage::Turned(since)) => Stage::Turned(since),
                (true, false, _) => Stage::Turned(now),
            };
            path.between.observe(blueprint, inventory, record);
            path.asks_between = path.between.has_new()
                || matches!(path.stage, Stage::Turned(since) if since + BOUND_NEARS <= now);
            self.paths.insert(id, path);
        }
        // While nodes lag, one look is enough to compare with later.
        let is_due = |path: &Watched<T>| path.stage != Stage::Turning || path.before.is_none();
        self.paths.values().any(is_due)
    }

    /// Adds whom to ask for the counters of the paths that are watched: whatever is read is taken for
    /// what a path's nodes count, also of one that nodes have still to turn away from.
    pub fn ask(&self, asked: &mut Asked) {
        for path in self.paths.values() {
            path.counting.ask(asked);
            if path.asks_between {
                path.between.ask(asked);
            }
        }
    }

    /// The paths that are empty by what the nodes counted, and those whose bound has passed, each
    /// with what became of its packets.
    ///
    /// The counters must have been asked for after the last [`DrainWatch::observe`].
    pub fn drained(&mut self, counters: &Counted, now: T) -> Vec<DrainedPath> {
        let mut drained = Vec::new();
        for (id, path) in &mut self.paths {
            let tally = path.counting.tally(counters);
            if path.stage == Stage::Turning || path.before.is_none() {
                path.before = Some(tally.clone());
            }
            if path.asks_between {
                path.between.begin(counters);
            }
            let Stage::Turned(since) = path.stage else { continue };
            path.in_flight.get_or_insert(tally.inside());
            let proof = if path.counting.is_empty(counters) {
                DrainProof::Counted
            } else if since + DRAIN_WAIT_MAX <= now && path.knows_between() {
                DrainProof::Bound { after_ms: DRAIN_WAIT_MAX_MS }
            } else {
                continue;
            };
            let report = path.report(*id, proof, &tally);
            let is_counted = proof == DrainProof::Counted;
            let at_links = (!is_counted).then(|| path.between.losses(counters)).flatten();
            drained.push(DrainedPath { at_links, ..report });
        }
        drained
    }

    /// The paths on which no flow is kept any more, and those whose flows must move now.
    pub fn unpinned(&mut self, counters: &Counted, now: T) -> Vec<PathId> {
        let mut unpinned = Vec::new();
        for (id, path) in &mut self.paths {
            let Stage::Pinned(since) = path.stage else { continue };
            let flows = tally::pinned_flows(counters, *id);
            path.pinned_flows = path.pinned_flows.max(flows);
            let have_ended = path.counting.have_answered(counters) && flows == 0;
            if have_ended || since + PIN_WAIT_MAX <= now {
                path.moved_flows = flows;
                unpinned.push(*id);
            }
        }
        unpinned
    }
}

impl<T> Watched<T> {
    /// Is in what was read whatever those between know? If not, the next reading asks them.
    fn knows_between(&self) -> bool {
        self.asks_between || self.between.is_nobody()
    }

    fn report(&self, id: PathId, proof: DrainProof, tally: &Tally) -> DrainedPath {
        let before = self.before.clone().unwrap_or_default();
        let is_counted = proof == DrainProof::Counted;
        DrainedPath {
            path: id,
            proof,
            in_flight: self.in_flight.unwrap_or_default(),
            pinned_flows: self.pinned_flows,
            moved_flows: self.moved_flows,
            lost_in_function: if is_counted { 0 } else { tally.kept() },
            lost_between_nodes: if is_counted { 0 } else { tally.between_nodes() },
            dropped: tally.dropped_since(&before),
            ambiguous: tally.ambiguous.saturating_sub(before.ambiguous),
            at_links: None,
        }
    }
}

/// Instances that gave back other bytes than they were given.
#[must_use]
pub fn rewriting(counters: &Counted) -> BTreeSet<InstanceId> {
    let chains = counters.values().flat_map(|node| &node.chains);
    let hops = chains.flat_map(|chain| &chain.hops).filter(|hop| hop.rewritten > 0);
    hops.map(|hop| hop.instance).collect()
}
