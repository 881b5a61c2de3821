//! A function of somebody's own, as the book's page walks through it: the page's commands are taken word by word, and
//! what they make runs alone and apart. Knows the page; refuses to know the code that it shows.

use crate::account::{self, ChainTotal};
use crate::bump::{PINGS, Row, SERVER, end, number};
use crate::deaths::wait_gone;
use crate::house::{CATENA, House, in_shared_house, turn};
use crate::patience::{is_full, wait_for};
use crate::procfs::Process;
use crate::traffic::{Family, address};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const PAGE: &str = include_str!("../../../../docs/book/src/functions/own.md");
const NAME: &str = "my-filter";
/// Where the page has its project.
const INSTALLED: &str = "/opt/my-filter";
const RULE: &str = "TTL below 5";
/// A time to live that is too short, as pings and sockets are told.
const SHORT: u32 = 4;
const SHORTS: u64 = 3;
const PORT: u16 = 5_230;
const PATIENCE: Duration = Duration::from_secs(20);

/// The blocks of the page in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let parts = PAGE.split("\n```").skip(1).step_by(2);
    let of = |part: &'static str| part.strip_prefix(language)?.strip_prefix('\n');
    parts.filter_map(of).collect()
}

/// The block that has these words.
fn block(language: &str, words: &str) -> &'static str {
    let found: Vec<_> = blocks(language).into_iter().filter(|one| one.contains(words)).collect();
    assert_eq!(found.len(), 1, "{words} in {language}");
    found[0]
}

/// A shell where the page's reader would be: with `catena` and `cargo`, and nothing to be fetched.
fn shell(folder: &Path, script: &str) -> Command {
    let folders = [CATENA, env!("CARGO")].map(|program| Path::new(program).parent().expect("one"));
    let folders = folders.map(|folder| folder.display().to_string()).join(":");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(folder).env("PATH", format!("{folders}:{path}"));
    // Its speed is nobody's concern here, and it is built in a moment.
    for (setting, value) in [("OPT_LEVEL", "0"), ("DEBUG", "false"), ("CODEGEN_UNITS", "16")] {
        command.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
    }
    command.env("CARGO_NET_OFFLINE", "true").env_remove("CARGO_TARGET_DIR");
    command
}

fn done(mut command: Command) -> String {
    let output = command.output().expect("a shell");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// Makes the project; in the full test it is tested and built by cargo, too. Its libraries are built once and stay,
/// beside what cargo builds of ours.
fn build() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-function");
    let (project, built) = (folder.join(NAME), folder.join("target"));
    fs::create_dir_all(&built).expect("a folder");
    if project.exists() {
        fs::remove_dir_all(&project).expect("it goes");
    }
    let create = blocks("sh")[0];
    assert!(create.starts_with("catena function create"), "{create}");
    let said = done(shell(&folder, create));
    assert!(said.contains(NAME), "{said}");
    let code = fs::read_to_string(project.join("src/main.rs")).expect("the code");
    assert!(code.lines().count() < 60, "{code}");
    for shown in blocks("rust") {
        assert!(code.contains(shown.trim_matches('\n')), "the page shows other code: {shown}");
    }
    let example = Path::new(CATENA).parent().expect("a folder").join("examples/filter");
    if !is_full() && example.is_file() {
        // The same code, which is built and tested with all others: a minute less.
        let programs = project.join("target/release");
        fs::create_dir_all(&programs).expect("a folder");
        fs::copy(example, programs.join(NAME)).expect("a program");
        return project;
    }
    symlink(&built, project.join("target")).expect("a link");
    let said = done(shell(&project, block("sh", "cargo test")));
    assert!(said.contains("test the_profile_is_true ... ok"), "{said}");
    assert_lies_are_found(&project, &code);
    done(shell(&project, block("sh", "cargo build")));
    project
}

