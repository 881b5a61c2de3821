//! Path encapsulations: how a place on a path is written into a packet, and read from it.
//!
//! Only this module and its children look inside a [`PathPosition`]; everybody else stores it,
//! compares it and hands it back (docs/adr/0003-path-encapsulation.md). Refuses to know what is
//! done at a position: hops, instances and networks are the forwarder's.

mod carried;
mod context;
mod mpls;
mod nsh;

pub(super) use carried::Carried;
pub(super) use context::Written;

use super::compile::CompileError;
use super::packet::TunnelKind;
use super::tables::{PathTable, Tables};
use carried::CarriedRef;
use catena_io::Buffer;
use catena_model::explain::HeaderLayer;
use catena_model::limits::NSH_CONTEXT_BYTES_MAX;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet;
use catena_wire::nsh::NshHeader;
use catena_wire::scalar::{EtherType, Vni};
use std::collections::HashMap;

/// Bytes of the longest header that an encapsulation puts in front of the inner frame.
pub(super) const HEADER_BYTES_MAX: usize = 160;
// An Ethernet header is longer than that of VXLAN-GPE.
const _: () = assert!(
    ethernet::HEADER_BYTES + NshHeader::LEN_WITHOUT_METADATA + NSH_CONTEXT_BYTES_MAX
        <= HEADER_BYTES_MAX
);

/// Header time to live that a classifier sets (RFC 8300 section 2.2), in every encapsulation.
const TTL_INITIAL: u8 = NshHeader::TTL_INITIAL.get();

/// A place on a path, opaque to everyone but its encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathPosition {
    /// Index into [`Positions::places`].
    slot: u32,
    /// Nodes the packet may still pass.
    ttl: u8,
    /// Metadata that the packet carries.
    carried: Option<CarriedRef>,
}

impl PathPosition {
    /// The start of a path that follows on the end of another, which this packet has reached: the
    /// time to live goes on, so that no packet goes round from path to path.
    ///
    /// # Errors
    /// [`DropReason::TtlExpired`].
    pub(super) fn following(self, ended: Self) -> Result<Self, DropReason> {
        match ended.ttl.checked_sub(1) {
            None | Some(0) => Err(DropReason::TtlExpired),
            Some(ttl) => Ok(Self { ttl, ..self }),
        }
    }

    /// The place alone.
    pub(super) fn without_metadata(self) -> Self {
        Self { carried: None, ..self }
    }
}

/// Which hop of which path a position stands for; behind the last hop: the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of the path in the tables.
    pub(super) path: u32,
    /// Index of the hop; the number of hops: the end of the path.
    pub(super) hop: u16,
}

/// Where the positions of a path start, and what its headers say of it.
struct PathSpan {
    id: PathId,
    encapsulation: Encapsulation,
    first: u32,
    hops: u16,
    vni: Option<Vni>,
}

/// All positions of the tables: an array of hops, path after path.
#[derive(Default)]
pub(super) struct Positions {
    places: Vec<Place>,
    spans: Vec<PathSpan>,
    by_id: HashMap<PathId, u32>,
}

impl Positions {
    pub(super) fn compile(
        paths: &[PathTable],
        vni_of: impl Fn(&PathTable) -> Option<Vni>,
    ) -> Result<Self, CompileError> {
        let mut positions = Self::default();
        for (index, path) in (0..).zip(paths) {
            // Both limits of the program keep these in range: 64 hops, 65,536 paths.
            let first = u32::try_from(positions.places.len()).unwrap_or(u32::MAX);
            let hops = u16::try_from(path.hops.len()).unwrap_or(u16::MAX);
            positions.places.extend((0..=hops).map(|hop| Place { path: index, hop }));
            positions.spans.push(PathSpan {
                id: path.id,
                encapsulation: path.encapsulation,
                first,
                hops,
                vni: vni_of(path),
            });
            if positions.by_id.insert(path.id, index).is_some() {
                return Err(CompileError::Twice { what: "path", id: path.id.to_string() });
            }
        }
        Ok(positions)
    }

    /// Some position, for tests that only carry it.
    #[cfg(test)]
    pub(super) fn for_tests() -> PathPosition {
        PathPosition { slot: 0, ttl: TTL_INITIAL, carried: None }
    }

    /// The start of a path, with a fresh time to live.
    pub(super) fn start(&self, path: PathId) -> Option<PathPosition> {
        let index = *self.by_id.get(&path)?;
        let span = self.spans.get(index as usize)?;
        Some(PathPosition { slot: span.first, ttl: TTL_INITIAL, carried: None })
    }

    /// What a position stands for.
    pub(super) fn place(&self, position: PathPosition) -> Place {
        self.places[position.slot as usize]
    }

    /// A position that was visited under earlier tables, in these; none when the path, or that
    /// hop of it, has gone.
    pub(super) fn renew(
        &self,
        visited: PathPosition,
        path: PathId,
        hop: u16,
    ) -> Option<PathPosition> {
        let span = self.spans.get(*self.by_id.get(&path)? as usize)?;
        let slot = span.first + u32::from(hop);
        (hop < span.hops).then_some(PathPosition { slot, ..visited })
    }

    fn span(&self, position: PathPosition) -> (&PathSpan, u16) {
        let place = self.place(position);
        (&self.spans[place.path as usize], place.hop)
    }

    /// The position of a hop counted from the start of a path that a header names.
    fn find(
        &self,
        path: PathId,
        encapsulation: Encapsulation,
        hop: u16,
        ttl: u8,
    ) -> Result<PathPosition, DropReason> {
        let index = *self.by_id.get(&path).ok_or(DropReason::NoPath)?;
        let span = &self.spans[index as usize];
        if span.encapsulation != encapsulation {
            return Err(DropReason::NoPath);
        }
        if hop > span.hops {
            return Err(DropReason::IndexExhausted);
        }
        Ok(PathPosition { slot: span.first + u32::from(hop), ttl, carried: None })
    }
}

