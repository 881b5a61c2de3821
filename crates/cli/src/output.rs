//! What verbs say on standard output, in the form that was asked for. A reader that goes away
//! (`catena status | head -1`) is the end of a verb and no fault of it. The only way to the terminal:
//! whatever a text would do to it is spelled out here.

use crate::failure::Failure;
use catena_model::text::{escaped, escaped_lines, is_unseen};
use clap::ValueEnum;
use comfy_table::presets;
use serde::Serialize;
use serde_json::Value;
use std::fmt::{self, Arguments, Display};
use std::io::{ErrorKind, Write, stderr, stdout};

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For people with wide terminals: more of it, or a drawing.
    Wide,
    /// For programs.
    Json,
    /// For programs: one object a line.
    Jsonl,
    /// For files.
    Yaml,
}

/// Says one line: a name with an end of line in it makes no second one.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Writes a line.
pub(crate) fn line(text: Arguments<'_>) {
    write(&escaped(&text.to_string()));
}

/// Writes what has lines of its own, such as a table.
pub(crate) fn block(text: impl Display) {
    write(&escaped_lines(&text.to_string()));
}

/// How far a verb is that takes its time: where errors are said, so that its answer stays whole. Without anybody to
/// read it the verb goes on.
pub(crate) fn progress(text: Arguments<'_>) {
    let _ = writeln!(stderr().lock(), "{}", escaped(&text.to_string()));
}

/// What is said where errors are: the lines after the first stand further in, so that none looks
/// like one of ours.
pub(crate) fn complaint(message: &str) -> String {
    escaped_lines(message).replace('\n', "\n    ")
}

/// Without anybody to read it the process ends here, and without a word.
fn write(text: &str) {
    if let Err(error) = writeln!(stdout().lock(), "{text}") {
        std::process::exit(i32::from(error.kind() != ErrorKind::BrokenPipe));
    }
}

/// Says a value in the form that was asked for; `people` says it for people, given whether they
/// asked for all there is.
pub(crate) fn tell(
    format: Format,
    value: &impl Serialize,
    people: impl FnOnce(bool),
) -> Result<(), Failure> {
    match format {
        Format::Table => people(false),
        Format::Wide => people(true),
        _ => {
            for text in texts(format, &serde_json::to_value(value)?)? {
                block(text);
            }
        }
    }
    Ok(())
}

/// A value for programs.
fn texts(format: Format, value: &Value) -> Result<Vec<String>, Failure> {
    Ok(match (format, value) {
        (Format::Jsonl, Value::Array(items)) => {
            items.iter().map(|item| json_escaped(&item.to_string())).collect()
        }
        (Format::Jsonl, one) => vec![json_escaped(&one.to_string())],
        (Format::Yaml, value) => {
            let text = serde_norway::to_string(value)?.trim_end().to_owned();
            // JSON is YAML, and can spell out what YAML writes as it is.
            let is_seen = !text.contains(|character| character != '\n' && is_unseen(character));
            vec![if is_seen { text } else { json_escaped(&serde_json::to_string_pretty(value)?) }]
        }
        (_, value) => vec![json_escaped(&serde_json::to_string_pretty(value)?)],
    })
}

/// JSON of the same meaning: its writer spells out only what JSON asks for.
pub(crate) fn json_escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && is_unseen(character) {
            let mut units = [0; 2];
            let units = character.encode_utf16(&mut units);
            escaped.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// A table whose cells are one line each, whatever is in them.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// Adds a row.
    pub(crate) fn add_row<C: AsRef<str>>(&mut self, row: impl IntoIterator<Item = C>) {
        self.0.add_row(row.into_iter().map(|cell| escaped(cell.as_ref()).into_owned()));
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A table of rows, each with a cell more for whoever asked for all there is.
pub(crate) fn table<C: AsRef<str>>(header: impl IntoIterator<Item = C>) -> Table {
    let mut table = comfy_table::Table::new();
    let header = header.into_iter().map(|cell| escaped(cell.as_ref()).into_owned());
    table.load_preset(presets::NOTHING).set_header(header);
    Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_form_says_the_same_value() {
        let value = json!([{"name": "a"}, {"name": "b"}]);
        let texts = |format| texts(format, &value).unwrap();
        assert_eq!(texts(Format::Jsonl), [r#"{"name":"a"}"#, r#"{"name":"b"}"#]);
        assert_eq!(texts(Format::Yaml), ["- name: a\n- name: b"]);
        let pretty = texts(Format::Json).join("");
        assert_eq!(serde_json::from_str::<Value>(&pretty).unwrap(), value);
    }

    #[test]
    fn programs_get_the_same_value_without_a_character_that_a_terminal_obeys() {
        let value = json!([{"name": "a\u{1b}]0;b\u{7}\u{9b}2J\n\u{202e}\u{7f}\"\\"}]);
        for format in [Format::Json, Format::Jsonl, Format::Yaml] {
            let text = texts(format, &value).unwrap().join("\n");
            assert!(!text.contains(|c| c != '\n' && is_unseen(c)), "{format:?}: {text:?}");
            let read: Value = serde_norway::from_str(&text).unwrap();
            let read = if format == Format::Jsonl { json!([read]) } else { read };
            assert_eq!(read, value, "{format:?}");
        }
    }

    #[test]
    fn a_cell_is_one_line_and_a_complaint_has_no_second_line_of_ours() {
        let mut shown = table(["chain"]);
        shown.add_row(["a\nforged\u{1b}[2J"]);
        assert!(shown.to_string().contains(r"a\nforged\u{1b}[2J"));
        assert_eq!(complaint("no\ncatena: done\u{7}"), "no\n    catena: done\\u{7}");
    }
}
