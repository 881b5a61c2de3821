//! Nodes and cables as one graph, of what discovery has found. Knows what can be one; refuses to know ways.

use catena_model::NodeName;
use catena_model::topology::{Cable, CableEnd, NodeRole, PortNumber};
use std::collections::{BTreeMap, BTreeSet};

/// A node of a topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeKind {
    /// What it is for.
    pub role: NodeRole,
    /// May a switch write headers? A host may.
    pub is_edge: bool,
}

/// Why a cable is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyFault {
    /// Both its ends are on one node.
    #[error("a cable leads from {0} to {1}: a node is not plugged into itself")]
    Itself(CableEnd, CableEnd),
    /// A port has another cable already.
    #[error("two cables are plugged into {0}: one of them is left out")]
    Twice(CableEnd),
    /// Nobody knows the node.
    #[error("a cable leads to {0}, a node that nobody knows")]
    Unknown(CableEnd),
}

/// The index of a node.
pub(crate) type NodeNumber = u32;

/// What leaves a node by a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) port: PortNumber,
    pub(crate) to: NodeNumber,
    pub(crate) load_permille: u16,
}

/// The graph.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    numbers: BTreeMap<NodeName, NodeNumber>,
    nodes: Vec<(NodeName, NodeKind)>,
    /// By node, in the order of ports.
    edges: Vec<Vec<Edge>>,
    /// By node, a number made of its name: whoever else comes or goes, it stays.
    marks: Vec<u64>,
}

impl Topology {
    /// The graph of these nodes, and the cables that cannot be part of it. A cable that is down is in no way.
    #[must_use]
    pub fn new(
        nodes: &BTreeMap<NodeName, NodeKind>,
        cables: &[Cable],
    ) -> (Self, Vec<TopologyFault>) {
        let numbered = (0..).zip(nodes.keys());
        let numbers: BTreeMap<_, _> = numbered.map(|(n, name)| (name.clone(), n)).collect();
        let mut topology = Self {
            edges: vec![Vec::new(); nodes.len()],
            marks: nodes.keys().map(mark).collect(),
            nodes: nodes.iter().map(|(name, kind)| (name.clone(), *kind)).collect(),
            numbers,
        };
        let (mut taken, mut faults) = (BTreeSet::new(), Vec::new());
        let mut sorted: Vec<&Cable> = cables.iter().collect();
        sorted.sort_by_key(|cable| {
            (!cable.is_up, cable.ends.iter().min(), cable.ends.iter().max(), cable.load_permille)
        });
        for cable in sorted {
            match topology.ends(cable, &mut taken) {
                Ok(ends) if cable.is_up => topology.plug(ends, cable.load_permille),
                Ok(_) => {}
                Err(fault) => faults.push(fault),
            }
        }
        for edges in &mut topology.edges {
            edges.sort_by_key(|edge| edge.port);
        }
        (topology, faults)
    }

    fn ends<'c>(
        &self,
        cable: &'c Cable,
        taken: &mut BTreeSet<&'c CableEnd>,
    ) -> Result<[(NodeNumber, PortNumber); 2], TopologyFault> {
        let [one, other] = &cable.ends;
        if one.node == other.node {
            return Err(TopologyFault::Itself(one.clone(), other.clone()));
        }
        let numbered = |end: &CableEnd| {
            let number = self.numbers.get(&end.node);
            let number = number.ok_or_else(|| TopologyFault::Unknown(end.clone()))?;
            Ok((*number, end.port))
        };
        let ends = [numbered(one)?, numbered(other)?];
        let mut taken_ends = [one, other].into_iter().filter(|end| taken.contains(end));
        if let Some(twice) = taken_ends.next().filter(|_| cable.is_up) {
            return Err(TopologyFault::Twice(twice.clone()));
        }
        if cable.is_up {
            taken.extend([one, other]);
        }
        Ok(ends)
    }

    fn plug(&mut self, ends: [(NodeNumber, PortNumber); 2], load_permille: u16) {
        let [(one, one_port), (other, other_port)] = ends;
        self.edges[one as usize].push(Edge { port: one_port, to: other, load_permille });
        self.edges[other as usize].push(Edge { port: other_port, to: one, load_permille });
    }

    pub(crate) fn number(&self, node: &NodeName) -> Option<NodeNumber> {
        self.numbers.get(node).copied()
    }

    /// What decides between edges that are alike, for one of many ways: each has another order of them.
    pub(crate) fn tie(&self, node: NodeNumber, port: PortNumber, way: u64) -> u64 {
        mixed(way ^ self.marks[node as usize] ^ u64::from(port.get()).rotate_right(8))
    }

    pub(crate) fn name(&self, node: NodeNumber) -> &NodeName {
        &self.nodes[node as usize].0
    }

    pub(crate) fn kind(&self, node: NodeNumber) -> NodeKind {
        self.nodes[node as usize].1
    }

    pub(crate) fn edges(&self, node: NodeNumber) -> &[Edge] {
        &self.edges[node as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

/// FNV-1a over a name.
pub(crate) fn mark(name: &NodeName) -> u64 {
    name.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, |mark, octet| {
        (mark ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// SplitMix64's last step: neighbours among numbers are none among these.
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
