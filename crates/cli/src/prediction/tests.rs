//! What people and programs read of predictions, and where their figures come from.

#![allow(clippy::unwrap_used)]

use super::*;
use catena_model::NodeName;
use catena_model::account::{ChainCounters, HopCounters, Volume};
use catena_model::id::{BlueprintNumber, ChainId, InstanceId, PathId};
use catena_model::resource::Encapsulation;
use catena_model::service_time::ServiceTime;
use catena_model::setup::Setup;
use catena_model::sojourn_time::SojournTime;
use catena_model::status::{
    ChainAtNode, ChainState, ChainStatus, PathHop, PathInstance, PathReport,
};
use clap::Parser;
use known::DEFAULTS;
use serde_json::{Value, json};

const WEB: ChainId = ChainId(uuid::Uuid::from_u128(1));

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn function(name: &str, kind: Option<&str>, nodes: &[&str]) -> KnownFunction {
    KnownFunction {
        name: name.into(),
        kind: kind.map(Into::into),
        instances: nodes.iter().map(|name| (Some(node(name)), 1)).collect(),
        is_tap: false,
        hop: None,
    }
}

/// What `catena plan` takes of these words.
fn arguments(words: &[&str]) -> Result<PredictArguments, String> {
    #[derive(Parser)]
    struct Line {
        #[arg(long)]
        undeploy: bool,
        #[arg(long)]
        place: bool,
        #[command(flatten)]
        predict: PredictArguments,
    }
    let line = Line::try_parse_from(["plan"].iter().chain(words)).map_err(|it| it.to_string())?;
    assert!(!line.undeploy && !line.place);
    Ok(line.predict)
}

fn expect(functions: &[KnownFunction], times: &Times, words: &[&str]) -> Expected {
    let arguments = arguments(words).unwrap();
    let rate = arguments.rate.map(|rate| arrivals(rate, RateSource::Given));
    expected("web".into(), load(functions, times, &[]), rate, &arguments).unwrap()
}

/// By hand: 148.2, 45.2 and 627.8 ns are 821.2 ns, so 1.2177 million packets a second at most; at 500,000 ρ = 0.4106.
/// The variance is that of exponential times, 21,963 + 2,043 + 394,133, so the second moment 1,092,508, and the mean
/// 821.2 + 0.0005 · 1,092,508 / (2 · 0.5894) = 1,284.6 ns.
#[test]
fn before_anybody_is_timed_defaults_are_used_and_called_so() {
    let chain = [
        function("edge", Some("firewall"), &["host2"]),
        function("flows", Some("monitor"), &["host2"]),
    ];
    let expected = expect(&chain, &Times::default(), &["--rate", "500000"]);
    let lines = lines(&expected);
    assert_eq!(lines[0], "expected of chain web at 500000 packets a second (given)");
    assert!(
        lines[1].starts_with("  delay      mean 1.285 µs (M/G/1, Pollaczek-Khinchine), p50 ")
            && lines[1].ends_with(" (of 200000 simulated packets)"),
        "{}",
        lines[1]
    );
    assert_eq!(
        lines[2..],
        [
            "  ceiling    at most 1217730 packets a second: host2 is busy then, 821.2 ns for each; of its \
             functions edge takes the most (148.2 ns)",
            "  processor  host2 0.4106 cores (821.2 ns a packet)",
            "  times      edge 148.2 ns (default), flows 45.2 ns (default), data plane 627.8 ns (default) a visit",
        ]
    );
    let told = expected.json();
    assert_eq!(told["times"][0]["time"]["source"], "default");
    assert_eq!((&told["rate"], &told["rate_source"]), (&json!(500_000.0), &json!("given")));
    assert!((told["mean_s"].as_f64().unwrap() - 1.2846e-6).abs() < 1e-9, "{told}");
    assert!(told["p50_s"].as_f64() < told["p99_s"].as_f64() && told["simulated"].is_null());
}

