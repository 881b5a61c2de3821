//! The port numbers of a node's links. A number stays with its interface, and rests when that is gone: packets
//! may still carry it. Knows names and numbers; refuses to know what is at the other end.

use crate::inventory::Inventory;
use crate::programs::Programs;
use catena_model::limits::{NODE_LINKS_MAX, PATH_ID_QUARANTINE_BLUEPRINTS};
use catena_model::topology::PortNumber;
use catena_model::{BlueprintNumber, NodeName};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Those of every node that has, or had, any. A copy costs as much as there are nodes.
pub type NumberBooks = BTreeMap<NodeName, Arc<PortNumbers>>;

/// A number whose interface is no link any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestingNumber {
    /// The interface: when it is a link again, it has its number again.
    pub interface: String,
    /// The first blueprint that may give the number to another.
    pub until: BlueprintNumber,
    /// The program by which its node forgets it.
    pub needs: BlueprintNumber,
}

/// The port numbers of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortNumbers {
    links: BTreeMap<String, PortNumber>,
    resting: BTreeMap<PortNumber, RestingNumber>,
}

impl PortNumbers {
    /// The number of an interface; none: it has none.
    #[must_use]
    pub fn of(&self, interface: &str) -> Option<PortNumber> {
        self.links.get(interface).copied()
    }

    /// The interfaces that have a number.
    pub fn iter(&self) -> impl Iterator<Item = (&str, PortNumber)> {
        self.links.iter().map(|(interface, number)| (interface.as_str(), *number))
    }

    /// The numbers that rest.
    #[must_use]
    pub fn resting(&self) -> &BTreeMap<PortNumber, RestingNumber> {
        &self.resting
    }

    /// Why a link of the node has no number.
    #[must_use]
    pub fn why_none(&self, node: &NodeName, interface: &str) -> String {
        let resting = match self.resting.len() {
            0 => String::new(),
            resting => format!(", {resting} of them resting"),
        };
        format!(
            "link '{interface}' of node '{node}' has no port number: a source route can name {NODE_LINKS_MAX} \
             ports of a node, and all are given{resting}; make fewer interfaces links (--link)"
        )
    }

    /// Brings the numbers to these links.
    fn follow(&mut self, links: &BTreeSet<String>, number: BlueprintNumber) {
        let gone = self.links.keys().filter(|interface| !links.contains(*interface)).cloned();
        for interface in gone.collect::<Vec<String>>() {
            if let Some(port) = self.links.remove(&interface) {
                let until = BlueprintNumber(number.0 + PATH_ID_QUARANTINE_BLUEPRINTS);
                self.resting.insert(port, RestingNumber { interface, until, needs: number });
            }
        }
        for interface in
            links.iter().filter(|link| !self.links.contains_key(*link)).cloned().collect::<Vec<_>>()
        {
            let own = self.resting.iter().find(|(_, resting)| resting.interface == interface);
            let own = own.map(|(port, _)| *port);
            if let Some(port) = own.or_else(|| self.free()) {
                self.resting.remove(&port);
                self.links.insert(interface, port);
            }
        }
    }

    /// The lowest number that no interface has and none had lately.
    fn free(&self) -> Option<PortNumber> {
        let taken: BTreeSet<PortNumber> =
            self.links.values().chain(self.resting.keys()).copied().collect();
        (1..=u8::MAX).filter_map(PortNumber::new).find(|port| !taken.contains(port))
    }

    /// Nothing rests, and each of these links has a number.
    fn is_settled(&self, links: &BTreeSet<String>) -> bool {
        self.resting.is_empty() && self.links.keys().eq(links)
    }
}

/// Brings the numbers of all nodes to the links that they tell of. Those of a node that has not told yet stay as
/// they are; those of one that is forgotten rest.
pub(crate) fn number_links(
    books: &mut NumberBooks,
    inventory: &Inventory,
    number: BlueprintNumber,
) {
    let nothing = BTreeSet::new();
    let forgotten = books.keys().filter(|node| !inventory.knows(node)).cloned();
    let forgotten: Vec<NodeName> = forgotten.collect();
    let told = inventory.all().filter_map(|(node, _, facts)| Some((node, facts.links.as_deref()?)));
    for (node, links) in told.chain(forgotten.iter().map(|node| (node, &nothing))) {
        let known = books.get(node);
        if known.map_or(links.is_empty(), |book| book.is_settled(links)) {
            continue;
        }
        let mut book = known.map_or_else(PortNumbers::default, |book| PortNumbers::clone(book));
        let rests = |resting: &RestingNumber| {
            number < resting.until || !inventory.has_let_go(node, resting.needs)
        };
        book.resting.retain(|_, resting| rests(resting));
        book.follow(links, number);
        if book == PortNumbers::default() {
            books.remove(node);
        } else if known.is_none_or(|known| **known != book) {
            books.insert(node.clone(), Arc::new(book));
        }
    }
}

/// Notes by which programs nodes forget the numbers that this blueprint has taken away.
pub(crate) fn note_needs(books: &mut NumberBooks, programs: &Programs, number: BlueprintNumber) {
    let until = BlueprintNumber(number.0 + PATH_ID_QUARANTINE_BLUEPRINTS);
    for (node, book) in books {
        let Some(program) = programs.get(node) else { continue };
        let is_new =
            |resting: &RestingNumber| resting.until == until && resting.needs != program.number;
        if book.resting.values().any(is_new) {
            let resting = Arc::make_mut(book).resting.values_mut();
            resting.filter(|resting| is_new(resting)).for_each(|new| new.needs = program.number);
        }
    }
}
