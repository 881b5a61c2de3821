//! A real controller on loopback, a plain HTTP client, and agents that speak the real protocol over
//! mutual TLS but have no data plane.
#![allow(dead_code, unreachable_pub)]

pub mod agent;
pub mod lab;
pub mod tokens;

use catena_controller::{Auth, Config, ListenerSource};
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a test waits for something that must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A controller in this process.
pub struct Controller {
    pub url: String,
    pub southbound: SocketAddr,
    pub data: PathBuf,
    runtime: Option<tokio::runtime::Runtime>,
    http: reqwest::blocking::Client,
}

/// What a test changes of the configuration.
pub fn open(data: &Path) -> Config {
    let mut config = Config::new(ListenerSource::Bound(loopback()), data);
    config.southbound = Some(ListenerSource::Bound(loopback()));
    config.auth = Auth::None;
    config
}

pub fn loopback() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn address(source: &ListenerSource) -> SocketAddr {
    match source {
        ListenerSource::Bound(listener) => listener.local_addr().unwrap(),
        ListenerSource::Address(address) => *address,
    }
}

pub fn http() -> reqwest::blocking::Client {
    let builder = reqwest::blocking::Client::builder().no_proxy().timeout(PATIENCE);
    builder.build().unwrap()
}

impl Controller {
    pub fn start(config: Config) -> Self {
        let url = format!("http://{}", address(&config.api));
        let southbound = address(config.southbound.as_ref().unwrap());
        let data = config.data_dir.clone();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        runtime.spawn(async move {
            let end = catena_controller::run(config).await;
            panic!("the controller ended: {end:?}");
        });
        Self { url, southbound, data, runtime: Some(runtime), http: http() }
    }

    /// Ends it as a crash would: nothing is told to anybody.
    pub fn stop(mut self) {
        self.shut_down();
    }

    fn shut_down(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }

    /// One request: status and body (null when it has none).
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let method = method.parse().unwrap();
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub fn raw(&self) -> (&reqwest::blocking::Client, &str) {
        (&self.http, &self.url)
    }

    pub fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, None);
        assert_eq!(status, 200, "GET {path}: {body}");
        body
    }

    /// Creates a resource and returns it without its envelope.
    pub fn create(&self, path: &str, attributes: &Value) -> Value {
        let (status, body) = self.post(path, attributes);
        assert_eq!(status, 201, "POST {path} {attributes}: {body}");
        body
    }

    /// Posts a resource; the answer comes without its envelope.
    pub fn post(&self, path: &str, attributes: &Value) -> (u16, Value) {
        let singular = singular(path);
        let envelope = serde_json::json!({ singular: attributes });
        let (status, mut body) = self.call("POST", path, Some(&envelope));
        let inner = body.get_mut(singular).map(Value::take);
        (status, inner.unwrap_or(body))
    }

    /// Changes a resource; the answer comes without its envelope.
    pub fn put(&self, path: &str, attributes: &Value) -> (u16, Value) {
        let singular = singular(path.rsplit_once('/').unwrap().0);
        let envelope = serde_json::json!({ singular: attributes });
        let (status, mut body) = self.call("PUT", path, Some(&envelope));
        let inner = body.get_mut(singular).map(Value::take);
        (status, inner.unwrap_or(body))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Lets a test have a controller of its own.
pub fn with_controller(test: impl FnOnce(&Controller)) {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    test(&controller);
}

/// Key of one resource of a collection's path.
pub fn singular(path: &str) -> &str {
    path.rsplit('/').next().unwrap().strip_suffix('s').unwrap()
}

/// Type of a Neutron error.
pub fn kind(body: &Value) -> &str {
    body["NeutronError"]["type"].as_str().unwrap_or("no NeutronError")
}

/// Message of a Neutron error.
pub fn message(body: &Value) -> &str {
    body["NeutronError"]["message"].as_str().unwrap_or("no NeutronError")
}

/// Waits until something is so.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
