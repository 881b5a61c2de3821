//! Where headers end that have no room for a whole way: at switches that were marked as edges, each of which writes the
//! next one. Knows ways, numbers and who writes headers; refuses to know which functions a chain has.
//!
//! An edge is told first, the last on a way before the others: until it runs a program with its header, none leads to
//! that, and what led to another one stays.

mod shorter;
mod stitches;

pub(crate) use shorter::shorten;
pub(crate) use stitches::holders as stitch_holders;
pub use stitches::{Stitch, StitchBooks};

use crate::inventory::{Inventory, NodeFacts};
use crate::ledger::Ledger;
use crate::port_numbers::{GivenPathlet, NumberBooks, PortNumbers};
use crate::route::{Border, pathlets};
use crate::routing;
use crate::status::node_reason;
use crate::way_detours;
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::limits::NODE_LINKS_MAX;
use catena_model::program::{BorderEntry, DetourEntry, ExitPlace, NodeIdentity, Pathlet};
use catena_model::resource::Encapsulation;
use catena_model::source_route::EDGES_SINCE_PROTOCOL;
use catena_model::topology::{CableEnd, PortNumber};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Where the first headers of one node end, by where their ways do, by the port there, and by who carries them.
pub type NodeBorders = BTreeMap<NodeName, BTreeMap<PortId, BTreeMap<Encapsulation, WayBorder>>>;

/// Those of every node with a way that is too long for some header.
pub type BorderBooks = BTreeMap<NodeName, Arc<NodeBorders>>;

/// Where the first header on a way ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayBorder {
    /// Ports that are taken before.
    pub at: u8,
    /// The switch that writes the next header.
    pub edge: NodeName,
    /// By which number it knows that.
    pub number: PortNumber,
}

impl WayBorder {
    /// As an entry of a program.
    pub(crate) fn entry(
        &self,
        (node, to): (NodeName, PortId),
        encapsulation: Encapsulation,
    ) -> BorderEntry {
        BorderEntry { node, to, encapsulation, at: self.at, number: self.number }
    }
}

/// A way to a port, by its two ends, and what carries frames along it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried<'c> {
    pub(crate) from: &'c NodeName,
    pub(crate) to: &'c NodeName,
    pub(crate) port: PortId,
    pub(crate) by: Encapsulation,
}

/// One of the headers along a way.
#[derive(Debug)]
pub(crate) struct Part {
    /// Who writes it.
    pub(crate) from: NodeName,
    /// Where it is at its end.
    pub(crate) end: NodeName,
    pub(crate) ports: Vec<PortNumber>,
    /// Ways round cables, of which it may carry some: those that an edge writes carry none.
    pub(crate) detours: Vec<DetourEntry>,
}

/// What an edge does not know yet.
#[derive(Debug)]
struct Unknown {
    edge: NodeName,
    /// No number is left for it there.
    has_no_number: bool,
}

/// The borders of a way.
pub(crate) fn of<'b>(books: &'b BorderBooks, way: Carried<'_>) -> Option<&'b WayBorder> {
    books.get(way.from)?.get(way.to)?.get(&way.port)?.get(&way.by)
}

/// What the headers on a way are made of.
#[derive(PartialEq)]
pub(crate) struct Made<'l> {
    ports: Option<Vec<PortNumber>>,
    /// By pass.
    identities: [Option<Vec<NodeIdentity>>; 2],
    border: Option<&'l WayBorder>,
    stitches: Vec<&'l Stitch>,
}

impl<'l> Made<'l> {
    pub(crate) fn of(ledger: &'l Ledger, way: Carried<'_>) -> Self {
        let Carried { from, to, port, .. } = way;
        let books = (&ledger.ways, &ledger.port_numbers);
        let divided = |pass| routing::identities(books, from, to, pass).ok();
        let leads = |stitch: &&Stitch| stitch.entry.to.iter().any(|(_, own)| *own == port);
        let stitches = ledger.stitches.get(from).into_iter().flat_map(|own| own.iter());
        Self {
            ports: routing::ports(books, from, (to, port)),
            identities: [0, routing::LATER].map(divided),
            border: of(&ledger.borders, way),
            stitches: stitches.filter(leads).collect(),
        }
    }
}

