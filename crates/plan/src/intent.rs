//! Everything that operators have declared, as the planner sees it.

use catena_model::ProjectId;
use catena_model::id::{
    ChainId, FunctionId, GraphId, InstanceId, NetworkId, PortId, RuleId, RuleSetId, SliceId,
    SubnetId,
};
use catena_model::resource::{
    Chain, ChainGraph, ClassificationRule, FunctionTemplate, Instance, Network, Port,
    ServiceFunction, Subnet,
};
use catena_model::rule_set::{BadRuleSet, RuleSet};
use catena_model::slice::Slice;
use imbl::ordmap::DiffItem;
use std::sync::Arc;

/// Resources by identity. A copy costs nothing and shares what it has in common with its origin.
pub type Table<K, V> = imbl::OrdMap<K, V>;

/// What differs in two tables: the key, and what was and is there. Costs what differs.
pub(crate) fn differences<'t, K: Ord, V: PartialEq>(
    from: &'t Table<K, V>,
    to: &'t Table<K, V>,
) -> impl Iterator<Item = (&'t K, Option<&'t V>, Option<&'t V>)> {
    from.diff(to).map(|item| match item {
        DiffItem::Add(key, new) => (key, None, Some(new)),
        DiffItem::Remove(key, old) => (key, Some(old), None),
        DiffItem::Update { old: (_, old), new: (key, new) } => (key, Some(old), Some(new)),
    })
}

/// All declared resources by identity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intent {
    /// Tenant networks.
    pub networks: Table<NetworkId, Network>,
    /// Their address ranges.
    pub subnets: Table<SubnetId, Subnet>,
    /// Attachments of endpoints and functions.
    pub ports: Table<PortId, Port>,
    /// Classification rules.
    pub rules: Table<RuleId, ClassificationRule>,
    /// Instances of functions.
    pub instances: Table<InstanceId, Instance>,
    /// Functions.
    pub functions: Table<FunctionId, ServiceFunction>,
    /// Chains.
    pub chains: Table<ChainId, Chain>,
    /// Chains that branch into others.
    pub graphs: Table<GraphId, ChainGraph>,
    /// Slices of 5G networks.
    pub slices: Table<SliceId, Slice>,
    /// Rule sets that configurations of bundled functions name.
    pub rule_sets: Table<RuleSetId, RuleSet>,
}

impl Intent {
    /// A template of a function of a project, with the text of each rule set in the place of its digest.
    ///
    /// # Errors
    /// The project has not sent one that it names.
    pub fn with_texts(
        &self,
        template: &FunctionTemplate,
        project: &ProjectId,
    ) -> Result<FunctionTemplate, BadRuleSet> {
        template.with_texts(|digest| {
            let sent = self.rule_sets.get(&RuleSetId::of(project, digest))?;
            Some(Arc::clone(&sent.text))
        })
    }

    /// What people call a port: its name, else its identity.
    #[must_use]
    pub fn port_name(&self, id: PortId) -> String {
        self.ports.get(&id).map_or_else(|| id.to_string(), Port::name)
    }

    /// What people call a chain: its name, else its identity.
    #[must_use]
    pub fn chain_name(&self, id: ChainId) -> String {
        self.chains.get(&id).map_or_else(|| id.to_string(), Chain::name)
    }

    /// What people call a network: its name, else its identity.
    #[must_use]
    pub fn network_name(&self, id: NetworkId) -> String {
        self.networks.get(&id).map_or_else(|| id.to_string(), Network::name)
    }
}
