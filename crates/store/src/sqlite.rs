//! The store in one SQLite file: write-ahead log, every commit on disk before it is answered, one
//! writer. Each document carries a checksum of its own, so that a flipped bit is found and named;
//! all of them together and the history have sums, and a witness beside the file knows the last.

mod open;

use crate::change_log::ChangeLog;
use crate::head::{Head, document_checksum};
use crate::witness::{Found, Witness};
use crate::{Change, Document, Key, Revision, Store, StoreError, Transaction};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pages of the log (4 KiB each) after which it is taken into the file.
const LOG_PAGES_MAX: u32 = 1_000;

/// Documents in one file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    connection: Connection,
    head: Head,
    log: ChangeLog,
    witness: Witness,
    /// Is anything in the write-ahead log that is not in the file?
    has_log: bool,
    /// Why the witness could not be written: nothing more is taken then.
    trouble: Option<String>,
}

impl SqliteStore {
    /// Opens or creates the store, readable by its owner alone, checks every byte of it and holds
    /// it against its witness. What is refused is left as it was found.
    ///
    /// # Errors
    /// When the file cannot be opened, belongs to another process or version, is damaged, or lacks
    /// something that was acknowledged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path.as_ref(), false)
    }

    /// The same without its witness, of which a new one is made: what was lost stays lost.
    ///
    /// # Errors
    /// Those of [`SqliteStore::open`], but for the last.
    pub fn open_as_it_is(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path.as_ref(), true)
    }

    fn open_with(path: &Path, accepts_loss: bool) -> Result<Self, StoreError> {
        let cannot = |reason: String| StoreError::CannotOpen { path: path.to_path_buf(), reason };
        let witness_path = Witness::path(path);
        if !accepts_loss {
            let found = Witness::find(&witness_path).map_err(|e| cannot(e.to_string()))?;
            open::refuse_emptied(path, &found)?;
        }
        open::create(path).map_err(|e| cannot(e.to_string()))?;
        let mut connection = Connection::open(path).map_err(|e| cannot(e.to_string()))?;
        keep_log_at_end(&connection, true).map_err(|e| cannot(e.to_string()))?;
        let found = open::prepare(&connection, path)?;
        // Nobody else writes from here on.
        let witness = match accepts_loss {
            true => Found::Nothing,
            false => Witness::find(&witness_path).map_err(|e| cannot(e.to_string()))?,
        };
        open::settle(path).map_err(|e| cannot(e.to_string()))?;
        let witness = open::attest(path, &found, witness, accepts_loss)?;
        if found.is_of_first_schema {
            open::migrate(&mut connection, found.head).map_err(|e| failure(path, "write", &e))?;
        }
        keep_log_at_end(&connection, false).map_err(|e| cannot(e.to_string()))?;
        let log = ChangeLog::starting_at(found.head.revision);
        let (head, has_log, trouble) = (found.head, true, None);
        let inner = Inner { connection, head, log, witness, has_log, trouble };
        Ok(Self { path: path.to_path_buf(), inner: Mutex::new(inner) })
    }

    /// Takes the write-ahead log into the file and empties it. The store does so by itself when the
    /// log has grown and when the store is dropped.
    ///
    /// # Errors
    /// When the disk is full or fails; nothing is lost then.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if inner.has_log {
            inner
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .map_err(|e| failure(&self.path, "write", &e))?;
            inner.has_log = false;
        }
        Ok(())
    }

    /// Bounds the file, in bytes (rounded down to whole pages): what a full disk does, on purpose.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub fn limit_bytes(&self, bytes: u64) -> Result<(), StoreError> {
        let inner = self.lock();
        let page: u64 = inner
            .connection
            .query_row("PRAGMA page_size", [], |row| row.get(0))
            .map_err(|e| failure(&self.path, "read", &e))?;
        let pages = i64::try_from(bytes / page.max(1)).unwrap_or(i64::MAX);
        inner
            .connection
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
            .map_err(|e| failure(&self.path, "write", &e))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for SqliteStore {
    fn revision(&self) -> Result<Revision, StoreError> {
        Ok(self.lock().head.revision)
    }

    fn get(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        let sql = "SELECT kind, id, body, revision, checksum FROM documents
                   WHERE kind = ?1 AND id = ?2";
        let found = self
            .lock()
            .connection
            .prepare_cached(sql)
            .and_then(|mut query| query.query_row([&key.kind, &key.id], read_row).optional())
            .map_err(|e| failure(&self.path, "read", &e))?;
        found.map(|row| row.verify(&self.path)).transpose()
    }

    fn list(&self, kind: &str) -> Result<Vec<Document>, StoreError> {
        let sql = "SELECT kind, id, body, revision, checksum FROM documents
                   WHERE kind = ?1 ORDER BY id";
        let rows: Vec<Row> = self
            .lock()
            .connection
            .prepare_cached(sql)
            .and_then(|mut query| query.query_map([kind], read_row)?.collect())
            .map_err(|e| failure(&self.path, "read", &e))?;
        rows.into_iter().map(|row| row.verify(&self.path)).collect()
    }

    fn commit_all(&self, transactions: Vec<Transaction>) -> Result<Vec<Revision>, StoreError> {
        transactions.iter().try_for_each(Transaction::check_bounds)?;
        let mut inner = self.lock();
        if let Some(reason) = inner.trouble.clone() {
            return Err(StoreError::WitnessUnwritten { path: self.path.clone(), reason });
        }
        let mut head = inner.head;
        if transactions.iter().all(Transaction::is_empty) {
            return Ok(vec![head.revision; transactions.len()]);
        }
        let before = head.mark();
        // Dropped without `commit`, the transaction rolls back.
        let sqlite =
            inner.connection.transaction().map_err(|e| failure(&self.path, "write", &e))?;
        let mut changes = Vec::new();
        let mut revisions = Vec::with_capacity(transactions.len());
        for transaction in &transactions {
            if !transaction.is_empty() {
                head = apply(&sqlite, &self.path, head, transaction, &mut changes)?;
            }
            revisions.push(head.revision);
        }
        head.follow(before);
        save_head(&sqlite, &head).map_err(|e| failure(&self.path, "write", &e))?;
        sqlite.commit().map_err(|e| failure(&self.path, "write", &e))?;
        (inner.head, inner.has_log) = (head, true);
        for change in changes {
            inner.log.record(change.revision, change.key, change.is_removed);
        }
        if let Err(error) = inner.witness.write(&head.mark()) {
            let reason = error.to_string();
            inner.trouble = Some(reason.clone());
            return Err(StoreError::WitnessUnwritten { path: self.path.clone(), reason });
        }
        Ok(revisions)
    }

    fn changes(&self, after: Revision) -> Result<Vec<Change>, StoreError> {
        self.lock().log.after(after)
    }
}

