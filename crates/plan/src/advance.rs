//! How far the chains of a group come in one step: what is missing is installed, and what every node
//! knows is turned to. Knows when chains must turn together; refuses to know how paths are joined.

use crate::blueprint::Blueprint;
use crate::graph::Graphs;
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{
    Bundle, Direction, Ledger, PathPhase, PathRecord, PlacedPort, SliceReach, bundles,
};
use crate::next::supersede;
use crate::pins::pins;
use crate::programs::port_entry;
use crate::render::Rendering;
use crate::routing::{is_routed, render_routed};
use crate::segments::ports_used;
use crate::ways::Roads;
use catena_model::bundle::{Configuration, ConfigurationId, Member};
use catena_model::id::ChainId;
use catena_model::limits::NODE_FUNCTIONS_MAX;
use catena_model::program::PortRole;
use catena_model::resource::Chain;
use catena_model::{NodeName, PathId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One step of the planner: from the blueprint before to the ledger after.
pub(crate) struct Step<'s> {
    pub(crate) previous: &'s Blueprint,
    pub(crate) ledger: &'s mut Ledger,
    pub(crate) intent: &'s Intent,
    pub(crate) inventory: &'s Inventory,
    pub(crate) graphs: &'s Graphs<'s>,
    pub(crate) roads: &'s Roads<'s>,
}

/// How far a chain is.
enum Readiness {
    /// Its paths in use are as they should be, but perhaps for their rules.
    Kept(Vec<PathId>),
    /// Other paths wait for every node to know them.
    Installed(Vec<PathId>),
    /// Paths that it needs have come with this step, or there is no identifier for them.
    Missing,
}

/// A chain, how far it is, and what it should be.
type Prepared = (ChainId, Readiness, Vec<Rendering>);

/// The chains of a group that can be carried, which turn together or one by one.
pub(crate) struct PreparedGroup {
    chains: Vec<Prepared>,
    is_together: bool,
}

impl PreparedGroup {
    /// The paths in use that chains which turn together keep, and how they will be entered then.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (PathId, &Rendering)> {
        let together = self.chains.iter().filter(|_| self.is_together);
        let kept = together.filter_map(|(_, readiness, ways)| match readiness {
            Readiness::Kept(ids) => Some(ids.iter().copied().zip(ways)),
            Readiness::Installed(_) | Readiness::Missing => None,
        });
        kept.flatten()
    }
}

