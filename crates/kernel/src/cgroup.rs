//! Control groups: bounds of processor time and memory for the processes in them, by both versions of the interface
//! (cgroups(7)). The root path is an argument, so that tests can show another machine's. Refuses to know whose
//! processes they are.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::{KernelError, Result};

/// Where Linux has them.
pub const ROOT: &str = "/sys/fs/cgroup";
/// Processor time is shared out anew so often, in microseconds: the default of both versions.
const PERIOD_US: u64 = 100_000;
const US_PER_MILLI_CORE: u64 = PERIOD_US / 1_000;
/// Less than so much the kernel refuses, in microseconds.
const QUOTA_US_MIN: u64 = 1_000;
const BYTES_PER_MIB: u64 = 1024 * 1024;

/// What processes of a group may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Processor time, in thousandths of a core; none: no bound.
    pub cpu_milli: Option<u32>,
    /// Memory, in MiB; none: no bound.
    pub memory_mib: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// A tree for each controller.
    V1,
    /// One tree for all.
    V2,
}

/// The control groups of a machine.
#[derive(Debug, Clone)]
pub struct Cgroups {
    root: PathBuf,
    version: Version,
}

impl Cgroups {
    /// Those below a path, by the version that is there.
    ///
    /// # Errors
    /// [`KernelError::NotFoundYet`] if neither is mounted there.
    pub fn below(root: &Path) -> Result<Self> {
        let version = if root.join("cgroup.controllers").is_file() {
            Version::V2
        } else if ["cpu", "memory"].iter().all(|tree| root.join(tree).is_dir()) {
            Version::V1
        } else {
            let object = format!("control groups of processor and memory below {}", root.display());
            return Err(KernelError::not_found_yet(object));
        };
        Ok(Self { root: root.to_owned(), version })
    }

    /// What they are and which of processor time and memory they can bound, in a line for people.
    #[must_use]
    pub fn described(&self) -> String {
        let offered = match self.version {
            Version::V1 => "cpu memory".to_owned(),
            Version::V2 => {
                fs::read_to_string(self.root.join("cgroup.controllers")).unwrap_or_default()
            }
        };
        let has = |name: &str| offered.split_whitespace().any(|one| one == name);
        let bounds: Vec<&str> = [("cpu", "cpu_milli"), ("memory", "memory_mib")]
            .into_iter()
            .filter_map(|(controller, bound)| has(controller).then_some(bound))
            .collect();
        let version = if self.version == Version::V1 { 1 } else { 2 };
        match bounds.as_slice() {
            [] => format!("version {version}, without controllers of processor and memory"),
            bounds => format!("version {version}: bounds {}", bounds.join(" and ")),
        }
    }

    /// The folders of a group, whether it is there or not.
    #[must_use]
    pub fn folders(&self, name: &str) -> Vec<PathBuf> {
        match self.version {
            Version::V1 => ["cpu", "memory"].map(|tree| self.root.join(tree).join(name)).into(),
            Version::V2 => vec![self.root.join(name)],
        }
    }

    /// Makes a group, or takes the one that is there.
    ///
    /// # Errors
    /// The kernel refuses: who asks is not root, or version 2 has no such controllers to give.
    pub fn make(&self, name: &str) -> Result<Cgroup> {
        if self.version == Version::V2 {
            write(&self.root.join("cgroup.subtree_control"), "+cpu +memory")?;
        }
        let folders = self.folders(name);
        for folder in &folders {
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    let object = format!("control group {}", folder.display());
                    return Err(KernelError::system("make", object, error));
                }
                _ => {}
            }
        }
        Ok(Cgroup { version: self.version, folders })
    }
}

/// A group of processes.
#[derive(Debug, Clone)]
pub struct Cgroup {
    version: Version,
    folders: Vec<PathBuf>,
}

