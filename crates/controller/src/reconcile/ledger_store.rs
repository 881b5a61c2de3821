//! What the planner remembers, in the store: a document for each path, one for what bundled functions of any are made
//! of, one for the port numbers of each node and one for the ways from it, one for all cables, one for the numbers of
//! all nodes in telemetry, and a head, one for some paths of slices, one for what each node was told; a change writes
//! what it changes. Knows keys and former forms; refuses to know what a path is.

mod configurations;

use catena_model::entry::{Program, ProgramVersion};
use catena_model::{BlueprintNumber, NodeName, PathId};
use catena_plan::{Ledger, NodeDetours, NodeWays, PathRecord, PortNumbers, SliceBlock, SliceBook};
use catena_store::{Document, Expect, Key, Store, StoreError, Transaction};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

const HEAD_KIND: &str = "ledger";
const PATH_KIND: &str = "path";
const PORT_NUMBERS_KIND: &str = "port-numbers";
const WAYS_KIND: &str = "ways";
const DETOURS_KIND: &str = "detours";
const CABLES_KIND: &str = "cables";
const DEVICES_KIND: &str = "devices";
const PROGRAM_KIND: &str = "program";
const CONFIGURATION_KIND: &str = "configuration";
const SLICES_KIND: &str = "slice-paths";
/// What each step had changed of slices, as it was written up to commit 979b884.
const SLICE_JOURNAL_KIND: &str = "slice-journal";

/// The ledger that was written last; none: the domain begins. A former one, in which the head held
/// all paths, or paths what their functions are made of, is written anew.
pub(super) fn read(store: &dyn Store) -> Result<Option<Ledger>, StoreError> {
    let Some(document) = store.get(&head_key())? else { return Ok(None) };
    let mut ledger: Ledger = document.decode()?;
    if !ledger.paths.is_empty() {
        let mut transaction = Transaction::untold();
        add(&mut transaction, &ledger, &Ledger::default())?;
        store.commit(transaction)?;
        return Ok(Some(ledger));
    }
    ledger.port_numbers = shared(of_nodes::<PortNumbers>(store, PORT_NUMBERS_KIND)?);
    ledger.ways = shared(of_nodes::<NodeWays>(store, WAYS_KIND)?);
    ledger.detours = shared(of_nodes::<NodeDetours>(store, DETOURS_KIND)?);
    if let Some(cables) = store.get(&cables_key())? {
        ledger.cables = Arc::new(cables.decode()?);
    }
    if let Some(devices) = store.get(&devices_key())? {
        ledger.devices = Arc::new(devices.decode()?);
    }
    let paths: Vec<(String, PathRecord)> = documents(store, PATH_KIND)?;
    let paths = paths.into_iter().filter_map(|(id, path)| Some((PathId(id.parse().ok()?), path)));
    let mut paths: Vec<(PathId, PathRecord)> = paths.collect();
    let of_before = configurations::fill(store, &mut paths)?;
    ledger.paths = paths.into_iter().map(|(id, path)| (id, path.renewed())).collect();
    if of_before {
        let mut transaction = Transaction::untold();
        add(&mut transaction, &ledger, &Ledger::default())?;
        store.commit(transaction)?;
    }
    Ok(Some(ledger))
}

fn shared<T>(of_nodes: Vec<(NodeName, T)>) -> BTreeMap<NodeName, Arc<T>> {
    of_nodes.into_iter().map(|(node, about)| (node, Arc::new(about))).collect()
}

/// All documents of a kind, by id.
fn documents<T: DeserializeOwned>(
    store: &dyn Store,
    kind: &str,
) -> Result<Vec<(String, T)>, StoreError> {
    let read = |document: Document| Ok((document.key.id.clone(), document.decode()?));
    store.list(kind)?.into_iter().map(read).collect()
}

