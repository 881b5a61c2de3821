//! Tokens of an OpenStack Keystone (Identity API v3). Knows which project and role each stands for,
//! and for how long that may be believed; refuses to know what they are asked for.

mod cache;
mod client;
#[cfg(test)]
mod tests;

use super::tokens::{self, Hash};
use super::{Identity, Refusal};
use crate::error::ControllerError;
use crate::wall_clock;
use cache::Cache;
use catena_model::Role;
use client::{Client, Scoped, Subject};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// Longest time that an answer is believed: after it a token that was revoked opens nothing.
pub const KEYSTONE_REMEMBER_MAX: Duration = Duration::from_secs(60);
/// How long a token that is not good stays so without asking again.
const DENIAL_REMEMBERED: Duration = Duration::from_secs(5);

/// How the controller proves to Keystone that it may validate tokens.
#[derive(Clone, PartialEq, Eq)]
pub enum KeystoneService {
    /// As a user with a password, in a project in which he may validate tokens.
    Password {
        /// The user.
        user: String,
        /// His password.
        password: String,
        /// The project.
        project: String,
        /// The name of the domain of both.
        domain: String,
    },
    /// With the token in a file, which is read again when it is over.
    TokenFile(PathBuf),
}

impl fmt::Debug for KeystoneService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { user, .. } => write!(f, "user {user}"),
            Self::TokenFile(path) => write!(f, "token in {}", path.display()),
        }
    }
}

/// Which Keystone is believed, and what its roles mean here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeystoneConfig {
    /// Its URL, with or without `/v3`.
    pub url: String,
    /// How the controller proves who it is.
    pub service: KeystoneService,
    /// What its roles mean here; of several that somebody has, the highest counts. A role that is
    /// not named here means nothing.
    pub roles: BTreeMap<String, Role>,
    /// How long an answer is believed; at most [`KEYSTONE_REMEMBER_MAX`].
    pub remember: Duration,
}

impl KeystoneConfig {
    /// With the roles that Keystone makes by itself.
    #[must_use]
    pub fn new(url: impl Into<String>, service: KeystoneService) -> Self {
        let roles = [
            ("admin", Role::Admin),
            ("service", Role::Operator),
            ("manager", Role::Operator),
            ("member", Role::Tenant),
            ("reader", Role::Viewer),
        ];
        Self {
            url: url.into(),
            service,
            roles: roles.map(|(name, role)| (name.to_owned(), role)).into(),
            remember: KEYSTONE_REMEMBER_MAX,
        }
    }
}

/// What a token is worth.
type Verdict = Result<Identity, Denial>;

/// Why a token is worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denial {
    /// Keystone does not know it (any more).
    Unknown,
    /// It is for no project.
    Unscoped,
    /// None of its roles means anything here.
    NoRole,
}

/// Validates tokens, and remembers for a while what they are worth.
pub(super) struct Keystone {
    client: Client,
    roles: BTreeMap<String, Role>,
    remember: Duration,
    cache: Mutex<Cache>,
    /// Validations that are under way: whoever shows the same token waits for the same answer.
    flights: Mutex<HashMap<Hash, Weak<Flight>>>,
}

type Flight = OnceCell<Result<Verdict, String>>;

impl Keystone {
    pub(super) fn new(config: KeystoneConfig) -> Result<Self, ControllerError> {
        Ok(Self {
            client: Client::new(&config.url, config.service)?,
            roles: config
                .roles
                .into_iter()
                .map(|(name, role)| (name.to_lowercase(), role))
                .collect(),
            remember: config.remember.min(KEYSTONE_REMEMBER_MAX),
            cache: Mutex::default(),
            flights: Mutex::default(),
        })
    }

    /// The answer to who shows nothing that Keystone knows.
    pub(super) fn unknown(&self) -> Refusal {
        Refusal::Unauthenticated { reason: super::NO_TOKEN, challenge: self.challenge() }
    }

    /// What an answer without identity says of how to get one.
    fn challenge(&self) -> String {
        format!("Keystone uri=\"{}\"", self.client.url())
    }

    /// Who bears the token.
    pub(super) async fn identify(&self, token: &str) -> Result<Identity, Refusal> {
        let hash = tokens::hash(token);
        let verdict = match self.known(&hash) {
            Some(verdict) => verdict,
            None => {
                let flight = self.flight(hash);
                let landed = flight.get_or_init(|| self.validate(token, hash)).await;
                landed.clone().map_err(Refusal::Unavailable)?
            }
        };
        verdict.map_err(|denial| match denial {
            Denial::Unknown => self.unknown(),
            Denial::Unscoped => Refusal::Unauthenticated {
                reason: "The token is for no project; ask Keystone for one that is.",
                challenge: self.challenge(),
            },
            Denial::NoRole => Refusal::Forbidden(format!(
                "None of the roles of this Keystone token means anything here; ask an \
                 administrator for one of {}.",
                self.roles.keys().cloned().collect::<Vec<_>>().join(", ")
            )),
        })
    }

    async fn validate(&self, token: &str, hash: Hash) -> Result<Verdict, String> {
        // Another validation may have ended since this token was looked up.
        if let Some(verdict) = self.known(&hash) {
            return Ok(verdict);
        }
        let verdict = self.client.validate(token).await.map(|subject| {
            let (verdict, remember) = self.judge(subject);
            let now = Instant::now();
            self.cache().put(hash, verdict.clone(), now, now + remember);
            verdict
        });
        // Whoever comes from now on finds the verdict in the cache, or asks anew.
        self.flights().remove(&hash);
        verdict.map_err(|error| error.to_string())
    }

    /// What is remembered of a token.
    fn known(&self, hash: &Hash) -> Option<Verdict> {
        self.cache().get(hash, Instant::now())
    }

    /// What an answer means, and how long it may be believed.
    fn judge(&self, subject: Subject) -> (Verdict, Duration) {
        let denied = |denial| (Err(denial), DENIAL_REMEMBERED.min(self.remember));
        let Scoped { project, roles, expires } = match subject {
            Subject::Unknown => return denied(Denial::Unknown),
            Subject::Unscoped => return denied(Denial::Unscoped),
            Subject::Scoped(scoped) => scoped,
        };
        let left = expires.saturating_sub(wall_clock::now());
        if left == 0 {
            return denied(Denial::Unknown);
        }
        let known = roles.iter().filter_map(|name| self.roles.get(&name.to_lowercase()));
        match known.max().copied() {
            Some(role) => {
                (Ok(Identity { project, role }), self.remember.min(Duration::from_secs(left)))
            }
            None => denied(Denial::NoRole),
        }
    }

    fn flight(&self, hash: Hash) -> Arc<Flight> {
        let mut flights = self.flights();
        if let Some(flight) = flights.get(&hash).and_then(Weak::upgrade) {
            return flight;
        }
        // Whoever went away left one behind: there are never more than requests at one time.
        flights.retain(|_, flight| flight.strong_count() > 0);
        let flight = Arc::default();
        flights.insert(hash, Arc::downgrade(&flight));
        flight
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Hash, Weak<Flight>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
