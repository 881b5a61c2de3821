//! Names of what packets carry: a content, which several may have, or a header that takes records along, which is one
//! packet's own. Refuses to know where either is.

use std::num::NonZeroU32;

/// The name of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CarriedRef {
    pub(super) place: u32,
    pub(super) turn: NonZeroU32,
}

/// What the number of a place has where a header is kept that takes records along, and no content.
const OF_RECORDS: u32 = 1 << 31;

impl CarriedRef {
    /// That of a header in a place of [`Records`]; none: there are no such places.
    pub(super) fn of_records(place: u32, turn: u32) -> Option<Self> {
        let turn = NonZeroU32::new(turn)?;
        (place < OF_RECORDS).then_some(Self { place: place | OF_RECORDS, turn })
    }

    /// Place and turn of such a header; none: it is a content.
    pub(super) fn records(self) -> Option<(u32, u32)> {
        (self.place & OF_RECORDS != 0).then_some((self.place & !OF_RECORDS, self.turn.get()))
    }

    /// Another number for each content that is there.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        u64::from(self.turn.get()) << 32 | u64::from(self.place)
    }
}
