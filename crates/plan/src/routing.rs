//! Whether packets have a way to the functions of a chain, where it goes by source routes; if not, why. Knows ways and
//! port numbers; refuses to know when a path turns.

use crate::graph::Graphs;
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{Ledger, PathRecord};
use crate::port_numbers::NumberBooks;
use crate::render::{Rendering, render};
use crate::sends::{Send, Starts, sends};
use crate::ways::{self, Roads, WayBooks};
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::limits::ROUTE_PORTS_MAX;
use catena_model::resource::Chain;
use catena_model::topology::PortNumber;

/// The port numbers by which a frame comes from a node out of a port of another.
pub(crate) fn ports(
    (books, numbers): (&WayBooks, &NumberBooks),
    from: &NodeName,
    (to, port): (&NodeName, PortId),
) -> Option<Vec<PortNumber>> {
    let last = numbers.get(to)?.of_port(port)?;
    Some(ways::numbers(books, from, to)?.chain([last]).collect())
}

/// Has every packet of a path a way to wherever it goes?
pub(crate) fn is_routed(ledger: &Ledger, inventory: &Inventory, path: &PathRecord) -> bool {
    let books = (&ledger.ways, &ledger.port_numbers);
    path.sends().iter().all(|(port, send)| {
        let mut origins = send.origins(inventory.nodes.keys()).into_iter();
        origins.all(|from| ports(books, from, (&send.to, *port)).is_some())
    })
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
    if chain.encapsulation.is_source_route() {
        let routing = Routing { ledger, roads, inventory };
        ways.iter().try_for_each(|way| routing.check(way))?;
    }
    Ok(ways)
}

struct Routing<'r> {
    ledger: &'r Ledger,
    roads: &'r Roads<'r>,
    inventory: &'r Inventory,
}

impl Routing<'_> {
    fn check(&self, way: &Rendering) -> Result<(), String> {
        for (port, send) in sends(&way.hops, &Starts::of_rules(&way.rules)) {
            self.check_send(port, &send).map_err(|why| {
                let mut hops = way.hops.iter();
                let hop = hops.find(|hop| hop.instances.iter().any(|one| one.ingress == port));
                let function = hop.map(|hop| hop.name.as_str()).unwrap_or_default();
                let profile = way.encapsulation.name();
                format!(
                    "function '{function}' is out of reach by {profile}: {why}, or give the chain another encapsulation"
                )
            })?;
        }
        Ok(())
    }

    fn check_send(&self, port: PortId, send: &Send) -> Result<(), String> {
        let numbers = self.ledger.port_numbers.get(&send.to);
        if let Some(full) = numbers.filter(|book| !book.has_room_for(port)) {
            return Err(format!("its port has no number: {}; use another node", full.why_full()));
        }
        for from in send.origins(self.inventory.nodes.keys()) {
            let known = ways::numbers(&self.ledger.ways, from, &send.to).map(Iterator::count);
            let cables = match known {
                Some(cables) => cables,
                None => self
                    .roads
                    .way(from, &send.to)
                    .map_err(|error| {
                        format!(
                            "{error}; 'catena link list' shows what was found: plug them together"
                        )
                    })?
                    .len(),
            };
            if cables >= ROUTE_PORTS_MAX {
                return Err(format!(
                    "the way from {from} to {} has {cables} cables, and a header holds {ROUTE_PORTS_MAX} ports; \
                     use a node that is nearer",
                    send.to
                ));
            }
        }
        Ok(())
    }
}
