//! A fat tree of switches with k ports: who is in it, and what is plugged into what.

use crate::engine::wrong;
use crate::error::BenchError;
use catena_model::NodeName;
use catena_model::discovery::{LinkState, Neighbour, Trust};
use catena_model::topology::NodeRole;
use catena_plan::{NumberBooks, ToldLinks};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An interface of a node.
pub(crate) type Plug = (NodeName, String);

/// The tree. A gateway hangs at its first core switch.
pub(crate) struct FatTree {
    pub(crate) k: usize,
    pub(crate) nodes: Vec<(NodeName, NodeRole)>,
    /// What each interface is plugged into.
    far_ends: BTreeMap<NodeName, BTreeMap<String, Plug>>,
}

impl FatTree {
    pub(crate) fn new(k: usize) -> Result<Self, BenchError> {
        let mut tree = Self { k, nodes: Vec::new(), far_ends: BTreeMap::new() };
        let half = k / 2;
        let core = |number: usize| name(format!("c{number}"));
        for number in 0..half * half {
            tree.nodes.push((core(number)?, NodeRole::Switch));
        }
        for pod in 0..k {
            for number in 0..half {
                let (above, edge) = (format!("a{pod}-{number}"), format!("e{pod}-{number}"));
                let (above, edge) = (name(above)?, name(edge)?);
                for port in 0..half {
                    let up = (above.clone(), format!("u{port}"));
                    tree.plug(&up, &(core(number * half + port)?, format!("p{pod}")));
                    let up = (edge.clone(), format!("u{port}"));
                    tree.plug(&up, &(name(format!("a{pod}-{port}"))?, format!("d{number}")));
                    let host = tree.host(pod, number, port)?;
                    tree.plug(&(host.clone(), "up".into()), &(edge.clone(), format!("d{port}")));
                    tree.nodes.push((host, NodeRole::Host));
                }
                tree.nodes.extend([(above, NodeRole::Switch), (edge, NodeRole::Switch)]);
            }
        }
        let gateway = tree.gateway()?;
        tree.plug(&(gateway.clone(), "up".into()), &(core(0)?, "gateway".into()));
        tree.nodes.push((gateway, NodeRole::Host));
        Ok(tree)
    }

    /// How many hosts hang at edge switches.
    pub(crate) fn hosts(&self) -> usize {
        self.k.pow(3) / 4
    }

    pub(crate) fn gateway(&self) -> Result<NodeName, BenchError> {
        name("gateway".into())
    }

    /// The host at a place of a rack of a pod.
    pub(crate) fn host(
        &self,
        pod: usize,
        rack: usize,
        place: usize,
    ) -> Result<NodeName, BenchError> {
        name(format!("h{pod}-{rack}-{place}"))
    }

    /// The host of this number, counted through the racks of all pods.
    pub(crate) fn host_at(&self, number: usize) -> Result<NodeName, BenchError> {
        let half = self.k / 2;
        self.host(number / (half * half), number / half % half, number % half)
    }

    fn plug(&mut self, one: &Plug, other: &Plug) {
        for (end, far) in [(one, other), (other, one)] {
            self.far_ends.entry(end.0.clone()).or_default().insert(end.1.clone(), far.clone());
        }
    }

    /// Its interfaces that are links.
    pub(crate) fn links(&self, node: &NodeName) -> BTreeSet<String> {
        let ends = self.far_ends.get(node);
        ends.into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// What all nodes tell that run programs with these numbers. The link at `dead` carries nothing.
    pub(crate) fn told(&self, books: &NumberBooks, dead: Option<&Plug>) -> ToldLinks {
        let number = |(node, interface): &Plug| books.get(node)?.of(interface);
        let state = |end: Plug, far: &Plug| {
            let is_up = dead.is_none_or(|dead| *dead != end && dead != far);
            let neighbour = |number| Neighbour {
                chassis: far.0.to_string(),
                port: far.1.clone(),
                system: String::new(),
                number: Some(number),
                trust: Trust::Ours,
            };
            LinkState {
                mtu: None,
                number: number(&end),
                interface: end.1,
                is_up,
                load_permille: None,
                flooded: 0,
                refused: 0,
                neighbours: number(far).filter(|_| is_up).map(neighbour).into_iter().collect(),
                hindrance: String::new(),
                is_doubted: false,
            }
        };
        let of_node = |(node, ends): (&NodeName, &BTreeMap<String, Plug>)| {
            let states = ends.iter().map(|(link, far)| state((node.clone(), link.clone()), far));
            (node.clone(), Arc::new(states.collect()))
        };
        self.far_ends.iter().map(of_node).collect()
    }

    /// What is at the other end.
    pub(crate) fn far(&self, node: &NodeName, interface: &str) -> Option<&Plug> {
        self.far_ends.get(node)?.get(interface)
    }
}

fn name(text: String) -> Result<NodeName, BenchError> {
    NodeName::new(text).map_err(|error| wrong("the fat tree", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_as_many_switches_hosts_and_cables_as_the_formulas_say() {
        for k in [4, 8] {
            let tree = FatTree::new(k).unwrap();
            let switches = tree.nodes.iter().filter(|(_, role)| *role == NodeRole::Switch).count();
            assert_eq!((switches, tree.nodes.len() - switches), (5 * k * k / 4, tree.hosts() + 1));
            let ends: usize = tree.far_ends.values().map(BTreeMap::len).sum();
            assert_eq!(ends, 2 * (3 * k.pow(3) / 4 + 1));
            for number in 0..tree.hosts() {
                assert_eq!(tree.links(&tree.host_at(number).unwrap()).len(), 1);
            }
            assert_eq!(tree.links(&name("a1-1".into()).unwrap()).len(), k);
        }
    }
}
