//! Files with rules of firewalls, and how they are read. Knows options of the command line; refuses to know what is
//! done with the rules.

use crate::failure::Failure;
use crate::nf::{UnsupportedChoice, named_side};
use catena_rules::rule_set::{Families, RuleSet};
use catena_rules::{ReadOptions, RuleError, Side};
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct ReadingArguments {
    /// Rules as `iptables-save` writes them are those of ip6tables.
    #[arg(long, short = '6', conflicts_with = "file")]
    v6: bool,
    /// What becomes of rules that are not supported: the file is refused, or they are left out and listed.
    #[arg(long, value_enum, default_value = "refuse", conflicts_with = "file")]
    unsupported: UnsupportedChoice,
    /// An interface that rules name and the side it stands for; may be given several times.
    #[arg(long = "interface", value_name = "NAME=in|out", value_parser = named_side, conflicts_with = "file")]
    interfaces: Vec<(String, Side)>,
}

impl ReadingArguments {
    /// How rules of a file are read, which messages call so.
    pub(super) fn options(&self, name: &str) -> ReadOptions {
        ReadOptions {
            file: name.to_owned(),
            interfaces: self.interfaces.iter().cloned().collect(),
            unsupported: self.unsupported.into(),
        }
    }

    /// Rules of a firewall.
    pub(super) fn rule_set(&self, name: &str, text: &str) -> Result<RuleSet, Failure> {
        let families = if self.v6 { Families::V6 } else { Families::V4 };
        let read = catena_rules::read(text, families, &self.options(name));
        read.map_err(|error| refused(&error))
    }
}

/// What is in a file.
pub(super) fn text(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        let name = file.display();
        Failure::failed(format!("{name} cannot be read: {error}; name a file with rules"))
    })
}

/// Reads FUNCTION=FILE.
pub(super) fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text
        .split_once('=')
        .filter(|(name, file)| !name.is_empty() && !file.is_empty())
        .ok_or_else(|| format!("'{text}' names no function with its file; write vpn=vpn.yaml"))?;
    Ok((name.to_owned(), PathBuf::from(file)))
}

/// What is told of rules that are refused.
pub(super) fn refused(error: &RuleError) -> Failure {
    let hint = if error.may_be_skipped { " (here: `--unsupported skip`)" } else { "" };
    Failure::failed(format!("{error}{hint}"))
}
