//! The store as a map: the model that every other store must behave like.

use crate::change_log::ChangeLog;
use crate::{Change, Document, Key, Revision, Store, StoreError, Transaction};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Documents in memory; gone with the process.
#[derive(Debug)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    revision: Revision,
    documents: BTreeMap<Key, Document>,
    log: ChangeLog,
}

impl Default for MemoryStore {
    fn default() -> Self {
        let inner = Inner {
            revision: Revision(0),
            documents: BTreeMap::new(),
            log: ChangeLog::starting_at(Revision(0)),
        };
        Self { inner: Mutex::new(inner) }
    }
}

impl MemoryStore {
    /// Would this transaction be carried out? For whoever writes it elsewhere first.
    ///
    /// # Errors
    /// Those of [`Store::commit`].
    pub fn check(&self, transaction: &Transaction) -> Result<(), StoreError> {
        transaction.check_bounds()?;
        self.lock().check(transaction)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn check(&self, transaction: &Transaction) -> Result<(), StoreError> {
        for write in &transaction.writes {
            let found = self.documents.get(&write.key).map(|document| document.revision);
            if !write.expect.holds(found) {
                let (key, expected) = (write.key.clone(), write.expect);
                return Err(StoreError::Conflict { key, expected, found });
            }
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn revision(&self) -> Result<Revision, StoreError> {
        Ok(self.lock().revision)
    }

    fn get(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        Ok(self.lock().documents.get(key).cloned())
    }

    fn list(&self, kind: &str) -> Result<Vec<Document>, StoreError> {
        let of_kind = |document: &&Document| document.key.kind == kind;
        Ok(self.lock().documents.values().filter(of_kind).cloned().collect())
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, StoreError> {
        transaction.check_bounds()?;
        let mut inner = self.lock();
        if transaction.is_empty() {
            return Ok(inner.revision);
        }
        inner.check(&transaction)?;
        let revision = Revision(inner.revision.0 + 1);
        inner.revision = revision;
        for write in transaction.writes {
            let key = write.key.clone();
            match write.body {
                Some(body) => {
                    let document = Document { key: key.clone(), body, revision };
                    inner.documents.insert(write.key, document);
                    inner.log.record(revision, key, false);
                }
                None if inner.documents.remove(&key).is_some() => {
                    inner.log.record(revision, key, true);
                }
                None => {}
            }
        }
        Ok(revision)
    }

    fn changes(&self, after: Revision) -> Result<Vec<Change>, StoreError> {
        self.lock().log.after(after)
    }
}
