//! Who may use the API: roles, and tokens as they are shown. A token's secret is in none of them
//! but the answer that made it.

use crate::id::ProjectId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use utoipa::ToSchema;
use uuid::Uuid;

/// What somebody may do; each role may also do what the ones before it may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads what is of its project.
    Viewer,
    /// Reads and changes what is of its project.
    Tenant,
    /// Reads and changes what is of any project, and sees the nodes.
    Operator,
    /// Everything, also who else may.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Tenant, Self::Operator, Self::Admin];

    /// Its name in requests, files and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Tenant => "tenant",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| format!("'{text}' is no role; choose viewer, tenant, operator or admin"))
    }
}

/// What is asked of a new token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// What people call it; no two tokens have the same.
    pub name: String,
    /// Whose resources its bearer sees and makes.
    pub project: ProjectId,
    /// What its bearer may do.
    pub role: Role,
    /// How long it is good for, in seconds; none: until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_s: Option<u64>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenReport {
    /// Which one.
    pub id: Uuid,
    /// What people call it.
    pub name: String,
    /// Whose resources its bearer sees and makes.
    pub project: ProjectId,
    /// What its bearer may do.
    pub role: Role,
    /// When it was made (RFC 3339, UTC).
    pub created: String,
    /// From when on it is good for nothing; none: it is until it is deleted.
    pub expires: Option<String>,
}

/// A token that has just been made: the one time that its secret is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// What is kept of it.
    #[serde(flatten)]
    pub report: TokenReport,
    /// What its bearer sends in `X-Auth-Token`.
    pub secret: String,
}
