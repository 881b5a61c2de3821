//! Nodes and tenant networks, and where the MACs and addresses of a network are. Refuses to know what goes
//! through a port.

use crate::engine::collections::short_keys::ShortKeys;
use crate::engine::packet::index::{NodeIndex, PortIndex};
use crate::engine::tables::names::PORTS;
use catena_model::NodeName;
use catena_model::id::{NetworkId, PortId};
use catena_model::program::{Location, NetworkEntry, SegmentPlace};
use catena_wire::scalar::{MacAddr, Vni};
use imbl::{OrdMap, OrdSet};
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use uuid::Uuid;

/// Another node.
#[derive(Clone, Debug)]
pub(crate) struct NodeTable {
    /// None: there is no such node.
    pub(crate) name: Option<NodeName>,
    pub(crate) address: IpAddr,
    /// Its place in the IPv6 underlay, if it has one.
    pub(crate) segments: Option<SegmentPlace>,
}

impl Default for NodeTable {
    /// Of nobody.
    fn default() -> Self {
        Self { name: None, address: Ipv4Addr::UNSPECIFIED.into(), segments: None }
    }
}

/// Where a MAC of a network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MacLocation {
    Port(PortIndex),
    Node(NodeIndex),
}

/// That of no network.
const NO_VNI: Vni = match Vni::new(0) {
    Ok(vni) => vni,
    Err(_) => panic!("0 fits"),
};

/// A tenant network.
#[derive(Clone, Debug)]
pub(crate) struct NetworkTable {
    pub(crate) entry: Arc<NetworkEntry>,
    pub(crate) vni: Vni,
    pub(crate) prefixes: Vec<IpNet>,
    pub(crate) gateways: Vec<MacAddr>,
    pub(crate) gateways_v6: Vec<MacAddr>,
    pub(crate) ports: Vec<PortIndex>,
    pub(crate) members: Vec<NodeIndex>,
    pub(crate) lines: Arc<AddressTable>,
}

impl Default for NetworkTable {
    /// One that nobody is in.
    fn default() -> Self {
        let entry = NetworkEntry {
            id: NetworkId(Uuid::nil()),
            name: String::new(),
            vni: NO_VNI,
            prefixes: Vec::new(),
            gateways: Vec::new(),
            members: Vec::new(),
        };
        Self {
            entry: Arc::new(entry),
            vni: NO_VNI,
            prefixes: Vec::new(),
            gateways: Vec::new(),
            gateways_v6: Vec::new(),
            ports: Vec::new(),
            members: Vec::new(),
            lines: Arc::default(),
        }
    }
}

impl NetworkTable {
    /// Is the address on this network?
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        self.prefixes.iter().any(|prefix| prefix.contains(&address))
    }

    /// The MAC that takes packets for an address: its own, or outside the network a gateway's.
    pub(crate) fn next_hop(&self, address: IpAddr) -> Option<MacAddr> {
        if let Some(mac) = self.lines.neighbour(address) {
            return Some(mac);
        }
        let gateways = if address.is_ipv4() { &self.gateways } else { &self.gateways_v6 };
        if self.holds(address) { None } else { gateways.first().copied() }
    }
}

/// Whose line it is: the port's, and which of its addresses it is.
type LineKey = (PortId, u16);

/// Where the MACs and addresses of a network are.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressTable {
    /// As told: two lines may speak of one MAC, and the last counts whose place is known.
    pub(super) told_macs: OrdMap<(MacAddr, PortId), Location>,
    pub(super) told_addresses: OrdMap<(IpAddr, LineKey), MacAddr>,
    pub(super) of_mac: OrdSet<(MacAddr, LineKey, IpAddr)>,
    macs: HashMap<MacAddr, MacLocation, ShortKeys>,
    neighbours: HashMap<IpAddr, MacAddr, ShortKeys>,
}

impl AddressTable {
    #[inline]
    pub(crate) fn location(&self, mac: MacAddr) -> Option<&MacLocation> {
        self.macs.get(&mac)
    }

    #[inline]
    pub(crate) fn neighbour(&self, address: IpAddr) -> Option<MacAddr> {
        self.neighbours.get(&address).copied()
    }

    /// The addresses of a MAC.
    pub(super) fn addresses(&self, mac: MacAddr) -> impl Iterator<Item = IpAddr> {
        let first = (mac, (PORTS.0, 0), IpAddr::V4(0.into()));
        let from = self.of_mac.range(first..);
        from.take_while(move |(other, ..)| *other == mac).map(|(.., address)| *address)
    }

    /// All MACs and all addresses.
    #[cfg(test)]
    pub(super) fn all(
        &self,
    ) -> (impl Iterator<Item = (&MacAddr, &MacLocation)>, impl Iterator<Item = (&IpAddr, &MacAddr)>)
    {
        (self.macs.iter(), self.neighbours.iter())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.told_macs.is_empty() && self.told_addresses.is_empty()
    }

    pub(super) fn settle_mac(
        &mut self,
        mac: MacAddr,
        at: impl Fn(&Location) -> Option<MacLocation>,
    ) {
        let told = self.told_macs.range((mac, PORTS.0)..=(mac, PORTS.1));
        match told.rev().find_map(|(_, told)| at(told)) {
            Some(found) => self.macs.insert(mac, found),
            None => self.macs.remove(&mac),
        };
    }

    pub(super) fn settle_address(&mut self, address: IpAddr) {
        let (first, last) = ((PORTS.0, 0), (PORTS.1, u16::MAX));
        let mut told = self.told_addresses.range((address, first)..=(address, last));
        match told.next_back() {
            Some((_, mac)) => self.neighbours.insert(address, *mac),
            None => self.neighbours.remove(&address),
        };
    }
}
