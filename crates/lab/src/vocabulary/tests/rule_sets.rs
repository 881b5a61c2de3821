//! What a lab file may say of rule sets that take turns, and what it is told where it may not.

use super::*;

const TURNS: &str = "\
name: turns
hosts: {h1: {}, h2: {}}
switches: [s1]
links: [h1-s1, h2-s1]
networks: {a: {cidrs: [10.0.0.0/24]}}
endpoints:
  S: {on: h1, networks: [a]}
  D: {on: h2, networks: [a]}
functions:
  mark: {bundled: marker, on: h1, networks: [a]}
  edge: {bundled: firewall, on: h2, networks: [a]}
  v1: {on: h1, networks: [a], routes: {a: a}}
chains:
  - {name: C, source: S, destination: D, classify: udp, through: [mark, v1, edge]}
updates:
  chain: C
  kinds: [config]
  count: 5
  rule_sets:
    - {dscp: 10, config: {mark: {mark: 10}, edge: {file: one.iptables}}}
    - {dscp: 18, config: {mark: {mark: 18}, edge: {file: two.iptables}}}
    - {dscp: 26, config: {mark: {mark: 26}, edge: {file: two.iptables}}}
traffic:
  - {tool: catena, protocol: udp, from: S, to: D, chain: C, until: updates}
capture: {at: [S, D, v1]}
check: [both_versions, mixed == 0, denied edge == 0]
";

fn read(text: &str) -> std::result::Result<Lab, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.yaml");
    for (name, content) in [("x.yaml", text), ("one.iptables", "one"), ("two.iptables", "two")] {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    Lab::read(&file, false)
        .map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
}

#[test]
fn rule_sets_take_turns_and_the_chain_begins_with_the_first() {
    let lab = read(TURNS).unwrap();
    let updates = lab.updates.clone().unwrap();
    let turns: Vec<_> = updates.versions.iter().map(|version| version.rule_set.unwrap()).collect();
    assert_eq!(turns, [1, 2, 0, 1, 2]);
    let steps = &lab.chain("C").unwrap().document.chain;
    assert!(updates.versions.iter().all(|version| version.steps == *steps));
    let text = |set: usize| &updates.rule_sets[set].config.get("edge").unwrap()["file"]["text"];
    assert_eq!([text(0), text(1)], ["one", "two"]);
    for name in ["mark", "edge"] {
        let first = updates.rule_sets[0].config.get(name);
        assert_eq!(Some(&lab.bundled.get(name).unwrap().config), first);
    }
    // The processes inside do not see the files.
    let again = Lab::reread(Path::new("gone.yaml"), lab.merged.clone()).unwrap();
    assert_eq!((again.bundled, again.updates), (lab.bundled, lab.updates));
}

#[test]
fn each_mistake_about_rule_sets_is_told_with_the_remedy() {
    for (from, to, expected) in [
        (
            "kinds: [config]",
            "kinds: [reorder]",
            "updates.rule_sets: are for changes of the kind config",
        ),
        (
            "kinds: [config]",
            "kinds: [config, insert]",
            "updates.kinds: changes rule sets and functions",
        ),
        (
            "dscp: 18",
            "dscp: 10",
            "updates.rule_sets[1].dscp: 10 does not tell it from the set before",
        ),
        // The last is before the first.
        (
            "dscp: 26",
            "dscp: 10",
            "updates.rule_sets[0].dscp: 10 does not tell it from the set before",
        ),
        ("dscp: 26", "dscp: 64", "updates.rule_sets[2].dscp: 64 does not tell it"),
        ("{mark: {mark: 18}, edge", "{edge", "updates.rule_sets[1].config: tells other functions"),
        (
            "through: [mark, v1, edge]",
            "through: [mark, v1]",
            "updates.rule_sets: no bundled function of the chain is named 'edge'; name one of mark",
        ),
        (
            "{bundled: marker,",
            "{bundled: marker, config: {mark: 1},",
            "functions.mark.config: is said by updates.rule_sets, too; leave it out",
        ),
        (
            "file: one",
            "file: gone",
            "updates.rule_sets[0].config.edge.file: gone.iptables cannot be read",
        ),
    ] {
        assert!(TURNS.contains(from), "{from}");
        let problem = read(&TURNS.replacen(from, to, 1)).map(drop).unwrap_err();
        assert!(problem.contains(expected), "{to}: {problem:?}");
    }
    let (before, sets) = TURNS.split_once("  rule_sets:\n").unwrap();
    let (_, after) = sets.split_once("traffic:").unwrap();
    let problem = read(&format!("{before}traffic:{after}")).map(drop).unwrap_err();
    assert!(
        problem.contains("updates.rule_sets: has no two rule sets; write two or more"),
        "{problem}"
    );
    // Of functions without an interface nothing else is judged from captures.
    let problem = read(&TURNS.replace("both_versions", "paths")).map(drop).unwrap_err();
    assert!(problem.contains("check[0]: is judged from captures at the interfaces"), "{problem}");
}
