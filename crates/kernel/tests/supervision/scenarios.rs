//! The scenarios: each starts roles, ends one of them, and looks at what is left.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::Netlink;
use catena_kernel::process::{
    Isolation, PidFd, die_with_parent, inherit_fds, spawn_inside, spawn_isolated,
};
use catena_kernel::signals::Signal;

use crate::Scenario;
use crate::roles::role;

pub(crate) const ALL: &[Scenario] = &[
    ("killing the first process leaves nothing", killing_the_first_process_leaves_nothing),
    ("a killed parent takes its isolated child along", a_killed_parent_takes_its_isolated_child),
    ("no moment of killing leaves anything behind", no_moment_of_killing_leaves_anything),
    ("isolation of a child changes nothing of the caller", the_caller_stays_where_it_is),
    ("a child started inside a lab sees it and dies with it", a_child_inside_dies_with_the_lab),
    ("the first process ends as the main one does", the_first_process_ends_as_the_main_one),
    ("the first process passes signals on", the_first_process_passes_signals_on),
    ("a bound child outlives the thread but not the process", a_bound_child_dies_with_the_process),
    ("a child that is tied dies with its parent's thread", a_tied_child_dies_with_the_thread),
    ("a descriptor is inherited under its number", a_descriptor_is_inherited),
    ("signals are collected one after the other", signals_are_collected),
    ("a program that is missing is an error of the start", a_missing_program_is_an_error),
];

/// Only a failing scenario ever waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

fn everything() -> Isolation {
    Isolation { net: true, pid: true, mount: true, dies_with_parent: true, keep_fds: Vec::new() }
}

/// A word that no other process on this machine has among its arguments.
fn mark(letter: char) -> String {
    format!("{letter}{}", std::process::id())
}

/// Processes that have `mark` among their arguments, zombies left out (their arguments are gone).
fn marked(mark: &str) -> BTreeSet<u32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let number = entry.ok()?.file_name().to_str()?.parse::<u32>().ok()?;
        let arguments = fs::read(format!("/proc/{number}/cmdline")).ok()?;
        arguments.split(|byte| *byte == 0).any(|a| a == mark.as_bytes()).then_some(number)
    });
    processes.collect()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn wait_gone(process: &PidFd) {
    wait_until("a process must end", || process.has_exited().unwrap());
}

fn links_of_this_machine() -> Vec<(u32, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut links: Vec<_> = runtime.block_on(async {
        let links = Netlink::open(&NetNamespace::current().unwrap()).unwrap().links().await;
        links.unwrap().into_iter().map(|link| (link.index, link.name)).collect()
    });
    links.sort();
    links
}