/// A function that reads what its profile does not say fails its test.
fn assert_lies_are_found(project: &Path, code: &str) {
    let ends = "let ends = ttl.is_some_and(|ttl| ttl < self.bound.into());";
    let reads = "let ends = Field::Source.read(packet.frame, &packet.view).is_some_and(|from| from & 1 == 0);";
    assert_eq!(code.matches(ends).count(), 1, "{code}");
    let file = project.join("src/main.rs");
    fs::write(&file, code.replace(ends, &format!("{ends}\n{reads}"))).expect("a file");
    let output = shell(project, block("sh", "cargo test")).output().expect("a shell");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success() && said.contains("fault: Read"), "{said}");
    fs::write(&file, code).expect("a file");
}

/// The program of the page between the interfaces of the page.
fn start(row: &Row, project: &Path) -> Child {
    let run = format!("cd {} && exec {}", project.display(), block("sh", "--in near0"));
    let mut child = row.bump.start("sh", &["-euc", &run]);
    let mut said = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    assert_eq!(line, "runs between near0 and near1\n");
    child
}

fn assert_walled(pid: u32) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let has =
        |line: &str| status.lines().any(|one| one.split_whitespace().collect::<String>() == line);
    assert!(has("CapEff:0000000000000000") && has("CapBnd:0000000000000000"), "{status}");
    assert!(has("Seccomp:2") && has("NoNewPrivs:1"), "{status}");
}

/// What a host sends by itself for its neighbours alone (MLD) has a short time to live, too.
fn assert_ended_by_name(account: &Value) {
    let rules = account["dropped"]["rules"].as_array().expect("rules");
    assert!(rules.len() == 1 && rules[0]["rule"] == RULE, "{account}");
    assert!(rules[0]["packets"].as_u64() >= Some(SHORTS), "{account}");
    assert_eq!(account["dropped"]["reasons"], json!({}), "{account}");
    assert_eq!(account["unaccounted"], 0, "{account}");
}

/// Without a controller: what is long enough under way passes, and the rest ends by name.
fn run_alone(project: &Path) {
    let row = Row::new();
    let child = start(&row, project);
    row.ping(SERVER, PINGS);
    assert_walled(child.id());
    let (count, ttl) = (SHORTS.to_string(), SHORT.to_string());
    let lost =
        row.client.attempt("ping", &["-c", &count, "-i", "0.05", "-W", "1", "-t", &ttl, SERVER]);
    assert_eq!(lost.status.code(), Some(1), "ping gets no answer: {lost:?}");
    row.ping(SERVER, PINGS);
    let account = end(child);
    assert_ended_by_name(&account);
    assert!(number(&account, "/sent/out") >= 2 * PINGS, "{account}");

    // What it cannot be made of, and where it cannot stand, is said.
    let program = project.join("target/release").join(NAME).display().to_string();
    fs::write(project.join("wrong"), "five\n").expect("a file");
    let wrong = project.join("wrong").display().to_string();
    for (words, reason) in [
        (["--config", &wrong, "--in", "near0", "--out", "near1"], "wrong: no TTL"),
        (["--config", "/nix", "--in", "near0", "--out", "near1"], "/nix cannot be read"),
        (["--eve", "/proc/none/x", "--in", "near0", "--out", "near0"], "both near0"),
    ] {
        let refused = row.bump.attempt(&program, &words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(reason), "{words:?}: {said}");
    }
}

/// Sends datagrams with such a time to live.
fn send(from: &UdpSocket, ttl: u32, count: u64) {
    from.set_ttl(ttl).expect("it can be set");
    let to = SocketAddr::new(address("D", Family::V4), PORT);
    for _ in 0..count {
        from.send_to(b"hello", to).expect("it leaves");
    }
}

fn instance(house: &House) -> Option<Process> {
    let is_it = |process: &Process| process.words.iter().any(|word| word.ends_with(NAME));
    house.processes().into_iter().find(is_it)
}

/// The last account in an instance's log, once it has this in it.
fn account_of(instance: &Process) -> Value {
    let pid = i32::try_from(instance.pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::USR1).expect("it runs");
    wait_for("its account", || {
        let log = fs::read_to_string(format!("/proc/{}/fd/1", instance.pid));
        let log = log.map_err(|error| error.to_string())?;
        let line = log.lines().rfind(|line| line.starts_with('{')).ok_or(log.clone())?;
        serde_json::from_str(line).map_err(|error| format!("{error}: {log}"))
    })
}

