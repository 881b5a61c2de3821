//! The requests to Keystone. Knows their form and keeps the controller's own token; refuses to know
//! what an answer means for whoever is asked about.

use super::KeystoneService;
use crate::error::ControllerError;
use crate::wall_clock;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use catena_model::ProjectId;
use reqwest::{RequestBuilder, Response, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};

/// How long Keystone may take for an answer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Requests to Keystone at one time; more wait.
const REQUESTS_MAX: usize = 16;
/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// So long before its end the controller's own token is renewed, in seconds.
const RENEW_AHEAD_S: u64 = 60;
/// A token in a file does not say when it ends: after so long the file is read again, in seconds.
const FILE_READ_EVERY_S: u64 = 300;
/// So long after Keystone has refused the controller it is not asked again: it may lock the user.
const REFUSAL_REMEMBERED: Duration = Duration::from_secs(5);

/// Why nothing is known of a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeystoneError {
    #[error("Keystone at {url} does not answer: {reason}; try again when it does")]
    Unreachable { url: Url, reason: String },
    /// The reason is for the log alone: whoever asks may be anybody.
    #[error(
        "Keystone at {url} does not let this controller validate tokens; its log says why, and its \
         operator must check the --keystone options"
    )]
    ServiceRefused { url: Url },
    #[error("Keystone at {url} answers in a form that is not known here: {reason}")]
    Unexpected { url: Url, reason: String },
}

/// Whom a token stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Nobody: it is unknown, over or revoked.
    Unknown,
    /// Somebody, in no project.
    Unscoped,
    /// Somebody in a project.
    Scoped(Scoped),
}

/// What Keystone says of a token that is for a project.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scoped {
    pub(super) project: ProjectId,
    pub(super) roles: Vec<String>,
    /// Seconds since 1970.
    pub(super) expires: u64,
}

/// The controller's own token.
enum Own {
    None,
    Token { secret: HeaderValue, renew: u64 },
    Refused { error: KeystoneError, until: Instant },
}

/// A connection to one Keystone.
pub(super) struct Client {
    url: Url,
    service: KeystoneService,
    http: reqwest::Client,
    own: Mutex<Own>,
    seats: Semaphore,
}

#[derive(Deserialize)]
struct Envelope {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    expires_at: String,
    project: Option<Project>,
    #[serde(default)]
    roles: Vec<Named>,
}

