//! What verbs say on standard output, in the form that was asked for. A reader that goes away
//! (`catena status | head -1`) is the end of a verb and no fault of it.

use crate::failure::Failure;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For people with wide terminals: identities, too.
    Wide,
    /// For programs.
    Json,
    /// For programs: one object a line.
    Jsonl,
    /// For files.
    Yaml,
}

/// Says one line.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Writes a line; without anybody to read it the process ends here, and without a word.
pub(crate) fn line(text: Arguments<'_>) {
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
                say!("{text}");
            }
        }
    }
    Ok(())
}

/// A value for programs.
fn texts(format: Format, value: &Value) -> Result<Vec<String>, Failure> {
    Ok(match (format, value) {
        (Format::Jsonl, Value::Array(items)) => items.iter().map(Value::to_string).collect(),
        (Format::Jsonl, one) => vec![one.to_string()],
        (Format::Yaml, value) => vec![serde_norway::to_string(value)?.trim_end().to_owned()],
        (_, value) => vec![serde_json::to_string_pretty(value)?],
    })
}

/// A table of rows, each with a cell more for whoever asked for all there is.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table
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
}
