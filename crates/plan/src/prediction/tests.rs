//! Predictions against numbers calculated by hand, the vectors of others, simulation, and what must hold of all.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use serde_json::Value;

/// Enough for what is not about quantiles.
const FEW: usize = 10_000;

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn service(mean_s: f64, scv: f64) -> ServiceEstimate {
    ServiceEstimate { mean_s, scv: Scv::new(scv).unwrap(), source: EstimateSource::Default }
}

/// A function with an instance on each of these nodes, which get equal shares.
fn function(name: &str, mean_s: f64, scv: f64, nodes: &[&str]) -> FunctionLoad {
    let cores =
        nodes.iter().map(|name| CoreShare { node: Some(node(name)), thread: None, share: 1.0 });
    FunctionLoad { name: name.into(), service: Some(service(mean_s, scv)), cores: cores.collect() }
}

fn given(per_second: f64) -> Option<ArrivalRate> {
    Some(ArrivalRate { per_second, source: RateSource::Given })
}

fn in_order(functions: &[FunctionLoad]) -> ChainLoad {
    ChainLoad::in_order(functions.to_vec(), None)
}

fn mean(prediction: &Prediction) -> f64 {
    match prediction.delay {
        Delay::Known { mean_s, .. } => mean_s,
        ref other => panic!("no delay: {other:?}"),
    }
}

fn shares(prediction: &Prediction) -> (Shares, bool) {
    match &prediction.delay {
        Delay::Known { quantiles: Quantiles::Exact(shares), .. } => (*shares, true),
        Delay::Known { quantiles: Quantiles::Simulated { shares, .. }, .. } => (*shares, false),
        other => panic!("no quantiles: {other:?}"),
    }
}

#[track_caller]
fn close(told: f64, expected: f64, relative: f64) {
    assert!((told - expected).abs() <= relative * expected.abs(), "{told}, expected {expected}");
}

/// By hand: functions of 400 ns and 600 ns on one core are 1 µs together, so a million packets a second at most. At
/// half of that ρ = 0.5, and constant services wait ρ S / (2 (1 - ρ)) = 0.5 µs: 1.5 µs in the mean.
#[test]
fn functions_that_share_a_core_are_one_queue_whose_time_is_their_sum() {
    let chain =
        in_order(&[function("edge", 4e-7, 0.0, &["h1"]), function("ids", 6e-7, 0.0, &["h1"])]);
    let told = predict(&chain, given(5e5), FEW).unwrap();
    close(mean(&told), 1.5e-6, 1e-12);
    let ceiling = told.ceiling.unwrap();
    close(ceiling.per_second, 1e6, 1e-12);
    assert_eq!((ceiling.function.as_str(), ceiling.node), ("ids", Some(node("h1"))));
    close(ceiling.seconds, 1e-6, 1e-12);
    close(ceiling.function_s, 6e-7, 1e-12);
    assert_eq!(told.nodes.len(), 1);
    close(told.nodes[0].busy_cores.unwrap(), 0.5, 1e-12);
    // Exponential times of their own sum to one that varies less: the variance is 0.16 + 0.36, beside a square of 1.
    let chain =
        in_order(&[function("edge", 4e-7, 1.0, &["h1"]), function("ids", 6e-7, 1.0, &["h1"])]);
    close(mean(&predict(&chain, given(5e5), FEW).unwrap()), 1e-6 + 5e-7 * (1.0 + 0.52), 1e-12);
    // With 1 µs more for the data plane the core is full.
    let chain = ChainLoad { steering: Some(service(1e-6, 0.0)), ..chain };
    let told = predict(&chain, given(5e5), FEW).unwrap();
    assert_eq!(told.delay, Delay::Unstable);
    close(told.ceiling.unwrap().per_second, 5e5, 1e-12);
}

