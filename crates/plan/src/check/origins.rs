//! Chains that begin at a port of a function: what the function sends of its own enters there, so
//! it must never come to the same function again, by this chain or by those of other functions, nor
//! by slices at the ends of chains.

use super::slices::Links;
use super::sources;
use crate::error::PlanError;
use crate::graph::Graphs;
use crate::index::Index;
use crate::intent::Intent;
use catena_model::id::{ChainId, PortId};
use catena_model::resource::Chain;
use std::collections::{BTreeMap, BTreeSet};

/// Checks the chains that were written since the last check, and those that slices lead to which
/// were: no other can have closed a circle.
pub(super) fn check_written(
    intent: &Intent,
    graphs: &Graphs<'_>,
    index: &Index,
) -> Result<(), PlanError> {
    let slices = index.unchecked.slices.iter().filter_map(|id| intent.slices.get(id));
    let behind = slices.filter(|slice| slice.after.is_some()).map(|slice| slice.chain);
    let chains = behind.chain(index.unchecked.chains.iter().copied()).collect();
    check_these(intent, graphs, index, &index.slice_links(None).collect(), &chains)
}

/// Checks some chains, where slices lead from one to another like this.
pub(super) fn check_these(
    intent: &Intent,
    graphs: &Graphs<'_>,
    index: &Index,
    links: &Links,
    chains: &BTreeSet<ChainId>,
) -> Result<(), PlanError> {
    let begins = |port: PortId| {
        let chains = index.rules_of_port(port).flat_map(|rule| index.chains_of_rule(rule));
        let begins_here = |id: &ChainId| {
            let chain = intent.chains.get(id);
            chain.is_some_and(|chain| sources(intent, chain).any(|source| source == port))
        };
        chains.filter(begins_here).collect()
    };
    let origins = Origins { intent, graphs, links, begins };
    let mut chains = chains.iter().filter_map(|id| intent.chains.get(id));
    chains.try_for_each(|chain| origins.check(chain))
}

/// Which chains begin at which ports.
pub(super) struct Origins<'i, B> {
    pub(super) intent: &'i Intent,
    pub(super) graphs: &'i Graphs<'i>,
    pub(super) links: &'i Links,
    pub(super) begins: B,
}

/// How one chain leads to another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// It begins at the port of a function.
    Port(PortId),
    /// Packets go on in it by a graph.
    Graph,
    /// A slice takes them there.
    Slice,
}

/// One chain leads to another.
#[derive(Clone, Copy)]
struct Step {
    from: ChainId,
    by: By,
}

impl<B: Fn(PortId) -> BTreeSet<ChainId>> Origins<'_, B> {
    /// A chain is not reached again from its own functions.
    pub(super) fn check(&self, chain: &Chain) -> Result<(), PlanError> {
        let mut reached: BTreeMap<ChainId, Step> = BTreeMap::new();
        let mut open = vec![chain.id];
        while let Some(id) = open.pop() {
            for (next, by) in self.steps(id) {
                let is_new = !reached.contains_key(&next);
                if is_new {
                    reached.insert(next, Step { from: id, by });
                }
                if next == chain.id {
                    return self.refuse(chain, &reached);
                }
                if is_new {
                    open.push(next);
                }
            }
        }
        Ok(())
    }

    fn steps(&self, id: ChainId) -> Vec<(ChainId, By)> {
        let functions = self.intent.chains.get(&id).into_iter().flat_map(|chain| &chain.functions);
        let functions = functions.filter_map(|id| self.intent.functions.get(id));
        let instances = functions.flat_map(|function| &function.instances);
        let instances = instances.filter_map(|id| self.intent.instances.get(id));
        let ports = instances.flat_map(|instance| [instance.ingress, instance.egress]);
        let by_ports = ports.flat_map(|port| {
            let chains = (self.begins)(port);
            chains.into_iter().map(move |chain| (chain, By::Port(port)))
        });
        let by_graphs = self.graphs.after(id).iter().map(|next| (*next, By::Graph));
        let by_slices = self.links.range((id, ChainId::MIN)..);
        let by_slices = by_slices.take_while(|(before, _)| *before == id);
        let by_slices = by_slices.map(|(_, next)| (*next, By::Slice));
        by_ports.chain(by_graphs).chain(by_slices).collect()
    }

    /// Names a step by a port on the way round. Where there is none graphs and slices lead in a circle,
    /// which is refused as such.
    fn refuse(&self, chain: &Chain, reached: &BTreeMap<ChainId, Step>) -> Result<(), PlanError> {
        let name = |id: ChainId| self.intent.chain_name(id);
        let (mut at, mut way, mut origin, mut has_slice) = (chain.id, Vec::new(), None, false);
        while let Some(step) = reached.get(&at) {
            way.push(step.from);
            has_slice |= step.by == By::Slice;
            if let (By::Port(port), None) = (step.by, origin) {
                origin = Some((at, port, step.from));
            }
            at = step.from;
            if at == chain.id {
                break;
            }
        }
        let Some((first, port, before)) = origin else { return Ok(()) };
        let (chain, port) = (name(first), self.intent.port_name(port));
        if first == before {
            return Err(PlanError::SourceIsFunction { chain, port });
        }
        way.reverse();
        let begin = way.iter().position(|id| *id == first).unwrap_or_default();
        way.rotate_left(begin);
        let way = way.into_iter().map(name).collect::<Vec<_>>().join("', '");
        let before = name(before);
        Err(if has_slice {
            PlanError::SliceSourceLoop { chain, port, before, way }
        } else {
            PlanError::SourceLoop { chain, port, before, way }
        })
    }
}
