//! Labs for the tests: one that most share, and others of their own. A lab ends with its value,
//! at the latest with the tests' process.

use crate::account;
use crate::node::Node;
use crate::patience::{LIMIT, PAUSE, wait_for};
use crate::procfs::{self, Process};
use crate::traffic::BUFFER_BYTES;
use catena_client::deploy::{ChainDocument, Deployed, Deployment};
use catena_client::{Client, Kind};
use catena_kernel::process::spawn_bound;
use catena_model::status::{ChainReport, ChainState, NodeReport};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The one binary.
pub(crate) const CATENA: &str = env!("CARGO_BIN_EXE_catena");
/// The file in the folder of a renamed lab.
pub(crate) const LAB: &str = "lab.yaml";
/// The order in which a deployment is taken apart.
const KINDS: [Kind; 4] =
    [Kind::PortChain, Kind::FlowClassifier, Kind::PortPairGroup, Kind::PortPair];

/// One test at a time.
static TURN: Mutex<()> = Mutex::new(());
/// The lab that tests share; none before the first and after a failed one.
static SHARED: Mutex<Option<House>> = Mutex::new(None);

/// The right to use the machine.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lab file of the tests.
pub(crate) fn lab_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/tests").join(name)
}

/// A name that no other run of the tests has.
pub(crate) fn lab_name(purpose: &str) -> String {
    format!("test-{purpose}-{}", std::process::id())
}

/// A folder with a lab that differs from one of the tests by its name alone.
pub(crate) fn renamed_lab(file: &str, name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let base = lab_file(file).canonicalize().expect("the lab file");
    let text = format!("extends: {}\nname: {name}\n", base.display());
    fs::write(folder.path().join(LAB), text).expect("a lab file");
    folder
}

/// A variable of the environment that tells the processes of one lab from all others.
pub(crate) fn new_mark() -> (&'static str, String) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    ("CATENA_TEST_MARK", format!("{}-{count}", std::process::id()))
}

/// A running lab.
pub(crate) struct House {
    pub(crate) name: String,
    pub(crate) client: Client,
    mark: String,
    init: u32,
    starter: Child,
}

/// Runs a test in the lab that all share; afterwards the accounts must hold on every node.
pub(crate) fn in_shared_house(test: impl FnOnce(&House)) {
    let _turn = turn();
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    // A failed test drops the lab on its way out, with whatever state it left.
    let house = shared.take().unwrap_or_else(|| House::up("house.yaml", &lab_name("house"), &[]));
    test(&house);
    account::assert_holds(&house);
    house.remove_chains();
    *shared = Some(house);
}

/// Runs a test in a lab of its own; afterwards the accounts must hold on every node.
pub(crate) fn in_own_house(file: &str, test: impl FnOnce(&mut House)) {
    in_own_house_with(file, &[], test);
}

/// The same in a lab that comes up with these options.
pub(crate) fn in_own_house_with(file: &str, options: &[&str], test: impl FnOnce(&mut House)) {
    let _turn = turn();
    let mut house = House::up(file, &lab_name("own"), options);
    test(&mut house);
    account::assert_holds(&house);
}

