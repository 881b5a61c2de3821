//! Who may use the API: everybody on a loopback listener, or whoever shows the admin token.

use crate::error::ControllerError;
use axum::http::{HeaderMap, header};
use catena_model::ProjectId;
use catena_store::{Expect, Key, Store, Transaction};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::net::IpAddr;
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

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Reads what is of its project.
    Viewer,
    /// Reads and changes what is of its project.
    Tenant,
    /// Reads and changes what is of any project, and the nodes.
    Operator,
    /// Everything, also who else may.
    Admin,
}

impl Role {
    /// The name in requests and answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Tenant => "tenant",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
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
        self.role >= Role::Operator || self.project == *project
    }

    /// May it change anything at all?
    pub(crate) fn changes(&self) -> bool {
        self.role >= Role::Tenant
    }
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
        let address = listener.local_addr().map_err(|source| ControllerError::Listen {
            address: "the given socket".into(),
            source,
        })?;
        match (auth, address.ip().is_loopback()) {
            (Auth::None, true) => Ok(Self::Open),
            (Auth::None, false) => Err(ControllerError::OpenApi(address)),
            (Auth::Token, true) => Self::with_token(store, &mut std::io::stdout()),
            (Auth::Token, false) => Err(ControllerError::PlainHttp(address)),
        }
    }

    fn with_token(
        store: &dyn Store,
        out: &mut dyn std::io::Write,
    ) -> Result<Self, ControllerError> {
        let key = Key::new(CREDENTIAL_KIND, "admin");
        if let Some(document) = store.get(&key)? {
            let Credential { sha256 } = document.decode()?;
            return Ok(Self::Token { sha256 });
        }
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let sha256 = digest(&token);
        // Printed before it is stored: a token that nobody saw would lock everybody out.
        writeln!(out, "admin token (shown this once, keep it): {token}")
            .and_then(|()| out.flush())
            .map_err(ControllerError::TokenUnseen)?;
        let mut transaction = Transaction::new();
        transaction.put(key, &Credential { sha256: sha256.clone() }, Expect::Absent)?;
        store.commit(transaction)?;
        Ok(Self::Token { sha256 })
    }

    /// May a request under this `Host` be answered? When nobody has to say who he is, a page of
    /// another site must not get here under a name of its own.
    pub(crate) fn accepts_host(&self, headers: &HeaderMap) -> bool {
        match (self, headers.get(header::HOST)) {
            (Self::Token { .. }, _) | (Self::Open, None) => true,
            (Self::Open, Some(host)) => host.to_str().is_ok_and(is_loopback_host),
        }
    }

    /// Who sends these headers; none: nobody who may.
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Option<Identity> {
        match self {
            Self::Open => {
                Some(Identity { project: ProjectId(OPEN_PROJECT.into()), role: Role::Admin })
            }
            // Digests are compared, so the time it takes tells nothing about the token.
            Self::Token { sha256 } => (digest(token_of(headers)?) == *sha256)
                .then(|| Identity { project: ProjectId(ADMIN_PROJECT.into()), role: Role::Admin }),
        }
    }
}

/// Is it `localhost` or a loopback address, with or without a port?
fn is_loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
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
    fn a_token_that_could_not_be_shown_is_not_kept() {
        struct Full;
        impl std::io::Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let store = catena_store::MemoryStore::default();
        let error = Guard::with_token(&store, &mut Full).unwrap_err();
        assert!(matches!(error, ControllerError::TokenUnseen(_)), "{error}");
        assert!(store.get(&Key::new(CREDENTIAL_KIND, "admin")).unwrap().is_none());
        let mut shown = Vec::new();
        Guard::with_token(&store, &mut shown).unwrap();
        assert!(String::from_utf8(shown).unwrap().starts_with("admin token"));
    }

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
