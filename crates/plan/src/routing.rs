//! Whether packets have a way to the functions of a chain, where it goes by source routes; if not, why. Knows ways and
//! port numbers; refuses to know when a path turns.

use crate::borders::{self, Carried, cut, first_header};
use crate::graph::Graphs;
use crate::intent::Intent;
use crate::inventory::{Inventory, NodeFacts};
use crate::ledger::{Ledger, PathRecord};
use crate::locators;
use crate::port_numbers::NumberBooks;
use crate::render::{Rendering, render};
use crate::sends::{Sending, Starts, sends};
use crate::status::node_reason;
use crate::via;
use crate::ways::{self, Roads, WayBooks};
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::limits::NODE_ROUTE_IDENTITIES;
use catena_model::program::{HopEntry, NodeIdentity};
use catena_model::resource::{Chain, Encapsulation};
use catena_model::status::PathRoute;
use catena_model::topology::{CableEnd, PortNumber};
use std::collections::{BTreeMap, BTreeSet};

/// The pass behind the first function of a header.
pub(crate) const LATER: usize = 1;

/// The port numbers by which a frame comes from a node out of a port of another, or of its own.
pub(crate) fn ports(
    (books, numbers): (&WayBooks, &NumberBooks),
    from: &NodeName,
    (to, port): (&NodeName, PortId),
) -> Option<Vec<PortNumber>> {
    let last = numbers.get(to)?.of_port(port)?;
    if from == to {
        return Some(vec![last]);
    }
    Some(ways::numbers(books, from, to)?.chain([last]).collect())
}

/// What the nodes behind the first of a way divide numbers of ways by in a pass, in their order.
///
/// # Errors
/// Why there is no number of this way.
pub(crate) fn identities(
    (books, numbers): (&WayBooks, &NumberBooks),
    from: &NodeName,
    to: &NodeName,
    pass: usize,
) -> Result<Vec<NodeIdentity>, String> {
    let legs = books.get(from).and_then(|ways| ways.get(to)).map(Vec::as_slice).unwrap_or_default();
    let nodes = legs.iter().skip(1).map(|leg| &leg.node).chain([to]);
    let mut met = BTreeSet::new();
    let identity = |node: &NodeName| {
        let book = numbers.get(node);
        let own = book.and_then(|book| book.identities().get(pass).copied()).ok_or_else(|| {
            let all = NodeIdentity::all().len() / NODE_ROUTE_IDENTITIES;
            format!(
                "node '{node}' on the way from node '{from}' to node '{to}' has no identity: there are some for {all} \
                 nodes with links, and those of nodes that have gone rest for a time"
            )
        })?;
        if !met.insert(own) {
            return Err(format!(
                "the way from node '{from}' to node '{to}' comes by node '{node}' twice, and a number has one port of each"
            ));
        }
        Ok(own)
    };
    nodes.map(identity).collect()
}

/// What the nodes of a way that leads on from a function divide by, the function's node first; none: one of them has
/// nothing. A header goes along it in its second pass.
pub(crate) fn onward_identities(
    books: (&WayBooks, &NumberBooks),
    from: &NodeName,
    to: &NodeName,
) -> Option<Vec<NodeIdentity>> {
    let behind = identities(books, from, to, LATER).ok()?;
    let first = books.1.get(from)?.identities().get(LATER)?;
    Some(Some(*first).filter(|_| from != to).into_iter().chain(behind).collect())
}

/// Has every packet of a path a way to wherever it goes, fits each its header, and can each node on it read that?
pub(crate) fn is_routed(ledger: &Ledger, inventory: &Inventory, path: &PathRecord) -> bool {
    let books = (&ledger.ways, &ledger.port_numbers);
    let encapsulation = path.encapsulation;
    path.sends().iter().all(|(port, send)| {
        let mut origins = send.origins(inventory.nodes.keys()).into_iter();
        origins.all(|from| {
            let ways = (&ledger.ways, from, &send.to);
            let is_named = || identities(books, from, &send.to, 0).is_ok();
            let way = Carried { from, to: &send.to, port: *port, by: encapsulation };
            first_header(ledger, way).is_some()
                && (!encapsulation.needs_identities() || is_named())
                && illiterate(ways, inventory, encapsulation).is_none()
                && undivided(ways, ledger, inventory, encapsulation).is_none()
        })
    })
}

