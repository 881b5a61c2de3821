//! What operators have declared: held in memory, changed only by a transaction of the store.
//!
//! Knows which resource is which document. Refuses to know how a border dialect spells them.

mod stamps;
mod writer;

use crate::wall_clock;
use catena_model::event::Declaration;
use catena_model::preview::{ChangeKind, ResourceChange};
use catena_model::resource::{
    Chain, ChainGraph, ClassificationRule, Instance, Label, Network, Port, ServiceFunction, Subnet,
};
use catena_model::rule_set::RuleSet;
use catena_model::slice::Slice;
use catena_plan::{IndexedIntent, Intent, PlanError, Table};
use catena_store::{Change, Key, MemoryStore, Revision, Store, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
pub(crate) use stamps::Stamp;
use stamps::{StampOf, Stamped};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use tokio::sync::watch;
use uuid::Uuid;
use writer::Writer;

/// A resource that is one document of the store.
pub(crate) trait Resource:
    catena_plan::Resource<Id: Display + Into<Uuid>> + Serialize + DeserializeOwned
{
    const KIND: &'static str;

    /// Does anybody see when it was made and changed?
    fn is_stamped() -> bool {
        ["network", "subnet", "port"].contains(&Self::KIND)
    }
}

macro_rules! resources {
    ($($type:ident $kind:literal $table:ident,)+) => {
        $(
            impl Resource for $type {
                const KIND: &'static str = $kind;
            }
        )+

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
                $($kind => {
                    let id = <$type as catena_plan::Resource>::Id::from(id);
                    intent.$table.get(&id).map(|resource| resource.label.name.clone())
                })+
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
            stamps: &mut Stamps,
            revisions: &mut BTreeMap<Key, Revision>,
        ) -> Result<(), StoreError> {
            $(
                for document in store.list($kind)? {
                    let resource: $type = document.decode()?;
                    if <$type>::is_stamped() {
                        stamps.insert(resource.id.0, document.decode::<StampOf>()?.stamp);
                    }
                    intent.$table.insert(resource.id, resource);
                    revisions.insert(document.key, document.revision);
                }
            )+
            Ok(())
        }
    };
}

resources! {
    Network "network" networks,
    Subnet "subnet" subnets,
    Port "port" ports,
    ClassificationRule "rule" rules,
    Instance "instance" instances,
    ServiceFunction "function" functions,
    Chain "chain" chains,
    ChainGraph "graph" graphs,
    Slice "slice" slices,
    RuleSet "rule_set" rule_sets,
}

/// When resources were made and changed, as far as they have stamps.
pub(crate) type Stamps = Table<Uuid, Stamp>;

/// The intent at one revision. A copy costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) revision: Revision,
    pub(crate) intent: Arc<IndexedIntent>,
    pub(crate) stamps: Stamps,
}

/// All declared resources.
pub(crate) struct Declared {
    writer: Arc<Writer>,
}

impl Declared {
    /// Reads everything.
    pub(crate) fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let mut intent = Intent::default();
        let (mut stamps, mut revisions) = (Stamps::new(), BTreeMap::new());
        load_all(store.as_ref(), &mut intent, &mut stamps, &mut revisions)?;
        let intent = Arc::new(IndexedIntent::from(intent));
        let snapshot = Snapshot { revision: store.revision()?, intent, stamps };
        Ok(Self { writer: Arc::new(Writer::new(store, snapshot, revisions)) })
    }

    /// A copy that is kept in memory alone: what is changed there is not changed here.
    pub(crate) fn copy_of(origin: &Snapshot) -> Self {
        // What the copy has not written itself is in no store: there is nothing to be overwritten.
        let store = Arc::new(MemoryStore::default());
        let snapshot = Snapshot { revision: Revision::default(), ..origin.clone() };
        Self { writer: Arc::new(Writer::new(store, snapshot, BTreeMap::new())) }
    }

    /// The intent as it is now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.writer.current.borrow().clone()
    }

    /// What was declared after a revision, oldest first and each with its own, if the store still
    /// knows. What is gone has the name that it had in `former`. Blocks on the disk.
    pub(crate) fn changes(
        &self,
        after: Revision,
        former: Option<&Intent>,
    ) -> Result<Vec<(Revision, Declaration)>, StoreError> {
        let intent = self.snapshot().intent;
        let mut changes = self.writer.store.changes(after)?;
        changes.retain(|change| is_resource(&change.key.kind));
        let tell = |Change { revision, key, is_removed }| {
            let name = named(&intent, &key).or_else(|| named(former?, &key));
            let name = name.filter(|name| !name.is_empty());
            (revision, Declaration { is_removed, kind: key.kind, id: key.id, name })
        };
        Ok(changes.into_iter().map(tell).collect())
    }

    /// Tells of every change; of several that came at once, of the last.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Snapshot> {
        self.writer.current.subscribe()
    }

    /// Makes one change: all of it, durably, or nothing. Answers with what is declared right after
    /// it. Changes that come while the disk is busy are written together.
    ///
    /// A result that no data plane could carry is refused before it is stored.
    pub(crate) async fn change<T, E>(
        &self,
        edit: impl FnOnce(&mut Draft) -> Result<T, E> + Send + 'static,
    ) -> Result<(T, Snapshot), E>
    where
        T: Send + 'static,
        E: From<StoreError> + From<PlanError> + Send + 'static,
    {
        writer::change(&self.writer, edit).await
    }
}

/// An intent being changed.
#[derive(Clone)]
pub(crate) struct Draft {
    /// The revision that it is made from.
    base: Revision,
    intent: IndexedIntent,
    stamps: Stamps,
    /// The documents written, as JSON text; none: removed.
    writes: BTreeMap<Key, Option<String>>,
}

impl Draft {
    /// The revision that it is made from.
    pub(crate) fn base(&self) -> Revision {
        self.base
    }

    /// The intent as it would be.
    pub(crate) fn intent(&self) -> &IndexedIntent {
        &self.intent
    }

    /// Creates or replaces a resource.
    pub(crate) fn put<R: Resource>(&mut self, resource: R) -> Result<(), StoreError> {
        let key = Key::new(R::KIND, resource.id());
        let text = if R::is_stamped() {
            let stamp = self.stamp(&resource);
            catena_store::text(&key, &Stamped { resource: &resource, stamp })?
        } else {
            catena_store::text(&key, &resource)?
        };
        self.writes.insert(key, Some(text));
        self.intent.put(resource);
        Ok(())
    }

    /// The stamp of a resource that is being written. What was written as it is was not changed.
    fn stamp<R: Resource>(&mut self, resource: &R) -> Stamp {
        let (id, now_s) = (resource.id().into(), wall_clock::now());
        let before = self.stamps.get(&id).copied();
        let stamp = match R::table(&self.intent).get(&resource.id()) {
            Some(former) if former == resource => before.unwrap_or_default(),
            Some(_) => before.unwrap_or_default().changed(now_s),
            None => Stamp::new(now_s),
        };
        self.stamps.insert(id, stamp);
        stamp
    }

    /// Removes a resource.
    pub(crate) fn remove<R: Resource>(&mut self, id: R::Id) {
        if self.intent.remove::<R>(id) {
            self.stamps.remove(&id.into());
            self.writes.insert(Key::new(R::KIND, id), None);
        }
    }
}

#[cfg(test)]
mod tests;
