//! The same check by a scan: it looks at everything and asks no index. What was written is judged as
//! this would.

use super::graphs::check_graph;
use super::meetings::{self, Passage};
use super::origins::Origins;
use super::room::{self, Room};
use super::slices::{self, links};
use super::{check_alone, directions, networks, passage, sources, two_egresses};
use crate::counts::Edit;
use crate::error::PlanError;
use crate::graph::Graphs;
use crate::index::slices::{SliceKey, key};
use crate::intent::Intent;
use crate::ledger::Direction;
use catena_model::NodeName;
use catena_model::id::{ChainId, NetworkId, PortId};
use catena_model::limits::NODE_SLICES_MAX;
use catena_model::resource::Instance;
use catena_model::slice::Slice;
use std::collections::{BTreeMap, BTreeSet};

/// Checks all chains and slices together: the first thing that cannot be carried, in their order.
pub(crate) fn check(intent: &Intent) -> Result<(), PlanError> {
    let mut egress_of: BTreeMap<PortId, (PortId, &Instance)> = BTreeMap::new();
    let graphs = Graphs::of(intent);
    for graph in intent.graphs.values() {
        check_graph(intent, &graphs, graph)?;
    }
    for chain in intent.chains.values() {
        for hop in check_alone(intent, &graphs, chain)?.iter().filter(|hop| !hop.is_tap) {
            for instance in &hop.instances {
                for direction in directions(chain) {
                    check_egress(intent, instance, *direction, &mut egress_of)?;
                }
            }
        }
    }
    check_origins(intent, &graphs)?;
    check_meetings(intent, &graphs)?;
    check_slices(intent, &graphs)?;
    check_room(intent)
}

fn check_egress<'i>(
    intent: &Intent,
    instance: &'i Instance,
    direction: Direction,
    egress_of: &mut BTreeMap<PortId, (PortId, &'i Instance)>,
) -> Result<(), PlanError> {
    if instance.speaks.is_some() {
        return Ok(());
    }
    let (ingress, egress) = passage(instance, direction);
    let (first_egress, first) = *egress_of.entry(ingress).or_insert((egress, instance));
    if first_egress == egress {
        return Ok(());
    }
    Err(two_egresses(intent, ingress, (first, first_egress), (instance, egress)))
}

fn check_origins(intent: &Intent, graphs: &Graphs<'_>) -> Result<(), PlanError> {
    let mut begins: BTreeMap<PortId, BTreeSet<ChainId>> = BTreeMap::new();
    for chain in intent.chains.values() {
        for port in sources(intent, chain) {
            begins.entry(port).or_default().insert(chain.id);
        }
    }
    let begins = |port: PortId| begins.get(&port).into_iter().flatten().copied().collect();
    let links = links(intent.slices.values());
    let origins = Origins { intent, graphs, links: &links, begins };
    intent.chains.values().try_for_each(|chain| origins.check(chain))
}

fn check_meetings(intent: &Intent, graphs: &Graphs<'_>) -> Result<(), PlanError> {
    let prefixes = |network: NetworkId| {
        let subnets = intent.subnets.values().filter(|subnet| subnet.network == network);
        subnets.map(|subnet| subnet.cidr.trunc()).collect()
    };
    let mut seen: BTreeMap<PortId, BTreeSet<Passage>> = BTreeMap::new();
    for chain in intent.chains.values() {
        for passage in meetings::of_chain(intent, graphs, chain) {
            let others = seen.entry(passage.egress).or_default();
            meetings::check_passage(intent, chain, passage, others.iter(), &prefixes)?;
            others.insert(passage);
        }
    }
    Ok(())
}

fn check_slices(intent: &Intent, graphs: &Graphs<'_>) -> Result<(), PlanError> {
    room::check_count(|| "slices".into(), intent.slices.len(), NODE_SLICES_MAX)?;
    let functions = intent.chains.values().flat_map(|chain| &chain.functions);
    let functions = functions.filter_map(|id| intent.functions.get(id));
    let instances = functions.flat_map(|function| &function.instances);
    let instances = instances.filter_map(|id| intent.instances.get(id));
    let function_ports: BTreeSet<PortId> =
        instances.flat_map(|instance| [instance.ingress, instance.egress]).collect();
    let network = |chain: &ChainId| Some((*chain, networks::network_of(intent, graphs, *chain)?));
    let networks: BTreeMap<ChainId, NetworkId> = intent.chains.keys().filter_map(network).collect();
    let mut seen: BTreeMap<SliceKey, &Slice> = BTreeMap::new();
    for slice in intent.slices.values() {
        let is_function = |port: PortId| function_ports.contains(&port);
        slices::check_alone(intent, slice, |chain| networks.get(&chain).copied(), is_function)?;
        if let Some(first) = seen.insert(key(slice), slice) {
            return Err(slices::same(first, slice));
        }
    }
    slices::check_links(intent, &links(intent.slices.values()))
}

fn check_room(intent: &Intent) -> Result<(), PlanError> {
    let mut sizes: BTreeMap<NetworkId, [usize; 2]> = BTreeMap::new();
    for port in intent.ports.values() {
        let [ports, addresses] = sizes.entry(port.network).or_default();
        (*ports, *addresses) = (*ports + 1, *addresses + port.fixed_ips.len());
    }
    sizes.into_iter().try_for_each(|(network, size)| room::check_network(intent, network, size))?;
    let mut rooms: BTreeMap<NodeName, Room> = BTreeMap::new();
    for node in intent.ports.values().filter_map(|port| port.node.as_ref()) {
        rooms.entry(node.clone()).or_default().edit(Edit::Add, Room::OF_PORT);
    }
    for chain in intent.chains.values() {
        for (node, room) in room::of_chain(intent, chain) {
            rooms.entry(node).or_default().edit(Edit::Add, room);
        }
    }
    rooms.iter().try_for_each(|(node, room)| room.check(node))
}
