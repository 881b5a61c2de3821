//! What a wrong lab file is told, and that the ready ones are right.

use super::*;
use catena_model::resource::Encapsulation;
use std::path::PathBuf;

mod functions;
mod routers;
mod rule_sets;
mod telemetry;

fn labs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs")
}

const GOOD: &str = "\
name: small
hosts: {h1: {}, h2: {}}
switches: [s1]
links: [h1-s1, h2-s1]
networks:
  a: {cidrs: [10.0.0.0/24], gateway: S}
  b: {cidrs: [10.1.0.0/24, 'fd00::/64']}
endpoints:
  S: {on: h1, networks: [a]}
  D: {on: h2, networks: [a]}
functions:
  v1:
    on: h1
    networks: [a, b]
    routes: {a: b}
  v2: {on: h2, networks: [a]}
chains:
  - {name: C, source: S, destination: D, match_fields: {protocol: udp}, chain: [{name: v1, direction: same}]}
traffic:
  - {tool: iperf3, protocol: udp, from: S, to: D, rate: 1M, chain: C}
";

fn told(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.yaml");
    std::fs::write(&file, text).unwrap();
    match Lab::read(&file, false) {
        Ok(_) => String::new(),
        Err(error) => error.to_string().replace(&format!("{}/", folder.path().display()), ""),
    }
}

#[test]
fn a_small_lab_is_understood() {
    assert_eq!(told(GOOD), "");
}

#[test]
fn a_key_that_is_said_twice_is_named_with_file_and_line() {
    for (wrong, said) in [
        (format!("{GOOD}name: other\n"), "x.yaml:21: name: is given twice; leave one of them"),
        (
            GOOD.replace("    networks: [a, b]\n", "    networks: [a, b]\n    on: h2\n"),
            "x.yaml:15: functions.v1.on: is given twice; leave one of them",
        ),
        (
            GOOD.replace("{protocol: udp}", "{protocol: udp, protocol: tcp}"),
            "x.yaml:18: chains[0].match_fields.protocol: is given twice; leave one of them",
        ),
    ] {
        assert_eq!(told(&wrong), said);
    }
}

#[test]
fn datagrams_that_are_timed_and_threads_that_ask_are_refused_with_what_to_do() {
    let poisson = |more: &str| {
        format!(
            "{GOOD}  - {{tool: catena, protocol: udp, from: S, to: D, arrivals: poisson, {more}}}\n"
        )
    };
    assert_eq!(told(&poisson("packets_per_second: 100")), "");
    assert_eq!(told(&poisson("load: 0.5, load_of: C")), "");
    let checked = format!("{}check: ['predicted within 10 above C']\n", poisson("flows: 3"));
    assert_eq!(told(&checked), "");
    for (wrong, said) in [
        (poisson("packets: 3"), "traffic[1].arrivals: poisson ends with time, not after packets"),
        (poisson("answers: true"), "traffic[1].arrivals: poisson has no answers"),
        (poisson("flows: 251"), "traffic[1].arrivals: poisson has too many flows"),
        (poisson("load: 0.5"), "traffic[1].load: is of no chain"),
        (poisson("load_of: C"), "traffic[1].load_of: has no load"),
        (poisson("load: 2.5, load_of: C"), "traffic[1].load: 2.5 is no load"),
        (poisson("load: .nan, load_of: C"), "traffic[1].load: NaN is no load"),
        (poisson("load: 0.5, load_of: c"), "traffic[1].load_of: no chain is named 'c'"),
        (
            poisson("load: 0.5, load_of: C, packets_per_second: 3"),
            "traffic[1].load: is for arrivals: poisson",
        ),
        (
            format!("{GOOD}check: [predicted]\n"),
            "check[0]: is about datagrams that are timed, and none is",
        ),
        (
            format!("{}check: ['predicted within 3 above c']\n", poisson("flows: 1")),
            "check[0]: no chain is named 'c'",
        ),
        (
            GOOD.replace("h1: {}", "h1: {function_form: fork}"),
            "hosts.h1.function_form: is fork without threads",
        ),
        (
            GOOD.replace("h1: {}", "h1: {function_threads: 65}"),
            "hosts.h1.function_threads: 65 are too many",
        ),
    ] {
        let found = told(&wrong);
        assert!(found.contains(said), "{said}: {found}");
    }
}

