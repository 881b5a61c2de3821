//! Paths with their hops and the instances to choose from. Knows which instance a flow meets; refuses to know
//! what is done with a packet there.

use super::balance;
use super::port::PortShare;
use crate::engine::collections::rendezvous;
use crate::engine::encap::Written;
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex, UNTOLD_NETWORK};
use catena_model::PathId;
use catena_model::id::{ChainId, InstanceId, NetworkId};
use catena_model::program::{Balance, HopKind, PathEntry, RewriteEntry, WhenAway};
use catena_model::resource::{Encapsulation, FailurePolicy, TuplePattern};
use catena_wire::frame::FrameView;
use catena_wire::scalar::MacAddr;
use std::net::IpAddr;
use std::sync::Arc;
use uuid::Uuid;

/// A path.
#[derive(Clone, Debug)]
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
    /// What becomes of packets of flows that the controller does not answer for; none: it is not asked.
    pub(crate) setup: Option<WhenAway>,
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
        let (chain, id, encapsulation) =
            (ChainId(Uuid::nil()), PathId(0), Encapsulation::default());
        let entry = PathEntry {
            id,
            chain,
            encapsulation,
            context: Vec::new(),
            hops: Vec::new(),
            destination: NetworkId(Uuid::nil()),
            is_way_back: false,
            splits_flows: false,
            telemetry: None,
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
            setup: None,
            chain_end: None,
            senders: Vec::new(),
            local_instances: Vec::new(),
            shares: Vec::new(),
        }
    }
}

impl PathTable {
    /// Is nothing written for each packet alone?
    pub(crate) fn is_plain(&self) -> bool {
        self.context.is_empty() && self.entry.telemetry.is_none()
    }

    /// Does a function of this node rewrite what goes by the path?
    pub(crate) fn is_rewritten_here(&self) -> bool {
        let is_here =
            |instance: &InstanceTable| matches!(instance.place, InstancePlace::Here { .. });
        self.hops.iter().any(|hop| hop.rewrites.is_some() && hop.instances.iter().any(is_here))
    }

    /// Does a function on it that is asked in place give packets other ends? What it leaves, nobody waits for.
    pub(crate) fn is_translated_inside(&self) -> bool {
        let rewrites = |hop: &HopTable| {
            hop.rewrites.as_ref().is_some_and(|rewrites| rewrites.leaves == TuplePattern::default())
        };
        self.hops.iter().any(rewrites)
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
#[derive(Clone, Debug)]
pub(crate) struct LocalInstance {
    pub(crate) hop: u16,
    /// Its place among the functions of that hop.
    pub(crate) member: u8,
    pub(crate) id: InstanceId,
    pub(crate) name: String,
    pub(crate) ingress: Option<PortIndex>,
    pub(crate) egress: Option<PortIndex>,
    /// The function that is asked behind it, at the same hop: that of the local instance that comes next. None: the
    /// packet is behind the hop.
    pub(crate) next: Option<u32>,
    /// It gets copies, and gives nothing back.
    pub(crate) is_tap: bool,
    /// Index into the watched instances; none: it is not probed.
    pub(crate) watch: Option<u32>,
}

/// An instance that is probed.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub(crate) struct InstanceTable {
    /// Its identity mixed to 64 bits, for the choice.
    pub(crate) seed: u64,
    pub(crate) weight: u32,
    pub(crate) place: InstancePlace,
    /// The function that it is, where it runs inside, or the first one of several; none: it is reached by its ports.
    pub(crate) inside: Option<Inside>,
    /// Index into the watched instances of this node.
    pub(crate) watch: Option<u32>,
}

/// A function inside the data plane, as a path meets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inside {
    /// The number of its bundle.
    pub(crate) function: u32,
    /// The path leads through it against the order of its ports.
    pub(crate) is_backward: bool,
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
    /// On this node, unaware of chains or a reader of source routes, and its port is that of an earlier hop of this
    /// path: what came back could belong to either visit. Nothing comes back from taps, so two of them may
    /// share a port; a tap and a hop that packets pass through may not.
    Ambiguous,
    /// On another node.
    There(NodeIndex),
    /// On a node that the program does not name.
    Nowhere,
}
