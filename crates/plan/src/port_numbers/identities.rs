//! What a node divides numbers of ways by: polynomials that are no other node's, from its first link on. They
//! rest when its links are gone, since packets may still be on ways that lead to their remainders. Knows
//! nodes; refuses to know ways.

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
    /// The blueprint by which the node was told of them: until it runs that, it divides by nothing.
    #[serde(default)]
    since: BlueprintNumber,
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
            Some(Identities { of, rest: None, .. }) => of,
            _ => &[],
        }
    }

    /// The blueprint by which the node was told what it divides by.
    pub(crate) fn identities_since(&self) -> BlueprintNumber {
        self.identities.as_ref().map(|own| own.since).unwrap_or_default()
    }

    /// Has it links, and nothing to divide by?
    pub(super) fn lacks_identities(&self) -> bool {
        !self.links.is_empty() && self.identities.is_none()
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
            if own.rest.take().is_some() {
                // Its program had none of them meanwhile.
                own.since = number;
            }
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

/// The identities that nobody has, once any is asked for: the lowest last.
#[derive(Default)]
pub(super) struct Free(Option<Vec<NodeIdentity>>);

impl Free {
    fn all(&mut self, books: &NumberBooks) -> &mut Vec<NodeIdentity> {
        self.0.get_or_insert_with(|| {
            let own = books.values().filter_map(|book| book.identities.as_ref());
            let given: BTreeSet<NodeIdentity> = own.flat_map(|own| own.of).collect();
            let all = NodeIdentity::all().iter().rev();
            all.filter(|one| !given.contains(*one)).copied().collect()
        })
    }

    /// Are there some for a node more?
    pub(super) fn are_left(&mut self, books: &NumberBooks) -> bool {
        self.all(books).len() >= NODE_ROUTE_IDENTITIES
    }

    /// The lowest, given by this blueprint; none: too few are left.
    pub(super) fn take(
        &mut self,
        books: &NumberBooks,
        since: BlueprintNumber,
    ) -> Option<Identities> {
        let free = self.all(books);
        let rest = free.len().checked_sub(NODE_ROUTE_IDENTITIES)?;
        let mut of: Vec<NodeIdentity> = free.drain(rest..).collect();
        of.reverse();
        Some(Identities { of: of.try_into().ok()?, since, rest: None })
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
