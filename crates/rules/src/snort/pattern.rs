//! Patterns (`pcre`), as the engine for regular expressions reads them.
//!
//! Knows where both write the same differently. Refuses what the engine cannot do in linear time: looking
//! around, references to groups, possessive repetition.

use super::rule::Buffer;
use crate::refusal::Refusal;
use regex::bytes::{Regex, RegexBuilder};

/// Bytes that one compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 18;
/// Bytes that a search for one may keep between packets.
const SEARCH_BYTES_MAX: usize = 1 << 18;
/// Letters of one pattern.
const LETTERS_MAX: usize = 4_096;

/// A pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The pattern, compiled.
    pub regex: Regex,
    /// May it not be there?
    pub is_negated: bool,
    /// Is it looked for from the end of the last match on (`R`)?
    pub is_relative: bool,
    /// May it hold only where the search begins?
    pub is_anchored: bool,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
            && (self.is_negated, self.is_relative) == (other.is_negated, other.is_relative)
    }
}

impl Eq for Pattern {}

#[derive(Default)]
struct Letters {
    ignores_case: bool,
    is_dot_all: bool,
    is_multi_line: bool,
    is_extended: bool,
    is_anchored: bool,
    is_dollar_last: bool,
    is_ungreedy: bool,
    is_relative: bool,
    buffer: Option<Buffer>,
}

/// Reads `/pattern/letters`, and the buffer that the letters name.
pub(super) fn read(value: &str) -> Result<(Pattern, Option<Buffer>), Refusal> {
    let advice = "write pcre:\"/pattern/letters\"";
    let (is_negated, text) = super::words::quoted(value)
        .ok_or_else(|| Refusal::wrong(format!("the pattern {value} is not in quotes"), advice))?;
    let parts = text.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'));
    let (pattern, letters) = parts.ok_or_else(|| {
        Refusal::wrong(format!("the pattern {text} is not between slashes"), advice)
    })?;
    if pattern.len() > LETTERS_MAX {
        return Err(too_much(pattern, &format!("it has more than {LETTERS_MAX} letters")));
    }
    let letters = letters_of(letters)?;
    // A rule writes these so that its own words can be told apart.
    let mut plain = translate(pattern, &letters)?;
    if letters.is_anchored {
        plain = format!("\\A(?:{plain})");
    }
    let regex = RegexBuilder::new(&plain)
        .unicode(false)
        .case_insensitive(letters.ignores_case)
        .dot_matches_new_line(letters.is_dot_all)
        .multi_line(letters.is_multi_line)
        .ignore_whitespace(letters.is_extended)
        .swap_greed(letters.is_ungreedy)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(SEARCH_BYTES_MAX)
        .build();
    let regex = regex.map_err(|error| {
        let error = error.to_string();
        let last = error.lines().last().unwrap_or_default().trim();
        too_much(pattern, last.strip_prefix("error: ").unwrap_or(last))
    })?;
    let is_anchored = plain.contains('^') || plain.contains("\\A");
    let pattern = Pattern { regex, is_negated, is_relative: letters.is_relative, is_anchored };
    Ok((pattern, letters.buffer))
}

fn too_much(pattern: &str, why: &str) -> Refusal {
    let shown: String = pattern.chars().take(80).collect();
    let mut refusal =
        Refusal::unsupported(format!("the pattern /{shown}/ is not supported: {why}"));
    refusal.advice = format!(
        "write it without looking around, references to groups and possessive repetition; else {}",
        refusal.advice
    );
    refusal
}

fn letters_of(letters: &str) -> Result<Letters, Refusal> {
    let mut read = Letters::default();
    for letter in letters.chars() {
        match letter {
            'i' => read.ignores_case = true,
            's' => read.is_dot_all = true,
            'm' => read.is_multi_line = true,
            'x' => read.is_extended = true,
            'A' => read.is_anchored = true,
            'E' => read.is_dollar_last = true,
            'G' => read.is_ungreedy = true,
            'R' => read.is_relative = true,
            'U' | 'H' | 'M' | 'W' | 'V' => {
                let buffer = match letter {
                    'U' => Buffer::Uri,
                    'H' => Buffer::Header,
                    'M' => Buffer::Method,
                    'W' => Buffer::Host,
                    _ => Buffer::UserAgent,
                };
                if read.buffer.is_some_and(|other| other != buffer) {
                    let what = format!("the pattern's letters {letters} name two buffers");
                    return Err(Refusal::wrong(what, "write one pattern for each"));
                }
                read.buffer = Some(buffer);
            }
            // All patterns are of bytes.
            'B' => {}
            'P' | 'Q' | 'I' | 'D' | 'C' | 'K' | 'S' | 'Y' | 'O' => {
                return Err(Refusal::unsupported(format!(
                    "the pattern's letter {letter} is not supported"
                )));
            }
            _ => {
                let what = format!("'{letter}' is no letter of patterns");
                return Err(Refusal::wrong(what, "write ismxAEGRUHMWV behind the second slash"));
            }
        }
    }
    Ok(read)
}

