//! Chains that begin at a port of a function: what the function sends of its own enters there, so
//! it must never come to the same function again, by this chain or by those of other functions.

use super::sources;
use crate::error::PlanError;
use crate::graph::Graphs;
use crate::index::Index;
use crate::intent::Intent;
use crate::render::chain_name;
use catena_model::id::{ChainId, PortId};
use catena_model::resource::Chain;
use std::collections::{BTreeMap, BTreeSet};

/// Checks all chains together.
pub(super) fn check(intent: &Intent, graphs: &Graphs<'_>) -> Result<(), PlanError> {
    let mut begins: BTreeMap<PortId, BTreeSet<ChainId>> = BTreeMap::new();
    for chain in intent.chains.values() {
        for port in sources(intent, chain) {
            begins.entry(port).or_default().insert(chain.id);
        }
    }
    let begins = |port: PortId| begins.get(&port).into_iter().flatten().copied().collect();
    let origins = Origins { intent, graphs, begins };
    intent.chains.values().try_for_each(|chain| origins.check(chain))
}

/// Checks the chains that were written since the last check: no other can have closed a circle.
pub(super) fn check_written(
    intent: &Intent,
    graphs: &Graphs<'_>,
    index: &Index,
) -> Result<(), PlanError> {
    let begins = |port: PortId| {
        let chains = index.rules_of_port(port).flat_map(|rule| index.chains_of_rule(rule));
        let begins_here = |id: &ChainId| {
            let chain = intent.chains.get(id);
            chain.is_some_and(|chain| sources(intent, chain).any(|source| source == port))
        };
        chains.filter(begins_here).collect()
    };
    let origins = Origins { intent, graphs, begins };
    let mut written = index.unchecked.chains.iter().filter_map(|id| intent.chains.get(id));
    written.try_for_each(|chain| origins.check(chain))
}

/// Which chains begin at which ports.
struct Origins<'i, B> {
    intent: &'i Intent,
    graphs: &'i Graphs<'i>,
    begins: B,
}

/// One chain leads to another: by a function's port, or because packets go on in it.
#[derive(Clone, Copy)]
struct Step {
    from: ChainId,
    port: Option<PortId>,
}

impl<B: Fn(PortId) -> BTreeSet<ChainId>> Origins<'_, B> {
    /// A chain is not reached again from its own functions.
    fn check(&self, chain: &Chain) -> Result<(), PlanError> {
        let mut reached: BTreeMap<ChainId, Step> = BTreeMap::new();
        let mut open = vec![chain.id];
        while let Some(id) = open.pop() {
            for (next, port) in self.steps(id) {
                let is_new = !reached.contains_key(&next);
                if is_new {
                    reached.insert(next, Step { from: id, port });
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

    fn steps(&self, id: ChainId) -> Vec<(ChainId, Option<PortId>)> {
        let functions = self.intent.chains.get(&id).into_iter().flat_map(|chain| &chain.functions);
        let functions = functions.filter_map(|id| self.intent.functions.get(id));
        let instances = functions.flat_map(|function| &function.instances);
        let instances = instances.filter_map(|id| self.intent.instances.get(id));
        let ports = instances.flat_map(|instance| [instance.ingress, instance.egress]);
        let by_ports = ports.flat_map(|port| {
            let chains = (self.begins)(port);
            chains.into_iter().map(move |chain| (chain, Some(port)))
        });
        let by_graphs = self.graphs.after(id).iter().map(|next| (*next, None));
        by_ports.chain(by_graphs).collect()
    }

    /// Names a step by a port on the way round. Where there is none graphs lead in a circle, which
    /// is refused as such.
    fn refuse(&self, chain: &Chain, reached: &BTreeMap<ChainId, Step>) -> Result<(), PlanError> {
        let name =
            |id: ChainId| self.intent.chains.get(&id).map_or_else(|| id.to_string(), chain_name);
        let (mut at, mut way, mut origin) = (chain.id, Vec::new(), None);
        while let Some(step) = reached.get(&at) {
            way.push(name(step.from));
            if let (Some(port), None) = (step.port, origin) {
                origin = Some((at, port, step.from));
            }
            at = step.from;
            if at == chain.id {
                break;
            }
        }
        let Some((at, port, before)) = origin else { return Ok(()) };
        let (chain, port) = (name(at), self.intent.port_name(port));
        if at == before {
            return Err(PlanError::SourceIsFunction { chain, port });
        }
        way.reverse();
        Err(PlanError::SourceLoop { chain, port, before: name(before), way: way.join("', '") })
    }
}
