//! Coalescing: successive TCP segments of one stream become one super-frame again, under the rules
//! of generic receive offload, so that segmenting it gives back the same frames.
//!
//! Knows which segments continue which. Refuses to keep frames or timers: the caller copies the
//! data, and decides when a train has waited long enough.
//!
//! A caller reads each frame with [`Segment::read`], begins a [`Train`] with the first, copies the
//! frame up to [`Train::frame_bytes`], appends [`Segment::payload`] of each one that
//! [`Train::join`] takes, and ends with [`finish_merged`].

use core::net::IpAddr;
use core::ops::Range;

use super::SEGMENTS_MAX;
use crate::checksum;
use crate::ethernet::{EthernetHeader, EthernetView};
use crate::frame::{Fragment, FrameView, Network};
use crate::ipv4::{self, Ipv4Header, Ipv4View};
use crate::ipv6::{self, Ipv6Header, Ipv6View};
use crate::scalar::IpProtocol;
use crate::tcp::{self, TcpFlags, TcpHeader, TcpView};

/// Flags of segments that are never merged.
const ALONE: TcpFlags = TcpFlags::SYN.with(TcpFlags::RST).with(TcpFlags::URG);
/// Flags that may differ from the first segment, and end a train.
const CLOSING: TcpFlags = TcpFlags::FIN.with(TcpFlags::PSH);
const OPTIONS_BYTES_MAX: usize = tcp::HEADER_BYTES_MAX - tcp::HEADER_BYTES;

/// An IP header without the fields that change from segment to segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SameNetwork {
    V4(Ipv4Header),
    V6(Ipv6Header),
}

/// What all segments of a train have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SameHeaders {
    ethernet: EthernetHeader,
    network: SameNetwork,
    tcp: TcpHeader,
    tcp_reserved: u8,
    options: [u8; OPTIONS_BYTES_MAX],
    l3_offset: u16,
    l4_offset: u16,
    header_bytes: u16,
}

/// A frame that may be part of a train: a whole TCP segment with data, without IPv4 options or IPv6
/// extension headers, its checksums verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    same: SameHeaders,
    identification: u16,
    sequence: u32,
    closing: TcpFlags,
    has_cwr: bool,
    payload_bytes: u32,
}

impl Segment {
    /// Reads a frame; `None` if it must travel alone. This verifies its checksums, so it costs a
    /// pass over the data.
    #[must_use]
    pub fn read(frame: &FrameView, bytes: &[u8]) -> Option<Self> {
        if frame.fragment != Fragment::Whole || frame.protocol != Some(IpProtocol::TCP) {
            return None;
        }
        let ethernet = EthernetView::parse(bytes).ok()?.header();
        let packet = bytes.get(usize::from(frame.l3_offset)..frame.end as usize)?;
        let (network, identification, segment) = read_network(frame.network, packet)?;
        let tcp = TcpView::parse(segment).ok()?;
        let flow = frame.flow?;
        let payload_bytes = u32::try_from(tcp.payload().len()).ok()?;
        let flags = tcp.flags();
        if flags.has_any(ALONE)
            || payload_bytes == 0
            || !tcp.is_checksum_correct(flow.source, flow.destination)
        {
            return None;
        }
        let l4_offset = frame.l4_offset?;
        let mut options = [0; OPTIONS_BYTES_MAX];
        options.get_mut(..tcp.options().len())?.copy_from_slice(tcp.options());
        let same_flags = flags.without(CLOSING.with(TcpFlags::CWR));
        Some(Self {
            same: SameHeaders {
                ethernet,
                network,
                tcp: TcpHeader { sequence: 0, flags: same_flags, ..tcp.header() },
                tcp_reserved: tcp.reserved(),
                options,
                l3_offset: frame.l3_offset,
                l4_offset,
                header_bytes: l4_offset + tcp.header_len() as u16,
            },
            identification,
            sequence: tcp.sequence(),
            closing: TcpFlags(flags.0 & CLOSING.0),
            has_cwr: flags.has_any(TcpFlags::CWR),
            payload_bytes,
        })
    }

    /// Where the data is in the frame that was read.
    #[must_use]
    pub const fn payload(&self) -> Range<usize> {
        let start = self.same.header_bytes as usize;
        start..start + self.payload_bytes as usize
    }
}

/// The common part of an IP header, its identification and what it carries; `None` if the packet
/// must travel alone.
fn read_network(network: Network, packet: &[u8]) -> Option<(SameNetwork, u16, &[u8])> {
    match network {
        Network::Ipv4 => {
            let ip = Ipv4View::parse(packet).ok()?;
            if !ip.options().is_empty() || ip.reserved_flag() || !ip.is_checksum_correct() {
                return None;
            }
            let same = Ipv4Header { identification: 0, payload_bytes: 0, ..ip.header() };
            Some((SameNetwork::V4(same), ip.identification(), ip.payload()))
        }
        Network::Ipv6 => {
            let ip = Ipv6View::parse(packet).ok()?;
            if ip.next_header() != IpProtocol::TCP {
                return None;
            }
            let same = Ipv6Header { payload_length: 0, ..ip.header() };
            Some((SameNetwork::V6(same), 0, ip.payload()))
        }
        Network::Arp | Network::Other => None,
    }
}

