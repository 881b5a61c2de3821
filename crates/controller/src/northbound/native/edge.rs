//! `PATCH /v1/nodes/{node}`: switches that are edges. Knows which nodes may be marked; refuses to know what a plan
//! makes of it.

use super::change::body;
use super::problem::Problem;
use super::status::{no_node, node_in};
use super::view::View;
use crate::reconcile::News;
use axum::response::Response;
use catena_model::NodeName;
use catena_model::source_route::EDGES_SINCE_PROTOCOL;
use catena_model::topology::NodeRole;
use catena_plan::Inventory;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

/// What `PATCH` changes of a node.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeChange {
    /// Of a switch: may headers of source routes end there, so that it writes the next ones? Hosts always may.
    is_edge: bool,
}

/// Marks a switch as an edge, or takes the mark off; answers when that is written down and planned with.
pub(super) async fn patch(view: &View) -> Result<Response, Problem> {
    let (app, name) = (&view.app, &view.call.name);
    let NodeChange { is_edge } = body(&view.call)?;
    let node = NodeName::new(name).map_err(|_| no_node(name))?;
    check(&app.situation.borrow().inventory, &node, is_edge)?;
    let stopping = |_| Problem::overloaded("The controller is stopping.".into());
    let marked = News::Marked { node: node.clone(), is_edge };
    app.signals.send(marked).await.map_err(stopping)?;
    let mut situations = app.situation.clone();
    let deadline = Instant::now() + app.answer_wait;
    loop {
        let now = situations.borrow_and_update().clone();
        let facts = now.inventory.facts(&node).ok_or_else(|| no_node(name))?;
        if facts.is_edge == is_edge {
            return node_in(view, &now).await;
        }
        if !matches!(timeout_at(deadline, situations.changed()).await, Ok(Ok(()))) {
            return Err(Problem::overloaded(format!(
                "Node '{node}' is not marked yet: the store cannot be written, or the node became a host. 'catena \
                 status' tells."
            )));
        }
    }
}

fn check(inventory: &Inventory, node: &NodeName, is_edge: bool) -> Result<(), Problem> {
    let facts = inventory.facts(node).ok_or_else(|| no_node(node.as_str()))?;
    if !is_edge {
        return Ok(());
    }
    if inventory.role(node) == Some(NodeRole::Host) {
        return Err(Problem::conflict(format!(
            "Node '{node}' is a host: headers begin and end there anyway. Mark switches."
        )));
    }
    if facts.protocol < EDGES_SINCE_PROTOCOL {
        return Err(Problem::conflict(format!(
            "Switch '{node}' runs a version that writes no headers, by what it said last: bring it up to date, start its \
             agent, and mark it then."
        )));
    }
    Ok(())
}
