//! Whatever dies, breaks, fills up and comes late: the promises hold, seed by seed.
#![allow(clippy::unwrap_used)]

mod rig;

use catena_sim::{Config, Fabric, Tally};

/// Seeds of `./test` and of its long form.
const SEEDS: u64 = 200;
const SEEDS_FULL: u64 = 20_000;
/// The same with switches and cables.
const SEEDS_WITH_SWITCHES: u64 = 100;
const SEEDS_WITH_SWITCHES_FULL: u64 = 5_000;
/// The same with ways that end at edges.
const SEEDS_WITH_EDGES: u64 = 100;
const SEEDS_WITH_EDGES_FULL: u64 = 3_000;

#[test]
fn no_seed_breaks_a_promise() {
    run(rig::seeds(SEEDS, SEEDS_FULL), rig::config());
}

#[test]
fn no_seed_with_switches_breaks_a_promise() {
    run_over_cables(Fabric::Mesh, SEEDS_WITH_SWITCHES, SEEDS_WITH_SWITCHES_FULL);
}

#[test]
fn no_seed_with_edges_breaks_a_promise() {
    let (all, count) = run_over_cables(Fabric::Ring, SEEDS_WITH_EDGES, SEEDS_WITH_EDGES_FULL);
    if count > 1 {
        assert!(all.edge_headers > 5 * count && all.stitches > count / 10, "{all:?}");
    }
}

/// Runs them where there are cables that die: what happened, and in how many.
fn run_over_cables(fabric: Fabric, short: u64, long: u64) -> (Tally, u64) {
    let seeds = rig::seeds(short, long);
    let count = seeds.end - seeds.start;
    let all = run(seeds, Config { fabric, ..rig::config() });
    if count > 1 {
        assert!(all.dead_cables > count && all.routed_chains > count / 2, "{all:?}");
    }
    (all, count)
}

/// Runs all of them: what happened in each, added up.
fn run(seeds: std::ops::Range<u64>, config: Config) -> Tally {
    let is_one = seeds.end - seeds.start == 1;
    let reports = rig::run_all(seeds, config).unwrap_or_else(|failure| panic!("{failure}"));
    let mut all = Tally::default();
    let mut events = 0;
    for report in &reports {
        let tally = report.tally;
        events += report.events;
        all.acknowledged += tally.acknowledged;
        all.refusals += tally.refusals;
        all.blueprints += tally.blueprints;
        all.packets += tally.packets;
        all.finished += tally.finished;
        all.counted_drains += tally.counted_drains;
        all.bound_drains += tally.bound_drains;
        all.crashes += tally.crashes;
        all.partitions += tally.partitions;
        all.dead_cables += tally.dead_cables;
        all.routed_chains += tally.routed_chains;
        all.edge_headers += tally.edge_headers;
        all.stitches += tally.stitches;
        all.convergence_ms = all.convergence_ms.max(tally.convergence_ms);
    }
    println!("{} seeds, {events} events, {all:?}", reports.len());
    if is_one {
        return all;
    }
    // A run in which nothing happens proves nothing.
    let seeds = reports.len() as u64;
    assert!(events > 500 * seeds, "{events} events");
    assert!(all.acknowledged > 5 * seeds && all.blueprints > 10 * seeds, "{all:?}");
    assert!(all.finished > 50 * seeds && all.counted_drains > seeds, "{all:?}");
    all
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for seed in 0..10 {
        let fabrics = [Fabric::None, Fabric::Mesh, Fabric::Ring];
        let config = Config { fabric: fabrics[seed as usize % 3], ..rig::config() };
        let first = catena_sim::run(seed, config);
        let second = catena_sim::run(seed, config);
        assert_eq!(first, second, "seed {seed}");
        let other = catena_sim::run(seed + 1_000, config);
        assert_ne!(first.unwrap().digest, other.unwrap().digest);
    }
}
