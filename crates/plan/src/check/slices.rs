//! What no slice can be: alone, beside another, of a chain that cannot carry it.

use super::routes::{Fault, Routes};
use crate::error::PlanError;
use crate::index::{Index, SliceKey, slice_key};
use crate::intent::Intent;
use crate::render::chain_name;
use catena_model::id::{ChainId, PortId};
use catena_model::limits::{CHAIN_FUNCTIONS_MAX, NODE_SLICES_MAX};
use catena_model::resource::{Chain, Encapsulation};
use catena_model::slice::Slice;
use std::collections::{BTreeMap, BTreeSet};

/// Checks all slices.
pub(super) fn check(intent: &Intent) -> Result<(), PlanError> {
    check_count(intent.slices.len())?;
    let function_ports = intent.function_ports();
    let mut seen: BTreeMap<SliceKey, &Slice> = BTreeMap::new();
    for slice in intent.slices.values() {
        check_alone(intent, slice, |port| function_ports.contains(&port))?;
        if let Some(first) = seen.insert(slice_key(slice), slice) {
            return Err(same(first, slice));
        }
    }
    let links = intent.slices.values().filter_map(|slice| Some((slice.after?, slice.chain)));
    check_links(intent, &links.collect::<BTreeSet<_>>())
}

/// Checks those that were written since the last check.
pub(super) fn check_written(intent: &Intent, index: &mut Index) -> Result<(), PlanError> {
    let mut written = index.unchecked.slices.iter().filter_map(|id| intent.slices.get(id));
    if !index.unchecked.chains.is_empty() || written.any(|slice| slice.after.is_some()) {
        check_links(intent, &index.slice_links(None).collect())?;
    }
    if index.unchecked.slices.is_empty() {
        return Ok(());
    }
    check_count(intent.slices.len())?;
    for slice in index.unchecked.slices.iter().filter_map(|id| intent.slices.get(id)) {
        check_one(intent, index, slice)?;
    }
    index.unchecked.slices.clear();
    Ok(())
}

/// Checks one slice as if it were written.
pub(crate) fn check_one(intent: &Intent, index: &Index, slice: &Slice) -> Result<(), PlanError> {
    // One that is too many is refused alone: those that are written with it need not go with it.
    let is_new = !intent.slices.contains_key(&slice.id);
    check_count(intent.slices.len().saturating_add(usize::from(is_new)))?;
    check_alone(intent, slice, |port| {
        let mut instances = index.instances_of_port(port);
        instances.any(|id| index.chains_of_instance(id).next().is_some())
    })?;
    if let Some(before) = slice.after.filter(|before| !index.has_slice_link(*before, slice.chain)) {
        // It may be there already, and begin elsewhere.
        let others = index.slice_links(intent.slices.get(&slice.id));
        check_links(intent, &others.chain([(before, slice.chain)]).collect())?;
    }
    let rival = index.rival_of_slice(slice).and_then(|id| intent.slices.get(&id));
    rival.map_or(Ok(()), |rival| Err(same(rival, slice)))
}

/// Checks that packets come to an end with more slices at the end of chains than are declared.
pub(crate) fn check_more(intent: &Intent, index: &Index, more: &[Slice]) -> Result<(), PlanError> {
    let more = more.iter().filter_map(|slice| Some((slice.after?, slice.chain)));
    check_links(intent, &index.slice_links(None).chain(more).collect())
}

/// A chain that was written carries the slices that it has.
pub(super) fn check_chain(intent: &Intent, index: &Index, chain: &Chain) -> Result<(), PlanError> {
    if chain.encapsulation == Encapsulation::Nsh {
        return Ok(());
    }
    let mut slices = index.slices_of_chain(chain.id).filter_map(|id| intent.slices.get(&id));
    slices.try_for_each(|slice| check_metadata(chain, slice))
}

/// Packets that go on in other chains by slices, and by graphs, come to an end in time. What a slice
/// brought into a chain does not follow a graph behind it: of both together more is refused than could
/// go wrong.
fn check_links(intent: &Intent, links: &BTreeSet<(ChainId, ChainId)>) -> Result<(), PlanError> {
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

fn check_count(slices: usize) -> Result<(), PlanError> {
    if slices <= NODE_SLICES_MAX {
        return Ok(());
    }
    Err(PlanError::TooManySlices { slices, limit: NODE_SLICES_MAX })
}

fn check_alone(
    intent: &Intent,
    slice: &Slice,
    is_function: impl Fn(PortId) -> bool,
) -> Result<(), PlanError> {
    let bad = |fault| PlanError::BadSlice { slice: slice.name(), fault };
    if let Some(fault) = slice.fault() {
        return Err(bad(fault));
    }
    let missing = |kind, id: String| PlanError::SliceMissing { slice: slice.name(), kind, id };
    let chain = intent.chains.get(&slice.chain);
    check_metadata(chain.ok_or_else(|| missing("chain", slice.chain.to_string()))?, slice)?;
    if let Some(before) = slice.after.filter(|before| !intent.chains.contains_key(before)) {
        return Err(missing("chain", before.to_string()));
    }
    let Some(port) = slice.source_port else { return Ok(()) };
    if !intent.ports.contains_key(&port) {
        return Err(missing("port", port.to_string()));
    }
    if is_function(port) {
        return Err(at_function(intent, slice, port));
    }
    Ok(())
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

fn check_metadata(chain: &Chain, slice: &Slice) -> Result<(), PlanError> {
    if !slice.carries_metadata || chain.encapsulation == Encapsulation::Nsh {
        return Ok(());
    }
    let fault = format!(
        "chain '{}' is carried by {}, which has no room for metadata; use a chain that is carried by \
         nsh",
        chain_name(chain),
        chain.encapsulation.name()
    );
    Err(PlanError::BadSlice { slice: slice.name(), fault })
}

fn same(first: &Slice, second: &Slice) -> PlanError {
    PlanError::SameSlice { first: first.name(), second: second.name() }
}
