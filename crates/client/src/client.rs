//! The requests.

use crate::error::ClientError;
use catena_model::Event;
use catena_model::check::CheckReport;
use catena_model::explain::{ExplainQuery, ExplainReport};
use catena_model::resource::FailurePolicy;
use catena_model::status::{ChainReport, ChainSummary, FunctionReport, InstanceReport, NodeReport};
use reqwest::Method;
use reqwest::blocking::{RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::time::Duration;

/// Longer than the longest answer of the controller: a chain request waits five seconds for nodes.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// How long one connection watches at most.
const WATCH_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A kind of resource of the networking-sfc border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tenant network.
    Network,
    /// Address range of a network.
    Subnet,
    /// Attachment to a network.
    Port,
    /// Classification rule.
    FlowClassifier,
    /// Instance of a function.
    PortPair,
    /// Function with its instances.
    PortPairGroup,
    /// Chain.
    PortChain,
}

impl Kind {
    /// The key of a single resource's envelope.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Subnet => "subnet",
            Self::Port => "port",
            Self::FlowClassifier => "flow_classifier",
            Self::PortPair => "port_pair",
            Self::PortPairGroup => "port_pair_group",
            Self::PortChain => "port_chain",
        }
    }

    /// The path of the collection.
    fn path(self) -> String {
        let key = self.key();
        match self {
            Self::Network | Self::Subnet | Self::Port => format!("/v2.0/{key}s"),
            _ => format!("/v2.0/sfc/{key}s"),
        }
    }
}

/// What proves who asks. It never shows in a log.
#[derive(Clone)]
struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// A connection to one controller.
#[derive(Clone, Debug)]
pub struct Client {
    base: String,
    token: Option<Token>,
    /// The draft that its requests concern; none: what is declared.
    draft: Option<String>,
    http: reqwest::blocking::Client,
}

impl Client {
    /// A client of the controller at a base URL such as `http://127.0.0.1:9696`.
    ///
    /// # Errors
    /// When the HTTP library cannot start.
    pub fn new(base: impl Into<String>, token: Option<String>) -> Result<Self, ClientError> {
        let base: String = base.into().trim_end_matches('/').into();
        let http = reqwest::blocking::Client::builder().timeout(ANSWER_WAIT).no_proxy().build();
        let http = http.map_err(|error| ClientError::Unreachable {
            url: base.clone(),
            reason: error.to_string(),
        })?;
        Ok(Self { base, token: token.map(Token), draft: None, http })
    }

    /// The same, but every request concerns a draft.
    pub(crate) fn in_draft(&self, id: &str) -> Self {
        Self { draft: Some(id.into()), ..self.clone() }
    }

    /// The base URL.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Creates a resource; answers it as the controller made it.
    ///
    /// # Errors
    /// When the controller refuses or does not answer.
    pub fn create(&self, kind: Kind, attributes: &Value) -> Result<Value, ClientError> {
        let body = envelope(kind, attributes);
        unwrap(kind, self.request(Method::POST, &kind.path(), Some(&body))?)
    }

    /// Changes attributes of a resource.
    ///
    /// # Errors
    /// When the controller refuses or does not answer.
    pub fn update(&self, kind: Kind, id: &str, attributes: &Value) -> Result<Value, ClientError> {
        let path = format!("{}/{}", kind.path(), escape(id));
        let body = envelope(kind, attributes);
        unwrap(kind, self.request(Method::PUT, &path, Some(&body))?)
    }

    /// One resource by id.
    ///
    /// # Errors
    /// When the controller refuses or does not answer.
    pub fn show(&self, kind: Kind, id: &str) -> Result<Value, ClientError> {
        let path = format!("{}/{}", kind.path(), escape(id));
        unwrap(kind, self.request(Method::GET, &path, None)?)
    }

    /// Deletes a resource by id.
    ///
    /// # Errors
    /// When the controller refuses or does not answer.
    pub fn delete(&self, kind: Kind, id: &str) -> Result<(), ClientError> {
        let path = format!("{}/{}", kind.path(), escape(id));
        self.request(Method::DELETE, &path, None).map(|_| ())
    }

