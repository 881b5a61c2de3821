//! What a controller keeps when it is killed, restarted, out of disk or out of its mind.

use crate::support::agent::{FakeAgent, State};
use crate::support::lab::{Lab, id};
use crate::support::{Controller, eventually, http, kind, message, open};
use catena_controller::Auth;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const DATA: &str = "CATENA_TEST_DATA";
const AUTH: &str = "CATENA_TEST_AUTH";

/// Not a test of its own: the controller's process, when one of the tests starts this file anew.
#[test]
fn child_controller() {
    let Ok(data) = std::env::var(DATA) else { return };
    let mut config = open(Path::new(&data));
    if std::env::var(AUTH).is_ok() {
        config.auth = Auth::Token;
    }
    let address = |source: &catena_controller::ListenerSource| match source {
        catena_controller::ListenerSource::Bound(listener) => listener.local_addr().unwrap(),
        catena_controller::ListenerSource::Address(address) => *address,
    };
    let addresses = [address(&config.api), address(config.southbound.as_ref().unwrap())];
    let text = format!("{}\n{}\n", addresses[0], addresses[1]);
    let file = Path::new(&data).join("addresses");
    std::fs::write(file.with_extension("new"), text).unwrap();
    std::fs::rename(file.with_extension("new"), file).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let end = runtime.block_on(catena_controller::run(config));
    panic!("the controller ended: {end:?}");
}

struct Process {
    child: Child,
    url: String,
    southbound: SocketAddr,
}

impl Process {
    fn start(data: &Path, auth: &Auth) -> Self {
        let file = data.join("addresses");
        let _ = std::fs::remove_file(&file);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "survival::child_controller", "--nocapture"]).env(DATA, data);
        if *auth == Auth::Token {
            command.env(AUTH, "token");
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let addresses =
            eventually("the controller's addresses", || std::fs::read_to_string(&file).ok());
        let mut lines = addresses.lines();
        let url = format!("http://{}", lines.next().unwrap());
        let southbound = lines.next().unwrap().parse().unwrap();
        let process = Self { child, url, southbound };
        eventually("an answer", || http().get(&process.url).send().ok());
        process
    }

    /// SIGKILL; what it has printed.
    fn kill(&mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut printed = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut printed).unwrap();
        }
        printed
    }

    fn get(&self, path: &str) -> Value {
        http().get(format!("{}{path}", self.url)).send().unwrap().json().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the client knows of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Created,
    Deleted,
    /// Asked to be deleted, never answered.
    PerhapsDeleted,
}

/// Creates and deletes groups until the controller stops answering.
fn work(url: &str, known: &mut BTreeMap<String, Known>) {
    let http = http();
    let groups = format!("{url}/v2.0/sfc/port_pair_groups");
    for n in 0.. {
        let body = json!({"port_pair_group": {"name": format!("g{n}")}});
        let Ok(answer) = http.post(&groups).json(&body).send() else { return };
        assert_eq!(answer.status(), 201);
        let Ok(created) = answer.json::<Value>() else { return };
        let created = id(&created["port_pair_group"]);
        known.insert(created.clone(), Known::Created);
        if n % 3 == 0 {
            known.insert(created.clone(), Known::PerhapsDeleted);
            let Ok(answer) = http.delete(format!("{groups}/{created}")).send() else { return };
            assert_eq!(answer.status(), 204);
            known.insert(created, Known::Deleted);
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_controller_is_killed_at_any_moment() {
    let data = tempfile::tempdir().unwrap();
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let mut process = Process::start(data.path(), &Auth::None);
    for round in 0..12u64 {
        let url = process.url.clone();
        known = std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                work(&url, &mut known);
                known
            });
            // Spread over the start of the work and its steady state.
            std::thread::sleep(Duration::from_millis(7 + round * 29 % 97));
            process.kill();
            worker.join().unwrap()
        });
        process = Process::start(data.path(), &Auth::None);
        let groups = process.get("/v2.0/sfc/port_pair_groups");
        let groups = groups["port_pair_groups"].as_array().unwrap();
        let is_there = |wanted: &str| groups.iter().any(|group| group["id"] == wanted);
        for (group, known) in &mut known {
            match known {
                Known::Created => assert!(is_there(group), "round {round}: {group} was lost"),
                Known::Deleted => assert!(!is_there(group), "round {round}: {group} came back"),
                Known::PerhapsDeleted => {
                    *known = if is_there(group) { Known::Created } else { Known::Deleted };
                }
            }
        }
    }
    assert!(known.len() > 12, "only {} groups were made", known.len());
}

