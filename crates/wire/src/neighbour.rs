//! Neighbour discovery of IPv6, as far as answering for somebody needs it: RFC 4861.
//!
//! Knows solicitations and advertisements, as frames too. Refuses to know whose address it is.
//!
//! ```text
//! |   Type 135    |    Code 0     |           Checksum            |   solicitation, section 4.3
//! |                          Reserved                             |
//! ~                    Target address, 16 bytes                   ~
//! | Option 1 | Units 1 | source link-layer address, 6 bytes       |
//!
//! |   Type 136    |    Code 0     |           Checksum            |   advertisement, section 4.4
//! |R|S|O|                       Reserved                          |
//! ~                    Target address, 16 bytes                   ~
//! | Option 2 | Units 1 | target link-layer address, 6 bytes       |
//! ```

use core::fmt;
use core::net::Ipv6Addr;

use crate::ethernet::{self, EthernetHeader};
use crate::icmp::{IcmpV6Type, IcmpView, v6_sum};
use crate::ipv6::{self, Ipv6Header};
use crate::scalar::{EtherType, FlowLabel, IpProtocol, MacAddr};

mod field {
    //! Where each field of an advertisement lies.
    use core::ops::Range;

    pub(super) const TYPE: usize = 0;
    pub(super) const CHECKSUM: Range<usize> = 2..4;
    pub(super) const FLAGS: usize = 4;
    pub(super) const FLAG_SOLICITED: u8 = 0x40;
    pub(super) const FLAG_OVERRIDE: u8 = 0x20;
    pub(super) const TARGET: Range<usize> = 8..24;
    pub(super) const OPTION_HEAD: Range<usize> = 24..26;
    pub(super) const OPTION_MAC: Range<usize> = 26..32;
}

/// Hop limit of every message: a smaller one came through a router (section 7.1).
pub const HOP_LIMIT: u8 = 255;
/// Bytes of an advertisement with its link-layer address.
const ADVERTISEMENT_LEN: usize = field::OPTION_MAC.end;
/// Bytes of the frame that [`emit_neighbour_advertisement`] writes.
pub const ADVERTISEMENT_FRAME_LEN: usize =
    ethernet::HEADER_BYTES + ipv6::HEADER_BYTES + ADVERTISEMENT_LEN;
/// Bytes of the frame that [`emit_neighbour_solicitation`] writes: as long as an advertisement's.
pub const SOLICITATION_FRAME_LEN: usize = ADVERTISEMENT_FRAME_LEN;
/// Options of the longest solicitation that is read.
pub const OPTIONS_MAX: usize = 16;
/// Option lengths count units of eight bytes (section 4.6).
const OPTION_UNIT: usize = 8;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Group address of all nodes on Ethernet (RFC 2464 section 7).
const ALL_NODES_MAC: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 1]);

/// The meaning of a solicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourSolicitation {
    /// Who asks; unspecified when the asker checks its own new address (RFC 4862).
    pub source: Ipv6Addr,
    /// The address asked for.
    pub target: Ipv6Addr,
    /// The asker's own link-layer address, if it says so.
    pub source_link_layer: Option<MacAddr>,
}

impl NeighbourSolicitation {
    /// The solicitation in an ICMPv6 message, with every check of RFC 4861 section 7.1.1.
    ///
    /// # Errors
    /// When one of those checks fails.
    pub fn parse(
        message: &[u8],
        source: Ipv6Addr,
        destination: Ipv6Addr,
        hop_limit: u8,
    ) -> Result<Self, NeighbourError> {
        let short = NeighbourError::Truncated { need: field::TARGET.end, have: message.len() };
        let view = IcmpView::parse(message).map_err(|_| short)?;
        if view.v6_type() != IcmpV6Type::NEIGHBOUR_SOLICITATION {
            return Err(NeighbourError::NotASolicitation(view.v6_type()));
        }
        if hop_limit != HOP_LIMIT {
            return Err(NeighbourError::HopLimit(hop_limit));
        }
        if view.code() != 0 {
            return Err(NeighbourError::Code(view.code()));
        }
        let (&target, options) = view.body().split_first_chunk::<16>().ok_or(short)?;
        if !view.is_v6_checksum_correct(source, destination) {
            return Err(NeighbourError::Checksum);
        }
        let target = Ipv6Addr::from(target);
        if target.is_multicast() {
            return Err(NeighbourError::MulticastTarget);
        }
        let source_link_layer = source_link_layer(options)?;
        let may_be_unspecified =
            is_solicited_node(destination, target) && source_link_layer.is_none();
        if source.is_unspecified() && !may_be_unspecified {
            return Err(NeighbourError::UnspecifiedSource);
        }
        Ok(Self { source, target, source_link_layer })
    }
}

