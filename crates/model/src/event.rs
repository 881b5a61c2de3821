//! What happens, as it is told to whoever watches. Knows the words; refuses to know who listens.

use crate::id::{BlueprintNumber, ChainId, NodeName};
use crate::status::{ChainStatus, Receipt};
use serde::{Deserialize, Serialize};

/// One line of `GET /v1/watch`. The first lines tell how things stand, the others what changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A node came, went, took a program or refused one.
    Node {
        /// The node.
        node: NodeName,
        /// Is its agent connected?
        is_connected: bool,
        /// The program that it acknowledged last.
        acknowledged: BlueprintNumber,
        /// Why it refused a newer one.
        refusal: Option<String>,
    },
    /// A chain is new or its state is another.
    Chain {
        /// Name of the chain.
        name: String,
        /// State, reason and path.
        #[serde(flatten)]
        status: ChainStatus,
    },
    /// A chain is no longer declared.
    ChainGone {
        /// The chain.
        chain: ChainId,
        /// The name that it had.
        name: String,
    },
    /// A change of a chain is over.
    Changed {
        /// Its account.
        receipt: Receipt,
    },
    /// Planning stopped, or goes on again.
    Trouble {
        /// Why it stopped; none: it goes on.
        reason: Option<String>,
    },
}
