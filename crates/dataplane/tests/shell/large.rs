//! What functions are made of may be large: it comes as one entry, rests on disk with the program, and goes with it.

use crate::agent::TestAgent;
use crate::is_privileged;
use crate::node::{Machine, entries, program, whole};
use catena_model::bundle::{Configuration, ConfigurationEntry};
use catena_model::limits::{DELTA_BYTES_MAX, FUNCTION_CONFIG_BYTES_MAX};
use catena_model::{BlueprintNumber, NodeName};
use catena_protocol::delta::deltas;
use std::fs;

/// As large as one may be, of lines that JSON writes longer than they are.
fn large(mark: char) -> ConfigurationEntry {
    let text = format!("# \"{mark}\"\n").repeat(FUNCTION_CONFIG_BYTES_MAX / 6);
    let config = serde_json::json!({"file": {"name": "edge.iptables", "text": text}}).to_string();
    assert!(config.len() > FUNCTION_CONFIG_BYTES_MAX);
    ConfigurationEntry { configuration: Configuration::new("firewall", config) }
}

#[tokio::test]
async fn the_largest_configurations_come_part_by_part_and_are_there_after_a_restart() {
    if !is_privileged("the_largest_configurations_come_part_by_part_and_are_there_after_a_restart")
    {
        return;
    }
    let machine = Machine::new().await;
    let dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    let mut told = program(1);
    told.configurations = vec![large('a'), large('b')];
    let parts = whole(&told);
    let sizes: Vec<usize> = parts.iter().map(|part| part.changes.len()).collect();
    assert_eq!(sizes.iter().filter(|size| **size > DELTA_BYTES_MAX).count(), 2, "{sizes:?}");
    assert_eq!(agent.offer(parts), "");
    let log = || fs::metadata(machine.state_dir().join("program.log")).unwrap().len() as usize;
    assert!(log() > 2 * FUNCTION_CONFIG_BYTES_MAX);
    let first = entries(&told);
    let known = agent.state();
    assert_eq!((known.program_number, known.program_digest), (1, first.digest.0));
    dataplane.stop();

    let _restarted = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.state().program_digest, first.digest.0, "it is on disk");
    // What it shares with the next program is not sent again.
    told.configurations.pop();
    told.number = BlueprintNumber(2);
    let second = entries(&told);
    let change = deltas(&NodeName::new("host1").unwrap(), &first, &second);
    assert!(change.iter().all(|part| part.changes.len() < 1_000));
    assert_eq!(agent.offer(change), "");
    assert_eq!(agent.state().program_digest, second.digest.0);
    // With the next whole program nothing is left of it.
    told.configurations.clear();
    told.number = BlueprintNumber(3);
    assert_eq!(agent.offer(whole(&told)), "");
    assert!(log() < 1_000_000, "{}", log());
}
