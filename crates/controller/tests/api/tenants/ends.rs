//! What a token began ends with it, and what one tenant leaves behind takes no other's place.

use crate::support::tokens::{Caller, start};
use crate::support::{Controller, PATIENCE};
use catena_controller::Auth;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A token and what its admin calls it.
fn token<'c>(admin: &Caller<'c>, request: &Value) -> (Caller<'c>, String) {
    let made = admin.call("POST", "/v1/tokens", Some(request)).json();
    let text = |key: &str| made[key].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    (Caller { controller: admin.controller, token: Some(text("secret")) }, text("id"))
}

fn delete(admin: &Caller<'_>, id: &str) {
    assert_eq!(admin.call("DELETE", &format!("/v1/tokens/{id}"), None).status, 204);
}

#[test]
fn an_open_watch_ends_with_the_token_that_opened_it() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let request = json!({"name": "deleted", "project": "p", "role": "operator"});
    let (deleted, id) = token(&admin, &request);
    let request = json!({"name": "expired", "project": "p", "role": "operator", "lifetime_s": 2});
    let (expired, _) = token(&admin, &request);
    let mut watches =
        [deleted.request("GET", "/v1/watch", None), expired.request("GET", "/v1/watch", None)];
    assert!(watches.iter().all(|watch| watch.status() == 200), "{watches:?}");
    delete(&admin, &id);
    // What is told from now on is not for them.
    admin.create("/v2.0/networks", &json!({"name": "afterwards"}));
    let mut told = String::new();
    // It ends by itself: else this fails when the client's patience is over.
    watches[0].read_to_string(&mut told).unwrap();
    assert!(!told.contains("afterwards"), "{told}");
    watches[1].read_to_string(&mut told).unwrap();
}

/// A request to `/v1/bulk` that goes on.
struct Bulk {
    socket: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Bulk {
    fn open(caller: &Caller<'_>) -> Self {
        Self::open_with(caller, "")
    }

    /// With more headers.
    fn open_with(caller: &Caller<'_>, more: &str) -> Self {
        let address = caller.controller.url.trim_start_matches("http://");
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST /v1/bulk HTTP/1.1\r\nHost: {address}\r\nX-Auth-Token: {}\r\n{more}\
             Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
            caller.token.as_deref().unwrap()
        );
        socket.write_all(head.as_bytes()).unwrap();
        let answers = BufReader::new(socket.try_clone().unwrap());
        Self { socket, answers }
    }

    fn send(&mut self, line: &Value) {
        let line = format!("{line}\n");
        // Who has been refused may have been left already.
        let _ = write!(self.socket, "{:x}\r\n{line}\r\n", line.len());
    }

    fn answer(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the answers have ended");
            if line.starts_with('{') {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }
}

#[test]
fn an_open_bulk_ends_with_its_token_and_makes_nothing_more() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let request = json!({"name": "t", "project": "p", "role": "tenant"});
    let (caller, id) = token(&admin, &request);
    let mut bulk = Bulk::open(&caller);
    bulk.send(&json!({"network": {"name": "before"}}));
    assert_eq!(bulk.answer()["status"], 201);
    delete(&admin, &id);
    bulk.send(&json!({"network": {"name": "after"}}));
    let ended = bulk.answer();
    assert_eq!((&ended["status"], &ended["line"]), (&json!(401), &json!(2)), "{ended}");
    let networks = admin.call("GET", "/v2.0/networks", None);
    assert!(networks.text.contains("before") && !networks.text.contains("after"), "{networks:?}");
    // One that only waits ends, too.
    let request = json!({"name": "brief", "project": "p", "role": "tenant", "lifetime_s": 1});
    let (caller, _) = token(&admin, &request);
    assert_eq!(Bulk::open(&caller).answer()["status"], 401);
}

/// What the controller says to a request of a line that it takes, or refuses.
fn begin(caller: &Caller<'_>) -> (Bulk, u16) {
    begun(Bulk::open(caller))
}