/// The vectors of functions one behind the other, each on a core of its own, with all services exponential.
#[test]
fn cores_one_behind_the_other_have_the_numbers_of_the_vectors() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../../../conformance/plan/queueing.json")).unwrap();
    let cases = vectors["tandem"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let mus = case["mus"].as_array().unwrap();
        let functions: Vec<FunctionLoad> = mus
            .iter()
            .enumerate()
            .map(|(at, mu)| function("f", 1.0 / mu.as_f64().unwrap(), 1.0, &[&format!("h{at}")]))
            .collect();
        let told = predict(&in_order(&functions), given(case["lam"].as_f64().unwrap()), 0).unwrap();
        let (shares, is_exact) = shares(&told);
        assert!(is_exact, "{case}");
        for (key, found) in [("W", mean(&told)), ("W_p95", shares.p95_s), ("W_p99", shares.p99_s)] {
            close(found, case[key].as_f64().unwrap(), 1e-6);
        }
    }
}

#[test]
fn functions_side_by_side_have_the_numbers_of_the_vectors() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../../../conformance/plan/queueing.json")).unwrap();
    let cases = vectors["fork_join"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let (members, mu) = (case["K"].as_u64().unwrap(), case["mu"].as_f64().unwrap());
        let member = |at| function("f", 1.0 / mu, 1.0, &[&format!("h{at}")]);
        let chain = ChainLoad { stages: vec![(0..members).map(member).collect()], steering: None };
        let told = predict(&chain, given(case["lam"].as_f64().unwrap()), FEW).unwrap();
        let key = if members == 2 { "exact_if_K2" } else { "varma_makowski" };
        close(mean(&told), case[key].as_f64().unwrap(), 1e-6);
        assert!(!shares(&told).1, "no formula gives their quantiles");
    }
    // On one core nobody works side by side: 1 µs and 1 µs are 2 µs, and constant.
    let stage = vec![function("a", 1e-6, 0.0, &["h"]), function("b", 1e-6, 0.0, &["h"])];
    let chain = ChainLoad { stages: vec![stage], steering: None };
    close(mean(&predict(&chain, given(2.5e5), FEW).unwrap()), 3e-6, 1e-12);
}

/// By hand: threads that take a second each, exponentially, at half a packet a second. One behind the other: two times
/// 1 / (1 - 0.5) = 2 s. Side by side: (12 - 0.5) / 8 · 2 s = 2.875 s. Each that is asked takes 0.1 s more, once for
/// those side by side, and the worker takes 0.01 s of its own at nobody's thread.
#[test]
fn functions_that_threads_ask_are_queues_of_their_own() {
    let on_thread = |number: u16| {
        let thread = Some(FunctionThread { number, handoff_s: 0.1 });
        let core = CoreShare { node: Some(node("h")), thread, share: 1.0 };
        FunctionLoad { cores: vec![core], ..function("f", 1.0, 1.0, &[]) }
    };
    let (pipeline, fork) =
        (vec![vec![on_thread(0)], vec![on_thread(1)]], vec![vec![on_thread(0), on_thread(1)]]);
    for (stages, expected) in [(pipeline, 4.2), (fork, 2.975)] {
        let chain = ChainLoad { stages, steering: Some(service(0.01, 0.0)) };
        let told = predict(&chain, given(0.5), FEW).unwrap();
        close(mean(&told), expected, 1e-9);
        // One node with both cores, of which each carries a packet a second.
        let [node] = told.nodes.as_slice() else { panic!("{:?}", told.nodes) };
        close(node.busy_cores.unwrap(), 1.0, 1e-9);
        let ceiling = told.ceiling.unwrap();
        close(ceiling.per_second, 1.0, 1e-9);
        assert!(ceiling.thread.is_some());
    }
    // Exactly: what half of all stay behind one another is 1.678 · 2 s (Erlang's second), and the two hops.
    let chain = ChainLoad { stages: vec![vec![on_thread(0)], vec![on_thread(1)]], steering: None };
    let (told, is_exact) = shares(&predict(&chain, given(0.5), FEW).unwrap());
    assert!(is_exact);
    close(told.p50_s, 1.678_347 * 2.0 + 0.2, 1e-6);
}

