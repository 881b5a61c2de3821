//! What a program says of source routes: port numbers, and ways to ports of other nodes. Knows numbers; refuses to know
//! how a frame carries them.

use crate::id::{NodeName, PortId};
use crate::topology::PortNumber;
use serde::{Deserialize, Serialize};

/// Where a frame on a source route goes that names a port number of this node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitPlace {
    /// Into the cable at this interface of the node.
    // The planner wrote the other word down up to commit a4c6339.
    #[serde(alias = "interface")]
    Link(String),
    /// To a function or an endpoint, by a port of this node.
    Port(PortId),
}

/// A port number of source routes. It is never another's while a packet may carry it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitEntry {
    /// The number.
    pub number: PortNumber,
    /// What it stands for.
    pub to: ExitPlace,
}

impl ExitEntry {
    /// The interface, if it is a link.
    #[must_use]
    pub fn link(&self) -> Option<&str> {
        match &self.to {
            ExitPlace::Link(interface) => Some(interface),
            ExitPlace::Port(_) => None,
        }
    }
}

/// The way from this node to a port of another, over links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteEntry {
    /// The other node.
    pub node: NodeName,
    /// The port.
    pub to: PortId,
    /// The port numbers by which a frame leaves each node on the way, its own link first; the last is that of the port.
    pub ports: Vec<PortNumber>,
}
