//! What the planner remembers, as documents of the store: a model of the controller's module of that name. A
//! document for each path, one for the port numbers of each node, one for the ways from it and one for their
//! detours, one for all cables, one for the numbers of all nodes in telemetry, one for what each node was told, and a
//! head.

use crate::planted::Planted;
use catena_model::entry::ProgramVersion;
use catena_model::program::ExitPlace;
use catena_model::{NodeName, PathId};
use catena_plan::{Ledger, PortNumbers};
use catena_store::{Expect, Key, Store, StoreError, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const LEDGER_KIND: &str = "ledger";
const PATH_KIND: &str = "path";
const PORT_NUMBERS_KIND: &str = "port-numbers";
const WAYS_KIND: &str = "ways";
const DETOURS_KIND: &str = "detours";
const CABLES_KIND: &str = "cables";
const DEVICES_KIND: &str = "devices";
const PROGRAM_KIND: &str = "program";

type OfNodes<T> = BTreeMap<NodeName, Arc<T>>;

pub(crate) fn read_ledger(store: &dyn Store) -> Result<Ledger, StoreError> {
    let Some(head) = store.get(&head_key())? else { return Ok(Ledger::default()) };
    let mut ledger: Ledger = head.decode()?;
    ledger.port_numbers = of_nodes(store, PORT_NUMBERS_KIND)?;
    ledger.ways = of_nodes(store, WAYS_KIND)?;
    ledger.detours = of_nodes(store, DETOURS_KIND)?;
    if let Some(cables) = store.get(&cables_key())? {
        ledger.cables = Arc::new(cables.decode()?);
    }
    if let Some(devices) = store.get(&devices_key())? {
        ledger.devices = Arc::new(devices.decode()?);
    }
    let mut paths = Vec::new();
    for document in store.list(PATH_KIND)? {
        let record = document.decode()?;
        paths.extend(document.key.id.parse().ok().map(|id| (PathId(id), record)));
    }
    ledger.paths = paths.into_iter().collect();
    Ok(ledger)
}

/// What each node was told last.
pub(crate) fn read_told(
    store: &dyn Store,
) -> Result<BTreeMap<NodeName, ProgramVersion>, StoreError> {
    let told = of_nodes(store, PROGRAM_KIND)?.into_iter();
    Ok(told.map(|(node, version)| (node, *version)).collect())
}

fn of_nodes<T: DeserializeOwned>(store: &dyn Store, kind: &str) -> Result<OfNodes<T>, StoreError> {
    let mut found = OfNodes::new();
    for document in store.list(kind)? {
        let about = document.decode()?;
        found.extend(NodeName::new(document.key.id).map(|node| (node, Arc::new(about))));
    }
    Ok(found)
}

/// Puts down what differs from the ledger before, and what nodes are told by it.
pub(crate) fn put_ledger(
    store: &dyn Store,
    (ledger, former): (&Ledger, &Ledger),
    told: BTreeMap<NodeName, ProgramVersion>,
    planted: Planted,
) -> Result<(), StoreError> {
    let mut transaction = Transaction::new();
    transaction.put(head_key(), ledger, Expect::Any)?;
    if planted == Planted::WritesLedgerInTwo {
        store.commit(std::mem::take(&mut transaction))?;
    }
    for (id, record) in ledger.paths.since(&former.paths) {
        let key = Key::new(PATH_KIND, id);
        match record {
            Some(record) => transaction.put(key, record, Expect::Any)?,
            None => transaction.delete(key, Expect::Any),
        }
    }
    let numbers = (&ledger.port_numbers, &former.port_numbers);
    put_of_nodes(&mut transaction, PORT_NUMBERS_KIND, numbers, |book| spoilt(book, planted))?;
    let (ways, detours) = ((&ledger.ways, &former.ways), (&ledger.detours, &former.detours));
    put_of_nodes(&mut transaction, WAYS_KIND, ways, Clone::clone)?;
    put_of_nodes(&mut transaction, DETOURS_KIND, detours, Clone::clone)?;
    if ledger.cables != former.cables {
        transaction.put(cables_key(), ledger.cables.as_ref(), Expect::Any)?;
    }
    if ledger.devices != former.devices {
        transaction.put(devices_key(), ledger.devices.as_ref(), Expect::Any)?;
    }
    for (node, version) in told {
        transaction.put(Key::new(PROGRAM_KIND, node), &version, Expect::Any)?;
    }
    store.commit(transaction).map(drop)
}

fn put_of_nodes<T: Eq, W: Serialize>(
    transaction: &mut Transaction,
    kind: &str,
    (now, former): (&OfNodes<T>, &OfNodes<T>),
    write: impl Fn(&T) -> W,
) -> Result<(), StoreError> {
    for (node, about) in now.iter().filter(|(node, about)| former.get(*node) != Some(*about)) {
        transaction.put(Key::new(kind, node), &write(about), Expect::Any)?;
    }
    for node in former.keys().filter(|node| !now.contains_key(*node)) {
        transaction.delete(Key::new(kind, node), Expect::Any);
    }
    Ok(())
}

/// A node's numbers, with the planted fault.
fn spoilt(book: &PortNumbers, planted: Planted) -> Value {
    let mut written = serde_json::to_value(book).unwrap_or_default();
    let resting = written.get_mut("resting").and_then(Value::as_object_mut);
    match (planted, resting) {
        (Planted::ReusesNumbersAtOnce, Some(resting)) => resting.clear(),
        (Planted::ReusesHeadersAtOnce, Some(resting)) => {
            let is_header = |of: &ExitPlace| matches!(of, ExitPlace::Pathlet(_));
            for (number, _) in book.resting().iter().filter(|(_, rests)| is_header(&rests.of)) {
                resting.remove(&number.to_string());
            }
        }
        (Planted::LeadsBeforeEdgesKnow, _) => {
            let headers = written.get_mut("pathlets").and_then(Value::as_array_mut);
            headers.into_iter().flatten().for_each(|one| one["is_known"] = Value::Bool(true));
        }
        _ => {}
    }
    written
}

fn devices_key() -> Key {
    Key::new(DEVICES_KIND, "current")
}

fn head_key() -> Key {
    Key::new(LEDGER_KIND, "current")
}

fn cables_key() -> Key {
    Key::new(CABLES_KIND, "current")
}
