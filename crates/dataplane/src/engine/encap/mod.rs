//! Path encapsulations: how a place on a path is written into a packet, and read from it.
//!
//! Only this module and its children look inside a [`PathPosition`]; everybody else stores it,
//! compares it and hands it back (docs/adr/0003-path-encapsulation.md). Refuses to know what is
//! done at a position: hops, instances and networks are the forwarder's.

mod addresses;
mod carried;
mod carried_ref;
mod context;
mod detours;
#[cfg(dummy_encapsulation)]
mod dummy;
mod given;
mod header;
mod marked;
mod mpls;
mod nsh;
mod polka;
mod positions;
mod records;
mod renew;
mod rest;
mod source_route;
mod sr_mpls;
mod srv6;
mod template;
mod under;

pub(crate) use carried::Carried;
pub(crate) use carried_ref::CarriedRef;
pub(crate) use context::Written;
pub(crate) use detours::Detoured;
pub(crate) use given::{give, give_in_place, given_bytes, taken_back};
pub(crate) use header::{HEADER_BYTES_MAX, Header};
pub(crate) use positions::{Positions, Shape};
pub(crate) use records::{Beginning, Recorder, Records};
pub use records::{RecordLosses, ToldEnd};
pub(crate) use renew::NextHeader;
pub(crate) use rest::{go_on, taken};
pub(crate) use source_route::RouteHeader;
pub(crate) use srv6::{
    Marking, SEGMENTED, Segment, SegmentsHeader, SegmentsWay, carrier, error_of, led_on,
    peek_segments,
};
pub(crate) use template::Template;
pub(crate) use under::{under_route, under_tunnel};

use crate::engine::packet::trim_front;
use catena_io::Buffer;
use catena_model::explain::HeaderLayer;
use catena_model::limits::NSH_CONTEXT_BYTES_MAX;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet::ADDRESSES_BYTES;
use catena_wire::nsh::{ContextHeaders, NshHeader, UserContext};
use catena_wire::scalar::EtherType;
use catena_wire::source_route::native::TagKey;
use catena_wire::source_route::sr_mpls::SrMplsView;
use catena_wire::source_route::{self as wire_route, Profile, native};
use template::HeaderWord;

/// Header time to live that a classifier sets (RFC 8300 section 2.2), in every encapsulation.
const TTL_INITIAL: u8 = NshHeader::TTL_INITIAL.get();

/// A place on a path, opaque to everyone but its encapsulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathPosition {
    /// Index of its path: that of its counters.
    own: u32,
    /// Index of the path whose hops it has.
    shape: u32,
    /// Index of the hop; the number of hops: the end.
    hop: u16,
    /// Nodes the packet may still pass.
    ttl: u8,
    /// Metadata that the packet carries.
    carried: Option<CarriedRef>,
}

impl PathPosition {
    /// Is it the same place with the same time to live, whatever is carried?
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let place = |of: &Self| (of.own, of.shape, of.hop, of.ttl);
        place(self) == place(other)
    }

    /// The start of a path that follows on the end of another, which this packet has reached: the
    /// time to live goes on, so that no packet goes round from path to path.
    ///
    /// # Errors
    /// [`DropReason::TtlExpired`].
    pub(crate) fn following(self, ended: Self) -> Result<Self, DropReason> {
        Ok(Self { ttl: ended.older()?.ttl, ..self })
    }

    /// The same place, one node of its time to live later.
    ///
    /// # Errors
    /// [`DropReason::TtlExpired`].
    pub(crate) fn older(self) -> Result<Self, DropReason> {
        match self.ttl.checked_sub(1) {
            None | Some(0) => Err(DropReason::TtlExpired),
            Some(ttl) => Ok(Self { ttl, ..self }),
        }
    }

    /// Index of the path that it is on, below [`Positions::end`].
    pub(crate) fn path(self) -> u32 {
        self.own
    }

    /// Nodes the packet may still pass.
    pub(crate) fn ttl(self) -> u8 {
        self.ttl
    }

    /// Does the packet carry metadata?
    pub(crate) fn carries_metadata(self) -> bool {
        self.carried.is_some()
    }

    /// Index of the path whose hops it has: itself, but for the path of a slice.
    pub(crate) fn template(self) -> u32 {
        self.shape
    }

    /// Is it on the path of a slice?
    pub(crate) fn is_of_slice(self) -> bool {
        self.own != self.shape
    }

    /// The name of what the packet carries; none: nothing.
    pub(crate) fn carried(self) -> Option<CarriedRef> {
        self.carried
    }

    /// The name of the header that the packet came with, which takes records along; none: it has none.
    pub(crate) fn records(self) -> Option<CarriedRef> {
        self.carried.filter(|name| name.records().is_some())
    }

    /// The same with a header that takes records along.
    pub(crate) fn with_records(self, records: Option<CarriedRef>) -> Self {
        Self { carried: records.or(self.carried), ..self }
    }

    /// The place alone.
    pub(crate) fn without_metadata(self) -> Self {
        Self { carried: None, ..self }
    }
}

