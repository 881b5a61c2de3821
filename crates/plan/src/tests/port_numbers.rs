//! The numbers of links, and the identities of nodes: none stands for two while a packet may carry it, or be
//! read by it.
#![allow(clippy::unwrap_used)]

use super::index::{domain, tell};
use super::oracle::assert_programs;
use super::rig::{next, node, versions};
use super::stored::stored;
use crate::{Blueprint, IndexedIntent, Inventory, NodeNews, Reconciler};
use catena_model::limits::{NODE_LINKS_MAX, NODE_ROUTE_IDENTITIES, PATH_ID_QUARANTINE_BLUEPRINTS};
use catena_model::program::{ExitPlace, NodeIdentity};
use catena_model::topology::{NodePlace, PortNumber};
use catena_model::{BlueprintNumber, NodeName};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const NODES: u32 = 2;

#[derive(Clone, Debug)]
enum Turn {
    /// These of ten interfaces are links, as bits.
    Links(u32, u16),
    Acknowledge(u32),
    Restart,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let node = || 1..=NODES;
    let turn = prop_oneof![
        8 => (node(), any::<u16>()).prop_map(|(node, bits)| Turn::Links(node, bits & 0x3ff)),
        6 => node().prop_map(Turn::Acknowledge),
        1 => Just(Turn::Restart),
    ];
    prop::collection::vec(turn, 1..150)
}

/// Who had a number last, and what must come before another has it.
struct Last {
    interface: String,
    /// The blueprint that took it away, if one has.
    gone: Option<BlueprintNumber>,
}

#[derive(Default)]
struct Witness {
    lasts: BTreeMap<(NodeName, PortNumber), Last>,
    /// Whose each identity was last, and the blueprint that took it away, if one has.
    identities: BTreeMap<NodeIdentity, (NodeName, Option<BlueprintNumber>)>,
    /// The newest program that each node has ever acknowledged.
    acknowledged: BTreeMap<NodeName, BlueprintNumber>,
}

impl Witness {
    /// Looks at what nodes are told by the blueprint that follows.
    fn see(&mut self, blueprint: &Blueprint, inventory: &Inventory) {
        for (name, _, facts) in inventory.all() {
            let known = self.acknowledged.entry(name.clone()).or_default();
            *known = facts.acknowledged.max(*known);
        }
        self.see_identities(blueprint);
        for (name, program) in blueprint.programs.iter() {
            let mut interfaces = BTreeSet::new();
            let exits = &program.entries.exits;
            for (number, exit) in exits {
                let ExitPlace::Link(interface) = &exit.to else { panic!("{exit:?}") };
                assert!(interfaces.insert(interface), "{interface} has two numbers");
                let key = (name.clone(), *number);
                if let Some(last) = self.lasts.get(&key).filter(|last| last.interface != *interface)
                {
                    let gone = last.gone.expect("it was taken away before it was given");
                    let rest = blueprint.number.0 - gone.0;
                    assert!(rest >= PATH_ID_QUARANTINE_BLUEPRINTS, "{number} after {rest}");
                    assert!(self.acknowledged[name] >= gone, "{number}");
                }
                self.lasts.insert(key, Last { interface: interface.clone(), gone: None });
            }
            for ((other, number), last) in &mut self.lasts {
                if other == name && !exits.contains_key(number) {
                    last.gone = last.gone.or(Some(blueprint.number));
                }
            }
        }
    }

    /// The same of identities: each node with a link has two, and nobody else has them.
    fn see_identities(&mut self, blueprint: &Blueprint) {
        let number = blueprint.number;
        let mut held = BTreeSet::new();
        for (name, program) in blueprint.programs.iter() {
            let own = program.entries.identities.values();
            let own: Vec<NodeIdentity> = own.map(|entry| entry.identity).collect();
            let has_links = !program.entries.exits.is_empty();
            assert_eq!(own.len(), if has_links { NODE_ROUTE_IDENTITIES } else { 0 }, "{name}");
            for identity in own {
                assert!(held.insert(identity), "{identity:?} is two nodes'");
                assert!(identity.polynomial().is_some());
                let last = self.identities.insert(identity, (name.clone(), None));
                let Some((other, gone)) = last.filter(|(last, _)| last != name) else { continue };
                let gone = gone.expect("it was taken away before it was given");
                assert!(number.0 - gone.0 >= PATH_ID_QUARANTINE_BLUEPRINTS, "{identity:?}");
                assert!(self.acknowledged[&other] >= gone, "{identity:?}");
            }
        }
        for (identity, (_, gone)) in &mut self.identities {
            *gone = gone.or(Some(number)).filter(|_| !held.contains(identity));
        }
    }
}

