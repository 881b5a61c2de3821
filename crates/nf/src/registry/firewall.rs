//! What a firewall is told. Refuses to know what rules mean.

use super::{Bundled, ConfigError, File, Made, Surroundings, UnsupportedWord, may_skip, settings};
use crate::firewall::Firewall;
use crate::firewall::sources::{RuleText, SourceError, Sources};
use catena_rules::rule_set::RuleSet;
use catena_rules::{ReadRules, Side};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    file: File,
    #[serde(default)]
    v6_file: Option<File>,
    #[serde(default)]
    interfaces: BTreeMap<String, SideWord>,
    #[serde(default)]
    unsupported: UnsupportedWord,
    #[serde(default)]
    tcp_be_liberal: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SideWord {
    In,
    Out,
}

impl From<SideWord> for Side {
    fn from(word: SideWord) -> Self {
        match word {
            SideWord::In => Self::In,
            SideWord::Out => Self::Out,
        }
    }
}

impl File {
    fn rules(&self) -> RuleText<'_> {
        RuleText { file: &self.name, text: &self.text }
    }
}

pub(super) fn make(config: &str, surroundings: &Surroundings) -> Made {
    let (sets, firewall) = read(config, surroundings)?;
    let remarks = sets.iter().flat_map(RuleSet::remarks).map(|one| one.to_string()).collect();
    Ok(Bundled { remarks, ..Bundled::of(firewall) })
}

pub(super) fn rules(config: &str) -> Result<ReadRules, ConfigError> {
    read(config, &Surroundings::default()).map(|(sets, _)| ReadRules::Filter(sets))
}

/// The rule sets, and the firewall of them.
fn read(
    config: &str,
    surroundings: &Surroundings,
) -> Result<(Vec<RuleSet>, Firewall), ConfigError> {
    let settings: Settings = settings(config)?;
    let sides = settings.interfaces.iter().map(|(name, side)| (name.clone(), (*side).into()));
    let sources = Sources {
        rules: settings.file.rules(),
        v6_rules: settings.v6_file.as_ref().map(File::rules),
        interfaces: sides.collect(),
        unsupported: settings.unsupported.into(),
        tcp_be_liberal: settings.tcp_be_liberal,
        seed: surroundings.seed,
    };
    sources.read().map_err(|error| refused(&error))
}

fn refused(error: &SourceError) -> ConfigError {
    may_skip(error, error.may_be_skipped())
}
