//! Messages that the bundled functions of the node hand out: alerts are kept for whoever asks, flow records go to their
//! collectors. Knows who counts what; refuses to know what they say.

mod alerts;

use crate::collectors::{Collectors, Datagram, Tally};
use alerts::Alerts;
use catena_model::account::{FunctionCounters, MessageCounters};
use catena_model::id::InstanceId;
use catena_model::limits::{FUNCTION_DATAGRAMS_PER_SECOND, NODE_FUNCTIONS_MAX};
use catena_model::question::{AlertQuestion, InstanceAlerts};
use catena_protocol::message;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// Instances that anything is known of at once: those that run, and as many that did.
const INSTANCES_MAX: usize = 2 * NODE_FUNCTIONS_MAX;
/// What functions may send.
const LIMIT: (u64, &str) = (FUNCTION_DATAGRAMS_PER_SECOND, "the functions of this node");

/// What became of messages, by instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Arc<Mutex<BTreeMap<InstanceId, MessageCounters>>>);

impl Counts {
    fn note(&self, instance: InstanceId, note: impl FnOnce(&mut MessageCounters)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= INSTANCES_MAX && !all.contains_key(&instance) {
            // Who never runs again is not asked for again, either.
            all.pop_first();
        }
        note(all.entry(instance).or_default());
    }

    /// Adds what is known here to what the data plane has counted.
    pub(crate) fn complete(&self, functions: &mut [FunctionCounters]) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for function in functions {
            if let Some(known) = all.get(&function.instance) {
                function.messages.merge(known);
            }
        }
    }
}

impl Tally for Counts {
    type Of = InstanceId;

    fn note_sent(&self, instance: InstanceId) {
        self.note(instance, |counters| counters.sent += 1);
    }

    fn note_unsent(&self, instance: InstanceId, why: &str) {
        self.note(instance, |counters| {
            counters.unsent += 1;
            why.clone_into(&mut counters.trouble);
        });
    }
}

/// All messages of a node.
#[derive(Debug)]
pub(crate) struct Messages {
    alerts: Alerts,
    collectors: Collectors<Counts>,
    pub(crate) counts: Counts,
}

impl Messages {
    pub(crate) fn new() -> Self {
        let counts = Counts::default();
        Self { alerts: Alerts::new(), collectors: Collectors::new(counts.clone(), LIMIT), counts }
    }

    /// Takes what functions have handed out. What is no such message is nobody's: the data plane is another.
    pub(crate) fn take(&mut self, messages: message::FunctionMessages) {
        for message::FunctionMessage { instance, collector, body } in messages.messages {
            let Ok(instance) = Uuid::from_slice(&instance).map(InstanceId) else { continue };
            if !collector.is_empty() {
                self.collectors.send(&collector, Datagram { of: instance, body });
            } else if let Ok(line) = String::from_utf8(body) {
                self.take_alert(instance, line);
            }
        }
    }

    /// Takes an alert.
    pub(crate) fn take_alert(&mut self, instance: InstanceId, line: String) {
        self.alerts.add(instance, line);
        self.counts.note(instance, |counters| counters.kept += 1);
    }

    /// Answers for alerts.
    pub(crate) fn alerts(&self, question: &AlertQuestion) -> Vec<InstanceAlerts> {
        self.alerts.answer(question)
    }
}
