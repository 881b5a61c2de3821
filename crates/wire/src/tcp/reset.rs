//! The reset by which a segment is refused (RFC 9293 section 3.10.7.1), as if its destination sent it.
//!
//! Knows which numbers a reset carries. Refuses to know why the segment is refused.

use core::net::IpAddr;

use super::{HEADER_BYTES, TcpFlags, TcpHeader, TcpView, refresh_checksum};
use crate::ethernet;
use crate::frame::{Fragment, FrameView};
use crate::ipv4::Ipv4Header;
use crate::ipv6::{self, Ipv6Header};
use crate::scalar::{FlowLabel, FragmentOffset, IpProtocol, MacAddr};

/// Longest frame that [`emit`] writes, in bytes.
pub const FRAME_BYTES_MAX: usize = ethernet::HEADER_BYTES
    + ethernet::TAGS_MAX * ethernet::TAG_BYTES
    + ipv6::HEADER_BYTES
    + HEADER_BYTES;
const HOP_LIMIT: u8 = 64;

/// Writes the frame that resets the connection of a segment, from one MAC to another and with the tags
/// of the segment's frame; answers its length.
///
/// None: the frame holds no whole segment of TCP, or a reset, which nobody answers; or `into` has less
/// than [`FRAME_BYTES_MAX`] bytes.
#[must_use]
pub fn emit(frame: &[u8], (from, to): (MacAddr, MacAddr), into: &mut [u8]) -> Option<usize> {
    let view = FrameView::parse(frame).ok()?;
    let flow = view.flow.filter(|flow| flow.protocol == IpProtocol::TCP)?;
    if view.fragment != Fragment::Whole {
        return None;
    }
    let (l3, l4) = (usize::from(view.l3_offset), usize::from(view.l4_offset?));
    let refused = TcpView::parse(frame.get(l4..view.end as usize)?).ok()?;
    if refused.flags().has_any(TcpFlags::RST) {
        return None;
    }
    let link = into.get_mut(..l3)?;
    link.copy_from_slice(frame.get(..l3)?);
    link.get_mut(..6)?.copy_from_slice(&to.0);
    link.get_mut(6..12)?.copy_from_slice(&from.0);
    let packet = into.get_mut(l3..)?;
    let (source, destination) = (flow.destination, flow.source);
    let start = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = Ipv4Header {
                traffic_class: 0,
                payload_bytes: HEADER_BYTES,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: FragmentOffset::new(0).ok()?,
                ttl: HOP_LIMIT,
                protocol: IpProtocol::TCP,
                source,
                destination,
            };
            header.emit(packet).ok()?
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6Header {
                traffic_class: 0,
                flow_label: FlowLabel::new(0).ok()?,
                payload_length: HEADER_BYTES as u16,
                next_header: IpProtocol::TCP,
                hop_limit: HOP_LIMIT,
                source,
                destination,
            };
            header.emit(packet).ok()?
        }
        _ => return None,
    };
    let segment = packet.get_mut(start..start + HEADER_BYTES)?;
    numbers(&refused, (flow.destination_port, flow.source_port)).emit(segment).ok()?;
    refresh_checksum(segment, source, destination).ok()?;
    Some(l3 + start + HEADER_BYTES)
}

/// The numbers that the refused segment's sender will accept.
fn numbers(refused: &TcpView<'_>, (source_port, destination_port): (u16, u16)) -> TcpHeader {
    let flags = refused.flags();
    let has_ack = flags.has_any(TcpFlags::ACK);
    let controls = TcpFlags::SYN.with(TcpFlags::FIN);
    // Of the sequence space, SYN and FIN take one number each.
    let taken =
        (flags.without(TcpFlags(!controls.0)).0.count_ones()) as usize + refused.payload().len();
    TcpHeader {
        source_port,
        destination_port,
        sequence: if has_ack { refused.acknowledgment() } else { 0 },
        acknowledgment: if has_ack { 0 } else { refused.sequence().wrapping_add(taken as u32) },
        flags: if has_ack { TcpFlags::RST } else { TcpFlags::RST.with(TcpFlags::ACK) },
        window: 0,
        urgent_pointer: 0,
    }
}