#[test]
fn every_ready_lab_is_right_in_both_lengths() {
    let mut count = 0;
    for entry in std::fs::read_dir(labs()).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|ending| ending == "yaml") {
            for is_full in [false, true] {
                let lab = Lab::read(&file, is_full).unwrap_or_else(|error| panic!("{error}"));
                assert!(!lab.hosts.is_empty());
            }
            count += 1;
        }
    }
    assert!(count >= 4);
}

#[test]
fn full_durations_are_those_of_the_study() {
    let seconds = |is_full| {
        let lab = Lab::read(&labs().join("openstack-steering.yaml"), is_full).unwrap();
        lab.traffic.iter().take(3).map(|traffic| traffic.seconds.0).collect::<Vec<_>>()
    };
    assert_eq!(seconds(false), [9.0, 6.0, 3.0]);
    assert_eq!(seconds(true), [90.0, 60.0, 30.0]);
}

#[test]
fn an_extending_file_changes_only_what_it_says() {
    let tcp = Lab::read(&labs().join("openstack-tcp.yaml"), false).unwrap();
    let routes = |name: &str| {
        let function = tcp.functions.get(name).unwrap();
        function.routes.iter().map(|(a, b)| format!("{a}>{b}")).collect::<Vec<_>>()
    };
    assert_eq!(routes("v1"), ["customer>customer"]);
    assert_eq!(routes("v7"), ["internal>customer"]);
    assert_eq!(tcp.functions.get("v1").unwrap().on, "host1");
}