impl House {
    fn up(file: &str, name: &str, options: &[&str]) -> Self {
        let (variable, value) = new_mark();
        let folder = renamed_lab(file, name);
        let mut command = Command::new(CATENA);
        command.args(["lab", "up"]).arg(folder.path().join(LAB)).args(options);
        command.env(variable, &value);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut starter = spawn_bound(command).expect("the binary starts");
        let out = starter.stdout.take().expect("stdout is a pipe");
        let mut said = String::new();
        let mut api = None;
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            api = api.or_else(|| Some(line.strip_prefix("API: ")?.to_owned()));
            said.push_str(&line);
            said.push('\n');
            if line.starts_with("Ctrl-C") {
                break;
            }
        }
        let Some(api) = api else {
            let mut wrong = String::new();
            let _ = starter.stderr.take().expect("stderr is a pipe").read_to_string(&mut wrong);
            panic!("{file} did not come up:\n{said}{wrong}");
        };
        let mark = format!("{variable}={value}");
        let first = procfs::marked(&mark).into_iter().find(|process| process.name == "lab-init");
        let init = first.expect("a lab has a first process").pid;
        let client = Client::new(api, None).expect("a client can be made");
        let house = Self { name: name.to_owned(), client, mark, init, starter };
        for node in fs::read_dir(house.path("/run/netns")).expect("a lab has nodes").flatten() {
            let name = node.file_name().to_string_lossy().into_owned();
            // What is lost between nodes of ours is to be seen.
            if !house.path(&format!("/run/catena/node/{name}")).exists() {
                house.node(&name).keep_for_neighbours(BUFFER_BYTES);
            }
        }
        house
    }

    /// One of its nodes.
    pub(crate) fn node(&self, name: &str) -> Node {
        Node::of(self.init, name)
    }

    /// Number of its first process, as this machine sees it.
    pub(crate) fn init(&self) -> u32 {
        self.init
    }

    /// A path of its own file system, as seen from outside.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.init))
    }

    /// Its living processes.
    pub(crate) fn processes(&self) -> Vec<Process> {
        procfs::marked(&self.mark)
    }

    /// The one living process of a role, such as `agent` of `host1`.
    pub(crate) fn process(&self, role: &str, node: Option<&str>) -> Process {
        let is_it = |process: &Process| {
            process.words.get(1).is_some_and(|word| word == role)
                && node.is_none_or(|node| process.words.iter().any(|word| word == node))
        };
        let mut found: Vec<Process> = self.processes().into_iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{role} {node:?}: {found:?}");
        found.remove(0)
    }

    /// Starts the binary inside a node, in the file system of the lab; its environment marks it
    /// as the lab's, and what it says goes to a log of the lab.
    pub(crate) fn shell(&self, node: &str, words: &[String], log: &str) -> Command {
        let (variable, value) = self.mark.split_once('=').expect("a variable with its value");
        let mut command = Command::new(CATENA);
        command.args(["lab", "shell", &format!("{}/{node}", self.name)]);
        command.arg(CATENA).args(words).env(variable, value);
        let log = self.path("/run/catena/log").join(log);
        let open = || File::options().create(true).append(true).open(&log).expect("a log");
        command.stdin(Stdio::null()).stdout(open()).stderr(open());
        command
    }

    /// Runs the binary against its controller.
    pub(crate) fn catena(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(CATENA);
        command.args(["--url", self.client.base()]).args(arguments).stdin(Stdio::null());
        command.output().expect("the binary runs")
    }

    /// Runs the binary; it must succeed.
    pub(crate) fn tell(&self, arguments: &[&str]) -> String {
        let output = self.catena(arguments);
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {wrong}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs the binary; it must fail with exit code 1 and say why.
    pub(crate) fn refuse(&self, arguments: &[&str]) -> String {
        let output = self.catena(arguments);
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {wrong}");
        // What its user should know of rule sets may stand before it.
        assert!(wrong.lines().any(|line| line.starts_with("catena: ")), "{wrong}");
        wrong
    }

    /// Deploys a chain document, whatever becomes of it.
    pub(crate) fn declare(&self, document: Value) -> Deployed {
        let document: ChainDocument = serde_json::from_value(document).expect("a chain document");
        Deployment::deploy(&self.client, &document).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Deploys a chain document whose chain must be active.
    pub(crate) fn deploy(&self, document: Value) -> Deployed {
        let deployed = self.declare(document);
        assert_eq!((deployed.status.as_str(), deployed.status_reason.as_str()), ("active", ""));
        deployed
    }

    /// Removes a chain with all that was made for it.
    pub(crate) fn undeploy(&self, chain: &str) {
        Deployment::undeploy(&self.client, chain).unwrap_or_else(|error| panic!("{error}"));
    }

    /// A chain's state and counters.
    pub(crate) fn chain(&self, chain: &str) -> ChainReport {
        self.client.chain(chain).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until a chain is active.
    pub(crate) fn wait_active(&self, chain: &str) {
        wait_for("an active chain", || {
            let status = self.chain(chain).status;
            if status.state == ChainState::Active { Ok(()) } else { Err(status.reason) }
        });
    }

    /// Status and counters of all nodes.
    pub(crate) fn nodes(&self) -> Vec<NodeReport> {
        self.client.nodes().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until every node is connected and runs what it should.
    pub(crate) fn wait_settled(&self) {
        wait_for("all nodes at their programs", || {
            let late = |node: &&NodeReport| {
                let status = &node.status;
                !status.is_connected
                    || status.wanted != status.acknowledged
                    || !status.unbound.is_empty()
            };
            match self.client.nodes() {
                Ok(nodes) => match nodes.iter().find(late) {
                    None => Ok(()),
                    Some(node) => Err(format!("{:?}", node.status)),
                },
                Err(error) => Err(error.to_string()),
            }
        });
    }

    /// Everything that is declared, by kind.
    pub(crate) fn declared(&self) -> Vec<Vec<Value>> {
        let all = KINDS.into_iter().chain([Kind::Port, Kind::Subnet, Kind::Network]);
        let list = |kind| {
            let mut items = self.client.list(kind, &[]).unwrap_or_else(|error| panic!("{error}"));
            for item in items.iter_mut().filter_map(Value::as_object_mut) {
                // What became of the packets of a change is not declared, and not kept.
                item.remove("last_change");
            }
            items
        };
        all.map(list).collect()
    }

    /// Removes every chain and what it was made of.
    pub(crate) fn remove_chains(&self) {
        for kind in KINDS {
            for item in self.client.list(kind, &[]).unwrap_or_else(|error| panic!("{error}")) {
                let id = item["id"].as_str().expect("an id");
                self.client.delete(kind, id).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    /// What nodes and chains counted, if somebody answers.
    fn tell_counters(&self) {
        for report in self.client.nodes().unwrap_or_default() {
            let Some(counters) = &report.counters else { continue };
            let (total, ring_full) = (counters.total(), counters.ring_full());
            println!("--- {} ring full {ring_full}, {total:?}", counters.node);
        }
        for chain in self.client.chains().unwrap_or_default() {
            let id = chain.status.chain.to_string();
            if let Ok(report) = self.client.chain(&id) {
                println!("--- {}: {:?}", chain.name, account::ChainTotal::of(&report));
            }
        }
    }

    /// The last lines of each log.
    fn tell_logs(&self) {
        const LINES: usize = 15;
        let folder = self.path("/run/catena/log");
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            println!("--- {}", entry.file_name().to_string_lossy());
            for line in lines.iter().skip(lines.len().saturating_sub(LINES)) {
                println!("{line}");
            }
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell_logs();
            self.tell_counters();
        }
        // It may have ended by itself.
        let _ = self.starter.kill();
        let _ = self.starter.wait();
        // The kernel takes the rest of it down; the name is free when all of it is gone.
        let start = Instant::now();
        let socket = format!("catena-lab-{}", self.name);
        let is_there = || !self.processes().is_empty() || procfs::has_abstract_socket(&socket);
        while is_there() && start.elapsed() < LIMIT {
            std::thread::sleep(PAUSE);
        }
    }
}
