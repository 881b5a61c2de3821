//! Ways round a cable that may die, made before it does: from the node that sends into it to where the way comes by
//! later. Knows one pathlet at a time; refuses to know whether anything is dead.

use super::Leg;
use crate::topology::{NodeNumber, Topology};
use catena_model::NodeName;
use catena_model::topology::{NodeRole, PortNumber};
use std::collections::VecDeque;
use std::ops::Range;

/// A way round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteDetour {
    /// The leg whose cable it is for, by its place in the pathlet.
    pub leg: usize,
    /// The leg with which the way goes on, by its place in the pathlet; behind the last: at the pathlet's end.
    pub rejoin: usize,
    /// Ports, in the order in which they are taken.
    pub ports: Vec<PortNumber>,
}

/// The ways round each cable of a pathlet of a way that ends at a node, where there is one. None leads past a function.
/// Of those that rejoin, that with the fewest ports in all; of these the one that rejoins first, by a hash where ways
/// are alike.
#[must_use]
pub fn detours(
    topology: &Topology,
    (legs, end): (&[Leg], &NodeName),
    pathlet: Range<usize>,
    tie: u64,
) -> Vec<RouteDetour> {
    let nodes = legs.iter().map(|leg| &leg.node).chain([end]);
    let numbers: Option<Vec<NodeNumber>> = nodes.map(|node| topology.number(node)).collect();
    let Some(numbers) = numbers else { return Vec::new() };
    let search = Search { topology, legs, numbers: &numbers, pathlet: pathlet.clone(), tie };
    pathlet.filter_map(|leg| search.around(leg)).collect()
}

struct Search<'s> {
    topology: &'s Topology,
    legs: &'s [Leg],
    numbers: &'s [NodeNumber],
    pathlet: Range<usize>,
    tie: u64,
}

impl Search<'_> {
    fn around(&self, leg: usize) -> Option<RouteDetour> {
        let (node, port) = (self.numbers[leg], self.legs[leg].port);
        if self.legs[leg].is_function {
            return None;
        }
        let from = self.reached(node, port);
        let last = (leg + 1..self.pathlet.end).find(|at| self.legs[*at].is_function);
        let last = last.unwrap_or(self.pathlet.end);
        let ways = (leg + 1..=last).filter_map(|at| {
            let ports = self.ports(&from, node, self.numbers[at])?;
            // The node itself again: the way comes back here later, and need not leave for that.
            (!ports.is_empty()).then(|| (ports.len() + self.pathlet.end - at, at, ports))
        });
        let (_, at, ports) = ways.min_by_key(|(length, at, _)| (*length, *at))?;
        let start = self.pathlet.start;
        Some(RouteDetour { leg: leg - start, rejoin: at - start, ports })
    }

    /// By which edge each node is reached from this one, without the cable of this port.
    fn reached(
        &self,
        node: NodeNumber,
        without: PortNumber,
    ) -> Vec<Option<(NodeNumber, PortNumber)>> {
        let mut from = vec![None; self.topology.len()];
        let mut queue = VecDeque::from([node]);
        while let Some(at) = queue.pop_front() {
            if at != node && self.topology.kind(at).role != NodeRole::Switch {
                continue;
            }
            let edges = self.topology.edges(at);
            // Another first for each way, so that they do not all lead over the same.
            let turn = self.topology.tie(at, without, self.tie) as usize % edges.len().max(1);
            for edge in edges.iter().cycle().skip(turn).take(edges.len()) {
                let is_dead = at == node && edge.port == without;
                if !is_dead && edge.to != node && from[edge.to as usize].is_none() {
                    from[edge.to as usize] = Some((at, edge.port));
                    queue.push_back(edge.to);
                }
            }
        }
        from
    }

    fn ports(
        &self,
        from: &[Option<(NodeNumber, PortNumber)>],
        start: NodeNumber,
        end: NodeNumber,
    ) -> Option<Vec<PortNumber>> {
        let (mut node, mut ports) = (end, Vec::new());
        while node != start {
            let (before, port) = from[node as usize]?;
            ports.push(port);
            node = before;
        }
        ports.reverse();
        Some(ports)
    }
}
