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

/// What an analysis of a command line tells.
fn report(words: &[&str]) -> Result<Value, String> {
    let line = ["policy", "analyze"].iter().chain(words).copied();
    let line = <Line as clap::Parser>::try_parse_from(line).map_err(|error| error.to_string())?;
    let PolicyCommand::Analyze(arguments) = &line.command else { panic!("analyze") };
    arguments.report().map(|report| json!(report)).map_err(|failure| failure.message)
}

/// What it finds: kind, place.
fn analysed(words: &[&str]) -> Result<Vec<(String, String)>, String> {
    let told = report(words)?["findings"].as_array().unwrap().clone();
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
    let told = report(&[&web, &edge, "-o", "json"]).unwrap();
    assert_eq!(told["overlaps"][0]["pairs"], 2, "{told}");
    assert_eq!(told["functions"][&edge], json!({"rules": 3, "needless": 1}));
    assert!(analysed(&["absent.iptables"]).unwrap_err().contains("cannot be read"));
}

/// The paper's Table I, as the lab has it: as printed its firewall filters nothing that is forwarded, so only that is
/// told; in FORWARD both mistakes of order are found, and in the orders that are suggested none.
#[test]
fn the_anomalies_of_table_1_are_found_and_gone_in_the_suggested_orders() {
    let file = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/multi-tenant-security/");
        format!("{folder}{name}")
    };
    let [ids, printed, firewall, vpn] =
        ["ids.rules", "as-printed.iptables", "firewall.iptables", "vpn.yaml"].map(file);
    // But for what is said as files are read.
    let found = |files: &[&str]| -> Vec<Value> {
        let told = report(&[files, &["--interface", "eth1=in"]].concat()).unwrap();
        let told = told["findings"].as_array().unwrap().clone();
        told.into_iter().filter(|finding| finding["kind"] != "no-effect").collect()
    };
    assert_eq!(found(&[&ids, &printed]), [] as [Value; 0]);
    let lints = report(&[&ids, &printed, "--interface", "eth1=in"]).unwrap();
    let lint = lints["findings"][0]["what"].as_str().unwrap();
    assert!(lint.starts_with("INPUT filters what is for the host itself"), "{lint}");

    let [one] = &found(&[&ids, &firewall])[..] else { panic!("one finding") };
    assert_eq!((&one["kind"], &one["line"]), (&json!("inspected-then-dropped"), &json!(6)));
    assert_eq!(one["class"], "tcp, ip.src 198.51.100.0/24, ip.dst 10.1.0.0/24, l4.dport 80");
    assert_eq!(found(&[&firewall, &ids]), [] as [Value; 0]);

    let [one] = &found(&[&vpn, &ids])[..] else { panic!("one finding") };
    assert_eq!((&one["kind"], &one["severity"]), (&json!("blind-inspection"), &json!("error")));
    assert_eq!((&one["way"], &one["line"]), (&json!("forth"), &json!(7)));
    assert_eq!(
        one["class"],
        "tcp, ip.src 10.1.0.0/24 (Tenant1), ip.dst 192.168.1.0/24 (Tenant2), l4.sport 80, l4.dport 80"
    );
    assert_eq!(one["others"], json!([{"file": vpn, "line": 8}]));
    assert_eq!(found(&[&ids, &vpn]), [] as [Value; 0]);
    // All three, in the order of the paper and on both ways.
    let told = report(&[&vpn, &ids, &firewall, "--interface", "eth1=in", "--symmetric"]).unwrap();
    let told = told["findings"].as_array().unwrap();
    let of = |kind: &str| told.iter().filter(|finding| finding["kind"] == kind).count();
    assert_eq!([of("blind-inspection"), of("inspected-then-dropped")], [1, 1]);
}

#[test]
fn rules_of_functions_that_others_run_stand_beside_a_document() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    file("web.rules", "alert tcp any any <> any 80 (content:\"x\"; sid:1;)\n");
    let tenants = "groups: {Tenant1: [10.1.0.0/24]}\nrules:\n\
                   - {tenant: Tenant1, match: {source: Tenant1, protocol: tcp}, action: accept}\n\
                   - {tenant: Tenant2, match: {protocol: tcp, destination_port: 23}, action: drop}\n";
    file("tenants.yaml", tenants);
    let vpn = file("vpn.yaml", "encrypts:\n- {source: 10.1.0.0/24}\n");
    let bundled = |name: &str, kind: &str, rules: &str| {
        let template = json!({"runs": {"bundled": kind}, "config": {"file": rules}, "on": ["h"]});
        json!({"name": name, "template": template})
    };
    let document = file(
        "web.json",
        &json!({
            "functions": [
                bundled("edge", "firewall", "tenants.yaml"),
                bundled("ids", "ids", "web.rules"),
            ],
            "chains": [{
                "name": "web", "source": "a", "destination": "b", "through": ["edge", "vpn", "ids"], "symmetric": true,
            }],
        })
        .to_string(),
    );
    let rules = format!("vpn={vpn}");
    assert_eq!(report(&["-f", &document]).unwrap()["unknown"], json!(["vpn"]));
    let told = report(&["-f", &document, "--rules", &rules]).unwrap();
    assert_eq!(told["unknown"], json!([]));
    let found: Vec<[&Value; 4]> = told["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| [&one["of"], &one["kind"], &one["line"], &one["way"]])
        .collect();
    assert_eq!(
        json!(found),
        json!([
            ["edge", "tenant-conflict", 4, null],
            ["web", "blind-inspection", 1, "forth"],
            ["web", "blind-inspection", 1, "back"],
        ]),
    );
    for (rules, told) in [
        (format!("openvpn={vpn}"), "no chain of"),
        (format!("ids={vpn}"), "has rules of its own"),
        ("vpn=".to_owned(), "write vpn=vpn.yaml"),
        ("vpn=absent".to_owned(), "cannot be read"),
    ] {
        let error = report(&["-f", &document, "--rules", &rules]).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
}
