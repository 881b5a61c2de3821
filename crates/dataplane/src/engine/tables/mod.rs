//! A node's program in the form the engine walks: indexes in place of identities. Knows what the
//! program says, nothing of packets; immutable once compiled.

pub(crate) mod balance;
pub(crate) mod classifier;
pub(crate) mod compile;
pub(crate) mod dependency;
pub(crate) mod pins;
pub(crate) mod slices;

use crate::engine::collections::rendezvous;
use crate::engine::collections::sharing::Slab;
use crate::engine::collections::short_keys::ShortKeys;
use crate::engine::encap::PathPosition;
use crate::engine::encap::{Positions, Written};
use crate::engine::packet::index::NetworkIndex;
use crate::engine::packet::index::NodeIndex;
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::index::UNTOLD_NETWORK;
use crate::engine::vector::Source;
use catena_model::entry::Entries;
use catena_model::id::{ChainId, InstanceId, NetworkId, PortId};
use catena_model::program::{
    Balance, HopKind, NetworkEntry, PathEntry, PortEntry, PortRole, RewriteEntry,
};
use catena_model::resource::{Attachment, Encapsulation, FailurePolicy};
use catena_model::{BlueprintNumber, NodeName, PathId, SliceId};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::scalar::{MacAddr, Vni};
use classifier::Rules;
use compile::{AddressTable, Descent, Names, PortShare, PortUses};
use imbl::OrdSet;
use ipnet::IpNet;
use pins::Pins;
use slices::Slices;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// A compiled program. A copy shares what is in it; a change changes a copy in part. Of entries that
/// have an index here, all keep it as long as they are there.
#[derive(Clone)]
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
    pub(crate) networks: Slab<NetworkTable>,
    pub(crate) vnis: Arc<HashMap<Vni, NetworkIndex, ShortKeys>>,
    pub(crate) ports: Slab<PortTable>,
    pub(crate) positions: Positions,
    pub(crate) paths: Slab<PathTable>,
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

/// Another node.
#[derive(Clone)]
pub(crate) struct NodeTable {
    /// None: there is no such node.
    pub(crate) name: Option<NodeName>,
    pub(crate) address: IpAddr,
}

impl Default for NodeTable {
    /// Of nobody.
    fn default() -> Self {
        Self { name: None, address: Ipv4Addr::UNSPECIFIED.into() }
    }
}

/// A port of this node.
#[derive(Clone)]
pub(crate) struct PortTable {
    pub(crate) entry: Arc<PortEntry>,
    pub(crate) network: NetworkIndex,
    /// What paths want of it.
    pub(crate) uses: PortUses,
    /// The addresses of the ports of its instances: what the function itself may send from.
    pub(crate) own_addresses: Vec<IpAddr>,
}

impl Default for PortTable {
    /// Nobody's.
    fn default() -> Self {
        let entry = PortEntry {
            id: PortId(Uuid::nil()),
            name: String::new(),
            network: NetworkId(Uuid::nil()),
            mac: MacAddr::default(),
            role: PortRole::Endpoint,
            attachment: Attachment { namespace: None, interface: String::new() },
            own_sources: None,
        };
        let (entry, network) = (Arc::new(entry), NetworkIndex::default());
        Self { entry, network, uses: PortUses::default(), own_addresses: Vec::new() }
    }
}

impl PortTable {
    pub(crate) fn is_function(&self) -> bool {
        self.entry.role == PortRole::Function
    }

    /// The network in which the MAC has a meaning to which a packet is addressed that came back to
    /// its path; none: its function has left it as the proxy wrote it.
    pub(crate) fn addressed_in(&self) -> Option<NetworkIndex> {
        (!self.keeps_mac()).then_some(self.network)
    }
}

/// Where a MAC of a network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    Port(PortIndex),
    Node(NodeIndex),
}

/// That of no network.
const NO_VNI: Vni = match Vni::new(0) {
    Ok(vni) => vni,
    Err(_) => panic!("0 fits"),
};

/// A tenant network.
#[derive(Clone)]
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

/// A path.
#[derive(Clone)]
pub(crate) struct PathTable {
    pub(crate) entry: Arc<PathEntry>,
    pub(crate) chain: ChainId,
    pub(crate) id: PathId,
    pub(crate) encapsulation: Encapsulation,
    /// The metadata that its classifier writes.
    pub(crate) context: Written,
    pub(crate) hops: Vec<HopTable>,
    /// None: the network is not on this node.
    pub(crate) destination: Option<NetworkIndex>,
    /// VNI of that network, by which the proxy's memory tells it from others.
    pub(crate) network: u32,
    /// It carries the answers of a symmetric chain.
    pub(crate) is_way_back: bool,
    /// The number that slices know the end of its chain by; none: nothing of theirs is taken there,
    /// as on the way back.
    pub(crate) chain_end: Option<u32>,
    /// For each position, and the end, the nodes that send there by a tunnel; none: any may.
    pub(crate) senders: Vec<Option<Box<[NodeIndex]>>>,
    /// The instances on this node, in order of hops: their counters.
    pub(crate) local_instances: Vec<LocalInstance>,
    /// What those want of their ports.
    pub(crate) shares: Vec<PortShare>,
}

impl Default for PathTable {
    /// One that goes nowhere.
    fn default() -> Self {
        let (chain, id, encapsulation) = (ChainId(Uuid::nil()), PathId(0), Encapsulation::Nsh);
        let entry = PathEntry {
            id,
            chain,
            encapsulation,
            context: Vec::new(),
            hops: Vec::new(),
            destination: NetworkId(Uuid::nil()),
            is_way_back: false,
        };
        Self {
            entry: Arc::new(entry),
            chain,
            id,
            encapsulation,
            context: Written::default(),
            hops: Vec::new(),
            destination: None,
            network: UNTOLD_NETWORK,
            is_way_back: false,
            chain_end: None,
            senders: Vec::new(),
            local_instances: Vec::new(),
            shares: Vec::new(),
        }
    }
}

