//! What is left of a header that leads over several functions, while one of them has the packet: kept as what packets
//! carry is, and written again as it was left. Knows bytes; refuses to know where ports lead.
//!
//! It is used with the tables under which it came, and only where it leads along this node's own way to the next
//! function; else the node writes a header of its own.

use super::addresses::on_links;
use super::{Carried, Header, PathEncap, PathPosition, Positions, RouteHeader, of};
use catena_model::limits::{NSH_CONTEXT_BYTES_MAX, ROUTE_JOINED_BYTES_MAX};
use catena_model::topology::PortNumber;
use catena_wire::ethernet::{self, ADDRESSES_BYTES, HEADER_BYTES};
use catena_wire::scalar::EtherType;
use catena_wire::source_route::polka::residues::Reducer;
use catena_wire::source_route::{self, Next, sr_mpls};

const _: () = assert!(
    ROUTE_JOINED_BYTES_MAX <= NSH_CONTEXT_BYTES_MAX,
    "what is left of a header is kept as metadata are"
);

/// The position with what is left of its header; where nothing is, or there is no room, its node writes the next.
pub(super) fn kept(
    carrier: &(impl PathEncap + ?Sized),
    position: PathPosition,
    frame: &[u8],
    positions: &Positions,
    carried: &mut Carried,
) -> PathPosition {
    let mut read = Header::EMPTY;
    let rest = carrier.rest(frame, &mut read);
    let name = rest.and_then(|rest| carried.keep_beside(rest, positions.id(position)));
    PathPosition { carried: name, ..position }
}

/// A header whose first port is taken, and that port; none: it cannot be. `own`: what its node divides by.
pub(super) fn step(mut header: Header, own: &[Reducer]) -> Option<(Header, u8)> {
    match source_route::advance(header.bytes_mut(), own).ok()? {
        Next::Port(port) => Some((header, port)),
        Next::Pop(port) => Some((header.with(header.bytes().get(sr_mpls::PORT_BYTES..)?), port)),
        Next::End => None,
    }
}

/// What stands in front of a frame that goes on along the header that it came with, and the port that it leaves by;
/// none: nothing is left of that, it does not hold such a frame, or it does not lead along this node's own way to the
/// next function. So each node answers for its own part: the rest may be older than what this one knows.
pub(crate) fn go_on(
    (positions, carried, reducers): (&Positions, &Carried, &[Reducer]),
    position: PathPosition,
    frame: &[u8],
    own: &RouteHeader,
) -> Option<(Header, PortNumber)> {
    let encapsulation = positions.encapsulation(position);
    let rest = carried.get(position.carried?)?;
    let addresses = on_links(frame.get(..ADDRESSES_BYTES)?);
    let ether_type = ethernet::outer_type(frame)?;
    let is_packet = || {
        let packet = frame.get(HEADER_BYTES..).unwrap_or_default();
        source_route::ip_ether_type(packet) == Ok(ether_type)
    };
    if !encapsulation.capabilities().keeps_frame && !is_packet() {
        return None;
    }
    let carrier = of(encapsulation);
    let whole = carrier.with_rest(rest, &addresses, ether_type)?;
    let (mut header, port) = step(whole, reducers)?;
    let is_own = own.ports().first() == Some(&port);
    let longest = carrier.leads_along(header, own).filter(|_| is_own)?;
    header.later = longest.saturating_sub(header.added_bytes());
    header.mtu = own.mtu();
    Some((header, PortNumber::new(port)?))
}

/// The position of a packet that a port of this node gets by its header, if that names the port next; else its node
/// writes the next header.
pub(crate) fn taken(
    (positions, reducers): (&Positions, &[Reducer]),
    carried: &mut Carried,
    position: PathPosition,
    port: Option<PortNumber>,
) -> PathPosition {
    let Some(name) = position.carried else { return position };
    let carrier = of(positions.encapsulation(position));
    let nobody = [0; ADDRESSES_BYTES];
    let whole =
        carried.get(name).and_then(|rest| carrier.with_rest(rest, &nobody, EtherType::IPV4));
    let next = whole
        .and_then(|whole| step(whole, reducers))
        .filter(|(_, next)| PortNumber::new(*next) == port);
    match next {
        Some((header, _)) => kept(carrier, position, header.bytes(), positions, carried),
        None => position.without_metadata(),
    }
}
