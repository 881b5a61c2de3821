//! What paths want of the ports that they go through, counted, so that a path that comes or goes costs
//! what it says itself. Knows shares of paths; refuses to know how a path is made.

use super::Following;
use super::names::{Name, Referrer};
use crate::engine::collections::sharing::Counted;
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::tables::{PortTable, Tables};
use catena_model::PathId;
use catena_model::id::{ChainId, PortId};
use catena_model::program::RewriteEntry;
use catena_model::resource::Encapsulation;
use imbl::OrdSet;
use std::collections::BTreeSet;
use std::net::IpAddr;

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
#[derive(Clone, Default)]
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
    joined: u32,
    /// Of the paths that do, those that users pass who may be on other paths later, or were before.
    taken: u32,
    /// Functions that change MACs.
    changes_mac: u32,
}

/// A path as its shares are counted.
#[derive(Clone, Copy)]
pub(super) struct Sharer {
    pub(super) chain: ChainId,
    pub(super) id: PathId,
    pub(super) is_joined: bool,
    pub(super) is_taken: bool,
}

impl PortUses {
    fn of_chain(&self, chain: ChainId) -> usize {
        self.bare.range((chain, PathId(0))..=(chain, PathId(u32::MAX))).count()
    }

    fn add(&mut self, path: Sharer, share: &PortShare) {
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
            self.taken += u32::from(path.is_taken);
        }
    }

    fn remove(&mut self, path: Sharer, share: &PortShare) {
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
    /// chain, or paths that lead into one another?
    pub(crate) fn is_shared(&self) -> bool {
        let uses = &self.uses;
        uses.twice > 0 || (uses.joined > 0 && uses.bare.len() > 1)
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
    fn is_as(&self, other: &Self) -> bool {
        let is_same = self.is_shared() == other.is_shared()
            && self.is_shared_by_slices() == other.is_shared_by_slices()
            && self.is_met() == other.is_met()
            && self.keeps_mac() == other.keeps_mac();
        is_same
            && self.uses.speaks == other.uses.speaks
            && self.uses.rewrites.is_empty() == other.uses.rewrites.is_empty()
    }
}

impl Following<'_> {
    /// Adds what a path wants of ports, or takes it away.
    pub(super) fn count_shares(&mut self, path: Sharer, shares: &[PortShare], is_new: bool) {
        for share in shares {
            // A port that has just come was told nothing by paths as they were.
            if !is_new && self.former.names.port(share.port).is_none() {
                continue;
            }
            self.with_uses(share.port, |uses| match is_new {
                true => uses.add(path, share),
                false => uses.remove(path, share),
            });
        }
    }

    fn with_uses(&mut self, port: PortId, change: impl FnOnce(&mut PortUses)) {
        if let Some(index) = self.next.names.port(port) {
            change(&mut self.next.ports.write(index.0.into()).uses);
            self.changed.ports.insert(index);
            self.turned.used.insert(port);
        }
    }

    /// Paths that lead into others now, or others into them, or not any more.
    pub(super) fn join(&mut self) {
        for path in std::mem::take(&mut self.turned.joined) {
            let (was, is) = (self.former.rules.joins(path), self.next.rules.joins(path));
            if was == is {
                continue;
            }
            for port in self.next.recount(path, |uses| match is {
                true => uses.joined += 1,
                false => uses.joined -= 1,
            }) {
                self.changed.ports.extend(self.next.names.port(port));
                self.turned.used.insert(port);
            }
        }
    }

    /// The addresses that machines behind ports have, and the paths through ports that are others now.
    pub(super) fn make_ports(&mut self) {
        let tables = &self.next;
        let mut addressed: BTreeSet<PortIndex> = BTreeSet::new();
        let turned = self.turned.ports.iter().chain(&self.turned.used);
        addressed.extend(turned.filter_map(|port| tables.names.port(*port)));
        for id in &self.turned.lines {
            if let Some(index) = tables.names.network(*id) {
                addressed.extend(&tables.network(index).ports);
            }
        }
        let siblings: Vec<PortIndex> =
            addressed.iter().flat_map(|port| tables.port(*port).siblings()).collect();
        addressed.extend(siblings);
        for port in addressed {
            let own = own_addresses(&self.next, port);
            if self.next.port(port).own_addresses != own {
                self.next.ports.write(port.0.into()).own_addresses = own;
                self.changed.ports.insert(port);
            }
        }
        self.make_watched_addresses();
        for id in std::mem::take(&mut self.turned.used) {
            let now = self.next.names.port(id).map(|port| self.next.port(port));
            let former = self.former.names.port(id).map(|port| self.former.port(port));
            if now.zip(former).is_some_and(|(now, former)| now.is_as(former)) {
                continue;
            }
            self.turn_paths_through(id);
        }
    }
}

impl Tables {
    /// A path has become one that this counts, or is one no more. Answers the ports that it comes out of
    /// bare.
    fn recount(&mut self, path: PathId, change: impl Fn(&mut PortUses)) -> Vec<PortId> {
        let Some(index) = self.positions.index_of(path) else { return Vec::new() };
        let shares = self.paths.get(index).shares.iter();
        let first = shares.filter(|share| share.bare.as_ref().is_some_and(|bare| bare.is_first));
        let ports: Vec<PortId> = first.map(|share| share.port).collect();
        for port in ports.iter().filter_map(|port| self.names.port(*port)) {
            change(&mut self.ports.write(port.0.into()).uses);
        }
        ports
    }

    /// Looks again whether users of slices pass these paths.
    pub(crate) fn retake(&mut self, paths: impl Iterator<Item = PathId>) {
        for path in paths {
            let is_taken = self.takes_users_by(path);
            if is_taken == self.takers.contains(&path) {
                continue;
            }
            let ports = if is_taken {
                self.takers.insert(path);
                self.recount(path, |uses| uses.taken += 1)
            } else {
                self.takers.remove(&path);
                self.recount(path, |uses| uses.taken -= 1)
            };
            // Plans know by which ports users of several paths come back.
            for user in ports.into_iter().flat_map(|port| self.names.referrers(Name::Port(port))) {
                if let Referrer::Path(path) = user {
                    self.descent.changed.paths.extend(self.positions.index_of(path));
                }
            }
        }
    }
}

/// The addresses of the ports of a port's instances.
fn own_addresses(tables: &Tables, port: PortIndex) -> Vec<IpAddr> {
    let mut own = Vec::new();
    for sibling in tables.port(port).siblings() {
        let sibling = tables.port(sibling);
        own.extend(tables.network(sibling.network).lines.addresses(sibling.entry.mac));
    }
    own
}
