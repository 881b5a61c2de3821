//! What bundled functions of paths are made of: a document for each, by its digest, whatever paths name it, for it may
//! be large, and a path is written at each of its steps. Knows digests; refuses to know what a configuration says.

use super::CONFIGURATION_KIND;
use catena_model::PathId;
use catena_model::bundle::{Configuration, ConfigurationId, Member};
use catena_plan::{Ledger, PathRecord};
use catena_store::{Expect, Key, Store, StoreError, Transaction};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type ById = BTreeMap<ConfigurationId, Arc<Configuration>>;

/// Stands in a path for what is in a document of its own: there is no kind without a name.
fn elsewhere() -> Configuration {
    Configuration::new(String::new(), String::new())
}

/// A path as it is written.
pub(super) fn without(record: &PathRecord) -> Cow<'_, PathRecord> {
    if record.members.is_empty() {
        return Cow::Borrowed(record);
    }
    let elsewhere = Arc::new(elsewhere());
    let mut record = record.clone();
    for member in &mut record.members {
        member.configuration = Arc::clone(&elsewhere);
    }
    Cow::Owned(record)
}

/// Puts into paths what is in documents; are there some that were written with it?
pub(super) fn fill(
    store: &dyn Store,
    paths: &mut [(PathId, PathRecord)],
) -> Result<bool, StoreError> {
    let mut known = ById::new();
    for document in store.list(CONFIGURATION_KIND)? {
        let configuration: Configuration = document.decode()?;
        known.insert(configuration.id(), Arc::new(configuration));
    }
    let mut of_before = false;
    for member in paths.iter_mut().flat_map(|(_, path)| &mut path.members) {
        if !member.configuration.kind.is_empty() {
            of_before = true;
        } else if let Some(configuration) = known.get(&member.id) {
            member.configuration = Arc::clone(configuration);
        } else {
            tracing::error!(
                "what a function of a path is made of is not in the store: {}",
                member.id
            );
        }
    }
    Ok(of_before)
}

/// Adds what paths name that none named before, and strikes out what none names any more. What a path names never
/// changes.
pub(super) fn add(
    transaction: &mut Transaction,
    ledger: &Ledger,
    former: &Ledger,
) -> Result<(), StoreError> {
    let (mut come, mut gone) = (ById::new(), BTreeSet::new());
    for (id, record) in ledger.paths.since(&former.paths) {
        let before = former.paths.get(&id);
        match (before, record) {
            (None, Some(record)) => come.extend(record.members.iter().map(by_id)),
            (Some(before), None) => gone.extend(before.members.iter().map(|member| member.id)),
            _ => {}
        }
    }
    if come.is_empty() && gone.is_empty() {
        return Ok(());
    }
    let [before, now] = [former, ledger].map(named);
    let is_known = |one: &Arc<Configuration>| !one.kind.is_empty();
    let new = come.iter().filter(|(id, one)| !before.contains(id) && is_known(one));
    for (id, configuration) in new {
        transaction.put(Key::new(CONFIGURATION_KIND, id), configuration.as_ref(), Expect::Any)?;
    }
    for id in gone.difference(&now) {
        transaction.delete(Key::new(CONFIGURATION_KIND, id), Expect::Any);
    }
    Ok(())
}

fn by_id(member: &Member) -> (ConfigurationId, Arc<Configuration>) {
    (member.id, Arc::clone(&member.configuration))
}

