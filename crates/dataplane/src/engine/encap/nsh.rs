//! Paths in the Network Service Header (RFC 8300): over VXLAN-GPE between nodes, over Ethernet to
//! functions that speak it. SPI = path, SI = 255 − hop. Without metadata MD type 1 with zeros, as
//! no shorter header is usual; else MD type 2 (section 2.5), whose context headers are carried on
//! as they are, known or not.
//!
//! A function that speaks NSH decrements the SI itself (section 2.3) and leaves the SPI alone;
//! the TTL is the forwarders' (section 2.2). Packets of operations (O bit) are discarded, as
//! section 2.2 asks of who does not know their procedure.

use super::template::{Field, HeaderWord};
use super::{
    Carried, Headed, Header, HeaderSide, Located, PathEncap, PathPosition, Peeked, Positions,
};
use catena_model::explain::HeaderLayer;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use catena_wire::nsh::{
    ContextHeader, ContextHeaders, Metadata, NshHeader, NshNextProtocol, NshView,
};
use catena_wire::plain::PlainNsh;
use catena_wire::scalar::{NshTtl, ServiceIndex, Spi, Vni};
use catena_wire::vxlan_gpe::{GpeNextProtocol, VxlanGpeHeader};

pub(super) struct Nsh;

impl PathEncap for Nsh {
    fn push(
        &self,
        positions: &Positions,
        carried: &Carried,
        side: HeaderSide,
        position: PathPosition,
        header: &mut Header,
    ) -> Result<(), DropReason> {
        let metadata = metadata(position, carried)?;
        let written = write(positions, side, position, metadata);
        let (gpe, nsh) = written.ok_or(DropReason::NoPath)?;
        if let Some(gpe) = gpe {
            let added = header.add(|room| gpe.emit(room));
            added.map_err(|_| DropReason::MalformedVxlanGpe)?;
        }
        header.add(|room| nsh.emit(room)).map_err(|_| DropReason::MalformedNsh)
    }

    fn word(&self, side: HeaderSide) -> Option<HeaderWord> {
        let at = if side == HeaderSide::Tunnel { PlainNsh::GPE_LEN as u8 } else { 0 };
        let (path, ttl) = (Field { shift: 8, bits: 24 }, Field { shift: 54, bits: 6 });
        Some(HeaderWord { at, path, ttl, ttl_min: 0 })
    }

    fn locate(
        &self,
        positions: &Positions,
        carried: &mut Carried,
        side: HeaderSide,
        frames: &mut dyn Iterator<Item = Headed<'_>>,
    ) {
        for frame in frames {
            *frame.located = read(positions, carried, side, frame.buffer.bytes());
        }
    }

    fn header_bytes(&self, side: HeaderSide, bytes: &[u8]) -> Option<usize> {
        let behind_gpe = match side {
            HeaderSide::Function => bytes,
            HeaderSide::Tunnel => VxlanGpeHeader::parse(bytes).ok()?.1,
        };
        let (_, inner) = NshView::parse(behind_gpe).ok()?;
        Some(bytes.len() - inner.len())
    }

    fn describe(&self, side: HeaderSide, bytes: &[u8]) -> Option<(Vec<HeaderLayer>, usize)> {
        let mut layers = Vec::new();
        let mut behind_gpe = bytes;
        if side == HeaderSide::Tunnel {
            let (gpe, rest) = VxlanGpeHeader::parse(bytes).ok()?;
            layers.push(HeaderLayer::VxlanGpe { vni: gpe.vni.get() });
            behind_gpe = rest;
        }
        let (nsh, inner) = NshView::parse(behind_gpe).ok()?;
        let (md_type, context) = match nsh.metadata() {
            Metadata::Type1(_) => (1, Vec::new()),
            Metadata::Type2(headers) => (2, headers.map(words).collect()),
        };
        let (spi, si, ttl) = (nsh.spi().get(), nsh.si().0, nsh.ttl().get());
        layers.push(HeaderLayer::Nsh { spi, si, ttl, md_type, context });
        Some((layers, bytes.len() - inner.len()))
    }
}

