//! What the packets of a connection are known by. Knows which packets answer which; refuses to know
//! connections.

use catena_wire::field::Field;
use catena_wire::flow::FlowKey;
use catena_wire::frame::{Fragment, FrameView, Network};
use catena_wire::scalar::IpProtocol;

/// Which way a packet goes in its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Way {
    /// As the first one.
    Original,
    /// As what answers the first one.
    Reply,
}

impl Way {
    pub(super) const fn reversed(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }
}

/// What an ICMP or ICMPv6 message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// It belongs to a connection of its own.
    Own,
    /// It is about a packet of another.
    Error,
    /// It is of discovery or group management, which are not looked after.
    Local,
    /// Nobody knows its type.
    Unknown,
}

/// Of a packet with this view, if it is a message of ICMP at all. Types as in Linux
/// (net/netfilter/nf_conntrack_proto_icmp.c and nf_conntrack_proto_icmpv6.c).
pub(super) fn message(view: &FrameView) -> Option<Message> {
    let kind = view.icmp_type?;
    Some(match (view.network, kind) {
        (Network::Ipv6, 130..=136 | 143) => Message::Local,
        (Network::Ipv6, 0..=127) | (Network::Ipv4, 3 | 4 | 5 | 11 | 12) => Message::Error,
        (Network::Ipv4, 19..) => Message::Unknown,
        _ => Message::Own,
    })
}

/// What GRE of version 1 carries, and nothing else (RFC 2637 section 4.1).
const PPP: [u8; 2] = [0x88, 0x0b];

/// The key of a packet: its flow; of ICMP, with the identifier as source port and type and code as
/// destination port; of GRE of version 1, with the call as destination port, as Linux has it
/// (net/netfilter/nf_conntrack_proto_gre.c). None: it shows none.
pub(super) fn of(bytes: &[u8], view: &FrameView) -> Option<FlowKey> {
    let flow = view.flow.filter(|_| view.fragment != Fragment::Later)?;
    if view.network == Network::Ipv6 && flow.protocol == IpProtocol::NO_NEXT {
        return None;
    }
    if flow.protocol == IpProtocol::GRE {
        let header = bytes.get(usize::from(view.l4_offset?)..view.end as usize)?;
        return match *header {
            [_, flags, a, b, _, _, c, d, ..] if flags & 7 == 1 => (PPP == [a, b])
                .then_some(FlowKey { destination_port: u16::from_be_bytes([c, d]), ..flow }),
            _ => Some(flow),
        };
    }
    if !is_icmp(flow.protocol) {
        return Some(flow);
    }
    let read = |field: Field| u16::try_from(field.read(bytes, view)?).ok();
    let source_port = read(Field::IcmpIdentifier)?;
    let destination_port = read(Field::IcmpType)? << 8 | read(Field::IcmpCode)?;
    Some(FlowKey { source_port, destination_port, ..flow })
}

/// The key of what answers; none: nothing answers such a message.
pub(super) fn answer(key: &FlowKey) -> Option<FlowKey> {
    let mut back = key.reversed();
    if is_icmp(key.protocol) {
        let [kind, code] = key.destination_port.to_be_bytes();
        // Echo, timestamp, information, address mask (RFC 792, RFC 950); echo and node information of
        // IPv6 (RFC 4443, RFC 4620).
        let kind = match (key.protocol, kind) {
            (IpProtocol::ICMP, 0) => 8,
            (IpProtocol::ICMP, 8) => 0,
            (IpProtocol::ICMP, 13 | 15 | 17) | (IpProtocol::ICMPV6, 128 | 139) => kind + 1,
            (IpProtocol::ICMP, 14 | 16 | 18) | (IpProtocol::ICMPV6, 129 | 140) => kind - 1,
            _ => return None,
        };
        back.destination_port = u16::from_be_bytes([kind, code]);
    }
    Some(back)
}

/// May a connection begin with such a packet?
pub(super) fn may_open(key: &FlowKey) -> bool {
    let [kind, _] = key.destination_port.to_be_bytes();
    match key.protocol {
        IpProtocol::ICMP => matches!(kind, 8 | 13 | 15 | 17),
        IpProtocol::ICMPV6 => matches!(kind, 128 | 139),
        _ => true,
    }
}

/// The same for both ways of a connection.
pub(super) fn hash(key: &FlowKey, seed: u64) -> u64 {
    let destination_port = if is_icmp(key.protocol) { 0 } else { key.destination_port };
    FlowKey { destination_port, ..*key }.symmetric_hash(seed)
}

fn is_icmp(protocol: IpProtocol) -> bool {
    matches!(protocol, IpProtocol::ICMP | IpProtocol::ICMPV6)
}
