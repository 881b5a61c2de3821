//! `catena nf run` for functions that one file configures. Reads it; refuses to know what it says.

use crate::failure::Failure;
use crate::nf::{Place, run_function, secret_seed};
use crate::nf_account;
use catena_nf::Function;
use catena_nf::balancer::Balancer;
use catena_nf::nat::{Nat, NatOptions};
use catena_runner::{Account, Clock};
use clap::Args;
use std::path::PathBuf;

/// What such a function is made of.
#[derive(Args)]
pub(crate) struct ConfiguredArguments {
    /// Its configuration, in YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Tell the account as one line of JSON.
    #[arg(long)]
    json: bool,
}

impl ConfiguredArguments {
    /// What the file says, and its name for messages.
    fn read(&self) -> Result<(String, String), Failure> {
        let file = self.config.display().to_string();
        let text = std::fs::read_to_string(&self.config).map_err(|error| {
            Failure::failed(format!(
                "the configuration {file} cannot be read: {error}; name a file as the book's page of the function shows it"
            ))
        })?;
        Ok((text, file))
    }

    /// Runs a function of it to its end.
    fn run(&self, function: Box<dyn Function>) -> Result<(), Failure> {
        let tell = |_: &(dyn Function + 'static), account: &Account| {
            nf_account::tell(account, &self.place, self.json);
        };
        let mut bump = run_function(function, Clock::start(), None, &self.place, tell)?;
        let account = bump.account();
        tell(bump.function(), &account);
        Ok(())
    }
}

/// Translates addresses.
pub(crate) fn nat(wanted: &ConfiguredArguments) -> Result<(), Failure> {
    wanted.place.check()?;
    let (text, file) = wanted.read()?;
    let config = catena_rules::nat::read(&text, &file);
    let config = config.map_err(|error| Failure::failed(error.to_string()))?;
    let options = NatOptions { seed: secret_seed()?, ..NatOptions::default() };
    let nat = Nat::new(&config, &options).map_err(|error| Failure::failed(error.to_string()))?;
    wanted.run(Box::new(nat))
}

/// Shares connections among servers.
pub(crate) fn balancer(wanted: &ConfiguredArguments) -> Result<(), Failure> {
    wanted.place.check()?;
    let (text, file) = wanted.read()?;
    let config = catena_rules::balancer::read(&text, &file);
    let config = config.map_err(|error| Failure::failed(error.to_string()))?;
    wanted.run(Box::new(Balancer::new(&config)))
}