/// Segments that follow each other, to be sent as one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    first: Segment,
    closing: TcpFlags,
    payload_bytes: u32,
    last_bytes: u32,
    count: u32,
}

impl Train {
    /// A train of one segment.
    #[must_use]
    pub const fn begin(first: Segment) -> Self {
        Self {
            closing: first.closing,
            payload_bytes: first.payload_bytes,
            last_bytes: first.payload_bytes,
            count: 1,
            first,
        }
    }

    /// How many segments it has.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Length of the merged frame so far, without padding.
    #[must_use]
    pub const fn frame_bytes(&self) -> usize {
        self.first.same.header_bytes as usize + self.payload_bytes as usize
    }

    /// Can no segment join any more, because the last one was short, pushed or finished?
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closing.0 != 0 || self.last_bytes < self.first.payload_bytes
    }

    /// Does the segment continue this train: the same headers, the next sequence number, no longer
    /// than the first, and the whole not longer than an IP packet?
    #[must_use]
    pub fn accepts(&self, next: &Segment) -> bool {
        !self.is_closed()
            && !next.has_cwr
            && self.count < SEGMENTS_MAX
            && next.sequence == self.first.sequence.wrapping_add(self.payload_bytes)
            && next.payload_bytes <= self.first.payload_bytes
            && self.packet_bytes() + next.payload_bytes as usize <= ipv4::PACKET_BYTES_MAX
            && self.identification_continues(next)
            && next.same == self.first.same
    }

    /// Adds the segment if the train accepts it, and says whether it did. The caller then appends
    /// the segment's data to the merged frame.
    pub fn join(&mut self, next: &Segment) -> bool {
        let is_accepted = self.accepts(next);
        if is_accepted {
            self.closing = next.closing;
            self.payload_bytes += next.payload_bytes;
            self.last_bytes = next.payload_bytes;
            self.count += 1;
        }
        is_accepted
    }

    fn packet_bytes(&self) -> usize {
        self.frame_bytes() - usize::from(self.first.same.l3_offset)
    }

    /// Identification counts up, unless nobody may look at it (RFC 6864 section 4.1).
    fn identification_continues(&self, next: &Segment) -> bool {
        match self.first.same.network {
            SameNetwork::V4(header) if !header.dont_fragment => {
                next.identification == self.first.identification.wrapping_add(self.count as u16)
            }
            _ => true,
        }
    }

    fn ends(&self) -> (IpAddr, IpAddr) {
        match self.first.same.network {
            SameNetwork::V4(header) => (header.source.into(), header.destination.into()),
            SameNetwork::V6(header) => (header.source.into(), header.destination.into()),
        }
    }
}

/// What a sender tells the kernel about a merged frame (virtio network header, virtio 1.2 section
/// 5.1.6). Offsets count bytes from the frame's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offload {
    /// IPv4 or IPv6.
    pub network: Network,
    /// Where the checksummed part begins.
    pub checksum_start: u16,
    /// Where the checksum is, from there.
    pub checksum_offset: u16,
    /// Bytes of all headers.
    pub header_bytes: u16,
    /// Bytes of data in each segment but the last.
    pub segment_bytes: u16,
    /// Does the first segment carry CWR (the ECN bit of the GSO type)?
    pub has_cwr: bool,
}

/// Turns the headers of the first segment, followed by the data of all, into those of one
/// super-frame: lengths, header checksum, FIN and PSH of the last, and the sum of the pseudo header
/// where the checksum belongs.
///
/// `None`, the frame untouched, for a train of one segment, which is complete as it is, and for a
/// frame that is not [`Train::frame_bytes`] long.
pub fn finish_merged(frame: &mut [u8], train: &Train) -> Option<Offload> {
    if train.count < 2 || frame.len() != train.frame_bytes() {
        return None;
    }
    let same = &train.first.same;
    let packet = frame.get_mut(usize::from(same.l3_offset)..)?;
    let network = match same.network {
        SameNetwork::V4(_) => {
            ipv4::set_total_length(packet, u16::try_from(packet.len()).ok()?).ok()?;
            Network::Ipv4
        }
        SameNetwork::V6(_) => {
            let payload_length = packet.len().checked_sub(ipv6::HEADER_BYTES)?;
            ipv6::set_payload_length(packet, u16::try_from(payload_length).ok()?).ok()?;
            Network::Ipv6
        }
    };
    let segment = packet.get_mut(usize::from(same.l4_offset - same.l3_offset)..)?;
    let flags = TcpView::parse(segment).ok()?.flags().with(train.closing);
    tcp::set_flags(segment, flags).ok()?;
    let (source, destination) = train.ends();
    let length_bytes = u32::try_from(segment.len()).ok()?;
    let pseudo = checksum::pseudo_header(source, destination, IpProtocol::TCP, length_bytes);
    tcp::set_checksum(segment, pseudo.folded()).ok()?;
    Some(Offload {
        network,
        checksum_start: same.l4_offset,
        checksum_offset: tcp::CHECKSUM_OFFSET as u16,
        header_bytes: same.header_bytes,
        segment_bytes: u16::try_from(train.first.payload_bytes).ok()?,
        has_cwr: train.first.has_cwr,
    })
}

#[cfg(test)]
mod tests;
