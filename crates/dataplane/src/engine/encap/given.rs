//! What a function that reads source routes is given, and what counts of what it gives back. Knows bytes; refuses to
//! know who may send them, and where ports lead.
//!
//! It is given what is left of the header, or one without ports where no header leads on. Nothing that it writes is
//! gone by: what it gives back says whose packet it is, and the port that it comes by says where on the path. It goes
//! on under what is left of a header if that is, byte for byte, what a link has brought under these tables, and only
//! as [`rest`](super::rest) allows that; else its node writes the next header.

use super::{Carried, Header, Located, PathPosition, Positions, TTL_INITIAL, of};
use catena_io::Buffer;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet::{self, ADDRESSES_BYTES, HEADER_BYTES};
use catena_wire::scalar::Spi;
use catena_wire::source_route::native::{self, BYTES_BETWEEN_WITHOUT_PORTS, NativeView};

/// The bytes between the addresses and the EtherType of a frame at a position, on its way into such a function.
fn given<'g>(
    (positions, carried): (&Positions, &'g Carried),
    position: PathPosition,
    room: &'g mut [u8; BYTES_BETWEEN_WITHOUT_PORTS],
) -> Result<&'g [u8], DropReason> {
    if let Some(rest) = position.carried.and_then(|name| carried.get(name)) {
        return Ok(rest);
    }
    let path = Spi::new(positions.id(position).0).map_err(|_| DropReason::NoPath)?;
    *room = native::without_ports(path);
    Ok(room)
}

/// By how many bytes a frame at a position is longer in such a function; none: its path has no such header.
#[inline]
pub(crate) fn given_bytes(store: (&Positions, &Carried), position: PathPosition) -> Option<usize> {
    let mut room = [0; BYTES_BETWEEN_WITHOUT_PORTS];
    given(store, position, &mut room).ok().map(<[u8]>::len)
}

/// The header in the place of that of a frame with these bytes, whose addresses are the function's already.
///
/// # Errors
/// The frame has no Ethernet header, or its path no header without ports.
pub(crate) fn give(
    (positions, carried): (&Positions, &Carried),
    position: PathPosition,
    frame: &[u8],
) -> Result<Header, DropReason> {
    let mut room = [0; BYTES_BETWEEN_WITHOUT_PORTS];
    let given = given((positions, carried), position, &mut room)?;
    let ethernet = frame.first_chunk().zip(ethernet::outer_type(frame));
    let (addresses, ether_type) = ethernet.ok_or(DropReason::MalformedEthernet)?;
    let header = of(positions.encapsulation(position)).with_rest(given, addresses, ether_type);
    header.ok_or(DropReason::MalformedSourceRoute)
}

/// Writes the same into a frame; false, and the frame is as it was: it has no room, or its path no such header.
#[inline]
pub(crate) fn give_in_place(
    store: (&Positions, &Carried),
    position: PathPosition,
    buffer: &mut Buffer,
) -> bool {
    let mut room = [0; BYTES_BETWEEN_WITHOUT_PORTS];
    let Ok(given) = given(store, position, &mut room) else { return false };
    let bytes = given.len();
    if buffer.len() < HEADER_BYTES || buffer.prepend(bytes).is_none() {
        return false;
    }
    let frame = buffer.bytes_mut();
    frame.copy_within(bytes..bytes + ADDRESSES_BYTES, 0);
    frame[ADDRESSES_BYTES..ADDRESSES_BYTES + bytes].copy_from_slice(given);
    true
}

/// The start of the path of a frame that such a function gives back, with what is left of its header if that is what a
/// link has brought.
///
/// # Errors
/// The header is malformed, or says what none says that a function is given; there is no such path.
pub(crate) fn taken_back(
    positions: &Positions,
    frame: &[u8],
    carried: &Carried,
) -> Result<Located, DropReason> {
    let malformed = DropReason::MalformedSourceRoute;
    let view = NativeView::parse_at_function(frame).map_err(|_| malformed)?;
    let path = PathId(view.path().ok_or(malformed)?.get());
    let find = |encapsulation| positions.find(path, encapsulation, 0, TTL_INITIAL);
    let tagged = || find(Encapsulation::SourceRouteNativeTagged);
    let position = find(Encapsulation::SourceRouteNative).or_else(|_| tagged())?;
    let is_whole = view.counter() > 0;
    let has_detours = view.detours().next().is_some();
    // Nothing is sealed that leads nowhere, and nothing without a tag on its path; ways round are only those of ports.
    let may_have_tag = is_whole && positions.encapsulation(position).is_tagged();
    if (view.has_tag() && !may_have_tag) || (has_detours && !is_whole) {
        return Err(malformed);
    }
    let rest = frame.get(ADDRESSES_BYTES..view.len_bytes() - (HEADER_BYTES - ADDRESSES_BYTES));
    let known = rest.filter(|_| is_whole).and_then(|rest| carried.brought(rest, path));
    let position = PathPosition { carried: known, ..position };
    Ok(Located { position, header_bytes: view.len_bytes() - HEADER_BYTES })
}
