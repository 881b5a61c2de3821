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
    let (first, second) = (without_counts(first), without_counts(second));
    let [all, others] = [first, second].map(|rule| rule.split_whitespace().collect::<Vec<&str>>());
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
    // In its place: what stands between words may be within quotes.
    let word = *all.get(at)?;
    let start = word.as_ptr() as usize - first.as_ptr() as usize;
    let (before, behind) = (first.get(..start)?, first.get(start + word.len()..)?);
    Some(format!("{before}{value}{behind}"))
}

/// A rule without the counts that it is saved with, `[packets:bytes]`.
fn without_counts(rule: &str) -> &str {
    let are_counts = |counts: &str| {
        let mut digits =
            counts.split(':').map(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        counts.contains(':') && digits.all(|is_number| is_number)
    };
    let rest = rule.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
    rest.filter(|(counts, _)| are_counts(counts)).map_or(rule, |(_, rule)| rule.trim_start())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rules_are_said_as_one_and_nothing_else_of_them_changes() {
        let both = |first: &str, second: &str| joined_rule(first, second);
        let said = |address: &str| {
            format!("-A FORWARD -s {address} -m comment --comment \"web  [ops] team\" -j DROP")
        };
        let of_counts = format!("[12:340] {}", said("10.128.0.0/9"));
        assert_eq!(both(&said("10.0.0.0/9"), &of_counts), Some(said("10.0.0.0/8")));
        let bare =
            |address: &str| format!("-A FORWARD -m comment --comment [ops] -s {address} -j DROP");
        assert_eq!(both(&bare("10.0.0.0/9"), &bare("10.128.0.0/9")), Some(bare("10.0.0.0/8")));
        // No halves of one, and another option.
        assert_eq!(both(&bare("10.0.0.0/9"), &bare("11.128.0.0/9")), None);
        assert_eq!(both("-A a -i one -j DROP", "-A a -i two -j DROP"), None);
    }
}