#[test]
fn each_mistake_is_told_with_line_key_and_remedy() {
    let cases = [
        (
            "on: h1\n    networks: [a, b]",
            "on: h9\n    networks: [a, b]",
            "x.yaml:13: functions.v1.on: no host is named 'h9'; name one of h1, h2",
        ),
        (
            "networks: [a, b]",
            "networks: [a, c]",
            "x.yaml:14: functions.v1.networks: no network is named 'c'; name one of a, b",
        ),
        (
            "routes: {a: b}",
            "routes: {a: c}",
            "x.yaml:15: functions.v1.routes.a: 'v1' has no port on network 'c'; use its networks: a, b",
        ),
        (
            "gateway: S",
            "gateway: T",
            "x.yaml:6: networks.a.gateway: no endpoint is named 'T'; name one of S, D",
        ),
        (
            "h2-s1]",
            "h2-s2]",
            "x.yaml:4: links[1]: no host or switch is named 's2'; name one of h1, h2, s1",
        ),
        ("h1-s1, h2-s1", "h1-h2", "host 'h1' has 0 links to plain switches"),
        ("h1-s1, h2-s1", "h1-s1, h1-h1", "x.yaml:4: links[1]: joins a thing to itself"),
        (
            "links: [h1-s1, h2-s1]",
            "links: [h1-s1]",
            "host 'h2' has 0 links to plain switches; link each host",
        ),
        ("name: small", "title: x", "name: is missing; name the lab"),
        ("direction: same", "direction: up", "'up' is not a direction; use in, out, same or tap"),
        ("chain: [{name: v1", "chain: [{name: v7", "no function is named 'v7'; name one of v1, v2"),
        ("from: S", "from: X", "traffic[0].from: no endpoint is named 'X'; name one of S, D"),
        ("protocol: udp, from", "protocol: sctp, from", "no such traffic; use tool: iperf3"),
        ("rate: 1M", "rate: fast", "'fast' is not a rate; write bit/s as 800k, 3M or 1.5G"),
        ("rate: 1M", "colour: red", "unknown field `colour`"),
        ("chain: C}", "chain: Z}", "no chain is named 'Z'; name one of C"),
        ("  D: {on: h2", "  S: {on: h2", "is given twice"),
        ("switches: [s1]", "switches: [s1, h1]", "the name 'h1' is taken"),
        (
            "cidrs: [10.0.0.0/24]",
            "cidrs: [10.0.0.0/24, 10.2.0.0/24]",
            "needs one prefix of a family",
        ),
        (
            "  D: {on: h2, networks: [a]}",
            "  D_has_a_very_long_name: {on: h2, networks: [a]}",
            "cannot name it; use up to 14 letters",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let problem = told(&GOOD.replacen(from, to, 1));
        assert!(problem.contains(expected), "{to}: {problem:?}");
        assert!(problem.starts_with("x.yaml"), "{problem}");
    }
}

fn triangle() -> String {
    std::fs::read_to_string(labs().join("tests/triangle.yaml")).unwrap()
}

#[test]
fn switches_with_a_role_are_nodes_and_what_joins_nodes_are_cables() {
    let lab = Lab::read(&labs().join("tests/triangle.yaml"), false).unwrap();
    assert_eq!(lab.switches, ["a1", "a2", "a3"]);
    assert_eq!(lab.nodes().collect::<Vec<_>>(), ["h1", "h2", "h3", "a1", "a2", "a3"]);
    // The data network of a file that names no plain switch.
    assert_eq!(lab.bridges, ["data"]);
    assert_eq!(lab.links.len(), 6);
    let cables: Vec<String> =
        lab.cables.iter().map(|cable| format!("{cable} {}", cable.mtu)).collect();
    assert_eq!(cables.first().unwrap(), "h1:l-a1 -- a1:l-h1 1500");
    // Parallel cables are links of their own.
    assert_eq!(cables[3], "a1:l-a2 -- a2:l-a1 1500");
    assert_eq!(cables[6], "a1:l-a2-2 -- a2:l-a1-2 1500");
    assert_eq!(cables[7], "h1:l-h3 -- h3:l-h1 9000");
}

#[test]
fn both_forms_of_switches_are_read_and_may_be_mixed() {
    for form in ["{s1: {}}", "{s1: }", "{s1: null}"] {
        assert_eq!(told(&GOOD.replacen("[s1]", form, 1)), "", "{form}");
    }
    let text = triangle().replace("a3: {role: switch}}", "a3: {role: switch}, x: {}}");
    let plugged = "links: [h1-x, h2-x, h3-x, a1-x, {between: x-a2, mtu: 2000}, a3-x, ";
    let lab = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.yaml");
        std::fs::write(&file, text).unwrap();
        Lab::read(&file, false)
    };
    let mixed = lab(&text.replace("links: [", plugged)).unwrap();
    assert_eq!((mixed.bridges.len(), mixed.switches.len()), (1, 3));
    assert_eq!((mixed.links.len(), mixed.cables.len()), (6, 8));
    // What an end may send by the data network, its cables take.
    assert_eq!(mixed.cables.iter().map(|cable| cable.mtu).max(), Some(9000));
    assert_eq!((mixed.cables[1].mtu, mixed.cables[2].mtu), (2000, 1500));
    let wide = lab(&triangle().replace("customer: {", "customer: {mtu: 2000, ")).unwrap();
    assert_eq!((wide.cables[0].mtu, wide.links[0].mtu), (2100, 2100));
}

#[test]
fn a_switch_that_reads_source_routes_may_be_an_edge_and_a_plain_one_may_not() {
    let lab = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.yaml");
        std::fs::write(&file, text).unwrap();
        Lab::read(&file, false)
    };
    assert!(lab(&triangle()).unwrap().edges.is_empty());
    let edge = triangle().replace("a3: {role: switch}}", "a3: {role: switch, edge: true}}");
    assert_eq!(lab(&edge).unwrap().edges, ["a3"]);
    let plain =
        told(&triangle().replace("a3: {role: switch}}", "a3: {role: switch}, x: {edge: true}}"));
    for part in
        ["switches.x.edge", "is for switches that read source routes", "role: switch, edge: true"]
    {
        assert!(plain.contains(part), "{plain}");
    }
}

