//! What operators have declared: held in memory, changed only by a transaction of the store.
//!
//! Knows which resource is which document. Refuses to know how a border dialect spells them.

use catena_model::event::Declaration;
use catena_model::id::{
    ChainId, FunctionId, GraphId, InstanceId, NetworkId, PortId, RuleId, SubnetId,
};
use catena_model::preview::{ChangeKind, ResourceChange};
use catena_model::resource::{
    Chain, ChainGraph, ClassificationRule, Instance, Label, Network, Port, ServiceFunction, Subnet,
};
use catena_plan::{Intent, PlanError, Table};
use catena_store::{Change, Expect, Key, MemoryStore, Revision, Store, StoreError, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use uuid::Uuid;

/// A resource that is one document of the store.
pub(crate) trait Resource: Clone + Serialize + DeserializeOwned {
    type Id: Copy + Ord + Display;
    const KIND: &'static str;
    fn id(&self) -> Self::Id;
    fn table_mut(intent: &mut Intent) -> &mut Table<Self::Id, Self>;
}

macro_rules! resources {
    ($($type:ident $id:ident $kind:literal $table:ident,)+) => {
        $(
            impl Resource for $type {
                type Id = $id;
                const KIND: &'static str = $kind;
                fn id(&self) -> $id {
                    self.id
                }
                fn table_mut(intent: &mut Intent) -> &mut Table<$id, Self> {
                    &mut intent.$table
                }
            }
        )+

        fn put_all(intent: &Intent, store: &dyn Store) -> Result<(), StoreError> {
            $(
                for (id, resource) in &intent.$table {
                    let mut transaction = Transaction::new();
                    transaction.put(Key::new($kind, id), resource, Expect::Absent)?;
                    store.commit(transaction)?;
                }
            )+
            Ok(())
        }

        impl Draft {
            /// Makes every difference between two intents, and no other.
            pub(crate) fn carry(&mut self, from: &Intent, to: &Intent) -> Result<(), StoreError> {
                $(
                    for (id, resource) in &to.$table {
                        if from.$table.get(id) != Some(resource) {
                            self.put(resource.clone())?;
                        }
                    }
                    for id in from.$table.keys().filter(|id| !to.$table.contains_key(*id)) {
                        self.remove::<$type>(*id);
                    }
                )+
                Ok(())
            }
        }

        /// The resource of a document by kind and name; none: it is none, or is no longer there.
        fn named(intent: &Intent, key: &Key) -> Option<String> {
            let id = Uuid::parse_str(&key.id).ok()?;
            match key.kind.as_str() {
                $($kind => intent.$table.get(&$id(id)).map(|r| r.label.name.clone()),)+
                _ => None,
            }
        }

        /// Is it a kind of resource?
        fn is_resource(kind: &str) -> bool {
            [$($kind),+].contains(&kind)
        }

        /// What differs between two intents, by kind and name.
        pub(crate) fn differences(from: &Intent, to: &Intent) -> Vec<ResourceChange> {
            let mut differences = Vec::new();
            let mut tell = |kind: &str, label: &Label, id: String, change| {
                let name = if label.name.is_empty() { id } else { label.name.clone() };
                differences.push(ResourceChange { kind: kind.into(), name, change });
            };
            $(
                for (id, resource) in &to.$table {
                    match from.$table.get(id) {
                        Some(former) if former == resource => {}
                        Some(_) => {
                            tell($kind, &resource.label, id.to_string(), ChangeKind::Update);
                        }
                        None => tell($kind, &resource.label, id.to_string(), ChangeKind::Create),
                    }
                }
                for (id, resource) in &from.$table {
                    if !to.$table.contains_key(id) {
                        tell($kind, &resource.label, id.to_string(), ChangeKind::Delete);
                    }
                }
            )+
            differences
        }

        fn load_all(
            store: &dyn Store,
            intent: &mut Intent,
            revisions: &mut BTreeMap<Key, Revision>,
        ) -> Result<(), StoreError> {
            $(load::<$type>(store, intent, revisions)?;)+
            Ok(())
        }
    };
}

resources! {
    Network NetworkId "network" networks,
    Subnet SubnetId "subnet" subnets,
    Port PortId "port" ports,
    ClassificationRule RuleId "rule" rules,
    Instance InstanceId "instance" instances,
    ServiceFunction FunctionId "function" functions,
    Chain ChainId "chain" chains,
    ChainGraph GraphId "graph" graphs,
}

fn load<R: Resource>(
    store: &dyn Store,
    intent: &mut Intent,
    revisions: &mut BTreeMap<Key, Revision>,
) -> Result<(), StoreError> {
    for document in store.list(R::KIND)? {
        let resource: R = document.decode()?;
        R::table_mut(intent).insert(resource.id(), resource);
        revisions.insert(document.key, document.revision);
    }
    Ok(())
}

/// The intent at one revision.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) revision: Revision,
    pub(crate) intent: Arc<Intent>,
}

/// All declared resources.
pub(crate) struct Declared {
    store: Arc<dyn Store>,
    /// The document revisions that the snapshot was read at; held while a change is made.
    writer: Mutex<BTreeMap<Key, Revision>>,
    current: watch::Sender<Snapshot>,
}

