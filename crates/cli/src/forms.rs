//! How functions of a hop are asked, in words. Knows what a node tells of it; refuses to choose, and to guess what a
//! node does not tell.

use crate::prediction::seconds;
use catena_model::parallelism::{Form, FormChoice};

const NS: f64 = 1e-9;
/// In place of a time that cannot be known, or of a form that cannot be taken.
const UNKNOWN: &str = "–";

/// The form, and what each would cost.
pub(crate) fn in_words(choice: &FormChoice) -> String {
    let cost = |form: Form| {
        let cost = match form {
            Form::Fuse => choice.fuse_ns,
            Form::Pipeline => choice.pipeline_ns,
            Form::Fork => choice.fork_ns,
        };
        let cost = cost.map_or_else(|| UNKNOWN.to_owned(), |ns| seconds(ns as f64 * NS));
        format!("{} {cost}", form.name())
    };
    let handoff = choice.handoff_ns.map_or_else(String::new, |ns| {
        format!("; {} of it for each thread that is asked", seconds(ns as f64 * NS))
    });
    format!("{} ({}{handoff})", choice.form.name(), Form::ALL.map(cost).join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_told_with_what_each_would_cost_and_what_nobody_knows_is_no_number() {
        let mut choice = FormChoice {
            form: Form::Fork,
            fuse_ns: Some(812_000),
            pipeline_ns: Some(830_400),
            fork_ns: Some(402_000),
            handoff_ns: Some(39_000),
            threads: Some(2),
        };
        assert_eq!(
            in_words(&choice),
            "fork (fuse 812 µs, pipeline 830.4 µs, fork 402 µs; 39 µs of it for each thread that is asked)"
        );
        (choice.form, choice.pipeline_ns, choice.fork_ns) = (Form::Fuse, None, None);
        choice.handoff_ns = None;
        choice.fuse_ns = Some(93);
        assert_eq!(in_words(&choice), "fuse (fuse 93 ns, pipeline –, fork –)");
    }
}
