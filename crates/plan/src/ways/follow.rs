//! Ways follow cables and those who send: all of them, or those alone that what has changed belongs to.

use super::{NodeWays, Roads, WayBooks};
use crate::borders::BorderBooks;
use crate::cables::{Cables, far_ends};
use crate::inventory::Inventory;
use crate::sends::{Sending, Sends};
use catena_model::NodeName;
use catena_model::topology::CableEnd;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the ways are of that are there.
pub(crate) struct Former<'f> {
    pub(crate) cables: &'f Cables,
    /// Cables that are not there any more, doubted ones among them.
    pub(crate) gone: Cables,
    /// None: that is not known, and all ways are looked at.
    pub(crate) sends: Option<&'f Sends>,
    /// Ways that end at edges for some header: [`crate::borders::shorten`] says when they turn to shorter ones.
    pub(crate) borders: &'f BorderBooks,
}

/// Two nodes of which one sends to the other.
type Pair = (NodeName, NodeName);

/// What became of ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    /// How many were looked for.
    pub(crate) searches: usize,
    /// Somebody has a way who had none, or none any more, or one of another length, which a header may not hold.
    pub(crate) is_reach_new: bool,
}

/// Brings the ways to those that are needed. A former one stays while its cables are there, unless a cable that came
/// makes a shorter one.
pub(crate) fn follow(
    books: &mut WayBooks,
    sends: &Sends,
    roads: &Roads<'_>,
    former: &Former<'_>,
) -> Followed {
    let are_same = std::ptr::eq(former.cables, roads.cables);
    let has_grown = !are_same && !roads.cables.is_subset(former.cables);
    let Some(known) = former.sends.filter(|_| !has_grown) else {
        return follow_all(books, sends, roads, has_grown.then_some(former.borders));
    };
    let gone: BTreeSet<&CableEnd> = match are_same {
        true => BTreeSet::new(),
        false => former.cables.difference(roads.cables).flatten().collect(),
    };
    let gone: BTreeSet<&CableEnd> = gone.into_iter().chain(former.gone.iter().flatten()).collect();
    let mut pairs = over(books, &gone);
    for sending in sends.changed_pairs(known) {
        let origins = sending.origins(roads.inventory.nodes.keys()).into_iter();
        pairs.extend(origins.map(|from| (from.clone(), sending.to.clone())));
    }
    let mut followed = Followed::default();
    for (from, to) in pairs {
        let legs = books.get(&from).and_then(|ways| ways.get(&to));
        let is_whole = legs.is_some_and(|legs| !legs.iter().any(|leg| gone.contains(leg)));
        if !is_needed(sends, roads.inventory, &from, &to) {
            put(books, from, to, None);
        } else if !is_whole {
            let way = roads.way(&from, &to).ok();
            followed.take(legs, way.as_ref());
            put(books, from, to, way);
        }
    }
    followed
}

impl Followed {
    /// A way was looked for. How many ports a header holds is another for each encapsulation.
    pub(crate) fn take(&mut self, former: Option<&Vec<CableEnd>>, way: Option<&Vec<CableEnd>>) {
        self.searches += 1;
        self.is_reach_new |= way.is_none() || former.map(Vec::len) != way.map(Vec::len);
    }
}

/// The pairs whose ways lead over cables that are gone.
fn over(books: &WayBooks, gone: &BTreeSet<&CableEnd>) -> BTreeSet<Pair> {
    if gone.is_empty() {
        return BTreeSet::new();
    }
    let ways = books.iter().flat_map(|(from, ways)| ways.iter().map(move |way| (from, way)));
    let dead = ways.filter(|(_, (_, legs))| legs.iter().any(|leg| gone.contains(leg)));
    dead.map(|(from, (to, _))| (from.clone(), to.clone())).collect()
}

fn is_needed(sends: &Sends, inventory: &Inventory, from: &NodeName, to: &NodeName) -> bool {
    let sending = |from: Option<NodeName>| Sending { from, to: to.clone() };
    sends.has(&sending(Some(from.clone())))
        || (from != to && inventory.nodes.contains_key(from) && sends.has(&sending(None)))
}

pub(crate) fn put(books: &mut WayBooks, from: NodeName, to: NodeName, way: Option<Vec<CableEnd>>) {
    match way {
        Some(way) => {
            Arc::make_mut(books.entry(from).or_default()).insert(to, way);
        }
        None => {
            let Some(ways) = books.get_mut(&from).filter(|ways| ways.contains_key(&to)) else {
                return;
            };
            Arc::make_mut(ways).remove(&to);
            if ways.is_empty() {
                books.remove(&from);
            }
        }
    }
}

/// `grown`: cables came, and ways that are not among these borders turn to shorter ones.
fn follow_all(
    books: &mut WayBooks,
    sends: &Sends,
    roads: &Roads<'_>,
    grown: Option<&BorderBooks>,
) -> Followed {
    let far_ends = far_ends(roads.cables);
    let everybody: Vec<&NodeName> = roads.inventory.nodes.keys().collect();
    let mut found: BTreeMap<&NodeName, NodeWays> = BTreeMap::new();
    let mut followed = Followed::default();
    let pairs = sends.pairs(&everybody);
    for (from, to) in &pairs {
        let former = books.get(*from).and_then(|ways| ways.get(*to));
        let known = former;
        let former = former.filter(|legs| roads.carries(&far_ends, (from, to), legs));
        let is_cut =
            |borders: &BorderBooks| borders.get(*from).is_some_and(|own| own.contains_key(*to));
        let may_turn = grown.is_some_and(|borders| !is_cut(borders));
        let former = former.filter(|legs| !(may_turn && roads.has_shorter(from, to, legs)));
        let legs = former.cloned().or_else(|| {
            let way = roads.way(from, to).ok();
            followed.take(known, way.as_ref());
            way
        });
        if let Some(legs) = legs {
            found.entry(*from).or_default().insert((*to).clone(), legs);
        }
    }
    books.retain(|node, _| found.contains_key(node));
    for (node, ways) in found {
        if books.get(node).is_none_or(|known| **known != ways) {
            books.insert(node.clone(), Arc::new(ways));
        }
    }
    followed
}