/// As the command of a template, in a chain.
fn run_apart(house: &House, project: &Path) {
    let before = house.declared();
    let folder = tempfile::tempdir().expect("a folder");
    let document = block("yaml", "through:");
    assert_eq!(document.matches(INSTALLED).count(), 2, "{document}");
    let document = document.replace(INSTALLED, &project.display().to_string());
    fs::write(folder.path().join("chain.yaml"), document).expect("a file");
    let mut apply = shell(folder.path(), block("sh", "catena apply"));
    apply.env("CATENA_URL", house.client.base());
    let said = done(apply);
    assert!(said.contains("chain filtered   active"), "{said}");
    wait_for("its process", || {
        let shown = house.tell(&["function", "show", NAME]);
        if shown.contains("✓ InstancesReady: 1 of 1") { Ok(()) } else { Err(shown) }
    });
    let instance = instance(house).expect("a process");

    let far = SocketAddr::new(address("D", Family::V4), PORT);
    let far = house.node("D").inside(|| UdpSocket::bind(far)).expect("a free port");
    let near = (address("S", Family::V4), PORT);
    let near = house.node("S").inside(|| UdpSocket::bind(near)).expect("a free port");
    far.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    send(&near, SHORT, SHORTS);
    send(&near, 64, PINGS);
    let mut bytes = [0; 64];
    for _ in 0..PINGS {
        far.recv(&mut bytes).expect("it arrives");
    }
    // One flow stays in its order: what was sent before has ended.
    far.set_nonblocking(true).expect("it does not wait");
    let nothing = far.recv(&mut bytes).expect_err("nothing more arrives");
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    assert_walled(instance.pid);
    let account = account_of(&instance);
    assert_ended_by_name(&account);
    // Each once: the kernel of its namespace forwards nothing beside it.
    let hop = (NAME.to_owned(), SHORTS + PINGS, PINGS);
    wait_for("the chain's account", || {
        let total = ChainTotal::of(&house.chain("filtered"));
        if total.hops.get(&0) == Some(&hop) { Ok(()) } else { Err(format!("{total:?}")) }
    });
    account::assert_holds(house);
    house.tell(&[
        "apply",
        "-f",
        &folder.path().join("chain.yaml").display().to_string(),
        "--undeploy",
    ]);
    wait_gone(house, &instance);
    assert_eq!(house.declared(), before, "nothing of it is left");
}

#[test]
fn the_books_walk_makes_a_function_that_runs_alone_and_apart() {
    let project = {
        let _turn = turn();
        let project = build();
        run_alone(&project);
        project
    };
    in_shared_house(|house| run_apart(house, &project));
}

#[test]
fn what_keeps_a_project_from_being_written_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("full")).expect("a folder");
    fs::write(folder.path().join("full/mine"), "mine").expect("a file");
    let create = |words: &[&str]| {
        let mut command = Command::new(CATENA);
        // Nobody is asked: there is no controller.
        command.args(["--url", "http://127.0.0.1:9", "function", "create"]).args(words);
        let output = command.current_dir(folder.path()).output().expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (words, code, reason) in [
        (vec!["--template", "filter", "full"], 1, "not there yet"),
        (vec!["--template", "filter", "full/mine"], 1, "not there yet"),
        (vec!["--template", "filter", "My Filter"], 2, "small letters"),
        (vec!["--template", "filter", "own", "--catena", "full"], 1, "checkout by --catena"),
        (vec!["--template", "none", "own"], 2, "filter"),
        (vec!["own"], 2, "--template"),
    ] {
        let (given, said) = create(&words);
        assert_eq!(given, Some(code), "{words:?}: {said}");
        assert!(said.contains(reason), "{words:?}: {said}");
    }
    assert!(!folder.path().join("own").exists());
    assert_eq!(fs::read_dir(folder.path().join("full")).expect("a folder").count(), 1);
    let (code, said) = create(&["--template", "filter", "deep/down/own"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(folder.path().join("deep/down/own/src/main.rs").exists());
}
