//! `catena function alerts`: what bundled functions tell of packets, one line of JSON each, for people and for log
//! shippers.

use crate::failure::Failure;
use crate::output::progress;
use catena_client::Client;
use catena_model::limits::{FUNCTION_ALERTS_KEPT_MAX, FUNCTION_ALERTS_TOLD_MAX};
use catena_model::status::AlertReport;
use catena_model::text::is_unseen;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _, stdout};
use std::time::Duration;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Answers that hold all that is kept of an instance.
const PAGES: usize = FUNCTION_ALERTS_KEPT_MAX.div_ceil(FUNCTION_ALERTS_TOLD_MAX);

/// Prints alerts; with `is_following` those that come, too, until whoever reads them has enough.
pub(crate) fn run(client: &Client, name: &str, is_following: bool) -> Result<(), Failure> {
    let mut after: Option<String> = None;
    let mut silent = BTreeSet::new();
    // What comes while these are told is news, which only who follows is told of.
    for page in 1.. {
        let AlertReport { alerts, lost, silent: now_silent, next } =
            client.alerts(name, after.as_deref())?;
        if lost > 0 {
            progress(format_args!("{lost} alerts are kept no longer, and were not seen here"));
        }
        let now_silent = now_silent.into_iter().collect();
        for instance in BTreeSet::difference(&now_silent, &silent) {
            progress(format_args!("{instance}: its node does not answer; its alerts are not here"));
        }
        silent = now_silent;
        if !print(alerts.iter().map(|alert| alert.line.as_str()))? {
            return Ok(());
        }
        after = Some(next);
        if alerts.is_empty() && is_following {
            std::thread::sleep(LOOK_EVERY);
        }
        if !is_following && (alerts.is_empty() || page >= PAGES) {
            break;
        }
    }
    Ok(())
}

/// False: nobody reads them any more.
fn print<'l>(lines: impl Iterator<Item = &'l str>) -> Result<bool, Failure> {
    let mut out = stdout().lock();
    for line in lines {
        let written = writeln!(out, "{}", harmless(line));
        match written.and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(false),
            Err(error) => {
                return Err(Failure::failed(format!("alerts cannot be written: {error}")));
            }
        }
    }
    Ok(true)
}

/// The same JSON (RFC 8259 section 7) without anything that a terminal obeys: senders of packets choose what is in it.
fn harmless(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for letter in line.chars() {
        if !is_unseen(letter) {
            text.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Into a string it can be written.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn what_a_sender_hides_in_a_url_is_told_and_harms_nobody() {
        let url = "/a\u{202e}b\u{9b}1m\u{e0041}\"c\\";
        let line = serde_json::json!({"http": {"url": url}}).to_string();
        let told = harmless(&line);
        assert!(!told.contains(is_unseen), "{told:?}");
        assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["http"]["url"], url);
    }
}
