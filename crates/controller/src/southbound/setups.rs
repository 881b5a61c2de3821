//! Answers for flows that the classifiers of a node ask for, from the program that the node is to run. Knows how long
//! that takes; what an answer says is decided by `plan`.

use catena_model::NodeName;
use catena_model::entry::Program;
use catena_model::limits::SETUP_MESSAGE_FLOWS_MAX;
use catena_model::setup::FlowTimes;
use catena_plan::answer_flow;
use catena_protocol::message::{FlowAnswers, FlowAsked, FlowsAsked, ToAgent, to_agent};
use catena_protocol::setup::{Asker, pack_answer, read_asked};
use std::time::{Duration, Instant};

/// The answers to a message; none: there is nothing to say. Flows that the program does not let go are not answered
/// for, and their node does what their chain says.
pub(super) fn answer(
    asked: &FlowsAsked,
    program: Option<&Program>,
    node: &NodeName,
) -> Option<ToAgent> {
    let came = Instant::now();
    let entries = &program?.entries;
    let answer = |packed: &FlowAsked| {
        let asked = read_asked(packed)
            .inspect_err(|error| tracing::debug!(%node, "a flow cannot be asked for: {error}"))
            .ok()?;
        let begun = Instant::now();
        let mut answer = answer_flow(entries, &asked)?;
        let header = nanoseconds(begun.elapsed());
        let controller = nanoseconds(came.elapsed()).saturating_sub(header);
        answer.times = FlowTimes { header, controller, channel: 0 };
        let asker = Asker { worker: packed.worker, sent_ns: packed.sent_ns };
        Some(pack_answer(&answer, asker))
    };
    let flows: Vec<_> =
        asked.flows.iter().take(SETUP_MESSAGE_FLOWS_MAX).filter_map(answer).collect();
    let has_any = !flows.is_empty();
    let message = to_agent::Message::FlowAnswers(FlowAnswers { flows });
    has_any.then_some(ToAgent { message: Some(message) })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
