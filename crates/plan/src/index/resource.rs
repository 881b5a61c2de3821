//! What each resource says to the index, when it comes and when it goes.

use super::{EVERYWHERE, Index, numbered};
use crate::check::Room;
use crate::counts::Edit;
use crate::intent::{Intent, Table};
use catena_model::id::{
    ChainId, FunctionId, GraphId, InstanceId, NetworkId, PortId, RuleId, RuleSetId, SliceId,
    SubnetId,
};
use catena_model::resource::{
    Attachment, Chain, ChainGraph, ClassificationRule, Instance, Label, Network, Port,
    ServiceFunction, Subnet,
};
use catena_model::rule_set::RuleSet;
use std::collections::BTreeSet;
use uuid::Uuid;

/// A declared resource, and what the index knows of it.
pub trait Resource: Clone + PartialEq {
    /// Its identity.
    type Id: Copy + Ord + From<Uuid> + Into<Uuid>;

    /// The name of the table that an intent keeps it in.
    const TABLE: &'static str;

    /// Its identity.
    fn id(&self) -> Self::Id;

    /// What people and projects know it by.
    fn label(&self) -> &Label;

    /// Where an intent keeps it.
    fn table(intent: &Intent) -> &Table<Self::Id, Self>;

    /// Where an intent keeps it.
    fn table_mut(intent: &mut Intent) -> &mut Table<Self::Id, Self>;

    /// Is a newer version the same but for what the index does not know?
    fn means(&self, newer: &Self) -> bool;

    /// It comes or goes; what depends on it is to be checked.
    fn edit(&self, edit: Edit, intent: &Intent, index: &mut Index);
}

macro_rules! of_table {
    ($id:ident $table:ident) => {
        type Id = $id;

        const TABLE: &'static str = stringify!($table);

        fn id(&self) -> $id {
            self.id
        }

        fn label(&self) -> &catena_model::resource::Label {
            &self.label
        }

        fn table(intent: &Intent) -> &Table<$id, Self> {
            &intent.$table
        }

        fn table_mut(intent: &mut Intent) -> &mut Table<$id, Self> {
            &mut intent.$table
        }
    };
}
pub(super) use of_table;

impl Resource for Network {
    of_table!(NetworkId networks);

    fn means(&self, newer: &Self) -> bool {
        self.vni == newer.vni
    }

    fn edit(&self, edit: Edit, _: &Intent, index: &mut Index) {
        index.vnis.edit(edit, &EVERYWHERE, self.vni.get().into(), self.id);
    }
}

impl Resource for Subnet {
    of_table!(SubnetId subnets);

    fn means(&self, newer: &Self) -> bool {
        self.network == newer.network && self.cidr == newer.cidr
    }

    fn edit(&self, edit: Edit, _: &Intent, index: &mut Index) {
        index.network_subnets.edit(edit, self.network, self.id);
        index.unchecked.networks.insert(self.network);
    }
}

impl Resource for Port {
    of_table!(PortId ports);

    fn means(&self, newer: &Self) -> bool {
        self.network == newer.network
            && self.node == newer.node
            && self.mac == newer.mac
            && self.fixed_ips == newer.fixed_ips
            && self.label.project == newer.label.project
            && self.attachment == newer.attachment
    }

    fn edit(&self, edit: Edit, _: &Intent, index: &mut Index) {
        index.network_ports.edit(edit, self.network, self.id);
        index.network_sizes.edit(edit, self.network);
        index.macs.edit(edit, (self.network, self.mac), self.id);
        for fixed in &self.fixed_ips {
            let (is_ipv4, number) = numbered(fixed.address);
            index.addresses.edit(edit, &(self.network, is_ipv4), number, self.id);
            index.network_addresses.edit(edit, self.network);
        }
        if let Some(node) = &self.node {
            let room = match self.attachment {
                Some(Attachment::Inside) => Room::OF_INSIDE_PORT,
                _ => Room::OF_PORT,
            };
            index.edit_room(edit, node, room);
            index.ports_at.edit(edit, (self.label.project.clone(), node.clone()));
            if let Some(interface) = self.attachment.as_ref().and_then(Attachment::interface) {
                index.interfaces.edit(edit, (node.clone(), interface.clone()), self.id);
            }
        }
        if edit == Edit::Add {
            index.unchecked.grown.insert(self.network);
            index.unchecked.nodes.extend(self.node.clone());
        }
        check_those_at(self.id, index);
    }
}

