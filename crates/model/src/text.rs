//! Text that people gave, on its way to where it could be taken for something else: a terminal, a
//! log, a metric. Knows which characters do something instead of being seen; refuses to know what a
//! text means.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Does the character do something instead of being seen, or nothing at all? Control characters move
/// the cursor and begin escape sequences; others end lines or turn the direction of what follows.
/// Those that are blank or have no width make two names that look like one. Joiners of emoji and the
/// selectors of their form stay: with the letters around them they are seen.
#[must_use]
pub fn is_unseen(character: char) -> bool {
    character.is_control() || turns(character) || is_blank(character)
}

/// Ends a line, or turns the direction of what follows.
fn turns(character: char) -> bool {
    matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Has no width, or is an empty cell that is no space.
fn is_blank(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{2060}'..='\u{206f}' | '\u{2800}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
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

    #[test]
    fn what_would_make_two_names_look_like_one_is_unseen_and_emoji_are_not() {
        let blank = [
            0xad, 0x34f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180e, 0x180f, 0x200b, 0x2060,
            0x206f, 0x2800, 0x3164, 0xfeff, 0xffa0, 0xe0001, 0xe0041, 0xe007f,
        ];
        for number in blank {
            let character = char::from_u32(number).unwrap();
            assert!(is_unseen(character), "U+{number:04X}");
            assert_eq!(escaped(&format!("web{character}")), format!("web\\u{{{number:x}}}"));
        }
        for seen in ["❤\u{fe0f}", "👩\u{200d}💻", "é", "한국", "ក", "ᠮ", " "] {
            assert_eq!(escaped(seen), seen);
        }
    }
}
