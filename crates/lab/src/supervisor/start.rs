//! Starting a lab from outside: opens its two sockets here, starts its first process in
//! namespaces of its own, and listens until the lab stands.

use super::inside::InsideArguments;
use super::protocol::{Answer, Request};
use super::visit::{SOCKET_PREFIX, Visit};
use crate::error::{LabError, Result};
use crate::vocabulary::Lab;
use catena_client::API_PORT;
use catena_kernel::abstract_socket;
use catena_kernel::process::{Isolation, spawn_isolated};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{Seek, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Set in the environment of a lab whose data planes decide every packet.
pub(crate) const WITHOUT_FAST_PATH: &str = "CATENA_LAB_WITHOUT_FAST_PATH";
/// Set in the environment of a lab whose data planes take frames otherwise than by packet rings: the
/// agents' word for it.
pub(crate) const PORT_IO: &str = "CATENA_LAB_PORT_IO";
/// Set in the environment of a lab whose data planes have so many workers.
pub(crate) const WORKERS: &str = "CATENA_LAB_WORKERS";
/// Set in the environment of a lab whose data planes have so many threads that ask functions.
pub(crate) const FUNCTION_THREADS: &str = "CATENA_LAB_FUNCTION_THREADS";
/// Set in the environment of a lab whose data planes ask functions in this form, whatever it costs.
pub(crate) const FUNCTION_FORM: &str = "CATENA_LAB_FUNCTION_FORM";

/// Set in the environment of a lab whose agents tell a collector by IPFIX what packets with telemetry say.
pub(crate) const IPFIX_COLLECTOR: &str = "CATENA_LAB_IPFIX_COLLECTOR";
/// The same by telemetry reports.
pub(crate) const INT_COLLECTOR: &str = "CATENA_LAB_INT_COLLECTOR";

/// How a lab shall be started.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The program that has the commands `controller`, `agent`, `lab init`.
    pub binary: PathBuf,
    /// Shall the lab outlive its starter, once it stands?
    pub is_detached: bool,
    /// Shall every packet be decided in the data planes, so that the kernel repeats nothing?
    pub without_fast_path: bool,
    /// How data planes take frames from ports, in the agents' word (`--port-io`); none: as they do
    /// of their own. Anything but packet rings goes past the fast path.
    pub port_io: Option<String>,
    /// Workers of each data plane; none: one. More than one go without the fast path.
    pub workers: Option<NonZeroUsize>,
    /// Threads of each data plane that ask functions; none: its workers do.
    pub function_threads: Option<usize>,
    /// The form in which they ask, in the agents' word (`--function-form`); none: that which each node chooses.
    pub function_form: Option<String>,
    /// Who is told by IPFIX what packets with telemetry say, `HOST:PORT` as the hosts of the lab reach it.
    pub ipfix_collector: Option<String>,
    /// The same by telemetry reports.
    pub int_collector: Option<String>,
}

impl StartOptions {
    /// A lab of this program, in the foreground.
    fn of(binary: PathBuf) -> Self {
        Self {
            binary,
            is_detached: false,
            without_fast_path: false,
            port_io: None,
            workers: None,
            function_threads: None,
            function_form: None,
            ipfix_collector: None,
            int_collector: None,
        }
    }

    /// A lab of this very program, in the foreground.
    ///
    /// # Errors
    /// The program's own file cannot be found.
    pub fn foreground() -> Result<Self> {
        let binary = std::env::current_exe()
            .map_err(|error| LabError::io("find", "this program's file", error))?;
        Ok(Self::of(binary))
    }
}

/// A started lab. Until it is kept it ends with this value, at the latest with this process.
#[derive(Debug)]
pub struct Started {
    name: String,
    api: SocketAddr,
    init: Child,
    /// What a detached lab's first processes say while they have no other voice.
    said: Option<File>,
    /// The conversation whose end is the lab's, unless it is kept.
    hold: Option<Visit>,
    is_kept: bool,
}