/// Writes in flight at every kill.
const WRITERS: usize = 16;

/// What one writer knows of its chain.
#[derive(Debug, Default)]
struct Writer {
    /// Attributes for making the chain.
    chain: Value,
    held: Option<Held>,
    /// Chains whose end was acknowledged in this round.
    gone: Vec<String>,
    /// Answers that it got.
    acknowledged: usize,
}

#[derive(Debug)]
struct Held {
    id: String,
    /// The names it may have: more than one while the last change was not answered.
    names: Vec<String>,
    is_leaving: bool,
}

impl Writer {
    /// Makes, changes and deletes its chain until the controller stops answering.
    fn work(&mut self, url: &str, round: usize) {
        let http = http();
        let chains = format!("{url}/v2.0/sfc/port_chains");
        for step in 0.. {
            // Two attributes of one change: neither may be there without the other.
            let name = format!("{round}-{step}");
            let text = json!({"name": name, "description": name});
            let Some(held) = &mut self.held else {
                let mut body = self.chain.clone();
                body["name"].clone_from(&text["name"]);
                body["description"].clone_from(&text["description"]);
                let body = json!({"port_chain": body});
                let Ok(answer) = http.post(&chains).json(&body).send() else { return };
                let status = answer.status();
                let Ok(made) = answer.json::<Value>() else { return };
                assert_eq!(status, 201, "{made}");
                let id = id(&made["port_chain"]);
                self.held = Some(Held { id, names: vec![name], is_leaving: false });
                self.acknowledged += 1;
                continue;
            };
            let url = format!("{chains}/{}", held.id);
            if step % 4 == 3 {
                held.is_leaving = true;
                let Ok(answer) = http.delete(url).send() else { return };
                assert_eq!(answer.status(), 204);
                self.gone.extend(self.held.take().map(|held| held.id));
            } else {
                held.names.push(name.clone());
                let body = json!({"port_chain": text});
                let Ok(answer) = http.put(url).json(&body).send() else { return };
                assert_eq!(answer.status(), 200);
                held.names = vec![name];
            }
            self.acknowledged += 1;
        }
    }

    /// Holds what is there against what was acknowledged; from here on nothing is in doubt.
    fn compare(&mut self, chains: &BTreeMap<String, Value>) {
        for gone in self.gone.drain(..) {
            assert!(!chains.contains_key(&gone), "chain {gone} came back");
        }
        let Some(held) = &mut self.held else { return };
        match chains.get(&held.id) {
            None => {
                assert!(held.is_leaving, "chain {} was lost", held.id);
                self.held = None;
            }
            Some(chain) => {
                let name = chain["name"].as_str().unwrap().to_owned();
                assert!(held.names.contains(&name), "{name} is none of {:?}", held.names);
                (held.names, held.is_leaving) = (vec![name], false);
            }
        }
    }
}

