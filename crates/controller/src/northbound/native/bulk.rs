//! `POST /v1/bulk`: resources as they come, one JSON object a line, each answered by a line as soon as
//! it is durable. Knows lines and how many of them are held at one time; refuses to know what is in
//! them.

use super::problem::Problem;
use super::slices;
use crate::auth::Pass;
use crate::northbound::answers::{NDJSON, of_kind};
use crate::northbound::app::App;
use crate::northbound::body::{BODY_BYTES_MAX, Broken};
use crate::northbound::call::Asked;
use crate::northbound::seats::{NoSeat, Seat};
use crate::northbound::{hosts, networking_sfc};
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// Lines that are made together at most. Slices of them are one transaction: each waits for the
/// disk once, and so does each plan.
const BATCH_LINES_MAX: usize = 2_048;
/// Lines of other resources that one transaction holds at most.
const OTHER_LINES_MAX: usize = 64;
/// How long nothing of a request may come.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Requests of this kind at one time: each holds a connection for as long as it lasts.
const BULKS_MAX: usize = 32;
/// Of one project, where projects are told apart.
const BULKS_OF_PROJECT_MAX: usize = 8;
/// Pieces of the request that may wait while lines are made; the sender waits with the next.
const CHUNKS_MAX: usize = 16;
/// Answers that are sent together at most.
const ANSWERS_TOGETHER_MAX: usize = 64;
/// Such groups that may wait for a reader; the next lines wait with them.
const ANSWERS_MAX: usize = 16;

/// Makes resources as their lines come.
pub(super) fn answer(asked: Asked, body: Body) -> Response {
    // A browser sends any other kind of body for any page without asking us.
    if !asked.call.has_kind(NDJSON) {
        return Problem::not_ndjson().into_response();
    }
    let pass = Pass::new(&asked.app.guard, &asked.call.headers, asked.identity);
    begin(asked.app, pass, body).unwrap_or_else(Problem::into_response)
}

/// Answers at once; what is answered follows.
fn begin(app: Arc<App>, pass: Pass, body: Body) -> Result<Response, Problem> {
    let share = (!app.guard.is_open()).then_some(BULKS_OF_PROJECT_MAX);
    let seat = app.bulks.sit(&pass.identity().project, share, BULKS_MAX).map_err(|no_seat| {
        Problem::overloaded(match no_seat {
            NoSeat::Project => format!(
                "{BULKS_OF_PROJECT_MAX} others of your project send lines already; end one of them, \
                 or send more lines by it."
            ),
            NoSeat::All => format!("{BULKS_MAX} others send lines already; try again."),
        })
    })?;
    let (answers, receiver) = mpsc::channel(ANSWERS_MAX);
    let work = Work { app, pass, answers, done: 0, _seat: seat };
    tokio::spawn(work.run(body));
    let lines = Body::from_stream(ReceiverStream::new(receiver));
    Ok(of_kind(StatusCode::OK, NDJSON, lines))
}

/// One request.
struct Work {
    app: Arc<App>,
    pass: Pass,
    answers: mpsc::Sender<Result<Bytes, Infallible>>,
    /// Lines that have been answered.
    done: u64,
    _seat: Seat,
}

/// Why no further line is made.
#[derive(PartialEq, Eq)]
enum Over {
    /// Nobody reads the answers.
    Unread,
    /// A line is longer than a line may be.
    TooLong,
    /// The token of whoever sends them is not good any more.
    Ended,
}

impl Work {
    /// Goes on until the last line, a line that is too long, or until nobody reads the answers.
    async fn run(mut self, body: Body) {
        let (sender, mut chunks) = mpsc::channel(CHUNKS_MAX);
        // What comes while lines are made is made together.
        tokio::spawn(receive(body, sender));
        let mut lines = Lines::default();
        let mut came = Vec::new();
        loop {
            let count = tokio::select! {
                count = chunks.recv_many(&mut came, CHUNKS_MAX) => count,
                () = self.pass.ended() => return self.say_ended(),
            };
            if count == 0 {
                break;
            }
            let mut broken = None;
            for chunk in came.drain(..) {
                match chunk {
                    Ok(chunk) => lines.take(&chunk),
                    Err(why) => broken = Some(why),
                }
            }
            match self.create(&mut lines).await {
                Ok(()) => {}
                Err(Over::Unread) => return,
                Err(Over::Ended) => return self.say_ended(),
                // Who is still sending would not hear the answer: the rest is taken and left.
                Err(Over::TooLong) => {
                    while chunks.recv().await.is_some() {}
                    return;
                }
            }
            if let Some(why) = broken {
                let _ = self.refuse(why).await;
                return;
            }
        }
        lines.end();
        if self.create(&mut lines).await == Err(Over::Ended) {
            self.say_ended();
        }
    }

