//! Who uses what, and which numbers are free: the questions that a change asks of all that is
//! declared, whoever owns it. Each is one function, so that it can be answered from an index.

use catena_model::id::{ChainId, FunctionId, InstanceId, NetworkId, PortId, RuleId};
use catena_model::resource::{
    Chain, ChainGraph, ClassificationRule, Instance, Port, ServiceFunction, Subnet,
};
use catena_plan::Intent;
use std::collections::BTreeSet;

/// The chain that a classification rule sends into.
pub(super) fn chain_of(intent: &Intent, rule: RuleId) -> Option<&Chain> {
    intent.chains.values().find(|chain| chain.rules.contains(&rule))
}

/// The chains over a function.
pub(super) fn chains_over(intent: &Intent, function: FunctionId) -> impl Iterator<Item = &Chain> {
    intent.chains.values().filter(move |chain| chain.functions.contains(&function))
}

/// The chains over exactly these functions in this order.
pub(super) fn chains_of_exactly<'a>(
    intent: &'a Intent,
    functions: &'a [FunctionId],
) -> impl Iterator<Item = &'a Chain> {
    intent.chains.values().filter(move |chain| chain.functions == functions)
}

/// The function that an instance belongs to.
pub(super) fn function_of(intent: &Intent, instance: InstanceId) -> Option<&ServiceFunction> {
    intent.functions.values().find(|function| function.instances.contains(&instance))
}

/// The instance with exactly these two ports.
pub(super) fn instance_between(
    intent: &Intent,
    ingress: PortId,
    egress: PortId,
) -> Option<&Instance> {
    intent.instances.values().find(|i| i.ingress == ingress && i.egress == egress)
}

/// An instance that cannot do without a port.
pub(super) fn instance_at(intent: &Intent, port: PortId) -> Option<&Instance> {
    intent.instances.values().find(|i| i.ingress == port || i.egress == port)
}

/// A classification rule that cannot do without a port.
pub(super) fn rule_at(intent: &Intent, port: PortId) -> Option<&ClassificationRule> {
    let names = |end: Option<PortId>| end == Some(port);
    intent.rules.values().find(|rule| names(rule.source_port) || names(rule.destination_port))
}

/// The graph that a chain is part of.
pub(super) fn graph_of(intent: &Intent, chain: ChainId) -> Option<&ChainGraph> {
    let has = |graph: &&ChainGraph| {
        graph.branches.contains_key(&chain)
            || graph.branches.values().any(|onward| onward.contains(&chain))
    };
    intent.graphs.values().find(has)
}

/// The ports of a network.
pub(super) fn ports_in(intent: &Intent, network: NetworkId) -> impl Iterator<Item = &Port> {
    intent.ports.values().filter(move |port| port.network == network)
}

/// The subnets of a network.
pub(super) fn subnets_in(intent: &Intent, network: NetworkId) -> impl Iterator<Item = &Subnet> {
    intent.subnets.values().filter(move |subnet| subnet.network == network)
}

/// Has a chain this number?
pub(super) fn is_chain_number_taken(intent: &Intent, number: u32) -> bool {
    intent.chains.values().any(|chain| chain.number == number)
}

/// The lowest number from 1 that no chain has; none up to the largest: none.
pub(super) fn free_chain_number(intent: &Intent, max: u32) -> Option<u32> {
    let taken: BTreeSet<u32> = intent.chains.values().map(|chain| chain.number).collect();
    (1..=max).find(|number| !taken.contains(number))
}

/// The lowest number from 1 that no function has.
pub(super) fn free_function_number(intent: &Intent) -> u32 {
    let taken: BTreeSet<u32> = intent.functions.values().map(|f| f.number).collect();
    (1..=u32::MAX).find(|number| !taken.contains(number)).unwrap_or(u32::MAX)
}
