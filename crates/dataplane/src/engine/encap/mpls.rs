//! Paths in an MPLS SFC label pair (RFC 8595, label swapping): over UDP between nodes (RFC 7510),
//! over Ethernet to functions that speak it. Context label = path, SF label = 255 − hop.
//!
//! What follows the pair is always an Ethernet frame: the path says so, since labels carry no
//! next protocol. A label has no room for metadata: what a path declares as context is for NSH
//! alone. A function that speaks MPLS decrements the index in the SF label itself.

use super::template::{Field, HeaderWord};
use super::{
    Carried, Headed, Header, HeaderSide, Located, PathEncap, PathPosition, Peeked, Positions,
};
use catena_model::explain::HeaderLayer;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use catena_wire::mpls::SfcLabelPair;
use catena_wire::nsh::NshHeader;
use catena_wire::plain::PlainLabels;
use catena_wire::scalar::{MplsLabel, ServiceIndex};

pub(super) struct Mpls;

impl PathEncap for Mpls {
    fn push(
        &self,
        positions: &Positions,
        _carried: &Carried,
        _side: HeaderSide,
        position: PathPosition,
        header: &mut Header,
    ) -> Result<(), DropReason> {
        let pair = write(positions, position).ok_or(DropReason::NoPath)?;
        header.add(|room| pair.emit(room)).map_err(|_| DropReason::MalformedMpls)
    }

    fn word(&self, _side: HeaderSide) -> Option<HeaderWord> {
        let (path, ttl) = (Field { shift: 44, bits: 20 }, Field { shift: 0, bits: 8 });
        // Never sent as 0 (RFC 8595 section 6).
        Some(HeaderWord { at: 0, path, ttl, ttl_min: 1 })
    }

    fn locate(
        &self,
        positions: &Positions,
        _carried: &mut Carried,
        side: HeaderSide,
        frames: &mut dyn Iterator<Item = Headed<'_>>,
    ) {
        for frame in frames {
            *frame.located = read(positions, side, frame.buffer.bytes());
        }
    }

    fn header_bytes(&self, _side: HeaderSide, bytes: &[u8]) -> Option<usize> {
        let (_, inner) = SfcLabelPair::parse(bytes).ok()?;
        Some(bytes.len() - inner.len())
    }

    fn describe(&self, _side: HeaderSide, bytes: &[u8]) -> Option<(Vec<HeaderLayer>, usize)> {
        let (pair, inner) = SfcLabelPair::parse(bytes).ok()?;
        let layer = HeaderLayer::Mpls {
            context_label: pair.context.get(),
            function_label: pair.function.get(),
            index: pair.service_index().ok()?.0,
            ttl: pair.function_ttl,
        };
        Some((vec![layer], bytes.len() - inner.len()))
    }
}

/// The pair for a position; none when the path or hop fits no label, which the compiler of the
/// program has ruled out.
fn write(positions: &Positions, position: PathPosition) -> Option<SfcLabelPair> {
    let spot = positions.spot(position);
    // The index counts as in NSH, of which the pair is a logical representation (RFC 8595
    // section 1).
    let index = NshHeader::SI_INITIAL.0.checked_sub(u8::try_from(spot.hop).ok()?)?;
    let label = MplsLabel::ordinary(spot.id.0).ok()?;
    SfcLabelPair::new(label, ServiceIndex(index), position.ttl).ok()
}

#[inline(always)]
pub(super) fn peek(side: HeaderSide, bytes: &[u8]) -> Option<Peeked> {
    let pair = PlainLabels::parse(bytes)?;
    let passed = u8::from(side == HeaderSide::Tunnel);
    Some(Peeked {
        path: pair.path,
        hop: u16::from(NshHeader::SI_INITIAL.0 - pair.index),
        ttl: pair.ttl.saturating_sub(passed),
        header_bytes: PlainLabels::LEN as u8,
    })
}

fn read(positions: &Positions, side: HeaderSide, bytes: &[u8]) -> Result<Located, DropReason> {
    let (pair, inner) = SfcLabelPair::parse(bytes).map_err(|_| DropReason::MalformedMpls)?;
    let index = pair.service_index().map_err(|_| DropReason::MalformedMpls)?;
    let ttl = match side {
        HeaderSide::Tunnel => pair.next_ttl().map_err(|_| DropReason::TtlExpired)?,
        // A function is no forwarder.
        HeaderSide::Function => pair.function_ttl,
    };
    let hop = u16::from(NshHeader::SI_INITIAL.0 - index.0);
    let path = PathId(pair.context.get());
    let position = positions.find(path, Encapsulation::Mpls, hop, ttl)?;
    Ok(Located { position, header_bytes: bytes.len() - inner.len() })
}
