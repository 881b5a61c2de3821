//! Polynomials over GF(2), and numbers by their residues: a number of a way that every node reads its port from by the
//! remainder of a division (Chinese remainder theorem). Knows arithmetic alone.
//!
//! A polynomial is its coefficients as bits, t^0 the lowest. Numbers of ways are octets, the highest first.

use crate::source_route::SourceRouteError;

/// Degree of a polynomial at most.
pub const DEGREE_MAX: u32 = 16;
/// Octets of the number of a way at most.
pub const IDENTIFIER_BYTES_MAX: usize = 128;

/// A polynomial of degree 1 to [`DEGREE_MAX`] that no other divides: what a node divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Irreducible(u32);

impl Irreducible {
    /// The polynomial with these coefficients; none: it can be divided, or its degree is another.
    #[must_use]
    pub fn new(bits: u32) -> Option<Self> {
        let degree = degree(bits).filter(|degree| (1..=DEGREE_MAX).contains(degree))?;
        // A divisor of more than half the degree has another of less.
        let mut divisors = 2_u32..2 << (degree / 2);
        let is_whole = !divisors.any(|divisor| remainder(bits.into(), divisor) == 0);
        is_whole.then_some(Self(bits))
    }

    /// All of one degree, the lowest first.
    pub fn of_degree(degree: u32) -> impl Iterator<Item = Self> {
        let range = if degree <= DEGREE_MAX { 1 << degree..2 << degree } else { 0..0 };
        range.filter_map(Self::new)
    }

    /// Its coefficients.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Its degree.
    #[must_use]
    pub const fn degree(self) -> u32 {
        u32::BITS - 1 - self.0.leading_zeros()
    }

    /// What a number leaves, whose length is any. Takes no table, as [`Reducer::residue`] does, and longer.
    #[must_use]
    pub fn residue(self, number: &[u8]) -> u16 {
        let (rest, words) = number.as_rchunks::<4>();
        let octets = rest.iter().map(|octet| (8, u32::from(*octet)));
        let parts = octets.chain(words.iter().map(|word| (32, u32::from_be_bytes(*word))));
        let left = parts.fold(0, |left, (bits, part)| {
            remainder(u64::from(left) << bits | u64::from(part), self.0)
        });
        left as u16
    }

    /// The inverse of a polynomial of lower degree, which is not 0 (Euclid's algorithm).
    fn inverse(self, of: u32) -> u32 {
        let (mut former, mut rest) = (self.0, of);
        let (mut before, mut factor) = (0_u64, 1_u64);
        while degree(rest).unwrap_or_default() > 0 {
            let (mut left, mut next) = (former, before);
            while let Some(shift) = degree(left).and_then(|high| high.checked_sub(degree(rest)?)) {
                left ^= rest << shift;
                next ^= factor << shift;
            }
            (former, rest) = (rest, left);
            (before, factor) = (factor, next);
        }
        remainder(factor, self.0)
    }
}

fn degree(bits: u32) -> Option<u32> {
    bits.checked_ilog2()
}

/// What a division by a polynomial that is not 0 leaves.
fn remainder(of: u64, by: u32) -> u32 {
    let high = degree(by).unwrap_or_default();
    let mut left = of;
    while let Some(shift) = left.checked_ilog2().and_then(|left| left.checked_sub(high)) {
        left ^= u64::from(by) << shift;
    }
    left as u32
}

fn product(one: u32, other: u32) -> u64 {
    let set = (0..u32::BITS).filter(|bit| other >> bit & 1 == 1);
    set.fold(0, |sum, bit| sum ^ u64::from(one) << bit)
}

/// A polynomial of high degree, 64 coefficients to a word, the lowest first.
#[derive(Clone)]
struct Long([u64; WORDS]);

/// A word more than the longest number has: what is multiplied in between is longer by a degree.
const WORDS: usize = IDENTIFIER_BYTES_MAX / 8 + 1;

impl Long {
    fn one() -> Self {
        let mut words = [0; WORDS];
        words[0] = 1;
        Self(words)
    }

    fn modulo(&self, by: Irreducible) -> u32 {
        let mut left = 0;
        for word in self.0.iter().rev() {
            for half in [word >> 32, word & 0xffff_ffff] {
                left = remainder(u64::from(left) << 32 | half, by.0);
            }
        }
        left
    }

