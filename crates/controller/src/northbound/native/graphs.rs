//! `/v1/graphs`: which chains go on in which others, by name. Knows names; refuses to know how a
//! branch is taken.

use super::chains::summary;
use super::change::find;
use super::problem::Problem;
use super::view::View;
use crate::reconcile::Situation;
use axum::response::Response;
use catena_model::id::{ChainId, GraphId};
use catena_model::resource::ChainGraph;
use catena_model::status::GraphReport;
use catena_plan::Intent;
use std::collections::BTreeSet;

pub(super) async fn list(view: &View) -> Result<Response, Problem> {
    let View { situation, intent, .. } = view;
    let all = intent.graphs.values().map(|graph| report(situation, intent, graph));
    view.told(&all.collect::<Vec<GraphReport>>())
}

pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    let View { situation, intent, .. } = view;
    let all = intent.graphs.values().map(|graph| (graph.id.0, &graph.label));
    let id = GraphId(find("graph", all, &view.call.name)?);
    let graph = intent.graphs.get(&id).ok_or_else(Problem::gone)?;
    view.told(&report(situation, intent, graph))
}

fn report(situation: &Situation, intent: &Intent, graph: &ChainGraph) -> GraphReport {
    let name = |id: &ChainId| intent.chain_name(*id);
    let branches = graph.branches.iter();
    let members: BTreeSet<&ChainId> =
        graph.branches.iter().flat_map(|(chain, onward)| onward.iter().chain([chain])).collect();
    let chains = members.into_iter().filter_map(|id| intent.chains.get(id));
    GraphReport {
        id: graph.id,
        name: graph.name(),
        branches: branches
            .map(|(chain, onward)| (name(chain), onward.iter().map(name).collect()))
            .collect(),
        chains: chains.map(|chain| summary(situation, intent, chain)).collect(),
    }
}
