//! Who may use the API: everybody on a loopback listener, or whoever shows the admin token.

use crate::error::ControllerError;
use axum::http::{HeaderMap, header};
use catena_model::ProjectId;
use catena_store::{Expect, Key, Store, Transaction};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::Write as _;
use uuid::Uuid;

/// Project of everybody when nobody has to say who he is.
const OPEN_PROJECT: &str = "fake_project_id";
/// Project of the bearer of the admin token.
const ADMIN_PROJECT: &str = "admin";
const CREDENTIAL_KIND: &str = "credential";
const TOKEN_HEADER: &str = "x-auth-token";

/// Who may use the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Everybody; refused unless the listener is a loopback address.
    None,
    /// Whoever shows the admin token, in `X-Auth-Token` or `Authorization: Bearer`.
    Token,
}

/// What is stored of a token.
#[derive(Serialize, Deserialize)]
struct Credential {
    sha256: String,
}

/// Somebody who may use the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) project: ProjectId,
}

/// Lets requests pass or not.
#[derive(Debug)]
pub(crate) enum Guard {
    Open,
    Token { sha256: String },
}

impl Guard {
    /// Reads the stored credential; at the first start makes a token and prints it, once.
    pub(crate) fn prepare(
        auth: Auth,
        listener: &tokio::net::TcpListener,
        store: &dyn Store,
    ) -> Result<Self, ControllerError> {
        if auth == Auth::None {
            return match listener.local_addr() {
                Ok(address) if !address.ip().is_loopback() => {
                    Err(ControllerError::OpenApi(address))
                }
                _ => Ok(Self::Open),
            };
        }
        let key = Key::new(CREDENTIAL_KIND, "admin");
        if let Some(document) = store.get(&key)? {
            let Credential { sha256 } = document.decode()?;
            return Ok(Self::Token { sha256 });
        }
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let sha256 = digest(&token);
        // Printed before it is stored: a token that nobody saw would lock everybody out.
        let mut out = std::io::stdout();
        let _ = writeln!(out, "admin token (shown this once, keep it): {token}");
        let _ = out.flush();
        let mut transaction = Transaction::new();
        transaction.put(key, &Credential { sha256: sha256.clone() }, Expect::Absent)?;
        store.commit(transaction)?;
        Ok(Self::Token { sha256 })
    }

    /// Who sends these headers; none: nobody who may.
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Option<Identity> {
        match self {
            Self::Open => Some(Identity { project: ProjectId(OPEN_PROJECT.into()) }),
            // Digests are compared, so the time it takes tells nothing about the token.
            Self::Token { sha256 } => (digest(token_of(headers)?) == *sha256)
                .then(|| Identity { project: ProjectId(ADMIN_PROJECT.into()) }),
        }
    }
}

fn token_of(headers: &HeaderMap) -> Option<&str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    header(TOKEN_HEADER).or_else(|| {
        let (scheme, token) = header(header::AUTHORIZATION.as_str())?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    })
}

fn digest(token: &str) -> String {
    let sum = Sha256::digest(token.as_bytes());
    sum.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_the_right_token_passes_in_either_header() {
        let guard = Guard::Token { sha256: digest("secret") };
        let with = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            guard.identify(&headers).is_some()
        };
        assert!(with("x-auth-token", "secret"));
        assert!(with("authorization", "Bearer secret"));
        assert!(with("authorization", "bearer  secret"));
        assert!(!with("x-auth-token", "Secret"));
        assert!(!with("x-auth-token", ""));
        assert!(!with("authorization", "Basic secret"));
        assert!(!with("authorization", "secret"));
        assert!(guard.identify(&HeaderMap::new()).is_none());
    }
}