    /// All resources of a kind that have the given attribute values.
    ///
    /// # Errors
    /// When the controller refuses or does not answer.
    pub fn list(&self, kind: Kind, filters: &[(&str, &str)]) -> Result<Vec<Value>, ClientError> {
        let mut url = reqwest::Url::parse(&format!("{}{}", self.base, kind.path()))
            .map_err(|error| self.unreachable(&error))?;
        if !filters.is_empty() {
            url.query_pairs_mut().extend_pairs(filters);
        }
        let mut answer: Value = self.send(Method::GET, url, None)?;
        match answer.get_mut(format!("{}s", kind.key())).map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            _ => Err(unexpected(kind.key(), "its list is missing")),
        }
    }

    /// One resource by name or id.
    ///
    /// # Errors
    /// When none or several have the name.
    pub fn find(&self, kind: Kind, name: &str) -> Result<Value, ClientError> {
        let mut named = self.list(kind, &[("name", name)])?;
        match named.len() {
            0 => self.show(kind, name).map_err(|error| match error {
                error if error.is_not_found() => {
                    ClientError::NotFound { kind: kind.key(), name: name.into() }
                }
                other => other,
            }),
            1 => Ok(named.remove(0)),
            count => Err(ClientError::Ambiguous { kind: kind.key(), name: name.into(), count }),
        }
    }

    /// The state of every chain.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn chains(&self) -> Result<Vec<ChainSummary>, ClientError> {
        self.get("/v1/chains")
    }

    /// State and fresh counters of a chain by name or id.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn chain(&self, name: &str) -> Result<ChainReport, ClientError> {
        self.get(&format!("/v1/chains/{}", escape(name)))
    }

    /// Every service function.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn functions(&self) -> Result<Vec<FunctionReport>, ClientError> {
        self.get("/v1/functions")
    }

    /// Declares what becomes of packets when an instance of a function dies.
    ///
    /// # Errors
    /// When there is no such function, or the controller refuses.
    pub fn set_failure_policy(
        &self,
        function: &str,
        policy: FailurePolicy,
    ) -> Result<FunctionReport, ClientError> {
        let path = format!("/v1/functions/{}", escape(function));
        self.patch(&path, &json!({"on_failure": policy}))
    }

    /// Every instance of every service function.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn instances(&self) -> Result<Vec<InstanceReport>, ClientError> {
        self.get("/v1/instances")
    }

    /// One instance by name or id.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn instance(&self, name: &str) -> Result<InstanceReport, ClientError> {
        self.get(&format!("/v1/instances/{}", escape(name)))
    }

    /// Lets an instance take no new flow, or take some again.
    ///
    /// # Errors
    /// When there is no such instance, or nobody could take its place.
    pub fn set_draining(
        &self,
        instance: &str,
        is_draining: bool,
    ) -> Result<InstanceReport, ClientError> {
        let path = format!("/v1/instances/{}", escape(instance));
        self.patch(&path, &json!({"is_draining": is_draining}))
    }

    /// State and fresh counters of every node.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn nodes(&self) -> Result<Vec<NodeReport>, ClientError> {
        self.get("/v1/nodes")
    }

    /// Hands every event to `each`, first those that tell how things stand, until it breaks off or
    /// the controller goes away.
    ///
    /// # Errors
    /// When the controller refuses, does not answer, falls silent or ends.
    pub fn watch(&self, mut each: impl FnMut(Event) -> ControlFlow<()>) -> Result<(), ClientError> {
        let url = reqwest::Url::parse(&format!("{}/v1/watch", self.base))
            .map_err(|error| self.unreachable(&error))?;
        let answer = self.exchange(self.http.get(url).timeout(WATCH_MAX))?;
        for line in BufReader::new(answer).lines() {
            let line = line.map_err(|error| self.unreachable(&error))?;
            // An empty line only says that the controller is still there.
            if line.is_empty() {
                continue;
            }
            let event = serde_json::from_str(&line)
                .map_err(|error| unexpected("GET /v1/watch", &error.to_string()))?;
            if each(event).is_break() {
                return Ok(());
            }
        }
        Err(ClientError::Unreachable {
            url: self.base.clone(),
            reason: "it ended while we watched".into(),
        })
    }

    /// What probes meet along the paths of a chain, named or by id.
    ///
    /// # Errors
    /// When there is no such chain, or its first node does not answer.
    pub fn check_chain(&self, name: &str) -> Result<CheckReport, ClientError> {
        let path = format!("/v1/chains/{}/check", escape(name));
        let answer = self.request(Method::POST, &path, None)?;
        serde_json::from_value(answer).map_err(|error| unexpected(&path, &error.to_string()))
    }

    /// What the data planes would do with a packet.
    ///
    /// # Errors
    /// When the question makes no sense, or the first node or the controller does not answer.
    pub fn explain(&self, query: &ExplainQuery) -> Result<ExplainReport, ClientError> {
        const PATH: &str = "/v1/explain";
        let body = serde_json::to_value(query);
        let body = body.map_err(|error| unexpected(PATH, &error.to_string()))?;
        let answer = self.request(Method::POST, PATH, Some(&body))?;
        serde_json::from_value(answer).map_err(|error| unexpected(PATH, &error.to_string()))
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let answer = self.request(Method::GET, path, None)?;
        serde_json::from_value(answer).map_err(|error| unexpected(path, &error.to_string()))
    }

    fn patch<T: DeserializeOwned>(&self, path: &str, change: &Value) -> Result<T, ClientError> {
        let answer = self.request(Method::PATCH, path, Some(change))?;
        serde_json::from_value(answer).map_err(|error| unexpected(path, &error.to_string()))
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let url = reqwest::Url::parse(&format!("{}{path}", self.base))
            .map_err(|error| self.unreachable(&error))?;
        self.send(method, url, body)
    }

    fn send(
        &self,
        method: Method,
        url: reqwest::Url,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let what = format!("{method} {}", url.path());
        let mut request = self.http.request(method, url);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = self.exchange(request)?;
        let text = answer.text().map_err(|error| self.unreachable(&error))?;
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).map_err(|error| unexpected(&what, &error.to_string()))
    }

    /// Sends a request with the token; what is no success is an error in the server's words.
    fn exchange(&self, mut request: RequestBuilder) -> Result<Response, ClientError> {
        if let Some(Token(token)) = &self.token {
            request = request.header("X-Auth-Token", token);
        }
        if let Some(draft) = &self.draft {
            request = request.header("Catena-Draft", draft);
        }
        let answer = request.send().map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let text = answer.text().map_err(|error| self.unreachable(&error))?;
        Err(ClientError::from_answer(status.as_u16(), &text))
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> ClientError {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            reason = cause.to_string();
            source = cause.source();
        }
        ClientError::Unreachable { url: self.base.clone(), reason }
    }
}

