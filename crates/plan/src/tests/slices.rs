//! Slices, planned one by one: their steps, and that whatever order they come in they end as if they
//! had been planned at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::rig::{CUSTOMER, World, id, label, node, port_id, versions};
use crate::{Blueprint, PathPhase, SliceBook, SlicePhase, slice_status};
use catena_model::PathId;
use catena_model::entry::{Change, Entries};
use catena_model::id::{ChainId, FunctionId, PortId, SliceId};
use catena_model::program::SlicePolicy;
use catena_model::slice::{Slice, SlicePlace, Teid, TeidRange, TunnelId, Vni};
use catena_model::status::ChainState;
use catena_model::topology::NodeRole;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn slice_id(number: u32) -> SliceId {
    SliceId(id(9, number))
}

impl World {
    pub(crate) fn slice(&mut self, number: u32, chain: ChainId, source: Option<u32>) {
        self.begin(number, chain, source.map(|machine| port_id(machine, CUSTOMER)), None);
    }

    pub(crate) fn slice_after(&mut self, number: u32, chain: ChainId, before: ChainId) {
        self.begin(number, chain, None, Some(before));
    }

    pub(crate) fn begin(
        &mut self,
        number: u32,
        chain: ChainId,
        source_port: Option<PortId>,
        after: Option<ChainId>,
    ) {
        let slice = Slice {
            id: slice_id(number),
            label: label(format!("s{number}")),
            chain,
            source_port,
            after,
            tunnel_id: Some(TunnelId::Vni(Vni::new(7).unwrap())),
            teids: Some(TeidRange::one(Teid(number))),
            qfi: None,
            carries_metadata: false,
            policy: SlicePolicy::default(),
        };
        self.intent.slices.insert(slice.id, slice);
    }

    /// Nodes acknowledge everything, slices included.
    pub(crate) fn obey(&mut self) {
        for (name, facts) in &mut self.inventory.nodes {
            facts.acknowledged = self.blueprint.number_of(name);
        }
    }

