//! The list of fields. Knows names, bits and places; refuses to know values.

use super::{Covered, Place};
use crate::frame::{Fragment, FrameView, Network};
use crate::scalar::{EtherType, IpProtocol};
use crate::{ethernet, ipv4, ipv6, tcp};

macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident $name:literal $title:literal $bits:literal $covered:ident;)*) => {
        /// A field of a packet. Those of Ethernet's tags are those of the outermost one; those of IP are of
        /// both versions, where both have them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Field {
            $($(#[$doc])* $field,)*
        }

        impl Field {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$field),*];

            /// Its short name, as analysis and messages write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$field => $name,)* }
            }

            /// What it is called in sentences.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$field => $title,)* }
            }

            /// Bits of its value; of a string of bytes: one.
            #[must_use]
            pub const fn bits(self) -> u32 {
                match self { $(Self::$field => $bits,)* }
            }

            pub(super) const fn covered(self) -> Covered {
                match self { $(Self::$field => Covered::$covered,)* }
            }
        }
    };
}

fields! {
    /// Address that the frame is sent to.
    EthernetDestination "eth.dst" "Ethernet destination" 48 Nowhere;
    /// Address that the frame comes from.
    EthernetSource "eth.src" "Ethernet source" 48 Nowhere;
    /// Type of what is behind the tags.
    EtherType "eth.type" "EtherType" 16 Nowhere;
    /// Identifier of the VLAN (IEEE 802.1Q).
    VlanId "vlan.vid" "VLAN identifier" 12 Nowhere;
    /// Priority code point of the tag.
    VlanPriority "vlan.pcp" "VLAN priority" 3 Nowhere;
    /// Drop eligibility of the tag.
    VlanDropEligible "vlan.dei" "VLAN drop eligibility" 1 Nowhere;
    /// Label of the outermost entry (RFC 3032).
    MplsLabel "mpls.label" "MPLS label" 20 Nowhere;
    /// Traffic class of the outermost entry (RFC 5462).
    MplsTrafficClass "mpls.tc" "MPLS traffic class" 3 Nowhere;
    /// Time to live of the outermost entry.
    MplsTtl "mpls.ttl" "MPLS TTL" 8 Nowhere;
    /// Differentiated services code point (RFC 2474).
    Dscp "ip.dscp" "DSCP" 6 Header;
    /// Explicit congestion notification (RFC 3168).
    Ecn "ip.ecn" "ECN" 2 Header;
    /// Total length of IPv4, payload length of IPv6.
    Length "ip.len" "IP length" 16 Header;
    /// Identification of IPv4.
    Identification "ip.id" "IP identification" 16 Header;
    /// The three flags of IPv4: reserved, don't fragment, more fragments.
    FragmentFlags "ip.flags" "fragment flags" 3 Header;
    /// Fragment offset of IPv4, units of 8 bytes.
    FragmentOffset "ip.frag" "fragment offset" 13 Header;
    /// Time to live of IPv4, hop limit of IPv6.
    Ttl "ip.ttl" "TTL" 8 Header;
    /// The upper protocol; in IPv6 what the last extension header says, of which no bits can be set.
    Protocol "ip.proto" "IP protocol" 8 Addresses;
    /// Checksum of the IPv4 header.
    HeaderChecksum "ip.csum" "IP checksum" 16 Nowhere;
    /// Source address, 32 bits of IPv4.
    Source "ip.src" "source address" 128 Addresses;
    /// Destination address, 32 bits of IPv4.
    Destination "ip.dst" "destination address" 128 Addresses;
    /// Options of IPv4, a string of bytes.
    Options "ip.opts" "IP options" 1 Nowhere;
    /// Flow label of IPv6.
    FlowLabel "ip6.flow" "flow label" 20 Nowhere;
    /// Extension headers of IPv6, a string of bytes.
    ExtensionHeaders "ip6.ext" "extension headers" 1 Nowhere;
    /// Source port of TCP or UDP.
    SourcePort "l4.sport" "source port" 16 Upper;
    /// Destination port of TCP or UDP.
    DestinationPort "l4.dport" "destination port" 16 Upper;
    /// Sequence number of TCP.
    Sequence "l4.seq" "sequence number" 32 Upper;
    /// Acknowledgment number of TCP.
    Acknowledgment "l4.ack" "acknowledgment number" 32 Upper;
    /// Control bits of TCP (RFC 9293 section 3.1).
    TcpFlags "l4.flags" "TCP flags" 8 Upper;
    /// Receive window of TCP, not scaled.
    Window "l4.win" "window" 16 Upper;
    /// Urgent pointer of TCP.
    UrgentPointer "l4.urg" "urgent pointer" 16 Upper;
    /// Options of TCP, a string of bytes.
    TcpOptions "l4.opts" "TCP options" 1 Nowhere;
    /// Checksum of TCP, UDP or ICMP.
    UpperChecksum "l4.csum" "transport checksum" 16 Nowhere;
    /// Type of an ICMP or ICMPv6 message.
    IcmpType "icmp.type" "ICMP type" 8 Upper;
    /// Code of an ICMP or ICMPv6 message.
    IcmpCode "icmp.code" "ICMP code" 8 Upper;
    /// Identifier of an echo; of other messages the same bits.
    IcmpIdentifier "icmp.id" "ICMP identifier" 16 Upper;
    /// Sequence number of an echo; of other messages the same bits.
    IcmpSequence "icmp.seq" "ICMP sequence number" 16 Upper;
    /// What the upper layer carries, a string of bytes; behind an upper protocol without declared fields,
    /// and in later fragments, all that IP carries.
    Payload "payload" "payload" 1 Nowhere;
}

