//! Nodes, networks, ports, and where MACs and addresses are. Knows these entries; refuses to know what
//! goes through a port.

use super::{Following, edits};
use crate::engine::error::CompileError;
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex};
use crate::engine::tables::Tables;
use crate::engine::tables::names::{Name, Referrer, short};
use crate::engine::tables::network::{AddressTable, MacLocation, NetworkTable, NodeTable};
use catena_model::discovery::DiscoveryKey;
use catena_model::id::NetworkId;
use catena_model::program::{Location, MacEntry, NeighbourEntry, NetworkEntry, PortEntry};
use catena_wire::scalar::MacAddr;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

impl Following<'_> {
    /// What the node is told of itself: all decisions were made by it.
    pub(super) fn follow_own(&mut self) {
        let (former, now) = (self.former.entries.own(), self.entries.own());
        if former == now {
            return;
        }
        let own = now.copied().unwrap_or_default();
        self.next.choice_seed = own.choice_seed;
        self.next.underlay_mtu = own.underlay.mtu;
        let domain = own.discovery_key.as_ref().map(DiscoveryKey::octets);
        self.next.positions.seal_by(domain);
        self.changed.is_all = true;
    }

    /// Nodes come and go rarely, and who is at one is not written down: all paths, networks and MACs
    /// are looked through.
    pub(super) fn follow_nodes(&mut self) {
        let edits = edits(&self.former.entries.tunnels, &self.entries.tunnels);
        let placed = super::edits(&self.former.entries.locators, &self.entries.locators);
        if edits.is_empty() && placed.is_empty() {
            return;
        }
        let Tables { names, nodes, node: own, positions, .. } = &mut self.next;
        for (name, _, _) in edits.iter().filter(|(_, _, now)| now.is_none()) {
            if let Some(index) = names.nodes.remove(name) {
                nodes.take(index.0.into());
                names.node_numbers.give_back(index.0.into());
            }
        }
        for (name, _, now) in &edits {
            let Some(entry) = now else { continue };
            let index = names.node(name).unwrap_or_else(|| {
                let index = NodeIndex(short(names.node_numbers.take()));
                names.nodes.insert(name.clone(), index);
                index
            });
            let segments = self.entries.locators.get(name).map(|entry| entry.place);
            let address = entry.address;
            nodes.put(index.0.into(), NodeTable { name: Some(name.clone()), address, segments });
        }
        for (name, ..) in &placed {
            let entry = self.entries.locators.get(name);
            let segments = entry.map(|entry| entry.place);
            if let Some(index) = names.node(name) {
                nodes.write(index.0.into()).segments = segments;
            } else if name == own {
                positions.stand_at(segments, entry.and_then(|entry| entry.device));
                self.changed.is_all = true;
            }
        }
        let Tables { names, node: own, .. } = &self.next;
        let tunnels = self.entries.tunnels.values().map(|entry| (entry.address, &entry.node));
        let segments = self.entries.locators.values();
        let segments = segments.map(|entry| (entry.place.address.into(), &entry.node));
        let known = |(address, node)| Some((address, names.node(node)?));
        let sources = Arc::new(tunnels.filter_map(known).collect());
        let segment_sources = Arc::new(segments.filter_map(known).collect());
        let mut turned: BTreeSet<_> = edits.into_iter().map(|(name, ..)| name).collect();
        turned.extend(placed.iter().map(|(name, ..)| name.clone()));
        if turned.remove(own) {
            // All headers over segments come from there.
            let all = self.entries.paths.iter();
            let segmented = all.filter(|(_, path)| path.encapsulation.is_segmented());
            self.turned.paths.extend(segmented.map(|(id, _)| *id));
        }
        (self.next.sources, self.next.segment_sources) = (sources, segment_sources);
        let locators = self.entries.locators.values().map(|entry| entry.place.locator);
        let locators: BTreeSet<_> = locators.collect();
        // What went to an address that is a segment now was decided before; what ends there is never remembered.
        self.changed.is_all |= !locators.is_subset(&self.next.locators);
        self.next.locators = Arc::new(locators);
        for (id, path) in &self.entries.paths {
            let mut instances = path.hops.iter().flat_map(|hop| &hop.instances);
            if instances.any(|one| turned.contains(&one.node)) {
                self.turned.paths.insert(*id);
            }
        }
        for (id, network) in &self.entries.networks {
            if network.members.iter().any(|node| turned.contains(node)) {
                self.turned.networks.insert(*id);
            }
        }
        for (key, entry) in &self.entries.macs {
            if matches!(&entry.at, Location::Node(node) if turned.contains(node)) {
                self.turned.macs.insert(*key);
            }
        }
    }

    pub(super) fn follow_networks(&mut self) -> Result<(), CompileError> {
        let edits = edits(&self.former.entries.networks, &self.entries.networks);
        if edits.is_empty() {
            return Ok(());
        }
        let Tables { names, networks, vnis, .. } = &mut self.next;
        let vnis = Arc::make_mut(vnis);
        for (id, old, now) in &edits {
            if let Some(old) = old.filter(|old| now.is_none_or(|now| now.vni != old.vni)) {
                vnis.remove(&old.vni);
            }
            if now.is_none()
                && let Some(index) = names.networks.remove(id)
            {
                networks.take(index.0.into());
                names.network_numbers.give_back(index.0.into());
            }
        }
        for (id, old, now) in edits {
            self.turned.networks.insert(id);
            if now.map(|now| now.vni) != old.map(|old| old.vni) {
                self.turned.take(names.referrers(Name::Network(id)));
            }
            let Some(entry) = now else { continue };
            let index = names.network(id).unwrap_or_else(|| {
                let index = NetworkIndex(short(names.network_numbers.take()));
                names.networks.insert(id, index);
                index
            });
            if vnis.insert(entry.vni, index).is_some_and(|other| other != index) {
                return Err(CompileError::Twice { what: "VNI", id: entry.vni.to_string() });
            }
        }
        Ok(())
    }

    pub(super) fn follow_ports(&mut self) -> Result<(), CompileError> {
        let edits = edits(&self.former.entries.ports, &self.entries.ports);
        let Tables { names, ports, .. } = &mut self.next;
        for (id, old, _) in edits.iter().filter(|(_, _, now)| now.is_none()) {
            if let Some(index) = names.ports.remove(id) {
                ports.take(index.0.into());
                names.port_numbers.give_back(index.0.into());
                self.changed.ports.insert(index);
                self.changed.gone_ports.push(*id);
            }
            self.turned.slice_ports.insert(*id);
            self.turned.take(names.referrers(Name::Port(*id)));
            self.turned.networks.extend(old.map(|old| old.network));
        }
        for (id, old, now) in &edits {
            if let Some(old) = old {
                names.unname(Name::Network(old.network), Referrer::Port(*id));
            }
            let Some(entry) = now else { continue };
            names.name(Name::Network(entry.network), Referrer::Port(*id));
            self.turned.ports.insert(*id);
            let users = names.referrers(Name::Port(*id));
            match old {
                Some(old) => {
                    let paths = users.filter(|user| matches!(user, Referrer::Path(_)));
                    self.turned.take(paths);
                    let what =
                        |port: &PortEntry| (port.network, port.role, port.own_sources.clone());
                    if what(old) != what(entry) {
                        self.changed.other_ports.push(*id);
                    }
                    if what(old) != what(entry) || old.mac != entry.mac {
                        self.turned.networks.extend([old.network, entry.network]);
                    }
                }
                None => {
                    self.turned.take(users);
                    self.turned.slice_ports.insert(*id);
                    self.turned.networks.insert(entry.network);
                    let index = PortIndex(short(names.port_numbers.take()));
                    names.ports.insert(*id, index);
                }
            }
        }
        for id in &self.turned.ports {
            let Some(entry) = self.entries.ports.get(id) else { continue };
            let (port, network) = (entry.id, entry.network);
            let network =
                names.network(network).ok_or(CompileError::PortWithoutNetwork { port, network })?;
            let Some(index) = names.port(port) else { continue };
            let table = ports.write(index.0.into());
            table.entry = Arc::clone(entry);
            table.network = network;
            self.changed.ports.insert(index);
        }
        Ok(())
    }

    /// Where MACs and addresses are.
    pub(super) fn follow_lines(&mut self) {
        let mut macs: BTreeSet<(NetworkId, MacAddr)> = BTreeSet::new();
        for (key, old, now) in edits(&self.former.entries.macs, &self.entries.macs) {
            if let Some(MacEntry { network, mac, at }) = old.map(|entry| &**entry) {
                self.lines(*network).told_macs.remove(&(*mac, key));
                if let Location::Port(port) = at {
                    self.next.names.unname(Name::Port(*port), Referrer::Mac(key));
                }
                macs.insert((*network, *mac));
            }
            if let Some(MacEntry { network, mac, at }) = now.map(|entry| MacEntry::clone(entry)) {
                if let Location::Port(port) = at {
                    self.next.names.name(Name::Port(port), Referrer::Mac(key));
                }
                self.lines(network).told_macs.insert((mac, key), at);
                macs.insert((network, mac));
            }
        }
        let turned = self.turned.macs.iter().filter_map(|key| self.entries.macs.get(key));
        macs.extend(turned.map(|entry| (entry.network, entry.mac)));
        let mut addresses: BTreeSet<(NetworkId, IpAddr)> = BTreeSet::new();
        for (key, old, now) in edits(&self.former.entries.neighbours, &self.entries.neighbours) {
            if let Some(NeighbourEntry { network, address, mac }) = old.map(|entry| **entry) {
                let lines = self.lines(network);
                lines.told_addresses.remove(&(address, key));
                lines.of_mac.remove(&(mac, key, address));
                addresses.insert((network, address));
            }
            if let Some(NeighbourEntry { network, address, mac }) = now.map(|entry| **entry) {
                let lines = self.lines(network);
                lines.told_addresses.insert((address, key), mac);
                lines.of_mac.insert((mac, key, address));
                addresses.insert((network, address));
            }
        }
        for (network, mac) in macs {
            self.settle_mac(network, mac);
            self.turned.networks.insert(network);
        }
        for (network, address) in addresses {
            self.lines(network).settle_address(address);
            self.turned.networks.insert(network);
            self.turned.lines.insert(network);
        }
    }

    fn lines(&mut self, network: NetworkId) -> &mut AddressTable {
        Arc::make_mut(self.next.names.lines.entry(network).or_default())
    }

    fn settle_mac(&mut self, network: NetworkId, mac: MacAddr) {
        let names = &mut self.next.names;
        let Some(mut lines) = names.lines.remove(&network) else { return };
        Arc::make_mut(&mut lines).settle_mac(mac, |at| match at {
            Location::Port(port) => names.port(*port).map(MacLocation::Port),
            Location::Node(node) => names.node(node).map(MacLocation::Node),
        });
        names.lines.insert(network, lines);
    }

    /// Networks whose entry, ports, nodes, MACs or addresses are others.
    pub(super) fn make_networks(&mut self) {
        for id in std::mem::take(&mut self.turned.networks) {
            self.changed.networks.insert(id);
            let names = &mut self.next.names;
            if names.lines.get(&id).is_some_and(|lines| lines.is_empty()) {
                names.lines.remove(&id);
            }
            let Some((entry, index)) = self.entries.networks.get(&id).zip(names.network(id)) else {
                continue;
            };
            let table = network_table(entry, &self.next);
            self.next.networks.put(index.0.into(), table);
        }
    }
}

fn network_table(entry: &Arc<NetworkEntry>, tables: &Tables) -> NetworkTable {
    let names = &tables.names;
    let lines = names.lines.get(&entry.id).cloned().unwrap_or_default();
    let gateways = |is_v4: bool| -> Vec<MacAddr> {
        let gateways = entry.gateways.iter().filter(|gateway| gateway.is_ipv4() == is_v4);
        gateways.filter_map(|gateway| lines.neighbour(*gateway)).collect()
    };
    let ports = names.referrers(Name::Network(entry.id)).filter_map(|user| match user {
        Referrer::Port(port) => names.port(port),
        _ => None,
    });
    NetworkTable {
        vni: entry.vni,
        prefixes: entry.prefixes.clone(),
        gateways: gateways(true),
        gateways_v6: gateways(false),
        ports: ports.collect(),
        members: entry.members.iter().filter_map(|node| names.node(node)).collect(),
        entry: Arc::clone(entry),
        lines,
    }
}
