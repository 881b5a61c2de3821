//! What a host has for instances, and where those go that no `on` names hosts for: the words that nodes, planner, API
//! and CLI share. Refuses to know how a host is looked at and how one is chosen.

use crate::id::NodeName;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Thousandths of one core.
pub const CORE_MILLI: u64 = 1_000;

/// Processor time and memory: what there is, what is taken, or what is needed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
pub struct Room {
    /// Processor time, in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory, in MiB.
    pub memory_mib: u64,
}

impl Room {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory_mib: self.memory_mib.saturating_add(other.memory_mib),
        }
    }

    /// What is left without the other; nothing where there is less.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_sub(other.cpu_milli),
            memory_mib: self.memory_mib.saturating_sub(other.memory_mib),
        }
    }

    /// Is there as much of both as is needed?
    #[must_use]
    pub const fn holds(self, need: Self) -> bool {
        self.cpu_milli >= need.cpu_milli && self.memory_mib >= need.memory_mib
    }

    /// Is it of neither?
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} thousandths of a core, {} MiB", self.cpu_milli, self.memory_mib)
    }
}

/// Processors and the memory that is near them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NumaNode {
    /// Its number at its host.
    pub number: u32,
    /// Processors that run, in thousandths of a core each.
    pub cpu_milli: u64,
    /// Memory, in MiB.
    pub memory_mib: u64,
}

impl NumaNode {
    /// What it has.
    #[must_use]
    pub const fn room(self) -> Room {
        Room { cpu_milli: self.cpu_milli, memory_mib: self.memory_mib }
    }
}

/// What a host has, as its agent tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// By NUMA node; a machine that has none is one. None: it has not said.
    pub numa: Vec<NumaNode>,
    /// What its data network takes, in Mbit/s; none: it has not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_mbit: Option<u64>,
}

impl Capacity {
    /// All of it together.
    #[must_use]
    pub fn total(&self) -> Room {
        self.numa.iter().fold(Room::default(), |total, node| total.plus(node.room()))
    }

    /// Has the host said what it has?
    #[must_use]
    pub fn is_told(&self) -> bool {
        !self.numa.is_empty()
    }
}

/// Where the instances go that no `on` names hosts for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Packing {
    /// Each of them, by name.
    pub instances: Vec<PackedInstance>,
    /// The hosts that have some of them, before or after, by name.
    pub hosts: Vec<HostRoom>,
    /// Hosts that run instances then, those of `on` counted.
    pub hosts_used: usize,
    /// No choice that moves as few of those that run has fewer hosts than these.
    pub hosts_least: usize,
    /// Has every choice been weighed that could have fewer hosts?
    pub is_proved: bool,
}

impl Packing {
    /// Does any instance come, move or go?
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.instances.iter().any(|one| one.host != one.former || one.host.is_none())
    }
}

/// Where an instance goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackedInstance {
    /// Its name.
    pub instance: String,
    /// Its host; none: there is no room for it, and others that need the room come first.
    pub host: Option<NodeName>,
    /// The host that it is on until then; none: it is new.
    pub former: Option<NodeName>,
    /// What it needs.
    pub needs: Room,
    /// Its memory and its processors are not all near one another: no NUMA node of the host has room for it alone.
    #[serde(default)]
    pub spans_numa: bool,
    /// Why it has no host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// What a host has left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostRoom {
    /// The host.
    pub host: NodeName,
    /// What it has; none: it has not said.
    pub total: Option<Room>,
    /// What nothing takes until then.
    pub before: Room,
    /// What nothing takes afterwards.
    pub after: Room,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_of_both_and_never_less_than_nothing() {
        let room = |cpu_milli, memory_mib| Room { cpu_milli, memory_mib };
        assert!(room(500, 64).holds(room(500, 64)) && !room(500, 64).holds(room(0, 65)));
        assert_eq!(room(500, 64).minus(room(600, 4)), room(0, 60));
        let numa = [(0, 2_000, 512), (1, 1_000, 256)];
        let numa =
            numa.map(|(number, cpu_milli, memory_mib)| NumaNode { number, cpu_milli, memory_mib });
        let capacity = Capacity { numa: numa.into(), link_mbit: None };
        assert_eq!(capacity.total(), room(3_000, 768));
        assert!(capacity.is_told() && !Capacity::default().is_told());
    }
}
