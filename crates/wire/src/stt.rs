//! Stateless Transport Tunnelling, draft-davie-stt-08 sections 3.1 and 3.2.
//!
//! Knows what its TCP-like header says of a frame's segments, and the header in front of the frame.
//! Refuses to know what a context identifier stands for, and to put segments together.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Version    |     Flags     |   L4 Offset   |   Reserved    |
//! |      Max. Segment Size        | PCP |V|        VLAN ID        |
//! |                      Context ID (64 bits)                     |
//! |           Padding             |  the frame ...
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use core::fmt;

use crate::tcp::TcpView;

/// Bytes of the header in front of the frame.
pub const HEADER_BYTES: usize = 18;
const VERSION: u8 = 0;

/// What the sequence number of the TCP-like header says (section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SttSegment {
    /// Bytes of the whole STT frame, its header included.
    pub frame_bytes: u16,
    /// Where in the frame this segment begins; only that at 0 has the header.
    pub offset: u16,
}

impl SttSegment {
    /// Reads the TCP-like header of a segment.
    #[must_use]
    #[inline]
    pub fn of(tcp: &TcpView<'_>) -> Self {
        let [a, b, c, d] = tcp.sequence().to_be_bytes();
        Self { frame_bytes: u16::from_be_bytes([a, b]), offset: u16::from_be_bytes([c, d]) }
    }

    /// The sequence number that says this.
    #[must_use]
    pub const fn sequence(self) -> u32 {
        (self.frame_bytes as u32) << 16 | self.offset as u32
    }
}

/// The meaning of the header in front of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SttHeader {
    /// Flags as they stand (section 3.2): what is known of the frame's checksums.
    pub flags: u8,
    /// Where the frame's transport header begins, from the end of this one; 0: unknown.
    pub l4_offset: u8,
    /// Largest segment of the frame's TCP, bytes; 0: not to be cut.
    pub segment_bytes_max: u16,
    /// Priority, valid bit and identifier of a VLAN tag, as they stand.
    pub vlan: u16,
    /// What the ends have agreed on; no network identifier of anybody else.
    pub context: u64,
}

impl SttHeader {
    /// The header, and the frame after it.
    ///
    /// # Errors
    /// When the bytes are too few or the version is not 0.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), SttError> {
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(SttError::Truncated { need: HEADER_BYTES, have: bytes.len() })?;
        let [version, flags, l4_offset, _, m0, m1, v0, v1, a, b, c, d, e, f, g, h, _, _] = *header;
        if version != VERSION {
            return Err(SttError::Version(version));
        }
        let header = Self {
            flags,
            l4_offset,
            segment_bytes_max: u16::from_be_bytes([m0, m1]),
            vlan: u16::from_be_bytes([v0, v1]),
            context: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        };
        Ok((header, rest))
    }

    /// Writes the header at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than the header.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, SttError> {
        let have = into.len();
        let header = into
            .first_chunk_mut::<HEADER_BYTES>()
            .ok_or(SttError::Truncated { need: HEADER_BYTES, have })?;
        let ([m0, m1], [v0, v1]) = (self.segment_bytes_max.to_be_bytes(), self.vlan.to_be_bytes());
        let [a, b, c, d, e, f, g, h] = self.context.to_be_bytes();
        let (flags, l4) = (self.flags, self.l4_offset);
        *header = [VERSION, flags, l4, 0, m0, m1, v0, v1, a, b, c, d, e, f, g, h, 0, 0];
        Ok(HEADER_BYTES)
    }
}

/// Why bytes are no STT header, or where none fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SttError {
    /// Too few bytes for the header at offset 0.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A version other than 0 (offset 0).
    Version(u8),
    /// The frame is said to be shorter than what this segment holds of it.
    FrameLength {
        /// The length in the TCP-like header, bytes.
        field: u16,
        /// Bytes there are.
        have: usize,
    },
}

impl fmt::Display for SttError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "an STT header needs {need} bytes, there are {have}")
            }
            Self::Version(version) => write!(f, "STT version {version} is unknown"),
            Self::FrameLength { field, have } => {
                write!(f, "an STT frame of {field} bytes has a segment of {have}")
            }
        }
    }
}

impl core::error::Error for SttError {}

#[cfg(test)]
mod tests;
