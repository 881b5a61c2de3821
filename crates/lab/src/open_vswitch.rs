//! Open vSwitch in a namespace: its database and its daemon with the user-space datapath, in a folder of their own.
//! Knows its programs; refuses to know what it is for.

use crate::error::{LabError, Result};
use catena_kernel::namespace::NetNamespace;
use catena_kernel::process::{enter_namespace, spawn_bound};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The bridge in it.
pub const BRIDGE: &str = "br0";
const START_WAIT: Duration = Duration::from_secs(20);
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Seconds that a request to its database may take.
const REQUEST_LIMIT: &str = "--timeout=20";

/// The switch while it is being set up.
pub struct Switch<'s> {
    /// Where it keeps its files.
    pub folder: &'s Path,
    /// Where its interfaces are.
    pub room: NetNamespace,
}

impl Switch<'_> {
    /// Starts it with a bridge that has no ports. `settings`: of the bridge. What was started is among the children
    /// also after an error.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start(&self, children: &mut Vec<Child>, settings: &[&str]) -> Result<()> {
        let database = self.folder.join("conf.db");
        run(Command::new("ovsdb-tool").arg("create").arg(&database).arg(SCHEMA))?;
        let mut server = self.program("ovsdb-server");
        server.arg(&database).arg(format!("--remote=p{}", self.socket()));
        children.push(self.spawn(server, "db")?);
        let socket = self.folder.join("db.sock");
        wait("the database of Open vSwitch", || socket.exists())?;
        self.configure(&["--no-wait", "init"])?;
        let mut daemon = self.program("ovs-vswitchd");
        daemon.arg(self.socket());
        children.push(self.spawn(daemon, "vs")?);
        let made = ["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev"];
        self.configure(&[&made[..], settings].concat()).map(drop)
    }

    fn socket(&self) -> String {
        format!("unix:{}", self.folder.join("db.sock").display())
    }

    /// A request to its database, in the words of `ovs-vsctl`; answers what that says.
    ///
    /// # Errors
    /// What `ovs-vsctl` says.
    pub fn configure(&self, words: &[&str]) -> Result<String> {
        let mut command = self.program("ovs-vsctl");
        // Its socket is there before anybody listens.
        command.arg(format!("--db={}", self.socket())).args([REQUEST_LIMIT, "--retry"]).args(words);
        run(&mut command)
    }

    /// A program of Open vSwitch that keeps its files in our folder.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.folder);
        }
        command
    }

    fn spawn(&self, mut command: Command, name: &str) -> Result<Child> {
        let file =
            |ending: &str| self.folder.join(format!("{name}.{ending}")).display().to_string();
        command.arg(format!("--unixctl={}", file("ctl")));
        command.arg(format!("--log-file={}", file("log"))).arg("-vconsole:off");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        enter_namespace(&mut command, &self.room);
        Ok(spawn_bound(command)?)
    }
}

pub(crate) fn wait(what: &str, is_there: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + START_WAIT;
    while !is_there() {
        if Instant::now() > deadline {
            return Err(failed(what, "does not start"));
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    Ok(())
}

pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(&name, &error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(failed(&name, said.trim().lines().last().unwrap_or("it failed")))
}

fn failed(tool: &str, problem: &str) -> LabError {
    LabError::Tool {
        tool: tool.to_owned(),
        problem: problem.to_owned(),
        advice: "is it installed? (on Debian: apt-get install openvswitch-switch)".to_owned(),
    }
}
