//! What this machine can do for functions that its agent runs: bounds of what they take, and walls around those that
//! run apart. Refuses to say what happens without: docs/book/src/functions/doors.md does.

use super::{Finding, Need};
use catena_kernel::cgroup::Cgroups;
use catena_kernel::confinement;
use std::path::Path;

/// `root` is `/` for this machine.
pub(super) fn findings(root: &Path) -> Vec<Finding> {
    let useful = |what: &str, found: Result<String, &str>| {
        let is_there = found.is_ok();
        let text = found.unwrap_or_else(str::to_owned);
        Finding { what: what.into(), is_there, need: Need::Useful, text }
    };
    let groups = Cgroups::below(&root.join("sys/fs/cgroup"));
    let landlock = confinement::landlock_version();
    vec![
        useful(
            "control groups",
            groups.map(|groups| groups.described()).map_err(|_| {
                "neither version is at /sys/fs/cgroup; mount one: cpu_milli and memory_mib of functions need it"
            }),
        ),
        useful(
            "Landlock",
            landlock.map(|version| format!("version {version} of its interface")).ok_or(
                "not there; boot with lsm=landlock,…: functions apart are held back without it by system calls alone",
            ),
        ),
        useful(
            "filters of system calls",
            match confinement::filters_calls(root) {
                true => Ok("end a process that makes another call".to_owned()),
                false => Err("not there; use a kernel with CONFIG_SECCOMP_FILTER: functions apart do not start without"),
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bounds_functions_is_told_with_what_to_do_where_it_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let bare = findings(root.path());
        let seen: Vec<_> = bare.iter().map(|one| (one.what.as_str(), one.need)).collect();
        let all = ["control groups", "Landlock", "filters of system calls"];
        assert_eq!(seen, all.map(|what| (what, Need::Useful)));
        assert!(!bare[0].is_there && bare[0].text.contains("cpu_milli"), "{}", bare[0].text);
        assert!(!bare[2].is_there && bare[2].text.contains("CONFIG_SECCOMP_FILTER"));
        for tree in ["cpu", "memory"] {
            std::fs::create_dir_all(root.path().join("sys/fs/cgroup").join(tree)).unwrap();
        }
        let bounded = &findings(root.path())[0];
        assert!(bounded.is_there && bounded.text.starts_with("version 1"), "{}", bounded.text);
    }
}
