//! Tokens of our own: 256 random bits, stored as their SHA-256. Knows which there are without
//! reading the disk; refuses to know what they are asked for.

use super::Identity;
use crate::error::ControllerError;
use crate::wall_clock;
use catena_model::access::{NewToken, Role, TokenReport, TokenRequest};
use catena_model::id::ProjectId;
use catena_store::{Expect, Key, Store, StoreError, Transaction};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use uuid::Uuid;

const TOKEN_KIND: &str = "token";
/// Where the one token was kept before there were several.
const LONE_KIND: &str = "credential";
/// Tokens at one time.
const TOKENS_MAX: usize = 10_000;
/// Longest name of a token or project, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// 9999-12-31T23:59:59Z: a later end has no text.
const LAST_MOMENT: u64 = 253_402_300_799;
const SECRET_BYTES: usize = 32;
/// Project and name of the token that the first start makes.
const FIRST: &str = "admin";

/// What is left of a token's secret.
pub(super) type Hash = [u8; 32];

/// What is stored of a token.
#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    name: String,
    project: ProjectId,
    role: Role,
    sha256: String,
    /// Seconds since 1970.
    created: u64,
    expires: Option<u64>,
}

impl Stored {
    /// The token of whoever made this deployment.
    fn first(name: String, sha256: String) -> Self {
        let (project, created) = (ProjectId(FIRST.into()), wall_clock::now());
        Self { name, project, role: Role::Admin, sha256, created, expires: None }
    }

    fn is_good(&self, now: u64) -> bool {
        self.expires.is_none_or(|end| now < end)
    }

    fn report(&self, id: Uuid) -> TokenReport {
        TokenReport {
            id,
            name: self.name.clone(),
            project: self.project.clone(),
            role: self.role,
            created: wall_clock::text(self.created),
            expires: self.expires.map(wall_clock::text),
        }
    }
}

