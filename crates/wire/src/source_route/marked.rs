//! Headers of [`safe`] and [`classic`] that say whose packet they are on: a mark of 16 bits stands in their last two
//! positions, which no way of so few ports reaches. Knows where the mark is, and how a frame is made of one that
//! has lost its address and its EtherType; refuses to know what the mark stands for.
//!
//! | position | `safe-9` | `classic-80` |
//! |---|---|---|
//! | 1 to 7 | ports, the last at 1 | the same |
//! | 8 | high octet of the mark | 0x11: neither VLAN nor label has a reserved value then |
//! | 9 | low octet | high octet |
//! | 10 | there is none | low octet |

pub mod fields;

use super::carrier;
use super::classic::{self, ClassicHeader, ClassicView, Density, Reserved};
use super::safe::{self, SafeHeader};
use super::{Profile, SourceRouteError, ip_ether_type, profile};
use crate::ethernet::{self, ADDRESSES_BYTES};
use crate::scalar::MacAddr;

/// The profiles whose headers may have a mark.
pub const PROFILES: [Profile; 2] = [Profile::Safe9, Profile::Classic80];
/// Ports of a header that has one.
pub const PORTS: usize = 7;
/// Bytes of the header, addresses included.
pub const LEN: usize = carrier::LEN;
/// Bytes by which a frame grows.
pub const ADDED_BYTES: usize = LEN - ethernet::HEADER_BYTES;
/// What stands at position 8 of `classic-80`: the lowest bits of the VLAN identifier and the highest of the label.
/// No header with it looks like `safe-9`.
const FILLING: u8 = 0x11;

/// What such a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkedHeader {
    profile: Profile,
    /// By position, the last first; behind the first is 0.
    ports: [u8; PORTS],
    counter: u8,
    mark: u16,
}

impl MarkedHeader {
    /// That of a way, in the order in which its ports are taken, of which none has been.
    ///
    /// # Errors
    /// There is no port, there are more than [`PORTS`], or the profile has no such headers.
    pub fn new(profile: Profile, way: &[u8], mark: u16) -> Result<Self, SourceRouteError> {
        if !matches!(profile, Profile::Safe9 | Profile::Classic80) {
            return Err(SourceRouteError::NoProfile);
        }
        let counter = super::count(way, PORTS)?;
        let mut ports = [0; PORTS];
        ports.iter_mut().zip(way.iter().rev()).for_each(|(place, port)| *place = *port);
        Ok(Self { profile, ports, counter, mark })
    }

    /// Reads it from the start of a frame.
    ///
    /// # Errors
    /// The frame has no header of these profiles, or one without a mark.
    pub fn parse(frame: &[u8]) -> Result<Self, SourceRouteError> {
        let profile = profile(frame).ok_or(SourceRouteError::NoProfile)?;
        let mut ports = [0; PORTS];
        let places = ports.iter_mut().zip(1..);
        let (counter, high, low) = match profile {
            Profile::Safe9 => {
                let header = SafeHeader::parse(frame)?;
                places.for_each(|(place, at)| *place = header.port(at).unwrap_or(0));
                (header.counter(), header.port(8), header.port(9))
            }
            Profile::Classic80 => {
                let view = ClassicView::parse(frame)?;
                if view.len_bytes() != LEN || view.port(8) != Some(FILLING) {
                    return Err(SourceRouteError::NoMark);
                }
                places.for_each(|(place, at)| *place = view.port(at).unwrap_or(0));
                (view.counter(), view.port(9), view.port(10))
            }
            _ => return Err(SourceRouteError::NoProfile),
        };
        if usize::from(counter) > PORTS {
            return Err(SourceRouteError::Counter { counter, ports: PORTS });
        }
        let mark = high.zip(low).map(|(high, low)| u16::from_be_bytes([high, low]));
        let mark = mark.ok_or(SourceRouteError::NoMark)?;
        Ok(Self { profile, ports, counter, mark })
    }

    /// Its profile.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// Ports still to be taken.
    #[must_use]
    pub const fn counter(&self) -> u8 {
        self.counter
    }

    /// The mark.
    #[must_use]
    pub const fn mark(&self) -> u16 {
        self.mark
    }

    /// The ports of the way, in the order in which they are taken.
    pub fn way(&self) -> impl Iterator<Item = u8> {
        self.ports.into_iter().rev().skip_while(|port| *port == 0)
    }

    /// All positions of the profile, the highest first, and how many they are.
    fn positions(&self) -> ([u8; classic::PORTS], usize) {
        let [high, low] = self.mark.to_be_bytes();
        let mut positions = [0; classic::PORTS];
        let (behind, count): (&[u8], _) = match self.profile {
            Profile::Safe9 => (&[low, high], safe::PORTS),
            _ => (&[low, high, FILLING], classic::PORTS),
        };
        let all = behind.iter().chain(self.ports.iter().rev());
        positions.iter_mut().zip(all).for_each(|(place, octet)| *place = *octet);
        (positions, count)
    }

    /// Writes it over a frame that has [`LEN`] bytes for it; its source address stays, and so does what is
    /// behind.
    ///
    /// # Errors
    /// The bytes are too few.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, SourceRouteError> {
        let (positions, count) = self.positions();
        let way = positions.get(..count).unwrap_or_default();
        let (length, ttl) = match self.profile {
            Profile::Safe9 => (SafeHeader::new(way)?.emit(into)?, self.counter + 1),
            _ => (ClassicHeader::new(way, Density::Labels)?.emit(into)?, self.counter),
        };
        carrier::set_ttl(into, ttl);
        Ok(length)
    }

    /// What ordinary equipment takes for something else in it, if there is anything.
    #[must_use]
    pub fn reserved(&self) -> Option<Reserved> {
        let (positions, count) = self.positions();
        let way = positions.get(..count).filter(|_| self.profile == Profile::Classic80)?;
        ClassicHeader::new(way, Density::Labels).ok()?.reserved().next()
    }
}

/// Makes the frame that was in a way out of one whose header has a mark: it begins [`ADDED_BYTES`] further on
/// then, for this station, with the EtherType of its IP packet.
///
/// # Errors
/// The frame is too short, or holds no IP packet; it is left as it was.
pub fn restore(frame: &mut [u8], destination: MacAddr) -> Result<(), SourceRouteError> {
    let ether_type = ip_ether_type(frame.get(LEN..).unwrap_or_default())?;
    frame.copy_within(..ADDRESSES_BYTES, ADDED_BYTES);
    if let Some(place) = frame.get_mut(ADDED_BYTES + ADDRESSES_BYTES..LEN) {
        place.copy_from_slice(&ether_type.0.to_be_bytes());
    }
    let have = frame.len();
    let inner = frame.get_mut(ADDED_BYTES..).unwrap_or_default();
    ethernet::set_destination(inner, destination)
        .map_err(|_| SourceRouteError::Truncated { need: LEN, have })
}

#[cfg(test)]
mod tests;