    /// Adds a product with a polynomial of low degree.
    fn add_product(&mut self, of: &Self, with: u32) {
        for bit in (0..=DEGREE_MAX).filter(|bit| with >> bit & 1 == 1) {
            let mut carried = 0;
            for (place, word) in self.0.iter_mut().zip(of.0) {
                *place ^= word << bit | carried;
                carried = if bit == 0 { 0 } else { word >> (64 - bit) };
            }
        }
    }
}

/// Writes the number that leaves each of these residues, by the polynomial of each: of all that do, the lowest. The
/// polynomials are different ones. Octets in front of it are 0.
///
/// # Errors
/// There is no polynomial, one stands there twice or has a residue of its own degree, or the octets are too few.
pub fn identify(residues: &[(Irreducible, u16)], into: &mut [u8]) -> Result<(), SourceRouteError> {
    let degrees = residues.iter().map(|(by, _)| by.degree() as usize);
    let (need, have) = (degrees.sum::<usize>().div_ceil(8), into.len());
    let most = IDENTIFIER_BYTES_MAX;
    if residues.is_empty() {
        return Err(SourceRouteError::NoPorts);
    }
    if need > have {
        return Err(SourceRouteError::Truncated { need, have });
    }
    if have > most {
        return Err(SourceRouteError::Length(have));
    }
    let (mut number, mut all) = (Long([0; WORDS]), Long::one());
    for (by, residue) in residues {
        let residue = u32::from(*residue);
        let unit = all.modulo(*by);
        if unit == 0 || residue >> by.degree() != 0 {
            return Err(SourceRouteError::Residue(residue as u16));
        }
        let missing = number.modulo(*by) ^ residue;
        let factor = remainder(product(missing, by.inverse(unit)), by.0);
        number.add_product(&all, factor);
        let former = all.clone();
        all = Long([0; WORDS]);
        all.add_product(&former, by.0);
    }
    for (place, at) in into.iter_mut().rev().zip(0_usize..) {
        *place = (number.0[at / 8] >> (8 * (at % 8))) as u8;
    }
    Ok(())
}

/// Octets that one step of [`Reducer::residue`] takes together.
const SLICE: usize = 8;

/// Divides by one polynomial, eight octets at a time: tables of what each octet leaves at each place, as those of a CRC
/// (Kounavis and Berry, Novel table lookup-based algorithms for high-performance CRC generation, 2008).
#[derive(Clone, Debug)]
pub struct Reducer {
    by: Irreducible,
    tables: [[u16; 256]; SLICE + 2],
}

impl Reducer {
    /// That of a polynomial.
    #[must_use]
    pub fn new(by: Irreducible) -> Self {
        let mut tables = [[0; 256]; SLICE + 2];
        for (table, place) in tables.iter_mut().zip(0..) {
            for (entry, octet) in table.iter_mut().zip(0_u64..) {
                // Two octets and more are too high to be shifted at once.
                let shifted =
                    (0..place).fold(octet, |left, _: u32| remainder(left << 8, by.0).into());
                *entry = remainder(shifted, by.0) as u16;
            }
        }
        Self { by, tables }
    }

    /// What it divides by.
    #[must_use]
    pub const fn by(&self) -> Irreducible {
        self.by
    }

    /// What a number leaves.
    #[must_use]
    #[inline]
    pub fn residue(&self, number: &[u8]) -> u16 {
        let t = &self.tables;
        // Each step waits for the one before, so there are as few as can be.
        let (rest, slices) = number.as_rchunks::<SLICE>();
        let (octets, halves) = rest.as_rchunks::<{ SLICE / 2 }>();
        let mut left = 0;
        for octet in octets {
            left = self.moved(left, 1) ^ t[0][usize::from(*octet)];
        }
        for half in halves {
            let [e, f, g, h] = half.map(usize::from);
            left = self.moved(left, SLICE / 2) ^ t[3][e] ^ t[2][f] ^ t[1][g] ^ t[0][h];
        }
        for slice in slices {
            let [a, b, c, d, e, f, g, h] = slice.map(usize::from);
            let first = t[7][a] ^ t[6][b] ^ t[5][c] ^ t[4][d];
            left = self.moved(left, SLICE) ^ first ^ t[3][e] ^ t[2][f] ^ t[1][g] ^ t[0][h];
        }
        left
    }

    /// What something leaves that stands so many octets higher.
    #[inline(always)]
    fn moved(&self, left: u16, octets: usize) -> u16 {
        let [high, low] = left.to_be_bytes().map(usize::from);
        self.tables[octets + 1][high] ^ self.tables[octets][low]
    }
}

#[cfg(test)]
mod tests;
