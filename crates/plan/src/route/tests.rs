//! Ways through fat trees and through anything, against exhaustive search.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::topology::{NodeKind, NodeNumber, TopologyFault};
use catena_model::topology::{Cable, CableEnd};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const FUNCTION_PORT: u8 = 200;

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn number(port: u8) -> PortNumber {
    PortNumber::new(port).unwrap()
}

fn end(name: &str, port: u8) -> CableEnd {
    CableEnd { node: node(name), port: number(port) }
}

fn cable(one: (&str, u8), other: (&str, u8), load_permille: u16) -> Cable {
    Cable { ends: [end(one.0, one.1), end(other.0, other.1)], is_up: true, load_permille }
}

const SWITCH: NodeKind = NodeKind { role: NodeRole::Switch, is_edge: false };
const HOST: NodeKind = NodeKind { role: NodeRole::Host, is_edge: false };

/// A fat tree of switches with k ports each: cores `c1`, in each pod `a1.1` and `e1.1`, hosts `h1.1.1`, and a gateway
/// at the first core.
struct FatTree {
    nodes: BTreeMap<NodeName, NodeKind>,
    cables: Vec<Cable>,
}

impl FatTree {
    fn new(k: u8) -> Self {
        let half = k / 2;
        let mut tree = Self { nodes: BTreeMap::new(), cables: Vec::new() };
        for core in 1..=half * half {
            tree.nodes.insert(node(&format!("c{core}")), SWITCH);
        }
        for pod in 1..=k {
            for one in 1..=half {
                let (above, below) = (format!("a{pod}.{one}"), format!("e{pod}.{one}"));
                tree.nodes.extend([(node(&above), SWITCH), (node(&below), SWITCH)]);
                for other in 1..=half {
                    let core = format!("c{}", (one - 1) * half + other);
                    tree.cables.push(cable((&above, half + other), (&core, pod), 0));
                    let edge = format!("e{pod}.{other}");
                    tree.cables.push(cable((&above, other), (&edge, half + one), 0));
                    let host = format!("h{pod}.{one}.{other}");
                    tree.nodes.insert(node(&host), HOST);
                    tree.cables.push(cable((&below, other), (&host, 1), 0));
                }
            }
        }
        tree.nodes.insert(node("gateway"), HOST);
        tree.cables.push(cable(("gateway", 1), ("c1", k + 1), 0));
        tree
    }

    fn topology(&self) -> Topology {
        let (topology, faults) = Topology::new(&self.nodes, &self.cables);
        assert_eq!(faults, []);
        topology
    }

    /// The other end of what is plugged in there.
    fn far(&self, at: &NodeName, port: PortNumber) -> Option<NodeName> {
        let ends = self.cables.iter().filter(|cable| cable.is_up).map(|cable| &cable.ends);
        let is_here = |end: &CableEnd| end.node == *at && end.port == port;
        ends.into_iter().find_map(|[one, other]| {
            let far = if is_here(one) { other } else { is_here(other).then_some(one)? };
            Some(far.node.clone())
        })
    }

    /// Where a frame is that leaves a node by these ports, and which functions it comes by.
    fn walk(&self, from: &NodeName, ports: &[PortNumber]) -> (NodeName, Vec<NodeName>) {
        let (mut at, mut met) = (from.clone(), Vec::new());
        for port in ports {
            match self.far(&at, *port) {
                Some(next) => at = next,
                None => {
                    assert_eq!(port.get(), FUNCTION_PORT, "nothing is plugged in at {at}:{port}");
                    met.push(at.clone());
                }
            }
        }
        (at, met)
    }
}

fn stop(name: &str, function: Option<u8>) -> Stop {
    Stop { node: node(name), function: function.map(number), rewrites: false }
}

/// From the gateway over functions at these hosts, and no further.
fn over(hosts: &[&str]) -> Vec<Stop> {
    let functions = hosts.iter().map(|host| stop(host, Some(FUNCTION_PORT)));
    std::iter::once(stop("gateway", None)).chain(functions).collect()
}

fn switches(legs: &[Leg]) -> usize {
    legs.iter().filter(|leg| !leg.node.as_str().starts_with(['h', 'g'])).count()
}

