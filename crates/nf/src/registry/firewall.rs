//! What a firewall is told. Refuses to know what rules mean.

use super::{ConfigError, File, Made, Surroundings, settings};
use crate::firewall::Firewall;
use crate::tracking::TrackingConfig;
use catena_rules::rule_set::Families;
use catena_rules::{ReadOptions, RuleError, Side, Unsupported};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Rules for IPv4 as `iptables-save` writes them, or rules of nftables as `nft -j list ruleset` does.
    file: File,
    /// Rules for IPv6, as `ip6tables-save` writes them; without them IPv6 passes.
    #[serde(default)]
    v6_file: Option<File>,
    /// Which side of the function an interface of the rules is.
    #[serde(default)]
    interfaces: BTreeMap<String, SideWord>,
    /// What becomes of rules that are not supported.
    #[serde(default)]
    unsupported: UnsupportedWord,
    /// As `nf_conntrack_tcp_be_liberal`.
    #[serde(default)]
    tcp_be_liberal: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SideWord {
    In,
    Out,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UnsupportedWord {
    #[default]
    Refuse,
    Skip,
}

pub(super) fn make(config: &str, surroundings: &Surroundings) -> Made {
    let settings: Settings = settings(config)?;
    let interfaces: BTreeMap<String, Side> = settings
        .interfaces
        .iter()
        .map(|(name, side)| {
            let side = match side {
                SideWord::In => Side::In,
                SideWord::Out => Side::Out,
            };
            (name.clone(), side)
        })
        .collect();
    let unsupported = match settings.unsupported {
        UnsupportedWord::Refuse => Unsupported::Refuse,
        UnsupportedWord::Skip => Unsupported::Skip,
    };
    let read = |file: &File, families| {
        let (file, text) = (file.name.clone(), &file.text);
        let options = ReadOptions { file, interfaces: interfaces.clone(), unsupported };
        catena_rules::read(text, families, &options).map_err(|error| refused(&error))
    };
    let mut sets = vec![read(&settings.file, Families::V4)?];
    if let Some(file) = &settings.v6_file {
        sets.push(read(file, Families::V6)?);
    }
    let tracking = TrackingConfig {
        is_liberal: settings.tcp_be_liberal,
        seed: surroundings.seed,
        ..TrackingConfig::default()
    };
    let firewall = Firewall::with_tracking(&sets, &tracking);
    Ok(Box::new(firewall.map_err(|error| ConfigError(error.to_string()))?))
}

fn refused(error: &RuleError) -> ConfigError {
    let hint = if error.may_be_skipped { " (here: `unsupported: skip`)" } else { "" };
    ConfigError(format!("{error}{hint}"))
}
