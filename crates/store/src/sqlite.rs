//! The store in one SQLite file: write-ahead log, every commit on disk before it is answered, one
//! writer. Each document carries a checksum of its own, so that a flipped bit is found and named.

use crate::change_log::ChangeLog;
use crate::{Change, Document, Key, Revision, Store, StoreError, Transaction, Write};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use sha2::{Digest, Sha256};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SCHEMA_VERSION: i64 = 1;
const SCHEMA: &str = "
    CREATE TABLE documents (
        kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, revision INTEGER NOT NULL,
        checksum BLOB NOT NULL, PRIMARY KEY (kind, id)
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE head (
        only INTEGER PRIMARY KEY CHECK (only = 1), revision INTEGER NOT NULL,
        documents INTEGER NOT NULL, checksum BLOB NOT NULL
    ) STRICT;
    PRAGMA user_version = 1;
";

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
}

/// What is true of the store as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    revision: Revision,
    documents: u64,
}

impl SqliteStore {
    /// Opens or creates the store, readable by its owner alone, and checks every byte of it.
    ///
    /// # Errors
    /// When the file cannot be opened, belongs to another process or version, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_path_buf();
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| StoreError::CannotOpen { path: path.clone(), reason: e.to_string() })?;
        let connection = Connection::open(&path)
            .map_err(|e| StoreError::CannotOpen { path: path.clone(), reason: e.to_string() })?;
        let head = prepare(&connection, &path)?;
        settle(&path)
            .map_err(|e| StoreError::CannotOpen { path: path.clone(), reason: e.to_string() })?;
        let inner = Inner { connection, head, log: ChangeLog::starting_at(head.revision) };
        Ok(Self { path, inner: Mutex::new(inner) })
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
        let mut head = inner.head;
        if transactions.iter().all(Transaction::is_empty) {
            return Ok(vec![head.revision; transactions.len()]);
        }
        // Dropped without `commit`, the transaction rolls back.
        let sqlite =
            inner.connection.transaction().map_err(|e| failure(&self.path, "write", &e))?;
        let mut changes = Vec::new();
        let mut revisions = Vec::with_capacity(transactions.len());
        for transaction in &transactions {
            if !transaction.is_empty() {
                head = apply(&sqlite, &self.path, head, &transaction.writes, &mut changes)?;
            }
            revisions.push(head.revision);
        }
        save_head(&sqlite, head).map_err(|e| failure(&self.path, "write", &e))?;
        sqlite.commit().map_err(|e| failure(&self.path, "write", &e))?;
        inner.head = head;
        for change in changes {
            inner.log.record(change.revision, change.key, change.is_removed);
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
    head: Head,
    writes: &[Write],
    changes: &mut Vec<Change>,
) -> Result<Head, StoreError> {
    let fail = |e: rusqlite::Error| failure(path, "write", &e);
    let mut find = sqlite
        .prepare_cached("SELECT revision FROM documents WHERE kind = ?1 AND id = ?2")
        .map_err(fail)?;
    let mut put = sqlite
        .prepare_cached("INSERT OR REPLACE INTO documents VALUES (?1, ?2, ?3, ?4, ?5)")
        .map_err(fail)?;
    let mut delete =
        sqlite.prepare_cached("DELETE FROM documents WHERE kind = ?1 AND id = ?2").map_err(fail)?;
    let revision = Revision(head.revision.0 + 1);
    let mut documents = head.documents;
    for write in writes {
        let Key { kind, id } = &write.key;
        let found: Option<i64> =
            find.query_row([kind, id], |row| row.get(0)).optional().map_err(fail)?;
        let found = found.map(|number| Revision(number.unsigned_abs()));
        if !write.expect.holds(found) {
            let (key, expected) = (write.key.clone(), write.expect);
            return Err(StoreError::Conflict { key, expected, found });
        }
        match &write.body {
            Some(body) => {
                let sum = document_checksum(kind, id, body, revision);
                put.execute(params![kind, id, body, number(revision.0), sum]).map_err(fail)?;
                documents += u64::from(found.is_none());
            }
            None if found.is_some() => {
                delete.execute([kind, id]).map_err(fail)?;
                documents -= 1;
            }
            None => continue,
        }
        let is_removed = write.body.is_none();
        changes.push(Change { revision, key: write.key.clone(), is_removed });
    }
    Ok(Head { revision, documents })
}

