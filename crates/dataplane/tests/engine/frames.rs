//! Frames for tests, made by the emitters of `wire` alone.

use crate::town::identities;
use catena_wire::ethernet::{EthernetHeader, VlanTag};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::ipv4::Ipv4Header;
use catena_wire::ipv6::Ipv6Header;
use catena_wire::scalar::{
    EtherType, FlowLabel, FragmentOffset, IpProtocol, MacAddr, MplsLabel, Spi, VlanId,
};
use catena_wire::source_route::native::{NativeHeader, PortWidth};
use catena_wire::source_route::polka::residues::identify;
use catena_wire::source_route::polka::{Degree, PolkaHeader};
use catena_wire::source_route::sr_mpls::{self, SrMplsHeader};
use catena_wire::source_route::{self, Next, SourceRouteError};
use catena_wire::tcp::{TcpFlags, TcpHeader};
use catena_wire::udp::UdpHeader;
use catena_wire::varying::VaryingFields;
use catena_wire::{ipv4, ipv6, tcp, udp};
use std::net::IpAddr;

/// What a test frame says; everything else is fixed.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) source_mac: MacAddr,
    pub(crate) destination_mac: MacAddr,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: IpProtocol,
    pub(crate) ports: (u16, u16),
    pub(crate) vlan: Option<u16>,
    pub(crate) ttl: u8,
    pub(crate) sequence: u32,
    pub(crate) identification: u16,
    /// Offset in units of eight bytes, and whether more fragments follow.
    pub(crate) fragment: (u16, bool),
    pub(crate) payload: Vec<u8>,
    /// What it shows beside its flow; TCP without flags has ACK.
    pub(crate) varying: VaryingFields,
}

impl Spec {
    /// The answer to it.
    pub(crate) fn answer(&self) -> Self {
        Self {
            source_mac: self.destination_mac,
            destination_mac: self.source_mac,
            source: self.destination,
            destination: self.source,
            ports: (self.ports.1, self.ports.0),
            ..self.clone()
        }
    }

    /// The whole frame, checksums included.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let transport = self.transport();
        let is_v4 = self.source.is_ipv4();
        let tag = self.vlan.map(|id| VlanTag {
            tag_type: EtherType::VLAN,
            priority: 0,
            is_drop_eligible: false,
            id: VlanId::new(u32::from(id)).unwrap(),
        });
        let ethernet = EthernetHeader {
            destination: self.destination_mac,
            source: self.source_mac,
            tags: [tag, None],
            ethertype: if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 },
        };
        let mut frame = vec![0; ethernet.len_bytes()];
        ethernet.emit(&mut frame).unwrap();
        frame.extend(self.network(transport.len()));
        frame.extend(transport);
        frame
    }

    fn transport(&self) -> Vec<u8> {
        if self.fragment.0 > 0 {
            return self.payload.clone();
        }
        let (source_port, destination_port) = self.ports;
        let (source, destination) = (self.source, self.destination);
        let mut bytes;
        match self.protocol {
            IpProtocol::TCP => {
                bytes = vec![0; tcp::HEADER_BYTES];
                let header = TcpHeader {
                    source_port,
                    destination_port,
                    sequence: self.sequence,
                    acknowledgment: 1,
                    flags: self.varying.tcp_flags.unwrap_or(TcpFlags::ACK),
                    window: 1_000,
                    urgent_pointer: 0,
                };
                header.emit(&mut bytes).unwrap();
                bytes.extend(&self.payload);
                tcp::refresh_checksum(&mut bytes, source, destination).unwrap();
            }
            IpProtocol::UDP => {
                bytes = vec![0; udp::HEADER_BYTES];
                let length = u16::try_from(udp::HEADER_BYTES + self.payload.len()).unwrap();
                let header = UdpHeader { source_port, destination_port, length, checksum: 0 };
                header.emit(&mut bytes).unwrap();
                bytes.extend(&self.payload);
                udp::refresh_checksum(&mut bytes, source, destination).unwrap();
            }
            _ => bytes = self.payload.clone(),
        }
        bytes
    }

    fn network(&self, payload_bytes: usize) -> Vec<u8> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = Ipv4Header {
                    traffic_class: self.varying.traffic_class(),
                    payload_bytes,
                    identification: self.identification,
                    dont_fragment: self.fragment == (0, false),
                    more_fragments: self.fragment.1,
                    fragment_offset: FragmentOffset::new(u32::from(self.fragment.0)).unwrap(),
                    ttl: self.ttl,
                    protocol: self.protocol,
                    source,
                    destination,
                };
                let mut bytes = vec![0; ipv4::HEADER_BYTES];
                header.emit(&mut bytes).unwrap();
                bytes
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6Header {
                    traffic_class: self.varying.traffic_class(),
                    flow_label: FlowLabel::new(0).unwrap(),
                    payload_length: u16::try_from(payload_bytes).unwrap(),
                    next_header: self.protocol,
                    hop_limit: self.ttl,
                    source,
                    destination,
                };
                let mut bytes = vec![0; ipv6::HEADER_BYTES];
                header.emit(&mut bytes).unwrap();
                bytes
            }
            _ => panic!("a packet has one IP version"),
        }
    }
}

