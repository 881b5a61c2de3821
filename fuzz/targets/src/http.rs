//! One request to a server on loopback and its answer, byte by byte. Refuses to know what is asked.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any answer takes; beyond it the server depends.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Asks, with one more line for the head or none.
///
/// # Panics
/// When no answer comes, or one that blames the server.
pub(crate) fn ask(
    server: SocketAddr,
    (method, path): (&str, &str),
    header: &str,
    body: &[u8],
) -> Answer {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let kind = if path.ends_with("bulk") { "application/x-ndjson" } else { "application/json" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{header}\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // An answer may come, and the connection end, before a long body is read.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset && !answer.is_empty() => {}
        Err(error) => panic!("{method} {path}: no answer: {error}"),
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.unwrap_or_else(|| panic!("{method} {path}: the connection ended"));
    assert_ne!(status, 500, "{method} {path}: {answer}");
    Answer { status, body: body.to_owned() }
}
