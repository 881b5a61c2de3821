//! Paths over source routes whose ports are the remainders of one number, with the path's identifier behind
//! it. Where on its path a packet is follows from the port by which it comes out.
//!
//! The addresses of the frame stand before the header, as with `native`, and what is written hangs on nothing
//! that a node changes but the hop limit.

use super::addresses::{on_links, restore};
use super::{Headed, Header, HeaderSide, OnRoute, PathEncap};
use catena_model::explain::HeaderLayer;
use catena_model::limits::RESIDUE_ROUTE_PORTS_MAX;
use catena_model::program::RouteEntry;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet::{self, ADDRESSES_BYTES, HEADER_BYTES};
use catena_wire::scalar::Spi;
use catena_wire::source_route::polka::residues::{IDENTIFIER_BYTES_MAX, identify};
use catena_wire::source_route::polka::{BYTES_WITHOUT_NUMBER, Degree, PolkaHeader, PolkaView};

const DEGREE: Degree = Degree::Sixteen;
const _: () = assert!(
    DEGREE.octets(RESIDUE_ROUTE_PORTS_MAX - 1) <= IDENTIFIER_BYTES_MAX
        && BYTES_WITHOUT_NUMBER + IDENTIFIER_BYTES_MAX <= super::HEADER_BYTES_MAX,
    "a route fits no header"
);

pub(super) struct Polka;

impl PathEncap for Polka {
    fn on_route(&self, frame: &[u8]) -> Result<OnRoute, DropReason> {
        let view = PolkaView::parse(frame).map_err(|_| DropReason::MalformedSourceRoute)?;
        // No edge lets a frame pass more nodes than lead to one function.
        let path = view.path().filter(|_| view.hops() == 0);
        Ok(OnRoute {
            encapsulation: Encapsulation::SourceRoutePolka,
            path: PathId(path.ok_or(DropReason::MalformedSourceRoute)?.get()),
            header_bytes: view.len_bytes() - HEADER_BYTES,
            left: view.hops(),
        })
    }

    /// The addresses of the frame stand before the header, and move up to what is behind it.
    fn pop(&self, side: HeaderSide, frames: &mut dyn Iterator<Item = Headed<'_>>) {
        restore(side, frames);
    }

    fn header_bytes(&self, _side: HeaderSide, bytes: &[u8]) -> Option<usize> {
        Some(PolkaView::parse(bytes).ok()?.len_bytes() - HEADER_BYTES)
    }

    fn describe(&self, _side: HeaderSide, bytes: &[u8]) -> Option<(Vec<HeaderLayer>, usize)> {
        let view = PolkaView::parse(bytes).ok()?;
        let layer = HeaderLayer::ResidueRoute {
            profile: Encapsulation::SourceRoutePolka.name().to_owned(),
            number: view.number().iter().map(|octet| format!("{octet:02x}")).collect(),
            pass: view.pass(),
            left: view.hops(),
            path: view.path().map(Spi::get),
        };
        Some((vec![layer], view.len_bytes()))
    }
}

/// The number of a route; none: a node on it has no identity, or no number is that long.
pub(super) fn number(route: &RouteEntry) -> Option<Box<[u8]>> {
    let ports = route.ports.get(1..)?;
    if ports.len() != route.identities.len() || route.ports.len() > RESIDUE_ROUTE_PORTS_MAX {
        return None;
    }
    let pairs = route.identities.iter().zip(ports);
    let residue = pairs.map(|(identity, port)| Some((identity.polynomial()?, port.get().into())));
    let residues: Vec<_> = residue.collect::<Option<_>>()?;
    let mut number = vec![0; DEGREE.octets(residues.len())];
    identify(&residues, &mut number).ok()?;
    Some(number.into())
}

/// What stands in the place of the Ethernet header of a frame on this path and the way with this number, whose
/// first port is taken without it.
///
/// # Errors
/// The frame has no Ethernet header, or no header holds the number or the identifier.
pub(super) fn write(number: &[u8], frame: &[u8], path: PathId) -> Result<Header, DropReason> {
    let ethernet = frame.get(..ADDRESSES_BYTES).zip(ethernet::outer_type(frame));
    let (addresses, ether_type) = ethernet.ok_or(DropReason::MalformedEthernet)?;
    let path = Some(Spi::new(path.0).map_err(|_| DropReason::NoPath)?);
    let hops = u8::try_from(number.len() / DEGREE.octets(1)).map_err(|_| DropReason::RouteUnfit)?;
    let made = PolkaHeader { degree: DEGREE, pass: 0, hops, number, path, ether_type };
    let mut header = Header { replaces: HEADER_BYTES, ..Header::EMPTY };
    header.bytes[..ADDRESSES_BYTES].copy_from_slice(&on_links(addresses));
    header.add(|room| made.emit(room)).map_err(|_| DropReason::RouteUnfit)?;
    Ok(header)
}
