//! The two servers: ours and the real neutron, started for one run and ended with it, and the
//! processor time that each has used.

use crate::error::BenchError;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const START_WAIT: Duration = Duration::from_secs(60);

/// A server that is measured.
pub(crate) struct Server {
    /// `host:port`.
    pub(crate) address: String,
    pid: u32,
    end: End,
    clock: Clock,
}

/// Processor time of processes, by what the kernel says of their threads.
#[derive(Default)]
pub(crate) struct Clock {
    /// Nanoseconds of each thread that was ever seen: those of one that has ended still count.
    seen: BTreeMap<u64, u64>,
}

impl Clock {
    /// Nanoseconds that these have used so far, with what earlier calls saw.
    pub(crate) fn read(&mut self, pids: &[u32]) -> u64 {
        for pid in pids {
            let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for thread in threads.flatten() {
                let text = std::fs::read_to_string(thread.path().join("schedstat"));
                let used = text.ok().and_then(|text| text.split(' ').next()?.parse().ok());
                let id = thread.file_name().to_string_lossy().parse();
                if let (Some(used), Ok(id)) = (used, id) {
                    self.seen.insert(id, used);
                }
            }
        }
        self.seen.values().sum()
    }
}

enum End {
    Child(Child),
    /// A lab goes on writing: whoever started it must go on listening.
    Lab {
        child: Child,
        _said: BufReader<ChildStdout>,
    },
    Script {
        down: PathBuf,
        work: PathBuf,
    },
}

impl Server {
    /// Our controller, without nodes or authentication; pinned to a core if one is named.
    pub(crate) fn ours(root: &Path, work: &Path, core: Option<u32>) -> Result<Self, BenchError> {
        let fail = |reason: String| BenchError::Start { what: "our controller".into(), reason };
        let program = program(root);
        let port = free_port().map_err(|error| fail(error.to_string()))?;
        let address = format!("127.0.0.1:{port}");
        let _ = std::fs::remove_dir_all(work);
        std::fs::create_dir_all(work).map_err(|error| fail(error.to_string()))?;
        let mut command = match core {
            None => Command::new(&program),
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &core.to_string()]).arg(&program);
                command
            }
        };
        command.args(["controller", "--listen", &address, "--auth", "none", "--data"]);
        command.arg(work.join("data")).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child =
            command.spawn().map_err(|error| fail(format!("{}: {error}", program.display())))?;
        let pid = child.id();
        let server = Self { address, pid, end: End::Child(child), clock: Clock::default() };
        let began = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            if began.elapsed() > START_WAIT {
                return Err(fail("it does not answer".into()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Our controller with the nodes of a lab; only the controller's processor time counts.
    pub(crate) fn lab(root: &Path, lab: &str) -> Result<Self, BenchError> {
        let fail = |reason: String| BenchError::Start { what: "the lab".into(), reason };
        let mut command = Command::new(program(root));
        command.args(["lab", "up"]).arg(root.join("labs").join(lab));
        // What keeps it from coming up is told there.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(|error| fail(error.to_string()))?;
        let said = child.stdout.take().ok_or_else(|| fail("it has no output".into()))?;
        let mut said = BufReader::new(said);
        let address = loop {
            let mut line = String::new();
            match said.read_line(&mut line) {
                Ok(0) => break None,
                Err(error) => return Err(fail(error.to_string())),
                Ok(_) => {}
            }
            if let Some(address) = line.trim().strip_prefix("API: http://") {
                break Some(address.to_owned());
            }
        };
        let pid = family(child.id()).into_iter().find(|pid| plays(*pid, "controller"));
        let is_up = address.is_some() && pid.is_some();
        let (address, pid) = (address.unwrap_or_default(), pid.unwrap_or_default());
        // Made before it is judged, so that it ends with this in any case.
        let end = End::Lab { child, _said: said };
        let server = Self { address, pid, end, clock: Clock::default() };
        if is_up { Ok(server) } else { Err(fail("it did not come up".into())) }
    }

    /// The real neutron with networking-sfc.
    pub(crate) fn peer(root: &Path, work: &Path) -> Result<Self, BenchError> {
        let fail = |reason: String| BenchError::Start { what: "the real neutron".into(), reason };
        let scripts = root.join("conformance/openstack/peer");
        let mut command = Command::new(scripts.join("up"));
        command.arg(work).arg("0").stdin(Stdio::null());
        let done = command.output().map_err(|error| fail(error.to_string()))?;
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        let value = |key: &str| {
            told.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
                .map(str::to_owned)
        };
        let (Some(pid), Some(url), true) = (value("pid"), value("url"), done.status.success())
        else {
            return Err(fail(String::from_utf8_lossy(&done.stderr).trim().to_owned()));
        };
        let pid = pid.parse().map_err(|_| fail(format!("'{pid}' is no process")))?;
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let end = End::Script { down: scripts.join("down"), work: work.to_path_buf() };
        Ok(Self { address, pid, end, clock: Clock::default() })
    }

    /// Processor time used so far by the process, its threads and its children, in nanoseconds.
    pub(crate) fn cpu_ns(&mut self) -> u64 {
        self.clock.read(&family(self.pid))
    }

    /// The processes of a lab that have this role: `controller`, `agent` or `dataplane`.
    pub(crate) fn playing(&self, role: &str) -> Vec<u32> {
        let End::Lab { child, .. } = &self.end else { return Vec::new() };
        family(child.id()).into_iter().filter(|pid| plays(*pid, role)).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        match &mut self.end {
            End::Child(child) | End::Lab { child, .. } => {
                let _ = child.kill();
                let _ = child.wait();
                // The controller of a lab ends by itself, and its address is free after that.
                let (began, process) = (Instant::now(), format!("/proc/{}", self.pid));
                while self.pid > 0 && Path::new(&process).exists() && began.elapsed() < START_WAIT {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            End::Script { down, work } => {
                let _ = Command::new(down).arg(work).stdout(Stdio::null()).status();
            }
        }
    }
}

/// The binary that is measured.
pub(crate) fn program(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| root.join("target")).join("release/catena")
}

/// Was a process started with this word behind the program's name?
fn plays(pid: u32, role: &str) -> bool {
    let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split('\0').nth(1) == Some(role)
}

/// A process and all below it.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        at += 1;
        // Any thread may have started a child.
        let threads = std::fs::read_dir(format!("/proc/{parent}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children"));
            let children = children.unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    all
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
