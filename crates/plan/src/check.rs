//! Refuses what no data plane could carry, before it is stored.

mod bundled;
mod graphs;
mod meetings;
mod networks;
mod origins;
mod room;
mod routes;
mod slices;
#[cfg(test)]
pub(crate) mod tests;
mod written;

use crate::error::PlanError;
use crate::graph::Graphs;
use crate::intent::Intent;
use crate::ledger::Direction;
use crate::via;
use catena_model::id::{FunctionId, InstanceId, PortId};
use catena_model::limits::{CHAIN_FUNCTIONS_MAX, FUNCTION_INSTANCES_MAX};
use catena_model::resource::{Chain, Encapsulation, FlowField, Instance, ServiceFunction};
use std::collections::BTreeMap;

use graphs::{check_graph, check_routes};
pub(crate) use meetings::{Passage, count_passages};
pub(crate) use networks::count_networks;
pub(crate) use room::{Room, count_rooms};
pub(crate) use slices::{check_more as check_more_slices, check_one as check_slice};
pub(crate) use written::check_written;

/// What can be said of a chain without looking at others than those before it.
fn check_alone<'i>(
    intent: &'i Intent,
    graphs: &Graphs<'_>,
    chain: &Chain,
) -> Result<Vec<Hop<'i>>, PlanError> {
    check_length(chain)?;
    let hops = hops(intent, chain)?;
    for direction in directions(chain) {
        check_returns(intent, chain, &hops, *direction)?;
        check_arrivals(intent, chain, &hops, *direction)?;
    }
    for instance in hops.iter().flat_map(|hop| &hop.instances) {
        check_encapsulation(chain, instance)?;
        check_nodes(intent, instance)?;
    }
    check_kept(intent, chain)?;
    check_records(chain)?;
    via::check(intent, chain)?;
    bundled::check_directions(intent, chain)?;
    bundled::check_crossings(intent, graphs, chain)?;
    check_routes(intent, graphs, chain)?;
    Ok(hops)
}

fn directions(chain: &Chain) -> &'static [Direction] {
    if chain.is_symmetric {
        &[Direction::Forward, Direction::Reverse]
    } else {
        &[Direction::Forward]
    }
}

/// Ports by which packets enter and leave an instance.
fn passage(instance: &Instance, direction: Direction) -> (PortId, PortId) {
    match direction {
        Direction::Forward => (instance.ingress, instance.egress),
        Direction::Reverse => (instance.egress, instance.ingress),
    }
}

/// A function with its instances.
struct Hop<'i> {
    is_tap: bool,
    instances: Vec<&'i Instance>,
}

/// The ports that packets of a chain begin at. Where answers are steered, they start at the
/// destination.
fn sources<'i>(intent: &'i Intent, chain: &'i Chain) -> impl Iterator<Item = PortId> + 'i {
    let rules = chain.rules.iter().filter_map(|id| intent.rules.get(id));
    let starts = rules.flat_map(|rule| {
        let answers = rule.destination_port.filter(|_| chain.is_symmetric);
        [rule.source_port, answers]
    });
    starts.flatten()
}

fn check_length(chain: &Chain) -> Result<(), PlanError> {
    if chain.functions.len() <= CHAIN_FUNCTIONS_MAX {
        return Ok(());
    }
    Err(PlanError::TooManyFunctions {
        chain: chain.name(),
        functions: chain.functions.len(),
        limit: CHAIN_FUNCTIONS_MAX,
    })
}

/// The instances of each function in order.
fn hops<'i>(intent: &'i Intent, chain: &Chain) -> Result<Vec<Hop<'i>>, PlanError> {
    let missing = |kind, id: String| PlanError::Missing { chain: chain.name(), kind, id };
    let instances = |function: &'i ServiceFunction| {
        let instance = |id: &InstanceId| {
            let found = intent.instances.get(id);
            found.ok_or_else(|| missing("instance", id.to_string()))
        };
        let instances: Result<_, PlanError> = function.instances.iter().map(instance).collect();
        Ok(Hop { is_tap: function.is_tap, instances: instances? })
    };
    let hop = |id: &FunctionId| {
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
        function: function.name(),
        instances: function.instances.len(),
        limit: FUNCTION_INSTANCES_MAX,
    })
}

