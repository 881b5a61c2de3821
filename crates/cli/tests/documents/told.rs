//! How faults are told: by the place in a document, and by the names that people gave.

use super::{Controller, WEB};
use catena_client::Kind;
use serde_json::{Value, json};

#[test]
fn what_is_wrong_with_a_document_is_told_with_file_line_key_and_chain() {
    let controller = Controller::with_ports("none");
    let whole = "chains:
  - name: web
    source: S
    destination: D
    classify: tcp dport 80
    through: [v1]
  - name: rest
    source: S
    destination: D
    classify: udp dport 53
    through: [v9]
";
    let one = "{\"name\": \"web\",\n \"source\": \"S\",\n \"destination\": \"nobody\",\n \"chain\": [\"v1\"]}";
    let list = "- {name: web, source: S, destination: D, classify: tcp, through: [v1]}
- name: rest
  source: S
  destination: D
  classify: tcp dport 80
  through: [v2]
";
    for (text, place, problem) in [
        (
            whole.to_owned(),
            "line 11, chains[1].through[0], chain 'rest': ",
            "no port belongs to 'v9'",
        ),
        (
            whole.replace("[v9]", "\n      - v1\n      - v9"),
            "line 13, chains[1].through[1], chain 'rest': ",
            "no port belongs to 'v9'",
        ),
        (
            whole.replace(
                "[v9]",
                "\n      - name: pool\n        instances:\n          - name: v1\n          - name: v1",
            ),
            "line 15, chains[1].through[0].instances[1], chain 'rest': ",
            "function 1 ('pool', direction 'same'), instance 'v1': it is named twice",
        ),
        (
            whole.replace("[v9]", "[]"),
            "line 11, chains[1].through, chain 'rest': ",
            "the chain has no functions",
        ),
        (
            whole.replace("[v9]", "[v1]").replace("udp dport 53", "{name: x}"),
            "line 10, chains[1].classify.name, chain 'rest': ",
            "leave it out",
        ),
        (
            whole.replace("rest", "web"),
            "line 7, chains[1].name, chain 'web': ",
            "two chains are called 'web'",
        ),
        (
            whole.replace("name: rest", "name: rest\n    name: web"),
            "line 8, chains[1].name, chain 'web': ",
            "it is given twice",
        ),
        (String::new(), "it is empty; a document has ", "'through'"),
        (
            whole.replace("classify: udp dport 53", "classify: udp dport http"),
            "line 10, chains[1].classify, chain 'rest': ",
            "http",
        ),
        (list.to_owned(), "line 2, [1], chain 'rest': ", "onflict"),
        (one.to_owned(), "line 3, destination, chain 'web': ", "nobody"),
        (format!("{whole}functions:\n  - name: v1\n    on_failure: shrug\n"), "line 14, ", "shrug"),
    ] {
        let file = controller.file("wrong.yaml", &text);
        for verb in ["plan", "apply", "diff"] {
            let said = controller.tell(1, &[verb, "-f", &file]);
            assert!(said.starts_with(&format!("catena: {file}: {place}")), "{place}: {said}");
            assert!(said.contains(problem), "{problem}: {said}");
        }
    }
    assert_eq!(controller.count(Kind::PortChain), 0);
}

#[test]
fn refusals_call_what_has_a_name_by_it() {
    let controller = Controller::with_ports("none");
    let file = controller.file("web.yaml", WEB);
    controller.tell(0, &["apply", "-f", &file]);
    let client = controller.client();
    let is_without_ids = |said: &str| {
        let words = said.split(|c: char| !c.is_ascii_hexdigit() && c != '-');
        !words.into_iter().any(|word| word.len() == 36)
    };
    for (words, told) in [
        (["flow-classifier", "delete", "web"], "Flow Classifier 'web' in use"),
        (["port-pair", "delete", "v1"], "Port Pair 'v1' in use"),
        (["port-pair-group", "delete", "v2"], "Port Pair Group 'v2' in use"),
        (["port-chain", "delete", "rest"], "Port Chain 'rest' in use"),
    ] {
        let said = controller.tell(1, &words);
        assert!(said.contains(told) && is_without_ids(&said), "{words:?}: {said}");
    }
    // Where several are called the same, the name alone does not say which.
    let network = client.list(Kind::Network, &[]).unwrap()[0]["id"].take();
    let of_name = |kind: Kind, name: &str| -> Vec<Value> {
        let mut all = client.list(kind, &[]).unwrap();
        all.retain(|one| one["name"] == name);
        all
    };
    client.create(Kind::Port, &json!({"name": "v1", "network_id": network})).unwrap();
    let ports = of_name(Kind::Port, "v1");
    assert_eq!(ports.len(), 2);
    let used = ports.iter().find(|port| port["device_id"] == "v1").unwrap();
    let id = used["id"].as_str().unwrap();
    let refused = client.delete(Kind::Port, id).unwrap_err().to_string();
    let told = format!("Port 'v1' ({id}) is in use by port pair 'v1'");
    assert!(refused.starts_with(&told), "{refused}");
}

#[test]
fn a_missing_token_is_told_with_the_variable_that_takes_it() {
    let mut controller = Controller::start("token");
    controller.token = None;
    let said = controller.tell(1, &["status"]);
    assert!(said.contains("CATENA_TOKEN") && said.contains("--token"), "{said}");
}
