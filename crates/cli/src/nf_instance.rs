//! `catena nf instance`: a bundled function as agents run it, in a process of its own. Reads what it is made of as
//! programs and agents know it; refuses to know what functions there are.

use crate::failure::Failure;
use crate::nf::{check, run_function};
use crate::nf_account;
use crate::output::progress;
use catena_model::bundle::Configuration;
use catena_nf::Function;
use catena_nf::registry::{self, Bundled, Surroundings};
use catena_runner::{Account, Clock, Outlet, Place, Setting, Walls, secret_seed};
use clap::Args;
use std::fs::OpenOptions;
use std::path::PathBuf;

/// What an instance is made of.
#[derive(Args)]
pub(crate) struct InstanceArguments {
    /// Its kind and its configuration, as JSON.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// A pipe for its alerts, a line of EVE's JSON each.
    #[arg(long, value_name = "PIPE")]
    eve: PathBuf,
    #[command(flatten)]
    place: Place,
}

/// Runs it to its end.
pub(crate) fn run(wanted: &InstanceArguments) -> Result<(), Failure> {
    check(&wanted.place)?;
    let file = wanted.config.display();
    let text = std::fs::read(&wanted.config).map_err(|error| {
        Failure::failed(format!("the configuration {file} cannot be read: {error}"))
    })?;
    let configuration: Configuration = serde_json::from_slice(&text)
        .map_err(|error| Failure::failed(format!("the configuration {file} is none: {error}")))?;
    let clock = Clock::start();
    let surroundings = Surroundings { seed: secret_seed()?, epoch_seconds: clock.epoch_seconds() };
    let made = registry::make_apart(&configuration, &surroundings);
    let Bundled { function, remarks, .. } =
        made.map_err(|error| Failure::failed(error.to_string()))?;
    remarks.iter().for_each(|remark| progress(format_args!("{remark}")));
    // Its own other end as well: that nobody reads for a while is no reason to end.
    let pipe = OpenOptions::new().read(true).write(true).open(&wanted.eve).map_err(|error| {
        Failure::failed(format!("alerts cannot be written to {}: {error}", wanted.eve.display()))
    })?;
    let outlet = Some(Outlet::Lines(Box::new(pipe)));
    let tell = |_: &(dyn Function + 'static), account: &Account| {
        nf_account::tell(account, &wanted.place, true);
    };
    let setting = Setting { place: &wanted.place, walls: Walls::Everything, clock, outlet };
    run_function(function, setting, tell)
}