#[test]
fn a_cable_may_go_through_a_bridge_and_a_link_of_the_data_network_may_not() {
    let through_none = triangle().replace("mtu: 9000", "through: router");
    let problem = told(&through_none);
    assert!(problem.contains("write bridge or open-vswitch"), "{problem}");
    let text = triangle().replace("mtu: 9000", "through: open-vswitch");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.yaml");
    std::fs::write(&file, &text).unwrap();
    let lab = Lab::read(&file, false).unwrap();
    let through: Vec<_> = lab.cables.iter().map(|cable| cable.through.is_some()).collect();
    assert_eq!(through.iter().position(|it| *it), Some(7), "{through:?}");
    let data = text.replace("a3: {role: switch}}", "a3: {role: switch}, x: {}}").replace(
        "links: [",
        "links: [h2-x, h3-x, a1-x, a2-x, a3-x, {between: h1-x, through: bridge}, ",
    );
    let problem = told(&data);
    assert!(problem.contains("only a link between nodes goes through other"), "{problem}");
}

#[test]
fn each_mistake_about_switches_and_cables_is_told_with_the_remedy() {
    let cases = [
        ("a1: {role: switch}", "a1: {role: router}", "unknown variant `router`, expected `switch`"),
        ("a1: {role: switch}", "a1: {rule: switch}", "unknown field `rule`"),
        ("switches: {", "switches: 3 #", "a list of names, or a mapping such as"),
        ("a1: {role: switch}", "a2: {role: switch}", "switches.a2: is given twice"),
        ("h2: {}", "data: {}, h2: {}", "the name 'data' is taken"),
        ("a2-a3, a3-a1", "a2-a3, a3-a3", "x.yaml:8: links[5]: joins a thing to itself"),
        (
            "a2-a3, a3-a1",
            "a2-a3, a3-a9",
            "no host or switch is named 'a9'; name one of h1, h2, h3, a1",
        ),
        (
            "switch}}",
            "switch}, a4: {role: switch}}",
            "no link joins switch 'a4' to a host or another \
          switch; add one, such as h1-a4",
        ),
        ("switch}}", "switch}, x: {}}", "host 'h1' has 0 links to plain switches"),
        (
            "mtu: 9000",
            "mtu: 1400",
            "links[7].mtu: 1400 is less than 1500, the MTU of its ends in the data",
        ),
        ("mtu: 9000", "mtu: 100", "links[7].mtu: 100 is no MTU"),
        ("mtu: 9000", "through: router", "links[7].through: 'router' is nothing"),
        (
            "v1: {on: h2",
            "v1: {on: a2",
            "functions.v1.on: 'a2' is a switch, and has no ports of tenants; \
          name a host: h1, h2, h3",
        ),
        ("S: {on: h1", "S: {on: a1", "endpoints.S.on: 'a1' is a switch"),
    ];
    for (from, to, expected) in cases {
        assert!(triangle().contains(from), "{from}");
        let problem = told(&triangle().replacen(from, to, 1));
        assert!(problem.contains(expected), "{to}: {problem:?}");
    }
    assert_eq!(told(&triangle().replace("a2", "aggregation")), "");
    let problem = told(&triangle().replace("a2", "aggregation2"));
    let expected = "'l-aggregation2-2' of 'a1' would have more than 15 letters; shorten the name \
                    'aggregation2'";
    assert!(problem.contains(expected), "{problem}");
}

#[test]
fn statements_about_what_is_not_there_are_refused() {
    let with = |line: &str| told(&format!("{GOOD}check: ['{line}']\n"));
    assert_eq!(with("loss C == 0"), "");
    assert!(with("order").contains("judged from captures"));
    assert!(with("moves").contains("judged from captures"));
    assert!(with("shares within few").contains("'few' is not a number of points"));
    assert!(with("loss Z == 0").contains("no chain or traffic is named 'Z'"));
    assert!(with("speed == 3").contains("'speed' is not a metric"));
}

