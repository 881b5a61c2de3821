//! What becomes of the words of nodes about their links.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::inventory::NodeFacts;
use crate::port_numbers::number_ports;
use crate::sends::Sends;
use crate::topology::{NodeKind, Topology};
use catena_model::BlueprintNumber;
use catena_model::program::Underlay;

/// Nodes a to c with links eth1 to eth3 each, numbered 1 to 3.
struct Town {
    inventory: Inventory,
    books: NumberBooks,
    told: ToldLinks,
}

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

fn neighbour(chassis: &str, number: u8, trust: Trust) -> Neighbour {
    Neighbour {
        chassis: chassis.into(),
        port: format!("eth{number}"),
        system: chassis.into(),
        number: PortNumber::new(number),
        trust,
    }
}

impl Town {
    fn new() -> Self {
        let mut town = Self {
            inventory: Inventory::default(),
            books: NumberBooks::new(),
            told: ToldLinks::new(),
        };
        for node in ["a", "b", "c"] {
            let links: BTreeSet<String> = (1..=3).map(|at| format!("eth{at}")).collect();
            let mut facts = NodeFacts::new(Underlay::default());
            (facts.is_connected, facts.links) = (true, Some(Arc::new(links)));
            town.inventory.nodes.insert(name(node), facts);
            let state = |number: u8| LinkState {
                interface: format!("eth{number}"),
                number: PortNumber::new(number),
                is_up: true,
                load_permille: Some(10 * u16::from(number)),
                mtu: None,
                flooded: 0,
                refused: 0,
                neighbours: Vec::new(),
                hindrance: String::new(),
                is_doubted: false,
            };
            town.told.insert(name(node), Arc::new((1..=3).map(state).collect()));
        }
        number_ports(
            &mut town.books,
            &town.inventory,
            (&Sends::default(), None),
            BlueprintNumber(1),
        );
        town
    }

    fn link(&mut self, node: &str, number: usize) -> &mut LinkState {
        &mut Arc::make_mut(self.told.get_mut(&name(node)).unwrap())[number - 1]
    }

    /// This end hears that one.
    fn hears(&mut self, node: &str, number: usize, far: &str, far_number: u8) {
        self.link(node, number).neighbours.push(neighbour(far, far_number, Trust::Ours));
    }

    fn join(&mut self, (one, at): (&str, u8), (other, there): (&str, u8)) {
        self.hears(one, at.into(), other, there);
        self.hears(other, there.into(), one, at);
    }

    fn reports(&self) -> Vec<LinkReport> {
        link_reports(&self.inventory, &self.books, &self.told)
    }

    fn report(&self, node: &str, number: usize) -> LinkReport {
        let interface = format!("eth{number}");
        let mut reports = self.reports().into_iter();
        reports.find(|link| link.node.as_str() == node && link.interface == interface).unwrap()
    }

    fn trouble(&self, node: &str, number: usize) -> String {
        let report = self.report(node, number);
        assert_eq!(report.cable, None, "{report:?}");
        report.trouble.unwrap()
    }
}

#[test]
fn a_cable_is_what_both_of_its_ends_tell_alike() {
    let mut town = Town::new();
    town.join(("a", 1), ("b", 2));
    town.join(("b", 1), ("c", 3));
    let far = |node, number| FarEnd {
        node: name(node),
        number: PortNumber::new(number).unwrap(),
        interface: format!("eth{number}"),
    };
    assert_eq!(town.report("a", 1).cable, Some(far("b", 2)));
    assert_eq!(town.report("b", 2).cable, Some(far("a", 1)));
    assert_eq!((town.report("c", 1).cable, town.report("c", 1).trouble), (None, None));
    // What a data plane does not have carries nothing, whoever is heard.
    let mut without = Town::new();
    without.join(("a", 1), ("b", 2));
    without.link("a", 1).hindrance =
        "the data plane does not have it: the ring cannot be made".into();
    assert!(without.trouble("a", 1).ends_with("does not have it: the ring cannot be made"));
    assert!(without.trouble("b", 2).starts_with("one-way"));
    let found = cables(&town.reports());
    let ends: Vec<String> =
        found.iter().map(|cable| format!("{}-{}", cable.ends[0], cable.ends[1])).collect();
    assert_eq!(ends, ["a:1-b:2", "b:1-c:3"]);
    assert_eq!(found[1].load_permille, 30, "that of its busier end");
    let nodes = town
        .inventory
        .all()
        .map(|(node, role, _)| (node.clone(), NodeKind { role, is_edge: false }));
    let (_, faults) = Topology::new(&nodes.collect(), &found);
    assert_eq!(faults, []);
}

