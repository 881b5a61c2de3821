//! However a lab is killed, and whenever, nothing of it stays on the machine.

use crate::house::{CATENA, LAB, lab_name, new_mark, renamed_lab, turn};
use crate::patience::{Chance, is_full, wait_for};
use crate::procfs::{self, Process};
use catena_kernel::process::spawn_bound;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REPEATS: usize = 20;
/// From before the first namespace to well after the lab stands.
const MOMENT_MS_MAX: u64 = 2_500;
/// How often the namespaces of a lab are looked at while it lives.
const LOOK: Duration = Duration::from_millis(30);

fn name() -> String {
    lab_name("ending")
}

/// Whom the kill hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Starter,
    Supervisor,
    First,
    Group,
    /// Ctrl-C at the terminal.
    Interrupted,
    /// A polite end of the starter.
    Terminated,
}

const VICTIMS: [Victim; 4] = [Victim::Starter, Victim::Supervisor, Victim::First, Victim::Group];

/// A lab that will not live long.
struct Doomed {
    starter: Child,
    mark: String,
    namespaces: BTreeSet<u64>,
}

impl Doomed {
    fn start(folder: &Path, options: &[&str]) -> Self {
        let (variable, value) = new_mark();
        // Who starts the tests in the background ignores interrupts, and so would the lab.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", CATENA, "lab", "up"]).args(options);
        command.arg(folder.join(LAB));
        command.env(variable, &value).current_dir(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let starter = spawn_bound(command).expect("the binary starts");
        let mark = format!("{variable}={value}");
        Self { starter, mark, namespaces: BTreeSet::new() }
    }

    /// Lets it live for a while, looking at what it has.
    fn live(&mut self, time: Duration, own: &BTreeSet<u64>) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.look(own);
            std::thread::sleep(LOOK.min(time.saturating_sub(start.elapsed())));
        }
    }

    fn look(&mut self, own: &BTreeSet<u64>) {
        for process in procfs::marked(&self.mark) {
            self.namespaces.extend(procfs::net_namespaces(process.pid).difference(own));
        }
    }

    fn named(&self, name: &str) -> Option<Process> {
        procfs::marked(&self.mark).into_iter().find(|process| process.name == name)
    }

    /// Kills; a victim that is not born yet is spared and the starter hit instead.
    fn kill(&self, victim: Victim) -> Victim {
        let starter = pid(self.starter.id());
        let inside = match victim {
            Victim::Supervisor => self.named("lab-supervisor"),
            Victim::First => self.named("lab-init"),
            _ => None,
        };
        // Whoever is gone already needs no kill.
        match (victim, inside) {
            (Victim::Group, _) => drop(kill_process_group(starter, Signal::KILL)),
            (Victim::Interrupted, _) => drop(kill_process_group(starter, Signal::INT)),
            (Victim::Terminated, _) => drop(kill_process(starter, Signal::TERM)),
            (_, Some(process)) => drop(kill_process(pid(process.pid), Signal::KILL)),
            (_, None) => {
                let _ = kill_process(starter, Signal::KILL);
                return Victim::Starter;
            }
        }
        victim
    }
}

fn pid(number: u32) -> Pid {
    i32::try_from(number).ok().and_then(Pid::from_raw).expect("a process number")
}

/// What the machine looks like to a neat person.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    links: std::collections::BTreeMap<String, [String; 4]>,
    files: BTreeSet<PathBuf>,
    has_socket: bool,
}

impl Machine {
    fn look(folder: &Path) -> Self {
        let files = [Path::new("/run"), folder].into_iter().flat_map(procfs::files_below).collect();
        let has_socket = procfs::has_abstract_socket(&format!("catena-lab-{}", name()));
        Self { links: procfs::links(), files, has_socket }
    }
}

/// Waits until nothing of the lab is left, and compares the machine with what it was.
fn assert_nothing_is_left(mut doomed: Doomed, before: &Machine, folder: &Path, story: &str) {
    doomed.starter.wait().expect("the starter can be waited for");
    wait_for(&format!("{story}: the machine as it was"), || {
        let left = procfs::marked(&doomed.mark);
        if !left.is_empty() {
            return Err(format!("{left:?}"));
        }
        let held = procfs::all_net_namespaces();
        if let Some(namespace) = doomed.namespaces.intersection(&held).next() {
            return Err(format!("namespace {namespace} is held"));
        }
        let now = Machine::look(folder);
        if now == *before { Ok(()) } else { Err(format!("{now:?}, not {before:?}")) }
    });
    let found = Command::new(CATENA).args(["lab", "status", &name()]).output().expect("it runs");
    assert_eq!(found.status.code(), Some(1), "{story}");
    let said = String::from_utf8_lossy(&found.stderr);
    assert!(said.contains(&name()), "{story}: {said}");
}

