//! Messages that functions hand out, on their way to the agent. Knows how many may wait; refuses to know what is in
//! them.

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

/// Room for messages that wait, of which an instance gets at most as much as it leaves free: one that tells without end
/// leaves some to everybody else.
#[derive(Debug, Default)]
pub(crate) struct MessageRoom {
    taken: usize,
    by: Vec<(InstanceId, usize)>,
}

impl MessageRoom {
    /// Takes room for a message; false: there is none for it.
    pub(crate) fn take(&mut self, instance: InstanceId, bytes: usize) -> bool {
        let place = self.by.iter().position(|(of, _)| *of == instance);
        let place = place.unwrap_or_else(|| {
            self.by.push((instance, 0));
            self.by.len() - 1
        });
        let Some((_, own)) = self.by.get_mut(place) else { return false };
        if *own + bytes > NODE_FUNCTION_MESSAGES_BYTES_MAX.saturating_sub(self.taken + bytes) {
            return false;
        }
        *own += bytes;
        self.taken += bytes;
        true
    }

    /// Nothing waits any more.
    pub(crate) fn clear(&mut self) {
        self.taken = 0;
        self.by.clear();
    }
}

/// Those of all functions, in their order.
#[derive(Debug, Default)]
pub(crate) struct FunctionMessages {
    room: MessageRoom,
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
            if !self.room.take(instance, body.len()) {
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
        self.room.clear();
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn one_that_tells_without_end_leaves_room_to_everybody_else() {
        let mut room = MessageRoom::default();
        let fill = |room: &mut MessageRoom, number| {
            let instance = InstanceId(Uuid::from_u128(number));
            (0..).take_while(|_| room.take(instance, 1_024)).count() * 1_024
        };
        let half = NODE_FUNCTION_MESSAGES_BYTES_MAX / 2;
        assert_eq!(fill(&mut room, 1), half);
        assert_eq!(fill(&mut room, 2), half / 2);
        assert_eq!(fill(&mut room, 1), 0);
        assert_eq!(fill(&mut room, 3), half / 4);
        room.clear();
        assert_eq!(fill(&mut room, 1), half);
    }
}
