//! Runs many seeds on all cores. What is asked for by the environment:
//!
//! - `CATENA_SIM_SEED`: this seed alone; `CATENA_SIM_SEEDS`: so many; `CATENA_FULL=1`: the long form
//! - `CATENA_SIM_TURNS`, `CATENA_SIM_FAULTS` (the fields of `Faults`, with commas): smaller runs
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use catena_sim::{Config, Failure, Faults, Report};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The configuration that the environment asks for.
pub fn config() -> Config {
    let mut config = Config::default();
    if let Some(turns) = variable("CATENA_SIM_TURNS") {
        config.turns = turns.parse().unwrap();
    }
    if let Some(names) = variable("CATENA_SIM_FAULTS") {
        config.faults = Faults::parse(&names).expect("a list of fault kinds");
    }
    config
}

/// The seeds that the environment asks for; else so many of the short or of the long form.
pub fn seeds(short: u64, long: u64) -> std::ops::Range<u64> {
    if let Some(seed) = variable("CATENA_SIM_SEED") {
        let seed: u64 = seed.parse().unwrap();
        return seed..seed + 1;
    }
    let is_full = variable("CATENA_FULL").is_some_and(|value| value == "1");
    let count = variable("CATENA_SIM_SEEDS").map(|count| count.parse().unwrap());
    0..count.unwrap_or(if is_full { long } else { short })
}

/// Runs all seeds; the reports in the order of seeds, or the failure of the lowest that failed.
pub fn run_all(seeds: std::ops::Range<u64>, config: Config) -> Result<Vec<Report>, Failure> {
    let next = AtomicU64::new(seeds.start);
    let outcomes = Mutex::new(Vec::new());
    let failed = AtomicU64::new(u64::MAX);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || seed > failed.load(Ordering::Relaxed) {
                return;
            }
            let outcome = catena_sim::run(seed, config);
            if outcome.is_err() {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
            outcomes.lock().unwrap().push((seed, outcome));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap();
    outcomes.sort_by_key(|(seed, _)| *seed);
    outcomes.into_iter().map(|(_, outcome)| outcome.map_err(|failure| *failure)).collect()
}
