//! What links lost, which know no path.

use crate::drop_reason::DropReason;
use crate::id::NodeName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// What links lost in some time, of whatever chain: no node between knows whose packets it passes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkLosses {
    /// The links that lost any.
    pub links: Vec<LinkLoss>,
    /// The nodes of which it is not known: they did not answer, now or when it began.
    pub unknown_at: BTreeSet<NodeName>,
}

/// What one link lost of what it brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkLoss {
    /// The node.
    pub node: NodeName,
    /// The interface that brought them.
    pub link: String,
    /// Dropped, by name.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Frames that the kernel lost because the ring was full.
    pub ring_full: u64,
}

impl LinkLoss {
    /// All together.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.dropped.values().copied().fold(self.ring_full, u64::saturating_add)
    }
}
