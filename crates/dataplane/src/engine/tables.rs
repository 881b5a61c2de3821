//! A node's program in the form the engine walks: indexes in place of identities. Knows what the
//! program says, nothing of packets; immutable once compiled.

use super::balance;
use super::classifier::Rules;
use super::compile;
use super::compile::CompileError;
use super::encap::{Positions, Written};
use super::pins::Pins;
use super::rendezvous;
use super::short_keys::ShortKeys;
use super::slices::Slices;
use catena_model::id::{ChainId, InstanceId, PortId};
use catena_model::program::{Balance, HopKind, PortEntry, PortRole, RewriteEntry, Underlay};
use catena_model::resource::{Encapsulation, FailurePolicy};
use catena_model::{BlueprintNumber, NodeName, NodeProgram, PathId, SliceId};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::scalar::{MacAddr, Vni};
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Index of a port in the tables; not the slot, which outlives the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PortIndex(pub(super) u16);

/// Index of another node in the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeIndex(pub(super) u16);

/// Index of a tenant network in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NetworkIndex(pub(super) u16);

/// A compiled program. A copy shares what is in it; a change of slices changes a copy in part.
#[derive(Clone)]
pub struct Tables {
    /// As it was told, without slices, for names: the entries of the other tables have its order.
    pub(super) program: Arc<NodeProgram>,
    pub(super) number: BlueprintNumber,
    /// What every choice of an instance starts from.
    pub(super) choice_seed: u64,
    pub(super) underlay_mtu: u16,
    pub(super) ports: Arc<[PortTable]>,
    pub(super) networks: Arc<[NetworkTable]>,
    pub(super) vnis: Arc<HashMap<Vni, NetworkIndex, ShortKeys>>,
    pub(super) nodes: Arc<[IpAddr]>,
    pub(super) sources: Arc<HashMap<IpAddr, NodeIndex, ShortKeys>>,
    pub(super) rules: Arc<Rules>,
    pub(super) pins: Arc<Pins>,
    pub(super) positions: Positions,
    pub(super) descent: Descent,
    pub(super) paths: Arc<[PathTable]>,
    /// The instances of this node that are probed.
    pub(super) watched: Arc<[WatchedInstance]>,
    pub(super) port_indexes: Arc<HashMap<PortId, PortIndex>>,
    /// The numbers that slices know the ends of chains by.
    pub(super) chain_ends: Arc<HashMap<ChainId, u32>>,
    /// Does a function of this node rewrite packets?
    pub(super) has_rewriters: bool,
    pub(super) slices: Slices,
    /// The paths of slices in the order of their slices, once somebody asks.
    pub(super) slice_order: OnceLock<Box<[(SliceId, PathId)]>>,
}

/// How tables came to be.
#[derive(Clone, Debug)]
pub(super) struct Descent {
    /// No other tables of this process have it.
    pub(super) serial: u64,
    /// The tables that these differ from in paths of slices alone; none: they stand for themselves.
    pub(super) base: Option<u64>,
    /// The paths, by index, that came, went or changed since.
    pub(super) changed: Vec<u32>,
}

impl Descent {
    /// Tables made from a program.
    pub(super) fn root() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let serial = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self { serial, base: None, changed: Vec::new() }
    }

    /// Tables made from others by changes of these paths.
    pub(super) fn of(base: &Self, changed: Vec<u32>) -> Self {
        Self { base: Some(base.serial), changed, ..Self::root() }
    }
}

/// A port of this node.
pub(super) struct PortTable {
    pub(super) entry: PortEntry,
    pub(super) network: NetworkIndex,
    /// The encapsulations of the instances that send from it.
    pub(super) speaks: Vec<Encapsulation>,
    /// The networks in which the paths of its instances deliver: where the proxy may send what it
    /// has attracted by its answers.
    pub(super) reaches: Vec<NetworkIndex>,
    /// Does a path go through it?
    pub(super) is_on_path: bool,
    /// How functions that send from it rewrite what they get bare.
    pub(super) rewrites: Vec<RewriteEntry>,
    /// Do two paths come out of it bare that one flow may be on: an old version and a new one of a
    /// chain, or paths that lead into one another?
    pub(super) is_shared: bool,
    /// The paths that come out of it bare.
    pub(super) bare: Vec<PathId>,
    /// The networks of those paths, as the proxy's memory names them.
    pub(super) networks: Vec<u32>,
    /// Do all functions that those paths come out of keep MACs? Then these say the network.
    pub(super) keeps_mac: bool,
    /// All ports of the instances that it belongs to, itself included: one machine is behind them.
    pub(super) siblings: Vec<PortIndex>,
    /// The addresses of the ports of its instances: what the function itself may send from.
    pub(super) own_addresses: Vec<IpAddr>,
}

