//! Paths over `native` source routes: the ports of the way to the next functions and the path's identifier stand in the
//! frame, behind its addresses. Where on its path a packet is follows from the port by which it comes out, so the
//! header says nothing of that.
//!
//! Headers are made of routes and not of positions ([`RouteHeader`]): `push` has none to give. What a function is
//! given that reads them, `given` knows.

use super::addresses::{on_links, restore};
use super::{
    Carried, Headed, Header, HeaderSide, Located, OnRoute, PathEncap, Positions, TTL_INITIAL,
    given, marked, polka, rest, sr_mpls,
};
use catena_model::explain::HeaderLayer;
use catena_model::limits::{ROUTE_DETOUR_BYTES_MAX, ROUTE_PORTS_MAX};
use catena_model::program::{DetourEntry, RouteEntry, StitchEntry};
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet::{self, ADDRESSES_BYTES, HEADER_BYTES};
use catena_wire::scalar::{EtherType, Spi};
use catena_wire::source_route::Profile;
use catena_wire::source_route::native::{
    BYTES_WITHOUT_PORTS, DETOUR_BYTES_WITHOUT_PORTS, Detour, NativeHeader, NativeView, PATH_BYTES,
    PortWidth, TAG_BYTES, TagKey,
};
use catena_wire::source_route::polka::residues::Irreducible;
use std::borrow::Cow;

const _: () = assert!(
    BYTES_WITHOUT_PORTS + TAG_BYTES + ROUTE_PORTS_MAX <= super::HEADER_BYTES_MAX,
    "a route fits no header"
);

const ETHER_TYPE_BYTES: usize = HEADER_BYTES - ADDRESSES_BYTES;

/// Detours of one header: each has a port at least.
const DETOURS_MAX: usize = ROUTE_DETOUR_BYTES_MAX / (DETOUR_BYTES_WITHOUT_PORTS + 1);

/// The two of them: with a tag, and without.
pub(super) struct SourceRoute {
    pub(super) is_tagged: bool,
}

impl SourceRoute {
    fn encapsulation(&self) -> Encapsulation {
        match self.is_tagged {
            true => Encapsulation::SourceRouteNativeTagged,
            false => Encapsulation::SourceRouteNative,
        }
    }
}

impl PathEncap for SourceRoute {
    fn on_route(&self, frame: &[u8]) -> Result<OnRoute, DropReason> {
        let view = NativeView::parse(frame).map_err(|_| DropReason::MalformedSourceRoute)?;
        Ok(OnRoute {
            encapsulation: self.encapsulation(),
            path: PathId(view.path().ok_or(DropReason::MalformedSourceRoute)?.get()),
            header_bytes: view.len_bytes() - HEADER_BYTES,
            left: view.counter(),
        })
    }

    fn check_tag(&self, frame: &[u8], tag_key: &TagKey) -> Result<(), DropReason> {
        if !self.is_tagged {
            return Ok(());
        }
        let view = NativeView::parse(frame).map_err(|_| DropReason::MalformedSourceRoute)?;
        view.check(tag_key).map_err(|_| DropReason::WrongRouteTag)
    }

    fn find(&self, positions: &Positions, frame: &[u8]) -> Result<Located, DropReason> {
        let OnRoute { path, header_bytes, .. } = self.on_route(frame)?;
        self.check_tag(frame, positions.tag_key())?;
        let find = |one: &Self| positions.find(path, one.encapsulation(), 0, TTL_INITIAL);
        let is_missing = || !self.is_tagged && find(&Self { is_tagged: true }).is_ok();
        let position = find(self)
            .map_err(|reason| if is_missing() { DropReason::WrongRouteTag } else { reason })?;
        Ok(Located { position, header_bytes })
    }

    fn locate(
        &self,
        positions: &Positions,
        carried: &mut Carried,
        side: HeaderSide,
        frames: &mut dyn Iterator<Item = Headed<'_>>,
    ) {
        for frame in frames {
            let bytes = frame.buffer.bytes();
            *frame.located = match side {
                HeaderSide::Tunnel => self.find_kept(positions, bytes, carried),
                HeaderSide::Function => given::taken_back(positions, bytes, carried),
            };
        }
    }