#[test]
fn wrong_updates_and_loads_are_told_with_the_remedy() {
    let updates = |text: &str| told(&format!("{GOOD}updates: {text}\n"));
    assert_eq!(updates("{chain: C, kinds: [insert, remove], count: 8, among: [v1, v2]}"), "");
    for (text, expected) in [
        ("{chain: Z}", "updates.chain: no chain is named 'Z'; name one of C"),
        ("{chain: C}", "updates: says no version"),
        ("{chain: C, kinds: [swap]}", "unknown variant `swap`"),
        ("{chain: C, kinds: [insert], count: 0}", "updates.count: 0 is not a count"),
        ("{chain: C, kinds: [insert], among: [v9]}", "no function is named 'v9'"),
        ("{chain: C, kinds: [remove], among: [v1]}", "change 1 (Remove) is not possible"),
        ("{chain: C, kinds: [insert], count: 2, among: [v1, v2]}", "change 2 (Insert)"),
        ("{chain: C, versions: [[]]}", "updates.versions[0]: changes nothing"),
        ("{chain: C, versions: [[{name: v1, direction: same}]]}", "changes nothing"),
        ("{chain: C, versions: [[{name: v7, direction: same}]]}", "no function is named 'v7'"),
    ] {
        let problem = updates(text);
        assert!(problem.contains(expected), "{text}: {problem:?}");
    }
    for (to, expected) in [
        ("tool: iperf3, flows: 2", "are for our own generator; use tool: catena"),
        ("tool: catena, flows: 0", "traffic[0].flows: 0 is not a count; use 1 to"),
        ("tool: catena, until: updates", "waits for updates, and there are none"),
        ("tool: catena, until: noon", "'noon' is nothing to wait for; write updates"),
    ] {
        let problem = told(&GOOD.replacen("tool: iperf3", to, 1));
        assert!(problem.contains(expected), "{to}: {problem:?}");
    }
}

/// The triangle with a chain and traffic, and more.
fn moved(more: &str) -> String {
    told(&format!(
        "{}chains:\n  - {{name: C, source: S, destination: D, chain: [v1]}}\n\
         traffic:\n  - {{tool: catena, protocol: udp, from: S, to: D, chain: C}}\n{more}\n",
        triangle()
    ))
}

