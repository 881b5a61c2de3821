//! Functions that speak the encapsulation of their chain get it and move it on themselves; others
//! of the same chain see plain packets.

use super::stage::{FORTH, Stage, V8, V9, V10, V11, tell};
use crate::capture::Capture;
use crate::house::House;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;

/// A function that speaks, at the port of a plain one; ended with this value.
pub(super) struct Speaker(Child);

impl Speaker {
    pub(super) fn start(house: &House, node: &str) -> Self {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/tests/aware_function.py");
        let script = script.display().to_string();
        let mut child = house.node(node).start("python3", &[&script, "customer"]);
        let mut line = String::new();
        let said = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(said).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "the function at {node} did not begin");
        Self(child)
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Frames at a function that have the chain's header, and packets without.
fn heard(captures: [Capture; 2]) -> (usize, usize) {
    let [headed, plain] = captures.map(|capture| capture.frames().len());
    (headed, plain)
}

fn listen(stage: &Stage<'_>, node: &str, folders: &[tempfile::TempDir; 2]) -> [Capture; 2] {
    let kind = if stage.encapsulation == "nsh" { "0x894f" } else { "0x8847" };
    let filters = [format!("ether proto {kind}"), "udp".to_owned()];
    let node = stage.house.node(node);
    let start = |(filter, folder): (&String, &tempfile::TempDir)| {
        Capture::start(&node, "customer", filter, folder.path())
    };
    [(&filters[0], &folders[0]), (&filters[1], &folders[1])].map(start)
}

/// Two instances that speak, between functions that do not; the whole chain over four hosts.
fn a_chain_with_speakers(stage: &mut Stage<'_>) {
    let spoken = json!({"correlation": stage.encapsulation});
    let speakers = ["v8", "v10"].map(|node| Speaker::start(stage.house, node));
    let pairs = [V8, V10].map(|at| stage.pair_with(at, &spoken));
    let groups = [stage.group(V11), stage.group_of(&pairs), stage.group(V9)];
    let classifier = stage.classifier(FORTH);
    stage.expect("before the chain", FORTH, &[]);
    let chain = stage.chain(&groups, &[classifier]);
    let folders = || [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
    let (at_v8, at_v10, at_v9) = (folders(), folders(), folders());
    let captures = [("v8", &at_v8), ("v10", &at_v10), ("v9", &at_v9)]
        .map(|(node, folders)| listen(stage, node, folders));
    stage.expect("with functions that speak", FORTH, &[&["v11"], &["v8", "v10"], &["v9"]]);
    std::thread::sleep(super::witness::HANDING_OVER);
    let [v8, v10, v9] = captures.map(heard);
    assert_eq!((v8.1, v10.1, v9.0), (0, 0, 0), "{v8:?} {v10:?} {v9:?}");
    assert_eq!(v8.0 + v10.0, v9.1, "as many packets with a header as without behind it");
    assert!(v9.1 > 0);
    stage.delete_chain(&chain);
    stage.expect("after the chain", FORTH, &[]);
    drop(speakers);
}

#[test]
fn functions_that_speak_the_encapsulation_get_it_and_others_do_not() {
    tell(false, a_chain_with_speakers);
}

#[test]
fn functions_that_speak_the_encapsulation_serve_both_ways_of_a_symmetric_chain() {
    tell(true, a_chain_with_speakers);
}
