//! A controller that asks for tokens, and the tokens for it.

use super::{Controller, kind, open};
use catena_controller::Auth;
use catena_store::{Expect, Key, SqliteStore, Store, Transaction};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::Path;

/// The secret of the admin token that is in the store before the controller's first start.
pub const ADMIN: &str = "ad0000000000000000000000000000000000000000000000000000000000000d";

/// Puts the admin token into a store: what a first start would print is not for a test to read.
pub fn seed(data: &Path) {
    let sha256 = Sha256::digest(ADMIN.as_bytes()).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    let token = json!({"name": "admin", "project": "admin", "role": "admin", "sha256": sha256,
                       "created": 0, "expires": null});
    let mut transaction = Transaction::new();
    let key = Key::new("token", uuid::Uuid::new_v4());
    transaction.put(key, &token, Expect::Absent).unwrap();
    SqliteStore::open(data.join("catena.db")).unwrap().commit(transaction).unwrap();
}

/// A controller with the admin token.
pub fn start(data: &Path, auth: Auth) -> Controller {
    seed(data);
    let mut config = open(data);
    config.auth = auth;
    Controller::start(config)
}

/// Somebody who calls a controller; without token nobody.
#[derive(Clone)]
pub struct Caller<'c> {
    pub controller: &'c Controller,
    pub token: Option<String>,
}

/// What somebody was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// Type of a Neutron error or title of a problem.
    pub fn kind(&self) -> String {
        let body = self.json();
        body["title"].as_str().map_or_else(|| kind(&body).to_owned(), str::to_owned)
    }
}

impl<'c> Caller<'c> {
    pub fn admin(controller: &'c Controller) -> Self {
        Self { controller, token: Some(ADMIN.into()) }
    }

    /// The bearer of a new token.
    pub fn with_role(&self, name: &str, project: &str, role: &str) -> Self {
        let request = json!({"name": name, "project": project, "role": role});
        let made = self.call("POST", "/v1/tokens", Some(&request));
        assert_eq!(made.status, 201, "{made:?}");
        let secret = made.json()["secret"].as_str().unwrap().to_owned();
        Self { controller: self.controller, token: Some(secret) }
    }

    pub fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> reqwest::blocking::Response {
        self.made(method, path, body).send().unwrap()
    }

    fn made(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> reqwest::blocking::RequestBuilder {
        let (http, url) = self.controller.raw();
        let mut request = http.request(method.parse().unwrap(), format!("{url}{path}"));
        if let Some(token) = &self.token {
            request = request.header("X-Auth-Token", token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        request
    }

    /// Changes something in a draft.
    pub fn put_in_draft(&self, draft: &str, path: &str, body: &Value) -> Answer {
        let answer =
            self.made("PUT", path, Some(body)).header("Catena-Draft", draft).send().unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer { status, headers, text: answer.text().unwrap() }
    }

    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let answer = self.request(method, path, body);
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        // What goes on without end is not waited for.
        let is_endless =
            headers.get("content-type").is_some_and(|kind| kind == "application/x-ndjson");
        let text = if is_endless { String::new() } else { answer.text().unwrap() };
        Answer { status, headers, text }
    }

    /// Sends a text that is no JSON.
    pub fn send(&self, path: &str, text: &str) -> Answer {
        let (http, url) = self.controller.raw();
        let mut request = http.put(format!("{url}{path}"));
        if let Some(token) = &self.token {
            request = request.header("X-Auth-Token", token);
        }
        let request = request.header("Content-Type", "application/octet-stream");
        let answer = request.body(text.to_owned()).send().unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer { status, headers, text: answer.text().unwrap() }
    }

    /// Makes a resource of networking-sfc; its id.
    pub fn create(&self, path: &str, attributes: &Value) -> String {
        let body = json!({ super::singular(path): attributes });
        let made = self.call("POST", path, Some(&body));
        assert_eq!(made.status, 201, "{path} {body}: {made:?}");
        made.json()[super::singular(path)]["id"].as_str().unwrap().to_owned()
    }
}