const fn number(at: usize, bytes: usize, shift: u32) -> Place {
    Place::Number { at, bytes, shift }
}

impl Field {
    /// The one with this short name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// The checksums that change with it (RFC 1624).
    #[must_use]
    pub const fn checksums(self) -> &'static [Self] {
        match self.covered() {
            Covered::Nowhere => &[],
            Covered::Header => &[Self::HeaderChecksum],
            Covered::Addresses => &[Self::HeaderChecksum, Self::UpperChecksum],
            Covered::Upper => &[Self::UpperChecksum],
        }
    }

    /// Where a frame has it; none: it does not.
    #[inline]
    pub(super) fn place(self, frame: &[u8], view: &FrameView) -> Option<Place> {
        match self {
            Self::EthernetDestination
            | Self::EthernetSource
            | Self::EtherType
            | Self::VlanId
            | Self::VlanPriority
            | Self::VlanDropEligible
            | Self::MplsLabel
            | Self::MplsTrafficClass
            | Self::MplsTtl => self.place_below_ip(view),
            Self::Dscp
            | Self::Ecn
            | Self::Length
            | Self::Identification
            | Self::FragmentFlags
            | Self::FragmentOffset
            | Self::Ttl
            | Self::Protocol
            | Self::HeaderChecksum
            | Self::Source
            | Self::Destination
            | Self::Options
            | Self::FlowLabel
            | Self::ExtensionHeaders => match view.network {
                Network::Ipv4 => self.place_in_ipv4(view),
                Network::Ipv6 => self.place_in_ipv6(view),
                Network::Arp | Network::Other => None,
            },
            _ => self.place_in_upper(frame, view),
        }
    }

    fn place_below_ip(self, view: &FrameView) -> Option<Place> {
        let l3 = usize::from(view.l3_offset);
        let is_tagged = l3 > ethernet::HEADER_BYTES;
        let is_labelled = view.ethertype == EtherType::MPLS;
        let control = ethernet::HEADER_BYTES;
        match self {
            // An IP packet that has lost its Ethernet header has no address.
            Self::EthernetDestination => (l3 >= ethernet::HEADER_BYTES).then(|| number(0, 6, 0)),
            Self::EthernetSource => (l3 >= ethernet::HEADER_BYTES).then(|| number(6, 6, 0)),
            Self::EtherType => Some(number(l3.checked_sub(2)?, 2, 0)),
            Self::VlanId => is_tagged.then(|| number(control, 2, 0)),
            Self::VlanPriority => is_tagged.then(|| number(control, 2, 13)),
            Self::VlanDropEligible => is_tagged.then(|| number(control, 2, 12)),
            Self::MplsLabel => is_labelled.then(|| number(l3, 4, 12)),
            Self::MplsTrafficClass => is_labelled.then(|| number(l3, 4, 9)),
            Self::MplsTtl => is_labelled.then(|| number(l3, 4, 0)),
            _ => None,
        }
    }

    fn place_in_ipv4(self, view: &FrameView) -> Option<Place> {
        let l3 = usize::from(view.l3_offset);
        Some(match self {
            Self::Dscp => number(l3 + 1, 1, 2),
            Self::Ecn => number(l3 + 1, 1, 0),
            Self::Length => number(l3 + 2, 2, 0),
            Self::Identification => number(l3 + 4, 2, 0),
            Self::FragmentFlags => number(l3 + 6, 2, 13),
            Self::FragmentOffset => number(l3 + 6, 2, 0),
            Self::Ttl => number(l3 + 8, 1, 0),
            Self::Protocol => number(l3 + 9, 1, 0),
            Self::HeaderChecksum => number(l3 + ipv4::CHECKSUM_OFFSET, 2, 0),
            Self::Source => number(l3 + 12, 4, 0),
            Self::Destination => number(l3 + 16, 4, 0),
            Self::Options => Place::Bytes(l3 + ipv4::HEADER_BYTES..usize::from(view.l4_offset?)),
            _ => return None,
        })
    }

    fn place_in_ipv6(self, view: &FrameView) -> Option<Place> {
        let l3 = usize::from(view.l3_offset);
        let l4 = usize::from(view.l4_offset?);
        let first = l3 + ipv6::HEADER_BYTES;
        Some(match self {
            Self::Dscp => number(l3, 2, 6),
            Self::Ecn => number(l3, 2, 4),
            Self::FlowLabel => number(l3, 4, 0),
            Self::Length => number(l3 + 4, 2, 0),
            // The next header of the last extension header says it, whose place the view does not keep.
            Self::Protocol if l4 == first => number(l3 + 6, 1, 0),
            Self::Ttl => number(l3 + ipv6::HOP_LIMIT_OFFSET, 1, 0),
            Self::Source => number(l3 + 8, 16, 0),
            Self::Destination => number(l3 + 24, 16, 0),
            Self::ExtensionHeaders => Place::Bytes(first..l4),
            _ => return None,
        })
    }

    fn place_in_upper(self, frame: &[u8], view: &FrameView) -> Option<Place> {
        let l4 = usize::from(view.l4_offset?);
        let end = (view.end as usize).min(frame.len());
        let is_later = view.fragment == Fragment::Later;
        let protocol = view.protocol.filter(|_| !is_later);
        let behind = |header: usize| Place::Bytes((l4 + header).min(end)..end);
        let place = match (protocol, self) {
            (Some(IpProtocol::TCP | IpProtocol::UDP), Self::SourcePort) => number(l4, 2, 0),
            (Some(IpProtocol::TCP | IpProtocol::UDP), Self::DestinationPort) => {
                number(l4 + 2, 2, 0)
            }
            (Some(IpProtocol::TCP), _) => {
                let header_bytes = usize::from(frame.get(l4 + 12).map_or(0, |byte| byte >> 4)) * 4;
                let header_bytes = header_bytes.max(tcp::HEADER_BYTES);
                match self {
                    Self::Sequence => number(l4 + 4, 4, 0),
                    Self::Acknowledgment => number(l4 + 8, 4, 0),
                    Self::TcpFlags => number(l4 + tcp::FLAGS_OFFSET, 1, 0),
                    Self::Window => number(l4 + 14, 2, 0),
                    Self::UpperChecksum => number(l4 + tcp::CHECKSUM_OFFSET, 2, 0),
                    Self::UrgentPointer => number(l4 + 18, 2, 0),
                    Self::TcpOptions => {
                        let options = l4 + tcp::HEADER_BYTES..l4 + header_bytes;
                        Place::Bytes(options.start.min(end)..options.end.min(end))
                    }
                    Self::Payload => behind(header_bytes),
                    _ => return None,
                }
            }
            (Some(IpProtocol::UDP), Self::UpperChecksum) => number(l4 + 6, 2, 0),
            (Some(IpProtocol::UDP), Self::Payload) => behind(8),
            (Some(IpProtocol::ICMP | IpProtocol::ICMPV6), _) if view.icmp_type.is_some() => {
                match self {
                    Self::IcmpType => number(l4, 1, 0),
                    Self::IcmpCode => number(l4 + 1, 1, 0),
                    Self::UpperChecksum => number(l4 + 2, 2, 0),
                    Self::IcmpIdentifier => number(l4 + 4, 2, 0),
                    Self::IcmpSequence => number(l4 + 6, 2, 0),
                    Self::Payload => behind(8),
                    _ => return None,
                }
            }
            (_, Self::Payload) => behind(0),
            _ => return None,
        };
        // A first fragment may end before a field of its transport header.
        match &place {
            Place::Number { at, bytes, .. } if at + bytes > end => None,
            _ => Some(place),
        }
    }
}