impl Declared {
    /// Reads everything.
    pub(crate) fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let mut intent = Intent::default();
        let mut revisions = BTreeMap::new();
        load_all(store.as_ref(), &mut intent, &mut revisions)?;
        let snapshot = Snapshot { revision: store.revision()?, intent: Arc::new(intent) };
        let current = watch::Sender::new(snapshot);
        Ok(Self { store, writer: Mutex::new(revisions), current })
    }

    /// A copy that is kept in memory alone: what is changed there is not changed here.
    pub(crate) fn copy_of(origin: &Snapshot) -> Result<Self, StoreError> {
        let store = MemoryStore::default();
        put_all(&origin.intent, &store)?;
        Self::load(Arc::new(store))
    }

    /// The intent as it is now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.current.borrow().clone()
    }

    /// What was declared after a revision, oldest first and each with its own, if the store still
    /// knows. Blocks on the disk.
    pub(crate) fn changes(
        &self,
        after: Revision,
    ) -> Result<Vec<(Revision, Declaration)>, StoreError> {
        let intent = self.snapshot().intent;
        let mut changes = self.store.changes(after)?;
        changes.retain(|change| is_resource(&change.key.kind));
        let tell = |Change { revision, key, is_removed }| {
            let name = named(&intent, &key).filter(|name| !name.is_empty());
            (revision, Declaration { is_removed, kind: key.kind, id: key.id, name })
        };
        Ok(changes.into_iter().map(tell).collect())
    }

    /// Tells of every change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Snapshot> {
        self.current.subscribe()
    }

    /// Makes one change: all of it, durably, or nothing. Blocks on the disk.
    ///
    /// A result that no data plane could carry is refused before it is stored.
    pub(crate) fn change<T, E: From<StoreError> + From<PlanError>>(
        &self,
        edit: impl FnOnce(&mut Draft) -> Result<T, E>,
    ) -> Result<(T, Snapshot), E> {
        let mut revisions = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.snapshot();
        let mut draft = Draft {
            base: before.revision,
            intent: Intent::clone(&before.intent),
            writes: BTreeMap::new(),
        };
        let answer = edit(&mut draft)?;
        if draft.writes.is_empty() {
            return Ok((answer, before));
        }
        catena_plan::check(&draft.intent)?;
        let revision = self.store.commit(transaction(&draft.writes, &revisions)?)?;
        for (key, body) in draft.writes {
            match body {
                Some(_) => revisions.insert(key, revision),
                None => revisions.remove(&key),
            };
        }
        let snapshot = Snapshot { revision, intent: Arc::new(draft.intent) };
        self.current.send_replace(snapshot.clone());
        Ok((answer, snapshot))
    }
}

fn transaction(
    writes: &BTreeMap<Key, Option<serde_json::Value>>,
    revisions: &BTreeMap<Key, Revision>,
) -> Result<Transaction, StoreError> {
    let mut transaction = Transaction::new();
    for (key, body) in writes {
        let expect = revisions.get(key).map_or(Expect::Absent, |revision| Expect::At(*revision));
        match body {
            Some(body) => transaction.put(key.clone(), body, expect)?,
            None => transaction.delete(key.clone(), expect),
        }
    }
    Ok(transaction)
}

/// An intent being changed.
pub(crate) struct Draft {
    /// The revision that it is made from.
    base: Revision,
    intent: Intent,
    writes: BTreeMap<Key, Option<serde_json::Value>>,
}

impl Draft {
    /// The revision that it is made from.
    pub(crate) fn base(&self) -> Revision {
        self.base
    }

    /// The intent as it would be.
    pub(crate) fn intent(&self) -> &Intent {
        &self.intent
    }

    /// Creates or replaces a resource.
    pub(crate) fn put<R: Resource>(&mut self, resource: R) -> Result<(), StoreError> {
        let key = Key::new(R::KIND, resource.id());
        let body = serde_json::to_value(&resource)
            .map_err(|source| StoreError::Unwritable { key: key.clone(), source })?;
        self.writes.insert(key, Some(body));
        R::table_mut(&mut self.intent).insert(resource.id(), resource);
        Ok(())
    }

    /// Removes a resource.
    pub(crate) fn remove<R: Resource>(&mut self, id: R::Id) {
        if R::table_mut(&mut self.intent).remove(&id).is_some() {
            self.writes.insert(Key::new(R::KIND, id), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::{ProjectId, id::NetworkId};
    use catena_store::MemoryStore;
    use catena_wire::scalar::Vni;

    #[derive(Debug)]
    struct Refused;
    impl From<StoreError> for Refused {
        fn from(_: StoreError) -> Self {
            Self
        }
    }
    impl From<PlanError> for Refused {
        fn from(_: PlanError) -> Self {
            Self
        }
    }

    fn network(name: &str) -> Network {
        Network {
            id: NetworkId(Uuid::new_v4()),
            label: Label {
                name: name.into(),
                description: String::new(),
                project: ProjectId("p".into()),
            },
            vni: Vni::new(1).unwrap(),
            mtu: 1_400,
            admin_state_up: true,
        }
    }

    #[test]
    fn a_change_that_fails_half_way_leaves_no_trace_and_a_good_one_survives_a_restart() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let declared = Declared::load(Arc::clone(&store)).unwrap();
        let failed = declared.change(|draft| -> Result<(), Refused> {
            draft.put(network("lost"))?;
            Err(Refused)
        });
        assert!(failed.is_err());
        assert!(declared.snapshot().intent.networks.is_empty());
        let kept = network("kept");
        let id = kept.id;
        declared.change(|draft| -> Result<(), Refused> { Ok(draft.put(kept)?) }).unwrap();
        assert_eq!(store.revision().unwrap(), Revision(1));
        let again = Declared::load(Arc::clone(&store)).unwrap();
        assert_eq!(*again.snapshot().intent, *declared.snapshot().intent);
        declared
            .change(|draft| -> Result<(), Refused> {
                draft.remove::<Network>(id);
                Ok(())
            })
            .unwrap();
        assert!(Declared::load(store).unwrap().snapshot().intent.networks.is_empty());
    }
}
