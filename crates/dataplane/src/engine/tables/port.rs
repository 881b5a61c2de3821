//! Ports of this node, and what paths want of them: counted, so that a path that comes or goes costs what it
//! says itself. Knows shares of paths; refuses to know how a path is made.

use crate::engine::collections::sharing::Counted;
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use catena_model::PathId;
use catena_model::id::{ChainId, NetworkId, PortId};
use catena_model::program::{PortEntry, PortRole, RewriteEntry};
use catena_model::resource::{Attachment, Encapsulation, InterfaceRef};
use catena_wire::scalar::MacAddr;
use imbl::OrdSet;
use std::net::IpAddr;
use std::sync::Arc;
use uuid::Uuid;

/// A port of this node.
#[derive(Clone, Debug)]
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
            attachment: Attachment::Interface(InterfaceRef {
                namespace: None,
                interface: String::new(),
            }),
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

/// What one instance of one hop of a path wants of a port of its.
#[derive(Clone, Debug)]
pub(crate) struct PortShare {
    pub(super) port: PortId,
    /// The encapsulation that it sends from there.
    pub(super) speaks: Option<Encapsulation>,
    /// The network in which its path delivers.
    pub(super) reaches: Option<NetworkIndex>,
    /// Its ports.
    pub(super) siblings: [Option<PortIndex>; 2],
    /// Its path comes out bare there.
    pub(super) bare: Option<BareShare>,
}

#[derive(Clone, Debug)]
pub(super) struct BareShare {
    /// No earlier instance of the path does.
    pub(super) is_first: bool,
    /// As the proxy's memory names it.
    pub(super) network: u32,
    pub(super) changes_mac: bool,
    pub(super) rewrites: Option<RewriteEntry>,
}

/// What all paths want of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortUses {
    /// Instances of hops that it belongs to.
    shares: u32,
    speaks: Counted<Encapsulation>,
    reaches: Counted<NetworkIndex>,
    siblings: Counted<PortIndex>,
    networks: Counted<u32>,
    rewrites: Counted<RewriteEntry>,
    /// The paths that come out of it bare.
    bare: OrdSet<(ChainId, PathId)>,
    /// Chains of which more than one does.
    twice: u32,
    /// Of the paths that do, those that lead into others, or others into them.
    pub(super) joined: u32,
    /// Of the paths that do, those that packets are sent into by what differs within a flow.
    split: u32,
    /// Of the paths that do, those that users pass who may be on other paths later, or were before.
    pub(super) taken: u32,
    /// Functions that change MACs.
    changes_mac: u32,
}

/// A path as its shares are counted.
#[derive(Clone, Copy)]
pub(super) struct Sharer {
    pub(super) chain: ChainId,
    pub(super) id: PathId,
    pub(super) is_joined: bool,
    pub(super) splits_flows: bool,
    pub(super) is_taken: bool,
}

impl PortUses {
    fn of_chain(&self, chain: ChainId) -> usize {
        self.bare.range((chain, PathId(0))..=(chain, PathId(u32::MAX))).count()
    }

    pub(super) fn add(&mut self, path: Sharer, share: &PortShare) {
        self.shares += 1;
        share.speaks.into_iter().for_each(|one| self.speaks.add(one));
        share.reaches.into_iter().for_each(|one| self.reaches.add(one));
        share.siblings.into_iter().flatten().for_each(|one| self.siblings.add(one));
        let Some(bare) = &share.bare else { return };
        self.networks.add(bare.network);
        self.changes_mac += u32::from(bare.changes_mac);
        bare.rewrites.iter().for_each(|one| self.rewrites.add(one.clone()));
        if bare.is_first {
            self.bare.insert((path.chain, path.id));
            self.twice += u32::from(self.of_chain(path.chain) == 2);
            self.joined += u32::from(path.is_joined);
            self.split += u32::from(path.splits_flows);
            self.taken += u32::from(path.is_taken);
        }
    }

    pub(super) fn remove(&mut self, path: Sharer, share: &PortShare) {
        self.shares -= 1;
        share.speaks.iter().for_each(|one| self.speaks.remove(one));
        share.reaches.iter().for_each(|one| self.reaches.remove(one));
        share.siblings.iter().flatten().for_each(|one| self.siblings.remove(one));
        let Some(bare) = &share.bare else { return };
        self.networks.remove(&bare.network);
        self.changes_mac -= u32::from(bare.changes_mac);
        bare.rewrites.iter().for_each(|one| self.rewrites.remove(one));
        if bare.is_first {
            self.bare.remove(&(path.chain, path.id));
            self.twice -= u32::from(self.of_chain(path.chain) == 1);
            self.joined -= u32::from(path.is_joined);
            self.split -= u32::from(path.splits_flows);
            self.taken -= u32::from(path.is_taken);
        }
    }
}

impl PortTable {
    /// Does a path go through it?
    pub(crate) fn is_on_path(&self) -> bool {
        self.uses.shares > 0
    }

    /// The encapsulations of the instances that send from it.
    pub(crate) fn speaks(&self, encapsulation: Encapsulation) -> bool {
        self.uses.speaks.contains(&encapsulation)
    }

    /// Is there a function of the data plane behind it, and no interface?
    pub(crate) fn is_inside(&self) -> bool {
        self.entry.attachment == Attachment::Inside
    }

    /// Does no instance send any encapsulation from it?
    pub(crate) fn speaks_nothing(&self) -> bool {
        self.uses.speaks.is_empty()
    }

    /// The networks in which the paths of its instances deliver: where the proxy may send what it
    /// has attracted by its answers.
    pub(crate) fn reaches(&self) -> impl Iterator<Item = NetworkIndex> {
        self.uses.reaches.iter().copied()
    }

    /// All ports of the instances that it belongs to, itself included: one machine is behind them.
    pub(crate) fn siblings(&self) -> impl Iterator<Item = PortIndex> {
        self.uses.siblings.iter().copied()
    }

    /// How functions that send from it rewrite what they get bare.
    pub(crate) fn rewrites(&self) -> &Counted<RewriteEntry> {
        &self.uses.rewrites
    }

    /// Do two paths come out of it bare that one flow may be on: an old version and a new one of a
    /// chain, paths that lead into one another, or one that rules choose by what differs within a flow?
    pub(crate) fn is_shared(&self) -> bool {
        let uses = &self.uses;
        uses.twice > 0 || (uses.joined + uses.split > 0 && uses.bare.len() > 1)
    }

    /// Do two paths come out of it bare on which slices send their users?
    #[inline]
    pub(crate) fn is_shared_by_slices(&self) -> bool {
        self.uses.taken > 1
    }

    /// The networks of the paths that come out of it bare, as the proxy's memory names them.
    pub(crate) fn networks(&self) -> impl Iterator<Item = u32> {
        self.uses.networks.iter().copied()
    }

    /// Do paths of several networks come out of it bare?
    pub(crate) fn is_met(&self) -> bool {
        self.uses.networks.len() > 1
    }

    /// Do all functions that paths come out of bare keep MACs? Then these say the network.
    pub(crate) fn keeps_mac(&self) -> bool {
        !self.uses.bare.is_empty() && self.uses.changes_mac == 0
    }

    /// Is it for the paths through it what another is?
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let is_same = self.is_shared() == other.is_shared()
            && self.is_shared_by_slices() == other.is_shared_by_slices()
            && self.is_met() == other.is_met()
            && self.keeps_mac() == other.keeps_mac();
        is_same
            && self.uses.speaks == other.uses.speaks
            && self.uses.rewrites.is_empty() == other.uses.rewrites.is_empty()
    }
}
