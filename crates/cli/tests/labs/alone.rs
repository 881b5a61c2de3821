//! The controller alone, as `catena controller` runs it: tokens, its store, and its manners.

use crate::house::{CATENA, turn};
use crate::patience::wait_for;
use catena_kernel::process::spawn_bound;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

struct Alone {
    child: Child,
    url: String,
}

impl Alone {
    fn start(data: &Path, auth: &str) -> Self {
        // Free a moment ago; nobody else on this machine takes ports by number.
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        let mut command = Command::new(CATENA);
        command.args(["controller", "--listen", &address, "--auth", auth, "--data"]).arg(data);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = spawn_bound(command).expect("the binary starts");
        Self { child, url: format!("http://{address}") }
    }

    fn first_token(&mut self) -> String {
        let out = self.child.stdout.take().expect("stdout is a pipe");
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("token")).expect("a line with the token");
        line.split_whitespace().last().expect("a token").to_owned()
    }

    fn ask(&self, options: &[&str]) -> Output {
        let mut command = Command::new(CATENA);
        command.args(["--url", &self.url]).args(options).arg("status");
        command.env_remove("CATENA_TOKEN").output().expect("the binary runs")
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_listening(alone: &Alone) -> Output {
    wait_for("an answer of the controller", || {
        let output = alone.ask(&[]);
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        if wrong.contains("does not answer") { Err(wrong) } else { Ok(output) }
    })
}

#[test]
fn the_first_start_prints_one_token_and_only_it_opens_the_door() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut alone = Alone::start(&data, "token");
    let token = alone.first_token();
    let refused = wait_listening(&alone);
    assert_eq!(refused.status.code(), Some(1), "without a token");
    assert_eq!(alone.ask(&["--token", "wrong"]).status.code(), Some(1));
    assert!(alone.ask(&["--token", &token]).status.success());
    drop(alone);
    let again = Alone::start(&data, "token");
    wait_listening(&again);
    assert!(again.ask(&["--token", &token]).status.success(), "the token outlives the process");
}

#[test]
fn without_tokens_the_door_is_open_on_loopback_only() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let alone = Alone::start(folder.path(), "none");
    assert!(wait_listening(&alone).status.success());
    let mut command = Command::new(CATENA);
    command.args(["controller", "--listen", "0.0.0.0:0", "--auth", "none", "--data"]);
    let refused = command.arg(folder.path().join("other")).output().expect("the binary runs");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("loopback"), "{refused:?}");
}

/// A store belongs to one controller at a time.
#[test]
fn a_second_controller_on_one_store_is_refused() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let alone = Alone::start(folder.path(), "none");
    wait_listening(&alone);
    let mut command = Command::new(CATENA);
    command.args(["controller", "--listen", "127.0.0.1:0", "--auth", "none", "--data"]);
    let second = command.arg(folder.path()).output().expect("the binary runs");
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(alone.ask(&[]).status.success());
}

/// Whoever read its output went away: that is no reason to stop.
#[test]
fn a_reader_that_goes_away_ends_neither_controller_nor_verb() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let mut alone = Alone::start(folder.path(), "none");
    drop(alone.child.stdout.take());
    assert!(wait_listening(&alone).status.success());
    assert!(alone.child.try_wait().expect("it can be looked at").is_none());
    let mut verb = Command::new(CATENA);
    verb.args(["--url", &alone.url, "status"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut verb = verb.spawn().expect("the binary starts");
    drop(verb.stdout.take());
    let output = verb.wait_with_output().expect("it ends");
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(!wrong.contains("panicked"), "{wrong}");
}
