//! What a node divides numbers of ways by: polynomials that are no other node's, from its first link on. They rest when its
//! links are gone, since packets may still be on ways that lead to their remainders. Knows nodes; refuses to know ways.

use super::{NumberBooks, PortNumbers};
use crate::inventory::Inventory;
use crate::ways::WayBooks;
use catena_model::limits::{NODE_ROUTE_IDENTITIES, PATH_ID_QUARANTINE_BLUEPRINTS};
use catena_model::program::NodeIdentity;
use catena_model::{BlueprintNumber, NodeName};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Those of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identities {
    /// By pass.
    of: [NodeIdentity; NODE_ROUTE_IDENTITIES],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rest: Option<Rest>,
}

/// The node has no links any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Rest {
    /// The first blueprint that may give them to another.
    until: BlueprintNumber,
    /// The program by which the node forgets them.
    needs: BlueprintNumber,
    /// The nodes whose ways led over it, and the programs by which they forget them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    senders: BTreeMap<NodeName, BlueprintNumber>,
}

impl Identities {
    pub(super) fn rests(&self) -> bool {
        self.rest.is_some()
    }

    pub(super) fn rests_until(&self, until: BlueprintNumber) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.until == until)
    }

    /// Who must have forgotten them before they are given to another.
    pub(super) fn note(
        &mut self,
        needs: BlueprintNumber,
        senders: BTreeMap<NodeName, BlueprintNumber>,
    ) {
        if let Some(rest) = &mut self.rest {
            (rest.needs, rest.senders) = (needs, senders);
        }
    }
}

impl PortNumbers {
    /// What the node divides by, by pass; empty: it has no link, or there were none left.
    #[must_use]
    pub fn identities(&self) -> &[NodeIdentity] {
        match &self.identities {
            Some(Identities { of, rest: None }) => of,
            _ => &[],
        }
    }

    /// Lets them rest while the node has no links, and go when they have rested.
    pub(super) fn follow_identities(
        &mut self,
        node: &NodeName,
        inventory: &Inventory,
        number: BlueprintNumber,
    ) {
        let has_links = !self.links.is_empty();
        let Some(own) = &mut self.identities else { return };
        if has_links {
            own.rest = None;
            return;
        }
        let until = BlueprintNumber(number.0 + PATH_ID_QUARANTINE_BLUEPRINTS);
        let begun = || Rest { until, needs: number, senders: BTreeMap::new() };
        let rest = own.rest.get_or_insert_with(begun);
        let mut senders = rest.senders.iter();
        let goes_on = number < rest.until
            || !inventory.has_let_go(node, rest.needs)
            || senders.any(|(sender, needs)| !inventory.has_let_go(sender, *needs));
        if !goes_on {
            self.identities = None;
        }
    }
}

/// The identities that are given, once any is asked for.
#[derive(Default)]
pub(super) struct Given(Option<BTreeSet<NodeIdentity>>);

impl Given {
    /// The lowest that nobody has; none: too few are left.
    pub(super) fn take(&mut self, books: &NumberBooks) -> Option<Identities> {
        let own = |book: &PortNumbers| book.identities.as_ref().map(|own| own.of);
        let all = || books.values().filter_map(|book| own(book)).flatten().collect();
        let given = self.0.get_or_insert_with(all);
        let mut free = NodeIdentity::all().iter().filter(|one| !given.contains(*one)).copied();
        let of: Vec<NodeIdentity> = free.by_ref().take(NODE_ROUTE_IDENTITIES).collect();
        let of: [NodeIdentity; NODE_ROUTE_IDENTITIES] = of.try_into().ok()?;
        given.extend(of);
        Some(Identities { of, rest: None })
    }
}

/// The nodes with a way over a node, or to it.
pub(super) fn senders<'w>(
    books: &'w WayBooks,
    node: &'w NodeName,
) -> impl Iterator<Item = &'w NodeName> {
    let leads = move |(to, legs): (&NodeName, &Vec<catena_model::topology::CableEnd>)| {
        to == node || legs.iter().skip(1).any(|leg| leg.node == *node)
    };
    let found = books.iter().filter(move |(_, ways)| ways.iter().any(leads));
    found.map(|(node, _)| node)
}
