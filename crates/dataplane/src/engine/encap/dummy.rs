//! An encapsulation that proves what another one costs: eight bytes that say path, hop and time to live as
//! they are. Only builds with `--cfg dummy_encapsulation` have it, for tests.

use super::template::{Field, HeaderWord};
use super::{
    Carried, Headed, Header, HeaderSide, Located, PathEncap, PathPosition, Peeked, Positions,
};
use catena_model::explain::HeaderLayer;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};

/// Bytes of the header.
const LEN: usize = 8;

pub(super) struct Dummy;

impl PathEncap for Dummy {
    fn push(
        &self,
        positions: &Positions,
        _carried: &Carried,
        _side: HeaderSide,
        position: PathPosition,
        header: &mut Header,
    ) -> Result<(), DropReason> {
        let fields = positions.spot(position);
        let [a, b, c, d] = fields.id.0.to_be_bytes();
        let [hop_high, hop_low] = fields.hop.to_be_bytes();
        let bytes = [a, b, c, d, hop_high, hop_low, position.ttl(), 0];
        header.add(|room| {
            let room = room.get_mut(..LEN).ok_or(DropReason::NoPath)?;
            room.copy_from_slice(&bytes);
            Ok(LEN)
        })
    }

    fn word(&self, _side: HeaderSide) -> Option<HeaderWord> {
        let (path, ttl) = (Field { shift: 32, bits: 32 }, Field { shift: 8, bits: 8 });
        Some(HeaderWord { at: 0, path, ttl, ttl_min: 0 })
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
        (bytes.len() >= LEN).then_some(LEN)
    }

    fn describe(&self, _side: HeaderSide, bytes: &[u8]) -> Option<(Vec<HeaderLayer>, usize)> {
        (bytes.len() >= LEN).then(|| (Vec::new(), LEN))
    }
}

#[inline(always)]
pub(super) fn peek(side: HeaderSide, bytes: &[u8]) -> Option<Peeked> {
    let [a, b, c, d, high, low, ttl, _] = *bytes.first_chunk::<LEN>()?;
    let (path, hop) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([high, low]));
    let ttl = ttl.saturating_sub(u8::from(side == HeaderSide::Tunnel));
    Some(Peeked { path, hop, ttl, header_bytes: LEN as u8 })
}

fn read(positions: &Positions, side: HeaderSide, bytes: &[u8]) -> Result<Located, DropReason> {
    let [a, b, c, d, high, low, ttl, _] = *bytes.first_chunk().ok_or(DropReason::NoPath)?;
    let ttl = match side {
        HeaderSide::Tunnel => ttl.checked_sub(1).filter(|ttl| *ttl > 0),
        HeaderSide::Function => Some(ttl),
    };
    let (path, hop) = (PathId(u32::from_be_bytes([a, b, c, d])), u16::from_be_bytes([high, low]));
    let ttl = ttl.ok_or(DropReason::TtlExpired)?;
    let position = positions.find(path, Encapsulation::Dummy, hop, ttl)?;
    Ok(Located { position, header_bytes: LEN })
}
