//! What no slice can be: alone, beside another, of a chain that cannot carry it.

use super::routes::{Fault, Routes};
use super::{networks, origins, room};
use crate::error::PlanError;
use crate::graph::Graphs;
use crate::index::Index;
use crate::intent::Intent;
use catena_model::id::{ChainId, NetworkId, PortId};
use catena_model::limits::{CHAIN_FUNCTIONS_MAX, NODE_SLICES_MAX};
use catena_model::resource::{Chain, Encapsulation};
use catena_model::slice::Slice;
use std::collections::BTreeSet;

/// The chains that slices go on from, each with one that they go on in.
pub(super) type Links = BTreeSet<(ChainId, ChainId)>;

/// Those of some slices.
pub(super) fn links<'s>(slices: impl Iterator<Item = &'s Slice>) -> Links {
    slices.filter_map(|slice| Some((slice.after?, slice.chain))).collect()
}

/// Checks those that were written since the last check, once the networks of chains are counted.
pub(super) fn check_written(intent: &Intent, index: &mut Index) -> Result<(), PlanError> {
    let mut written = index.unchecked.slices.iter().filter_map(|id| intent.slices.get(id));
    if !index.unchecked.chains.is_empty() || written.any(|slice| slice.after.is_some()) {
        check_links(intent, &index.slice_links(None).collect())?;
    }
    if index.unchecked.slices.is_empty() {
        return Ok(());
    }
    room::check_count(|| "slices".into(), intent.slices.len(), NODE_SLICES_MAX)?;
    let network_of = |chain| index.chain_networks.get(&chain).copied();
    for slice in index.unchecked.slices.iter().filter_map(|id| intent.slices.get(id)) {
        check_beside(intent, index, slice, network_of)?;
    }
    index.unchecked.slices.clear();
    Ok(())
}

/// Checks one slice as if it were written.
pub(crate) fn check_one(intent: &Intent, index: &Index, slice: &Slice) -> Result<(), PlanError> {
    // One that is too many is refused alone: those that are written with it need not go with it.
    let is_new = !intent.slices.contains_key(&slice.id);
    let slices = intent.slices.len().saturating_add(usize::from(is_new));
    room::check_count(|| "slices".into(), slices, NODE_SLICES_MAX)?;
    check_beside(intent, index, slice, networks::as_written(intent, index))?;
    match slice.after {
        Some(before) if !index.has_slice_link(before, slice.chain) => {
            // It may be there already, and begin elsewhere.
            let others = index.slice_links(intent.slices.get(&slice.id));
            check_more_links(intent, index, others.collect(), std::slice::from_ref(slice))
        }
        _ => Ok(()),
    }
}

/// Checks slices that are put in by hand beside those that are declared.
pub(crate) fn check_more(intent: &Intent, index: &Index, more: &[Slice]) -> Result<(), PlanError> {
    let network_of = networks::as_written(intent, index);
    for slice in more {
        check_alone(intent, slice, &network_of, |port| is_function(index, port))?;
    }
    check_more_links(intent, index, index.slice_links(None).collect(), more)
}

fn check_beside(
    intent: &Intent,
    index: &Index,
    slice: &Slice,
    network_of: impl Fn(ChainId) -> Option<NetworkId>,
) -> Result<(), PlanError> {
    check_alone(intent, slice, network_of, |port| is_function(index, port))?;
    let rival = index.rival_of_slice(slice).and_then(|id| intent.slices.get(&id));
    rival.map_or(Ok(()), |rival| Err(same(rival, slice)))
}

fn is_function(index: &Index, port: PortId) -> bool {
    let mut instances = index.instances_of_port(port);
    instances.any(|id| index.chains_of_instance(id).next().is_some())
}

/// A chain that was written carries the slices that it has.
pub(super) fn check_chain(intent: &Intent, index: &Index, chain: &Chain) -> Result<(), PlanError> {
    if chain.encapsulation.capabilities().has_metadata && chain.encapsulation.takes_slices() {
        return Ok(());
    }
    let mut slices = index.slices_of_chain(chain.id).filter_map(|id| intent.slices.get(&id));
    slices.try_for_each(|slice| check_carrier(chain, slice))
}

