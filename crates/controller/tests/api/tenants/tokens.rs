//! Tokens over HTTP: made, shown once, kept over restarts, deleted.

use crate::support::tokens::{ADMIN, Caller, start};
use crate::support::{Controller, eventually, open};
use catena_controller::Auth;
use serde_json::{Value, json};

#[test]
fn a_token_is_shown_once_kept_as_a_hash_and_deleted_with_the_next_request() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let request = json!({"name": "ci", "project": "web", "role": "tenant"});
    let made = admin.call("POST", "/v1/tokens", Some(&request)).json();
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert_eq!((&made["name"], &made["project"]), (&json!("ci"), &json!("web")), "{made}");
    assert_eq!((secret.len(), &made["expires"]), (64, &Value::Null));
    let listed = admin.call("GET", "/v1/tokens", None);
    assert!(listed.text.contains("\"ci\"") && !listed.text.contains(&secret), "{listed:?}");
    let caller = Caller { controller: &controller, token: Some(secret.clone()) };
    caller.create("/v2.0/networks", &json!({"name": "mine"}));
    assert_eq!(caller.call("GET", "/v1/tokens", None).status, 403);
    controller.stop();

    let stored = std::fs::read(data.path().join("catena.db")).unwrap();
    let has = |needle: &str| stored.windows(needle.len()).any(|part| part == needle.as_bytes());
    assert!(has("\"ci\"") && !has(&secret), "the hash alone is on disk");
    let mut config = open(data.path());
    config.auth = Auth::Token;
    let controller = Controller::start(config);
    let caller = Caller { controller: &controller, token: Some(secret) };
    let networks = caller.call("GET", "/v2.0/networks", None);
    assert!(networks.status == 200 && networks.text.contains("mine"), "{networks:?}");
    let admin = Caller::admin(&controller);
    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(admin.call("DELETE", &path, None).status, 204);
    assert_eq!(caller.call("GET", "/v2.0/networks", None).status, 401);
    assert_eq!(admin.call("DELETE", &path, None).status, 404);
}

#[test]
fn a_token_with_an_end_is_good_for_nothing_after_it() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let make = |name: &str, lifetime: u64| {
        let request =
            json!({"name": name, "project": "web", "role": "viewer", "lifetime_s": lifetime});
        let made = admin.call("POST", "/v1/tokens", Some(&request)).json();
        assert!(made["expires"].as_str().unwrap().ends_with('Z'), "{made}");
        let token = made["secret"].as_str().map(str::to_owned);
        Caller { controller: &controller, token }
    };
    let (brief, long) = (make("brief", 1), make("long", 1_000_000));
    eventually("the end of the token", || {
        (brief.call("GET", "/v2.0/networks", None).status == 401).then_some(())
    });
    assert_eq!(long.call("GET", "/v2.0/networks", None).status, 200);
}

#[test]
fn what_is_no_request_for_a_token_is_refused_by_name() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let post = |body: Value| admin.call("POST", "/v1/tokens", Some(&body));
    for (body, status, said) in [
        (json!({"name": "a", "project": "p", "role": "king"}), 400, "king"),
        (json!({"name": "a", "project": "p"}), 400, "role"),
        (json!({"name": "", "project": "p", "role": "viewer"}), 400, "name"),
        (json!({"name": "a", "project": "", "role": "viewer"}), 400, "project"),
        (json!({"name": "a", "project": "p", "role": "viewer", "secret": "x"}), 400, "secret"),
        (json!({"name": "a", "project": "p", "role": "viewer", "lifetime_s": 0}), 400, "second"),
        (json!({"name": "admin", "project": "p", "role": "viewer"}), 409, "'admin' exists"),
    ] {
        let answer = post(body);
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(said), "{said}: {answer:?}");
    }
    let answer = admin.call("DELETE", "/v1/tokens/nothing", None);
    assert!(answer.status == 404 && answer.text.contains("catena token list"), "{answer:?}");
    // Either header carries one.
    let (http, url) = controller.raw();
    let bearer = http.get(format!("{url}/v1/tokens")).bearer_auth(ADMIN).send().unwrap();
    assert_eq!(bearer.status(), 200);
}

#[test]
fn a_draft_of_another_project_is_as_absent_as_one_that_is_not_there() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let (own, other) =
        (admin.with_role("a", "own", "tenant"), admin.with_role("b", "other", "tenant"));
    let made = own.call("POST", "/v1/plan", Some(&json!({}))).json();
    let draft = made["draft"].as_str().unwrap().to_owned();
    let (http, url) = controller.raw();
    let in_draft = |caller: &Caller<'_>| {
        let request = http.get(format!("{url}/v2.0/networks")).header("Catena-Draft", &draft);
        let request = request.header("X-Auth-Token", caller.token.as_deref().unwrap());
        request.send().unwrap().status().as_u16()
    };
    assert_eq!((in_draft(&own), in_draft(&other), in_draft(&admin)), (200, 404, 404));
}
