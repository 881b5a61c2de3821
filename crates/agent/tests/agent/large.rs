//! What functions are made of may be large: the agent hands it on as it comes.

use crate::authority::Authority;
use crate::controller::TestController;
use crate::dataplane::{Book, TestDataplane, paths};
use crate::machine::{Machine, is_privileged};
use crate::programs::packed;
use catena_model::NodeName;
use catena_model::bundle::{Configuration, ConfigurationEntry};
use catena_model::entry::Program;
use catena_model::limits::FUNCTION_CONFIG_BYTES_MAX;
use catena_protocol::delta::deltas;
use std::sync::Arc;

#[tokio::test]
async fn the_largest_configuration_passes_the_agent() {
    if !is_privileged("the_largest_configuration_passes_the_agent") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;

    let text = "# \"x\"\n".repeat(FUNCTION_CONFIG_BYTES_MAX / 6);
    let config = serde_json::json!({"file": {"name": "edge.iptables", "text": text}}).to_string();
    assert!(config.len() > FUNCTION_CONFIG_BYTES_MAX);
    let configuration = Configuration::new("firewall", config);
    let mut entries = packed(1, &[]).entries;
    let id = configuration.id();
    entries.configurations.insert(id, Arc::new(ConfigurationEntry { configuration }));
    let program = Program::new(packed(1, &[]).number, entries);
    let parts = deltas(&NodeName::new("host1").unwrap(), &Program::default(), &program);
    assert!(parts.len() > 1);
    for part in parts {
        let (result, _) = session.deliver(part.clone()).await;
        assert_eq!((result.refusal.as_str(), result.is_part), ("", !part.is_last));
    }
    assert_eq!(dataplane.book.lock().unwrap().running, program);
}
