//! Lab files as experiments: what `./demo` does, with a short file, and with checks that must fail;
//! and the ready files that hold promises, whole.

use crate::house::{CATENA, LAB, lab_name, renamed_lab, turn};
use crate::patience::is_full;
use crate::procfs;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(file: &Path, results: &Path) -> Output {
    run_as(file, results, &[])
}

fn run_as(file: &Path, results: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(CATENA);
    command.args(["lab", "run"]).args(options).arg("--results").arg(results);
    command.arg("--summary").arg(results.join("summary.json")).arg(file);
    command.output().expect("the binary runs")
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn an_experiment_runs_proves_draws_and_leaves_only_its_results() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let links = procfs::links();
    let lab = renamed_lab("experiment.yaml", &lab_name("experiment"));
    let output = run(&lab.path().join(LAB), folder.path());
    let said = said(&output);
    // The goal is out of reach, and that fails nothing.
    assert!(output.status.success(), "{said}");
    assert!(said.contains("throughput stream >= 900G"), "a missed goal is told: {said}");
    let summary = std::fs::read_to_string(folder.path().join("summary.json")).expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!((&summary["ok"], &summary["steering"]["ok"]), (&true.into(), &true.into()));
    assert!(summary["machine"].is_object() && summary["versions"].is_object(), "{summary}");
    let files: Vec<String> =
        procfs::files_below(folder.path()).iter().map(|path| path.display().to_string()).collect();
    // One figure of each run of the sweep.
    for wanted in ["test-timeline-nsh.svg", "test-timeline-mpls.png"] {
        assert!(files.iter().any(|file| file.ends_with(wanted)), "{wanted} among {files:?}");
    }
    assert_eq!(procfs::links(), links);
    assert!(!procfs::has_abstract_socket(&format!("catena-lab-{}", lab_name("experiment"))));
}

#[test]
fn a_check_that_does_not_hold_fails_the_run_and_is_named() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let lab = renamed_lab("experiment.yaml", &lab_name("failing"));
    let file = lab.path().join(LAB);
    let mut text = std::fs::read_to_string(&file).expect("a lab file");
    text.push_str("sweep: {encapsulation: [nsh]}\nplot: []\n");
    text.push_str("check: [order, loss numbered >= 1, unaccounted == 0]\n");
    std::fs::write(&file, text).expect("a lab file");
    let output = run(&file, folder.path());
    let said = said(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    let failed = said.lines().find(|line| line.contains("failed checks")).expect("it says which");
    assert!(failed.contains("loss numbered >= 1") && !failed.contains("order"), "{failed}");
}

/// Each stream is proved from samples at every function; and a chain that none of it enters fails
/// by its name, though every packet arrives and nothing is unaccounted for.
#[test]
fn streams_are_proved_from_samples_and_a_chain_that_is_given_nothing_fails_by_its_name() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let lab = renamed_lab("streams.yaml", &lab_name("streams"));
    let file = lab.path().join(LAB);
    let output = run(&file, folder.path());
    let proved = said(&output);
    assert!(output.status.success(), "{proved}");
    // The cases take turns.
    let place = |sign: &str| proved.find(sign).unwrap_or_else(|| panic!("{sign} in {proved}"));
    assert!(place("✓ 1: C2-nsh") < place("✓ 2: C0"), "{proved}");
    let text = std::fs::read_to_string(&file).expect("a lab file");
    let elsewhere = "chains:\n  - {name: C2, source: S, destination: D, match_fields: {protocol: tcp, \
         destination_port: 5999}, chain: [{name: v1, direction: same}]}\n\
         sweep: {chain: [C2], encapsulation: [nsh], repeat: 1}\n";
    std::fs::write(&file, text + elsewhere).expect("a lab file");
    let output = run(&file, folder.path());
    let failed = said(&output);
    assert_eq!(output.status.code(), Some(4), "{failed}");
    assert!(failed.contains("chain 'C2' was given no packet"), "{failed}");
    assert!(failed.contains("samples into D with hop limit 64"), "{failed}");
    for check in ["every chain was given packets", "streams", "hops", "unaccounted == 0"] {
        assert!(failed.contains(&format!("✗ check  {check}")), "{check} in {failed}");
    }
}