/// At which side headers come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderSide {
    /// Between nodes, in a tunnel or on a link.
    Tunnel,
    /// After the Ethernet header, at a port of a function that speaks the encapsulation.
    Function,
}

/// Where a header was found to lead, and how many bytes stand before the inner frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) position: PathPosition,
    pub(crate) header_bytes: usize,
}

/// What the header of a frame on a source route says at a node where it comes out, or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnRoute {
    pub(crate) encapsulation: Encapsulation,
    /// Whose packet it is.
    pub(crate) path: PathId,
    /// Bytes by which the frame is shorter without it.
    pub(crate) header_bytes: usize,
    /// Ports that are still to be taken.
    pub(crate) left: u8,
}

/// A frame that starts with a header, and the answer about it.
pub(crate) struct Headed<'v> {
    pub(crate) buffer: &'v mut Buffer,
    pub(crate) located: &'v mut Result<Located, DropReason>,
}

/// What the fast path reads of a header without metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peeked {
    /// The path identifier.
    pub(crate) path: u32,
    /// Index of the hop that it says its packet is at.
    pub(crate) hop: u16,
    /// Time to live with which its packet goes on; 0: none is left.
    pub(crate) ttl: u8,
    /// Bytes before the inner frame.
    pub(crate) header_bytes: u8,
}

/// One way to carry paths. Headers are read and moved on for a whole vector at a time; most are written
/// from a [`Template`], which [`PathEncap::push`] makes once for each hop.
pub(crate) trait PathEncap: Sync {
    /// Appends to a header what says where its packet is on its path, and what it carries. Where headers are made
    /// of routes, a position says nothing.
    ///
    /// # Errors
    /// The position fits no header, or what the packet carries is not known any more.
    fn push(
        &self,
        _positions: &Positions,
        _carried: &Carried,
        _side: HeaderSide,
        _position: PathPosition,
        _header: &mut Header,
    ) -> Result<(), DropReason> {
        Err(DropReason::UnsupportedEncapsulation)
    }

    /// Where path and time to live stand in a header without metadata, if that is all that differs
    /// between the packets of a hop; none: each header is made by itself.
    fn word(&self, _side: HeaderSide) -> Option<HeaderWord> {
        None
    }

    /// Finds where on a path each packet is and what metadata it carries, and counts its time to
    /// live down if it came by a tunnel.
    fn locate(
        &self,
        positions: &Positions,
        carried: &mut Carried,
        _side: HeaderSide,
        frames: &mut dyn Iterator<Item = Headed<'_>>,
    ) {
        for frame in frames {
            *frame.located = self.find_kept(positions, frame.buffer.bytes(), carried);
        }
    }

    /// The same of one frame that has come out at a port, with what is left of its header.
    ///
    /// # Errors
    /// The header is malformed, or there is no such path.
    fn find_kept(
        &self,
        positions: &Positions,
        frame: &[u8],
        carried: &mut Carried,
    ) -> Result<Located, DropReason> {
        let Located { position, header_bytes } = self.find(positions, frame)?;
        let position = rest::kept(self, position, frame, positions, carried);
        Ok(Located { position, header_bytes })
    }

