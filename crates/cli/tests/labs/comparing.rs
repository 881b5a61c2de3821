//! A chain is compared with itself under other encapsulations while its traffic goes on, and is left where it was.

use crate::house::{CATENA, House, in_own_house};
use crate::patience::wait_for;
use crate::traffic::{Family, Receiver, Sender, address};
use catena_client::Kind;
use catena_model::resource::Encapsulation;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Four switches between the hosts of three functions.
const LAB: &str = "../source-route-moves.yaml";
const CHAIN: &str = "moving";
/// What carries it where its document does not say.
const BEGAN: Encapsulation = Encapsulation::Mpls;
const PORT: u16 = 5_001;
/// A burst of twenty each time.
const BURSTS_EVERY: Duration = Duration::from_millis(20);

fn compare(house: &House, more: &[&str]) -> Command {
    let mut command = Command::new(CATENA);
    command.args(["--url", house.client.base(), "path", "compare", CHAIN, "--live"]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn carried_by(house: &House) -> Encapsulation {
    house.chain(CHAIN).encapsulation
}

#[test]
fn a_chain_is_measured_under_its_traffic_with_each_encapsulation_and_is_left_where_it_was() {
    in_own_house(LAB, |house| {
        house.wait_active(CHAIN);
        let destination = SocketAddr::new(address("D", Family::V4), PORT);
        let receiver = Receiver::new(&house.node("D"), destination);
        let sending = Sender::new(&house.node("S"), destination).every(BURSTS_EVERY).keep_sending();
        let folder = tempfile::tempdir().expect("a folder");
        let plot = folder.path().join("moves.svg").display().to_string();
        let words = ["--encap", "source-route/native,nsh", "--seconds", "1", "-o", "json"];
        let output = compare(house, &[&words[..], &["--plot", &plot]].concat()).output();
        let output = output.expect("it runs");
        let [said, wrong] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        println!("{said}{wrong}");
        assert!(output.status.success());
        check_measured(&said);
        let svg = std::fs::read_to_string(&plot).expect("a drawing");
        assert!(svg.contains("source-route/native") && svg.contains("nsh"));
        assert_eq!(carried_by(house), BEGAN);

        // Whoever interrupts it while the chain is elsewhere finds it where it was.
        let away = ["--encap", "nsh", "--seconds", "600"];
        let running = compare(house, &away).spawn().expect("it starts");
        wait_for("the move", || match carried_by(house) {
            Encapsulation::Nsh => Ok(()),
            other => Err(format!("it is over {}", other.name())),
        });
        let pid = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, Signal::INT).expect("it is told");
        let output = running.wait_with_output().expect("it ends");
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{wrong}");
        assert!(wrong.contains("stopped: chain 'moving' is over mpls again, as before"), "{wrong}");
        assert_eq!(carried_by(house), BEGAN);
        receiver.assert_all(sending.stop());
    });
}

/// Hosts for the functions of the chain, if all may move.
#[test]
fn hosts_are_proposed_for_functions_over_the_cables_that_were_found() {
    in_own_house(LAB, |house| {
        house.wait_active(CHAIN);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("moving.yaml");
        let catena = |words: &[&str]| {
            let mut command = Command::new(CATENA);
            let output = command.args(["--url", house.client.base()]).args(words).output();
            let output = output.expect("it runs");
            let said = String::from_utf8(output.stdout).expect("text");
            assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
            said
        };
        std::fs::write(&file, catena(&["chain", "export", CHAIN])).expect("a document");
        let file = file.display().to_string();
        let place = ["plan", "--place", "-f", &file, "--free", "v1,v2,v3"];
        println!("{}", catena(&place));
        let said = catena(&[&place[..], &["-o", "json"]].concat());
        let proposals: Value = serde_json::from_str(&said).expect("JSON");
        let proposal = &proposals[0];
        let hosts = |key: &str| {
            let functions = proposal["functions"].as_array().expect("its functions");
            functions.iter().map(|function| function[key].clone()).collect::<Vec<_>>()
        };
        assert_eq!(hosts("now"), [["h2"], ["h3"], ["h4"]].map(|names| json!(names)));
        // The first beside the sender, the second at its leaf, the third at the other one.
        assert_eq!(hosts("host")[..2], ["h1", "h2"].map(|name| json!(name)));
        assert_eq!(hosts("rack")[2], json!(["leaf2"]));
        assert_eq!(proposal["now"], json!({"racks": 2, "ports": 3 + 5 + 3, "pathlets": 2}));
        assert_eq!(proposal["proposed"], json!({"racks": 2, "ports": 3 + 5, "pathlets": 1}));
        assert_eq!(proposal["is_proved"], true);
        assert_eq!(carried_by(house), BEGAN, "nothing was changed");
        check_taken(house, folder.path());
    });
}

/// A function that nobody has bound to a host, and whose template names none, is given the host that is proposed; that
/// stays while the document does not say otherwise.
fn check_taken(house: &House, folder: &Path) {
    let network = house.client.list(Kind::Network, &[]).expect("networks")[0]["id"].clone();
    let port = json!({"name": "ids", "device_id": "ids", "network_id": network});
    house.client.create(Kind::Port, &port).expect("a port");
    let text = "chains: [{name: watched, source: S, destination: D, classify: udp dport 9, through: [v1, ids]}]\n\
                functions: [{name: ids, template: {runs: {external: ids}, instances: 1}}]\n";
    let file = folder.join("watched.yaml");
    std::fs::write(&file, text).expect("a document");
    let file = file.display().to_string();
    let catena = |words: &[&str]| {
        let mut command = Command::new(CATENA);
        let output = command.args(["--url", house.client.base()]).args(words).output();
        let output = output.expect("it runs");
        let [said, beside] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        (output.status.code(), said, beside)
    };
    let hosts = || {
        let template = house.client.function("ids").ok()?.template?;
        Some(template.on.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let (code, said, beside) = catena(&["plan", "-f", &file]);
    assert_eq!((code, hosts()), (Some(3), None), "{said}{beside}");
    // Beside the first function there is no room: a host takes one of a chain.
    let taken = "function ids   on h1, as proposed: no other hosts cost less";
    assert!(beside.contains(taken), "{said}{beside}");
    let (code, said, beside) = catena(&["apply", "-f", &file]);
    assert_eq!((code, hosts()), (Some(0), Some(vec!["h1".to_owned()])), "{said}{beside}");
    assert!(beside.contains(taken), "{said}{beside}");
    let (code, said, beside) = catena(&["apply", "-f", &file]);
    assert_eq!((code, said.trim(), beside.as_str()), (Some(0), "no changes", ""));
    let (code, said, beside) = catena(&["diff", "-f", &file]);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{beside}");
    let named = text.replace("instances: 1", "instances: 1, on: [h4]");
    std::fs::write(&file, named).expect("a document");
    let (code, said, beside) = catena(&["apply", "-f", &file]);
    assert_eq!(
        (code, hosts(), beside.as_str()),
        (Some(0), Some(vec!["h4".to_owned()]), ""),
        "{said}"
    );
    let (code, said, beside) = catena(&["apply", "-f", &file, "--undeploy"]);
    assert_eq!(code, Some(0), "{said}{beside}");
}

fn check_measured(said: &str) {
    let live: Value = serde_json::from_str(said).expect("JSON");
    let measured = live["measured"].as_array().expect("a row for each");
    assert_eq!(measured.len(), 2);
    for one in measured {
        assert_eq!(one["trouble"], Value::Null);
        assert!(one["packets_per_second"].as_f64() > Some(500.0), "{one}");
        let delay = |key: &str| one["delay"][key].as_u64().expect("it was observed");
        assert!(delay("probes") >= 16 && delay("p50_ns") > 0, "{one}");
        assert!((delay("p50_ns")..1_000_000_000).contains(&delay("p99_ns")), "{one}");
        assert_eq!(one["receipt"]["drained"][0]["proof"], "counted", "{one}");
        assert_eq!(one["receipt"]["drained"][0]["lost_in_function"], 0, "{one}");
    }
    assert_eq!((&live["began"], &live["chain"]), (&"mpls".into(), &CHAIN.into()));
    assert_eq!(live["receipt"]["drained"][0]["proof"], "counted");
}
