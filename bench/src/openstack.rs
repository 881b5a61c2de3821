//! The networking-sfc API: ours beside the real neutron, in turns and on one machine. Without nodes:
//! the peer has none either, so both only keep, check and answer.

use crate::error::BenchError;
use crate::load::{ChainCost, Cost, Site, crowd};
use crate::machine::calibrate;
use crate::plot::{Axis, Line, Plot};
use crate::publish::{Run, publish};
use crate::results::{Better, Figure, Goal, Notes, median, quantile};
use crate::servers::Server;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// How much is measured.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Less of everything: three minutes at most.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Ours alone: the peer cannot be had on this machine.
    #[arg(long)]
    no_peer: bool,
}

/// Functions of the chain that costs per function are taken from.
const TYPICAL_FUNCTIONS: usize = 10;
/// Functions over which ours is measured, at least.
const FUNCTIONS_MIN: usize = 1_000;
/// Calls that a step's median is taken from, where there is already much.
const GROWTH_CALLS: usize = 200;
const GROWN: usize = 10_000;
/// Chains that four nodes carry meanwhile, where a figure says so.
const CARRIED: usize = 1_000;
/// Functions of each chain that is measured, and what its figures are called.
const CHAINS: [(usize, &str, &str); 11] = [
    (1, "chain_1_ms", "chain_1_cpu_ms"),
    (2, "chain_2_ms", "chain_2_cpu_ms"),
    (3, "chain_3_ms", "chain_3_cpu_ms"),
    (4, "chain_4_ms", "chain_4_cpu_ms"),
    (5, "chain_5_ms", "chain_5_cpu_ms"),
    (6, "chain_6_ms", "chain_6_cpu_ms"),
    (7, "chain_7_ms", "chain_7_cpu_ms"),
    (8, "chain_8_ms", "chain_8_cpu_ms"),
    (9, "chain_9_ms", "chain_9_cpu_ms"),
    (10, "chain_10_ms", "chain_10_cpu_ms"),
    (50, "chain_50_ms", "chain_50_cpu_ms"),
];
const CROWDS: [(usize, &str, &str); 3] = [
    (1, "read_p50_us_1_client", "read_p99_us_1_client"),
    (8, "read_p50_us_8_clients", "read_p99_us_8_clients"),
    (64, "read_p50_us_64_clients", "read_p99_us_64_clients"),
];

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    let lower = |name, unit, goal| Figure::new(name, unit, Better::Lower, goal);
    let higher = |name, unit, goal| Figure::new(name, unit, Better::Higher, goal);
    let mut all = vec![
        lower("copy_1500_ns", "ns", Goal::None),
        lower("cpu_per_added_function", "µs", Goal::Ratio(100.0)),
        lower("wall_per_added_function", "µs", Goal::None),
        lower("cpu_per_added_function_4_nodes", "µs", Goal::Ratio(100.0)),
        lower("wall_per_added_function_4_nodes", "µs", Goal::None),
        lower("cpu_per_added_function_4_nodes_1000", "µs", Goal::None),
        lower("wall_per_added_function_4_nodes_1000", "µs", Goal::None),
        lower("cpu_tenth_of_chain_10", "µs", Goal::None),
        lower("wall_tenth_of_chain_10", "µs", Goal::None),
        lower("cpu_tenth_of_chain_10_4_nodes", "µs", Goal::None),
        lower("wall_tenth_of_chain_10_4_nodes", "µs", Goal::None),
        lower("cpu_tenth_of_chain_10_4_nodes_1000", "µs", Goal::None),
        lower("wall_tenth_of_chain_10_4_nodes_1000", "µs", Goal::None),
        lower("post_flow_classifier", "µs", Goal::None),
        lower("post_port_pair", "µs", Goal::None),
        lower("post_port_pair_group", "µs", Goal::None),
        lower("post_port_chain", "µs", Goal::None),
        lower("delete_per_function", "µs", Goal::None),
    ];
    for (_, wall, cpu) in CHAINS {
        all.extend([lower(wall, "ms", Goal::None), lower(cpu, "ms", Goal::None)]);
    }
    for (_, p50, p99) in CROWDS {
        all.extend([lower(p50, "µs", Goal::None), lower(p99, "µs", Goal::None)]);
    }
    all.extend([
        lower("growth_10000_classifiers", "times", Goal::Value(1.5)),
        lower("growth_10000_classifiers_cpu", "times", Goal::Value(1.5)),
        lower("growth_chains", "times", Goal::Value(1.5)),
        higher("reads_per_second_one_core", "1/s", Goal::Value(20_000.0)),
        higher("reads_per_cpu_second", "1/s", Goal::None),
        higher("durable_writes_per_second_one_core", "1/s", Goal::Value(2_000.0)),
        higher("durable_writes_per_cpu_second", "1/s", Goal::None),
    ]);
    all
}