#[test]
fn chains_pass_as_many_switches_as_the_paper_counts() {
    let tree = FatTree::new(4);
    let topology = tree.topology();
    // Racks of one pod by turns, then pods by turns.
    let inside = ["h1.1.1", "h1.2.1", "h1.1.2", "h1.2.2"];
    let across = ["h1.1.1", "h2.1.1", "h3.1.1", "h4.1.1"];
    for functions in 1..=15 {
        let chosen = |hosts: [&'static str; 4]| -> Vec<&str> {
            hosts.into_iter().cycle().take(functions).collect()
        };
        let (legs_inside, _) = legs(&topology, &over(&chosen(inside)), 7).unwrap();
        assert_eq!(switches(&legs_inside), 3 * functions);
        // Function ports, and the uplinks of all hosts and of the gateway.
        assert_eq!(legs_inside.len(), 5 * functions);
        let (legs_across, _) = legs(&topology, &over(&chosen(across)), 7).unwrap();
        assert_eq!(switches(&legs_across), 5 * functions - 2);
        for (way, hosts) in [(legs_inside, chosen(inside)), (legs_across, chosen(across))] {
            let ports: Vec<_> = way.iter().map(|leg| leg.port).collect();
            let (at, met) = tree.walk(&node("gateway"), &ports);
            assert_eq!(at.as_str(), *hosts.last().unwrap());
            assert_eq!(met, hosts.into_iter().map(node).collect::<Vec<_>>());
        }
    }
}

#[test]
fn where_every_switch_is_an_edge_no_header_is_written_before_the_last_is_full() {
    let named = |borders: &[Border], end: usize| borders.get(end) == Some(&Border::Named);
    let mut tree = FatTree::new(4);
    tree.nodes.values_mut().for_each(|kind| kind.is_edge = true);
    let topology = tree.topology();
    for functions in 1..=15 {
        let hosts = ["h1.1.1", "h2.1.1", "h2.2.1"].into_iter().cycle().take(functions);
        let (way, borders) = legs(&topology, &over(&hosts.collect::<Vec<_>>()), 7).unwrap();
        let headers = pathlets(&borders, 10).unwrap();
        // One place is left where the next host would be the eleventh, and the switch behind is named by a place more.
        let is_full = |one: &Range<usize>| {
            one.len() >= 9 && one.len() + usize::from(named(&borders, one.end)) <= 10
        };
        let (last, before) = headers.split_last().unwrap();
        assert!(before.iter().all(is_full), "{functions} functions: {headers:?}");
        assert_eq!(last.end, way.len());
        assert!((way.len().div_ceil(10)..=way.len().div_ceil(9)).contains(&headers.len()));
    }
}

#[test]
fn a_cable_that_is_down_takes_no_port_from_one_that_is_up() {
    let nodes = [("a", HOST), ("b", HOST), ("s", SWITCH)];
    let nodes = nodes.map(|(name, kind)| (node(name), kind)).into();
    let down = Cable { is_up: false, ..cable(("a", 1), ("s", 1), 0) };
    let cables = [down, cable(("b", 1), ("s", 1), 0)];
    let (topology, faults) = Topology::new(&nodes, &cables);
    assert_eq!(faults, []);
    assert_eq!(way(&topology, &node("s"), &node("b"), 0).map(|legs| legs.len()), Ok(1));
    assert!(way(&topology, &node("s"), &node("a"), 0).is_err());
}

#[test]
fn a_node_that_comes_changes_no_way_of_others() {
    let mut tree = FatTree::new(4);
    let ways = |tree: &FatTree| -> Vec<_> {
        let topology = tree.topology();
        (0..64).map(|tie| way(&topology, &node("h1.1.1"), &node("h3.1.1"), tie).unwrap()).collect()
    };
    let before = ways(&tree);
    tree.nodes.insert(node("a0"), SWITCH);
    assert_eq!(ways(&tree), before);
}

#[test]
fn the_least_loaded_of_the_shortest_ways_is_taken_and_ties_go_by_the_hash() {
    let mut tree = FatTree::new(4);
    let (from, to) = (node("h1.1.1"), node("h2.1.1"));
    let topology = tree.topology();
    let cores = |topology: &Topology, ties: std::ops::Range<u64>| -> BTreeSet<NodeName> {
        ties.map(|tie| way(topology, &from, &to, tie).unwrap()[3].node.clone()).collect()
    };
    assert_eq!(cores(&topology, 0..64).len(), 4, "all that are alike are used");
    assert_eq!(way(&topology, &from, &to, 5), way(&topology, &from, &to, 5));
    for cable in &mut tree.cables {
        let is_quiet = cable.ends.contains(&end("c3", 2)) || cable.ends.contains(&end("c3", 1));
        let is_core = cable.ends.iter().any(|end| end.node.as_str().starts_with('c'));
        cable.load_permille = if is_core && !is_quiet { 300 } else { 100 };
    }
    assert_eq!(cores(&tree.topology(), 0..16), [node("c3")].into());
    for cable in &mut tree.cables {
        cable.is_up &= !cable.ends.contains(&end("c3", 2));
    }
    let left = cores(&tree.topology(), 0..64);
    assert_eq!(left, [node("c1"), node("c2"), node("c4")].into(), "a dead cable is in no way");
}

