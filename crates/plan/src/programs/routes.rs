//! Port numbers and routes in programs: which entries differ where numbers, ways or whoever sends differ.

use super::update::{Update, set};
use crate::intent::differences;
use crate::port_numbers::PortNumbers;
use crate::routing;
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::program::{ExitEntry, ExitPlace, RouteEntry};
use catena_model::topology::PortNumber;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Update<'_> {
    /// The exits of links, and those that go; a port's exit is made with its entry.
    pub(super) fn take_port_numbers(&mut self) {
        let (from, to) = (self.from.port_numbers, self.to.port_numbers);
        for node in from.keys().chain(to.keys()).collect::<BTreeSet<_>>() {
            let (former, now) = (from.get(node), to.get(node));
            if let (Some(former), Some(now)) = (former, now)
                && Arc::ptr_eq(former, now)
            {
                continue;
            }
            let places = |book: Option<&'_ Arc<PortNumbers>>| {
                book.map(|book| book.places().collect::<BTreeSet<_>>()).unwrap_or_default()
            };
            let (former, now) = (places(former), places(now));
            let changed = former.symmetric_difference(&now);
            let ports = |(_, of): &(PortNumber, ExitPlace)| match of {
                ExitPlace::Port(port) => Some(*port),
                ExitPlace::Link(_) => None,
            };
            self.ports.extend(changed.clone().filter_map(ports));
            let Some(entries) = self.programs.entries_of_any_mut(node) else { continue };
            // A number may have come to something else: what goes, goes first.
            for (number, _) in former.difference(&now) {
                entries.exits.remove(number);
            }
            for (number, to) in changed.filter(|place| now.contains(*place)) {
                if let ExitPlace::Link(_) = to {
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
        let mut touched: BTreeSet<(NodeName, PortId)> = BTreeSet::new();
        let mut ports = former.changed_ports(now);
        for (port, old, new) in differences(&from.intent.ports, &to.intent.ports) {
            if old.map(|port| &port.node) != new.map(|port| &port.node) {
                ports.insert(*port);
            }
        }
        for port in ports {
            for send in former.of(port).chain(now.of(port)) {
                let origins = send.origins(to.nodes.keys());
                touched.extend(origins.into_iter().map(|node| (node.clone(), port)));
            }
        }
        for node in from.ways.keys().chain(to.ways.keys()).collect::<BTreeSet<_>>() {
            let (before, after) = (from.ways.get(node), to.ways.get(node));
            if let (Some(before), Some(after)) = (before, after)
                && Arc::ptr_eq(before, after)
            {
                continue;
            }
            touched.extend(now.ports_from(node).map(|port| (node.clone(), port)));
        }
        touched.into_iter().for_each(|(node, port)| self.make_route(&node, port));
    }

    /// The way from a node to a port that it sends to: where the port is declared to be, if paths still lead to where it
    /// was.
    fn make_route(&mut self, node: &NodeName, port: PortId) {
        let to = self.to;
        let declared = to.intent.ports.get(&port).and_then(|port| port.node.as_ref());
        let sends = || to.paths.sends().of_from(port, node).map(|send| &send.to);
        let end = sends().find(|end| Some(*end) == declared).or_else(|| sends().next());
        let ports =
            end.and_then(|end| routing::ports((to.ways, to.port_numbers), node, (end, port)));
        if let Some(entries) = self.programs.entries_mut(node) {
            set(&mut entries.routes, port, ports.map(|ports| RouteEntry { to: port, ports }));
        }
    }
}
