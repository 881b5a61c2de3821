//! Adds to the data plane's counters what the interfaces behind the ports counted themselves, and
//! how often the node was without a data plane.

use crate::interfaces::Interfaces;
use catena_model::program::PortEntry;
use catena_model::{Absences, Answer, Question};

/// Does a question ask for counters with those of the interfaces?
pub(crate) fn are_wanted_with_interfaces(question: &[u8]) -> bool {
    let asked = serde_json::from_slice(question);
    matches!(asked, Ok(Question::Counters { with_interfaces: true, .. }))
}

/// The completed counters in their canonical form. Bytes that are no counters pass unchanged: the
/// controller says what is wrong with them.
pub(crate) async fn complete(
    body: Vec<u8>,
    ports: Vec<PortEntry>,
    absences: Absences,
    interfaces: &Interfaces,
) -> Vec<u8> {
    let Ok(Answer::Counters(mut counters)) = serde_json::from_slice(&body) else {
        tracing::warn!("the data plane's counters cannot be read; its version may be another");
        return body;
    };
    for port in &mut counters.ports {
        if let Some(entry) = ports.iter().find(|entry| entry.id == port.port) {
            port.interface = interfaces.statistics(&entry.attachment).await;
        }
    }
    let (missed_at_ports, missed_at_tunnels) = interfaces.missed();
    counters.dataplane.absences = Absences { missed_at_ports, missed_at_tunnels, ..absences };
    serde_json::to_vec(&Answer::Counters(counters)).unwrap_or(body)
}