#[test]
fn no_way_leads_through_a_host_or_over_nothing() {
    let nodes = [("a", HOST), ("b", HOST), ("c", HOST), ("d", HOST)];
    let nodes = nodes.map(|(name, kind)| (node(name), kind)).into();
    let cables = [cable(("a", 1), ("b", 1), 0), cable(("b", 2), ("c", 1), 0)];
    let (topology, faults) = Topology::new(&nodes, &cables);
    assert_eq!(faults, []);
    let direct = way(&topology, &node("a"), &node("b"), 0).unwrap();
    assert_eq!(direct.len(), 1, "two hosts may be joined");
    assert_eq!(way(&topology, &node("a"), &node("a"), 0), Ok(Vec::new()));
    for to in ["c", "d"] {
        let no_way = RouteError::NoWay { from: node("a"), to: node(to) };
        assert_eq!(way(&topology, &node("a"), &node(to), 0), Err(no_way));
    }
    assert_eq!(way(&topology, &node("a"), &node("x"), 0), Err(RouteError::Unknown(node("x"))),);
}

#[test]
fn cables_that_cannot_be_are_left_out_by_name_whatever_their_order() {
    let nodes = [("a", HOST), ("b", HOST), ("s", SWITCH)];
    let nodes = nodes.map(|(name, kind)| (node(name), kind)).into();
    let mut cables = vec![
        cable(("a", 1), ("s", 1), 0),
        cable(("b", 1), ("s", 1), 0),
        cable(("s", 3), ("s", 4), 0),
        cable(("b", 1), ("x", 1), 0),
        cable(("b", 1), ("s", 2), 0),
    ];
    let expected = [
        TopologyFault::Unknown(end("x", 1)),
        TopologyFault::Twice(end("s", 1)),
        TopologyFault::Itself(end("s", 3), end("s", 4)),
    ];
    for _ in 0..cables.len() {
        let (topology, faults) = Topology::new(&nodes, &cables);
        let named: BTreeSet<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(named, expected.iter().map(ToString::to_string).collect());
        let ports: Vec<u8> = way(&topology, &node("a"), &node("b"), 0)
            .unwrap()
            .iter()
            .map(|leg| leg.port.get())
            .collect();
        assert_eq!(ports, [1, 2]);
        cables.rotate_left(1);
    }
}

#[test]
fn a_detour_leads_to_where_it_says_and_past_no_function() {
    let tree = FatTree::new(4);
    let topology = tree.topology();
    let hosts = ["h1.1.1", "h1.2.1", "h2.1.1", "h1.1.2"];
    let mut found = 0;
    for tie in 0..40 {
        let (way, borders) = legs(&topology, &over(&hosts), tie).unwrap();
        let last = node(hosts[3]);
        for pathlet in pathlets(&borders, 14).unwrap() {
            let around = detours(&topology, (&way, &last), pathlet.clone(), tie);
            assert_eq!(around, detours(&topology, (&way, &last), pathlet.clone(), tie));
            for RouteDetour { leg, rejoin, ports } in around {
                found += 1;
                let (leg, rejoin) = (pathlet.start + leg, pathlet.start + rejoin);
                let (at, met) = tree.walk(&way[leg].node, &ports);
                assert_eq!(at, way.get(rejoin).map_or(last.clone(), |leg| leg.node.clone()));
                assert_eq!(met, [], "no function is on the way round");
                assert_ne!(ports[0], way[leg].port, "the dead cable is not taken");
                assert!(leg < rejoin && rejoin <= pathlet.end);
                let left_out = &way[leg..rejoin];
                assert!(left_out.iter().all(|leg| !leg.is_function), "{left_out:?}");
            }
        }
    }
    // Cables of hosts have no way round; all others have.
    assert!(found > 200, "{found}");
}

#[test]
fn a_host_that_hangs_on_one_cable_has_no_detour() {
    let tree = FatTree::new(4);
    let (way, borders) = legs(&tree.topology(), &over(&["h1.1.1"]), 3).unwrap();
    assert_eq!(way.len(), 5);
    let whole = pathlets(&borders, 10).unwrap();
    assert_eq!(whole, vec![0..5; 1]);
    let around = detours(&tree.topology(), (&way, &node("h1.1.1")), 0..5, 3);
    // The gateway's own cable and the last one are the only ones there.
    assert_eq!(around.iter().map(|detour| detour.leg).collect::<Vec<_>>(), [1, 2]);
}