/// The nodes whose ways may lead to a header that an edge writes.
pub(crate) fn holders<'b>(
    books: &'b BorderBooks,
    exit: &ExitPlace,
) -> impl Iterator<Item = &'b NodeName> {
    let pathlet = match exit {
        ExitPlace::Pathlet(pathlet) => Some((pathlet.node.clone(), pathlet.to)),
        ExitPlace::Link(_) | ExitPlace::Port(_) => None,
    };
    let is_held = move |borders: &NodeBorders| {
        let to = pathlet.as_ref().and_then(|(node, port)| borders.get(node)?.get(port));
        to.is_some()
    };
    books.iter().filter(move |(_, borders)| is_held(borders)).map(|(node, _)| node)
}

/// Where headers begin on a way, by the places of their ports: one range if it is whole.
///
/// # Errors
/// No header has room for it, and no edge is where one ends: what to do.
pub(crate) fn cut(
    legs: &[CableEnd],
    way: Carried<'_>,
    inventory: &Inventory,
) -> Result<Vec<Range<usize>>, String> {
    let Carried { from, to, by, .. } = way;
    let most = by.route_ports_max();
    let writes =
        |node: &NodeName| inventory.switches.get(node).is_some_and(NodeFacts::writes_headers);
    let border = |leg: &CableEnd| if writes(&leg.node) { Border::Named } else { Border::No };
    let borders: Vec<Border> = legs.iter().map(border).chain([Border::No]).collect();
    let parts = pathlets(&borders, most);
    let begins = inventory.facts(from).is_some_and(|facts| facts.protocol >= EDGES_SINCE_PROTOCOL);
    match parts {
        Ok(parts) if parts.len() == 1 || begins => Ok(parts),
        found => {
            let advice = match found {
                Ok(_) => format!(
                    "node '{from}' runs a version that ends no header at an edge: bring it up to date"
                ),
                Err(at) => advice(legs, at, inventory),
            };
            Err(format!(
                "the way from node '{from}' to node '{to}' has {} cables, and a header of {} holds {most} ports, that of \
                 the function among them; {advice}, or use a node that is nearer",
                legs.len(),
                by.name()
            ))
        }
    }
}

/// What to do where a header has no end: `at` is the first leg that it does not come to.
fn advice(legs: &[CableEnd], at: usize, inventory: &Inventory) -> String {
    let farthest = at.checked_sub(1).and_then(|at| legs.get(at)).map(|leg| &leg.node);
    let Some(switch) = farthest else { return "give it shorter cables".to_owned() };
    let facts = inventory.switches.get(switch);
    if facts.is_some_and(|facts| facts.is_edge && !facts.writes_headers()) {
        return format!(
            "edge '{switch}' on it runs a version that writes no headers, by what it said last: bring it up to date and \
             start its agent"
        );
    }
    format!(
        "mark switch '{switch}', or one before it, as an edge that writes the next header \
         ('catena node set {switch} --edge')"
    )
}

/// The headers along a way, as they are in force.
pub(crate) fn parts(ledger: &Ledger, way: Carried<'_>) -> Vec<Part> {
    let books = (&ledger.ways, &ledger.port_numbers);
    let Some(ports) = routing::ports(books, way.from, (way.to, way.port)) else {
        return Vec::new();
    };
    let from = way.from.clone();
    let mut detours = way_detours::entries(&ledger.detours, way.from, way.to);
    let Some(border) = of(&ledger.borders, way) else {
        return vec![Part { from, end: way.to.clone(), ports, detours }];
    };
    detours.retain(|detour| detour.rejoin <= border.at);
    let before = ports.into_iter().take(border.at.into());
    let (ports, end) = (before.chain([border.number]).collect(), border.edge.clone());
    let mut found = vec![Part { from, end, ports, detours }];
    while let Some(next) = found.last().and_then(|last| behind(&ledger.port_numbers, last)) {
        found.push(next);
    }
    found
}

/// The header that an edge writes where another one ends; none: that ends at no edge.
fn behind(books: &NumberBooks, part: &Part) -> Option<Part> {
    let given = books.get(&part.end)?.pathlet_of(*part.ports.last()?)?;
    let Pathlet { end, ports, .. } = given.pathlet.clone();
    Some(Part { from: part.end.clone(), end, ports, detours: Vec::new() })
}

/// The ports of the first header on a way, if it has room for them.
pub(crate) fn first_header(ledger: &Ledger, way: Carried<'_>) -> Option<Vec<PortNumber>> {
    let first = parts(ledger, way).into_iter().next()?;
    way.by.fault_of_route(&first.ports).is_none().then_some(first.ports)
}