    /// What is left of the header of a frame that has come out at a port on its way, without what of it is the
    /// frame's own: that is kept while a function has the packet. None: its way is at its end.
    fn rest<'r>(&self, _frame: &[u8], _into: &'r mut Header) -> Option<&'r [u8]> {
        None
    }

    /// The header of which this was left, in front of a frame with these addresses and this type.
    fn with_rest(
        &self,
        _rest: &[u8],
        _addresses: &[u8; ADDRESSES_BYTES],
        _ether_type: EtherType,
    ) -> Option<Header> {
        None
    }

    /// Do the ports that are left in a header lead along this way, whose first is taken, or up to an edge on it? The
    /// most bytes of what that edge writes, 0 where there is none; none: they lead elsewhere.
    fn leads_along(&self, header: Header, own: &RouteHeader) -> Option<usize> {
        let mut left = header;
        for (taken, expected) in own.ports().iter().enumerate().skip(1) {
            let (next, port) = rest::step(left, &[])?;
            if port != *expected {
                // The edge writes the next header: nothing is behind its number.
                return own.behind_edge(taken, port).filter(|_| rest::step(next, &[]).is_none());
            }
            left = next;
        }
        Some(0)
    }

    /// What the header of a frame on a source route says.
    ///
    /// # Errors
    /// It is malformed.
    fn on_route(&self, _frame: &[u8]) -> Result<OnRoute, DropReason> {
        Err(DropReason::UnsupportedEncapsulation)
    }

    /// Is the tag of a header right that has come to its end? Where headers have none, yes.
    ///
    /// # Errors
    /// [`DropReason::WrongRouteTag`].
    fn check_tag(&self, _frame: &[u8], _tag_key: &TagKey) -> Result<(), DropReason> {
        Ok(())
    }

    /// The start of the path of a packet that has come out by a port: which of its hops it is, is asked of that port.
    ///
    /// # Errors
    /// The header is malformed, or there is no such path.
    fn find(&self, positions: &Positions, frame: &[u8]) -> Result<Located, DropReason> {
        let OnRoute { encapsulation, path, header_bytes, .. } = self.on_route(frame)?;
        let position = positions.find(path, encapsulation, 0, TTL_INITIAL)?;
        Ok(Located { position, header_bytes })
    }

    /// Turns the position that a packet visited into the one that follows it: the next, where positions
    /// are dense.
    fn advance(&self, positions: &Positions, visited: &mut dyn Iterator<Item = &mut PathPosition>) {
        visited.for_each(|position| positions.step(position));
    }

    /// Keeps the headers of frames that were located, where each has to go on with its packet.
    fn keep(
        &self,
        _positions: &Positions,
        _carried: &mut Carried,
        _frames: &mut dyn Iterator<Item = Headed<'_>>,
    ) {
    }

    /// Takes the header off each frame that was located: the inner frame stands behind it.
    fn pop(&self, _side: HeaderSide, frames: &mut dyn Iterator<Item = Headed<'_>>) {
        for frame in frames {
            if let Ok(located) = *frame.located
                && !trim_front(frame.buffer, located.header_bytes)
            {
                *frame.located = Err(DropReason::MalformedEthernet);
            }
        }
    }

    /// Bytes before what reads as a frame of the inner one's flow, whatever its addresses are; none when the header
    /// cannot be read. For who only looks.
    fn header_bytes(&self, side: HeaderSide, bytes: &[u8]) -> Option<usize>;

    /// What a header says, outermost layer first, and its length in bytes; none when it cannot be
    /// read. For people: nothing is decided by it.
    fn describe(&self, side: HeaderSide, bytes: &[u8]) -> Option<(Vec<HeaderLayer>, usize)>;
}

/// The code that carries an encapsulation; a new one adds its line here.
pub(crate) fn of(encapsulation: Encapsulation) -> &'static dyn PathEncap {
    match encapsulation {
        Encapsulation::Nsh => &nsh::Nsh,
        Encapsulation::Mpls => &mpls::Mpls,
        Encapsulation::SourceRouteNative => &source_route::SourceRoute { is_tagged: false },
        Encapsulation::SourceRouteSafe9 => &marked::MarkedRoute(Profile::Safe9),
        Encapsulation::SourceRouteClassic80 => &marked::MarkedRoute(Profile::Classic80),
        Encapsulation::SourceRouteSrMpls => &sr_mpls::SrMpls,
        Encapsulation::SourceRoutePolka => &polka::Polka,
        Encapsulation::SourceRouteNativeTagged => &source_route::SourceRoute { is_tagged: true },
        Encapsulation::Srv6 => &srv6::Srv6(Encapsulation::Srv6),
        Encapsulation::Srv6Ethernet => &srv6::Srv6(Encapsulation::Srv6Ethernet),
        Encapsulation::Srv6Csid => &srv6::Srv6(Encapsulation::Srv6Csid),
        #[cfg(dummy_encapsulation)]
        Encapsulation::Dummy => &dummy::Dummy,
    }
}

