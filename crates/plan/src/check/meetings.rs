//! Networks that meet in a function: chains of several over one that knows nothing of chains. What
//! comes back there says no more than its addresses, so these must tell its network: the MAC, where
//! all functions behind the port are declared to keep it, else those of IP.

use super::{directions, passage};
use crate::counts::Edit;
use crate::error::PlanError;
use crate::graph::Graphs;
use crate::index::Index;
use crate::intent::Intent;
use crate::ledger::Direction;
use crate::render::{destination_network, source_network};
use crate::selector::rewritten_by;
use catena_model::id::{ChainId, NetworkId, PortId};
use catena_model::program::TupleField;
use catena_model::resource::{Chain, ServiceFunction};
use ipnet::IpNet;
use std::collections::BTreeSet;

/// How packets of chains come out of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Passage {
    /// The port.
    pub(crate) egress: PortId,
    /// The network of the chains.
    pub(crate) network: NetworkId,
    /// One of their ends has the address by which it is known there. Where functions change the
    /// sources of packets, it has not.
    pub(crate) is_told: bool,
    /// The function declares that it keeps MACs.
    pub(crate) keeps_mac: bool,
}

impl Passage {
    /// The first of a port.
    pub(crate) fn first_of(egress: PortId) -> Self {
        Self { egress, network: NetworkId::MIN, is_told: false, keeps_mac: false }
    }
}

/// Brings the passages in step with what was written.
pub(crate) fn count_passages(intent: &Intent, graphs: &Graphs<'_>, index: &mut Index) {
    for id in touched(intent, index) {
        let now = intent.chains.get(&id).map(|chain| of_chain(intent, graphs, chain));
        let now = now.unwrap_or_default();
        let before = index.chain_passages.get(&id).cloned().unwrap_or_default();
        for (edit, passages) in [(Edit::Remove, &before), (Edit::Add, &now)] {
            for passage in passages {
                index.passages.edit(edit, *passage);
                index.network_passages.edit(edit, (passage.network, passage.egress));
            }
        }
        if now.is_empty() {
            index.chain_passages.remove(&id);
        } else {
            index.chain_passages.insert(id, now);
        }
    }
}

/// Checks what was written since the last check, once its passages are counted.
pub(super) fn check_written(intent: &Intent, index: &mut Index) -> Result<(), PlanError> {
    let mut chains = touched(intent, index);
    for network in std::mem::take(&mut index.unchecked.networks) {
        let meets = |egress: &PortId| {
            let mut passages = index.passages_of(*egress);
            passages.any(|passage| passage.network != network)
        };
        let egresses = index.network_passages.keys_from((network, PortId::MIN));
        let egresses = egresses.take_while(|(of, _)| *of == network).map(|(_, egress)| *egress);
        let instances = egresses.filter(meets).flat_map(|port| index.instances_of_port(port));
        chains.extend(instances.flat_map(|instance| index.chains_of_instance(instance)));
    }
    let prefixes = |network: NetworkId| {
        let subnets = index.subnets_of_network(network).filter_map(|id| intent.subnets.get(&id));
        subnets.map(|subnet| subnet.cidr.trunc()).collect()
    };
    for chain in chains.iter().filter_map(|id| intent.chains.get(id)) {
        for passage in index.chain_passages.get(&chain.id).into_iter().flatten() {
            let others = index.passages_of(passage.egress);
            check_passage(intent, chain, *passage, others, &prefixes)?;
        }
    }
    Ok(())
}

/// The chains that were written, and those behind them: their network may be that of these.
pub(super) fn touched(intent: &Intent, index: &Index) -> BTreeSet<ChainId> {
    let mut touched = index.unchecked.chains.clone();
    let mut open: Vec<ChainId> = touched.iter().copied().collect();
    while let Some(id) = open.pop() {
        // One that was removed was before others, too.
        let graphs = index.graphs_of_chain(id).filter_map(|graph| intent.graphs.get(&graph));
        let behind = graphs.filter_map(|graph| graph.branches.get(&id)).flatten();
        open.extend(behind.filter(|next| touched.insert(**next)));
    }
    touched
}

/// Where packets of a chain come out of functions that know nothing of chains.
pub(super) fn of_chain(intent: &Intent, graphs: &Graphs<'_>, chain: &Chain) -> BTreeSet<Passage> {
    let functions = |chain: &Chain| -> Vec<&ServiceFunction> {
        let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
        functions.filter(|function| !function.is_tap).collect()
    };
    let changes_sources =
        |function: &&ServiceFunction| rewritten_by(function).contains(&TupleField::Source);
    let before = graphs.all_before(chain.id);
    let mut before = before.iter().filter_map(|id| intent.chains.get(id));
    let mut is_told = !before.any(|chain| functions(chain).iter().any(changes_sources));
    let mut passages = BTreeSet::new();
    for function in functions(chain) {
        is_told &= !changes_sources(&function);
        let instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
        for instance in instances.filter(|instance| instance.speaks.is_none()) {
            for direction in directions(chain) {
                let network = match direction {
                    Direction::Forward => destination_network(intent, graphs, chain),
                    Direction::Reverse => source_network(intent, graphs, chain),
                };
                // A chain of two networks is refused as such.
                let Ok(Some(network)) = network else { continue };
                let (_, egress) = passage(instance, *direction);
                let keeps_mac = function.keeps_mac;
                passages.insert(Passage { egress, network, is_told, keeps_mac });
            }
        }
    }
    passages
}

/// No passage of another network at its port that it could be taken for.
pub(super) fn check_passage<'p>(
    intent: &Intent,
    chain: &Chain,
    passage: Passage,
    others: impl Iterator<Item = &'p Passage>,
    prefixes: &impl Fn(NetworkId) -> Vec<IpNet>,
) -> Result<(), PlanError> {
    let others: Vec<Passage> = others.copied().collect();
    if passage.keeps_mac && others.iter().all(|other| other.keeps_mac) {
        return Ok(());
    }
    // Behind one function that does not keep MACs, nothing at the port is told by them.
    let is_spoilt = !passage.keeps_mac && others.iter().any(|other| other.keeps_mac);
    let spoilt = others.iter().filter(|_| is_spoilt);
    let ones = std::iter::once(&passage).chain(spoilt);
    let mut pairs = ones.flat_map(|one| others.iter().map(move |other| (*one, *other)));
    let why = pairs.find_map(|(one, other)| mistaken(one, other, prefixes));
    let Some(why) = why else { return Ok(()) };
    Err(PlanError::NetworksMeet {
        chain: chain.name(),
        network: intent.network_name(passage.network),
        egress: intent.port_name(passage.egress),
        why,
    })
}

/// Why packets of the one could be taken for those of the other by their addresses; none: they could
/// not.
fn mistaken(
    one: Passage,
    other: Passage,
    prefixes: &impl Fn(NetworkId) -> Vec<IpNet>,
) -> Option<&'static str> {
    if one.network == other.network {
        return None;
    }
    if !one.is_told || !other.is_told {
        return Some("a function there, or before it, changes source addresses");
    }
    let (own, others) = (prefixes(one.network), prefixes(other.network));
    if own.is_empty() || others.is_empty() {
        return Some("one of the two networks has no subnet that tells its addresses");
    }
    let overlap =
        |own: &IpNet| others.iter().any(|other| own.contains(other) || other.contains(own));
    own.iter().any(overlap).then_some("subnets of the two overlap")
}
