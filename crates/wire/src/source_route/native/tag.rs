//! The integrity tag: who does not have the key of the domain makes no header that an edge takes. Knows what it
//! covers; refuses to know keys of others.

use super::{PortWidth, TAG_BYTES};
use crate::scalar::Spi;
use crate::source_route::key_for;
use core::fmt;
use core::hash::Hasher;
use siphasher::sip::SipHasher24;

/// The key of a domain, 128 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TagKey(pub [u8; 16]);

impl fmt::Debug for TagKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TagKey(..)")
    }
}

impl TagKey {
    /// That of the domain with this key, which it does not tell.
    #[must_use]
    pub fn of_domain(key: &[u8; 16]) -> Self {
        Self(key_for(b"tag", key))
    }

    /// The low 16 bits of SipHash-2-4 over width, number of ports, path identifier, packed ports and detours.
    pub(super) fn tag(
        &self,
        (width, count): (PortWidth, u8),
        path: Spi,
        packed: &[u8],
        detours: &[u8],
    ) -> [u8; TAG_BYTES] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        let [_, a, b, c] = path.get().to_be_bytes();
        hasher.write(&[width.bits(), count, a, b, c]);
        hasher.write(packed);
        hasher.write(detours);
        let [.., high, low] = hasher.finish().to_be_bytes();
        [high, low]
    }
}