impl Step<'_> {
    /// May the chains of a group turn one by one? Where chains begin or cease to follow one
    /// another, each packet must meet all of them as they were or all as they shall be.
    pub(crate) fn is_shaped(&self, group: &[ChainId]) -> bool {
        let chains = group.iter().filter_map(|id| self.intent.chains.get(id));
        let chains: Vec<&Chain> = chains.collect();
        is_shaped_as_declared(self.ledger, self.graphs, &chains)
    }

    fn render(&mut self, chain: &Chain) -> Option<Vec<Rendering>> {
        let world = (self.intent, self.inventory, self.graphs);
        let ways = render_routed(world, (self.ledger, self.roads), chain).ok();
        let by_numbers = chain.encapsulation.is_source_route() || chain.telemetry.is_some();
        if ways.is_none() && by_numbers {
            // It may be in want of a number that rests, and no news tells when that is free.
            self.ledger.unserved.insert(chain.id);
        }
        ways
    }

    /// Installs what the chains of a group need. Paths must be linked anew before any of them turns: what waits
    /// may lead to what has come or gone here.
    pub(crate) fn prepare(&mut self, group: &[ChainId]) -> PreparedGroup {
        let is_together = !self.is_shaped(group);
        let mut all = Vec::new();
        for chain in group.iter().filter_map(|id| self.intent.chains.get(id)) {
            if is_together && !self.graphs.is_entered(chain) {
                continue;
            }
            match self.render(chain) {
                Some(ways) => all.push((chain, ways)),
                None if is_together => return PreparedGroup { chains: Vec::new(), is_together },
                // Whatever is missing, the former paths stay: an update is whole or has not happened.
                None => {}
            }
        }
        let prepare = |(chain, ways): (&Chain, Vec<Rendering>)| {
            (chain.id, self.prepare_chain(chain, &ways), ways)
        };
        PreparedGroup { chains: all.into_iter().map(prepare).collect(), is_together }
    }

    /// Turns what every node knows: of a group that turns together all, or nothing yet.
    pub(crate) fn turn(&mut self, group: PreparedGroup) {
        let is_ready = |(_, readiness, _): &Prepared| self.is_ready(readiness);
        let is_reached =
            |(id, way): (PathId, &Rendering)| way.joins.is_empty() || self.is_reached(id);
        let waits = |(_, readiness, _): &Prepared| matches!(readiness, Readiness::Installed(_));
        // What waits may lead into paths that are kept from elsewhere than before.
        let are_reached = || !group.chains.iter().any(waits) || group.kept().all(is_reached);
        if group.is_together && !(group.chains.iter().all(is_ready) && are_reached()) {
            return;
        }
        for (chain, readiness, ways) in group.chains {
            if group.is_together || self.is_ready(&readiness) {
                self.turn_chain(chain, readiness, &ways);
            }
        }
    }

    /// Installs what is missing.
    fn prepare_chain(&mut self, chain: &Chain, ways: &[Rendering]) -> Readiness {
        let classified = self.ledger.classified(chain.id);
        let is_update = !classified.is_empty();
        if classified.len() == ways.len()
            && classified.iter().zip(ways).all(|((_, path), way)| way.is_carried_by(path))
        {
            let in_use: Vec<PathId> = classified.iter().map(|(id, _)| *id).collect();
            drop_installs(self.ledger, chain.id, &in_use);
            for id in &in_use {
                release_holders(self.previous, self.ledger, self.inventory, *id);
            }
            return Readiness::Kept(in_use);
        }
        let mut known = Vec::new();
        let mut missing = Vec::new();
        for way in ways {
            match installed(self.ledger, chain.id, way) {
                Some(id) => known.push(id),
                None => missing.push(way),
            }
        }
        // A path that was never classified and is no longer wanted holds no packet.
        drop_installs(self.ledger, chain.id, &known);
        for way in &missing {
            install(self.ledger, self.intent, self.inventory, chain, way, is_update);
        }
        if missing.is_empty() { Readiness::Installed(known) } else { Readiness::Missing }
    }

    /// May its classifiers turn: does every node of its paths know them?
    fn is_ready(&self, readiness: &Readiness) -> bool {
        let is_running = |path: &PathRecord| self.previous.is_running(self.inventory, path);
        let is_known =
            |id: &PathId| self.ledger.paths.get(id).is_some_and(is_running) && self.is_reached(*id);
        match readiness {
            Readiness::Kept(_) => true,
            Readiness::Installed(ids) => ids.iter().all(is_known),
            Readiness::Missing => false,
        }
    }

    /// Has every packet of a path a way from wherever it enters?
    fn is_reached(&self, id: PathId) -> bool {
        let path = self.ledger.paths.get(&id);
        path.is_some_and(|path| is_routed(self.ledger, self.inventory, path))
    }

    /// All ways of a chain turn at once.
    fn turn_chain(&mut self, chain: ChainId, readiness: Readiness, ways: &[Rendering]) {
        match readiness {
            Readiness::Missing => {}
            Readiness::Installed(ids) => classify(self.ledger, chain, &ids),
            Readiness::Kept(ids) => {
                for (id, way) in ids.into_iter().zip(ways) {
                    reclassify(self.ledger, self.inventory, id, way);
                }
            }
        }
    }
}

/// Are all chains carried, each leading where it should and taking packets from where it should?
/// A chain on its own needs nobody.
fn is_shaped_as_declared(ledger: &Ledger, graphs: &Graphs<'_>, chains: &[&Chain]) -> bool {
    let is_shaped = |chain: &&Chain| {
        let paths = ledger.classified(chain.id);
        let ways = 1 + usize::from(chain.is_symmetric);
        let has_shape = |(_, path): &(PathId, &PathRecord)| {
            let is_joined = path.rules.is_empty() && path.slices.is_none();
            path.leads_to == graphs.leads_to(chain.id, path.direction)
                && (path.direction == Direction::Reverse || is_joined == graphs.is_joined(chain.id))
        };
        paths.len() == ways && paths.iter().all(has_shape)
    };
    chains.len() == 1 || chains.iter().filter(|chain| graphs.is_entered(chain)).all(is_shaped)
}

/// The path that waits to carry a way. It is on the nodes of its rules too: other rules, other
/// nodes.
fn installed(ledger: &Ledger, chain: ChainId, way: &Rendering) -> Option<PathId> {
    let is_it = |id: &PathId, path: &PathRecord| {
        path.phase == PathPhase::Installed
            && way.is_carried_by(path)
            && way.is_entered_as(*id, path)
    };
    ledger.current(chain).find(|(id, path)| is_it(id, path)).map(|(id, _)| id)
}

fn drop_installs(ledger: &mut Ledger, chain: ChainId, kept: &[PathId]) {
    let outdated: Vec<PathId> = ledger
        .current(chain)
        .filter(|(id, path)| path.phase == PathPhase::Installed && !kept.contains(id))
        .map(|(id, _)| id)
        .collect();
    for id in outdated {
        ledger.remove(id);
    }
}

fn ports_of(intent: &Intent, rendering: &Rendering) -> Vec<PlacedPort> {
    let mut ports: Vec<PlacedPort> = Vec::new();
    for (node, id) in ports_used(&rendering.hops, &rendering.members) {
        let is_known = ports.iter().any(|placed| placed.port.id == id);
        let entry = || port_entry(intent, intent.ports.get(&id)?, PortRole::Function);
        if let (false, Some(port)) = (is_known, entry()) {
            ports.push(PlacedPort { node: node.clone(), port });
        }
    }
    ports
}

