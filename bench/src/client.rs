//! A client that costs little: one connection that stays open, requests one after the other. Knows
//! as much of HTTP/1.1 as both servers speak; refuses to know any resource.

use crate::error::BenchError;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// A connection to one server.
pub(crate) struct Client {
    address: String,
    /// The header of each request that names the draft it concerns; empty: what is declared.
    draft: String,
    stream: Option<BufReader<TcpStream>>,
}

/// Status and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// A client of `host:port`.
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), draft: String::new(), stream: None }
    }

    /// The same, but every request concerns a draft of our controller.
    pub(crate) fn in_draft(address: &str, draft: &str) -> Self {
        Self { draft: format!("Catena-Draft: {draft}\r\n"), ..Self::new(address) }
    }

    /// One request. A connection that the server has closed is opened anew.
    pub(crate) fn call(
        &mut self,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, BenchError> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{}\r\n{body}",
            self.address,
            body.len(),
            self.draft
        );
        let was_open = self.stream.is_some();
        match self.exchange(&request) {
            // A server may close between two requests; nobody has read the request then.
            Err(error) if was_open && is_closed(&error) => {
                self.stream = None;
                self.exchange(&request)
            }
            outcome => outcome,
        }
        .map_err(|error| BenchError::Connection {
            address: self.address.clone(),
            reason: error.to_string(),
        })
    }

    /// One request that must succeed; its JSON answer.
    pub(crate) fn expect(
        &mut self,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, BenchError> {
        let answer = self.call(method, path, body)?;
        if !(200..300).contains(&answer.status) {
            return Err(BenchError::Answer {
                method,
                url: format!("http://{}{path}", self.address),
                status: answer.status,
                body: String::from_utf8_lossy(&answer.body).into_owned(),
            });
        }
        Ok(serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
    }

    fn exchange(&mut self, request: &str) -> std::io::Result<Answer> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWER_WAIT))?;
            self.stream = Some(BufReader::new(stream));
        }
        let Some(stream) = &mut self.stream else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        stream.get_mut().write_all(request.as_bytes())?;
        let (answer, is_last) = read(stream)?;
        if is_last {
            self.stream = None;
        }
        Ok(answer)
    }
}

fn is_closed(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as Kind;
    matches!(error.kind(), Kind::UnexpectedEof | Kind::ConnectionReset | Kind::BrokenPipe)
}

/// An answer, and whether the server closes after it.
fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<(Answer, bool)> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let status = line.split(' ').nth(1).and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let (mut length, mut is_last) = (None, line.starts_with("HTTP/1.0"));
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse::<usize>().ok(),
            "connection" => is_last = value.trim().eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    match length {
        Some(length) => {
            body.resize(length, 0);
            stream.read_exact(&mut body)?;
        }
        None if status == 204 => {}
        None => {
            stream.read_to_end(&mut body)?;
            is_last = true;
        }
    }
    Ok((Answer { status, body }, is_last))
}
