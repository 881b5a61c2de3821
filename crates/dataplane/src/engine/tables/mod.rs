//! A node's program in the form the engine walks: indexes in place of identities. Knows what the
//! program says, nothing of packets; immutable once compiled.

pub(crate) mod balance;
pub(crate) mod bundles;
pub(crate) mod classifier;
pub(crate) mod compile;
pub(crate) mod dependency;
pub(crate) mod descent;
pub(crate) mod exits;
mod makers;
pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod path;
pub(crate) mod pins;
pub(crate) mod port;
pub(crate) mod renewal;
pub(crate) mod slices;

use crate::engine::collections::sharing::Slab;
use crate::engine::collections::short_keys::ShortKeys;
use crate::engine::encap::{PathPosition, Positions, Written};
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex};
use crate::engine::vector::Source;
use bundles::Bundles;
use catena_model::TunnelKind;
use catena_model::discovery::DiscoveryKey;
use catena_model::entry::Entries;
use catena_model::id::{InstanceId, PortId};
use catena_model::program::PortEntry;
use catena_model::program::SegmentPlace;
use catena_model::{BlueprintNumber, NodeName, PathId, SliceId};
use catena_wire::flow::FlowKey;
use catena_wire::scalar::Vni;
use catena_wire::srv6::Locator;
use classifier::Rules;
use descent::Descent;
use exits::Exits;
use imbl::OrdSet;
pub use makers::Makers;
use names::Names;
use network::{NetworkTable, NodeTable};
use path::{PathTable, WatchedInstance};
use pins::Pins;
use port::PortTable;
use slices::Scope;
use slices::Slices;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// A compiled program. A copy shares what is in it; a change changes a copy in part. Of entries that
/// have an index here, all keep it as long as they are there.
#[derive(Clone, Debug)]
pub struct Tables {
    pub(crate) node: NodeName,
    /// As it was told.
    pub(crate) entries: Entries,
    pub(crate) number: BlueprintNumber,
    /// What every choice of an instance starts from.
    pub(crate) choice_seed: u64,
    pub(crate) underlay_mtu: u16,
    pub(crate) names: Names,
    pub(crate) nodes: Slab<NodeTable>,
    pub(crate) sources: Arc<HashMap<IpAddr, NodeIndex, ShortKeys>>,
    /// The same in the IPv6 underlay.
    pub(crate) segment_sources: Arc<HashMap<IpAddr, NodeIndex, ShortKeys>>,
    /// Below which all segments of the domain are.
    pub(crate) locators: Arc<BTreeSet<Locator>>,
    pub(crate) networks: Slab<NetworkTable>,
    pub(crate) vnis: Arc<HashMap<Vni, NetworkIndex, ShortKeys>>,
    pub(crate) ports: Slab<PortTable>,
    pub(crate) exits: Arc<Exits>,
    pub(crate) positions: Positions,
    pub(crate) paths: Slab<PathTable>,
    /// The functions that run inside.
    pub(crate) bundles: Bundles,
    /// Paths that functions of this node rewrite packets on.
    pub(crate) rewritten: u32,
    /// Paths that users of slices pass who may be on other paths later, or were before.
    pub(crate) takers: OrdSet<PathId>,
    /// The instances of this node that are probed.
    pub(crate) watched: Slab<WatchedInstance>,
    pub(crate) rules: Rules,
    pub(crate) pins: Pins,
    pub(crate) slices: Slices,
    /// The paths of slices in the order of their slices, once somebody asks.
    pub(crate) slice_order: OnceLock<Box<[(SliceId, PathId)]>>,
    pub(crate) descent: Descent,
}

impl Tables {
    /// The key by which nodes of the domain know each other.
    pub(crate) fn discovery_key(&self) -> Option<&[u8; 16]> {
        let own = self.entries.node.values().next()?;
        own.discovery_key.as_ref().map(DiscoveryKey::octets)
    }

    /// May there be flows to be remembered? Where no port of a tenant is and no path leads, there are none.
    pub(crate) fn has_flows(&self) -> bool {
        let Entries { ports, paths, slice_paths, .. } = &self.entries;
        !(ports.is_empty() && paths.is_empty() && slice_paths.is_empty())
    }

    /// Is the same machine behind a port and that by which a frame came, as far as port pairs tell?
    pub(crate) fn is_same_machine(&self, from: Source, port: PortIndex) -> bool {
        match from {
            Source::Port(source) => {
                source == port || self.port(source).siblings().any(|other| other == port)
            }
            Source::Tunnel | Source::Proxy => false,
        }
    }

    /// The ports whose packets are in a place.
    pub(crate) fn ports_at(&self, place: Scope) -> Vec<PortIndex> {
        match place.index() {
            Some(Ok(port)) => vec![port],
            Some(Err(network)) => self.network(network).ports.clone(),
            None => Vec::new(),
        }
    }

