//! Frames of 5G users as the study sends them, MAC-IP-UDP-VXLAN-MAC-IP-UDP-GTP-IP-UDP-payload, and
//! plain ones, MAC-IP-UDP-payload. The mark at the end of each says which frame it is and when it
//! left. Knows the order of the headers; their bytes are those of `wire`.

use catena_wire::ethernet::{self, EthernetHeader};
use catena_wire::gtp_u::{GtpUHeader, GtpUMessage, PduSession};
use catena_wire::ipv4::{self, Ipv4Header, Ipv4View};
use catena_wire::ports;
use catena_wire::scalar::{EtherType, FragmentOffset, IpProtocol, MacAddr, Qfi, Teid, Vni};
use catena_wire::udp::{self, UdpHeader};
use catena_wire::vxlan::VxlanHeader;
use std::net::Ipv4Addr;

/// Bytes of a mark.
pub(crate) const MARK_BYTES: usize = 28;
const MAGIC: u32 = 0x5ca7_e4a5;
const TTL: u8 = 64;
/// Bytes up to the end of the outer IP header: a function may change the addresses of Ethernet, the
/// time to live and its checksum, and nothing behind.
const CHANGEABLE_BYTES: usize = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES;
/// Source port of tunnels; any would do.
const TUNNEL_SOURCE_PORT: u16 = 51_000;
/// Ports of the users' own traffic.
const USER_PORTS: (u16, u16) = (40_000, 40_001);
/// With whom all users speak.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// MACs inside VXLAN mean nothing to anybody here.
const INNER_MACS: (MacAddr, MacAddr) =
    (MacAddr([2, 0, 0, 0, 0, 0xa]), MacAddr([2, 0, 0, 0, 0, 0xb]));
/// PDU type of a session container that goes from the network to the user.
const DOWNLINK: u8 = 0;

/// Where frames go from and to.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// MACs of sender and receiver.
    pub macs: (MacAddr, MacAddr),
    /// Their addresses.
    pub addresses: (Ipv4Addr, Ipv4Addr),
}

/// A user of a tenant, at one end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The tenant's network.
    pub vni: Vni,
    /// Its tunnel.
    pub teid: Teid,
    /// Its QoS flow; none: no session container.
    pub qfi: Option<Qfi>,
    /// The end of its GTP-U tunnel: another one after it has moved.
    pub tunnel_end: Ipv4Addr,
    /// Its own address, which it keeps when it moves.
    pub address: Ipv4Addr,
}

impl User {
    /// The own address of the user whose first tunnel this is.
    #[must_use]
    pub fn address_in(tunnel: Teid) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(10, 0, 0, 0)) | tunnel.0 & 0x00ff_ffff)
    }
}

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A user's packet in GTP-U in VXLAN.
    User(User),
    /// The same packet without any tunnel, to this port.
    Plain {
        /// The destination port.
        port: u16,
    },
}

/// What tells a frame from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which stream.
    pub run: u32,
    /// Whose frame.
    pub user: u32,
    /// Which form of the user's frames.
    pub form: u32,
    /// Which of the stream's frames.
    pub number: u32,
    /// When it left, in nanoseconds of the system's clock.
    pub sent_ns: u64,
}

/// A frame but for its mark.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
}

impl Template {
    /// The frame of a packet of so many bytes, counted from its own IP header on.
    #[must_use]
    pub fn new(ends: &Ends, content: &Content, packet_bytes: usize) -> Option<Self> {
        let inner = packet_bytes.checked_sub(ipv4::HEADER_BYTES + udp::HEADER_BYTES)?;
        let mut frame = Frame::default();
        match content {
            Content::User(user) => {
                let gtp = GtpUHeader {
                    message: GtpUMessage::G_PDU,
                    teid: user.teid,
                    sequence: None,
                    pdu_session: user.qfi.map(|qfi| PduSession { pdu_type: DOWNLINK, qfi }),
                    payload_bytes: u16::try_from(packet_bytes).ok()?,
                };
                let in_gtp = gtp.len_bytes() + packet_bytes;
                let in_tunnel = ipv4::HEADER_BYTES + udp::HEADER_BYTES + in_gtp;
                let in_vxlan = VxlanHeader::LEN + ethernet::HEADER_BYTES + in_tunnel;
                let tunnel = (TUNNEL_SOURCE_PORT, ports::VXLAN);
                frame.ethernet(ends.macs)?;
                frame.datagram(ends.addresses, tunnel, in_vxlan)?;
                let vxlan = VxlanHeader { vni: user.vni };
                frame.put(VxlanHeader::LEN, |room| vxlan.emit(room).ok())?;
                frame.ethernet(INNER_MACS)?;
                let ends = (ends.addresses.1, user.tunnel_end);
                frame.datagram(ends, (ports::GTP_U, ports::GTP_U), in_gtp)?;
                frame.put(gtp.len_bytes(), |room| gtp.emit(room).ok())?;
                frame.datagram((SERVER, user.address), USER_PORTS, inner)?;
            }
            Content::Plain { port } => {
                frame.ethernet(ends.macs)?;
                frame.datagram(ends.addresses, (USER_PORTS.0, *port), inner)?;
            }
        }
        frame.0.resize(frame.0.len() + inner, 0x5a);
        (inner >= MARK_BYTES).then_some(Self { bytes: frame.0 })
    }

    /// Writes the frame with its mark.
    pub fn write(&self, mark: &Mark, into: &mut Vec<u8>) {
        into.clear();
        let body = self.bytes.len().saturating_sub(MARK_BYTES);
        into.extend_from_slice(self.bytes.get(..body).unwrap_or_default());
        for word in [MAGIC, mark.run, mark.user, mark.form, mark.number] {
            into.extend_from_slice(&word.to_be_bytes());
        }
        into.extend_from_slice(&mark.sent_ns.to_be_bytes());
    }