fn apply(
    sqlite: &rusqlite::Transaction<'_>,
    path: &Path,
    mut head: Head,
    transaction: &Transaction,
    changes: &mut Vec<Change>,
) -> Result<Head, StoreError> {
    let fail = |e: rusqlite::Error| failure(path, "write", &e);
    let mut find = sqlite
        .prepare_cached("SELECT revision, checksum FROM documents WHERE kind = ?1 AND id = ?2")
        .map_err(fail)?;
    let mut put = sqlite
        .prepare_cached("INSERT OR REPLACE INTO documents VALUES (?1, ?2, ?3, ?4, ?5)")
        .map_err(fail)?;
    let mut delete =
        sqlite.prepare_cached("DELETE FROM documents WHERE kind = ?1 AND id = ?2").map_err(fail)?;
    head.revision = Revision(head.revision.0 + 1);
    let revision = head.revision;
    for write in &transaction.writes {
        let Key { kind, id } = &write.key;
        let former: Option<(i64, Vec<u8>)> = find
            .query_row([kind, id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(fail)?;
        let found = former.as_ref().map(|(number, _)| Revision(number.unsigned_abs()));
        if !write.expect.holds(found) {
            let (key, expected) = (write.key.clone(), write.expect);
            return Err(StoreError::Conflict { key, expected, found });
        }
        if let Some((_, former)) = &former {
            head.toggle(former);
        }
        match &write.body {
            Some(body) => {
                let sum = document_checksum(kind, id, body, revision);
                head.toggle(&sum);
                put.execute(params![kind, id, body, number(revision.0), sum]).map_err(fail)?;
                head.documents += u64::from(found.is_none());
            }
            None if found.is_some() => {
                delete.execute([kind, id]).map_err(fail)?;
                head.documents -= 1;
            }
            None => continue,
        }
        if !transaction.is_untold {
            let is_removed = write.body.is_none();
            changes.push(Change { revision, key: write.key.clone(), is_removed });
        }
    }
    Ok(head)
}

fn save_head(sqlite: &rusqlite::Transaction<'_>, head: &Head) -> rusqlite::Result<usize> {
    let mut save = sqlite
        .prepare_cached("INSERT OR REPLACE INTO head VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    save.execute(params![
        number(head.revision.0),
        number(head.documents),
        head.contents,
        head.sum,
        number(head.before.revision.0),
        head.before.sum,
        head.checksum(),
    ])
}

/// Shall the log stay as it is when the connection ends?
fn keep_log_at_end(connection: &Connection, is_kept: bool) -> rusqlite::Result<bool> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, is_kept)
}

