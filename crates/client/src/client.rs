//! The requests.

use crate::error::ClientError;
use catena_model::access::{NewToken, TokenReport, TokenRequest};
use catena_model::check::CheckReport;
use catena_model::event::EventLine;
use catena_model::explain::{ExplainQuery, ExplainReport};
use catena_model::resource::{ContextHeader, FailurePolicy, FunctionSettings};
use catena_model::status::{
    ChainReport, ChainSummary, FunctionReport, GraphReport, InstanceReport, NodeDetail, NodeReport,
    PathReport, Receipt,
};
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
            0 => self.show_by_id(kind, name),
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

    /// One service function by name or id.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn function(&self, name: &str) -> Result<FunctionReport, ClientError> {
        self.get(&format!("/v1/functions/{}", escape(name)))
    }

    /// Gives a service function these settings and no others.
    ///
    /// # Errors
    /// When there is no such function, or the controller refuses.
    pub fn put_function(
        &self,
        name: &str,
        settings: &FunctionSettings,
    ) -> Result<FunctionReport, ClientError> {
        let path = format!("/v1/functions/{}", escape(name));
        self.read(Method::PUT, &path, Some(&json!(settings)))
    }

    /// Every graph.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn graphs(&self) -> Result<Vec<GraphReport>, ClientError> {
        self.get("/v1/graphs")
    }

    /// One graph by name or id.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn graph(&self, name: &str) -> Result<GraphReport, ClientError> {
        self.get(&format!("/v1/graphs/{}", escape(name)))
    }

    /// Every path that nodes know.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn paths(&self) -> Result<Vec<PathReport>, ClientError> {
        self.get("/v1/paths")
    }

    /// One path by its identifier.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn path(&self, id: &str) -> Result<PathReport, ClientError> {
        self.get(&format!("/v1/paths/{}", escape(id)))
    }

    /// The account of the last change of a chain, also of one that is gone.
    ///
    /// # Errors
    /// When it has none, or the controller does not answer.
    pub fn receipt(&self, chain: &str) -> Result<Receipt, ClientError> {
        self.get(&format!("/v1/chains/{}/receipt", escape(chain)))
    }

    /// Gives the packets of a chain metadata to travel with.
    ///
    /// # Errors
    /// When there is no such chain, its encapsulation carries none, or the controller refuses.
    pub fn set_context(
        &self,
        chain: &str,
        context: &[ContextHeader],
    ) -> Result<ChainReport, ClientError> {
        self.patch(&format!("/v1/chains/{}", escape(chain)), &json!({"context": context}))
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

    /// Every token, without its secret.
    ///
    /// # Errors
    /// When the caller is no admin, or the controller does not answer.
    pub fn tokens(&self) -> Result<Vec<TokenReport>, ClientError> {
        self.get("/v1/tokens")
    }

    /// Makes a token; the answer is the one place where its secret is.
    ///
    /// # Errors
    /// When the name is taken, the caller is no admin, or the controller does not answer.
    pub fn create_token(&self, token: &TokenRequest) -> Result<NewToken, ClientError> {
        const PATH: &str = "/v1/tokens";
        let body = serde_json::to_value(token);
        let body = body.map_err(|error| unexpected(PATH, &error.to_string()))?;
        let answer = self.request(Method::POST, PATH, Some(&body))?;
        serde_json::from_value(answer).map_err(|error| unexpected(PATH, &error.to_string()))
    }

    /// Deletes a token.
    ///
    /// # Errors
    /// When there is none of this id, the caller is no admin, or the controller does not answer.
    pub fn delete_token(&self, id: &str) -> Result<(), ClientError> {
        let path = format!("/v1/tokens/{}", escape(id));
        self.request(Method::DELETE, &path, None).map(|_| ())
    }

    /// State and fresh counters of every node.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn nodes(&self) -> Result<Vec<NodeReport>, ClientError> {
        self.get("/v1/nodes")
    }

    /// One node with its tables.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn node(&self, name: &str) -> Result<NodeDetail, ClientError> {
        self.get(&format!("/v1/nodes/{}", escape(name)))
    }

    /// How everything stands, as `GET /v1/status` answers it.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn status(&self) -> Result<Value, ClientError> {
        self.get("/v1/status")
    }

    /// Hands every event to `each`, until it breaks off or the controller goes away: first what was
    /// declared after the given revision, if one is given, then how things stand, then what changes.
    ///
    /// # Errors
    /// When the controller refuses, does not answer, falls silent or ends.
    pub fn watch(
        &self,
        after: Option<u64>,
        mut each: impl FnMut(EventLine) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let after = after.map(|revision| format!("?after={revision}")).unwrap_or_default();
        let url = reqwest::Url::parse(&format!("{}/v1/watch{after}", self.base))
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
        self.read(Method::POST, &format!("/v1/chains/{}/check", escape(name)), None)
    }

    /// What the data planes would do with a packet.
    ///
    /// # Errors
    /// When the question makes no sense, or the first node or the controller does not answer.
    pub fn explain(&self, query: &ExplainQuery) -> Result<ExplainReport, ClientError> {
        const PATH: &str = "/v1/explain";
        let body = serde_json::to_value(query);
        let body = body.map_err(|error| unexpected(PATH, &error.to_string()))?;
        self.post(PATH, &body)
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

    fn patch<T: DeserializeOwned>(&self, path: &str, change: &Value) -> Result<T, ClientError> {
        self.read(Method::PATCH, path, Some(change))
    }

    /// A request whose answer has a known form.
    fn read<T: DeserializeOwned>(
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
