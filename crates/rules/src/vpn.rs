//! Selectors of a virtual private network: which packets a function encrypts, and which it decrypts, on their way
//! forward.
//!
//! Knows groups and matches. Refuses to encrypt, and to read files: text in YAML comes in, [`Selectors`] or a
//! [`RuleError`] with its line goes out.

use crate::check;
use crate::condition::{Condition, Subject};
use crate::error::RuleError;
use crate::groups::{self, End, GroupNames, Groups, items, row_as_rule};
use crate::matches::MatchText;
use crate::options::ReadOptions;
use crate::refusal::Refusal;
use crate::rule_set::Rule;
use serde::Deserialize;

const ENCRYPTS: &str = "encrypts";
const DECRYPTS: &str = "decrypts";

/// What a function encrypts and decrypts, on the way forward; on the way back it is the other way round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// The file, as messages call it.
    pub file: String,
    /// Packets that leave it encrypted: each rule has conditions alone.
    pub encrypts: Vec<Rule>,
    /// Packets that come to it encrypted, and leave it in the clear.
    pub decrypts: Vec<Rule>,
    /// What its writer calls addresses.
    pub groups: GroupNames,
}

impl Selectors {
    /// All that they ask about.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> {
        let conditions = self.encrypts.iter().chain(&self.decrypts).flat_map(Rule::conditions);
        conditions.flat_map(|condition| condition.subjects.iter().copied())
    }

    /// The same for packets on their way back.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        let mirrored = |rules: &[Rule]| rules.iter().map(Rule::mirrored).collect();
        let (encrypts, decrypts) = (mirrored(&self.decrypts), mirrored(&self.encrypts));
        Self { encrypts, decrypts, ..self.clone() }
    }
}

/// Does a text have selectors? Its keys stand at the beginnings of lines, where no other language of rules has any.
#[must_use]
pub fn has_selectors(text: &str) -> bool {
    [ENCRYPTS, DECRYPTS].iter().any(|key| groups::has_key(text, key))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    groups: Groups,
    #[serde(default)]
    encrypts: Vec<MatchText<End>>,
    #[serde(default)]
    decrypts: Vec<MatchText<End>>,
}

/// Reads selectors.
///
/// # Errors
/// When they are malformed, with the line; or when one names a group that is not there, or asks for what no packet is.
pub fn read(text: &str, options: &ReadOptions) -> Result<Selectors, RuleError> {
    let Document { groups, encrypts, decrypts } = check::document(text, &options.file, "Policies")?;
    let selectors = |key: &str, all: Vec<MatchText<End>>| {
        check::rules(all.len()).map_err(|refusal| refusal.at(0, options))?;
        let mut rules = Vec::new();
        for ((line, text), one) in items(text, key, all.len()).into_iter().zip(all) {
            let rows = groups.rows(one).and_then(without_direction);
            let rows = rows.map_err(|what| wrong(what).at(line, options))?;
            rules.extend(rows.into_iter().map(|row| row_as_rule((line, &text), row, None)));
        }
        Ok(rules)
    };
    let (encrypts, decrypts) = (selectors(ENCRYPTS, encrypts)?, selectors(DECRYPTS, decrypts)?);
    Ok(Selectors { file: options.file.clone(), encrypts, decrypts, groups: groups.names() })
}

/// Refuses those that ask where packets come in.
fn without_direction(rows: Vec<Vec<Condition>>) -> Result<Vec<Vec<Condition>>, String> {
    let asks = |condition: &Condition| condition.subjects.contains(&Subject::CameIn);
    match rows.iter().flatten().any(asks) {
        true => {
            Err("a selector has no 'direction': it is about packets on their way forward, and \
                     the other way round about their answers"
                .to_owned())
        }
        false => Ok(rows),
    }
}

fn wrong(what: String) -> Refusal {
    Refusal::wrong(
        what,
        "correct it; the page «Policies» of the book says how selectors are written",
    )
}
