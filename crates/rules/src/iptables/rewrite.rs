//! The text of a rule set with some of its rules taken out, or two said as one.
//!
//! Knows lines and words. Refuses to know what that changes: whoever asks for it reads what comes out.

use ipnet::IpNet;
use std::collections::BTreeSet;

/// A text in which these lines, from 1, are comments: the others keep their numbers.
#[must_use]
pub fn without(text: &str, lines: &BTreeSet<u32>) -> String {
    let written = (1..).zip(text.lines()).map(|(number, line)| {
        let mark = if lines.contains(&number) { "# " } else { "" };
        format!("{mark}{line}\n")
    });
    written.collect()
}

/// A text in which the first of two lines says what both said, and the second is a comment; none: they differ in more
/// than the values of one option, or no option says both.
#[must_use]
pub fn joined(text: &str, first: u32, second: u32) -> Option<String> {
    let line = |number: u32| text.lines().nth(usize::try_from(number).ok()?.checked_sub(1)?);
    let one = joined_rule(line(first)?, line(second)?)?;
    let written = (1..).zip(text.lines()).map(|(number, line)| match number {
        _ if number == first => format!("{one}\n"),
        _ if number == second => format!("# {line}\n"),
        _ => format!("{line}\n"),
    });
    Some(written.collect())
}

fn joined_rule(first: &str, second: &str) -> Option<String> {
    let words = |rule| str::split_whitespace(rule).filter(|word| !word.starts_with('['));
    let (mut all, others): (Vec<&str>, Vec<&str>) =
        (words(first).collect(), words(second).collect());
    let differing = |(at, (a, b)): (usize, (&&str, &&str))| (a != b).then_some(at);
    let mut differing = all.iter().zip(&others).enumerate().filter_map(differing);
    let (Some(at), None) = (differing.next(), differing.next()) else { return None };
    if all.len() != others.len() {
        return None;
    }
    let both = [*all.get(at)?, *others.get(at)?];
    let value = match *all.get(at.checked_sub(1)?)? {
        "-s" | "--src" | "--source" | "-d" | "--dst" | "--destination" => prefix(both)?,
        "--sport" | "--source-port" | "--dport" | "--destination-port" | "--length" => range(both)?,
        _ => return None,
    };
    *all.get_mut(at)? = &value;
    Some(all.join(" "))
}

/// The prefix whose halves two are.
fn prefix(halves: [&str; 2]) -> Option<String> {
    let [one, other] = halves.map(|half| half.parse::<IpNet>().ok()?.supernet());
    one.filter(|_| one == other).map(|both| both.to_string())
}

/// From the least to the greatest of two ranges.
fn range(ranges: [&str; 2]) -> Option<String> {
    let ends = ranges.map(|range| {
        let (first, last) = range.split_once(':').unwrap_or((range, range));
        Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
    });
    let [Some(one), Some(other)] = ends else { return None };
    Some(format!("{}:{}", one.0.min(other.0), one.1.max(other.1)))
}
