//! One step forward: from the blueprint that is, to the one that should follow, if any should.

use crate::advance::{PreparedGroup, Step};
use crate::atlas::Atlas;
use crate::blueprint::Blueprint;
use crate::borders::{self, Carried, Made};
use crate::cables::{self, Cables, remembered};
use crate::devices::{self, number_nodes};
use crate::graph::{Graphs, groups};
use crate::index::IndexedIntent;
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{Direction, Ledger, PathPhase, PathRecord, SliceReach};
use crate::link::{Turning, link};
use crate::pins::{release_pins, turn_again};
use crate::port_numbers::{self, Known, have_same_links, number_ports};
use crate::programs::Programs;
use crate::slices::{SliceBook, classifier_of, next_slices, settled, with_all_nodes};
use crate::touched::{self, Looked};
use crate::way_detours;
use crate::way_mtus;
use crate::ways::{self, Followed, Former, Roads};
use catena_model::id::ChainId;
use catena_model::{BlueprintNumber, NodeName, PathId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The blueprint that should follow, or none when nothing is to be changed now.
///
/// Call it after every change of intent or inventory until it answers none. Each step that waits
/// for acknowledgements answers none until they have come. It looks at what has changed since the
/// former step and at what waits; at everything, if nothing is known of that step.
#[must_use]
pub fn next(
    previous: &Blueprint,
    intent: &IndexedIntent,
    inventory: &Inventory,
) -> Option<Blueprint> {
    // Slices share the hops of chains: those are decided first.
    let of_chains = next_chains(previous, intent, inventory);
    of_chains.or_else(|| next_slices(previous, intent, inventory))
}

/// A blueprint that nothing follows: what was found out in looking is kept.
#[must_use]
pub fn converged(previous: &Blueprint, intent: &IndexedIntent, inventory: &Inventory) -> Blueprint {
    // No entry differs, but what entries are counted by may.
    let programs = previous.following_programs(&previous.ledger, intent, inventory);
    let (slices, programs) = settled(previous, programs, intent, inventory);
    let ledger = with_cables(&previous.ledger, inventory);
    let are_same = Arc::ptr_eq(&ledger, &previous.ledger);
    let known = previous.looked_among(inventory);
    let known = known.filter(|known| are_same && known.told == inventory.told);
    let atlas = known.map(|known| known.atlas.clone()).unwrap_or_default();
    let looked = Looked::new(intent, inventory, &slices, atlas);
    Blueprint { programs, slices, ledger, looked: Some(Arc::new(looked)), ..previous.clone() }
}

/// While nobody sends anything, cables make no blueprint; whoever asks what stands in a chain's way wants them all the
/// same.
fn with_cables(ledger: &Arc<Ledger>, inventory: &Inventory) -> Arc<Ledger> {
    if !ledger.paths.sends().is_empty() {
        return Arc::clone(ledger);
    }
    let now = remembered(&ledger.cables, inventory, &ledger.port_numbers);
    if *ledger.cables == now {
        return Arc::clone(ledger);
    }
    Arc::new(Ledger { cables: Arc::new(now), ..Ledger::clone(ledger) })
}

fn next_chains(
    previous: &Blueprint,
    intent: &IndexedIntent,
    inventory: &Inventory,
) -> Option<Blueprint> {
    let number = previous.number.next();
    let mut slices = previous.slices.clone();
    slices.wanted.look(intent);
    let mut touched = match previous.looked_among(inventory) {
        Some(looked) => touched::since(looked, previous, &slices, intent, inventory),
        None => touched::all(&previous.ledger, intent),
    };
    let mut ledger = Ledger::clone(&previous.ledger);
    ledger.number = number;
    ledger.unserved = BTreeSet::new();
    ledger.release_forgotten(inventory);
    number_nodes(&mut ledger.devices, inventory, number);
    let (followed, mut atlas) = route(previous, &mut ledger, inventory);
    if followed.is_reach_new {
        touched.extend(touched::by_source_routes(&ledger, intent));
    }
    release_pins(&mut ledger, inventory);
    let graphs = Graphs::with_slices(intent, slices.places());
    let groups = groups(&ledger, &graphs, &touched);
    supersede_unwanted(&mut ledger, intent, &graphs, &touched);
    let cables = Arc::clone(&ledger.cables);
    let roads = Roads::new(&cables, inventory, ledger.choice_seed, atlas.clone());
    let mut step =
        Step { previous, ledger: &mut ledger, intent, inventory, graphs: &graphs, roads: &roads };
    let is_turning = |group: &&Vec<ChainId>| !step.is_shaped(group);
    let chains: BTreeSet<ChainId> = groups.iter().filter(is_turning).flatten().copied().collect();
    let prepared: Vec<PreparedGroup> = groups.iter().map(|group| step.prepare(group)).collect();
    let kept = prepared.iter().flat_map(PreparedGroup::kept);
    let turning =
        Turning { chains, joins: kept.map(|(id, way)| (id, way.joins.clone())).collect() };
    // A path that would lead elsewhere now is not yet known, whatever its nodes acknowledged.
    link(step.ledger, inventory, &turning);
    learn_routes(previous, step.ledger, inventory);
    for group in prepared {
        step.turn(group);
    }
    remove_drained(previous, &mut ledger, inventory);
    link(&mut ledger, inventory, &turning);
    reach(&mut ledger, &slices, intent, inventory, &touched);
    if ledger.paths.sends() != previous.ledger.paths.sends() {
        (_, atlas) = route(previous, &mut ledger, inventory);
    }
    learn_routes(previous, &mut ledger, inventory);

    let programs = previous.following_programs(&ledger, intent, inventory);
    let (slices, programs) = with_all_nodes(previous, slices, programs, intent, inventory);
    let changed: BTreeSet<PathId> =
        ledger.paths.since(&previous.ledger.paths).map(|(id, _)| id).collect();
    let is_another_fabric = (&ledger.cables, &ledger.link_mtus)
        != (&previous.ledger.cables, &previous.ledger.link_mtus);
    let has_changed = programs.since(&previous.programs).next().is_some()
        || !changed.is_empty()
        || (is_another_fabric && !ledger.paths.sends().is_empty())
        || ledger.ways != previous.ledger.ways
        || ledger.detours != previous.ledger.detours
        || ledger.borders != previous.ledger.borders
        || ledger.stitches != previous.ledger.stitches
        || ledger.unserved != previous.ledger.unserved;
    if !has_changed {
        return None;
    }
    ledger.end_quarantines();
    let former = (&*previous.ledger, inventory);
    port_numbers::note_needs(&mut ledger.port_numbers, &programs, former, number);
    devices::note_needs(&mut ledger.devices, &programs, number);
    note_needs(previous, &mut ledger, &changed, &programs, inventory);
    let looked = Some(Arc::new(Looked::new(intent, inventory, &slices, atlas)));
    let ledger = Arc::new(ledger);
    Some(Blueprint { number, parent: previous.number, programs, ledger, slices, looked })
}

/// What the nodes of a path that nothing is sent into have learned before was not how its packets go now.
fn learn_routes(previous: &Blueprint, ledger: &mut Ledger, inventory: &Inventory) {
    let former = &previous.ledger;
    let are_same = (&ledger.ways, &ledger.port_numbers) == (&former.ways, &former.port_numbers);
    if are_same && ledger.borders == former.borders && ledger.stitches == former.stitches {
        return;
    }
    let leads_into_routes = |path: &PathRecord| {
        let mut next = path.branches.iter().filter_map(|rule| ledger.paths.get(&rule.path));
        next.any(|next| next.encapsulation.is_source_route())
    };
    let is_as_before = |path: &PathRecord| headers_are_same(former, ledger, inventory, path);
    let leads_as_before = |path: &PathRecord| {
        let mut next = path.branches.iter().filter_map(|rule| ledger.paths.get(&rule.path));
        is_as_before(path) && next.all(is_as_before)
    };
    let waits = |path: &PathRecord| {
        path.phase == PathPhase::Installed
            && (path.encapsulation.is_source_route() || leads_into_routes(path))
            && path.since != ledger.number
            && !leads_as_before(path)
    };
    let chains = ledger.paths.waiting().flat_map(|chain| ledger.paths.of_chain(chain));
    let waiting = chains.filter(|(_, path)| waits(path)).map(|(id, _)| id);
    for id in waiting.collect::<Vec<PathId>>() {
        ledger.paths.update(id, |path| {
            path.since = ledger.number;
            path.needs.clear();
        });
    }
}

/// Are headers on a path made of the same in both ledgers, wherever packets enter it?
fn headers_are_same(
    one: &Ledger,
    other: &Ledger,
    inventory: &Inventory,
    path: &PathRecord,
) -> bool {
    path.sends().iter().all(|(port, send)| {
        let mut origins = send.origins(inventory.nodes.keys()).into_iter();
        origins.all(|from| {
            let way = Carried { from, to: &send.to, port: *port, by: path.encapsulation };
            Made::of(one, way) == Made::of(other, way)
        })
    })
}

/// Brings port numbers, cables and ways to what nodes told and paths need. Answers what became of ways, and
/// what the cables make up.
fn route(previous: &Blueprint, ledger: &mut Ledger, inventory: &Inventory) -> (Followed, Atlas) {
    let Ledger { port_numbers, cables, doubted, ways, paths, .. } = ledger;
    let looked = previous.looked_among(inventory);
    let (former, sends) = (&previous.ledger, paths.sends());
    let known = looked.map(|looked| Known {
        sends: former.paths.sends(),
        nodes: [&looked.nodes, &looked.switches],
    });
    number_ports(port_numbers, inventory, (sends, known), ledger.number);
    let is_told = looked.is_some_and(|looked| looked.told == inventory.told);
    if sends.is_empty() || !is_told || !have_same_links(port_numbers, &former.port_numbers) {
        let now = remembered(cables, inventory, port_numbers);
        if **cables != now {
            *cables = Arc::new(now);
        }
    }
    let is_same = is_told && Arc::ptr_eq(cables, &former.cables);
    let doubt = cables::doubted(cables, &inventory.told);
    if **doubted != doubt {
        *doubted = Arc::new(doubt);
    }
    let cables = Arc::clone(cables);
    let sound = cables::sound(&cables, doubted);
    let former_sound = cables::sound(&former.cables, &former.doubted);
    let atlas = looked.filter(|_| is_same).map(|looked| looked.atlas.clone()).unwrap_or_default();
    let roads = Roads::new(&sound, inventory, ledger.choice_seed, atlas.clone()).or_by(&cables);
    let known = looked.map(|_| former.paths.sends());
    let gone = match Arc::ptr_eq(&cables, &former.cables) {
        true => Cables::new(),
        false => former.cables.difference(&cables).cloned().collect(),
    };
    let former =
        Former { cables: &former_sound, gone, sends: known, borders: &previous.ledger.borders };
    let mut followed = ways::follow(ways, sends, &roads, &former);
    let awaited = borders::shorten(ledger, inventory, &roads, &mut followed);
    let ways = (&previous.ledger.ways, &ledger.ways);
    way_detours::follow(&mut ledger.detours, ways, &roads, former.cables);
    if !is_same || ledger.paths.sends().is_empty() {
        ledger.link_mtus = way_mtus::heard(&ledger.link_mtus, &inventory.told, &cables);
    }
    let over = (&ledger.ways, &ledger.detours);
    let before = &previous.ledger;
    if ledger.link_mtus != before.link_mtus || over != (&before.ways, &before.detours) {
        ledger.way_mtus = way_mtus::of_ways(over, &cables, &ledger.link_mtus);
    }
    borders::follow(ledger, inventory, awaited);
    (followed, atlas)
}

/// Paths are known where slices with their hops are classified, and where they shall be.
fn reach(
    ledger: &mut Ledger,
    slices: &SliceBook,
    intent: &Intent,
    inventory: &Inventory,
    chains: &BTreeSet<ChainId>,
) {
    let number = ledger.number;
    let mut changed = Vec::new();
    for (id, path) in chains.iter().flat_map(|chain| ledger.paths.of_chain(*chain)) {
        let mut reach = SliceReach::default();
        slices.users(id).for_each(|at| reach.add(at.clone()));
        if path.phase != PathPhase::Superseded && path.direction == Direction::Forward {
            for place in slices.places().of(path.chain) {
                if let Ok(node) = classifier_of(intent, inventory, place) {
                    reach.add(node);
                }
            }
        }
        if reach != path.slices {
            changed.push((id, reach));
        }
    }
    for (id, reach) in changed {
        ledger.paths.update(id, |path| {
            path.holders = path.nodes(inventory.nodes.keys());
            path.slices = reach;
            if path.phase == PathPhase::Classified {
                path.since = number;
                path.is_update = true;
            }
        });
    }
}

/// A path that changed its phase is in force where this blueprint's programs are; a program that
/// the blueprint did not change keeps its older number, and that is enough. A node that is away goes on
/// with a program that has a path which went: no other may get its identifier until that node runs
/// a program without it.
fn note_needs(
    previous: &Blueprint,
    ledger: &mut Ledger,
    changed: &BTreeSet<PathId>,
    programs: &Programs,
    inventory: &Inventory,
) {
    let number = ledger.number;
    let needed = |path: &PathRecord| {
        let nodes = path.nodes(inventory.nodes.keys()).into_iter();
        let needed = |node: &NodeName| programs.get(node).map_or(number, |program| program.number);
        nodes.map(|node| (node.clone(), needed(&node))).collect()
    };
    for id in changed {
        match (ledger.paths.get(id), previous.ledger.paths.get(id)) {
            (Some(path), _) if path.since == number => {
                ledger.paths.update(*id, |path| path.needs = needed(path));
            }
            (None, Some(went)) => ledger.remember(*id, needed(went)),
            _ => {}
        }
    }
}

/// Superseded paths that still may hold packets: their counters decide when they are drained.
#[must_use]
pub fn draining(blueprint: &Blueprint) -> Vec<PathId> {
    // While slices share its hops, packets come and go.
    let superseded = blueprint.ledger.paths.superseded();
    superseded.filter(|id| !blueprint.slices.uses_path(*id)).collect()
}

pub(crate) fn supersede(path: &mut PathRecord, number: BlueprintNumber) {
    path.phase = PathPhase::Superseded;
    path.since = number;
}

/// Turns the classifiers away from those of these chains that are gone, and from those that lost their
/// last rule: what takes nothing has no packets to keep on a former path.
fn supersede_unwanted(
    ledger: &mut Ledger,
    intent: &Intent,
    graphs: &Graphs<'_>,
    chains: &BTreeSet<ChainId>,
) {
    let number = ledger.number;
    let is_unwanted =
        |chain: &&ChainId| intent.chains.get(*chain).is_none_or(|chain| !graphs.is_entered(chain));
    let unwanted = chains.iter().filter(is_unwanted);
    let paths = unwanted.flat_map(|chain| ledger.paths.of_chain(*chain));
    let left: Vec<(PathId, PathPhase)> = paths.map(|(id, path)| (id, path.phase)).collect();
    let mut let_go = BTreeSet::new();
    for (id, phase) in left {
        match phase {
            // Nothing was ever sent into it.
            PathPhase::Installed => ledger.remove(id),
            PathPhase::Classified => ledger.paths.update(id, |path| {
                let_go.extend(path.pins.drain(..).map(|pin| pin.old));
                supersede(path, number);
            }),
            PathPhase::Superseded => {}
        }
    }
    turn_again(ledger, &let_go);
}

fn remove_drained(previous: &Blueprint, ledger: &mut Ledger, inventory: &Inventory) {
    // What was heard before the classifiers turned away says nothing about what is inside now.
    let had_turned = |id: &PathId| {
        let former = previous.ledger.paths.get(id);
        former.is_some_and(|path| path.phase == PathPhase::Superseded)
    };
    let is_over = |id: &PathId, path: &PathRecord| {
        path.phase == PathPhase::Superseded
            && had_turned(id)
            && !ledger.is_pinned(*id)
            && !previous.slices.uses_path(*id)
            && previous.is_running(inventory, path)
    };
    let drained = inventory.drained.iter().filter_map(|id| Some((id, ledger.paths.get(id)?)));
    let over: Vec<PathId> =
        drained.filter(|(id, path)| is_over(id, path)).map(|(id, _)| *id).collect();
    for id in over {
        ledger.remove(id);
    }
}