    /// What a packet is given that is sent to a position: see [`crate::engine::encap::enter`].
    pub(crate) fn entered_at(&self, start: PathPosition) -> (&Positions, &Written) {
        (&self.positions, &self.path(self.positions.place(start).path).context)
    }

    /// The tables of an empty program.
    #[must_use]
    pub fn empty(node: NodeName) -> Self {
        Self {
            node,
            entries: Entries::default(),
            number: BlueprintNumber(0),
            choice_seed: 0,
            underlay_mtu: 0,
            names: Names::default(),
            nodes: Slab::default(),
            sources: Arc::default(),
            segment_sources: Arc::default(),
            locators: Arc::default(),
            networks: Slab::default(),
            vnis: Arc::default(),
            ports: Slab::default(),
            exits: Arc::default(),
            positions: Positions::default(),
            paths: Slab::default(),
            bundles: Bundles::default(),
            rewritten: 0,
            takers: OrdSet::new(),
            watched: Slab::default(),
            rules: Rules::default(),
            pins: Pins::default(),
            slices: Slices::default(),
            slice_order: OnceLock::new(),
            descent: Descent::root(),
        }
    }

    /// The same, whose functions have a time that starts so many seconds behind that of 1970.
    #[must_use]
    pub fn since(mut self, epoch_seconds: u64) -> Self {
        self.bundles.epoch_seconds = epoch_seconds;
        self
    }

    /// The same, whose functions are made by these.
    #[must_use]
    pub fn made_by(mut self, makers: Arc<dyn Makers>) -> Self {
        self.bundles.makers = Some(makers);
        self
    }

    /// Does an instance run inside here?
    #[must_use]
    pub fn has_function(&self, instance: InstanceId) -> bool {
        self.bundles.iter().any(|bundle| bundle.key.0 == instance)
    }

    /// The instances that run inside here.
    pub fn functions(&self) -> impl Iterator<Item = InstanceId> {
        self.bundles.iter().map(|bundle| bundle.key.0)
    }

    /// Makes the functions that run inside ahead, one of each for each engine: who makes tables has time to.
    pub fn prepare_functions(&self, engines: usize) {
        self.bundles.iter().for_each(|bundle| bundle.prepare(engines));
    }

    /// The blueprint that the program is part of.
    #[must_use]
    pub fn number(&self) -> BlueprintNumber {
        self.number
    }

    /// The program that they are of.
    #[must_use]
    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    /// The ports of this node, in the order of their identities.
    pub fn local_ports(&self) -> impl Iterator<Item = (PortId, &PortEntry)> {
        let ports = self.names.all_ports().map(|index| &*self.port(index).entry);
        ports.map(|entry| (entry.id, entry))
    }

    #[inline]
    pub(crate) fn port(&self, index: PortIndex) -> &PortTable {
        self.ports.get(index.0.into())
    }

    #[inline]
    pub(crate) fn network(&self, index: NetworkIndex) -> &NetworkTable {
        self.networks.get(index.0.into())
    }

    pub(crate) fn node_address(&self, index: NodeIndex) -> IpAddr {
        self.nodes.get(index.0.into()).address
    }

    /// The node that sends by a kind of tunnel from this address.
    #[inline]
    pub(crate) fn sender(&self, kind: TunnelKind, source: IpAddr) -> Option<NodeIndex> {
        let sources = if kind.is_segmented() { &self.segment_sources } else { &self.sources };
        sources.get(&source).copied()
    }

    /// The address of a node by which a kind of tunnel reaches it; none: it has no place in the IPv6 underlay.
    pub(crate) fn node_end(&self, index: NodeIndex, kind: TunnelKind) -> Option<IpAddr> {
        match kind.is_segmented() {
            true => self.node_segments(index).map(|place| place.address.into()),
            false => Some(self.node_address(index)),
        }
    }

    /// A node's place in the IPv6 underlay, if it has one.
    pub(crate) fn node_segments(&self, index: NodeIndex) -> Option<SegmentPlace> {
        self.nodes.get(index.0.into()).segments
    }

    /// Is it the address of a segment of the domain's?
    pub(crate) fn is_segment(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V6(address) if !self.locators.is_empty() => {
                Locator::of(address).is_ok_and(|locator| self.locators.contains(&locator))
            }
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn path(&self, index: u32) -> &PathTable {
        self.paths.get(index)
    }

    /// Is a packet of the path not to go in where paths of other networks come out as well? Unless
    /// MACs tell, its network is known again by its addresses alone: it has come from there, or on
    /// the way back it is bound for there.
    pub(crate) fn is_foreign(&self, egress: PortIndex, path: &PathTable, flow: &FlowKey) -> bool {
        let port = self.port(egress);
        if !port.is_met() || port.keeps_mac() {
            return false;
        }
        let own = if path.is_way_back { flow.destination } else { flow.source };
        !path.destination.is_some_and(|network| self.network(network).holds(own))
    }
}