/// The flow of a frame.
pub(crate) fn flow(frame: &[u8]) -> FlowKey {
    FrameView::parse(frame).unwrap().flow.unwrap()
}

/// The EtherType of a frame, behind its tags.
pub(crate) fn ethertype(bytes: &[u8]) -> EtherType {
    FrameView::parse(bytes).unwrap().ethertype
}

/// The destination MAC of a frame.
pub(crate) fn destination_mac(frame: &[u8]) -> MacAddr {
    FrameView::parse(frame).unwrap().destination
}

/// The addresses of a frame as they are on links: no source is anybody's destination.
pub(crate) fn addresses_on_links(frame: &[u8]) -> Vec<u8> {
    let mut addresses = frame[..12].to_vec();
    addresses[6] ^= 2;
    addresses
}

/// This untagged frame of IPv4 with a `native` header that names these ports, the one taken first first.
pub(crate) fn source_routed(way: &[u8], path: u32, frame: &[u8]) -> Vec<u8> {
    let header = NativeHeader {
        width: PortWidth::Eight,
        way,
        path: Spi::new(path).ok(),
        tag: None,
        detours: &[],
        ether_type: EtherType::IPV4,
    };
    let mut bytes = addresses_on_links(frame);
    bytes.resize(header.len_bytes(), 0);
    header.emit(&mut bytes).unwrap();
    bytes.extend(&frame[14..]);
    bytes
}

/// This untagged frame with a stack of labels that name these ports, the one taken first first.
pub(crate) fn labelled(way: &[u8], path: u32, frame: &[u8]) -> Vec<u8> {
    let header = SrMplsHeader::new(way, MplsLabel::ordinary(path).unwrap()).unwrap();
    let mut bytes = addresses_on_links(frame);
    bytes.resize(header.len_bytes(), 0);
    header.emit(&mut bytes).unwrap();
    bytes.extend(frame);
    bytes
}

/// A node's step along a source route, the bytes off that its header loses by it.
pub(crate) fn step(frame: &mut Vec<u8>) -> Result<u8, SourceRouteError> {
    let next = source_route::advance(frame, &[])?;
    if let Next::Pop(_) = next {
        frame.drain(..sr_mpls::PORT_BYTES);
    }
    Ok(next.port().unwrap_or_default())
}

/// This untagged frame of IPv4 with a number that names these ports to these nodes of a town, and a hop limit
/// of its own.
pub(crate) fn numbered(way: &[(usize, u8)], hops: u8, path: u32, frame: &[u8]) -> Vec<u8> {
    let residue =
        |(node, port): &(usize, u8)| (identities(*node)[0].polynomial().unwrap(), u16::from(*port));
    let residues: Vec<_> = way.iter().map(residue).collect();
    let mut number = vec![0; Degree::Sixteen.octets(way.len())];
    identify(&residues, &mut number).unwrap();
    let header = PolkaHeader {
        degree: Degree::Sixteen,
        pass: 0,
        hops,
        number: &number,
        path: Spi::new(path).ok(),
        ether_type: EtherType::IPV4,
    };
    let mut bytes = addresses_on_links(frame);
    bytes.resize(header.len_bytes(), 0);
    header.emit(&mut bytes).unwrap();
    bytes.extend(&frame[14..]);
    bytes
}
