//! The interpreter that the program is held against: what a transform does, in plain steps over
//! plain bytes. Knows every operation; refuses to be fast. Tests alone use it.

use crate::records::Account;
use crate::sight::Sight;
use crate::transform::{
    ETHERNET_BYTES, FLAG_COUNTED, FLAG_PUSHES, FLAG_UNTAGGED_ONLY, Kind, Operation, Transform,
};
use catena_wire::ethernet::{self, EthernetHeader};
use catena_wire::scalar::{EtherType, IpProtocol, MacAddr};
use catena_wire::udp;
use catena_wire::{ipv4, ipv6};
use std::collections::BTreeMap;

/// What became of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The frame as it leaves.
    pub bytes: Vec<u8>,
    /// The last operation: how it leaves.
    pub exit: Option<(Kind, u32)>,
    /// Copies and the interface of each.
    pub copies: Vec<(u32, Vec<u8>)>,
    /// What was added to which account.
    pub accounts: BTreeMap<u32, Account>,
}

/// Would the program apply the transform to this frame, or send it up as unfit? `is_tagged`: it has
/// a VLAN tag, which the kernel keeps beside it; `mtu`: that of the interface it would leave by, none
/// if there is no such interface.
#[must_use]
pub fn fits(
    transform: &Transform,
    frame_bytes: usize,
    sight: &Sight,
    is_tagged: bool,
    mtu: Option<u32>,
) -> bool {
    let Some(mtu) = mtu else { return false };
    let frame_bytes = i64::try_from(frame_bytes).unwrap_or(i64::MAX);
    let (longest, bound) = match sight.segment_bytes {
        Some(segment) => (i64::from(segment), transform.segment_bytes_max),
        None => (frame_bytes, transform.frame_bytes_max),
    };
    let is_one_packet = sight.segment_bytes.is_none();
    let must_fit = is_one_packet || transform.flags & FLAG_PUSHES != 0;
    // It may be one of TCP in a tunnel of its sender, which no kernel cuts behind another.
    let is_row = !is_one_packet && sight.key.protocol == IpProtocol::UDP.0;
    if is_row && transform.flags & FLAG_PUSHES != 0 {
        return false;
    }
    let whole = frame_bytes + i64::from(transform.growth);
    let counted = (ETHERNET_BYTES + ipv6::HEADER_BYTES) as i64 + i64::from(u16::MAX);
    if transform.flags & FLAG_COUNTED != 0 && whole > counted {
        return false;
    }
    let leaving = longest + i64::from(transform.growth);
    longest <= i64::from(bound)
        && (!must_fit || leaving <= i64::from(mtu) + ETHERNET_BYTES as i64)
        && !(is_tagged && transform.flags & FLAG_UNTAGGED_ONLY != 0)
}

/// Applies a transform to a frame without tag; `None` if the frame is too short for it.
#[must_use]
pub fn apply(transform: &Transform, frame: &[u8], sight: &Sight) -> Option<Outcome> {
    let mut outcome = Outcome { bytes: frame.to_vec(), ..Outcome::default() };
    for operation in transform.operations() {
        let kind = Kind::of(operation.kind)?;
        match kind {
            Kind::SetDestination => {
                ethernet::set_destination(&mut outcome.bytes, MacAddr(operation.mac)).ok()?;
            }
            Kind::Trim => {
                // Behind the inner Ethernet header, which ends where what is taken off ends.
                outcome.bytes.drain(..usize::from(operation.length));
            }
            Kind::TrimSegments => {
                let mac = MacAddr(operation.mac);
                let ether_type =
                    if sight.key.family == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
                outcome.bytes.drain(..usize::from(operation.length));
                let made = EthernetHeader::untagged(mac, mac, ether_type);
                made.emit(&mut outcome.bytes).ok()?;
            }
            Kind::PushTunnel => push_tunnel(transform, operation, &mut outcome.bytes)?,
            Kind::PushSegments => push_segments(transform, operation, &mut outcome.bytes)?,
            Kind::CloneTo => outcome.copies.push((operation.number, outcome.bytes.clone())),
            Kind::Count => {
                let account = outcome.accounts.entry(operation.number).or_default();
                account.packets += sight.volume.packets;
                account.bytes += sight.volume.bytes;
            }
            Kind::Transmit | Kind::HandOver | Kind::TransmitToNeighbour => {
                outcome.exit = Some((kind, operation.number));
                return Some(outcome);
            }
        }
    }
    None
}

fn push_tunnel(transform: &Transform, push: Operation, bytes: &mut Vec<u8>) -> Option<()> {
    let start = usize::from(push.offset);
    let header = transform.template.get(start..start + usize::from(push.length))?;
    let mut addresses = [0; 12];
    addresses.copy_from_slice(bytes.get(..12)?);
    // The outer Ethernet header has the addresses of the inner one until a neighbour is found.
    let mut outer = addresses.to_vec();
    outer.extend(EtherType::IPV4.0.to_be_bytes());
    outer.extend_from_slice(header);
    let total = header.len() + bytes.len();
    let (ip, datagram) = outer.get_mut(ETHERNET_BYTES..)?.split_at_mut(ipv4::HEADER_BYTES);
    // What does not fit the field is said as zero, as Linux does for super-frames.
    let total = u16::try_from(total).unwrap_or(0);
    ipv4::set_total_length(ip, total).ok()?;
    ipv4::refresh_checksum(ip).ok()?;
    udp::set_length(datagram, total.saturating_sub(ipv4::HEADER_BYTES as u16)).ok()?;
    bytes.splice(..0, outer);
    Some(())
}

fn push_segments(transform: &Transform, push: Operation, bytes: &mut Vec<u8>) -> Option<()> {
    let start = usize::from(push.offset);
    let header = transform.template.get(start..start + usize::from(push.length))?;
    let (addresses, rest) = bytes.split_at_checked(ETHERNET_BYTES - size_of::<EtherType>())?;
    let (ether_type, packet) = rest.split_at_checked(size_of::<EtherType>())?;
    let class = match (ether_type, packet) {
        ([0x86, 0xdd], [first, second, ..]) => first << 4 | second >> 4,
        (_, [_, class, ..]) => *class,
        _ => return None,
    };
    let mut outer = header.to_vec();
    ipv6::set_traffic_class(&mut outer, class).ok()?;
    let payload = header.len() - ipv6::HEADER_BYTES + packet.len();
    ipv6::set_payload_length(&mut outer, u16::try_from(payload).ok()?).ok()?;
    let ether_type = EtherType::IPV6.0.to_be_bytes();
    *bytes = [addresses, &ether_type, &outer, packet].concat();
    Some(())
}