impl PortTable {
    pub(super) fn is_function(&self) -> bool {
        self.entry.role == PortRole::Function
    }

    /// Do paths of several networks come out of it bare?
    pub(super) fn is_met(&self) -> bool {
        self.networks.len() > 1
    }

    /// The network in which the MAC has a meaning to which a packet is addressed that came back to
    /// its path; none: its function has left it as the proxy wrote it.
    pub(super) fn addressed_in(&self) -> Option<NetworkIndex> {
        (!self.keeps_mac).then_some(self.network)
    }
}

/// Where a MAC of a network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    Port(PortIndex),
    Node(NodeIndex),
}

/// A tenant network.
pub(super) struct NetworkTable {
    pub(super) vni: Vni,
    pub(super) prefixes: Vec<IpNet>,
    pub(super) gateways: Vec<MacAddr>,
    pub(super) gateways_v6: Vec<MacAddr>,
    pub(super) ports: Vec<PortIndex>,
    pub(super) members: Vec<NodeIndex>,
    pub(super) macs: HashMap<MacAddr, Seat, ShortKeys>,
    pub(super) neighbours: HashMap<IpAddr, MacAddr, ShortKeys>,
}

impl NetworkTable {
    /// Is the address on this network?
    pub(super) fn holds(&self, address: IpAddr) -> bool {
        self.prefixes.iter().any(|prefix| prefix.contains(&address))
    }

    /// The MAC that takes packets for an address: its own, or outside the network a gateway's.
    pub(super) fn next_hop(&self, address: IpAddr) -> Option<MacAddr> {
        if let Some(mac) = self.neighbours.get(&address) {
            return Some(*mac);
        }
        let gateways = if address.is_ipv4() { &self.gateways } else { &self.gateways_v6 };
        if self.holds(address) { None } else { gateways.first().copied() }
    }
}

/// A path.
pub(super) struct PathTable {
    pub(super) chain: ChainId,
    pub(super) id: PathId,
    pub(super) encapsulation: Encapsulation,
    /// The metadata that its classifier writes.
    pub(super) context: Written,
    pub(super) hops: Vec<HopTable>,
    /// None: the network is not on this node.
    pub(super) destination: Option<NetworkIndex>,
    /// VNI of that network, by which the proxy's memory tells it from others.
    pub(super) network: u32,
    /// It carries the answers of a symmetric chain.
    pub(super) is_way_back: bool,
    /// The number that slices know the end of its chain by; none: nothing of theirs is taken there,
    /// as on the way back.
    pub(super) chain_end: Option<u32>,
    /// For each position, and the end, the nodes that send there by a tunnel; none: any may.
    pub(super) senders: Vec<Option<Box<[NodeIndex]>>>,
    /// The instances on this node, in order of hops: their counters.
    pub(super) local_instances: Vec<LocalInstance>,
}

impl PathTable {
    /// Does a function of this node rewrite what goes by the path?
    pub(super) fn is_rewritten_here(&self) -> bool {
        let is_here =
            |instance: &InstanceTable| matches!(instance.place, InstancePlace::Here { .. });
        self.hops.iter().any(|hop| hop.rewrites.is_some() && hop.instances.iter().any(is_here))
    }

    /// Has this node business with sending packets to this position of it?
    #[inline]
    pub(super) fn takes_from(&self, node: NodeIndex, hop: u16) -> bool {
        let senders = self.senders.get(usize::from(hop)).and_then(Option::as_ref);
        senders.is_none_or(|senders| senders.contains(&node))
    }

    /// Is it the MAC under which an instance of the last hop is reached here? A tap is no hop that
    /// anything comes back from.
    pub(super) fn ends_at(&self, mac: MacAddr) -> bool {
        let last = self.hops.iter().rfind(|hop| hop.kind == HopKind::Through);
        let instances = last.into_iter().flat_map(|hop| &hop.instances);
        instances.into_iter().any(|instance| {
            matches!(instance.place, InstancePlace::Here { ingress_mac, .. } if ingress_mac == mac)
        })
    }
}

/// A local instance as the counters name it.
pub(super) struct LocalInstance {
    pub(super) hop: u16,
    pub(super) id: InstanceId,
    pub(super) name: String,
    pub(super) ingress: Option<PortIndex>,
    pub(super) egress: Option<PortIndex>,
    /// It gets copies, and gives nothing back.
    pub(super) is_tap: bool,
    /// Index into the watched instances; none: it is not probed.
    pub(super) watch: Option<u32>,
}