/// Walks the options; each takes at least eight bytes.
fn source_link_layer(options: &[u8]) -> Result<Option<MacAddr>, NeighbourError> {
    let mut found = None;
    let mut rest = options;
    for _ in 0..OPTIONS_MAX {
        if rest.is_empty() {
            return Ok(found);
        }
        let offset = field::TARGET.end + options.len() - rest.len();
        let (&[kind, units, a, b, c, d, e, g], _) =
            rest.split_first_chunk::<OPTION_UNIT>().ok_or(NeighbourError::Option { offset })?;
        if kind == SOURCE_LINK_LAYER && units == 1 {
            found = found.or(Some(MacAddr([a, b, c, d, e, g])));
        }
        rest = match usize::from(units) * OPTION_UNIT {
            0 => return Err(NeighbourError::Option { offset }),
            length => rest.get(length..).ok_or(NeighbourError::Option { offset })?,
        };
    }
    if rest.is_empty() { Ok(found) } else { Err(NeighbourError::TooManyOptions) }
}

/// Is the group ff02::1:ffXX:XXXX that of the address (RFC 4291 section 2.7.1)?
fn is_solicited_node(group: Ipv6Addr, address: Ipv6Addr) -> bool {
    const PREFIX: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    const LOW_BITS: u128 = 0x00ff_ffff;
    group.to_bits() == PREFIX | address.to_bits() & LOW_BITS
}

/// Writes the frame that answers a solicitation: `mac` has the target address. Answers its length,
/// [`ADVERTISEMENT_FRAME_LEN`].
///
/// The frame goes to the asker's link-layer option, else to `asker`, the address its frame came
/// from; to an asker without an address it goes to all nodes and is not «solicited»
/// (RFC 4861 section 7.2.4). It always overrides what caches hold.
///
/// # Errors
/// When `into` is shorter than the frame.
pub fn emit_neighbour_advertisement(
    solicitation: &NeighbourSolicitation,
    asker: MacAddr,
    mac: MacAddr,
    into: &mut [u8],
) -> Result<usize, NeighbourError> {
    let is_solicited = !solicitation.source.is_unspecified();
    let (destination_mac, destination) = if is_solicited {
        (solicitation.source_link_layer.unwrap_or(asker), solicitation.source)
    } else {
        (ALL_NODES_MAC, ALL_NODES)
    };
    let solicited = if is_solicited { field::FLAG_SOLICITED } else { 0 };
    let message = Message {
        kind: IcmpV6Type::NEIGHBOUR_ADVERTISEMENT,
        flags: solicited | field::FLAG_OVERRIDE,
        target: solicitation.target,
        option: TARGET_LINK_LAYER,
        mac,
    };
    message.emit_frame((mac, solicitation.target), (destination_mac, destination), into)
}

/// Writes the frame with which `asker`, from its link-local address, asks the interface with the
/// MAC `asked` alone whether it has the address (RFC 4861 section 7.3.1, a unicast solicitation).
/// Answers its length, [`SOLICITATION_FRAME_LEN`].
///
/// # Errors
/// When `into` is shorter than the frame.
pub fn emit_neighbour_solicitation(
    asker: MacAddr,
    asked: MacAddr,
    target: Ipv6Addr,
    into: &mut [u8],
) -> Result<usize, NeighbourError> {
    let message = Message {
        kind: IcmpV6Type::NEIGHBOUR_SOLICITATION,
        flags: 0,
        target,
        option: SOURCE_LINK_LAYER,
        mac: asker,
    };
    message.emit_frame((asker, link_local(asker)), (asked, target), into)
}

/// The link-local address that follows from a MAC (RFC 4291 section 2.5.6 and appendix A).
#[must_use]
pub const fn link_local(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let word = u16::from_be_bytes;
    let identifier = [word([a ^ 2, b]), word([c, 0xff]), word([0xfe, d]), word([e, f])];
    let [g, h, i, j] = identifier;
    Ipv6Addr::new(0xfe80, 0, 0, 0, g, h, i, j)
}

