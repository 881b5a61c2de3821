//! Frames for the tests, made by dice that fall the same way for the same seed.

use catena_fastpath::{FlowKey, OuterHeader, segments_template};
use catena_wire::ethernet::EthernetHeader;
use catena_wire::mpls::SfcLabelPair;
use catena_wire::nsh::{Metadata, NshHeader, NshNextProtocol};
use catena_wire::ports;
use catena_wire::scalar::{
    EtherType, FlowLabel, MacAddr, MplsLabel, NshTtl, ServiceIndex, Spi, Vni,
};
use catena_wire::srv6::{Encaps, Inner, Locator, SegmentFlags, Sid};
use catena_wire::vxlan::VxlanHeader;
use catena_wire::vxlan_gpe::{GpeNextProtocol, VxlanGpeHeader};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Numbers that look random (splitmix64).
#[derive(Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(crate) fn mac(&mut self) -> MacAddr {
        let [a, b, c, ..] = self.word().to_be_bytes();
        MacAddr([0x02, 0, 0, a, b, c])
    }
}

/// How a frame reaches the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Port,
    Nsh,
    Mpls,
    Network,
    Segments,
}

impl Way {
    pub(crate) const ALL: [Way; 5] = [Way::Port, Way::Nsh, Way::Mpls, Way::Network, Way::Segments];

    /// What stands between UDP and the inner frame.
    pub(crate) fn shim(self, dice: &mut Dice) -> Vec<u8> {
        let path = 16 + dice.below(1 << 18) as u32;
        let (index, ttl) = (255 - dice.below(8) as u8, 1 + dice.below(63) as u8);
        let vni = Vni::new(dice.below(1 << 24) as u32).unwrap();
        let mut bytes = vec![0; 64];
        let length = match self {
            Way::Port | Way::Segments => 0,
            Way::Network => VxlanHeader { vni }.emit(&mut bytes).unwrap(),
            Way::Mpls => {
                let label = MplsLabel::ordinary(path).unwrap();
                let pair = SfcLabelPair::new(label, ServiceIndex(index), ttl).unwrap();
                pair.emit(&mut bytes).unwrap()
            }
            Way::Nsh => {
                let gpe = VxlanGpeHeader { vni, next: GpeNextProtocol::NSH, is_oam: false };
                let first = gpe.emit(&mut bytes).unwrap();
                let nsh = NshHeader {
                    spi: Spi::new(path).unwrap(),
                    si: ServiceIndex(index),
                    ttl: NshTtl::new(u32::from(ttl)).unwrap(),
                    metadata: Metadata::ZERO,
                    next: NshNextProtocol::ETHERNET,
                    is_oam: false,
                };
                first + nsh.emit(&mut bytes[first..]).unwrap()
            }
        };
        bytes.truncate(length);
        bytes
    }

    pub(crate) fn udp_port(self) -> u16 {
        match self {
            Way::Port | Way::Network | Way::Segments => ports::VXLAN,
            Way::Nsh => ports::VXLAN_GPE,
            Way::Mpls => ports::MPLS_UDP,
        }
    }
}

/// The underlay address of the node under test.
pub(crate) const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// That of the other node.
pub(crate) const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// Address of the node under test in the underlay of IPv6, and its locator.
pub(crate) const OWN6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(crate) const OWN_LOCATOR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x101, 0, 0, 0, 0, 0);
/// Those of the other node.
pub(crate) const OTHER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
pub(crate) const OTHER_LOCATOR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x202, 0, 0, 0, 0, 0);

pub(crate) fn locator(address: Ipv6Addr) -> Locator {
    Sid::read(address).unwrap().locator
}

