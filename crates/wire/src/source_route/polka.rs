//! `polka`: one number for the whole way, of which each node reads its port by the remainder of a division
//! (PolKA, NetSoft 2020; the arithmetic is in [`residues`]). Knows these bits; refuses to know which
//! polynomial is whose.
//!
//! ```text
//! | destination 6 | source 6 | 0x88b6 | version 4b, pass 4b | degree | hop limit | flags | length |
//! | number length | path 3 | EtherType 2 |
//! ```
//!
//! The number never changes under way, only the hop limit does. A node that a way comes by with different ports has
//! a polynomial for each: the pass says which of them it divides by. The path is there with flag 0x04.

pub mod residues;

use super::{Next, SourceRouteError};
use crate::ethernet::{self, ADDRESSES_BYTES};
use crate::scalar::{EtherType, Spi};
use residues::{IDENTIFIER_BYTES_MAX, Reducer};

/// Bytes of a header without the number of the way, with addresses and a path.
pub const BYTES_WITHOUT_NUMBER: usize = NUMBER_AT + PATH_BYTES + ETHER_TYPE_BYTES;

const VERSION: u8 = 1;
/// The greatest pass.
const PASS_MAX: u8 = 0x0f;
/// The flag of the path.
const PATH: u8 = 0x04;
const PATH_BYTES: usize = 3;
const ETHER_TYPE_BYTES: usize = 2;
/// Where version and pass are.
const FORM_AT: usize = ethernet::HEADER_BYTES;
/// Where the hop limit is.
const HOPS_AT: usize = ethernet::HEADER_BYTES + 2;
/// Where the number begins.
const NUMBER_AT: usize = ethernet::HEADER_BYTES + 5;

/// The degree of the polynomials of all nodes of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Degree {
    /// 30 polynomials.
    Eight,
    /// 4,080 polynomials.
    Sixteen,
}

impl Degree {
    /// Of a number, as headers say it.
    fn of(number: u8) -> Result<Self, SourceRouteError> {
        match number {
            8 => Ok(Self::Eight),
            16 => Ok(Self::Sixteen),
            _ => Err(SourceRouteError::Degree(number)),
        }
    }

    /// The degree.
    #[must_use]
    pub const fn get(self) -> u8 {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }

    /// Octets of the number of a way over so many nodes.
    #[must_use]
    pub const fn octets(self, nodes: usize) -> usize {
        nodes * self.get() as usize / 8
    }
}

/// The octets in front of the number, and the number.
#[derive(Clone, Copy, Debug)]
struct Fixed<'p> {
    pass: u8,
    degree: Degree,
    hops: u8,
    flags: u8,
    number: &'p [u8],
}

impl<'p> Fixed<'p> {
    #[inline]
    fn read(frame: &'p [u8]) -> Result<Self, SourceRouteError> {
        if !ethernet::ethertype_is(frame, EtherType::RESIDUE_ROUTE) {
            return Err(SourceRouteError::NoProfile);
        }
        let have = frame.len();
        let header: &[u8; NUMBER_AT] =
            frame.first_chunk().ok_or(SourceRouteError::Truncated { need: NUMBER_AT, have })?;
        let [.., form, degree, hops, flags, length] = *header;
        if form >> 4 != VERSION {
            return Err(SourceRouteError::Version(form >> 4));
        }
        let degree = Degree::of(degree)?;
        if flags & !PATH != 0 {
            return Err(SourceRouteError::Flags(flags));
        }
        let length = usize::from(length);
        let is_whole = length % degree.octets(1) == 0;
        if length == 0 || length > IDENTIFIER_BYTES_MAX || !is_whole {
            return Err(SourceRouteError::Length(length));
        }
        let need = NUMBER_AT + length;
        let number = frame.get(NUMBER_AT..need);
        let number = number.ok_or(SourceRouteError::Truncated { need, have })?;
        Ok(Self { pass: form & PASS_MAX, degree, hops, flags, number })
    }

    /// The port that one of these nodes' polynomials reads.
    #[inline]
    fn port(&self, own: &[Reducer]) -> Result<u8, SourceRouteError> {
        let reducer = own.get(usize::from(self.pass));
        let reducer = reducer.ok_or(SourceRouteError::Pass(self.pass))?;
        if reducer.by().degree() != u32::from(self.degree.get()) {
            return Err(SourceRouteError::Degree(self.degree.get()));
        }
        let residue = reducer.residue(self.number);
        u8::try_from(residue).map_err(|_| SourceRouteError::Residue(residue))
    }
}

/// What the header of a frame says.
#[derive(Clone, Copy, Debug)]
pub struct PolkaView<'p> {
    fixed: Fixed<'p>,
    path: Option<Spi>,
    ether_type: EtherType,
}

impl<'p> PolkaView<'p> {
    /// Reads it from the start of a frame.
    ///
    /// # Errors
    /// The frame ends inside the header, is another, or the header says what it cannot.
    pub fn parse(frame: &'p [u8]) -> Result<Self, SourceRouteError> {
        let fixed = Fixed::read(frame)?;
        let mut rest = frame.get(NUMBER_AT + fixed.number.len()..).unwrap_or_default();
        let truncated = |need| SourceRouteError::Truncated { need, have: frame.len() };
        let mut path = None;
        let mut end = NUMBER_AT + fixed.number.len();
        if fixed.flags & PATH != 0 {
            end += PATH_BYTES;
            let ([a, b, c], behind) = rest.split_first_chunk().ok_or_else(|| truncated(end))?;
            (path, rest) = (Some(Spi::from_low_bits(u32::from_be_bytes([0, *a, *b, *c]))), behind);
        }
        let octets = rest.first_chunk().ok_or_else(|| truncated(end + ETHER_TYPE_BYTES))?;
        Ok(Self { fixed, path, ether_type: EtherType(u16::from_be_bytes(*octets)) })
    }