/// Longest word of a failed lab that is passed on, in bytes.
const SAID_BYTES_MAX: usize = 4096;

impl Started {
    /// Starts the lab and returns when its network is wired and its processes run; each step is
    /// told with its duration in seconds.
    ///
    /// # Errors
    /// A lab of this name runs, the kernel refuses, or the lab cannot be built.
    pub fn start(
        lab: &Lab,
        options: &StartOptions,
        tell: &mut dyn FnMut(&str, f64),
    ) -> Result<Self> {
        let control = open_control(&lab.name)?;
        let listener = open_api()?;
        let api = listener
            .local_addr()
            .map_err(|error| LabError::io("read", "the address of the API socket", error))?;
        let document = file_in_memory("document", &lab.merged)?;
        let inherited = [OwnedFd::from(control), OwnedFd::from(listener), OwnedFd::from(document)];
        let [control, listener, document] = inherited.each_ref().map(AsRawFd::as_raw_fd);
        let arguments = InsideArguments {
            control,
            api: listener,
            document,
            address: api.to_string(),
            file: lab.file.clone(),
        };
        let mut command = Command::new(&options.binary);
        command.args(["lab", "init"]).args(arguments.to_words()).stdin(Stdio::null());
        command.stdout(Stdio::null());
        if options.without_fast_path {
            // Every process of the lab inherits it.
            command.env(WITHOUT_FAST_PATH, "1");
        }
        if let Some(word) = &options.port_io {
            command.env(PORT_IO, word);
        }
        if let Some(workers) = options.workers {
            command.env(WORKERS, workers.to_string());
        }
        if let Some(threads) = options.function_threads {
            command.env(FUNCTION_THREADS, threads.to_string());
        }
        if let Some(form) = &options.function_form {
            command.env(FUNCTION_FORM, form);
        }
        if let Some(collector) = &options.ipfix_collector {
            command.env(IPFIX_COLLECTOR, collector);
        }
        if let Some(collector) = &options.int_collector {
            command.env(INT_COLLECTOR, collector);
        }
        let said = if options.is_detached { Some(detach(&mut command)?) } else { None };
        let isolation = Isolation {
            net: true,
            pid: true,
            mount: true,
            dies_with_parent: !options.is_detached,
            keep_fds: inherited.into(),
        };
        let init = spawn_isolated(command, isolation)?;
        let name = lab.name.clone();
        let mut started = Self { name, api, init, said, hold: None, is_kept: false };
        match started.watch(tell) {
            Ok(hold) => started.hold = Some(hold),
            Err(reason) => return Err(started.did_not_come_up(reason)),
        }
        Ok(started)
    }

    fn watch(&self, tell: &mut dyn FnMut(&str, f64)) -> std::result::Result<Visit, String> {
        let mut visit = Visit::patient(&self.name).map_err(|error| error.to_string())?;
        visit.ask(&Request::Watch).map_err(|error| error.to_string())?;
        loop {
            match visit.hear().map_err(|error| error.to_string())?.0 {
                Answer::Step { text, seconds } => tell(&text, seconds),
                Answer::Ready => return Ok(visit),
                Answer::Failed { reason } => return Err(reason),
                other => return Err(format!("it answered {other:?}")),
            }
        }
    }

    /// Ends what is there of the lab, and adds what nobody else heard it say.
    fn did_not_come_up(mut self, reason: String) -> LabError {
        // It may have ended by itself.
        let _ = self.kill();
        let mut said = vec![0; SAID_BYTES_MAX];
        let read = self.said.as_ref().map(|file| file.read_at(&mut said, 0));
        said.truncate(read.and_then(std::io::Result::ok).unwrap_or_default());
        let said = String::from_utf8_lossy(&said);
        let reason = match said.trim() {
            "" => reason,
            said => format!("{reason}: {said}"),
        };
        LabError::DidNotComeUp { lab: self.name.clone(), reason }
    }

