//! What an analysis of policies tells: what it is, where, of which packets, and what to do.

use serde::Serialize;
use std::fmt;

/// A rule in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Site {
    /// The file, as its reader was told.
    pub file: String,
    /// The line, from 1; 0: the file as a whole.
    pub line: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{} line {line}", self.file),
        }
    }
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// What was written does not happen.
    Error,
    /// It has no effect, and can go.
    Warning,
    /// Another order would serve better, and change what happens.
    Suggestion,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A rule takes no packet, and rules before it do something else with what it asks for.
    Contradicted,
    /// A rule takes no packet, and rules before it do the same with what it asks for.
    Shadowed,
    /// No packet is as a rule asks.
    Impossible,
    /// Rules behind it do the same with what a rule takes.
    Redundant,
    /// Rules of two tenants and of one priority want different things of the same packets.
    TenantConflict,
    /// Two rules that one could say.
    Mergeable,
    /// Nothing leads to a chain with rules.
    Unreached,
    /// It was said when the file was read.
    NoEffect,
    /// An ids looks at what a firewall behind it drops.
    InspectedThenDropped,
    /// An ids looks for attacks in what is encrypted there.
    BlindInspection,
    /// A firewall behind a nat names addresses that packets no longer have there.
    TranslatedBefore,
    /// A firewall's drops could be made where packets enter the chain.
    EarlyDrop,
}

impl FindingKind {
    /// How much it matters.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self {
            Self::Contradicted | Self::TenantConflict | Self::BlindInspection => Severity::Error,
            Self::Shadowed
            | Self::TranslatedBefore
            | Self::Impossible
            | Self::Redundant
            | Self::Mergeable
            | Self::Unreached
            | Self::NoEffect => Severity::Warning,
            Self::InspectedThenDropped | Self::EarlyDrop => Severity::Suggestion,
        }
    }
}

/// A way of packets through a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// From its source on.
    Forth,
    /// Of the answers, through the same functions from the last to the first.
    Back,
}

impl Way {
    /// What is told of functions on it, in words.
    pub(super) fn tell(self, what: String) -> String {
        match self {
            Self::Forth => what,
            Self::Back => format!("on the way back, {what}"),
        }
    }
}

/// Something that whoever wrote the rules should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which kind it is of.
    pub kind: FindingKind,
    /// On which way through a chain; none: it is about one function's rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<Way>,
    /// Where.
    #[serde(flatten)]
    pub site: Site,
    /// What it is.
    pub what: String,
    /// What to do.
    pub advice: String,
    /// Packets that it is about: the largest part of them that can be said in few words.
    pub class: Option<String>,
    /// Other rules that it is about.
    pub others: Vec<Site>,
}
