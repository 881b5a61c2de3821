//! UDP, RFC 768.
//!
//! Knows ports, length and checksum. Refuses to know what the datagram carries.
//!
//! ```text
//! |          Source Port          |       Destination Port        |
//! |            Length             |           Checksum            |
//! ```

use core::fmt;
use core::net::IpAddr;

use crate::checksum;
use crate::scalar::IpProtocol;

/// Length of the header, bytes.
pub const HEADER_BYTES: usize = 8;
/// Where the checksum is, bytes from the start of the header.
pub const CHECKSUM_OFFSET: usize = 6;
const LENGTH_OFFSET: usize = 4;

/// Why bytes are no UDP datagram, or a header does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpError {
    /// The bytes end inside the header.
    Truncated {
        /// Bytes the header takes.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// The length is shorter than the header or longer than the bytes.
    Length {
        /// The length field, bytes.
        field: u16,
        /// Bytes there are.
        have: usize,
    },
}

impl fmt::Display for UdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "UDP header cut short: {have} of {need} bytes")
            }
            Self::Length { field, have } => write!(f, "UDP length {field} in {have} bytes"),
        }
    }
}

impl core::error::Error for UdpError {}

/// A view of a datagram. Once [`UdpView::parse`] has returned it, no accessor can fail.
#[derive(Clone, Copy, Debug)]
pub struct UdpView<'p> {
    header: UdpHeader,
    datagram: &'p [u8],
    payload: &'p [u8],
}

impl<'p> UdpView<'p> {
    /// Reads the datagram at the front of an IP payload; what is after its length is not part of
    /// it.
    ///
    /// # Errors
    /// When the length contradicts the bytes.
    #[inline]
    pub fn parse(bytes: &'p [u8]) -> Result<Self, UdpError> {
        let header = UdpHeader::read(bytes)?;
        let length = UdpError::Length { field: header.length, have: bytes.len() };
        let datagram = bytes.get(..usize::from(header.length)).ok_or(length)?;
        let payload = datagram.get(HEADER_BYTES..).ok_or(length)?;
        Ok(Self { header, datagram, payload })
    }

    /// The fields of the header.
    #[must_use]
    pub const fn header(&self) -> UdpHeader {
        self.header
    }

    /// Source port.
    #[must_use]
    pub const fn source_port(&self) -> u16 {
        self.header.source_port
    }

    /// Destination port.
    #[must_use]
    pub const fn destination_port(&self) -> u16 {
        self.header.destination_port
    }

    /// Header and payload, bytes.
    #[must_use]
    pub const fn length(&self) -> u16 {
        self.header.length
    }

    /// The checksum as it stands; zero means none.
    #[must_use]
    pub const fn checksum(&self) -> u16 {
        self.header.checksum
    }

    /// What the datagram carries.
    #[must_use]
    pub const fn payload(&self) -> &'p [u8] {
        self.payload
    }

    /// Does the checksum hold? None (zero) counts as held.
    #[must_use]
    pub fn is_checksum_correct(&self, source: IpAddr, destination: IpAddr) -> bool {
        let length = u32::from(self.header.length);
        self.header.checksum == 0
            || checksum::pseudo_header(source, destination, IpProtocol::UDP, length)
                .then_bytes(self.datagram)
                .is_correct()
    }
}

/// The fields of a header. If it exists, it can be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpHeader {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Header and payload, bytes.
    pub length: u16,
    /// Checksum; zero means none.
    pub checksum: u16,
}

impl UdpHeader {
    /// Reads a header without judging its length, which in a first fragment is that of the whole
    /// datagram.
    ///
    /// # Errors
    /// When the bytes end inside it.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Self, UdpError> {
        let [a, b, c, d, e, f, g, h] = *bytes
            .first_chunk()
            .ok_or(UdpError::Truncated { need: HEADER_BYTES, have: bytes.len() })?;
        Ok(Self {
            source_port: u16::from_be_bytes([a, b]),
            destination_port: u16::from_be_bytes([c, d]),
            length: u16::from_be_bytes([e, f]),
            checksum: u16::from_be_bytes([g, h]),
        })
    }

    /// Writes the header to the front of the buffer, 8 bytes.
    ///
    /// # Errors
    /// When the buffer is too short; nothing is written then.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, UdpError> {
        let ([a, b], [c, d]) =
            (self.source_port.to_be_bytes(), self.destination_port.to_be_bytes());
        let ([e, f], [g, h]) = (self.length.to_be_bytes(), self.checksum.to_be_bytes());
        *fixed_mut(into)? = [a, b, c, d, e, f, g, h];
        Ok(HEADER_BYTES)
    }
}

/// Replaces the length. The checksum is left alone.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_length(datagram: &mut [u8], length: u16) -> Result<(), UdpError> {
    let place = &mut fixed_mut(datagram)?[LENGTH_OFFSET..CHECKSUM_OFFSET];
    place.copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Replaces the checksum.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_checksum(datagram: &mut [u8], checksum: u16) -> Result<(), UdpError> {
    fixed_mut(datagram)?[CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// Computes the checksum of a datagram that fills the slice; never zero (RFC 768).
///
/// # Errors
/// When the bytes are shorter than a header or longer than a datagram can be.
pub fn refresh_checksum(
    datagram: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
) -> Result<(), UdpError> {
    set_checksum(datagram, 0)?;
    let length = u16::try_from(datagram.len())
        .map_err(|_| UdpError::Length { field: u16::MAX, have: datagram.len() })?;
    let pseudo = checksum::pseudo_header(source, destination, IpProtocol::UDP, u32::from(length));
    set_checksum(datagram, pseudo.then_bytes(datagram).checksum_never_zero())
}

fn fixed_mut(datagram: &mut [u8]) -> Result<&mut [u8; HEADER_BYTES], UdpError> {
    let have = datagram.len();
    datagram.first_chunk_mut().ok_or(UdpError::Truncated { need: HEADER_BYTES, have })
}

#[cfg(test)]
mod tests;
