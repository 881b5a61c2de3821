//! Segmentation in software: one super-frame becomes the frames a wire can carry, as a network
//! card would make them. The way back is in [`coalesce`].
//!
//! Knows which header fields differ from segment to segment. Refuses to know why a frame is larger
//! than a wire's, and offload headers of the kernel.

use core::fmt;
use core::net::IpAddr;
use core::ops::Range;

use crate::checksum::Sum;
use crate::frame::{Fragment, FrameError, FrameView, Network, TransportError};
use crate::scalar::IpProtocol;
use crate::tcp::TcpView;
use crate::udp::UdpHeader;
use crate::vxlan::VxlanHeader;
use crate::{ipv4, ipv6, tcp, udp};

pub mod coalesce;

/// Segments of one super-frame at most: 64 KiB of data in the smallest TCP segments that Linux
/// makes (48 bytes) are 1,366.
pub const SEGMENTS_MAX: u32 = 2_048;

/// What a super-frame is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// TCP segments of one stream.
    Tcp,
    /// UDP datagrams with the same ports.
    Udp,
}

impl SegmentKind {
    const fn protocol(self) -> IpProtocol {
        match self {
            Self::Tcp => IpProtocol::TCP,
            Self::Udp => IpProtocol::UDP,
        }
    }
}

/// Why a frame cannot be segmented, or its checksum not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// The frame itself is malformed.
    Frame(FrameError),
    /// It does not carry the protocol of its kind.
    Protocol(Option<IpProtocol>),
    /// It is a fragment.
    Fragmented,
    /// A segment would hold no data.
    NoSegmentSize,
    /// It would become more than [`SEGMENTS_MAX`] segments.
    TooMany {
        /// How many.
        segments: u32,
    },
    /// The place of a checksum is beyond the frame.
    ChecksumPlace {
        /// Where the checksummed part begins.
        start: u16,
        /// Where the checksum is, from there.
        offset: u16,
    },
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::Protocol(Some(protocol)) => {
                write!(f, "super-frame of IP protocol {}", protocol.0)
            }
            Self::Protocol(None) => write!(f, "super-frame without IP"),
            Self::Fragmented => write!(f, "super-frame is an IP fragment"),
            Self::NoSegmentSize => write!(f, "super-frame with segments of zero bytes"),
            Self::TooMany { segments } => write!(f, "{segments} segments in one super-frame"),
            Self::ChecksumPlace { start, offset } => {
                write!(f, "checksum at {start} + {offset} is beyond the frame")
            }
        }
    }
}

impl core::error::Error for SegmentError {}

/// How a super-frame is to be cut. It holds no reference to the frame, which must come with every
/// call, unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperFrame {
    kind: SegmentKind,
    network: Network,
    source: IpAddr,
    destination: IpAddr,
    l3_offset: usize,
    l4_offset: usize,
    header_bytes: usize,
    end: usize,
    segment_bytes: u16,
    count: u32,
    /// The tunnel around it, if its sender has put it into one.
    outer: Option<Outer>,
}

/// A tunnel's headers, which each segment repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outer {
    network: Network,
    source: IpAddr,
    destination: IpAddr,
    l3_offset: usize,
    l4_offset: usize,
}

