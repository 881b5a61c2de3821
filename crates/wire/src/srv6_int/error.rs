//! Why bytes are no telemetry in segments. Knows the reasons; refuses to know who counts them.

use core::fmt;

use crate::srv6::Srv6Error;

/// Why bytes are no telemetry in segments, or where none fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntError {
    /// The packet is none of segment routing, or not one to go on.
    Srv6(Srv6Error),
    /// The packet takes no records along.
    NoFlag,
    /// A tag of a version other than 1.
    Version(u8),
    /// The header does not end with MapInfo and detection result.
    NoTail,
    /// A MapInfo of more than five bits.
    MapInfo(u16),
    /// Sixteen bytes that are no record: their first four bits are not 0001.
    NoMetadata,
    /// A record with a value where it says that it has none, or a saturated one below the largest.
    Contradiction,
    /// The packet does not come from a function.
    NotPending,
    /// A header with the tail of the paper cannot be signed.
    PaperSigned,
}

impl fmt::Display for IntError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Srv6(error) => error.fmt(f),
            Self::NoFlag => f.write_str("the packet takes no telemetry along"),
            Self::Version(version) => write!(f, "telemetry of version {version} is unknown"),
            Self::NoTail => f.write_str("the header does not say what telemetry it takes along"),
            Self::MapInfo(bits) => write!(f, "telemetry of unknown fields, {bits:#06x}"),
            Self::NoMetadata => f.write_str("the entry is no record of telemetry"),
            Self::Contradiction => f.write_str("the record of telemetry contradicts itself"),
            Self::NotPending => f.write_str("the packet does not come from a function"),
            Self::PaperSigned => {
                f.write_str("a header with the tail of the paper cannot be signed")
            }
        }
    }
}

impl core::error::Error for IntError {}