/// Percent-encoding of a path segment (RFC 3986 section 2.1): a name never changes the path.
fn escape(segment: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let part = |byte: u8| {
        if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    segment.bytes().map(part).collect()
}

fn envelope(kind: Kind, attributes: &Value) -> Value {
    let mut body = Map::new();
    body.insert(kind.key().into(), attributes.clone());
    json!(body)
}

fn unwrap(kind: Kind, mut answer: Value) -> Result<Value, ClientError> {
    let resource = answer.get_mut(kind.key()).map(Value::take);
    resource.ok_or_else(|| unexpected(kind.key(), "its envelope is missing"))
}

pub(crate) fn unexpected(what: &str, reason: &str) -> ClientError {
    ClientError::Unexpected { what: what.into(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_client_never_shows() {
        let client = Client::new("http://127.0.0.1:9", Some("sesame".into())).unwrap();
        let shown = format!("{client:?}");
        assert!(shown.contains("127.0.0.1") && !shown.contains("sesame"), "{shown}");
    }

    #[test]
    fn a_name_never_changes_the_path_it_is_put_into() {
        assert_eq!(escape("a/b ?#é"), "a%2Fb%20%3F%23%C3%A9");
        assert_eq!(escape("plain-name_1.2~"), "plain-name_1.2~");
    }
}
