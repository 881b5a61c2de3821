//! The independent proof must be able to fail: its own tests, run with the rest.

use std::path::Path;
use std::process::Command;

#[test]
fn the_proof_of_steering_finds_every_made_up_fault() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/proof");
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", "test_steering_proof"])
        .current_dir(folder)
        .output()
        .expect("python3 is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("OK"), "{said}");
}
