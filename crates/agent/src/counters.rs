//! Adds to the data plane's counters what the interfaces behind the ports counted themselves.

use crate::interfaces::Interfaces;
use catena_model::NodeCounters;
use catena_model::program::PortEntry;

/// The completed counters in their canonical form. Bytes that are no counters pass unchanged: the
/// controller says what is wrong with them.
pub(crate) async fn complete(
    body: Vec<u8>,
    ports: Vec<PortEntry>,
    interfaces: &Interfaces,
) -> Vec<u8> {
    let Ok(mut counters) = serde_json::from_slice::<NodeCounters>(&body) else {
        tracing::warn!("the data plane's counters cannot be read; its version may be another");
        return body;
    };
    for port in &mut counters.ports {
        if let Some(entry) = ports.iter().find(|entry| entry.id == port.port) {
            port.interface = interfaces.statistics(&entry.attachment).await;
        }
    }
    serde_json::to_vec(&counters).unwrap_or(body)
}
