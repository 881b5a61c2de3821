//! Functions whose instances agents run: a command, and bundled functions in processes of their own. They stand in
//! chains, end and come back, go on while agents change, are replaced without breaking a connection, and leave nothing.

use crate::account;
use crate::bundled::{PATIENCE, SILENCE, connect, talk};
use crate::deaths::{kill, start_agent_again, wait_gone};
use crate::house::{House, in_own_house, in_shared_house};
use crate::patience::wait_for;
use crate::procfs::Process;
use crate::traffic::{Family, address};
use serde_json::Value;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

const PORT: u16 = 5_190;
const CLOSED: u16 = 5_191;

fn listen(house: &House, port: u16) -> TcpListener {
    let to = SocketAddr::new(address("D", Family::V4), port);
    house.node("D").inside(|| TcpListener::bind(to).expect("a free port"))
}

/// A chain through one function of this template.
fn document(template: &str) -> String {
    format!(
        "functions:\n  - {{name: own, template: {{{template}, networks: [customer], on: [host2]}}}}\n\
         chains:\n  - {{name: led, source: S, destination: D, classify: tcp, through: [own], symmetric: true}}\n"
    )
}

fn written(folder: &Path, template: &str) -> String {
    let file = folder.join("led.yaml");
    std::fs::write(&file, document(template)).expect("a file");
    file.display().to_string()
}

fn apply(house: &House, folder: &Path, template: &str) -> String {
    house.tell(&["apply", "-f", &written(folder, template), "--wait"])
}

/// What comes and goes may be there just when it is asked for: whether the chain is in force says nothing.
fn apply_in_vain(house: &House, folder: &Path, template: &str) {
    house.catena(&["apply", "-f", &written(folder, template), "--wait"]);
}

fn undeploy(house: &House, folder: &Path) {
    house.tell(&["apply", "-f", &folder.join("led.yaml").display().to_string(), "--undeploy"]);
}

/// The one process of these words.
fn process(house: &House, words: &[&str]) -> Process {
    let mut found = processes(house, words);
    assert_eq!(found.len(), 1, "{words:?}: {found:?}");
    found.remove(0)
}

fn processes(house: &House, words: &[&str]) -> Vec<Process> {
    let all = house.processes().into_iter();
    all.filter(|process| words.iter().all(|word| process.words.iter().any(|one| one == word)))
        .collect()
}

fn shown(house: &House) -> String {
    house.tell(&["function", "show", "own"])
}

fn wait_shown(house: &House, part: &str) {
    wait_for(part, || {
        let shown = shown(house);
        if shown.contains(part) { Ok(()) } else { Err(shown) }
    });
}

/// Namespaces of instances in the lab.
fn namespaces(house: &House) -> Vec<String> {
    let named = std::fs::read_dir(house.path("/run/netns")).into_iter().flatten().flatten();
    let names = named.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("catena-")).collect()
}

fn wait_for_nothing(house: &House, words: &[&str]) {
    wait_for("the end of all of it", || {
        let (names, left) = (namespaces(house), processes(house, words));
        if names.is_empty() && left.is_empty() {
            Ok(())
        } else {
            Err(format!("{names:?} {left:?}"))
        }
    });
}

