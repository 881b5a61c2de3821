//! What can be carried of chains that go on in one another.

use crate::error::PlanError;
use crate::graph::Graphs;
use crate::intent::Intent;
use crate::place::has_too_many_answers;
use crate::render::{chain_name, destination_network};
use catena_model::id::ChainId;
use catena_model::limits::{CHAIN_ANSWER_RULES_MAX, CHAIN_FUNCTIONS_MAX};
use catena_model::resource::{Chain, ChainGraph};
use std::collections::BTreeMap;

/// A packet must come to the end of every route, within one header's time to live.
pub(super) fn check_graph(
    intent: &Intent,
    graphs: &Graphs<'_>,
    graph: &ChainGraph,
) -> Result<(), PlanError> {
    let mut lengths = BTreeMap::new();
    for chain in graph.branches.keys() {
        let length = route_length(intent, graph, *chain, &mut lengths)?;
        if length > CHAIN_FUNCTIONS_MAX {
            return Err(PlanError::RouteTooLong {
                graph: graph_name(graph),
                chain: name_of(intent, *chain),
                length,
                limit: CHAIN_FUNCTIONS_MAX,
            });
        }
    }
    for chain in lengths.keys().filter_map(|id| intent.chains.get(id)) {
        check_routes(intent, graphs, chain)?;
    }
    Ok(())
}

/// Where a chain delivers, and the answers to it, depend on the chains before it.
pub(super) fn check_routes(
    intent: &Intent,
    graphs: &Graphs<'_>,
    chain: &Chain,
) -> Result<(), PlanError> {
    destination_network(intent, graphs, chain)?;
    if chain.is_symmetric && has_too_many_answers(intent, graphs, chain) {
        let chain = chain_name(chain);
        return Err(PlanError::TooManyAnswers { chain, limit: CHAIN_ANSWER_RULES_MAX });
    }
    Ok(())
}

/// Functions on the longest route from a chain on, one more for each step to the next chain. In
/// `lengths`, none: it is being looked at.
fn route_length(
    intent: &Intent,
    graph: &ChainGraph,
    chain: ChainId,
    lengths: &mut BTreeMap<ChainId, Option<usize>>,
) -> Result<usize, PlanError> {
    match lengths.insert(chain, None) {
        Some(Some(known)) => {
            lengths.insert(chain, Some(known));
            return Ok(known);
        }
        Some(None) => {
            let (graph, chain) = (graph_name(graph), name_of(intent, chain));
            return Err(PlanError::GraphLoop { graph, chain });
        }
        None => {}
    }
    let own = intent.chains.get(&chain).map_or(0, |chain| chain.functions.len());
    let mut behind = 0;
    for next in graph.branches.get(&chain).into_iter().flatten() {
        behind = behind.max(1 + route_length(intent, graph, *next, lengths)?);
    }
    lengths.insert(chain, Some(own + behind));
    Ok(own + behind)
}

fn graph_name(graph: &ChainGraph) -> String {
    let name = &graph.label.name;
    if name.is_empty() { graph.id.to_string() } else { name.clone() }
}

fn name_of(intent: &Intent, chain: ChainId) -> String {
    intent.chains.get(&chain).map_or_else(|| chain.to_string(), chain_name)
}