/// Siblings of one function may share an egress: a flow meets only one of them.
fn check_returns(
    intent: &Intent,
    chain: &Chain,
    hops: &[Hop<'_>],
    direction: Direction,
) -> Result<(), PlanError> {
    let mut seen: BTreeMap<PortId, (usize, &Instance)> = BTreeMap::new();
    // Nothing is expected back from a tap.
    let through = hops.iter().enumerate().filter(|(_, hop)| !hop.is_tap);
    let places = through.flat_map(|(place, hop)| hop.instances.iter().map(move |i| (place, *i)));
    // Headers of tunnels say where on its path a packet is.
    let tells = |spoken: Encapsulation| !spoken.is_source_route();
    for (hop, instance) in places.filter(|(_, instance)| !instance.speaks.is_some_and(tells)) {
        let (_, egress) = passage(instance, direction);
        let (first_hop, first) = *seen.entry(egress).or_insert((hop, instance));
        if first_hop != hop {
            return Err(PlanError::AmbiguousReturn {
                chain: chain.name(),
                egress: intent.port_name(egress),
                first: first.name(),
                second: instance.name(),
            });
        }
    }
    Ok(())
}

/// On a source route the port that a packet comes out of says which function of the chain it is for.
fn check_arrivals(
    intent: &Intent,
    chain: &Chain,
    hops: &[Hop<'_>],
    direction: Direction,
) -> Result<(), PlanError> {
    if !chain.encapsulation.is_source_route() {
        return Ok(());
    }
    let mut seen: BTreeMap<PortId, (usize, &Instance)> = BTreeMap::new();
    for (place, hop) in hops.iter().enumerate() {
        for instance in &hop.instances {
            let ingress = match hop.is_tap {
                true => instance.ingress,
                false => passage(instance, direction).0,
            };
            let (first_place, first) = *seen.entry(ingress).or_insert((place, instance));
            if first_place != place {
                return Err(PlanError::AmbiguousArrival {
                    chain: chain.name(),
                    carried: chain.encapsulation.name(),
                    ingress: intent.port_name(ingress),
                    first: first.name(),
                    second: instance.name(),
                });
            }
        }
    }
    Ok(())
}

/// Every node on the way chooses an instance by the same fields. Where there is a way back, none chooses by MACs.
fn check_kept(intent: &Intent, chain: &Chain) -> Result<(), PlanError> {
    if chain.encapsulation.capabilities().keeps_frame || chain.is_symmetric {
        return Ok(());
    }
    let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
    // Of a header that is left out neither address is kept.
    let has_source = !chain.encapsulation.is_segmented();
    let is_lost = |field: &FlowField| match field {
        FlowField::EthDst => true,
        FlowField::EthSrc => !has_source,
        _ => false,
    };
    let lost = functions.filter(|function| function.instances.len() > 1).find_map(|function| {
        function.balance.iter().find(|field| is_lost(field)).map(|field| (function, field))
    });
    lost.map_or(Ok(()), |(function, field)| {
        let (chain, carried) = (chain.name(), chain.encapsulation.name());
        let field = if *field == FlowField::EthSrc { "eth_src" } else { "eth_dst" };
        Err(PlanError::LostField { chain, carried, field, function: function.name() })
    })
}

/// Where nodes write of packets, these have room for it.
fn check_records(chain: &Chain) -> Result<(), PlanError> {
    let takes = |by: &Encapsulation| by.capabilities().takes_records;
    if chain.telemetry.is_none() || takes(&chain.encapsulation) {
        return Ok(());
    }
    let takers: Vec<&str> =
        Encapsulation::ALL.iter().filter(|by| takes(by)).map(|by| by.name()).collect();
    let (chain, carried) = (chain.name(), chain.encapsulation.name());
    Err(PlanError::NoRoomForRecords { chain, carried, takers: takers.join(", ") })
}

fn check_encapsulation(chain: &Chain, instance: &Instance) -> Result<(), PlanError> {
    match instance.speaks {
        Some(spoken) if chain.encapsulation.spoken() != Some(spoken) => {
            Err(PlanError::ForeignEncapsulation {
                chain: chain.name(),
                carried: chain.encapsulation.name(),
                instance: instance.name(),
                spoken: spoken.name(),
            })
        }
        _ => Ok(()),
    }
}

fn check_nodes(intent: &Intent, instance: &Instance) -> Result<(), PlanError> {
    let node = |id: &PortId| intent.ports.get(id).and_then(|port| port.node.clone());
    match (node(&instance.ingress), node(&instance.egress)) {
        (Some(ingress), Some(egress)) if ingress != egress => Err(PlanError::TornInstance {
            instance: instance.name(),
            ingress: ingress.to_string(),
            egress: egress.to_string(),
        }),
        _ => Ok(()),
    }
}

fn two_egresses(
    intent: &Intent,
    ingress: PortId,
    (first, first_egress): (&Instance, PortId),
    (second, second_egress): (&Instance, PortId),
) -> PlanError {
    PlanError::TwoEgresses {
        first: first.name(),
        second: second.name(),
        ingress: intent.port_name(ingress),
        first_egress: intent.port_name(first_egress),
        second_egress: intent.port_name(second_egress),
    }
}