#[allow(clippy::cast_precision_loss)]
fn take_chain(notes: &mut Notes, is_ours: bool, functions: usize, cost: &ChainCost) {
    let each = functions as f64;
    if let Some((_, wall, cpu)) = CHAINS.iter().find(|(count, ..)| *count == functions) {
        notes.take(wall, is_ours, cost.whole.wall_us() / 1e3);
        notes.take(cpu, is_ours, cost.whole.cpu_us() / 1e3);
    }
    notes.take("post_flow_classifier", is_ours, cost.classifier.wall_us());
    cost.pairs.iter().for_each(|c| notes.take("post_port_pair", is_ours, c.wall_us()));
    cost.groups.iter().for_each(|c| notes.take("post_port_pair_group", is_ours, c.wall_us()));
    notes.take("post_port_chain", is_ours, cost.chain.wall_us());
    notes.take("delete_per_function", is_ours, cost.delete.wall_us() / each);
    if functions == TYPICAL_FUNCTIONS {
        notes.take("cpu_tenth_of_chain_10", is_ours, cost.whole.cpu_us() / each);
        notes.take("wall_tenth_of_chain_10", is_ours, cost.whole.wall_us() / each);
    }
}

/// What each function behind the first adds: what a long chain costs more than one of a single
/// function, made just before it.
#[allow(clippy::cast_precision_loss)]
fn take_added(notes: &mut Notes, names: [&str; 2], is_ours: bool, single: Cost, long: Cost) {
    let added = (TYPICAL_FUNCTIONS - 1) as f64;
    let [cpu, wall] = names;
    notes.take(cpu, is_ours, (long.cpu_us() - single.cpu_us()) / added);
    notes.take(wall, is_ours, (long.wall_us() - single.wall_us()) / added);
}

/// A chain of one function, and a typical one.
fn take_pair(notes: &mut Notes, is_ours: bool, site: &mut Site) -> Result<(), BenchError> {
    let (single, long) = (site.chain_of(1)?, site.chain_of(TYPICAL_FUNCTIONS)?);
    let names = ["cpu_per_added_function", "wall_per_added_function"];
    take_added(notes, names, is_ours, single.whole, long.whole);
    take_chain(notes, is_ours, 1, &single);
    take_chain(notes, is_ours, TYPICAL_FUNCTIONS, &long);
    Ok(())
}

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    let root = folder.parent().unwrap_or(folder);
    let work = std::env::temp_dir().join(format!("catena-bench-{}", std::process::id()));
    let outcome = measure(options, root, &work);
    let _ = std::fs::remove_dir_all(&work);
    publish(outcome?, folder)
}

fn measure(options: &Options, root: &Path, work: &Path) -> Result<Run, BenchError> {
    let mut notes = Notes::default();
    calibrate(&mut notes);
    let mut ours = Site::new(Server::ours(root, &work.join("ours"), None)?)?;
    let mut peer = match options.no_peer {
        true => None,
        false => Some(Site::new(Server::peer(root, &work.join("peer"))?)?),
    };
    chains(options, &mut notes, &mut ours, peer.as_mut())?;
    crowds(options, &mut notes, &mut ours, peer.as_mut())?;
    drop(peer);
    eprintln!("bench: four nodes");
    four_nodes(&mut notes, "4_nodes", Site::in_lab(Server::lab(root, "openstack-testbed.yaml")?)?)?;
    let mut site = Site::in_lab(Server::lab(root, "bench-growth.yaml")?)?;
    site.fill(CARRIED, TYPICAL_FUNCTIONS)?;
    four_nodes(&mut notes, "4_nodes_1000", site)?;
    eprintln!("bench: growth");
    growth(options, &mut notes, &mut ours)?;
    drop(ours);
    eprintln!("bench: one core");
    one_core(options, &mut notes, root, work)?;
    let text = |key: &str, value: String| (key.to_owned(), value);
    let plots = vec![picture(&notes)];
    Ok(Run {
        name: "openstack",
        about: "No node is connected to either server, and no chain stands beside the one that is \
                made, but for the figures with four nodes: there ours has the four hosts of \
                `labs/openstack-testbed.yaml`, or those of `labs/bench-growth.yaml` with a thousand chains \
                of ten of its functions each in force (1000), and the peer has no node and no \
                other chain. What an added function costs is what a chain of ten costs more than one of a \
                single function made just before it, by nine."
            .into(),
        versions: [
            text("ours", env!("CARGO_PKG_VERSION").into()),
            text("peer", "neutron 29.0.0, networking-sfc 23.0.0".into()),
        ]
        .into(),
        options: [
            text("quick", options.quick.to_string()),
            text("nodes", "0; four where a figure says so".into()),
        ]
        .into(),
        notes,
        plots,
    })
}

