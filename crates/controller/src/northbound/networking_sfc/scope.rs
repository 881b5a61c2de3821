//! What a caller may know of: everything for whoever runs the deployment, else what is of the
//! caller's own project. Nothing here is answered with «forbidden»: what one may not see does not
//! exist.

use super::quotas::Quotas;
use crate::auth::Identity;
use crate::config::Overlap;
use crate::declared::{Draft, Stamps};
use crate::reconcile::Situation;
use crate::reconcile::receipts::Receipts;
use catena_model::ProjectId;
use catena_model::id::{
    ChainId, FunctionId, GraphId, InstanceId, NetworkId, PortId, RuleId, SubnetId,
};
use catena_model::resource::{
    Chain, ChainGraph, ClassificationRule, Instance, Label, Network, Port, ServiceFunction, Subnet,
};
use catena_plan::{IndexedIntent, Intent, Table};
use std::sync::Arc;
use uuid::Uuid;

/// A resource that belongs to a project.
pub(super) trait Owned {
    fn id(&self) -> Uuid;
    fn label(&self) -> &Label;
}

/// Resources by identity and label.
pub(super) type Labels<'a> = Box<dyn Iterator<Item = (Uuid, &'a Label)> + 'a>;

macro_rules! owned {
    ($($type:ident)+) => {
        $(
            impl Owned for $type {
                fn id(&self) -> Uuid {
                    self.id.0
                }

                fn label(&self) -> &Label {
                    &self.label
                }
            }
        )+
    };
}

owned! { Network Subnet Port ClassificationRule Instance ServiceFunction Chain ChainGraph }

/// An intent, as one caller sees it.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// All that is declared: for rules that hold whoever owns what.
    pub(super) intent: &'a IndexedIntent,
    pub(super) identity: &'a Identity,
}

impl<'a> Scope<'a> {
    /// The one project that the caller sees; none: all of them.
    pub(super) fn project(self) -> Option<&'a ProjectId> {
        (!self.identity.sees_all()).then_some(&self.identity.project)
    }

    /// A resource of a table, if the caller may know of it.
    pub(super) fn one<K: Ord + 'a, R: Owned + 'a>(
        self,
        table: impl FnOnce(&'a Intent) -> &'a Table<K, R>,
        id: &K,
    ) -> Option<&'a R> {
        table(self.intent).get(id).filter(|resource| self.identity.sees(&resource.label().project))
    }

    /// All resources of a table that the caller may know of.
    pub(super) fn all<K: Ord + 'a, R: Owned + 'a>(
        self,
        table: impl FnOnce(&'a Intent) -> &'a Table<K, R>,
    ) -> impl Iterator<Item = &'a R> {
        let resources = table(self.intent).values();
        resources.filter(move |resource| self.identity.sees(&resource.label().project))
    }

    /// The same by identity and label, ordered by identity.
    pub(super) fn labels<K: Ord + 'a, R: Owned + 'a>(
        self,
        table: impl FnOnce(&'a Intent) -> &'a Table<K, R> + 'a,
    ) -> Labels<'a> {
        Box::new(self.all(table).map(|resource| (resource.id(), resource.label())))
    }

    pub(super) fn network(self, id: NetworkId) -> Option<&'a Network> {
        self.one(|intent| &intent.networks, &id)
    }

    pub(super) fn subnet(self, id: SubnetId) -> Option<&'a Subnet> {
        self.one(|intent| &intent.subnets, &id)
    }

    pub(super) fn port(self, id: PortId) -> Option<&'a Port> {
        self.one(|intent| &intent.ports, &id)
    }

    pub(super) fn rule(self, id: RuleId) -> Option<&'a ClassificationRule> {
        self.one(|intent| &intent.rules, &id)
    }

    pub(super) fn instance(self, id: InstanceId) -> Option<&'a Instance> {
        self.one(|intent| &intent.instances, &id)
    }

    pub(super) fn function(self, id: FunctionId) -> Option<&'a ServiceFunction> {
        self.one(|intent| &intent.functions, &id)
    }

    pub(super) fn chain(self, id: ChainId) -> Option<&'a Chain> {
        self.one(|intent| &intent.chains, &id)
    }

    pub(super) fn graph(self, id: GraphId) -> Option<&'a ChainGraph> {
        self.one(|intent| &intent.graphs, &id)
    }
}

/// What resources are shown from.
pub(super) struct View {
    pub(super) intent: Arc<IndexedIntent>,
    pub(super) stamps: Stamps,
    pub(super) situation: Situation,
    pub(super) receipts: Arc<Receipts>,
    pub(super) identity: Identity,
}

impl View {
    pub(super) fn scope(&self) -> Scope<'_> {
        Scope { intent: &self.intent, identity: &self.identity }
    }

    /// Why a port has no interface; none: it has one.
    pub(super) fn why_unbound(&self, port: &Port) -> Option<String> {
        catena_plan::why_unbound(&self.intent, &self.situation.inventory, port.id)
    }
}

/// A change that somebody is making.
pub(super) struct Edit<'a> {
    pub(super) draft: &'a mut Draft,
    pub(super) identity: &'a Identity,
    pub(super) overlap: Overlap,
    pub(super) quotas: &'a Quotas,
}

impl Edit<'_> {
    pub(super) fn scope(&self) -> Scope<'_> {
        Scope { intent: self.draft.intent(), identity: self.identity }
    }
}
