//! The frame of a described packet, made by the emitters of `wire`. Knows which headers stand
//! behind each other; refuses to know whose addresses they carry.

use catena_model::explain::PacketDescription;
use catena_model::resource::Transport;
use catena_wire::ethernet::{EthernetHeader, VlanTag};
use catena_wire::frame::{Fragment, FrameView, Network};
use catena_wire::icmp::{self, IcmpView};
use catena_wire::ipv4::{self, Ipv4Header};
use catena_wire::ipv6::{self, Ipv6Header};
use catena_wire::scalar::{EtherType, FlowLabel, FragmentOffset, IpProtocol, MacAddr};
use catena_wire::tcp::{self, TcpFlags, TcpHeader};
use catena_wire::udp::{self, UdpHeader};
use catena_wire::varying::VaryingFields;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

/// Identifier and sequence number of a described echo request.
const ECHO: (u16, u16) = (1, 1);
/// Window of a described TCP segment, in bytes.
const WINDOW: u16 = 64_240;

/// The whole frame, checksums included.
///
/// # Errors
/// Why there is none, for people.
pub(super) fn frame(
    packet: &PacketDescription,
    source: MacAddr,
    destination: MacAddr,
) -> Result<Vec<u8>, String> {
    let ip_bytes = if packet.source.is_ipv4() { ipv4::HEADER_BYTES } else { ipv6::HEADER_BYTES };
    let header_bytes = match packet.transport {
        Transport::Tcp => tcp::HEADER_BYTES,
        Transport::Udp => udp::HEADER_BYTES,
        Transport::Icmp => IcmpView::HEADER_LEN,
    };
    let least = ip_bytes + header_bytes;
    let length = packet.length.map_or(least, usize::from);
    let upper_bytes = length.checked_sub(ip_bytes).filter(|bytes| *bytes >= header_bytes);
    let upper_bytes = upper_bytes.ok_or_else(|| {
        format!("a packet of {length} bytes has no room for its headers: {least}")
    })?;
    let tag = |id| VlanTag { tag_type: EtherType::VLAN, priority: 0, is_drop_eligible: false, id };
    let is_v4 = packet.source.is_ipv4();
    let ethernet = EthernetHeader {
        destination,
        source,
        tags: [packet.vlan.map(tag), None],
        ethertype: if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 },
    };
    let start = ethernet.len_bytes();
    let mut frame = vec![0; start + length];
    ethernet.emit(&mut frame).map_err(said)?;
    let (_, ip) = frame.split_at_mut(start);
    emit_ip(packet, upper_bytes, ip)?;
    emit_upper(packet, ip.get_mut(ip_bytes..).unwrap_or_default())?;
    Ok(frame)
}

/// What it shows beside its flow: of a connection, its first segment, unless it says otherwise.
fn varying(packet: &PacketDescription) -> VaryingFields {
    let tcp_flags = (packet.transport == Transport::Tcp).then_some(TcpFlags::SYN);
    let mut varying = VaryingFields { dscp: 0, tcp_flags };
    packet.fields.impose(&mut varying);
    varying
}

fn emit_ip(packet: &PacketDescription, upper_bytes: usize, into: &mut [u8]) -> Result<(), String> {
    let protocol = match (packet.transport, packet.source) {
        (Transport::Tcp, _) => IpProtocol::TCP,
        (Transport::Udp, _) => IpProtocol::UDP,
        (Transport::Icmp, IpAddr::V4(_)) => IpProtocol::ICMP,
        (Transport::Icmp, IpAddr::V6(_)) => IpProtocol::ICMPV6,
    };
    match (packet.source, packet.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = Ipv4Header {
                traffic_class: varying(packet).traffic_class(),
                payload_bytes: upper_bytes,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: FragmentOffset::new(0).map_err(said)?,
                ttl: packet.ttl,
                protocol,
                source,
                destination,
            };
            header.emit(into).map_err(said)?;
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6Header {
                traffic_class: varying(packet).traffic_class(),
                flow_label: FlowLabel::new(0).map_err(said)?,
                payload_length: u16::try_from(upper_bytes).map_err(said)?,
                next_header: protocol,
                hop_limit: packet.ttl,
                source,
                destination,
            };
            header.emit(into).map_err(said)?;
        }
        _ => return Err("a packet has one IP version".to_owned()),
    }
    Ok(())
}

