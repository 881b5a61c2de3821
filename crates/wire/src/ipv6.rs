//! IPv6, RFC 8200.
//!
//! Knows the fixed header and the way through extension headers to the upper layer. Refuses to know
//! what the options in them say, to reassemble, and jumbograms (RFC 2675).
//!
//! ```text
//! |Version| Traffic Class |           Flow Label                  |
//! |         Payload Length        |  Next Header  |   Hop Limit   |
//! |                        Source Address (16)                    |
//! |                      Destination Address (16)                 |
//! ```

use core::fmt;
use core::net::Ipv6Addr;

use crate::scalar::{FlowLabel, FragmentOffset, IpProtocol};

mod field {
    use core::ops::Range;

    pub(super) const PAYLOAD_LENGTH: Range<usize> = 4..6;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: Range<usize> = 8..24;
    pub(super) const DESTINATION: Range<usize> = 24..40;
}

/// Length of the fixed header, bytes.
pub const HEADER_BYTES: usize = 40;
/// Where the octet with the next header is.
pub(crate) const NEXT_HEADER_OFFSET: usize = field::NEXT_HEADER;
/// Where the hop limit is in the header.
pub const HOP_LIMIT_OFFSET: usize = field::HOP_LIMIT;
pub(crate) const DESTINATION_OFFSET: usize = field::DESTINATION.start;
/// Length of the fragment header, bytes.
pub const FRAGMENT_HEADER_BYTES: usize = 8;
/// Extension headers walked before a packet is refused.
pub const EXTENSION_HEADERS_MAX: usize = 8;

/// Why bytes are no IPv6 packet, or a header does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6Error {
    /// The bytes end inside the fixed header.
    Truncated {
        /// Bytes the header takes.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// The version is not 6.
    Version(u8),
    /// The payload length is longer than the bytes.
    PayloadLength {
        /// The length field, bytes.
        field: u16,
        /// Bytes after the fixed header.
        have: usize,
    },
    /// The payload ends inside an extension header.
    ExtensionTruncated {
        /// Which extension header.
        header: IpProtocol,
        /// Where it begins, bytes from the start of the packet.
        offset: usize,
    },
    /// More than [`EXTENSION_HEADERS_MAX`] extension headers.
    TooManyExtensions,
}

impl fmt::Display for Ipv6Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "IPv6 header cut short: {have} of {need} bytes")
            }
            Self::Version(version) => write!(f, "IP version {version} where 6 is expected"),
            Self::PayloadLength { field, have } => {
                write!(f, "IPv6 payload length {field} in {have} bytes")
            }
            Self::ExtensionTruncated { header, offset } => {
                write!(f, "IPv6 extension header {} at {offset} is cut short", header.0)
            }
            Self::TooManyExtensions => {
                write!(f, "more than {EXTENSION_HEADERS_MAX} IPv6 extension headers")
            }
        }
    }
}

impl core::error::Error for Ipv6Error {}

/// What a fragment header says (RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Fragment {
    /// Where this fragment begins in the fragmentable part.
    pub offset: FragmentOffset,
    /// Do more fragments follow?
    pub more_fragments: bool,
    /// Which packet it belongs to.
    pub identification: u32,
}

impl Ipv6Fragment {
    /// A whole packet that carries a fragment header nevertheless (RFC 6946).
    #[must_use]
    pub const fn is_atomic(&self) -> bool {
        self.offset.get() == 0 && !self.more_fragments
    }

    fn read(bytes: &[u8; FRAGMENT_HEADER_BYTES]) -> Self {
        let [_, _, high, low, a, b, c, d] = *bytes;
        let word = u16::from_be_bytes([high, low]);
        Self {
            offset: FragmentOffset::from_low_bits(u32::from(word >> 3)),
            more_fragments: word & 1 == 1,
            identification: u32::from_be_bytes([a, b, c, d]),
        }
    }
}

/// Where the extension headers lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Upper {
    protocol: IpProtocol,
    offset: usize,
    fragment: Option<Ipv6Fragment>,
    /// Where the part begins that is cut into fragments.
    fragmentable: usize,
}

/// A view of a packet. Once [`Ipv6View::parse`] has returned it, no accessor can fail.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6View<'p> {
    fixed: &'p [u8; HEADER_BYTES],
    payload: &'p [u8],
    upper: Upper,
}

impl<'p> Ipv6View<'p> {
    /// Reads the packet at the front of the bytes and walks its extension headers; what is after
    /// its payload length is padding.
    ///
    /// # Errors
    /// When version, lengths or extension headers contradict the bytes.
    #[inline]
    pub fn parse(bytes: &'p [u8]) -> Result<Self, Ipv6Error> {
        Self::read(bytes, false)
    }

    /// The same for what a fragment holds of a packet: its payload length may reach beyond the
    /// bytes.
    ///
    /// # Errors
    /// As [`Ipv6View::parse`].
    #[inline]
    pub fn parse_cut(bytes: &'p [u8]) -> Result<Self, Ipv6Error> {
        Self::read(bytes, true)
    }

