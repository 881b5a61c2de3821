//! Whether anything that was declared since planning came to rest can matter to it. Looks at what
//! differs alone: tables share what they have in common.

use crate::blueprint::Blueprint;
use crate::intent::{Intent, Table};
use crate::inventory::{Inventory, NodeFacts};
use crate::ledger::{Ledger, PathPhase, PathRecord};
use crate::slices::{Places, Users};
use catena_model::NodeName;
use imbl::ordmap::DiffItem;
use std::sync::Arc;

/// What the planning of chains came to rest with. Slices come and go beside it: whoever plans them
/// need not go through all chains again.
#[derive(Clone, Debug)]
pub(crate) struct ChainsAtRest {
    intent: Intent,
    inventory: Inventory,
    ledger: Arc<Ledger>,
    places: Places,
    users: Users,
}

impl ChainsAtRest {
    /// Right after planning has answered that no chain is to be changed; none: a chain waits for
    /// news, and which these are is not known here.
    pub(crate) fn of(now: &Blueprint, intent: &Intent, inventory: &Inventory) -> Option<Self> {
        let is_quiet = |path: &PathRecord| {
            path.phase == PathPhase::Classified
                && path.pins.is_empty()
                && path.leads_to.is_empty()
                && path.needs.iter().all(|(node, number)| inventory.has_acknowledged(node, *number))
        };
        let ledger = &now.ledger;
        let is_at_rest = ledger.remembered.is_empty() && ledger.paths.values().all(is_quiet);
        is_at_rest.then(|| Self {
            intent: intent.clone(),
            inventory: inventory.clone(),
            ledger: Arc::clone(ledger),
            places: now.slices.places().clone(),
            users: now.slices.all_users().clone(),
        })
    }

    /// Would planning answer the same again? The slices of the blueprint have been held against this
    /// intent.
    pub(crate) fn is_same(&self, now: &Blueprint, intent: &Intent, inventory: &Inventory) -> bool {
        let rested = &self.intent;
        Arc::ptr_eq(&self.ledger, &now.ledger)
            && is_same(&rested.networks, &intent.networks)
            && is_same(&rested.subnets, &intent.subnets)
            && is_same(&rested.ports, &intent.ports)
            && is_same(&rested.rules, &intent.rules)
            && is_same(&rested.instances, &intent.instances)
            && is_same(&rested.functions, &intent.functions)
            && is_same(&rested.chains, &intent.chains)
            && is_same(&rested.graphs, &intent.graphs)
            && now.slices.places().are_same(&self.places)
            // How many use a path says nothing about it.
            && now.slices.all_users().has_same_keys(&self.users)
            && self.is_same_inventory(inventory)
    }

    /// Acknowledgements only grow here: nothing waits for one.
    fn is_same_inventory(&self, now: &Inventory) -> bool {
        let Inventory { nodes, drained, unpinned, rewriting, slices_drained: _ } = &self.inventory;
        let is_same_node = |(before, now): ((&NodeName, &NodeFacts), (&NodeName, &NodeFacts))| {
            let acknowledged = before.1.acknowledged.max(now.1.acknowledged);
            let before_now = NodeFacts { acknowledged, ..before.1.clone() };
            before.0 == now.0 && before_now == *now.1
        };
        nodes.len() == now.nodes.len()
            && nodes.iter().zip(&now.nodes).all(is_same_node)
            && (drained, unpinned, rewriting) == (&now.drained, &now.unpinned, &now.rewriting)
    }
}

/// May the former answer «nothing is to be changed» be given again? Nothing but the intent may be
/// different since, and nothing in it may have referred to what was not there: whoever writes sees
/// to that.
pub(crate) fn is_untouched(
    rested: &Intent,
    now: &Intent,
    ledger: &Ledger,
    inventory: &Inventory,
) -> bool {
    // Without a node there is no program, and no chain over a function has a place. One over none has
    // a place as soon as anything enters it, which others decide, too.
    let is_nowhere = inventory.nodes.is_empty()
        && ledger.paths.is_empty()
        && now.chains.values().all(|chain| !chain.functions.is_empty());
    is_nowhere
        || (adds_only(&rested.networks, &now.networks)
            && is_same(&rested.subnets, &now.subnets)
            && rested.ports.diff(&now.ports).all(|item| match item {
                // Nothing refers to what has just come, and it is on no node.
                DiffItem::Add(_, port) => port.node.is_none(),
                DiffItem::Update { .. } | DiffItem::Remove(..) => false,
            })
            && adds_only(&rested.rules, &now.rules)
            && adds_only(&rested.instances, &now.instances)
            && adds_only(&rested.functions, &now.functions)
            && is_same(&rested.chains, &now.chains)
            && is_same(&rested.graphs, &now.graphs)
            && is_same(&rested.slices, &now.slices))
}

fn is_same<K: Ord + Clone, V: Clone + PartialEq>(before: &Table<K, V>, now: &Table<K, V>) -> bool {
    before.diff(now).next().is_none()
}

/// What is new and refers to others changes nothing about them until they refer to it.
fn adds_only<K: Ord + Clone, V: Clone + PartialEq>(
    before: &Table<K, V>,
    now: &Table<K, V>,
) -> bool {
    before.diff(now).all(|item| matches!(item, DiffItem::Add(..)))
}
