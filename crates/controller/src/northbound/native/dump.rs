//! `/v1/nodes/{node}/dump`: what a node holds, as digests that tell whether two moments differ. Knows the question;
//! refuses to compare.

use super::node_slices::{ask, wrong};
use super::problem::Problem;
use super::view::View;
use axum::response::Response;
use catena_model::{Answer, Question};

pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    match ask(view, &Question::Dump).await? {
        Answer::Dumped(dump) => view.told(&dump),
        _ => Err(wrong(view)),
    }
}
