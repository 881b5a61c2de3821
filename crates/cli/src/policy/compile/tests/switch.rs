//! Open vSwitch in user space, with a process, a database and a folder of its own; it is asked over its control socket,
//! as `ovs-appctl` asks. Knows how it is started and what a trace says; refuses to know rules.

use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// How long something may take that others wait for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Its ports, numbered from 1.
pub(super) const PORTS: [&str; 2] = ["inner", "outer"];

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Passed,
    Dropped,
    Unsaid,
}

/// A bridge; its processes end with it.
pub(super) struct Switch {
    children: Vec<Child>,
    folder: TempDir,
    control: Option<UnixStream>,
    last: String,
}

impl Drop for Switch {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Switch {
    /// A bridge with two ports and no flows; none: it is not installed, and it is said that the test is skipped.
    pub(super) fn start(test: &str) -> Option<Self> {
        if !["/usr/sbin/ovs-vswitchd", SCHEMA].iter().all(|file| Path::new(file).exists()) {
            println!("SKIPPED: {test}: Open vSwitch is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut switch = Self { children: Vec::new(), folder, control: None, last: String::new() };
        let database = switch.file("conf.db");
        switch.run("ovsdb-tool", &["create", &database, SCHEMA], "");
        let socket = switch.file("db.sock");
        switch.spawn("ovsdb-server", "db", &[&database, &format!("--remote=punix:{socket}")]);
        switch.wait_for("db.sock");
        switch.configure("--no-wait init");
        let socket = format!("unix:{socket}");
        switch.spawn(
            "ovs-vswitchd",
            "vs",
            &[&socket, "--enable-dummy=override", "--disable-system"],
        );
        let [inner, outer] = PORTS;
        switch.configure(&format!(
            "add-br br0 -- set bridge br0 datapath_type=dummy fail-mode=secure \
             -- add-port br0 {inner} -- set interface {inner} type=dummy ofport_request=1 \
             -- add-port br0 {outer} -- set interface {outer} type=dummy ofport_request=2"
        ));
        switch.wait_for("vs.ctl");
        switch.control = Some(UnixStream::connect(switch.file("vs.ctl")).unwrap());
        let bridge = switch.bridge();
        switch.run("ovs-ofctl", &["-O", "OpenFlow13", "set-frags", &bridge, "nx-match"], "");
        Some(switch)
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn bridge(&self) -> String {
        format!("unix:{}", self.file("br0.mgmt"))
    }

    fn wait_for(&self, name: &str) {
        let begun = Instant::now();
        while !self.folder.path().join(name).exists() {
            assert!(begun.elapsed() < PATIENCE, "{name} did not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for of in ["RUN", "LOG", "DB", "SYSCONF"] {
            command.env(format!("OVS_{of}DIR"), self.folder.path());
        }
        command.stdin(Stdio::null());
        command
    }

    fn spawn(&mut self, program: &str, name: &str, words: &[&str]) {
        let control = format!("--unixctl={}", self.file(&format!("{name}.ctl")));
        let mut command = self.command(program);
        command.args(words).arg(control).args(["-vconsole:off", "-vsyslog:off"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(command.spawn().unwrap());
    }

    fn run(&self, program: &str, words: &[&str], input: &str) {
        let mut command = self.command(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Who finds a line wrong reads no further, and says so.
        child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {words:?}: {told}");
    }

    fn configure(&self, words: &str) {
        let database = format!("--db=unix:{}", self.file("db.sock"));
        // Its socket is there before anybody listens.
        let limits = [database.as_str(), "--timeout=30", "--retry"];
        let words: Vec<&str> = limits.into_iter().chain(words.split(' ')).collect();
        self.run("ovs-vsctl", &words, "");
    }

    /// Takes flows in the place of those that it has.
    pub(super) fn load(&self, flows: &str) {
        let bridge = self.bridge();
        self.run("ovs-ofctl", &["-O", "OpenFlow13", "del-flows", &bridge], "");
        self.run("ovs-ofctl", &["-O", "OpenFlow13", "add-flows", &bridge, "-"], flows);
    }

    /// What would become of a frame that comes by one of its ports.
    pub(super) fn trace(&mut self, is_outside: bool, frame: &[u8]) -> End {
        let hex: String = frame.iter().map(|octet| format!("{octet:02x}")).collect();
        let port = format!("in_port={}", if is_outside { 2 } else { 1 });
        self.last = self.ask(&json!(["br0", port, hex]));
        let last = self.last.lines().last().unwrap_or_default();
        let actions = last.strip_prefix("Datapath actions: ").expect("a trace").trim();
        let comes_to =
            |table: &str| self.last.lines().any(|line| line.trim_start().starts_with(table));
        match actions {
            "drop" if comes_to("253. No match") => End::Unsaid,
            "drop" => End::Dropped,
            _ => {
                let to = if is_outside { "output:1" } else { "output:2" };
                assert!(comes_to("252. ") && comes_to(to), "{}", self.last);
                End::Passed
            }
        }
    }

    /// All that was said of the last frame.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    fn ask(&mut self, parameters: &Value) -> String {
        let control = self.control.as_mut().unwrap();
        let asked = json!({"id": 0, "method": "ofproto/trace", "params": parameters});
        control.write_all(asked.to_string().as_bytes()).unwrap();
        let (mut said, mut part) = (Vec::new(), [0; 65_536]);
        loop {
            let read = control.read(&mut part).unwrap();
            assert!(read > 0, "the switch has ended");
            said.extend_from_slice(&part[..read]);
            if let Ok(answer) = serde_json::from_slice::<Value>(&said) {
                assert_eq!(answer["error"], Value::Null);
                return answer["result"].as_str().unwrap().to_owned();
            }
        }
    }
}
