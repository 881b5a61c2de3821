//! What a lab file may say of bundled functions and of programs, and what it is told where it may not.

use super::*;

const WITH_BUNDLED: &str = "\
name: guarded
hosts: {h1: {programs: [{command: [nfcapd, -p, 4739], ready: udp 4739, package: nfdump}]}, h2: {}}
switches: [s1]
links: [h1-s1, h2-s1]
networks: {a: {cidrs: [10.0.0.0/24]}, c: {cidrs: [10.3.0.0/24]}}
endpoints:
  S: {on: h1, networks: [a]}
  D: {on: h2, networks: [a], programs: [{command: [nginx, -p, '${results}', -c, '${lab}/nginx.conf'], ready: tcp 80}]}
functions:
  edge: {bundled: firewall, config: {file: edge.iptables}, on: h2, networks: [a]}
  ids: {bundled: ids, config: {file: web.rules}, on: h2, networks: [a]}
  v1: {on: h1, networks: [a], routes: {a: a}}
chains:
  - {name: C, source: S, destination: D, classify: tcp, through: [edge, ids, v1], symmetric: true}
traffic:
  - {tool: program, name: get, from: S, times: 3, command: [curl, 'http://${D}/'], expect: {exit: 0, stdout: welcome}}
check: [alerts ids == 3, alerts ids 7 == 1, denied edge == 2, unaccounted == 0]
";

fn read(text: &str) -> std::result::Result<(Lab, String), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.yaml");
    for (name, content) in [("x.yaml", text), ("edge.iptables", "*filter"), ("web.rules", "alert")]
    {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let path = folder.path().display().to_string();
    match Lab::read(&file, false) {
        Ok(lab) => Ok((lab, path)),
        Err(error) => Err(error.to_string().replace(&format!("{path}/"), "")),
    }
}

#[test]
fn bundled_functions_have_their_rules_from_beside_the_file_and_no_namespace() {
    let (lab, _) = read(WITH_BUNDLED).unwrap();
    let edge = lab.bundled.get("edge").unwrap();
    assert_eq!((edge.kind(), edge.on.as_str()), ("firewall", "h2"));
    let told = serde_json::json!({"name": "edge.iptables", "text": "*filter"});
    assert_eq!(edge.config.get("file"), Some(&told));
    assert_eq!(lab.functions.names().collect::<Vec<_>>(), ["v1"]);
    assert_eq!(lab.host_of("edge"), Some("h2"));
    // The processes inside do not see the files.
    let again = Lab::reread(Path::new("gone.yaml"), lab.merged.clone()).unwrap();
    assert_eq!(again.bundled, lab.bundled);
}

#[test]
fn files_are_beside_the_file_that_names_them_also_where_another_extends_it() {
    let (base, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, content) in
        [("base.yaml", WITH_BUNDLED), ("edge.iptables", "*filter"), ("web.rules", "alert")]
    {
        std::fs::write(base.path().join(name), content).unwrap();
    }
    let file = beside.path().join("x.yaml");
    let extends = base.path().join("base.yaml");
    std::fs::write(&file, format!("extends: {}\nname: other\n", extends.display())).unwrap();
    let lab = Lab::read(&file, false).unwrap();
    let nginx = lab.programs.iter().find(|program| program.name == "nginx").unwrap();
    assert_eq!(nginx.line.arguments[3], format!("{}/nginx.conf", base.path().display()));
    assert!(lab.bundled.get("ids").unwrap().config["file"]["text"] == "alert");
}

#[test]
fn programs_stand_in_nodes_and_are_traffic_whose_end_is_always_checked() {
    let (lab, _) = read(WITH_BUNDLED).unwrap();
    let standing: Vec<_> = lab.programs.iter().map(|p| (&*p.node, &*p.name, &p.ready)).collect();
    let wanted = [("h1", "nfcapd", &Some(Sign::Udp(4739))), ("D", "nginx", &Some(Sign::Tcp(80)))];
    assert_eq!(standing, wanted);
    assert_eq!(lab.programs[0].line.package, "nfdump");
    assert!(lab.traffic.is_empty());
    let call = lab.calls.first().unwrap();
    assert_eq!((&*call.name, &*call.from, call.times), ("get", "S", 3));
    let filled = call.line.filled(|name| (name == "D").then(|| "10.0.0.11".into()));
    assert_eq!(filled.unwrap(), ["http://10.0.0.11/"]);
    assert!(lab.asks_for(&Claim::Expected), "{:?}", lab.checks);
}

