//! The formulas against numbers of others, against each other, and against simulation.

#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../../conformance/plan/queueing.json")).unwrap()
}

fn cases(vectors: &Value, name: &str) -> Vec<Value> {
    let cases = vectors[name].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn number(case: &Value, key: &str) -> f64 {
    case[key].as_f64().unwrap_or_else(|| panic!("no {key} in {case}"))
}

fn servers(case: &Value) -> u32 {
    u32::try_from(case["c"].as_u64().unwrap()).unwrap()
}

#[track_caller]
fn close(told: f64, expected: f64, relative: f64, what: &str) {
    let off = (told - expected).abs() / expected.abs().max(1e-300);
    assert!(off <= relative, "{what}: {told}, and {expected} is expected");
}

fn exact(told: f64, expected: f64, what: &str) {
    close(told, expected, 1e-6, what);
}

fn queue(case: &Value) -> Mmc {
    Mmc::new(number(case, "lam"), number(case, "mu"), servers(case)).unwrap()
}

#[test]
fn a_queue_with_several_servers_is_that_of_the_vectors() {
    for case in cases(&vectors(), "mmc") {
        let queue = queue(&case);
        for (key, told) in [
            ("a", queue.offered_load()),
            ("rho", queue.utilization()),
            ("p_wait", queue.waiting_probability()),
            ("Lq", queue.mean_waiting()),
            ("L", queue.mean_number()),
            ("Wq", queue.mean_wait()),
            ("W", queue.mean_sojourn()),
            ("p0", queue.empty_probability()),
            ("Wq_p95", queue.wait_quantile(0.95).unwrap()),
            ("Wq_p99", queue.wait_quantile(0.99).unwrap()),
            ("W_p95", queue.sojourn_quantile(0.95).unwrap()),
            ("W_p99", queue.sojourn_quantile(0.99).unwrap()),
        ] {
            let expected = number(&case, key);
            let what = format!("{key} of {case}");
            if expected == 0.0 {
                assert_eq!(told, 0.0, "{what}");
            } else {
                exact(told, expected, &what);
            }
        }
    }
}

/// All that is told of a queue follows from how often it is in which state.
#[test]
fn means_are_sums_over_states_and_tails_those_of_the_means() {
    for (lambda, servers) in [(0.5, 1), (1.5, 2), (3.6, 4), (7.2, 8), (60.0, 64), (2_990.0, 3_000)]
    {
        let queue = Mmc::new(lambda, 1.0, servers).unwrap();
        let states = u64::from(servers) + 6_000;
        // A few of many: each asks for all.
        if servers > 100 {
            let sum: f64 =
                [0, 2_990, 3_000, 3_500].map(|state| queue.state_probability(state)).iter().sum();
            assert!(sum > 0.0 && sum < 1.0, "{sum}");
            continue;
        }
        let shares: Vec<f64> = (0..states).map(|state| queue.state_probability(state)).collect();
        exact(shares.iter().sum(), 1.0, "all states");
        let mean = |of: &dyn Fn(f64) -> f64| -> f64 {
            (0..).zip(&shares).map(|(state, share)| of(f64::from(state)) * share).sum()
        };
        let servers = f64::from(servers);
        exact(mean(&|state| state), queue.mean_number(), "L");
        exact(mean(&|state| (state - servers).max(0.0)), queue.mean_waiting(), "Lq");
        exact(
            mean(&|state| f64::from(u8::from(state >= servers))),
            queue.waiting_probability(),
            "C",
        );
        // The mean of a time is the integral of its tail.
        let (step, mut integral) = (queue.mean_sojourn() / 500.0, 0.0);
        for at in 0..50_000 {
            integral += step * queue.sojourn_tail((f64::from(at) + 0.5) * step);
        }
        close(integral, queue.mean_sojourn(), 1e-5, "W by its tail");
        for part in [0.1, 0.5, 0.999] {
            exact(1.0 - queue.sojourn_tail(queue.sojourn_quantile(part).unwrap()), part, "a share");
        }
    }
}

/// Where servers are nearly full, the stay is nearly the wait: exponential behind it.
#[test]
fn tails_hold_where_servers_are_nearly_full() {
    for (lambda, servers) in [(0.999, 1), (3.999, 4), (0.999_999, 1), (7.992, 8)] {
        let queue = Mmc::new(lambda, 1.0, servers).unwrap();
        for part in [0.95, 0.99] {
            let told = queue.sojourn_quantile(part).unwrap();
            let wait = queue.wait_quantile(part).unwrap();
            close(told, wait + 1.0, 2e-3, &format!("{part} of {lambda} at {servers}"));
        }
    }
    let one = Mmc::new(0.999, 1.0, 1).unwrap();
    exact(one.sojourn_quantile(0.95).unwrap(), 20.0_f64.ln() / 0.001, "one server is exponential");
    assert!(Mmc::new(0.3, 0.1, 3).is_err(), "full, but for the last bit");
}

#[test]
fn the_formula_that_the_paper_prints_is_none() {
    // With ρ = λ/μ in place of λ/(cμ), the share of time without packets is below zero, or divides by zero.
    for case in cases(&vectors(), "mmc") {
        let queue = queue(&case);
        let load = queue.offered_load();
        let offered = load * f64::from(queue.servers());
        let mut term = 1.0;
        let below: f64 = (0..queue.servers())
            .map(|number| {
                let now = term;
                term *= offered / f64::from(number + 1);
                now
            })
            .sum();
        let printed = 1.0 / (below + term / (1.0 - load));
        match case["paper_printed_p0_with_rho_eq_lambda_over_mu"].as_f64() {
            Some(expected) => exact(printed, expected, &case.to_string()),
            None => assert!(load == 1.0, "{case}"),
        }
    }
}

#[test]
fn services_that_vary_otherwise_wait_otherwise() {
    let vectors = vectors();
    for case in cases(&vectors, "mg1") {
        let scv = Scv::new(number(&case, "scv")).unwrap();
        let told = mg1_wait(number(&case, "lam"), number(&case, "mean_service"), scv).unwrap();
        exact(told, number(&case, "Wq"), &case.to_string());
    }
    for case in cases(&vectors, "mgc_allen_cunneen") {
        let [arrivals, services] = ["ca2", "cs2"].map(|key| Scv::new(number(&case, key)).unwrap());
        exact(mgc_wait(&queue(&case), arrivals, services), number(&case, "Wq"), &case.to_string());
    }
    for case in cases(&vectors, "rss_vs_shared") {
        let own = separate_wait(number(&case, "lam"), number(&case, "mu"), servers(&case)).unwrap();
        exact(own, number(&case, "Wq_rss_c_separate_queues"), &case.to_string());
        exact(own / queue(&case).mean_wait(), number(&case, "ratio"), &case.to_string());
    }
}

#[test]
fn who_goes_first_waits_less_and_all_together_as_long_as_before() {
    let lambdas = [0.5, 1.0, 1.5];
    let waits = priority_waits(&lambdas, 1.0, 4).unwrap();
    assert!(waits[0] < waits[1] && waits[1] < waits[2], "{waits:?}");
    let all = Mmc::new(3.0, 1.0, 4).unwrap();
    let mean: f64 = lambdas.iter().zip(&waits).map(|(lambda, wait)| lambda * wait / 3.0).sum();
    exact(mean, all.mean_wait(), "what is kept (Kleinrock 1965)");
    exact(priority_waits(&[3.0], 1.0, 4).unwrap()[0], all.mean_wait(), "one class");
}

#[test]
fn stages_one_behind_the_other_are_those_of_the_vectors() {
    for case in cases(&vectors(), "tandem") {
        let mus: Vec<(f64, u32)> =
            case["mus"].as_array().unwrap().iter().map(|mu| (mu.as_f64().unwrap(), 1)).collect();
        let tandem = Tandem::new(number(&case, "lam"), &mus).unwrap();
        exact(tandem.mean_sojourn(), number(&case, "W"), &case.to_string());
        for (key, part) in [("W_p95", 0.95), ("W_p99", 0.99)] {
            let told = tandem.sojourn_quantile(part).unwrap().unwrap();
            exact(told, number(&case, key), &format!("{key} of {case}"));
        }
    }
    // One stage is a queue, and rates a million apart are no trouble.
    let one = Tandem::new(0.5, &[(1.0, 1)]).unwrap().sojourn_quantile(0.99).unwrap().unwrap();
    exact(one, Mmc::new(0.5, 1.0, 1).unwrap().sojourn_quantile(0.99).unwrap(), "one stage");
    let far = Tandem::new(0.5, &[(1.0, 1), (1e6, 1)]).unwrap();
    close(far.sojourn_quantile(0.99).unwrap().unwrap(), one, 1e-5, "a stage that takes no time");
    let wide = Tandem::new(1.5, &[(1.0, 2), (2.0, 1)]).unwrap();
    exact(wide.mean_sojourn(), 16.0 / 7.0 + 2.0, "two servers in front");
    assert_eq!(wide.sojourn_quantile(0.99), Ok(None));
}

#[test]
fn members_side_by_side_are_those_of_the_vectors() {
    for case in cases(&vectors(), "fork_join") {
        let members = usize::try_from(case["K"].as_u64().unwrap()).unwrap();
        let mus = vec![number(&case, "mu"); members];
        let stage = ForkJoin::new(number(&case, "lam"), &mus).unwrap();
        for (key, told) in [
            ("nelson_tantawi", stage.nelson_tantawi().unwrap()),
            ("varma_makowski", stage.varma_makowski().unwrap()),
            ("independent_upper", stage.upper_bound()),
            ("service_only_lower", stage.services()),
            ("serial_tandem_mean", stage.serial()),
        ] {
            exact(told, number(&case, key), &format!("{key} of {case}"));
        }
        match case["exact_if_K2"].as_f64() {
            Some(expected) => exact(stage.exact().unwrap(), expected, &case.to_string()),
            None => assert_eq!(stage.exact(), None),
        }
        let simulated = number(&case, "simulated");
        assert!(stage.lower_bound() < simulated && simulated < stage.upper_bound(), "{case}");
    }
    // One member is a queue; of others than equal ones, bounds are known.
    assert_eq!(ForkJoin::new(0.5, &[1.0]).unwrap().exact(), Some(2.0));
    let unequal = ForkJoin::new(0.6, &[1.0, 1.5, 3.0]).unwrap();
    assert_eq!((unequal.exact(), unequal.nelson_tantawi()), (None, None));
    close(unequal.upper_bound(), 2.869, 5e-4, "the table of the spec");
    close(unequal.serial(), 4.028, 5e-4, "the table of the spec");
    exact(unequal.lower_bound(), 2.5, "the slowest");
}

fn run(lambda: f64, stages: &[&[Station]]) -> Simulated {
    let stages = stages.iter().map(|members| Stage { members: members.to_vec() }).collect();
    Simulation::new(lambda, stages).unwrap().run(1_500_000, 7)
}

fn member(mean: f64, scv: f64, servers: u32) -> Station {
    Station::new(mean, Scv::new(scv).unwrap(), servers).unwrap()
}

#[test]
fn what_is_simulated_is_within_two_percent_of_what_is_known() {
    for (lambda, servers) in [(0.5, 1), (0.8, 1), (1.5, 2), (3.6, 4)] {
        let (seen, queue) =
            (run(lambda, &[&[member(1.0, 1.0, servers)]]), Mmc::new(lambda, 1.0, servers).unwrap());
        let what = format!("{servers} servers at {lambda}");
        close(seen.mean_sojourn(), queue.mean_sojourn(), 0.02, &what);
        close(seen.mean_wait(), queue.mean_wait(), 0.03, &what);
        // Of the last hundredth, chance takes more.
        for (part, off) in [(0.5, 0.02), (0.95, 0.02), (0.99, 0.04)] {
            let told = queue.sojourn_quantile(part).unwrap();
            close(seen.sojourn_quantile(part).unwrap(), told, off, &what);
        }
    }
    for scv in [0.0, 0.3, 0.5, 0.7, 4.0] {
        let told = mg1_wait(0.8, 1.0, Scv::new(scv).unwrap()).unwrap();
        let wide = if scv > 1.0 { 0.04 } else { 0.02 };
        close(run(0.8, &[&[member(1.0, scv, 1)]]).mean_wait(), told, wide, &format!("scv {scv}"));
    }
    for case in cases(&vectors(), "tandem") {
        let mus = case["mus"].as_array().unwrap().iter().map(|mu| mu.as_f64().unwrap());
        let stages: Vec<[Station; 1]> = mus.map(|mu| [member(1.0 / mu, 1.0, 1)]).collect();
        let stages: Vec<&[Station]> = stages.iter().map(|stage| &stage[..]).collect();
        let seen = run(number(&case, "lam"), &stages);
        close(seen.mean_sojourn(), number(&case, "W"), 0.02, &case.to_string());
        close(
            seen.sojourn_quantile(0.95).unwrap(),
            number(&case, "W_p95"),
            0.02,
            &case.to_string(),
        );
    }
}

#[test]
fn what_is_simulated_side_by_side_is_what_others_have_simulated() {
    for case in cases(&vectors(), "fork_join") {
        let members = usize::try_from(case["K"].as_u64().unwrap()).unwrap();
        let stage = vec![member(1.0, 1.0, 1); members];
        let seen = run(number(&case, "lam"), &[&stage]);
        let what = case.to_string();
        close(seen.mean_sojourn(), number(&case, "simulated"), 0.02, &what);
        // Of tails, chance takes more from both runs.
        close(seen.sojourn_quantile(0.95).unwrap(), number(&case, "simulated_p95"), 0.04, &what);
    }
    for case in cases(&vectors(), "simulated") {
        let seen =
            run(number(&case, "lam"), &[&[member(1.0 / number(&case, "mu"), 1.0, servers(&case))]]);
        close(seen.mean_wait(), number(&case, "Wq_sim"), 0.03, &case.to_string());
        close(
            seen.sojourn_quantile(0.95).unwrap(),
            number(&case, "W_p95_sim"),
            0.02,
            &case.to_string(),
        );
    }
    let seen =
        run(0.6, &[&[member(1.0, 1.0, 1), member(1.0 / 1.5, 1.0, 1), member(1.0 / 3.0, 1.0, 1)]]);
    close(seen.mean_sojourn(), 2.821, 0.02, "the table of the spec");
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_another() {
    let simulation =
        Simulation::new(0.5, vec![Stage { members: vec![member(1.0, 2.0, 1)] }]).unwrap();
    assert_eq!(simulation.run(1_000, 1), simulation.run(1_000, 1));
    assert_ne!(simulation.run(1_000, 1), simulation.run(1_000, 2));
    let nothing = simulation.run(0, 1);
    assert_eq!((nothing.mean_sojourn(), nothing.sojourn_quantile(0.5)), (0.0, Ok(0.0)));
}

#[test]
fn what_has_no_answer_is_refused_with_what_to_do() {
    let told = |error: QueueError| error.to_string();
    let unstable = told(Mmc::new(2.0, 1.0, 2).unwrap_err());
    assert!(unstable.contains("serve at most 2") && unstable.contains("add servers"), "{unstable}");
    for (lambda, mu, servers) in
        [(0.0, 1.0, 1), (-1.0, 1.0, 1), (f64::NAN, 1.0, 1), (1.0, f64::INFINITY, 1), (1.0, 0.0, 1)]
    {
        let error = told(Mmc::new(lambda, mu, servers).unwrap_err());
        assert!(error.contains("not above zero"), "{error}");
    }
    assert!(told(Mmc::new(1.0, 2.0, 0).unwrap_err()).contains("there are 0"));
    let queue = Mmc::new(0.5, 1.0, 1).unwrap();
    for part in [0.0, 1.0, -0.5, 2.0, f64::NAN] {
        assert!(told(queue.sojourn_quantile(part).unwrap_err()).contains("between zero and one"));
        assert!(queue.wait_quantile(part).is_err());
    }
    assert!(Scv::new(-1.0).is_err() && Tandem::new(0.5, &[]).is_err());
    assert!(Tandem::new(0.5, &[(1.0, 1), (0.4, 1)]).is_err());
    assert!(ForkJoin::new(0.5, &[]).is_err() && ForkJoin::new(0.5, &[1.0; 21]).is_err());
    assert!(priority_waits(&[0.5, -1.0], 1.0, 1).is_err());
    let stage = |mean| vec![Stage { members: vec![member(mean, 1.0, 1)] }];
    assert!(Simulation::new(0.5, stage(2.0)).is_err() && Simulation::new(0.5, Vec::new()).is_err());
    assert!(Simulation::new(0.5, stage(0.0)).is_ok(), "what takes no time is always ready");
}
