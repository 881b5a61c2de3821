//! The functions that come with Catena, each by its name: how one is made of its configuration.
//!
//! Knows which kinds there are and the form of their configurations. Refuses to know what a kind does.

mod balancer;
mod firewall;
mod ids;
mod monitor;
mod nat;
mod qos;
#[cfg(test)]
mod tests;

use crate::Function;
use catena_model::bundle::Configuration;
use catena_model::resource::{TupleMapping, TuplePattern};
use catena_rules::{ReadRules, Unsupported};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// A function that was made of its configuration.
pub struct Bundled {
    /// It.
    pub function: Box<dyn Function>,
    /// What its writer should know of the configuration: rules that were left out, as was asked for, and what has no
    /// effect; each with file and line.
    pub remarks: Vec<String>,
    /// Where its messages for collectors go, HOST:PORT by UDP; none: nobody wants them.
    pub collector: Option<String>,
}

impl Bundled {
    /// One of whose configuration there is nothing to say.
    fn of(function: impl Function + 'static) -> Self {
        Self { function: Box::new(function), remarks: Vec::new(), collector: None }
    }
}

/// The same, or why there is none.
pub type Made = Result<Bundled, ConfigError>;

/// A kind of function.
pub struct BundledKind {
    /// What configurations and people call it.
    pub name: &'static str,
    make: fn(&str, &Surroundings) -> Made,
}

/// All kinds.
pub const KINDS: &[BundledKind] = &[
    BundledKind { name: "balancer", make: balancer::make },
    BundledKind { name: "firewall", make: firewall::make },
    BundledKind { name: "ids", make: ids::make_ids },
    BundledKind { name: "ips", make: ids::make_ips },
    BundledKind { name: "marker", make: qos::marker },
    BundledKind { name: "monitor", make: monitor::make },
    BundledKind { name: "nat", make: nat::make },
    BundledKind { name: "policer", make: qos::policer },
];

/// What to do with a function that no data plane takes.
const ELSEWHERE: &str = "give it a process of its own, by 'door: apart' with hosts in 'on'";

/// Kinds in which packets wait: in chains they stand in processes of their own.
const APART: &[BundledKind] = &[
    BundledKind { name: "shaper", make: qos::shaper },
    BundledKind { name: "work", make: qos::work },
];

/// Those of them that may stand in data planes, too, where their configuration lets no packet wait.
const APART_OR_INSIDE: &[BundledKind] = &[BundledKind { name: "work", make: qos::work_inside }];

/// Kinds that run between two interfaces, and in no chain yet.
const ALONE: [&str; 1] = ["router"];

type Translate = fn(&str) -> Result<Translations, ConfigError>;

/// The kinds that translate addresses, with who reads that of their configurations.
const TRANSLATORS: &[(&str, Translate)] =
    &[("nat", nat::translations), ("balancer", balancer::translations)];

type ReadConfig = fn(&str) -> Result<ReadRules, ConfigError>;

/// The kinds whose rules an analysis knows, with who reads them.
const RULED: &[(&str, ReadConfig)] =
    &[("firewall", firewall::rules), ("ids", ids::rules), ("ips", ids::rules), ("nat", nat::rules)];

/// What a function makes of addresses, as its configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translations {
    /// How packets leave it, on the way forward.
    pub mappings: Vec<TupleMapping>,
    /// The addresses of its own in the network by which packets come to it.
    pub at_ingress: Vec<IpAddr>,
    /// The same in that by which they go.
    pub at_egress: Vec<IpAddr>,
    /// What it asks others by TCP of its own accord, on the way forward.
    pub inquiries: Vec<TuplePattern>,
}

/// What is known where a function runs, beside its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// A number by which flows are filed, which no sender can guess.
    pub seed: u64,
    /// When its time starts, in seconds since 1970.
    pub epoch_seconds: u64,
}

