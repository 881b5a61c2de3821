//! The port numbers of a node: of its links, and of functions' ports that source routes lead to. A number stays with
//! what it stands for, and rests when that is gone: packets may still carry it. So do the identities of the node itself
//! ([`identities`]). Knows names and numbers; refuses to know what is at the other end.

mod identities;
mod pathlets;

use crate::borders;
use crate::inventory::{Inventory, NodeFacts};
use crate::ledger::Ledger;
use crate::programs::Programs;
use crate::sends::Sends;
use crate::way_detours;
use crate::ways::nodes_over;
use catena_model::id::PortId;
use catena_model::limits::{NODE_LINKS_MAX, PATH_ID_QUARANTINE_BLUEPRINTS};
use catena_model::program::{ExitPlace, Pathlet};
use catena_model::topology::{CableEnd, NodeRole, PortNumber};
use catena_model::{BlueprintNumber, NodeName};
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use identities::Free;
pub use identities::Identities;
pub use pathlets::GivenPathlet;

/// Those of every node that has, or had, any. A copy costs as much as there are nodes.
pub type NumberBooks = BTreeMap<NodeName, Arc<PortNumbers>>;

/// A number that stands for nothing any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestingNumber {
    /// What it stood for: when that is there again, it has its number again.
    #[serde(flatten)]
    pub of: ExitPlace,
    /// The first blueprint that may give the number to another.
    pub until: BlueprintNumber,
    /// The program by which its node forgets it.
    pub needs: BlueprintNumber,
    /// The nodes whose ways led over it, and the programs by which they forget them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub senders: BTreeMap<NodeName, BlueprintNumber>,
    /// Of a pathlet, which its node still writes: the blueprint by which the node was told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<BlueprintNumber>,
}

/// The port numbers of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortNumbers {
    links: BTreeMap<String, PortNumber>,
    #[serde(default)]
    ports: BTreeMap<PortId, PortNumber>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pathlets: Vec<GivenPathlet>,
    resting: BTreeMap<PortNumber, RestingNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identities: Option<Identities>,
}

impl PortNumbers {
    /// The number of an interface; none: it has none.
    #[must_use]
    pub fn of(&self, interface: &str) -> Option<PortNumber> {
        self.links.get(interface).copied()
    }

    /// The number of a function's port; none: no source route leads there.
    #[must_use]
    pub fn of_port(&self, port: PortId) -> Option<PortNumber> {
        self.ports.get(&port).copied()
    }

    /// The interfaces that have a number.
    pub fn links(&self) -> impl Iterator<Item = (&str, PortNumber)> {
        self.links.iter().map(|(interface, number)| (interface.as_str(), *number))
    }

    /// All that has a number.
    pub fn places(&self) -> impl Iterator<Item = (PortNumber, ExitPlace)> {
        let links = self.links.iter().map(|(link, at)| (*at, ExitPlace::Link(link.clone())));
        let ports = self.ports.iter().map(|(port, at)| (*at, ExitPlace::Port(*port)));
        let pathlets = self.pathlets.iter();
        let pathlets = pathlets.map(|one| (one.number, ExitPlace::Pathlet(one.pathlet.clone())));
        links.chain(ports).chain(pathlets)
    }

    /// What the node's numbers stand for: all that has one, and the pathlets whose numbers rest, as frames may be on
    /// their way to them.
    pub fn exits(&self) -> impl Iterator<Item = (PortNumber, ExitPlace)> {
        let is_written = |of: &ExitPlace| matches!(of, ExitPlace::Pathlet(_));
        let resting = self.resting.iter().map(|(number, resting)| (*number, resting.of.clone()));
        self.places().chain(resting.filter(move |(_, of)| is_written(of)))
    }

    /// The interface with this number.
    #[must_use]
    pub fn interface(&self, number: PortNumber) -> Option<&str> {
        self.links().find(|(_, own)| *own == number).map(|(interface, _)| interface)
    }

    /// The numbers that rest.
    #[must_use]
    pub fn resting(&self) -> &BTreeMap<PortNumber, RestingNumber> {
        &self.resting
    }

    /// Why a link of the node has no number.
    #[must_use]
    pub fn why_none(&self, node: &NodeName, interface: &str) -> String {
        format!(
            "link '{interface}' of node '{node}' has no port number: {}; make fewer interfaces links (--link), or place \
             functions of chains on source routes elsewhere",
            self.why_full()
        )
    }

