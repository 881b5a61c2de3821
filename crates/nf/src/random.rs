//! Numbers that look as if drawn and follow from a seed. Refuses to be a secret: whoever knows one knows all.

/// Numbers that follow from a seed (`SplitMix64`: Steele, Lea, Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Where it stands: the seed of the numbers that come next.
    #[must_use]
    pub const fn state(&self) -> u64 {
        self.0
    }

    /// The next one, below a bound; below 1, it is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % (bound.max(1) as u64)).unwrap_or(0)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).copied()
    }
}
