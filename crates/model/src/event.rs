//! What happens, as it is told to whoever watches. Knows the words; refuses to know who listens.

use crate::discovery::LinkCondition;
use crate::id::{BlueprintNumber, ChainId, NodeName};
use crate::status::{ChainStatus, Receipt};
use crate::topology::{CableEnd, PortNumber};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// What `GET /v1/watch` tells: first how things stand, then what changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// A link between nodes is new, or it is another: up, down, with a trouble or without.
    Link {
        /// The node.
        node: NodeName,
        /// The interface there.
        interface: String,
        /// Its port number.
        #[schema(value_type = Option<u8>)]
        number: Option<PortNumber>,
        /// Can it be used?
        state: LinkCondition,
        /// What is wrong with it; a foreign neighbour, too.
        trouble: Option<String>,
    },
    /// An interface is no link any more.
    LinkGone {
        /// The node.
        node: NodeName,
        /// The interface there.
        interface: String,
    },
    /// A cable between two nodes was found, or is gone.
    Cable {
        /// Its ends.
        ends: [CableEnd; 2],
        /// Is it gone?
        is_gone: bool,
    },
    /// A chain is new or its state is another.
    Chain {
        /// Name of the chain.
        name: String,
        /// State, reason and path.
        #[serde(flatten)]
        status: ChainStatus,
    },
    /// A chain is no longer declared, and nodes still act on it.
    ChainWithdrawing {
        /// The chain.
        chain: ChainId,
        /// The name that it had.
        name: String,
        /// Where it is in force.
        nodes: BTreeSet<NodeName>,
    },
    /// A chain is no longer declared, and no node acts on it.
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
    /// A resource was made, changed or removed.
    Declared(Declaration),
    /// Planning stopped, or goes on again.
    Trouble {
        /// Why it stopped; none: it goes on.
        reason: Option<String>,
    },
}

/// A line of `GET /v1/watch`. What was declared comes once and in order: whoever goes on after the
/// last revision that he read misses none of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventLine {
    /// The revision of what is declared that it takes into account.
    pub revision: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// A resource that was made, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Declaration {
    /// Is it gone?
    pub is_removed: bool,
    /// What it is: `network`, `subnet`, `port`, `rule`, `instance`, `function`, `chain` or `graph`.
    pub kind: String,
    /// Its identity.
    pub id: String,
    /// Its name, if it has one and that is still known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