#[test]
fn what_one_end_tells_alone_is_no_cable() {
    let mut town = Town::new();
    town.hears("a", 1, "b", 2);
    let trouble = town.trouble("a", 1);
    assert!(trouble.starts_with("one-way: b:2 (eth2) is heard here"), "{trouble}");
    assert_eq!(town.report("b", 2).trouble, None);
    // The other end hears somebody else.
    town.hears("b", 2, "c", 1);
    assert!(town.trouble("a", 1).starts_with("one-way"));
}

#[test]
fn several_nodes_on_one_link_are_listed_and_no_cable() {
    let mut town = Town::new();
    for (one, other) in [("a", "b"), ("b", "c"), ("c", "a")] {
        town.join((one, 1), (other, 1));
    }
    for node in ["a", "b", "c"] {
        assert!(town.trouble(node, 1).contains("a hub or a bridge"), "{}", town.trouble(node, 1));
        assert_eq!(town.report(node, 1).neighbours.len(), 2);
    }
    assert_eq!(cables(&town.reports()), []);
}

#[test]
fn nothing_is_made_of_a_port_that_has_another_number_or_a_node_that_nobody_knows() {
    let mut town = Town::new();
    town.join(("a", 1), ("b", 2));
    town.link("a", 1).neighbours[0].number = PortNumber::new(3);
    assert!(town.trouble("a", 1).contains("has another number"), "{}", town.trouble("a", 1));
    town.link("a", 1).neighbours[0].number = PortNumber::new(2);
    assert!(town.report("a", 1).cable.is_some());
    town.link("b", 2).number = None;
    assert!(town.trouble("b", 2).contains("does not yet run"), "{}", town.trouble("b", 2));
    assert!(town.trouble("a", 1).starts_with("one-way"));
    town.link("b", 1).neighbours.push(neighbour("z", 1, Trust::Ours));
    assert!(town.trouble("b", 1).contains("does not know"), "{}", town.trouble("b", 1));
}

#[test]
fn foreign_neighbours_are_told_of_and_make_no_cable() {
    for trust in Trust::ALL.into_iter().filter(|trust| *trust != Trust::Ours) {
        let mut town = Town::new();
        town.link("a", 1).neighbours.push(neighbour("b", 2, trust));
        town.link("b", 2).neighbours.push(neighbour("a", 1, trust));
        let trouble = town.trouble("a", 1);
        assert!(trouble.contains(trust.complaint().unwrap()), "{trouble}");
        // Beside a true one they take nothing away.
        town.join(("a", 1), ("b", 2));
        let report = town.report("a", 1);
        assert!(report.cable.is_some(), "{report:?}");
        assert_eq!(report.trouble.is_some(), is_alarming(trust));
    }
}

#[test]
fn a_link_that_is_down_and_a_node_that_is_away_have_no_cable() {
    let mut town = Town::new();
    town.join(("a", 1), ("b", 2));
    town.link("a", 1).is_up = false;
    assert!(town.trouble("a", 1).contains("carries nothing"));
    assert_eq!(town.report("a", 1).state, LinkCondition::Down);
    assert!(town.trouble("b", 2).starts_with("one-way"));
    town.told.remove(&name("b"));
    town.inventory.nodes.get_mut(&name("b")).unwrap().is_connected = false;
    let report = town.report("b", 2);
    assert_eq!(report.state, LinkCondition::Down);
    assert!(report.trouble.unwrap().contains("node 'b' is away"));
}

#[test]
fn a_link_without_a_number_says_so() {
    let mut town = Town::new();
    let links: BTreeSet<String> = (0..256).map(|at| format!("eth{at:03}")).collect();
    town.books.clear();
    town.inventory.nodes.get_mut(&name("a")).unwrap().links = Some(Arc::new(links));
    number_ports(&mut town.books, &town.inventory, (&Sends::default(), None), BlueprintNumber(1));
    let reports = town.reports();
    let without: Vec<_> =
        reports.iter().filter(|link| link.state == LinkCondition::NoNumber).collect();
    assert_eq!(without.len(), 1);
    assert!(
        without[0].trouble.as_ref().unwrap().contains("'eth255' of node 'a' has no port number")
    );
}