#[test]
fn a_command_stands_in_its_chain_and_is_replaced_without_breaking_a_connection() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let before = house.declared();
        let listener = listen(house, PORT);
        let told = apply(house, folder.path(), "runs: {command: [sleep, '86401']}");
        assert!(told.contains("chain led   active"), "{told}");
        wait_shown(house, "✓ InstancesReady: 1 of 1 instances run");
        let mut near = connect(house, PORT, PATIENCE).expect("a namespace forwards");
        let (mut far, _) = listener.accept().expect("it arrives");
        talk(&mut near, &mut far);
        let first = process(house, &["sleep", "86401"]);

        // Another command is another instance: the former goes once no path leads to it.
        apply(house, folder.path(), "runs: {command: [sleep, '86402']}");
        talk(&mut near, &mut far);
        wait_gone(house, &first);
        talk(&mut near, &mut far);
        process(house, &["sleep", "86402"]);
        wait_for("the end of the former's namespace", || {
            let names = namespaces(house);
            if names.len() == 1 { Ok(()) } else { Err(format!("{names:?}")) }
        });
        account::assert_holds(house);

        // A closed door of the command's own making.
        let closed = "runs: {command: [sh, -c, 'nft add table ip t && nft add chain ip t f \
             \"{ type filter hook forward priority 0; }\" && nft add rule ip t f tcp dport 5191 drop && \
             exec sleep 86403']}";
        apply(house, folder.path(), closed);
        let open = listen(house, CLOSED);
        wait_shown(house, "✓ InstancesReady: 1 of 1 instances run");
        talk(&mut near, &mut far);
        let dropped = connect(house, CLOSED, SILENCE).expect_err("nft drops it");
        assert_eq!(dropped.kind(), ErrorKind::TimedOut);
        drop(open);

        undeploy(house, folder.path());
        wait_for_nothing(house, &["sleep"]);
        assert_eq!(house.declared(), before, "nothing of it is left");
    });
}

#[test]
fn an_instance_that_ends_comes_back_and_goes_on_while_agents_change() {
    in_own_house("house.yaml", |house| {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = listen(house, PORT);
        apply(house, folder.path(), "runs: {command: [sleep, '86411']}");
        let mut near = connect(house, PORT, PATIENCE).expect("a namespace forwards");
        let (mut far, _) = listener.accept().expect("it arrives");
        talk(&mut near, &mut far);

        let first = process(house, &["sleep", "86411"]);
        kill(&first);
        wait_gone(house, &first);
        wait_for("another process", || {
            let found = processes(house, &["sleep", "86411"]);
            if found.len() == 1 { Ok(()) } else { Err(format!("{found:?}")) }
        });
        wait_shown(house, "✓ InstancesReady: 1 of 1 instances run");
        let second = process(house, &["sleep", "86411"]);
        // TCP repeats what was lost meanwhile.
        talk(&mut near, &mut far);

        let agent = house.process("agent", Some("host2"));
        kill(&agent);
        wait_gone(house, &agent);
        talk(&mut near, &mut far);
        start_agent_again(house, "host2", &agent);
        wait_shown(house, "✓ InstancesReady: 1 of 1 instances run");
        assert_eq!(process(house, &["sleep", "86411"]).pid, second.pid, "it was found again");
        talk(&mut near, &mut far);

        // What ends at once is told with its end, and is started again and again.
        apply_in_vain(house, folder.path(), "runs: {command: [sh, -c, 'exit 7']}");
        wait_shown(house, "own at host2: it ended with exit code 7");
        apply_in_vain(house, folder.path(), "runs: {command: [no-such-program]}");
        wait_shown(house, "there is no program 'no-such-program' on this node");
        apply(house, folder.path(), "runs: {command: [sleep, '86412']}");
        wait_shown(house, "✓ InstancesReady: 1 of 1 instances run");
        talk(&mut near, &mut far);
        undeploy(house, folder.path());
        wait_for_nothing(house, &["sleep"]);
    });
}

