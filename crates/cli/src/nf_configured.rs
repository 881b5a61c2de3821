//! `catena nf run` for functions that one file configures. Reads it; refuses to know what it says.

use crate::failure::Failure;
use crate::nf::{alone, check, run_function};
use crate::nf_account;
use catena_nf::Function;
use catena_nf::balancer::Balancer;
use catena_nf::marker::Marker;
use catena_nf::nat::{Nat, NatOptions};
use catena_nf::policer::Policer;
use catena_nf::router::Router;
use catena_nf::shaper::Shaper;
use catena_nf::work::Work;
use catena_rules::RuleError;
use catena_rules::qos::QosKind;
use catena_runner::{Account, Clock, Place, secret_seed};
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

    /// What a language makes of the file.
    fn configured<C>(
        &self,
        read: impl FnOnce(&str, &str) -> Result<C, RuleError>,
    ) -> Result<C, Failure> {
        check(&self.place)?;
        let (text, file) = self.read()?;
        read(&text, &file).map_err(|error| Failure::failed(error.to_string()))
    }

    /// Runs a function of it to its end.
    fn run(&self, function: Box<dyn Function>) -> Result<(), Failure> {
        let tell = |_: &(dyn Function + 'static), account: &Account| {
            nf_account::tell(account, &self.place, self.json);
        };
        run_function(function, alone(&self.place, Clock::start(), None), tell)
    }
}

/// Translates addresses.
pub(crate) fn nat(wanted: &ConfiguredArguments) -> Result<(), Failure> {
    let config = wanted.configured(catena_rules::nat::read)?;
    let options = NatOptions { seed: secret_seed()?, ..NatOptions::default() };
    let nat = Nat::new(&config, &options).map_err(|error| Failure::failed(error.to_string()))?;
    wanted.run(Box::new(nat))
}

/// Shares connections among servers.
pub(crate) fn balancer(wanted: &ConfiguredArguments) -> Result<(), Failure> {
    let config = wanted.configured(catena_rules::balancer::read)?;
    wanted.run(Box::new(Balancer::new(&config)))
}

/// Marks, polices or shapes classes of traffic.
pub(crate) fn classes(wanted: &ConfiguredArguments, kind: QosKind) -> Result<(), Failure> {
    let config = wanted.configured(|text, file| catena_rules::qos::read(text, file, kind))?;
    wanted.run(match kind {
        QosKind::Marker => Box::new(Marker::new(&config)),
        QosKind::Policer => Box::new(Policer::new(&config)),
        QosKind::Shaper => Box::new(Shaper::new(&config)),
    })
}

/// Routes.
pub(crate) fn router(wanted: &ConfiguredArguments) -> Result<(), Failure> {
    let config = wanted.configured(catena_rules::router::read)?;
    wanted.run(Box::new(Router::new(&config)))
}

/// Waits or computes.
pub(crate) fn work(wanted: &ConfiguredArguments) -> Result<(), Failure> {
    let config = wanted.configured(catena_rules::work::read)?;
    wanted.run(Box::new(Work::new(&config)))
}
