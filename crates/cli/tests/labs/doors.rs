//! A data plane whose descriptors have run out: who knocks waits, it does not spin, and lets in
//! again when there is one.

use crate::house::CATENA;
use crate::patience::wait_for;
use catena_kernel::process::spawn_bound;
use catena_protocol::frame;
use catena_protocol::message::{StateRequest, ToDataplane, to_dataplane};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Pause between two attempts to let somebody in, of the data plane.
const REST: Duration = Duration::from_millis(200);
const COMPLAINT: &str = "an agent could not connect";

#[test]
fn a_data_plane_without_descriptors_waits_and_does_not_spin() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut command = Command::new(CATENA);
    command.args(["dataplane", "--node", "door", "--state"]).arg(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).expect("a log"));
    let mut dataplane = spawn_bound(command).expect("the binary starts");
    let socket = folder.path().join("dataplane.sock");
    let connect = || UnixStream::connect(&socket).map_err(|error| error.to_string());
    drop(wait_for("the door", connect));
    wait_for("the word that no program is there", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        if text.contains("waiting for the agent") { Ok(()) } else { Err(text) }
    });
    let limit = |count: usize| {
        let pid = dataplane.id().to_string();
        let mut command = Command::new("prlimit");
        command.args(["--pid", &pid, &format!("--nofile={count}:4096")]);
        assert!(command.status().expect("prlimit runs").success());
    };
    wait_for("the end of the first visit", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        if text.contains("closed the connection") { Ok(()) } else { Err(text) }
    });
    let is_used = |number: &usize| {
        fs::symlink_metadata(format!("/proc/{}/fd/{number}", dataplane.id())).is_ok()
    };
    let free = (0..).find(|number| !is_used(number)).expect("a number");
    let begun = Instant::now();
    limit(free);
    let mut agent = connect().expect("the kernel lets it knock");
    let complaints = || fs::read_to_string(&log).expect("a log").matches(COMPLAINT).count();
    wait_for("the first complaint", || if complaints() > 0 { Ok(()) } else { Err("none".into()) });
    std::thread::sleep(5 * REST);
    let count = complaints();
    let turns = begun.elapsed().as_millis() / REST.as_millis() + 1;
    assert!(count as u128 <= turns, "{count} complaints in {turns} turns");
    limit(64);
    let message = Some(to_dataplane::Message::StateRequest(StateRequest {}));
    agent.write_all(&frame::encode(&ToDataplane { message })).expect("it is written");
    let mut byte = [0];
    agent.read_exact(&mut byte).expect("it is let in and answered");
    dataplane.kill().expect("it runs");
    dataplane.wait().expect("it ends");
}