/// Packets that go on in other chains by slices, and by graphs, come to an end in time. What a slice
/// brought into a chain does not follow a graph behind it: of both together more is refused than could
/// go wrong.
pub(super) fn check_links(intent: &Intent, links: &Links) -> Result<(), PlanError> {
    if links.is_empty() {
        return Ok(());
    }
    let mut routes = Routes::of(intent, intent.graphs.values());
    links.iter().for_each(|(before, chain)| routes.add(*before, *chain));
    routes.check().map_err(|fault| match fault {
        Fault::Loop(chain) => PlanError::SliceLoop { chain },
        Fault::TooLong { chain, length } => {
            PlanError::SliceRouteTooLong { chain, length, limit: CHAIN_FUNCTIONS_MAX }
        }
    })
}

/// Packets come to an end with more slices, too.
fn check_more_links(
    intent: &Intent,
    index: &Index,
    mut all: Links,
    more: &[Slice],
) -> Result<(), PlanError> {
    let more = links(more.iter());
    if more.is_empty() {
        return Ok(());
    }
    all.extend(&more);
    check_links(intent, &all)?;
    let chains = more.into_iter().map(|(_, chain)| chain).collect();
    origins::check_these(intent, &Graphs::of(intent), index, &all, &chains)
}

pub(super) fn check_alone(
    intent: &Intent,
    slice: &Slice,
    network_of: impl Fn(ChainId) -> Option<NetworkId>,
    is_function: impl Fn(PortId) -> bool,
) -> Result<(), PlanError> {
    let bad = |fault| PlanError::BadSlice { slice: slice.name(), fault };
    if let Some(fault) = slice.fault() {
        return Err(bad(fault));
    }
    let missing = |kind, id: String| PlanError::SliceMissing { slice: slice.name(), kind, id };
    let chain = intent.chains.get(&slice.chain);
    check_carrier(chain.ok_or_else(|| missing("chain", slice.chain.to_string()))?, slice)?;
    if let Some(before) = slice.after.filter(|before| !intent.chains.contains_key(before)) {
        return Err(missing("chain", before.to_string()));
    }
    match slice.source_port {
        Some(port) if !intent.ports.contains_key(&port) => Err(missing("port", port.to_string())),
        Some(port) if is_function(port) => Err(at_function(intent, slice, port)),
        _ => networks::check_slice(intent, slice, network_of),
    }
}

/// The port that a slice begins at belongs to a function.
pub(super) fn at_function(intent: &Intent, slice: &Slice, port: PortId) -> PlanError {
    let port = intent.port_name(port);
    let fault = format!(
        "it begins at port '{port}', which belongs to a function of a chain: a slice begins at an \
         endpoint; give it another 'source_port'"
    );
    PlanError::BadSlice { slice: slice.name(), fault }
}

/// Can what carries the chain carry the slice, too?
fn check_carrier(chain: &Chain, slice: &Slice) -> Result<(), PlanError> {
    if !chain.encapsulation.takes_slices() {
        let all = Encapsulation::ALL.into_iter().filter(|one| one.takes_slices());
        let fault = format!(
            "chain '{}' is carried by {}, whose headers have no room for the paths of slices; use a chain that \
             is carried by one of {}",
            chain.name(),
            chain.encapsulation.name(),
            all.map(Encapsulation::name).collect::<Vec<_>>().join(", ")
        );
        return Err(PlanError::BadSlice { slice: slice.name(), fault });
    }
    if !slice.carries_metadata || chain.encapsulation.capabilities().has_metadata {
        return Ok(());
    }
    let fault = format!(
        "chain '{}' is carried by {}, which has no room for metadata; use a chain that is carried by \
         nsh, or a slice without 'carries_metadata'",
        chain.name(),
        chain.encapsulation.name()
    );
    Err(PlanError::BadSlice { slice: slice.name(), fault })
}

pub(super) fn same(first: &Slice, second: &Slice) -> PlanError {
    PlanError::SameSlice { first: first.name(), second: second.name() }
}
