//! Ways on which headers end at edges turn to shorter ones as soon as the edges on those know what to write: until then
//! they stay what they are, whose cables are there. Knows ways and edges; refuses to know why a cable came.

use super::{Carried, Cutting, WantedHeaders, cut, hear};
use crate::inventory::Inventory;
use crate::ledger::Ledger;
use crate::ways::{Followed, Roads, put};
use catena_model::NodeName;
use catena_model::topology::CableEnd;

/// A way that would be shorter.
struct Shorter {
    from: NodeName,
    to: NodeName,
    legs: Vec<CableEnd>,
}

/// Turns the ways that can; answers what edges shall write for those that wait.
pub(crate) fn shorten(
    ledger: &mut Ledger,
    inventory: &Inventory,
    roads: &Roads<'_>,
    followed: &mut Followed,
) -> WantedHeaders {
    hear(ledger, inventory);
    let shorter = all(ledger, roads);
    if shorter.is_empty() {
        return WantedHeaders::new();
    }
    let mut then = ledger.clone();
    for Shorter { from, to, legs } in &shorter {
        put(&mut then.ways, from.clone(), to.clone(), Some(legs.clone()));
    }
    let mut cutting = Cutting { ledger: &then, inventory, wanted: WantedHeaders::new() };
    for one in shorter {
        if can_turn(&mut cutting, &one) {
            let former = ledger.ways.get(&one.from).and_then(|ways| ways.get(&one.to));
            followed.take(former, Some(&one.legs));
            put(&mut ledger.ways, one.from, one.to, Some(one.legs));
        }
    }
    cutting.wanted
}

/// Those there would be.
fn all(ledger: &Ledger, roads: &Roads<'_>) -> Vec<Shorter> {
    let pairs = ledger.borders.iter().flat_map(|(from, own)| own.keys().map(move |to| (from, to)));
    let shorter = pairs.filter_map(|(from, to)| {
        let legs = ledger.ways.get(from)?.get(to)?;
        let way = roads.has_shorter(from, to, legs).then(|| roads.way(from, to).ok());
        Some(Shorter { from: from.clone(), to: to.clone(), legs: way.flatten()? })
    });
    shorter.collect()
}

/// Does whoever writes headers on it know what to write? Asks the others to learn it.
fn can_turn(cutting: &mut Cutting<'_>, shorter: &Shorter) -> bool {
    let ways = cutting.ways(|from, to| (from, to) == (&shorter.from, &shorter.to));
    let mut can = true;
    for (from, to, port, by) in &ways {
        let way = Carried { from, to, port: *port, by: *by };
        // Where no header has an end, the longer way is the better one.
        let has_ends = cut(&shorter.legs, way, cutting.inventory).is_ok();
        can &= has_ends && cutting.border(way).is_ok();
    }
    can
}
