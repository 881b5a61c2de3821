//! Open vSwitch as processes: database and daemon in a folder and a network namespace of their own,
//! with one bridge `br0` of the user-space datapath. Refuses to know ports.

use super::Unavailable;
use super::folder::Folder;
use super::program::{Running, find, pinned_apart, run};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const START_WAIT: Duration = Duration::from_secs(30);
const SERVER_PACKAGE: &str = "openvswitch-switch";

/// A running daemon.
pub(crate) struct Daemon {
    // In the order in which they end.
    daemon: Running,
    _database: Running,
    folder: Folder,
}

impl Daemon {
    /// Starts database and daemon on these cores, with these values of `other_config`.
    ///
    /// # Errors
    /// It cannot run here.
    pub(crate) fn start(
        program: &Path,
        cores: &str,
        settings: &[&str],
    ) -> Result<Self, Unavailable> {
        let server = find("ovsdb-server", SERVER_PACKAGE)?;
        let folder = Folder::new()?;
        let file = folder.0.join("conf.db");
        run(Command::new("ovsdb-tool").arg("create").arg(&file).arg(SCHEMA))?;
        let mut database = pinned_apart(&server, cores);
        database.arg(&file).arg(socket_argument("--remote=p", &folder));
        let database = quiet(&mut database, &folder, "db")?;
        let at = Instant::now();
        while !folder.0.join("db.sock").exists() && at.elapsed() < START_WAIT {
            sleep(Duration::from_millis(20));
        }
        configure(&folder, &["--no-wait", "init"])?;
        let settings: Vec<_> = settings.iter().map(|s| format!("other_config:{s}")).collect();
        let words = ["--no-wait", "set", "Open_vSwitch", "."].into_iter();
        let words: Vec<&str> = words.chain(settings.iter().map(String::as_str)).collect();
        configure(&folder, &words)?;
        let mut daemon = pinned_apart(program, cores);
        daemon.arg(socket_argument("", &folder));
        let daemon = quiet(&mut daemon, &folder, "vs")?;
        let daemon = Self { daemon, _database: database, folder };
        daemon.wait()?;
        let bridge = ["set", "bridge", "br0", "datapath_type=netdev", "fail-mode=secure"];
        daemon.configure(&[&["add-br", "br0", "--"][..], &bridge].concat())?;
        Ok(daemon)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.daemon.0.id()
    }

    /// Replaces all rules of `br0`.
    pub(crate) fn set_rules(&self, rules: &[String]) -> Result<(), Unavailable> {
        let file = self.file("rules");
        let fail = |error: std::io::Error| Unavailable::new("the rules", error);
        let mut out = std::io::BufWriter::new(std::fs::File::create(&file).map_err(fail)?);
        for rule in rules {
            writeln!(out, "{rule}").map_err(fail)?;
        }
        out.flush().map_err(fail)?;
        let bridge = self.file("br0.mgmt");
        let of13 = ["-O", "OpenFlow13"];
        run(self.command("ovs-ofctl").args(of13).arg("del-flows").arg(&bridge))?;
        let mut add = self.command("ovs-ofctl");
        run(add.args(of13).args(["--bundle", "add-flows"]).arg(&bridge).arg(&file)).map(drop)
    }

    /// Asks the database.
    pub(crate) fn configure(&self, words: &[&str]) -> Result<String, Unavailable> {
        configure(&self.folder, words)
    }

    /// Asks the daemon.
    pub(super) fn ask(&self, words: &[&str]) -> Result<String, Unavailable> {
        run(self.command("ovs-appctl").arg("-t").arg(self.file("vs.ctl")).args(words))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    pub(super) fn command(&self, program: &str) -> Command {
        at_home(Command::new(program), &self.folder)
    }

    fn wait(&self) -> Result<(), Unavailable> {
        let began = Instant::now();
        loop {
            match self.ask(&["version"]) {
                Ok(_) => return Ok(()),
                Err(reason) if began.elapsed() > START_WAIT => return Err(reason),
                Err(_) => sleep(Duration::from_millis(100)),
            }
        }
    }
}

fn configure(folder: &Folder, words: &[&str]) -> Result<String, Unavailable> {
    let mut command = at_home(Command::new("ovs-vsctl"), folder);
    // A daemon that has died would be waited for without end.
    command.arg("--timeout=30").arg(socket_argument("--db=", folder));
    run(command.args(words))
}

fn at_home(mut command: Command, folder: &Folder) -> Command {
    for name in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
        command.env(name, &folder.0);
    }
    command
}

fn quiet(command: &mut Command, folder: &Folder, name: &str) -> Result<Running, Unavailable> {
    for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
        command.env(variable, &folder.0);
    }
    let control = folder.0.join(format!("{name}.ctl"));
    let log = folder.0.join(format!("{name}.log"));
    command.arg(format!("--unixctl={}", control.display()));
    command.arg(format!("--log-file={}", log.display())).arg("-vconsole:off");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running::start(command)
}

fn socket_argument(prefix: &str, folder: &Folder) -> String {
    format!("{prefix}unix:{}", folder.0.join("db.sock").display())
}
