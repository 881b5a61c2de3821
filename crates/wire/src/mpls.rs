//! MPLS label stack, RFC 3032 section 2.1 with the traffic class of RFC 5462.
//!
//! Knows label stack entries. Refuses to know what a label stands for:
//! the pair that stands for a service path is in [`SfcLabelPair`].
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                Label                  |  TC |S|      TTL      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

mod sfc;

use core::fmt;

pub use sfc::SfcLabelPair;

use crate::scalar::MplsLabel;

mod field {
    //! Where each field lies, as shifts in the 32-bit word.
    pub(super) const LABEL_SHIFT: u32 = 12;
    pub(super) const TRAFFIC_CLASS_SHIFT: u32 = 9;
    pub(super) const TRAFFIC_CLASS_MASK: u32 = 7;
    pub(super) const BOTTOM: u32 = 1 << 8;
}

/// One label stack entry. The view and the meaning are the same: every word is a legal entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelStackEntry {
    /// The label.
    pub label: MplsLabel,
    /// Traffic class, 0 to 7; only the low three bits are sent.
    pub traffic_class: u8,
    /// S bit: no entry follows.
    pub is_bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

impl LabelStackEntry {
    /// Bytes of an entry.
    pub const LEN: usize = 4;

    /// The first entry, and the bytes after it.
    ///
    /// # Errors
    /// When the bytes are too few.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), MplsError> {
        let (&entry, rest) = bytes
            .split_first_chunk::<{ Self::LEN }>()
            .ok_or(MplsError::Truncated { need: Self::LEN, have: bytes.len() })?;
        Ok((Self::from_bytes(entry), rest))
    }

    /// The entry in four bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let word = u32::from_be_bytes(bytes);
        let [.., ttl] = bytes;
        Self {
            label: MplsLabel::from_low_bits(word >> field::LABEL_SHIFT),
            traffic_class: (word >> field::TRAFFIC_CLASS_SHIFT & field::TRAFFIC_CLASS_MASK) as u8,
            is_bottom: word & field::BOTTOM != 0,
            ttl,
        }
    }

    /// The four bytes of the entry.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let bottom = if self.is_bottom { field::BOTTOM } else { 0 };
        let class = self.traffic_class as u32 & field::TRAFFIC_CLASS_MASK;
        let word = self.label.get() << field::LABEL_SHIFT
            | class << field::TRAFFIC_CLASS_SHIFT
            | bottom
            | self.ttl as u32;
        word.to_be_bytes()
    }

    /// Writes the entry at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than the entry.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, MplsError> {
        let have = into.len();
        let entry = into
            .first_chunk_mut::<{ Self::LEN }>()
            .ok_or(MplsError::Truncated { need: Self::LEN, have })?;
        *entry = self.to_bytes();
        Ok(Self::LEN)
    }
}

/// Why bytes are no label stack entry or no SFC label pair, where none fits, or why one may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MplsError {
    /// Too few bytes, counted from offset 0.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A special-purpose label where a path or position is expected.
    SpecialPurpose {
        /// The label.
        label: u32,
        /// Where its entry starts, in bytes.
        offset: usize,
    },
    /// The stack ends with the context label (offset 2): no function label follows.
    EndsEarly,
    /// The stack goes on after the function label (offset 6): metadata, or another pair.
    GoesOn,
    /// A function label that is no service index in its highest eight bits (offset 4).
    Index {
        /// The label.
        label: u32,
    },
    /// The time to live is used up.
    TtlExpired,
    /// The next service index would be 0, which no label can carry.
    IndexExhausted,
}

impl fmt::Display for MplsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "the MPLS labels need {need} bytes, there are {have}")
            }
            Self::SpecialPurpose { label, offset } => {
                write!(f, "MPLS label {label} at byte {offset} is for special purposes")
            }
            Self::EndsEarly => f.write_str("no MPLS function label follows the context label"),
            Self::GoesOn => f.write_str("the MPLS stack goes on after the function label"),
            Self::Index { label } => write!(f, "MPLS label {label} holds no service index"),
            Self::TtlExpired => f.write_str("the MPLS time to live is used up"),
            Self::IndexExhausted => f.write_str("the MPLS service index is used up"),
        }
    }
}

impl core::error::Error for MplsError {}

#[cfg(test)]
mod tests;