fn line_of(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

fn killing_the_first_process_leaves_nothing() {
    let (mark, before) = (mark('l'), links_of_this_machine());
    let mut command = role(&["lab", &mark]);
    command.stdout(Stdio::piped());
    let mut lab = spawn_isolated(command, everything()).unwrap();
    assert_eq!(line_of(&mut lab), "ready");
    let processes: Vec<PidFd> =
        marked(&mark).into_iter().map(|pid| PidFd::open(pid).unwrap()).collect();
    assert_eq!(processes.len(), 3, "the first process and one in each namespace");
    assert_eq!(links_of_this_machine(), before, "its links are its own");
    assert!(!fs::exists("/run/netns/S").unwrap(), "its mounts are its own");
    lab.kill().unwrap();
    lab.wait().unwrap();
    processes.iter().for_each(wait_gone);
    assert_eq!(marked(&mark), BTreeSet::new());
    assert_eq!(links_of_this_machine(), before);
}

fn a_killed_parent_takes_its_isolated_child() {
    let mark = mark('p');
    let mut starter = role(&["starter", &mark]).stdout(Stdio::piped()).spawn().unwrap();
    let child = PidFd::open(line_of(&mut starter).parse().unwrap()).unwrap();
    assert_eq!(marked(&mark).len(), 4);
    assert!(!child.has_exited().unwrap());
    starter.kill().unwrap();
    starter.wait().unwrap();
    wait_gone(&child);
    wait_until("nothing marked is left", || marked(&mark).is_empty());
}

fn no_moment_of_killing_leaves_anything() {
    const MOMENTS: u64 = 40;
    let before = links_of_this_machine();
    for moment in 0..MOMENTS {
        let mark = format!("{}k{moment}", mark('m'));
        let mut starter = role(&["starter", &mark]).stdout(Stdio::null()).spawn().unwrap();
        // From before its start has finished to after all its children run.
        thread::sleep(Duration::from_micros(moment * 700));
        starter.kill().unwrap();
        starter.wait().unwrap();
        wait_until("nothing marked is left", || marked(&mark).is_empty());
    }
    assert_eq!(links_of_this_machine(), before);
}

fn the_caller_stays_where_it_is() {
    let own = |kind: &str| fs::read_link(format!("/proc/thread-self/ns/{kind}")).unwrap();
    let kinds = ["net", "mnt", "pid", "pid_for_children"];
    let before = kinds.map(own);
    let mut isolated = spawn_isolated(role(&["sleep"]), everything()).unwrap();
    assert_eq!(kinds.map(own), before);
    let mut ordinary = role(&["sleep"]).spawn().unwrap();
    for kind in ["net", "mnt", "pid"] {
        let of = |child: &Child| fs::read_link(format!("/proc/{}/ns/{kind}", child.id())).unwrap();
        assert_eq!(of(&ordinary), own(kind), "later children are not isolated");
        assert_ne!(of(&isolated), own(kind));
    }
    for child in [&mut isolated, &mut ordinary] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn a_child_inside_dies_with_the_lab() {
    let mark = mark('i');
    let mut command = role(&["lab", &mark]);
    command.stdout(Stdio::piped());
    let mut lab = spawn_isolated(command, everything()).unwrap();
    assert_eq!(line_of(&mut lab), "ready");
    let held = PidFd::open(lab.id()).unwrap();
    let mut inside = Command::new("sh");
    let script = "test $$ -lt 100 && ls /run/netns /proc/1/ns/net && ls -d /sys; echo end; cat";
    inside.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut inside = spawn_inside(inside, &held).unwrap();
    let lines = BufReader::new(inside.stdout.take().unwrap()).lines().map(Result::unwrap);
    let seen: Vec<String> = lines.take_while(|line| line != "end").collect();
    assert!(
        ["/proc/1/ns/net", "D", "S"].iter().all(|name| seen.iter().any(|s| s == name)),
        "{seen:?}"
    );
    let _input_stays_open = inside.stdin.take();
    lab.kill().unwrap();
    assert!(!inside.wait().unwrap().success(), "killed with the lab");
    lab.wait().unwrap();
}

fn the_first_process_ends_as_the_main_one() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -9 $$", 128 + 9),
        // Orphans, of which one ends before and one after the main process.
        ("(sleep 0 &) ; (sleep 3600 &) ; sleep 0.05; exit 3", 3),
    ] {
        let mut child = spawn_isolated(role(&["init", script]), everything()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{script}");
    }
}

fn the_first_process_passes_signals_on() {
    let script = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.01; done";
    let mut command = role(&["init", script]);
    command.stdout(Stdio::piped());
    let mut child = spawn_isolated(command, everything()).unwrap();
    assert_eq!(line_of(&mut child), "ready");
    PidFd::open(child.id()).unwrap().signal(Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

fn a_bound_child_dies_with_the_process() {
    let mark = mark('b');
    let mut binder = role(&["binder", &mark]).stdout(Stdio::piped()).spawn().unwrap();
    let child = PidFd::open(line_of(&mut binder).parse().unwrap()).unwrap();
    assert!(!child.has_exited().unwrap(), "the thread that asked for it has ended");
    binder.kill().unwrap();
    binder.wait().unwrap();
    wait_gone(&child);
}

fn a_tied_child_dies_with_the_thread() {
    let start = || {
        let mut command = role(&["sleep"]);
        die_with_parent(&mut command);
        command.spawn().unwrap()
    };
    let mut child = thread::spawn(start).join().unwrap();
    wait_gone(&PidFd::open(child.id()).unwrap());
    child.wait().unwrap();
}

fn a_descriptor_is_inherited() {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let mut command = role(&["write", &writer.as_raw_fd().to_string()]);
    inherit_fds(&mut command, vec![writer]);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut text = String::new();
    fs::File::from(reader).read_to_string(&mut text).unwrap();
    assert_eq!(text, "inherited");
    assert!(child.wait().unwrap().success());
}

fn signals_are_collected() {
    let mut child = role(&["terminated"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "waiting");
    PidFd::open(child.id()).unwrap().signal(Signal::TERM).unwrap();
    assert!(lines.next().unwrap().unwrap().contains("TERM"));
    assert!(child.wait().unwrap().success());
}

fn a_missing_program_is_an_error() {
    let missing = Command::new("/nonexistent/catena");
    let error = spawn_isolated(missing, everything()).unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert!(error.to_string().contains("/nonexistent/catena"), "{error}");
}