/// A ready lab file, run whole: every check in it holds. Its part of the summary is the answer.
fn passes(file: &str) -> Value {
    passes_with(file, "")
}

/// The same in its full form, in the full test.
fn passes_as_a_whole(file: &str) -> Value {
    ready(file, "", is_full())
}

/// A ready lab file, run whole, with more said in it.
fn passes_with(file: &str, more: &str) -> Value {
    ready(file, more, false)
}

fn ready(file: &str, more: &str, is_full: bool) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    ready_in(folder.path(), file, more, is_full)
}

/// The same with its results in this folder.
fn ready_in(folder: &Path, file: &str, more: &str, is_full: bool) -> Value {
    ready_with(folder, (file, more), if is_full { &["--full"] } else { &[] })
}

/// The same with other options.
fn ready_with(folder: &Path, (file, more): (&str, &str), options: &[&str]) -> Value {
    let _turn = turn();
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(file);
    let base = base.canonicalize().expect("the lab file");
    let lab = folder.join(LAB);
    let text = format!("extends: {}\nname: {}\n{more}", base.display(), lab_name("ready"));
    std::fs::write(&lab, text).expect("a lab file");
    let output = run_as(&lab, folder, options);
    println!("{}", said(&output));
    assert!(output.status.success(), "{}", said(&output));
    let summary = std::fs::read_to_string(folder.join("summary.json")).expect("a summary");
    serde_json::from_str(&summary).expect("JSON")
}

/// The sizes of the promise: a hundred changes, a thousand in the full test, at least 5,000 packets
/// a second.
#[test]
fn a_chain_changes_a_hundred_times_under_a_stream_and_nothing_is_lost_doubled_or_mixed() {
    // The full test goes by both encapsulations.
    let (file, changes, more, runs) = if is_full() {
        ("thousand-changes.yaml", 1_000, "sweep: {encapsulation: [nsh, mpls]}\n", 2)
    } else {
        ("chain-updates.yaml", 100, "", 1)
    };
    let update = &passes_with(file, more)["update"];
    let number = |key: &str| update[key].as_u64();
    assert_eq!((number("changes"), number("both_versions")), (Some(changes), Some(runs * changes)));
    assert_eq!(
        ["lost", "duplicated", "mixed", "overtaken"].map(number),
        [Some(0), Some(0), Some(0), Some(0)]
    );
    assert!(update["packets_per_second"].as_f64() >= Some(5_000.0), "{update}");
}

/// Each packet met one of three rule sets, whole: the marker's and the firewall's of the same change.
#[test]
fn a_firewalls_rule_set_changes_a_hundred_times_under_a_stream_and_no_packet_meets_half_of_two() {
    let runs = if is_full() { 6 } else { 1 };
    let update = &passes_as_a_whole("policy-changes.yaml")["update"];
    let number = |key: &str| update[key].as_u64();
    assert_eq!((number("changes"), number("both_versions")), (Some(100), Some(runs * 100)));
    assert_eq!(
        ["lost", "duplicated", "mixed", "overtaken"].map(number),
        [Some(0), Some(0), Some(0), Some(0)]
    );
    assert!(update["packets_per_second"].as_f64() >= Some(800.0), "{update}");
}

#[test]
fn tcp_streams_live_through_a_hundred_changes_of_their_chain() {
    let update = &passes("chain-updates-tcp.yaml")["update_tcp"];
    assert_eq!((&update["changes"], &update["broken"]), (&100.into(), &0.into()));
}

#[test]
fn ten_thousand_flows_go_by_weight_and_a_change_of_instances_moves_only_those_it_must() {
    passes("weights.yaml");
}