struct Row {
    document: Document,
    checksum: Vec<u8>,
}

impl Row {
    fn verify(self, path: &Path) -> Result<Document, StoreError> {
        let Document { key, body, revision } = &self.document;
        if self.checksum == document_checksum(&key.kind, &key.id, body, *revision) {
            return Ok(self.document);
        }
        Err(StoreError::DocumentDamaged { path: path.to_path_buf(), key: self.document.key })
    }
}

/// Reads text leniently: a flipped bit must end in the checksum's error, which knows the name.
fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let text = |column: usize| -> rusqlite::Result<String> {
        Ok(String::from_utf8_lossy(row.get_ref(column)?.as_bytes().unwrap_or(b"?")).into_owned())
    };
    let revision: i64 = row.get_ref(3)?.as_i64().unwrap_or(-1);
    Ok(Row {
        document: Document {
            key: Key { kind: text(0)?, id: text(1)? },
            body: text(2)?,
            revision: Revision(revision.unsigned_abs()),
        },
        checksum: row.get_ref(4)?.as_bytes().unwrap_or_default().to_vec(),
    })
}

/// SQLite's integers are signed; no store lives long enough to reach the upper half.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn failure(path: &Path, verb: &'static str, error: &rusqlite::Error) -> StoreError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(path),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::InUse(path),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { path, reason: error.to_string() }
        }
        _ => StoreError::Failed { path, verb, reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expect;

    #[test]
    fn what_the_witness_has_not_seen_is_not_answered_and_nothing_more_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let store = SqliteStore::open(&path).unwrap();
        let put = |id: &str| {
            let mut transaction = Transaction::new();
            transaction.put(Key::new("note", id), &1, Expect::Any).unwrap();
            store.commit(transaction)
        };
        put("before").unwrap();
        store.lock().witness = Witness::deaf(&Witness::path(&path));
        for id in ["during", "after"] {
            let error = put(id).unwrap_err();
            assert!(matches!(error, StoreError::WitnessUnwritten { .. }), "{error}");
        }
        drop(store);
        // The first was written and never answered: both is allowed, and it does start.
        let ids: Vec<String> = SqliteStore::open(&path)
            .unwrap()
            .list("note")
            .unwrap()
            .into_iter()
            .map(|document| document.key.id)
            .collect();
        assert_eq!(ids, ["before", "during"]);
    }
}