/// Every kind that data planes ask in place has a default, which is the figure of the benchmark, give or take what
/// its runs differ by.
#[test]
fn each_kind_inside_has_a_default_that_the_benchmark_tells() {
    let results = include_str!("../../../../bench/RESULTS.md");
    for kind in catena_nf::registry::KINDS {
        let (_, ns, figure) = DEFAULTS.iter().find(|(name, _, _)| *name == kind.name).unwrap();
        let row = results.lines().find(|line| line.starts_with(&format!("| {figure} ")));
        let ours = row.unwrap().split('|').nth(3).unwrap().trim().parse::<f64>().unwrap();
        // Of those that look into payloads, a packet of 1,500 bytes at the rate that is told.
        let expected = if figure.ends_with("gbit") { 1_500.0 * 8.0 / ours } else { ours };
        let off = (ns / expected - 1.0).abs();
        assert!(off < 0.2, "{}: {ns}, and {expected} is measured", kind.name);
    }
    assert_eq!(DEFAULTS.len(), catena_nf::registry::KINDS.len());
    let figure = |name: &str| -> f64 {
        let row = results.lines().find(|line| line.starts_with(&format!("| {name} "))).unwrap();
        row.split('|').nth(3).unwrap().trim().parse().unwrap()
    };
    let rest = figure("segment_pass_ns") - figure("firewall_states_ns") - figure("monitor_ns");
    assert!((steering().mean_s * 1e9 / rest - 1.0).abs() < 0.2, "{rest}");
}

#[test]
fn where_there_is_no_answer_the_ceiling_or_what_is_missing_is_told() {
    let edge = || function("edge", Some("firewall"), &["host2"]);
    let none = Times::default();
    let told = expect(&[edge()], &none, &["--rate", "2e6", "--simulate"]);
    let said = lines(&told);
    assert_eq!(
        said[1],
        "  delay      none: more come than can be served, and queues grow for ever"
    );
    assert!(
        said[2].starts_with("  ceiling    at most 1288660 packets a second: host2 is busy"),
        "{said:?}"
    );
    assert!(!said.iter().any(|line| line.contains("p99") || line.contains("simulated")));
    let json = told.json();
    assert_eq!((&json["mean_s"], &json["no_delay"]), (&Value::Null, &json!("unstable")));
    assert!(json["ceiling"]["per_second"].as_f64().unwrap() > 1e6);

    let said = lines(&expect(&[edge()], &none, &[]));
    assert_eq!(said[0], "expected of chain web");
    let hint = "  delay      none without a rate: say with --rate how many packets come a second";
    assert_eq!(said[1], hint);
    assert_eq!(said[3], "  processor  host2 776 ns a packet");

    let other = function("dpi", None, &[]);
    let said = lines(&expect(&[edge(), other.clone()], &none, &["--rate", "10"]));
    assert!(said[1].contains("nobody knows how long dpi takes"), "{said:?}");
    assert!(said[2].ends_with(", or what dpi carries, if that is less"), "{said:?}");
    assert!(said[4].contains("dpi not known"), "{said:?}");
    // Who gets copies elsewhere holds nobody up.
    let tap = KnownFunction { is_tap: true, ..other };
    let said = lines(&expect(&[edge(), tap], &none, &["--rate", "10"]));
    assert!(said[1].contains("mean 776"), "{said:?}");
}

#[test]
fn what_is_simulated_stands_beside_what_is_predicted_and_the_same_seed_is_the_same() {
    let chain = [function("edge", Some("firewall"), &["host1", "host2"])];
    let run = |seed: &str| {
        let words = ["--rate", "1e6", "--simulate", "--seed", seed];
        expect(&chain, &Times::default(), &words).json()
    };
    let told = run("3");
    let (met, predicted) = (&told["simulated"]["mean_s"], &told["mean_s"]);
    let off = met.as_f64().unwrap() / predicted.as_f64().unwrap() - 1.0;
    assert!(off.abs() < 0.02, "{told}");
    assert_eq!(told["simulated"]["seed"], 3);
    assert_eq!(told, run("3"));
    assert_ne!(told["simulated"], run("4")["simulated"]);
    // With weights that differ nothing is simulated, and that is said.
    let mut uneven = chain;
    uneven[0].instances[1].1 = 3;
    let words = ["--rate", "1e6", "--simulate"];
    let said = lines(&expect(&uneven, &Times::default(), &words));
    assert!(said[1].contains("are not known: instances get unequal shares"), "{said:?}");
    assert_eq!(said[2], "  simulated  not: instances get unequal shares of packets");
}

