//! Adds to the data plane's counters what the interfaces behind the ports counted themselves.

use crate::interfaces::Interfaces;
use catena_model::program::PortEntry;
use catena_model::{Answer, Question};

/// Does a question ask for counters with those of the interfaces?
pub(crate) fn are_wanted_with_interfaces(question: &[u8]) -> bool {
    let asked = serde_json::from_slice(question);
    matches!(asked, Ok(Question::Counters { with_interfaces: true }))
}

/// The completed counters in their canonical form. Bytes that are no counters pass unchanged: the
/// controller says what is wrong with them.
pub(crate) async fn complete(
    body: Vec<u8>,
    ports: Vec<PortEntry>,
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
    serde_json::to_vec(&Answer::Counters(counters)).unwrap_or(body)
}