/// Why no function can be made of a configuration, for whoever wrote it: what, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// What a function of this configuration makes of addresses: nothing, for most kinds.
///
/// # Errors
/// When its configuration is wrong.
pub fn translations(configuration: &Configuration) -> Result<Translations, ConfigError> {
    let translate = TRANSLATORS.iter().find(|(kind, _)| *kind == configuration.kind);
    translate.map_or_else(|| Ok(Translations::default()), |(_, read)| read(&configuration.config))
}

/// The rules of a function of this configuration, as it runs them.
///
/// # Errors
/// When its configuration is wrong.
pub fn rules(configuration: &Configuration) -> Result<ReadRules, ConfigError> {
    let read = RULED.iter().find(|(kind, _)| *kind == configuration.kind);
    read.map_or_else(|| Ok(ReadRules::Opaque), |(_, read)| read(&configuration.config))
}

/// The kinds that there are, for messages.
#[must_use]
pub fn names() -> String {
    let names: Vec<&str> = KINDS.iter().chain(APART).map(|kind| kind.name).collect();
    names.join(", ")
}

/// A function as its configuration says, for a data plane.
///
/// # Errors
/// When there is no such kind, it cannot run there, or its configuration is wrong.
pub fn make(configuration: &Configuration, surroundings: &Surroundings) -> Made {
    let wanted = configuration.kind.as_str();
    let is_among = |kinds: &[BundledKind]| kinds.iter().any(|kind| kind.name == wanted);
    if is_among(APART) && !is_among(APART_OR_INSIDE) {
        return Err(waits(wanted));
    }
    make_of(KINDS.iter().chain(APART_OR_INSIDE), configuration, surroundings)
}

/// Of a function in which packets would wait.
fn waits(kind: &str) -> ConfigError {
    ConfigError(format!("packets wait in a {kind}, which no data plane lets them: {ELSEWHERE}"))
}

/// The same, for a process of its own.
///
/// # Errors
/// When there is no such kind, or its configuration is wrong.
pub fn make_apart(configuration: &Configuration, surroundings: &Surroundings) -> Made {
    make_of(KINDS.iter().chain(APART), configuration, surroundings)
}

fn make_of<'k>(
    mut kinds: impl Iterator<Item = &'k BundledKind>,
    configuration: &Configuration,
    surroundings: &Surroundings,
) -> Made {
    let wanted = configuration.kind.as_str();
    let kind = kinds.find(|kind| kind.name == wanted).ok_or_else(|| {
        if ALONE.contains(&wanted) {
            return ConfigError(format!(
                "a {wanted} stands in no chain yet: run `catena nf run {wanted}` between two interfaces"
            ));
        }
        ConfigError(format!("there is no bundled function '{wanted}'; there are {}", names()))
    })?;
    (kind.make)(&configuration.config, surroundings).map_err(|ConfigError(what)| {
        ConfigError(format!("the {}'s configuration: {what}", kind.name))
    })
}

/// A file whose text is part of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a file with its 'name' and 'text', which the command line reads for a document, or with the 'sha256' of \
                 a rule set that was sent in place of the text"
)]
struct File {
    /// Its name, for messages.
    name: String,
    /// What is in it.
    text: String,
}

/// What becomes of statements that are not supported.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UnsupportedWord {
    #[default]
    Refuse,
    Skip,
}

impl From<UnsupportedWord> for Unsupported {
    fn from(word: UnsupportedWord) -> Self {
        match word {
            UnsupportedWord::Refuse => Self::Refuse,
            UnsupportedWord::Skip => Self::Skip,
        }
    }
}

/// What is wrong with a rule set, with the setting that leaves it out.
fn may_skip(error: impl fmt::Display, may_be_skipped: bool) -> ConfigError {
    let hint = if may_be_skipped { " (here: `unsupported: skip`)" } else { "" };
    ConfigError(format!("{error}{hint}"))
}

/// The settings of a kind.
fn settings<S: DeserializeOwned>(config: &str) -> Result<S, ConfigError> {
    serde_json::from_str(config).map_err(|error| {
        // Its places are those of a text that nobody has written.
        let told = error.to_string();
        let what = told.split(" at line ").next().unwrap_or_default().to_owned();
        ConfigError(format!("{what}; the book's page of this function lists what it may be told"))
    })
}
