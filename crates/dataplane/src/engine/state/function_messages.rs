//! Messages that functions hand out, on their way to the agent. Knows how many may wait; refuses to know what is in them.

use catena_model::account::MessageCounters;
use catena_model::id::InstanceId;
use catena_model::limits::NODE_FUNCTION_MESSAGES_BYTES_MAX;
use catena_nf::outcome::{HandedOutKind, Outcomes};
use std::sync::Arc;

/// A message of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionMessage {
    /// The instance.
    pub instance: InstanceId,
    /// The collector that it is for; none: it is an alert, which the agent keeps.
    pub collector: Option<Arc<str>>,
    /// It.
    pub body: Vec<u8>,
}

/// Whose messages they are, and who wants them.
pub(crate) struct Sender<'s> {
    pub(crate) instance: InstanceId,
    pub(crate) collector: Option<&'s Arc<str>>,
    pub(crate) counters: &'s mut MessageCounters,
}

/// Those of all functions, in their order.
#[derive(Debug, Default)]
pub(crate) struct FunctionMessages {
    rows: Vec<(InstanceId, Option<Arc<str>>, usize)>,
    /// Their bodies, one behind the other: room that stays, so that nothing allocates for a packet.
    bytes: Vec<u8>,
}

impl FunctionMessages {
    /// Takes what a function has handed out, as far as somebody wants it and there is room.
    pub(crate) fn take_from(&mut self, outcomes: &Outcomes, sender: Sender<'_>) {
        let Sender { instance, collector, counters } = sender;
        for (_, handed_out) in outcomes.handed_out() {
            counters.handed_out += 1;
            let collector = match handed_out.kind {
                HandedOutKind::Eve => None,
                HandedOutKind::Ipfix if collector.is_none() => {
                    counters.unwanted += 1;
                    continue;
                }
                HandedOutKind::Ipfix => collector.cloned(),
            };
            let body = outcomes.bytes(handed_out.message.clone());
            if self.bytes.len() + body.len() > NODE_FUNCTION_MESSAGES_BYTES_MAX {
                counters.lost += 1;
                continue;
            }
            self.bytes.extend_from_slice(body);
            self.rows.push((instance, collector, body.len()));
        }
    }

    /// All that wait, which wait no longer.
    pub(crate) fn take(&mut self) -> Vec<FunctionMessage> {
        let mut rest = self.bytes.as_slice();
        let messages = self.rows.drain(..).map(|(instance, collector, length)| {
            let (body, behind) = rest.split_at_checked(length).unwrap_or_default();
            rest = behind;
            FunctionMessage { instance, collector, body: body.to_vec() }
        });
        let messages = messages.collect();
        self.bytes.clear();
        messages
    }
}
