//! Validation against a small server that answers as Keystone does.

use super::*;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use catena_model::ProjectId;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const PASSWORD: &str = "sesame";

/// What the server knows and what it was asked.
#[derive(Default)]
struct Server {
    /// Body of the answer about each token.
    subjects: Mutex<HashMap<String, Value>>,
    logins: AtomicUsize,
    validations: AtomicUsize,
    /// Its own tokens up to this one are over.
    logins_over: AtomicUsize,
    may_not_validate: AtomicBool,
    is_broken: AtomicBool,
}

fn until(seconds: u64) -> String {
    wall_clock::text(wall_clock::now() + seconds).replace('Z', ".000000Z")
}

async fn answer(State(server): State<Arc<Server>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    assert_eq!(head.uri.path(), "/v3/auth/tokens");
    if server.is_broken.load(Ordering::SeqCst) {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    if head.method == Method::POST {
        let body: Bytes = axum::body::to_bytes(body, 10_000).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let user = &body["auth"]["identity"]["password"]["user"];
        let number = server.logins.fetch_add(1, Ordering::SeqCst) + 1;
        if (&user["name"], &user["password"]) != (&json!("catena"), &json!(PASSWORD)) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        assert_eq!(body["auth"]["scope"]["project"]["name"], "service");
        let body = json!({"token": {"expires_at": until(3_600)}}).to_string();
        return (StatusCode::CREATED, [("x-subject-token", format!("own-{number}"))], body)
            .into_response();
    }
    server.validations.fetch_add(1, Ordering::SeqCst);
    let header = |name: &str| head.headers[name].to_str().unwrap().to_owned();
    let own: usize = header("x-auth-token").strip_prefix("own-").unwrap().parse().unwrap();
    if own <= server.logins_over.load(Ordering::SeqCst) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if server.may_not_validate.load(Ordering::SeqCst) {
        return StatusCode::FORBIDDEN.into_response();
    }
    // Whoever asks for the same token meanwhile must find this question under way.
    tokio::time::sleep(Duration::from_millis(20)).await;
    match server.subjects.lock().unwrap().get(&header("x-subject-token")) {
        Some(body) => body.to_string().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

impl Server {
    async fn start() -> (Arc<Self>, String, tokio::task::JoinHandle<()>) {
        let server = Arc::new(Self::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&server));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (server, url, task)
    }

    fn knows(&self, token: &str, project: Option<&str>, roles: &[&str], expires: &str) {
        let roles: Vec<Value> = roles.iter().map(|role| json!({"name": role})).collect();
        let mut body = json!({"token": {"expires_at": expires, "roles": roles}});
        if let Some(project) = project {
            body["token"]["project"] = json!({"id": project, "name": "a name"});
        }
        self.subjects.lock().unwrap().insert(token.into(), body);
    }

    fn validations(&self) -> usize {
        self.validations.load(Ordering::SeqCst)
    }
}

fn config(url: &str, password: &str) -> KeystoneConfig {
    let word = |text: &str| text.to_owned();
    let service = KeystoneService::Password {
        user: word("catena"),
        password: word(password),
        project: word("service"),
        domain: word("Default"),
    };
    KeystoneConfig::new(url, service)
}

fn keystone(url: &str) -> Keystone {
    Keystone::new(config(url, PASSWORD)).unwrap()
}

fn identity(project: &str, role: Role) -> Identity {
    Identity { project: ProjectId(project.into()), role }
}

fn is_unauthenticated(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Unauthenticated { challenge, .. } if challenge.starts_with("Keystone uri="))
}

#[tokio::test]
async fn a_token_stands_for_its_project_and_the_highest_of_its_roles() {
    let (server, url, _) = Server::start().await;
    let keystone = keystone(&format!("{url}/v3/"));
    for (token, roles, expected) in [
        ("t1", &["reader"][..], Some(Role::Viewer)),
        ("t2", &["reader", "MEMBER", "creator"], Some(Role::Tenant)),
        ("t3", &["member", "manager"], Some(Role::Operator)),
        ("t4", &["service"], Some(Role::Operator)),
        ("t5", &["admin", "member", "reader"], Some(Role::Admin)),
        ("t6", &["creator"], None),
        ("t7", &[], None),
    ] {
        server.knows(token, Some("p1"), roles, &until(600));
        match (keystone.identify(token).await, expected) {
            (Ok(found), Some(role)) => assert_eq!(found, identity("p1", role), "{token}"),
            (Err(Refusal::Forbidden(text)), None) => assert!(text.contains("member"), "{text}"),
            (other, _) => panic!("{token}: {other:?}"),
        }
    }
    assert_eq!(server.logins.load(Ordering::SeqCst), 1, "one login serves all");
}

#[tokio::test]
async fn what_is_unknown_over_or_for_no_project_is_unauthenticated() {
    let (server, url, _) = Server::start().await;
    let keystone = keystone(&url);
    server.knows("unscoped", None, &["member"], &until(600));
    server.knows("over", Some("p1"), &["member"], "2020-01-01T00:00:00.000000Z");
    for token in ["unknown", "unscoped", "over", "with space", ""] {
        let refusal = keystone.identify(token).await.unwrap_err();
        assert!(is_unauthenticated(&refusal), "{token}: {refusal:?}");
    }
    let refusal = keystone.identify("unscoped").await.unwrap_err();
    assert!(refusal.to_string().contains("no project"), "{refusal}");
    // Bad tokens are not asked for again at once.
    let asked = server.validations();
    assert!(keystone.identify("unknown").await.is_err());
    assert_eq!(server.validations(), asked);
}

#[tokio::test]
async fn a_revoked_token_opens_nothing_once_the_answer_is_no_longer_believed() {
    let (server, url, _) = Server::start().await;
    let believing = keystone(&url);
    let doubting =
        Keystone::new(KeystoneConfig { remember: Duration::ZERO, ..config(&url, PASSWORD) })
            .unwrap();
    server.knows("t", Some("p1"), &["member"], &until(600));
    assert!(believing.identify("t").await.is_ok());
    assert!(doubting.identify("t").await.is_ok());
    server.subjects.lock().unwrap().clear();
    assert!(believing.identify("t").await.is_ok(), "its answer is younger than a minute");
    assert!(is_unauthenticated(&doubting.identify("t").await.unwrap_err()));
    let endless = KeystoneConfig { remember: Duration::MAX, ..config(&url, PASSWORD) };
    assert_eq!(Keystone::new(endless).unwrap().remember, KEYSTONE_REMEMBER_MAX);
    // A token that ends before the minute does is believed until then.
    let scoped = |expires| {
        let project = ProjectId("p1".into());
        Subject::Scoped(Scoped { project, roles: vec!["member".into()], expires })
    };
    assert!(believing.judge(scoped(wall_clock::now() + 10)).1 <= Duration::from_secs(10));
    assert_eq!(believing.judge(scoped(wall_clock::now() + 900)).1, KEYSTONE_REMEMBER_MAX);
}

#[tokio::test]
async fn many_who_show_one_token_at_once_cost_one_question() {
    let (server, url, _) = Server::start().await;
    let keystone = Arc::new(keystone(&url));
    server.knows("t", Some("p1"), &["member"], &until(600));
    let askers: Vec<_> = (0..64)
        .map(|_| {
            let keystone = Arc::clone(&keystone);
            tokio::spawn(async move { keystone.identify("t").await })
        })
        .collect();
    for asker in askers {
        assert_eq!(asker.await.unwrap().unwrap(), identity("p1", Role::Tenant));
    }
    assert_eq!((server.validations(), server.logins.load(Ordering::SeqCst)), (1, 1));
    // Who hangs up leaves nothing that others would wait for.
    let hasty = tokio::time::timeout(Duration::from_millis(1), keystone.identify("u")).await;
    assert!(hasty.is_err());
    assert!(is_unauthenticated(&keystone.identify("u").await.unwrap_err()));
    keystone.flight([0; 32]);
    assert_eq!(keystone.flights.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_own_token_is_renewed_when_it_is_over() {
    let (server, url, _) = Server::start().await;
    let keystone = keystone(&url);
    server.knows("t1", Some("p1"), &["member"], &until(600));
    server.knows("t2", Some("p2"), &["member"], &until(600));
    assert!(keystone.identify("t1").await.is_ok());
    server.logins_over.store(1, Ordering::SeqCst);
    assert_eq!(keystone.identify("t2").await.unwrap(), identity("p2", Role::Tenant));
    assert_eq!(server.logins.load(Ordering::SeqCst), 2);
    // When that does not help it is no fault of who asks.
    server.logins_over.store(usize::MAX, Ordering::SeqCst);
    let refusal = keystone.identify("t3").await.unwrap_err();
    assert!(matches!(refusal, Refusal::Unavailable(_)), "{refusal:?}");
}

#[tokio::test]
async fn a_wrong_password_of_the_controller_is_said_to_be_its_own_fault_and_tried_once() {
    let (server, url, _) = Server::start().await;
    let wrong = Keystone::new(config(&url, "guess")).unwrap();
    for token in ["t1", "t2", "t3"] {
        let refusal = wrong.identify(token).await.unwrap_err();
        let Refusal::Unavailable(text) = refusal else { panic!("{refusal:?}") };
        assert!(text.contains("--keystone") && !text.contains("guess"), "{text}");
    }
    assert_eq!(server.logins.load(Ordering::SeqCst), 1, "more could lock the user");
    assert!(!format!("{:?}", config(&url, "guess")).contains("guess"));
    server.may_not_validate.store(true, Ordering::SeqCst);
    let refusal = keystone(&url).identify("t").await.unwrap_err();
    assert!(matches!(refusal, Refusal::Unavailable(_)), "{refusal:?}");
}

#[tokio::test]
async fn while_it_is_down_known_tokens_pass_and_others_hear_why_not() {
    let (server, url, task) = Server::start().await;
    let keystone = keystone(&url);
    server.knows("known", Some("p1"), &["member"], &until(600));
    assert!(keystone.identify("known").await.is_ok());
    server.is_broken.store(true, Ordering::SeqCst);
    let refusal = keystone.identify("new").await.unwrap_err();
    assert!(matches!(&refusal, Refusal::Unavailable(text) if text.contains("500")), "{refusal:?}");
    task.abort();
    let _ = task.await;
    for token in ["new", "another"] {
        let refusal = keystone.identify(token).await.unwrap_err();
        let Refusal::Unavailable(text) = refusal else { panic!("{refusal:?}") };
        assert!(text.contains(&url) && text.contains("does not answer"), "{text}");
    }
    assert_eq!(keystone.identify("known").await.unwrap(), identity("p1", Role::Tenant));
}

#[tokio::test]
async fn a_token_in_a_file_serves_and_is_read_again_when_it_is_not_good_any_more() {
    let (server, url, _) = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "own-1\n").unwrap();
    let service = KeystoneService::TokenFile(file.clone());
    let keystone = Keystone::new(KeystoneConfig::new(&url, service)).unwrap();
    server.knows("t1", Some("p1"), &["member"], &until(600));
    server.knows("t2", Some("p1"), &["member"], &until(600));
    assert!(keystone.identify("t1").await.is_ok());
    server.logins_over.store(1, Ordering::SeqCst);
    std::fs::write(&file, "own-2\n").unwrap();
    assert!(keystone.identify("t2").await.is_ok());
    assert_eq!(server.logins.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_address_that_cannot_be_asked_is_refused_at_start() {
    for (url, said) in [("https://k:5000", "TLS"), ("keystone", "relative URL"), ("", "relative")] {
        let error = Keystone::new(config(url, PASSWORD)).err().unwrap().to_string();
        assert!(error.contains(said) && error.contains("--keystone-url"), "{error}");
    }
}
