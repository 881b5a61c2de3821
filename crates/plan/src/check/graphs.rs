//! What can be carried of chains that go on in one another.

use super::routes::{Fault, Routes};
use crate::error::PlanError;
use crate::graph::Graphs;
use crate::intent::Intent;
use crate::place::{Unanswerable, never_answered};
use crate::render::destination_network;
use catena_model::limits::{CHAIN_ANSWER_RULES_MAX, CHAIN_FUNCTIONS_MAX};
use catena_model::resource::{Chain, ChainGraph};

/// A packet must come to the end of every route, within one header's time to live.
pub(super) fn check_graph(
    intent: &Intent,
    graphs: &Graphs<'_>,
    graph: &ChainGraph,
) -> Result<(), PlanError> {
    let mut routes = Routes::of(intent, std::iter::once(graph));
    let refused = |fault| match fault {
        Fault::Loop(chain) => PlanError::GraphLoop { graph: graph.name(), chain },
        Fault::TooLong { chain, length } => {
            let (graph, limit) = (graph.name(), CHAIN_FUNCTIONS_MAX);
            PlanError::RouteTooLong { graph, chain, length, limit }
        }
    };
    routes.check().map_err(refused)?;
    for chain in routes.chains().filter_map(|id| intent.chains.get(&id)) {
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
    let why = chain.is_symmetric.then(|| never_answered(intent, graphs, chain)).flatten();
    let chain = chain.name();
    match why {
        Some(Unanswerable::TooMany) => {
            Err(PlanError::TooManyAnswers { chain, limit: CHAIN_ANSWER_RULES_MAX })
        }
        Some(Unanswerable::Field(rule, title)) => {
            Err(PlanError::UnknownAnswers { chain, rule, title })
        }
        Some(Unanswerable::Missing(_)) | None => Ok(()),
    }
}
