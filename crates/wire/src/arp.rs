//! Address Resolution Protocol for IPv4 over Ethernet, RFC 826.
//!
//! Knows requests and replies, and how an answer looks as a whole frame. Refuses to know whose
//! address it is.
//!
//! ```text
//! |      Hardware type 1          |      Protocol type 0x0800     |
//! |  Length 6     |  Length 4     |          Operation            |
//! | sender MAC 6 | sender IPv4 4 | target MAC 6 | target IPv4 4   |
//! ```

use core::fmt;
use core::net::Ipv4Addr;

use crate::ethernet::{self, EthernetHeader};
use crate::scalar::{EtherType, MacAddr};

mod field {
    //! Where each field lies.
    use core::ops::Range;

    pub(super) const TYPES: Range<usize> = 0..6;
    pub(super) const OPERATION: Range<usize> = 6..8;
    pub(super) const SENDER_MAC: Range<usize> = 8..14;
    pub(super) const SENDER_IP: Range<usize> = 14..18;
    pub(super) const TARGET_MAC: Range<usize> = 18..24;
    pub(super) const TARGET_IP: Range<usize> = 24..28;
}

/// Ethernet, IPv4 and the lengths of their addresses.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// What the sender wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpOperation {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
}

impl ArpOperation {
    const fn code(self) -> u16 {
        match self {
            Self::Request => 1,
            Self::Reply => 2,
        }
    }
}

/// The meaning of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpPacket {
    /// Request or reply.
    pub operation: ArpOperation,
    /// Who sends.
    pub sender_mac: MacAddr,
    /// The sender's address; unspecified in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// To whom; without meaning in a request.
    pub target_mac: MacAddr,
    /// The address asked for, or the asker's.
    pub target_ip: Ipv4Addr,
}

impl ArpPacket {
    /// Bytes of a packet.
    pub const LEN: usize = 28;
    /// Bytes of a packet in an untagged Ethernet frame without padding.
    pub const FRAME_LEN: usize = ethernet::HEADER_BYTES + Self::LEN;

    /// The packet at the front of the bytes; padding after it is no concern.
    ///
    /// # Errors
    /// When the bytes are too few, other addresses than Ethernet and IPv4 are spoken of, or the
    /// operation is neither request nor reply.
    pub fn parse(bytes: &[u8]) -> Result<Self, ArpError> {
        let packet = bytes
            .first_chunk::<{ Self::LEN }>()
            .ok_or(ArpError::Truncated { need: Self::LEN, have: bytes.len() })?;
        if packet[field::TYPES] != ETHERNET_IPV4 {
            return Err(ArpError::AddressTypes);
        }
        let operation = match u16::from_be_bytes(chunk(packet, field::OPERATION.start)) {
            1 => ArpOperation::Request,
            2 => ArpOperation::Reply,
            other => return Err(ArpError::Operation(other)),
        };
        Ok(Self {
            operation,
            sender_mac: MacAddr(chunk(packet, field::SENDER_MAC.start)),
            sender_ip: chunk(packet, field::SENDER_IP.start).into(),
            target_mac: MacAddr(chunk(packet, field::TARGET_MAC.start)),
            target_ip: chunk(packet, field::TARGET_IP.start).into(),
        })
    }

    /// The answer to a request: `mac` has the address it asks for.
    #[must_use]
    pub const fn reply(&self, mac: MacAddr) -> Self {
        Self {
            operation: ArpOperation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// Writes the packet at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than the packet.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, ArpError> {
        let have = into.len();
        let packet = into
            .first_chunk_mut::<{ Self::LEN }>()
            .ok_or(ArpError::Truncated { need: Self::LEN, have })?;
        packet[field::TYPES].copy_from_slice(&ETHERNET_IPV4);
        packet[field::OPERATION].copy_from_slice(&self.operation.code().to_be_bytes());
        packet[field::SENDER_MAC].copy_from_slice(&self.sender_mac.0);
        packet[field::SENDER_IP].copy_from_slice(&self.sender_ip.octets());
        packet[field::TARGET_MAC].copy_from_slice(&self.target_mac.0);
        packet[field::TARGET_IP].copy_from_slice(&self.target_ip.octets());
        Ok(Self::LEN)
    }

    /// Writes a whole frame, a request to all and a reply to its target, and answers its length,
    /// [`Self::FRAME_LEN`]: padding to the least Ethernet frame is the device's work.
    ///
    /// # Errors
    /// When `into` is shorter than the frame.
    pub fn emit_frame(&self, into: &mut [u8]) -> Result<usize, ArpError> {
        let destination = match self.operation {
            ArpOperation::Request => MacAddr::BROADCAST,
            ArpOperation::Reply => self.target_mac,
        };
        let truncated = ArpError::Truncated { need: Self::FRAME_LEN, have: into.len() };
        let frame = into.get_mut(..Self::FRAME_LEN).ok_or(truncated)?;
        let header = EthernetHeader::untagged(destination, self.sender_mac, EtherType::ARP)
            .emit(frame)
            .map_err(|_| truncated)?;
        Ok(header + self.emit(frame.get_mut(header..).unwrap_or_default())?)
    }
}

fn chunk<const N: usize>(packet: &[u8; ArpPacket::LEN], start: usize) -> [u8; N] {
    core::array::from_fn(|index| packet[start + index])
}

/// Why bytes are no ARP packet for IPv4 over Ethernet, or where none fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpError {
    /// Too few bytes, counted from offset 0.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// Types or lengths other than Ethernet's and IPv4's (offsets 0 to 5).
    AddressTypes,
    /// An operation that is neither request nor reply (offset 6).
    Operation(u16),
}

impl fmt::Display for ArpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => write!(f, "ARP needs {need} bytes, there are {have}"),
            Self::AddressTypes => f.write_str("the ARP packet is not about IPv4 over Ethernet"),
            Self::Operation(code) => write!(f, "ARP operation {code} is unknown"),
        }
    }
}

impl core::error::Error for ArpError {}

#[cfg(test)]
mod tests;
