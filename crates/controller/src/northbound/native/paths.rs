//! `/v1/paths`: the paths that nodes know, in use or not. Knows the ledger; refuses to know how a
//! path is made.

use super::problem::Problem;
use super::view::View;
use crate::reconcile::Situation;
use axum::response::Response;
use catena_model::PathId;
use catena_model::id::ChainId;
use catena_model::program::HopKind;
use catena_model::status::{PathHop, PathInstance, PathReport};
use catena_plan::{Direction, FunctionAt, PathPhase, PathRecord};

/// The direction of answers.
pub(super) const REVERSE: &str = "reverse";

pub(super) async fn list(view: &View) -> Result<Response, Problem> {
    view.told(&seen(view).collect::<Vec<PathReport>>())
}

/// The paths of the chains that somebody sees; of those that are gone, for whoever sees all.
fn seen(view: &View) -> impl Iterator<Item = PathReport> + '_ {
    let is_shown = |path: &PathRecord| {
        // A path does not say whose chain it rendered.
        view.identity.sees_all() || view.intent.chains.contains_key(&path.chain)
    };
    let paths = view.situation.blueprint.ledger.paths.iter();
    paths.filter(move |(_, path)| is_shown(path)).map(|(id, path)| report(*id, path))
}

/// The same with its ways, for whoever sees all nodes.
fn with_routes(view: &View, report: PathReport) -> PathReport {
    let Situation { blueprint, inventory, .. } = &view.situation;
    let path = blueprint.ledger.paths.get(&report.path).filter(|_| view.identity.sees_all());
    let Some(path) = path else { return report };
    let routes = catena_plan::path_routes(&blueprint.ledger, inventory, path);
    let headers = catena_plan::path_headers(&blueprint.ledger, path, inventory);
    PathReport { routes, headers, ..report }
}

/// The paths of a chain, those in use first and in the direction of its rules before the other.
pub(super) fn of_chain(situation: &Situation, chain: ChainId) -> Vec<PathReport> {
    let mut paths: Vec<_> = situation.blueprint.ledger.paths.of_chain(chain).collect();
    paths.sort_by_key(|(id, path)| {
        let is_in_use = path.phase == PathPhase::Classified;
        (!is_in_use, path.direction != Direction::Forward, *id)
    });
    paths.into_iter().map(|(id, path)| report(id, path)).collect()
}

pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    let id = &view.call.name;
    let found = seen(view).find(|path| path.path.to_string() == *id);
    let found = found.ok_or_else(|| {
        Problem::not_found(format!("There is no path {id}; 'catena path list' shows all."))
    })?;
    view.told(&with_routes(view, found))
}

fn report(id: PathId, path: &PathRecord) -> PathReport {
    PathReport {
        path: id,
        chain: path.chain,
        chain_name: path.chain_name.clone(),
        direction: direction(path).into(),
        encapsulation: path.encapsulation,
        phase: phase(path).into(),
        since: path.since,
        hops: path.functions().map(|function| hop(&function)).collect(),
        routes: Vec::new(),
        headers: Vec::new(),
    }
}

/// Which way it leads, in answers.
pub(super) const fn direction(path: &PathRecord) -> &'static str {
    match path.direction {
        Direction::Forward => "forward",
        Direction::Reverse => REVERSE,
    }
}

/// How far it has come, in answers.
pub(super) const fn phase(path: &PathRecord) -> &'static str {
    match path.phase {
        PathPhase::Installed => "installed",
        PathPhase::Classified => "classified",
        PathPhase::Superseded => "superseded",
    }
}

fn hop(function: &FunctionAt<'_>) -> PathHop {
    let instances = function.instances.iter().map(|instance| PathInstance {
        name: instance.name.to_owned(),
        node: Some(instance.node.clone()),
        weight: instance.weight,
    });
    PathHop {
        hop: function.hop,
        member: function.member,
        function: function.name.to_owned(),
        is_tap: function.kind == HopKind::Tap,
        instances: instances.collect(),
    }
}
