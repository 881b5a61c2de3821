//! What is looked for when cables and chains come and go: as much as that is, counted.
#![allow(clippy::unwrap_used)]

use super::fabric::ways as texts;
use super::source_routes::{routed_chain, world};
use crate::atlas::Atlas;
use crate::cables::Cables;
use crate::sends::Sends;
use crate::ways::{Followed, Former, Roads, follow};
use crate::{Ledger, WayBooks};
use catena_model::topology::CableEnd;
use std::collections::BTreeSet;

fn searches(
    ledger: &Ledger,
    (sends, cables): (&Sends, &Cables),
    inventory: &crate::Inventory,
) -> (usize, WayBooks) {
    let mut books = ledger.ways.clone();
    let roads = Roads::new(cables, inventory, ledger.choice_seed, Atlas::default());
    let known = Some(ledger.paths.sends());
    let (cables, gone, borders) = (&ledger.cables, Cables::new(), &ledger.borders);
    let former = Former { cables, gone, sends: known, borders };
    let Followed { searches, .. } = follow(&mut books, sends, &roads, &former);
    (searches, books)
}

#[test]
fn a_dead_link_has_the_ways_over_it_looked_for_and_no_other() {
    let (mut world, fabric) = world();
    routed_chain(&mut world, 1, &[12, 13, 14]);
    routed_chain(&mut world, 2, &[14, 11, 12]);
    routed_chain(&mut world, 3, &[13, 12, 11, 14]);
    fabric.settle(&mut world);
    let ledger = &world.blueprint.ledger;
    let sends = ledger.paths.sends();
    let legs = |books: &WayBooks| {
        let ways = books.values().flat_map(|ways| ways.values());
        ways.map(Vec::len).sum::<usize>()
    };
    let (nothing, _) = searches(ledger, (sends, &ledger.cables), &world.inventory);
    assert_eq!((nothing, texts(&ledger.ways).len()), (0, 8));
    let mut counts = BTreeSet::new();
    for dead in ledger.cables.iter() {
        let mut cables = Cables::clone(&ledger.cables);
        cables.remove(dead);
        let leads_over = |legs: &[CableEnd]| legs.iter().any(|leg| dead.contains(leg));
        let over = ledger.ways.values().flat_map(|ways| ways.values());
        let over = over.filter(|legs| leads_over(legs)).count();
        let (found, books) = searches(ledger, (sends, &cables), &world.inventory);
        assert_eq!(found, over, "{dead:?}");
        assert!(books.values().flat_map(|ways| ways.values()).all(|legs| !leads_over(legs)));
        assert!(legs(&books) <= legs(&ledger.ways), "no way is longer in this fabric");
        counts.insert(found);
    }
    assert!(counts.len() > 1 && counts.iter().all(|count| *count < 8), "{counts:?}");
}

#[test]
fn a_chain_more_has_its_own_ways_looked_for_and_no_other() {
    let (mut world, fabric) = world();
    routed_chain(&mut world, 1, &[12, 13]);
    fabric.settle(&mut world);
    let before = world.blueprint.ledger.clone();
    routed_chain(&mut world, 2, &[12, 13, 14]);
    fabric.settle(&mut world);
    let after = &world.blueprint.ledger;
    let sends = after.paths.sends();
    let (found, books) = searches(&before, (sends, &before.cables), &world.inventory);
    assert_eq!((found, &books), (1, &after.ways));
    let (found, books) = searches(after, (before.paths.sends(), &after.cables), &world.inventory);
    assert_eq!((found, &books), (0, &before.ways), "what nobody needs any more is gone");
}