impl Cgroup {
    /// Bounds what is in it, from now on.
    ///
    /// # Errors
    /// The kernel refuses a number: less memory than is in use cannot be freed.
    pub fn limit(&self, limits: Limits) -> Result<()> {
        let quota =
            limits.cpu_milli.map(|milli| (u64::from(milli) * US_PER_MILLI_CORE).max(QUOTA_US_MIN));
        let bytes = limits.memory_mib.map(|mib| u64::from(mib) * BYTES_PER_MIB);
        let number = |value: Option<u64>, none: &str| {
            value.map_or_else(|| none.to_owned(), |v| v.to_string())
        };
        match (self.version, self.folders.as_slice()) {
            (Version::V1, [cpu, memory]) => {
                write(&cpu.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                write(&cpu.join("cpu.cfs_quota_us"), &number(quota, "-1"))?;
                write(&memory.join("memory.limit_in_bytes"), &number(bytes, "-1"))
            }
            (_, folders) => folders.iter().try_for_each(|group| {
                write(&group.join("cpu.max"), &format!("{} {PERIOD_US}", number(quota, "max")))?;
                write(&group.join("memory.max"), &number(bytes, "max"))
            }),
        }
    }

    /// Where a process enters it by writing its number.
    ///
    /// # Errors
    /// The group is gone.
    pub fn doors(&self) -> Result<Vec<OwnedFd>> {
        let open = |folder: &PathBuf| {
            let path = folder.join("cgroup.procs");
            let opened = OpenOptions::new().write(true).open(&path);
            opened
                .map(OwnedFd::from)
                .map_err(|e| KernelError::system("open", path.display().to_string(), e))
        };
        self.folders.iter().map(open).collect()
    }
}

/// Removes the folders of a group that no process is in any more. Was it empty? What is not there is removed already.
///
/// # Errors
/// The kernel refuses.
pub fn remove(folders: &[PathBuf]) -> Result<bool> {
    for folder in folders {
        match fs::remove_dir(folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(false),
            Err(error) => {
                let object = format!("control group {}", folder.display());
                return Err(KernelError::system("remove", object, error));
            }
        }
    }
    Ok(true)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let failed = |e| KernelError::system("write", format!("{text} to {}", path.display()), e);
    let mut file = File::options().write(true).open(path).map_err(failed)?;
    io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { cpu_milli: Some(250), memory_mib: Some(64) };

    /// A tree as the kernel shows it: files are there as soon as a folder is.
    fn tree(name: &str) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("catena-cgroup-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        root
    }

    fn files(folder: &Path, names: &[&str]) {
        fs::create_dir_all(folder).unwrap();
        names.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
    }

    fn read(path: PathBuf) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_tree_for_each_controller_is_bounded_in_both() {
        let root = tree("v1");
        files(&root.join("cpu/one"), &["cpu.cfs_period_us", "cpu.cfs_quota_us", "cgroup.procs"]);
        files(&root.join("memory/one"), &["memory.limit_in_bytes", "cgroup.procs"]);
        let groups = Cgroups::below(&root).unwrap();
        assert_eq!(groups.described(), "version 1: bounds cpu_milli and memory_mib");
        let group = groups.make("one").unwrap();
        group.limit(LIMITS).unwrap();
        assert_eq!(read(root.join("cpu/one/cpu.cfs_period_us")), "100000");
        assert_eq!(read(root.join("cpu/one/cpu.cfs_quota_us")), "25000");
        assert_eq!(read(root.join("memory/one/memory.limit_in_bytes")), "67108864");
        group.limit(Limits::default()).unwrap();
        assert!(read(root.join("cpu/one/cpu.cfs_quota_us")).starts_with("-1"));
        assert_eq!(group.doors().unwrap().len(), 2);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn one_tree_for_all_gives_its_controllers_on_first() {
        let root = tree("v2");
        files(&root, &["cgroup.controllers", "cgroup.subtree_control"]);
        files(&root.join("one"), &["cpu.max", "memory.max", "cgroup.procs"]);
        let groups = Cgroups::below(&root).unwrap();
        assert_eq!(groups.described(), "version 2, without controllers of processor and memory");
        fs::write(root.join("cgroup.controllers"), "cpuset cpu io\n").unwrap();
        assert_eq!(groups.described(), "version 2: bounds cpu_milli");
        let group = groups.make("one").unwrap();
        group.limit(LIMITS).unwrap();
        assert_eq!(read(root.join("cgroup.subtree_control")), "+cpu +memory");
        assert_eq!(read(root.join("one/cpu.max")), "25000 100000");
        assert_eq!(read(root.join("one/memory.max")), "67108864");
        group.limit(Limits { cpu_milli: Some(1), memory_mib: None }).unwrap();
        assert!(
            read(root.join("one/cpu.max")).starts_with("1000 100000"),
            "no less than the kernel takes"
        );
        assert_eq!(group.doors().unwrap().len(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_is_not_there_is_said_and_is_removed_already() {
        let root = tree("none");
        let error = Cgroups::below(&root).unwrap_err();
        assert!(error.is_not_found() && error.to_string().contains("control groups"), "{error}");
        assert!(remove(&[root.join("gone")]).unwrap());
        files(&root.join("busy"), &["cgroup.procs"]);
        assert!(
            remove(&[root.join("busy")]).is_err(),
            "only the kernel's folders go with what is in them"
        );
        fs::remove_dir_all(root).unwrap();
    }
}
