//! What a chain costs under each encapsulation, by the planner alone: the real one is run over the change, with nodes
//! that acknowledge at once. Knows bytes of headers and entries of programs; refuses to measure anything.

use crate::blueprint::Blueprint;
use crate::borders::{Carried, Part, parts};
use crate::headers::{Header, headers};
use crate::index::IndexedIntent;
use crate::inventory::Inventory;
use crate::ledger::{Ledger, PathPhase, PathRecord};
use crate::locators;
use crate::preview::settled;
use crate::status::chain_status;
use catena_model::NodeName;
use catena_model::id::{ChainId, PortId};
use catena_model::program::HopEntry;

use catena_model::resource::{Capabilities, Chain, Encapsulation};
use catena_model::source_route::{JoinedWay, Leg};
use catena_model::status::{ChainState, ComparedLeg, Comparison, NodeEntries};
use catena_model::topology::NodeRole;
use std::collections::{BTreeMap, BTreeSet};

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
        then.put(as_carried(chain.clone().moved_to(*encapsulation)));
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

/// What has no room for telemetry, or leads over no segments of others, is compared as it would carry the chain:
/// without.
fn as_carried(chain: Chain) -> Chain {
    let Capabilities { takes_records, visits_others, .. } = *chain.encapsulation.capabilities();
    let telemetry = chain.telemetry.filter(|_| takes_records);
    let via = if visits_others { chain.via } else { BTreeMap::new() };
    Chain { telemetry, via, ..chain }
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
        legs: paths
            .iter()
            .flat_map(|path| match path.encapsulation.is_source_route() {
                true => route_legs(path, outcome, inventory),
                false => single_legs(path, outcome, inventory).into_values().collect(),
            })
            .collect(),
        entries: entries(paths, outcome, inventory, chain),
    }
}

/// By the place of the function, and the nodes where the leg begins and ends.
type Legs = BTreeMap<(usize, NodeName, NodeName), ComparedLeg>;

/// What packets of a path bear to each function on another node, where they bear something to that alone: also when
/// an instance stands in for another, and past functions that may be passed by.
fn single_legs(path: &PathRecord, outcome: &Blueprint, inventory: &Inventory) -> Legs {
    let place = |port| {
        let is_it = |hop: &&HopEntry| hop.instances.iter().any(|one| one.ingress == port);
        path.hops.iter().zip(0..).find(|(hop, _)| is_it(hop)).map(|(hop, place)| (place, &hop.name))
    };
    let (ledger, mut legs) = (&outcome.ledger, Legs::new());
    let steps = path.steps();
    // A header with records is as long at the last segment as at the first.
    let kept = path.telemetry.as_ref().and_then(|_| {
        let ports = steps.iter().map(|(port, _)| *port);
        locators::segments_max(&path.hops, ports, true)
    });
    for (port, send) in steps {
        let Some((place, function)) = place(port) else { continue };
        for from in send.origins(inventory.nodes.keys()) {
            let carried = Carried { from, to: &send.to, port, by: path.encapsulation };
            if path.encapsulation.is_source_route() {
                for (leg, key) in route_parts(ledger, carried, (place, function)) {
                    legs.insert(key, leg);
                }
                continue;
            }
            let underlay = inventory.nodes.get(from).map(|facts| facts.underlay.address);
            let is_ipv6 = underlay.is_some_and(|address| address.is_ipv6());
            let left = || locators::segments_towards(&path.hops, port).unwrap_or(1);
            let leg = ComparedLeg {
                from: from.clone(),
                to: send.to.clone(),
                function: function.clone(),
                added_bytes: match (path.encapsulation.is_segmented(), kept) {
                    (true, Some(segments)) => path.encapsulation.recorded_bytes(segments),
                    (true, None) => path.encapsulation.segmented_bytes(left()),
                    (false, _) => path.encapsulation.added_bytes(&[], is_ipv6),
                },
                ports: None,
                is_written: true,
            };
            legs.insert((place, from.clone(), send.to.clone()), leg);
        }
    }
    legs
}

/// What packets bear along one way to a function, on each part that has a header of its own.
fn route_parts<'p>(
    ledger: &'p Ledger,
    way: Carried<'p>,
    (place, function): (usize, &'p String),
) -> impl Iterator<Item = (ComparedLeg, (usize, NodeName, NodeName))> + 'p {
    parts(ledger, way).into_iter().map(move |Part { from, end, ports, detours }| {
        let leg = Leg { ports: &ports, detours: &detours, identities: &[] };
        let joined = JoinedWay::new(leg);
        let key = (place, from.clone(), end.clone());
        let leg = ComparedLeg {
            from,
            to: end,
            function: function.clone(),
            added_bytes: joined.added_bytes(way.by, 0),
            ports: Some(ports.len()),
            is_written: true,
        };
        (leg, key)
    })
}

/// What packets of a path bear on links, to each function on another node: of several headers that may lead there the
/// longest.
fn route_legs(path: &PathRecord, outcome: &Blueprint, inventory: &Inventory) -> Vec<ComparedLeg> {
    let mut legs = Legs::new();
    for header in headers(&outcome.ledger, path, inventory) {
        let Header { mut from, to, way, .. } = header;
        let mut taken = 0;
        for (place, instance, ports) in to {
            let leg = ComparedLeg {
                from: from.clone(),
                to: instance.node.clone(),
                function: path.hops[place].name.clone(),
                added_bytes: way.added_bytes(path.encapsulation, taken),
                ports: Some(way.ports.len()),
                is_written: taken == 0,
            };
            let key = (place, from.clone(), instance.node.clone());
            let is_longer = legs.get(&key).is_none_or(|known| known.added_bytes < leg.added_bytes);
            if is_longer && from != &instance.node {
                legs.insert(key, leg);
            }
            (from, taken) = (&instance.node, ports);
        }
    }
    for (key, leg) in single_legs(path, outcome, inventory) {
        legs.entry(key).or_insert(leg);
    }
    legs.into_values().collect()
}

/// What each node's program holds for the chain, switches included.
fn entries(
    paths: &[&PathRecord],
    outcome: &Blueprint,
    inventory: &Inventory,
    chain: ChainId,
) -> Vec<NodeEntries> {
    let mut routes: BTreeMap<&NodeName, usize> = BTreeMap::new();
    let mut exits: BTreeMap<NodeName, BTreeSet<PortId>> = BTreeMap::new();
    let mut onward: BTreeMap<NodeName, BTreeSet<(NodeName, NodeName, PortId)>> = BTreeMap::new();
    let sends: Vec<_> = paths.iter().flat_map(|path| path.sends()).collect();
    for way in paths.iter().flat_map(|path| path.onward()) {
        exits.entry(way.to.clone()).or_default().insert(way.port);
        let held = (way.from, way.to, way.port);
        onward.entry(way.holder).or_default().insert(held);
    }
    for (port, send) in &sends {
        exits.entry(send.to.clone()).or_default().insert(*port);
        for from in send.origins(inventory.nodes.keys()) {
            *routes.entry(from).or_default() += 1;
            let by = paths.first().map(|path| path.encapsulation).unwrap_or_default();
            let parts = parts(&outcome.ledger, Carried { from, to: &send.to, port: *port, by });
            for edge in parts.into_iter().skip(1).map(|part| part.from) {
                exits.entry(edge).or_default().insert(*port);
            }
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
            exits: exits.get(node).map_or(0, BTreeSet::len),
            onward: onward.get(node).map_or(0, BTreeSet::len),
        })
    };
    inventory.all().filter_map(of_node).collect()
}
