//! `DELETE /v1/nodes/{node}`: a node that will not come back. Knows when that may be; refuses to
//! know what a plan makes of it.

use super::problem::Problem;
use super::status::no_node;
use super::view::View;
use crate::reconcile::News;
use axum::response::Response;
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::resource::Chain;
use catena_model::slice::SlicePlace;
use catena_plan::Intent;
use tokio::time::{Instant, timeout_at};

/// Forgets a node that is away and carries nothing of a chain.
pub(super) async fn forget(view: &View) -> Result<Response, Problem> {
    let (app, name) = (&view.app, &view.call.name);
    let unknown = || no_node(name);
    let node = NodeName::new(name).map_err(|_| unknown())?;
    let is_connected = {
        let now = app.situation.borrow();
        now.inventory.facts(&node).ok_or_else(unknown)?.is_connected
    };
    if is_connected {
        return Err(Problem::conflict(format!(
            "Node '{node}' is connected: stop its agent first, or it would be known again at once."
        )));
    }
    if let Some(need) = need(&app.declared.snapshot().intent, &node) {
        return Err(Problem::conflict(format!(
            "Node '{node}' cannot be forgotten: {need}. Bind that port to another node, or take it \
             out of there, first."
        )));
    }
    let stopping = |_| Problem::overloaded("The controller is stopping.".into());
    app.signals.send(News::Forgotten(node.clone())).await.map_err(stopping)?;
    let mut situations = app.situation.clone();
    let deadline = Instant::now() + app.answer_wait;
    while situations.borrow_and_update().inventory.facts(&node).is_some() {
        if !matches!(timeout_at(deadline, situations.changed()).await, Ok(Ok(()))) {
            return Err(Problem::overloaded(format!(
                "Node '{node}' is not forgotten yet: it has connected again, or the store cannot \
                 be written. 'catena status' tells."
            )));
        }
    }
    Ok(view.done())
}

/// What is declared that cannot do without a node, for people.
fn need(intent: &Intent, node: &NodeName) -> Option<String> {
    let here = |id: &PortId| {
        let port = intent.ports.get(id)?;
        (port.node.as_ref() == Some(node)).then(|| port.label.name.clone())
    };
    let of_chain = |chain: &Chain| {
        let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
        let instances = functions.flat_map(|function| &function.instances);
        let instances = instances.filter_map(|id| intent.instances.get(id));
        let rules = chain.rules.iter().filter_map(|id| intent.rules.get(id));
        let mut ports = instances.flat_map(|instance| [instance.ingress, instance.egress]).chain(
            rules.flat_map(|rule| [rule.source_port, rule.destination_port].into_iter().flatten()),
        );
        ports.find_map(|port| here(&port))
    };
    let chains = intent.chains.values().find_map(|chain| {
        Some(format!("port '{}' of chain '{}' is bound there", of_chain(chain)?, chain.label.name))
    });
    chains.or_else(|| {
        intent.slices.values().find_map(|slice| match slice.place() {
            SlicePlace::Port(port) => {
                let port = here(&port)?;
                Some(format!("slice '{}' begins at port '{port}' there", slice.name()))
            }
            SlicePlace::Endpoints | SlicePlace::After(_) => None,
        })
    })
}