fn save_head(sqlite: &rusqlite::Transaction<'_>, head: Head) -> rusqlite::Result<usize> {
    let (revision, documents) = (number(head.revision.0), number(head.documents));
    sqlite.prepare_cached("INSERT OR REPLACE INTO head VALUES (1, ?1, ?2, ?3)")?.execute(params![
        revision,
        documents,
        head_checksum(head)
    ])
}

/// Makes durable what a killed process wrote and did not sync: whoever builds upon it must not find
/// himself ahead of the store after a power cut.
fn settle(path: &Path) -> std::io::Result<()> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    match std::fs::File::open(Path::new(&log)) {
        Ok(log) => log.sync_all(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Settings, schema and the check of every byte.
fn prepare(connection: &Connection, path: &Path) -> Result<Head, StoreError> {
    let fail = |e: rusqlite::Error| failure(path, "open", &e);
    for setting in [
        "locking_mode = EXCLUSIVE",
        "journal_mode = WAL",
        "synchronous = FULL",
        "trusted_schema = OFF",
    ] {
        connection.execute_batch(&format!("PRAGMA {setting}")).map_err(fail)?;
    }
    let version: i64 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fail)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(fail)?;
    if version == 0 && tables == 0 {
        let schema = format!("BEGIN IMMEDIATE; {SCHEMA} COMMIT;");
        connection.execute_batch(&schema).map_err(fail)?;
    } else if version != SCHEMA_VERSION {
        let path = path.to_path_buf();
        return Err(StoreError::Version { path, found: version, known: SCHEMA_VERSION });
    }
    verify(connection, path)
}

fn verify(connection: &Connection, path: &Path) -> Result<Head, StoreError> {
    let damaged = |reason: String| StoreError::Damaged { path: path.to_path_buf(), reason };
    let fail = |e: rusqlite::Error| failure(path, "check", &e);
    let verdict: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(fail)?;
    if verdict != "ok" {
        return Err(damaged(verdict));
    }
    let mut query = connection
        .prepare("SELECT kind, id, body, revision, checksum FROM documents")
        .map_err(fail)?;
    let mut counted = 0;
    for row in query.query_map([], read_row).map_err(fail)? {
        row.map_err(fail)?.verify(path)?;
        counted += 1;
    }
    let stored: Option<(i64, i64, Vec<u8>)> = connection
        .query_row("SELECT revision, documents, checksum FROM head", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()
        .map_err(fail)?;
    let head = stored.as_ref().map_or_else(Head::default, |(revision, documents, _)| Head {
        revision: Revision(revision.unsigned_abs()),
        documents: documents.unsigned_abs(),
    });
    if stored.is_some_and(|(_, _, sum)| sum != head_checksum(head)) {
        return Err(damaged("the revision does not fit its checksum".into()));
    }
    if counted != head.documents {
        return Err(damaged(format!("{counted} documents of {} are there", head.documents)));
    }
    Ok(head)
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

fn document_checksum(kind: &str, id: &str, body: &str, revision: Revision) -> Vec<u8> {
    let mut sum = Sha256::new();
    for part in [kind, id, body] {
        sum.update((part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.update(revision.0.to_le_bytes());
    sum.finalize().to_vec()
}

fn head_checksum(head: Head) -> Vec<u8> {
    let mut sum = Sha256::new();
    sum.update(head.revision.0.to_le_bytes());
    sum.update(head.documents.to_le_bytes());
    sum.finalize().to_vec()
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
