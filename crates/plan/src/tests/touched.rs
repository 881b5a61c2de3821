//! Whatever happens, in whatever order: who looks at what is touched alone plans as who looks at
//! everything, and programs that follow one change after the other are those made whole.

#![allow(clippy::unwrap_used)]

use super::index::{Write, apply, dangles, domain, tell, writes};
use super::oracle::assert_programs;
use super::rig::{CUSTOMER, INTERNAL, PROTOCOL, World, id, next, node, port_id, versions};
use super::stored::stored;
use crate::{IndexedIntent, News, NodeNews, Reconciler, SliceBlock, SliceBook, draining};
use catena_model::id::{InstanceId, NetworkId, PortId};
use catena_model::program::Underlay;
use catena_model::topology::{NodePlace, NodeRole};
use proptest::prelude::*;
use std::collections::BTreeMap;

const NODES: u32 = 3;

#[derive(Clone, Debug)]
enum Turn {
    /// Together, if they may be.
    Write(Vec<Write>),
    /// A node does what it was told.
    Acknowledge(u32),
    /// A node comes, from this end of the data network; it runs its program, or has lost all.
    Meet {
        node: u32,
        is_moved: bool,
        is_empty: bool,
        is_switch: bool,
    },
    Lose(u32),
    Forget(u32),
    /// Which of the ports of a node have an interface, as bits.
    Ports(u32, u8),
    /// Which interfaces of a node are links, as bits.
    Links(u32, u8),
    Drain,
    Unpin,
    Rewrite(u32),
    Restart,
}

/// Each with whether the planner gets its turn before the next comes.
fn turns() -> impl Strategy<Value = Vec<(Turn, bool)>> {
    let node = || 1..=NODES;
    let rarely = || prop::bool::weighted(0.1);
    let meet = (node(), rarely(), prop::bool::weighted(0.2), rarely());
    let turn = prop_oneof![
        8 => writes(4).prop_map(Turn::Write),
        8 => node().prop_map(Turn::Acknowledge),
        2 => meet.prop_map(|(node, is_moved, is_empty, is_switch)| {
            Turn::Meet { node, is_moved, is_empty, is_switch }
        }),
        1 => node().prop_map(Turn::Lose),
        1 => node().prop_map(Turn::Forget),
        4 => (node(), any::<u8>()).prop_map(|(node, bits)| Turn::Ports(node, bits | 0b1_0011)),
        2 => (node(), any::<u8>()).prop_map(|(node, bits)| Turn::Links(node, bits)),
        3 => Just(Turn::Drain),
        2 => Just(Turn::Unpin),
        1 => (0..5u32).prop_map(Turn::Rewrite),
        1 => Just(Turn::Restart),
    ];
    prop::collection::vec((turn, prop::bool::weighted(0.8)), 1..60)
}

struct Domain {
    indexed: IndexedIntent,
    reconciler: Reconciler,
    /// What was written down of slices.
    blocks: BTreeMap<u32, SliceBlock>,
}

impl Domain {
    /// Something of everything is declared, and every port has an interface.
    fn new() -> Self {
        let mut indexed = IndexedIntent::default();
        for (kind, number) in (0..=8u8).flat_map(|kind| (0..5).map(move |number| (kind, number))) {
            let dice = u64::from(number + 3) * 0x0123_4567_89ab + u64::from(kind);
            write(&mut indexed, &[Write { kind, number, is_removal: false, dice }]);
        }
        let mut domain = Self { indexed, reconciler: domain(NODES), blocks: BTreeMap::new() };
        for number in 1..=NODES {
            domain.take(&Turn::Ports(number, u8::MAX));
        }
        domain.plan();
        domain
    }

    fn news(&mut self, news: News) {
        let _ = self.reconciler.accept(news);
    }

