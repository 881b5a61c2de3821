//! Messages of functions on their way to the agent. Knows how many may wait for one; refuses to know what is in them.

use super::Control;
use crate::engine::{FunctionMessage, MessageRoom, Tables};
use catena_model::account::NodeCounters;
use catena_model::id::InstanceId;
use catena_protocol::message::{self, from_dataplane};
use std::collections::BTreeMap;

/// Bytes of one message to the agent at most, so that nothing else waits for long.
const SENT_BYTES_MAX: usize = 64 * 1024;

/// What this thread knows of them.
#[derive(Debug, Default)]
pub(super) struct Messages {
    waiting: Vec<FunctionMessage>,
    room: MessageRoom,
    lost: BTreeMap<InstanceId, u64>,
}

impl Messages {
    fn lose(&mut self, message: &FunctionMessage) {
        *self.lost.entry(message.instance).or_default() += 1;
    }

    /// Forgets what belongs to nobody any more.
    pub(super) fn keep_of(&mut self, tables: &Tables) {
        self.lost.retain(|instance, _| tables.has_function(*instance));
    }

    /// Adds to counters what was lost here.
    pub(super) fn count(&self, counters: &mut NodeCounters) {
        for function in &mut counters.functions {
            function.messages.lost += self.lost.get(&function.instance).copied().unwrap_or(0);
        }
    }
}

impl Control {
    /// Takes what functions have handed out, as far as there is room for it.
    pub(super) fn take_messages(&mut self, messages: Vec<FunctionMessage>) {
        for message in messages {
            if self.messages.room.take(message.instance, message.body.len()) {
                self.messages.waiting.push(message);
            } else {
                self.messages.lose(&message);
            }
        }
    }

    /// Sends what waits, where there is an agent that reads.
    pub(super) fn pass_messages(&mut self) {
        let Some(agent) = self.agent.as_mut().filter(|agent| agent.is_reading()) else { return };
        let waiting = std::mem::take(&mut self.messages.waiting);
        self.messages.room.clear();
        let mut rest = waiting.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |message: &&FunctionMessage| {
                bytes += message.body.len();
                bytes <= SENT_BYTES_MAX
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            let packed = message::FunctionMessages { messages: now.iter().map(pack).collect() };
            if let Err(end) = agent.send(from_dataplane::Message::FunctionMessages(packed)) {
                tracing::info!("{end}; the data plane goes on");
                self.agent = None;
                rest.iter().for_each(|message| self.messages.lose(message));
                return;
            }
            rest = later;
        }
    }
}

fn pack(message: &FunctionMessage) -> message::FunctionMessage {
    let FunctionMessage { instance, collector, body } = message;
    message::FunctionMessage {
        instance: instance.0.as_bytes().to_vec(),
        collector: collector.as_deref().unwrap_or_default().to_owned(),
        body: body.clone(),
    }
}
