//! Paths over source routes of labels: one for each port of the way to the next functions, and a last one that is the
//! path's identifier. Where on its path a packet is follows from the port by which it comes out.
//!
//! The frame stands whole behind its header, as it does in a tunnel, and a copy of its addresses in front.

use super::addresses::on_links;
use super::{Header, HeaderSide, OnRoute, PathEncap, rest};
use catena_model::explain::HeaderLayer;
use catena_model::limits::LABELLED_ROUTE_PORTS_MAX;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet::ADDRESSES_BYTES;
use catena_wire::scalar::{EtherType, MplsLabel};
use catena_wire::source_route::SourceRouteError;
use catena_wire::source_route::sr_mpls::{self, PORT_BYTES, SrMplsHeader, SrMplsView};

const _: () = assert!(
    sr_mpls::BYTES_WITHOUT_PORTS + PORT_BYTES * LABELLED_ROUTE_PORTS_MAX <= super::HEADER_BYTES_MAX,
    "a route fits no header"
);

pub(super) struct SrMpls;

impl PathEncap for SrMpls {
    fn on_route(&self, frame: &[u8]) -> Result<OnRoute, DropReason> {
        let view = SrMplsView::parse(frame).map_err(|_| DropReason::MalformedSourceRoute)?;
        Ok(OnRoute {
            encapsulation: Encapsulation::SourceRouteSrMpls,
            path: PathId(view.path().get()),
            header_bytes: view.len_bytes(),
            left: view.counter(),
        })
    }

    /// The labels.
    fn rest<'r>(&self, frame: &[u8], into: &'r mut Header) -> Option<&'r [u8]> {
        let view = SrMplsView::parse(frame).ok().filter(|view| view.counter() > 0)?;
        into.copy(frame.get(ADDRESSES_BYTES..view.len_bytes())?);
        Some(into.bytes())
    }

    fn with_rest(
        &self,
        rest: &[u8],
        addresses: &[u8; ADDRESSES_BYTES],
        _ether_type: EtherType,
    ) -> Option<Header> {
        Header::of_parts(0, &[addresses, rest])
    }

    fn header_bytes(&self, _side: HeaderSide, bytes: &[u8]) -> Option<usize> {
        Some(SrMplsView::parse(bytes).ok()?.len_bytes())
    }

    fn describe(&self, _side: HeaderSide, bytes: &[u8]) -> Option<(Vec<HeaderLayer>, usize)> {
        let view = SrMplsView::parse(bytes).ok()?;
        let layer = HeaderLayer::SourceRoute {
            profile: Encapsulation::SourceRouteSrMpls.name().to_owned(),
            ports: view.way().collect(),
            left: view.counter(),
            path: Some(view.path().get()),
        };
        Some((vec![layer], view.len_bytes()))
    }
}

/// What stands in front of a frame on this path, the first of these ports taken.
///
/// # Errors
/// The frame has no addresses, or no header holds the ports or the identifier.
pub(super) fn write(ports: &[u8], frame: &[u8], path: PathId) -> Result<Header, DropReason> {
    let addresses = frame.get(..ADDRESSES_BYTES).ok_or(DropReason::MalformedEthernet)?;
    if ports.len() > LABELLED_ROUTE_PORTS_MAX {
        return Err(DropReason::RouteUnfit);
    }
    let label = MplsLabel::ordinary(path.0).map_err(|_| DropReason::NoPath)?;
    let made = SrMplsHeader::new(ports, label).map_err(|error| match error {
        SourceRouteError::Label(_) => DropReason::NoPath,
        _ => DropReason::RouteUnfit,
    })?;
    let mut whole = Header::EMPTY;
    whole.bytes[..ADDRESSES_BYTES].copy_from_slice(&on_links(addresses));
    whole.add(|room| made.emit(room)).map_err(|_| DropReason::MalformedSourceRoute)?;
    Ok(rest::step(whole, &[]).ok_or(DropReason::MalformedSourceRoute)?.0)
}
