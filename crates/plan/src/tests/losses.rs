//! What the receipt of a change says that links between lost, who know no path.
#![allow(clippy::unwrap_used)]

use super::changes::nothing;
use super::fabric::{Fabric, switch};
use super::rig::{World, node};
use super::source_routes::{routed_chain, world};
use crate::{Asked, Counted, DRAIN_WAIT_MAX, DrainWatch};
use catena_model::account::{Account, ChainCounters, PortCounters};
use catena_model::id::{ChainId, FunctionId};
use catena_model::losses::{LinkLoss, LinkLosses};
use catena_model::status::{DrainProof, DrainedPath};
use catena_model::topology::PortNumber;
use catena_model::{BlueprintNumber, DropReason, NodeCounters, NodeName, PathId, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A chain over source routes whose former path drains.
struct Draining {
    world: World,
    fabric: Fabric,
    chain: ChainId,
    drains: DrainWatch<Duration>,
    counters: Counted,
}

impl Draining {
    fn new() -> Self {
        let (mut world, fabric) = world();
        let chain = routed_chain(&mut world, 1, &[11, 12]);
        fabric.settle(&mut world);
        let nodes: Vec<NodeName> = world.inventory.all().map(|(node, ..)| node.clone()).collect();
        let mut draining =
            Self { world, fabric, chain, drains: DrainWatch::default(), counters: Counted::new() };
        for name in nodes {
            draining.counters.insert(name.clone(), draining.answer(name));
        }
        draining
    }

    /// With a line for each link.
    fn answer(&self, name: NodeName) -> NodeCounters {
        let book = &self.world.blueprint.ledger.port_numbers[&name];
        let links = book.links().map(|(interface, number)| PortCounters {
            port: number.link_id(),
            name: interface.to_owned(),
            account: Account::default(),
            transmitted: Volume::default(),
            created_by_function: 0,
            lost_in_function: 0,
            ring_full: 0,
            interface: None,
        });
        let links = links.collect();
        NodeCounters { links, ..NodeCounters::none(name, BlueprintNumber(1)) }
    }

    fn turn(&mut self) {
        let functions = [13].map(|number| FunctionId(super::rig::id(5, number)));
        self.world.intent.chains.get_mut(&self.chain).unwrap().functions = functions.to_vec();
        self.fabric.settle(&mut self.world);
    }

    fn asked(&mut self, now: Duration) -> Asked {
        self.drains.observe(&self.world.blueprint, &self.world.inventory, now);
        let mut asked = Asked::default();
        self.drains.ask(&mut asked);
        asked
    }

    /// Reads as the controller does: of those alone that are asked.
    fn read(&mut self, now: Duration) -> Vec<DrainedPath> {
        self.read_until(now, now)
    }

    /// The same, of a reading that takes its time.
    fn read_until(&mut self, from: Duration, until: Duration) -> Vec<DrainedPath> {
        let asked = self.asked(from);
        let of = asked.scope();
        let answers = self.counters.iter().filter(|(node, _)| asked.nodes.contains(node));
        let answers = answers.map(|(node, answer)| {
            let mut answer = answer.clone();
            answer.links.retain(|link| of.ports.contains(&link.port));
            (node.clone(), answer)
        });
        self.drains.drained(&answers.collect(), until)
    }

    fn lose(&mut self, at: &NodeName, reason: DropReason, packets: u64) -> String {
        let link = &mut self.counters.get_mut(at).unwrap().links[0];
        *link.account.dropped.entry(reason).or_default() += packets;
        link.name.clone()
    }

    /// One packet of the former path left its classifier and was not heard of again.
    fn send_one(&mut self) {
        let one = Volume { packets: 1, bytes: 100 };
        let sent =
            ChainCounters { entered: one, tunnelled_out: one, ..nothing(self.chain, PathId(1)) };
        self.counters.get_mut(&node(1)).unwrap().chains.push(sent);
    }
}

#[test]
fn links_between_are_asked_when_a_path_turns_and_when_its_bound_is_near() {
    let mut draining = Draining::new();
    draining.turn();
    let switches = |asked: &Asked| {
        (1..=4).map(switch).filter(|name| asked.nodes.contains(name)).collect::<BTreeSet<_>>()
    };
    let first = draining.asked(Duration::ZERO);
    let on_the_way = switches(&first);
    assert!(on_the_way.len() >= 3, "two leaves and a spine at least: {on_the_way:?}");
    assert!(first.links.contains(&PortNumber::new(1).unwrap()), "{:?}", first.links);
    draining.send_one();
    assert_eq!(draining.read(Duration::ZERO), []);
    let between = draining.asked(Duration::from_millis(100));
    assert_eq!((switches(&between).len(), between.links.len()), (0, 0), "nobody waits for them");
    let near = draining.asked(DRAIN_WAIT_MAX - Duration::from_millis(1));
    assert_eq!(switches(&near), on_the_way);
}

#[test]
fn a_change_under_which_links_lose_packets_ends_by_its_bound_and_names_them() {
    let mut draining = Draining::new();
    let way = &draining.world.blueprint.ledger.ways[&node(1)][&node(2)];
    let (leaf, spine) = (way[1].node.clone(), way[2].node.clone());
    draining.lose(&leaf, DropReason::LinkDead, 5);
    draining.turn();
    draining.send_one();
    assert_eq!(draining.read(Duration::ZERO), []);
    let link = draining.lose(&leaf, DropReason::LinkDead, 1);
    draining.counters.remove(&spine).unwrap();
    let drained = draining.read(DRAIN_WAIT_MAX);
    assert!(matches!(drained[0].proof, DrainProof::Bound { .. }), "{drained:?}");
    assert_eq!(drained[0].lost_between_nodes, 1);
    let dropped = BTreeMap::from([(DropReason::LinkDead, 1)]);
    let expected = LinkLosses {
        links: vec![LinkLoss { node: leaf, link, dropped, ring_full: 0 }],
        unknown_at: BTreeSet::from([spine]),
    };
    let told = drained[0].at_links.clone();
    assert_eq!(told, Some(expected), "what was lost before is not of this change");
}

#[test]
fn who_was_not_asked_or_began_anew_is_not_told_to_have_lost_nothing_or_all() {
    let mut draining = Draining::new();
    let way = &draining.world.blueprint.ledger.ways[&node(1)][&node(2)];
    let (leaf, spine) = (way[1].node.clone(), way[2].node.clone());
    for name in [&leaf, &spine] {
        draining.lose(name, DropReason::LinkDead, 7);
        draining.counters.get_mut(name).unwrap().dataplane.up_ms = 9_000;
    }
    draining.turn();
    draining.send_one();
    // The host misses the first reading, and the second asks no links.
    let host = draining.counters.remove(&node(1)).unwrap();
    assert_eq!(draining.read(Duration::ZERO), []);
    draining.counters.insert(node(1), host);
    draining.lose(&node(1), DropReason::RouteEnded, 3);
    assert_eq!(draining.read(Duration::from_millis(500)), []);
    draining.counters.get_mut(&spine).unwrap().dataplane.up_ms = 20;
    // A reading that was begun before the bound was near ends behind it.
    let early = DRAIN_WAIT_MAX - Duration::from_millis(900);
    assert_eq!(draining.read_until(early, DRAIN_WAIT_MAX), [], "it has asked no links");
    let losses = draining.read(DRAIN_WAIT_MAX)[0].at_links.clone().unwrap();
    assert_eq!(losses.links, [], "nothing that was before it is told");
    assert_eq!(losses.unknown_at, BTreeSet::from([node(1), spine]));
}

#[test]
fn losses_of_others_are_not_told_of_a_path_that_has_lost_none() {
    let mut draining = Draining::new();
    draining.turn();
    let way = &draining.world.blueprint.ledger.ways[&node(1)];
    let leaf = way.values().next().unwrap()[1].node.clone();
    draining.asked(Duration::ZERO);
    draining.lose(&leaf, DropReason::LinkDead, 9);
    let drained = draining.read(Duration::ZERO);
    assert_eq!(drained[0].proof, DrainProof::Counted);
    assert_eq!(drained[0].at_links, None);
}
