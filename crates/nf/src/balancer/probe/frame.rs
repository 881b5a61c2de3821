//! The frames of checks. Knows how they are written; refuses to know when.

use super::super::standing::{LINK_BYTES_MAX, Link};
use catena_wire::ethernet::EthernetHeader;
use catena_wire::ipv4::Ipv4Header;
use catena_wire::ipv6::{self, Ipv6Header};
use catena_wire::scalar::{EtherType, FlowLabel, FragmentOffset, IpProtocol, MacAddr};
use catena_wire::tcp::{self, TcpHeader};
use std::io::Write;
use std::net::IpAddr;

/// The longest request: a path of 255 bytes, the longest address, and what stands around them.
const REQUEST_BYTES_MAX: usize = 400;
/// The longest frame, bytes.
pub(super) const FRAME_BYTES_MAX: usize =
    LINK_BYTES_MAX + ipv6::HEADER_BYTES + tcp::HEADER_BYTES + REQUEST_BYTES_MAX;
const HOP_LIMIT: u8 = 64;

/// A segment of a check.
pub(super) struct Ask<'p> {
    pub(super) link: Link,
    /// From whom, to whom.
    pub(super) ends: (IpAddr, IpAddr),
    pub(super) header: TcpHeader,
    /// What GET asks for; none: the segment carries nothing.
    pub(super) path: Option<&'p str>,
}

/// An untagged header between these stations, to the first.
pub(super) fn link((to, from): (MacAddr, MacAddr), address: IpAddr) -> Option<Link> {
    let ethertype = if address.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let mut bytes = [0; LINK_BYTES_MAX];
    let length = EthernetHeader::untagged(to, from, ethertype).emit(&mut bytes).ok()?;
    Link::of(bytes.get(..length)?)
}

impl Ask<'_> {
    /// Writes the frame; answers its length, and how many bytes the segment carries.
    pub(super) fn emit(&self, into: &mut [u8]) -> Option<(usize, u32)> {
        let link = self.link.bytes();
        into.get_mut(..link.len())?.copy_from_slice(link);
        let ip_bytes = if self.ends.0.is_ipv4() { 20 } else { ipv6::HEADER_BYTES };
        let (packet, segment) = into.get_mut(link.len()..)?.split_at_mut_checked(ip_bytes)?;
        self.header.emit(segment).ok()?;
        let carried = match self.path {
            Some(path) => self.request(path, segment.get_mut(tcp::HEADER_BYTES..)?)?,
            None => 0,
        };
        let payload_bytes = tcp::HEADER_BYTES + carried;
        let (source, destination) = self.ends;
        tcp::refresh_checksum(segment.get_mut(..payload_bytes)?, source, destination).ok()?;
        match self.ends {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ipv4Header {
                traffic_class: 0,
                payload_bytes,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: FragmentOffset::new(0).ok()?,
                ttl: HOP_LIMIT,
                protocol: IpProtocol::TCP,
                source,
                destination,
            }
            .emit(packet)
            .ok()?,
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ipv6Header {
                traffic_class: 0,
                flow_label: FlowLabel::new(0).ok()?,
                payload_length: u16::try_from(payload_bytes).ok()?,
                next_header: IpProtocol::TCP,
                hop_limit: HOP_LIMIT,
                source,
                destination,
            }
            .emit(packet)
            .ok()?,
            _ => return None,
        };
        Some((link.len() + ip_bytes + payload_bytes, u32::try_from(carried).ok()?))
    }

    /// Writes the request (RFC 9112 section 3); answers its length.
    fn request(&self, path: &str, into: &mut [u8]) -> Option<usize> {
        let room = into.len();
        let mut rest = into;
        let before = "User-Agent: catena\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        match self.ends.1 {
            IpAddr::V4(host) => write!(rest, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{before}"),
            IpAddr::V6(host) => write!(rest, "GET {path} HTTP/1.1\r\nHost: [{host}]\r\n{before}"),
        }
        .ok()?;
        Some(room - rest.len())
    }
}
