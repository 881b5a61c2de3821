//! The numbers of what entries name, and who names what: so that what comes, goes or changes is
//! followed to all that depends on it without looking at the rest. Knows names; refuses to know what is
//! made of an entry.

use super::network::AddressTable;
use crate::engine::collections::sharing::Numbers;
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex};
use catena_model::id::{ChainId, InstanceId, NetworkId, PortId};
use catena_model::program::PathEntry;
use catena_model::{NodeName, PathId};
use imbl::{OrdMap, OrdSet};
use std::sync::Arc;
use uuid::Uuid;

/// What an entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    Network(NetworkId),
    Port(PortId),
    Path(PathId),
}

/// Who names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Referrer {
    /// A path: its network, and the ports of its instances on this node.
    Path(PathId),
    /// A rule, by its number.
    Rule(u32),
    /// The pins of those flows that now enter this path.
    Pins(PathId),
    /// A port.
    Port(PortId),
    /// A line of the MAC table, by its key.
    Mac(PortId),
}

impl Referrer {
    const FIRST: Self = Self::Path(PathId(0));
}

/// Where on which path an instance of this node is that is probed.
pub(crate) type ProbedAt = (InstanceId, PathId, u16, u16);

/// All names of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) nodes: OrdMap<NodeName, NodeIndex>,
    pub(crate) node_numbers: Numbers,
    pub(crate) networks: OrdMap<NetworkId, NetworkIndex>,
    pub(crate) network_numbers: Numbers,
    pub(crate) ports: OrdMap<PortId, PortIndex>,
    pub(crate) port_numbers: Numbers,
    /// Where the MACs and addresses of each network are, also of one that is not here.
    pub(crate) lines: OrdMap<NetworkId, Arc<AddressTable>>,
    referrers: OrdSet<(Name, Referrer)>,
    /// The paths of each chain, those of the way back last.
    of_chain: OrdSet<(ChainId, bool, PathId)>,
    /// The numbers that slices know the ends of chains by.
    pub(crate) ends: OrdMap<ChainId, u32>,
    pub(crate) end_numbers: Numbers,
    pub(crate) visits: OrdSet<ProbedAt>,
    pub(crate) watches: OrdMap<InstanceId, u32>,
    pub(crate) watch_numbers: Numbers,
}

/// An index of a table that has fewer entries than 16 bits count.
pub(crate) fn short(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

impl Names {
    /// Some ports.
    #[cfg(test)]
    pub(crate) fn of_ports(ports: impl Iterator<Item = (PortId, PortIndex)>) -> Self {
        Self { ports: ports.collect(), ..Self::default() }
    }

    pub(crate) fn port(&self, id: PortId) -> Option<PortIndex> {
        self.ports.get(&id).copied()
    }

    /// All ports, in the order of their identities.
    pub(crate) fn all_ports(&self) -> impl Iterator<Item = PortIndex> + '_ {
        self.ports.values().copied()
    }

    pub(crate) fn network(&self, id: NetworkId) -> Option<NetworkIndex> {
        self.networks.get(&id).copied()
    }

    pub(crate) fn node(&self, name: &NodeName) -> Option<NodeIndex> {
        self.nodes.get(name).copied()
    }

    /// The number that slices know the end of a chain by; none: no path of it is here.
    pub(crate) fn end(&self, chain: ChainId) -> Option<u32> {
        self.ends.get(&chain).copied()
    }

    /// Everybody who names it.
    pub(crate) fn referrers(&self, name: Name) -> impl Iterator<Item = Referrer> + '_ {
        let from = self.referrers.range((name, Referrer::FIRST)..);
        from.take_while(move |(other, _)| *other == name).map(|(_, referrer)| *referrer)
    }

    pub(crate) fn name(&mut self, name: Name, referrer: Referrer) {
        self.referrers.insert((name, referrer));
    }

    pub(crate) fn unname(&mut self, name: Name, referrer: Referrer) {
        self.referrers.remove(&(name, referrer));
    }

    /// The forward paths of a chain.
    pub(crate) fn forward(&self, chain: ChainId) -> impl Iterator<Item = PathId> + '_ {
        let (first, last) = ((chain, false, PathId(0)), (chain, false, PathId(u32::MAX)));
        self.of_chain.range(first..=last).map(|(.., path)| *path)
    }

    /// All paths of a chain.
    pub(crate) fn paths(&self, chain: ChainId) -> impl Iterator<Item = PathId> + '_ {
        let (first, last) = ((chain, false, PathId(0)), (chain, true, PathId(u32::MAX)));
        self.of_chain.range(first..=last).map(|(.., path)| *path)
    }

    pub(crate) fn add_path(&mut self, path: &PathEntry) {
        self.of_chain.insert((path.chain, path.is_way_back, path.id));
    }

    pub(crate) fn remove_path(&mut self, path: &PathEntry) {
        self.of_chain.remove(&(path.chain, path.is_way_back, path.id));
    }

    /// The paths that an instance which is probed is on.
    pub(crate) fn visited(&self, instance: InstanceId) -> impl Iterator<Item = ProbedAt> {
        let from = self.visits.range((instance, PathId(0), 0, 0)..);
        from.take_while(move |visit| visit.0 == instance).copied()
    }
}

/// Of all keys of a port, the least and the greatest.
pub(crate) const PORTS: (PortId, PortId) = (PortId(Uuid::nil()), PortId(Uuid::max()));