    #[inline]
    fn read(bytes: &'p [u8], is_cut: bool) -> Result<Self, Ipv6Error> {
        let (fixed, payload) = split(bytes, is_cut)?;
        let upper = walk(IpProtocol(fixed[field::NEXT_HEADER]), payload)?;
        Ok(Self { fixed, payload, upper })
    }

    /// DSCP and ECN in one octet.
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        traffic_class(self.fixed)
    }

    /// Explicit congestion notification, 0 to 3 (3 = congestion experienced).
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label (RFC 6437).
    #[must_use]
    pub fn flow_label(&self) -> FlowLabel {
        flow_label(self.fixed)
    }

    /// Extension headers and upper layer, bytes.
    #[must_use]
    pub fn payload_length(&self) -> u16 {
        payload_length(self.fixed)
    }

    /// The type of the header after the fixed one.
    #[must_use]
    pub const fn next_header(&self) -> IpProtocol {
        IpProtocol(self.fixed[field::NEXT_HEADER])
    }

    /// Hops left.
    #[must_use]
    pub const fn hop_limit(&self) -> u8 {
        self.fixed[field::HOP_LIMIT]
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        address(&self.fixed[field::SOURCE])
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Ipv6Addr {
        address(&self.fixed[field::DESTINATION])
    }

    /// Everything after the fixed header, without padding.
    #[must_use]
    pub const fn payload(&self) -> &'p [u8] {
        self.payload
    }

    /// The protocol behind the extension headers. Of a later fragment: the type of the header that
    /// the first fragment begins with.
    #[must_use]
    pub const fn upper_protocol(&self) -> IpProtocol {
        self.upper.protocol
    }

    /// Where the upper layer begins, bytes from the start of the packet.
    #[must_use]
    pub const fn upper_offset(&self) -> usize {
        self.upper.offset
    }

    /// Bytes of the upper layer, without padding. Of a later fragment: its part of the data.
    #[must_use]
    pub fn upper(&self) -> &'p [u8] {
        self.payload.get(self.upper.offset - HEADER_BYTES..).unwrap_or_default()
    }

    /// The fragment header, if there is one.
    #[must_use]
    pub const fn fragment(&self) -> Option<Ipv6Fragment> {
        self.upper.fragment
    }

    /// What this fragment holds of the part that is cut into fragments; none: the packet has no
    /// fragment header.
    #[must_use]
    pub fn fragment_data(&self) -> Option<&'p [u8]> {
        self.upper.fragment?;
        self.payload.get(self.upper.fragmentable - HEADER_BYTES..)
    }

    /// The meaning of the fixed header.
    #[must_use]
    pub fn header(&self) -> Ipv6Header {
        Ipv6Header::read(self.fixed)
    }
}

/// The fixed header and its payload.
#[inline]
fn split(bytes: &[u8], is_cut: bool) -> Result<(&[u8; HEADER_BYTES], &[u8]), Ipv6Error> {
    let (fixed, rest) = bytes
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or(Ipv6Error::Truncated { need: HEADER_BYTES, have: bytes.len() })?;
    let version = fixed[0] >> 4;
    if version != 6 {
        return Err(Ipv6Error::Version(version));
    }
    let field = payload_length(fixed);
    let payload = rest
        .get(..usize::from(field))
        .or(is_cut.then_some(rest))
        .ok_or(Ipv6Error::PayloadLength { field, have: rest.len() })?;
    Ok((fixed, payload))
}

/// Goes through the extension headers (RFC 8200 section 4). Behind a later fragment's header there
/// is data, not headers, so the walk ends there.
fn walk(first: IpProtocol, payload: &[u8]) -> Result<Upper, Ipv6Error> {
    let fragmentable = HEADER_BYTES;
    let mut upper = Upper { protocol: first, offset: HEADER_BYTES, fragment: None, fragmentable };
    let mut rest = payload;
    for _ in 0..=EXTENSION_HEADERS_MAX {
        let header = upper.protocol;
        let cut = Ipv6Error::ExtensionTruncated { header, offset: upper.offset };
        let length_of = |words: fn(u8) -> usize| match rest {
            [_, length, ..] => Ok(words(*length)),
            _ => Err(cut),
        };
        let length = match header {
            IpProtocol::HOP_BY_HOP | IpProtocol::ROUTING | IpProtocol::DESTINATION_OPTIONS => {
                length_of(|octets| (usize::from(octets) + 1) * 8)?
            }
            // RFC 4302 section 2.2: in 32-bit words, minus two.
            IpProtocol::AUTHENTICATION => length_of(|words| (usize::from(words) + 2) * 4)?,
            IpProtocol::FRAGMENT => {
                let bytes = rest.first_chunk::<FRAGMENT_HEADER_BYTES>().ok_or(cut)?;
                upper.fragment = Some(Ipv6Fragment::read(bytes));
                upper.fragmentable = upper.offset + FRAGMENT_HEADER_BYTES;
                FRAGMENT_HEADER_BYTES
            }
            _ => return Ok(upper),
        };
        let (extension, after) = rest.split_at_checked(length).ok_or(cut)?;
        upper.protocol = IpProtocol(extension.first().copied().ok_or(cut)?);
        upper.offset += length;
        rest = after;
        if upper.fragment.is_some_and(|fragment| fragment.offset.get() != 0) {
            return Ok(upper);
        }
    }
    Err(Ipv6Error::TooManyExtensions)
}

