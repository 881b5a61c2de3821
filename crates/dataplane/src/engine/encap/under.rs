//! What is under a header, for who only looks: the frame, or the packet alone where that is all that is carried.

use super::{HeaderSide, carrier, marked, of, on_link, srv6};
use catena_model::resource::Encapsulation;
use catena_wire::frame::FrameView;
use catena_wire::source_route as wire_route;

/// What reads as the frame under a source route, and what it shows. Where the addresses of the frame are not
/// kept, it is the packet alone. For who only looks.
pub(crate) fn under_route(bytes: &[u8]) -> Option<(&[u8], FrameView)> {
    let encapsulation = on_link(bytes)?;
    if encapsulation.capabilities().keeps_frame {
        let inner = bytes.get(of(encapsulation).header_bytes(HeaderSide::Tunnel, bytes)?..)?;
        return Some((inner, FrameView::parse(inner).ok()?));
    }
    let packet = bytes.get(marked::packet_offset(bytes)?..)?;
    let ether_type = wire_route::ip_ether_type(packet).ok()?;
    Some((packet, FrameView::parse_packet(packet, ether_type).ok()?))
}

/// What reads as the frame that a tunnel of this kind carries, and what it shows. Where the frame itself is not
/// carried, it is the packet alone. For who only looks.
pub(crate) fn under_tunnel(by: Encapsulation, bytes: &[u8]) -> Option<(&[u8], FrameView)> {
    let encapsulation = carrier(by, bytes);
    if let Some(before) = of(encapsulation).header_bytes(HeaderSide::Tunnel, bytes) {
        let inner = bytes.get(before..)?;
        return Some((inner, FrameView::parse(inner).ok()?));
    }
    let (packet, ether_type) = srv6::packet_under(bytes)?;
    Some((packet, FrameView::parse_packet(packet, ether_type).ok()?))
}
