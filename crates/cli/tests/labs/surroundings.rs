//! Labs in unfriendly surroundings: a chain that cannot stand, a stranger under the lab's name, a
//! program and a file below `/run`, of which the inside of a lab sees nothing.

use crate::house::{CATENA, LAB, lab_name, new_mark, renamed_lab, turn};
use crate::patience::wait_for;
use crate::procfs;
use catena_kernel::abstract_socket;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NOBODY: u32 = 65_534;

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn a_detached_lab_whose_chain_cannot_stand_says_so_and_leaves_nothing() {
    let _turn = turn();
    let name = lab_name("bad-chain");
    let folder = renamed_lab("pair.yaml", &name);
    let file = folder.path().join(LAB);
    let mut text = std::fs::read_to_string(&file).expect("a lab file");
    // v1 has no port on an internal network: only the deployment can find that out.
    text.push_str(
        "chains:\n  - {name: broken, source: S, destination: D, chain: [{name: v1, direction: in}]}\n",
    );
    std::fs::write(&file, text).expect("a lab file");
    let links = procfs::links();
    let (variable, value) = new_mark();
    let mut command = Command::new(CATENA);
    command.args(["lab", "up", "--detach"]).arg(&file).env(variable, &value);
    let output = command.output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("'v1', direction 'in'"), "{}", said(&output));
    let mark = format!("{variable}={value}");
    wait_for("the end of the lab", || {
        let left = procfs::marked(&mark);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    assert!(!procfs::has_abstract_socket(&format!("catena-lab-{name}")));
    assert_eq!(procfs::links(), links);
}

/// Somebody else who listens under a lab's name.
fn stranger(lab: &str) -> UnixListener {
    let listen = || {
        set_thread_res_uid(None, Uid::from_raw(NOBODY), None).expect("root may be anybody");
        abstract_socket::bind(&format!("catena-lab-{lab}")).expect("a free name")
    };
    // Only this thread becomes somebody else; it ends with its work.
    std::thread::scope(|scope| scope.spawn(listen).join().expect("it listens"))
}

#[test]
fn a_stranger_who_answers_for_a_lab_is_not_visited() {
    let _turn = turn();
    let name = lab_name("strange");
    let _stranger = stranger(&name);
    let folder = renamed_lab("pair.yaml", &name);
    let witness = folder.path().join("visited");
    let node = format!("{name}/S");
    let touch = witness.display().to_string();
    let file = folder.path().join(LAB).display().to_string();
    for words in [
        &["lab", "status", &name][..],
        &["lab", "down", &name],
        &["lab", "shell", &node, "touch", &touch],
        &["lab", "up", "--detach", &file],
    ] {
        let output = Command::new(CATENA).args(words).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(&name), "{words:?}: {}", said(&output));
    }
    assert!(!witness.exists());
    let output = Command::new(CATENA).args(["lab", "status"]).output().expect("the binary runs");
    assert!(!said(&output).contains(&name), "{}", said(&output));
}

/// A folder that goes with its value, whatever became of the test.
struct BelowRun(PathBuf);

impl BelowRun {
    fn new(name: &str) -> Self {
        let folder = Path::new("/run").join(name);
        std::fs::create_dir(&folder).expect("a folder below /run");
        Self(folder)
    }
}

impl Drop for BelowRun {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_program_and_a_lab_file_below_run_make_a_lab_like_any_other() {
    let _turn = turn();
    let name = lab_name("below-run");
    let folder = BelowRun::new(&name);
    let elsewhere = renamed_lab("pair.yaml", &name);
    let (program, file) = (folder.0.join("catena"), folder.0.join(LAB));
    std::fs::copy(CATENA, &program).expect("a copy of the binary");
    std::fs::copy(elsewhere.path().join(LAB), &file).expect("a copy of the lab file");
    let run = |words: &[&str]| {
        let mut command = Command::new(&program);
        let output = command.args(words).current_dir(&folder.0).output().expect("the binary runs");
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        said(&output)
    };
    let up = run(&["lab", "up", "--detach", LAB]);
    // It says what became of chains, and what can be tried with this program in this lab.
    assert!(up.contains("the file has no chain"), "{up}");
    let next = up.lines().find_map(|line| line.strip_prefix("next: ")).expect("what to try");
    let visit = next.split(" · ").find(|step| step.contains(" lab shell ")).expect("a node");
    let words: Vec<&str> = visit.split(' ').chain(["true"]).collect();
    assert_eq!(words[0], program.display().to_string());
    run(&words[1..]);
    let status = run(&["lab", "status", &name]);
    assert!(status.contains(&file.display().to_string()) || status.contains(LAB), "{status}");
    run(&["lab", "shell", &format!("{name}/S"), "ping", "-c", "1", "-W", "5", "10.10.0.11"]);
    run(&["lab", "down", &name]);
    assert!(!procfs::has_abstract_socket(&format!("catena-lab-{name}")));
}