#[derive(Deserialize)]
struct Project {
    id: String,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Client {
    pub(super) fn new(url: &str, service: KeystoneService) -> Result<Self, ControllerError> {
        let refused = |reason: String| ControllerError::Keystone { url: url.into(), reason };
        let base = url.trim_end_matches('/');
        let base = base.strip_suffix("/v3").unwrap_or(base);
        let parsed =
            Url::parse(&format!("{base}/v3")).map_err(|error| refused(error.to_string()))?;
        if parsed.scheme() != "http" {
            let reason =
                "only http is spoken; lead it through a server on this host that speaks TLS";
            return Err(refused(reason.into()));
        }
        if !parsed.host_str().is_some_and(super::super::is_loopback_host) {
            tracing::warn!("tokens and password travel to Keystone at {parsed} in the clear");
        }
        let http = reqwest::Client::builder().timeout(ANSWER_WAIT).no_proxy();
        let http = http.redirect(reqwest::redirect::Policy::none()).build();
        Ok(Self {
            url: parsed,
            service,
            http: http.map_err(|error| refused(error.to_string()))?,
            own: Mutex::new(Own::None),
            seats: Semaphore::new(REQUESTS_MAX),
        })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Whom a token stands for.
    pub(super) async fn validate(&self, token: &str) -> Result<Subject, KeystoneError> {
        let Ok(subject) = HeaderValue::from_str(token) else { return Ok(Subject::Unknown) };
        let own = self.own_token(None).await?;
        if let Some(subject) = self.ask(&own, &subject).await? {
            return Ok(subject);
        }
        let renewed = self.own_token(Some(&own)).await?;
        self.ask(&renewed, &subject).await?.ok_or_else(|| self.refused("its own token is unknown"))
    }

    /// Asks about a token; none: the controller's own is not good (any more).
    async fn ask(
        &self,
        own: &HeaderValue,
        subject: &HeaderValue,
    ) -> Result<Option<Subject>, KeystoneError> {
        let request = self.http.get(format!("{}/auth/tokens?nocatalog", self.url));
        let request = request.header("X-Auth-Token", own).header("X-Subject-Token", subject);
        let (status, _, body) = self.exchange(request).await?;
        match status {
            StatusCode::OK => Ok(Some(self.subject(&body)?)),
            StatusCode::NOT_FOUND => Ok(Some(Subject::Unknown)),
            StatusCode::UNAUTHORIZED => Ok(None),
            StatusCode::FORBIDDEN => Err(self.refused("its role is not enough")),
            other => Err(self.unexpected(format!("status {other}"))),
        }
    }

    fn subject(&self, body: &[u8]) -> Result<Subject, KeystoneError> {
        let (token, expires) = self.token(body)?;
        let Some(project) = token.project else { return Ok(Subject::Unscoped) };
        let roles = token.roles.into_iter().map(|role| role.name).collect();
        Ok(Subject::Scoped(Scoped { project: ProjectId(project.id), roles, expires }))
    }

    fn token(&self, body: &[u8]) -> Result<(Token, u64), KeystoneError> {
        let envelope: Result<Envelope, _> = serde_json::from_slice(body);
        let token = envelope.map_err(|error| self.unexpected(error.to_string()))?.token;
        let expires = wall_clock::parse(&token.expires_at)
            .ok_or_else(|| self.unexpected(format!("expires_at '{:.40}'", token.expires_at)))?;
        Ok((token, expires))
    }

    /// The controller's own token; another one than that which was not good.
    async fn own_token(&self, bad: Option<&HeaderValue>) -> Result<HeaderValue, KeystoneError> {
        let mut own = self.own.lock().await;
        match &*own {
            Own::Token { secret, renew } if wall_clock::now() < *renew && bad != Some(secret) => {
                return Ok(secret.clone());
            }
            Own::Refused { error, until } if Instant::now() < *until => return Err(error.clone()),
            _ => {}
        }
        match self.log_in().await {
            Ok((mut secret, renew)) => {
                secret.set_sensitive(true);
                *own = Own::Token { secret: secret.clone(), renew };
                Ok(secret)
            }
            Err(error) => {
                let is_refused = matches!(error, KeystoneError::ServiceRefused { .. });
                let until = Instant::now() + REFUSAL_REMEMBERED;
                *own = if is_refused {
                    Own::Refused { error: error.clone(), until }
                } else {
                    Own::None
                };
                Err(error)
            }
        }
    }

    /// A new token of the controller's own, and when to get another.
    async fn log_in(&self) -> Result<(HeaderValue, u64), KeystoneError> {
        let (user, password, project, domain) = match &self.service {
            KeystoneService::TokenFile(path) => {
                let text = tokio::fs::read_to_string(path).await.map_err(|error| {
                    self.refused(&format!("the file '{}' cannot be read: {error}", path.display()))
                })?;
                let secret = HeaderValue::from_str(text.trim())
                    .map_err(|_| self.refused("the token in its file is none"))?;
                return Ok((secret, wall_clock::now().saturating_add(FILE_READ_EVERY_S)));
            }
            KeystoneService::Password { user, password, project, domain } => {
                (user, password, project, domain)
            }
        };
        let domain = json!({"name": domain});
        let user = json!({"name": user, "domain": domain, "password": password});
        let scope = json!({"project": {"name": project, "domain": domain}});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let body: Value = json!({"auth": {"identity": identity, "scope": scope}});
        let request = self.http.post(format!("{}/auth/tokens?nocatalog", self.url)).json(&body);
        let (status, headers, body) = self.exchange(request).await?;
        match status {
            StatusCode::CREATED => {
                let secret = headers.get("X-Subject-Token").cloned();
                let secret = secret.ok_or_else(|| self.unexpected("no X-Subject-Token".into()))?;
                let (_, expires) = self.token(&body)?;
                Ok((secret, expires.saturating_sub(RENEW_AHEAD_S)))
            }
            StatusCode::UNAUTHORIZED => Err(self.refused("its user or password is wrong")),
            StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => {
                Err(self.refused(&format!("its login is answered {status}")))
            }
            other => Err(self.unexpected(format!("status {other}"))),
        }
    }

    async fn exchange(
        &self,
        request: RequestBuilder,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), KeystoneError> {
        let _seat = self.seats.acquire().await;
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        Ok((status, headers, self.read(answer).await?))
    }

    async fn read(&self, mut answer: Response) -> Result<Vec<u8>, KeystoneError> {
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| self.unreachable(&error))? {
            if body.len() + part.len() > ANSWER_BYTES_MAX {
                return Err(self.unexpected(format!("more than {ANSWER_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&part);
        }
        Ok(body)
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> KeystoneError {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            reason = cause.to_string();
            source = cause.source();
        }
        KeystoneError::Unreachable { url: self.url.clone(), reason }
    }

    fn refused(&self, reason: &str) -> KeystoneError {
        tracing::error!("Keystone at {} refuses this controller: {reason}", self.url);
        KeystoneError::ServiceRefused { url: self.url.clone() }
    }

    fn unexpected(&self, reason: String) -> KeystoneError {
        KeystoneError::Unexpected { url: self.url.clone(), reason }
    }
}
