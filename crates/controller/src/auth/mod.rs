//! Who may use the API: everybody on a loopback listener, or whoever shows a token of ours or of a
//! Keystone.
//!
//! Knows how somebody proves who he is. Refuses to know what the routes ask of him.

mod keystone;
mod pass;
mod tokens;

pub use keystone::{KEYSTONE_REMEMBER_MAX, KeystoneConfig, KeystoneService};
pub(crate) use pass::Pass;
pub(crate) use tokens::{TokenError, Tokens};

use crate::error::ControllerError;
use axum::http::{HeaderMap, header};
use catena_model::{ProjectId, Role};
use catena_store::Store;
use keystone::Keystone;
use std::net::IpAddr;
use std::sync::Arc;

/// Project of everybody when nobody has to say who he is.
const OPEN_PROJECT: &str = "fake_project_id";
const TOKEN_HEADER: &str = "x-auth-token";

/// What an answer says to who shows nothing that is known.
const NO_TOKEN: &str = "The request carries no valid token; send one in X-Auth-Token (the command \
                        catena takes it from CATENA_TOKEN or --token).";

/// Who may use the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Everybody; refused unless the listener is a loopback address.
    None,
    /// Whoever shows a token of ours, in `X-Auth-Token` or `Authorization: Bearer`.
    Token,
    /// Whoever shows a token of a Keystone, or one of ours.
    Keystone(Box<KeystoneConfig>),
}

/// Somebody who may use the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) project: ProjectId,
    pub(crate) role: Role,
}

impl Identity {
    /// May it know that something of this project exists?
    pub(crate) fn sees(&self, project: &ProjectId) -> bool {
        self.sees_all() || self.project == *project
    }

    /// May it know of everything, whoever's it is?
    pub(crate) fn sees_all(&self) -> bool {
        self.role >= Role::Operator
    }
}

/// What somebody showed to be let in: of two requests that show the same, both are of one hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bearer(Option<tokens::Hash>);

impl Bearer {
    /// Of a request.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self(token_of(headers).map(tokens::hash))
    }
}

/// Why a request is not carried out, whatever is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// Nobody knows who sends it.
    #[error("{reason}")]
    Unauthenticated {
        /// What is wrong, and what to do.
        reason: &'static str,
        /// Value of `WWW-Authenticate`.
        challenge: String,
    },
    /// Whoever sends it may not.
    #[error("{0}")]
    Forbidden(String),
    /// Whoever could tell who sends it does not answer.
    #[error("{0}.")]
    Unavailable(String),
}

/// Who passes.
enum Door {
    Everybody,
    Tokens,
    Keystone(Box<Keystone>),
}

/// Lets requests pass or not.
pub(crate) struct Guard {
    tokens: Arc<Tokens>,
    door: Door,
}

impl Guard {
    /// Reads the stored tokens; when none of them could make others, makes one and prints it, once.
    pub(crate) fn prepare(
        auth: Auth,
        listener: &tokio::net::TcpListener,
        store: Arc<dyn Store>,
    ) -> Result<Self, ControllerError> {
        let address = listener.local_addr().map_err(|source| ControllerError::Listen {
            address: "the given socket".into(),
            source,
        })?;
        if !address.ip().is_loopback() {
            return Err(match auth {
                Auth::None => ControllerError::OpenApi(address),
                Auth::Token | Auth::Keystone(_) => ControllerError::PlainHttp(address),
            });
        }
        let door = match auth {
            Auth::None => Door::Everybody,
            Auth::Token => Door::Tokens,
            Auth::Keystone(config) => Door::Keystone(Box::new(Keystone::new(*config)?)),
        };
        let tokens = Arc::new(Tokens::load(store)?);
        if !matches!(door, Door::Everybody) {
            tokens.ensure_admin(&mut std::io::stdout())?;
        }
        Ok(Self { tokens, door })
    }