#[test]
fn copies_for_taps_arrive_once_on_any_host_and_two_in_a_row() {
    passes("taps.yaml");
}

#[test]
fn answers_of_a_symmetric_chain_meet_the_same_instances_in_reverse_order() {
    passes("symmetric.yaml");
}

/// Users of two tenants who number theirs alike, plain packets beside them, a user who moves: every
/// frame once, whole, in order, by its own chain.
#[test]
fn users_of_the_5g_test_bed_go_by_their_slices_also_while_one_moves() {
    passes("tests/slices.yaml");
}

/// Each datagram is proved at its functions, and at every link that it crossed.
#[test]
fn a_chain_over_source_routes_is_proved_switch_by_switch() {
    passes("source-route.yaml");
}

/// The study's three chains, with its two switches as nodes.
#[test]
fn the_chains_of_the_study_go_over_switches_that_know_none_of_them() {
    passes("openstack-source-route.yaml");
}

/// Questions and answers over cables that each have a bridge in them, which learns addresses, and one Open vSwitch.
#[test]
fn source_routes_go_through_bridges_that_know_nothing_of_them() {
    const TEST: &str = "source_routes_go_through_bridges_that_know_nothing_of_them";
    if Command::new("ovs-vswitchd").arg("--version").output().is_err() {
        println!("SKIPPED: {TEST}: Open vSwitch is not installed");
        return;
    }
    passes("plain-equipment.yaml");
}

/// The chain's own way under another tag, and under none, put into a cable between two nodes.
#[test]
fn a_way_with_a_wrong_tag_is_passed_on_and_comes_out_nowhere() {
    passes("source-route-tags.yaml");
}

/// Seven switches in a row, by headers of seven ports: the one in the middle is an edge. Each datagram is proved at
/// every link, also where one header ends and the next begins.
#[test]
fn a_way_that_is_longer_than_its_headers_goes_over_an_edge() {
    passes("edge-switches.yaml");
}

#[test]
fn flows_of_a_reactive_chain_are_set_up_with_their_first_packet() {
    passes("reactive.yaml");
}

/// Chains of one to ten functions over the twenty switches of a fat tree; all lengths, and tunnels beside
/// source routes, in the full test, and who is held for silent in ten minutes.
#[test]
fn chains_in_and_across_the_pods_of_a_fat_tree_are_proved_switch_by_switch() {
    passes_as_a_whole("fat-tree.yaml");
    if is_full() {
        passes_as_a_whole("false-alarms.yaml");
    }
}

/// A cable is pulled out and one falls silent under a counted stream.
#[test]
fn cables_of_a_fat_tree_fail_under_a_stream_and_frames_go_round() {
    passes("fat-tree-cut.yaml");
}

/// What stands in a file of a run's results whose name begins so.
fn result(folder: &Path, begin: &str) -> String {
    let files = procfs::files_below(folder);
    let name = |file: &Path| file.file_name().map(|name| name.to_string_lossy().into_owned());
    let file = files.iter().find(|file| name(file).is_some_and(|it| it.starts_with(begin)));
    let file = file.unwrap_or_else(|| panic!("no {begin} in {files:?}"));
    std::fs::read_to_string(file).expect("text")
}

