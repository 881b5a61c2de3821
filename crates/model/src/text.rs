//! Text that people gave, on its way to where it could be taken for something else: a terminal, a
//! log, a metric. Knows which characters do something instead of being seen; refuses to know what a
//! text means.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Does the character do something instead of being seen? Control characters move the cursor and
/// begin escape sequences; others end lines or turn the direction of what follows.
#[must_use]
pub fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text on one line, with whatever is unseen spelled out: `\n`, `\u{1b}`.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    spelled_out(text, is_unseen)
}

/// The same for a text that has lines of its own: their ends stay.
#[must_use]
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    spelled_out(text, |character| character != '\n' && is_unseen(character))
}

fn spelled_out(text: &str, is_spelled: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_spelled) {
        return Cow::Borrowed(text);
    }
    let mut seen = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' if is_spelled(character) => {
                seen.extend(character.escape_default());
            }
            // Writing to a text cannot fail.
            _ if is_spelled(character) => {
                let _ = write!(seen, "\\u{{{:x}}}", u32::from(character));
            }
            _ => seen.push(character),
        }
    }
    Cow::Owned(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_would_move_the_cursor_is_spelled_out_and_the_rest_stays() {
        let hostile = "a\u{1b}[2Jb\nc\r\t\u{7}\u{7f}\u{9b}31m\u{2028}\u{202e}\\\"é漢🦀";
        let one_line = r#"a\u{1b}[2Jb\nc\r\t\u{7}\u{7f}\u{9b}31m\u{2028}\u{202e}\"é漢🦀"#;
        assert_eq!(escaped(hostile), one_line);
        assert_eq!(escaped_lines(hostile), one_line.replacen(r"\n", "\n", 1));
        assert!(matches!(escaped("plain 漢 \\ \""), Cow::Borrowed(_)));
    }
}