    /// Is a received frame this one, but for what routers change?
    #[must_use]
    pub fn is_whole_in(&self, frame: &[u8]) -> bool {
        let protected = CHANGEABLE_BYTES..self.bytes.len().saturating_sub(MARK_BYTES);
        frame.len() == self.bytes.len() && frame.get(protected.clone()) == self.bytes.get(protected)
    }
}

/// The mark of a frame, if it has one.
#[must_use]
pub fn mark_of(frame: &[u8]) -> Option<Mark> {
    let (_, mark) = frame.split_last_chunk::<MARK_BYTES>()?;
    let word = |at: usize| {
        let four = mark.get(at * 4..at * 4 + 4)?;
        Some(u32::from_be_bytes(four.try_into().ok()?))
    };
    let sent_ns = u64::from(word(5)?) << 32 | u64::from(word(6)?);
    let mark = Mark { run: word(1)?, user: word(2)?, form: word(3)?, number: word(4)?, sent_ns };
    (word(0)? == MAGIC).then_some(mark)
}

/// Routers that a received frame has passed.
#[must_use]
pub fn routers_passed(frame: &[u8]) -> Option<u8> {
    let view = Ipv4View::parse(frame.get(ethernet::HEADER_BYTES..)?).ok()?;
    TTL.checked_sub(view.ttl())
}

#[derive(Default)]
struct Frame(Vec<u8>);

impl Frame {
    fn put(&mut self, bytes: usize, emit: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<()> {
        let start = self.0.len();
        self.0.resize(start + bytes, 0);
        (emit(self.0.get_mut(start..)?)? == bytes).then_some(())
    }

    fn ethernet(&mut self, (source, destination): (MacAddr, MacAddr)) -> Option<()> {
        let header = EthernetHeader::untagged(destination, source, EtherType::IPV4);
        self.put(ethernet::HEADER_BYTES, |room| header.emit(room).ok())
    }

    /// IPv4 and UDP, without a checksum of UDP (RFC 7348 section 5, TS 29.281 section 4.4.2).
    fn datagram(
        &mut self,
        (source, destination): (Ipv4Addr, Ipv4Addr),
        (source_port, destination_port): (u16, u16),
        payload_bytes: usize,
    ) -> Option<()> {
        let length = udp::HEADER_BYTES + payload_bytes;
        let ip = Ipv4Header {
            traffic_class: 0,
            payload_bytes: length,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: FragmentOffset::new(0).ok()?,
            ttl: TTL,
            protocol: IpProtocol::UDP,
            source,
            destination,
        };
        let length = u16::try_from(length).ok()?;
        let udp = UdpHeader { source_port, destination_port, length, checksum: 0 };
        self.put(ipv4::HEADER_BYTES, |room| ip.emit(room).ok())?;
        self.put(udp::HEADER_BYTES, |room| udp.emit(room).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::frame::FrameView;
    use catena_wire::inside;
    use catena_wire::scalar::TunnelId;

    fn ends() -> Ends {
        let addresses = (Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 1, 0, 2));
        Ends { macs: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])), addresses }
    }

    fn user(qfi: Option<u8>) -> Content {
        Content::User(User {
            vni: Vni::new(5_001).unwrap(),
            teid: Teid(77),
            qfi: qfi.map(|qfi| Qfi::new(qfi.into()).unwrap()),
            tunnel_end: Ipv4Addr::new(192, 0, 2, 1),
            address: User::address_in(Teid(77)),
        })
    }

    #[test]
    fn frames_are_read_by_the_parser_as_what_they_were_made_of() {
        for (qfi, size) in [(None, 64), (None, 1_500), (Some(9), 128)] {
            let template = Template::new(&ends(), &user(qfi), size).unwrap();
            let mut frame = Vec::new();
            let mark = Mark { run: 1, user: 2, form: 5, number: 3, sent_ns: 4 << 40 };
            template.write(&mark, &mut frame);
            // 100 bytes of headers stand before the user's packet; a session container takes 8.
            assert_eq!(frame.len(), size + 100 + qfi.map_or(0, |_| 8));
            let view = FrameView::parse(&frame).unwrap();
            let inside = inside::Inside::parse(&frame, &view, 8).unwrap().unwrap();
            assert_eq!(inside.tunnel_id, Some(TunnelId::Vni(Vni::new(5_001).unwrap())));
            assert_eq!(inside.teid, Some(Teid(77)));
            assert_eq!(inside.qfi.map(Qfi::get), qfi);
            assert_eq!(mark_of(&frame), Some(mark));
            assert!(template.is_whole_in(&frame));
            assert_eq!(routers_passed(&frame), Some(0));
        }
    }

    #[test]
    fn a_frame_with_another_byte_behind_the_outer_header_is_altered() {
        let template = Template::new(&ends(), &user(None), 256).unwrap();
        let mark = Mark { run: 1, user: 0, form: 0, number: 0, sent_ns: 0 };
        let mut frame = Vec::new();
        template.write(&mark, &mut frame);
        for place in 0..frame.len() - MARK_BYTES {
            frame[place] ^= 0x10;
            assert_eq!(template.is_whole_in(&frame), place < CHANGEABLE_BYTES, "{place}");
            frame[place] ^= 0x10;
        }
        frame.pop();
        assert!(!template.is_whole_in(&frame) && mark_of(&frame) != Some(mark));
    }

    #[test]
    fn a_packet_without_room_for_its_mark_is_refused() {
        assert!(Template::new(&ends(), &user(None), 55).is_none());
        assert!(Template::new(&ends(), &Content::Plain { port: 5 }, 56).is_some());
    }
}
