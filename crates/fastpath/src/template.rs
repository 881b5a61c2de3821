//! The headers before packets of a flow as a template: what is the same for all of them. Knows IPv4, UDP
//! and segments of IPv6; refuses to know what is carried.

use crate::transform::KERNEL_TAG;
use catena_wire::ipv4::{self, Ipv4Header};
use catena_wire::scalar::{FragmentOffset, IpProtocol};
use catena_wire::udp::UdpHeader;
use catena_wire::{ipv6, srv6};
use std::net::Ipv4Addr;

/// Time to live of outer headers.
const TTL: u8 = 64;

/// The outer headers of a tunnel packet. The UDP checksum is zero, which RFC 7348 section 5 and
/// RFC 7510 section 3.1 allow over IPv4: the kernel could not compute one for a super-frame, and a
/// receiver knows by it that the packet was made by a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterHeader {
    /// Own address on the underlay.
    pub source: Ipv4Addr,
    /// The other node's.
    pub destination: Ipv4Addr,
    /// UDP source port: the same for a whole flow.
    pub source_port: u16,
    /// UDP port of the tunnel.
    pub destination_port: u16,
}

impl OuterHeader {
    /// The headers, for [`crate::Transform::then_push_tunnel`], followed by `shim`: what stands
    /// between UDP and the inner Ethernet header. Always there.
    #[must_use]
    pub fn with(&self, shim: &[u8]) -> Option<Vec<u8>> {
        const IPV4: usize = ipv4::HEADER_BYTES;
        let mut bytes = vec![0; IPV4 + catena_wire::udp::HEADER_BYTES];
        let ip = Ipv4Header {
            traffic_class: 0,
            payload_bytes: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: FragmentOffset::new(0).ok()?,
            ttl: TTL,
            protocol: IpProtocol::UDP,
            source: self.source,
            destination: self.destination,
        };
        let udp = UdpHeader {
            source_port: self.source_port,
            destination_port: self.destination_port,
            length: 0,
            checksum: 0,
        };
        let (first, second) = bytes.split_at_mut_checked(IPV4)?;
        ip.emit(first).ok()?;
        // Completed for each packet; the checksum is that of the length zero.
        ipv4::set_total_length(first, 0).ok()?;
        udp.emit(second).ok()?;
        bytes.extend_from_slice(shim);
        Some(bytes)
    }
}

/// The headers of segments for [`crate::Transform::then_push_segments`], as one packet of the flow has them:
/// an IPv6 header and a routing header without TLVs. `None`: it is another header.
#[must_use]
pub fn segments_template(written: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = written.to_vec();
    ipv6::set_payload_length(&mut bytes, 0).ok()?;
    ipv6::set_traffic_class(&mut bytes, 0).ok()?;
    srv6::set_tag(&mut bytes, KERNEL_TAG).ok()?;
    let (routing, behind) =
        srv6::SegmentRoutingView::parse(bytes.get(ipv6::HEADER_BYTES..)?).ok()?;
    let is_plain = behind.is_empty() && routing.tlvs().next().is_none() && routing.flags().0 == 0;
    is_plain.then_some(bytes)
}
