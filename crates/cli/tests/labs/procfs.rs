//! What `/proc` and `/sys` say of processes, namespaces, sockets and links of this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A process that is not a zombie.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) words: Vec<String>,
}

impl Process {
    /// How long its threads of a name were ready to run and no processor was free, together.
    pub(crate) fn waited(&self, thread: &str) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten();
        let of = |task: fs::DirEntry| -> Option<u64> {
            let is_it = fs::read_to_string(task.path().join("comm")).ok()?.trim() == thread;
            let times = fs::read_to_string(task.path().join("schedstat")).ok().filter(|_| is_it)?;
            times.split(' ').nth(1)?.parse().ok()
        };
        Duration::from_nanos(tasks.flatten().filter_map(of).sum())
    }
}

fn text(bytes: &[u8]) -> Vec<String> {
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// All living processes that were born with `mark` in their environment.
pub(crate) fn marked(mark: &str) -> Vec<Process> {
    let is_marked = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| text(&bytes).iter().any(|v| v == mark))
    };
    let mut found: Vec<Process> = pids()
        .filter(is_marked)
        .filter_map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned();
            let words = text(&fs::read(format!("/proc/{pid}/cmdline")).ok()?);
            Some(Process { pid, name, words })
        })
        .collect();
    found.sort();
    found
}

/// Numbers of the network namespaces that a process is in, or that its mounts hold.
pub(crate) fn net_namespaces(pid: u32) -> BTreeSet<u64> {
    let own = fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = own.and_then(|link| number_in(link.to_str()?));
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| number_in(line.split(' ').nth(3)?));
    mounted.chain(own).collect()
}

/// `net:[4026531840]`.
fn number_in(text: &str) -> Option<u64> {
    text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// Network namespaces that any process of this machine holds.
pub(crate) fn all_net_namespaces() -> BTreeSet<u64> {
    pids().flat_map(net_namespaces).collect()
}

/// Is an abstract Unix socket of this name open?
pub(crate) fn has_abstract_socket(name: &str) -> bool {
    let sockets = fs::read_to_string("/proc/net/unix").expect("/proc is mounted");
    let wanted = format!("@{name}");
    sockets.lines().any(|line| line.rsplit(' ').next() == Some(wanted.as_str()))
}

/// The links of this machine with index, MTU, address and flags.
pub(crate) fn links() -> BTreeMap<String, [String; 4]> {
    let entries = fs::read_dir("/sys/class/net").expect("/sys is mounted").flatten();
    let look = |path: &Path, what: &str| {
        fs::read_to_string(path.join(what)).unwrap_or_default().trim().to_owned()
    };
    entries
        .map(|entry| {
            let values = ["ifindex", "mtu", "address", "flags"];
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, values.map(|what| look(&entry.path(), what)))
        })
        .collect()
}

/// Every file below a folder.
pub(crate) fn files_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
            files.insert(entry.path());
        }
    }
    files
}
