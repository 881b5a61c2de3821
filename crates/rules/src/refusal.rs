//! What went wrong in a rule, before it is known where it stands. Knows what may be skipped; refuses to
//! know files and lines until it is told them.

use crate::error::RuleError;
use crate::options::ReadOptions;

/// What went wrong, before it is known where.
pub(crate) struct Refusal {
    pub(crate) what: String,
    pub(crate) advice: String,
    pub(crate) may_be_skipped: bool,
}

impl Refusal {
    /// Something that no rule may say.
    pub(crate) fn wrong(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into(), may_be_skipped: false }
    }

    /// Something that is not supported.
    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        let advice = "take the rule out, or say 'unsupported: skip' to leave such rules out".into();
        Self { what: what.into(), advice, may_be_skipped: true }
    }

    /// With its place.
    pub(crate) fn at(self, line: u32, options: &ReadOptions) -> RuleError {
        let Self { what, advice, may_be_skipped } = self;
        RuleError { file: options.file.clone(), line, what, advice, may_be_skipped }
    }
}