    /// Why nothing more gets a number.
    pub(crate) fn why_full(&self) -> String {
        let resting = match self.resting.len() {
            0 => String::new(),
            resting => format!(", {resting} of them resting"),
        };
        format!(
            "a source route can name {NODE_LINKS_MAX} ports of a node, and all are given{resting}"
        )
    }

    /// How many ports could get a number now.
    pub(crate) fn room(&self) -> usize {
        let given = self.links.len() + self.ports.len() + self.pathlets.len();
        NODE_LINKS_MAX.saturating_sub(given + self.resting.len())
    }

    /// Has this port a number, or had it one lately?
    pub(crate) fn has_had(&self, port: PortId) -> bool {
        let rests = |resting: &RestingNumber| resting.of == ExitPlace::Port(port);
        self.ports.contains_key(&port) || self.resting.values().any(rests)
    }

    fn is_empty(&self) -> bool {
        self.links.is_empty()
            && self.ports.is_empty()
            && self.pathlets.is_empty()
            && self.resting.is_empty()
            && self.identities.is_none()
    }

    /// Does anything of the node rest?
    fn has_resting(&self) -> bool {
        !self.resting.is_empty() || self.identities.as_ref().is_some_and(Identities::rests)
    }

    /// Nothing rests, and each of these links has a number: no port waits for one.
    fn is_settled(&self, links: Option<&BTreeSet<String>>) -> bool {
        !self.has_resting() && links.is_none_or(|links| self.links.keys().eq(links))
    }

    /// Brings the numbers to these links and ports, and, as long as many are left, to those beside. Without word of the
    /// links they stay.
    fn follow(
        &mut self,
        links: Option<&BTreeSet<String>>,
        (ports, beside): (&BTreeSet<PortId>, &BTreeSet<PortId>),
        number: BlueprintNumber,
    ) {
        if let Some(links) = links {
            self.rest(number, |of| matches!(of, ExitPlace::Link(link) if !links.contains(link)));
        }
        let is_there = |port: &PortId| ports.contains(port) || beside.contains(port);
        self.rest(number, |of| matches!(of, ExitPlace::Port(port) if !is_there(port)));
        for link in links
            .into_iter()
            .flatten()
            .filter(|link| self.of(link).is_none())
            .cloned()
            .collect::<Vec<_>>()
        {
            if let Some(number) = self.take(&ExitPlace::Link(link.clone())) {
                self.links.insert(link, number);
            }
        }
        for port in
            ports.iter().filter(|port| self.of_port(**port).is_none()).copied().collect::<Vec<_>>()
        {
            if let Some(number) = self.take(&ExitPlace::Port(port)) {
                self.ports.insert(port, number);
            }
        }
        for port in beside {
            // A header can end before it: what cannot do without a number is given those that are left.
            if self.of_port(*port).is_none()
                && self.room() > NODE_LINKS_MAX / 2
                && let Some(number) = self.take(&ExitPlace::Port(*port))
            {
                self.ports.insert(*port, number);
            }
        }
    }

    /// The numbers of what has gone rest from this blueprint on.
    fn rest(&mut self, number: BlueprintNumber, has_gone: impl Fn(&ExitPlace) -> bool) {
        let gone: Vec<_> = self.places().filter(|(_, of)| has_gone(of)).collect();
        for (at, of) in gone {
            let mut since = None;
            match &of {
                ExitPlace::Link(link) => _ = self.links.remove(link),
                ExitPlace::Port(port) => _ = self.ports.remove(port),
                ExitPlace::Pathlet(pathlet) => since = self.drop_pathlet(pathlet),
            }
            let until = BlueprintNumber(number.0 + PATH_ID_QUARANTINE_BLUEPRINTS);
            let senders = BTreeMap::new();
            self.resting.insert(at, RestingNumber { of, until, needs: number, senders, since });
        }
    }

    /// The number that this had before, or else a free one.
    fn take(&mut self, of: &ExitPlace) -> Option<PortNumber> {
        let own = self.resting.iter().find(|(_, resting)| resting.of == *of);
        let own = own.map(|(number, _)| *number);
        if let Some(number) = own {
            self.resting.remove(&number);
            return own;
        }
        self.free(of)
    }

