//! Complete packets, made with the crate under test alone.

use std::net::{IpAddr, Ipv4Addr};

use catena_wire::ethernet::EthernetHeader;
use catena_wire::ipv4::{self, Ipv4Header};
use catena_wire::mpls::SfcLabelPair;
use catena_wire::nsh::{Metadata, NshHeader, NshNextProtocol};
use catena_wire::scalar::{
    EtherType, FragmentOffset, IpProtocol, MacAddr, MplsLabel, NshTtl, ServiceIndex, Spi, Vni,
};
use catena_wire::tcp::{self, TcpFlags, TcpHeader};
use catena_wire::udp::{self, UdpHeader};
use catena_wire::vxlan::VxlanHeader;
use catena_wire::vxlan_gpe::{GpeNextProtocol, VxlanGpeHeader};

pub(crate) const HOST_1: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
pub(crate) const HOST_2: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);
pub(crate) const CLIENT: MacAddr = MacAddr([2, 0, 0, 0, 2, 1]);
pub(crate) const SERVER: MacAddr = MacAddr([2, 0, 0, 0, 2, 2]);
const UNDERLAY: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
const TENANT: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
/// Dynamic ports, so that no program guesses a protocol from them.
pub(crate) const TENANT_PORTS: (u16, u16) = (50_001, 50_002);
/// Source port of the tunnels.
pub(crate) const ENTROPY: u16 = 50_000;
pub(crate) const METADATA: [u8; 16] = [
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
];

pub(crate) fn vni() -> Vni {
    Vni::new(0x12_34a5).unwrap()
}

/// The header of an NSH packet to a function three places down path 0xabcdef.
pub(crate) fn nsh(metadata: Metadata<'_>, next: NshNextProtocol) -> NshHeader<'_> {
    let (spi, ttl) = (Spi::new(0xab_cdef).unwrap(), NshTtl::new(60).unwrap());
    NshHeader { spi, si: ServiceIndex(252), ttl, metadata, next, is_oam: false }
}

pub(crate) fn label_pair() -> SfcLabelPair {
    SfcLabelPair::new(MplsLabel::ordinary(0x1_2345).unwrap(), ServiceIndex(252), 60).unwrap()
}

/// Bytes written by an emitter that is given room enough.
pub(crate) fn emitted<E: std::fmt::Debug>(
    emit: impl FnOnce(&mut [u8]) -> Result<usize, E>,
) -> Vec<u8> {
    let mut into = vec![0xa5; 512];
    let length = emit(&mut into).unwrap();
    into.truncate(length);
    into
}

/// An Ethernet frame.
pub(crate) fn frame(
    destination: MacAddr,
    source: MacAddr,
    ethertype: EtherType,
    payload: &[u8],
) -> Vec<u8> {
    let header = EthernetHeader::untagged(destination, source, ethertype);
    [&emitted(|into| header.emit(into)), payload].concat()
}

/// An IPv4 packet with a correct header checksum.
fn packet(addresses: (Ipv4Addr, Ipv4Addr), protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let header = Ipv4Header {
        traffic_class: 0,
        payload_bytes: payload.len(),
        identification: 0x1d1d,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: FragmentOffset::new(0).unwrap(),
        ttl: 64,
        protocol,
        source: addresses.0,
        destination: addresses.1,
    };
    let mut bytes = emitted(|into| header.emit(into));
    bytes.extend(payload);
    ipv4::refresh_checksum(&mut bytes).unwrap();
    bytes
}

/// An IPv4 packet with a UDP datagram whose checksum is correct.
fn datagram(addresses: (Ipv4Addr, Ipv4Addr), ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let header = UdpHeader {
        source_port: ports.0,
        destination_port: ports.1,
        length: u16::try_from(udp::HEADER_BYTES + payload.len()).unwrap(),
        checksum: 0,
    };
    let mut bytes = [&emitted(|into| header.emit(into)), payload].concat();
    let (source, destination) = (IpAddr::V4(addresses.0), IpAddr::V4(addresses.1));
    udp::refresh_checksum(&mut bytes, source, destination).unwrap();
    packet(addresses, IpProtocol::UDP, &bytes)
}

/// What a tenant sends: UDP with eleven bytes of data.
pub(crate) fn tenant_packet() -> Vec<u8> {
    datagram(TENANT, TENANT_PORTS, b"tenant data")
}

/// The same in its Ethernet frame.
pub(crate) fn tenant_frame() -> Vec<u8> {
    frame(SERVER, CLIENT, EtherType::IPV4, &tenant_packet())
}

/// A packet on the underlay to the UDP port of a tunnel.
pub(crate) fn tunnelled(port: u16, payload: &[u8]) -> Vec<u8> {
    frame(HOST_2, HOST_1, EtherType::IPV4, &datagram(UNDERLAY, (ENTROPY, port), payload))
}

/// A tenant's frame in VXLAN.
pub(crate) fn over_vxlan() -> Vec<u8> {
    let header = emitted(|into| VxlanHeader { vni: vni() }.emit(into));
    tunnelled(catena_wire::ports::VXLAN, &[header, tenant_frame()].concat())
}

/// A tenant's frame in NSH of MD type 1 in VXLAN-GPE.
pub(crate) fn nsh_over_vxlan_gpe() -> Vec<u8> {
    let gpe = VxlanGpeHeader { vni: vni(), next: GpeNextProtocol::NSH, is_oam: false };
    let nsh = nsh(Metadata::Type1(METADATA), NshNextProtocol::ETHERNET);
    let headers = [emitted(|into| gpe.emit(into)), emitted(|into| nsh.emit(into))].concat();
    tunnelled(catena_wire::ports::VXLAN_GPE, &[headers, tenant_frame()].concat())
}

/// A tenant's packet in NSH of MD type 2 in Ethernet.
pub(crate) fn nsh_over_ethernet(metadata: Metadata<'_>) -> Vec<u8> {
    let nsh = nsh(metadata, NshNextProtocol::IPV4);
    let payload = [emitted(|into| nsh.emit(into)), tenant_packet()].concat();
    frame(HOST_2, HOST_1, EtherType::NSH, &payload)
}

/// A tenant's frame beneath an SFC label pair in UDP.
pub(crate) fn over_mpls_udp() -> Vec<u8> {
    let pair = emitted(|into| label_pair().emit(into));
    tunnelled(catena_wire::ports::MPLS_UDP, &[pair, tenant_frame()].concat())
}

/// A super-frame of `data_bytes` of TCP with the last flags a sender sets.
pub(crate) fn tcp_super_frame(data_bytes: usize) -> Vec<u8> {
    let header = TcpHeader {
        source_port: TENANT_PORTS.0,
        destination_port: TENANT_PORTS.1,
        sequence: 0xffff_ff00,
        acknowledgment: 1,
        flags: TcpFlags::ACK.with(TcpFlags::PSH).with(TcpFlags::CWR),
        window: 1000,
        urgent_pointer: 0,
    };
    let data: Vec<u8> = (0..data_bytes).map(|index| index.to_be_bytes()[7]).collect();
    let mut segment = [emitted(|into| header.emit(into)), data].concat();
    let (source, destination) = (IpAddr::V4(TENANT.0), IpAddr::V4(TENANT.1));
    tcp::refresh_checksum(&mut segment, source, destination).unwrap();
    frame(SERVER, CLIENT, EtherType::IPV4, &packet(TENANT, IpProtocol::TCP, &segment))
}