/// Headers as a kernel writes them, over so many segments of which the first is below a locator.
pub(crate) fn segments(
    dice: &mut Dice,
    source: Ipv6Addr,
    below: Ipv6Addr,
    count: usize,
    inner: Inner,
) -> Vec<u8> {
    let function = dice.pick(&[1, 20, 21]);
    let (path, hop) = (16 + dice.below(1 << 18) as u32, dice.below(8) as u16);
    let first = Sid { locator: locator(below), function, path, hop }.address();
    let next = Sid { locator: locator(OTHER_LOCATOR), function: 20, path, hop: 9 }.address();
    let way: Vec<Ipv6Addr> =
        std::iter::once(first).chain(std::iter::repeat_n(next, count - 1)).collect();
    let encaps = Encaps {
        source,
        way: &way,
        traffic_class: 0,
        flow_label: FlowLabel::new(dice.below(1 << 20) as u32).unwrap(),
        hop_limit: 1 + dice.below(63) as u8,
        inner,
        is_reduced: false,
        flags: SegmentFlags::default(),
        tag: 0,
        tlvs: &[],
        key_id: None,
    };
    let mut bytes = vec![0; encaps.len_bytes()];
    encaps.emit(0, &mut bytes).unwrap();
    segments_template(&bytes).unwrap()
}

/// What is inside a frame, for segments.
pub(crate) fn inner_of(frame: &[u8]) -> Option<Inner> {
    match frame.get(12..14)? {
        [8, 0] => Some(Inner::Ipv4),
        [0x86, 0xdd] => Some(Inner::Ipv6),
        _ => None,
    }
}

/// The packet of a frame behind headers of segments, as a kernel's path makes them.
fn over_segments(dice: &mut Dice, frame: &[u8]) -> Vec<u8> {
    let count = 1 + dice.below(5);
    let inner = inner_of(frame).unwrap_or(Inner::Ipv4);
    let mut header = segments(dice, OTHER6, OWN_LOCATOR, count, inner);
    let packet = &frame[14..];
    let class = match inner {
        Inner::Ipv6 => packet[0] << 4 | packet[1] >> 4,
        _ => packet[1],
    };
    catena_wire::ipv6::set_traffic_class(&mut header, class).unwrap();
    let payload = (header.len() - 40 + packet.len()) as u16;
    catena_wire::ipv6::set_payload_length(&mut header, payload).unwrap();
    match dice.below(8) {
        // As of an engine.
        0 => catena_wire::srv6::set_tag(&mut header, dice.below(3) as u16).unwrap(),
        1 => {
            let class = class ^ dice.below(4) as u8;
            catena_wire::ipv6::set_traffic_class(&mut header, class).unwrap();
        }
        _ => {}
    }
    let ethernet = EthernetHeader::untagged(OWN_MAC, dice.mac(), EtherType::IPV6);
    let mut made = vec![0; 14];
    ethernet.emit(&mut made).unwrap();
    made.extend(header);
    made.extend(packet);
    made
}

