//! What a chain costs under each encapsulation, by the planner alone: the real one is run over the change, with nodes
//! that acknowledge at once. Knows bytes of headers and entries of programs; refuses to measure anything.

use crate::blueprint::Blueprint;
use crate::index::IndexedIntent;
use crate::inventory::Inventory;
use crate::ledger::{PathPhase, PathRecord};
use crate::preview::settled;
use crate::routing;
use crate::status::chain_status;
use crate::way_detours;
use catena_model::NodeName;
use catena_model::id::ChainId;
use catena_model::program::HopEntry;
use catena_model::resource::{Chain, Encapsulation};
use catena_model::source_route::detour_bytes;
use catena_model::status::{ChainState, ComparedLeg, Comparison, NodeEntries};
use catena_model::topology::NodeRole;
use std::collections::BTreeMap;

/// A chain under each of these encapsulations, in their order.
#[must_use]
pub fn compare(
    current: &Blueprint,
    intent: &IndexedIntent,
    inventory: &Inventory,
    chain: &Chain,
    among: &[Encapsulation],
) -> Vec<Comparison> {
    let one = |encapsulation: &Encapsulation| {
        let mut then = intent.clone();
        then.put(chain.clone().moved_to(*encapsulation));
        if let Err(refusal) = then.check() {
            return refused(*encapsulation, refusal.to_string());
        }
        let (outcome, inventory) = &settled(current, &then, inventory);
        let status = chain_status(outcome, &then, inventory, chain.id);
        let carried: Vec<&PathRecord> = outcome
            .ledger
            .current(chain.id)
            .map(|(_, path)| path)
            .filter(|path| {
                path.phase == PathPhase::Classified && path.encapsulation == *encapsulation
            })
            .collect();
        match status.state {
            _ if carried.is_empty() => refused(*encapsulation, status.reason),
            ChainState::Degraded => refused(*encapsulation, status.reason),
            _ => of_paths(*encapsulation, &carried, outcome, inventory, chain.id),
        }
    };
    among.iter().map(one).collect()
}

fn refused(encapsulation: Encapsulation, why: String) -> Comparison {
    Comparison { encapsulation, trouble: Some(why), legs: Vec::new(), entries: Vec::new() }
}

fn of_paths(
    encapsulation: Encapsulation,
    paths: &[&PathRecord],
    outcome: &Blueprint,
    inventory: &Inventory,
    chain: ChainId,
) -> Comparison {
    Comparison {
        encapsulation,
        trouble: None,
        legs: paths.iter().flat_map(|path| legs(path, outcome, inventory)).collect(),
        entries: entries(paths, outcome, inventory, chain),
    }
}

/// The headers that packets of a path get, one for each function on another node.
fn legs(path: &PathRecord, outcome: &Blueprint, inventory: &Inventory) -> Vec<ComparedLeg> {
    let ledger = &outcome.ledger;
    let place = |port| {
        let is_it = |hop: &&HopEntry| hop.instances.iter().any(|one| one.ingress == port);
        path.hops.iter().zip(0..).find(|(hop, _)| is_it(hop)).map(|(hop, place)| (place, &hop.name))
    };
    let mut legs: Vec<(usize, ComparedLeg)> = Vec::new();
    for (port, send) in path.steps() {
        let Some((place, function)) = place(port) else { continue };
        for from in send.origins(inventory.nodes.keys()) {
            let books = (&ledger.ways, &ledger.port_numbers);
            let is_routed = path.encapsulation.is_source_route();
            let way = routing::ports(books, from, (&send.to, port)).filter(|_| is_routed);
            let underlay = inventory.nodes.get(from).map(|facts| facts.underlay.address);
            let has_detours = path.encapsulation.carries_detours();
            let detours = way.as_ref().filter(|_| has_detours).map(|ports| {
                detour_bytes(ports, &way_detours::entries(&ledger.detours, from, &send.to))
            });
            let is_ipv6 = underlay.is_some_and(|address| address.is_ipv6());
            let leg = ComparedLeg {
                from: from.clone(),
                to: send.to.clone(),
                function: function.clone(),
                added_bytes: path
                    .encapsulation
                    .added_bytes(way.as_deref().unwrap_or_default(), is_ipv6)
                    + detours.unwrap_or_default(),
                ports: way.map(|way| way.len()),
            };
            legs.push((place, leg));
        }
    }
    legs.sort_by(|(place, one), (other, leg)| {
        (place, &one.from, &one.to).cmp(&(other, &leg.from, &leg.to))
    });
    legs.into_iter().map(|(_, leg)| leg).collect()
}

/// What each node's program holds for the chain, switches included.
fn entries(
    paths: &[&PathRecord],
    outcome: &Blueprint,
    inventory: &Inventory,
    chain: ChainId,
) -> Vec<NodeEntries> {
    let mut routes: BTreeMap<&NodeName, usize> = BTreeMap::new();
    let mut exits: BTreeMap<&NodeName, usize> = BTreeMap::new();
    let sends: Vec<_> = paths.iter().flat_map(|path| path.sends()).collect();
    for (_, send) in &sends {
        *exits.entry(&send.to).or_default() += 1;
        for from in send.origins(inventory.nodes.keys()) {
            *routes.entry(from).or_default() += 1;
        }
    }
    let of_node = |(node, role, _): (&NodeName, NodeRole, _)| {
        let program = outcome.programs.get(node)?;
        let is_own = |id| {
            let path = outcome.ledger.paths.get(id);
            path.is_some_and(|path| path.chain == chain && path.phase == PathPhase::Classified)
        };
        let entries = &program.entries;
        Some(NodeEntries {
            node: node.clone(),
            role,
            paths: entries.paths.keys().filter(|id| is_own(id)).count(),
            rules: entries.rules.values().filter(|rule| is_own(&rule.path)).count(),
            routes: routes.get(node).copied().unwrap_or_default(),
            exits: exits.get(node).copied().unwrap_or_default(),
        })
    };
    inventory.all().filter_map(of_node).collect()
}
