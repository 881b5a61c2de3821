//! Lets functions die while traffic goes on, and tells whether they ran again. Knows the processes in a function's
//! namespace; refuses to know who starts them anew.

use super::evidence::Evidence;
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::{Ending, Kill};
use catena_client::Kind;
use catena_kernel::process::PidFd;
use rustix::process::Signal;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a function may take to run again: more than agents rest before they start it anew.
const BACK_WAIT: Duration = Duration::from_secs(30);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// The condition of a function whose instances all run.
const READY: &str = "InstancesReady";

/// What became of a function that was killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Death {
    /// The function.
    pub function: String,
    /// How it died.
    pub ending: Ending,
    /// Its processes then; 0: the traffic had ended before its time came.
    pub processes: usize,
    /// After so many milliseconds it ran again; none: it did not.
    pub back_ms: Option<u64>,
}

/// Lets functions die when their time has come, and waits until each runs again.
pub(super) fn happen(
    running: &RunningLab,
    kills: &[Kill],
    start: Instant,
    has_ended: &AtomicBool,
) -> Result<Vec<Death>> {
    std::thread::scope(|scope| {
        let mut deaths = Vec::new();
        for kill in kills {
            while start.elapsed() < kill.at && !has_ended.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK.min(kill.at.saturating_sub(start.elapsed())));
            }
            let is_late = has_ended.load(Ordering::Relaxed);
            deaths.push(
                scope.spawn(move || if is_late { Ok(none(kill)) } else { die(running, kill) }),
            );
        }
        let joined = deaths
            .into_iter()
            .map(|death| death.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect()
    })
}

/// Nothing has happened to it.
fn none(kill: &Kill) -> Death {
    Death { function: kill.function.clone(), ending: kill.ending, processes: 0, back_ms: None }
}

fn die(running: &RunningLab, kill: &Kill) -> Result<Death> {
    let namespace = namespace_of(running, &kill.function)?;
    let signal = match kill.ending {
        Ending::Kill => Signal::KILL,
        Ending::End => Signal::TERM,
    };
    let mut killed = BTreeSet::new();
    let at = Instant::now();
    for pid in processes_in(&namespace) {
        // Held before it is looked at again: its number may be another's by now.
        let Ok(process) = PidFd::open(pid) else { continue };
        if is_in(pid, &namespace) && process.signal(signal).is_ok() {
            killed.insert(pid);
        }
    }
    if killed.is_empty() {
        return Err(LabError::Tool {
            tool: format!("function '{}'", kill.function),
            problem: "has no process to kill".to_owned(),
            advice: "read the log of its host's agent".to_owned(),
        });
    }
    let mut death = Death { processes: killed.len(), ..none(kill) };
    while at.elapsed() < BACK_WAIT {
        let found = processes_in(&namespace);
        let is_another = !found.is_empty() && found.is_disjoint(&killed);
        if is_another && is_ready(running, &kill.function)? {
            death.back_ms = u64::try_from(at.elapsed().as_millis()).ok();
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(death)
}

/// The namespace of a function, as this machine sees it.
fn namespace_of(running: &RunningLab, function: &str) -> Result<PathBuf> {
    let ports = running.client.list(Kind::Port, &[("name", function)])?;
    let name = ports.iter().find_map(|port| port["binding:profile"]["netns"].as_str());
    let name = name.ok_or_else(|| LabError::Tool {
        tool: format!("function '{function}'"),
        problem: "has no namespace of its own".to_owned(),
        advice: "run it by a command, or with door: apart".to_owned(),
    })?;
    let root = Path::new("/proc").join(running.init_pid().to_string()).join("root/run/netns");
    Ok(root.join(name))
}

fn processes_in(namespace: &Path) -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| is_in(*pid, namespace)).collect()
}

fn is_in(pid: u32, namespace: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let own = Path::new("/proc").join(pid.to_string()).join("ns/net");
    identity(&own).is_some_and(|own| identity(namespace) == Some(own))
}

fn is_ready(running: &RunningLab, function: &str) -> Result<bool> {
    let conditions = running.client.function(function)?.conditions;
    Ok(conditions.iter().any(|condition| condition.name == READY && condition.holds))
}

/// Did each function that was killed run again?
pub(super) fn judge(evidence: &Evidence) -> (bool, String) {
    let mut found = Vec::new();
    for (case, death) in
        evidence.runs.iter().flat_map(|run| run.deaths.iter().map(move |it| (&run.case, it)))
    {
        let function = &death.function;
        match death.back_ms {
            _ if death.processes == 0 => {
                return (
                    false,
                    format!("{case}: the traffic had ended before '{function}' was killed"),
                );
            }
            None => {
                let seconds = BACK_WAIT.as_secs();
                return (
                    false,
                    format!("{case}: '{function}' did not run again within {seconds} s"),
                );
            }
            Some(back) => found.push(format!("{case}: '{function}' ran again after {back} ms")),
        }
    }
    match found.is_empty() {
        true => (false, "was not measured".to_owned()),
        false => (true, found.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunEvidence;

    #[test]
    fn each_function_that_was_killed_must_run_again() {
        let death = |processes, back_ms| Death {
            function: "edge".into(),
            ending: Ending::Kill,
            processes,
            back_ms,
        };
        let judged = |deaths: &[Death]| {
            let mut run = RunEvidence::new("all".into(), None, None);
            run.deaths = deaths.to_vec();
            judge(&Evidence { runs: vec![run], ..Evidence::default() })
        };
        let back = death(1, Some(250));
        assert_eq!(
            judged(std::slice::from_ref(&back)),
            (true, "all: 'edge' ran again after 250 ms".to_owned())
        );
        for wrong in [&[][..], &[death(0, None)], &[back.clone(), death(1, None)]] {
            assert!(!judged(wrong).0, "{wrong:?}");
        }
    }

    #[test]
    fn processes_are_found_by_their_namespace() {
        let own = std::process::id();
        assert!(processes_in(Path::new("/proc/self/ns/net")).contains(&own));
        assert!(!is_in(own, Path::new("/proc/self/ns/mnt")));
        assert!(processes_in(Path::new("/nowhere")).is_empty());
    }
}