impl SuperFrame {
    /// Plans the cut of a frame into segments of at most `segment_bytes` bytes of data each.
    ///
    /// A frame with less data than that is one segment. IPv4 options and IPv6 extension headers are
    /// repeated in every segment. Padding after the IP packet is left out.
    ///
    /// # Errors
    /// When the frame is no whole packet of that kind or would become too many.
    pub fn parse(
        bytes: &[u8],
        kind: SegmentKind,
        segment_bytes: u16,
    ) -> Result<Self, SegmentError> {
        let frame = FrameView::parse(bytes).map_err(SegmentError::Frame)?;
        let protocol = SegmentError::Protocol(frame.protocol);
        let (flow, l4_offset) = frame.flow.zip(frame.l4_offset).ok_or(protocol)?;
        if flow.protocol != kind.protocol() {
            return Err(protocol);
        }
        if frame.fragment != Fragment::Whole {
            return Err(SegmentError::Fragmented);
        }
        let (l4_offset, end) = (usize::from(l4_offset), frame.end as usize);
        let transport_bytes = match kind {
            SegmentKind::Udp => udp::HEADER_BYTES,
            SegmentKind::Tcp => TcpView::parse(bytes.get(l4_offset..end).unwrap_or_default())
                .map_err(|error| {
                    SegmentError::Frame(FrameError::Transport(TransportError::Tcp(error)))
                })?
                .header_len(),
        };
        let header_bytes = l4_offset + transport_bytes;
        let payload_bytes = frame.end.saturating_sub(header_bytes as u32);
        let segments = payload_bytes
            .checked_sub(1)
            .map_or(Some(0), |last| last.checked_div(u32::from(segment_bytes)))
            .ok_or(SegmentError::NoSegmentSize)?
            + 1;
        if segments > SEGMENTS_MAX {
            return Err(SegmentError::TooMany { segments });
        }
        Ok(Self {
            kind,
            network: frame.network,
            source: flow.source,
            destination: flow.destination,
            l3_offset: usize::from(frame.l3_offset),
            l4_offset,
            header_bytes,
            end,
            segment_bytes,
            count: segments,
            outer: None,
        })
    }

    /// The same for a super-frame that its sender has put into VXLAN (RFC 7348) of its own: each
    /// segment gets the tunnel's headers too. `transport` is where the sender says that the inner
    /// transport header begins.
    ///
    /// # Errors
    /// As above, and when it is no VXLAN packet, or has its inner transport elsewhere.
    pub fn parse_in_vxlan(
        bytes: &[u8],
        kind: SegmentKind,
        segment_bytes: u16,
        transport: u16,
    ) -> Result<Self, SegmentError> {
        let outer = FrameView::parse(bytes).map_err(SegmentError::Frame)?;
        let protocol = SegmentError::Protocol(outer.protocol);
        let (flow, l4_offset) = outer.flow.zip(outer.l4_offset).ok_or(protocol)?;
        if flow.protocol != IpProtocol::UDP {
            return Err(protocol);
        }
        if outer.fragment != Fragment::Whole {
            return Err(SegmentError::Fragmented);
        }
        let l4_offset = usize::from(l4_offset);
        let at = l4_offset + udp::HEADER_BYTES + VxlanHeader::LEN;
        let carried = bytes.get(at..outer.end as usize).ok_or(protocol)?;
        let inner = Self::parse(carried, kind, segment_bytes)?;
        if inner.l4_offset + at != usize::from(transport) || inner.end != carried.len() {
            return Err(protocol);
        }
        let outer = Outer {
            network: outer.network,
            source: flow.source,
            destination: flow.destination,
            l3_offset: usize::from(outer.l3_offset),
            l4_offset,
        };
        Ok(Self {
            l3_offset: inner.l3_offset + at,
            l4_offset: inner.l4_offset + at,
            header_bytes: inner.header_bytes + at,
            end: inner.end + at,
            outer: Some(outer),
            ..inner
        })
    }

    /// How many segments there are, at least one.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of the headers that each segment repeats, Ethernet to transport.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// Length of the frame of segment `i`, headers included; zero if there is no such segment.
    #[must_use]
    pub fn segment_len(&self, i: u32) -> usize {
        self.data(i).map_or(0, |data| self.header_bytes + data.len())
    }

    /// Where the data of segment `i` is in the super-frame.
    fn data(&self, i: u32) -> Option<Range<usize>> {
        if i >= self.count {
            return None;
        }
        let start = self.header_bytes + i as usize * usize::from(self.segment_bytes);
        Some(start..self.end.min(start + usize::from(self.segment_bytes)))
    }

    /// Writes the complete frame of segment `i`, checksums included, to the front of `into` and
    /// says how many bytes it took. `bytes` is the frame that was parsed.
    ///
    /// IPv4 identification counts up; TCP sequence moves on, and flags are those of
    /// [`tcp::TcpFlags::of_segment`].
    ///
    /// Writes nothing meaningful and says zero if there is no such segment, the buffer is too short
    /// or `bytes` is another frame.
    pub fn write_segment(&self, bytes: &[u8], i: u32, into: &mut [u8]) -> usize {
        self.try_write_segment(bytes, i, into).unwrap_or(0)
    }