/// By hand: two instances that share 1.5 packets a second get 0.75 each, M/M/1 at μ = 1 stays 1 / 0.25 = 4 s, and half
/// of all packets stay ln 2 · 4 s at most.
#[test]
fn instances_share_packets_out_and_each_is_a_queue_of_its_own() {
    let chain = in_order(&[function("f", 1.0, 1.0, &["h1", "h2"])]);
    let told = predict(&chain, given(1.5), 0).unwrap();
    close(mean(&told), 4.0, 1e-12);
    close(told.ceiling.as_ref().unwrap().per_second, 2.0, 1e-12);
    let (closed, is_exact) = shares(&told);
    assert!(is_exact);
    close(closed.p50_s, 4.0 * 2.0_f64.ln(), 1e-9);
    let (seen, simulated) = simulate(&chain, 1.5, 400_000, 7).unwrap().unwrap();
    close(seen, 4.0, 0.03);
    close(simulated.p99_s, closed.p99_s, 0.06);
    // Three of four packets to one of them: it is full at 4/3, and its share of the wait counts three times as much.
    let mut uneven = chain;
    uneven.stages[0][0].cores[1].share = 3.0;
    let told = predict(&uneven, given(1.0), 0).unwrap();
    close(told.ceiling.as_ref().unwrap().per_second, 4.0 / 3.0, 1e-12);
    close(mean(&told), 0.25 / 0.75 + 0.75 / 0.25, 1e-12);
    let Delay::Known { quantiles, .. } = told.delay else { panic!("{told:?}") };
    assert_eq!(quantiles, Quantiles::Unknown(NoQuantiles::Uneven));
    assert_eq!(simulate(&uneven, 1.0, FEW, 1).unwrap(), Err(NoQuantiles::Uneven));
}

/// By hand: a core that every packet comes to twice for 1 µs, with another between, is as full as with 2 µs: at 250,000
/// packets a second ρ = 0.5, a visit waits 0.25 · 2 · 1 / (2 · 0.5) = 0.5 µs, and so does the next.
#[test]
fn a_core_that_packets_come_back_to_is_one_queue() {
    let between = function("b", 1e-9, 0.0, &["h2"]);
    let ends = [function("a", 1e-6, 0.0, &["h1"]), between, function("c", 1e-6, 0.0, &["h1"])];
    let told = predict(&in_order(&ends), given(2.5e5), FEW).unwrap();
    close(told.ceiling.as_ref().unwrap().per_second, 5e5, 1e-12);
    close(mean(&told), 3e-6 + 1e-9, 1e-6);
    let Delay::Known { quantiles, .. } = told.delay else { panic!("{told:?}") };
    assert_eq!(quantiles, Quantiles::Unknown(NoQuantiles::Revisited));
}

#[test]
fn simulation_is_beside_what_is_predicted_of_services_of_all_kinds() {
    for scv in [0.0, 0.2, 1.0, 4.0] {
        let chain = ChainLoad::in_order(
            vec![function("a", 3e-7, scv, &["h1"]), function("b", 5e-7, scv, &["h2", "h3"])],
            Some(service(2e-7, 0.5)),
        );
        let told = predict(&chain, given(1.2e6), 400_000).unwrap();
        let (seen, simulated) = simulate(&chain, 1.2e6, 400_000, 9).unwrap().unwrap();
        // What leaves the first core is no Poisson process where services vary otherwise than exponential ones.
        close(seen, mean(&told), 0.12);
        let (shares, is_exact) = shares(&told);
        assert!(!is_exact);
        for (one, other) in [
            (shares.p50_s, simulated.p50_s),
            (shares.p95_s, simulated.p95_s),
            (shares.p99_s, simulated.p99_s),
        ] {
            close(one, other, 0.06);
        }
        assert!(shares.p50_s < shares.p95_s && shares.p95_s < shares.p99_s, "{shares:?}");
    }
    // One queue: the mean is exact.
    let chain = in_order(&[function("a", 1e-6, 4.0, &["h1"])]);
    let told = mean(&predict(&chain, given(6e5), FEW).unwrap());
    close(simulate(&chain, 6e5, 1_000_000, 3).unwrap().unwrap().0, told, 0.03);
}

