//! `POST /v1/plan/{draft}/placement`: where the functions of a draft's chains could stand. Knows whom to ask; refuses
//! to know how a host is chosen, and changes nothing.

use super::chains;
use super::change::body;
use super::plan;
use super::problem::Problem;
use super::view::View;
use axum::response::Response;
use catena_model::placement::PlacementRequest;
use catena_model::resource::{Chain, ServiceFunction};
use catena_plan::Intent;
use std::collections::BTreeSet;

/// Chains of one request: each takes the processor for a second at most.
const CHAINS_MAX: usize = 16;
/// Functions of one chain on one host at most.
const PER_HOST_MAX: usize = 64;

pub(super) async fn propose(view: &View) -> Result<Response, Problem> {
    let request: PlacementRequest = body(&view.call)?;
    let then = plan::draft(view)?.declared.snapshot().intent;
    if !(1..=PER_HOST_MAX).contains(&request.per_host) {
        return Err(Problem::bad_body(&format!(
            "'per_host' is 1 to {PER_HOST_MAX} functions, not {}",
            request.per_host
        )));
    }
    if request.chains.is_empty() {
        return Err(Problem::bad_body("'chains' names no chain"));
    }
    let named = request.chains.iter().map(|name| chains::find(&then, name));
    let mut chains: Vec<Chain> = Vec::new();
    for chain in named.collect::<Result<Vec<&Chain>, Problem>>()? {
        if chains.iter().all(|known| known.id != chain.id) {
            chains.push(chain.clone());
        }
    }
    if chains.len() > CHAINS_MAX {
        return Err(Problem::bad_body(&format!(
            "'chains' names {} chains, and hosts are looked for for {CHAINS_MAX} at once",
            chains.len()
        )));
    }
    check_free(&then, &chains, &request.free)?;
    let situation = view.app.situation.borrow().clone();
    let proposed = move || {
        let (blueprint, inventory) = (&situation.blueprint, &situation.inventory);
        let chains: Vec<&Chain> = chains.iter().collect();
        catena_plan::placements(blueprint, &then, inventory, &chains, &request)
    };
    view.told(&tokio::task::block_in_place(proposed))
}

/// What is said to be free is a function of a chain that is asked for.
fn check_free(intent: &Intent, chains: &[Chain], free: &[String]) -> Result<(), Problem> {
    let functions = chains.iter().flat_map(|chain| &chain.functions);
    let names: BTreeSet<String> =
        functions.filter_map(|id| intent.functions.get(id)).map(ServiceFunction::name).collect();
    match free.iter().find(|name| !names.contains(*name)) {
        None => Ok(()),
        Some(other) => Err(Problem::not_found(format!(
            "No function of these chains is called '{other}'; they have {}.",
            names.into_iter().collect::<Vec<_>>().join(", ")
        ))),
    }
}
