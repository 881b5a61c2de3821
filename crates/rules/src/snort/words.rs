//! Lines, options and quoted strings of rules.

use crate::refusal::Refusal;

/// Lines with their numbers; a line that ends in `\` goes on in the next.
pub(super) fn logical_lines(text: &str) -> Vec<(u32, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(u32, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let is_comment = open.is_none() && line.trim_start().starts_with('#');
        let (part, goes_on) = match line.strip_suffix('\\') {
            Some(part) if !is_comment => (part, true),
            _ => (line, false),
        };
        let (start, mut whole) = open.take().unwrap_or((number, String::new()));
        whole.push_str(part);
        if goes_on {
            open = Some((start, whole));
        } else {
            lines.push((start, whole));
        }
    }
    lines.extend(open);
    lines
}

/// What stands before the brackets and in them.
pub(super) fn head_and_body(text: &str) -> Result<(&str, &str), Refusal> {
    let advice = "write the options as '(msg:\"…\"; …; sid:1;)'";
    let (head, body) = text
        .split_once('(')
        .ok_or_else(|| Refusal::wrong("the rule has no options in brackets", advice))?;
    let body = body
        .trim_end()
        .strip_suffix(')')
        .ok_or_else(|| Refusal::wrong("the bracket of the options does not close", advice))?;
    Ok((head.trim(), body))
}

/// An option: its name, and what is behind its colon.
pub(super) type Word<'t> = (&'t str, Option<&'t str>);

/// Splits options at `;` outside of quotes; `\` takes its meaning from a letter.
pub(super) fn options(body: &str) -> Result<Vec<Word<'_>>, Refusal> {
    let mut found = Vec::new();
    let (mut start, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, letter) in body.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted => {
                let text = body.get(start..at).unwrap_or_default().trim();
                start = at + 1;
                if text.is_empty() {
                    continue;
                }
                found.push(match text.split_once(':') {
                    Some((name, value)) => (name.trim(), Some(value.trim())),
                    None => (text, None),
                });
            }
            _ => {}
        }
    }
    let rest = body.get(start..).unwrap_or_default().trim();
    if is_quoted {
        return Err(Refusal::wrong(
            "a quoted string does not end",
            "close it by '\"'; within, write '\\\"'",
        ));
    }
    if !rest.is_empty() {
        let what = format!("the option '{rest}' does not end");
        return Err(Refusal::wrong(what, "write ';' behind each option"));
    }
    Ok(found)
}

/// What is between quotes, and whether `!` stands before them.
pub(super) fn quoted(value: &str) -> Option<(bool, &str)> {
    let (is_negated, rest) = match value.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, value),
    };
    let inner = rest.strip_prefix('"')?.strip_suffix('"')?;
    Some((is_negated, inner))
}

/// The bytes that a content says: text with `\"`, `\;`, `\\`, `\:` and, between bars, hexadecimal.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, Refusal> {
    let wrong = |what: String| Refusal::wrong(what, "write text, and other bytes as |0d 0a|");
    let mut bytes = Vec::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('"' | ';' | '\\' | ':' | '|')) => bytes.push(escaped as u8),
                other => {
                    let other = other.map_or_else(String::new, String::from);
                    return Err(wrong(format!("'\\{other}' in a content is no escape")));
                }
            },
            '|' => {
                let hex: String = letters.by_ref().take_while(|letter| *letter != '|').collect();
                let digits: Vec<char> = hex.chars().filter(|one| !one.is_whitespace()).collect();
                let pairs = digits.chunks(2).map(|pair| match pair {
                    [high, low] => Some((high.to_digit(16)? << 4 | low.to_digit(16)?) as u8),
                    _ => None,
                });
                let read: Option<Vec<u8>> = pairs.collect();
                bytes.extend(read.ok_or_else(|| wrong(format!("'|{hex}|' is not hexadecimal")))?);
            }
            letter => bytes.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    // An odd bar would have swallowed the rest as hexadecimal.
    let bars = text.replace("\\\\", "").replace("\\|", "").matches('|').count();
    if bars % 2 == 1 {
        return Err(wrong("a bar in a content does not close".into()));
    }
    Ok(bytes)
}

/// Text without escapes, as messages have it.
pub(super) fn text(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        plain.push(if letter == '\\' { letters.next().unwrap_or('\\') } else { letter });
    }
    plain
}