/// The chains over a port's instances and those that begin or end at it.
fn check_those_at(port: PortId, index: &mut Index) {
    let over = index.instances_of_port(port).flat_map(|id| index.chains_of_instance(id));
    let at = index.rules_of_port(port).flat_map(|id| index.chains_of_rule(id));
    let chains: Vec<ChainId> = over.chain(at).collect();
    index.unchecked.chains.extend(chains);
    let slices: Vec<SliceId> = index.slices_of_port(port).collect();
    index.unchecked.slices.extend(slices);
}

impl Resource for ClassificationRule {
    of_table!(RuleId rules);

    fn means(&self, newer: &Self) -> bool {
        Self { label: newer.label.clone(), ..self.clone() } == *newer
            && self.label.project == newer.label.project
    }

    fn edit(&self, edit: Edit, intent: &Intent, index: &mut Index) {
        for port in self.source_port.iter().chain(&self.destination_port) {
            index.port_rules.edit(edit, *port, self.id);
        }
        index.rules.edit(edit, &self.label.project, self, self.id);
        let chains: Vec<ChainId> = index.chains_of_rule(self.id).collect();
        for chain in chains.iter().filter_map(|id| intent.chains.get(id)) {
            index.chain_rules.edit(edit, &chain.label.project, self, (chain.id, self.id));
        }
        index.unchecked.chains.extend(chains);
    }
}

impl Resource for Instance {
    of_table!(InstanceId instances);

    fn means(&self, newer: &Self) -> bool {
        (self.ingress, self.egress, self.speaks) == (newer.ingress, newer.egress, newer.speaks)
    }

    fn edit(&self, edit: Edit, _: &Intent, index: &mut Index) {
        index.port_instances.edit(edit, self.ingress, self.id);
        index.port_instances.edit(edit, self.egress, self.id);
        let chains: Vec<ChainId> = index.chains_of_instance(self.id).collect();
        index.unchecked.chains.extend(chains);
    }
}

impl Resource for ServiceFunction {
    of_table!(FunctionId functions);

    fn means(&self, newer: &Self) -> bool {
        self.instances == newer.instances
            && self.is_tap == newer.is_tap
            && self.mapping == newer.mapping
            && self.conduct == newer.conduct
            && self.keeps_mac == newer.keeps_mac
            && self.number == newer.number
    }

    fn edit(&self, edit: Edit, _: &Intent, index: &mut Index) {
        for instance in &self.instances {
            index.instance_functions.edit(edit, *instance, self.id);
        }
        index.function_numbers.edit(edit, &EVERYWHERE, self.number.into(), self.id);
        let chains: Vec<ChainId> = index.chains_of_function(self.id).collect();
        index.unchecked.chains.extend(chains);
    }
}

impl Resource for Chain {
    of_table!(ChainId chains);

    fn means(&self, newer: &Self) -> bool {
        self.functions == newer.functions
            && self.rules == newer.rules
            && self.is_symmetric == newer.is_symmetric
            && self.encapsulation == newer.encapsulation
            && self.setup == newer.setup
            && self.telemetry == newer.telemetry
            && self.via == newer.via
            && self.number == newer.number
            && self.label.project == newer.label.project
    }

    fn edit(&self, edit: Edit, intent: &Intent, index: &mut Index) {
        for function in &self.functions {
            index.function_chains.edit(edit, *function, self.id);
            if self.is_symmetric {
                index.symmetric_chains.edit(edit, *function, self.id);
            }
        }
        for rule in &self.rules {
            index.rule_chains.edit(edit, *rule, self.id);
            if let Some(rule) = intent.rules.get(rule) {
                index.chain_rules.edit(edit, &self.label.project, rule, (self.id, rule.id));
            }
        }
        index.chains_of_functions.edit(edit, self.functions.clone(), self.id);
        index.chain_numbers.edit(edit, &EVERYWHERE, self.number.into(), self.id);
        index.unchecked.chains.insert(self.id);
    }
}

impl Resource for ChainGraph {
    of_table!(GraphId graphs);

    fn means(&self, newer: &Self) -> bool {
        self.branches == newer.branches
    }

    fn edit(&self, edit: Edit, _: &Intent, index: &mut Index) {
        for chain in chains_of(self) {
            index.chain_graphs.edit(edit, chain, self.id);
            index.unchecked.chains.insert(chain);
        }
    }
}

/// Whether one that is named is there is asked where it is named: this says nothing of chains.
impl Resource for RuleSet {
    of_table!(RuleSetId rule_sets);

    fn means(&self, _: &Self) -> bool {
        true
    }

    fn edit(&self, _: Edit, _: &Intent, _: &mut Index) {}
}

/// The chains that a graph names.
fn chains_of(graph: &ChainGraph) -> BTreeSet<ChainId> {
    let named = graph.branches.iter().flat_map(|(from, into)| std::iter::once(from).chain(into));
    named.copied().collect()
}