#[test]
fn rates_that_are_none_are_refused_by_the_command_line() {
    for words in [
        ["--rate", "0"].as_slice(),
        &["--rate=-5"],
        &["--rate", "NaN"],
        &["--rate", "inf"],
        &["--rate", "many"],
        &["--simulate"],
        &["--rate", "5", "--seed", "2"],
        &["--rate", "5", "--undeploy"],
        &["--rate", "5", "--place"],
    ] {
        assert!(arguments(words).is_err(), "{words:?}");
    }
    assert_eq!(arguments(&["--rate", "1e300"]).unwrap().rate, Some(1e300));
}

fn hop(name: &str, member: u8, packets: u64, ns: u64) -> HopCounters {
    let counts = [(ns / packets.max(1), packets)].into();
    HopCounters {
        hop: 0,
        member,
        instance: InstanceId(uuid::Uuid::nil()),
        name: name.into(),
        delivered: Volume::default(),
        returned: Volume::default(),
        rewritten: 0,
        ambiguous: 0,
        bypassed: Volume::default(),
        denied: 0,
        generated: 0,
        service_time: ServiceTime { packets, ns, counts },
        sojourn_time: SojournTime::default(),
    }
}

/// A chain through an instance `edge-1` of `edge`, after so many milliseconds and packets of 200 ns each.
fn report(ms: u64, packets: u64) -> ChainReport {
    let at = |name: &str, entered: u64, hops: Vec<HopCounters>| ChainAtNode {
        node: Some(node(name)),
        counting_ms: ms,
        counters: ChainCounters {
            chain: WEB,
            path: PathId(42),
            entered: Volume { packets: entered, bytes: 0 },
            finished: Volume::default(),
            tapped: Volume::default(),
            pinned_flows: 0,
            tunnelled_out: Volume::default(),
            tunnelled_in: Volume::default(),
            dropped: BTreeMap::new(),
            hops,
            is_partial: false,
        },
        lost_on_return: Vec::new(),
        lost_in_kernel: BTreeMap::new(),
    };
    let instance = PathInstance { name: "edge-1".into(), node: Some(node("host2")), weight: 1 };
    let hops = vec![PathHop {
        hop: 0,
        member: 0,
        function: "edge".into(),
        is_tap: false,
        instances: vec![instance],
    }];
    ChainReport {
        status: ChainStatus {
            chain: WEB,
            state: ChainState::Active,
            reason: String::new(),
            path: Some(PathId(42)),
        },
        name: "web".into(),
        functions: vec!["edge".into()],
        encapsulation: Encapsulation::Nsh,
        setup: Setup::default(),
        setups: None,
        telemetry: None,
        via: BTreeMap::new(),
        paths: vec![PathReport {
            path: PathId(42),
            chain: WEB,
            chain_name: "web".into(),
            direction: "forward".into(),
            encapsulation: Encapsulation::Nsh,
            phase: "classified".into(),
            since: BlueprintNumber(3),
            hops,
            routes: Vec::new(),
            headers: Vec::new(),
        }],
        nodes: vec![
            at("host1", packets, Vec::new()),
            at("host2", 0, vec![hop("edge-1", 0, packets, packets * 200)]),
        ],
        silent: Vec::new(),
        health: Vec::new(),
        receipt: None,
    }
}

fn firewall() -> FunctionReport {
    serde_json::from_value(json!({
        "id": uuid::Uuid::nil(),
        "name": "edge",
        "is_tap": false,
        "on_failure": "block",
        "instances": ["edge-1"],
        "template": {"runs": {"bundled": "firewall"}, "config": {}},
    }))
    .unwrap()
}

#[test]
fn threads_are_cores_of_their_own_where_a_host_tells_of_them() {
    let at = |name: &str, hop: u16| KnownFunction {
        hop: Some(hop),
        ..function(name, Some("ids"), &["h"])
    };
    let chain = [at("a", 0), at("b", 0), at("c", 0), at("d", 1)];
    let stages = vec![vec!["a".to_owned()], vec!["b".to_owned(), "c".to_owned()]];
    let threads = [HopThreads { hop: 0, stages, handoff_ns: 40_000, threads: 2 }];
    let told = load(&chain, &Times::default(), &threads);
    let threads_of = |stage: &Vec<FunctionLoad>| -> Vec<(String, Option<u16>)> {
        let one = |function: &FunctionLoad| {
            let thread = function.cores[0].thread;
            assert!(thread.is_none_or(|thread| (thread.handoff_s - 4e-5).abs() < 1e-12));
            (function.name.clone(), thread.map(|thread| thread.number))
        };
        stage.iter().map(one).collect()
    };
    let told: Vec<_> = told.stages.iter().map(threads_of).collect();
    let named = |name: &str, thread| (name.to_owned(), thread);
    let expected = [
        vec![named("a", Some(0))],
        vec![named("b", Some(1)), named("c", Some(0))],
        vec![named("d", None)],
    ];
    assert_eq!(told, expected);
    assert!(load(&chain, &Times::default(), &[]).stages.iter().all(|stage| stage.len() == 1));
}

