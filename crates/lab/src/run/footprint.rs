//! What a lab takes of its machine: the time until it stands, and processor and memory of all its processes. Knows
//! proc(5); refuses to know what the processes do.

use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::Metric;
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
    /// Memory of that data plane of a switch that has most, shared pages in full (resident set size), at that time, in
    /// bytes. None: no switch has one.
    pub switch_bytes: Option<u64>,
}

impl Footprint {
    /// Of a lab that has just come up.
    pub(crate) fn at_rest(running: &RunningLab) -> Result<Self> {
        let before = processor_seconds(running.init_pid())?;
        let start = Instant::now();
        std::thread::sleep(LOOK);
        let spent = processor_seconds(running.init_pid())? - before;
        let idle_percent = 100.0 * spent / start.elapsed().as_secs_f64();
        Ok(Self { start_seconds: running.start_seconds, idle_percent, ..Self::default() })
    }

    /// A metric of it; none: it is none, or was not measured.
    #[allow(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        let mib = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
        match metric {
            Metric::Start => Some(self.start_seconds),
            Metric::Idle => Some(self.idle_percent),
            Metric::Memory => Some(mib(self.memory_bytes)),
            Metric::SwitchMemory => self.switch_bytes.map(mib),
            _ => None,
        }
    }

    /// Takes down what it has of memory now.
    pub(crate) fn weigh(&mut self, running: &RunningLab) -> Result<()> {
        let processes = processes_beside(running.init_pid())?;
        let bytes = processes.iter().filter_map(|process| memory_bytes(process, "Pss:"));
        self.memory_bytes = bytes.sum();
        let of_switches = processes.iter().filter(|process| {
            let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
            data_plane_of(&arguments).is_some_and(|node| running.lab.switches.contains(&node))
        });
        let bytes = of_switches.filter_map(|process| memory_bytes(process, "Rss:"));
        self.switch_bytes = bytes.max();
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

/// The node that a process is the data plane of, by its arguments as proc(5) has them; none: it is none.
fn data_plane_of(arguments: &[u8]) -> Option<String> {
    let mut words = arguments.split(|octet| *octet == 0).skip(1);
    words.next().filter(|role| *role == b"dataplane")?;
    words.find(|word| *word == b"--node")?;
    String::from_utf8(words.next()?.to_vec()).ok()
}

/// None: it has ended meanwhile.
fn memory_bytes(process: &Path, size: &str) -> Option<u64> {
    size_of(&fs::read_to_string(process.join("smaps_rollup")).ok()?, size)
}

fn size_of(rollup: &str, size: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix(size))?;
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
        assert_eq!(size_of(rollup, "Pss:"), Some(300 * 1024));
        assert_eq!(size_of(rollup, "Rss:"), Some(900 * 1024));
        assert_eq!(size_of("", "Pss:"), None);
    }

    #[test]
    fn this_process_is_among_those_beside_it_and_has_memory() {
        let own = std::process::id();
        let found = processes_beside(own).unwrap();
        let folder = PathBuf::from(format!("/proc/{own}"));
        assert!(found.contains(&folder), "{found:?}");
        assert!(memory_bytes(&folder, "Pss:") > Some(100_000));
        assert!(memory_bytes(&folder, "Rss:") >= memory_bytes(&folder, "Pss:"));
        assert!(processor_seconds(own).unwrap() >= 0.0);
    }

    #[test]
    fn a_data_plane_is_known_by_its_arguments() {
        let of = |text: &str| data_plane_of(text.replace(' ', "\0").as_bytes());
        assert_eq!(of("/run/catena dataplane --node a1 --workers 1 "), Some("a1".to_owned()));
        for other in
            ["", "catena", "catena agent --node a1", "catena dataplane", "catena dataplane --node"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