/// A plain inner frame with `payload` bytes behind its transport header.
pub(crate) fn inner(dice: &mut Dice, payload: usize) -> Vec<u8> {
    let is_v6 = dice.once_in(3);
    let ether_type = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
    let header = EthernetHeader::untagged(dice.mac(), dice.mac(), ether_type);
    let mut frame = vec![0; 14];
    header.emit(&mut frame).unwrap();
    let upper = upper(dice, is_v6, payload);
    let protocol = upper.0;
    let bytes = upper.1;
    let length = bytes.len() as u16;
    if is_v6 {
        let class = class(dice);
        frame.extend([0x60 | class >> 4, class << 4, 0, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([protocol, 64]);
        for _ in 0..2 {
            frame.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            frame.push(dice.below(4) as u8);
        }
    } else {
        frame.extend([0x45, class(dice)]);
        frame.extend((length + 20).to_be_bytes());
        frame.extend([0, 7, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend([10, 0, 0, dice.below(4) as u8, 10, 0, 1, dice.below(4) as u8]);
        catena_wire::ipv4::refresh_checksum(&mut frame[14..]).unwrap();
    }
    frame.extend(bytes);
    frame
}

/// A traffic class, mostly none.
fn class(dice: &mut Dice) -> u8 {
    if dice.once_in(4) { dice.word() as u8 } else { 0 }
}

fn upper(dice: &mut Dice, is_v6: bool, payload: usize) -> (u8, Vec<u8>) {
    let ports = [dice.below(8) as u8, 80, 0x1f, dice.below(8) as u8];
    let (protocol, mut bytes) = match dice.below(3) {
        0 => {
            let words = 5 + dice.below(6) as u8;
            let mut tcp = ports.to_vec();
            tcp.extend([0, 0, 0, 1, 0, 0, 0, 2, words << 4, 0x10, 1, 0, 0, 0, 0, 0]);
            tcp.resize(usize::from(words) * 4, 1);
            (6, tcp)
        }
        1 => {
            let mut udp = ports.to_vec();
            udp.extend((8 + payload as u16).to_be_bytes());
            udp.extend([0, 0]);
            (17, udp)
        }
        _ => {
            let kind = if is_v6 { 128 + dice.below(2) as u8 } else { 8 * dice.below(2) as u8 };
            (if is_v6 { 58 } else { 1 }, vec![kind, 0, 0, 0, 0, dice.below(8) as u8, 0, 1])
        }
    };
    bytes.extend((0..payload).map(|index| index as u8));
    (protocol, bytes)
}

/// That of the interface that such packets come in by in a rehearsal: the loopback's.
pub(crate) const OWN_MAC: MacAddr = MacAddr([0; 6]);

/// The frame with the outer headers of a tunnel in front, as a kernel's path makes them.
pub(crate) fn in_tunnel(way: Way, dice: &mut Dice, inner: &[u8]) -> Vec<u8> {
    if way == Way::Segments {
        return over_segments(dice, inner);
    }
    let shim = way.shim(dice);
    let outer = OuterHeader {
        source: OTHER,
        destination: OWN,
        source_port: 0xc000 | dice.below(16) as u16,
        destination_port: way.udp_port(),
    };
    let mut header = outer.with(&shim).unwrap();
    let total = (header.len() + inner.len()) as u16;
    catena_wire::ipv4::set_total_length(&mut header, total).unwrap();
    catena_wire::ipv4::refresh_checksum(&mut header).unwrap();
    catena_wire::udp::set_length(&mut header[20..], total - 20).unwrap();
    let ethernet = EthernetHeader::untagged(OWN_MAC, dice.mac(), EtherType::IPV4);
    let mut frame = vec![0; 14];
    ethernet.emit(&mut frame).unwrap();
    frame.extend(header);
    frame.extend(inner);
    frame
}

/// Something that an adversary, or a network with other habits, would do to a frame.
pub(crate) fn spoil(dice: &mut Dice, frame: &mut Vec<u8>) {
    match dice.below(5) {
        // Anywhere, most often in the headers.
        0 | 1 => {
            let reach = if dice.once_in(4) { frame.len() } else { frame.len().min(120) };
            let bit = dice.below(reach * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        2 => {
            let place = dice.below(frame.len().min(120));
            frame[place] = dice.pick(&[0, 1, 0x44, 0x46, 0x81, 0xa9, 0xe0, 0xfe, 0xff]);
        }
        // A rehearsal takes nothing shorter than an IPv6 header.
        3 => frame.truncate(54.max(dice.below(frame.len()))),
        _ => frame.extend(vec![0; 1 + dice.below(40)]),
    }
}

/// Another flow's key that differs in one bit.
pub(crate) fn neighbour(dice: &mut Dice, mut key: FlowKey) -> FlowKey {
    match dice.below(5) {
        0 => key.source_port ^= 1,
        1 => key.destination[3] ^= 1,
        2 => key.door ^= 1,
        3 => key.position ^= 1,
        _ => key.source_mac[5] ^= 1,
    }
    key
}

/// An IPv4 TCP frame without data, from which the key of a stream is read.
pub(crate) fn tcp_frame(macs: [MacAddr; 2], ends: [std::net::SocketAddrV4; 2]) -> Vec<u8> {
    let [source, destination] = macs;
    let header = EthernetHeader::untagged(destination, source, EtherType::IPV4);
    let mut frame = vec![0; 14];
    header.emit(&mut frame).unwrap();
    frame.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    ends.iter().for_each(|end| frame.extend(end.ip().octets()));
    ends.iter().for_each(|end| frame.extend(end.port().to_be_bytes()));
    frame.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frame
}
