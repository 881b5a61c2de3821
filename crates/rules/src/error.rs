//! What is wrong with a rule set, where, and what to do about it.

use std::fmt;

/// A statement that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The file, as its reader was told.
    pub file: String,
    /// The line, from 1; 0: the file as a whole.
    pub line: u32,
    /// What is wrong, in the words of the file.
    pub what: String,
    /// What to do.
    pub advice: String,
    /// Is it well formed, but of no kind that is supported, so that it may be left out?
    pub may_be_skipped: bool,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, " line {}", self.line)?;
        }
        write!(f, ": {}; {}", self.what, self.advice)
    }
}

impl std::error::Error for RuleError {}

/// A rule that was left out, as `unsupported: skip` asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its line, from 1.
    pub line: u32,
    /// Its text.
    pub text: String,
    /// What of it is not supported.
    pub what: String,
}

impl Skipped {
    /// It in words, of a file.
    #[must_use]
    pub fn remark<'s>(&self, file: &'s str) -> Remark<'s> {
        let what = format!("left out, as {}: {}", self.what, self.text);
        Remark { file, line: self.line, what }
    }
}

/// Something that a rule set's writer should know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark<'s> {
    /// The file.
    pub file: &'s str,
    /// The line, from 1.
    pub line: u32,
    /// What it is.
    pub what: String,
}

impl fmt::Display for Remark<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}: {}", self.file, self.line, self.what)
    }
}

/// Something that is read and has no effect here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// The line, from 1.
    pub line: u32,
    /// Of which kind it is.
    pub kind: LintKind,
    /// What it is about.
    pub what: String,
}

/// Kinds of lints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LintKind {
    /// Something is said that has no effect.
    NoEffect,
    /// Nothing is said of the other version of IP, whose packets pass; another rule set may do so.
    OtherVersion,
}
