//! A process of an instance: started, found again by an agent that comes back, waited for, ended. Refuses to know what
//! it does.

use super::home::Known;
use catena_kernel::process::{PidFd, signal_group, started_at};
use catena_kernel::signals::Signal;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use tokio::process::Child;

/// How long a process that is asked to end may take until it is killed.
const END_WAIT: Duration = Duration::from_secs(5);

/// How often it is looked whether a process that another agent has started still runs.
const LOOK: Duration = Duration::from_millis(50);

/// A process that runs.
pub(super) struct Process {
    pid: u32,
    held: PidFd,
    /// None: another agent started it, and nobody tells how it ends.
    child: Option<Child>,
    /// When it was started, or found.
    pub(super) since: Instant,
}

impl Process {
    /// Starts one that outlives this agent, and leads a group of processes.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        command.process_group(0);
        let child = tokio::process::Command::from(command).spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("it has ended at once"))?;
        Ok(Self { child: Some(child), ..Self::held(pid)? })
    }

    /// The one that an agent before this had started, if it still runs.
    pub(super) fn adopt(known: &Known) -> Option<Self> {
        let found = (known.boot == boot()).then(|| Self::held(known.pid).ok())??;
        // Asked once it is held: a number may be another's, a descriptor not.
        (started_at(known.pid) == Some(known.started_at)).then_some(found)
    }

    fn held(pid: u32) -> io::Result<Self> {
        let held = PidFd::open(pid).map_err(io::Error::other)?;
        Ok(Self { pid, held, child: None, since: Instant::now() })
    }

    /// As another agent finds it again.
    pub(super) fn known(&self, restarts: u32) -> Option<Known> {
        let started_at = started_at(self.pid)?;
        Some(Known { boot: boot(), pid: self.pid, started_at, restarts })
    }

    /// Waits until it has ended, and says how.
    pub(super) async fn ended(&mut self) -> String {
        let Some(child) = &mut self.child else {
            // A descriptor that cannot be asked is of no process any more.
            while self.held.has_exited().is_ok_and(|has_exited| !has_exited) {
                tokio::time::sleep(LOOK).await;
            }
            return "it ended, how was told to nobody: another agent had started it".to_owned();
        };
        match child.wait().await {
            Ok(status) => in_words(status),
            Err(error) => format!("it ended, how cannot be told: {error}"),
        }
    }

    /// Ends it, and whatever it has started that is still of its group.
    pub(super) async fn end(mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(END_WAIT, self.ended()).await.is_err() {
            tracing::warn!(pid = self.pid, "it does not end and is killed");
            self.signal(Signal::KILL);
            self.ended().await;
        }
        self.clear();
    }

    /// Ends what a process that has ended left behind in its group.
    pub(super) fn clear(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = signal_group(self.pid, signal) {
            tracing::warn!(pid = self.pid, "{error}");
        }
    }
}

/// The start of the machine that this one is.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => format!("it ended ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncBufReadExt;

    #[tokio::test]
    async fn an_end_is_told_as_it_was() {
        for (script, told) in [("exit 3", "exit code 3"), ("kill -9 $$", "signal 9")] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let mut process = Process::start(command).unwrap();
            assert!(process.ended().await.contains(told), "{script}");
        }
        let missing = Process::start(Command::new("no-such-program-anywhere"));
        assert_eq!(missing.err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
    }

    #[tokio::test]
    async fn a_process_is_found_again_and_no_other_is_taken_for_it() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let process = Process::start(command).unwrap();
        let known = process.known(2).unwrap();
        let found = Process::adopt(&known).unwrap();
        for other in [
            Known { boot: "another".into(), ..known.clone() },
            Known { started_at: known.started_at + 1, ..known.clone() },
        ] {
            assert!(Process::adopt(&other).is_none(), "{other:?}");
        }
        found.end().await;
        let mut process = process;
        assert!(process.ended().await.contains("signal 15"));
        assert!(Process::adopt(&known).is_none());
    }

    #[tokio::test]
    async fn what_a_process_started_ends_with_it() {
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' TERM; sleep 600 & echo $!; exec >&-; wait"])
            .stdout(std::process::Stdio::piped());
        let mut process = Process::start(command).unwrap();
        let out = process.child.as_mut().and_then(|child| child.stdout.take()).unwrap();
        let told = tokio::io::BufReader::new(out).lines().next_line().await.unwrap().unwrap();
        let grandchild: u32 = told.trim().parse().unwrap();
        assert!(started_at(grandchild).is_some());
        process.signal(Signal::KILL);
        process.ended().await;
        process.clear();
        while started_at(grandchild).is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