/// By hand: 50,000 packets in half a second are 100,000 a second, and 200 ns each are 0.02 cores.
#[test]
fn what_is_measured_is_used_and_stands_beside_what_is_expected() {
    let (first, second) = (report(1_000, 10_000), report(1_500, 60_000));
    let seen = known::between(&first, &second);
    assert_eq!(seen.rate, Some(100_000.0));
    let busy = seen.busy["host2"];
    assert!(seen.busy.len() == 1 && (busy - 0.02).abs() < 1e-12, "{busy}");
    let mut times = Times::default();
    times.add(&second);
    let functions = known::of_report(&second, &[firewall()]);
    let at_hop = KnownFunction { hop: Some(0), ..function("edge", Some("firewall"), &["host2"]) };
    assert_eq!(functions, [at_hop]);
    let told = |seen: Seen| beside("web".into(), load(&functions, &times, &[]), seen).unwrap();
    let expected = told(seen);
    let said = lines(&expected);
    assert_eq!(said[0], "expected of chain web at 100000 packets a second (measured)");
    assert_eq!(said[3], "  processor  host2 0.08278 cores (827.8 ns a packet)");
    assert_eq!(
        said[4..],
        [
            "  times      edge 200 ns (measured, 60000 packets, scv 0.00), data plane 627.8 ns (default) a visit",
            "  measured   100000 packets a second, functions at host2 0.02 cores (0.02 expected); the delay is not \
             measured",
        ]
    );
    let told_so = &expected.json()["measured"];
    assert_eq!((&told_so["rate"], &told_so["delay"]), (&json!(100_000.0), &Value::Null));
    for key in ["measured", "expected"] {
        let cores = told_so["busy_cores_in_functions"]["host2"][key].as_f64().unwrap();
        assert!((cores - 0.02).abs() < 1e-12, "{told_so}");
    }
    // A data plane that began anew, and one that is there no longer, tell no rate.
    assert_eq!(known::between(&second, &first), Seen::default());
    let mut gone = report(1_500, 60_000);
    gone.nodes.pop();
    assert_eq!(known::between(&first, &gone), Seen::default());
    let said = lines(&told(known::between(&second, &report(2_000, 60_000))));
    assert_eq!(said[1], "  delay      none: no packet came while it was watched");
    let said = lines(&told(Seen::default()));
    assert!(said.last().unwrap().contains("no node told counters twice"), "{said:?}");
}

#[test]
fn functions_elsewhere_have_no_time_and_their_counters_are_nobodys() {
    let mut elsewhere = report(1_000, 0);
    let mut times = Times::default();
    times.add(&elsewhere);
    assert!(times.is_empty(), "no packet was timed");
    // Of a path that nodes know no longer it cannot be said whose instance was counted.
    elsewhere.nodes = report(1_000, 5).nodes;
    elsewhere.paths.clear();
    times.add(&elsewhere);
    assert!(times.is_empty() && known::of_report(&elsewhere, &[firewall()]).is_empty());
    let mut apart = firewall();
    apart.template.as_mut().unwrap().door = catena_model::instance::Door::Apart;
    assert_eq!((kind_inside(&firewall()), kind_inside(&apart)), (Some("firewall".into()), None));
}

#[test]
fn chains_on_the_same_node_are_told_to_be_predicted_alone() {
    let one =
        |host: &str| expect(&[function("edge", Some("firewall"), &[host])], &Times::default(), &[]);
    assert_eq!(shared(&[one("host1"), one("host2")]), None);
    assert_eq!(
        shared(&[one("host1"), one("host1")]).unwrap(),
        "several of these chains share host1: each is told as if it had the node alone"
    );
}
