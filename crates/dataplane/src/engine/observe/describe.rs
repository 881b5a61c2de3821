//! Headers for people. Knows which encapsulation reads which bytes; refuses to read them itself.

use crate::engine::encap;
use crate::engine::encap::{Carried, Header as ChainHeader, HeaderSide, PathPosition};
use crate::engine::packet::Origin;
use crate::engine::tables::Tables;
use catena_model::TunnelKind;
use catena_model::explain::{FrameBytes, Header, HeaderLayer, Position};
use catena_wire::ethernet::EthernetView;
use catena_wire::frame::FrameView;
use catena_wire::vxlan::VxlanHeader;

/// The header at the start of what a tunnel carries.
pub(crate) fn tunnelled(kind: TunnelKind, bytes: &[u8]) -> Option<Header> {
    let (layers, length) = match kind {
        TunnelKind::Path(encapsulation) => {
            encap::of(encap::carrier(encapsulation, bytes)).describe(HeaderSide::Tunnel, bytes)?
        }
        TunnelKind::Vxlan => {
            let (header, inner) = VxlanHeader::parse(bytes).ok()?;
            let layer = HeaderLayer::Vxlan { vni: header.vni.get() };
            (vec![layer], bytes.len() - inner.len())
        }
    };
    Some(Header { layers, bytes: FrameBytes(bytes.get(..length)?.to_vec()) })
}

/// The header of a frame on a link, its addresses included.
pub(crate) fn on_link(frame: &[u8]) -> Option<Header> {
    let carrier = encap::of(encap::on_link(frame)?);
    let (layers, length) = carrier.describe(HeaderSide::Tunnel, frame)?;
    Some(Header { layers, bytes: FrameBytes(frame.get(..length)?.to_vec()) })
}

/// The packet itself, and what it shows: behind the headers of a tunnel, or those that a function reads. On a source
/// route its own addresses stand before them: others do where it begins.
pub(crate) fn inner(origin: Origin, bytes: &[u8]) -> Option<(&[u8], FrameView)> {
    if matches!(origin, Origin::Port(_)) && encap::is_on_route(bytes) {
        return encap::under_route(bytes);
    }
    if let Origin::Tunnel { kind: TunnelKind::Path(encapsulation), .. } = origin {
        return encap::under_tunnel(encapsulation, bytes);
    }
    let inner = bytes.get(inner_offset(origin, bytes)?..)?;
    Some((inner, FrameView::parse(inner).ok()?))
}

fn inner_offset(origin: Origin, bytes: &[u8]) -> Option<usize> {
    match origin {
        Origin::Tunnel { kind, .. } => Some(tunnelled(kind, bytes)?.bytes.0.len()),
        Origin::Port(_) => {
            let frame = EthernetView::parse(bytes).ok()?;
            let Some(encapsulation) = encap::by_ether_type(frame.ethertype()) else {
                return Some(0);
            };
            encap::inner_offset(encapsulation, bytes, frame.header_len())
        }
    }
}

/// The header of a frame for a function that reads it, Ethernet included.
pub(crate) fn over_ethernet(bytes: &[u8]) -> Option<Header> {
    let frame = EthernetView::parse(bytes).ok()?;
    let encapsulation = encap::by_ether_type(frame.ethertype())?;
    let headed = if encapsulation.is_source_route() { bytes } else { frame.payload() };
    let (inner, _) = encap::of(encapsulation).describe(HeaderSide::Function, headed)?;
    let outer =
        HeaderLayer::Ethernet { destination: frame.destination(), ether_type: frame.ethertype().0 };
    let layers = std::iter::once(outer).chain(inner).collect();
    Some(Header { layers, bytes: FrameBytes(bytes.to_vec()) })
}

/// The service index that the headers of a position say.
pub(crate) fn index(tables: &Tables, position: PathPosition) -> Option<u8> {
    let carrier = encap::of(tables.positions.encapsulation(position));
    let header = header_of(tables, &Carried::new(0, 0, 0), position.without_metadata())?;
    let (layers, _) = carrier.describe(HeaderSide::Function, header.bytes())?;
    layers.iter().find_map(|layer| match layer {
        HeaderLayer::Nsh { si, .. } => Some(*si),
        HeaderLayer::Mpls { index, .. } => Some(*index),
        _ => None,
    })
}

/// A position as its headers write it.
pub(crate) fn position(tables: &Tables, position: PathPosition) -> Position {
    let path = tables.positions.id(position);
    Position { path, index: index(tables, position).unwrap_or_default() }
}

/// The header of a position as a function sees it.
pub(crate) fn header_of(
    tables: &Tables,
    carried: &Carried,
    position: PathPosition,
) -> Option<ChainHeader> {
    let carrier = encap::of(tables.positions.encapsulation(position));
    let mut header = ChainHeader::EMPTY;
    let side = HeaderSide::Function;
    carrier.push(&tables.positions, carried, side, position, &mut header).ok().map(|()| header)
}
