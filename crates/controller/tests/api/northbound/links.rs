//! Links between nodes: what agents tell of them, and what is made of it.

use crate::support::agent::{FakeAgent, State};
use crate::support::tokens::{Caller, start};
use crate::support::{Controller, eventually, open};
use catena_controller::Auth;
use catena_model::topology::NodeRole;
use catena_protocol::message::{LinkState, Neighbour};
use serde_json::{Value, json};

fn connect(controller: &Controller, node: &str, host: u8, links: &[&str]) -> FakeAgent {
    let links = links.iter().map(|link| (*link).to_owned()).collect();
    let state = State { role: NodeRole::Switch, links, ..State::default() };
    FakeAgent::connect_running(&controller.data, node, host, controller.southbound, state)
}

fn neighbour(chassis: &str, number: u32, trust: &str) -> Neighbour {
    Neighbour {
        chassis: chassis.into(),
        port: format!("eth{number}"),
        system: chassis.into(),
        number,
        trust: trust.into(),
    }
}

fn up(number: u32, neighbours: Vec<Neighbour>) -> LinkState {
    LinkState {
        interface: format!("eth{number}"),
        number,
        is_up: true,
        load_permille: Some(7),
        neighbours,
        ..LinkState::default()
    }
}

/// The numbers that the program of a node gives to its links.
fn exits(agent: &FakeAgent) -> Option<Vec<(String, u8)>> {
    let exits = agent.program()?.exits;
    let link = |exit: &catena_model::program::ExitEntry| {
        (exit.link().unwrap().to_owned(), exit.number.get())
    };
    Some(exits.iter().map(link).collect())
}

fn expect(controller: &Controller, link: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(link, || {
        let (status, report) = controller.call("GET", &format!("/v1/links/{link}"), None);
        (status == 200 && is_so(&report)).then_some(report)
    })
}

#[test]
fn a_cable_is_found_when_both_of_its_ends_tell_of_it() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let one = connect(&controller, "s1", 1, &["eth1", "eth2"]);
    let other = connect(&controller, "s2", 2, &["eth1"]);
    let numbered = vec![("eth1".to_owned(), 1), ("eth2".to_owned(), 2)];
    eventually("the numbers", || (exits(&one)? == numbered).then_some(()));
    eventually("the numbers", || (exits(&other)? == numbered[..1]).then_some(()));
    let key = |agent: &FakeAgent| agent.program().unwrap().discovery_key.unwrap();
    assert_eq!(key(&one), key(&other), "both have the key of the domain");

    one.tell_links(vec![up(1, Vec::new()), up(2, vec![neighbour("s2", 1, "ours")])]);
    other.tell_links(vec![up(1, Vec::new())]);
    let is_one_way = |link: &Value| {
        link["trouble"].as_str().is_some_and(|why| why.starts_with("one-way: s2:1 (eth1)"))
    };
    let report = expect(&controller, "s1:2", is_one_way);
    assert_eq!((&report["cable"], &report["state"]), (&Value::Null, &json!("up")));
    other.tell_links(vec![up(1, vec![neighbour("s1", 2, "ours")])]);
    let report = expect(&controller, "s1:eth2", |link| !link["cable"].is_null());
    assert_eq!(report["cable"], json!({"node": "s2", "number": 1, "interface": "eth1"}));
    assert_eq!((&report["trouble"], &report["load_permille"]), (&Value::Null, &json!(7)));
    let all = controller.get("/v1/links");
    let names =
        all.as_array().unwrap().iter().map(|link| format!("{}:{}", link["node"], link["number"]));
    assert_eq!(names.collect::<Vec<_>>(), ["\"s1\":1", "\"s1\":2", "\"s2\":1"]);

    // A node that goes takes the cable with it, and its links keep their numbers.
    drop(other.disconnect());
    expect(&controller, "s1:2", |link| link["cable"].is_null());
    let report = expect(&controller, "s2:1", |link| link["state"] == "down");
    assert!(report["trouble"].as_str().unwrap().contains("node 's2' is away"), "{report}");
}

#[test]
fn foreign_neighbours_are_listed_and_their_texts_are_harmless() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let one = connect(&controller, "s1", 1, &["eth1"]);
    eventually("the number", || (exits(&one)?.len() == 1).then_some(()));
    let mut hostile = neighbour("evil\u{1b}[2J\u{202e}", 1, "forged");
    hostile.port = "p".repeat(2_000);
    one.tell_links(vec![up(1, vec![neighbour("printer", 0, "unsigned"), hostile])]);
    let report = expect(&controller, "s1:1", |link| link["neighbours"][1].is_object());
    assert_eq!(report["neighbours"][0]["trust"], "unsigned");
    assert_eq!(report["neighbours"][1]["chassis"], "evil\\u{1b}[2J\\u{202e}");
    assert_eq!(report["neighbours"][1]["port"].as_str().unwrap().len(), 255);
    assert_eq!(report["cable"], Value::Null);
    assert!(report["trouble"].as_str().unwrap().contains("forged"), "{report}");
}