#[test]
fn what_nobody_knows_is_not_told() {
    let mut chain =
        in_order(&[function("a", 1e-6, 1.0, &["h1"]), function("b", 1.0, 1.0, &["h2"])]);
    chain.stages[1][0].service = None;
    let told = predict(&chain, given(10.0), FEW).unwrap();
    assert_eq!((told.untimed.as_slice(), &told.delay), (&["b".to_owned()][..], &Delay::Untimed));
    close(told.ceiling.unwrap().per_second, 1e6, 1e-12);
    assert_eq!(simulate(&chain, 10.0, FEW, 1).unwrap(), Err(NoQuantiles::Untimed));
    chain.stages.remove(0);
    let told = predict(&chain, given(10.0), FEW).unwrap();
    assert_eq!((told.ceiling, told.nodes), (None, Vec::new()));
    // Without a rate there is what a packet takes, and nothing that depends on how many there are.
    let chain = in_order(&[function("a", 1e-6, 1.0, &["h1"])]);
    let told = predict(&chain, None, FEW).unwrap();
    assert_eq!((told.delay, told.nodes[0].busy_cores), (Delay::NoRate, None));
    close(told.nodes[0].seconds_per_packet, 1e-6, 1e-12);
}

#[test]
fn what_is_no_number_is_refused_and_more_than_can_be_carried_has_a_ceiling() {
    let chain = in_order(&[function("a", 1e-6, 1.0, &["h1"])]);
    for rate in [0.0, -0.0, -5.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let refused = predict(&chain, given(rate), FEW).unwrap_err().to_string();
        assert!(refused.contains("the arrival rate is"), "{rate}: {refused}");
    }
    for rate in [1e6, 1e6 - 1e-7, 1e300, f64::MAX] {
        let told = predict(&chain, given(rate), FEW).unwrap();
        assert_eq!(told.delay, Delay::Unstable, "{rate}");
        assert_eq!(told.nodes[0].busy_cores, None, "{rate}");
        close(told.ceiling.unwrap().per_second, 1e6, 1e-12);
        assert!(simulate(&chain, rate, FEW, 1).is_err(), "{rate}");
    }
    assert!(matches!(predict(&in_order(&[]), None, FEW), Err(QueueError::Count { count: 0, .. })));
    let many = vec![function("a", 1e-6, 1.0, &["h1"]); STAGES_MAX + 1];
    assert!(matches!(predict(&in_order(&many), None, FEW), Err(QueueError::Count { .. })));
    let empty = ChainLoad { stages: vec![Vec::new()], steering: None };
    assert!(matches!(predict(&empty, None, FEW), Err(QueueError::Count { .. })));
    let nowhere = in_order(&[function("a", 1e-6, 1.0, &[])]);
    assert!(matches!(predict(&nowhere, None, FEW), Err(QueueError::NotANumber { .. })));
    for mean in [0.0, -1e-6, f64::NAN, f64::INFINITY, 1e-310, 1e200, f64::MAX] {
        let chain = in_order(&vec![function("a", mean, 1.0, &["h1"]); 2]);
        let told = predict(&chain, given(1e-250), FEW);
        assert!(told.is_err() || mean == 1e200 && mean_is_whole(&told), "{mean}: {told:?}");
    }
}

/// Is there a finite delay, or none?
fn mean_is_whole(told: &Result<Prediction, QueueError>) -> bool {
    told.as_ref().is_ok_and(|told| match told.delay {
        Delay::Known { mean_s, .. } => mean_s.is_finite(),
        _ => true,
    })
}