/// Firewalls, a switch, proxies, tunnels and what looks on, as Debian has them.
#[test]
fn the_papers_programs_work_in_chains_that_they_know_nothing_of() {
    const TEST: &str = "the_papers_programs_work_in_chains_that_they_know_nothing_of";
    let has_filter =
        Command::new("nft").args(["list", "tables"]).output().is_ok_and(|it| it.status.success());
    let lacks = [("nf_tables", has_filter), ("/dev/net/tun", Path::new("/dev/net/tun").exists())];
    if let Some((what, _)) = lacks.into_iter().find(|(_, is_there)| !is_there) {
        println!("SKIPPED: {TEST}: this kernel has no {what}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    ready_in(folder.path(), "real-functions.yaml", "", false);
    let flows = |text: &str| -> u64 {
        let told = text.lines().find_map(|line| line.split_once("Flows: ")?.1.split(',').next());
        told.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no flows in {text}"))
    };
    // Of each connection of the chain with the taps, five pages among them, both ways.
    assert!(flows(&result(folder.path(), "nfpcapd.txt")) >= 10);
}

/// The paper's figure 1: alerts and loads of an ids in front of a firewall and behind it, and before an openvpn and
/// behind it.
#[test]
fn the_orders_that_are_suggested_to_tenants_do_to_packets_what_is_said() {
    const TEST: &str = "the_orders_that_are_suggested_to_tenants_do_to_packets_what_is_said";
    if !Path::new("/dev/net/tun").exists() {
        println!("SKIPPED: {TEST}: this kernel has no /dev/net/tun");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let summary = ready_in(folder.path(), "multi-tenant-security.yaml", "", false);
    let functions = &summary["functions"];
    let number = |key: &str| functions[key].as_u64().expect("a number");
    assert_eq!(
        ["alerts", "expected_alerts", "denied", "unaccounted"].map(number),
        [213, 213, 20, 0]
    );
    // The server beyond the tunnel was asked what one ids was told of, and the other was not.
    let log = result(folder.path(), "nginx-access.log");
    assert_eq!(log.lines().filter(|line| line.contains("%90%90%90%90")).count(), 3, "{log}");
}

/// Functions that compute, one after the other and as their host finds best: both are timed, and beside each stands
/// what is predicted of it from times that were measured. How long they take is for whoever reads the figures.
#[test]
fn functions_are_timed_in_the_form_that_a_host_chooses_beside_what_is_predicted() {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = ready_in(folder.path(), "nfp-latency.yaml", "", false);
    let parallel = &summary["parallel"];
    for key in ["serial_us", "plan_us", "predicted_us", "serial_predicted_us", "bare_us"] {
        assert!(parallel[key].as_f64().is_some_and(|us| us > 0.0), "{key} of {parallel}");
    }
    let number = |key: &str| parallel[key].as_f64().expect("a number");
    let reduction = (1.0 - number("plan_us") / number("serial_us")) * 100.0;
    assert!((number("reduction_pct") - reduction).abs() < 1e-6, "{parallel}");
    assert!(parallel["forms"].as_array().is_some_and(|forms| !forms.is_empty()), "{parallel}");
    let rows = result(folder.path(), "delays.csv");
    for chain in ["bare", "serial", "plan"] {
        assert!(rows.lines().any(|row| row.starts_with(&format!("{chain},150,"))), "{rows}");
    }
}

/// Pages, attacks and closed doors: a firewall, an ids and a monitor have told and ended what the log of the real
/// server, behind a nat, and a collector of others know of.
#[test]
fn attacks_on_a_web_server_are_told_and_closed_doors_stay_closed() {
    // The worker asks functions one after the other; threads ask the ids and the monitor side by side.
    attacks_are_told(&[]);
    attacks_are_told(&["--function-threads", "3", "--function-form", "fork"]);
}

fn attacks_are_told(options: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = ready_with(folder.path(), ("secure-web.yaml", ""), options);
    let functions = &summary["functions"];
    let number = |key: &str| functions[key].as_u64().expect("a number");
    assert_eq!(["alerts", "expected_alerts", "denied", "unaccounted"].map(number), [19, 19, 9, 0]);
    assert!(number("sent") > 300, "{functions}");

    let log = result(folder.path(), "nginx-access.log");
    // But for what stands in bodies and what nmap asks more than once.
    let signs = ["sswd HTTP", "UNION", "sqlmap", ".php", "TRACE"];
    let hostile = log.lines().filter(|line| signs.iter().any(|sign| line.contains(sign)));
    assert_eq!(hostile.count(), 16, "{log}");
    assert_eq!(log.lines().filter(|line| line.contains("POST /form")).count(), 5, "{log}");
    assert!(
        log.lines().all(|line| line.starts_with("203.0.113.4 ")),
        "clients are the pool: {log}"
    );
    // What the firewall has ended the monitor behind it has not seen.
    let collector = result(folder.path(), "nfcapd.txt");
    let seen = format!(", Packets: {}, Bytes:", number("sent") - number("denied"));
    assert!(collector.contains(&seen), "no '{seen}' in {collector}");
    assert!(collector.contains("Sequence Errors: 0, Bad Packets: 0"), "{collector}");

    // The same captures are no proof of other rules, or of other hits.
    assert_eq!(judged_again(folder.path(), "", ""), Some(0));
    for (from, to) in [
        ("--dport 23 -j DROP", "--dport 23 -j ACCEPT"),
        ("--dport 8080 -j REJECT --reject-with tcp-reset", "--dport 8080 -j DROP"),
        (":FORWARD DROP", ":FORWARD ACCEPT"),
        ("--dport 80 ", "--dport 81 "),
        ("\"hits\": {", "\"hits\": {\"1\": 3, "),
    ] {
        assert_eq!(judged_again(folder.path(), from, to), Some(1), "{to}");
    }
}

/// How the evaluator of verdicts ends that is asked again about the captures of a run, with other words in what it is
/// told.
fn judged_again(folder: &Path, from: &str, to: &str) -> Option<i32> {
    let files = procfs::files_below(folder);
    let told = files.iter().find(|file| file.ends_with("lab.json")).expect("what it was told");
    let text = std::fs::read_to_string(told).expect("text");
    assert!(text.contains(from), "no {from} in {text}");
    let again = told.with_file_name("again.json");
    std::fs::write(&again, text.replacen(from, to, 1)).expect("a file");
    let mut command = Command::new("python3");
    command.arg("-B").arg(told.with_file_name("verdict_proof.py")).arg(&again);
    command.arg(told.with_file_name("again-proof.json")).stderr(Stdio::null());
    command.status().expect("python3 runs").code()
}

/// A firewall and an ids inside, beside, apart and alone: the same requests have the same ends, and the same alerts.
#[test]
fn one_chain_ends_and_tells_the_same_by_each_door() {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = ready_in(folder.path(), "function-doors.yaml", "", false);
    let number = |key: &str| summary["functions"][key].as_u64().expect("a number");
    assert_eq!(["alerts", "expected_alerts", "unaccounted"].map(number), [15, 15, 0]);
}

/// Each of two real servers gets its share of the connections to one address, and knows the client by its own; a third
/// one, which says that it does not serve, gets none.
#[test]
fn pages_come_from_both_servers_behind_the_address_of_a_balancer() {
    let folder = tempfile::tempdir().expect("a folder");
    ready_in(folder.path(), "balanced-web.yaml", "", false);
    let pages = ["left-access.log", "right-access.log"].map(|log| {
        let log = result(folder.path(), log);
        assert!(log.lines().all(|line| line.starts_with("10.10.0.10 ")), "{log}");
        log.lines().count()
    });
    // Chance gives either less than a sixth once in ten million runs.
    let is_shared = pages.iter().all(|share| *share >= 10);
    assert!(is_shared && pages.iter().sum::<usize>() == 60, "{pages:?}");
    assert_eq!(result(folder.path(), "sick-access.log"), "");
    let checks = result(folder.path(), "sick-checks.log");
    let is_check = |line: &str| {
        line.starts_with("10.10.0.201 ") && line.contains("\"GET /health HTTP/1.1\" 503")
    };
    assert!(checks.lines().count() >= 3 && checks.lines().all(is_check), "{checks}");
}

/// A policer meters what a marker before it has marked, and nothing else.
#[test]
fn a_stream_is_metered_by_the_code_point_that_it_gets_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = ready_in(folder.path(), "metered-stream.yaml", "", false);
    let number = |key: &str| summary["functions"][key].as_u64().expect("a number");
    assert_eq!(["sent", "denied", "unaccounted"].map(number), [400, 100, 0]);
}

/// A firewall apart is killed and a command ends: what is lost is lost by name, and then both are back.
#[test]
fn functions_that_die_under_a_stream_lose_by_name_alone_and_are_back() {
    let folder = tempfile::tempdir().expect("a folder");
    ready_in(folder.path(), "function-deaths.yaml", "", false);
}

/// What a lab needs and the machine has not is told before anything is made.
#[test]
fn a_program_that_is_missing_is_told_with_its_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let lab = renamed_lab("experiment.yaml", &lab_name("missing"));
    let file = lab.path().join(LAB);
    let mut text = std::fs::read_to_string(&file).expect("a lab file");
    text.push_str(
        "traffic: [{tool: program, from: S, command: [no-such-tool], package: some-tools}]\n",
    );
    text.push_str("check: [expected]\ngoal: []\ncapture: {at: []}\nplot: []\n");
    std::fs::write(&file, text).expect("a lab file");
    let output = run(&file, folder.path());
    let said = said(&output);
    assert!(!output.status.success(), "{said}");
    for part in
        ["no-such-tool: is not installed, and 'S' of the lab runs it", "apt-get install some-tools"]
    {
        assert!(said.contains(part), "no '{part}' in {said}");
    }
}

/// Forty moves among NSH, MPLS and source routes; three times so many in the full test.
#[test]
fn a_chain_moves_among_encapsulations_under_a_stream_and_nothing_is_lost_doubled_or_mixed() {
    let (more, runs) = if is_full() { ("sweep: {repeat: 3}\n", 3) } else { ("", 1) };
    let update = &passes_with("source-route-moves.yaml", more)["update"];
    let number = |key: &str| update[key].as_u64();
    assert_eq!((number("changes"), number("both_versions")), (Some(40), Some(runs * 40)));
    assert_eq!(["lost", "duplicated", "mixed"].map(number), [Some(0), Some(0), Some(0)]);
    assert!(update["packets_per_second"].as_f64() >= Some(5_000.0), "{update}");
}

/// The same with segments of IPv6 among them, as packets and as frames.
#[test]
fn a_chain_moves_among_four_families_under_a_stream_and_nothing_is_lost_doubled_or_mixed() {
    let (more, runs) = if is_full() { ("sweep: {repeat: 3}\n", 3) } else { ("", 1) };
    let update = &passes_with("srv6-moves.yaml", more)["update"];
    let number = |key: &str| update[key].as_u64();
    assert_eq!((number("changes"), number("both_versions")), (Some(40), Some(runs * 40)));
    assert_eq!(["lost", "duplicated", "mixed"].map(number), [Some(0), Some(0), Some(0)]);
}

/// IPv4 and IPv6 inside, as packets and as whole frames.
#[test]
fn chains_over_segments_of_ipv6_lead_each_packet_past_each_function() {
    passes("srv6.yaml");
}

/// Over four nodes, two functions on one of them, and one node visited twice; IPv4 and IPv6, packets and frames.
#[test]
fn what_nodes_write_of_packets_is_true_field_by_field_and_nothing_of_it_is_left() {
    passes("srv6-int.yaml");
}

#[test]
fn packets_over_segments_cross_a_plain_linux_router_and_what_nodes_write_of_them_is_true() {
    passes("srv6-linux.yaml");
}

/// The same with a firewall inside a data plane.
#[test]
fn what_nodes_write_of_packets_is_true_where_a_function_is_inside_a_data_plane() {
    passes("srv6-int-firewall.yaml");
}

/// Four chains at once over two servers, each with other fields; the load of one grows twice.
#[test]
fn all_chains_of_the_self_adaptive_test_bed_are_led_and_told_of_rightly_while_one_gets_more_load() {
    passes("self-adaptive.yaml");
}
