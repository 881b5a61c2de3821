//! What a caller may know of: everything for whoever runs the deployment, else what is of the
//! caller's own project. Nothing here is answered with «forbidden»: what one may not see does not
//! exist.

use super::errors::ApiError;
use crate::auth::Identity;
use crate::config::Overlap;
use crate::declared::{Draft, Stamps};
use crate::northbound::packing::Placing;
use crate::northbound::quotas::Quotas;
use crate::reconcile::Situation;
use crate::reconcile::receipts::Receipts;
use catena_model::ProjectId;
use catena_model::id::{
    ChainId, FunctionId, GraphId, InstanceId, NetworkId, PortId, RuleId, SubnetId,
};
use catena_model::resource::{
    Chain, ChainGraph, ClassificationRule, Instance, Label, Network, Port, ServiceFunction, Subnet,
};
use catena_plan::{IndexedIntent, Inventory, Resource};
use std::sync::Arc;
use uuid::Uuid;

/// Resources by identity and label.
pub(super) type Labels<'a> = Box<dyn Iterator<Item = (Uuid, &'a Label)> + 'a>;

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

    /// A resource, if the caller may know of it.
    fn one<R: Resource + 'a>(self, id: R::Id) -> Option<&'a R> {
        let found = R::table(self.intent).get(&id);
        found.filter(|resource| self.identity.sees(&resource.label().project))
    }

    /// All that the caller may know of, by identity and label, in the order of identities; only those
    /// of a name, if one is given. Costs what is found, where a name or a project tells.
    pub(super) fn labels<R: Resource + 'a>(self, name: Option<&str>) -> Labels<'a> {
        let index = self.intent.index();
        let found: Box<dyn Iterator<Item = R::Id> + 'a> = match (name, self.project()) {
            (Some(name), _) if !name.is_empty() => Box::new(index.named::<R>(name)),
            (_, Some(project)) => Box::new(index.owned::<R>(project)),
            _ => Box::new(R::table(self.intent).keys().copied()),
        };
        let identity = self.identity;
        let resources = found.filter_map(move |id| R::table(self.intent).get(&id));
        let seen = resources.filter(move |resource| identity.sees(&resource.label().project));
        Box::new(seen.map(|resource| (resource.id().into(), resource.label())))
    }

    pub(super) fn network(self, id: NetworkId) -> Option<&'a Network> {
        self.one(id)
    }

    pub(super) fn subnet(self, id: SubnetId) -> Option<&'a Subnet> {
        self.one(id)
    }

    pub(super) fn port(self, id: PortId) -> Option<&'a Port> {
        self.one(id)
    }

    pub(super) fn rule(self, id: RuleId) -> Option<&'a ClassificationRule> {
        self.one(id)
    }

    pub(super) fn instance(self, id: InstanceId) -> Option<&'a Instance> {
        self.one(id)
    }

    pub(super) fn function(self, id: FunctionId) -> Option<&'a ServiceFunction> {
        self.one(id)
    }

    pub(super) fn chain(self, id: ChainId) -> Option<&'a Chain> {
        self.one(id)
    }

    pub(super) fn graph(self, id: GraphId) -> Option<&'a ChainGraph> {
        self.one(id)
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
    /// None: hosts are chosen later, for all changes together.
    pub(super) placing: Option<&'a Placing>,
    /// What is known of the nodes.
    pub(super) inventory: &'a Inventory,
}

impl Edit<'_> {
    pub(super) fn scope(&self) -> Scope<'_> {
        Scope { intent: self.draft.intent(), identity: self.identity }
    }

    /// May a project have one more of a kind of which it has so many?
    pub(super) fn check_quota(
        &self,
        kind: &str,
        project: &ProjectId,
        own: usize,
    ) -> Result<(), ApiError> {
        if self.quotas.limit(project, kind).is_none_or(|limit| own < limit) {
            return Ok(());
        }
        let message = format!("Quota exceeded for resources: ['{kind}'].");
        Err(ApiError::conflict("OverQuota", message))
    }
}
