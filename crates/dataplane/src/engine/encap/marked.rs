//! Paths over source routes in fields of ordinary Ethernet: the ports of the way to the next functions, and a mark
//! behind them that is the path's identifier. Where on its path a packet is follows from the port by which it
//! comes out.
//!
//! Destination address and EtherType make room for the header. Neither the tables nor any function see that: what comes
//! out is addressed to the port that it comes out by, as every function gets its packets, and a path delivers by
//! the address of the packet. What is no plain IP packet is not sent.

use super::addresses::{off_links, on_links};
use super::{Headed, Header, HeaderSide, OnRoute, PathEncap, rest};
use crate::engine::packet::trim_front;
use catena_io::Buffer;
use catena_model::explain::HeaderLayer;
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet::{self, ADDRESSES_BYTES, HEADER_BYTES};
use catena_wire::scalar::EtherType;
use catena_wire::source_route::marked::{self, ADDED_BYTES, MarkedHeader};
use catena_wire::source_route::{self, Profile, SourceRouteError};

const _: () = assert!(marked::LEN <= super::HEADER_BYTES_MAX, "a route fits no header");

const MAC_BYTES: usize = 6;

/// By the profile of its headers.
pub(super) struct MarkedRoute(pub(super) Profile);

impl PathEncap for MarkedRoute {
    fn on_route(&self, frame: &[u8]) -> Result<OnRoute, DropReason> {
        let malformed = DropReason::MalformedSourceRoute;
        let header = MarkedHeader::parse(frame).map_err(|_| malformed)?;
        Ok(OnRoute {
            encapsulation: Encapsulation::of_profile(self.0).ok_or(malformed)?,
            path: PathId(header.mark().into()),
            header_bytes: ADDED_BYTES,
            left: header.counter(),
        })
    }

    /// All but the source of the frame: the destination holds ports.
    fn rest<'r>(&self, frame: &[u8], into: &'r mut Header) -> Option<&'r [u8]> {
        MarkedHeader::parse(frame).ok().filter(|header| header.counter() > 0)?;
        let (ports, behind) = (frame.get(..MAC_BYTES)?, frame.get(ADDRESSES_BYTES..marked::LEN)?);
        *into = Header::of_parts(0, &[ports, behind])?;
        Some(into.bytes())
    }

    fn with_rest(
        &self,
        rest: &[u8],
        addresses: &[u8; ADDRESSES_BYTES],
        _ether_type: EtherType,
    ) -> Option<Header> {
        let (ports, behind) = rest.split_at_checked(MAC_BYTES)?;
        Header::of_parts(HEADER_BYTES, &[ports, &addresses[MAC_BYTES..], behind])
    }

    /// The frame is addressed to nobody in the tenant's network until the port is known that it comes out by.
    fn pop(&self, _side: HeaderSide, frames: &mut dyn Iterator<Item = Headed<'_>>) {
        for frame in frames {
            if frame.located.is_ok()
                && let Err(reason) = restore(frame.buffer)
            {
                *frame.located = Err(reason);
            }
        }
    }

    /// Nothing in such a frame reads as another: its packet does, without addresses.
    fn header_bytes(&self, _side: HeaderSide, _bytes: &[u8]) -> Option<usize> {
        None
    }

    fn describe(&self, _side: HeaderSide, bytes: &[u8]) -> Option<(Vec<HeaderLayer>, usize)> {
        let header = MarkedHeader::parse(bytes).ok()?;
        let layer = HeaderLayer::SourceRoute {
            profile: Encapsulation::of_profile(self.0)?.name().to_owned(),
            ports: header.way().collect(),
            left: header.counter(),
            path: Some(header.mark().into()),
        };
        Some((vec![layer], marked::LEN))
    }
}

/// Where the packet begins under a header.
pub(super) fn packet_offset(frame: &[u8]) -> Option<usize> {
    MarkedHeader::parse(frame).is_ok().then_some(marked::LEN)
}

/// Makes the frame whole that is under a header.
fn restore(buffer: &mut Buffer) -> Result<(), DropReason> {
    let restored = marked::restore(buffer.bytes_mut(), PROXY_MAC);
    restored.map_err(|error| match error {
        SourceRouteError::NotIp => DropReason::NotPlainIp,
        _ => DropReason::MalformedSourceRoute,
    })?;
    if !trim_front(buffer, ADDED_BYTES) {
        return Err(DropReason::MalformedSourceRoute);
    }
    off_links(buffer.bytes_mut());
    Ok(())
}

/// What stands in the place of the Ethernet header of a frame on this path, the first of these ports taken.
///
/// # Errors
/// The frame is no plain IP packet, or no header holds the ports or the identifier.
pub(super) fn write(
    profile: Profile,
    ports: &[u8],
    frame: &[u8],
    path: PathId,
) -> Result<Header, DropReason> {
    let ethernet = frame.get(..ADDRESSES_BYTES).zip(ethernet::outer_type(frame));
    let (addresses, ether_type) = ethernet.ok_or(DropReason::MalformedEthernet)?;
    let packet = frame.get(HEADER_BYTES..).unwrap_or_default();
    if source_route::ip_ether_type(packet) != Ok(ether_type) {
        return Err(DropReason::NotPlainIp);
    }
    let mark = u16::try_from(path.0).map_err(|_| DropReason::NoPath)?;
    let made = MarkedHeader::new(profile, ports, mark).map_err(|_| DropReason::RouteUnfit)?;
    let mut header = Header { replaces: HEADER_BYTES, ..Header::EMPTY };
    header.bytes[..ADDRESSES_BYTES].copy_from_slice(&on_links(addresses));
    header.add(|room| made.emit(room)).map_err(|_| DropReason::MalformedSourceRoute)?;
    Ok(rest::step(header, &[]).ok_or(DropReason::MalformedSourceRoute)?.0)
}
