//! Profiles and rules of kinds, files and documents, and what is told of them.

#![allow(clippy::unwrap_used)]

use super::*;
use std::collections::BTreeMap;

/// Each kind that comes with Catena, with the verdicts that the book prints.
#[test]
fn kinds_are_judged_by_profiles_that_their_harness_has_held() {
    let members = members::of_kinds().unwrap();
    assert!(members.iter().all(|member| member.profile.is_verified));
    let declared = members::of_declared().unwrap();
    assert!(declared.len() == 4 && declared.iter().all(|member| member.name.ends_with('*')));
    let judged: BTreeMap<(&str, &str), String> = pairs(&members)
        .map(|(a, b, verdict)| ((a.name.as_str(), b.name.as_str()), letter(&verdict)))
        .collect();
    let order = [
        "firewall", "ids", "ips", "monitor", "nat", "balancer", "marker", "policer", "shaper",
        "work",
    ];
    for (first, verdicts) in [
        // A firewall in front drops what the others would act on; what a marker counts is held back until then.
        ("firewall", "- S S S S S 0+ S S S"),
        ("ids", "0 - 0 0 F F H 0 S 0"),
        ("ips", "0+ S - S S S H+ S S S"),
        // Who takes packets as on the wire stands beside nobody before it that takes super-frames.
        ("monitor", "0 S S - F F 0 S S S"),
        ("marker", "0 S S 0 S S - S S S"),
        ("nat", "S S S S - S S S S S"),
    ] {
        let found: Vec<&str> = order
            .iter()
            .map(|second| judged.get(&(first, *second)).map_or("-", String::as_str))
            .collect();
        assert_eq!(found.join(" "), verdicts, "{first} before {}", order.join(", "));
    }
}

#[test]
fn chains_of_a_document_are_put_into_stages_on_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let rules =
        "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n";
    std::fs::write(folder.path().join("edge.iptables"), rules).unwrap();
    let marks = "classes:\n- {name: all, mark: ef}\n";
    std::fs::write(folder.path().join("marks.yaml"), marks).unwrap();
    let document = "
functions:
  - {name: edge, template: {runs: {bundled: firewall}, config: {file: edge.iptables}, on: [host2]}}
  - {name: marks, template: {runs: {bundled: marker}, config: {file: marks.yaml}, on: [host2]}}
chains:
  - {name: web, source: a, destination: b, through: [edge, marks, dpi], symmetric: true}
";
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, document).unwrap();
    let (members, chains) = members::of_document(&file).unwrap();
    assert_eq!(
        members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(),
        ["edge", "marks"]
    );
    let staged: Vec<Staged> = chains.into_iter().flat_map(both_ways).collect();
    let told = told(&members, &staged);
    // Of a function that others run nothing is known.
    assert_eq!(
        told["chains"],
        json!([
            {"chain": "web", "way": "forth", "stages": [["edge", "marks"], ["dpi"]]},
            {"chain": "web", "way": "back", "stages": [["dpi"], ["marks", "edge"]]},
        ])
    );
    let profile = &told["profiles"]["edge"];
    assert!(profile["D"] == true && profile["W"] == json!([]), "{profile}");
}

#[test]
fn files_that_are_no_profiles_are_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles.json");
    let refused = |text: &str| {
        std::fs::write(&file, text).unwrap();
        members::of_profiles(&file).unwrap_err().message
    };
    assert!(refused("[]").contains("profiles are written {\"profiles\""));
    assert!(refused(r#"{"profiles": {"FW": {"Z": true}}}"#).contains("unknown field `Z`"));
    assert!(
        refused(r#"{"profiles": {"FW": {"R": ["ip.sorce"]}}}"#).contains("the profile FW names")
    );
    assert!(
        members::of_profiles(&folder.path().join("absent"))
            .unwrap_err()
            .message
            .contains("cannot be read")
    );
}

#[derive(clap::Parser)]
struct Line {
    #[command(subcommand)]
    command: PolicyCommand,
}

/// What an analysis of a command line finds: kind, place.
fn analysed(words: &[&str]) -> Result<Vec<(String, String)>, String> {
    let line = ["policy", "analyze"].iter().chain(words).copied();
    let line = <Line as clap::Parser>::try_parse_from(line).map_err(|error| error.to_string())?;
    let PolicyCommand::Analyze(arguments) = &line.command else { panic!("analyze") };
    let report = arguments.report().map_err(|failure| failure.message)?;
    let told = json!(report)["findings"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let place = |finding: &Value| format!("{} {}", text(&finding["of"]), finding["line"]);
    Ok(told.iter().map(|finding| (text(&finding["kind"]), place(finding))).collect())
}

#[test]
fn rules_are_analysed_as_their_functions_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let rules = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -s 10.0.0.0/8 -j ACCEPT\n\
                 -A FORWARD -s 10.1.0.0/16 -p tcp -m tcp --dport 80 -j DROP\n\
                 -A FORWARD -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n";
    let edge = file("edge.iptables", rules);
    let web = file(
        "web.rules",
        "alert tcp any any -> any 23 (msg:\"telnet\"; content:\"root\"; sid:1;)\n",
    );
    let document = file(
        "web.yaml",
        "
functions:
  - {name: edge, template: {runs: {bundled: firewall}, config: {file: edge.iptables}, on: [host2]}}
  - {name: ids, template: {runs: {bundled: ids}, config: {file: web.rules}, on: [host2]}}
chains:
  - {name: web, source: a, destination: b, through: [ids, edge]}
",
    );
    let expected = |edge: &str, chain: &str| {
        [
            ("contradicted", format!("{edge} 4")),
            ("no-effect", format!("{edge} 2")),
            ("inspected-then-dropped", format!("{chain} 1")),
        ]
        .map(|(kind, place)| (kind.to_owned(), place))
        .to_vec()
    };
    assert_eq!(analysed(&["-f", &document]).unwrap(), expected("edge", "web"));
    assert_eq!(analysed(&[&web, &edge]).unwrap(), expected(&edge, "these files"));
    // The other way round nothing is looked at that is dropped.
    assert_eq!(analysed(&[&edge, &web]).unwrap(), expected(&edge, "")[..2]);
    let wrong = file(
        "wrong.iptables",
        "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m geoip -j DROP\nCOMMIT\n",
    );
    let told = analysed(&[&wrong]).unwrap_err();
    assert!(told.contains("line 3") && told.contains("`--unsupported skip`"), "{told}");
    assert!(
        analysed(&["--unsupported", "skip", &wrong])
            .unwrap()
            .contains(&("no-effect".into(), format!("{wrong} 3")))
    );
    let report = |words: &[&str]| {
        let line = ["policy", "analyze"].iter().chain(words).copied();
        let line = <Line as clap::Parser>::parse_from(line);
        let PolicyCommand::Analyze(arguments) = &line.command else { panic!("analyze") };
        json!(arguments.report().unwrap())
    };
    let told = report(&[&web, &edge, "-o", "json"]);
    assert_eq!(told["overlaps"][0]["pairs"], 2, "{told}");
    assert_eq!(told["functions"][&edge], json!({"rules": 3, "needless": 1}));
    assert!(analysed(&["absent.iptables"]).unwrap_err().contains("cannot be read"));
}