    /// All but the addresses and the EtherType of the frame.
    fn rest<'r>(&self, frame: &[u8], into: &'r mut Header) -> Option<&'r [u8]> {
        let view = NativeView::parse(frame).ok().filter(|view| view.counter() > 0)?;
        into.copy(frame.get(ADDRESSES_BYTES..view.len_bytes() - ETHER_TYPE_BYTES)?);
        Some(into.bytes())
    }

    fn with_rest(
        &self,
        rest: &[u8],
        addresses: &[u8; ADDRESSES_BYTES],
        ether_type: EtherType,
    ) -> Option<Header> {
        Header::of_parts(HEADER_BYTES, &[addresses, rest, &ether_type.0.to_be_bytes()])
    }

    /// The addresses of the frame stand before the header, and move up to what is behind it.
    fn pop(&self, side: HeaderSide, frames: &mut dyn Iterator<Item = Headed<'_>>) {
        restore(side, frames);
    }

    fn header_bytes(&self, _side: HeaderSide, bytes: &[u8]) -> Option<usize> {
        Some(NativeView::parse_at_function(bytes).ok()?.len_bytes() - HEADER_BYTES)
    }

    fn describe(&self, _side: HeaderSide, bytes: &[u8]) -> Option<(Vec<HeaderLayer>, usize)> {
        let view = NativeView::parse_at_function(bytes).ok()?;
        let layer = HeaderLayer::SourceRoute {
            profile: self.encapsulation().name().to_owned(),
            ports: (1..=view.count()).rev().map(|position| view.port(position)).collect(),
            left: view.counter(),
            path: view.path().map(Spi::get),
        };
        Some((vec![layer], view.len_bytes()))
    }
}

/// The way to a function, ready to be written into frames.
#[derive(Clone, Debug)]
pub(crate) struct RouteHeader {
    profile: Profile,
    is_tagged: bool,
    width: PortWidth,
    ports: Box<[u8]>,
    detours: Box<[OwnDetour]>,
    /// The number of the way, where frames carry that; empty: it has none.
    number: Box<[u8]>,
    /// What the nodes behind the first divide by what is left of such a number, in the second pass.
    later: Box<[Irreducible]>,
    /// The most bytes of a header of an edge that it ends at; 0: it leads to a function.
    longest: usize,
    /// Edges on the way at which a header that others wrote may end: after how many ports, and by which number.
    ends: Box<[(u8, u8)]>,
    /// The most bytes of a header of one of these.
    longest_behind: usize,
    /// The longest IP packet that the links on the way take; none: they are as the underlay.
    mtu: Option<u16>,
}

/// A way round a cable, by positions of a header.
#[derive(Clone, Debug)]
struct OwnDetour {
    counter: u8,
    rejoin: u8,
    ports: Box<[u8]>,
}

impl OwnDetour {
    /// Of a route with so many ports.
    fn of(entry: &DetourEntry, ports: usize) -> Option<Self> {
        let position = |place: u8| u8::try_from(ports.checked_sub(place.into())?).ok();
        let (counter, rejoin) = (position(entry.at)?, position(entry.rejoin)?);
        Some(Self { counter, rejoin, ports: numbers(&entry.ports) })
    }

    fn as_written(&self) -> Detour<'_> {
        Detour { counter: self.counter, rejoin: self.rejoin, ports: &self.ports }
    }
}

fn numbers(ports: &[PortNumber]) -> Box<[u8]> {
    ports.iter().map(|port| port.get()).collect()
}

/// The most bytes of a header that an edge writes.
fn longest_of_edges(encapsulation: Encapsulation) -> usize {
    let widest = PortNumber::new(u8::MAX);
    let ports: Vec<_> = widest.into_iter().cycle().take(encapsulation.route_ports_max()).collect();
    encapsulation.added_bytes(&ports, false)
}

impl RouteHeader {
    /// The ports of its way, in order.
    pub(super) fn ports(&self) -> &[u8] {
        &self.ports
    }

    pub(super) fn mtu(&self) -> Option<u16> {
        self.mtu
    }

    /// What the nodes behind its first divide by in the second pass.
    pub(super) fn later(&self) -> &[Irreducible] {
        &self.later
    }

    /// The same of a part of a route, up to an edge.
    pub(crate) fn of_part(encapsulation: Encapsulation, route: &RouteEntry) -> Option<Self> {
        Some(Self { longest: longest_of_edges(encapsulation), ..Self::new(encapsulation, route)? })
    }