/// An instance that is probed.
pub(super) struct WatchedInstance {
    pub(super) id: InstanceId,
    pub(super) name: String,
    pub(super) ingress: PortIndex,
    pub(super) egress: PortIndex,
    pub(super) ingress_mac: MacAddr,
    /// Of its ingress interface: what a link probe asks for.
    pub(super) addresses: Vec<IpAddr>,
}

/// A hop: the instances to choose from.
pub(super) struct HopTable {
    pub(super) kind: HopKind,
    pub(super) balance: Balance,
    /// How packets come back changed.
    pub(super) rewrites: Option<RewriteEntry>,
    /// Packets come back with the MACs that they went in with.
    pub(super) keeps_mac: bool,
    pub(super) instances: Vec<InstanceTable>,
    /// What becomes of packets for an instance that has died.
    pub(super) on_failure: FailurePolicy,
}

impl HopTable {
    /// The number by which a packet chooses; `flow_hash` is that of its whole flow.
    pub(super) fn hash(&self, view: &FrameView, flow_hash: u64, seed: u64) -> u64 {
        balance::hash(&self.balance, view, flow_hash, seed)
    }

    /// Index of the instance that a flow meets, on every node the same.
    pub(super) fn choose_index(&self, flow_hash: u64) -> Option<usize> {
        self.choose_among(flow_hash, |_, _| true)
    }

    /// The same among some of the instances.
    pub(super) fn choose_among(
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
pub(super) struct InstanceTable {
    /// Its identity mixed to 64 bits, for the choice.
    pub(super) seed: u64,
    pub(super) weight: u32,
    pub(super) place: InstancePlace,
    /// Index into the watched instances of this node.
    pub(super) watch: Option<u32>,
}

/// Where an instance is.
#[derive(Clone, Copy, Debug)]
pub(super) enum InstancePlace {
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
    /// Compiles a program.
    ///
    /// # Errors
    /// When the program contradicts itself or exceeds a limit of `catena_model::limits`.
    pub fn compile(program: &NodeProgram) -> Result<Tables, CompileError> {
        compile::compile(program)
    }

    /// The blueprint that the program is part of.
    #[must_use]
    pub fn number(&self) -> BlueprintNumber {
        self.number
    }

    /// Do they differ from others in slices alone?
    pub(super) fn differ_in_slices(&self, former: &Tables) -> bool {
        Arc::ptr_eq(&self.paths, &former.paths) && Arc::ptr_eq(&self.rules, &former.rules)
    }

    /// The ports of this node, in the order of the program.
    pub fn local_ports(&self) -> impl Iterator<Item = (PortId, &PortEntry)> {
        self.ports.iter().map(|port| (port.entry.id, &port.entry))
    }

    pub(super) fn empty(node: NodeName) -> Self {
        let underlay = Underlay { address: Ipv4Addr::UNSPECIFIED.into(), mtu: 0 };
        Self {
            program: Arc::new(NodeProgram::empty(node, BlueprintNumber(0), underlay)),
            number: BlueprintNumber(0),
            choice_seed: 0,
            underlay_mtu: 0,
            ports: [].into(),
            networks: [].into(),
            vnis: Arc::default(),
            nodes: [].into(),
            sources: Arc::default(),
            rules: Arc::default(),
            pins: Arc::default(),
            positions: Positions::default(),
            descent: Descent::root(),
            paths: [].into(),
            watched: [].into(),
            port_indexes: Arc::default(),
            chain_ends: Arc::default(),
            has_rewriters: false,
            slices: Slices::default(),
            slice_order: OnceLock::new(),
        }
    }

    pub(super) fn port(&self, index: PortIndex) -> &PortTable {
        &self.ports[usize::from(index.0)]
    }

    #[inline]
    pub(super) fn network(&self, index: NetworkIndex) -> &NetworkTable {
        &self.networks[usize::from(index.0)]
    }

    pub(super) fn node_address(&self, index: NodeIndex) -> IpAddr {
        self.nodes[usize::from(index.0)]
    }

    #[inline]
    pub(super) fn path(&self, index: u32) -> &PathTable {
        &self.paths[index as usize]
    }

    /// Is a packet of the path not to go in where paths of other networks come out as well? Unless
    /// MACs tell, its network is known again by its addresses alone: it has come from there, or on
    /// the way back it is bound for there.
    pub(super) fn is_foreign(&self, egress: PortIndex, path: &PathTable, flow: &FlowKey) -> bool {
        let port = self.port(egress);
        if !port.is_met() || port.keeps_mac {
            return false;
        }
        let own = if path.is_way_back { flow.destination } else { flow.source };
        !path.destination.is_some_and(|network| self.network(network).holds(own))
    }

    pub(super) fn paths(&self) -> &[PathTable] {
        &self.paths
    }
}
