//! Port numbers and routes in programs: which entries differ where numbers, ways or whoever sends differ.

use super::update::{Update, set};
use crate::borders::{StitchBooks, WayBorder};
use crate::inventory::NodeFacts;
use crate::onward::Onward;
use crate::port_numbers::{NumberBooks, PortNumbers, changed};
use crate::routing;
use crate::sends::Sending;
use crate::way_detours;
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::limits::{NODE_ONWARD_MAX, NODE_ROUTE_IDENTITIES, ROUTE_PORTS_MAX};
use catena_model::program::{ExitEntry, ExitPlace, IdentityEntry, OnwardEntry, RouteEntry};
use catena_model::resource::Encapsulation;
use catena_model::topology::{CableEnd, PortNumber};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Update<'_> {
    /// The exits of links, and those that go; a port's exit is made with its entry.
    pub(super) fn take_port_numbers(&mut self) {
        let (from, to) = (self.from.port_numbers, self.to.port_numbers);
        for node in changed(from, to) {
            let (former, now) = (from.get(node), to.get(node));
            let places = |book: Option<&'_ Arc<PortNumbers>>| {
                book.map(|book| book.exits().collect::<BTreeSet<_>>()).unwrap_or_default()
            };
            let (former, now) = (places(former), places(now));
            let changed = former.symmetric_difference(&now);
            let ports = |(_, of): &(PortNumber, ExitPlace)| match of {
                ExitPlace::Port(port) => Some(*port),
                ExitPlace::Link(_) | ExitPlace::Pathlet(_) => None,
            };
            let numbered: Vec<PortId> = changed.clone().filter_map(ports).collect();
            self.ports.extend(&numbered);
            self.numbered.extend(numbered);
            let identities = to.get(node).map(|book| book.identities()).unwrap_or_default();
            let Some(entries) = self.programs.entries_of_any_mut(node) else { continue };
            for pass in 0..NODE_ROUTE_IDENTITIES as u8 {
                let identity = identities.get(usize::from(pass)).copied();
                let entry = identity.map(|identity| IdentityEntry { pass, identity });
                set(&mut entries.identities, pass, entry);
            }
            // A number may have come to something else: what goes, goes first.
            for (number, _) in former.difference(&now) {
                entries.exits.remove(number);
            }
            for (number, to) in changed.filter(|place| now.contains(*place)) {
                if !matches!(to, ExitPlace::Port(_)) {
                    let entry = ExitEntry { number: *number, to: to.clone() };
                    set(&mut entries.exits, *number, Some(entry));
                }
            }
        }
    }

    /// The exit of a port at a node that has, or has no more, an entry of it.
    pub(super) fn make_exit(&mut self, node: &NodeName, port: PortId) {
        let number = self.to.port_numbers.get(node).and_then(|book| book.of_port(port));
        let Some((number, entries)) = number.zip(self.programs.entries_mut(node)) else { return };
        let to = ExitPlace::Port(port);
        let entry = entries.ports.contains_key(&port).then_some(ExitEntry { number, to });
        set(&mut entries.exits, number, entry);
    }

    pub(super) fn take_routes(&mut self) {
        let (from, to) = (self.from, self.to);
        let (former, now) = (from.paths.sends(), to.paths.sends());
        let mut touched: BTreeSet<(NodeName, PortId, NodeName)> = BTreeSet::new();
        let mut touch = |port: PortId, send: &Sending| {
            let origins = send.origins(to.nodes.keys()).into_iter();
            touched.extend(origins.map(|node| (node.clone(), port, send.to.clone())));
        };
        let mut ports = former.changed_ports(now);
        ports.extend(self.numbered.iter());
        for port in ports {
            former.of(port).chain(now.of(port)).for_each(|send| touch(port, send));
        }
        for node in self.turned() {
            let turned = now.from(node, true).filter(|(end, _)| !self.is_same_way(node, end));
            touched.extend(turned.map(|(end, port)| (node.clone(), port, end.clone())));
        }
        touched.extend(self.over_renamed());
        touched.extend(self.cut_otherwise());
        for (node, port, end) in touched {
            self.make_route(&node, (end, port));
        }
    }

    /// The ways of nodes whose headers end elsewhere.
    fn cut_otherwise(&self) -> Vec<(NodeName, PortId, NodeName)> {
        let (from, to) = (self.from.borders, self.to.borders);
        let changed = changed(from, to).into_iter();
        let books = changed.flat_map(|node| {
            [from, to].into_iter().filter_map(move |books| Some((node, books.get(node)?)))
        });
        let ways =
            books.flat_map(|(node, own)| own.iter().map(move |(end, ports)| (node, end, ports)));
        ways.flat_map(|(node, end, ports)| {
            ports.keys().map(move |port| (node.clone(), *port, end.clone()))
        })
        .collect()
    }

    /// The nodes of which a way, a detour of one, or what one takes is another.
    fn turned(&self) -> BTreeSet<&NodeName> {
        let turned_round = changed(self.from.detours, self.to.detours);
        let with_others = changed(self.from.mtus, self.to.mtus);
        let turned = changed(self.from.ways, self.to.ways).into_iter();
        turned.chain(turned_round).chain(with_others).collect()
    }

    fn is_same_way(&self, node: &NodeName, end: &NodeName) -> bool {
        let (from, to) = (self.from, self.to);
        found(from.ways, node, end) == found(to.ways, node, end)
            && found(from.detours, node, end) == found(to.detours, node, end)
            && found(from.mtus, node, end) == found(to.mtus, node, end)
    }

    /// The ways that headers hold behind others, where they, numbers or whoever writes the headers differ.
    pub(super) fn take_onward(&mut self) {
        let (former, now) = (self.from.paths.sends().onward(), self.to.paths.sends().onward());
        let mut ports = former.changed_ports(now);
        ports.extend(self.numbered.iter());
        let of_ports = ports.into_iter().flat_map(|port| former.to(port).chain(now.to(port)));
        let mut touched: BTreeSet<&Onward> = of_ports.collect();
        for node in self.turned() {
            touched.extend(now.from(node).filter(|way| !self.is_same_way(node, &way.to)));
        }
        let (before, after) = (self.from.nodes, self.to.nodes);
        let turned =
            after.keys().filter(|node| knows_rests(before, node) != knows_rests(after, node));
        touched.extend(turned.flat_map(|node| now.from(node)));
        let renamed = self.renamed();
        if !renamed.is_empty() {
            let is_over = |way: &&Onward| {
                let legs = found(self.to.ways, &way.from, &way.to).into_iter().flatten();
                let mut nodes = legs.map(|leg| &leg.node).chain([&way.from, &way.to]);
                nodes.any(|node| renamed.contains(node))
            };
            touched.extend(after.keys().flat_map(|node| now.from(node)).filter(is_over));
        }
        let touched: Vec<Onward> = touched.into_iter().cloned().collect();
        touched.iter().for_each(|way| self.make_onward(way));
    }

    /// Where headers of nodes end between functions, where that is another place.
    pub(super) fn take_stitches(&mut self) {
        let (from, to) = (self.from.stitches, self.to.stitches);
        for node in changed(from, to) {
            let Some(entries) = self.programs.entries_mut(node) else { continue };
            let own = |books: &'_ StitchBooks| {
                let own = books.get(node).into_iter().flat_map(|own| own.iter());
                own.map(|stitch| (stitch.entry.key(), stitch.entry.clone()))
                    .collect::<BTreeMap<_, _>>()
            };
            let (former, mut now) = (own(from), own(to));
            for key in former.into_keys().filter(|key| !now.contains_key(key)) {
                entries.stitches.remove(&key);
            }
            while let Some((key, entry)) = now.pop_first() {
                set(&mut entries.stitches, key, Some(entry));
            }
        }
    }

    /// A way between two others, if headers hold it. A node that knows as many as it has room for gets no more: its
    /// headers end where it knows no further.
    fn make_onward(&mut self, way: &Onward) {
        let to = self.to;
        let Onward { holder, from, to: end, port } = way;
        let is_held = to.paths.sends().onward().has(way);
        let ports = routing::ports((to.ways, to.port_numbers), from, (end, *port));
        let [keeps_rests, begins_passes] = knows_rests(to.nodes, from);
        let ports = ports.filter(|_| is_held && keeps_rests);
        let books = (to.ways, to.port_numbers);
        let identities =
            || begins_passes.then(|| routing::onward_identities(books, from, end)).flatten();
        if let Some(entries) = self.programs.entries_mut(holder) {
            let key = (from.clone(), end.clone(), *port);
            if entries.onward.len() >= NODE_ONWARD_MAX && !entries.onward.contains_key(&key) {
                return;
            }
            let entry = ports.map(|ports| OnwardEntry {
                from: from.clone(),
                node: end.clone(),
                to: *port,
                ports,
                detours: way_detours::entries(to.detours, from, end),
                identities: identities().unwrap_or_default(),
            });
            set(&mut entries.onward, key, entry);
        }
    }

    /// The nodes that divide by something else now.
    fn renamed(&self) -> BTreeSet<&NodeName> {
        let (from, to) = (self.from.port_numbers, self.to.port_numbers);
        let own = |books: &'_ NumberBooks, node| {
            books.get(node).map(|book| book.identities().to_vec()).unwrap_or_default()
        };
        let renamed = changed(from, to).into_iter().filter(|node| own(from, node) != own(to, node));
        renamed.collect()
    }

    /// The ways over nodes, or to them, that divide by something else now.
    fn over_renamed(&self) -> Vec<(NodeName, PortId, NodeName)> {
        let renamed = self.renamed();
        if renamed.is_empty() {
            return Vec::new();
        }
        let now = self.to.paths.sends();
        let ways = self.to.ways.iter().flat_map(|(node, ways)| {
            now.from(node, true).map(move |(end, port)| (node, ways.get(end), end, port))
        });
        let is_renamed =
            |(_, legs, end, _): &(&NodeName, Option<&Vec<CableEnd>>, &NodeName, PortId)| {
                let mut legs = legs.iter().flat_map(|legs| legs.iter().skip(1));
                renamed.contains(end) || legs.any(|leg| renamed.contains(&leg.node))
            };
        let found = ways.filter(is_renamed);
        found.map(|(node, _, end, port)| (node.clone(), port, end.clone())).collect()
    }

    /// The way from a node to a port of another, if it sends there.
    fn make_route(&mut self, node: &NodeName, (end, port): (NodeName, PortId)) {
        let to = self.to;
        let sends = to.paths.sends().of(port);
        let is_sent = sends.filter(|send| send.to == end).any(|send| send.is_from(node));
        let ports = routing::ports((to.ways, to.port_numbers), node, (&end, port));
        let ports = ports.filter(|_| is_sent);
        let borders = to.borders.get(node).and_then(|own| own.get(&end)?.get(&port));
        let borders = borders.filter(|_| ports.is_some());
        let ports = ports.and_then(|ports| told(ports, borders));
        if let Some(entries) = self.programs.entries_mut(node) {
            for by in Encapsulation::ALL {
                let border = borders.and_then(|borders| borders.get(&by));
                let entry = border.map(|border| border.entry((end.clone(), port), by));
                set(&mut entries.borders, (end.clone(), port, by), entry);
            }
            let detours = || way_detours::entries(to.detours, node, &end);
            let mtu = found(to.mtus, node, &end).copied();
            let (books, own) = ((to.ways, to.port_numbers), node);
            let (node, to) = (end.clone(), port);
            let identities = |pass| routing::identities(books, own, &end, pass).unwrap_or_default();
            let entry = ports.map(|ports| RouteEntry {
                node,
                to,
                ports,
                detours: detours(),
                identities: identities(0),
                later_identities: identities(routing::LATER),
                mtu,
            });
            set(&mut entries.routes, (end, port), entry);
        }
    }
}

/// The ports of a route. One that no header has room for is told as far as headers lead; none: none does.
fn told(
    ports: Vec<PortNumber>,
    borders: Option<&BTreeMap<Encapsulation, WayBorder>>,
) -> Option<Vec<PortNumber>> {
    if ports.len() <= ROUTE_PORTS_MAX {
        return Some(ports);
    }
    let farthest = borders?.values().max_by_key(|border| border.at)?;
    let before = ports.into_iter().take(farthest.at.into());
    Some(before.chain([farthest.number]).collect())
}

/// Does the node keep what is left of headers, and does it begin passes of numbers with that?
fn knows_rests(nodes: &BTreeMap<NodeName, NodeFacts>, node: &NodeName) -> [bool; 2] {
    let facts = nodes.get(node);
    facts.map(|facts| [facts.keeps_rests(), facts.begins_passes()]).unwrap_or_default()
}

/// What is kept of the way from a node to another.
fn found<'b, T>(
    books: &'b BTreeMap<NodeName, Arc<BTreeMap<NodeName, T>>>,
    from: &NodeName,
    to: &NodeName,
) -> Option<&'b T> {
    books.get(from)?.get(to)
}
