//! Both stores behave the same under random operations, and the one on disk comes back the same.
#![allow(clippy::unwrap_used)]

use catena_store::{
    Expect, Key, MemoryStore, Revision, SqliteStore, Store, StoreError, Transaction,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Step {
    id: u8,
    expect: u8,
    body: Option<String>,
}

fn step() -> impl Strategy<Value = Step> {
    (0u8..6, 0u8..12, prop::option::weighted(0.7, ".{0,40}")).prop_map(|(id, expect, body)| Step {
        id,
        expect,
        body,
    })
}

fn transaction(steps: &[Step]) -> Transaction {
    let mut transaction = Transaction::new();
    for step in steps {
        let key = Key::new(if step.id % 2 == 0 { "even" } else { "odd" }, step.id);
        let expect = match step.expect {
            0..=6 => Expect::Any,
            7 | 8 => Expect::Absent,
            n => Expect::At(Revision(u64::from(n) - 8)),
        };
        match &step.body {
            Some(body) => transaction.put(key, body, expect).unwrap(),
            None => transaction.delete(key, expect),
        }
    }
    transaction
}

fn text<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error: {error}"),
    }
}

fn contents(store: &dyn Store) -> String {
    let get = text(store.get(&Key::new("odd", 1)));
    format!(
        "{} {} {} {get}",
        text(store.revision()),
        text(store.list("even")),
        text(store.list("odd"))
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_and_memory_behave_the_same_and_reopening_changes_nothing(
        history in prop::collection::vec(prop::collection::vec(step(), 0..4), 0..24),
        reopen_at in 0usize..24,
    ) {
        // Nothing here is about waiting for a disk.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let path = directory.path().join("store.db");
        let memory = MemoryStore::default();
        let mut sqlite = SqliteStore::open(&path).unwrap();
        let mut reopened_at = Revision(0);
        for (index, steps) in history.iter().enumerate() {
            if index == reopen_at {
                drop(sqlite);
                sqlite = SqliteStore::open(&path).unwrap();
                reopened_at = sqlite.revision().unwrap();
            }
            // Alone, or with another of its kind: then both are kept or none.
            let batch = |twin: bool| {
                let twin = twin.then(|| transaction(&steps[..steps.len() / 2]));
                std::iter::once(transaction(steps)).chain(twin).collect::<Vec<_>>()
            };
            let expected = text(memory.commit_all(batch(index % 2 == 0)));
            prop_assert_eq!(text(sqlite.commit_all(batch(index % 2 == 0))), expected);
            prop_assert_eq!(contents(&sqlite), contents(&memory));
            let changes = text(sqlite.changes(reopened_at));
            prop_assert_eq!(changes, text(memory.changes(reopened_at)));
        }
        drop(sqlite);
        prop_assert_eq!(contents(&SqliteStore::open(&path).unwrap()), contents(&memory));
    }
}

#[test]
fn a_failed_expectation_leaves_every_document_of_the_transaction_untouched() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
    let mut first = Transaction::new();
    first.put(Key::new("k", "a"), &1, Expect::Absent).unwrap();
    assert_eq!(store.commit(first).unwrap(), Revision(1));
    let mut second = Transaction::new();
    second.put(Key::new("k", "b"), &2, Expect::Absent).unwrap();
    second.put(Key::new("k", "a"), &3, Expect::At(Revision(7))).unwrap();
    let error = store.commit(second).unwrap_err();
    assert!(matches!(&error, StoreError::Conflict { found: Some(Revision(1)), .. }), "{error}");
    assert_eq!(store.revision().unwrap(), Revision(1));
    assert!(store.get(&Key::new("k", "b")).unwrap().is_none());
    assert_eq!(store.get(&Key::new("k", "a")).unwrap().unwrap().decode::<u8>().unwrap(), 1);
}

#[test]
fn what_no_store_takes_is_refused_by_name() {
    let store = MemoryStore::default();
    let mut twice = Transaction::new();
    twice.put(Key::new("k", "a"), &1, Expect::Any).unwrap();
    twice.delete(Key::new("k", "a"), Expect::Any);
    assert!(store.commit(twice).unwrap_err().to_string().contains("'k/a' stands twice"));
    let mut nameless = Transaction::new();
    nameless.put(Key::new("k", ""), &1, Expect::Any).unwrap();
    assert!(matches!(store.commit(nameless), Err(StoreError::BadKey(_))));
    assert_eq!(store.revision().unwrap(), Revision(0));
}

/// One write more than is told at once.
fn many(mut transaction: Transaction) -> Transaction {
    for id in 0..=catena_store::TRANSACTION_WRITES_MAX {
        transaction.put(Key::new("path", id), &id, Expect::Any).unwrap();
    }
    transaction
}

#[test]
fn what_nobody_watches_is_bounded_by_nothing_and_pushes_no_change_out() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Box<dyn Store>; 2] = [
        Box::new(MemoryStore::default()),
        Box::new(SqliteStore::open(folder.path().join("store.db")).unwrap()),
    ];
    for store in stores {
        let mut declared = Transaction::new();
        declared.put(Key::new("chain", 1), &1, Expect::Any).unwrap();
        let declared = store.commit(declared).unwrap();
        let told = store.commit(many(Transaction::new()));
        assert!(matches!(told, Err(StoreError::TooManyWrites(_))));
        store.commit(many(Transaction::untold())).unwrap();
        store.commit(many(Transaction::untold())).unwrap();
        let told: Vec<Key> =
            store.changes(Revision(0)).unwrap().into_iter().map(|change| change.key).collect();
        assert_eq!(told, [Key::new("chain", 1)]);
        assert_eq!(store.revision().unwrap(), Revision(declared.0 + 2));
    }
}
