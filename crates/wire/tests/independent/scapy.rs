//! What scapy reads in the packets we write, and what we read in the packets it writes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_wire::arp::{ArpOperation, ArpPacket};
use catena_wire::ethernet::EthernetView;
use catena_wire::ipv4::Ipv4View;
use catena_wire::ipv6::Ipv6View;
use catena_wire::mpls::SfcLabelPair;
use catena_wire::neighbour::{NeighbourSolicitation, emit_neighbour_advertisement};
use catena_wire::nsh::{Metadata, NshNextProtocol, NshView};
use catena_wire::scalar::{EtherType, MacAddr};
use catena_wire::udp::UdpView;
use catena_wire::vxlan::VxlanHeader;
use catena_wire::vxlan_gpe::{GpeNextProtocol, VxlanGpeHeader};

use crate::packets::{self, CLIENT, ENTROPY, SERVER, emitted};
use crate::programs::scapy;

fn solicitation() -> NeighbourSolicitation {
    NeighbourSolicitation {
        source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        target: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        source_link_layer: Some(CLIENT),
    }
}

fn arp_request() -> ArpPacket {
    ArpPacket {
        operation: ArpOperation::Request,
        sender_mac: CLIENT,
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: MacAddr::default(),
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    }
}

#[test]
fn scapy_reads_in_our_packets_what_we_meant() {
    // Scapy binds NSH to no next protocol of VXLAN-GPE, so it is told where NSH begins.
    // MD type 2 is left to tshark: scapy cannot take its context headers apart.
    const SCRIPT: &str = r"
vxlan, gpe, ethernet, mpls, arp, neighbour = map(Ether, packets)
print(vxlan[UDP].dport, vxlan[VXLAN].flags.value, hex(vxlan[VXLAN].vni), vxlan[VXLAN][Ether].dst)
header = gpe[VXLAN]
print(gpe[UDP].dport, header.flags.value, header.NextProtocol, hex(header.vni))
nsh = NSH(bytes(header.payload))
print(nsh.ver, nsh.oam, nsh.ttl, nsh.length, nsh.mdtype, nsh.nextproto, hex(nsh.spi), nsh.si)
print(nsh.context_header.hex(), nsh[Ether].dst, nsh[IP].dst)
nsh = ethernet[NSH]
print(nsh.ver, nsh.oam, nsh.ttl, nsh.length, nsh.mdtype, nsh.nextproto, hex(nsh.spi), nsh.si)
context = mpls[MPLS]
function = context.payload
print(mpls[UDP].dport, hex(context.label), context.cos, context.s, context.ttl)
print(hex(function.label), function.cos, function.s, function.ttl, Ether(bytes(function.payload)).dst)
print(arp.dst, arp[ARP].op, arp[ARP].hwsrc, arp[ARP].psrc, arp[ARP].hwdst, arp[ARP].pdst)
advertisement = neighbour[ICMPv6ND_NA]
print(neighbour.dst, neighbour[IPv6].hlim, advertisement.R, advertisement.S, advertisement.O)
print(advertisement.tgt, neighbour[ICMPv6NDOptDstLLAddr].lladdr)
";
    let written = [
        packets::over_vxlan(),
        packets::nsh_over_vxlan_gpe(),
        packets::nsh_over_ethernet(Metadata::ZERO),
        packets::over_mpls_udp(),
        emitted(|into| arp_request().reply(SERVER).emit_frame(into)),
        emitted(|into| emit_neighbour_advertisement(&solicitation(), CLIENT, SERVER, into)),
    ];
    let test = "scapy_reads_in_our_packets_what_we_meant";
    let Some(lines) = scapy(test, SCRIPT, &written) else {
        return;
    };
    let expected = [
        "4789 8 0x1234a5 02:00:00:00:02:02",
        "4790 12 4 0x1234a5",
        "0 0 60 6 1 3 0xabcdef 252",
        "101112131415161718191a1b1c1d1e1f 02:00:00:00:02:02 10.0.0.2",
        "0 0 60 6 1 1 0xabcdef 252",
        "6635 0x12345 0 0 1",
        "0xfc000 0 1 60 02:00:00:00:02:02",
        "02:00:00:00:02:01 2 02:00:00:00:02:02 10.0.0.2 02:00:00:00:02:01 10.0.0.1",
        "02:00:00:00:02:01 255 0 1 1",
        "2001:db8::2 02:00:00:00:02:02",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn scapy_recomputes_the_checksums_we_wrote() {
    const SCRIPT: &str = r"
for packet in packets:
    ours = Ether(packet)
    checksums = [(IP, 'chksum'), (UDP, 'chksum'), (TCP, 'chksum'), (ICMPv6ND_NA, 'cksum')]
    for layer, field in checksums:
        for depth in (1, 2):
            if ours.haslayer(layer) and ours.getlayer(layer, depth):
                ours.getlayer(layer, depth).delfieldval(field)
    print(bytes(ours) == packet)
";
    let written = [
        packets::over_vxlan(),
        packets::tcp_super_frame(999),
        emitted(|into| emit_neighbour_advertisement(&solicitation(), CLIENT, SERVER, into)),
    ];
    if let Some(lines) = scapy("scapy_recomputes_the_checksums_we_wrote", SCRIPT, &written) {
        assert_eq!(lines, ["True"; 3]);
    }
}

/// The payload of the UDP datagram in an Ethernet frame, its checksums checked.
fn tunnelled(frame: &[u8], port: u16) -> &[u8] {
    let frame = EthernetView::parse(frame).unwrap();
    assert_eq!(frame.ethertype(), EtherType::IPV4);
    let packet = Ipv4View::parse(frame.payload()).unwrap();
    assert!(packet.is_checksum_correct());
    let datagram = UdpView::parse(packet.payload()).unwrap();
    let (source, destination) = (IpAddr::V4(packet.source()), IpAddr::V4(packet.destination()));
    assert!(datagram.is_checksum_correct(source, destination));
    assert_eq!((datagram.source_port(), datagram.destination_port()), (ENTROPY, port));
    datagram.payload()
}

#[test]
fn we_read_in_scapys_packets_what_it_meant() {
    const SCRIPT: &str = r"
inner = Ether(dst='02:00:00:00:02:02', src='02:00:00:00:02:01')/IP(src='10.0.0.1', dst='10.0.0.2')
inner /= UDP(sport=50001, dport=50002)/b'tenant data'
def outer(port):
    packet = Ether(dst='02:00:00:00:01:02', src='02:00:00:00:01:01')
    return packet/IP(src='192.0.2.1', dst='192.0.2.2')/UDP(sport=50000, dport=port)
nsh = NSH(ttl=60, mdtype=1, nextproto=3, spi=0xabcdef, si=252, context_header=bytes(range(16, 32)))
solicitation = Ether(src='02:00:00:00:02:01', dst='33:33:ff:00:00:02')
solicitation /= IPv6(src='2001:db8::1', dst='ff02::1:ff00:2', hlim=255)
solicitation /= ICMPv6ND_NS(tgt='2001:db8::2')/ICMPv6NDOptSrcLLAddr(lladdr='02:00:00:00:02:01')
written = [
    inner,
    outer(4789)/VXLAN(flags=8, vni=0x1234a5)/inner,
    outer(4790)/VXLAN(flags=12, NextProtocol=4, vni=0x1234a5)/Raw(bytes(nsh/inner)),
    outer(6635)/MPLS(label=0x12345, s=0, ttl=1)/MPLS(label=0xfc000, s=1, ttl=60)/Raw(bytes(inner)),
    Ether(dst='ff:ff:ff:ff:ff:ff')/ARP(op=1, hwsrc='02:00:00:00:02:01', psrc='10.0.0.1',
                                       hwdst='00:00:00:00:00:00', pdst='10.0.0.2'),
    solicitation,
]
for packet in written:
    print(bytes(packet).hex())
";
    let test = "we_read_in_scapys_packets_what_it_meant";
    let Some(lines) = scapy(test, SCRIPT, &[]) else {
        return;
    };
    let bytes = |line: &String| -> Vec<u8> {
        let (digits, _) = line.as_bytes().as_chunks::<2>();
        let octet = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.iter().map(octet).collect()
    };
    let written: Vec<Vec<u8>> = lines.iter().map(bytes).collect();
    let [inner, vxlan, gpe, mpls, arp, neighbour] = &written[..] else {
        panic!("six packets, not {}", written.len());
    };

    let (header, rest) = VxlanHeader::parse(tunnelled(vxlan, 4789)).unwrap();
    assert_eq!((header.vni, rest), (packets::vni(), &inner[..]));

    let (header, rest) = VxlanGpeHeader::parse(tunnelled(gpe, 4790)).unwrap();
    let next = GpeNextProtocol::NSH;
    assert_eq!(header, VxlanGpeHeader { vni: packets::vni(), next, is_oam: false });
    let (view, rest) = NshView::parse(rest).unwrap();
    let metadata = Metadata::Type1(packets::METADATA);
    assert_eq!(view.header(), packets::nsh(metadata, NshNextProtocol::ETHERNET));
    assert_eq!(rest, inner);

    let (pair, rest) = SfcLabelPair::parse(tunnelled(mpls, 6635)).unwrap();
    assert_eq!((pair, rest), (packets::label_pair(), &inner[..]));

    let frame = EthernetView::parse(arp).unwrap();
    assert_eq!(frame.ethertype(), EtherType::ARP);
    assert_eq!(ArpPacket::parse(frame.payload()), Ok(arp_request()));

    let frame = EthernetView::parse(neighbour).unwrap();
    let packet = Ipv6View::parse(frame.payload()).unwrap();
    let (source, destination) = (packet.source(), packet.destination());
    let read =
        NeighbourSolicitation::parse(packet.upper(), source, destination, packet.hop_limit());
    assert_eq!(read, Ok(solicitation()));
}
