//! Benchmarks of Catena beside its peers. `cargo xtask bench NAME [--quick]` starts it.
//!
//! Knows how both servers are started, measured in turns and compared. Refuses to know how either
//! works inside: it speaks HTTP and reads what the kernel says of processes.
#![forbid(unsafe_code)]

mod client;
mod error;
mod load;
mod openstack;
mod plot;
mod results;
mod servers;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
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
}

fn main() -> ExitCode {
    let Bench::Openstack(options) = Arguments::parse().bench;
    match openstack::run(&options, &folder()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where benchmarks and their results are.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