#[test]
fn an_agent_that_tells_what_no_link_can_be_is_sent_away() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let one = connect(&controller, "s1", 1, &["eth1"]);
    expect(&controller, "s1:1", |_| true);
    one.tell_links(vec![up(1, Vec::new()), up(1, Vec::new())]);
    eventually("the end of its session", || {
        (controller.get("/v1/nodes")[0]["status"]["is_connected"] == false).then_some(())
    });
}

#[test]
fn links_that_come_later_get_numbers_and_what_went_comes_back_with_its_own() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let one = connect(&controller, "s1", 1, &["eth1", "eth2"]);
    let are = |agent: &FakeAgent, expected: &[(&str, u8)]| {
        let expected: Vec<(String, u8)> =
            expected.iter().map(|(link, number)| ((*link).to_owned(), *number)).collect();
        eventually("the numbers", || (exits(agent)? == expected).then_some(()));
    };
    are(&one, &[("eth1", 1), ("eth2", 2)]);
    one.tell_links(vec![up(2, Vec::new()), up(3, Vec::new())]);
    are(&one, &[("eth2", 2), ("eth3", 3)]);
    let state = one.disconnect();
    controller.stop();
    let controller = Controller::start(open(data.path()));
    expect(&controller, "s1:eth3", |link| link["number"] == 3);
    let links = ["eth1", "eth3", "eth4"].map(String::from).to_vec();
    let state = State { links, programs: Vec::new(), ..state };
    let again = FakeAgent::connect_running(data.path(), "s1", 1, controller.southbound, state);
    are(&again, &[("eth1", 1), ("eth3", 3), ("eth4", 4)]);
}

#[test]
fn the_link_after_the_last_number_is_refused_by_name() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let links: Vec<String> = (0..256).map(|at| format!("eth{at:03}")).collect();
    let names: Vec<&str> = links.iter().map(String::as_str).collect();
    let _one = connect(&controller, "s1", 1, &names);
    let report = expect(&controller, "s1:eth255", |_| true);
    assert_eq!((&report["state"], &report["number"]), (&json!("no-number"), &Value::Null));
    let trouble = report["trouble"].as_str().unwrap();
    assert!(trouble.contains("link 'eth255' of node 's1' has no port number"), "{trouble}");
    expect(&controller, "s1:eth254", |link| link["number"] == 255);
}

#[test]
fn links_are_the_operators_to_see() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let _one = connect(&controller, "s1", 1, &["eth1"]);
    eventually("the link", || {
        (admin.call("GET", "/v1/links/s1:1", None).status == 200).then_some(())
    });
    let tenant = admin.with_role("t", "p", "tenant");
    let paths = ["/v1/links", "/v1/links/s1:1", "/v1/links/s1:9", "/v1/nodes/s1/openflow13"];
    for path in paths {
        assert_eq!(tenant.call("GET", path, None).status, 403, "{path}");
    }
    let answer = admin.call("GET", "/v1/links/s1:9", None);
    assert!(answer.status == 404 && answer.text.contains("NODE:PORT"), "{answer:?}");
    let export = admin.call("GET", "/v1/nodes/s1/openflow13", None).json();
    assert_eq!((&export["node"], &export["rules"]), (&json!("s1"), &json!([])));
    let unsaid = export["unsaid"].to_string();
    assert!(unsaid.contains("transit") && unsaid.contains("labels have no mask"), "{unsaid}");
    let answer = admin.call("GET", "/v1/nodes/nobody/openflow13", None);
    assert!(
        answer.status == 404 && answer.text.contains("There is no node 'nobody'"),
        "{answer:?}"
    );
    // Whoever may see everything is not shown the key.
    let key =
        format!("{:?}", _one.program().map(|program| *program.discovery_key.unwrap().octets()));
    let paths = ["/v1/nodes", "/v1/nodes/s1", "/v1/links", "/v1/status", "/v1/nodes/s1/openflow13"];
    for path in paths {
        let text = admin.call("GET", path, None).text;
        assert!(!text.contains("discovery_key") && !text.contains(&key), "{path}");
    }
}