    fn try_write_segment(&self, bytes: &[u8], i: u32, into: &mut [u8]) -> Option<usize> {
        let data = self.data(i)?;
        let done_bytes = (data.start - self.header_bytes) as u32;
        let frame = into.get_mut(..self.header_bytes + data.len())?;
        let (headers, payload) = frame.split_at_mut_checked(self.header_bytes)?;
        headers.copy_from_slice(bytes.get(..self.header_bytes)?);
        payload.copy_from_slice(bytes.get(data)?);
        let packet = frame.get_mut(self.l3_offset..)?;
        finish_network(self.network, packet, i)?;
        let segment = packet.get_mut(self.l4_offset - self.l3_offset..)?;
        match self.kind {
            SegmentKind::Tcp => self.finish_tcp(segment, i, done_bytes)?,
            SegmentKind::Udp => {
                udp::set_length(segment, u16::try_from(segment.len()).ok()?).ok()?;
                udp::refresh_checksum(segment, self.source, self.destination).ok()?;
            }
        }
        if let Some(outer) = self.outer {
            outer.finish(frame, i)?;
        }
        Some(frame.len())
    }

    fn finish_tcp(&self, segment: &mut [u8], i: u32, done_bytes: u32) -> Option<()> {
        let tcp = TcpView::parse(segment).ok()?;
        let sequence = tcp.sequence().wrapping_add(done_bytes);
        let flags = tcp.flags().of_segment(i, self.count);
        tcp::set_sequence(segment, sequence).ok()?;
        tcp::set_flags(segment, flags).ok()?;
        tcp::refresh_checksum(segment, self.source, self.destination).ok()
    }
}

impl Outer {
    /// Makes the tunnel's headers those of segment `i`, whose frame is complete but for them.
    fn finish(&self, frame: &mut [u8], i: u32) -> Option<()> {
        finish_network(self.network, frame.get_mut(self.l3_offset..)?, i)?;
        let datagram = frame.get_mut(self.l4_offset..)?;
        udp::set_length(datagram, u16::try_from(datagram.len()).ok()?).ok()?;
        // Most tunnels have none (RFC 7348 section 5); it covers what is inside, so it comes last.
        if UdpHeader::read(datagram).ok()?.checksum == 0 {
            return Some(());
        }
        udp::refresh_checksum(datagram, self.source, self.destination).ok()
    }
}

fn finish_network(network: Network, packet: &mut [u8], i: u32) -> Option<()> {
    if network == Network::Ipv6 {
        let payload_length = packet.len().checked_sub(ipv6::HEADER_BYTES)?;
        return ipv6::set_payload_length(packet, u16::try_from(payload_length).ok()?).ok();
    }
    let first = ipv4::identification(packet)?;
    ipv4::set_identification(packet, first.wrapping_add(i as u16)).ok()?;
    ipv4::set_total_length(packet, u16::try_from(packet.len()).ok()?).ok()?;
    // Not updated in place: a card computes it anew, and the kernel relies on that.
    ipv4::refresh_checksum(packet).ok()
}

/// Completes a checksum that was left to a device: the field at `start + offset` holds the sum of
/// the pseudo header, and the checksum covers everything from `start` to the end of the slice.
///
/// The frame must end where its IP packet ends, or in padding of zeros. A result of zero becomes
/// `0xffff`: UDP demands it (RFC 768) and to others it is the same.
///
/// # Errors
/// When the field is not inside the frame.
pub fn complete_checksum(frame: &mut [u8], start: u16, offset: u16) -> Result<(), SegmentError> {
    let beyond = SegmentError::ChecksumPlace { start, offset };
    let covered = frame.get_mut(usize::from(start)..).ok_or(beyond)?;
    let checksum = Sum::of(covered).checksum_never_zero();
    let field = covered.get_mut(usize::from(offset)..usize::from(offset) + 2).ok_or(beyond)?;
    field.copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests;
