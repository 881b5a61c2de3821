//! Open vSwitch as it comes, in place of ours: the same sender, functions and receiver in namespaces
//! of their own, plain packets, rules by port. Knows its programs; refuses to know what is measured.

use super::link::{Link, Room, refused, shared_ports};
use crate::error::{LabError, Result};
use crate::vocabulary::{Lab, Users};
use crate::wiring::{self, Namespaces, PortPlan, WiringPlan};
use catena_kernel::namespace::NetNamespace;
use catena_kernel::process::{enter_namespace, spawn_bound};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const BRIDGE: &str = "br0";
const START_WAIT: Duration = Duration::from_secs(20);
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Seconds that a request to its database may take.
const REQUEST_LIMIT: &str = "--timeout=20";

/// A running switch with sender and receiver at it.
pub(super) struct OpenVswitch {
    pub(super) link: Link,
    /// What it says of itself.
    pub(super) version: String,
    _processes: Processes,
    _namespaces: Namespaces,
}

/// The daemon and its database; ended in this order.
struct Processes {
    children: Vec<Child>,
    folder: PathBuf,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        // What cannot be deleted is where such things are kept.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl OpenVswitch {
    /// Starts it with the rules for the chain of plain packets; none: there are no plain packets.
    pub(super) fn start(lab: &Lab, plan: &WiringPlan, users: &Users) -> Result<Option<Self>> {
        let Some(plain) = &users.plain else { return Ok(None) };
        let [from, to] = shared_ports(lab, plan, users)?;
        let mut stops = vec![from];
        for step in lab.chain(&plain.chain).into_iter().flat_map(|chain| &chain.document.chain) {
            let of = |port: &&PortPlan| port.device == step.name && port.network == from.network;
            let port = plan.ports.iter().find(of).filter(|port| port.host == from.host);
            let reason = "beside Open vSwitch, functions are on one host and one network";
            stops.push(port.ok_or_else(|| refused(lab, reason))?);
        }
        stops.push(to);
        let devices = stops.iter().map(|stop| stop.device.as_str());
        let part = plan.part(&devices.chain([from.host.as_str()]).collect::<Vec<&str>>());
        let namespaces = wiring::make(&part, &NetNamespace::create_unnamed)?;
        let room = |name: &str| {
            let found = namespaces.get(name).cloned();
            found.ok_or_else(|| refused(lab, "a namespace beside Open vSwitch is missing"))
        };
        let mut processes = Processes { children: Vec::new(), folder: folder()? };
        let switch = Switch { folder: &processes.folder.clone(), room: room(&from.host)? };
        switch.start(&mut processes.children)?;
        switch.steer(&stops, plain.port)?;
        let rooms = [Room::Own(room(&users.from)?), Room::Own(room(&users.to)?)];
        let version = run(Command::new("ovs-vsctl").arg("--version"))?;
        let version = version.lines().next().unwrap_or_default().to_owned();
        Ok(Some(Self {
            link: Link::open(lab, &part, users, &rooms)?,
            version,
            _processes: processes,
            _namespaces: namespaces,
        }))
    }
}

/// The switch while it is being set up.
struct Switch<'s> {
    folder: &'s Path,
    room: NetNamespace,
}

impl Switch<'_> {
    fn start(&self, children: &mut Vec<Child>) -> Result<()> {
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
        let settings = ["set", "bridge", BRIDGE, "datapath_type=netdev", "fail-mode=secure"];
        self.configure(&[&["add-br", BRIDGE, "--"][..], &settings].concat()).map(drop)
    }

    /// Plain packets go from stop to stop; everything else, such as questions for addresses, as in
    /// any switch.
    fn steer(&self, stops: &[&PortPlan], port: u16) -> Result<()> {
        let mut numbers = Vec::new();
        for stop in stops {
            let interface = wiring::switch_side(&stop.device, &stop.network);
            self.configure(&["add-port", BRIDGE, &interface])?;
            let number = self.configure(&["get", "Interface", &interface, "ofport"])?;
            numbers.push(number.trim().to_owned());
        }
        let mut rules = "priority=0,actions=NORMAL\n".to_owned();
        let ways = numbers.iter().zip(numbers.iter().zip(stops).skip(1));
        for (from, (to, stop)) in ways {
            let _ = write!(rules, "priority=10,in_port={from},udp,tp_dst={port},actions=");
            if stop.is_function {
                let [a, b, c, d, e, f] = stop.mac;
                let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
                let _ = write!(rules, "set_field:{mac}->eth_dst,");
            }
            let _ = writeln!(rules, "output:{to}");
        }
        let file = self.folder.join("rules");
        fs::write(&file, rules)
            .map_err(|error| LabError::io("write", file.display().to_string(), error))?;
        let bridge = self.folder.join(format!("{BRIDGE}.mgmt"));
        wait("the bridge of Open vSwitch", || bridge.exists())?;
        run(self.program("ovs-ofctl").arg("add-flows").arg(bridge).arg(file)).map(drop)
    }

    fn socket(&self) -> String {
        format!("unix:{}", self.folder.join("db.sock").display())
    }

    fn configure(&self, words: &[&str]) -> Result<String> {
        let mut command = self.program("ovs-vsctl");
        command.arg(format!("--db={}", self.socket())).arg(REQUEST_LIMIT).args(words);
        run(&mut command)
    }

    /// A program of Open vSwitch that keeps its files in our folder.
    fn program(&self, name: &str) -> Command {
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

fn folder() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("catena-lab-ovs-{}", std::process::id()));
    fs::create_dir(&folder)
        .map_err(|error| LabError::io("create", folder.display().to_string(), error))?;
    Ok(folder)
}

fn wait(what: &str, is_there: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + START_WAIT;
    while !is_there() {
        if Instant::now() > deadline {
            return Err(failed(what, "does not start"));
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<String> {
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
