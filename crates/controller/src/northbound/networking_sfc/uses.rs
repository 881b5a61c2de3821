//! Who uses what, and which numbers are free: the questions that a change asks of all that is
//! declared, whoever owns it. Each is answered by the index.

use catena_model::id::{ChainId, FunctionId, InstanceId, NetworkId, PortId, RuleId};
use catena_model::resource::{
    Chain, ChainGraph, ClassificationRule, Instance, Port, ServiceFunction, Subnet,
};
use catena_model::slice::Slice;
use catena_plan::IndexedIntent;

/// The chain that a classification rule sends into.
pub(super) fn chain_of(intent: &IndexedIntent, rule: RuleId) -> Option<&Chain> {
    intent.index().chains_of_rule(rule).find_map(|id| intent.chains.get(&id))
}

/// The chains over a function.
pub(super) fn chains_over(
    intent: &IndexedIntent,
    function: FunctionId,
) -> impl Iterator<Item = &Chain> {
    intent.index().chains_of_function(function).filter_map(|id| intent.chains.get(&id))
}

/// The chains over exactly these functions in this order.
pub(super) fn chains_of_exactly<'a>(
    intent: &'a IndexedIntent,
    functions: &[FunctionId],
) -> impl Iterator<Item = &'a Chain> + use<'a> {
    let chains: Vec<ChainId> = intent.index().chains_of_functions(functions).collect();
    chains.into_iter().filter_map(|id| intent.chains.get(&id))
}

/// The function that an instance belongs to.
pub(super) fn function_of(
    intent: &IndexedIntent,
    instance: InstanceId,
) -> Option<&ServiceFunction> {
    intent.index().functions_of_instance(instance).find_map(|id| intent.functions.get(&id))
}

/// The instance with exactly these two ports.
pub(super) fn instance_between(
    intent: &IndexedIntent,
    ingress: PortId,
    egress: PortId,
) -> Option<&Instance> {
    let mut instances = instances_at(intent, ingress);
    instances.find(|i| i.ingress == ingress && i.egress == egress)
}

/// An instance that cannot do without a port.
pub(super) fn instance_at(intent: &IndexedIntent, port: PortId) -> Option<&Instance> {
    instances_at(intent, port).next()
}

fn instances_at(intent: &IndexedIntent, port: PortId) -> impl Iterator<Item = &Instance> {
    intent.index().instances_of_port(port).filter_map(|id| intent.instances.get(&id))
}

/// A classification rule that cannot do without a port.
pub(super) fn rule_at(intent: &IndexedIntent, port: PortId) -> Option<&ClassificationRule> {
    intent.index().rules_of_port(port).find_map(|id| intent.rules.get(&id))
}

/// A slice that begins at a port.
pub(super) fn slice_at(intent: &IndexedIntent, port: PortId) -> Option<&Slice> {
    intent.index().slices_of_port(port).find_map(|id| intent.slices.get(&id))
}

/// A slice of the chain, or at its end.
pub(super) fn slice_of(intent: &IndexedIntent, chain: ChainId) -> Option<&Slice> {
    let index = intent.index();
    let mut slices = index.slices_of_chain(chain).chain(index.slices_after_chain(chain));
    slices.find_map(|id| intent.slices.get(&id))
}

/// The graph that a chain is part of.
pub(super) fn graph_of(intent: &IndexedIntent, chain: ChainId) -> Option<&ChainGraph> {
    intent.index().graphs_of_chain(chain).find_map(|id| intent.graphs.get(&id))
}

/// The ports of a network.
pub(super) fn ports_in(intent: &IndexedIntent, network: NetworkId) -> impl Iterator<Item = &Port> {
    intent.index().ports_of_network(network).filter_map(|id| intent.ports.get(&id))
}

/// The subnets of a network.
pub(super) fn subnets_in(
    intent: &IndexedIntent,
    network: NetworkId,
) -> impl Iterator<Item = &Subnet> {
    intent.index().subnets_of_network(network).filter_map(|id| intent.subnets.get(&id))
}

/// Has a chain this number?
pub(super) fn is_chain_number_taken(intent: &IndexedIntent, number: u32) -> bool {
    intent.index().chains_of_number(number).next().is_some()
}

/// The lowest number from 1 that no chain has; none up to the largest: none.
pub(super) fn free_chain_number(intent: &IndexedIntent, max: u32) -> Option<u32> {
    intent.index().lowest_free_chain_number().filter(|number| *number <= max)
}

/// The lowest number from 1 that no function has.
pub(super) fn free_function_number(intent: &IndexedIntent) -> u32 {
    intent.index().lowest_free_function_number().unwrap_or(u32::MAX)
}
