//! The way of log lines to standard error. Whatever is in one, it is one line and does nothing to the
//! terminal that shows it.

use catena_model::text::escaped;
use std::io::{Result, Write};

/// Writes each piece as one line; an event of the log comes in one piece.
pub(crate) struct OneLine<W>(pub(crate) W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, piece: &[u8]) -> Result<usize> {
        let text = String::from_utf8_lossy(piece);
        let (line, end) = match text.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (&*text, ""),
        };
        self.0.write_all(format!("{}{end}", escaped(line)).as_bytes())?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, piece: &[u8]) -> Result<usize> {
            self.0.lock().unwrap().write(piece)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_name_forges_no_line_of_the_log() {
        let kept = Kept::default();
        let writer = kept.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || OneLine(writer.clone()))
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(log, || {
            let name = "web\n2026-01-01T00:00:00Z  INFO all is well\r\u{1b}[2J\u{9b}1m";
            tracing::warn!(chain = name, "chain {name} cannot be planned");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line = text.strip_suffix('\n').unwrap();
        assert!(line.contains("all is well"), "{line}");
        assert!(!line.contains(catena_model::text::is_unseen), "{line:?}");
    }
}
