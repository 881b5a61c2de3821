//! What a lab takes of its machine: the time until it stands, and processor and memory of all its processes. Knows
//! proc(5); refuses to know what the processes do.

use crate::error::{LabError, Result};
use crate::up::RunningLab;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the lab is looked at while nobody sends anything.
const LOOK: Duration = Duration::from_secs(3);
const KIB: u64 = 1024;
/// Of proc(5), USER_HZ: what Linux counts in there, whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a lab takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Footprint {
    /// Seconds from its first process until it stood without chains.
    pub start_seconds: f64,
    /// Processor time of all its processes while it stood so, in hundredths of one processor.
    pub idle_percent: f64,
    /// Memory of all its processes at the end of its last run, shared pages by their shares (proportional set
    /// size), in bytes.
    pub memory_bytes: u64,
}

impl Footprint {
    /// Of a lab that has just come up.
    pub(crate) fn at_rest(running: &RunningLab) -> Result<Self> {
        let before = processor_seconds(running.init_pid())?;
        let start = Instant::now();
        std::thread::sleep(LOOK);
        let spent = processor_seconds(running.init_pid())? - before;
        let idle_percent = 100.0 * spent / start.elapsed().as_secs_f64();
        Ok(Self { start_seconds: running.start_seconds, idle_percent, memory_bytes: 0 })
    }

    /// Takes down what it has of memory now.
    pub(crate) fn weigh(&mut self, running: &RunningLab) -> Result<()> {
        let processes = processes_beside(running.init_pid())?;
        let bytes = processes.iter().filter_map(|process| memory_bytes(process));
        self.memory_bytes = bytes.sum();
        Ok(())
    }
}

/// The folders of all processes in the process namespace of this one.
fn processes_beside(pid: u32) -> Result<Vec<PathBuf>> {
    let namespace = |folder: &Path| fs::read_link(folder.join("ns/pid")).ok();
    let own = namespace(&PathBuf::from(format!("/proc/{pid}")));
    let listed = fs::read_dir("/proc").map_err(|error| LabError::io("list", "/proc", error))?;
    let folders = listed.flatten().map(|entry| entry.path());
    Ok(folders.filter(|folder| own.is_some() && namespace(folder) == own).collect())
}

/// Processor time of all of them, ended children that were waited for included.
#[allow(clippy::cast_precision_loss, reason = "ticks are far below 2^52")]
fn processor_seconds(pid: u32) -> Result<f64> {
    let processes = processes_beside(pid)?;
    let ticks = processes
        .iter()
        .filter_map(|process| processor_ticks(&fs::read_to_string(process.join("stat")).ok()?));
    Ok(ticks.sum::<u64>() as f64 / TICKS_PER_SECOND)
}

/// User and system time of a process and of its ended children, by its line of proc(5).
fn processor_ticks(stat: &str) -> Option<u64> {
    // A name may hold whatever it likes, brackets too.
    let (_, behind) = stat.rsplit_once(')')?;
    let times = behind.split_whitespace().skip(11).take(4).map(|word| word.parse::<u64>().ok());
    times.sum()
}

/// None: it has ended meanwhile.
fn memory_bytes(process: &Path) -> Option<u64> {
    share_of(&fs::read_to_string(process.join("smaps_rollup")).ok()?)
}

fn share_of(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_read_whatever_a_process_is_called() {
        let stat = "42 (a) b (c)) S 1 2 3 0 -1 0 5 6 7 8 100 20 3 4 20 0 1 0 9";
        assert_eq!(processor_ticks(stat), Some(127));
        assert_eq!(processor_ticks("42 (a"), None);
        let rollup = "5579-7ffd ---p 00000000 00:00 0 [rollup]\nRss:  900 kB\nPss:  300 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(share_of(rollup), Some(300 * 1024));
        assert_eq!(share_of(""), None);
    }

    #[test]
    fn this_process_is_among_those_beside_it_and_has_memory() {
        let own = std::process::id();
        let found = processes_beside(own).unwrap();
        let folder = PathBuf::from(format!("/proc/{own}"));
        assert!(found.contains(&folder), "{found:?}");
        assert!(memory_bytes(&folder) > Some(100_000));
        assert!(processor_seconds(own).unwrap() >= 0.0);
    }
}
