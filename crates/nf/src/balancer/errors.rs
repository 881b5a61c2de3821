//! ICMP errors about packets of sessions: outside and inside they say what whoever gets them knows (RFC 5508
//! section 4.2, for the translation of errors). Knows how an error is rewritten; refuses to know sessions.

use crate::packet::Packet;
use catena_wire::checksum::{Sum, update};
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::flow::FlowKey;
use catena_wire::frame::{Fragment, FrameView};
use catena_wire::icmp::{CHECKSUM_OFFSET, IcmpView};
use std::net::IpAddr;
use std::ops::Range;

/// The packet that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quoted {
    /// Where the error has it.
    place: Range<usize>,
    view: FrameView,
    pub(super) flow: FlowKey,
}

/// How an error is rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rewritten {
    pub(super) quoted: Quoted,
    /// Which end of the quoted packet, by its address and port.
    pub(super) inner: (Field, Field),
    pub(super) end: (IpAddr, u16),
    /// Which address of the error itself, if any.
    pub(super) outer: Option<(Field, IpAddr)>,
}

/// The number that a field has for an address.
pub(super) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// None: the packet is no error, or comes in fragments, or is about none with ports.
pub(super) fn quoted(packet: &Packet<'_>) -> Option<Quoted> {
    let view = &packet.view;
    if !view.is_icmp_error() || view.fragment != Fragment::Whole {
        return None;
    }
    let place = usize::from(view.l4_offset?) + IcmpView::HEADER_LEN..view.end as usize;
    let inner = FrameView::parse_quoted(packet.frame.get(place.clone())?, view.ethertype).ok()?;
    let flow = inner.flow.filter(|_| inner.fragment != Fragment::Later)?;
    Some(Quoted { place, view: inner, flow })
}

impl Rewritten {
    /// Writes the error anew, without padding; answers its length. A checksum that was wrong stays so.
    pub(super) fn emit(&self, packet: &Packet<'_>, into: &mut [u8]) -> Option<usize> {
        let view = &packet.view;
        let end = view.end as usize;
        let into = into.get_mut(..end)?;
        into.copy_from_slice(packet.frame.get(..end)?);
        let (place, inner) = (self.quoted.place.clone(), &self.quoted.view);
        let before = Sum::of(into.get(place.clone())?);
        let (address, port) = self.inner;
        let numbers = [(address, bits(self.end.0)), (port, self.end.1.into())];
        for (field, value) in numbers {
            let quoted = into.get_mut(place.clone())?;
            field.write(quoted, inner, (value, field.all()), UpperChecksum::Closed).ok()?;
        }
        let after = Sum::of(into.get(place)?);
        if packet.upper == UpperChecksum::Closed {
            let at = usize::from(view.l4_offset?) + CHECKSUM_OFFSET;
            let field: &mut [u8; 2] = into.get_mut(at..)?.first_chunk_mut()?;
            *field = update(u16::from_be_bytes(*field), before, after).to_be_bytes();
        }
        if let Some((field, address)) = self.outer {
            field.write(into, view, (bits(address), field.all()), packet.upper).ok()?;
        }
        Some(end)
    }
}