/// Reads the header at the front, if it has no metadata and nothing special; none: who wants to know more
/// asks [`PathEncap::locate`].
#[inline(always)]
pub(crate) fn peek(encapsulation: Encapsulation, side: HeaderSide, bytes: &[u8]) -> Option<Peeked> {
    match encapsulation {
        Encapsulation::Nsh => nsh::peek(side, bytes),
        Encapsulation::Mpls => mpls::peek(side, bytes),
        Encapsulation::SourceRouteNative
        | Encapsulation::SourceRouteSafe9
        | Encapsulation::SourceRouteClassic80
        | Encapsulation::SourceRouteSrMpls
        | Encapsulation::SourceRoutePolka
        | Encapsulation::SourceRouteNativeTagged
        | Encapsulation::Srv6
        | Encapsulation::Srv6Ethernet
        | Encapsulation::Srv6Csid => None,
        #[cfg(dummy_encapsulation)]
        Encapsulation::Dummy => dummy::peek(side, bytes),
    }
}

/// The encapsulation whose headers follow an EtherType.
pub(crate) fn by_ether_type(ether_type: EtherType) -> Option<Encapsulation> {
    Encapsulation::ALL.into_iter().find(|one| one.capabilities().ether_type == Some(ether_type))
}

/// Bytes before what reads as the frame under a header that follows an Ethernet header of so many bytes, at a function
/// that reads it; none when it cannot be read.
pub(crate) fn inner_offset(
    encapsulation: Encapsulation,
    frame: &[u8],
    ethernet: usize,
) -> Option<usize> {
    // That of a source route stands in the Ethernet header, and not behind it.
    let before = if encapsulation.is_source_route() { 0 } else { ethernet };
    let headed = frame.get(before..)?;
    Some(before + of(encapsulation).header_bytes(HeaderSide::Function, headed)?)
}

/// The encapsulation of a frame that a link has brought.
pub(crate) fn on_link(frame: &[u8]) -> Option<Encapsulation> {
    match wire_route::profile(frame)? {
        Profile::Native if native::has_tag(frame) => Some(Encapsulation::SourceRouteNativeTagged),
        profile => Encapsulation::of_profile(profile),
    }
}

/// Is a frame that a port has brought on a source route? Labels of functions that speak them are none.
pub(crate) fn is_on_route(frame: &[u8]) -> bool {
    match wire_route::profile(frame) {
        Some(Profile::SrMpls) => SrMplsView::parse(frame).is_ok(),
        found => found.is_some(),
    }
}

/// Takes the header off one frame that was located; false: it cannot be.
pub(crate) fn strip(
    (encapsulation, side): (Encapsulation, HeaderSide),
    position: PathPosition,
    buffer: &mut Buffer,
    header_bytes: u8,
) -> bool {
    let located = &mut Ok(Located { position, header_bytes: header_bytes.into() });
    of(encapsulation).pop(side, &mut std::iter::once(Headed { buffer, located: &mut *located }));
    located.is_ok()
}

/// The position of a packet that a classifier sends into a path: with the metadata that the path
/// declares, and with whose it is if the path of a slice says so.
///
/// # Errors
/// [`DropReason::ContextMemoryFull`], [`DropReason::ContextTooLong`].
pub(crate) fn enter(
    (positions, declared): (&Positions, &Written),
    start: PathPosition,
    flow_id: impl FnOnce() -> u64,
    user: UserContext,
    carried: &mut Carried,
) -> Result<PathPosition, DropReason> {
    let tells = user != UserContext::default()
        && start.is_of_slice()
        && positions.encapsulation(start).capabilities().has_metadata
        && positions.tells_users(positions.id(start));
    if declared.is_empty() && !tells {
        return Ok(start);
    }
    let mut bytes = [0; NSH_CONTEXT_BYTES_MAX];
    let mut len = declared.emit(flow_id(), &mut bytes)?;
    if tells {
        let room = bytes.get_mut(len..).unwrap_or_default();
        len += user.emit(room).map_err(|_| DropReason::ContextTooLong)?;
    }
    Ok(PathPosition { carried: Some(carried.keep(&bytes[..len], positions.id(start))?), ..start })
}

/// What the metadata that a position names say of whose packet it is.
pub(crate) fn user(position: PathPosition, carried: &Carried) -> Option<UserContext> {
    UserContext::read(ContextHeaders::parse(carried.get(position.carried?)?).ok()?)
}

/// The position behind one that no packet waits at.
pub(crate) fn next(positions: &Positions, position: PathPosition) -> PathPosition {
    let mut next = position;
    of(positions.encapsulation(position)).advance(positions, &mut std::iter::once(&mut next));
    next
}
