//! `safe-9`: nine ports in the fields of an ordinary frame, such that each of them has an ordinary value whatever
//! the ports are: a locally administered address of one station, a VLAN identifier from 1 to 2048, and a
//! label that no standard reserves. Knows these bits; refuses to know more labels.
//!
//! ```text
//! octet 0:     v71..v66 | 1 | 0        octets 1 to 5: v65..v26
//! VLAN:        v25..v15, plus 1        label:         2^19 + v14..v0
//! TTL:         counter + 1
//! ```
//!
//! `v71` is the highest bit of the port at position 1; what is behind the last port is 0.

use super::carrier::{self, Carrier};
use super::{Next, SourceRouteError};
use crate::mpls::LabelStackEntry;
use crate::scalar::{MacAddr, MplsLabel, VlanId};

/// Ports of a header.
pub const PORTS: usize = 9;
/// Bytes of the header, addresses included; those of the frame that it stands for are 14.
pub const LEN: usize = carrier::LEN;

/// Bits of all ports.
const BITS: u32 = 72;
/// Bits of them in the VLAN identifier and the label, and in the label alone.
const BELOW_ADDRESS: u32 = 26;
const IN_LABEL: u32 = 15;
/// The bit of the label that no reserved one has, and those that are 0 beside it.
const LABEL_MARK: u32 = 1 << 19;
const LABEL_MARK_MASK: u32 = 0x1f << IN_LABEL;
const LABEL_BITS: u128 = (1 << IN_LABEL) - 1;
const VLAN_BITS: u128 = (1 << (BELOW_ADDRESS - IN_LABEL)) - 1;
const VLAN_MAX: u16 = 2_048;
/// The bits of octet 0 that say «locally administered» and «one station» (IEEE 802 section 8).
const LOCAL: u8 = 0b10;
const LOCAL_MASK: u8 = 0b11;

/// Has a frame that is a carrier the look of this profile, whatever its ports?
#[must_use]
#[inline]
pub fn has_signature(frame: &[u8]) -> bool {
    Carrier::read(frame).is_ok_and(|carrier| is_signed(&carrier))
}

#[inline]
pub(super) fn is_signed(carrier: &Carrier) -> bool {
    let Carrier { destination: MacAddr([first, ..]), vlan, top } = carrier;
    first & LOCAL_MASK == LOCAL
        && top.label.get() & LABEL_MARK_MASK == LABEL_MARK
        && (1..=VLAN_MAX).contains(&vlan.get())
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafeHeader {
    /// The 72 bits of its ports.
    bits: u128,
    counter: u8,
}

impl SafeHeader {
    /// That of a way, in the order in which its ports are taken, of which none has been.
    ///
    /// # Errors
    /// There is no port, or there are more than [`PORTS`].
    pub fn new(way: &[u8]) -> Result<Self, SourceRouteError> {
        let counter = super::count(way, PORTS)?;
        let last_first = way.iter().rev().fold(0, |bits, port| bits << 8 | u128::from(*port));
        let bits = last_first << (BITS - 8 * u32::from(counter));
        Ok(Self { bits, counter })
    }

    /// Reads it from the start of a frame.
    ///
    /// # Errors
    /// The frame is too short or another, or the time to live is none that such a frame has.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, SourceRouteError> {
        let carrier = Carrier::read(frame)?;
        if !is_signed(&carrier) {
            return Err(SourceRouteError::NoProfile);
        }
        let Carrier { destination: MacAddr([first, b, c, d, e, f]), vlan, top } = carrier;
        if !top.is_bottom {
            return Err(SourceRouteError::MoreLabels);
        }
        let counter = top.ttl.checked_sub(1).ok_or(SourceRouteError::TtlExpired)?;
        if usize::from(counter) > PORTS {
            return Err(SourceRouteError::Counter { counter, ports: PORTS });
        }
        let address = u64::from_be_bytes([0, 0, 0, first >> 2, b, c, d, e]);
        let high = u128::from(address) << 8 | u128::from(f);
        let low = u128::from(vlan.get() - 1) << IN_LABEL | u128::from(top.label.get()) & LABEL_BITS;
        Ok(Self { bits: high << BELOW_ADDRESS | low, counter })
    }

    /// Ports still to be taken, up to [`PORTS`].
    #[must_use]
    pub const fn counter(&self) -> u8 {
        self.counter
    }

    /// The port at a position, 1 to [`PORTS`]; none: the header has no such position.
    #[must_use]
    #[inline]
    pub const fn port(&self, position: u8) -> Option<u8> {
        match position {
            1..=9 => Some((self.bits >> (BITS - 8 * position as u32)) as u8),
            _ => None,
        }
    }

    /// Writes it over a frame that has [`LEN`] bytes for it; its source address stays, and so does what is
    /// behind.
    ///
    /// # Errors
    /// The bytes are too few.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, SourceRouteError> {
        let high = (self.bits >> BELOW_ADDRESS) as u64;
        let [_, _, first, b, c, d, e, f] = high.to_be_bytes();
        let vlan = (self.bits >> IN_LABEL & VLAN_BITS) as u16 + 1;
        let carrier = Carrier {
            destination: MacAddr([first << 2 | LOCAL, b, c, d, e, f]),
            vlan: VlanId::from_low_bits(vlan.into()),
            top: LabelStackEntry {
                label: MplsLabel::from_low_bits(LABEL_MARK | (self.bits & LABEL_BITS) as u32),
                traffic_class: 0,
                is_bottom: true,
                ttl: self.counter + 1,
            },
        };
        carrier.write(into)?;
        Ok(LEN)
    }
}

/// What a node does with a frame, which stays as it is.
///
/// # Errors
/// As [`SafeHeader::parse`] says.
#[inline]
pub fn next(frame: &[u8]) -> Result<Next, SourceRouteError> {
    let header = SafeHeader::parse(frame)?;
    Ok(header.port(header.counter).map_or(Next::End, Next::Port))
}

/// A node's step along the header of a frame.
///
/// # Errors
/// As [`SafeHeader::parse`] says; the frame is left as it was.
#[inline]
pub fn advance(frame: &mut [u8]) -> Result<Next, SourceRouteError> {
    let header = SafeHeader::parse(frame)?;
    let Some(port) = header.port(header.counter) else { return Ok(Next::End) };
    carrier::set_ttl(frame, header.counter);
    Ok(Next::Port(port))
}
