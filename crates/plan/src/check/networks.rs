//! The networks in which chains deliver. Slices begin there: what comes back from a function is looked
//! for among the packets of that network alone.

use super::meetings::touched;
use crate::error::PlanError;
use crate::graph::Graphs;
use crate::index::Index;
use crate::intent::Intent;
use crate::render::{destination_network, port_network};
use catena_model::id::{ChainId, NetworkId, SliceId};
use catena_model::slice::{Slice, SlicePlace};

/// Where a chain delivers; none: nowhere yet, or it is refused for that.
pub(super) fn network_of(
    intent: &Intent,
    graphs: &Graphs<'_>,
    chain: ChainId,
) -> Option<NetworkId> {
    destination_network(intent, graphs, intent.chains.get(&chain)?).ok().flatten()
}

/// Brings the networks of chains in step with what was written. Slices of a chain that delivers
/// elsewhere than before, and those at its end, are looked at anew.
pub(crate) fn count_networks(intent: &Intent, graphs: &Graphs<'_>, index: &mut Index) {
    for id in touched(intent, index) {
        let now = network_of(intent, graphs, id);
        let before = match now {
            Some(network) => index.chain_networks.insert(id, network),
            None => index.chain_networks.remove(&id),
        };
        if before != now {
            let slices = index.slices_of_chain(id).chain(index.slices_after_chain(id));
            let slices: Vec<SliceId> = slices.collect();
            index.unchecked.slices.extend(slices);
        }
    }
}

/// Where chains deliver, also those that were written since they were counted.
pub(super) fn as_written<'i>(
    intent: &'i Intent,
    index: &'i Index,
) -> impl Fn(ChainId) -> Option<NetworkId> + 'i {
    // Slices come by the hundred thousand, and mostly alone.
    let graphs = (!index.unchecked.chains.is_empty()).then(|| Graphs::of(intent));
    move |chain| match &graphs {
        Some(graphs) => network_of(intent, graphs, chain),
        None => index.chain_networks.get(&chain).copied(),
    }
}

/// A slice begins where its chain delivers.
pub(super) fn check_slice(
    intent: &Intent,
    slice: &Slice,
    network_of: impl Fn(ChainId) -> Option<NetworkId>,
) -> Result<(), PlanError> {
    let begin = match slice.place() {
        SlicePlace::Endpoints => return Ok(()),
        SlicePlace::Port(port) => port_network(intent, port),
        SlicePlace::After(before) => network_of(before),
    };
    let (Some(begin), Some(end)) = (begin, network_of(slice.chain)) else { return Ok(()) };
    if begin == end {
        return Ok(());
    }
    let mut names = [begin, end].map(|id| intent.network_name(id));
    if names[0] == names[1] {
        names = [begin, end].map(|id| id.to_string());
    }
    let [begin, end] = names;
    let chain = intent.chain_name(slice.chain);
    let fault = format!(
        "it begins in network '{begin}', but its chain '{chain}' delivers into network '{end}', and a \
         packet that comes back from a function would not say of which it is; let it begin in network \
         '{end}', or give it a chain whose classifiers begin in network '{begin}'"
    );
    Err(PlanError::BadSlice { slice: slice.name(), fault })
}
