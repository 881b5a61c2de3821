//! A packet of IPv4 as translation sees it, and one that an ICMP error is about. Knows endpoints; refuses to know
//! mappings.

use super::end::End;
use super::fragments::Whole;
use crate::packet::{Direction, Packet};
use catena_wire::checksum::Sum;
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::{Fragment, FrameView, Network};
use catena_wire::icmp::IcmpView;
use catena_wire::scalar::{EtherType, IpProtocol};
use catena_wire::tcp::TcpFlags;
use std::net::{IpAddr, Ipv4Addr};

/// Who sends a packet to whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) source: End,
    pub(super) destination: End,
}

/// What kind of packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp(TcpFlags),
    Udp,
    /// A message of ICMP that asks, with an identifier.
    Query,
    /// One that answers.
    Reply,
    /// One that is about another packet.
    Error,
    /// Another protocol, or another message of ICMP: there is no port.
    Other,
    /// A fragment that is not the first: it shows no port.
    Later,
}

/// What of a packet counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) ends: Ends,
    pub(super) kind: Kind,
    pub(super) whole: Whole,
    pub(super) is_first_fragment: bool,
}

impl Sight {
    /// None: it is no packet of IPv4.
    pub(super) fn of(packet: &Packet<'_>, direction: Direction) -> Option<Self> {
        let view = &packet.view;
        if view.network != Network::Ipv4 {
            return None;
        }
        let ends = ends(packet.frame, view)?;
        let identification = Field::Identification.read(packet.frame, view)?;
        let whole = Whole {
            direction,
            source: ends.source.address,
            destination: ends.destination.address,
            protocol: ends.source.protocol,
            identification: u16::try_from(identification).ok()?,
        };
        let is_first_fragment = view.fragment == Fragment::First;
        Some(Self { ends, kind: kind(view)?, whole, is_first_fragment })
    }

    pub(super) const fn source(&self) -> Ipv4Addr {
        self.ends.source.address
    }

    pub(super) const fn destination(&self) -> Ipv4Addr {
        self.ends.destination.address
    }

    /// Whom it is sent to, seen from inside.
    pub(super) const fn remote(&self) -> (Ipv4Addr, u16) {
        (self.ends.destination.address, self.ends.destination.port)
    }
}

fn kind(view: &FrameView) -> Option<Kind> {
    if view.fragment == Fragment::Later {
        return Some(Kind::Later);
    }
    Some(match view.protocol? {
        IpProtocol::TCP => Kind::Tcp(view.varying.tcp_flags.unwrap_or_default()),
        IpProtocol::UDP => Kind::Udp,
        IpProtocol::ICMP => match view.icmp_type? {
            // Echo, timestamp, information and address mask have identifiers (RFC 792, RFC 950).
            8 | 13 | 15 | 17 => Kind::Query,
            0 | 14 | 16 | 18 => Kind::Reply,
            // Source quench is an error, too, that nobody sends any more (RFC 6633).
            4 => Kind::Error,
            _ if view.is_icmp_error() => Kind::Error,
            _ => Kind::Other,
        },
        _ => Kind::Other,
    })
}

/// The ends of a packet of IPv4. The identifier of a message of ICMP stands on both sides.
fn ends(bytes: &[u8], view: &FrameView) -> Option<Ends> {
    let flow = view.flow?;
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (flow.source, flow.destination) else {
        return None;
    };
    let (source_port, destination_port) = match kind(view)? {
        Kind::Query | Kind::Reply => {
            let identifier = Field::IcmpIdentifier.read(bytes, view)?;
            let identifier = u16::try_from(identifier).ok()?;
            (identifier, identifier)
        }
        Kind::Tcp(_) | Kind::Udp => (flow.source_port, flow.destination_port),
        Kind::Error | Kind::Other | Kind::Later => (0, 0),
    };
    let end = |address, port| End { protocol: flow.protocol, address, port };
    Some(Ends { source: end(source, source_port), destination: end(destination, destination_port) })
}

/// A packet that an error quotes: where it begins in the frame, what it is, and its ends, where it shows its ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted {
    pub(super) start: usize,
    pub(super) view: FrameView,
    pub(super) ends: Ends,
}

impl Quoted {
    /// None: what is quoted is too little, or too odd.
    pub(super) fn of(packet: &Packet<'_>) -> Option<Self> {
        let start = usize::from(packet.view.l4_offset?) + IcmpView::HEADER_LEN;
        let bytes = packet.frame.get(start..packet.view.end as usize)?;
        let view = FrameView::parse_quoted(bytes, EtherType::IPV4).ok()?;
        let ends = ends(bytes, &view)?;
        (view.fragment != Fragment::Later).then_some(Self { start, view, ends })
    }

    /// Are the checksums right of the error, and of the header that it quotes (RFC 5508 REQ-3)? Of a first
    /// fragment, and of an error whose checksum is open, nobody can judge that of the error.
    pub(super) fn is_sound(&self, packet: &Packet<'_>) -> bool {
        let judge = || {
            let start = usize::from(packet.view.l4_offset?);
            let error = packet.frame.get(start..packet.view.end as usize)?;
            let header_bytes = usize::from(self.view.l4_offset?);
            let header = packet.frame.get(self.start..self.start + header_bytes)?;
            let is_judged =
                packet.view.fragment == Fragment::Whole && packet.upper == UpperChecksum::Closed;
            let is_right = !is_judged || Sum::of(error).is_correct();
            Some(is_right && Sum::of(header).is_correct())
        };
        judge().unwrap_or(false)
    }
}