#[test]
fn each_mistake_about_bundled_functions_and_programs_is_told_with_the_remedy() {
    let v1 = "v1: {on: h1, networks: [a], routes: {a: a}}";
    let check = "check: [alerts ids == 3,";
    for (from, to, expected) in [
        (
            "file: edge.iptables",
            "file: gone",
            "x.yaml:10: functions.edge.config.file: gone cannot be read",
        ),
        (
            "bundled: firewall, ",
            "",
            "functions.edge.config: is for bundled functions; add bundled: firewall",
        ),
        (
            "config: {file: edge.iptables}",
            "routes: {a: a}",
            "functions.edge.routes: 'edge' is run by its host, and has no namespace of the lab",
        ),
        (
            "config: {file: edge.iptables}",
            "command: [sleep, 1]",
            "functions.edge.command: is what another function runs",
        ),
        (
            "bundled: firewall, config: {file: edge.iptables}",
            "command: [sleep, 1], door: apart",
            "functions.edge.door: is for bundled functions",
        ),
        (
            v1,
            "v1: {on: h1, networks: [a], routes: {a: a}, instances: 2}",
            "functions.v1.instances: is for functions that hosts run",
        ),
        (
            "networks: [a]}\n  ids",
            "networks: [b]}\n  ids",
            "functions.edge.networks: no network is named 'b'",
        ),
        (
            v1,
            "edge2: {bundled: ips, on: h2, networks: [a]}",
            "no function is named 'v1'; name one of edge, ids, edge2",
        ),
        (
            check,
            "check: [hops,",
            "check[0]: says that functions give back all that goes on, and 'edge' of chain 'C' is bundled",
        ),
        (
            check,
            "capture: {at: [edge]}\ncheck: [",
            "capture.at[0]: 'edge' is bundled, and has no interface to capture at",
        ),
        (
            check,
            "capture: {at: [S]}\ncheck: [streams,",
            "check[0]: is judged from captures at the interfaces of functions",
        ),
        (
            check,
            "updates: {chain: C, kinds: [reorder]}\ncheck: [",
            "updates: is judged from captures, and 'edge' is bundled",
        ),
        (
            check,
            "check: [alerts v1 == 3,",
            "check[0]: no bundled function is named 'v1'; name one of edge, ids",
        ),
        (
            check,
            "check: [denied ids == 0,",
            "check[0]: cannot be told from what 'edge' of the same chain ends on the same host",
        ),
        (
            "S: {on: h1, networks: [a]}",
            "S: {on: h1, networks: [a], routes: {c: v1}}",
            "endpoints.S.routes.c: no bundled function is named 'v1'; name one of edge, ids",
        ),
        (
            "S: {on: h1, networks: [a]}",
            "S: {on: h1, networks: [a], routes: {c: edge}}",
            "'edge' does not lead from 'S' to 'c'; give it a port in both networks",
        ),
        (
            "S: {on: h1, networks: [a]}",
            "S: {on: h1, networks: [a], routes: {a: edge}}",
            "endpoints.S.routes.a: 'S' is on network 'a' itself",
        ),
        (
            v1,
            "v1: {on: h1, networks: [a], routes: {a: a}, on_failure: block}",
            "functions.v1.on_failure: is for functions that hosts run",
        ),
        (
            "ready: tcp 80",
            "ready: http",
            "endpoints.D.programs[0].ready: 'http' is no sign; write 'tcp 80'",
        ),
        (
            "command: [nginx,",
            "name: nfcapd, command: [nginx,",
            "the name 'nfcapd' is taken; give it another name",
        ),
        ("${D}", "${E}", "traffic[0].command: no endpoint or function is named 'E'"),
        ("times: 3", "times: 0", "traffic[0].times: 0 is not a count; use 1 to 1000"),
        ("times: 3", "port: 80", "traffic[0].port: says nothing to a program"),
        (
            "tool: program, name: get",
            "tool: ping, to: D",
            "traffic[0]: command, expect, times and package are for programs",
        ),
        ("from: S", "from: X", "traffic[0].from: no endpoint, function or host is named 'X'"),
        ("command: [curl, 'http://${D}/']", "command: []", "traffic[0].command: names no program"),
    ] {
        assert!(WITH_BUNDLED.contains(from), "{from}");
        let problem = read(&WITH_BUNDLED.replacen(from, to, 1)).map(drop).unwrap_err();
        assert!(problem.contains(expected), "{to}: {problem:?}");
    }
    assert!(told(&format!("{GOOD}check: [expected]\n")).contains("is about programs of traffic"));
}

