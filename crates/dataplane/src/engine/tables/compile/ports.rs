//! What paths want of the ports that they go through, counted, so that a path that comes or goes costs
//! what it says itself. Knows shares of paths; refuses to know how a path is made.

use super::Following;
use crate::engine::packet::index::PortIndex;
use crate::engine::tables::Tables;
use crate::engine::tables::names::{Name, Referrer};
use crate::engine::tables::port::{PortShare, PortUses, Sharer};
use catena_model::PathId;
use catena_model::id::PortId;
use std::collections::BTreeSet;
use std::net::IpAddr;

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
            // Actions know by which ports users of several paths come back.
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