/// Do the nodes of a way run its bundled functions beside those of all paths that they know?
fn have_nodes_room(ledger: &Ledger, way: &Rendering) -> bool {
    let mut run: BTreeMap<&NodeName, BTreeSet<Bundle>> = BTreeMap::new();
    for (node, bundle) in bundles(&way.members, &way.hops) {
        run.entry(node).or_default().insert(bundle);
    }
    if run.is_empty() {
        return true;
    }
    for (node, bundle) in ledger.paths.values().flat_map(PathRecord::bundles) {
        if let Some(known) = run.get_mut(node) {
            known.insert(bundle);
        }
    }
    run.values().all(|known| known.len() <= NODE_FUNCTIONS_MAX)
}

/// Members that share what they are made of with those of paths that are known: it may be large.
fn shared(ledger: &Ledger, members: &[Member]) -> Vec<Member> {
    let mut members = members.to_vec();
    if !members.is_empty() {
        let known = ledger.paths.values().flat_map(|path| &path.members);
        let known: BTreeMap<ConfigurationId, &Arc<Configuration>> =
            known.map(|member| (member.id, &member.configuration)).collect();
        for member in &mut members {
            if let Some(known) = known.get(&member.id) {
                member.configuration = Arc::clone(known);
            }
        }
    }
    members
}

fn install(
    ledger: &mut Ledger,
    intent: &Intent,
    inventory: &Inventory,
    chain: &Chain,
    way: &Rendering,
    is_update: bool,
) {
    // A node that runs as many functions as it can has room again when former paths have drained.
    let free = ledger.free_path_id(way.encapsulation).filter(|_| have_nodes_room(ledger, way));
    let Some(id) = free else {
        ledger.unserved.insert(chain.id);
        return;
    };
    let record = PathRecord {
        chain: chain.id,
        chain_name: chain.name(),
        direction: way.direction,
        encapsulation: way.encapsulation,
        context: way.context.clone(),
        telemetry: way.telemetry.clone(),
        hops: way.hops.clone(),
        members: shared(ledger, &way.members),
        destination: way.destination,
        leads_to: way.leads_to.clone(),
        splits_flows: way.splits_flows,
        setup: way.setup,
        rules: way.rules_into(id),
        joins: way.joins.clone(),
        branches: Vec::new(),
        entrances: BTreeSet::new(),
        ports: ports_of(intent, way),
        holders: BTreeSet::new(),
        needs: BTreeMap::new(),
        phase: PathPhase::Installed,
        since: ledger.number,
        is_update,
        pins: pins(ledger, intent, inventory, chain.id, way),
        slices: SliceReach::default(),
        is_partly_counted: false,
    };
    ledger.paths.insert(id, record);
}

/// The classifiers turn to the new paths; in the same blueprint they turn away from the old. Flows
/// that they keep on a former path are named by the new paths alone from now on.
fn classify(ledger: &mut Ledger, chain: ChainId, ids: &[PathId]) {
    let number = ledger.number;
    let before: Vec<PathId> = ledger.classified(chain).into_iter().map(|(id, _)| id).collect();
    for id in before {
        if !ids.contains(&id) {
            ledger.paths.update(id, |path| {
                supersede(path, number);
                path.pins.clear();
            });
        }
    }
    for id in ids {
        ledger.paths.update(*id, |path| {
            path.phase = PathPhase::Classified;
            path.since = number;
            // Nothing has entered it before.
            path.is_partly_counted = false;
        });
    }
}

/// The same path with other rules, or another set-up: only classifiers change. A node that loses its rule holds the
/// path until it has acknowledged that.
fn reclassify(ledger: &mut Ledger, inventory: &Inventory, id: PathId, way: &Rendering) {
    let number = ledger.number;
    if ledger.paths.get(&id).is_some_and(|path| !way.is_entered_as(id, path)) {
        ledger.paths.update(id, |path| {
            path.holders = path.nodes(inventory.nodes.keys());
            path.rules = way.rules_into(id);
            path.setup = way.setup;
            path.joins.clone_from(&way.joins);
            path.since = number;
            path.is_update = true;
        });
    }
}

fn release_holders(previous: &Blueprint, ledger: &mut Ledger, inventory: &Inventory, id: PathId) {
    let Some(path) = ledger.paths.get(&id) else { return };
    if !path.holders.is_empty() && previous.is_running(inventory, path) {
        let named = path.named_nodes(inventory.nodes.keys());
        ledger.paths.update(id, |path| {
            path.is_partly_counted |= !path.holders.is_subset(&named);
            path.holders.clear();
        });
    }
}