/// Which node on the ways of a path does not know yet what it must: what numbers of ways are divided by there, or which
/// header to write; and why. None: all do.
pub(crate) fn why_unready(
    ledger: &Ledger,
    inventory: &Inventory,
    path: &PathRecord,
) -> Option<String> {
    if let Some(why) = why_unwritten(ledger, inventory, path) {
        return Some(why);
    }
    let sends = path.sends();
    let mut ways = sends.iter().flat_map(|(_, send)| {
        let origins = send.origins(inventory.nodes.keys()).into_iter();
        origins.map(move |from| (&ledger.ways, from, &send.to))
    });
    let node = ways.find_map(|way| undivided(way, ledger, inventory, path.encapsulation))?;
    Some(format!(
        "{}: it lies on a way of the chain, and does not know yet what it divides numbers of ways by",
        node_reason(inventory, node)
    ))
}

/// Which edge on the ways of a path does not know yet which header to write, so that packets have none, and why; none:
/// they have.
pub(crate) fn why_unwritten(
    ledger: &Ledger,
    inventory: &Inventory,
    path: &PathRecord,
) -> Option<String> {
    let by = path.encapsulation;
    path.sends().iter().find_map(|(port, send)| {
        let origins = send.origins(inventory.nodes.keys()).into_iter();
        let mut ways = origins.map(|from| Carried { from, to: &send.to, port: *port, by });
        ways.find_map(|way| match first_header(ledger, way) {
            Some(_) => None,
            None => borders::why_unwritten(ledger, inventory, way),
        })
    })
}

/// A way, by its two ends.
type Way<'w> = (&'w WayBooks, &'w NodeName, &'w NodeName);

/// The nodes behind the first of a way.
fn nodes_behind<'w>((books, from, to): Way<'w>) -> impl Iterator<Item = &'w NodeName> {
    let legs = books.get(from).and_then(|ways| ways.get(to)).into_iter().flatten();
    legs.skip(1).map(|leg| &leg.node).chain([to])
}

/// A node on a way whose software is older than what carries the chain, as it said last.
fn illiterate<'w>(
    way: Way<'w>,
    inventory: &Inventory,
    encapsulation: Encapsulation,
) -> Option<&'w NodeName> {
    let since = encapsulation.capabilities().since_protocol;
    let speaks = |node: &NodeName| inventory.facts(node).is_some_and(|one| one.protocol >= since);
    nodes_behind(way).find(|node| since > 0 && !speaks(node))
}

/// A node on a way that does not run the program by which it knows what to divide by.
fn undivided<'w>(
    way: Way<'w>,
    ledger: &Ledger,
    inventory: &Inventory,
    encapsulation: Encapsulation,
) -> Option<&'w NodeName> {
    let divides = |node: &NodeName| {
        let book = ledger.port_numbers.get(node);
        book.is_some_and(|book| inventory.has_acknowledged(node, book.identities_since()))
    };
    nodes_behind(way).find(|node| encapsulation.needs_identities() && !divides(node))
}

