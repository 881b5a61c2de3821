//! From the texts that rules stand in to the firewall of them: the one way, whoever has the texts. Knows which set
//! speaks for which version of IP; refuses to read files.

use super::{Firewall, FirewallError};
use crate::tracking::TrackingConfig;
use catena_rules::rule_set::{Families, RuleSet};
use catena_rules::{LintKind, ReadOptions, RuleError, Side, Unsupported};
use std::collections::BTreeMap;
use std::fmt;

/// A text with rules, and what its file is called.
#[derive(Clone, Copy, Debug)]
pub struct RuleText<'t> {
    /// The name, for messages.
    pub file: &'t str,
    /// What is in it.
    pub text: &'t str,
}

/// What a firewall is made of.
#[derive(Clone, Debug)]
pub struct Sources<'t> {
    /// Rules for IPv4 as `iptables-save` writes them, or rules of nftables as `nft -j list ruleset` does.
    pub rules: RuleText<'t>,
    /// Rules for IPv6, as `ip6tables-save` writes them; without them IPv6 passes.
    pub v6_rules: Option<RuleText<'t>>,
    /// Which side of the function an interface of the rules is.
    pub interfaces: BTreeMap<String, Side>,
    /// What becomes of rules that are not supported.
    pub unsupported: Unsupported,
    /// As `nf_conntrack_tcp_be_liberal`.
    pub tcp_be_liberal: bool,
    /// A number by which connections are filed, which no sender can guess.
    pub seed: u64,
}

/// Why there is no firewall of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceError {
    /// A rule set is refused.
    Rules(RuleError),
    /// No firewall can be made of them.
    Firewall(FirewallError),
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(error) => error.fmt(f),
            Self::Firewall(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SourceError {}

impl SourceError {
    /// Could what is refused be left out instead?
    #[must_use]
    pub const fn may_be_skipped(&self) -> bool {
        matches!(self, Self::Rules(RuleError { may_be_skipped: true, .. }))
    }
}

impl Sources<'_> {
    /// The rule sets, and the firewall of them.
    ///
    /// # Errors
    /// When a set is refused, or no firewall can be made of them.
    pub fn read(&self) -> Result<(Vec<RuleSet>, Firewall), SourceError> {
        let texts = [(Some(self.rules), Families::V4), (self.v6_rules, Families::V6)];
        let mut sets = Vec::new();
        for (text, families) in texts {
            let Some(RuleText { file, text }) = text else { continue };
            let options = ReadOptions {
                file: file.to_owned(),
                interfaces: self.interfaces.clone(),
                unsupported: self.unsupported,
            };
            let set = catena_rules::read(text, families, &options);
            sets.push(set.map_err(SourceError::Rules)?);
        }
        if sets.len() > 1 {
            // Each speaks for the other's version.
            let stands = |lint: &catena_rules::Lint| lint.kind != LintKind::OtherVersion;
            sets.iter_mut().for_each(|set| set.lints.retain(stands));
        }
        let tracking = TrackingConfig {
            is_liberal: self.tcp_be_liberal,
            seed: self.seed,
            ..TrackingConfig::default()
        };
        let firewall = Firewall::with_tracking(&sets, &tracking).map_err(SourceError::Firewall)?;
        Ok((sets, firewall))
    }
}
