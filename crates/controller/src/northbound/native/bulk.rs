//! `POST /v1/bulk`: resources as they come, one JSON object a line, each answered by a line as soon as
//! it is durable. Knows lines and how many of them are held at one time; refuses to know what is in
//! them.

use crate::auth::Identity;
use crate::northbound::{App, BODY_BYTES_MAX, networking_sfc};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// The media type of lines, and of the answers to them.
pub(super) const CONTENT_TYPE: &str = "application/x-ndjson";
/// Lines that one transaction holds at most.
const BATCH_LINES_MAX: usize = 64;
/// Answers that may wait for a reader; the next lines wait with them.
const ANSWERS_MAX: usize = 64;

/// Answers at once; what is answered follows.
pub(crate) fn answer(app: &Arc<App>, identity: Identity, body: Body) -> Response {
    let (answers, receiver) = mpsc::channel(ANSWERS_MAX);
    let work = Work { app: Arc::clone(app), identity, answers, done: 0 };
    tokio::spawn(work.run(body));
    let mut response = Response::new(Body::from_stream(ReceiverStream::new(receiver)));
    let kind = HeaderValue::from_static(CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// One request.
struct Work {
    app: Arc<App>,
    identity: Identity,
    answers: mpsc::Sender<Result<Bytes, Infallible>>,
    /// Lines that have been answered.
    done: u64,
}

/// Why no further line is made.
#[derive(PartialEq, Eq)]
enum Over {
    /// Nobody reads the answers.
    Unread,
    /// A line is longer than a line may be.
    TooLong,
}

impl Work {
    /// Goes on until the last line, a line that is too long, or until nobody reads the answers.
    async fn run(mut self, body: Body) {
        let mut chunks = body.into_data_stream();
        let mut lines = Lines::default();
        while let Some(Ok(chunk)) = chunks.next().await {
            lines.take(&chunk);
            match self.create(&mut lines).await {
                Ok(()) => {}
                Err(Over::Unread) => return,
                // Who is still sending would not hear the answer: the rest is taken and left.
                Err(Over::TooLong) => {
                    while let Some(Ok(_)) = chunks.next().await {}
                    return;
                }
            }
        }
        lines.end();
        let _ = self.create(&mut lines).await;
    }

    /// Makes what is there of whole lines.
    async fn create(&mut self, lines: &mut Lines) -> Result<(), Over> {
        loop {
            let batch = lines.batch();
            if batch.is_empty() {
                break;
            }
            for answer in networking_sfc::create_all(&self.app, &self.identity, &batch).await {
                self.say(answer).await?;
            }
        }
        if lines.is_too_long() {
            let problem =
                format!("A line has at most {BODY_BYTES_MAX} bytes; nothing after it is read.");
            let error =
                json!({"type": "HTTPRequestEntityTooLarge", "message": problem, "detail": ""});
            let answer = [("status".to_owned(), json!(413)), ("NeutronError".to_owned(), error)];
            self.say(answer.into_iter().collect()).await?;
            return Err(Over::TooLong);
        }
        Ok(())
    }

    async fn say(&mut self, mut answer: Map<String, Value>) -> Result<(), Over> {
        self.done = self.done.saturating_add(1);
        answer.insert("line".into(), json!(self.done));
        let mut line = Value::Object(answer).to_string();
        line.push('\n');
        self.answers.send(Ok(line.into())).await.map_err(|_| Over::Unread)
    }
}

/// What has come and is not made yet: never more than one chunk beyond the longest line.
#[derive(Default)]
struct Lines {
    whole: std::collections::VecDeque<Bytes>,
    rest: Vec<u8>,
}

impl Lines {
    fn take(&mut self, chunk: &[u8]) {
        let mut parts = chunk.split(|byte| *byte == b'\n');
        self.rest.extend_from_slice(parts.next().unwrap_or_default());
        for part in parts {
            self.end();
            self.rest.extend_from_slice(part);
        }
    }

    /// The line is over; one without anything in it is none.
    fn end(&mut self) {
        let line = std::mem::take(&mut self.rest);
        if !line.iter().all(u8::is_ascii_whitespace) {
            self.whole.push_back(line.into());
        }
    }

    fn batch(&mut self) -> Vec<Bytes> {
        let fitting = self.whole.iter().take_while(|line| line.len() <= BODY_BYTES_MAX);
        let count = fitting.take(BATCH_LINES_MAX).count();
        self.whole.drain(..count).collect()
    }

    /// Is what comes next longer than a line may be?
    fn is_too_long(&self) -> bool {
        self.rest.len() > BODY_BYTES_MAX || !self.whole.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let text = b"one\n\n two \nthree";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            lines.take(&text[..cut]);
            let mut seen = lines.batch();
            lines.take(&text[cut..]);
            seen.extend(lines.batch());
            lines.end();
            seen.extend(lines.batch());
            assert_eq!(seen, ["one", " two ", "three"], "cut at {cut}");
            assert!(!lines.is_too_long());
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_noticed_before_it_ends_and_after() {
        let long = vec![b'x'; BODY_BYTES_MAX + 1];
        let mut lines = Lines::default();
        lines.take(&long);
        assert!(lines.is_too_long());
        lines.take(b"\nnext");
        assert!(lines.batch().is_empty() && lines.is_too_long());
        let mut lines = Lines::default();
        lines.take(&[b"short\n", long.as_slice(), b"\n"].concat());
        assert_eq!(lines.batch(), ["short"]);
        assert!(lines.is_too_long(), "what follows a long line is not read");
    }

    #[test]
    fn a_batch_is_bounded() {
        let mut lines = Lines::default();
        lines.take(&b"{}\n".repeat(BATCH_LINES_MAX + 1));
        assert_eq!(lines.batch().len(), BATCH_LINES_MAX);
        assert_eq!(lines.batch().len(), 1);
    }
}