/// Why an edge on a way does not know yet what to write; none: the way is whole, or all do.
pub(crate) fn why_unwritten(
    ledger: &Ledger,
    inventory: &Inventory,
    way: Carried<'_>,
) -> Option<String> {
    let Unknown { edge, has_no_number } = Cutting::new(ledger, inventory).border(way).err()?;
    Some(match has_no_number {
        true => format!(
            "edge '{edge}' has no number for one header more: a source route can name {NODE_LINKS_MAX} ports of a node, \
             and half of them are kept for links and for ports of functions; mark another switch"
        ),
        false => format!(
            "{}: it lies on a way of the chain, and does not know yet which header it shall write",
            node_reason(inventory, &edge)
        ),
    })
}

/// What edges shall write.
pub(crate) type WantedHeaders = BTreeMap<NodeName, BTreeSet<Pathlet>>;

/// Learns which edges have learned what to write.
pub(crate) fn hear(ledger: &mut Ledger, inventory: &Inventory) {
    for (edge, book) in &mut ledger.port_numbers {
        if book.has_pathlets() {
            let mut heard = PortNumbers::clone(book);
            if heard.hear_pathlets(edge, inventory) {
                *book = Arc::new(heard);
            }
        }
    }
}

/// Brings borders, and the numbers of what edges write, to the ways that paths go by, and to what is wanted beside.
pub(crate) fn follow(ledger: &mut Ledger, inventory: &Inventory, beside: WantedHeaders) {
    let edges = inventory.switches.values().any(NodeFacts::writes_headers);
    let are_left = ledger.port_numbers.values().any(|book| book.has_pathlets());
    if !edges && !are_left && ledger.borders.is_empty() && ledger.stitches.is_empty() {
        return;
    }
    let mut cutting = Cutting { ledger, inventory, wanted: beside };
    let borders = cutting.all();
    let stitches = cutting.stitches();
    let wanted = cutting.wanted;
    let nothing = BTreeSet::new();
    let with_some = ledger.port_numbers.iter().filter(|(_, book)| book.has_pathlets());
    let nodes: BTreeSet<NodeName> =
        with_some.map(|(node, _)| node.clone()).chain(wanted.keys().cloned()).collect();
    for node in nodes {
        let Some(book) = ledger.port_numbers.get_mut(&node) else { continue };
        let mut next = PortNumbers::clone(book);
        next.follow_pathlets(wanted.get(&node).unwrap_or(&nothing), ledger.number);
        if next != **book {
            *book = Arc::new(next);
        }
    }
    ledger.borders.retain(|node, _| borders.contains_key(node));
    for (node, own) in borders {
        if ledger.borders.get(&node).is_none_or(|known| **known != own) {
            ledger.borders.insert(node, Arc::new(own));
        }
    }
    ledger.stitches.retain(|node, _| stitches.contains_key(node));
    for (node, own) in stitches {
        if ledger.stitches.get(&node) != Some(&own) {
            ledger.stitches.insert(node, own);
        }
    }
}

/// Ways that are cut, and what edges must write for that.
struct Cutting<'c> {
    ledger: &'c Ledger,
    inventory: &'c Inventory,
    wanted: WantedHeaders,
}

impl<'c> Cutting<'c> {
    fn new(ledger: &'c Ledger, inventory: &'c Inventory) -> Self {
        Self { ledger, inventory, wanted: BTreeMap::new() }
    }

    /// Those of all paths.
    fn all(&mut self) -> BTreeMap<NodeName, NodeBorders> {
        let ways = self.ways(|_, _| true);
        let mut found: BTreeMap<NodeName, NodeBorders> = BTreeMap::new();
        for (from, to, port, by) in &ways {
            let way = Carried { from, to, port: *port, by: *by };
            let border = self.border(way).unwrap_or_else(|_| self.kept(way));
            if let Some(border) = border {
                let own = found.entry(from.clone()).or_default().entry(to.clone()).or_default();
                own.entry(*port).or_default().insert(*by, border);
            }
        }
        found
    }

    /// The ways of paths by source routes between these nodes.
    fn ways(
        &self,
        is_asked: impl Fn(&NodeName, &NodeName) -> bool,
    ) -> BTreeSet<(NodeName, NodeName, PortId, Encapsulation)> {
        let mut ways = BTreeSet::new();
        let Self { ledger, inventory, .. } = *self;
        for path in ledger.paths.values().filter(|path| path.encapsulation.is_source_route()) {
            for (port, send) in path.sends() {
                let origins = send.origins(inventory.nodes.keys()).into_iter();
                let to = &send.to;
                let origins = origins.filter(|from| is_asked(from, to));
                ways.extend(
                    origins.map(|from| (from.clone(), to.clone(), port, path.encapsulation)),
                );
            }
        }
        ways
    }

