//! Documents with revisions, several of them written at once or not at all.
//!
//! Knows keys, bodies, revisions, compare-and-swap and a bounded log of changes. Refuses to know
//! what a document means. One trait, two implementations with the same behaviour: [`MemoryStore`]
//! for tests and simulation, [`SqliteStore`] on disk.
#![forbid(unsafe_code)]

mod change_log;
mod error;
mod head;
mod memory;
mod sqlite;
mod witness;

pub use error::StoreError;
pub use memory::MemoryStore;
pub use sqlite::SqliteStore;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Longest kind or id, in bytes.
pub const KEY_PART_BYTES_MAX: usize = 255;
/// Largest document body, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most writes in one transaction that is told.
pub const TRANSACTION_WRITES_MAX: usize = 4_096;
/// Changes that are remembered for those who watch; older ones are answered with
/// [`StoreError::Compacted`].
pub const CHANGES_KEPT_MAX: usize = 4_096;

/// Counts transactions over the whole store; grows by one with each. Zero: nothing written yet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Name of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// What sort of document it is.
    pub kind: String,
    /// Which one of that kind.
    pub id: String,
}

impl Key {
    /// A key of two texts.
    #[must_use]
    pub fn new(kind: impl Into<String>, id: impl fmt::Display) -> Self {
        Self { kind: kind.into(), id: id.to_string() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id)
    }
}

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its name.
    pub key: Key,
    /// JSON text.
    pub body: String,
    /// The transaction that wrote it last.
    pub revision: Revision,
}

impl Document {
    /// The meaning of the body.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] when the body is not a `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        serde_json::from_str(&self.body).map_err(|source| StoreError::Unreadable {
            key: self.key.clone(),
            source: Arc::new(source),
        })
    }
}

/// What must hold of a document before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expect {
    /// Nothing.
    Any,
    /// It must not exist.
    Absent,
    /// It must have been written last by this transaction.
    At(Revision),
}

impl Expect {
    fn holds(self, found: Option<Revision>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::At(revision) => found == Some(revision),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Write {
    key: Key,
    expect: Expect,
    /// None: delete.
    body: Option<String>,
}

/// The JSON text of a document.
///
/// # Errors
/// [`StoreError::Unwritable`] when the value has no JSON form.
pub fn text(key: &Key, value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|source| StoreError::Unwritable { key: key.clone(), source: Arc::new(source) })
}

/// Writes that happen together or not at all. It can be written down and read again: a store may
/// keep a journal of transactions instead of documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    writes: Vec<Write>,
    #[serde(default)]
    is_untold: bool,
}

impl Transaction {
    /// Nothing to write yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, of documents that nobody watches: they are not among the changes that are remembered,
    /// and may be as many as there are.
    #[must_use]
    pub fn untold() -> Self {
        Self { is_untold: true, ..Self::default() }
    }

    /// Writes a document.
    ///
    /// # Errors
    /// [`StoreError::Unwritable`] when the value has no JSON form.
    pub fn put(
        &mut self,
        key: Key,
        value: &impl Serialize,
        expect: Expect,
    ) -> Result<(), StoreError> {
        let body = text(&key, value)?;
        self.put_text(key, body, expect);
        Ok(())
    }

    /// Writes a document whose JSON text is at hand, as [`text`] made it.
    pub fn put_text(&mut self, key: Key, body: String, expect: Expect) {
        self.writes.push(Write { key, expect, body: Some(body) });
    }

    /// Removes a document; one that does not exist stays so.
    pub fn delete(&mut self, key: Key, expect: Expect) {
        self.writes.push(Write { key, expect, body: None });
    }

    /// Has it no writes?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Refuses what no store takes, so that all of them refuse the same.
    ///
    /// # Errors
    /// When there are too many writes, a name or body is too large, or a document comes twice.
    pub fn check_bounds(&self) -> Result<(), StoreError> {
        if !self.is_untold && self.writes.len() > TRANSACTION_WRITES_MAX {
            return Err(StoreError::TooManyWrites(self.writes.len()));
        }
        let mut keys = BTreeSet::new();
        for write in &self.writes {
            for part in [&write.key.kind, &write.key.id] {
                if part.is_empty() || part.len() > KEY_PART_BYTES_MAX {
                    return Err(StoreError::BadKey(write.key.clone()));
                }
            }
            let bytes = write.body.as_ref().map_or(0, String::len);
            if bytes > DOCUMENT_BYTES_MAX {
                return Err(StoreError::TooLarge { key: write.key.clone(), bytes });
            }
            if !keys.insert(&write.key) {
                return Err(StoreError::WrittenTwice(write.key.clone()));
            }
        }
        Ok(())
    }
}

/// A document that was written or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The transaction.
    pub revision: Revision,
    /// The document.
    pub key: Key,
    /// Does it no longer exist?
    pub is_removed: bool,
}

/// A store of documents. All calls may block on the disk.
pub trait Store: Send + Sync {
    /// The last transaction.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn revision(&self) -> Result<Revision, StoreError>;

    /// One document, or none.
    ///
    /// # Errors
    /// When the store cannot be read or the document was altered on disk.
    fn get(&self, key: &Key) -> Result<Option<Document>, StoreError>;

    /// All documents of a kind, by id.
    ///
    /// # Errors
    /// When the store cannot be read or a document was altered on disk.
    fn list(&self, kind: &str) -> Result<Vec<Document>, StoreError>;

    /// Carries out all writes, durably, and returns the new revision; or none of them. A
    /// transaction without writes changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when an expectation does not hold, [`StoreError::Full`] when the
    /// disk is full, others when a bound is passed or the disk fails. Nothing is written then.
    fn commit(&self, transaction: Transaction) -> Result<Revision, StoreError> {
        let revisions = self.commit_all(vec![transaction])?;
        revisions.last().copied().map_or_else(|| self.revision(), Ok)
    }

    /// Carries out transactions one after the other, each with a revision of its own, and makes
    /// them durable together: the disk is waited for once. An error of one is an error of all, and
    /// none is kept. A crash before the answer may keep the first of them, each whole.
    ///
    /// # Errors
    /// Those of [`Store::commit`].
    fn commit_all(&self, transactions: Vec<Transaction>) -> Result<Vec<Revision>, StoreError>;

    /// What changed after a revision, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] when the log no longer reaches back that far: list again.
    fn changes(&self, after: Revision) -> Result<Vec<Change>, StoreError>;
}
