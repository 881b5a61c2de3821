//! Flows that the data plane asks for on their way to the controller, and its answers back. What finds no room is left
//! out: the data plane asks again, and no flood of flows ends a connection or fills its queue.

use super::Node;
use crate::link::Outgoing;
use catena_protocol::message::{
    ControllerPresence, FlowAnswers, FlowsAsked, FromAgent, from_agent, to_dataplane,
};

/// Messages that must be left free in a queue for everything else.
pub(super) const LEFT_FREE: usize = 128;

impl Node {
    /// The data plane asks for flows.
    pub(super) fn ask_for_flows(&mut self, asked: FlowsAsked) {
        let Some(session) = self.session.as_ref().filter(|queue| queue.capacity() > LEFT_FREE)
        else {
            return;
        };
        let message = Some(from_agent::Message::FlowsAsked(asked));
        if session.try_send(FromAgent { message }).is_err() {
            tracing::debug!("flows are not asked for: the session has ended");
        }
    }

    /// The controller answers for flows.
    pub(super) fn pass_answers(&mut self, answers: FlowAnswers) {
        let Some(link) = self.link.as_ref().filter(|queue| queue.capacity() > LEFT_FREE) else {
            return;
        };
        let message = to_dataplane::Message::FlowAnswers(answers);
        if link.try_send(Outgoing { message, sockets: Vec::new() }).is_err() {
            tracing::debug!("answers for flows are lost: the data plane has gone");
        }
    }

    /// Tells the data plane whether the controller can be asked, if that is news.
    pub(super) fn tell_presence(&mut self) {
        let is_there = self.session.is_some();
        if self.link.is_none() || self.told_presence == is_there {
            return;
        }
        let presence = to_dataplane::Message::ControllerPresence(ControllerPresence { is_there });
        if self.send(presence, Vec::new()) {
            self.told_presence = is_there;
        }
    }
}