fn begun(mut bulk: Bulk) -> (Bulk, u16) {
    bulk.send(&json!({"network": {"name": "n"}}));
    let mut first = String::new();
    bulk.answers.read_line(&mut first).unwrap();
    let status = first.split(' ').nth(1).unwrap_or_else(|| panic!("{first}"));
    let status = status.parse().unwrap();
    (bulk, status)
}

#[test]
fn one_project_does_not_take_all_seats_of_those_who_send_lines() {
    const SHARE: usize = 8;
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let greedy = ["one", "two"].map(|name| admin.with_role(name, "greedy", "tenant"));
    let mut held: Vec<(Bulk, u16)> = (0..SHARE).map(|n| begin(&greedy[n % 2])).collect();
    assert!(held.iter().all(|(_, status)| *status == 200));
    let (mut refused, status) = begin(&greedy[0]);
    assert_eq!(status, 503);
    let mut told = String::new();
    while !told.contains("of your project") {
        assert!(refused.answers.read_line(&mut told).unwrap() > 0, "{told}");
    }
    // What is sent into a draft takes seats as all else does.
    let (_, draft) = open(&greedy[0]);
    let into_draft = format!("Catena-Draft: {draft}\r\n");
    assert_eq!(begun(Bulk::open_with(&greedy[0], &into_draft)).1, 503);
    let quiet = admin.with_role("q", "quiet", "tenant");
    assert_eq!(begin(&quiet).1, 200, "another's share is another's");
    // A seat is free again soon after its request has ended.
    drop(held.pop());
    let begun = std::time::Instant::now();
    while begin(&greedy[1]).1 != 200 {
        assert!(begun.elapsed() < PATIENCE, "the seat is not given back");
    }
}

/// Sends the head of a request whose body does not come.
fn begin_to_send(caller: &Caller<'_>) -> TcpStream {
    let address = caller.controller.url.trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).unwrap();
    let token = caller.token.as_deref().unwrap();
    let head = format!(
        "POST /v2.0/networks HTTP/1.1\r\nHost: {address}\r\nX-Auth-Token: {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket
}

#[test]
fn a_project_that_waits_for_answers_keeps_no_other_waiting() {
    const SHARE: usize = 64;
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let greedy = ["one", "two"].map(|name| admin.with_role(name, "greedy", "tenant"));
    let quiet = admin.with_role("q", "quiet", "tenant");
    let mut held: Vec<TcpStream> = (0..SHARE).map(|n| begin_to_send(&greedy[n % 2])).collect();
    let is_served = |caller: &Caller<'_>, path: &str| {
        let answer = caller.call("GET", path, None);
        assert!(answer.status == 200 || answer.text.contains("of your project"), "{answer:?}");
        answer.status == 200
    };
    let wait_until = |wanted: bool, path: &str| {
        let begun = std::time::Instant::now();
        while is_served(&greedy[0], path) != wanted {
            assert!(begun.elapsed() < PATIENCE, "{path}: never {wanted}");
        }
    };
    for path in ["/v2.0/networks", "/v1/chains"] {
        wait_until(false, path);
        assert!(is_served(&quiet, path), "another's share is another's");
    }
    drop(held.pop());
    wait_until(true, "/v1/chains");
}

fn open(caller: &Caller<'_>) -> (u16, String) {
    let answer = caller.call("POST", "/v1/plan", Some(&json!({})));
    (answer.status, answer.json()["draft"].as_str().unwrap_or_default().to_owned())
}

fn look(caller: &Caller<'_>, draft: &str) -> u16 {
    caller.call("GET", &format!("/v1/plan/{draft}"), None).status
}

