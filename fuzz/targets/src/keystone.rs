//! What a Keystone answers, good or not: whoever shows a token to the controller gets an answer, and no
//! fault of ours.

use crate::http::ask;
use crate::rest::controller;
use crate::seeds;
use catena_controller::{Auth, KeystoneConfig, KeystoneService};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// What Keystone answers about a token, by the first byte.
const STATUSES: [&str; 8] = [
    "200 OK",
    "404 Not Found",
    "401 Unauthorized",
    "403 Forbidden",
    "300 Multiple Choices",
    "500 Internal Server Error",
    "204 No Content",
    "999 Odd",
];

/// A Keystone of ours, and a controller that believes it.
struct House {
    controller: SocketAddr,
    /// Status and body of the next answers about tokens.
    about_tokens: Mutex<(&'static str, Vec<u8>)>,
    /// Body of the next answers to logins.
    to_logins: Mutex<Vec<u8>>,
}

/// The first byte chooses the status, the others are the body, or edits of a good one. About a token
/// and, where the controller's own is not good any more, to its login.
pub(crate) fn answers(bytes: &[u8]) {
    let Some((status, rest)) = bytes.split_first() else { return };
    let status = STATUSES[usize::from(*status) % STATUSES.len()];
    let edited = seeds::edited(good(), rest).to_string();
    for body in [rest, edited.as_bytes()] {
        *house().to_logins.lock().unwrap() = body.to_vec();
        show(status, body);
    }
}

/// Shows a token that nobody has shown before; answers the status.
fn show(status: &'static str, body: &[u8]) -> u16 {
    static SHOWN: AtomicU64 = AtomicU64::new(0);
    let house = house();
    *house.about_tokens.lock().unwrap() = (status, body.to_vec());
    let token = SHOWN.fetch_add(1, Ordering::Relaxed);
    let header = format!("X-Auth-Token: token-{token}\r\n");
    ask(house.controller, ("GET", "/v2.0/networks"), &header, &[]).status
}

fn good() -> Value {
    json!({"token": {
        "expires_at": "2999-01-01T00:00:00.000000Z",
        "issued_at": "2026-01-01T00:00:00.000000Z",
        "methods": ["password"],
        "user": {"id": "u", "name": "u", "domain": {"id": "default", "name": "Default"}},
        "project": {"id": "p", "name": "p", "domain": {"id": "default", "name": "Default"}},
        "roles": [{"id": "r", "name": "member"}],
    }})
}

fn house() -> &'static House {
    static HOUSE: OnceLock<House> = OnceLock::new();
    HOUSE.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || listener.incoming().flatten().for_each(|caller| serve(&caller)));
        let service = KeystoneService::Password {
            user: "catena".into(),
            password: "of no value".into(),
            project: "service".into(),
            domain: "Default".into(),
        };
        let config = KeystoneConfig::new(url, service);
        House {
            controller: controller(Auth::Keystone(Box::new(config))),
            about_tokens: Mutex::new((STATUSES[0], Vec::new())),
            to_logins: Mutex::new(good().to_string().into_bytes()),
        }
    })
}

/// Answers one request and closes.
fn serve(mut caller: &TcpStream) {
    let mut asked = Vec::new();
    let mut bytes = [0; 4_096];
    while !is_whole(&asked) {
        match caller.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(length) => asked.extend_from_slice(&bytes[..length]),
        }
    }
    let (status, body) = match asked.starts_with(b"POST") {
        true => ("201 Created", house().to_logins.lock().unwrap().clone()),
        false => house().about_tokens.lock().unwrap().clone(),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nX-Subject-Token: own\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // Who asked may be gone.
    let _ = caller.write_all(head.as_bytes()).and_then(|()| caller.write_all(&body));
}

/// Has the request come with its body?
fn is_whole(asked: &[u8]) -> bool {
    let text = String::from_utf8_lossy(asked).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0_usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_edited_is_good_before() {
        let good = good().to_string();
        assert_eq!(show("200 OK", good.as_bytes()), 200);
        assert_eq!(show("404 Not Found", b""), 401);
        assert_eq!(show("200 OK", b"{}"), 503);
    }
}
