//! Chains that documents and the command line move to another encapsulation.

use super::Controller;
use catena_client::{Draft, Kind};
use serde_json::Value;

const WEB: &str = "
chains:
  - {name: web, source: S, destination: D, classify: tcp dport 80, encapsulation: nsh, through: [v1]}
";

/// What the border shows of the chain: as it was declared there, and as it is carried.
fn shown(controller: &Controller) -> (String, String) {
    let chain = controller.client().find(Kind::PortChain, "web").unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&chain["chain_parameters"]["correlation"]), text(&chain["encapsulation"]))
}

fn carried(correlation: &str, encapsulation: &str) -> (String, String) {
    (correlation.into(), encapsulation.into())
}

#[test]
fn a_document_moves_its_chain_with_all_else_that_it_changes() {
    let controller = Controller::with_ports("none");
    let apply = |text: &str| controller.tell(0, &["apply", "-f", &controller.file("d.yaml", text)]);
    apply(WEB);
    assert_eq!(shown(&controller), carried("nsh", "nsh"));
    let moved = WEB.replace("nsh", "mpls").replace("[v1]", "[v1, v2]").replace("80", "81");
    let file = controller.file("moved.yaml", &moved);
    let plan = controller.tell(3, &["plan", "-f", &file]);
    assert!(plan.contains("encapsulation   nsh → mpls") && plan.contains("v1 ─► v2"), "{plan}");
    let diff = controller.tell(3, &["diff", "-f", &file]);
    for line in ["\n-  encapsulation: nsh\n", "\n+  encapsulation: mpls\n", "\n+  - name: v2\n"] {
        assert!(diff.contains(line), "{line} in {diff}");
    }
    apply(&moved);
    assert_eq!(shown(&controller), carried("nsh", "mpls"));
    assert_eq!(controller.client().chain("web").unwrap().functions, ["v1", "v2"]);
    assert_eq!(controller.tell(0, &["diff", "-f", &file]), "");
    let export = controller.tell(0, &["chain", "export", "web"]);
    assert!(export.contains("encapsulation: mpls"), "{export}");
    assert!(controller.tell(0, &["chain", "show", "web"]).contains("web   MPLS ─► v1 ─► v2"));

    // Without a word of it the chain keeps what it has.
    let silent = moved.replace(" encapsulation: mpls,", "");
    assert!(apply(&silent).contains("no changes"));

    // Who speaks what carries the chain comes behind the move, and goes before the next one.
    let speaking = moved.replace("mpls", "nsh").replace("v1, v2", "{name: v3, speaks: nsh}");
    apply(&speaking);
    assert_eq!(shown(&controller), carried("nsh", "nsh"));
    let refused = speaking.replace("encapsulation: nsh", "encapsulation: mpls");
    let file = controller.file("refused.yaml", &refused);
    let said = controller.tell(1, &["apply", "-f", &file]);
    assert!(said.contains("chain 'web'") && said.contains("'v3' speaks nsh"), "{said}");
    assert_eq!(shown(&controller), carried("nsh", "nsh"));
    apply(&moved);
    assert_eq!(shown(&controller), carried("nsh", "mpls"));
    assert_eq!(controller.client().chain("web").unwrap().functions, ["v1", "v2"]);
}

#[test]
fn a_chain_that_networking_sfc_has_no_words_for_is_made_in_one_revision() {
    let routed = WEB.replace("nsh", "source-route/native");
    for verb in ["apply", "deploy"] {
        let controller = Controller::with_ports("none");
        let file = controller.file("routed.yaml", &routed);
        let revision = || Draft::open(&controller.client()).unwrap().plan().unwrap().plan;
        let before = revision();
        match verb {
            "apply" => controller.tell(0, &["apply", "-f", &file]),
            // Nobody carries it here.
            _ => controller.tell(1, &["chain", "deploy", &file]),
        };
        assert_eq!(revision(), before + 1, "{verb}");
        assert_eq!(shown(&controller), carried("mpls", "source-route/native"), "{verb}");
        assert!(controller.tell(0, &["plan", "-f", &file]).contains("no changes"), "{verb}");
        let export = controller.tell(0, &["chain", "export", "web"]);
        assert!(export.contains("encapsulation: source-route/native"), "{export}");
    }
}

#[test]
fn a_chain_moves_by_one_verb_which_names_what_there_is() {
    let controller = Controller::with_ports("none");
    controller.tell(0, &["apply", "-f", &controller.file("web.yaml", WEB)]);
    let update = |code: i32, words: &[&str]| {
        controller.tell(code, &[&["chain", "update", "web"], words].concat())
    };
    // It is declared; there are no nodes to carry it.
    let said = update(1, &["--encapsulation", "mpls"]);
    assert!(said.contains("chain web   building over mpls"), "{said}");
    assert!(said.contains("chain 'web' is declared but building"), "{said}");
    assert_eq!(shown(&controller), carried("nsh", "mpls"));
    let said = update(2, &["--encapsulation", "gre"]);
    assert!(said.contains("nsh, mpls, source-route/native"), "{said}");
    let said = update(2, &[]);
    assert!(said.contains("--encapsulation"), "{said}");
}

#[test]
fn a_document_says_that_a_function_reads_source_routes() {
    let routed = WEB.replace("nsh", "source-route/native");
    let reading = routed.replace("[v1]", "[{name: v1, speaks: source-route/native}, v2]");
    let controller = Controller::with_ports("none");
    let file = controller.file("reading.yaml", &reading);
    controller.tell(0, &["apply", "-f", &file]);
    assert_eq!(shown(&controller).1, "source-route/native");
    let pairs = controller.client().list(Kind::PortPair, &[]).unwrap();
    let mut spoken: Vec<_> = pairs.iter().map(|pair| pair["speaks"].as_str()).collect();
    spoken.sort_unstable();
    assert_eq!(spoken, [None, Some("source-route/native")]);
    assert!(controller.tell(0, &["plan", "-f", &file]).contains("no changes"));
    assert_eq!(controller.tell(0, &["diff", "-f", &file]), "");
    let export = controller.tell(0, &["chain", "export", "web"]);
    assert!(export.contains("speaks: source-route/native"), "{export}");
    // Another chain over the same function has its pair.
    let second =
        reading.replace("name: web", "name: mail").replace("80", "25").replace(", v2]", "]");
    let both =
        format!("{}{}", reading.trim_end(), second.trim_start().trim_start_matches("chains:"));
    controller.tell(0, &["apply", "-f", &controller.file("both.yaml", &both)]);
    assert_eq!(controller.client().list(Kind::PortPair, &[]).unwrap().len(), 2);
    // What carries it must give it its header.
    let file = controller.file(
        "nsh.yaml",
        &reading.replace("encapsulation: source-route/native", "encapsulation: nsh"),
    );
    let said = controller.tell(1, &["apply", "-f", &file]);
    assert!(said.contains("'v1' speaks source-route/native"), "{said}");
    let wrong = reading.replace("speaks: source-route/native", "speaks: polka");
    let said = controller.tell(1, &["apply", "-f", &controller.file("wrong.yaml", &wrong)]);
    assert!(
        said.contains("no function speaks 'polka'; use one of nsh, mpls, source-route/native"),
        "{said}"
    );
}
