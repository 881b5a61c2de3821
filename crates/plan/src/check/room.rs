//! What chains take of the room that a node's program has.

use super::directions;
use crate::counts::Edit;
use crate::error::PlanError;
use crate::index::Index;
use crate::intent::Intent;
use catena_model::NodeName;
use catena_model::id::{NetworkId, PortId};
use catena_model::limits::{
    NODE_ADDRESSES_MAX, NODE_FUNCTION_PORTS_MAX, NODE_PATHS_MAX, NODE_PORTS_MAX, NODE_RULES_MAX,
};
use catena_model::resource::Chain;
use std::collections::BTreeMap;

/// Entries of a node's program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) ports: usize,
    /// Of these, those of functions that run inside.
    pub(crate) inside: usize,
    pub(crate) paths: usize,
    pub(crate) rules: usize,
}

impl Room {
    /// What a port takes.
    pub(crate) const OF_PORT: Self = Self { ports: 1, inside: 0, paths: 0, rules: 0 };
    /// The same of a function that runs inside.
    pub(crate) const OF_INSIDE_PORT: Self = Self { inside: 1, ..Self::OF_PORT };

    pub(super) fn edit(&mut self, edit: Edit, other: Self) {
        let merged = match edit {
            Edit::Add => usize::saturating_add,
            Edit::Remove => usize::saturating_sub,
        };
        self.ports = merged(self.ports, other.ports);
        self.inside = merged(self.inside, other.inside);
        self.paths = merged(self.paths, other.paths);
        self.rules = merged(self.rules, other.rules);
    }

    pub(super) fn check(self, node: &NodeName) -> Result<(), PlanError> {
        let tables = [
            ("ports", self.ports, NODE_PORTS_MAX),
            ("ports of bundled functions", self.inside, NODE_FUNCTION_PORTS_MAX),
            ("paths", self.paths, NODE_PATHS_MAX),
            ("rules", self.rules, NODE_RULES_MAX),
        ];
        let full = tables.into_iter().find(|(_, count, limit)| count > limit);
        full.map_or(Ok(()), |(table, count, limit)| {
            Err(PlanError::NodeFull { node: node.to_string(), table, count, limit })
        })
    }
}

/// Is it no more than one node takes?
pub(super) fn check_count(
    what: impl FnOnce() -> String,
    count: usize,
    limit: usize,
) -> Result<(), PlanError> {
    if count <= limit { Ok(()) } else { Err(PlanError::TooMany { what: what(), count, limit }) }
}

/// A node that has a network is told where each port of it is. What one network has takes nothing from
/// others; of several together a node takes what it can.
pub(super) fn check_network(
    intent: &Intent,
    network: NetworkId,
    [ports, addresses]: [usize; 2],
) -> Result<(), PlanError> {
    let of = |what| format!("{what} in network '{}'", intent.network_name(network));
    check_count(|| of("ports"), ports, NODE_ADDRESSES_MAX)?;
    check_count(|| of("IP addresses of ports"), addresses, NODE_ADDRESSES_MAX)
}

/// What a chain takes of each node.
pub(super) fn of_chain(intent: &Intent, chain: &Chain) -> BTreeMap<NodeName, Room> {
    let node_of = |port: PortId| intent.ports.get(&port).and_then(|port| port.node.as_ref());
    let ways = directions(chain).len();
    let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
    let instances = functions.flat_map(|f| &f.instances).filter_map(|id| intent.instances.get(id));
    let mut rooms: BTreeMap<NodeName, Room> = BTreeMap::new();
    for node in instances.filter_map(|instance| node_of(instance.ingress)) {
        rooms.entry(node.clone()).or_default().paths = ways;
    }
    for rule in chain.rules.iter().filter_map(|id| intent.rules.get(id)) {
        for port in [rule.source_port, rule.destination_port.filter(|_| ways > 1)] {
            let Some(node) = port.and_then(node_of) else { continue };
            let room = rooms.entry(node.clone()).or_default();
            room.paths = ways;
            room.rules = room.rules.saturating_add(1);
        }
    }
    rooms
}

impl Index {
    /// A part of what chains and ports take of a node's room.
    pub(crate) fn edit_room(&mut self, edit: Edit, node: &NodeName, room: Room) {
        let sum = self.rooms.entry(node.clone()).or_default();
        sum.edit(edit, room);
        if *sum == Room::default() {
            self.rooms.remove(node);
        }
    }
}

/// Brings the sums in step with the chains that were written; the nodes whose sums that changed are
/// to be checked.
pub(crate) fn count_rooms(intent: &Intent, index: &mut Index) {
    for id in std::mem::take(&mut index.unchecked.chains) {
        let now = intent.chains.get(&id).map(|chain| of_chain(intent, chain)).unwrap_or_default();
        let before = index.chain_rooms.get(&id).cloned().unwrap_or_default();
        if now == before {
            continue;
        }
        for (edit, rooms) in [(Edit::Remove, &before), (Edit::Add, &now)] {
            rooms.iter().for_each(|(node, room)| index.edit_room(edit, node, *room));
        }
        index.unchecked.nodes.extend(now.keys().cloned());
        if now.is_empty() {
            index.chain_rooms.remove(&id);
        } else {
            index.chain_rooms.insert(id, now);
        }
    }
}