/// The meaning of a fixed header. If it exists, it can be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Header {
    /// DSCP and ECN in one octet.
    pub traffic_class: u8,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Bytes that follow the fixed header.
    pub payload_length: u16,
    /// The type of the next header.
    pub next_header: IpProtocol,
    /// Hops left.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Ipv6Header {
    /// Reads the header at the front of the bytes, and answers its payload without looking into it: for who
    /// knows which extension header comes first.
    ///
    /// # Errors
    /// When version or payload length contradict the bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Ipv6Error> {
        let (fixed, payload) = split(bytes, false)?;
        Ok((Self::read(fixed), payload))
    }

    fn read(fixed: &[u8; HEADER_BYTES]) -> Self {
        Self {
            traffic_class: traffic_class(fixed),
            flow_label: flow_label(fixed),
            payload_length: payload_length(fixed),
            next_header: IpProtocol(fixed[field::NEXT_HEADER]),
            hop_limit: fixed[field::HOP_LIMIT],
            source: address(&fixed[field::SOURCE]),
            destination: address(&fixed[field::DESTINATION]),
        }
    }

    /// Writes the header to the front of the buffer, 40 bytes.
    ///
    /// # Errors
    /// When the buffer is too short; nothing is written then.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, Ipv6Error> {
        let header = fixed_mut(into)?;
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label.get();
        header[..field::PAYLOAD_LENGTH.start].copy_from_slice(&word.to_be_bytes());
        header[field::PAYLOAD_LENGTH].copy_from_slice(&self.payload_length.to_be_bytes());
        header[field::NEXT_HEADER] = self.next_header.0;
        header[field::HOP_LIMIT] = self.hop_limit;
        header[field::SOURCE].copy_from_slice(&self.source.octets());
        header[field::DESTINATION].copy_from_slice(&self.destination.octets());
        Ok(HEADER_BYTES)
    }
}

/// Replaces the payload length.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_payload_length(packet: &mut [u8], payload_length: u16) -> Result<(), Ipv6Error> {
    fixed_mut(packet)?[field::PAYLOAD_LENGTH].copy_from_slice(&payload_length.to_be_bytes());
    Ok(())
}

/// Replaces the hop limit.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_hop_limit(packet: &mut [u8], hop_limit: u8) -> Result<(), Ipv6Error> {
    fixed_mut(packet)?[field::HOP_LIMIT] = hop_limit;
    Ok(())
}

/// Replaces the source address.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_source(packet: &mut [u8], source: Ipv6Addr) -> Result<(), Ipv6Error> {
    fixed_mut(packet)?[field::SOURCE].copy_from_slice(&source.octets());
    Ok(())
}

/// Replaces the destination address.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_destination(packet: &mut [u8], destination: Ipv6Addr) -> Result<(), Ipv6Error> {
    fixed_mut(packet)?[field::DESTINATION].copy_from_slice(&destination.octets());
    Ok(())
}

/// Replaces DSCP and ECN.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_traffic_class(packet: &mut [u8], traffic_class: u8) -> Result<(), Ipv6Error> {
    let header = fixed_mut(packet)?;
    header[0] = header[0] & 0xf0 | traffic_class >> 4;
    header[1] = header[1] & 0x0f | traffic_class << 4;
    Ok(())
}

/// Replaces the flow label.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_flow_label(packet: &mut [u8], label: FlowLabel) -> Result<(), Ipv6Error> {
    let header = fixed_mut(packet)?;
    let [_, high, middle, low] = label.get().to_be_bytes();
    header[1] = header[1] & 0xf0 | high;
    header[2..4].copy_from_slice(&[middle, low]);
    Ok(())
}

fn fixed_mut(packet: &mut [u8]) -> Result<&mut [u8; HEADER_BYTES], Ipv6Error> {
    let have = packet.len();
    packet.first_chunk_mut().ok_or(Ipv6Error::Truncated { need: HEADER_BYTES, have })
}

const fn traffic_class(fixed: &[u8; HEADER_BYTES]) -> u8 {
    fixed[0] << 4 | fixed[1] >> 4
}

fn flow_label(fixed: &[u8; HEADER_BYTES]) -> FlowLabel {
    let [a, b, c, d, ..] = *fixed;
    FlowLabel::from_low_bits(u32::from_be_bytes([a, b, c, d]))
}

fn payload_length(fixed: &[u8; HEADER_BYTES]) -> u16 {
    let [_, _, _, _, high, low, ..] = *fixed;
    u16::from_be_bytes([high, low])
}

fn address(bytes: &[u8]) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(bytes);
    Ipv6Addr::from(octets)
}

#[cfg(test)]
mod tests;
