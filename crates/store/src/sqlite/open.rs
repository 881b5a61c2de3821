//! Opening a store: settings, schema, the check of every byte, and what the witness says.

use super::{LOG_PAGES_MAX, Row, failure, read_row, save_head};
use crate::head::Head;
use crate::witness::{Found, Mark, Sum, Witness};
use crate::{Key, Revision, StoreError};
use rusqlite::{Connection, OptionalExtension};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const SCHEMA_VERSION: i64 = 2;
/// Without sums and without a witness.
const FIRST_SCHEMA_VERSION: i64 = 1;
const DOCUMENTS: &str = "
    CREATE TABLE documents (
        kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, revision INTEGER NOT NULL,
        checksum BLOB NOT NULL, PRIMARY KEY (kind, id)
    ) WITHOUT ROWID, STRICT;
";
const HEAD: &str = "
    CREATE TABLE head (
        only INTEGER PRIMARY KEY CHECK (only = 1), revision INTEGER NOT NULL,
        documents INTEGER NOT NULL, contents BLOB NOT NULL, sum BLOB NOT NULL,
        before_revision INTEGER NOT NULL, before_sum BLOB NOT NULL, checksum BLOB NOT NULL
    ) STRICT;
    PRAGMA user_version = 2;
";

/// What is in the file.
pub(super) struct Contents {
    pub(super) head: Head,
    pub(super) is_of_first_schema: bool,
}

/// Makes the file, if there is none.
pub(super) fn create(path: &Path) -> std::io::Result<()> {
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(drop)
}

/// Refuses a file that has nothing in it and should have: SQLite would throw its log away.
pub(super) fn refuse_emptied(path: &Path, witness: &Found) -> Result<(), StoreError> {
    let is_empty = std::fs::metadata(path).map_or(true, |metadata| metadata.len() == 0);
    match witness {
        Found::Sound(_, Mark { revision, .. }) if is_empty && *revision > Revision(0) => {
            let (path, found) = (path.to_path_buf(), Revision(0));
            Err(StoreError::Behind { path, found, witnessed: *revision })
        }
        _ => Ok(()),
    }
}

