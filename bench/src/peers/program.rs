//! Programs of a peer: installed when missing, started so that they end with us, asked once.

use super::Unavailable;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const FOLDERS: [&str; 6] = [
    "/usr/bin",
    "/usr/sbin",
    "/bin",
    "/sbin",
    "/usr/lib/openvswitch-switch",
    "/usr/lib/openvswitch-switch-dpdk",
];

/// Where the program is; its package is installed when it is not there.
pub(crate) fn find(program: &str, package: &str) -> Result<PathBuf, Unavailable> {
    let look = || {
        let paths = FOLDERS.iter().map(|folder| Path::new(folder).join(program));
        paths.into_iter().find(|path| path.exists())
    };
    if let Some(path) = look() {
        return Ok(path);
    }
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends", package]);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    run(&mut install)?;
    look().ok_or_else(|| Unavailable::new(program, format!("package {package} has none")))
}

/// Version of an installed Debian package.
pub(crate) fn version(package: &str) -> Option<String> {
    let said = run(Command::new("dpkg-query").args(["-W", "-f", "${Version}", package])).ok()?;
    (!said.is_empty()).then_some(said)
}

/// Runs to the end and answers what was said; a failure is told with its words.
pub(crate) fn run(command: &mut Command) -> Result<String, Unavailable> {
    let what = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output();
    let done: Output = done.map_err(|error| Unavailable::new(&what, error))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let said = said.trim().lines().last().unwrap_or("it failed").to_owned();
    let words: Vec<_> = command.get_args().take(4).map(std::ffi::OsStr::to_string_lossy).collect();
    Err(Unavailable::new(&format!("{what} {}", words.join(" ")), said))
}

/// A command that ends when we do, however that happens, and that has this core alone.
pub(crate) fn pinned(program: &Path, cores: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "taskset", "-c", cores]).arg(program);
    command
}

/// The same in a network namespace of its own, which ends with the program.
pub(crate) fn pinned_apart(program: &Path, cores: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--net", "taskset", "-c", cores]).arg(program);
    command
}

/// A program in the background; it is ended with this.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Result<Self, Unavailable> {
        let what = command.get_args().last().unwrap_or_default().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| Unavailable::new(&what, error))?;
        Ok(Self(child))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
