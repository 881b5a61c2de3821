//! The fields of a packet, each declared once: its name, its bits, where a frame keeps it, and the
//! checksums that follow when it is written (RFC 1624).
//!
//! Knows places and sums. Refuses to know who reads a field and why.

mod declared;
mod sums;
#[cfg(test)]
mod tests;

pub use declared::Field;
pub use sums::UpperChecksum;

use crate::frame::FrameView;
use core::ops::Range;

/// Where a frame has a field.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A number: so many bytes from here, their bits above so many lower ones.
    Number {
        /// The first byte, from the start of the frame.
        at: usize,
        /// Bytes that hold it, 16 at most.
        bytes: usize,
        /// Bits below it in them.
        shift: u32,
    },
    /// A string of bytes.
    Bytes(Range<usize>),
}

/// Which checksums cover a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Covered {
    /// None.
    Nowhere,
    /// That of IPv4 alone.
    Header,
    /// That of IPv4, and that of the upper layer through its pseudo header.
    Addresses,
    /// That of the upper layer.
    Upper,
}

/// Why a field was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// The packet has no such field.
    Absent(Field),
    /// It is a string of bytes: its writer makes another packet.
    Bytes(Field),
}

impl core::fmt::Display for FieldError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Absent(field) => write!(f, "the packet has no {}", field.title()),
            Self::Bytes(field) => write!(f, "{} is no number that could be set", field.title()),
        }
    }
}

impl core::error::Error for FieldError {}

impl Field {
    /// All bits of its value; of a string of bytes, one that stands for all of them.
    #[must_use]
    pub const fn all(self) -> u128 {
        u128::MAX >> (u128::BITS - self.bits())
    }

    /// Its value in a frame; none: the frame has no such field, or it is a string of bytes.
    #[inline]
    #[must_use]
    pub fn read(self, frame: &[u8], view: &FrameView) -> Option<u128> {
        // Behind extension headers only the view still knows it.
        if self == Self::Protocol {
            return view.protocol.map(|protocol| protocol.0.into());
        }
        let Place::Number { at, bytes, shift } = self.place(frame, view)? else { return None };
        Some(number(frame.get(at..at + bytes)?) >> shift & self.all())
    }

    /// Its bytes in a frame, where it is a string of them; none: the frame has no such field.
    #[must_use]
    pub fn bytes(self, frame: &[u8], view: &FrameView) -> Option<Range<usize>> {
        match self.place(frame, view)? {
            Place::Bytes(range) => frame.get(range.clone()).map(|_| range),
            Place::Number { .. } => None,
        }
    }

    /// Sets those bits of it that are in `mask`, and updates the checksums that cover them: a wrong
    /// one stays wrong by the same amount, one of UDP that says «none» goes on saying so. False: it
    /// had this value, and nothing was touched. `view` is that of the frame before.
    ///
    /// # Errors
    /// When the frame has no such field, or it is a string of bytes; nothing is written then.
    pub fn write(
        self,
        frame: &mut [u8],
        view: &FrameView,
        (value, mask): (u128, u128),
        upper: UpperChecksum,
    ) -> Result<bool, FieldError> {
        let absent = FieldError::Absent(self);
        let place = self.place(frame, view).ok_or(absent)?;
        let Place::Number { at, bytes, shift } = place else {
            return Err(FieldError::Bytes(self));
        };
        let mask = (mask & self.all()) << shift;
        let old = number(frame.get(at..at + bytes).ok_or(absent)?);
        let new = old & !mask | value << shift & mask;
        if new == old {
            return Ok(false);
        }
        let sums = sums::Before::of(frame, view, self.covered(), at..at + bytes);
        let bits = new.to_be_bytes();
        if let Some((into, from)) = frame.get_mut(at..at + bytes).zip(bits.get(16 - bytes..)) {
            into.copy_from_slice(from);
        }
        sums.update(frame, upper);
        Ok(true)
    }
}

/// The number that at most 16 bytes say.
#[inline]
fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}
