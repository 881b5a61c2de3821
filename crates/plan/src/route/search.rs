//! How far all nodes are from one of them: found once, whoever asks for a way to it. Knows cables; refuses to know
//! which of them carry a chain.

use super::Leg;
use crate::topology::{NodeNumber, Topology};
use catena_model::topology::NodeRole;
use std::collections::VecDeque;

/// No way leads there.
const FAR: u32 = u32::MAX;

/// The cables between each node and one of them.
#[derive(Debug)]
pub(crate) struct Search {
    end: NodeNumber,
    cables: Vec<u32>,
}

/// What is best from one node on: how far, with which load, and by which edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Reach {
    load: u64,
    tie: u64,
    /// Place among the node's edges.
    edge: usize,
}

impl Search {
    pub(crate) fn towards(topology: &Topology, end: NodeNumber) -> Self {
        let mut search = Self { end, cables: vec![FAR; topology.len()] };
        search.cables[end as usize] = 0;
        let mut queue = VecDeque::from([end]);
        while let Some(node) = queue.pop_front() {
            if !search.passes(topology, node) {
                continue;
            }
            let further = search.cables[node as usize] + 1;
            for edge in topology.edges(node) {
                let cables = &mut search.cables[edge.to as usize];
                if *cables == FAR {
                    *cables = further;
                    queue.push_back(edge.to);
                }
            }
        }
        search
    }

    /// How many cables lead there; none: no way does.
    pub(crate) fn cables(&self, start: NodeNumber) -> Option<usize> {
        let cables = self.cables[start as usize];
        (cables != FAR).then_some(cables as usize)
    }

    /// The legs of the best way; `tie` chooses between ways that are alike.
    pub(crate) fn legs(
        &self,
        topology: &Topology,
        start: NodeNumber,
        tie: u64,
    ) -> Option<Vec<Leg>> {
        self.cables(start)?;
        let order = self.nearer(topology, start);
        let mut places = vec![usize::MAX; topology.len()];
        for (place, node) in order.iter().enumerate() {
            places[*node as usize] = place;
        }
        let mut best: Vec<Option<Reach>> = vec![None; order.len()];
        // Those that are nearer come first.
        for (place, node) in order.iter().enumerate().rev() {
            let edges = self.edges(topology, *node).map(|(edge, at)| {
                let behind = best[places[at.to as usize]].map_or(0, |reach| reach.load);
                let load = behind + u64::from(at.load_permille);
                Reach { load, tie: topology.tie(*node, at.port, tie), edge }
            });
            best[place] = edges.min();
        }
        let (mut node, mut legs) = (start, Vec::new());
        while node != self.end {
            let edge = topology.edges(node).get(best[places[node as usize]]?.edge)?;
            let name = topology.name(node).clone();
            legs.push(Leg { node: name, port: edge.port, is_function: false });
            node = edge.to;
        }
        Some(legs)
    }

    /// The nodes that shortest ways from one lead over, the nearest to the end last.
    fn nearer(&self, topology: &Topology, start: NodeNumber) -> Vec<NodeNumber> {
        let (mut order, mut seen) = (vec![start], vec![false; topology.len()]);
        let mut place = 0;
        while let Some(node) = order.get(place).copied() {
            place += 1;
            for (_, edge) in self.edges(topology, node) {
                if !std::mem::replace(&mut seen[edge.to as usize], true) {
                    order.push(edge.to);
                }
            }
        }
        order
    }

    /// The edges of a node that lead nearer to the end, by their places.
    fn edges<'t>(
        &self,
        topology: &'t Topology,
        node: NodeNumber,
    ) -> impl Iterator<Item = (usize, &'t crate::topology::Edge)> + use<'t, '_> {
        let own = self.cables[node as usize];
        topology.edges(node).iter().enumerate().filter(move |(_, edge)| {
            self.cables[edge.to as usize] < own && self.passes(topology, edge.to)
        })
    }

    /// Only a switch passes on.
    fn passes(&self, topology: &Topology, node: NodeNumber) -> bool {
        node == self.end || topology.kind(node).role == NodeRole::Switch
    }
}
