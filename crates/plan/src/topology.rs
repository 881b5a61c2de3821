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
    #[error("two cables are plugged into {0}: one of them was seen too late or is forged")]
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
            nodes: nodes.iter().map(|(name, kind)| (name.clone(), *kind)).collect(),
            numbers,
        };
        let (mut taken, mut faults) = (BTreeSet::new(), Vec::new());
        let mut sorted: Vec<&Cable> = cables.iter().collect();
        sorted.sort_by_key(|cable| (cable.ends.iter().min(), cable.ends.iter().max()));
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
        if let Some(twice) = [one, other].into_iter().find(|end| taken.contains(end)) {
            return Err(TopologyFault::Twice(twice.clone()));
        }
        taken.extend([one, other]);
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