/// Writes the same as the engine reads it.
fn translate(pattern: &str, letters: &Letters) -> Result<String, Refusal> {
    let mut plain = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars().peekable();
    let mut is_quantifier = false;
    while let Some(letter) = rest.next() {
        let was_quantifier = std::mem::take(&mut is_quantifier);
        match letter {
            '\\' => escape(&mut plain, rest.next(), pattern)?,
            '[' => class(&mut plain, &mut rest, pattern)?,
            '+' if was_quantifier => return Err(too_much(pattern, "repetition is possessive")),
            '?' if was_quantifier => plain.push('?'),
            '*' | '+' | '?' => {
                plain.push(letter);
                // Behind a bracket '?' is no repetition.
                is_quantifier = !plain.ends_with("(?");
            }
            '}' => {
                plain.push('}');
                is_quantifier = true;
            }
            // The end, or before a line feed there.
            '$' if !letters.is_multi_line && !letters.is_dollar_last => {
                plain.push_str("(?:\\n?\\z)");
            }
            letter => plain.push(letter),
        }
    }
    Ok(plain)
}

fn escape(plain: &mut String, letter: Option<char>, pattern: &str) -> Result<(), Refusal> {
    match letter {
        // Of a rule's own words; the engine knows no escape of these.
        Some(
            letter @ ('<' | '>' | '"' | ';' | ':' | '/' | '\'' | ',' | '!' | '@' | '%' | '`' | '='
            | '_'),
        ) => {
            if letter == '<' || letter == '>' || letter == '_' {
                plain.push(letter);
            } else {
                plain.push('\\');
                plain.push(letter);
            }
        }
        Some('e') => plain.push_str("\\x1B"),
        Some('h') => plain.push_str("[\\t ]"),
        Some('N') => plain.push_str("[^\\n]"),
        Some('Z') => plain.push_str("(?:\\n?\\z)"),
        Some(
            letter @ ('v' | 'V' | 'H' | 'R' | 'G' | 'K' | 'X' | 'C' | 'c' | 'Q' | 'E' | 'p' | 'P'),
        ) => {
            return Err(too_much(pattern, &format!("\\{letter} is not known to the engine")));
        }
        Some('0') => plain.push_str("\\x00"),
        Some(letter) => {
            plain.push('\\');
            plain.push(letter);
        }
        None => return Err(too_much(pattern, "it ends in a backslash")),
    }
    Ok(())
}

/// A class, which knows no sets of others.
fn class(
    plain: &mut String,
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    pattern: &str,
) -> Result<(), Refusal> {
    plain.push('[');
    if rest.next_if_eq(&'^').is_some() {
        plain.push('^');
    }
    if rest.next_if_eq(&']').is_some() {
        plain.push_str("\\]");
    }
    while let Some(letter) = rest.next() {
        match letter {
            ']' => {
                plain.push(']');
                return Ok(());
            }
            '\\' => match rest.next() {
                Some('b') => plain.push_str("\\x08"),
                Some(letter @ ('N' | 'B' | 'A' | 'z' | 'Z' | 'h')) => {
                    return Err(too_much(pattern, &format!("\\{letter} in a class")));
                }
                other => escape(plain, other, pattern)?,
            },
            '[' if rest.peek() == Some(&':') => {
                plain.push('[');
                for letter in rest.by_ref() {
                    plain.push(letter);
                    if letter == ']' {
                        break;
                    }
                }
            }
            '[' | '&' | '~' => {
                plain.push('\\');
                plain.push(letter);
            }
            '-' if plain.ends_with('-') => plain.push_str("\\-"),
            letter => plain.push(letter),
        }
    }
    Err(too_much(pattern, "a class does not close"))
}
