//! Benchmarks of Catena beside its peers. `cargo xtask bench NAME [--quick]` starts it.
//!
//! Knows how both servers are started, measured in turns and compared. Refuses to know how either
//! works inside: it speaks HTTP and reads what the kernel says of processes.
#![forbid(unsafe_code)]

mod chain_tcp;
mod classifier;
mod client;
mod engine;
mod error;
mod fabric;
mod functions;
mod growth;
mod instructions;
mod load;
mod machine;
mod openstack;
mod parallel;
mod peers;
mod plot;
mod publish;
mod results;
mod servers;
mod slices;
mod source_route;
mod srv6;
mod workers;

use clap::{Parser, Subcommand};
use error::BenchError;
use results::Figure;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Benchmarks of Catena beside its peers")]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// The networking-sfc API beside the real neutron with networking-sfc.
    Openstack(openstack::Options),
    /// A packet in the engine, in memory.
    Engine(engine::Options),
    /// Users of 5G tenants in the engine, in memory.
    Slices(slices::Options),
    /// The rule of a packet, among one and among a hundred thousand.
    Classifier(classifier::Options),
    /// Bundled functions, in memory.
    Functions(functions::Options),
    /// Functions side by side, in memory.
    Parallel(parallel::Options),
    /// A switch that reads ways in frames, beside one that looks them up, in memory.
    SourceRoute(source_route::Options),
    /// Headers over segments of IPv6 with telemetry, in memory, and their bytes beside others.
    Srv6(srv6::Options),
    /// Packets per second by one worker and by two, over memory.
    Workers(workers::Options),
    /// TCP through chains, beside raw redirection, kernel routing and Open vSwitch.
    ChainTcp(chain_tcp::Options),
    /// One more chain, one changed and one removed, among none to ten thousand, on four nodes.
    Growth(growth::Options),
    /// One end of a counted stream (started by `growth`).
    #[command(hide = true)]
    SendStream { address: String, port: u16 },
    /// The other end of a counted stream.
    #[command(hide = true)]
    TakeStream { port: u16 },
    /// One end of round trips (started by `chain-tcp`).
    #[command(hide = true)]
    Echo { port: u16 },
    /// The other end of round trips.
    #[command(hide = true)]
    RoundTrips { address: String, port: u16, count: usize },
    /// Clients that ask for pages (started by `functions`).
    #[command(hide = true)]
    Pages { address: String, port: u16, seconds: u64 },
    /// Make RESULTS.md of the results that are there.
    Summary,
    /// What Open vSwitch and testpmd cost here just now, without ours beside them.
    Peers(peers::Options),
}

impl Bench {
    /// Does it measure everything, for the tables of results?
    fn is_for_the_record(&self) -> bool {
        match self {
            Self::Openstack(options) => !options.quick,
            Self::Engine(options) => !options.quick,
            Self::Slices(options) => !options.quick,
            Self::Classifier(options) => !options.quick,
            Self::Functions(options) => !options.is_trial(),
            Self::Parallel(options) => !options.is_trial(),
            Self::SourceRoute(options) => !options.quick,
            Self::Srv6(options) => !options.quick,
            Self::Workers(options) => !options.quick,
            Self::ChainTcp(options) => !options.quick,
            Self::Growth(options) => !options.quick,
            Self::Echo { .. }
            | Self::RoundTrips { .. }
            | Self::SendStream { .. }
            | Self::TakeStream { .. }
            | Self::Pages { .. }
            | Self::Summary
            | Self::Peers(_) => false,
        }
    }
}

/// A benchmark's figures.
type Figures = fn() -> Vec<Figure>;

/// Every benchmark and its figures; its results are in `results/NAME.json`.
const BENCHES: [(&str, Figures); 12] = [
    ("chain-tcp", chain_tcp::figures),
    ("classifier", classifier::figures),
    ("engine", engine::figures),
    ("functions", functions::figures),
    ("growth", growth::figures),
    ("growth-one-port", growth::figures),
    ("openstack", openstack::figures),
    ("parallel", parallel::figures),
    ("slices", slices::figures),
    ("source-route", source_route::figures),
    ("srv6", srv6::figures),
    ("workers", workers::figures),
];

fn main() -> ExitCode {
    match measure(&Arguments::parse().bench, &folder()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(bench: &Bench, folder: &Path) -> Result<(), BenchError> {
    if bench.is_for_the_record() {
        publish::require_commit(folder)?;
    }
    match bench {
        Bench::Openstack(options) => openstack::run(options, folder),
        Bench::Peers(options) => peers::run(options),
        Bench::Classifier(options) => classifier::run(options, folder),
        Bench::Functions(options) => functions::run(options, folder),
        Bench::Parallel(options) => parallel::run(options, folder),
        Bench::Engine(options) => engine::run(options, folder),
        Bench::Slices(options) => slices::run(options, folder),
        Bench::SourceRoute(options) => source_route::run(options, folder),
        Bench::Srv6(options) => srv6::run(options, folder),
        Bench::Workers(options) => workers::run(options, folder),
        Bench::ChainTcp(options) => chain_tcp::run(options, folder),
        Bench::Growth(options) => growth::run(options, folder),
        Bench::SendStream { address, port } => {
            growth::send(address, *port).map_err(BenchError::from)
        }
        Bench::TakeStream { port } => growth::take(*port).map_err(BenchError::from),
        Bench::Echo { port } => chain_tcp::echo(*port).map_err(BenchError::from),
        Bench::RoundTrips { address, port, count } => {
            chain_tcp::make_round_trips(address, *port, *count).map_err(BenchError::from)
        }
        Bench::Pages { address, port, seconds } => {
            functions::ask_for_pages(address, *port, *seconds).map_err(BenchError::from)
        }
        Bench::Summary => publish::summarise(folder),
    }
}

/// Where benchmarks and their results are.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