    /// The lowest number that nothing has and nothing had lately. That of a port or a pathlet is even as long as there
    /// is one: it stands last in headers, and an odd one is that of a group of stations in `classic-80`. That of a
    /// pathlet is above the last number in its own header: so wherever a frame comes meanwhile, each header that an
    /// edge writes has a lower number than the one before, and there is an end of them.
    fn free(&self, of: &ExitPlace) -> Option<PortNumber> {
        let taken = self.links.values().chain(self.ports.values()).chain(self.resting.keys());
        let taken = taken.copied().chain(self.pathlets.iter().map(|one| one.number));
        let taken: BTreeSet<PortNumber> = taken.collect();
        let mut numbers: Vec<PortNumber> = (1..=u8::MAX).filter_map(PortNumber::new).collect();
        if !matches!(of, ExitPlace::Link(_)) {
            numbers.sort_by_key(|number| number.get() % 2);
        }
        let above = match of {
            ExitPlace::Pathlet(pathlet) => pathlet.ports.last().copied(),
            ExitPlace::Link(_) | ExitPlace::Port(_) => None,
        };
        let is_free = |number: &PortNumber| !taken.contains(number) && Some(*number) > above;
        numbers.into_iter().find(is_free)
    }
}

/// What the numbers are of that are there.
pub(crate) struct Known<'k> {
    pub(crate) sends: &'k Sends,
    pub(crate) nodes: [&'k BTreeMap<NodeName, NodeFacts>; 2],
}

impl Known<'_> {
    fn links(&self, node: &NodeName) -> Option<&BTreeSet<String>> {
        self.nodes.iter().find_map(|nodes| nodes.get(node))?.links.as_deref()
    }
}

/// Brings the numbers of all nodes to the links that they tell of, and to the ports that source routes lead to. The
/// links of a node that has not told yet stay as they are; those of one that is forgotten rest. Those of
/// which what was `known` before is the same are not looked at.
pub(crate) fn number_ports(
    books: &mut NumberBooks,
    inventory: &Inventory,
    (sends, known): (&Sends, Option<Known<'_>>),
    number: BlueprintNumber,
) {
    let nothing = BTreeSet::new();
    let changed = known.as_ref().map(|known| sends.changed_nodes(known.sends));
    let forgotten = books.keys().filter(|node| !inventory.knows(node)).cloned();
    let forgotten: Vec<NodeName> = forgotten.collect();
    let mut free = Free::default();
    // Ways lead over switches: where identities are few, these come first.
    let of = |wanted| inventory.all().filter(move |(_, role, _)| *role == wanted);
    let all = of(NodeRole::Switch).chain(of(NodeRole::Host));
    let told = all.map(|(node, _, facts)| (node, facts.links.as_deref()));
    for (node, links) in told.chain(forgotten.iter().map(|node| (node, Some(&nothing)))) {
        let former = known.as_ref().and_then(|known| known.links(node));
        let known = books.get(node);
        let is_empty = || links.is_none_or(BTreeSet::is_empty);
        let has_changed = changed.as_ref().is_none_or(|changed| changed.contains(node));
        let are_same = former.zip(links).is_some_and(|(one, other)| std::ptr::eq(one, other));
        let is_settled = |book: &Arc<PortNumbers>| match are_same {
            true => !book.has_resting(),
            false => book.is_settled(links),
        };
        let gets = known.is_some_and(|book| book.lacks_identities()) && free.are_left(books);
        if !has_changed && !gets && known.map_or_else(is_empty, is_settled) {
            continue;
        }
        let (ports, beside) = (&sends.ports_at(node), &sends.ports_beside(node));
        if known.is_none() && is_empty() && ports.is_empty() && beside.is_empty() {
            continue;
        }
        let mut book = known.map_or_else(PortNumbers::default, |book| PortNumbers::clone(book));
        book.resting.retain(|_, resting| resting.rests(node, inventory, number));
        book.follow(links, (ports, beside), number);
        if book.lacks_identities() {
            book.identities = free.take(books, number);
        }
        book.follow_identities(node, inventory, number);
        if book.is_empty() {
            books.remove(node);
        } else if known.is_none_or(|known| **known != book) {
            books.insert(node.clone(), Arc::new(book));
        }
    }
}

/// Has each link the number that it has there?
pub(crate) fn have_same_links(one: &NumberBooks, other: &NumberBooks) -> bool {
    let links = |books: &'_ NumberBooks, node| books.get(node).map(|book| book.links.clone());
    let changed = changed(one, other).into_iter();
    let mut changed = changed.map(|node| [one, other].map(|books| links(books, node)));
    changed.all(|[one, other]| one.unwrap_or_default() == other.unwrap_or_default())
}

/// The nodes whose book is another, as copies share books that are the same.
pub(crate) fn changed<'b, B>(
    one: &'b BTreeMap<NodeName, Arc<B>>,
    other: &'b BTreeMap<NodeName, Arc<B>>,
) -> Vec<&'b NodeName> {
    let mut others = other.iter().peekable();
    let mut changed = Vec::new();
    for (node, book) in one {
        while let Some((added, _)) = others.next_if(|(other, _)| *other < node) {
            changed.push(added);
        }
        let same = others.next_if(|(other, _)| *other == node);
        if same.is_none_or(|(_, other)| !Arc::ptr_eq(book, other)) {
            changed.push(node);
        }
    }
    changed.extend(others.map(|(node, _)| node));
    changed
}

