//! Refuses what no data plane could carry, before it is stored.

use crate::error::PlanError;
use crate::intent::Intent;
use crate::render::{chain_name, destination_network};
use catena_model::id::PortId;
use catena_model::limits::{CHAIN_FUNCTIONS_MAX, FUNCTION_INSTANCES_MAX};
use catena_model::resource::{Chain, Instance, ServiceFunction};
use std::collections::BTreeMap;

/// Checks all chains together.
///
/// # Errors
/// The first thing that cannot be carried, in chain order.
pub fn check(intent: &Intent) -> Result<(), PlanError> {
    let mut egress_of: BTreeMap<PortId, &Instance> = BTreeMap::new();
    for chain in intent.chains.values() {
        check_length(chain)?;
        let hops = hops(intent, chain)?;
        check_returns(intent, chain, &hops)?;
        for instance in hops.into_iter().flatten() {
            check_encapsulation(chain, instance)?;
            check_nodes(intent, instance)?;
            check_egress(intent, instance, &mut egress_of)?;
        }
        destination_network(intent, chain)?;
    }
    check_sources(intent)
}

/// A port is where chains start or where functions are, not both: packets of one port are either
/// classified or expected back.
fn check_sources(intent: &Intent) -> Result<(), PlanError> {
    let function_ports = intent.function_ports();
    for chain in intent.chains.values() {
        let rules = chain.rules.iter().filter_map(|id| intent.rules.get(id));
        let mut sources = rules.filter_map(|rule| rule.source_port);
        if let Some(port) = sources.find(|port| function_ports.contains(port)) {
            return Err(PlanError::SourceIsFunction {
                chain: chain_name(chain),
                port: intent.port_name(port),
            });
        }
    }
    Ok(())
}

fn check_length(chain: &Chain) -> Result<(), PlanError> {
    if chain.functions.len() <= CHAIN_FUNCTIONS_MAX {
        return Ok(());
    }
    Err(PlanError::TooManyFunctions {
        chain: chain_name(chain),
        functions: chain.functions.len(),
        limit: CHAIN_FUNCTIONS_MAX,
    })
}

/// The instances of each function in order.
fn hops<'i>(intent: &'i Intent, chain: &Chain) -> Result<Vec<Vec<&'i Instance>>, PlanError> {
    let missing = |kind, id: String| PlanError::Missing { chain: chain_name(chain), kind, id };
    let instances = |function: &'i ServiceFunction| {
        let instance = |id| {
            let found = intent.instances.get(id);
            found.ok_or_else(|| missing("instance", id.to_string()))
        };
        function.instances.iter().map(instance).collect()
    };
    let hop = |id| {
        let function = intent.functions.get(id);
        let function = function.ok_or_else(|| missing("function", id.to_string()))?;
        check_width(function)?;
        instances(function)
    };
    chain.functions.iter().map(hop).collect()
}

fn check_width(function: &ServiceFunction) -> Result<(), PlanError> {
    if function.instances.len() <= FUNCTION_INSTANCES_MAX {
        return Ok(());
    }
    Err(PlanError::TooManyInstances {
        function: function.label.name.clone(),
        instances: function.instances.len(),
        limit: FUNCTION_INSTANCES_MAX,
    })
}

/// Siblings of one function may share an egress: a flow meets only one of them.
fn check_returns(intent: &Intent, chain: &Chain, hops: &[Vec<&Instance>]) -> Result<(), PlanError> {
    let mut seen: BTreeMap<PortId, (usize, &Instance)> = BTreeMap::new();
    let places = hops.iter().enumerate().flat_map(|(hop, all)| all.iter().map(move |i| (hop, *i)));
    for (hop, instance) in places.filter(|(_, instance)| instance.speaks.is_none()) {
        let (first_hop, first) = *seen.entry(instance.egress).or_insert((hop, instance));
        if first_hop != hop {
            return Err(PlanError::AmbiguousReturn {
                chain: chain_name(chain),
                egress: intent.port_name(instance.egress),
                first: instance_name(first),
                second: instance_name(instance),
            });
        }
    }
    Ok(())
}

fn check_encapsulation(chain: &Chain, instance: &Instance) -> Result<(), PlanError> {
    match instance.speaks {
        Some(spoken) if spoken != chain.encapsulation => Err(PlanError::ForeignEncapsulation {
            chain: chain_name(chain),
            carried: chain.encapsulation.name(),
            instance: instance_name(instance),
            spoken: spoken.name(),
        }),
        _ => Ok(()),
    }
}

fn check_nodes(intent: &Intent, instance: &Instance) -> Result<(), PlanError> {
    let node = |id: &PortId| intent.ports.get(id).and_then(|port| port.node.clone());
    match (node(&instance.ingress), node(&instance.egress)) {
        (Some(ingress), Some(egress)) if ingress != egress => Err(PlanError::TornInstance {
            instance: instance_name(instance),
            ingress: ingress.to_string(),
            egress: egress.to_string(),
        }),
        _ => Ok(()),
    }
}

fn check_egress<'i>(
    intent: &Intent,
    instance: &'i Instance,
    egress_of: &mut BTreeMap<PortId, &'i Instance>,
) -> Result<(), PlanError> {
    if instance.speaks.is_some() {
        return Ok(());
    }
    let first = *egress_of.entry(instance.ingress).or_insert(instance);
    if first.egress == instance.egress {
        return Ok(());
    }
    Err(PlanError::TwoEgresses {
        first: instance_name(first),
        second: instance_name(instance),
        ingress: intent.port_name(instance.ingress),
        first_egress: intent.port_name(first.egress),
        second_egress: intent.port_name(instance.egress),
    })
}

fn instance_name(instance: &Instance) -> String {
    if instance.label.name.is_empty() {
        instance.id.to_string()
    } else {
        instance.label.name.clone()
    }
}
