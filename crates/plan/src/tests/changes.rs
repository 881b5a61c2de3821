//! When a change of a chain is over, and what its receipt says of the packets on the old path.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, World, id, node, port_id};
use crate::{Asked, Changes, Counted, DRAIN_WAIT_MAX, DrainWatch, PIN_WAIT_MAX};
use catena_model::id::{ChainId, FunctionId, InstanceId, RuleId};
use catena_model::limits::{DRAIN_WAIT_MAX_MS, PIN_WAIT_MAX_MS};
use catena_model::service_time::ServiceTime;
use catena_model::sojourn_time::SojournTime;
use catena_model::status::{DrainProof, DrainedPath, Receipt};
use catena_model::{
    BlueprintNumber, ChainCounters, DropReason, HopCounters, NodeCounters, PathId, Volume,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A world whose changes are watched; its clock moves by hand.
struct Watched {
    world: World,
    chain: ChainId,
    drains: DrainWatch<Duration>,
    changes: Changes<Duration>,
    now: Duration,
    /// What the nodes would answer.
    counters: Counted,
    receipts: Vec<Receipt>,
}

fn packets(packets: u64) -> Volume {
    Volume { packets, bytes: packets * 100 }
}

impl Watched {
    /// m1 on host1; v11 on host1, v12 on host2, v13 (a tap) on host3; a chain over v11 and v12.
    fn new() -> Self {
        let mut world = World::new(3);
        world.machine(1, 1, &[CUSTOMER]);
        for (function, host) in [(11, 1), (12, 2), (13, 3)] {
            world.machine(function, host, &[CUSTOMER]);
            world.function(function, function, CUSTOMER, CUSTOMER);
        }
        world.intent.functions.get_mut(&FunctionId(id(5, 13))).unwrap().is_tap = true;
        let mut watched = Self {
            world,
            chain: ChainId(id(7, 1)),
            drains: DrainWatch::default(),
            changes: Changes::default(),
            now: Duration::ZERO,
            counters: BTreeMap::new(),
            receipts: Vec::new(),
        };
        for host in 1..=3 {
            watched.counters.insert(node(host), answer(host));
        }
        watched.world.settle();
        watched.look();
        watched.world.chain(1, 1, &[11, 12]);
        watched
    }

    fn over(&mut self, functions: &[u32]) {
        let ids = functions.iter().map(|function| FunctionId(id(5, *function)));
        let chain = self.world.intent.chains.get_mut(&self.chain).unwrap();
        chain.functions = ids.collect();
    }

    fn at(&mut self, host: u32, path: u32) -> &mut ChainCounters {
        let chain = self.chain;
        let chains = &mut self.counters.get_mut(&node(host)).unwrap().chains;
        let path = PathId(path);
        let place = chains.iter().position(|counted| counted.path == path);
        let place = place.unwrap_or_else(|| {
            chains.push(nothing(chain, path));
            chains.len() - 1
        });
        &mut chains[place]
    }

    fn look(&mut self) -> bool {
        let World { blueprint, inventory, .. } = &self.world;
        self.receipts.extend(self.changes.observe(blueprint, inventory, self.now));
        self.drains.observe(blueprint, inventory, self.now)
    }

    /// Plans and acknowledges until nothing moves but packets, and looks at each step.
    fn settle(&mut self) {
        for _ in 0..10 {
            self.look();
            if self.world.plan() == 0 {
                return;
            }
            self.look();
            self.world.acknowledge_all();
        }
        panic!("the world does not come to rest");
    }

    /// Reads the counters once and tells the planner.
    fn read(&mut self) -> Vec<DrainedPath> {
        self.look();
        let unpinned = self.drains.unpinned(&self.counters, self.now);
        self.world.inventory.unpinned.extend(unpinned);
        let drained = self.drains.drained(&self.counters, self.now);
        for path in &drained {
            self.changes.note(path);
            self.world.inventory.drained.insert(path.path);
        }
        self.settle();
        drained
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }
}

pub(super) fn nothing(chain: ChainId, path: PathId) -> ChainCounters {
    ChainCounters {
        chain,
        path,
        entered: packets(0),
        finished: packets(0),
        tapped: packets(0),
        is_partial: false,
        pinned_flows: 0,
        tunnelled_out: packets(0),
        tunnelled_in: packets(0),
        dropped: BTreeMap::new(),
        hops: Vec::new(),
    }
}

fn hop(place: u16, instance: u32, delivered: u64, returned: u64) -> HopCounters {
    HopCounters {
        member: 0,
        hop: place,
        instance: InstanceId(id(4, instance)),
        name: format!("i{instance}"),
        delivered: packets(delivered),
        returned: packets(returned),
        rewritten: 0,
        ambiguous: 0,
        bypassed: Volume::default(),
        denied: 0,
        generated: 0,
        service_time: ServiceTime::default(),
        sojourn_time: SojournTime::default(),
    }
}

fn answer(host: u32) -> NodeCounters {
    NodeCounters::none(node(host), BlueprintNumber(1))
}

#[test]
fn only_the_nodes_of_a_draining_path_are_asked_and_of_its_chain_alone() {
    let mut watched = Watched::new();
    let asked = |watched: &Watched| {
        let mut asked = Asked::default();
        watched.drains.ask(&mut asked);
        asked
    };
    watched.settle();
    watched.world.machine(2, 3, &[CUSTOMER]);
    watched.world.chain(2, 2, &[11]);
    watched.settle();
    assert_eq!(asked(&watched), Asked::default(), "nobody, where nothing drains");
    watched.over(&[11]);
    watched.settle();
    assert!(watched.look());
    let expected = Asked {
        nodes: [node(1), node(2)].into(),
        chains: [watched.chain].into(),
        links: BTreeSet::new(),
    };
    assert_eq!(asked(&watched), expected);
    watched.read();
    assert_eq!(asked(&watched), Asked::default(), "its path is gone");
}

#[test]
fn a_path_that_nodes_still_turn_away_from_is_asked_for_whenever_anything_is() {
    let mut watched = Watched::new();
    watched.settle();
    watched.over(&[11]);
    // The new path is known, and the classifier has still to turn.
    watched.world.plan();
    watched.world.acknowledge_all();
    watched.world.plan();
    assert!(watched.look(), "once, to compare with later");
    let _ = watched.drains.drained(&watched.counters, watched.now);
    assert!(!watched.look(), "nothing is due");
    let mut asked = Asked::default();
    watched.drains.ask(&mut asked);
    assert!(asked.chains.contains(&watched.chain), "but what is read must hold it");
}

#[test]
fn a_new_chain_has_a_receipt_without_paths_of_before() {
    let mut watched = Watched::new();
    watched.look();
    watched.world.plan();
    watched.look();
    watched.wait(Duration::from_millis(30));
    watched.settle();
    watched.world.acknowledge_all();
    watched.settle();
    assert_eq!(watched.receipts.len(), 1);
    let receipt = &watched.receipts[0];
    assert_eq!((receipt.paths.as_slice(), receipt.drained.len()), (&[PathId(1)][..], 0));
    assert_eq!((receipt.name.as_str(), receipt.took_ms), ("c1", 30));
    let since = watched.world.blueprint.ledger.paths[&PathId(1)].since;
    assert_eq!(receipt.blueprint, since, "the blueprint that turned the classifiers");
}

#[test]
fn an_update_is_over_when_what_entered_the_old_path_has_left_it() {
    let mut watched = Watched::new();
    watched.settle();
    *watched.at(1, 1) = ChainCounters { entered: packets(9), ..nothing(watched.chain, PathId(1)) };
    watched.at(2, 1).finished = packets(6);
    watched.over(&[12, 11]);
    watched.settle();
    assert_eq!(watched.read(), [], "three packets are still on it");
    assert_eq!(watched.receipts.len(), 1, "the creation's");
    watched.at(2, 1).finished = packets(8);
    watched.at(2, 1).dropped.insert(DropReason::NoPath, 1);
    watched.wait(Duration::from_millis(10));
    let drained = watched.read();
    assert_eq!(drained.len(), 1);
    let expected = DrainedPath {
        path: PathId(1),
        proof: DrainProof::Counted,
        in_flight: 3,
        pinned_flows: 0,
        moved_flows: 0,
        lost_in_function: 0,
        lost_between_nodes: 0,
        dropped: BTreeMap::from([(DropReason::NoPath, 1)]),
        ambiguous: 0,
        at_links: None,
    };
    assert_eq!(drained[0], expected);
    let receipt = watched.receipts.last().unwrap();
    assert_eq!(
        (receipt.drained.as_slice(), receipt.paths.as_slice()),
        (&[expected][..], &[PathId(2)][..])
    );
    assert_eq!(watched.world.known(1), [PathId(2)]);
}

#[test]
fn copies_for_taps_are_over_when_the_taps_have_them() {
    let mut watched = Watched::new();
    watched.over(&[11, 13, 12]);
    watched.settle();
    let counted = watched.at(1, 1);
    counted.entered = packets(5);
    counted.tapped = packets(5);
    counted.hops = vec![hop(0, 11, 5, 5)];
    watched.at(2, 1).finished = packets(5);
    watched.at(3, 1).hops = vec![hop(1, 13, 4, 0)];
    watched.over(&[11, 12]);
    watched.settle();
    assert_eq!(watched.read(), [], "a copy is on its way");
    watched.at(3, 1).hops = vec![hop(1, 13, 5, 0)];
    assert_eq!(watched.read()[0].proof, DrainProof::Counted);
}

#[test]
fn what_a_function_or_the_network_keeps_beyond_the_bound_is_told_as_lost() {
    let mut watched = Watched::new();
    watched.settle();
    let counted = watched.at(1, 1);
    counted.entered = packets(10);
    counted.hops = vec![hop(0, 11, 10, 8)];
    counted.tunnelled_out = packets(8);
    watched.at(2, 1).tunnelled_in = packets(7);
    watched.at(2, 1).hops = vec![hop(1, 12, 7, 7)];
    watched.at(2, 1).finished = packets(7);
    watched.over(&[12]);
    watched.settle();
    assert_eq!(watched.read(), []);
    watched.wait(DRAIN_WAIT_MAX - Duration::from_millis(1));
    assert_eq!(watched.read(), []);
    watched.wait(Duration::from_millis(1));
    let drained = watched.read();
    assert_eq!(drained[0].proof, DrainProof::Bound { after_ms: DRAIN_WAIT_MAX_MS });
    assert_eq!((drained[0].in_flight, drained[0].lost_in_function), (3, 2));
    assert_eq!(drained[0].lost_between_nodes, 1);
    assert_eq!(watched.receipts.last().unwrap().took_ms, DRAIN_WAIT_MAX_MS);
}

#[test]
fn a_path_is_not_empty_while_a_node_of_it_is_silent() {
    let mut watched = Watched::new();
    watched.settle();
    watched.over(&[11]);
    watched.settle();
    let silent = watched.counters.remove(&node(2)).unwrap();
    assert_eq!(watched.read(), [], "host2 may hold some");
    watched.counters.insert(node(2), silent);
    assert_eq!(watched.read()[0].proof, DrainProof::Counted);
}

#[test]
fn what_a_node_counted_that_has_the_path_no_more_is_not_taken_for_nothing() {
    let mut watched = Watched::new();
    watched.world.machine(2, 3, &[CUSTOMER]);
    watched.over(&[12]);
    watched.settle();
    let rule = watched.world.intent.rules.get_mut(&RuleId(id(6, 1))).unwrap();
    rule.source_port = Some(port_id(2, CUSTOMER));
    watched.settle();
    assert!(watched.world.known(1).is_empty(), "it classifies no more, and has forgotten the path");
    watched.over(&[11]);
    watched.settle();
    assert_eq!(watched.read(), [], "what host1 has sent into it may still be inside");
    watched.wait(DRAIN_WAIT_MAX);
    let drained = watched.read();
    assert_eq!(drained[0].proof, DrainProof::Bound { after_ms: DRAIN_WAIT_MAX_MS });
}

#[test]
fn flows_that_stay_are_waited_for_and_told() {
    let mut watched = Watched::new();
    watched.settle();
    watched.world.inventory.rewriting.insert(InstanceId(id(4, 11)));
    watched.at(1, 1).pinned_flows = 2;
    watched.over(&[11]);
    watched.settle();
    watched.wait(DRAIN_WAIT_MAX * 2);
    assert_eq!(watched.read(), [], "the bound of the drain does not run while flows stay");
    watched.at(1, 1).pinned_flows = 0;
    watched.read();
    let drained = watched.read();
    assert_eq!((drained[0].proof, drained[0].pinned_flows), (DrainProof::Counted, 2));
    assert_eq!(drained[0].moved_flows, 0);
}

#[test]
fn flows_that_never_end_are_moved_when_their_bound_has_passed() {
    let mut watched = Watched::new();
    watched.settle();
    watched.world.inventory.rewriting.insert(InstanceId(id(4, 11)));
    watched.at(1, 1).pinned_flows = 2;
    watched.over(&[11]);
    watched.settle();
    watched.read();
    watched.wait(PIN_WAIT_MAX);
    assert_eq!(watched.read(), []);
    let drained = watched.read();
    assert_eq!((drained[0].pinned_flows, drained[0].moved_flows), (2, 2));
    let took = watched.receipts.last().unwrap().took_ms;
    assert_eq!(took, PIN_WAIT_MAX_MS);
}

#[test]
fn a_deleted_chain_has_a_receipt_and_a_restarted_watch_repeats_none() {
    let mut watched = Watched::new();
    watched.settle();
    watched.receipts.clear();
    watched.changes = Changes::default();
    watched.look();
    watched.look();
    assert!(watched.receipts.is_empty(), "what was settled before is no change");
    watched.world.intent.chains.clear();
    watched.settle();
    watched.read();
    assert_eq!(watched.receipts.len(), 1);
    assert!(watched.receipts[0].paths.is_empty());
    assert_eq!(watched.receipts[0].drained[0].path, PathId(1));
}

#[test]
fn an_instance_that_gave_back_other_bytes_is_known_by_name() {
    let mut watched = Watched::new();
    let mut seen = hop(0, 11, 5, 5);
    watched.at(1, 1).hops = vec![hop(0, 12, 5, 5), seen.clone()];
    assert!(crate::rewriting(&watched.counters).is_empty());
    seen.rewritten = 1;
    watched.at(1, 1).hops = vec![hop(0, 12, 5, 5), seen];
    let found: Vec<InstanceId> = crate::rewriting(&watched.counters).into_iter().collect();
    assert_eq!(found, [InstanceId(id(4, 11))]);
}

#[test]
fn nothing_is_proved_by_a_data_plane_that_counted_only_a_part() {
    let mut watched = Watched::new();
    watched.settle();
    watched.at(1, 1).is_partial = true;
    watched.over(&[12]);
    watched.settle();
    assert_eq!(watched.read(), [], "zeros that began when another had counted");
    watched.at(1, 1).is_partial = false;
    assert_eq!(watched.read()[0].proof, DrainProof::Counted);
}
