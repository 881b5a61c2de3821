//! Adds to the data plane's counters what the interfaces behind the ports counted themselves, what became of messages
//! of functions and of what collectors are told, and how often the node was without a data plane.

use crate::export::Exported;
use crate::interfaces::Interfaces;
use crate::messages::Counts;
use catena_model::program::PortEntry;
use catena_model::{Absences, Answer, Question};

/// What of an answer only the agent knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The interfaces' own counters.
    interfaces: bool,
    /// What became of messages of functions.
    functions: bool,
}

impl Wanted {
    pub(crate) fn of(question: &Question) -> Self {
        let Question::Counters { with_interfaces, of } = question else { return Self::default() };
        let functions = of.as_ref().is_some_and(|of| !of.functions.is_empty());
        Self { interfaces: *with_interfaces, functions }
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// What the agent knows.
pub(crate) struct Completion<'k> {
    pub(crate) ports: Vec<PortEntry>,
    pub(crate) absences: Absences,
    pub(crate) interfaces: &'k Interfaces,
    pub(crate) messages: &'k Counts,
    pub(crate) exported: &'k Exported,
}

/// The completed counters in their canonical form. Bytes that are no counters pass unchanged: the
/// controller says what is wrong with them.
pub(crate) async fn complete(body: Vec<u8>, wanted: Wanted, known: Completion<'_>) -> Vec<u8> {
    let Ok(Answer::Counters(mut counters)) = serde_json::from_slice(&body) else {
        tracing::warn!("the data plane's counters cannot be read; its version may be another");
        return body;
    };
    let Completion { ports, absences, interfaces, messages, exported } = known;
    messages.complete(&mut counters.functions);
    if !wanted.interfaces {
        return serde_json::to_vec(&Answer::Counters(counters)).unwrap_or(body);
    }
    for port in &mut counters.ports {
        if let Some(entry) = ports.iter().find(|entry| entry.id == port.port) {
            port.interface = interfaces.statistics(&entry.attachment).await;
        }
    }
    counters.exports = exported.counters();
    let (missed_at_ports, missed_at_tunnels) = interfaces.missed();
    counters.dataplane.absences = Absences { missed_at_ports, missed_at_tunnels, ..absences };
    serde_json::to_vec(&Answer::Counters(counters)).unwrap_or(body)
}
