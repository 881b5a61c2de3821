//! Firewalls of documents before and after, told of and run.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::document::Written;
use catena_nf::Function;
use catena_nf::firewall::Firewall;
use catena_nf::harness::traffic;
use catena_nf::outcome::{Outcomes, Verdict};
use catena_nf::packet::Packet;
use catena_nf::random::Random;
use catena_rules::rule_set::Families;
use catena_rules::{ReadOptions, iptables};

/// Packets that run through each rule set.
const PACKETS: usize = 10_000;

fn filter(rules: &[&str]) -> String {
    format!("*filter\n:FORWARD ACCEPT [0:0]\n{}\nCOMMIT\n", rules.join("\n"))
}

/// A document with these files beside it.
fn document(functions: &str, through: &str, files: &[(&str, &str)]) -> Document {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let chain = format!("{{name: web, source: a, destination: b, through: [{through}]}}");
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, format!("functions:\n{functions}\nchains:\n  - {chain}\n")).unwrap();
    Written::read(&file).unwrap().document
}

fn text(document: &Document, function: usize, file: &str) -> String {
    let template = document.functions[function].template.as_ref().unwrap();
    template.config[file]["text"].as_str().unwrap().to_owned()
}

#[test]
fn what_keeps_meaning_is_applied_and_what_does_not_is_suggested() {
    let wide = "-A FORWARD -s 10.0.0.0/8 -p tcp -j DROP";
    let again = "-A FORWARD -s 10.1.0.0/16 -p tcp -j DROP";
    let counted = "-A FORWARD -s 10.2.0.0/16 -p tcp -m comment --comment monitored -j DROP";
    let lost = "-A FORWARD -s 10.3.0.0/16 -p tcp -j ACCEPT";
    let (low, high) = (
        "-A FORWARD -p udp -m udp --dport 80:89 -j DROP",
        "-A FORWARD -p udp -m udp --dport 90 -j DROP",
    );
    let v4 = filter(&[wide, again, counted, lost, low, high]);
    let v6 = filter(&["-A FORWARD -s fd00::/9 -j DROP", "-A FORWARD -s fd80::/9 -j DROP"]);
    let alerts = "alert tcp any any -> any 80 (msg:\"web\"; sid:1;)\n";
    let functions = "  - {name: ids, template: {runs: {bundled: ids}, config: {file: web.rules}, on: [h]}}\n  \
        - {name: edge, template: {runs: {bundled: firewall}, \
        config: {file: edge.iptables, v6_file: edge.ip6tables}, on: [h]}}";
    let files = [("web.rules", alerts), ("edge.iptables", v4.as_str()), ("edge.ip6tables", &v6)];
    let mut document = document(functions, "ids, edge", &files);
    let told = optimize(&mut document).unwrap();
    let expected = [
        "edge: edge.iptables: 6 → 4 rules; not missed: lines 4; said as one: 7 with 8; not missed, and kept since they \
         are monitored: lines 5",
        "edge: edge.ip6tables: 2 → 1 rules; said as one: 3 with 4",
    ];
    assert_eq!(told[..2], expected, "{told:#?}");
    let pace = told[2].strip_prefix("edge: a packet that its rules are about takes ").unwrap();
    let (before, after) = pace.split_once(" → ").unwrap();
    let after = after.strip_suffix(" ns in it, asked on this machine").unwrap();
    assert!([before, after].iter().all(|ns| ns.parse::<u32>().unwrap() > 0), "{pace}");
    let suggested =
        |what: &str| told.iter().any(|line| line.starts_with("suggested, ") && line.contains(what));
    assert!(suggested("edge.iptables line 6") && suggested("10.3.0.0/16"), "{told:#?}");
    assert!(suggested("ids looks for attacks in packets that edge drops behind it"), "{told:#?}");
    assert!(suggested("; it changes: tcp, "), "{told:#?}");
    let v4 = text(&document, 1, "file");
    assert!(v4.contains(&format!("\n# {again}\n")) && v4.contains("--dport 80:90"), "{v4}");
    assert!(text(&document, 1, "v6_file").contains("-s fd00::/8 -j DROP"));
    // A second time there is nothing to do.
    let told = optimize(&mut document).unwrap();
    assert_eq!(
        told[0],
        "edge: edge.iptables: 4 → 4 rules; not missed, and kept since they are monitored: lines 5"
    );
    assert!(told.iter().all(|line| !line.contains(" ns in it")), "{told:#?}");
}