#[test]
fn with_sixteen_writes_in_flight_no_kill_loses_an_acknowledged_one_or_leaves_half_of_any() {
    let is_full = std::env::var("CATENA_FULL").is_ok_and(|full| full == "1");
    let kills: u64 = if is_full { 500 } else { 50 };
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let writer = |number: usize| {
        let function = lab.function_on(&format!("f{number}"), "host1");
        let rule = lab.classifier("fc", &source, 5_000 + number as u16);
        Writer { chain: lab.chain("pc", &[&function], &[&rule]), ..Writer::default() }
    };
    let mut writers: Vec<Writer> = (0..WRITERS).map(writer).collect();
    controller.stop();
    for round in 0..kills {
        let mut process = Process::start(data.path(), &Auth::None);
        // Chains are planned and handed to a node: the kill may come at any point of that as well.
        let agent = FakeAgent::connect(data.path(), "host1", 1, process.southbound);
        let url = process.url.clone();
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let url = &url;
                scope.spawn(move || writer.work(url, round as usize));
            }
            std::thread::sleep(Duration::from_millis(3 + round * 37 % 211));
            process.kill();
        });
        drop(agent);
        let process = Process::start(data.path(), &Auth::None);
        // Whoever deletes a chain waits for the nodes that may still send into it.
        let _agent = FakeAgent::connect(data.path(), "host1", 1, process.southbound);
        let listed = process.get("/v2.0/sfc/port_chains");
        let listed = listed["port_chains"].as_array().unwrap();
        let chains: BTreeMap<String, Value> =
            listed.iter().map(|chain| (id(chain), chain.clone())).collect();
        writers.iter_mut().for_each(|writer| writer.compare(&chains));
        let held: Vec<&str> =
            writers.iter().filter_map(|w| Some(w.held.as_ref()?.id.as_str())).collect();
        for (id, chain) in &chains {
            assert_eq!(chain["name"], chain["description"], "half of a change: {chain}");
            if !held.contains(&id.as_str()) {
                // Made and never answered: it is whole, and it makes room for the next.
                let url = format!("{}/v2.0/sfc/port_chains/{id}", process.url);
                assert_eq!(http().delete(url).send().unwrap().status(), 204);
            }
        }
    }
    let acknowledged: usize = writers.iter().map(|writer| writer.acknowledged).sum();
    assert!(acknowledged > WRITERS, "only {acknowledged} writes were acknowledged");
}

#[test]
fn a_killed_controller_goes_on_with_the_same_paths_and_never_goes_back_in_number() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agent = FakeAgent::connect(data.path(), "host1", 1, controller.southbound);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host1");
    let classifier = lab.classifier("fc", &source, 5_001);
    let chain = lab.chain("pc", &[&function], &[&classifier]);
    let chain = controller.create("/v2.0/sfc/port_chains", &chain);
    assert_eq!(chain["status"], "active");
    let before = agent.program().unwrap();
    controller.stop();
    let mut state = agent.disconnect();

    for _ in 0..6 {
        let mut process = Process::start(data.path(), &Auth::None);
        let shown = process.get(&format!("/v2.0/sfc/port_chains/{}", id(&chain)));
        assert_eq!(shown["port_chain"]["name"], "pc");
        assert_ne!(shown["port_chain"]["status"], "active", "no node has confirmed it yet");
        let known = State { programs: Vec::new(), ..state };
        let agent = FakeAgent::connect_running(data.path(), "host1", 1, process.southbound, known);
        eventually("active again", || {
            (process.get("/v1/chains/pc")["status"]["state"] == "active").then_some(())
        });
        assert_eq!(agent.program(), None, "it runs what it should");
        assert_eq!(agent.state.lock().unwrap().running.number, before.number);
        process.kill();
        state = agent.disconnect();
    }
}

#[test]
fn the_token_is_printed_once_and_good_for_every_later_start() {
    let data = tempfile::tempdir().unwrap();
    let printed = Process::start(data.path(), &Auth::Token).kill();
    let line = printed.lines().find(|line| line.contains("admin token")).unwrap();
    let token = line.rsplit(' ').next().unwrap().to_owned();
    assert!(token.len() >= 64, "{line}");
    let mut second = Process::start(data.path(), &Auth::Token);
    let get = |process: &Process, token: &str| {
        let request = http().get(format!("{}/v2.0/networks", process.url));
        request.header("X-Auth-Token", token).send().unwrap().status().as_u16()
    };
    assert_eq!((get(&second, &token), get(&second, "wrong")), (200, 401));
    let stored = std::fs::read(data.path().join("catena.db")).unwrap();
    let has = |needle: &[u8]| stored.windows(needle.len()).any(|window| window == needle);
    assert!(!has(token.as_bytes()), "the token itself is on disk");
    assert!(!second.kill().contains("admin token"));
}