/// Why a token is not made or deleted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("a token called '{0}' exists already; delete it first, or choose another name")]
    NameTaken(String),
    #[error("a {what} has 1 to {NAME_BYTES_MAX} bytes and no character that cannot be seen")]
    BadName { what: &'static str },
    #[error("a token is good for at least one second")]
    NoLifetime,
    #[error("there are {TOKENS_MAX} tokens already; delete those that nobody uses")]
    TooMany,
    #[error("there is no token '{0}'; 'catena token list' shows all")]
    Absent(String),
    #[error("the system gives no random numbers: {0}; try again")]
    NoRandomness(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All tokens.
pub(crate) struct Tokens {
    store: Arc<dyn Store>,
    /// Held while a change is made, so that two of them do not take one name.
    writer: Mutex<()>,
    known: RwLock<HashMap<Hash, (Uuid, Stored)>>,
}

impl Tokens {
    /// Reads all that are stored.
    pub(crate) fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        adopt_lone(store.as_ref())?;
        let mut known = HashMap::new();
        for document in store.list(TOKEN_KIND)? {
            let stored: Stored = document.decode()?;
            // An id or a hash of another form was written by nobody here: it opens nothing.
            let hash = from_hex(&stored.sha256);
            if let (Ok(id), Some(hash)) = (Uuid::parse_str(&document.key.id), hash) {
                known.insert(hash, (id, stored));
            }
        }
        Ok(Self { store, writer: Mutex::new(()), known: RwLock::new(known) })
    }

    /// Makes and prints an admin token if there is none with which others could be made.
    pub(crate) fn ensure_admin(&self, out: &mut dyn std::io::Write) -> Result<(), ControllerError> {
        let now = wall_clock::now();
        let is_admin = |stored: &Stored| stored.role == Role::Admin && stored.is_good(now);
        if self.read(|known| known.values().any(|(_, stored)| is_admin(stored))) {
            return Ok(());
        }
        let secret =
            new_secret().map_err(|error| ControllerError::TokenUnmade(error.to_string()))?;
        // Printed before it is stored: a token that nobody saw would lock everybody out.
        writeln!(out, "admin token (shown this once, keep it): {secret}")
            .and_then(|()| out.flush())
            .map_err(ControllerError::TokenUnseen)?;
        let taken = self.read(|known| known.values().any(|(_, stored)| stored.name == FIRST));
        let name = if taken { format!("{FIRST}-{now}") } else { FIRST.into() };
        self.keep(hash(&secret), Uuid::new_v4(), Stored::first(name, to_hex(&hash(&secret))))?;
        Ok(())
    }

    /// Who bears the token, if it is one of ours and still good.
    pub(super) fn identify(&self, secret: &str) -> Option<Identity> {
        // Hashes are compared, so the time it takes tells nothing about the token.
        let hash = hash(secret);
        let now = wall_clock::now();
        self.read(|known| {
            let (_, stored) = known.get(&hash).filter(|(_, stored)| stored.is_good(now))?;
            Some(Identity { project: stored.project.clone(), role: stored.role })
        })
    }

    /// All of them by name, those that are over too.
    pub(crate) fn list(&self) -> Vec<TokenReport> {
        let mut all: Vec<TokenReport> =
            self.read(|known| known.values().map(|(id, stored)| stored.report(*id)).collect());
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Makes a token. Blocks on the disk.
    pub(crate) fn create(&self, request: TokenRequest) -> Result<NewToken, TokenError> {
        let TokenRequest { name, project, role, lifetime_s } = request;
        check_name("name", &name)?;
        check_name("project", &project.0)?;
        if lifetime_s == Some(0) {
            return Err(TokenError::NoLifetime);
        }
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, taken) =
            self.read(|known| (known.len(), known.values().any(|(_, stored)| stored.name == name)));
        if taken {
            return Err(TokenError::NameTaken(name));
        }
        if count >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        let (secret, id) = (new_secret()?, Uuid::new_v4());
        let created = wall_clock::now();
        let expires = lifetime_s.map(|lifetime| created.saturating_add(lifetime).min(LAST_MOMENT));
        let sha256 = to_hex(&hash(&secret));
        let stored = Stored { name, project, role, sha256, created, expires };
        let report = stored.report(id);
        self.keep(hash(&secret), id, stored)?;
        Ok(NewToken { report, secret })
    }

    /// Deletes a token: with the next request it opens nothing. Blocks on the disk.
    pub(crate) fn delete(&self, id: Uuid) -> Result<(), TokenError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let found =
            self.read(|known| known.iter().find(|(_, (own, _))| *own == id).map(|(hash, _)| *hash));
        let hash = found.ok_or(TokenError::Absent(id.to_string()))?;
        let mut transaction = Transaction::new();
        transaction.delete(Key::new(TOKEN_KIND, id), Expect::Any);
        self.store.commit(transaction)?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(&hash);
        Ok(())
    }

    fn keep(&self, hash: Hash, id: Uuid, stored: Stored) -> Result<(), StoreError> {
        let mut transaction = Transaction::new();
        transaction.put(Key::new(TOKEN_KIND, id), &stored, Expect::Absent)?;
        self.store.commit(transaction)?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(hash, (id, stored));
        Ok(())
    }

    fn read<T>(&self, look: impl FnOnce(&HashMap<Hash, (Uuid, Stored)>) -> T) -> T {
        look(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A store of the time when there was one token keeps it.
fn adopt_lone(store: &dyn Store) -> Result<(), StoreError> {
    #[derive(Deserialize)]
    struct Lone {
        sha256: String,
    }
    let key = Key::new(LONE_KIND, FIRST);
    let Some(document) = store.get(&key)? else { return Ok(()) };
    let Lone { sha256 } = document.decode()?;
    let mut transaction = Transaction::new();
    let stored = Stored::first(FIRST.into(), sha256);
    transaction.put(Key::new(TOKEN_KIND, Uuid::new_v4()), &stored, Expect::Absent)?;
    transaction.delete(key, Expect::Any);
    store.commit(transaction).map(|_| ())
}

fn check_name(what: &'static str, name: &str) -> Result<(), TokenError> {
    let is_legal =
        (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(catena_model::text::is_unseen);
    is_legal.then_some(()).ok_or(TokenError::BadName { what })
}

fn new_secret() -> Result<String, TokenError> {
    let mut bytes = [0; SECRET_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(SECRET_BYTES) => Ok(to_hex(&bytes)),
        Ok(_) => Err(TokenError::NoRandomness("too few bytes".into())),
        Err(error) => Err(TokenError::NoRandomness(error.to_string())),
    }
}

/// Does the text have the form of our secrets? Then no other server has given it.
pub(super) fn is_secret(text: &str) -> bool {
    from_hex(text).is_some()
}

pub(super) fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<Hash> {
    let mut bytes = [0; SECRET_BYTES];
    let is_hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    if text.len() != 2 * SECRET_BYTES || !text.bytes().all(is_hex) {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_store::MemoryStore;

    fn request(name: &str) -> TokenRequest {
        let project = ProjectId("web".into());
        TokenRequest { name: name.into(), project, role: Role::Tenant, lifetime_s: None }
    }

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
        let tokens = Tokens::load(Arc::new(MemoryStore::default())).unwrap();
        let error = tokens.ensure_admin(&mut Full).unwrap_err();
        assert!(matches!(error, ControllerError::TokenUnseen(_)), "{error}");
        assert_eq!(tokens.list(), []);
        let mut shown = Vec::new();
        tokens.ensure_admin(&mut shown).unwrap();
        assert!(String::from_utf8(shown).unwrap().starts_with("admin token"));
        let mut again = Vec::new();
        tokens.ensure_admin(&mut again).unwrap();
        assert_eq!(again, b"", "there is one already");
    }

    #[test]
    fn a_deleted_token_opens_nothing_from_then_on_and_after_a_restart_neither() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let tokens = Tokens::load(Arc::clone(&store)).unwrap();
        let (kept, lost) =
            (tokens.create(request("kept")).unwrap(), tokens.create(request("lost")).unwrap());
        let identity = Identity { project: ProjectId("web".into()), role: Role::Tenant };
        assert_eq!(tokens.identify(&lost.secret), Some(identity.clone()));
        tokens.delete(lost.report.id).unwrap();
        assert_eq!(tokens.identify(&lost.secret), None);
        assert!(matches!(tokens.delete(lost.report.id), Err(TokenError::Absent(_))));
        let again = Tokens::load(store).unwrap();
        assert_eq!(again.identify(&lost.secret), None);
        assert_eq!(again.identify(&kept.secret), Some(identity));
        assert_eq!(again.list(), [kept.report]);
    }

    #[test]
    fn a_token_that_is_over_opens_nothing_and_cannot_stand_in_for_the_admin() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let secret = new_secret().unwrap();
        let stored = Stored {
            name: FIRST.into(),
            project: ProjectId(FIRST.into()),
            role: Role::Admin,
            sha256: to_hex(&hash(&secret)),
            created: 1,
            expires: Some(2),
        };
        let mut transaction = Transaction::new();
        transaction.put(Key::new(TOKEN_KIND, Uuid::new_v4()), &stored, Expect::Absent).unwrap();
        store.commit(transaction).unwrap();
        let tokens = Tokens::load(store).unwrap();
        assert_eq!(tokens.identify(&secret), None);
        assert_eq!(tokens.list()[0].expires.as_deref(), Some("1970-01-01T00:00:02Z"));
        let mut shown = Vec::new();
        tokens.ensure_admin(&mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        let new = shown.trim().rsplit(' ').next().unwrap();
        assert_eq!(tokens.identify(new).map(|identity| identity.role), Some(Role::Admin));
    }

    #[test]
    fn the_token_of_a_store_that_knew_only_one_stays_good() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let secret = "0123456789abcdef".repeat(4);
        let mut transaction = Transaction::new();
        let lone = serde_json::json!({"sha256": to_hex(&hash(&secret))});
        transaction.put(Key::new(LONE_KIND, FIRST), &lone, Expect::Absent).unwrap();
        store.commit(transaction).unwrap();
        for _ in 0..2 {
            let tokens = Tokens::load(Arc::clone(&store)).unwrap();
            assert_eq!(tokens.identify(&secret).map(|identity| identity.role), Some(Role::Admin));
            assert_eq!(tokens.list().len(), 1);
        }
    }

    #[test]
    fn what_is_no_proper_request_makes_no_token() {
        let tokens = Tokens::load(Arc::new(MemoryStore::default())).unwrap();
        for name in ["", "a\nb", &"x".repeat(256)] {
            let error = tokens.create(request(name)).unwrap_err();
            assert!(matches!(error, TokenError::BadName { what: "name" }), "{error}");
        }
        let nowhere = TokenRequest { project: ProjectId(String::new()), ..request("a") };
        assert!(tokens.create(nowhere).is_err());
        let brief = TokenRequest { lifetime_s: Some(0), ..request("a") };
        assert!(matches!(tokens.create(brief), Err(TokenError::NoLifetime)));
        let endless = TokenRequest { lifetime_s: Some(u64::MAX), ..request("a") };
        let endless = tokens.create(endless).unwrap();
        assert_eq!(endless.report.expires.as_deref(), Some("9999-12-31T23:59:59Z"));
        assert!(matches!(tokens.create(request("a")), Err(TokenError::NameTaken(_))));
    }
}
