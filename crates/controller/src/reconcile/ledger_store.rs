//! The ledger in the store: a document for each path and a head, so that a change writes what it
//! changes. Knows keys and the form of before; refuses to know what a path is.

use catena_model::entry::{Program, ProgramVersion};
use catena_model::{NodeName, PathId};
use catena_plan::{Ledger, PathRecord};
use catena_store::{Expect, Key, Store, StoreError, Transaction};
use std::collections::BTreeMap;

const HEAD_KIND: &str = "ledger";
const PATH_KIND: &str = "path";
const PROGRAM_KIND: &str = "program";

/// The ledger that was written last; none: the domain begins. One of before, in which the head held
/// all paths, is written anew.
pub(super) fn read(store: &dyn Store) -> Result<Option<Ledger>, StoreError> {
    let Some(document) = store.get(&head_key())? else { return Ok(None) };
    let mut ledger: Ledger = document.decode()?;
    if !ledger.paths.is_empty() {
        let mut transaction = Transaction::new();
        add(&mut transaction, &ledger, &Ledger::default())?;
        store.commit(transaction)?;
        return Ok(Some(ledger));
    }
    let mut paths: Vec<(PathId, PathRecord)> = Vec::new();
    for document in store.list(PATH_KIND)? {
        let record = document.decode()?;
        paths.extend(document.key.id.parse().ok().map(|id| (PathId(id), record)));
    }
    ledger.paths = paths.into_iter().collect();
    Ok(Some(ledger))
}

/// Adds what differs from the ledger before.
pub(super) fn add(
    transaction: &mut Transaction,
    ledger: &Ledger,
    former: &Ledger,
) -> Result<(), StoreError> {
    transaction.put(head_key(), ledger, Expect::Any)?;
    for (id, record) in ledger.paths.since(&former.paths) {
        let key = Key::new(PATH_KIND, id);
        match record {
            Some(record) => transaction.put(key, record, Expect::Any)?,
            None => transaction.delete(key, Expect::Any),
        }
    }
    Ok(())
}

/// The programs that nodes were told last.
pub(super) fn read_programs(
    store: &dyn Store,
) -> Result<BTreeMap<NodeName, ProgramVersion>, StoreError> {
    let mut programs = BTreeMap::new();
    for document in store.list(PROGRAM_KIND)? {
        let version = document.decode()?;
        programs.extend(NodeName::new(document.key.id).map(|node| (node, version)));
    }
    Ok(programs)
}

/// Adds the programs that nodes are told now.
pub(super) fn add_programs<'p>(
    transaction: &mut Transaction,
    programs: impl Iterator<Item = (&'p NodeName, &'p Program)>,
) -> Result<(), StoreError> {
    for (node, program) in programs {
        transaction.put(program_key(node), &program.version(), Expect::Any)?;
    }
    Ok(())
}

/// Where a node's is.
pub(super) fn program_key(node: &NodeName) -> Key {
    Key::new(PROGRAM_KIND, node)
}

fn head_key() -> Key {
    Key::new(HEAD_KIND, "current")
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_store::{MemoryStore, Revision};
    use serde_json::{Value, json};

    fn record(phase: &str) -> Value {
        json!({
            "chain": "00000000-0000-0000-0000-000000000007", "chain_name": "web",
            "encapsulation": "nsh", "hops": [], "rules": [], "ports": [], "holders": ["host1"],
            "destination": "00000000-0000-0000-0000-000000000001", "phase": phase, "since": 5,
            "needs": {"host1": 5}, "is_update": false,
        })
    }

    fn put(store: &MemoryStore, kind: &str, id: &str, document: &Value) -> Revision {
        let mut transaction = Transaction::new();
        transaction.put(Key::new(kind, id), document, Expect::Any).unwrap();
        store.commit(transaction).unwrap()
    }

    /// As it was written up to commit 24b4483.
    fn of_before() -> Value {
        json!({
            "number": 7, "choice_seed": 9, "programs": {"host1": 6},
            "paths": {"1": record("superseded"), "2": record("classified")},
            "quarantine": {"3": 9}, "remembered": {"4": {"host2": 8}},
        })
    }

    #[test]
    fn a_ledger_of_before_is_read_whole_and_written_path_by_path() {
        let store = MemoryStore::default();
        put(&store, HEAD_KIND, "current", &of_before());
        let expected: Ledger = serde_json::from_value(of_before()).unwrap();
        assert_eq!(expected.paths.len(), 2);
        for _ in 0..2 {
            assert_eq!(read(&store).unwrap().unwrap(), expected);
        }
        let head: Value = store.get(&head_key()).unwrap().unwrap().decode().unwrap();
        assert!(head.get("paths").is_none() && store.list(PATH_KIND).unwrap().len() == 2);
    }

    #[test]
    fn a_change_writes_the_head_and_the_paths_that_it_changes() {
        let store = MemoryStore::default();
        put(&store, HEAD_KIND, "current", &of_before());
        let former = read(&store).unwrap().unwrap();
        let untouched = store.get(&Key::new(PATH_KIND, 1)).unwrap().unwrap().revision;
        let changed: Ledger = serde_json::from_value(json!({
            "number": 8, "programs": {}, "quarantine": {},
            "paths": {"1": record("superseded"), "5": record("installed")},
        }))
        .unwrap();
        let mut transaction = Transaction::new();
        add(&mut transaction, &changed, &former).unwrap();
        store.commit(transaction).unwrap();
        assert_eq!(read(&store).unwrap().unwrap(), changed);
        assert_eq!(store.get(&Key::new(PATH_KIND, 1)).unwrap().unwrap().revision, untouched);
        assert!(store.get(&Key::new(PATH_KIND, 2)).unwrap().is_none());
    }

    #[test]
    fn a_domain_that_begins_has_none() {
        assert!(read(&MemoryStore::default()).unwrap().is_none());
    }
}
