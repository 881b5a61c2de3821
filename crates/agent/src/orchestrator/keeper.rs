//! Keeps one instance running: its network, its process, its bounds; starts it anew when it ends, each time after a
//! longer rest. Its interfaces are there as long as its process, so that the data plane knows at once when it is gone.

use super::InstanceNews;
use super::alerts::Alerts;
use super::home::Home;
use super::network;
use super::process::Process;
use catena_kernel::cgroup::{self, Cgroup, Cgroups, Limits};
use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::Netlink;
use catena_kernel::process::{enter_cgroups, enter_namespace};
use catena_model::instance::{
    EGRESS_INTERFACE, INGRESS_INTERFACE, InstanceBounds, InstanceProgram, InstanceSpec,
    InstanceState,
};
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::sync::mpsc;

const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Who has run so long is started anew as if it had not ended before.
const LIFE_MIN: Duration = Duration::from_secs(10);
/// How often the log is looked at.
const LOG_LOOK: Duration = Duration::from_secs(1);
/// How often, and how long apart, it is looked whether a control group is empty.
const EMPTY_LOOKS: u32 = 50;
const EMPTY_LOOK: Duration = Duration::from_millis(20);

/// What is to become of an instance.
pub(super) enum Order {
    Become(InstanceSpec),
    Resize(InstanceBounds),
    Remove,
}

/// What instances of a node share.
#[derive(Clone)]
pub(super) struct Surroundings {
    /// The namespace of the node.
    pub(super) node: Netlink,
    /// The binary that bundled functions are part of.
    pub(super) binary: PathBuf,
    /// Where control groups are.
    pub(super) cgroups: PathBuf,
    /// Where groups that were made are written down, so that whoever comes after a sudden end removes them.
    pub(super) cgroup_journal: PathBuf,
    pub(super) news: mpsc::Sender<InstanceNews>,
}

/// One instance.
pub(super) struct Keeper {
    pub(super) spec: InstanceSpec,
    pub(super) home: Home,
    pub(super) around: Surroundings,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) restarts: u32,
    pub(super) last_exit: String,
}

/// Why the process is not watched any more.
enum Turn {
    /// It has ended.
    Ended(String),
    /// It is to be another one.
    Another,
    /// It is to go, and all that is of it.
    Removed,
    /// Nobody keeps it any more; it goes on.
    Left,
}