/// By which door headers come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// In a tunnel between nodes.
    Tunnel,
    /// After the Ethernet header, at a port of a function that speaks the encapsulation.
    Function,
}

/// A header ready to be put in front of a frame: one for all segments of a super-frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    bytes: [u8; HEADER_BYTES_MAX],
    len: usize,
}

impl Header {
    /// Takes what was added away.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) const EMPTY: Self = Self { bytes: [0; HEADER_BYTES_MAX], len: 0 };

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Adds what `emit` writes into the free room; its error leaves the header as it was.
    pub(super) fn add<E>(
        &mut self,
        emit: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        self.len += emit(&mut self.bytes[self.len..])?;
        Ok(())
    }
}

/// Where a header was found to lead, and how many bytes stand before the inner frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) position: PathPosition,
    pub(super) header_bytes: usize,
}

/// A frame that starts with a header, and the answer about it.
pub(super) struct Headed<'v> {
    pub(super) buffer: &'v mut Buffer,
    pub(super) located: &'v mut Result<Located, DropReason>,
}

/// A packet about to get a header.
pub(super) struct Departing<'v> {
    pub(super) position: PathPosition,
    pub(super) header: &'v mut Header,
    pub(super) outcome: &'v mut Result<(), DropReason>,
}

/// One way to carry paths. Each verb takes the packets of a whole vector.
pub(super) trait PathEncap: Sync {
    /// The tunnel between nodes.
    fn tunnel(&self) -> TunnelKind;

    /// The EtherType towards a function that speaks it.
    fn ether_type(&self) -> EtherType;

    /// Appends to each header what says where its packet is on its path, and what it carries.
    fn push(
        &self,
        positions: &Positions,
        carried: &Carried,
        door: Door,
        packets: &mut dyn Iterator<Item = Departing<'_>>,
    );

    /// Finds where on a path each packet is and what metadata it carries, and counts its time to
    /// live down if it came by a tunnel.
    fn locate(
        &self,
        positions: &Positions,
        carried: &mut Carried,
        door: Door,
        frames: &mut dyn Iterator<Item = Headed<'_>>,
    );

    /// Turns the position that a packet visited into the one that follows it.
    fn advance(&self, positions: &Positions, visited: &mut dyn Iterator<Item = &mut PathPosition>);

    /// Takes the header off each frame that was located.
    fn pop(&self, frames: &mut dyn Iterator<Item = Headed<'_>>);

    /// What a header says, outermost layer first, and its length in bytes; none when it cannot be
    /// read. For people: nothing is decided by it.
    fn describe(&self, door: Door, bytes: &[u8]) -> Option<(Vec<HeaderLayer>, usize)>;
}

/// Every encapsulation; a new one adds its line here and in [`of`].
pub(super) const ALL: [Encapsulation; 2] = [Encapsulation::Nsh, Encapsulation::Mpls];

/// The code that carries an encapsulation.
pub(super) fn of(encapsulation: Encapsulation) -> &'static dyn PathEncap {
    match encapsulation {
        Encapsulation::Nsh => &nsh::Nsh,
        Encapsulation::Mpls => &mpls::Mpls,
    }
}

/// The encapsulation whose headers follow an EtherType.
pub(super) fn by_ether_type(ether_type: EtherType) -> Option<Encapsulation> {
    ALL.into_iter().find(|one| of(*one).ether_type() == ether_type)
}

/// The encapsulation that travels by a tunnel.
pub(super) fn by_tunnel(tunnel: TunnelKind) -> Option<Encapsulation> {
    ALL.into_iter().find(|one| of(*one).tunnel() == tunnel)
}

/// The encapsulation of the path that a position is on.
pub(super) fn carrier(tables: &Tables, position: PathPosition) -> Encapsulation {
    tables.path(tables.positions.place(position).path).encapsulation
}

/// The position of a packet that a classifier sends into a path: with the metadata that the path
/// declares.
///
/// # Errors
/// [`DropReason::ContextMemoryFull`].
pub(super) fn enter(
    tables: &Tables,
    start: PathPosition,
    flow_hash: u64,
    carried: &mut Carried,
) -> Result<PathPosition, DropReason> {
    let written = &tables.path(tables.positions.place(start).path).context;
    if written.is_empty() {
        return Ok(start);
    }
    let mut bytes = [0; NSH_CONTEXT_BYTES_MAX];
    let len = written.emit(flow_hash, &mut bytes)?;
    Ok(PathPosition { carried: Some(carried.keep(&bytes[..len])?), ..start })
}

/// The position behind one that no packet waits at.
pub(super) fn next(tables: &Tables, position: PathPosition) -> PathPosition {
    let mut next = position;
    let carrier = of(carrier(tables, position));
    carrier.advance(&tables.positions, &mut std::iter::once(&mut next));
    next
}

/// What both encapsulations of today do on the return from a function: positions are dense.
fn next_slot(positions: &Positions, visited: &mut dyn Iterator<Item = &mut PathPosition>) {
    for position in visited {
        let (span, hop) = positions.span(*position);
        debug_assert!(hop < span.hops, "a function was visited behind the end of its path");
        if hop < span.hops {
            position.slot += 1;
        }
    }
}

/// What both encapsulations of today do at the end: the inner frame stands behind the header.
fn strip(frames: &mut dyn Iterator<Item = Headed<'_>>) {
    for frame in frames {
        if let Ok(located) = *frame.located
            && !super::vector::trim_front(frame.buffer, located.header_bytes)
        {
            *frame.located = Err(DropReason::MalformedEthernet);
        }
    }
}