/// Renders a chain as [`render`] does, if its packets have ways where they need them.
///
/// # Errors
/// The reason why the chain stays `building`.
pub(crate) fn render_routed(
    (intent, inventory, graphs): (&Intent, &Inventory, &Graphs<'_>),
    (ledger, roads): (&Ledger, &Roads<'_>),
    chain: &Chain,
) -> Result<Vec<Rendering>, String> {
    let ways = render(intent, inventory, graphs, chain)?;
    if chain.encapsulation.is_segmented() {
        for way in &ways {
            let starts = Starts::of_rules(&way.rules);
            let sends = sends(&way.hops, &starts);
            locators::check(inventory, chain.encapsulation, &sends)?;
            via::check_way(inventory, &way.hops, &starts)?;
            if way.telemetry.is_some() {
                locators::check_records((inventory, &ledger.devices), way, &sends)?;
            }
            locators::check_lengths((intent, inventory), way, &sends)?;
        }
    }
    if chain.encapsulation.is_source_route() {
        let encapsulation = chain.encapsulation;
        let routing = Routing { ledger, roads, inventory, encapsulation };
        for way in &ways {
            routing.check(&way.hops, &sends(&way.hops, &Starts::of_rules(&way.rules)))?;
        }
        // Slices, and the ends of other chains, are no rules of its own.
        for (_, path) in ledger.current(chain.id) {
            routing.check(&path.hops, &path.sends())?;
        }
    }
    Ok(ways)
}

/// The ways of a path's packets over source routes, by the node where each begins.
#[must_use]
pub fn path_routes(ledger: &Ledger, inventory: &Inventory, path: &PathRecord) -> Vec<PathRoute> {
    let mut routes = Vec::new();
    for (port, send) in path.sends() {
        let mut hops = path.hops.iter().zip(0..);
        let found = hops.find_map(|(hop, place)| {
            let mut instances = hop.instances.iter();
            Some((place, hop, instances.find(|one| one.ingress == port)?))
        });
        let Some((place, hop, instance)) = found else { continue };
        for from in send.origins(inventory.nodes.keys()) {
            let legs = ledger.ways.get(from).and_then(|ways| ways.get(&send.to));
            let number = ledger.port_numbers.get(&send.to).and_then(|book| book.of_port(port));
            let last = number.map(|port| CableEnd { node: send.to.clone(), port });
            let ports = legs.zip(last).map(|(legs, last)| legs.iter().cloned().chain([last]));
            let route = PathRoute {
                from: from.clone(),
                function: hop.name.clone(),
                instance: instance.name.clone(),
                ports: ports.map(Iterator::collect).unwrap_or_default(),
            };
            routes.push((place, route));
        }
    }
    routes.sort_by(|(place, one), (other_place, other)| {
        (place, &one.from, &one.instance).cmp(&(other_place, &other.from, &other.instance))
    });
    routes.into_iter().map(|(_, route)| route).collect()
}

struct Routing<'r> {
    ledger: &'r Ledger,
    roads: &'r Roads<'r>,
    inventory: &'r Inventory,
    /// How the chain is carried.
    encapsulation: Encapsulation,
}

impl Routing<'_> {
    fn check(&self, hops: &[HopEntry], sends: &BTreeSet<(PortId, Sending)>) -> Result<(), String> {
        self.check_readers(hops)?;
        let mut new: BTreeMap<&NodeName, BTreeSet<PortId>> = BTreeMap::new();
        for (port, send) in sends {
            let numbers = self.ledger.port_numbers.get(&send.to);
            if numbers.is_none_or(|book| !book.has_had(*port)) {
                new.entry(&send.to).or_default().insert(*port);
            }
            let has_room = numbers.is_none_or(|book| {
                new.get(&send.to).is_none_or(|ports| ports.len() <= book.room())
            });
            let full = numbers.filter(|_| !has_room).map(|book| {
                format!("its port has no number: {}; use another node", book.why_full())
            });
            full.map_or_else(|| self.check_send(*port, send), Err).map_err(|why| {
                let mut hops = hops.iter();
                let hop = hops.find(|hop| hop.instances.iter().any(|one| one.ingress == *port));
                let function = hop.map(|hop| hop.name.as_str()).unwrap_or_default();
                format!(
                    "function '{function}' is out of reach by source routes: {why}, or give the chain another \
                     encapsulation"
                )
            })?;
        }
        Ok(())
    }

    /// Does each function that reads its header get it?
    fn check_readers(&self, hops: &[HopEntry]) -> Result<(), String> {
        let gives = |node: &NodeName| {
            let facts = self.inventory.facts(node);
            facts.is_some_and(NodeFacts::gives_headers)
        };
        let all = hops.iter().flat_map(|hop| hop.instances.iter().map(move |one| (hop, one)));
        let mut readers = all.filter(|(_, one)| one.speaks.is_some());
        let Some((hop, one)) = readers.find(|(_, one)| !gives(&one.node)) else { return Ok(()) };
        Err(format!(
            "instance '{}' of function '{}' reads the header, and node '{}' runs a version that may give it none, by \
             what it said last; bring it up to date and start its agent",
            one.name, hop.name, one.node
        ))
    }

    fn check_send(&self, port: PortId, send: &Sending) -> Result<(), String> {
        let books = (&self.ledger.ways, &self.ledger.port_numbers);
        for from in send.origins(self.inventory.nodes.keys()) {
            let known = self.ledger.ways.get(from).and_then(|ways| ways.get(&send.to));
            let found;
            let legs = match known {
                Some(legs) => legs,
                None => {
                    found = self.roads.way(from, &send.to).map_err(|error| {
                        format!(
                            "{error}; 'catena link list' shows what was found: plug them together"
                        )
                    })?;
                    &found
                }
            };
            let way = Carried { from, to: &send.to, port, by: self.encapsulation };
            let parts = cut(legs, way, self.inventory)?;
            // The last header is that which the number of the function ends.
            let ports = ports(books, from, (&send.to, port));
            let last =
                ports.as_ref().zip(parts.last()).and_then(|(ports, part)| ports.get(part.clone()));
            if let Some(fault) = last.and_then(|ports| self.encapsulation.fault_of_route(ports)) {
                return Err(format!("from node '{from}' to node '{}' leads {fault}", send.to));
            }
            if self.encapsulation.needs_identities() && known.is_some() {
                identities(books, from, &send.to, 0)?;
            }
            let way = (&self.ledger.ways, from, &send.to);
            if let Some(node) = illiterate(way, self.inventory, self.encapsulation) {
                return Err(format!(
                    "node '{node}' on the way from node '{from}' to node '{}' runs a version that may not know {}, by \
                     what it said last; bring it up to date and start its agent",
                    send.to,
                    self.encapsulation.name()
                ));
            }
        }
        Ok(())
    }
}