impl Keeper {
    /// Until it is removed, or nobody gives orders any more. `found`: its process, where it runs already.
    pub(super) async fn run(mut self, mut found: Option<Process>) {
        let mut backoff = BACKOFF_MIN;
        loop {
            let started = match found.take() {
                Some(process) => Ok(process),
                None => self.start().await,
            };
            let turn = match started {
                Ok(mut process) => {
                    self.tell(true).await;
                    let turn = self.watch(&mut process).await;
                    if process.since.elapsed() >= LIFE_MIN {
                        backoff = BACKOFF_MIN;
                    }
                    match &turn {
                        Turn::Ended(_) => process.clear(),
                        Turn::Another | Turn::Removed => process.end().await,
                        Turn::Left => return,
                    }
                    turn
                }
                Err(why) => Turn::Ended(why),
            };
            let turn = match turn {
                Turn::Ended(how) => {
                    self.take_end(how).await;
                    let turn = self.rest(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                    turn
                }
                other => Some(other),
            };
            match turn {
                Some(Turn::Removed) => return self.clear().await,
                Some(Turn::Left) => return,
                Some(Turn::Another) => backoff = BACKOFF_MIN,
                Some(Turn::Ended(_)) | None => self.restarts += 1,
            }
        }
    }

    /// Its network goes with it: whoever sends to it is to know.
    async fn take_end(&mut self, how: String) {
        tracing::warn!(instance = self.spec.name, log = %self.home.log_path().display(), "{how}");
        self.last_exit = how;
        if let Err(error) = network::unmake(&self.around.node, &self.spec).await {
            tracing::warn!(instance = self.spec.name, "its network stays: {error}");
        }
        self.tell(false).await;
    }

    /// Nothing of it stays but what others have noted.
    async fn clear(&self) {
        let tell = |error: &dyn Display| {
            tracing::warn!(instance = self.spec.name, "something of it stays: {error}");
        };
        if let Err(error) = network::unmake(&self.around.node, &self.spec).await {
            tell(&error);
        }
        if let Err(error) = self.remove_cgroup().await {
            tell(&error);
        }
        if let Err(error) = self.home.remove() {
            tell(&error);
        }
    }

    /// Waits before the next start. Orders are not kept waiting.
    async fn rest(&mut self, backoff: Duration) -> Option<Turn> {
        let rested = tokio::time::sleep(backoff);
        tokio::pin!(rested);
        loop {
            tokio::select! {
                () = &mut rested => return None,
                order = self.orders.recv() => match order {
                    Some(order) => if let Some(turn) = self.take(order) { return Some(turn) },
                    None => return Some(Turn::Left),
                },
            }
        }
    }

    /// The kernel counts processes out of a group a moment after they have ended.
    async fn remove_cgroup(&self) -> Result<(), String> {
        for _ in 0..EMPTY_LOOKS {
            remove_cgroup(&self.journal())?;
            if !self.journal().exists() {
                return Ok(());
            }
            tokio::time::sleep(EMPTY_LOOK).await;
        }
        Err("a process is still in its control group".into())
    }

    async fn watch(&mut self, process: &mut Process) -> Turn {
        let mut alerts = self.alerts();
        let mut look = tokio::time::interval(LOG_LOOK);
        loop {
            tokio::select! {
                how = process.ended() => {
                    // What it told last is still in the pipe.
                    while let Ok(Some(line)) = tokio::time::timeout(Duration::ZERO, next_line(&mut alerts)).await {
                        self.tell_alert(line).await;
                    }
                    return Turn::Ended(how);
                }
                order = self.orders.recv() => match order {
                    Some(order) => if let Some(turn) = self.take(order) { return turn },
                    None => return Turn::Left,
                },
                Some(line) = next_line(&mut alerts) => self.tell_alert(line).await,
                _ = look.tick() => if let Err(error) = self.home.trim_log() {
                    tracing::warn!(instance = self.spec.name, "its log grows: {error}");
                },
            }
        }
    }

    fn take(&mut self, order: Order) -> Option<Turn> {
        match order {
            Order::Remove => Some(Turn::Removed),
            Order::Become(spec) => {
                self.spec = spec;
                Some(Turn::Another)
            }
            Order::Resize(bounds) => {
                self.spec.bounds = bounds;
                if let Err(why) = self
                    .home
                    .keep(&self.spec)
                    .map_err(|e| e.to_string())
                    .and_then(|()| self.bound())
                {
                    tracing::warn!(
                        instance = self.spec.name,
                        "its bounds are not those that are declared: {why}"
                    );
                }
                None
            }
        }
    }

    async fn tell(&self, is_running: bool) {
        let state = InstanceState {
            id: self.spec.id,
            is_running,
            restarts: self.restarts,
            last_exit: self.last_exit.clone(),
        };
        // Without a listener the agent is about to stop.
        let _ = self.around.news.send(InstanceNews::State(state)).await;
    }

    async fn tell_alert(&self, line: String) {
        let _ = self.around.news.send(InstanceNews::Alert(self.spec.id, line)).await;
    }

    /// Makes its network and starts its process there; else, why it does not run.
    async fn start(&self) -> Result<Process, String> {
        let words = |error: &dyn Display| error.to_string();
        self.home
            .keep(&self.spec)
            .map_err(|error| format!("what it is cannot be kept: {error}"))?;
        let namespace =
            network::make(&self.around.node, &self.spec).await.map_err(|error| words(&error))?;
        let command = self.command(&namespace)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let process = Process::start(command).map_err(|error| not_started(&program, &error))?;
        if let Some(known) = process.known(self.restarts)
            && let Err(error) = self.home.keep_process(&known)
        {
            tracing::warn!(
                instance = self.spec.name,
                "the next agent will not know its process: {error}"
            );
        }
        tracing::info!(instance = self.spec.name, program, "started");
        Ok(process)
    }

    fn command(&self, namespace: &NetNamespace) -> Result<Command, String> {
        let mut command = match &self.spec.program {
            InstanceProgram::Command(words) => {
                let (program, arguments) = words.split_first().ok_or("its command is empty")?;
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            InstanceProgram::Bundled(configuration) => {
                let failed =
                    |error: io::Error| format!("its configuration cannot be written: {error}");
                let file = self.home.write_configuration(configuration).map_err(failed)?;
                make_pipe(&self.home.alerts())
                    .map_err(|error| format!("no way for its alerts: {error}"))?;
                let mut command = Command::new(&self.around.binary);
                command.args([
                    "nf",
                    "instance",
                    "--in",
                    INGRESS_INTERFACE,
                    "--out",
                    EGRESS_INTERFACE,
                ]);
                command.arg("--config").arg(file).arg("--eve").arg(self.home.alerts());
                command
            }
        };
        let log = |_| self.home.log();
        let (out, err) = (log(()).map_err(|e| e.to_string())?, log(()).map_err(|e| e.to_string())?);
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        command.env("CATENA", &self.around.binary).env("CATENA_INSTANCE", &self.spec.name);
        command.env("CATENA_INGRESS", INGRESS_INTERFACE).env("CATENA_EGRESS", EGRESS_INTERFACE);
        if let Some(group) = self.cgroup()? {
            enter_cgroups(&mut command, group.doors().map_err(|error| error.to_string())?);
        }
        enter_namespace(&mut command, namespace);
        Ok(command)
    }

    /// Its control group, bounded; none: it has no bounds.
    fn cgroup(&self) -> Result<Option<Cgroup>, String> {
        if self.spec.bounds.is_none() && !self.journal().exists() {
            return Ok(None);
        }
        let InstanceBounds { cpu_milli, memory_mib } = self.spec.bounds;
        let made = || {
            let groups = Cgroups::below(&self.around.cgroups)?;
            // Written down before it is there: whoever comes after a sudden end finds it.
            note_cgroup(&self.journal(), &groups.folders(&self.spec.namespace))?;
            let group = groups.make(&self.spec.namespace)?;
            group.limit(Limits { cpu_milli, memory_mib })?;
            Ok::<_, catena_kernel::KernelError>(group)
        };
        made().map(Some).map_err(|error| {
            format!(
                "its bounds cannot be set: {error}; mount control groups at {}, or leave out cpu_milli and memory_mib",
                self.around.cgroups.display()
            )
        })
    }

    /// Bounds it anew while it runs; who had no group until now gets into one when it is started next.
    fn bound(&self) -> Result<(), String> {
        self.cgroup().map(drop)
    }

    fn journal(&self) -> PathBuf {
        self.around.cgroup_journal.join(&self.spec.namespace)
    }

    fn alerts(&self) -> Option<Alerts> {
        let is_bundled = matches!(self.spec.program, InstanceProgram::Bundled(_));
        let opened = is_bundled.then(|| Alerts::open(&self.home.alerts()))?;
        opened
            .inspect_err(|error| {
                tracing::warn!(instance = self.spec.name, "its alerts cannot be read: {error}");
            })
            .ok()
    }
}

/// Of whoever tells nothing, nothing comes.
async fn next_line(alerts: &mut Option<Alerts>) -> Option<String> {
    match alerts {
        Some(alerts) => alerts.next().await,
        None => std::future::pending().await,
    }
}

fn not_started(program: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no program '{program}' on this node; install it")
        }
        io::ErrorKind::PermissionDenied => format!("'{program}' may not be run: {error}"),
        _ => format!("'{program}' cannot be started: {error}"),
    }
}

/// A way for lines that needs no reader: what finds no room waits at its writer.
fn make_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    match mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        made => Ok(made?),
    }
}

fn note_cgroup(journal: &Path, folders: &[PathBuf]) -> catena_kernel::Result<()> {
    let failed =
        |error| catena_kernel::KernelError::system("write", journal.display().to_string(), error);
    if let Some(folder) = journal.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let text = folders.iter().map(|folder| format!("{}\n", folder.display()));
    fs::write(journal, text.collect::<String>()).map_err(failed)
}

/// Removes the group that a journal names, unless something runs in it.
pub(super) fn remove_cgroup(journal: &Path) -> Result<(), String> {
    let Ok(text) = fs::read_to_string(journal) else { return Ok(()) };
    let folders: Vec<PathBuf> = text.lines().map(PathBuf::from).collect();
    if cgroup::remove(&folders).map_err(|error| error.to_string())? {
        fs::remove_file(journal).map_err(|error| error.to_string())?;
    }
    Ok(())
}
