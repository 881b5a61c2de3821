//! What a change would do, told before it is done. Knows the words that API and CLI share; refuses
//! to know how it is found out.

use crate::capacity::Packing;
use crate::id::{BlueprintNumber, NodeName, PathId};
use crate::status::{ChainSummary, Receipt};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The consequences of a change that has not been made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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

/// What `GET /v1/plan/{draft}` answers: all that a draft would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// The revision of what is declared that it was made from; it can be applied until that moves.
    pub plan: u64,
    /// What the chains and nodes would do.
    #[serde(flatten)]
    pub preview: Preview,
    /// Every resource that would be made, changed or removed.
    #[serde(default)]
    pub resources: Vec<ResourceChange>,
    /// Where the instances go that no `on` names hosts for; none: it changes nothing of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packing: Option<Packing>,
}

impl Plan {
    /// Would nothing change?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.preview.is_empty() && self.resources.is_empty()
    }
}

/// A resource that would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceChange {
    /// What it is: `network`, `subnet`, `port`, `rule`, `instance`, `function`, `chain` or `graph`.
    pub kind: String,
    /// Its name; without one, its identity.
    pub name: String,
    /// What becomes of it.
    pub change: ChangeKind,
}

/// The title of the refusal of a plan that is outdated.
pub const MOVED_ON: &str = "Moved on";

/// What `POST /v1/plan/{draft}/apply` takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApplyRequest {
    /// The plan that is meant; without one, the draft's own.
    pub plan: Option<u64>,
    /// Is it answered only when the nodes have acknowledged and the former paths are gone, or
    /// cannot?
    pub wait: bool,
    /// For at most so long, in milliseconds; none: as long as the controller waits for chains.
    pub wait_ms: Option<u64>,
}

/// What a draft that was applied came to: all of it, in one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// The revision that holds it.
    pub revision: u64,
    /// Every resource that was made, changed or removed.
    pub resources: Vec<ResourceChange>,
    /// The chains that it made or changed, as they are now.
    pub chains: Vec<ChainSummary>,
    /// The accounts of changes that were over in time.
    pub receipts: Vec<Receipt>,
    /// The nodes and how far they are; only for whom they concern.
    pub nodes: Vec<NodeProgress>,
    /// The former paths that are still there when the waiting is over, if it was waited.
    #[serde(default)]
    pub draining: Vec<Draining>,
    /// The slices that it made, changed or removed, and those of chains that it changed; none: there
    /// are no such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<SlicesProgress>,
}

/// How far slices are that a change concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlicesProgress {
    /// How many there are.
    pub count: u64,
    /// How many of them are in force as they are declared, or gone.
    pub settled: u64,
    /// The first of the others.
    pub waiting: Option<SliceWaiting>,
    /// What is left of their former paths; none: nothing.
    pub draining: Option<SlicesDraining>,
}

/// Former paths of slices, which nodes still know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlicesDraining {
    /// How many.
    pub paths: u64,
    /// What one of them waits for.
    pub reason: String,
}

/// A slice that is not in force as it is declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceWaiting {
    /// Its name, or its id where it has none.
    pub slice: String,
    /// What it waits for.
    pub reason: String,
}

/// A former path that nodes still know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Draining {
    /// The name that its chain has or had.
    pub chain: String,
    /// The path.
    pub path: PathId,
    /// What it waits for.
    pub reason: String,
}

/// How far a node is with its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeProgress {
    /// The node.
    pub node: NodeName,
    /// Is its agent connected?
    pub is_connected: bool,
    /// The program it should run.
    pub wanted: BlueprintNumber,
    /// The program it acknowledged last.
    pub acknowledged: BlueprintNumber,
}

/// What becomes of a chain or another resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainChange {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub kind: ChangeKind,
    /// What differs, a line each, beginning with `+` (new), `-` (gone) or `~` (changed).
    pub lines: Vec<String>,
}

/// A node that would run another program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeChange {
    /// The node.
    pub node: NodeName,
    /// Programs that it takes one after the other.
    pub programs: usize,
    /// Entries by which its last program differs from that of today, such as `paths +1 −1`.
    pub tables: Vec<String>,
}
