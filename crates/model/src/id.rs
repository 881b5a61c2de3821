//! Names and numbers that identify things. Knows their legal forms, nothing about the things.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;
use uuid::Uuid;

macro_rules! resource_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// The lowest of all, where ranges begin.
            pub const MIN: Self = Self(Uuid::nil());
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    )+};
}

resource_id! {
    /// A tenant network.
    NetworkId,
    /// An address range of a tenant network.
    SubnetId,
    /// An attachment of an endpoint or function to a tenant network.
    PortId,
    /// A classification rule (networking-sfc: flow classifier).
    RuleId,
    /// One running instance of a service function (networking-sfc: port pair).
    InstanceId,
    /// A service function with its instances (networking-sfc: port pair group).
    FunctionId,
    /// A service function chain (networking-sfc: port chain).
    ChainId,
    /// Chains that branch into others (networking-sfc: service graph).
    GraphId,
    /// A slice of a 5G network: the traffic of some users of a tenant.
    SliceId,
    /// A rule set that was sent by itself.
    RuleSetId,
}

/// The owner of a resource; networking-sfc shows it as `project_id` and `tenant_id`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct ProjectId(pub String);

impl fmt::Display for ProjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Longest accepted node name, in bytes (RFC 1035 label).
pub const NODE_NAME_BYTES_MAX: usize = 63;

/// Name of a host that runs an agent and a data plane: 1 to 63 of `a-z A-Z 0-9 - _ .`, starting
/// with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

/// Why a text is not a node name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a node name: use 1 to 63 letters, digits, '-', '_' or '.', starting with a \
     letter or digit"
)]
pub struct NodeNameError(pub String);

impl NodeName {
    /// Checks the text.
    ///
    /// # Errors
    /// When it is empty, too long or holds another character.
    pub fn new(text: impl Into<String>) -> Result<Self, NodeNameError> {
        let text = text.into();
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if starts_well && text.len() <= NODE_NAME_BYTES_MAX && text.bytes().all(legal) {
            Ok(Self(text))
        } else {
            Err(NodeNameError(text))
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NodeName {
    type Error = NodeNameError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl std::str::FromStr for NodeName {
    type Err = NodeNameError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identifies one rendered service path (RFC 7665: RSP) in the whole domain. NSH carries it as
/// SPI, MPLS as SFC context label: each encapsulation has its own pool. Zero is never used.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(transparent)]
pub struct PathId(pub u32);

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a blueprint; grows by one with each. Zero means «none yet».
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
)]
#[serde(transparent)]
pub struct BlueprintNumber(pub u64);

impl fmt::Display for BlueprintNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl BlueprintNumber {
    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_are_checked_on_every_way_in() {
        for good in ["host1", "h", "rack-2.host_9", &"a".repeat(63)] {
            assert!(NodeName::new(good).is_ok(), "{good}");
            assert!(serde_json::from_str::<NodeName>(&format!("\"{good}\"")).is_ok());
        }
        for bad in ["", "-h", ".h", "a b", "é", "a/b", &"a".repeat(64)] {
            assert!(NodeName::new(bad).is_err(), "{bad}");
            assert!(serde_json::from_str::<NodeName>(&format!("\"{bad}\"")).is_err());
        }
    }
}
