//! How a rule set is read.

use std::collections::BTreeMap;

/// A side of a function: where packets enter it on their way forward, or leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Packets of the forward direction come in here.
    In,
    /// They go out here.
    Out,
}

/// What becomes of statements that are not supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsupported {
    /// The rule set is refused.
    #[default]
    Refuse,
    /// The rule with it is left out, and told.
    Skip,
}

/// How a rule set is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The name of the file, for messages.
    pub file: String,
    /// Which side of the function an interface of the rules is.
    pub interfaces: BTreeMap<String, Side>,
    /// What becomes of what is not supported.
    pub unsupported: Unsupported,
}
