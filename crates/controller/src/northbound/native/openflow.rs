//! `GET /v1/nodes/{node}/openflow13`: a node's classifier and its edge as rules of OpenFlow. Knows whom it asks;
//! refuses to know what is in a rule.

use super::problem::Problem;
use super::view::View;
use axum::response::Response;
use catena_model::NodeName;

/// From the program that the node should run.
pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    let (situation, name) = (&view.situation, &view.call.name);
    let node = NodeName::new(name.clone()).ok();
    let is_known = |node: &NodeName| situation.inventory.role(node).is_some();
    let node = node.filter(is_known).ok_or_else(|| {
        Problem::not_found(format!("There is no node '{name}'; 'catena node list' shows all."))
    })?;
    let rules = catena_plan::node_openflow(&situation.blueprint, &situation.inventory, &node);
    let rules = rules.ok_or_else(|| {
        let why = "nothing was planned for it since this controller was started";
        Problem::not_found(format!(
            "Node '{name}' has no program: {why}. It has one when it is connected."
        ))
    })?;
    view.told(&rules)
}
