//! What may happen very often, told in the log once a second at most, with how often it was.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// From one line to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// Counts one kind of event. Copies count together.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Is somebody waiting to tell what comes?
    is_awaited: bool,
    /// What happened since the last line, and its sentence.
    untold: Option<(u64, String)>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// It happened: told at once, or with all others of this second. Within a runtime.
    pub(crate) fn note(&self, sentence: impl FnOnce(u64) -> String) {
        let mut state = self.state();
        if state.is_awaited {
            let count = state.untold.as_ref().map_or(0, |(count, _)| *count) + 1;
            state.untold = Some((count, sentence(count)));
            return;
        }
        state.is_awaited = true;
        drop(state);
        tracing::warn!("{}", sentence(1));
        tokio::spawn(self.clone().tell());
    }

    async fn tell(self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let mut state = self.state();
            let Some((_, sentence)) = state.untold.take() else {
                state.is_awaited = false;
                return;
            };
            drop(state);
            tracing::warn!("{sentence}");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Result, Write};

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
    fn a_flood_is_one_line_a_second_that_says_how_many() {
        let kept = Kept::default();
        let writer = kept.clone();
        let log = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        let _guard = tracing::subscriber::set_default(log);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let tally = Tally::new();
            for _ in 0..1_000 {
                tally.note(|count| format!("{count} came"));
            }
            while tally.state().is_awaited {
                tokio::time::sleep(INTERVAL / 10).await;
            }
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].ends_with(" 1 came") && lines[1].ends_with(" 999 came"), "{text}");
    }
}
