//! Packets as they are written anew. Knows fields and checksums; refuses to know why.

use super::decide::{Translation, Written};
use super::sight::Quoted;
use crate::outcome::{GeneratedKind, Outcomes, Part, Patch};
use crate::packet::{Direction, Packet};
use catena_wire::checksum::{self, Sum};
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::FrameView;
use catena_wire::scalar::IpProtocol;
use catena_wire::segment::{self, SegmentKind, SuperFrame};
use catena_wire::{icmp, tcp};

/// The longest super-frame: a packet of IPv4 behind Ethernet with two tags.
pub(super) const FRAME_BYTES_MAX: usize = 65_535 + 22;

/// Which fields an end is in.
#[derive(Clone, Copy)]
enum Side {
    Source,
    Destination,
}

/// The fields of an end, with their values.
fn fields(
    written: Option<Written>,
    side: Side,
    protocol: Option<IpProtocol>,
) -> impl Iterator<Item = (Field, u128)> {
    let (address, port) = match (side, protocol) {
        (Side::Source, Some(IpProtocol::ICMP)) => (Field::Source, Field::IcmpIdentifier),
        (Side::Destination, Some(IpProtocol::ICMP)) => (Field::Destination, Field::IcmpIdentifier),
        (Side::Source, _) => (Field::Source, Field::SourcePort),
        (Side::Destination, _) => (Field::Destination, Field::DestinationPort),
    };
    let values = written.map(|written| {
        let number = written.port.map(|number| (port, u128::from(number)));
        [Some((address, u128::from(written.address.to_bits()))), number]
    });
    values.into_iter().flatten().flatten()
}

/// Both ends' fields.
fn all_fields(
    source: Option<Written>,
    destination: Option<Written>,
    view: &FrameView,
) -> impl Iterator<Item = (Field, u128)> {
    let source = fields(source, Side::Source, view.protocol);
    source.chain(fields(destination, Side::Destination, view.protocol))
}

/// The patches of a packet.
pub(super) fn patches(packet: &Packet<'_>, translation: &Translation, mut put: impl FnMut(Patch)) {
    let Translation { source, destination, .. } = *translation;
    for (field, value) in all_fields(source, destination, &packet.view) {
        put(Patch { part: Part::Field(field), mask: field.all(), value });
    }
}

/// Writes the translated packet, padding cut off, and answers its length.
pub(super) fn rewrite(
    packet: &Packet<'_>,
    translation: &Translation,
    into: &mut [u8],
) -> Option<usize> {
    let end = packet.view.end as usize;
    let into = into.get_mut(..end)?;
    into.copy_from_slice(packet.frame.get(..end)?);
    if let Some((source, destination)) = translation.quoted {
        quoted(packet, (source, destination), into)?;
    }
    let Translation { source, destination, .. } = *translation;
    for (field, value) in all_fields(source, destination, &packet.view) {
        field.write(into, &packet.view, (value, field.all()), packet.upper).ok()?;
    }
    Some(end)
}

/// Translates the packet that an error is about, with its checksums, and the checksum of the error (RFC 5508 REQ-4
/// and REQ-5). Of what is quoted only in part, the checksum may be missing.
fn quoted(
    packet: &Packet<'_>,
    (source, destination): (Option<Written>, Option<Written>),
    frame: &mut [u8],
) -> Option<()> {
    let Quoted { start, view, .. } = Quoted::of(packet)?;
    let about = frame.get_mut(start..)?;
    let before = Sum::of(about);
    for (field, value) in all_fields(source, destination, &view) {
        field.write(about, &view, (value, field.all()), UpperChecksum::Closed).ok()?;
    }
    let after = Sum::of(about);
    if packet.upper == UpperChecksum::Closed {
        let at = usize::from(packet.view.l4_offset?) + icmp::CHECKSUM_OFFSET;
        let sum: &mut [u8; 2] = frame.get_mut(at..)?.first_chunk_mut()?;
        *sum = checksum::update(u16::from_be_bytes(*sum), before, after).to_be_bytes();
    }
    Some(())
}

/// Makes the packets that go back in place of one: as on the wire, to who has sent it by its hardware address.
pub(super) fn turn_back(
    (at, packet, direction): (usize, &Packet<'_>, Direction),
    translation: &Translation,
    room: &mut [u8],
    outcomes: &mut Outcomes,
) {
    let made = (at, GeneratedKind::Hairpin, direction.reversed());
    let Some(length) = rewrite(packet, translation, room) else { return };
    let Some(frame) = room.get_mut(..length) else { return };
    if let (Some(to), Some(from)) = (packet.frame.get(..6), packet.frame.get(6..12))
        && let Some((first, rest)) = frame.split_at_mut_checked(6)
        && let Some(second) = rest.get_mut(..6)
    {
        first.copy_from_slice(from);
        second.copy_from_slice(to);
    }
    if packet.wire_packets > 1 {
        cut(frame, packet, made, outcomes);
        return;
    }
    if packet.upper == UpperChecksum::Open {
        let offset = match packet.view.protocol {
            Some(IpProtocol::TCP) => tcp::CHECKSUM_OFFSET as u16,
            _ => 6,
        };
        let start = packet.view.l4_offset.unwrap_or(0);
        if segment::complete_checksum(frame, start, offset).is_err() {
            return;
        }
    }
    outcomes.generate(made, length, |into| {
        into.get_mut(..frame.len())?.copy_from_slice(frame);
        Some(frame.len())
    });
}

/// The packets of a super-frame. How many they are is known, so how long they are at most.
fn cut(
    frame: &[u8],
    packet: &Packet<'_>,
    made: (usize, GeneratedKind, Direction),
    outcomes: &mut Outcomes,
) {
    let is_tcp = packet.view.protocol == Some(IpProtocol::TCP);
    let kind = if is_tcp { SegmentKind::Tcp } else { SegmentKind::Udp };
    let Some(payload) = Field::Payload.bytes(frame, &packet.view) else { return };
    let bytes = payload.len().div_ceil(packet.wire_packets as usize);
    let Ok(bytes) = u16::try_from(bytes) else { return };
    let Ok(plan) = SuperFrame::parse(frame, kind, bytes) else { return };
    for number in 0..packet.wire_packets {
        let length = plan.segment_len(number);
        if length > 0 {
            outcomes.generate(made, length, |into| {
                Some(plan.write_segment(frame, number, into)).filter(|written| *written > 0)
            });
        }
    }
}
