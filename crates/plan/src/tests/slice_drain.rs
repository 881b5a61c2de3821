//! When what slices leave behind is gone: by count where nothing enters the hops that they shared
//! any more, by time where others do.
#![allow(clippy::unwrap_used)]

use super::rig::{World, node};
use super::slices::{slice_id, world};
use crate::{Asked, Counted, DRAIN_WAIT_MAX, PathPhase, SliceDrainWatch};
use catena_model::{ChainCounters, NodeCounters, PathId, Volume};
use std::collections::BTreeMap;
use std::time::Duration;

const SOON: Duration = Duration::from_millis(1);

/// The three nodes' answers: at the first, so many packets entered a path; at the third, so many
/// were at its end.
fn counted(world: &World, path: PathId, entered: u64, finished: u64) -> Counted {
    let volume = |packets| Volume { packets, bytes: packets * 100 };
    let at = |number: u32| {
        let mut counters = NodeCounters::none(node(number), world.blueprint.number);
        counters.chains.push(ChainCounters {
            chain: world.blueprint.ledger.paths[&path].chain,
            path,
            entered: volume(if number == 1 { entered } else { 0 }),
            finished: volume(if number == 3 { finished } else { 0 }),
            tapped: Volume::default(),
            pinned_flows: 0,
            tunnelled_out: Volume::default(),
            tunnelled_in: Volume::default(),
            dropped: BTreeMap::new(),
            hops: Vec::new(),
            is_partial: false,
        });
        (node(number), counters)
    };
    (1..=3).map(at).collect()
}

/// Plans and acknowledges until slices wait for what they left behind.
fn until_superseded(world: &mut World) {
    for _ in 0..10 {
        world.obey();
        world.drain_all();
        if world.plan() == 0 && world.blueprint.slices.superseded().next().is_some() {
            return;
        }
    }
    panic!("nothing is left behind");
}

fn is_counting(watch: &SliceDrainWatch<Duration>) -> bool {
    let mut asked = Asked::default();
    watch.ask(&mut asked);
    assert_eq!(asked.nodes.is_empty(), asked.chains.is_empty());
    !asked.nodes.is_empty()
}

#[test]
fn what_slices_of_a_changed_chain_leave_behind_is_gone_when_as_much_went_as_came() {
    let (mut world, chain, _) = world();
    (1..=2).for_each(|number| world.slice(number, chain, (number == 1).then_some(1)));
    world.rest();
    world.intent.chains.get_mut(&chain).unwrap().functions.pop();
    until_superseded(&mut world);
    let old = world.blueprint.ledger.paths.iter();
    let mut old = old.filter(|(_, p)| p.chain == chain && p.phase == PathPhase::Superseded);
    let old = *old.next().unwrap().0;

    let mut watch = SliceDrainWatch::default();
    assert!(watch.observe(&world.blueprint, &world.inventory, SOON) && is_counting(&watch));
    assert_eq!(watch.drained(&counted(&world, old, 9, 8), SOON), [], "one is on its way");
    let mut silent = counted(&world, old, 9, 9);
    silent.remove(&node(2));
    assert_eq!(watch.drained(&silent, SOON), [], "who does not answer may hold some");
    let gone = watch.drained(&counted(&world, old, 9, 9), SOON);
    assert!(!gone.is_empty(), "in a moment, not after the bound");
    assert!(world.blueprint.slices.superseded().all(|number| gone.contains(&number)));
    // What never comes back is waited for as long as any path.
    let late = SOON + DRAIN_WAIT_MAX;
    assert_eq!(watch.drained(&counted(&world, old, 9, 8), late), gone);
}

#[test]
fn while_others_use_the_hops_nothing_is_proved_by_counts() {
    let (mut world, chain, _) = world();
    (1..=2).for_each(|number| world.slice(number, chain, Some(1)));
    world.rest();
    world.intent.slices.remove(&slice_id(1));
    until_superseded(&mut world);
    let used = world.blueprint.ledger.paths.iter().find(|(_, path)| path.chain == chain);
    let used = *used.unwrap().0;
    let mut watch = SliceDrainWatch::default();
    assert!(watch.observe(&world.blueprint, &world.inventory, SOON) && !is_counting(&watch));
    let level = counted(&world, used, 9, 9);
    assert_eq!(watch.drained(&level, SOON), [], "what came later could stand in for one inside");
    assert_eq!(watch.drained(&level, SOON + DRAIN_WAIT_MAX).len(), 1);
}