/// Chains of each length, in turns; then as many typical ones as the cost per function needs.
fn chains(
    options: &Options,
    notes: &mut Notes,
    ours: &mut Site,
    mut peer: Option<&mut Site>,
) -> Result<(), BenchError> {
    let lengths: &[usize] =
        if options.quick { &[1, 2, 5, 10] } else { &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 50] };
    for functions in lengths {
        eprintln!("bench: chains of {functions}");
        take_chain(notes, true, *functions, &ours.chain_of(*functions)?);
        if let Some(peer) = peer.as_deref_mut() {
            take_chain(notes, false, *functions, &peer.chain_of(*functions)?);
        }
    }
    let turns = FUNCTIONS_MIN.div_ceil(TYPICAL_FUNCTIONS);
    let peer_every = if options.quick { turns / 2 } else { 1 };
    for turn in 0..turns {
        take_pair(notes, true, ours)?;
        if let Some(peer) = peer.as_deref_mut().filter(|_| turn % peer_every == 0) {
            take_pair(notes, false, peer)?;
        }
    }
    Ok(())
}

/// The same chains where four data planes must have each before it is answered. The peer programs
/// nothing, so it is compared as it is: with no node, and no other chain.
#[allow(clippy::cast_precision_loss)]
fn four_nodes(notes: &mut Notes, suffix: &str, mut site: Site) -> Result<(), BenchError> {
    let each = TYPICAL_FUNCTIONS as f64;
    let names = [
        "cpu_per_added_function",
        "wall_per_added_function",
        "cpu_tenth_of_chain_10",
        "wall_tenth_of_chain_10",
    ];
    let suffixed = names.map(|name| format!("{name}_{suffix}"));
    let [added_cpu, added_wall, tenth_cpu, tenth_wall] = suffixed.each_ref().map(String::as_str);
    for _ in 0..FUNCTIONS_MIN.div_ceil(TYPICAL_FUNCTIONS) {
        let (single, long) = (site.chain_of(1)?.whole, site.chain_of(TYPICAL_FUNCTIONS)?.whole);
        take_added(notes, [added_cpu, added_wall], true, single, long);
        notes.take(tenth_cpu, true, long.cpu_us() / each);
        notes.take(tenth_wall, true, long.wall_us() / each);
    }
    for (name, suffixed) in names.into_iter().zip(&suffixed) {
        notes.take_peer_of(name, suffixed);
    }
    Ok(())
}

/// Reads by one, eight and sixty-four clients, in turns.
fn crowds(
    options: &Options,
    notes: &mut Notes,
    ours: &mut Site,
    mut peer: Option<&mut Site>,
) -> Result<(), BenchError> {
    let duration = Duration::from_secs(if options.quick { 2 } else { 10 });
    for (clients, p50, p99) in CROWDS {
        eprintln!("bench: {clients} clients");
        for (is_ours, site) in [(true, Some(&mut *ours)), (false, peer.as_deref_mut())] {
            let Some(site) = site else { continue };
            let path = format!("/v2.0/ports/{}", site.port()?);
            let seen = crowd(&site.server.address, clients, duration, |client, _, _| {
                client.expect("GET", &path, None).map(drop)
            })?;
            for (figure, share) in [(p50, 0.5), (p99, 0.99)] {
                if let Some(latency) = quantile(&seen.latencies_us, share) {
                    notes.take(figure, is_ours, latency);
                }
            }
        }
    }
    Ok(())
}

