//! Answers for flows that classifiers ask for (reactive set-up): what lets a flow go at a node. Knows the node's
//! program alone, so that it costs the same however many chains there are; nothing of an answer is kept.

use catena_model::entry::Entries;
use catena_model::setup::{FlowAnswer, FlowAsked, FlowTimes, legs_of};

/// The answer for a flow that a node asks for whose program this is; none: it has no such port or path, or flows of
/// the path need no answer.
#[must_use]
pub fn answer_flow(entries: &Entries, asked: &FlowAsked) -> Option<FlowAnswer> {
    let FlowAsked { sequence, port, path, .. } = asked;
    entries.ports.get(port)?;
    entries.setups.get(path)?;
    let legs = legs_of(entries, entries.paths.get(path)?);
    Some(FlowAnswer { sequence: *sequence, path: *path, legs, times: FlowTimes::default() })
}