fn links(bits: u16) -> BTreeSet<String> {
    (0..10).filter(|place| bits >> place & 1 == 1).map(|place| format!("eth{place}")).collect()
}

fn plan(reconciler: &mut Reconciler, intent: &IndexedIntent, witness: &mut Witness) {
    let mut wanted = reconciler.blueprint().as_ref().clone();
    while let Some(following) = next(&wanted, intent, reconciler.inventory()) {
        assert_programs(&following, intent, reconciler.inventory());
        witness.see(&following, reconciler.inventory());
        wanted = following;
    }
    if let Some(planned) = reconciler.plan(intent) {
        reconciler.adopt(planned);
    }
    assert_eq!(reconciler.blueprint().number, wanted.number);
    reconciler.converged(intent);
}

fn restarted(reconciler: &Reconciler) -> Reconciler {
    let blueprint = reconciler.blueprint();
    let nodes = reconciler.inventory().all();
    let nodes = nodes.map(|(name, role, facts)| (name.clone(), facts.place(role)));
    Reconciler::resume(stored(&blueprint.ledger), nodes.collect::<Vec<_>>(), versions(blueprint))
}

fn acknowledge(reconciler: &mut Reconciler, number: u32) {
    let told = reconciler.blueprint().number_of(&node(number));
    tell(reconciler, number, NodeNews::Acknowledged(told));
}

fn exits(reconciler: &Reconciler, number: u32) -> BTreeMap<String, u8> {
    let program = reconciler.blueprint().program(&node(number)).unwrap();
    let link = |exit: &catena_model::program::ExitEntry| {
        (exit.link().unwrap().to_owned(), exit.number.get())
    };
    program.exits.iter().map(link).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_number_stands_for_one_interface_while_packets_may_carry_it(turns in turns()) {
        let (mut reconciler, intent) = (domain(NODES), IndexedIntent::default());
        let mut witness = Witness::default();
        let mut last = BTreeMap::new();
        for turn in turns {
            match turn {
                Turn::Links(number, bits) => {
                    tell(&mut reconciler, number, NodeNews::Links(links(bits)));
                    last.insert(number, links(bits));
                }
                Turn::Acknowledge(number) => acknowledge(&mut reconciler, number),
                Turn::Restart => reconciler = restarted(&reconciler),
            }
            plan(&mut reconciler, &intent, &mut witness);
        }
        for (number, links) in last {
            let numbered = exits(&reconciler, number).into_keys().collect::<BTreeSet<_>>();
            assert_eq!(numbered, links, "255 are enough for all");
        }
    }
}

#[test]
fn an_interface_that_comes_back_has_its_number_again_also_from_another_controller() {
    let (mut reconciler, intent) = (domain(1), IndexedIntent::default());
    tell(&mut reconciler, 1, NodeNews::Links(links(0b111)));
    plan(&mut reconciler, &intent, &mut Witness::default());
    let all = BTreeMap::from([("eth0".into(), 1), ("eth1".into(), 2), ("eth2".into(), 3)]);
    assert_eq!(exits(&reconciler, 1), all);
    tell(&mut reconciler, 1, NodeNews::Links(links(0b101)));
    plan(&mut reconciler, &intent, &mut Witness::default());
    assert_eq!(exits(&reconciler, 1).len(), 2);
    reconciler = restarted(&reconciler);
    plan(&mut reconciler, &intent, &mut Witness::default());
    assert_eq!(exits(&reconciler, 1).len(), 2, "who has not spoken yet keeps what it has");
    tell(&mut reconciler, 1, NodeNews::Links(links(0b1111)));
    plan(&mut reconciler, &intent, &mut Witness::default());
    assert_eq!(
        exits(&reconciler, 1),
        BTreeMap::from_iter(all.into_iter().chain([("eth3".into(), 4)]))
    );
}

