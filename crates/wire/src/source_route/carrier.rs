//! The fields of ordinary Ethernet that two profiles keep their ports in: destination address, VLAN identifier
//! (IEEE 802.1Q) and a stack of MPLS labels (RFC 3032). Knows where they are; refuses to know ports.
//!
//! ```text
//! | destination 6 | source 6 | 0x8100 | PCP 3b DEI 1b VID 12b | 0x8847 | label entries 4.. | payload
//! ```

use super::SourceRouteError;
use crate::ethernet;
use crate::mpls::LabelStackEntry;
use crate::scalar::{EtherType, MacAddr, VlanId};

mod field {
    use core::ops::Range;

    pub(super) const VLAN_TYPE: Range<usize> = 12..14;
    pub(super) const VLAN: usize = 14;
    pub(super) const STACK_TYPE: Range<usize> = 16..18;
    pub(super) const STACK: usize = 18;
}

/// Bytes of the header with one label.
pub(super) const LEN: usize = field::STACK + LabelStackEntry::LEN;
/// Where the time to live of the first label is.
const TTL: usize = LEN - 1;
/// Bits of the identifier in its octets.
const VLAN_MASK: u16 = 0x0fff;

/// Has a frame a VLAN tag and behind it a stack of labels?
#[inline]
pub(super) fn is_carrier(frame: &[u8]) -> bool {
    frame.get(field::VLAN_TYPE) == Some(&EtherType::VLAN.0.to_be_bytes()[..])
        && frame.get(field::STACK_TYPE) == Some(&EtherType::MPLS.0.to_be_bytes()[..])
}

/// The fields of a frame that has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carrier {
    pub(super) destination: MacAddr,
    pub(super) vlan: VlanId,
    pub(super) top: LabelStackEntry,
}

impl Carrier {
    /// Reads them, with the first label alone.
    ///
    /// # Errors
    /// The frame is too short, or another.
    #[inline]
    pub(super) fn read(frame: &[u8]) -> Result<Self, SourceRouteError> {
        let header: &[u8; LEN] = frame
            .first_chunk()
            .ok_or(SourceRouteError::Truncated { need: LEN, have: frame.len() })?;
        if !is_carrier(frame) {
            return Err(SourceRouteError::NoProfile);
        }
        let [a, b, c, d, e, f, ..] = *header;
        let vlan = u16::from_be_bytes([header[field::VLAN], header[field::VLAN + 1]]);
        let [.., w, x, y, z] = *header;
        Ok(Self {
            destination: MacAddr([a, b, c, d, e, f]),
            vlan: VlanId::from_low_bits((vlan & VLAN_MASK).into()),
            top: LabelStackEntry::from_bytes([w, x, y, z]),
        })
    }

    /// Writes them around the source address, which stays.
    ///
    /// # Errors
    /// The frame is too short; nothing is written then.
    pub(super) fn write(&self, into: &mut [u8]) -> Result<(), SourceRouteError> {
        let have = into.len();
        if have < LEN {
            return Err(SourceRouteError::Truncated { need: LEN, have });
        }
        let truncated = |_| SourceRouteError::Truncated { need: LEN, have };
        ethernet::set_destination(into, self.destination).map_err(truncated)?;
        into[field::VLAN_TYPE].copy_from_slice(&EtherType::VLAN.0.to_be_bytes());
        into[field::VLAN..field::VLAN + 2].copy_from_slice(&self.vlan.get().to_be_bytes());
        into[field::STACK_TYPE].copy_from_slice(&EtherType::MPLS.0.to_be_bytes());
        into[field::STACK..LEN].copy_from_slice(&self.top.to_bytes());
        Ok(())
    }
}

/// Writes the time to live of the first label of a frame that has been read.
#[inline]
pub(super) fn set_ttl(frame: &mut [u8], ttl: u8) {
    if let Some(place) = frame.get_mut(TTL) {
        *place = ttl;
    }
}

/// Labels of the stack of a frame, the first included, and no more than so many.
///
/// # Errors
/// The frame ends before the last label, or there are more.
pub(super) fn labels(frame: &[u8], most: usize) -> Result<usize, SourceRouteError> {
    for number in 1..=most {
        let need = field::STACK + number * LabelStackEntry::LEN;
        let end = frame.get(field::STACK..need).and_then(|stack| stack.last_chunk());
        let Some(entry) = end else {
            let have = frame.len();
            let is_whole = have.checked_sub(field::STACK).is_some_and(|bytes| bytes % 4 == 0);
            return Err(if is_whole && number > 1 {
                SourceRouteError::NoBottom
            } else {
                SourceRouteError::Truncated { need, have }
            });
        };
        if LabelStackEntry::from_bytes(*entry).is_bottom {
            return Ok(number);
        }
    }
    Err(SourceRouteError::MoreLabels)
}

/// The entries behind the first of a stack of so many labels.
pub(super) fn further(frame: &[u8], labels: usize) -> &[u8] {
    frame.get(LEN..LEN + (labels - 1) * LabelStackEntry::LEN).unwrap_or_default()
}
