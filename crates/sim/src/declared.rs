//! What operators have declared, as documents of the store: a model of the controller's module of
//! that name, which is bound to its channels. The same documents, expectations and order: check,
//! commit, then answer.

use crate::planted::Planted;
use catena_plan::{IndexedIntent, Intent, PlanError};
use catena_store::{Expect, Key, Revision, Store, StoreError, Transaction};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a request was refused.
#[derive(Debug)]
pub(crate) enum Refused {
    Plan(PlanError),
    Store(StoreError),
}

/// The intent at one revision, and the revision of each document.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) revision: Revision,
    pub(crate) intent: Arc<IndexedIntent>,
    documents: BTreeMap<Key, Revision>,
}

macro_rules! tables {
    ($($kind:literal $table:ident),+ $(,)?) => {
        /// The documents of an intent.
        fn documents(intent: &Intent) -> Result<BTreeMap<Key, Value>, StoreError> {
            let mut all = BTreeMap::new();
            $(for (id, resource) in &intent.$table {
                let key = Key::new($kind, id);
                let value = serde_json::to_value(resource).map_err(|source| {
                    StoreError::Unwritable { key: key.clone(), source: Arc::new(source) }
                })?;
                all.insert(key, value);
            })+
            Ok(all)
        }

        fn load_all(
            store: &dyn Store,
            intent: &mut Intent,
            documents: &mut BTreeMap<Key, Revision>,
        ) -> Result<(), StoreError> {
            $(for document in store.list($kind)? {
                let resource = decode(&document)?;
                intent.$table.insert(id_of(&document)?, resource);
                documents.insert(document.key, document.revision);
            })+
            Ok(())
        }
    };
}

tables! {
    "network" networks,
    "subnet" subnets,
    "port" ports,
    "rule" rules,
    "instance" instances,
    "function" functions,
    "chain" chains,
}

fn decode<T: DeserializeOwned>(document: &catena_store::Document) -> Result<T, StoreError> {
    document.decode()
}

fn id_of<T: From<uuid::Uuid>>(document: &catena_store::Document) -> Result<T, StoreError> {
    let text = Value::String(document.key.id.clone());
    let id: uuid::Uuid = serde_json::from_value(text).map_err(|source| StoreError::Unreadable {
        key: document.key.clone(),
        source: Arc::new(source),
    })?;
    Ok(T::from(id))
}

impl Declared {
    pub(crate) fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let mut intent = Intent::default();
        let mut documents = BTreeMap::new();
        load_all(store, &mut intent, &mut documents)?;
        Ok(Self { revision: store.revision()?, intent: Arc::new(intent.into()), documents })
    }

    /// Makes one change: all of it, durably, or nothing.
    pub(crate) fn change(
        &mut self,
        store: &dyn Store,
        wanted: &Intent,
        planted: Planted,
    ) -> Result<(), Refused> {
        let (before, after) = (
            documents(&self.intent).map_err(Refused::Store)?,
            documents(wanted).map_err(Refused::Store)?,
        );
        let mut checked = IndexedIntent::unchecked(wanted.clone());
        checked.check().map_err(Refused::Plan)?;
        if planted == Planted::WritesOneByOne {
            self.write_one_by_one(store, &before, &after).map_err(Refused::Store)?;
        } else {
            let transaction = self.transaction(&before, &after).map_err(Refused::Store)?;
            self.revision = store.commit(transaction).map_err(Refused::Store)?;
        }
        let changed: Vec<&Key> =
            after.keys().filter(|key| before.get(*key) != after.get(*key)).collect();
        for key in changed {
            self.documents.insert(key.clone(), self.revision);
        }
        self.documents.retain(|key, _| after.contains_key(key));
        self.intent = Arc::new(checked);
        Ok(())
    }

    fn write_one_by_one(
        &mut self,
        store: &dyn Store,
        before: &BTreeMap<Key, Value>,
        after: &BTreeMap<Key, Value>,
    ) -> Result<(), StoreError> {
        let mut so_far = before.clone();
        for key in before.keys().chain(after.keys()) {
            let mut next = so_far.clone();
            match after.get(key) {
                Some(value) => next.insert(key.clone(), value.clone()),
                None => next.remove(key),
            };
            let transaction = self.transaction(&so_far, &next)?;
            if !transaction.is_empty() {
                self.revision = store.commit(transaction)?;
            }
            so_far = next;
        }
        Ok(())
    }

    fn transaction(
        &self,
        before: &BTreeMap<Key, Value>,
        after: &BTreeMap<Key, Value>,
    ) -> Result<Transaction, StoreError> {
        let mut transaction = Transaction::new();
        let expect = |key: &Key| self.documents.get(key).map_or(Expect::Absent, |r| Expect::At(*r));
        for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(*value)) {
            transaction.put(key.clone(), value, expect(key))?;
        }
        for key in before.keys().filter(|key| !after.contains_key(*key)) {
            transaction.delete(key.clone(), expect(key));
        }
        Ok(transaction)
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}