#[test]
fn a_draft_is_its_makers_and_no_flood_of_others_ends_it() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let [maker, colleague, operator] = [("m", "tenant"), ("c", "tenant"), ("o", "operator")]
        .map(|(name, role)| admin.with_role(name, "own", role));
    let stranger = admin.with_role("s", "foreign", "tenant");
    let (_, kept) = open(&maker);
    assert_eq!(look(&maker, &kept), 200);
    for other in [&colleague, &operator, &stranger, &admin] {
        assert_eq!(look(other, &kept), 404);
        let path = format!("/v1/plan/{kept}");
        assert_eq!(other.call("DELETE", &path, None).status, 404);
        let apply = json!({"plan": null, "wait": false});
        assert_eq!(other.call("POST", &format!("{path}/apply"), Some(&apply)).status, 404);
    }
    // More than a project may have: each takes the place of an own one.
    let flood: Vec<(u16, String)> = (0..20).map(|_| open(&stranger)).collect();
    assert!(flood.iter().all(|(status, _)| *status == 201), "{flood:?}");
    let left = flood.iter().filter(|(_, draft)| look(&stranger, draft) == 200).count();
    assert_eq!((left, look(&maker, &kept)), (8, 200));
    // A colleague's do not either, nor do they find room where he has none.
    let limit = json!({"quota": {"draft": 1}});
    assert_eq!(admin.call("PUT", "/v2.0/quotas/own", Some(&limit)).status, 200);
    let refused = colleague.call("POST", "/v1/plan", Some(&json!({})));
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.text.contains("'draft'"), "{refused:?}");
    assert_eq!(look(&maker, &kept), 200);
}

#[test]
fn what_no_draft_holds_is_refused_where_a_request_names_one() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let (_, draft) = open(&admin);
    let (_, doomed) = token(&admin, &json!({"name": "x", "project": "p", "role": "viewer"}));
    let (http, url) = controller.raw();
    let quota = json!({"quota": {"network": 1}});
    let cases = [
        ("PUT", "/v2.0/quotas/p".to_owned(), quota),
        ("DELETE", "/v2.0/quotas/p".to_owned(), Value::Null),
        ("POST", "/v1/tokens".into(), json!({"name": "y", "project": "p", "role": "viewer"})),
        ("DELETE", format!("/v1/tokens/{doomed}"), Value::Null),
        ("PUT", "/v1/nodes/host1/injected".into(), json!([])),
        ("POST", "/v1/plan".into(), json!({})),
        ("POST", "/v1/chains/web/check".into(), json!({})),
        ("GET", "/v1/watch".into(), Value::Null),
    ];
    for (method, path, body) in cases {
        let request = http.request(method.parse().unwrap(), format!("{url}{path}")).json(&body);
        let request = request.header("X-Auth-Token", admin.token.as_deref().unwrap());
        let answer = request.header("Catena-Draft", &draft).send().unwrap();
        let (status, text) = (answer.status(), answer.text().unwrap());
        assert!(status == 400 && text.contains("Catena-Draft"), "{method} {path}: {status} {text}");
    }
    let tokens = admin.call("GET", "/v1/tokens", None);
    assert!(tokens.text.contains(&doomed) && !tokens.text.contains("\"y\""), "{tokens:?}");
    assert_eq!(admin.call("GET", "/v2.0/quotas/p", None).json()["quota"]["network"], 100);
}

#[test]
fn what_a_page_could_send_for_somebody_is_asked_for_its_content_type() {
    let data = tempfile::tempdir().unwrap();
    let controller: Controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let (http, url) = controller.raw();
    for path in ["/v1/plan", "/v1/chains/web/check"] {
        for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
            let request = http.post(format!("{url}{path}"));
            let request = request.header("X-Auth-Token", admin.token.as_deref().unwrap());
            let request = kind.into_iter().fold(request, |r, kind| r.header("Content-Type", kind));
            assert_eq!(request.send().unwrap().status(), 415, "{path} as {kind:?}");
        }
    }
    assert_eq!(admin.call("POST", "/v1/plan", Some(&json!({}))).status, 201);
}