    /// Where the first header of a way ends; none: it is whole, or nothing can be done.
    ///
    /// # Errors
    /// An edge does not know yet what to write.
    fn border(&mut self, way: Carried<'_>) -> Result<Option<WayBorder>, Unknown> {
        let Carried { from, to, port, by } = way;
        let books = (&self.ledger.ways, &self.ledger.port_numbers);
        let legs = self.ledger.ways.get(from).and_then(|ways| ways.get(to));
        let ports = routing::ports(books, from, (to, port));
        let Some((legs, ports)) = legs.zip(ports) else { return Ok(None) };
        if by.fault_of_route(&ports).is_none() {
            return Ok(None);
        }
        let Ok(cuts) = cut(legs, way, self.inventory) else { return Ok(None) };
        let mut behind: Option<(usize, WayBorder)> = None;
        for (place, part) in cuts.iter().enumerate().skip(1).rev() {
            let Some(header) = self.header(way, legs, &ports, (part, behind.as_ref())) else {
                return Ok(None);
            };
            let edge = &legs[part.start].node;
            let number = self.number(edge, header)?;
            let before = part.start - cuts[place - 1].start;
            let Ok(at) = u8::try_from(before) else { return Ok(None) };
            behind = Some((part.start, WayBorder { at, edge: edge.clone(), number }));
        }
        Ok(behind.map(|(_, border)| border))
    }

    /// What an edge writes on a part of a way, up to where it is at its end or another edge is; none: no header is
    /// like that.
    fn header(
        &self,
        way: Carried<'_>,
        legs: &[CableEnd],
        ports: &[PortNumber],
        (part, behind): (&Range<usize>, Option<&(usize, WayBorder)>),
    ) -> Option<Pathlet> {
        let end = behind.map_or(way.to, |(_, border)| &border.edge);
        let own = ports.get(part.clone())?.iter().copied();
        let own: Vec<_> = own.chain(behind.map(|(_, border)| border.number)).collect();
        if way.by.fault_of_route(&own).is_some() {
            return None;
        }
        let nodes = legs.get(part.start + 1..part.end.min(legs.len()))?.iter().map(|leg| &leg.node);
        let identity =
            |node: &NodeName| self.ledger.port_numbers.get(node)?.identities().first().copied();
        let identities: Vec<NodeIdentity> = match way.by.needs_identities() {
            true => nodes.chain([end]).map(identity).collect::<Option<_>>()?,
            false => Vec::new(),
        };
        let (node, to) = (way.to.clone(), way.port);
        Some(Pathlet { node, to, end: end.clone(), ports: own, identities })
    }

    /// By which number an edge knows a header, if it does.
    fn number(&mut self, edge: &NodeName, header: Pathlet) -> Result<PortNumber, Unknown> {
        let book = self.ledger.port_numbers.get(edge);
        let given = book.and_then(|book| book.pathlet(&header));
        let has_no_number = book.is_some_and(|book| !book.can_name(&header));
        self.wanted.entry(edge.clone()).or_default().insert(header);
        let known = given.filter(|given| given.is_known).map(|given| given.number);
        known.ok_or_else(|| Unknown { edge: edge.clone(), has_no_number })
    }

    /// The former border of a way while an edge learns the new one, if the way still leads to it.
    fn kept(&mut self, way: Carried<'_>) -> Option<WayBorder> {
        let former = of(&self.ledger.borders, way)?;
        let legs = self.ledger.ways.get(way.from)?.get(way.to)?;
        let leads = legs.get(usize::from(former.at)).is_some_and(|leg| leg.node == former.edge);
        (leads && self.keep(&former.edge, former.number)).then(|| former.clone())
    }

    /// Has an edge write on what it writes now, and those behind it; false: not all do.
    fn keep(&mut self, edge: &NodeName, number: PortNumber) -> bool {
        let book = self.ledger.port_numbers.get(edge);
        let Some(GivenPathlet { pathlet, .. }) = book.and_then(|book| book.pathlet_of(number))
        else {
            return false;
        };
        let is_last = pathlet.end == pathlet.node;
        let next = pathlet.ports.last().copied().filter(|_| !is_last);
        self.wanted.entry(edge.clone()).or_default().insert(pathlet.clone());
        next.is_none_or(|next| self.keep(&pathlet.end, next))
    }
}