#[test]
fn the_link_after_the_last_number_is_refused_by_name_and_served_when_one_is_free() {
    let (mut reconciler, intent) = (domain(1), IndexedIntent::default());
    let many = |from: usize, to: usize| -> BTreeSet<String> {
        (from..to).map(|place| format!("eth{place:03}")).collect()
    };
    tell(&mut reconciler, 1, NodeNews::Links(many(0, NODE_LINKS_MAX + 1)));
    plan(&mut reconciler, &intent, &mut Witness::default());
    let book = |reconciler: &Reconciler| {
        reconciler.blueprint().ledger.port_numbers[&node(1)].as_ref().clone()
    };
    let last = format!("eth{NODE_LINKS_MAX:03}");
    assert_eq!((book(&reconciler).of(&last), exits(&reconciler, 1).len()), (None, NODE_LINKS_MAX));
    let why = book(&reconciler).why_none(&node(1), &last);
    assert!(why.contains("'eth255' of node 'host1'") && why.contains("255 ports"), "{why}");

    // One goes, and its number rests.
    tell(&mut reconciler, 1, NodeNews::Links(many(1, NODE_LINKS_MAX + 1)));
    for turn in 0..2 * PATH_ID_QUARANTINE_BLUEPRINTS {
        plan(&mut reconciler, &intent, &mut Witness::default());
        acknowledge(&mut reconciler, 1);
        let is_served = book(&reconciler).of(&last).is_some();
        assert_eq!(is_served, turn + 1 >= PATH_ID_QUARANTINE_BLUEPRINTS, "{turn}");
        // Something else happens: blueprints are what is counted in.
        let other = if turn % 2 == 0 { links(0) } else { links(1) };
        tell(
            &mut reconciler,
            2,
            NodeNews::Met {
                place: NodePlace::host(catena_model::program::Underlay {
                    address: [192, 0, 2, 2].into(),
                    mtu: 1_500,
                }),
                running: BlueprintNumber(0),
            },
        );
        tell(&mut reconciler, 2, NodeNews::Links(other));
    }
    assert_eq!(book(&reconciler).of(&last).unwrap().get(), 1, "that of eth000");
}

#[test]
fn a_node_keeps_its_identities_and_who_comes_instead_waits_for_them() {
    let (mut reconciler, intent) = (domain(2), IndexedIntent::default());
    let mut witness = Witness::default();
    let mut own = |reconciler: &mut Reconciler, number: u32, bits: u16| {
        tell(reconciler, number, NodeNews::Links(links(bits)));
        plan(reconciler, &intent, &mut witness);
        acknowledge(reconciler, number);
        let program = reconciler.blueprint().program(&node(number)).unwrap();
        program.identities.iter().map(|entry| entry.identity).collect::<Vec<_>>()
    };
    let all = NodeIdentity::all();
    assert_eq!(own(&mut reconciler, 1, 0b1), all[..2]);
    assert_eq!(own(&mut reconciler, 1, 0b111), all[..2]);
    assert_eq!(own(&mut reconciler, 1, 0), []);
    assert_eq!(own(&mut reconciler, 2, 0b1), all[2..4], "the others rest");
    reconciler = restarted(&reconciler);
    assert_eq!(own(&mut reconciler, 1, 0b10), all[..2], "they are its own again");
    assert_eq!(own(&mut reconciler, 1, 0), []);
    // Blueprints are what is counted in, and the last of them frees what rests.
    for turn in 0..=PATH_ID_QUARANTINE_BLUEPRINTS {
        own(&mut reconciler, 2, 1 << (turn % 2));
    }
    assert_eq!(own(&mut reconciler, 2, 0b1), all[2..4], "it keeps what it has");
    assert!(!reconciler.blueprint().ledger.port_numbers.contains_key(&node(1)));
}