/// Those that are about one node each.
pub(super) fn of_nodes<T: DeserializeOwned>(
    store: &dyn Store,
    kind: &str,
) -> Result<Vec<(NodeName, T)>, StoreError> {
    let all = documents(store, kind)?.into_iter();
    Ok(all.filter_map(|(id, about)| Some((NodeName::new(id).ok()?, about))).collect())
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
            Some(record) => transaction.put(key, &*configurations::without(record), Expect::Any)?,
            None => transaction.delete(key, Expect::Any),
        }
    }
    configurations::add(transaction, ledger, former)?;
    add_of_nodes(transaction, PORT_NUMBERS_KIND, &ledger.port_numbers, &former.port_numbers)?;
    add_of_nodes(transaction, WAYS_KIND, &ledger.ways, &former.ways)?;
    add_of_nodes(transaction, DETOURS_KIND, &ledger.detours, &former.detours)?;
    if ledger.cables != former.cables {
        transaction.put(cables_key(), ledger.cables.as_ref(), Expect::Any)?;
    }
    if ledger.devices != former.devices {
        transaction.put(devices_key(), ledger.devices.as_ref(), Expect::Any)?;
    }
    Ok(())
}

/// Adds what differs of documents about one node each.
fn add_of_nodes<T: Serialize + Eq>(
    transaction: &mut Transaction,
    kind: &str,
    now: &BTreeMap<NodeName, Arc<T>>,
    former: &BTreeMap<NodeName, Arc<T>>,
) -> Result<(), StoreError> {
    for (node, about) in now.iter().filter(|(node, about)| former.get(*node) != Some(*about)) {
        transaction.put(Key::new(kind, node), about.as_ref(), Expect::Any)?;
    }
    for node in former.keys().filter(|node| !now.contains_key(*node)) {
        transaction.delete(Key::new(kind, node), Expect::Any);
    }
    Ok(())
}

/// One step in the former form.
#[derive(Deserialize)]
struct JournalRecord {
    journal: SliceBlock,
}

/// What was planned of slices, and by which blueprint at last. What does not count any more is struck
/// out; what is there in the former form is written anew.
pub(super) fn read_slices(store: &dyn Store) -> Result<(SliceBook, BlueprintNumber), StoreError> {
    let mut transaction = Transaction::untold();
    let steps: Vec<(String, JournalRecord)> = documents(store, SLICE_JOURNAL_KIND)?;
    let blocks: Vec<(String, SliceBlock)> = documents(store, SLICES_KIND)?;
    let is_of_before = !steps.is_empty();
    let numbers = steps.iter().map(|(_, step)| &step.journal).chain(blocks.iter().map(|(_, b)| b));
    let newest = numbers.map(|block| block.number).max().unwrap_or_default();
    for (id, _) in &steps {
        transaction.delete(Key::new(SLICE_JOURNAL_KIND, id), Expect::Any);
    }
    for (id, _) in blocks.iter().filter(|(_, block)| block.is_over(newest)) {
        transaction.delete(Key::new(SLICES_KIND, id), Expect::Any);
    }
    let steps = steps.into_iter().map(|(_, step)| step.journal);
    let book = SliceBook::resume(steps.chain(blocks.into_iter().map(|(_, block)| block)));
    if is_of_before {
        add_slices(&mut transaction, book.blocks_since(&SliceBook::default(), newest))?;
    }
    store.commit(transaction)?;
    Ok((book, newest))
}

/// Adds what differs of slices.
pub(super) fn add_slices(
    transaction: &mut Transaction,
    blocks: impl Iterator<Item = (u32, SliceBlock)>,
) -> Result<(), StoreError> {
    for (place, block) in blocks {
        transaction.put(Key::new(SLICES_KIND, place), &block, Expect::Any)?;
    }
    Ok(())
}