/// The metadata that a position names.
fn metadata(position: PathPosition, carried: &Carried) -> Result<Metadata<'_>, DropReason> {
    let Some(name) = position.carried else { return Ok(Metadata::ZERO) };
    let bytes = carried.get(name).ok_or(DropReason::ContextMemoryFull)?;
    let headers = ContextHeaders::parse(bytes).map_err(|_| DropReason::MalformedNsh)?;
    Ok(Metadata::Type2(headers))
}

/// The headers for a position; none when the path or hop fits no field, which the compiler of the
/// program has ruled out.
fn write<'m>(
    positions: &Positions,
    side: HeaderSide,
    position: PathPosition,
    metadata: Metadata<'m>,
) -> Option<(Option<VxlanGpeHeader>, NshHeader<'m>)> {
    let spot = positions.spot(position);
    let index = u8::try_from(spot.hop).ok()?;
    let nsh = NshHeader {
        spi: Spi::new(spot.id.0).ok()?,
        si: ServiceIndex(NshHeader::SI_INITIAL.0.checked_sub(index)?),
        ttl: NshTtl::new(u32::from(position.ttl)).ok()?,
        metadata,
        next: NshNextProtocol::ETHERNET,
        is_oam: false,
    };
    // The VNI names the network of delivery for whoever looks at the wire; the path alone counts.
    let vni = spot.vni.or_else(|| Vni::new(0).ok())?;
    let gpe = VxlanGpeHeader { vni, next: GpeNextProtocol::NSH, is_oam: false };
    Some(((side == HeaderSide::Tunnel).then_some(gpe), nsh))
}

/// A context header for people.
fn words(header: ContextHeader<'_>) -> String {
    let octets: String = header.value.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("class {:#06x} type {:#04x} {octets}", header.class, header.kind)
}

#[inline(always)]
pub(super) fn peek(side: HeaderSide, bytes: &[u8]) -> Option<Peeked> {
    let (nsh, ttl, before) = match side {
        HeaderSide::Tunnel => {
            let nsh = PlainNsh::parse_behind_gpe(bytes)?;
            // An incoming 0 is as good as 64 (RFC 8300 section 2.2).
            (nsh, nsh.ttl.wrapping_sub(1) & NshTtl::MAX as u8, PlainNsh::GPE_LEN)
        }
        HeaderSide::Function => {
            let nsh = PlainNsh::parse(bytes)?;
            (nsh, nsh.ttl, 0)
        }
    };
    Some(Peeked {
        path: nsh.spi,
        hop: u16::from(NshHeader::SI_INITIAL.0 - nsh.si),
        ttl,
        header_bytes: (before + PlainNsh::LEN) as u8,
    })
}

fn read(
    positions: &Positions,
    carried: &mut Carried,
    side: HeaderSide,
    bytes: &[u8],
) -> Result<Located, DropReason> {
    let behind_gpe = match side {
        HeaderSide::Function => bytes,
        HeaderSide::Tunnel => {
            let parsed = VxlanGpeHeader::parse(bytes);
            let (gpe, rest) = parsed.map_err(|_| DropReason::MalformedVxlanGpe)?;
            if gpe.next != GpeNextProtocol::NSH || gpe.is_oam {
                return Err(DropReason::UnsupportedNextProtocol);
            }
            rest
        }
    };
    let (nsh, inner) = NshView::parse(behind_gpe).map_err(|_| DropReason::MalformedNsh)?;
    if nsh.next() != NshNextProtocol::ETHERNET || nsh.is_oam() {
        return Err(DropReason::UnsupportedNextProtocol);
    }
    let ttl = match side {
        HeaderSide::Tunnel => nsh.next_ttl().map_err(|_| DropReason::TtlExpired)?,
        // A function is no forwarder.
        HeaderSide::Function => nsh.ttl(),
    };
    let hop = u16::from(NshHeader::SI_INITIAL.0 - nsh.si().0);
    let path = PathId(nsh.spi().get());
    let mut position = positions.find(path, Encapsulation::Nsh, hop, ttl.get())?;
    if let Metadata::Type2(headers) = nsh.metadata() {
        position.carried = Some(carried.keep(headers.bytes(), path)?);
    }
    Ok(Located { position, header_bytes: bytes.len() - inner.len() })
}
