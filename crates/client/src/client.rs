//! The requests.

use crate::error::ClientError;
use reqwest::Method;
use reqwest::blocking::{RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::fmt;
use std::time::Duration;

/// Longer than the longest answer of the controller: a chain request waits five seconds for nodes.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// How long one connection watches at most.
const WATCH_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// The port that a controller listens at unless it is told otherwise.
pub const API_PORT: u16 = 9_696;
/// Digits of an id that may stand for it.
const ID_PREFIX_DIGITS_MIN: usize = 4;

/// A kind of resource of the networking-sfc border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Chains that go on in others.
    ServiceGraph,
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
            Self::ServiceGraph => "service_graph",
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

    /// Do its requests concern a draft?
    pub(crate) fn is_in_draft(&self) -> bool {
        self.draft.is_some()
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

    /// One resource by name or id, or the beginning of its id, as people ask for it.
    ///
    /// # Errors
    /// When none or several have the name.
    pub fn find(&self, kind: Kind, name: &str) -> Result<Value, ClientError> {
        match self.named(kind, name) {
            Err(ClientError::NotFound { .. }) => self.show_by_id(kind, name),
            found => found,
        }
    }

    /// One resource by its name alone, as documents mean it: a name may look like the beginning of another's id.
    ///
    /// # Errors
    /// When none or several have the name.
    pub fn named(&self, kind: Kind, name: &str) -> Result<Value, ClientError> {
        let mut named = self.list(kind, &[("name", name)])?;
        match named.len() {
            0 => Err(ClientError::NotFound { kind: kind.key(), name: name.into() }),
            1 => Ok(named.remove(0)),
            count => Err(ClientError::Ambiguous { kind: kind.key(), name: name.into(), count }),
        }
    }

    /// One resource by its id or the beginning of it, if no other begins so.
    fn show_by_id(&self, kind: Kind, id: &str) -> Result<Value, ClientError> {
        match self.show(kind, id) {
            Err(error) if error.is_not_found() => {}
            other => return other,
        }
        let mut begun = Vec::new();
        if id.len() >= ID_PREFIX_DIGITS_MIN {
            begun = self.list(kind, &[])?;
            begun.retain(|one| one["id"].as_str().is_some_and(|known| known.starts_with(id)));
        }
        match begun.len() {
            0 => Err(ClientError::NotFound { kind: kind.key(), name: id.into() }),
            1 => Ok(begun.remove(0)),
            count => Err(ClientError::Ambiguous { kind: kind.key(), name: id.into(), count }),
        }
    }

    /// An answer that goes on for as long as somebody reads.
    pub(crate) fn stream(&self, path: &str) -> Result<Response, ClientError> {
        let url = reqwest::Url::parse(&format!("{}{path}", self.base))
            .map_err(|error| self.unreachable(&error))?;
        self.exchange(self.http.get(url).timeout(WATCH_MAX))
    }

    /// Sends lines; they are answered by lines while they go.
    pub(crate) fn send_lines(&self, path: &str, lines: Vec<u8>) -> Result<Response, ClientError> {
        let url = reqwest::Url::parse(&format!("{}{path}", self.base))
            .map_err(|error| self.unreachable(&error))?;
        let request = self.http.post(url).header("Content-Type", "application/x-ndjson");
        self.exchange(request.body(lines).timeout(WATCH_MAX))
    }

    /// Sends bytes that are no JSON.
    pub(crate) fn put_bytes<T: DeserializeOwned>(
        &self,
        path: &str,
        bytes: Vec<u8>,
    ) -> Result<T, ClientError> {
        let url = reqwest::Url::parse(&format!("{}{path}", self.base))
            .map_err(|error| self.unreachable(&error))?;
        let request = self.http.put(url).header("Content-Type", "application/octet-stream");
        let answer = self.exchange(request.body(bytes))?;
        let text = answer.text().map_err(|error| self.unreachable(&error))?;
        serde_json::from_str(&text).map_err(|error| unexpected(path, &error.to_string()))
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(Method::GET, path, None)
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, ClientError> {
        self.read(Method::POST, path, Some(body))
    }

    pub(crate) fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        change: &Value,
    ) -> Result<T, ClientError> {
        self.read(Method::PATCH, path, Some(change))
    }

    /// A request whose answer has a known form.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, ClientError> {
        let answer = self.request(method, path, body)?;
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
        // In the dialect of networking-sfc refusals name by identity unless somebody asks.
        request = request.header("Catena-Names", "1");
        let answer = request.send().map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let text = answer.text().map_err(|error| self.unreachable(&error))?;
        Err(ClientError::from_answer(status.as_u16(), &text))
    }

    pub(crate) fn unreachable(&self, error: &dyn std::error::Error) -> ClientError {
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
pub(crate) fn escape(segment: &str) -> String {
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
