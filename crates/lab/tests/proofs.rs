//! The independent proofs must be able to fail: their own tests, run with the rest.

use std::path::Path;
use std::process::Command;

fn run(tests: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/proof");
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", tests])
        .current_dir(folder)
        .output()
        .expect("python3 is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("OK"), "{said}");
}

#[test]
fn the_proof_of_steering_finds_every_made_up_fault() {
    run("test_steering_proof");
}

#[test]
fn the_proof_of_updates_finds_every_made_up_fault() {
    run("test_update_proof");
}

#[test]
fn the_proof_of_paths_finds_every_made_up_fault() {
    run("test_path_proof");
}

#[test]
fn the_evaluator_of_verdicts_finds_every_made_up_fault() {
    run("test_verdict_proof");
}

#[test]
fn the_proof_of_routes_finds_every_made_up_fault() {
    run("test_route_proof");
}

#[test]
fn the_proof_of_records_finds_every_made_up_fault() {
    run("test_telemetry_proof");
    run("test_routers");
}

#[test]
fn the_proof_of_forged_frames_finds_every_made_up_fault() {
    run("test_forged_proof");
}

#[test]
fn what_nodes_send_each_other_is_read_by_every_encapsulation() {
    run("test_carriers");
}