fn emit_upper(packet: &PacketDescription, into: &mut [u8]) -> Result<(), String> {
    let (source, destination) = (packet.source, packet.destination);
    let (source_port, destination_port) = packet.ports;
    match packet.transport {
        Transport::Tcp => {
            let header = TcpHeader {
                source_port,
                destination_port,
                sequence: 0,
                acknowledgment: 0,
                flags: varying(packet).tcp_flags.unwrap_or(TcpFlags::SYN),
                window: WINDOW,
                urgent_pointer: 0,
            };
            header.emit(into).map_err(said)?;
            tcp::refresh_checksum(into, source, destination).map_err(said)
        }
        Transport::Udp => {
            let length = u16::try_from(into.len()).map_err(said)?;
            let header = UdpHeader { source_port, destination_port, length, checksum: 0 };
            header.emit(into).map_err(said)?;
            udp::refresh_checksum(into, source, destination).map_err(said)
        }
        Transport::Icmp => {
            let (identifier, sequence) = ECHO;
            icmp::emit_echo_request(into, (source, destination), identifier, sequence).map_err(said)
        }
    }
}

/// A frame in words.
pub(super) fn words(frame: &[u8]) -> String {
    let view = match FrameView::parse(frame) {
        Ok(view) => view,
        Err(error) => return format!("of broken bytes ({error})"),
    };
    let Some(flow) = view.flow else {
        return match view.network {
            Network::Arp => "arp".to_owned(),
            _ => format!("of EtherType {:#06x} to {}", view.ethertype.0, view.destination),
        };
    };
    let name = match flow.protocol {
        IpProtocol::TCP => "tcp",
        IpProtocol::UDP => "udp",
        IpProtocol::ICMP | IpProtocol::ICMPV6 => "icmp",
        other => {
            return format!("protocol {} {} > {}", other.0, flow.source, flow.destination);
        }
    };
    if name == "icmp" || view.fragment == Fragment::Later {
        return format!("{name} {} > {}", flow.source, flow.destination);
    }
    let source = SocketAddr::new(flow.source, flow.source_port);
    let destination = SocketAddr::new(flow.destination, flow.destination_port);
    format!("{name} {source} > {destination}")
}

fn said(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::ipv4::Ipv4View;
    use catena_wire::tcp::TcpView;
    use catena_wire::udp::UdpView;

    const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const DESTINATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn made(text: &str) -> Vec<u8> {
        frame(&text.parse().unwrap(), SOURCE, DESTINATION).unwrap()
    }

    #[test]
    fn a_described_packet_reads_as_it_was_described() {
        for (text, protocol, length) in [
            ("tcp 10.0.0.1:40000 > 10.0.0.2:443", IpProtocol::TCP, 54),
            ("udp 10.0.0.1:40000 > 10.0.0.2:443 length 1400 vlan 7", IpProtocol::UDP, 1_418),
            ("udp [2001:db8::1]:40000 > [2001:db8::2]:443", IpProtocol::UDP, 62),
            ("tcp [2001:db8::1]:40000 > [2001:db8::2]:443 length 100", IpProtocol::TCP, 114),
        ] {
            let bytes = made(text);
            let view = FrameView::parse(&bytes).unwrap();
            let flow = view.flow.unwrap();
            assert_eq!(bytes.len(), length, "{text}");
            assert_eq!((view.source, view.destination), (SOURCE, DESTINATION), "{text}");
            assert_eq!((flow.source_port, flow.destination_port), (40_000, 443), "{text}");
            assert_eq!(view.protocol, Some(protocol), "{text}");
            assert!(text.starts_with(&words(&bytes)), "{text}: {}", words(&bytes));
            let upper = &bytes[usize::from(view.l4_offset.unwrap())..];
            let (source, destination) = (flow.source, flow.destination);
            assert!(
                match protocol {
                    IpProtocol::TCP => {
                        TcpView::parse(upper).unwrap().is_checksum_correct(source, destination)
                    }
                    _ => UdpView::parse(upper).unwrap().is_checksum_correct(source, destination),
                },
                "{text}"
            );
        }
        for text in [
            "tcp 10.0.0.1:1 > 10.0.0.2:2 dscp ef tcp_flags ack,!syn",
            "tcp [2001:db8::1]:1 > [2001:db8::2]:2 tcp_flags ack,!syn dscp 46",
        ] {
            let shown = FrameView::parse(&made(text)).unwrap().varying;
            assert_eq!(shown, VaryingFields { dscp: 46, tcp_flags: Some(TcpFlags::ACK) }, "{text}");
        }
        let bytes = made("icmp 10.0.0.1 > 10.0.0.2 ttl 3");
        let packet = Ipv4View::parse(&bytes[14..]).unwrap();
        assert_eq!(packet.ttl(), 3);
        assert!(packet.is_checksum_correct());
        assert!(IcmpView::parse(packet.payload()).unwrap().is_v4_checksum_correct());
    }

    #[test]
    fn a_packet_shorter_than_its_headers_is_refused() {
        let packet = "tcp 10.0.0.1:1 > 10.0.0.2:2 length 39".parse().unwrap();
        assert!(frame(&packet, SOURCE, DESTINATION).unwrap_err().contains("no room"));
    }
}