const COMPARED: &str = "\
name: compared
hosts: {h1: {}, h2: {}}
switches: [s1]
links: [h1-s1, h2-s1]
networks: {a: {cidrs: [10.0.0.0/24]}}
endpoints: {S: {on: h1, networks: [a]}, D: {on: h2, networks: [a]}}
functions:
  edge: {bundled: firewall, config: {file: edge.iptables}, on: h2, networks: [a]}
  other: {bundled: firewall, door: apart, config: {file: edge.iptables}, on: h2, networks: [a]}
  ids: {bundled: ids, config: {file: web.rules}, on: h1, networks: [a]}
chains:
  - {name: one, source: S, destination: D, classify: tcp dport 80-81, through: [edge, ids], symmetric: true}
  - {name: two, source: S, destination: D, classify: tcp dport 90, through: [other], symmetric: true}
traffic:
  - {tool: program, chain: one, from: S, times: 2, command: [curl, 'http://${D}/']}
  - {tool: program, chain: two, from: S, times: 2, command: [curl, 'http://${D}:90/']}
capture: {at: [S, D]}
check: [verdicts edge, same_as two one]
";

#[test]
fn what_is_compared_is_read_with_all_that_it_takes() {
    let (lab, _) = read(COMPARED).unwrap();
    let ports: Vec<_> = lab.chains.iter().map(ports_of).collect();
    assert_eq!(ports, [80..=81, 90..=90]);
    let (edge, ids) = (lab.bundled.get("edge").unwrap(), lab.bundled.get("ids").unwrap());
    assert_eq!(rules_of(edge), Some(("edge.iptables", "*filter")));
    assert!(tells(ids) && !tells(edge) && counts_what_ends(edge));
    assert_eq!(chains_with(&lab, "ids").map(|chain| &*chain.name).collect::<Vec<_>>(), ["one"]);
}

#[test]
fn a_chain_to_an_address_ends_at_whoever_it_stands_for() {
    let one = "source: S, destination: D, classify: tcp dport 80-81";
    for (said, is_right) in [
        ("source: S, classify: tcp dst 10.0.0.200 dport 80-81", true),
        ("source: S, classify: tcp dport 80-81", false),
        ("destination: D, classify: tcp dst 10.0.0.200", false),
    ] {
        let text = COMPARED.replacen(one, said, 1).replacen("verdicts edge, ", "", 1);
        assert_eq!(read(&text).is_ok(), is_right, "{said}");
    }
}

#[test]
fn what_cannot_be_compared_is_told_with_the_remedy() {
    for (from, to, expected) in [
        ("verdicts edge", "verdicts ids", "'ids' is no firewall with rules from a file"),
        (
            "verdicts edge",
            "verdicts v1",
            "no bundled function is named 'v1'; name one of edge, other",
        ),
        ("[edge, ids]", "[other, edge]", "'other' of chain 'one' may end packets, too"),
        ("tcp dport 80-81", "icmp", "chain 'one' takes more than TCP, or UDP"),
        ("tcp dport 80-81", "tcp sport 80", "classifies by source_port"),
        ("at: [S, D]", "at: [S]", "there is none at 'D'; add capture: {at: [S, D]}"),
        ("same_as two one", "same_as two three", "no chain is named 'three'; name one of one, two"),
        ("same_as two one", "same_as two two", "compares a chain with itself"),
        ("chain: two, from", "chain: one, from", "no program of traffic is for chain 'two'"),
        (
            "times: 2, command: [curl, 'http://${D}:90",
            "times: 3, command: [curl, 'http://${D}:90",
            "is not run as often",
        ),
        ("capture: {at", "sweep: {chain: [one]}\ncapture: {at", "leave out sweep.chain"),
    ] {
        assert!(COMPARED.contains(from), "{from}");
        let problem = read(&COMPARED.replacen(from, to, 1)).map(drop).unwrap_err();
        assert!(problem.contains(expected), "{to}: {problem:?}");
    }
}
