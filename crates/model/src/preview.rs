//! What a change would do, told before it is done. Knows the words that API and CLI share; refuses
//! to know how it is found out.

use crate::id::{BlueprintNumber, NodeName};
use serde::{Deserialize, Serialize};

/// The consequences of a change that has not been made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// The blueprint in force.
    pub from: BlueprintNumber,
    /// The number that the last blueprint of the change would have if nothing else came between.
    pub to: BlueprintNumber,
    /// The chains that change, by name; none: the change does nothing.
    pub chains: Vec<ChainChange>,
    /// The nodes that would run another program.
    pub nodes: Vec<NodeChange>,
    /// Paths that are replaced, each only when the new one is in place on every node.
    pub paths_swapped: usize,
    /// What is interrupted or has to wait, a sentence each; none: nothing.
    pub disruption: Vec<String>,
}

impl Preview {
    /// Would anything change?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty() && self.nodes.is_empty()
    }
}

/// What becomes of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is removed.
    Delete,
}

/// A chain that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainChange {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub kind: ChangeKind,
    /// What differs, a line each, beginning with `+` (new), `-` (gone) or `~` (changed).
    pub lines: Vec<String>,
}

/// A node that would run another program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeChange {
    /// The node.
    pub node: NodeName,
    /// Programs that it takes one after the other.
    pub programs: usize,
    /// Entries by which its last program differs from that of today, such as `paths +1 −1`.
    pub tables: Vec<String>,
}
