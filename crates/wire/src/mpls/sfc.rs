//! The SFC label pair, RFC 8595 sections 5 and 6 (label swapping).
//!
//! Knows how a path and a position become two labels. Refuses to know where the path leads.
//!
//! ```text
//! |      SFC context label: the path      | TC=0|0|    TTL = 1    |
//! |  SF label: index in 8 bits, then 0    | TC=0|1| TTL of the path|
//! ```
//!
//! - Context label: the path identifier in 20 bits, 16 or more (sections 6 and RFC 7274).
//! - SF label: the service index in the highest eight bits and twelve zero bits, so that only index
//!   0 would meet the special-purpose labels (section 6); index 0 is refused.
//! - TTL: 1 in the context entry, whatever it is on receipt; in the SF entry 1 to 255, one less at
//!   each forwarder, never sent as 0 (sections 5 and 6).
//! - TC: sent as zero, ignored on receipt (section 5).
//! - S: clear in the context entry, set in the SF entry (section 5). Labels of metadata
//!   (section 12) and further pairs (section 7) are refused by name.

use super::{LabelStackEntry, MplsError};
use crate::scalar::{MplsLabel, ServiceIndex};

/// Zero bits below the service index in the SF label.
const INDEX_SHIFT: u32 = 12;

/// The meaning of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SfcLabelPair {
    /// The path.
    pub context: MplsLabel,
    /// The position on the path, see [`Self::service_index`].
    pub function: MplsLabel,
    /// Time to live of the context entry, [`Self::CONTEXT_TTL`] when we send it.
    pub context_ttl: u8,
    /// Forwarders the packet may still pass.
    pub function_ttl: u8,
}

impl SfcLabelPair {
    /// Bytes of the pair.
    pub const LEN: usize = 2 * LabelStackEntry::LEN;
    /// Time to live of the context entry (RFC 8595 section 5).
    pub const CONTEXT_TTL: u8 = 1;

    /// The pair for a packet at a position of a path.
    ///
    /// # Errors
    /// When the path is a special-purpose label, the index 0, or the time to live 0.
    pub fn new(path: MplsLabel, index: ServiceIndex, ttl: u8) -> Result<Self, MplsError> {
        refuse_special(path, 0)?;
        let function = index_label(index)?;
        if ttl == 0 {
            return Err(MplsError::TtlExpired);
        }
        Ok(Self { context: path, function, context_ttl: Self::CONTEXT_TTL, function_ttl: ttl })
    }

    /// The pair, and the inner packet after it.
    ///
    /// # Errors
    /// When the bytes are too few, a label is for special purposes, the second one holds no index,
    /// or the S bits are not «clear, set».
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), MplsError> {
        let have = bytes.len();
        let short = |_| MplsError::Truncated { need: Self::LEN, have };
        let (context, after_context) = LabelStackEntry::parse(bytes).map_err(short)?;
        refuse_special(context.label, 0)?;
        if context.is_bottom {
            return Err(MplsError::EndsEarly);
        }
        let (function, rest) = LabelStackEntry::parse(after_context).map_err(short)?;
        refuse_special(function.label, LabelStackEntry::LEN)?;
        label_index(function.label)?;
        if !function.is_bottom {
            return Err(MplsError::GoesOn);
        }
        let pair = Self {
            context: context.label,
            function: function.label,
            context_ttl: context.ttl,
            function_ttl: function.ttl,
        };
        Ok((pair, rest))
    }

    /// The position on the path.
    ///
    /// # Errors
    /// When the SF label was not made from an index; never after [`Self::new`] or [`Self::parse`].
    pub fn service_index(&self) -> Result<ServiceIndex, MplsError> {
        label_index(self.function)
    }

    /// A forwarder's step: the time to live with which the packet goes on, one less.
    ///
    /// # Errors
    /// When it is or would become 0: such a packet must not be sent (RFC 8595 section 6).
    pub fn next_ttl(&self) -> Result<u8, MplsError> {
        let ttl = self.function_ttl.saturating_sub(1);
        if ttl == 0 { Err(MplsError::TtlExpired) } else { Ok(ttl) }
    }

    /// Writes both entries at the start of `into` and answers their length.
    ///
    /// # Errors
    /// When `into` is shorter than the pair.
    #[inline]
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, MplsError> {
        let have = into.len();
        let pair = into
            .first_chunk_mut::<{ Self::LEN }>()
            .ok_or(MplsError::Truncated { need: Self::LEN, have })?;
        let (context, function) = pair.split_at_mut(LabelStackEntry::LEN);
        context.copy_from_slice(&entry(self.context, false, self.context_ttl).to_bytes());
        function.copy_from_slice(&entry(self.function, true, self.function_ttl).to_bytes());
        Ok(Self::LEN)
    }
}

const fn entry(label: MplsLabel, is_bottom: bool, ttl: u8) -> LabelStackEntry {
    LabelStackEntry { label, traffic_class: 0, is_bottom, ttl }
}

fn refuse_special(label: MplsLabel, offset: usize) -> Result<(), MplsError> {
    MplsLabel::ordinary(label.get())
        .map_err(|_| MplsError::SpecialPurpose { label: label.get(), offset })?;
    Ok(())
}

fn index_label(index: ServiceIndex) -> Result<MplsLabel, MplsError> {
    if index.0 == 0 {
        return Err(MplsError::IndexExhausted);
    }
    Ok(MplsLabel::from_low_bits(u32::from(index.0) << INDEX_SHIFT))
}

fn label_index(label: MplsLabel) -> Result<ServiceIndex, MplsError> {
    let index = label.get() >> INDEX_SHIFT;
    if index << INDEX_SHIFT != label.get() {
        return Err(MplsError::Index { label: label.get() });
    }
    u8::try_from(index).map(ServiceIndex).map_err(|_| MplsError::Index { label: label.get() })
}
