//! Starting a lab from outside: opens its two sockets here, starts its first process in
//! namespaces of its own, and listens until the lab stands.

use super::inside::InsideArguments;
use super::protocol::{Answer, Request};
use super::visit::{SOCKET_PREFIX, Visit};
use crate::error::{LabError, Result};
use catena_kernel::abstract_socket;
use catena_kernel::process::{Isolation, spawn_isolated};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Port of a lab's API when it is free, the one of the API that ours speaks.
pub const API_PORT: u16 = 9_696;

/// How a lab shall be started.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The program that has the commands `controller`, `agent`, `lab init`.
    pub binary: PathBuf,
    /// Does the lab outlive its starter?
    pub is_detached: bool,
}

impl StartOptions {
    /// A lab of this very program, in the foreground.
    ///
    /// # Errors
    /// The program's own file cannot be found.
    pub fn foreground() -> Result<Self> {
        let binary = std::env::current_exe()
            .map_err(|error| LabError::io("find", "this program's file", error))?;
        Ok(Self { binary, is_detached: false })
    }
}

/// A started lab. In the foreground it ends with this value, at the latest with this process.
#[derive(Debug)]
pub struct Started {
    name: String,
    api: SocketAddr,
    init: Child,
    is_detached: bool,
}

impl Started {
    /// Starts the lab and returns when its network is wired and its processes run; each step is
    /// told with its duration in seconds.
    ///
    /// # Errors
    /// A lab of this name runs, the kernel refuses, or the lab cannot be built.
    pub fn start(
        name: &str,
        file: &Path,
        options: &StartOptions,
        tell: &mut dyn FnMut(&str, f64),
    ) -> Result<Self> {
        let control = abstract_socket::bind(&format!("{SOCKET_PREFIX}{name}")).map_err(
            |error| match error.errno().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::ADDRINUSE) => LabError::AlreadyRuns { name: name.into() },
                _ => error.into(),
            },
        )?;
        let listener = open_api()?;
        let api = listener
            .local_addr()
            .map_err(|error| LabError::io("read", "the address of the API socket", error))?;
        let (control, listener) = (OwnedFd::from(control), OwnedFd::from(listener));
        let arguments = InsideArguments {
            control: control.as_raw_fd(),
            api: listener.as_raw_fd(),
            address: api.to_string(),
            file: file.to_path_buf(),
        };
        let mut command = Command::new(&options.binary);
        command.args(["lab", "init"]).args(arguments.to_words()).stdin(Stdio::null());
        command.stdout(Stdio::null());
        if options.is_detached {
            // Out of the terminal's reach: its hang-up is not for the lab.
            command.stderr(Stdio::null()).process_group(0);
        }
        let isolation = Isolation {
            net: true,
            pid: true,
            mount: true,
            dies_with_parent: !options.is_detached,
            keep_fds: vec![control, listener],
        };
        let init = spawn_isolated(command, isolation)?;
        let started = Self { name: name.into(), api, init, is_detached: false };
        started.watch(tell)?;
        Ok(Self::keep(started, options.is_detached))
    }

    /// From here on a detached lab no longer ends with this value.
    fn keep(mut started: Self, is_detached: bool) -> Self {
        started.is_detached = is_detached;
        started
    }

    fn watch(&self, tell: &mut dyn FnMut(&str, f64)) -> Result<()> {
        let failed = |reason: String| LabError::DidNotComeUp { lab: self.name.clone(), reason };
        let mut visit = Visit::patient(&self.name)?;
        visit.ask(&Request::Watch)?;
        loop {
            match visit.hear().map_err(|error| failed(error.to_string()))?.0 {
                Answer::Step { text, seconds } => tell(&text, seconds),
                Answer::Ready => return Ok(()),
                Answer::Failed { reason } => return Err(failed(reason)),
                other => return Err(failed(format!("it answered {other:?}"))),
            }
        }
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

    /// Waits until the lab ends.
    ///
    /// # Errors
    /// Its first process cannot be waited for.
    pub fn wait(mut self) -> Result<()> {
        self.init
            .wait()
            .map(drop)
            .map_err(|error| LabError::io("wait for", "the lab's first process", error))
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
        if !self.is_detached {
            // It may have ended by itself; there is nobody to tell.
            let _ = self.kill();
        }
    }
}

fn open_api() -> Result<TcpListener> {
    let open = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    open(API_PORT)
        .or_else(|_| open(0))
        .map_err(|error| LabError::io("open", "a loopback socket for the API", error))
}