    /// Makes what is there of whole lines.
    async fn create(&mut self, lines: &mut Lines) -> Result<(), Over> {
        loop {
            let batch = lines.batch();
            if batch.is_empty() {
                break;
            }
            self.create_batch(batch).await?;
        }
        if lines.is_too_long() {
            self.refuse(Broken::TooLarge(BODY_BYTES_MAX)).await?;
            return Err(Over::TooLong);
        }
        Ok(())
    }

    /// Says why nothing more is read.
    async fn refuse(&mut self, why: Broken) -> Result<(), Over> {
        let (status, kind, problem) = match why {
            Broken::TooLarge(max) => (
                413,
                "HTTPRequestEntityTooLarge",
                format!("A line has at most {max} bytes; nothing after it is read."),
            ),
            Broken::Malformed => (
                400,
                "HTTPBadRequest",
                "The request broke off or is no HTTP from here on; lines before are made.".into(),
            ),
            Broken::Slow => (
                408,
                "HTTPRequestTimeout",
                format!("Nothing came for {} s; lines before are made.", SILENCE_MAX.as_secs()),
            ),
        };
        let error = json!({"type": kind, "message": problem, "detail": ""});
        let answer = [("status".to_owned(), json!(status)), ("NeutronError".to_owned(), error)];
        self.say(vec![answer.into_iter().collect()]).await
    }

    /// Lines of slices that stand together are made together, those between them likewise.
    async fn create_batch(&mut self, batch: Vec<Bytes>) -> Result<(), Over> {
        let mut lines = batch.into_iter().map(|line| (slices::of_line(&line), line)).peekable();
        while let Some((slice, line)) = lines.next() {
            if !self.pass.holds().await {
                return Err(Over::Ended);
            }
            let identity = self.pass.identity();
            let answers = match slice {
                Some(slice) => {
                    let mut together = vec![slice];
                    while let Some((Some(slice), _)) = lines.next_if(|(slice, _)| slice.is_some()) {
                        together.push(slice);
                    }
                    slices::create_all(&self.app, identity, together).await
                }
                None => {
                    let mut together = vec![line];
                    while together.len() < OTHER_LINES_MAX
                        && let Some((_, line)) = lines.next_if(|(slice, _)| slice.is_none())
                    {
                        together.push(line);
                    }
                    networking_sfc::create_all(&self.app, identity, &together).await
                }
            };
            self.say(answers).await?;
        }
        Ok(())
    }

    /// Sends a line for each answer; many lines together, where there are many.
    async fn say(&mut self, answers: Vec<Map<String, Value>>) -> Result<(), Over> {
        let mut answers = answers.into_iter().peekable();
        let situation =
            (!self.pass.identity().sees_all()).then(|| self.app.situation.borrow().clone());
        while answers.peek().is_some() {
            let mut lines = String::new();
            for mut answer in answers.by_ref().take(ANSWERS_TOGETHER_MAX) {
                self.done = self.done.saturating_add(1);
                if let Some(situation) = &situation {
                    hosts::hide_in_map(&mut answer, situation);
                }
                answer.insert("line".into(), json!(self.done));
                lines.push_str(&Value::Object(answer).to_string());
                lines.push('\n');
            }
            tokio::select! {
                said = self.answers.send(Ok(lines.into())) => said.map_err(|_| Over::Unread)?,
                () = self.pass.ended() => return Err(Over::Ended),
            }
        }
        Ok(())
    }

    /// Tells why the next line is not made. Who does not read is not waited for.
    fn say_ended(&self) {
        let message =
            "The token is not valid any more; this line and those after it were not made.";
        let error = json!({"type": "HTTPUnauthorized", "message": message, "detail": ""});
        let line = self.done.saturating_add(1);
        let answer = json!({"line": line, "status": 401, "NeutronError": error});
        // Nobody may wait for a reader without a token.
        let _ = self.answers.try_send(Ok(format!("{answer}\n").into()));
    }
}

/// Hands a request on, piece by piece, until nobody takes it.
async fn receive(body: Body, chunks: mpsc::Sender<Result<Bytes, Broken>>) {
    let mut body = body.into_data_stream();
    loop {
        let chunk = match tokio::time::timeout(SILENCE_MAX, body.next()).await {
            Ok(None) => return,
            Ok(Some(Ok(chunk))) => Ok(chunk),
            Ok(Some(Err(_))) => Err(Broken::Malformed),
            Err(_) => Err(Broken::Slow),
        };
        let is_over = chunk.is_err();
        if chunks.send(chunk).await.is_err() || is_over {
            return;
        }
    }
}

/// What has come and is not made yet: never more than so many chunks beyond the longest line.
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