#[test]
fn a_lab_leaves_nothing_however_it_is_killed() {
    let repeats = if is_full() { 200 } else { REPEATS };
    assert_leaves_nothing("a_lab_leaves_nothing_however_it_is_killed", &VICTIMS, repeats);
}

#[test]
fn a_lab_leaves_nothing_when_it_is_interrupted() {
    let victims = [Victim::Interrupted, Victim::Terminated];
    assert_leaves_nothing("a_lab_leaves_nothing_when_it_is_interrupted", &victims, 6);
}

fn assert_leaves_nothing(test: &str, victims: &[Victim], repeats: usize) {
    let _turn = turn();
    let mut chance = Chance::new(test);
    let folder = renamed_lab("pair.yaml", &name());
    let own = procfs::all_net_namespaces();
    let before = Machine::look(folder.path());
    assert!(!before.has_socket, "a lab of the name runs");
    let mut most_namespaces = 0;
    for repeat in 0..repeats {
        let victim = victims[repeat % victims.len()];
        let moment = Duration::from_millis(chance.below(MOMENT_MS_MAX));
        let mut doomed = Doomed::start(folder.path(), &[]);
        doomed.live(moment, &own);
        doomed.look(&own);
        let hit = doomed.kill(victim);
        let count = doomed.namespaces.len();
        most_namespaces = most_namespaces.max(count);
        let story =
            format!("{repeat}: {hit:?} for {victim:?} after {moment:?}, {count} namespaces");
        println!("{story}");
        assert_nothing_is_left(doomed, &before, folder.path(), &story);
    }
    assert!(most_namespaces > 0, "no lab lived long enough to have anything");
}

/// In the background nobody holds it; its own processes' death still takes everything along.
#[test]
fn a_detached_lab_outlives_its_starter_and_leaves_nothing_when_it_ends() {
    let _turn = turn();
    let folder = renamed_lab("pair.yaml", &name());
    let own = procfs::all_net_namespaces();
    let before = Machine::look(folder.path());
    for ending in [Some(Victim::Supervisor), Some(Victim::First), None] {
        let mut doomed = Doomed::start(folder.path(), &["--detach"]);
        let ended = doomed.starter.wait().expect("the starter can be waited for");
        assert!(ended.success(), "{ended}");
        doomed.look(&own);
        assert!(!doomed.namespaces.is_empty());
        match ending {
            Some(victim) => assert_eq!(doomed.kill(victim), victim),
            None => {
                let down = Command::new(CATENA).args(["lab", "down", &name()]).status();
                assert!(down.expect("it runs").success());
                assert_eq!(procfs::marked(&doomed.mark), [], "down answers when all is gone");
            }
        }
        assert_nothing_is_left(doomed, &before, folder.path(), &format!("detached, {ending:?}"));
    }
}

#[test]
fn a_second_lab_of_a_name_is_refused_and_the_first_stays() {
    let _turn = turn();
    let folder = renamed_lab("pair.yaml", &name());
    let mut first = Doomed::start(folder.path(), &["--detach"]);
    assert!(first.starter.wait().expect("it ends").success());
    let file = folder.path().join(LAB);
    let second = Command::new(CATENA).args(["lab", "up"]).arg(&file).output().expect("it runs");
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains(&format!("catena lab down {}", name())), "{said}");
    let status = Command::new(CATENA).args(["lab", "status", &name()]).output().expect("it runs");
    assert!(status.status.success());
    assert!(
        Command::new(CATENA).args(["lab", "down", &name()]).status().expect("it runs").success()
    );
}

/// A lab in the foreground that is told to stop is gone when its starter answers, and that is no
/// failure.
#[test]
fn a_lab_that_is_told_to_stop_ends_without_a_complaint() {
    let _turn = turn();
    let folder = renamed_lab("pair.yaml", &name());
    let before = Machine::look(folder.path());
    let (variable, value) = new_mark();
    let mut command = Command::new(CATENA);
    command.args(["lab", "up"]).arg(folder.path().join(LAB)).env(variable, &value);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut starter = spawn_bound(command).expect("the binary starts");
    let lines = BufReader::new(starter.stdout.take().expect("a pipe")).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("Ctrl-C")), "it did not come up");
    let mark = format!("{variable}={value}");
    let mut doomed = Doomed { starter, mark, namespaces: BTreeSet::new() };
    kill_process(pid(doomed.starter.id()), Signal::TERM).expect("it runs");
    let ended = doomed.starter.wait().expect("it ends");
    assert!(ended.success(), "{ended}");
    assert_eq!(procfs::marked(&doomed.mark), [], "it answers when all is gone");
    assert_nothing_is_left(doomed, &before, folder.path(), "told to stop");
}