    /// From here on the lab no longer ends with this value, nor with this process if it was
    /// started detached.
    ///
    /// # Errors
    /// The lab does not answer any more.
    pub fn keep(&mut self) -> Result<()> {
        if let Some(mut hold) = self.hold.take() {
            hold.ask(&Request::Keep)?;
            match hold.hear()? {
                (Answer::Kept, _) => self.is_kept = true,
                (other, _) => return Err(hold.unexpected(&other)),
            }
        }
        Ok(())
    }

    /// The lab's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its API listens, on this machine's loopback.
    #[must_use]
    pub fn api(&self) -> SocketAddr {
        self.api
    }

    /// The process number of its first process, as this machine sees it.
    #[must_use]
    pub fn init_pid(&self) -> u32 {
        self.init.id()
    }

    /// Where the logs of its processes are, as this machine sees them.
    #[must_use]
    pub fn log_directory(&self) -> PathBuf {
        let inside = super::roles::log_directory();
        let inside = inside.strip_prefix("/").unwrap_or(&inside);
        Path::new("/proc").join(self.init_pid().to_string()).join("root").join(inside)
    }

    /// Waits until the lab ends, by `catena lab down` or by a failure.
    ///
    /// # Errors
    /// It ended in another way than it was told to; or it cannot be waited for.
    pub fn wait(mut self) -> Result<()> {
        let status = self
            .init
            .wait()
            .map_err(|error| LabError::io("wait for", "the lab's first process", error))?;
        if status.success() {
            return Ok(());
        }
        let reason = format!("it ended without being told to ({status})");
        Err(LabError::Refused { lab: self.name.clone(), reason })
    }

    /// Ends the lab; returns when all its processes are gone.
    ///
    /// # Errors
    /// Its first process cannot be ended.
    pub fn end(mut self) -> Result<()> {
        self.kill().map_err(|error| LabError::io("end", "the lab's first process", error))
    }

    fn kill(&mut self) -> std::io::Result<()> {
        self.init.kill()?;
        self.init.wait().map(drop)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.is_kept {
            // It may have ended by itself; there is nobody to tell.
            let _ = self.kill();
        }
    }
}

fn open_control(lab: &str) -> Result<UnixListener> {
    abstract_socket::bind(&format!("{SOCKET_PREFIX}{lab}")).map_err(|error| {
        match error.errno().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::ADDRINUSE) => LabError::AlreadyRuns { name: lab.into() },
            _ => error.into(),
        }
    })
}

/// Out of the terminal's reach: its hang-up is not for the lab. What the lab's first processes
/// say goes to the file that is answered.
fn detach(command: &mut Command) -> Result<File> {
    let said = file_in_memory("said", "")?;
    let copy = said.try_clone().map_err(|error| LabError::io("copy", "a file in memory", error))?;
    command.stderr(copy).process_group(0);
    Ok(said)
}

fn file_in_memory(name: &str, text: &str) -> Result<File> {
    let open = || {
        let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Ok(file)
    };
    open().map_err(|error: std::io::Error| LabError::io("make", "a file in memory", error))
}

fn open_api() -> Result<TcpListener> {
    let open = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    open(API_PORT)
        .or_else(|_| open(0))
        .map_err(|error| LabError::io("open", "a loopback socket for the API", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_detached_lab_that_cannot_start_says_why_and_is_gone() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: a_detached_lab_that_cannot_start_says_why_and_is_gone: not root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("catena");
        std::fs::write(&binary, "#!/bin/sh\necho no room here >&2\nexit 3\n").unwrap();
        std::fs::set_permissions(&binary, PermissionsExt::from_mode(0o755)).unwrap();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/openstack-testbed.yaml");
        let lab = Lab::read(file.as_ref(), false).unwrap();
        let lab = Lab { name: format!("mute-{}", std::process::id()), ..lab };
        let options = StartOptions { is_detached: true, ..StartOptions::of(binary) };
        let told = Started::start(&lab, &options, &mut |_, _| {}).unwrap_err().to_string();
        assert!(told.contains("no room here"), "{told}");
        assert!(open_control(&lab.name).is_ok(), "its name is free again");
    }
}