/// Makes durable what a killed process wrote and did not sync: whoever builds upon it must not find
/// himself ahead of the store after a power cut.
pub(super) fn settle(path: &Path) -> std::io::Result<()> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    match std::fs::File::open(Path::new(&log)) {
        Ok(log) => log.sync_all(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Settings, schema and the check of every byte.
pub(super) fn prepare(connection: &Connection, path: &Path) -> Result<Contents, StoreError> {
    let fail = |e: rusqlite::Error| failure(path, "open", &e);
    for setting in [
        "locking_mode = EXCLUSIVE",
        "journal_mode = WAL",
        "synchronous = FULL",
        "trusted_schema = OFF",
        &format!("wal_autocheckpoint = {LOG_PAGES_MAX}"),
    ] {
        connection.execute_batch(&format!("PRAGMA {setting}")).map_err(fail)?;
    }
    let version: i64 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fail)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(fail)?;
    if version == 0 && tables == 0 {
        let schema = format!("BEGIN IMMEDIATE; {DOCUMENTS} {HEAD} COMMIT;");
        connection.execute_batch(&schema).map_err(fail)?;
    } else if ![FIRST_SCHEMA_VERSION, SCHEMA_VERSION].contains(&version) {
        let path = path.to_path_buf();
        return Err(StoreError::Version { path, found: version, known: SCHEMA_VERSION });
    }
    verify(connection, path, version == FIRST_SCHEMA_VERSION)
}

/// Gives a store of the first schema its sums: all of it or nothing.
pub(super) fn migrate(connection: &mut Connection, head: Head) -> rusqlite::Result<()> {
    let sqlite = connection.transaction()?;
    sqlite.execute_batch(&format!("DROP TABLE head; {HEAD}"))?;
    save_head(&sqlite, &head)?;
    sqlite.commit()
}

/// Holds a store against its witness; answers the one that goes on with it.
pub(super) fn attest(
    path: &Path,
    contents: &Contents,
    witness: Found,
    accepts_loss: bool,
) -> Result<Witness, StoreError> {
    let (head, own) = (&contents.head, contents.head.mark());
    let refuse = |reason: &str| {
        let (path, reason) = (path.to_path_buf(), reason.into());
        Err(StoreError::Unwitnessed { path, reason })
    };
    let fail = |error: std::io::Error| {
        let path = path.to_path_buf();
        StoreError::CannotOpen { path, reason: format!("its witness: {error}") }
    };
    let (mut witness, mark) = match witness {
        Found::Sound(witness, mark) => (witness, mark),
        // Nothing has been acknowledged yet, or nothing was ever witnessed.
        _ if accepts_loss || contents.is_of_first_schema || own.revision == Revision(0) => {
            return Witness::make(&Witness::path(path), &own).map_err(fail);
        }
        Found::Nothing => return refuse("its witness is missing"),
        Found::Damaged => return refuse("its witness is damaged"),
    };
    if mark == own {
        return Ok(witness);
    }
    if mark.revision > own.revision {
        let (path, found) = (path.to_path_buf(), own.revision);
        return Err(StoreError::Behind { path, found, witnessed: mark.revision });
    }
    // Killed between the log and the witness: one commit, on top of what the witness has seen.
    if mark != head.before {
        return refuse("it does not follow from what its witness has seen");
    }
    witness.write(&own).map_err(fail)?;
    Ok(witness)
}

/// Reads every document and holds all of them against the sums.
fn verify(
    connection: &Connection,
    path: &Path,
    is_of_first_schema: bool,
) -> Result<Contents, StoreError> {
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
    let mut found = Head::default();
    let mut last: Option<Key> = None;
    for row in query.query_map([], read_row).map_err(fail)? {
        let row: Row = row.map_err(fail)?;
        found.toggle(&row.checksum);
        found.documents += 1;
        let key = row.verify(path)?.key;
        // A page in another's place: nobody who looks for these documents would find them.
        if last.is_some_and(|last| last >= key) {
            return Err(damaged(format!("the document '{key}' is out of its order")));
        }
        last = Some(key);
    }
    let (head, checksum) = match is_of_first_schema {
        true => read_first_head(connection, found.contents).map_err(fail)?,
        false => read_head(connection).map_err(fail)?,
    };
    let own = if is_of_first_schema { head.first_checksum() } else { head.checksum() };
    if checksum.is_some_and(|checksum| checksum != own) {
        return Err(damaged("the revision does not fit its checksum".into()));
    }
    if found.documents != head.documents {
        let (there, all) = (found.documents, head.documents);
        return Err(damaged(format!("{there} documents of {all} are there")));
    }
    if found.contents != head.contents {
        return Err(damaged("some of its documents are older than the others".into()));
    }
    Ok(Contents { head, is_of_first_schema })
}

/// What is stored of the whole, with its checksum; none: nothing has been written yet.
fn read_head(connection: &Connection) -> rusqlite::Result<(Head, Option<Vec<u8>>)> {
    let sql = "SELECT revision, documents, contents, sum, before_revision, before_sum, checksum
               FROM head";
    let read = |row: &rusqlite::Row<'_>| {
        let count = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.unsigned_abs());
        let before = Mark { revision: Revision(count(4)?), sum: row.get(5)? };
        let head = Head {
            revision: Revision(count(0)?),
            documents: count(1)?,
            contents: row.get(2)?,
            sum: row.get(3)?,
            before,
        };
        Ok((head, Some(row.get(6)?)))
    };
    Ok(connection.query_row(sql, [], read).optional()?.unwrap_or_default())
}

/// The same of the first schema: its history begins with what is there now.
fn read_first_head(
    connection: &Connection,
    contents: Sum,
) -> rusqlite::Result<(Head, Option<Vec<u8>>)> {
    let sql = "SELECT revision, documents, checksum FROM head";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let stored: Option<(i64, i64, Vec<u8>)> = connection.query_row(sql, [], read).optional()?;
    let Some((revision, documents, checksum)) = stored else { return Ok(Default::default()) };
    let (revision, documents) = (Revision(revision.unsigned_abs()), documents.unsigned_abs());
    let mut head = Head { revision, documents, contents, ..Head::default() };
    head.follow(Mark::default());
    Ok((head, Some(checksum)))
}
