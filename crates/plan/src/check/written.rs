//! The same check, of what was written alone: what it refers to and what refers to it is found by
//! the index.

use super::meetings::{self, count_passages};
use super::networks::count_networks;
use super::room::{check_network, count_rooms};
use super::slices;
use super::{Hop, check_alone, check_graph, directions, origins, passage, two_egresses};
use crate::error::PlanError;
use crate::graph::Graphs;
use crate::index::Index;
use crate::intent::Intent;
use crate::ledger::Direction;
use catena_model::id::{GraphId, InstanceId, PortId, SliceId};
use catena_model::resource::{Chain, Instance};
use std::collections::BTreeSet;

/// Checks what was written since the last check; then it counts as checked.
pub(crate) fn check_written(intent: &Intent, index: &mut Index) -> Result<(), PlanError> {
    let graphs = Graphs::of(intent);
    let chains = index.unchecked.chains.iter();
    let joined: BTreeSet<GraphId> = chains.flat_map(|id| index.graphs_of_chain(*id)).collect();
    for graph in joined.iter().filter_map(|id| intent.graphs.get(id)) {
        check_graph(intent, &graphs, graph)?;
    }
    for chain in index.unchecked.chains.iter().filter_map(|id| intent.chains.get(id)) {
        let hops = check_alone(intent, &graphs, chain)?;
        check_egresses(intent, index, chain, &hops)?;
        check_ends(intent, index, &hops)?;
        slices::check_chain(intent, index, chain)?;
    }
    origins::check_written(intent, &graphs, index)?;
    for id in index.unchecked.chains.iter().filter(|id| !intent.chains.contains_key(*id)) {
        // Who is left without a chain is found as one that was written.
        let slices = index.slices_of_chain(*id).chain(index.slices_after_chain(*id));
        let slices: Vec<SliceId> = slices.collect();
        index.unchecked.slices.extend(slices);
    }
    count_networks(intent, &graphs, index);
    slices::check_written(intent, index)?;
    count_passages(intent, &graphs, index);
    meetings::check_written(intent, index)?;
    for network in std::mem::take(&mut index.unchecked.grown) {
        check_network(intent, network, index.size_of(network))?;
    }
    count_rooms(intent, index);
    for node in std::mem::take(&mut index.unchecked.nodes) {
        index.rooms.get(&node).copied().unwrap_or_default().check(&node)?;
    }
    Ok(())
}

/// No other instance that some chain passes enters where one of these enters and leaves elsewhere.
fn check_egresses(
    intent: &Intent,
    index: &Index,
    chain: &Chain,
    hops: &[Hop<'_>],
) -> Result<(), PlanError> {
    let through = hops.iter().filter(|hop| !hop.is_tap).flat_map(|hop| &hop.instances);
    for instance in through.filter(|instance| instance.speaks.is_none()) {
        for direction in directions(chain) {
            let (ingress, egress) = passage(instance, *direction);
            let others =
                index.instances_of_port(ingress).filter_map(|id| intent.instances.get(&id));
            for other in others.filter(|other| other.speaks.is_none()) {
                let rival = rival(intent, index, other, ingress, egress);
                if let Some(second) = rival {
                    let first = (*instance, egress);
                    return Err(two_egresses(intent, ingress, first, (other, second)));
                }
            }
        }
    }
    Ok(())
}

/// Where an instance that some chain passes leaves, if it enters here and leaves elsewhere.
fn rival(
    intent: &Intent,
    index: &Index,
    other: &Instance,
    ingress: PortId,
    egress: PortId,
) -> Option<PortId> {
    [Direction::Forward, Direction::Reverse].into_iter().find_map(|direction| {
        let (enters, leaves) = passage(other, direction);
        let is_rival =
            enters == ingress && leaves != egress && is_passed(intent, index, other.id, direction);
        is_rival.then_some(leaves)
    })
}

/// Does a chain pass the instance this way?
fn is_passed(intent: &Intent, index: &Index, id: InstanceId, direction: Direction) -> bool {
    index.functions_of_instance(id).any(|function| {
        let is_through = intent.functions.get(&function).is_some_and(|f| !f.is_tap);
        let has_chain = match direction {
            Direction::Forward => index.chains_of_function(function).next().is_some(),
            Direction::Reverse => index.has_symmetric_chain(function),
        };
        is_through && has_chain
    })
}

/// None of its functions' ports is where a slice begins.
fn check_ends(intent: &Intent, index: &Index, hops: &[Hop<'_>]) -> Result<(), PlanError> {
    for instance in hops.iter().flat_map(|hop| &hop.instances) {
        for port in [instance.ingress, instance.egress] {
            let mut begins = index.slices_of_port(port).filter_map(|id| intent.slices.get(&id));
            if let Some(slice) = begins.next() {
                return Err(slices::at_function(intent, slice, port));
            }
        }
    }
    Ok(())
}
