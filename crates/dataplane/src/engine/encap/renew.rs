//! At an edge between, a header that is at its end gives place to the next one: of the same profile, for the same path.
//! Knows headers; refuses to know paths, and remembers nothing of what it has written.

use super::{Headed, HeaderSide, Located, OnRoute, PathPosition, RouteHeader, of, on_link};
use crate::engine::packet::grow_front;
use catena_io::Buffer;
use catena_model::DropReason;
use catena_model::program::{Pathlet, RouteEntry};
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use catena_wire::source_route::native::TagKey;

/// What an edge writes for one number, in each profile.
#[derive(Clone, Debug)]
pub(crate) struct NextHeader {
    first: PortNumber,
    headers: Box<[(Encapsulation, RouteHeader)]>,
}

impl NextHeader {
    /// That with this number. None: it has no port, or ends with no lower number than its own, so that there might be
    /// no end of headers.
    pub(crate) fn new(number: PortNumber, pathlet: &Pathlet) -> Option<Self> {
        pathlet.ports.last().filter(|last| **last < number)?;
        let route = RouteEntry {
            node: pathlet.node.clone(),
            to: pathlet.to,
            ports: pathlet.ports.clone(),
            detours: Vec::new(),
            identities: pathlet.identities.clone(),
            later_identities: Vec::new(),
            mtu: None,
        };
        let made = |one| Some((one, RouteHeader::new(one, &route)?));
        let headers = Encapsulation::ALL.into_iter().filter_map(made).collect();
        Some(Self { first: *pathlet.ports.first()?, headers })
    }

    /// The port by which frames leave under it.
    pub(crate) fn first(&self) -> PortNumber {
        self.first
    }

    /// Writes it in the place of the header of a frame, which is at its end.
    ///
    /// # Errors
    /// The header is not at its end, or cannot be read, has another tag than it must, or the next one has no room for
    /// what it must say.
    pub(crate) fn put(&self, buffer: &mut Buffer, tag_key: &TagKey) -> Result<(), DropReason> {
        let encapsulation = on_link(buffer.bytes()).ok_or(DropReason::NoSourceRoute)?;
        let OnRoute { path, header_bytes, left, .. } =
            of(encapsulation).on_route(buffer.bytes())?;
        of(encapsulation).check_tag(buffer.bytes(), tag_key)?;
        let mut headers = self.headers.iter().filter(|_| left == 0);
        let next = headers.find(|(one, _)| *one == encapsulation);
        let (_, next) = next.ok_or(DropReason::MalformedSourceRoute)?;
        let mut located = Ok(Located { position: PathPosition::default(), header_bytes });
        let headed = Headed { buffer, located: &mut located };
        of(encapsulation).pop(HeaderSide::Tunnel, &mut std::iter::once(headed));
        located?;
        let header = next.write(buffer.bytes(), path, tag_key)?;
        let bytes = header.bytes();
        let added = bytes.len().checked_sub(header.replaces());
        if !added.is_some_and(|added| grow_front(buffer, added)) {
            return Err(DropReason::RouteUnfit);
        }
        let place = buffer.bytes_mut().get_mut(..bytes.len());
        place.ok_or(DropReason::RouteUnfit)?.copy_from_slice(bytes);
        Ok(())
    }
}