    /// The same, and the edges on its way at which headers over several functions may end.
    #[must_use]
    pub(crate) fn with_stitches<'s>(
        self,
        encapsulation: Encapsulation,
        stitches: impl Iterator<Item = &'s StitchEntry>,
    ) -> Self {
        let ends: Box<[_]> = stitches.map(|stitch| (stitch.at, stitch.number.get())).collect();
        let longest_behind = if ends.is_empty() { 0 } else { longest_of_edges(encapsulation) };
        Self { ends, longest_behind, ..self }
    }

    /// The most bytes of the next header, if one that names this number after so many ports ends at an edge on this
    /// way; none: it does not.
    pub(super) fn behind_edge(&self, taken: usize, number: u8) -> Option<usize> {
        let ends = |(at, own): &(u8, u8)| (usize::from(*at), *own) == (taken, number);
        self.ends.iter().any(ends).then_some(self.longest_behind)
    }

    /// That of a route as it is headed: whole, or its part up to an edge.
    pub(crate) fn of_headed(
        encapsulation: Encapsulation,
        route: Cow<'_, RouteEntry>,
    ) -> Option<Self> {
        match route {
            Cow::Borrowed(whole) => Self::new(encapsulation, whole),
            Cow::Owned(part) => Self::of_part(encapsulation, &part),
        }
    }

    /// That of a route, with those of its detours that it has room for; none: this encapsulation has no routes.
    pub(crate) fn new(encapsulation: Encapsulation, route: &RouteEntry) -> Option<Self> {
        let profile = encapsulation.profile()?;
        let detoured = route.detours.iter().flat_map(|detour| &detour.ports);
        let widest = route.ports.iter().chain(detoured).map(|port| port.get()).max();
        let mut header = Self {
            profile,
            is_tagged: encapsulation.is_tagged(),
            width: PortWidth::for_port(widest.unwrap_or_default()),
            ports: numbers(&route.ports),
            detours: Box::default(),
            number: Box::default(),
            later: Box::default(),
            longest: 0,
            ends: Box::default(),
            longest_behind: 0,
            mtu: route.mtu,
        };
        if profile == Profile::Polka {
            header.number = polka::number(route).unwrap_or_default();
            header.later = polka::later(route);
        }
        let mut detours: Vec<OwnDetour> = Vec::new();
        // The other profiles have no room for any.
        let entries = route.detours.iter().filter(|_| profile == Profile::Native);
        for entry in entries {
            detours.extend(OwnDetour::of(entry, route.ports.len()));
            let written: Vec<Detour<'_>> = detours.iter().map(OwnDetour::as_written).collect();
            let len = header.native((None, None), EtherType(0), &written).len_bytes();
            if len + PATH_BYTES + TAG_BYTES > super::HEADER_BYTES_MAX || detours.len() > DETOURS_MAX
            {
                detours.pop();
            }
        }
        header.detours = detours.into();
        Some(header)
    }

    /// What stands in front of a frame on this path, or in the place of its Ethernet header, its first port taken.
    /// `tag_key`: by which it is sealed, if its paths ask for that.
    ///
    /// # Errors
    /// The frame has no Ethernet header, or no header holds the identifier, the ports or what the frame is.
    pub(crate) fn write(
        &self,
        frame: &[u8],
        path: PathId,
        tag_key: &TagKey,
    ) -> Result<Header, DropReason> {
        let mut header = match self.profile {
            Profile::Native => self.write_native(frame, path, tag_key),
            Profile::Safe9 | Profile::Classic80 => {
                marked::write(self.profile, &self.ports, frame, path)
            }
            Profile::SrMpls => sr_mpls::write(&self.ports, frame, path),
            Profile::Polka => polka::write(&self.number, frame, path),
        }?;
        header.later = self.longest.saturating_sub(header.added_bytes());
        header.mtu = self.mtu;
        Ok(header)
    }

    fn write_native(
        &self,
        frame: &[u8],
        path: PathId,
        tag_key: &TagKey,
    ) -> Result<Header, DropReason> {
        let ethernet = frame.get(..ADDRESSES_BYTES).zip(ethernet::outer_type(frame));
        let (addresses, ether_type) = ethernet.ok_or(DropReason::MalformedEthernet)?;
        let path = Spi::new(path.0).map_err(|_| DropReason::NoPath)?;
        let mut header = Header { replaces: HEADER_BYTES, ..Header::EMPTY };
        header.bytes[..ADDRESSES_BYTES].copy_from_slice(&on_links(addresses));
        let mut written = [Detour { counter: 0, rejoin: 0, ports: &[] }; DETOURS_MAX];
        let mut count = 0;
        for (place, detour) in written.iter_mut().zip(&self.detours) {
            *place = detour.as_written();
            count += 1;
        }
        let tag = self.is_tagged.then_some(tag_key);
        let native = self.native((Some(path), tag), ether_type, &written[..count]);
        header.add(|room| native.emit(room)).map_err(|_| DropReason::MalformedSourceRoute)?;
        Ok(rest::step(header, &[]).ok_or(DropReason::MalformedSourceRoute)?.0)
    }

    fn native<'h>(
        &'h self,
        (path, tag): (Option<Spi>, Option<&'h TagKey>),
        ether_type: EtherType,
        detours: &'h [Detour<'h>],
    ) -> NativeHeader<'h> {
        let (width, way) = (self.width, &*self.ports);
        NativeHeader { width, way, path, tag, detours, ether_type }
    }
}
