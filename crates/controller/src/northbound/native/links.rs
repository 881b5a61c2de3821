//! `/v1/links`: the links between nodes, and what was found at their ends. Refuses to know how it was found.

use super::problem::Problem;
use super::view::View;
use crate::reconcile::Situation;
use crate::southbound::fleet::Fleet;
use axum::response::Response;
use catena_model::discovery::LinkReport;

/// All links, as they were told last.
pub(super) fn reports(fleet: &Fleet, situation: &Situation) -> Vec<LinkReport> {
    let board = fleet.links.follow();
    let told = board.borrow().links.clone();
    catena_plan::link_reports(&situation.inventory, &situation.blueprint.ledger.port_numbers, &told)
}

pub(super) async fn list(view: &View) -> Result<Response, Problem> {
    view.told(&reports(&view.app.fleet, &view.situation))
}

/// One link, `NODE:PORT`: by the number of the port, or by its interface.
pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    let name = &view.call.name;
    let is_it = |link: &LinkReport| {
        let port = name.strip_prefix(link.node.as_str()).and_then(|rest| rest.strip_prefix(':'));
        port.is_some_and(|port| {
            port == link.interface || link.number.is_some_and(|number| port == number.to_string())
        })
    };
    let found = reports(&view.app.fleet, &view.situation).into_iter().find(is_it);
    let found = found.ok_or_else(|| {
        Problem::not_found(format!(
            "There is no link '{name}'; a link is NODE:PORT, by number or interface, and 'catena link list' shows all."
        ))
    })?;
    view.told(&found)
}
