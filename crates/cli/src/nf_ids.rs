//! `catena nf run ids` and `ips`: what they are made of, and where their alerts go. Refuses to know what rules mean.

use crate::failure::Failure;
use crate::nf::{UnsupportedChoice, alone, check, run_function};
use crate::nf_account;
use crate::output::{json_escaped, progress};
use catena_nf::ids::{Ids, IdsConfig};
use catena_rules::{ReadOptions, snort};
use catena_runner::{Account, Clock, Outlet, Place, secret_seed};
use clap::Args;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Stdout, Write};
use std::path::{Path, PathBuf};

/// What an ids is made of.
#[derive(Args)]
pub(crate) struct IdsArguments {
    /// Its rules, in the language of Snort and Suricata.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Alerts are appended here, a line of EVE's JSON each, in place of the standard output.
    #[arg(long, value_name = "FILE")]
    eve: Option<PathBuf>,
    /// A variable that rules name, in place of what the file says of it; may be given several times.
    #[arg(long = "variable", value_name = "NAME=VALUE", value_parser = named_value)]
    variables: Vec<(String, String)>,
    /// What becomes of rules that are not supported: the file is refused, or they are left out and listed.
    #[arg(long, value_enum, default_value = "refuse")]
    unsupported: UnsupportedChoice,
    /// Packets with less time to live do not reach the hosts behind, and are not looked at.
    #[arg(long, value_name = "HOPS", default_value_t = IdsConfig::default().ttl_min)]
    ttl_min: u8,
    #[command(flatten)]
    place: Place,
    /// Tell the account as one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn named_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .ok_or_else(|| format!("'{text}' defines nothing; write HOME_NET=10.0.0.0/8"))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs an ids, or an ips, to its end.
pub(crate) fn run(wanted: &IdsArguments, is_preventing: bool) -> Result<(), Failure> {
    check(&wanted.place)?;
    let clock = Clock::start();
    let ids = wanted.read(is_preventing, clock)?;
    let outlet = Outlet::Lines(match &wanted.eve {
        Some(file) => opened(file)?,
        None => Box::new(Shown(std::io::stdout())),
    });
    let tell = |_: &Ids, account: &Account| {
        nf_account::tell(account, &wanted.place, wanted.json);
    };
    run_function(Box::new(ids), alone(&wanted.place, clock, Some(outlet)), tell)
}

impl IdsArguments {
    fn read(&self, is_preventing: bool, clock: Clock) -> Result<Ids, Failure> {
        let file = self.config.display().to_string();
        let text = std::fs::read_to_string(&self.config).map_err(|error| {
            Failure::failed(format!(
                "the rules {file} cannot be read: {error}; name a file of rules of Snort or Suricata"
            ))
        })?;
        let options = ReadOptions {
            file: file.clone(),
            unsupported: self.unsupported.into(),
            ..ReadOptions::default()
        };
        let variables: BTreeMap<_, _> = self.variables.iter().cloned().collect();
        let rules = snort::read(&text, &variables, &options)
            .map_err(|error| Failure::failed(error.to_string()))?;
        for one in &rules.skipped {
            progress(format_args!("{file} line {}: left out, as {}", one.line, one.what));
        }
        let config = IdsConfig {
            is_preventing,
            ttl_min: self.ttl_min,
            epoch_seconds: clock.epoch_seconds(),
            seed: secret_seed()?,
            ..IdsConfig::default()
        };
        Ids::new(rules, config).map_err(|error| Failure::failed(format!("{file}: {error}")))
    }
}

/// The standard output, which may be a screen: strangers' letters that cannot be seen are spelled out.
struct Shown(Stdout);

impl Write for Shown {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let told = json_escaped(&String::from_utf8_lossy(line));
        self.0.write_all(told.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn opened(file: &Path) -> Result<Box<dyn Write + Send>, Failure> {
    let opened = OpenOptions::new().create(true).append(true).open(file).map_err(|error| {
        let file = file.display();
        Failure::failed(format!(
            "alerts cannot be written to {file}: {error}; name a file in a folder that you may write to"
        ))
    })?;
    Ok(Box::new(opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_a_name_and_a_value() {
        assert_eq!(named_value("HOME_NET=[10.0.0.0/8,!10.1.0.0/16]").unwrap().0, "HOME_NET");
        for wrong in ["HOME_NET", "=10.0.0.0/8", "HOME_NET="] {
            let said = named_value(wrong).unwrap_err();
            assert!(said.contains(wrong) && said.contains("HOME_NET=10.0.0.0/8"), "{said}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_with_what_to_do() {
        let said = opened(Path::new("/proc/none/eve.json")).err().unwrap().message;
        assert!(said.contains("/proc/none/eve.json") && said.contains("folder"), "{said}");
    }
}
