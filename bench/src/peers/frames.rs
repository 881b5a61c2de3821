//! The frames of `bench peers`: UDP flows, bare, under NSH and in VXLAN.

use super::rules::Flow;
use catena_wire::ethernet::EthernetHeader;
use catena_wire::ipv4::Ipv4Header;
use catena_wire::nsh::{Metadata, NshHeader, NshNextProtocol};
use catena_wire::scalar::{EtherType, FragmentOffset, IpProtocol, MacAddr, ServiceIndex, Spi, Vni};
use catena_wire::udp::UdpHeader;
use catena_wire::vxlan::VxlanHeader;
use std::net::Ipv4Addr;

/// Outer addresses of the tunnel: the far end, and the switch's.
pub(super) const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
pub(super) const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
pub(super) const LOCAL_MAC: &str = "02:00:00:00:00:02";
const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const DESTINATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// The flow of this number.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn flow(number: u32) -> Flow {
    Flow {
        source: Ipv4Addr::from(0x0a00_0001 + number),
        destination: Ipv4Addr::from(0xc0a8_0001 + number % 251),
        source_port: (1_024 + number % 50_000) as u16,
        destination_port: 53 + (number % 7) as u16,
    }
}

/// A packet of the flow in an Ethernet frame, padded to the size; none when it does not fit.
pub(super) fn plain(flow: &Flow, size: usize) -> Option<Vec<u8>> {
    ethernet(EtherType::IPV4, &datagram(flow, &vec![0; size.saturating_sub(42)])?)
}

/// The same under NSH of type 1 at this position.
pub(super) fn on_path(path: Spi, inner: &[u8]) -> Option<Vec<u8>> {
    let nsh = NshHeader {
        spi: path,
        si: ServiceIndex(255),
        ttl: NshHeader::TTL_INITIAL,
        metadata: Metadata::ZERO,
        next: NshNextProtocol::ETHERNET,
        is_oam: false,
    };
    ethernet(EtherType::NSH, &under(nsh.len_bytes(), inner, |into| nsh.emit(into).ok())?)
}

/// The same in VXLAN.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn in_tunnel(number: u32, vni: Vni, inner: &[u8]) -> Option<Vec<u8>> {
    let header = VxlanHeader { vni };
    let vxlan = under(VxlanHeader::LEN, inner, |into| header.emit(into).ok())?;
    let outer = Flow {
        source: REMOTE,
        destination: LOCAL,
        source_port: (10_000 + number % 20_000) as u16,
        destination_port: catena_wire::ports::VXLAN,
    };
    ethernet(EtherType::IPV4, &datagram(&outer, &vxlan)?)
}

fn ethernet(kind: EtherType, payload: &[u8]) -> Option<Vec<u8>> {
    let header = EthernetHeader::untagged(DESTINATION, SOURCE, kind);
    under(header.len_bytes(), payload, |into| header.emit(into).ok())
}

fn datagram(flow: &Flow, payload: &[u8]) -> Option<Vec<u8>> {
    let udp = UdpHeader {
        source_port: flow.source_port,
        destination_port: flow.destination_port,
        length: u16::try_from(8 + payload.len()).ok()?,
        checksum: 0,
    };
    let udp = under(8, payload, |into| udp.emit(into).ok())?;
    let ip = Ipv4Header {
        traffic_class: 0,
        payload_bytes: udp.len(),
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: FragmentOffset::new(0).ok()?,
        ttl: 64,
        protocol: IpProtocol::UDP,
        source: flow.source,
        destination: flow.destination,
    };
    under(20, &udp, |into| ip.emit(into).ok())
}

/// A header of this length before the payload.
fn under(
    length: usize,
    payload: &[u8],
    emit: impl Fn(&mut [u8]) -> Option<usize>,
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    emit(&mut bytes)?;
    bytes.extend_from_slice(payload);
    Some(bytes)
}