/// The fewest pathlets, by trying all.
fn fewest(borders: &[Border], capacity: usize) -> Option<usize> {
    let mut best: Vec<Option<usize>> = vec![None; borders.len() + 1];
    best[0] = Some(0);
    for to in 1..=borders.len() {
        if borders.get(to) == Some(&Border::No) {
            continue;
        }
        // By which header the edge goes on stands in the one before.
        let room = capacity - usize::from(borders.get(to) == Some(&Border::Named));
        let from = (to.saturating_sub(room)..to)
            .filter(|from| !borders[from + 1..to].contains(&Border::Must));
        best[to] = from.filter_map(|from| best[from]).min().map(|pathlets| pathlets + 1);
    }
    best[borders.len()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_farthest_border_gives_the_fewest_pathlets(
        borders in proptest::collection::vec(
            prop_oneof![
                6 => Just(Border::No),
                3 => Just(Border::May),
                3 => Just(Border::Named),
                1 => Just(Border::Must),
            ],
            1..=60,
        ),
        capacity in 1..=14_usize,
    ) {
        let found = pathlets(&borders, capacity);
        prop_assert_eq!(found.as_ref().ok().map(Vec::len), fewest(&borders, capacity));
        match found {
            Ok(found) => {
                let ends: Vec<usize> = found.iter().map(|pathlet| pathlet.end).collect();
                let starts: Vec<usize> = found.iter().map(|pathlet| pathlet.start).collect();
                prop_assert_eq!(starts[0], 0);
                prop_assert_eq!(&starts[1..], &ends[..ends.len() - 1]);
                prop_assert_eq!(*ends.last().unwrap(), borders.len());
                let named = |end: usize| usize::from(borders.get(end) == Some(&Border::Named));
                prop_assert!(found.iter().all(|one| one.len() + named(one.end) <= capacity));
            }
            Err(at) => prop_assert!(at > 0 && at < borders.len()),
        }
    }
}

/// All ways without a loop, with their cables and their load.
fn all_ways(
    topology: &Topology,
    at: NodeNumber,
    end: NodeNumber,
    seen: &mut Vec<NodeNumber>,
    so_far: (u32, u64),
    found: &mut Vec<(u32, u64)>,
) {
    if at == end {
        found.push(so_far);
        return;
    }
    if !seen.is_empty() && topology.kind(at).role != NodeRole::Switch {
        return;
    }
    seen.push(at);
    for edge in topology.edges(at) {
        if !seen.contains(&edge.to) {
            let load = so_far.1 + u64::from(edge.load_permille);
            all_ways(topology, edge.to, end, seen, (so_far.0 + 1, load), found);
        }
    }
    seen.pop();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_way_is_better_than_the_one_that_is_taken(
        plugs in proptest::collection::vec((0..8_usize, 0..8_usize, 0..1_000_u16), 4..18),
        hosts in proptest::collection::btree_set(0..8_usize, 2..4),
        tie in any::<u64>(),
    ) {
        let names: Vec<NodeName> = (0..8).map(|n| node(&format!("n{n}"))).collect();
        let kind = |n: usize| if hosts.contains(&n) { HOST } else { SWITCH };
        let nodes = names.iter().cloned().zip((0..8).map(kind)).collect();
        let cables: Vec<Cable> = (1..).zip(&plugs).filter(|(_, (one, other, _))| one != other)
            .map(|(port, (one, other, load))| {
                cable((names[*one].as_str(), port), (names[*other].as_str(), port), *load)
            }).collect();
        let (topology, faults) = Topology::new(&nodes, &cables);
        prop_assert_eq!(faults, []);
        let mut ends = hosts.iter();
        let (from, to) = (ends.next().unwrap(), ends.next().unwrap());
        let numbers = [from, to].map(|n| topology.number(&names[*n]).unwrap());
        let mut all = Vec::new();
        all_ways(&topology, numbers[0], numbers[1], &mut Vec::new(), (0, 0), &mut all);
        let taken = way(&topology, &names[*from], &names[*to], tie).ok().map(|legs| {
            let load = legs.iter().map(|leg| {
                let edges = topology.edges(topology.number(&leg.node).unwrap());
                let edge = edges.iter().find(|edge| edge.port == leg.port).unwrap();
                u64::from(edge.load_permille)
            });
            (legs.len() as u32, load.sum::<u64>())
        });
        prop_assert_eq!(taken, all.into_iter().min());
    }
}
