//! Rule languages of network functions, read into one form of conditions and what follows them: what a
//! function runs and what an analysis reads is the same.
//!
//! Knows the words of the languages and what the kernel makes of them. Refuses to hold packets against
//! them, and to read files: text comes in, a [`RuleSet`] or a [`RuleError`] with its line goes out.
#![forbid(unsafe_code)]

pub mod balancer;
mod check;
pub mod condition;
mod error;
pub mod exactness;
pub mod groups;
mod interfaces;
pub mod iptables;
mod matches;
pub mod nat;
pub mod nft;
pub mod options;
pub mod qos;
mod read_rules;
mod refusal;
pub mod router;
pub mod rule_set;
mod scalars;
pub mod snort;
pub mod vpn;
pub mod work;

pub use error::{Lint, LintKind, Remark, RuleError, Skipped};
pub use options::{ReadOptions, Side, Unsupported};
pub use read_rules::ReadRules;
pub use scalars::Dscp;

use rule_set::{Families, RuleSet};

/// Reads a rule set in the language that it is written in: JSON as `nft -j list ruleset` writes it or a policy between
/// groups, which say themselves which versions of IP they are about, or else what `iptables-save` writes, for
/// `families`.
///
/// # Errors
/// As [`nft::read`], [`groups::read`] and [`iptables::read`] say.
pub fn read(text: &str, families: Families, options: &ReadOptions) -> Result<RuleSet, RuleError> {
    if text.trim_start().starts_with('{') {
        nft::read(text, options)
    } else if groups::is_policy(text) {
        groups::read(text, options)
    } else {
        iptables::read(text, families, options)
    }
}
