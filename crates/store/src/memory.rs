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
    /// Would these transactions be carried out? For whoever writes them elsewhere first.
    ///
    /// # Errors
    /// Those of [`Store::commit_all`].
    pub fn check(&self, transactions: &[Transaction]) -> Result<(), StoreError> {
        self.lock().check(transactions)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Each is checked as if those before it had been carried out.
    fn check(&self, transactions: &[Transaction]) -> Result<(), StoreError> {
        let mut revision = self.revision;
        let mut written: BTreeMap<&Key, Option<Revision>> = BTreeMap::new();
        for transaction in transactions {
            transaction.check_bounds()?;
            revision = after(revision, transaction);
            for write in &transaction.writes {
                let stored = || self.documents.get(&write.key).map(|document| document.revision);
                let found = written.get(&write.key).copied().unwrap_or_else(stored);
                if !write.expect.holds(found) {
                    let (key, expected) = (write.key.clone(), write.expect);
                    return Err(StoreError::Conflict { key, expected, found });
                }
            }
            let writes = transaction.writes.iter();
            written.extend(writes.map(|w| (&w.key, w.body.is_some().then_some(revision))));
        }
        Ok(())
    }

    fn carry_out(&mut self, transaction: Transaction) -> Revision {
        let revision = after(self.revision, &transaction);
        self.revision = revision;
        let is_told = !transaction.is_untold;
        for write in transaction.writes {
            let (key, is_removed) = (write.key.clone(), write.body.is_none());
            match write.body {
                Some(body) => {
                    let document = Document { key: key.clone(), body, revision };
                    self.documents.insert(write.key, document);
                }
                None if self.documents.remove(&key).is_some() => {}
                None => continue,
            }
            if is_told {
                self.log.record(revision, key, is_removed);
            }
        }
        revision
    }
}

/// The revision that a transaction leads to.
fn after(revision: Revision, transaction: &Transaction) -> Revision {
    if transaction.is_empty() { revision } else { Revision(revision.0 + 1) }
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

    fn commit_all(&self, transactions: Vec<Transaction>) -> Result<Vec<Revision>, StoreError> {
        let mut inner = self.lock();
        inner.check(&transactions)?;
        Ok(transactions.into_iter().map(|transaction| inner.carry_out(transaction)).collect())
    }

    fn changes(&self, after: Revision) -> Result<Vec<Change>, StoreError> {
        self.lock().log.after(after)
    }
}