/// All that paths name.
fn named(ledger: &Ledger) -> BTreeSet<ConfigurationId> {
    ledger.paths.values().flat_map(|path| &path.members).map(|member| member.id).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{PATH_KIND, add as add_ledger, read};
    use super::*;
    use catena_store::MemoryStore;
    use serde_json::{Value, json};

    fn configuration(text: &str) -> Configuration {
        Configuration::new("firewall", text)
    }

    fn ledger(number: u64, paths: &[(&str, &[&str])]) -> Ledger {
        let record = |texts: &[&str]| {
            let member = |(hop, text): (u16, &&str)| Member {
                hop,
                member: 0,
                function: format!("v{hop}"),
                id: configuration(text).id(),
                configuration: Arc::new(configuration(text)),
                instances: Vec::new(),
            };
            let members: Vec<Member> = (0..).zip(texts).map(member).collect();
            json!({
                "chain": "00000000-0000-0000-0000-000000000007", "chain_name": "web",
                "encapsulation": "nsh", "hops": [], "rules": [], "ports": [], "holders": ["host1"],
                "destination": "00000000-0000-0000-0000-000000000001", "phase": "installed",
                "since": number, "needs": {"host1": 5}, "is_update": false, "members": members,
            })
        };
        let paths: serde_json::Map<String, Value> =
            paths.iter().map(|(id, texts)| ((*id).to_owned(), record(texts))).collect();
        let ledger = json!({"number": number, "programs": {}, "quarantine": {}, "paths": paths});
        serde_json::from_value(ledger).unwrap()
    }

    fn write(store: &MemoryStore, now: &Ledger, former: &Ledger) {
        let mut transaction = Transaction::untold();
        add_ledger(&mut transaction, now, former).unwrap();
        store.commit(transaction).unwrap();
    }

    fn kept(store: &MemoryStore) -> Vec<String> {
        let all = store.list(CONFIGURATION_KIND).unwrap();
        let mut all: Vec<String> =
            all.iter().map(|document| document.decode::<Configuration>().unwrap().config).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn each_configuration_is_kept_once_for_as_long_as_a_path_names_it() {
        let store = MemoryStore::default();
        let first = ledger(1, &[("1", &["a", "b"]), ("2", &["b", "a"])]);
        write(&store, &first, &Ledger::default());
        assert_eq!(kept(&store), ["a", "b"]);
        let path = store.get(&Key::new(PATH_KIND, 1)).unwrap().unwrap();
        assert!(!path.body.contains("firewall"), "{}", path.body);
        assert_eq!(read(&store).unwrap().unwrap(), first);
        let revision = |text: &str| {
            let key = Key::new(CONFIGURATION_KIND, configuration(text).id());
            store.get(&key).unwrap().unwrap().revision
        };
        let written = revision("b");
        let second = ledger(2, &[("2", &["b", "a"]), ("3", &["b", "c"])]);
        write(&store, &second, &first);
        assert_eq!(
            (kept(&store), revision("b")),
            (vec!["a".into(), "b".into(), "c".into()], written)
        );
        assert_eq!(read(&store).unwrap().unwrap(), second);
        let third = ledger(3, &[("3", &["b", "c"])]);
        write(&store, &third, &second);
        assert_eq!(kept(&store), ["b", "c"]);
        assert_eq!(read(&store).unwrap().unwrap(), third);
    }

    #[test]
    fn paths_of_before_that_hold_what_they_name_are_written_anew() {
        let store = MemoryStore::default();
        let of_before = ledger(1, &[("1", &["a"])]);
        write(&store, &of_before, &Ledger::default());
        let mut transaction = Transaction::untold();
        for (id, record) in of_before.paths.iter() {
            transaction.put(Key::new(PATH_KIND, id), record, Expect::Any).unwrap();
        }
        transaction.delete(Key::new(CONFIGURATION_KIND, configuration("a").id()), Expect::Any);
        store.commit(transaction).unwrap();
        for _ in 0..2 {
            assert_eq!(read(&store).unwrap().unwrap(), of_before);
            assert_eq!(kept(&store), ["a"]);
        }
    }

    #[test]
    fn a_chain_of_many_large_configurations_fits_the_store() {
        let store = MemoryStore::default();
        let texts: Vec<String> =
            (0..10).map(|number| format!("{number}{}", "x".repeat(8 * 1024 * 1024))).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        write(&store, &ledger(1, &[("1", &texts)]), &Ledger::default());
        assert_eq!(store.list(CONFIGURATION_KIND).unwrap().len(), 10);
    }
}
