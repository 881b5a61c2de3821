//! What an agent sends to collectors of others: formats, and what became of it. Refuses to know what is in it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// In which form packets with telemetry are told of.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ExportFormat {
    /// IPFIX, RFC 7011.
    Ipfix,
    /// Telemetry reports of the P4 applications working group, version 2.0.
    IntReports,
}

impl ExportFormat {
    /// As it is written in messages and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipfix => "ipfix",
            Self::IntReports => "int-reports",
        }
    }
}

/// What became of packets with telemetry on their way to a collector. Whether it took them nobody here knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportCounters {
    /// In which form.
    pub format: ExportFormat,
    /// The collector, `HOST:PORT`.
    pub collector: String,
    /// Packets that were told of, in datagrams sent or not.
    pub packets: u64,
    /// Packets of which the data plane gave no header that can be read.
    pub unreadable: u64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that could not be.
    pub unsent: u64,
    /// Why one could not, the last time; empty: each could.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trouble: String,
}
