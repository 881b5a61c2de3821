//! Labs whose data planes take frames otherwise than by packet rings, or share them among workers.

use crate::house::{CATENA, LAB, lab_name, renamed_lab, turn};
use std::process::{Command, Output};

fn run(words: &[&str]) -> (Output, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let lab = renamed_lab("xdp.yaml", &lab_name("xdp"));
    let mut command = Command::new(CATENA);
    command.args(["lab", "run"]).args(words).arg("--results").arg(folder.path());
    let output = command.arg(lab.path().join(LAB)).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    (output, said)
}

#[test]
fn a_chain_over_af_xdp_ports_steers_every_packet_as_the_captures_show() {
    let _turn = turn();
    let (output, said) = run(&["--no-fastpath", "--port-io", "xdp"]);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("✓ check  order"), "{said}");
}

#[test]
fn a_kind_of_port_that_goes_past_the_kernel_path_is_not_taken_beside_it() {
    let (output, said) = run(&["--port-io", "xdp"]);
    assert!(!output.status.success() && said.contains("--no-fastpath"), "{said}");
}

#[test]
fn several_workers_steer_every_packet_as_the_captures_show() {
    let _turn = turn();
    for kind in ["afpacket", "xdp"] {
        let (output, said) = run(&["--no-fastpath", "--workers", "3", "--port-io", kind]);
        assert!(output.status.success(), "{kind}: {said}");
        assert!(said.contains("✓ check  order"), "{kind}: {said}");
    }
}

#[test]
fn threads_that_do_not_go_together_are_refused_with_what_would() {
    let (output, said) = run(&["--workers", "3"]);
    assert!(!output.status.success() && said.contains("--no-fastpath"), "{said}");
    let agent = ["agent", "--node", "n", "--controller", "c:1", "--tls", "t", "--state", "s"];
    for (words, reason) in [
        (&["--workers", "3"][..], "--no-fastpath"),
        (&["--workers", "17", "--no-fastpath"], "at most 16"),
        (&["--workers", "2", "--no-fastpath", "--busy-poll-core", "0"], "name a core for each"),
        (
            &["--workers", "2", "--no-fastpath", "--busy-poll-core", "0", "--busy-poll-core", "0"],
            "names a core twice",
        ),
        (&["--workers", "0"], "--workers"),
        (&["--function-threads", "65"], "at most 64"),
        (&["--function-threads", "0", "--function-form", "fork"], "needs threads"),
        (&["--function-form", "fork"], "--function-threads"),
    ] {
        let mut command = Command::new(CATENA);
        command.args(agent).args(["--underlay", "192.0.2.1"]).args(words);
        let output = command.output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}