/// The address that an advertisement says to be there; none: the message is none.
#[must_use]
pub fn advertised(message: &[u8]) -> Option<Ipv6Addr> {
    let is_advertisement = message.get(field::TYPE)? == &IcmpV6Type::NEIGHBOUR_ADVERTISEMENT.0;
    let target: [u8; 16] = message.get(field::TARGET)?.try_into().ok()?;
    is_advertisement.then(|| Ipv6Addr::from(target))
}

/// A message with one link-layer option: both kinds are laid out alike.
struct Message {
    kind: IcmpV6Type,
    flags: u8,
    target: Ipv6Addr,
    option: u8,
    mac: MacAddr,
}

impl Message {
    fn emit_frame(
        &self,
        from: (MacAddr, Ipv6Addr),
        to: (MacAddr, Ipv6Addr),
        into: &mut [u8],
    ) -> Result<usize, NeighbourError> {
        let short = NeighbourError::Truncated { need: ADVERTISEMENT_FRAME_LEN, have: into.len() };
        let frame = into.get_mut(..ADVERTISEMENT_FRAME_LEN).ok_or(short)?;
        let (ethernet_into, packet) = frame.split_at_mut(ethernet::HEADER_BYTES);
        let (ipv6_into, message) = packet.split_at_mut(ipv6::HEADER_BYTES);
        EthernetHeader::untagged(to.0, from.0, EtherType::IPV6)
            .emit(ethernet_into)
            .map_err(|_| short)?;
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: FlowLabel::from_low_bits(0),
            payload_length: ADVERTISEMENT_LEN as u16,
            next_header: IpProtocol::ICMPV6,
            hop_limit: HOP_LIMIT,
            source: from.1,
            destination: to.1,
        };
        header.emit(ipv6_into).map_err(|_| short)?;
        message.fill(0);
        message[field::TYPE] = self.kind.0;
        message[field::FLAGS] = self.flags;
        message[field::TARGET].copy_from_slice(&self.target.octets());
        message[field::OPTION_HEAD].copy_from_slice(&[self.option, 1]);
        message[field::OPTION_MAC].copy_from_slice(&self.mac.0);
        let checksum = v6_sum(message, from.1, to.1).checksum();
        message[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
        Ok(ADVERTISEMENT_FRAME_LEN)
    }
}

/// Why a message is no solicitation to answer, or where no answer fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourError {
    /// Too few bytes, counted from offset 0.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// Another type of message (offset 0).
    NotASolicitation(IcmpV6Type),
    /// A code other than 0 (offset 1).
    Code(u8),
    /// The message came through a router.
    HopLimit(u8),
    /// The checksum is wrong (offset 2).
    Checksum,
    /// The target is a group (offset 8).
    MulticastTarget,
    /// An asker without an address, who must ask the solicited-node group and give no link-layer
    /// address, did otherwise.
    UnspecifiedSource,
    /// An option of length 0, or one that is cut short.
    Option {
        /// Where it starts, in bytes.
        offset: usize,
    },
    /// More options than [`OPTIONS_MAX`].
    TooManyOptions,
}

impl fmt::Display for NeighbourError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "neighbour discovery needs {need} bytes, there are {have}")
            }
            Self::NotASolicitation(IcmpV6Type(kind)) => {
                write!(f, "ICMPv6 type {kind} is no neighbour solicitation")
            }
            Self::Code(code) => write!(f, "neighbour solicitation with code {code}"),
            Self::HopLimit(limit) => {
                write!(f, "neighbour solicitation with hop limit {limit}: it was routed")
            }
            Self::Checksum => f.write_str("neighbour solicitation with a wrong checksum"),
            Self::MulticastTarget => f.write_str("neighbour solicitation for a group"),
            Self::UnspecifiedSource => {
                f.write_str("neighbour solicitation without an asker that is no address check")
            }
            Self::Option { offset } => {
                write!(f, "the neighbour discovery option at byte {offset} is cut short")
            }
            Self::TooManyOptions => {
                write!(f, "neighbour solicitation with more than {OPTIONS_MAX} options")
            }
        }
    }
}

impl core::error::Error for NeighbourError {}

#[cfg(test)]
mod tests;
