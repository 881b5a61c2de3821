//! Rules of Snort and Suricata: a header, and options in brackets, one rule a line.
//!
//! Knows what the words mean and refuses what is not supported, with the line. Refuses to hold packets
//! against rules, and to read files: variables come in beside the text.

mod classes;
mod contents;
mod header;
mod numbers;
mod options;
mod pattern;
mod rule;
mod set;
#[cfg(test)]
mod tests;
mod words;

pub use pattern::Pattern;
pub use rule::{
    Action, Buffer, ByteTest, Check, Comparison, Content, DataAt, Ends, FlagTest, FlagsMode,
    FlowAsks, FlowbitUse, IdsRule, IdsRules, Numeral, Protocol, Span, Threshold, ThresholdKind,
    Track,
};
pub use set::Set;

use crate::check;
use crate::error::{RuleError, Skipped};
use crate::options::{ReadOptions, Unsupported};
use crate::refusal::Refusal;
use catena_model::limits::FUNCTION_FLOWBITS_MAX;
use classes::Classes;
use set::Sets;
use std::collections::{BTreeMap, HashMap};

/// Reads rules. `variables` are those of the configuration, such as `HOME_NET`; the text may define others
/// (`ipvar`, `portvar`, `var`), and kinds of attacks (`config classification:`).
///
/// # Errors
/// At the first line that is wrong or not supported, with what to do; with [`Unsupported::Skip`] rules that
/// are not supported are left out and listed instead.
pub fn read(
    text: &str,
    variables: &BTreeMap<String, String>,
    options: &ReadOptions,
) -> Result<IdsRules, RuleError> {
    check::bytes(text).map_err(|refusal| refusal.at(0, options))?;
    let mut reader = Reader {
        sets: Sets::new(variables),
        classes: Classes::default(),
        bits: HashMap::new(),
        known: HashMap::new(),
        rules: IdsRules { file: options.file.clone(), ..IdsRules::default() },
    };
    for (line, words) in words::logical_lines(text) {
        let Err(refusal) = reader.line(line, &words) else { continue };
        if options.unsupported != Unsupported::Skip || !refusal.may_be_skipped {
            return Err(refusal.at(line, options));
        }
        reader.rules.skipped.push(Skipped {
            line,
            text: words.trim().to_owned(),
            what: refusal.what,
        });
    }
    Ok(reader.rules)
}

struct Reader {
    sets: Sets,
    classes: Classes,
    /// Flowbits by their names.
    bits: HashMap<String, u16>,
    /// The line of each rule by its generator and number.
    known: HashMap<(u32, u32), u32>,
    rules: IdsRules,
}

impl Reader {
    fn line(&mut self, line: u32, text: &str) -> Result<(), Refusal> {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match first {
            "var" | "ipvar" | "portvar" => return self.sets.define(rest),
            "config" => return self.classes.define(rest),
            _ => {}
        }
        let bits_before = self.bits.len();
        let rule = self.rule(line, text).inspect_err(|_| {
            // A rule that is left out names no bits.
            self.bits.retain(|_, bit| usize::from(*bit) < bits_before);
            self.rules.flowbits.truncate(bits_before);
        })?;
        if let Some(other) = self.known.insert((rule.gid, rule.sid), line) {
            let what =
                format!("the rule {}:{} is there twice, first in line {other}", rule.gid, rule.sid);
            return Err(Refusal::wrong(what, "give one of them another sid"));
        }
        self.rules.rules.push(rule);
        check::rules(self.rules.rules.len())
    }

    fn rule(&mut self, line: u32, text: &str) -> Result<IdsRule, Refusal> {
        let (head, body) = words::head_and_body(text)?;
        let header = header::read(head, &mut self.sets)?;
        let Self { classes, bits, rules, .. } = self;
        let mut bit = |name: &str| match bits.get(name) {
            Some(bit) => Ok(*bit),
            None if bits.len() >= FUNCTION_FLOWBITS_MAX => {
                let what = format!("there are more than {FUNCTION_FLOWBITS_MAX} names of flowbits");
                Err(Refusal::wrong(what, "split the rules among several functions"))
            }
            None => {
                let next = u16::try_from(bits.len()).unwrap_or(u16::MAX);
                bits.insert(name.to_owned(), next);
                rules.flowbits.push(name.to_owned());
                Ok(next)
            }
        };
        let mut rule = options::read(header, body, classes, &mut bit)?;
        (rule.line, rule.text) = (line, text.to_owned());
        Ok(rule)
    }
}
