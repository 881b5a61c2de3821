//! A hash for keys of a few bytes that the planner has chosen: MACs, addresses, network identifiers.
//! Knows bytes; refuses to know what they name.
//!
//! Every packet asks for some, and the hash of the standard library costs as much as all else that is
//! done for it. Who sends packets chooses no key that is kept, so the worst that he can aim at is one
//! look-up that takes longer; who orders ports does, hence the seed, another for each table.

use std::hash::{BuildHasher, Hasher, RandomState};

/// An odd number without pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The seed of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortKeys(u64);

impl Default for ShortKeys {
    fn default() -> Self {
        Self(RandomState::new().hash_one(()))
    }
}

impl BuildHasher for ShortKeys {
    type Hasher = ShortHasher;

    #[inline]
    fn build_hasher(&self) -> ShortHasher {
        ShortHasher(self.0)
    }
}

/// What has been taken in so far.
pub(crate) struct ShortHasher(u64);

impl ShortHasher {
    #[inline]
    fn take(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for ShortHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.take(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.take(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.take(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.take(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.take(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // Tables take their places from the low bits and their marks from the high ones.
        self.0 ^ self.0.rotate_left(32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::scalar::MacAddr;
    use std::collections::HashSet;
    use std::net::{IpAddr, Ipv4Addr};

    /// Of keys that differ in few bits, as those of one site do.
    fn spread(hashes: impl Iterator<Item = u64>) -> usize {
        hashes.map(|hash| hash & 0xffff).collect::<HashSet<u64>>().len()
    }

    #[test]
    fn keys_that_follow_one_another_spread_over_low_and_high_bits() {
        let keys = ShortKeys(77);
        let macs = (0..16_384_u32).map(|number| {
            let [_, high, middle, low] = number.to_be_bytes();
            keys.hash_one(MacAddr([2, 0, 0, high, middle, low]))
        });
        let addresses = (0..16_384_u32)
            .map(|number| keys.hash_one(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number))));
        let [macs, addresses]: [Vec<u64>; 2] = [macs.collect(), addresses.collect()];
        for hashes in [macs, addresses] {
            // Of 16,384 numbers drawn from 65,536, some 14,500 are different.
            assert!(spread(hashes.iter().copied()) > 13_500);
            assert!(spread(hashes.iter().map(|hash| hash >> 48)) > 13_500);
        }
    }

    #[test]
    fn another_seed_gives_other_places() {
        let [one, other] = [ShortKeys(1), ShortKeys(2)].map(|keys| keys.hash_one(MacAddr([2; 6])));
        assert_ne!(one, other);
    }
}
