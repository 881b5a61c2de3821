//! Whether anything that was declared since planning came to rest can matter to it. Looks at what
//! differs alone: tables share what they have in common.

use crate::intent::{Intent, Table};
use crate::inventory::Inventory;
use crate::ledger::Ledger;
use imbl::ordmap::DiffItem;

/// May the former answer «nothing is to be changed» be given again? Nothing but the intent may be
/// different since, and nothing in it may have referred to what was not there: whoever writes sees
/// to that.
pub(crate) fn is_untouched(
    rested: &Intent,
    now: &Intent,
    ledger: &Ledger,
    inventory: &Inventory,
) -> bool {
    // Without a node there is no program, and no chain over a function has a place.
    let is_nowhere = inventory.nodes.is_empty()
        && ledger.paths.is_empty()
        && rested.chains.diff(&now.chains).all(|item| match item {
            DiffItem::Add(_, chain) | DiffItem::Update { new: (_, chain), .. } => {
                !chain.functions.is_empty()
            }
            DiffItem::Remove(..) => true,
        });
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
            && is_same(&rested.graphs, &now.graphs))
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