    pub(crate) fn rest(&mut self) {
        for _ in 0..30 {
            self.obey();
            self.drain_all();
            self.inventory.slices_drained = self.blueprint.slices.superseded().collect();
            if self.plan() == 0 {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    fn state(&self, number: u32) -> ChainState {
        let slice = &self.intent.slices[&slice_id(number)];
        slice_status(&self.blueprint, &self.inventory, slice).state
    }

    fn table(&self, number: u32) -> Entries {
        slices_at(&self.blueprint, number)
    }

    fn path_of(&self, number: u32) -> Option<PathId> {
        let slice = &self.intent.slices[&slice_id(number)];
        slice_status(&self.blueprint, &self.inventory, slice).path
    }
}

/// Three nodes; sources on the first and second, functions on the second and third.
pub(crate) fn world() -> (World, ChainId, ChainId) {
    let mut world = World::new(3);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 2, &[CUSTOMER]);
    world.machine(3, 2, &[CUSTOMER]);
    world.machine(4, 3, &[CUSTOMER]);
    world.function(1, 3, CUSTOMER, CUSTOMER);
    world.function(2, 4, CUSTOMER, CUSTOMER);
    let first = world.chain(1, 1, &[1, 2]);
    let second = world.chain(2, 2, &[2]);
    world.rest();
    (world, first, second)
}

/// What each node knows, but for identifiers of paths and numbers.
fn meaning(world: &World) -> BTreeMap<u32, BTreeSet<(SliceId, String, usize)>> {
    let of = |number: u32| {
        let table = world.table(number);
        let hops = |path: PathId| {
            let like = table.slice_paths.get(&path).expect("a slice has its path").like;
            let program = &world.blueprint.program(&node(number)).unwrap();
            let path = program.paths.iter().find(|path| path.id == like);
            path.expect("the path that it is like is there").hops.len()
        };
        let mut known: BTreeSet<(SliceId, String, usize)> = BTreeSet::new();
        for entry in table.slices.values() {
            known.insert((entry.id, format!("{:?}", entry.matches), hops(entry.path)));
        }
        for path in table.slice_paths.values() {
            known.insert((path.slice, "path".into(), hops(path.id)));
        }
        known
    };
    (1..=3).map(|number| (number, of(number))).collect()
}

#[test]
fn hops_learn_the_path_of_a_slice_before_its_node_sends_into_it() {
    let (mut world, chain, _) = world();
    world.slice(1, chain, Some(1));
    assert!(world.plan() > 0);
    assert!(world.table(1) == Entries::default());
    assert_eq!((world.table(2).slice_paths.len(), world.table(3).slice_paths.len()), (1, 1));
    assert_eq!(world.state(1), ChainState::Building);
    world.acknowledge(2);
    world.inventory.nodes.get_mut(&node(2)).unwrap().acknowledged =
        world.blueprint.number_of(&node(2));
    assert_eq!(world.plan(), 0, "the other hop has not acknowledged");
    world.obey();
    assert_eq!(world.plan(), 1);
    assert_eq!(world.table(1).slices.len(), 1);
    assert_eq!(world.state(1), ChainState::Updating, "the classifier has not acknowledged");
    world.obey();
    assert_eq!(world.state(1), ChainState::Active);
    assert_eq!(world.plan(), 0);
    let path = world.path_of(1).unwrap();
    assert!(world.blueprint.ledger.paths.keys().all(|other| *other != path));
}

/// A chain may end elsewhere tomorrow: nothing of its slices changes then.
#[test]
fn a_slice_at_the_end_of_a_chain_is_known_wherever_that_chain_may_end() {
    let (mut world, first, second) = world();
    world.slice_after(1, second, first);
    world.rest();
    assert_eq!(world.state(1), ChainState::Active);
    let tables = |world: &World| (1..=3).map(|number| world.table(number)).collect::<Vec<_>>();
    let before = tables(&world);
    for table in &before {
        let places: Vec<SlicePlace> = table.slices.values().map(|s| s.matches.place).collect();
        assert_eq!(places, [SlicePlace::After(first)]);
    }
    // Without its last function the first chain ends at another node, on another path.
    let mut shorter = world.intent.chains[&first].clone();
    shorter.functions.truncate(1);
    world.intent.chains.insert(first, shorter);
    let paths = |world: &World| -> Vec<PathId> {
        let paths = world.blueprint.ledger.paths.iter();
        paths.filter(|(_, path)| path.chain == first).map(|(id, _)| *id).collect()
    };
    let old = paths(&world);
    world.rest();
    assert!(paths(&world).iter().all(|path| !old.contains(path)), "the chain has turned");
    assert!(before.iter().zip(&tables(&world)).all(|(before, now)| before == now));
    assert_eq!(world.state(1), ChainState::Active);
}

#[test]
fn a_chain_without_rules_is_carried_for_its_slices_and_goes_with_the_last() {
    let (mut world, chain, _) = world();
    let mut declared = world.intent.chains[&chain].clone();
    declared.rules.clear();
    world.intent.chains.insert(chain, declared);
    world.rest();
    assert!(world.blueprint.ledger.paths.values().all(|path| path.chain != chain));
    world.slice(1, chain, None);
    world.rest();
    assert_eq!(world.state(1), ChainState::Active);
    for number in 1..=3 {
        assert_eq!(world.table(number).slices.len(), 1, "node {number}");
    }
    world.intent.slices.remove(&slice_id(1));
    world.rest();
    assert!((1..=3).all(|number| world.table(number) == Entries::default()));
    assert!(world.blueprint.ledger.paths.values().all(|path| path.chain != chain));
    assert_eq!(world.blueprint.slices.paths().len(), 0);
}

#[test]
fn slices_of_a_chain_that_changes_turn_to_new_paths_and_the_old_ones_drain() {
    let (mut world, chain, _) = world();
    for number in 1..=3 {
        world.slice(number, chain, Some(1));
    }
    world.rest();
    let before: Vec<_> = (1..=3).map(|number| world.path_of(number).unwrap()).collect();
    let mut declared = world.intent.chains[&chain].clone();
    declared.functions.pop();
    world.intent.chains.insert(chain, declared);
    let (mut was_beside, mut steps) = (false, 0);
    loop {
        world.obey();
        world.drain_all();
        if world.plan() == 0 {
            let superseded: BTreeSet<_> = world.blueprint.slices.superseded().collect();
            if superseded.is_empty() {
                break;
            }
            was_beside = true;
            assert!(
                world
                    .blueprint
                    .ledger
                    .paths
                    .values()
                    .any(|path| { path.chain == chain && path.phase == PathPhase::Superseded }),
                "the chain's old path stays while slices share its hops"
            );
            world.inventory.slices_drained = superseded;
        }
        for number in 1..=3 {
            // Whoever classifies a slice knows its path, and the path that it is like.
            meaning(&world);
            assert_eq!(world.table(1).slices.len(), 3, "no slice is ever missing: {number}");
        }
        steps += 1;
        assert!(steps < 40);
    }
    assert!(was_beside);
    let after: Vec<_> = (1..=3).map(|number| world.path_of(number).unwrap()).collect();
    assert!(before.iter().all(|path| !after.contains(path)));
    world.rest();
    assert_eq!(world.blueprint.slices.paths().len(), 3);
    assert_eq!(world.blueprint.ledger.paths.values().filter(|p| p.chain == chain).count(), 1);
}

#[test]
fn a_slice_that_looks_otherwise_keeps_its_path() {
    let (mut world, chain, _) = world();
    world.slice(1, chain, Some(1));
    world.rest();
    let path = world.path_of(1);
    let mut slice = world.intent.slices[&slice_id(1)].clone();
    slice.teids = Some(TeidRange::one(Teid(77)));
    world.intent.slices.insert(slice.id, slice);
    assert_eq!(world.plan(), 1);
    assert_eq!(world.state(1), ChainState::Updating);
    world.obey();
    assert_eq!((world.state(1), world.path_of(1)), (ChainState::Active, path));
}

#[test]
fn what_is_written_down_of_slices_brings_back_what_nodes_run() {
    let (mut world, chain, other) = world();
    for number in 1..=40 {
        world.slice(number, if number % 2 == 0 { chain } else { other }, None);
    }
    world.plan();
    world.obey();
    world.plan();
    world.intent.slices.remove(&slice_id(3));
    world.plan();
    let mut blocks = BTreeMap::new();
    let mut former = SliceBook::default();
    for blueprint in &world.history {
        for (place, block) in blueprint.slices.blocks_since(&former, blueprint.number) {
            let text = serde_json::to_string(&block).unwrap();
            let read: crate::SliceBlock = serde_json::from_str(&text).unwrap();
            assert_eq!(read, block);
            blocks.insert(place, read);
        }
        former = blueprint.slices.clone();
    }
    let book = SliceBook::resume(blocks.into_values());
    let ledger = crate::Ledger::clone(&world.blueprint.ledger);
    let nodes: Vec<_> = world
        .inventory
        .nodes
        .iter()
        .map(|(name, facts)| (name.clone(), facts.place(NodeRole::Host)))
        .collect();
    let (number, told) = (world.blueprint.number, versions(&world.blueprint));
    let resume = |slices: &SliceBook| {
        let (ledger, nodes, told) = (ledger.clone(), nodes.clone(), told.clone());
        crate::Reconciler::resume(ledger, nodes, told).with_slices(slices.clone(), number)
    };
    let intent = world.intent.clone().into();
    let mut resumed = resume(&book);
    assert!(resumed.plan(&intent).is_none(), "nothing is to be told");
    resumed.converged(&intent);
    assert_eq!(resumed.blueprint().programs, world.blueprint.programs);
    // Who knows nothing of what nodes were told tells all of them everything.
    let told = BTreeMap::new();
    let unknowing = crate::Reconciler::resume(ledger.clone(), nodes.clone(), told);
    let mut unknowing = unknowing.with_slices(book, number);
    let planned = unknowing.plan(&intent).expect("programs are made anew");
    unknowing.adopt(planned);
    for (node, program) in unknowing.hand_out() {
        let known = world.blueprint.programs.get(&node).expect("a node");
        assert_eq!((program.number > known.number, program.digest), (true, known.digest), "{node}");
    }
}

#[test]
fn a_path_of_a_slice_has_an_identifier_that_no_other_has_had_for_long() {
    let (mut world, chain, _) = world();
    let mut seen: BTreeSet<PathId> = BTreeSet::new();
    for round in 0..40 {
        world.slice(round, chain, Some(1));
        world.rest();
        assert!(seen.insert(world.path_of(round).unwrap()), "round {round}");
        world.intent.slices.remove(&slice_id(round));
        world.rest();
    }
}

/// Where a slice begins.
#[derive(Clone, Debug)]
enum Begin {
    Anywhere,
    At(u32),
    BehindTheOther,
}

#[derive(Clone, Debug)]
enum Act {
    Put(u32, bool, Begin),
    Remove(u32),
    Shorten(bool),
    Lengthen(bool),
    Plan,
    Acknowledge(u32),
    Drain,
}

fn act() -> impl Strategy<Value = Act> {
    let begin = prop_oneof![
        Just(Begin::Anywhere),
        (1..=2u32).prop_map(Begin::At),
        Just(Begin::BehindTheOther)
    ];
    prop_oneof![
        6 => (0..8u32, any::<bool>(), begin).prop_map(|(n, c, b)| Act::Put(n, c, b)),
        3 => (0..8u32).prop_map(Act::Remove),
        1 => any::<bool>().prop_map(Act::Shorten),
        1 => any::<bool>().prop_map(Act::Lengthen),
        6 => Just(Act::Plan),
        6 => (1..=3u32).prop_map(Act::Acknowledge),
        2 => Just(Act::Drain),
    ]
}

fn carry_out(world: &mut World, act: &Act, chains: [ChainId; 2]) {
    let chain = |second: bool| if second { chains[1] } else { chains[0] };
    match act {
        Act::Put(number, second, begin) => match begin {
            Begin::Anywhere => world.slice(*number, chain(*second), None),
            Begin::At(machine) => world.slice(*number, chain(*second), Some(*machine)),
            Begin::BehindTheOther => world.slice_after(*number, chain(*second), chain(!*second)),
        },
        Act::Remove(number) => {
            world.intent.slices.remove(&slice_id(*number));
        }
        Act::Shorten(second) => {
            let mut declared = world.intent.chains[&chain(*second)].clone();
            declared.functions.truncate(1);
            world.intent.chains.insert(declared.id, declared);
        }
        Act::Lengthen(second) => {
            let mut declared = world.intent.chains[&chain(*second)].clone();
            declared.functions = [1, 2].map(|f| FunctionId(id(5, f))).to_vec();
            world.intent.chains.insert(declared.id, declared);
        }
        Act::Plan => {
            world.plan();
        }
        Act::Acknowledge(number) => {
            let running = world.blueprint.number_of(&node(*number));
            world.inventory.nodes.get_mut(&node(*number)).unwrap().acknowledged = running;
        }
        Act::Drain => {
            world.drain_all();
            world.inventory.slices_drained = world.blueprint.slices.superseded().collect();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_happens_nodes_are_never_told_of_what_they_do_not_know_and_all_ends_as_planned_at_once(
        acts in prop::collection::vec(act(), 0..80),
    ) {
        let (mut world, first, second) = world();
        for act in &acts {
            carry_out(&mut world, act, [first, second]);
            // Every slice of a node has its path, every path the one that it is like.
            meaning(&world);
        }
        world.rest();
        let (mut fresh, ..) = converged_anew(&world);
        fresh.rest();
        prop_assert_eq!(meaning(&world), meaning(&fresh));
        let phases = world.blueprint.slices.paths().map(|(_, path)| path.phase);
        prop_assert!(phases.into_iter().all(|phase| phase == SlicePhase::Classified));
        for number in world.intent.slices.keys() {
            let status =
                slice_status(&world.blueprint, &world.inventory, &world.intent.slices[number]);
            prop_assert_eq!(status.state, ChainState::Active);
        }
    }

    #[test]
    fn the_deltas_between_any_two_states_make_one_of_the_other(
        acts in prop::collection::vec(act(), 0..60),
    ) {
        let (mut world, first, second) = world();
        for act in &acts {
            carry_out(&mut world, act, [first, second]);
        }
        let states: Vec<Entries> =
            world.history.iter().map(|blueprint| slices_at(blueprint, 2)).collect();
        for (from, to) in states.iter().zip(states.iter().skip(3)) {
            let mut made = from.clone();
            let bytes: Vec<u8> = to.changes_since(from).flat_map(|change| change.bytes()).collect();
            for change in Change::read_all(&bytes, usize::MAX).unwrap() {
                made.edit(change).unwrap();
            }
            prop_assert!(made == *to);
        }
    }
}

/// What a node knows of slices.
fn slices_at(blueprint: &Blueprint, number: u32) -> Entries {
    let program = blueprint.programs.get(&node(number)).cloned().unwrap_or_default();
    let Entries { slices, slice_paths, .. } = program.entries;
    Entries { slices, slice_paths, ..Entries::default() }
}

/// The same declared world, planned from nothing.
fn converged_anew(world: &World) -> (World, ()) {
    let (mut fresh, ..) = self::world();
    fresh.intent = world.intent.clone();
    (fresh, ())
}