/// By hand: 90 packets of at most 100 ns and 10 of at most 1,000 ns have the mean 190 and the mean square 109,000:
/// 109,000 / 36,100 - 1 = 2.0194.
#[test]
fn times_that_were_measured_have_the_mean_and_the_variance_of_their_classes() {
    let counts = [(100, 90), (1_000, 10)].into();
    let time = ServiceTime { packets: 100, ns: 18_000, counts };
    let known = ServiceEstimate::measured(&time).unwrap();
    close(known.mean_s, 1.8e-7, 1e-12);
    close(known.scv.value(), 2.019_390_581_717_452, 1e-12);
    assert_eq!(known.source, EstimateSource::Measured { packets: 100 });
    // Numbers of whoever.
    for (packets, ns, counts) in [
        (0, 0, vec![]),
        (5, 0, vec![(0, 5)]),
        (5, 50, vec![]),
        (0, 50, vec![(10, 5)]),
        (5, 50, vec![(0, 5)]),
    ] {
        let time = ServiceTime { packets, ns, counts: counts.into_iter().collect() };
        assert_eq!(ServiceEstimate::measured(&time), None, "{time:?}");
    }
    let most = [(u64::MAX, u64::MAX), (1, u64::MAX)].into();
    let known = ServiceEstimate::measured(&ServiceTime { packets: 1, ns: u64::MAX, counts: most });
    close(known.unwrap().scv.value(), 1.0, 1e-9);
}

prop_compose! {
    fn some_chain()(
        functions in prop::collection::vec(
            (1e-9_f64..1e-5, 0.0_f64..5.0, prop::collection::vec((0_u8..4, 1_u8..5), 1..4)), 1..6),
        steering in prop::option::of((1e-9_f64..1e-6, 0.0_f64..2.0)),
    ) -> ChainLoad {
        let functions = functions.into_iter().enumerate().map(|(at, (mean_s, scv, cores))| {
            let core = |(host, share): (u8, u8)| CoreShare {
                node: (host > 0).then(|| node(&format!("h{host}"))),
                thread: None,
                share: f64::from(share),
            };
            let cores = cores.into_iter().map(core).collect();
            let service = Some(service(mean_s, scv));
            FunctionLoad { name: format!("f{at}"), service, cores }
        });
        ChainLoad::in_order(functions.collect(), steering.map(|(mean, scv)| service(mean, scv)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// More packets stay longer, the ceiling is where a core has no pause left, and what all cores work is what packets
    /// bring.
    #[test]
    fn more_packets_stay_longer_up_to_the_ceiling(chain in some_chain(), load in 0.05_f64..0.9) {
        let ceiling = predict(&chain, None, FEW).unwrap().ceiling.unwrap().per_second;
        let at = |load: f64| predict(&chain, given(load * ceiling), FEW).unwrap();
        let (less, more) = (at(load), at(load * 1.1));
        prop_assert!(mean(&less) < mean(&more));
        prop_assert_eq!(at(1.0).delay, Delay::Unstable);
        prop_assert!(mean(&at(1.0 - 1e-9)) > mean(&more));
        let busiest = |told: &Prediction| {
            let busy = told.nodes.iter().filter_map(|node| node.busy_cores);
            busy.fold(0.0, f64::max)
        };
        prop_assert!((busiest(&less) - load).abs() < 1e-9);
        prop_assert!((busiest(&at(1.0 - 1e-10)) - 1.0).abs() < 1e-9);
        // A packet brings each function once, and the data plane once for each visit, of which there are no more than
        // functions.
        let functions = || chain.stages.iter().flatten();
        let brought: f64 = functions().map(|one| one.service.unwrap().mean_s).sum();
        let steering = chain.steering.map_or(0.0, |steering| steering.mean_s);
        let worked: f64 = less.nodes.iter().map(|node| node.busy_cores.unwrap()).sum();
        let rate = load * ceiling;
        prop_assert!(worked >= rate * (brought + steering) * (1.0 - 1e-9));
        prop_assert!(worked <= rate * (brought + functions().count() as f64 * steering) * (1.0 + 1e-9));
        if chain.steering.is_none() {
            prop_assert!((worked - rate * brought).abs() <= 1e-9 * worked);
        }
    }
}
