//! What verbs say on standard output. A reader that goes away (`catena status | head -1`) is the
//! end of a verb and no fault of it.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};

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
