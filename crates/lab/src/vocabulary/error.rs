//! What is wrong with a lab file, told so that its author can mend it.

use std::fmt;
use std::path::PathBuf;

/// A fault of a lab file: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabFileError {
    /// The file.
    pub file: PathBuf,
    /// Line, counted from 1, when it is known.
    pub line: Option<usize>,
    /// The key as a path (`functions.v1.on`); empty: the whole file.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub advice: String,
}

impl fmt::Display for LabFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.problem)?;
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

impl std::error::Error for LabFileError {}

/// A fault before the file and line are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) key: String,
    pub(crate) problem: String,
    pub(crate) advice: String,
}

impl Fault {
    pub(crate) fn new(
        key: impl Into<String>,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { key: key.into(), problem: problem.into(), advice: advice.into() }
    }
}

/// How many parts of a key path a YAML text holds, each below the one before it, and the line of
/// the last of them.
pub(crate) fn line_of(text: &str, key: &str) -> Option<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut from = 0;
    let mut found = None;
    let parts = key.split(['.', '[', ']']).filter(|part| !part.is_empty());
    for (depth, part) in parts.enumerate() {
        let is_key = |line: &str| {
            let holds = |start: &str| line.contains(&format!("{start}{part}:"));
            line.trim_start().starts_with(&format!("{part}:"))
                || holds("{")
                || holds("{ ")
                || holds(", ")
                || holds("- ")
        };
        let item = part.parse::<usize>().ok();
        let hit = match item {
            // In flow style the items stand on the line of their list.
            Some(_) if lines.get(from).is_some_and(|line| line.contains('[')) => Some(from),
            Some(index) => nth_item(&lines, from, index),
            None => lines.iter().skip(from).position(|line| is_key(line)).map(|at| at + from),
        };
        let Some(at) = hit else { break };
        from = at;
        found = Some((depth + 1, at + 1));
    }
    found
}

fn nth_item(lines: &[&str], from: usize, index: usize) -> Option<usize> {
    let is_item = |line: &&str| line.trim_start().starts_with("- ");
    let mut at = lines.iter().skip(from).position(is_item)? + from;
    let indent = |line: &str| line.len() - line.trim_start().len();
    let level = indent(lines.get(at)?);
    for _ in 0..index {
        let same = |line: &&str| is_item(line) && indent(line) == level;
        at = lines.iter().skip(at + 1).position(same)? + at + 1;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_nested_key_is_found() {
        let text = "name: x\nfunctions:\n  v1: {on: h1}\n  v2:\n    on: h2\nchains:\n  - name: a\n    source: S\n  - name: b\n    source: T\n";
        assert_eq!(line_of(text, "functions.v1.on"), Some((3, 3)));
        assert_eq!(line_of(text, "functions.v2.on"), Some((3, 5)));
        assert_eq!(line_of(text, "chains[1].source"), Some((3, 10)));
        assert_eq!(line_of(text, "nothing"), None);
    }
}