#[test]
fn bounds_of_an_instance_are_those_of_its_control_group_and_go_with_it() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        // Of version 1 there is a tree for each controller, of version 2 one for all.
        let has_trees = Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists();
        if !has_trees && !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            println!(
                "SKIPPED: bounds_of_an_instance_are_those_of_its_control_group_and_go_with_it: no control groups are \
                 mounted"
            );
            return;
        }
        let group = |tree: &str| {
            let name = namespaces(house).pop().expect("an instance");
            Path::new("/sys/fs/cgroup").join(if has_trees { tree } else { "" }).join(name)
        };
        let quota = || {
            let file = if has_trees { "cpu.cfs_quota_us" } else { "cpu.max" };
            let text = std::fs::read_to_string(group("cpu").join(file)).unwrap_or_default();
            text.split_whitespace().next().unwrap_or_default().to_owned()
        };
        let bounded = |cpu: u32| {
            format!("runs: {{command: [sleep, '86421']}}, cpu_milli: {cpu}, memory_mib: 64")
        };
        apply(house, folder.path(), &bounded(250));
        wait_shown(house, "✓ InstancesReady: 1 of 1 instances run");
        let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(quota(), "25000");
        let file = if has_trees { "memory.limit_in_bytes" } else { "memory.max" };
        assert_eq!(read(group("memory").join(file)).trim(), "67108864");
        let first = process(house, &["sleep", "86421"]);
        assert!(
            read(group("cpu").join("cgroup.procs"))
                .lines()
                .any(|line| line == first.pid.to_string())
        );
        // Other bounds take no other process.
        apply(house, folder.path(), &bounded(500));
        wait_for("other bounds", || {
            let quota = quota();
            if quota == "50000" { Ok(()) } else { Err(quota) }
        });
        assert_eq!(process(house, &["sleep", "86421"]).pid, first.pid);
        let (cpu, memory) = (group("cpu"), group("memory"));
        undeploy(house, folder.path());
        wait_for_nothing(house, &["sleep"]);
        wait_for("the end of the control group", || {
            if cpu.exists() || memory.exists() { Err("it is there".to_owned()) } else { Ok(()) }
        });
    });
}

#[test]
fn a_bundled_function_apart_judges_and_tells_as_one_inside() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let rule = "drop tcp any any -> any any (msg:\"ended\"; flow:established,to_server; content:\"attack\"; \
                    sid:1000002;)\n";
        std::fs::write(folder.path().join("web.rules"), rule).expect("a file");
        let listener = listen(house, PORT);
        apply(house, folder.path(), "runs: {bundled: ips}, config: {file: web.rules}, door: apart");
        wait_shown(house, "✓ InstancesReady: 1 of 1 instances run");
        let mut near = connect(house, PORT, PATIENCE).expect("it passes");
        let (mut far, _) = listener.accept().expect("it arrives");
        talk(&mut near, &mut far);
        std::io::Write::write_all(&mut near, b"attack").expect("it leaves");
        let mut alert = None;
        wait_for("an alert", || {
            let told = house.tell(&["function", "alerts", "own"]);
            alert =
                told.lines().next().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            alert.is_some().then_some(()).ok_or("none".to_owned())
        });
        let alert = alert.expect("one");
        assert_eq!(alert["alert"]["signature_id"], 1_000_002, "{alert}");
        assert_eq!(alert["alert"]["action"], "blocked");
        far.set_read_timeout(Some(SILENCE)).expect("a timeout");
        let ended = std::io::Read::read(&mut far, &mut [0; 16]).expect_err("it ends there");
        assert!(matches!(ended.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{ended}");

        let walled = process(house, &["nf", "instance"]);
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", walled.pid)).expect("it runs");
        let has = |line: &str| {
            status.lines().any(|one| one.split_whitespace().collect::<String>() == line)
        };
        assert!(has("CapEff:0000000000000000") && has("CapBnd:0000000000000000"), "{status}");
        assert!(has("Seccomp:2") && has("NoNewPrivs:1"), "{status}");
        undeploy(house, folder.path());
        wait_for_nothing(house, &["instance"]);
    });
}

#[test]
fn packets_wait_in_a_shaper_apart_and_nowhere_else() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let config = "classes:\n  - {name: all, match: {}, rate: 2mbit, burst: 3000}\n";
        std::fs::write(folder.path().join("uplink.yaml"), config).expect("a file");
        let file = written(folder.path(), "runs: {bundled: shaper}, config: {file: uplink.yaml}");
        let told = house.refuse(&["apply", "-f", &file]);
        assert!(told.contains("door: apart"), "{told}");
    });
}