impl PathTable {
    /// Does a function of this node rewrite what goes by the path?
    pub(crate) fn is_rewritten_here(&self) -> bool {
        let is_here =
            |instance: &InstanceTable| matches!(instance.place, InstancePlace::Here { .. });
        self.hops.iter().any(|hop| hop.rewrites.is_some() && hop.instances.iter().any(is_here))
    }

    /// Has this node business with sending packets to this position of it?
    #[inline]
    pub(crate) fn takes_from(&self, node: NodeIndex, hop: u16) -> bool {
        let senders = self.senders.get(usize::from(hop)).and_then(Option::as_ref);
        senders.is_none_or(|senders| senders.contains(&node))
    }

    /// Is it the MAC under which an instance of the last hop is reached here? A tap is no hop that
    /// anything comes back from.
    pub(crate) fn ends_at(&self, mac: MacAddr) -> bool {
        let last = self.hops.iter().rfind(|hop| hop.kind == HopKind::Through);
        let instances = last.into_iter().flat_map(|hop| &hop.instances);
        instances.into_iter().any(|instance| {
            matches!(instance.place, InstancePlace::Here { ingress_mac, .. } if ingress_mac == mac)
        })
    }
}

/// A local instance as the counters name it.
#[derive(Clone)]
pub(crate) struct LocalInstance {
    pub(crate) hop: u16,
    pub(crate) id: InstanceId,
    pub(crate) name: String,
    pub(crate) ingress: Option<PortIndex>,
    pub(crate) egress: Option<PortIndex>,
    /// It gets copies, and gives nothing back.
    pub(crate) is_tap: bool,
    /// Index into the watched instances; none: it is not probed.
    pub(crate) watch: Option<u32>,
}

/// An instance that is probed.
#[derive(Clone)]
pub(crate) struct WatchedInstance {
    pub(crate) id: InstanceId,
    pub(crate) name: String,
    pub(crate) ingress: PortIndex,
    pub(crate) egress: PortIndex,
    pub(crate) ingress_mac: MacAddr,
    /// Of its ingress interface: what a link probe asks for.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Default for WatchedInstance {
    /// None.
    fn default() -> Self {
        Self {
            id: InstanceId(Uuid::nil()),
            name: String::new(),
            ingress: PortIndex::default(),
            egress: PortIndex::default(),
            ingress_mac: MacAddr::default(),
            addresses: Vec::new(),
        }
    }
}

/// A hop: the instances to choose from.
#[derive(Clone)]
pub(crate) struct HopTable {
    pub(crate) kind: HopKind,
    pub(crate) balance: Balance,
    /// How packets come back changed.
    pub(crate) rewrites: Option<RewriteEntry>,
    /// Packets come back with the MACs that they went in with.
    pub(crate) keeps_mac: bool,
    pub(crate) instances: Vec<InstanceTable>,
    /// What becomes of packets for an instance that has died.
    pub(crate) on_failure: FailurePolicy,
}

impl HopTable {
    /// The number by which a packet chooses; `flow_hash` is that of its whole flow.
    pub(crate) fn hash(&self, view: &FrameView, flow_hash: u64, seed: u64) -> u64 {
        balance::hash(&self.balance, view, flow_hash, seed)
    }

    /// Index of the instance that a flow meets, on every node the same.
    pub(crate) fn choose_index(&self, flow_hash: u64) -> Option<usize> {
        self.choose_among(flow_hash, |_, _| true)
    }

    /// The same among some of the instances.
    pub(crate) fn choose_among(
        &self,
        flow_hash: u64,
        is_candidate: impl Fn(usize, &InstanceTable) -> bool,
    ) -> Option<usize> {
        let candidates = self.instances.iter().enumerate().map(|(index, instance)| {
            let weight = if is_candidate(index, instance) { instance.weight } else { 0 };
            (instance.seed, weight)
        });
        rendezvous::choose(flow_hash, candidates)
    }
}

/// An instance as the forwarder sees it.
#[derive(Clone)]
pub(crate) struct InstanceTable {
    /// Its identity mixed to 64 bits, for the choice.
    pub(crate) seed: u64,
    pub(crate) weight: u32,
    pub(crate) place: InstancePlace,
    /// Index into the watched instances of this node.
    pub(crate) watch: Option<u32>,
}

/// Where an instance is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InstancePlace {
    /// On this node.
    Here {
        ingress: PortIndex,
        egress: PortIndex,
        ingress_mac: MacAddr,
        speaks: Option<Encapsulation>,
        /// Index into the path's local instances.
        local: u32,
    },
    /// On this node, but a port of it is not in the program.
    Unported,
    /// On this node, unaware of chains, and its port is that of an earlier hop of this path: what
    /// came back could belong to either visit. Nothing comes back from taps, so two of them may
    /// share a port; a tap and a hop that packets pass through may not.
    Ambiguous,
    /// On another node.
    There(NodeIndex),
    /// On a node that the program does not name.
    Nowhere,
}

impl Tables {
    /// Is the same machine behind a port and that by which a frame came, as far as port pairs tell?
    pub(crate) fn is_same_machine(&self, from: Source, port: PortIndex) -> bool {
        match from {
            Source::Port(source) => {
                source == port || self.port(source).siblings().any(|other| other == port)
            }
            Source::Tunnel | Source::Proxy => false,
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
            networks: Slab::default(),
            vnis: Arc::default(),
            ports: Slab::default(),
            positions: Positions::default(),
            paths: Slab::default(),
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