    /// Which of its polynomials a node divides by.
    #[must_use]
    pub const fn pass(&self) -> u8 {
        self.fixed.pass
    }

    /// The degree of these.
    #[must_use]
    pub const fn degree(&self) -> Degree {
        self.fixed.degree
    }

    /// How many nodes it may still pass.
    #[must_use]
    pub const fn hops(&self) -> u8 {
        self.fixed.hops
    }

    /// The number of the way.
    #[must_use]
    pub const fn number(&self) -> &'p [u8] {
        self.fixed.number
    }

    /// Whose packet it is.
    #[must_use]
    pub const fn path(&self) -> Option<Spi> {
        self.path
    }

    /// What is behind the header.
    #[must_use]
    pub const fn ether_type(&self) -> EtherType {
        self.ether_type
    }

    /// Bytes of the header, addresses included.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        let path = if self.path.is_some() { PATH_BYTES } else { 0 };
        NUMBER_AT + self.fixed.number.len() + path + ETHER_TYPE_BYTES
    }
}

/// What a header is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolkaHeader<'w> {
    /// The degree of all polynomials.
    pub degree: Degree,
    /// Which of its polynomials each node divides by.
    pub pass: u8,
    /// How many nodes it may pass.
    pub hops: u8,
    /// The number of the way ([`residues::identify`]).
    pub number: &'w [u8],
    /// Whose packet it is.
    pub path: Option<Spi>,
    /// What is behind the header.
    pub ether_type: EtherType,
}

impl PolkaHeader<'_> {
    /// Bytes of the header, addresses included.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        let path = if self.path.is_some() { PATH_BYTES } else { 0 };
        NUMBER_AT + self.number.len() + path + ETHER_TYPE_BYTES
    }

    /// Writes it behind the addresses of a frame that has room for it, and answers its length with them.
    ///
    /// # Errors
    /// The bytes are too few, or no header has such a pass or a number of this length.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, SourceRouteError> {
        let Self { degree, pass, hops, number, path, ether_type } = *self;
        let (need, have) = (self.len_bytes(), into.len());
        let header = into.get_mut(..need).ok_or(SourceRouteError::Truncated { need, have })?;
        let length = number.len();
        let is_whole = length % degree.octets(1) == 0;
        let octet = u8::try_from(length).ok();
        let octet = octet.filter(|_| length > 0 && length <= IDENTIFIER_BYTES_MAX && is_whole);
        let octet = octet.ok_or(SourceRouteError::Length(length))?;
        if pass > PASS_MAX {
            return Err(SourceRouteError::Pass(pass));
        }
        let flags = if path.is_some() { PATH } else { 0 };
        let [high, low] = EtherType::RESIDUE_ROUTE.0.to_be_bytes();
        let fixed = [high, low, VERSION << 4 | pass, degree.get(), hops, flags, octet];
        header[ADDRESSES_BYTES..NUMBER_AT].copy_from_slice(&fixed);
        let (place, behind) = header[NUMBER_AT..].split_at_mut(length);
        place.copy_from_slice(number);
        if let (Some(path), Some(place)) = (path, behind.get_mut(..PATH_BYTES)) {
            place.copy_from_slice(&path.get().to_be_bytes()[1..]);
        }
        header[need - ETHER_TYPE_BYTES..].copy_from_slice(&ether_type.0.to_be_bytes());
        Ok(need)
    }
}

/// What a node with these polynomials does with a frame, which stays as it is.
///
/// # Errors
/// The frame is too short or another, its header says what it cannot, the node has no polynomial of its pass
/// and its degree, no port has the number that this leaves, or the hop limit is used up.
#[inline]
pub fn next(frame: &[u8], own: &[Reducer]) -> Result<Next, SourceRouteError> {
    Ok(look(frame, own)?.0)
}

/// A node's step: the number stays, and the hop limit is one less.
///
/// # Errors
/// As [`next`] says; the frame is left as it was.
#[inline]
pub fn advance(frame: &mut [u8], own: &[Reducer]) -> Result<Next, SourceRouteError> {
    let (next, hops) = look(frame, own)?;
    if let Some(place) = frame.get_mut(HOPS_AT) {
        *place = hops;
    }
    Ok(next)
}

/// Begins the next pass: from here on nodes divide by the next of their polynomials.
///
/// # Errors
/// The frame is too short or another, its header says what it cannot, or is in its last pass; it is left as it was.
pub fn begin_pass(frame: &mut [u8]) -> Result<(), SourceRouteError> {
    let pass = Fixed::read(frame)?.pass;
    match frame.get_mut(FORM_AT).filter(|_| pass < PASS_MAX) {
        Some(form) => *form += 1,
        None => return Err(SourceRouteError::Pass(pass)),
    }
    Ok(())
}

/// The port, and the hop limit behind this node.
#[inline]
fn look(frame: &[u8], own: &[Reducer]) -> Result<(Next, u8), SourceRouteError> {
    let fixed = Fixed::read(frame)?;
    let hops = fixed.hops.checked_sub(1).ok_or(SourceRouteError::TtlExpired)?;
    Ok((Next::Port(fixed.port(own)?), hops))
}

#[cfg(test)]
mod tests;