    fn take(&mut self, turn: &Turn) {
        match *turn {
            Turn::Write(ref writes) => write(&mut self.indexed, writes),
            Turn::Acknowledge(number) => {
                let told = self.reconciler.blueprint().number_of(&node(number));
                tell(&mut self.reconciler, number, NodeNews::Acknowledged(told));
            }
            Turn::Meet { node: number, is_moved, is_empty, is_switch } => {
                let last = if is_moved { number as u8 + 100 } else { number as u8 };
                let underlay = Underlay { address: [192, 0, 2, last].into(), mtu: 1_500 };
                let facts = self.reconciler.inventory().facts(&node(number));
                let known = facts.map(|facts| facts.acknowledged).unwrap_or_default();
                let running = if is_empty { catena_model::BlueprintNumber(0) } else { known };
                let role = if is_switch { NodeRole::Switch } else { NodeRole::Host };
                let place = NodePlace {
                    underlay,
                    role,
                    protocol: PROTOCOL,
                    is_edge: false,
                    segments: None,
                };
                tell(&mut self.reconciler, number, NodeNews::Met { place, running });
            }
            Turn::Lose(number) => tell(&mut self.reconciler, number, NodeNews::Lost),
            Turn::Forget(number) => self.news(News::Forgotten(node(number))),
            Turn::Ports(number, bits) => {
                let has = |place: &u32| bits >> place & 1 == 1;
                let bound = (0..5).filter(has).map(|place| PortId(id(3, place))).collect();
                let unbound = (0..5).filter(|place| !has(place));
                let unbound = unbound.map(|place| (PortId(id(3, place)), "gone".into())).collect();
                tell(&mut self.reconciler, number, NodeNews::Ports { bound, unbound });
            }
            Turn::Links(number, bits) => {
                let links = (0..8).filter(|place| bits >> place & 1 == 1);
                let links = links.map(|place| format!("eth{place}")).collect();
                tell(&mut self.reconciler, number, NodeNews::Links(links));
            }
            Turn::Drain => {
                let blueprint = self.reconciler.blueprint().clone();
                draining(&blueprint).into_iter().for_each(|id| self.news(News::Drained(id)));
                let superseded: Vec<_> = blueprint.slices.superseded().collect();
                superseded.into_iter().for_each(|number| self.news(News::SlicesDrained(number)));
            }
            Turn::Unpin => {
                let superseded = draining(self.reconciler.blueprint());
                superseded.into_iter().for_each(|id| self.news(News::Unpinned(id)));
            }
            Turn::Rewrite(number) => self.news(News::Rewrites(InstanceId(id(4, number)))),
            Turn::Restart => {
                let blueprint = self.reconciler.blueprint();
                let (ledger, number) = (stored(&blueprint.ledger), blueprint.number);
                let told = versions(blueprint);
                let nodes = self.reconciler.inventory().all();
                let nodes = nodes.map(|(name, role, facts)| (name.clone(), facts.place(role)));
                let resumed = Reconciler::resume(ledger, nodes.collect::<Vec<_>>(), told);
                let book = SliceBook::resume(self.blocks.values().cloned());
                self.reconciler = resumed.with_slices(book, number);
            }
        }
    }

    /// Plans until nothing changes, each step both ways.
    fn plan(&mut self) {
        let Self { indexed, reconciler, blocks } = self;
        let mut wanted = reconciler.blueprint().as_ref().clone();
        while let Some(following) = next(&wanted, indexed, reconciler.inventory()) {
            assert_programs(&following, indexed, reconciler.inventory());
            wanted = following;
        }
        if let Some(planned) = reconciler.plan(indexed) {
            blocks.extend(planned.slice_blocks(reconciler.blueprint()));
            reconciler.adopt(planned);
        }
        assert_eq!(reconciler.blueprint().number, wanted.number);
        assert!(reconciler.plan(indexed).is_none());
        reconciler.converged(indexed);
    }
}

/// Makes changes, all of them or none.
fn write(indexed: &mut IndexedIntent, writes: &[Write]) {
    let mut draft = indexed.clone();
    writes.iter().for_each(|write| apply(&mut draft, write));
    if draft.check().is_ok() && !dangles(&draft) {
        *indexed = draft;
    }
}

fn cases() -> u32 {
    // A hundred thousand turns; ten millions in the long form.
    if std::env::var("CATENA_FULL").is_ok_and(|full| full == "1") { 350_000 } else { 3_500 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn what_is_touched_is_all_that_matters(turns in turns()) {
        let mut domain = Domain::new();
        for (turn, is_planned) in &turns {
            domain.take(turn);
            if *is_planned {
                domain.plan();
            }
        }
        domain.plan();
    }
}

/// A chain over two functions of the first two nodes, in force.
fn carried() -> World {
    let mut world = World::new(2);
    world.machine(1, 1, &[CUSTOMER]);
    for number in [11, 12] {
        world.machine(number, number - 10, &[CUSTOMER, INTERNAL]);
        world.function(number, number, CUSTOMER, INTERNAL);
    }
    world.chain(1, 1, &[11, 12]);
    world.settle();
    world
}

#[test]
fn an_instance_that_changes_gives_its_chain_another_path() {
    let mut world = carried();
    world.intent.instances.get_mut(&InstanceId(id(4, 12))).unwrap().weight = 7;
    assert_eq!(world.plan(), 1);
    assert_eq!(world.known(1).len(), 2);
}

#[test]
fn a_port_that_a_draining_path_needs_goes_and_comes_with_its_network() {
    let mut world = carried();
    world.intent.chains = crate::Table::new();
    world.intent.functions = crate::Table::new();
    world.intent.instances = crate::Table::new();
    let source = port_id(1, CUSTOMER);
    world.intent.ports = [(source, world.intent.ports[&source].clone())].into_iter().collect();
    let network = NetworkId(id(1, INTERNAL));
    let ports_after = |world: &mut World| {
        world.plan();
        assert_programs(&world.blueprint, &world.intent, &world.inventory);
        world.blueprint.program(&node(2)).unwrap().ports.len()
    };
    assert_eq!(ports_after(&mut world), 2, "packets inside still need both");
    let declared = world.intent.networks.remove(&network).unwrap();
    assert_eq!(ports_after(&mut world), 1);
    world.intent.networks.insert(network, declared);
    assert_eq!(ports_after(&mut world), 2);
}