#[test]
fn a_full_disk_is_a_clear_error_and_what_was_acknowledged_stays() {
    let data = tempfile::tempdir().unwrap();
    let mut config = open(data.path());
    config.store_bytes_max = Some(64 * 1024);
    let controller = Controller::start(config);
    let mut created = Vec::new();
    let refusal = loop {
        let network = json!({"name": "n", "description": "x".repeat(200)});
        match controller.post("/v2.0/networks", &network) {
            (201, network) => created.push(id(&network)),
            (status, body) => break (status, body),
        }
        assert!(created.len() < 10_000, "the disk never filled");
    };
    assert_eq!((refusal.0, kind(&refusal.1)), (507, "StoreFull"), "{refusal:?}");
    assert!(message(&refusal.1).contains("the disk is full"), "{refusal:?}");
    let ids = |controller: &Controller| {
        let networks = controller.get("/v2.0/networks");
        let networks = networks["networks"].as_array().unwrap().clone();
        networks.iter().map(id).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ids(&controller), created.iter().cloned().collect());
    controller.stop();
    let controller = Controller::start(open(data.path()));
    assert_eq!(ids(&controller), created.iter().cloned().collect());
    controller.create("/v2.0/networks", &json!({}));
}

#[test]
fn a_damaged_store_is_refused_at_start_with_the_name_of_the_document() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let network = controller.create("/v2.0/networks", &json!({"name": "findable-name"}));
    controller.stop();
    let file = data.path().join("catena.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let needle = b"findable-name";
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime.block_on(catena_controller::run(open(data.path()))).unwrap_err();
    let message = error.to_string();
    assert!(message.contains(&format!("network/{}", id(&network))), "{message}");
    assert!(message.contains("restore the store from a backup"), "{message}");
}

/// What a kill leaves on disk, without killing: the files as they are while the controller runs.
fn copy_store(from: &Path, to: &Path) {
    for file in ["catena.db", "catena.db-wal", "catena.db-witness"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

#[test]
fn a_store_whose_log_was_damaged_is_refused_at_start_and_says_how_to_go_on() {
    let (data, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let controller = Controller::start(open(data.path()));
    let networks: Vec<String> = (0..30)
        .map(|n| id(&controller.create("/v2.0/networks", &json!({"name": format!("n{n}")}))))
        .collect();
    copy_store(data.path(), killed.path());
    controller.stop();
    let log = killed.path().join("catena.db-wal");
    let whole = std::fs::read(&log).unwrap();
    let start = || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(catena_controller::run(open(killed.path()))).unwrap_err().to_string()
    };
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    for damaged in [&flipped[..], &whole[..whole.len() / 3], &[]] {
        std::fs::write(&log, damaged).unwrap();
        let message = start();
        for words in ["has lost changes that were acknowledged", "backup", "--accept-store"] {
            assert!(message.contains(words), "{message}");
        }
    }
    let count = |config| {
        let controller = Controller::start(config);
        let listed = controller.get("/v2.0/networks")["networks"].as_array().unwrap().len();
        controller.stop();
        listed
    };
    std::fs::write(&log, &flipped).unwrap();
    let mut as_it_is = open(killed.path());
    as_it_is.accepts_loss = true;
    let left = count(as_it_is);
    assert!(left < networks.len(), "{left} networks");
    assert_eq!(count(open(killed.path())), left, "accepted once is enough");
}

#[test]
fn the_log_of_the_store_is_emptied_at_intervals_and_at_a_clean_end() {
    let data = tempfile::tempdir().unwrap();
    let mut config = open(data.path());
    config.checkpoint_interval = Duration::from_millis(50);
    let controller = Controller::start(config);
    let log = data.path().join("catena.db-wal");
    controller.create("/v2.0/networks", &json!({"name": "n"}));
    eventually("an empty log", || (std::fs::metadata(&log).ok()?.len() == 0).then_some(()));
    controller.stop();
    let controller = Controller::start(open(data.path()));
    controller.create("/v2.0/networks", &json!({"name": "m"}));
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    controller.stop();
    assert!(!log.exists(), "nothing hangs on the log after a clean end");
}