/// The programs that nodes were told last.
pub(super) fn read_programs(
    store: &dyn Store,
) -> Result<BTreeMap<NodeName, ProgramVersion>, StoreError> {
    Ok(of_nodes(store, PROGRAM_KIND)?.into_iter().collect())
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

fn cables_key() -> Key {
    Key::new(CABLES_KIND, "current")
}

fn devices_key() -> Key {
    Key::new(DEVICES_KIND, "current")
}

fn head_key() -> Key {
    Key::new(HEAD_KIND, "current")
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_plan::SlicePhase;
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
    fn all_paths_of_a_domain_may_change_in_one_step() {
        let store = MemoryStore::default();
        let paths: serde_json::Map<String, Value> =
            (1..=20_000).map(|id: u32| (id.to_string(), record("installed"))).collect();
        let ledger = json!({"number": 8, "programs": {}, "quarantine": {}, "paths": paths});
        let ledger: Ledger = serde_json::from_value(ledger).unwrap();
        let mut transaction = Transaction::untold();
        add(&mut transaction, &ledger, &Ledger::default()).unwrap();
        store.commit(transaction).unwrap();
        assert_eq!(read(&store).unwrap().unwrap(), ledger);
    }

    /// Records of three steps, as they were written up to commit 979b884.
    fn journal_of_before() -> [Value; 3] {
        let chain = "00000000-0000-0000-0000-000000000007";
        let slice = |last: u8| format!("00000000-0000-0000-0000-0000000000{last:02}");
        let group = |phase: &str, since: u64, paths: &[(u32, u8)]| {
            let paths: Vec<_> = paths.iter().map(|(id, last)| (id, slice(*last))).collect();
            json!({"chain": chain, "like": 4, "phase": phase, "since": since, "paths": paths})
        };
        let step = |number: u64, removed: &[u32], groups: &[Value]| json!({"journal": {"number": number, "removed": removed, "groups": groups}});
        [
            step(
                5,
                &[],
                &[group("installed", 5, &[(1_048_576, 1), (1_048_577, 2), (1_050_000, 3)])],
            ),
            step(6, &[], &[group("classified", 6, &[(1_048_576, 1), (1_050_000, 3)])]),
            step(9, &[1_048_577, 1_060_000], &[group("superseded", 9, &[(1_050_000, 3)])]),
        ]
    }

    #[test]
    fn slices_told_step_by_step_are_written_by_identifiers() {
        let store = MemoryStore::default();
        for (step, record) in journal_of_before().iter().enumerate() {
            put(&store, SLICE_JOURNAL_KIND, &format!("{step:020}-00000"), record);
        }
        let (book, newest) = read_slices(&store).unwrap();
        assert_eq!(newest, BlueprintNumber(9));
        let phases: Vec<_> = book.paths().map(|(id, path)| (id.0, path.phase)).collect();
        let expected = [(1_048_576, SlicePhase::Classified), (1_050_000, SlicePhase::Superseded)];
        assert_eq!(phases, expected);
        assert!(store.list(SLICE_JOURNAL_KIND).unwrap().is_empty());
        assert_eq!(
            store.list(SLICES_KIND).unwrap().len(),
            3,
            "two rest, one where nothing else is"
        );
        assert_eq!(read_slices(&store).unwrap(), (book, newest), "and again");
    }

    #[test]
    fn documents_of_slices_that_are_gone_are_struck_out_once_their_identifiers_are_free() {
        let store = MemoryStore::default();
        let rests = |until: u64, number: u64| json!({"number": number, "groups": [], "resting": [[1_048_576, until]]});
        put(&store, SLICES_KIND, "16384", &rests(21, 5));
        put(&store, SLICES_KIND, "16385", &rests(36, 20));
        assert_eq!(read_slices(&store).unwrap().1, BlueprintNumber(20));
        assert_eq!(store.list(SLICES_KIND).unwrap().len(), 2, "it still rests");
        put(&store, SLICES_KIND, "16386", &rests(37, 21));
        assert_eq!(read_slices(&store).unwrap().1, BlueprintNumber(21));
        assert_eq!(store.list(SLICES_KIND).unwrap().len(), 2);
    }

    #[test]
    fn a_domain_that_begins_has_none() {
        assert!(read(&MemoryStore::default()).unwrap().is_none());
    }
}