#[test]
fn a_chain_is_moved_round_a_list_of_encapsulations_that_begins_with_its_own() {
    let file = labs().join("source-route-moves.yaml");
    let updates = Lab::read(&file, false).unwrap().updates.unwrap();
    assert_eq!(updates.begins_with, Some(Encapsulation::Nsh));
    let carriers: Vec<&str> =
        updates.versions.iter().map(|version| version.encapsulation.unwrap().name()).collect();
    assert_eq!(carriers.len(), 40);
    let routed = ["native", "safe-9", "classic-80", "sr-mpls", "polka"];
    let routed = routed.map(|profile| format!("source-route/{profile}"));
    let routed: Vec<&str> = routed.iter().map(String::as_str).collect();
    assert_eq!(carriers[..8], [&["mpls"], &routed[..], &["nsh", "mpls"]].concat());
    assert!(updates.versions.windows(2).all(|two| two[0].steps == two[1].steps));
    let with = |text: &str| moved(&format!("updates: {text}"));
    assert_eq!(
        with("{chain: C, kinds: [encapsulation], encapsulations: [nsh, mpls], count: 4}"),
        ""
    );
    for (text, expected) in [
        ("{chain: C, kinds: [encapsulation], count: 2}", "names no two encapsulations"),
        (
            "{chain: C, kinds: [encapsulation], encapsulations: [nsh]}",
            "names no two encapsulations",
        ),
        (
            "{chain: C, kinds: [encapsulation], encapsulations: [nsh, mpls, nsh]}",
            "or one twice; write encapsulations: with two or more of nsh, mpls, source-route/native",
        ),
        (
            "{chain: C, kinds: [reorder], encapsulations: [nsh, mpls]}",
            "are for changes of the kind encapsulation; add encapsulation to kinds:",
        ),
        (
            "{chain: C, kinds: [encapsulation], encapsulations: [nsh, polka]}",
            "unknown variant `polka`",
        ),
    ] {
        let problem = with(text);
        assert!(problem.contains(expected), "{text}: {problem:?}");
    }
    let moves = "updates: {chain: C, kinds: [encapsulation], encapsulations: [nsh, mpls]}\n";
    let swept = moved(&format!("{moves}sweep: {{encapsulation: [nsh]}}"));
    assert!(swept.contains("sweep.encapsulation: is said beside moves; leave one out"), "{swept}");
    let blind = moved(&format!("{moves}capture: {{at: [S, D, v1]}}"));
    assert!(blind.contains("capture: sees no encapsulation"), "{blind}");
    assert_eq!(moved(&format!("{moves}capture: {{at: [S, D, v1], links: true}}")), "");
    let other = moves.replace("[nsh, mpls]", "[mpls, nsh]");
    let fixed = moved(&other).is_empty();
    assert!(fixed, "a chain that says none begins with what the moves do");
    let chain = format!(
        "{}chains:\n  - {{name: C, source: S, chain: [v1], destination: D, encapsulation: nsh}}\n{other}",
        triangle()
    );
    assert!(told(&chain).contains("begin with mpls, and the chain with nsh"), "{}", told(&chain));
}

#[test]
fn source_routes_need_cables_and_the_proof_of_routes_captures_at_them() {
    let route = |more: &str| moved(&format!("check: [route]\n{more}"));
    assert_eq!(route("capture: {links: true}"), "");
    assert!(route("").contains("check[0]: is judged from captures at links"), "{}", route(""));
    let native = "sweep: {encapsulation: [source-route/native]}\n";
    assert_eq!(moved(native), "");
    let problem = told(&format!("{GOOD}{native}"));
    let expected = "sweep.encapsulation: source-route/native goes by cables between nodes, and there are \
                    none; add links from host to host";
    assert!(problem.contains(expected), "{problem}");
    let moves =
        "updates: {chain: C, kinds: [encapsulation], encapsulations: [nsh, source-route/native]}\n";
    let problem = told(&format!("{GOOD}{moves}"));
    assert!(
        problem.contains("updates.encapsulations: source-route/native goes by cables"),
        "{problem}"
    );
}

#[test]
fn files_that_are_no_labs_are_told_so() {
    for text in ["", "[1, 2]", "name: [", "\u{0}", "hosts: 3", "extends: x.yaml", "name: x"] {
        assert!(!told(text).is_empty(), "{text:?}");
    }
    assert!(told("extends: x.yaml").contains("circle"));
    assert!(told("extends: missing.yaml").contains("missing.yaml: cannot be read"));
}

#[test]
fn what_is_handed_to_the_processes_inside_is_the_lab_with_its_full_part() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.yaml");
    std::fs::write(&base, GOOD).unwrap();
    let file = folder.path().join("x.yaml");
    let text = "extends: base.yaml\nname: long\nfull:\n  hosts: {h3: {}}\n  links: [h1-s1, h2-s1, h3-s1]\n";
    std::fs::write(&file, text).unwrap();
    for (is_full, hosts) in [(false, 2), (true, 3)] {
        let lab = Lab::read(&file, is_full).unwrap();
        let again = Lab::reread(Path::new("gone.yaml"), lab.merged.clone()).unwrap();
        assert_eq!((again.hosts.len(), &again.name), (hosts, &lab.name));
        let again = Lab { file: lab.file.clone(), ..again };
        assert_eq!(format!("{again:?}"), format!("{lab:?}"));
    }
}