impl RestingNumber {
    fn rests(&self, node: &NodeName, inventory: &Inventory, number: BlueprintNumber) -> bool {
        let mut senders = self.senders.iter();
        number < self.until
            || !inventory.has_let_go(node, self.needs)
            || senders.any(|(sender, needs)| !inventory.has_let_go(sender, *needs))
    }
}

/// The edges that write a header of which this is so, or may go on to write one that was taken from them: without
/// being where any way begins. Whose the numbers in it are is not asked, as its cables may be gone.
fn edges_with(
    books: &NumberBooks,
    is_so: impl Fn(&Pathlet) -> bool,
) -> impl Iterator<Item = &NodeName> {
    let writes = move |book: &PortNumbers| {
        let rest = book.resting.values().map(|resting| resting.of.clone());
        book.exits().map(|(_, of)| of).chain(rest).any(|of| match of {
            ExitPlace::Pathlet(one) => is_so(&one),
            ExitPlace::Link(_) | ExitPlace::Port(_) => false,
        })
    };
    books.iter().filter(move |(_, book)| writes(book)).map(|(edge, _)| edge)
}

/// Notes by which programs nodes forget the numbers that this blueprint has taken away, and the `former` ways over
/// them. A host that does not run its newest program may send by ways of before.
pub(crate) fn note_needs(
    books: &mut NumberBooks,
    programs: &Programs,
    (former, inventory): (&Ledger, &Inventory),
    number: BlueprintNumber,
) {
    let until = BlueprintNumber(number.0 + PATH_ID_QUARANTINE_BLUEPRINTS);
    let needs = |node: &NodeName| programs.get(node).map_or(number, |program| program.number);
    let sends = former.paths.sends();
    let may_send = |node: &&NodeName| {
        !inventory.has_acknowledged(node, needs(node)) && sends.from(node, true).next().is_some()
    };
    let lagging: OnceCell<Vec<&NodeName>> = OnceCell::new();
    for (node, book) in books {
        let begins_rest = book.identities.as_ref().is_some_and(|own| own.rests_until(until));
        if !begins_rest && !book.resting.values().any(|resting| resting.until == until) {
            continue;
        }
        let lagging = lagging.get_or_init(|| inventory.nodes.keys().filter(may_send).collect());
        let mut noted = PortNumbers::clone(book);
        for (port, resting) in &mut noted.resting {
            if resting.until == until {
                let end = CableEnd { node: node.clone(), port: *port };
                resting.needs = needs(node);
                let over: BTreeSet<&NodeName> = nodes_over(&former.ways, &end)
                    .chain(way_detours::nodes_over(&former.detours, &end))
                    .collect();
                let onward = over.iter().flat_map(|node| sends.onward().from(node));
                let holders = onward.map(|way| &way.holder);
                let cut = borders::holders(&former.borders, &resting.of);
                let joined = borders::stitch_holders(&former.stitches, &end.node, end.port);
                let edges = edges_with(&former.port_numbers, |one| one.ports.contains(port));
                let senders = over.iter().copied().chain(holders).chain(cut).chain(joined);
                let senders = senders.chain(edges);
                let senders = senders.chain(lagging.iter().copied());
                resting.senders = senders.map(|node| (node.clone(), needs(node))).collect();
            }
        }
        if let Some(own) = noted.identities.as_mut().filter(|_| begins_rest) {
            let over: BTreeSet<&NodeName> =
                identities::senders(&former.ways, node).chain([node]).collect();
            let onward = over.iter().flat_map(|node| sends.onward().from(node));
            let holders = onward.map(|way| &way.holder);
            let gone = former.port_numbers.get(node).map(|book| book.identities());
            let gone = gone.unwrap_or_default();
            let divides = |one: &Pathlet| one.identities.iter().any(|own| gone.contains(own));
            let edges = edges_with(&former.port_numbers, divides);
            let senders = over.iter().copied().chain(holders).chain(edges);
            let senders = senders.chain(lagging.iter().copied());
            own.note(needs(node), senders.map(|node| (node.clone(), needs(node))).collect());
        }
        if noted != **book {
            *book = Arc::new(noted);
        }
    }
}
