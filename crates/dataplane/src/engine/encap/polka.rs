//! Paths over source routes whose ports are the remainders of one number, with the path's identifier behind
//! it. Where on its path a packet is follows from the port by which it comes out.
//!
//! The addresses of the frame stand before the header, as with `native`, and what is written hangs on nothing
//! that a node changes but the hop limit, and the pass: the node of a function begins the next one with what is left.

use super::addresses::{on_links, restore};
use super::{Headed, Header, HeaderSide, OnRoute, PathEncap, RouteHeader};
use catena_model::explain::HeaderLayer;
use catena_model::limits::{NODE_ROUTE_IDENTITIES, RESIDUE_ROUTE_PORTS_MAX};
use catena_model::program::RouteEntry;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet::{self, ADDRESSES_BYTES, HEADER_BYTES};
use catena_wire::scalar::{EtherType, Spi};
use catena_wire::source_route::polka::residues::{IDENTIFIER_BYTES_MAX, Irreducible, identify};
use catena_wire::source_route::polka::{
    self, BYTES_WITHOUT_NUMBER, Degree, PolkaHeader, PolkaView,
};

const DEGREE: Degree = Degree::Sixteen;
const ETHER_TYPE_BYTES: usize = HEADER_BYTES - ADDRESSES_BYTES;
const _: () = assert!(
    DEGREE.octets(RESIDUE_ROUTE_PORTS_MAX - 1) <= IDENTIFIER_BYTES_MAX
        && BYTES_WITHOUT_NUMBER + IDENTIFIER_BYTES_MAX <= super::HEADER_BYTES_MAX,
    "a route fits no header"
);

pub(super) struct Polka;

impl PathEncap for Polka {
    fn on_route(&self, frame: &[u8]) -> Result<OnRoute, DropReason> {
        let view = PolkaView::parse(frame).map_err(|_| DropReason::MalformedSourceRoute)?;
        Ok(OnRoute {
            encapsulation: Encapsulation::SourceRoutePolka,
            path: PathId(view.path().ok_or(DropReason::MalformedSourceRoute)?.get()),
            header_bytes: view.len_bytes() - HEADER_BYTES,
            left: view.hops(),
        })
    }

    /// All but the addresses and the EtherType of the frame, in the next pass.
    fn rest<'r>(&self, frame: &[u8], into: &'r mut Header) -> Option<&'r [u8]> {
        let view = PolkaView::parse(frame).ok().filter(|view| view.hops() > 0)?;
        if usize::from(view.pass()) + 1 >= NODE_ROUTE_IDENTITIES {
            return None;
        }
        let end = view.len_bytes() - ETHER_TYPE_BYTES;
        into.copy(frame.get(..end)?);
        polka::begin_pass(into.bytes_mut()).ok()?;
        into.bytes().get(ADDRESSES_BYTES..)
    }

    fn with_rest(
        &self,
        rest: &[u8],
        addresses: &[u8; ADDRESSES_BYTES],
        ether_type: EtherType,
    ) -> Option<Header> {
        Header::of_parts(HEADER_BYTES, &[addresses, rest, &ether_type.0.to_be_bytes()])
    }

    /// Each node of the way is asked for what it will read: what is left does not say it.
    fn leads_along(&self, header: Header, own: &RouteHeader) -> Option<usize> {
        let view = PolkaView::parse(header.bytes()).ok()?;
        let behind = own.ports().get(1..).unwrap_or_default();
        let read = own.later().iter().map(|by| by.residue(view.number()));
        let is_own = usize::from(view.hops()) == behind.len()
            && own.later().len() == behind.len()
            && read.eq(behind.iter().copied().map(u16::from));
        is_own.then_some(0)
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

/// What the nodes behind the first of a route divide by in the second pass; empty: one of them has nothing.
pub(super) fn later(route: &RouteEntry) -> Box<[Irreducible]> {
    let later = route.later_identities.iter().map(|identity| identity.polynomial());
    later.collect::<Option<_>>().unwrap_or_default()
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
