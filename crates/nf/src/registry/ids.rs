//! What an ids and an ips are told. Refuses to know what rules mean.

use super::{Bundled, ConfigError, File, Made, Surroundings, UnsupportedWord, may_skip, settings};
use crate::ids::{Ids, IdsConfig};
use catena_rules::snort::{self, IdsRules};
use catena_rules::{ReadOptions, ReadRules};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    file: File,
    /// Addresses and ports by the names that rules call them, such as `HOME_NET`.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    #[serde(default)]
    unsupported: UnsupportedWord,
    /// Packets with less time to live do not reach the hosts behind.
    #[serde(default)]
    ttl_min: u8,
    /// Room to put streams and fragments together.
    #[serde(default = "reassembly_mib")]
    reassembly_mib: u32,
}

/// A quarter of what there may be: a node may have many of them.
const fn reassembly_mib() -> u32 {
    16
}

pub(super) fn make_ids(config: &str, surroundings: &Surroundings) -> Made {
    make(config, surroundings, false)
}

pub(super) fn make_ips(config: &str, surroundings: &Surroundings) -> Made {
    make(config, surroundings, true)
}

pub(super) fn rules(config: &str) -> Result<ReadRules, ConfigError> {
    read(&settings(config)?).map(ReadRules::Inspection)
}

fn read(settings: &Settings) -> Result<IdsRules, ConfigError> {
    let options = ReadOptions {
        file: settings.file.name.clone(),
        unsupported: settings.unsupported.into(),
        ..ReadOptions::default()
    };
    snort::read(&settings.file.text, &settings.variables, &options)
        .map_err(|error| may_skip(&error, error.may_be_skipped))
}

fn make(config: &str, surroundings: &Surroundings, is_preventing: bool) -> Made {
    let settings: Settings = settings(config)?;
    let rules = read(&settings)?;
    let remarks = rules.remarks().map(|one| one.to_string()).collect();
    let ids = Ids::new(
        rules,
        IdsConfig {
            is_preventing,
            reassembly_bytes: (settings.reassembly_mib as usize) << 20,
            ttl_min: settings.ttl_min,
            epoch_seconds: surroundings.epoch_seconds,
            seed: surroundings.seed,
            ..IdsConfig::default()
        },
    );
    let ids = ids.map_err(|error| ConfigError(error.to_string()))?;
    Ok(Bundled { remarks, ..Bundled::of(ids) })
}
