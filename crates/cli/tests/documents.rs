//! Documents and the stock verbs against a real controller without nodes: what is declared, by the
//! command line alone.
#![allow(clippy::unwrap_used)]

#[path = "documents/expected.rs"]
mod expected;
#[path = "documents/moves.rs"]
mod moves;
#[path = "documents/names.rs"]
mod names;
#[path = "documents/told.rs"]
mod told;
#[path = "documents/verbs.rs"]
mod verbs;

use catena_client::{Client, Kind};
use catena_model::entry::{Entries, Program, checksum};
use catena_model::id::ChainId;
use catena_model::program::ChainEntry;
use catena_model::slice::SliceReport;
use catena_model::text::is_unseen;
use catena_model::{BlueprintNumber, NodeName};
use catena_protocol::delta::deltas;
use catena_protocol::frame;
use catena_store::{Expect, Key, SqliteStore, Store as _, Transaction};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a controller may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

struct Controller {
    process: Child,
    url: String,
    token: Option<String>,
    folder: TempDir,
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Controller {
    fn start(auth: &str) -> Self {
        Self::start_on(tempfile::tempdir().unwrap(), auth)
    }

    /// Ends it and starts another on what it has stored, with this done to the store between.
    fn restart(mut self, meanwhile: impl FnOnce(&SqliteStore)) -> Self {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        meanwhile(&SqliteStore::open(folder.path().join("data/catena.db")).unwrap());
        Self::start_on(folder, "none")
    }

    fn start_on(folder: TempDir, auth: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
        command.args(["controller", "--auth", auth, "--listen", &free.to_string(), "--data"]);
        command.arg(folder.path().join("data")).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let mut token = None;
        if auth == "token" {
            let out = BufReader::new(process.stdout.take().unwrap());
            let said = out.lines().map_while(Result::ok).find(|line| line.contains("admin token"));
            token = said.and_then(|line| Some(line.rsplit(' ').next()?.to_owned()));
        }
        let controller = Self { process, url: format!("http://{free}"), token, folder };
        let deadline = Instant::now() + PATIENCE;
        while controller.client().chains().is_err() {
            assert!(Instant::now() < deadline, "the controller does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        controller
    }

    fn client(&self) -> Client {
        Client::new(&self.url, self.token.clone()).unwrap()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn catena(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
        command.env("CATENA_URL", &self.url).args(words);
        if let Some(token) = &self.token {
            command.env("CATENA_TOKEN", token);
        }
        command.output().unwrap()
    }

    /// What a verb says that ends with this exit code.
    fn tell(&self, code: i32, words: &[&str]) -> String {
        let output = self.catena(words);
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        said
    }

    /// A network with the ports of endpoints and functions.
    fn with_ports(auth: &str) -> Self {
        let controller = Self::start(auth);
        let client = controller.client();
        let network = client.create(Kind::Network, &json!({"name": "n"})).unwrap()["id"].take();
        let subnet = json!({"network_id": network, "cidr": "10.0.0.0/24", "ip_version": 4});
        client.create(Kind::Subnet, &subnet).unwrap();
        for device in ["S", "D", "v1", "v2", "v3"] {
            let port = json!({"name": device, "device_id": device, "network_id": network});
            client.create(Kind::Port, &port).unwrap();
        }
        controller
    }

    fn count(&self, kind: Kind) -> usize {
        self.client().list(kind, &[]).unwrap().len()
    }
}

const WEB: &str = "
chains:
  - {name: web, source: S, destination: D, classify: tcp dport 80, encapsulation: nsh,
     through: [{name: v1, speaks: nsh}]}
  - {name: rest, source: S, destination: D, classify: udp dport 1000-2000, encapsulation: nsh,
     through: [{name: v2, speaks: nsh}]}
functions:
  - name: v1
    on_failure: block
    template: {runs: {external: registry/fw:1}, instances: 2}
graphs:
  - {name: g, branches: {web: [rest]}}
";

/// The plan number that a plan ends with.
fn number(plan: &str) -> String {
    // Beside it stands that no host is there for what has a template.
    let behind = plan.rsplit("--plan ").next().unwrap();
    behind.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_document_is_planned_applied_and_compared_as_a_whole() {
    let controller = Controller::with_ports("none");
    let file = controller.file("web.yaml", WEB);
    let plan = controller.tell(3, &["plan", "-f", &file]);
    let no_hosts = "no hosts are proposed: ";
    let parts = ["chain web new", "chain rest new", "graph g new", "Apply with: catena apply -f "];
    for part in parts.into_iter().chain([no_hosts]) {
        assert!(plan.contains(part), "{part} in {plan}");
    }
    assert_eq!(controller.count(Kind::PortChain), 0);
    let diff = controller.tell(3, &["diff", "-f", &file]);
    assert!(diff.contains("+- name: web") && diff.contains("+    protocol: tcp"), "{diff}");
    let said = controller.tell(0, &["apply", "-f", &file, "--plan", &number(&plan)]);
    assert!(said.contains("created"), "{said}");
    assert_eq!(controller.count(Kind::PortChain), 2);
    assert!(controller.tell(0, &["plan", "-f", &file]).contains("no changes"));
    assert!(controller.tell(0, &["apply", "-f", &file]).contains("no changes"));
    assert_eq!(controller.tell(0, &["diff", "-f", &file]), "");
    assert!(controller.tell(0, &["graph", "show", "g"]).contains("└─► rest"));
    let function = controller.tell(0, &["function", "show", "v1"]);
    assert!(
        function.contains("somebody else's: registry/fw:1") && function.contains("of 2"),
        "{function}"
    );

    // A chain tells itself as a document that changes nothing.
    let export = controller.tell(0, &["chain", "export", "rest"]);
    let exported = controller.file("rest.yaml", &export);
    assert!(controller.tell(0, &["plan", "-f", &exported]).contains("no changes"), "{export}");

    controller.file(
        "web.yaml",
        &WEB.replace("[{name: v1, speaks: nsh}]", "[v3, {name: v1, speaks: nsh}]"),
    );
    let diff = controller.tell(3, &["diff", "-f", &file]);
    assert!(diff.contains("+  - name: v3") && !diff.contains("rest"), "{diff}");
    let plan = controller.tell(3, &["plan", "-f", &file]);
    controller.client().create(Kind::Network, &json!({"name": "elsewhere"})).unwrap();
    let refused = controller.tell(1, &["apply", "-f", &file, "--plan", &number(&plan)]);
    assert!(refused.contains("network 'elsewhere'"), "{refused}");
    assert_eq!(controller.client().chain("web").unwrap().functions, ["v1"]);
    controller.tell(0, &["apply", "-f", &file]);
    assert_eq!(controller.client().chain("web").unwrap().functions, ["v3", "v1"]);

    controller.tell(3, &["plan", "-f", &file, "--undeploy"]);
    controller.tell(0, &["apply", "-f", &file, "--undeploy"]);
    for kind in [Kind::PortChain, Kind::FlowClassifier, Kind::PortPair, Kind::ServiceGraph] {
        assert_eq!(controller.count(kind), 0, "{kind:?}");
    }
}

const USERS: &str = "
chains:
  - {name: gate, source: S, destination: D, classify: udp dport 7001, through: [v1]}
  - {name: scrub, source: S, destination: D, classify: udp dport 7002, through: [v2]}
slices:
  - {name: members, chain: gate, vni: 7, teids: [1, 100]}
  - {name: deep, chain: scrub, after: gate, teid: 3}
";

#[test]
fn slices_at_the_end_of_a_chain_are_declared_by_a_document() {
    let controller = Controller::with_ports("none");
    let file = controller.file("users.yaml", USERS);
    let plan = controller.tell(3, &["plan", "-f", &file]);
    assert!(plan.contains("slice deep new") && plan.contains("slice members new"), "{plan}");
    controller.tell(0, &["apply", "-f", &file]);
    assert!(controller.tell(0, &["plan", "-f", &file]).contains("no changes"));
    assert_eq!(controller.tell(0, &["diff", "-f", &file]), "");
    let from = || -> Vec<(String, Option<String>)> {
        let slices = controller.client().slices(None).unwrap();
        let from = |report: SliceReport| (report.slice.name, report.slice.after);
        let mut all: Vec<_> = slices.into_iter().map(from).collect();
        all.sort();
        all
    };
    let all = [("deep".to_owned(), Some("gate".to_owned())), ("members".to_owned(), None)];
    assert_eq!(from(), all);

    // Who would go round is refused, and nothing else of the document is made either.
    let more =
        "  - {name: more, source: S, destination: D, classify: udp dport 7003, through: [v3]}";
    let round =
        USERS.replace("vni: 7, ", "after: scrub, ").replace("slices:", &format!("{more}\nslices:"));
    let file = controller.file("round.yaml", &round);
    let refused = controller.tell(1, &["apply", "-f", &file]);
    // Either chain of the circle may be the one that it is told by.
    let told = |chain: &str| refused.contains(&format!("from chain '{chain}' back to it"));
    assert!(told("gate") || told("scrub"), "{refused}");
    assert_eq!((from(), controller.count(Kind::PortChain)), (all.to_vec(), 2));

    controller.tell(0, &["slice", "set", "deep", "--source-port", "S"]);
    let diff = controller.tell(3, &["diff", "-f", &controller.file("users.yaml", USERS)]);
    assert!(diff.contains("after"), "{diff}");
    controller.tell(0, &["apply", "-f", &controller.file("users.yaml", USERS)]);
    assert_eq!(from(), all);
    controller.tell(0, &["apply", "-f", &controller.file("users.yaml", USERS), "--undeploy"]);
    assert_eq!(from(), []);
}

#[test]
fn a_document_of_which_one_part_is_wrong_makes_nothing() {
    let controller = Controller::with_ports("none");
    for (name, wrong, named) in [
        ("ports.yaml", WEB.replace("{name: v2, speaks: nsh}", "v9"), "v9"),
        ("graph.yaml", WEB.replace("branches: {web: [rest]}", "branches: {web: [none]}"), "none"),
        ("overlap.yaml", WEB.replace("udp dport 1000-2000", "tcp dport 80"), "onflict"),
        ("key.yaml", WEB.replace("through:", "thruogh:"), "thruogh"),
    ] {
        let file = controller.file(name, &wrong);
        let refused = controller.tell(1, &["apply", "-f", &file]);
        assert!(refused.contains(named), "{name}: {refused}");
        for kind in [Kind::PortChain, Kind::PortPairGroup, Kind::PortPair, Kind::FlowClassifier] {
            assert_eq!(controller.count(kind), 0, "{name}: {kind:?}");
        }
    }
}

#[test]
fn the_stock_verbs_make_show_change_and_delete_every_resource() {
    let controller = Controller::with_ports("none");
    let tell = |words: &[&str]| controller.tell(0, words);
    tell(&[
        "flow-classifier",
        "create",
        "fc1",
        "--protocol",
        "tcp",
        "--destination-port",
        "80:81",
        "--logical-source-port",
        "S",
    ]);
    tell(&["classifier", "create", "fc2", "--match", "udp dport 53", "--logical-source-port", "S"]);
    tell(&[
        "port-pair",
        "create",
        "pp1",
        "--ingress",
        "v1",
        "--egress",
        "v1",
        "--service-function-parameters",
        "correlation=mpls,weight=2",
    ]);
    tell(&[
        "port-pair",
        "create",
        "pp2",
        "--ingress",
        "v2",
        "--egress",
        "v2",
        "--service-function-parameters",
        "correlation=mpls",
    ]);
    tell(&["port-pair-group", "create", "ppg1", "--port-pair", "pp1"]);
    tell(&[
        "port-pair-group",
        "create",
        "ppg2",
        "--port-pair-group-parameters",
        "lb-fields=ip_src&ip_dst",
    ]);
    tell(&["port-pair-group", "set", "ppg2", "--port-pair", "pp2"]);
    tell(&[
        "port-chain",
        "create",
        "pc1",
        "--port-pair-group",
        "ppg1",
        "--flow-classifier",
        "fc1",
        "--chain-parameters",
        "correlation=mpls,symmetric=false",
    ]);
    tell(&[
        "port-chain",
        "set",
        "pc1",
        "--flow-classifier",
        "fc2",
        "--port-pair-group",
        "ppg2",
        "--description",
        "both",
    ]);
    let read = |words: &[&str]| -> Value { serde_json::from_str(&tell(words)).unwrap() };
    let chain = read(&["port-chain", "show", "pc1", "-o", "json"]);
    assert_eq!(chain["port_pair_groups"].as_array().unwrap().len(), 2);
    assert_eq!(chain["flow_classifiers"].as_array().unwrap().len(), 2);
    assert_eq!(chain["description"], "both");
    tell(&["port-chain", "unset", "pc1", "--flow-classifier", "fc2"]);
    let chain = read(&["port-chain", "show", "pc1", "-o", "json"]);
    let fc1 = read(&["flow-classifier", "show", "fc1", "-o", "json"]);
    assert_eq!(chain["flow_classifiers"], json!([fc1["id"]]));
    assert_eq!(
        (&fc1["destination_port_range_min"], &fc1["destination_port_range_max"]),
        (&json!(80), &json!(81))
    );
    let pair = read(&["port-pair", "show", "pp1", "-o", "json"]);
    assert_eq!(pair["service_function_parameters"]["weight"], 2);

    tell(&["port-chain", "create", "pc2", "--port-pair-group", "ppg2", "--flow-classifier", "fc2"]);
    tell(&["service-graph", "create", "sg", "--branching-point", "pc1:pc2"]);
    let rows = tell(&["service-graph", "list"]);
    assert!(rows.contains("sg"), "{rows}");
    let lines = tell(&["port-chain", "list", "-o", "jsonl"]);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(tell(&["graph", "list"]).contains("pc1"));
    tell(&["service-graph", "delete", "sg"]);
    let refused = controller.tell(1, &["flow-classifier", "delete", "fc1", "nosuch"]);
    assert!(refused.contains("fc1") && refused.contains("nosuch"), "{refused}");
    tell(&["port-chain", "delete", "pc1", "pc2"]);
    tell(&["flow-classifier", "delete", "fc1", "fc2"]);
    tell(&["port-pair-group", "unset", "ppg1", "--all-port-pair"]);
    tell(&["port-pair-group", "delete", "ppg1", "ppg2"]);
    tell(&["port-pair", "delete", "pp1", "pp2"]);
    for kind in [Kind::PortChain, Kind::FlowClassifier, Kind::PortPairGroup, Kind::PortPair] {
        assert_eq!(controller.count(kind), 0, "{kind:?}");
    }
}

#[test]
fn a_report_of_a_fault_holds_what_the_controller_tells_and_no_token() {
    let controller = Controller::with_ports("token");
    let token = controller.token.clone().unwrap();
    assert!(token.len() >= 32, "{token}");
    let file = controller.folder.path().join("report.jsonl");
    let name = file.display().to_string();
    let output = controller.catena(&["doctor", "--bundle", &name]);
    assert!(output.status.code().is_some_and(|code| [0, 4].contains(&code)), "{output:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    let parts: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| parts.iter().find(|part| part["part"] == name).unwrap();
    assert_eq!(of("versions")["value"]["catena"], env!("CARGO_PKG_VERSION"));
    assert_eq!(of("status")["value"]["nodes"]["known"], 0);
    assert!(of("limits")["value"]["CHAIN_FUNCTIONS_MAX"].is_number());
    for name in ["machine", "nodes", "chains", "paths", "functions", "instances", "graphs"] {
        assert!(of(name)["value"].is_array(), "{name}");
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for (whose, text) in [("the report", &text), ("the terminal", &said)] {
        assert!(!text.contains(&token), "the token is in {whose}");
    }
}

/// Clears the screen, sets the title, begins lines of its own and turns what follows.
const HOSTILE: &str =
    "\u{1b}[2J\u{1b}]0;owned\u{7}\r\nFORGED all is well\u{9b}31m\u{202e}\u{7f}\"\\";

/// Gives every stored resource a hostile name and description, as if it came before the check.
fn make_hostile(store: &SqliteStore) {
    let mut transaction = Transaction::new();
    let kinds =
        ["network", "subnet", "port", "rule", "instance", "function", "chain", "graph", "slice"];
    for kind in kinds {
        let all = store.list(kind).unwrap();
        assert!(!all.is_empty(), "nothing of kind '{kind}' is stored");
        for document in all {
            let mut body: Value = serde_json::from_str(&document.body).unwrap();
            for text in ["name", "description"] {
                let said = body["label"][text].as_str().unwrap();
                body["label"][text] = json!(format!("{said}{HOSTILE}"));
            }
            if kind == "port" {
                body["device_id"] =
                    json!(format!("{}{HOSTILE}", body["device_id"].as_str().unwrap()));
            }
            let key = Key::new(kind, &document.key.id);
            transaction.put(key, &body, Expect::Any).unwrap();
        }
    }
    store.commit(transaction).unwrap();
}

/// Nothing that a terminal obeys, and no line that a name has made.
fn check_harmless(words: &[&str], said: &str) {
    let obeyed = said.chars().find(|c| *c != '\n' && is_unseen(*c));
    assert_eq!(obeyed, None, "{words:?}: {said:?}");
    assert!(!said.lines().any(|line| line.starts_with("FORGED")), "{words:?}: {said}");
}

#[test]
fn no_verb_hands_a_hostile_name_to_the_terminal() {
    let controller = Controller::with_ports("none");
    let document = controller.file("web.yaml", WEB);
    controller.tell(0, &["apply", "-f", &document]);
    let slices =
        controller.file("slices.yaml", "slices: [{name: members, chain: web, vni: 7, teid: 1}]");
    controller.tell(0, &["apply", "-f", &slices]);
    let controller = controller.restart(make_hostile);
    let client = controller.client();
    let id = |kind| {
        let all = client.list(kind, &[]).unwrap();
        let web = all.iter().find(|one| one["name"].as_str().unwrap().starts_with("web"));
        web.unwrap_or(&all[0])["id"].as_str().unwrap().to_owned()
    };
    let (chain, rule) = (id(Kind::PortChain), id(Kind::FlowClassifier));
    let (pair, group, graph) =
        (id(Kind::PortPair), id(Kind::PortPairGroup), id(Kind::ServiceGraph));
    let port = id(Kind::Port);
    let slice = client.slices(None).unwrap()[0].id.to_string();
    let from = format!("port:{port}");
    let node = "absent";
    let log = write_log(controller.folder.path());
    let [forged, named] = ["\r\n", " "].map(|between| {
        let name = HOSTILE.replace("\r\n", between).replace('"', "");
        let rule = format!("-A FORWARD -m recent --name {name} -j DROP");
        let name = format!("rules{}.iptables", between.len());
        controller.file(&name, &format!("*filter\n:FORWARD DROP [0:0]\n{rule}\nCOMMIT\n"))
    });
    let check = ["nf", "check", "firewall", "--unsupported", "skip", "--config"];
    let run = ["nf", "run", "firewall", "--in", "in0", "--out", "out0", "--config"];
    // Whether it is of use to somebody who reads it: the name is in it.
    let walked: Vec<(Vec<&str>, bool)> = vec![
        (vec!["status"], true),
        (vec!["chain", "list"], true),
        (vec!["chain", "show", &chain], true),
        (vec!["chain", "show", &chain, "--why"], true),
        (vec!["chain", "delays", &chain], true),
        (vec!["chain", "export", &chain], true),
        (vec!["chain", "check", &chain], true),
        (vec!["graph", "list"], true),
        (vec!["graph", "show", &graph], true),
        (vec!["function", "list"], true),
        (vec!["function", "show", &group], true),
        (vec!["function", "alerts", &group], true),
        (vec!["function", "create", "--template", "filter", HOSTILE], true),
        (vec!["instance", "list"], true),
        (vec!["instance", "show", &pair], true),
        (vec!["instance", "resume", &pair], true),
        (vec!["slice", "list"], true),
        (vec!["slice", "show", &slice], true),
        (vec!["path", "list"], false),
        (vec!["path", "show", "1"], false),
        (vec!["path", "compare", &chain], true),
        (vec!["node", "list"], false),
        (vec!["node", "show", node], false),
        (vec!["node", "export", node, "--openflow13"], false),
        (vec!["node", "forget", node], false),
        (vec!["node", "decode", &log], true),
        (vec!["link", "list"], false),
        (vec!["link", "show", "absent:1"], false),
        (vec!["token", "list"], false),
        (vec!["flow-classifier", "list"], true),
        (vec!["flow-classifier", "show", &rule], true),
        (vec!["port-pair", "list"], true),
        (vec!["port-pair", "show", &pair], true),
        (vec!["port-pair-group", "list"], true),
        (vec!["port-pair-group", "show", &group], true),
        (vec!["port-chain", "list"], true),
        (vec!["port-chain", "show", &chain], true),
        (vec!["service-graph", "list"], true),
        (vec!["service-graph", "show", &graph], true),
        (vec!["explain", "tcp 10.0.0.1:1 > 10.0.0.2:80", "--from", &from], false),
        (vec!["plan", "-f", &document], false),
        (vec!["model", "queue", "--lambda", "1.5", "--mu", "1", "-c", "2"], false),
        (vec!["model", "tandem", "--lambda", "1", "--mus", "2,3"], false),
        (vec!["model", "fork-join", "--lambda", "1", "--mus", "2,3"], false),
        (vec!["policy", "pairs", "-o", "wide"], false),
        (vec!["policy", "pairs", "-f", &document], false),
        (vec!["policy", "pairs", "--profiles", HOSTILE], true),
        (vec!["policy", "analyze", HOSTILE], true),
        (vec!["policy", "analyze", "-f", &document], false),
        (vec!["policy", "compile", HOSTILE], true),
        (vec!["policy", "compile", "-f", &document], false),
        (vec!["diff", "-f", &document], false),
        (vec!["doctor"], false),
        ([check.as_slice(), &[&forged]].concat(), true),
        ([check.as_slice(), &[&named]].concat(), true),
        ([run.as_slice(), &[HOSTILE]].concat(), true),
        (vec!["nf", "run", "monitor", "--in", HOSTILE, "--out", "out0"], true),
        (vec!["nf", "run", "nat", "--in", "in0", "--out", "out0", "--config", HOSTILE], true),
        (vec!["nf", "run", "balancer", "--in", "in0", "--out", "out0", "--config", HOSTILE], true),
        (vec!["nf", "run", "ids", "--in", "in0", "--out", "out0", "--config", HOSTILE], true),
        (vec!["nf", "run", "ips", "--in", "in0", "--out", "out0", "--config", HOSTILE], true),
        (vec!["nf", "run", "marker", "--in", "in0", "--out", "out0", "--config", HOSTILE], true),
        (vec!["nf", "run", "shaper", "--in", "in0", "--out", "out0", "--config", HOSTILE], true),
        (vec!["nf", "run", "router", "--in", "in0", "--out", "out0", "--config", HOSTILE], true),
        (vec!["nf", "run", "work", "--in", "in0", "--out", "out0", "--config", HOSTILE], true),
        // What is asked for is told when it is not there.
        (vec!["chain", "show", HOSTILE], true),
        (vec!["port-chain", "delete", HOSTILE], true),
    ];
    for (words, names) in &walked {
        let output = controller.catena(words);
        let said = String::from_utf8(output.stdout).unwrap();
        let said = said + &String::from_utf8(output.stderr).unwrap();
        check_harmless(words, &said);
        assert!(said.contains("FORGED") || !names, "{words:?}: {said}");
        for format in ["wide", "json", "jsonl", "yaml"] {
            let with_form = [words.as_slice(), &["-o", format]].concat();
            let output = controller.catena(&with_form);
            check_harmless(&with_form, &String::from_utf8(output.stdout).unwrap());
            check_harmless(&with_form, &String::from_utf8(output.stderr).unwrap());
        }
    }
    check_watch(&controller, &["watch"]);
    check_watch(&controller, &["chain", "watch", &format!("web{HOSTILE}")]);
    changes_tell_no_name_raw(&controller, [&slice, &graph, &chain]);
    let missing = verbs::unwalked(&controller, &walked);
    assert!(missing.is_empty(), "verbs that nobody looked at: {missing:?}");
}

/// A data plane's log with a hostile name in it.
fn write_log(folder: &Path) -> String {
    let mut entries = Entries::default();
    let id = ChainId::MIN;
    entries.chains.insert(id, Arc::new(ChainEntry { id, name: HOSTILE.into() }));
    let program = Program::new(BlueprintNumber(1), entries);
    let node = NodeName::new("host1").unwrap();
    let change = deltas(&node, &Program::default(), &program).remove(0);
    let framed = frame::encode(&change);
    let (length, body) = framed.split_at(4);
    let record = [b"catena\0\x07", length, &checksum(body).to_be_bytes(), body].concat();
    let file = folder.join("hostile.log");
    std::fs::write(&file, record).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The first line that a verb without an end says of a hostile name.
fn check_watch(controller: &Controller, words: &[&str]) {
    let mut watch = Command::new(env!("CARGO_BIN_EXE_catena"));
    watch.args(["--url", &controller.url]).args(words).stdout(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("FORGED")).unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    check_harmless(words, &line);
}

/// The verbs that change something and say of what.
fn changes_tell_no_name_raw(controller: &Controller, [slice, graph, chain]: [&str; 3]) {
    for words in [
        ["slice", "delete", slice].as_slice(),
        &["graph", "delete", graph],
        &["chain", "undeploy", chain],
    ] {
        let said = controller.tell(0, words);
        check_harmless(words, &said);
    }
}
