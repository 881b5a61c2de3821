//! What the disk may do to a store: fill up, flip bits, be taken by another, be unreachable.
#![allow(clippy::unwrap_used)]

mod chance;
mod files;

use catena_store::{Expect, Key, Revision, SqliteStore, Store, StoreError, Transaction};
use std::path::Path;

const BODY: &str = "a body long enough to be found again in the file";

fn put(store: &SqliteStore, id: &str, body: &str) -> Result<Revision, StoreError> {
    let mut transaction = Transaction::new();
    transaction.put(Key::new("note", id), &body, Expect::Any)?;
    store.commit(transaction)
}

fn filled(path: &Path) {
    let store = SqliteStore::open(path).unwrap();
    for n in 0..12 {
        put(&store, &format!("n{n}"), &format!("{BODY} {n}")).unwrap();
    }
}

#[test]
fn a_damaged_document_is_called_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    filled(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let needle = format!("{BODY} 7").into_bytes();
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at + 3] ^= 0x20;
    std::fs::write(&path, bytes).unwrap();
    let message = SqliteStore::open(&path).unwrap_err().to_string();
    assert!(message.contains("'note/n7'"), "{message}");
    assert!(message.contains("restore the store from a backup"), "{message}");
}

#[test]
fn a_full_disk_is_a_clear_error_and_nothing_is_half_applied() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = SqliteStore::open(&path).unwrap();
    put(&store, "small", "x").unwrap();
    store.limit_bytes(32 * 1024).unwrap();
    let mut large = Transaction::new();
    large.put(Key::new("note", "another"), &"y", Expect::Any).unwrap();
    large.put(Key::new("note", "large"), &"z".repeat(200_000), Expect::Any).unwrap();
    let error = store.commit(large.clone()).unwrap_err();
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(store.revision().unwrap(), Revision(1));
    assert_eq!(store.list("note").unwrap().len(), 1);
    store.limit_bytes(u64::MAX).unwrap();
    assert_eq!(store.commit(large).unwrap(), Revision(2));
    drop(store);
    assert_eq!(SqliteStore::open(&path).unwrap().list("note").unwrap().len(), 3);
}

#[test]
fn a_second_process_is_told_that_the_store_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let _first = SqliteStore::open(&path).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::InUse(_)), "{error}");
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    let text = "certainly not a database, but long enough to have a header ".repeat(4);
    std::fs::write(&path, &text).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let error = SqliteStore::open(directory.path().join("absent/store.db")).unwrap_err();
    assert!(error.to_string().contains("check that the directory exists"), "{error}");
}