/// Its items may be of several lines, or several of one line: none is taken out by line.
#[test]
fn policies_between_groups_stay_as_they_are() {
    let policy = "policy: accept\nrules:\n  - tenant: T1\n    priority: 5\n    match: {protocol: tcp}\n    action: accept\n";
    let functions = "  - {name: edge, template: {runs: {bundled: firewall}, config: {file: tenants.yaml}, on: [host1]}}";
    let mut document = document(functions, "edge", &[("tenants.yaml", policy)]);
    let told = optimize(&mut document).unwrap();
    assert!(told[0].ends_with("policies between groups are told of and not rewritten"), "{told:?}");
    assert_eq!(text(&document, 0, "file"), policy);
}

#[test]
fn rules_of_nftables_stay_as_they_are() {
    let rules = r#"{"nftables": [
{"table": {"family": "inet", "name": "f"}},
{"chain": {"family": "inet", "table": "f", "name": "fwd", "type": "filter", "hook": "forward", "prio": 0, "policy": "drop"}}
]}"#;
    let functions = "  - {name: edge, template: {runs: {bundled: firewall}, config: {file: edge.json}, on: [h]}}";
    let mut document = document(functions, "edge", &[("edge.json", rules)]);
    let told = optimize(&mut document).unwrap();
    assert_eq!(told, ["edge: edge.json: rules of nftables are told of and not rewritten"]);
    assert_eq!(text(&document, 0, "file"), rules);
}

/// Rules over what [`traffic`] sends.
fn any_rules(draws: &mut Random) -> String {
    let mut text = "*filter\n:FORWARD ACCEPT [0:0]\n:side - [0:0]\n".to_owned();
    for _ in 0..4 + draws.below(40) {
        let mut pick = |words: &[&'static str]| draws.pick(words).unwrap();
        let chain = pick(&["FORWARD", "FORWARD", "FORWARD", "side"]);
        let source = pick(&[
            "",
            "",
            "-s 10.0.0.0/22 ",
            "-s 10.0.0.0/24 ",
            "-s 10.0.1.0/24 ",
            "-s 10.0.2.0/23 ",
            "-s 10.0.1.4/30 ",
        ]);
        let to = pick(&["", "", "-d 10.0.0.0/23 ", "-d 10.0.3.0/24 ", "! -d 10.0.2.0/24 "]);
        let what = pick(&[
            "",
            "-p icmp ",
            "-p tcp ",
            "-p tcp -m tcp --dport 22:80 ",
            "-p tcp -m tcp --dport 80 ",
            "-p tcp -m tcp --dport 81:443 ",
            "-p udp ",
            "-p udp -m udp --dport 53 ",
            "-m conntrack --ctstate ESTABLISHED ",
            "-m conntrack --ctstate NEW -p tcp ",
        ]);
        let does = pick(&["-j ACCEPT", "-j DROP", "-j DROP", "-j REJECT", "-j LOG"]);
        let does = if chain == "FORWARD" { pick(&[does, does, does, "-j side"]) } else { does };
        text += &format!("-A {chain} {source}{to}{what}{does}\n");
    }
    text + "COMMIT\n"
}

/// Rules that were shortened answer each packet of a traffic with states as the whole did, and tell of the same ones.
#[test]
fn shortened_rules_decide_over_packets_as_the_whole_did() {
    let (mut draws, mut gone) = (Random::new(22), 0);
    for seed in 0..20 {
        let whole = any_rules(&mut draws);
        let read = |text: &str| {
            let options = ReadOptions { file: "edge.iptables".into(), ..ReadOptions::default() };
            iptables::read(text, Families::V4, &options).unwrap()
        };
        let set = read(&whole);
        let shortened = shorten(&set, &whole).unwrap().expect("proved");
        let left = read(&shortened.text);
        assert!(shortened.is_read_as(&left), "{whole}");
        gone += set.rules() - left.rules();
        let [mut before, mut after] = [set, left].map(|set| Firewall::new(&[set]).unwrap());
        let mut outcomes = [Outcomes::default(), Outcomes::default()];
        for input in traffic::draw(seed, PACKETS) {
            let packet = Packet::read(&input.frame).unwrap();
            for (firewall, outcomes) in [&mut before, &mut after].into_iter().zip(&mut outcomes) {
                firewall.process(input.at, input.direction, &[packet], outcomes);
            }
            let [passes, logs] = [
                outcomes.each_ref().map(|one| matches!(one.verdicts()[0], Verdict::Pass)),
                outcomes.each_ref().map(|one| !one.events().is_empty()),
            ];
            assert!(
                passes[0] == passes[1] && logs[0] == logs[1],
                "{input:?}\n{whole}\n{}",
                shortened.text
            );
            let made = outcomes.each_ref().map(|one| one.generated().len());
            assert_eq!(made[0], made[1], "{whole}");
        }
    }
    assert!(gone > 50, "{gone} rules of all sets were not missed");
}