    /// The tokens of our own.
    pub(crate) fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    /// Is everybody let in?
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.door, Door::Everybody)
    }

    /// May a request under this `Host` be answered? When nobody has to say who he is, a page of
    /// another site must not get here under a name of its own.
    pub(crate) fn accepts_host(&self, headers: &HeaderMap) -> bool {
        match headers.get(header::HOST) {
            Some(host) if self.is_open() => host.to_str().is_ok_and(is_loopback_host),
            _ => true,
        }
    }

    /// Who sends these headers.
    pub(crate) async fn identify(&self, headers: &HeaderMap) -> Result<Identity, Refusal> {
        self.identify_token(token_of(headers)).await
    }

    async fn identify_token(&self, token: Option<&str>) -> Result<Identity, Refusal> {
        if matches!(self.door, Door::Everybody) {
            return Ok(Identity { project: ProjectId(OPEN_PROJECT.into()), role: Role::Admin });
        }
        if let Some(identity) = token.and_then(|token| self.tokens.identify(token)) {
            return Ok(identity);
        }
        match (&self.door, token) {
            // A secret of our form is nobody else's business, also when it is not good any more.
            (Door::Keystone(keystone), Some(token)) if !tokens::is_secret(token) => {
                keystone.identify(token).await
            }
            (Door::Keystone(keystone), _) => Err(keystone.unknown()),
            (Door::Everybody | Door::Tokens, _) => Err(Refusal::Unauthenticated {
                reason: NO_TOKEN,
                challenge: "Bearer realm=\"catena\"".into(),
            }),
        }
    }
}

/// Is it `localhost` or a loopback address, with or without a port?
fn is_loopback_host(host: &str) -> bool {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inner) => inner.split_once(']').unwrap_or_default(),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    // What follows is a port, and nothing else: `[::1].evil.example` is a name of somebody else.
    if !rest.is_empty() && rest.strip_prefix(':').is_none_or(|port| port.parse::<u16>().is_err()) {
        return false;
    }
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn token_of(headers: &HeaderMap) -> Option<&str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    header(TOKEN_HEADER).or_else(|| {
        let (scheme, token) = header(header::AUTHORIZATION.as_str())?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_host_that_only_begins_as_one_of_ours_is_foreign() {
        for own in
            ["localhost", "LocalHost:8888", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:8888"]
        {
            assert!(is_loopback_host(own), "{own}");
        }
        for foreign in [
            "[::1].evil.example",
            "[::1].evil.example:80",
            "[::1]evil.example",
            "[::1]:evil.example",
            "[::1",
            "127.0.0.1.evil.example",
            "127.0.0.1:80.evil.example",
            "localhost:evil",
            "localhost:",
            "[2001:db8::1]",
            "",
        ] {
            assert!(!is_loopback_host(foreign), "{foreign}");
        }
    }

    #[tokio::test]
    async fn only_the_right_token_passes_in_either_header() {
        let tokens = Tokens::load(Arc::new(catena_store::MemoryStore::default())).unwrap();
        let mut shown = Vec::new();
        tokens.ensure_admin(&mut shown).unwrap();
        let secret =
            String::from_utf8(shown).unwrap().trim().rsplit(' ').next().unwrap().to_owned();
        let guard = Guard { tokens: Arc::new(tokens), door: Door::Tokens };
        let with = async |name: &'static str, value: String| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_str(&value).unwrap());
            guard.identify(&headers).await.is_ok()
        };
        assert!(with("x-auth-token", secret.clone()).await);
        assert!(with("authorization", format!("Bearer {secret}")).await);
        assert!(with("authorization", format!("bearer  {secret}")).await);
        assert!(!with("x-auth-token", secret.to_uppercase()).await);
        assert!(!with("x-auth-token", String::new()).await);
        assert!(!with("authorization", format!("Basic {secret}")).await);
        assert!(!with("authorization", secret).await);
        let refusal = guard.identify(&HeaderMap::new()).await.unwrap_err();
        assert!(
            matches!(refusal, Refusal::Unauthenticated { challenge, .. } if challenge.starts_with("Bearer"))
        );
    }
}