/// The same calls where nothing is and where very much is.
fn growth(options: &Options, notes: &mut Notes, ours: &mut Site) -> Result<(), BenchError> {
    let classify = |site: &mut Site| -> Result<Vec<Cost>, BenchError> {
        let call = |_| Ok(site.measure(Site::classifier)?.1);
        (0..GROWTH_CALLS).map(call).collect()
    };
    let few = classify(ours)?;
    for _ in 0..GROWN {
        ours.classifier()?;
    }
    let many = classify(ours)?;
    for (few, many) in few.iter().zip(&many) {
        notes.take("growth_10000_classifiers", true, many.wall_us() / few.wall_us());
    }
    // One call's processor time is too short for the clock; that of all is not.
    let cpu = |costs: &[Cost]| costs.iter().map(|cost| cost.cpu_us()).sum::<f64>();
    notes.take("growth_10000_classifiers_cpu", true, cpu(&many) / cpu(&few));
    let few = chain_calls(ours)?;
    let chains = if options.quick { 1_000 } else { GROWN };
    for _ in 0..chains {
        make_chain(ours)?;
    }
    let many = chain_calls(ours)?;
    for (few, many) in few.iter().zip(&many) {
        notes.take("growth_chains", true, many / few);
    }
    Ok(())
}

fn make_chain(site: &mut Site) -> Result<f64, BenchError> {
    let port = site.port()?;
    let pair = site.pair(&port)?;
    let group = site.group(&pair)?;
    let rule = site.classifier()?;
    let began = Instant::now();
    site.chain(&[group], &[rule])?;
    Ok(began.elapsed().as_secs_f64())
}

fn chain_calls(site: &mut Site) -> Result<Vec<f64>, BenchError> {
    (0..GROWTH_CALLS / 2).map(|_| make_chain(site)).collect()
}

/// Reads and durable writes of sixty-four clients where the server has one core, and the clients
/// another if there is one.
#[allow(clippy::cast_precision_loss)]
fn one_core(
    options: &Options,
    notes: &mut Notes,
    root: &Path,
    work: &Path,
) -> Result<(), BenchError> {
    let duration = Duration::from_secs(if options.quick { 3 } else { 10 });
    let mut site = Site::new(Server::ours(root, &work.join("pinned"), Some(0))?)?;
    let port = format!("/v2.0/ports/{}", site.port()?);
    for _ in 0..3 {
        let before = site.server.cpu_ns();
        let reads = crowd(&site.server.address, 64, duration, |client, _, _| {
            client.call("GET", &port, None).map(drop)
        })?;
        let cpu = site.server.cpu_ns().saturating_sub(before) as f64 / 1e9;
        notes.take("reads_per_second_one_core", true, reads.per_second);
        notes.take("reads_per_cpu_second", true, reads.latencies_us.len() as f64 / cpu);
        let before = site.server.cpu_ns();
        let writes = crowd(&site.server.address, 64, duration, |client, number, round| {
            let group = json!({"port_pair_group": {"name": format!("{number}-{round}")}});
            client.expect("POST", "/v2.0/sfc/port_pair_groups", Some(&group)).map(drop)
        })?;
        let cpu = site.server.cpu_ns().saturating_sub(before) as f64 / 1e9;
        notes.take("durable_writes_per_second_one_core", true, writes.per_second);
        notes.take("durable_writes_per_cpu_second", true, writes.latencies_us.len() as f64 / cpu);
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn picture(notes: &Notes) -> Plot {
    let line = |name: &str, is_ours: bool| {
        let point = |(functions, _, cpu): (usize, &str, &str)| {
            let samples = notes.samples(cpu)?;
            let cost = median(if is_ours { &samples.ours } else { &samples.peer })?;
            Some((functions as f64, cost))
        };
        Line { name: name.into(), points: CHAINS.into_iter().filter_map(point).collect() }
    };
    Plot {
        stem: "openstack".into(),
        title: "Server processor time of one chain".into(),
        x: Axis::linear("functions"),
        y: Axis::logarithmic("milliseconds (logarithmic)"),
        lines: vec![line("Catena", true), line("neutron with networking-sfc", false)],
    }
}
