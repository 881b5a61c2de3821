//! `classic-80`: ten ports in the 80 bits of destination address, VLAN identifier and MPLS label, with the counter as
//! the label's time to live, as the paper has them; more ports in further labels. Knows these bits, and which
//! ways give a field a value that ordinary equipment takes for something else ([`Reserved`]).
//!
//! ```text
//! positions 1 to 6: octets of the address    7: VLAN bits 11..4
//! 8: VLAN bits 3..0, label bits 19..16       9, 10: label bits 15..0
//! 11 and more: the bits of further labels, one behind the other
//! ```
//!
//! The bits of a further label are its 20, with a time to live of 0. In the dense form, for nodes that know it,
//! its time to live holds ports too, 28 bits in all, and a traffic class of 1 in the first label says so. What is
//! behind the last position is 0.

use super::carrier::{self, Carrier};
use super::{Next, PORTS_MAX, SourceRouteError, safe};
use crate::mpls::LabelStackEntry;
use crate::scalar::{MacAddr, MplsLabel, VlanId};
use core::fmt;

/// Ports in the address, the VLAN identifier and the first label.
pub const PORTS: usize = 10;
/// Labels of a header at most, for as many ports as a counter counts.
pub const LABELS_MAX: usize = 99;
/// The traffic class of the first label in the dense form.
const DENSE_CLASS: u8 = 1;

/// Bits of further labels that hold ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Density {
    /// The label alone.
    Labels,
    /// Its time to live too.
    Dense,
}

impl Density {
    const fn bits(self) -> usize {
        match self {
            Self::Labels => 20,
            Self::Dense => 28,
        }
    }

    /// The bits of an entry that hold ports.
    const fn payload(self, entry: [u8; LabelStackEntry::LEN]) -> u64 {
        let word = u32::from_be_bytes(entry) as u64;
        match self {
            Self::Labels => word >> 12,
            Self::Dense => word >> 12 << 8 | word & 0xff,
        }
    }

    /// An entry with these bits.
    const fn entry(self, payload: u64, is_bottom: bool) -> LabelStackEntry {
        let (label, ttl) = match self {
            Self::Labels => (payload, 0),
            Self::Dense => (payload >> 8, payload as u8),
        };
        LabelStackEntry {
            label: MplsLabel::from_low_bits(label as u32),
            traffic_class: 0,
            is_bottom,
            ttl,
        }
    }
}

/// Ports that so many labels hold with the address and the VLAN identifier.
#[must_use]
pub const fn capacity(labels: usize, density: Density) -> usize {
    match labels {
        0 => 0,
        _ => PORTS + (labels - 1) * density.bits() / 8,
    }
}

/// The labels that a way of so many ports needs.
#[must_use]
pub const fn labels_for(ports: usize, density: Density) -> usize {
    if ports <= PORTS { 1 } else { 1 + ((ports - PORTS) * 8).div_ceil(density.bits()) }
}

/// Bytes of a header with so many labels, addresses included; those of the frame that it stands for are 14.
#[must_use]
pub const fn len(labels: usize) -> usize {
    carrier::LEN + labels.saturating_sub(1) * LabelStackEntry::LEN
}

/// What the header of a frame says.
#[derive(Clone, Copy, Debug)]
pub struct ClassicView<'p> {
    /// The 80 bits of the first ten positions.
    bits: u128,
    further: &'p [u8],
    density: Density,
    /// Ports still to be taken.
    counter: u8,
}

impl<'p> ClassicView<'p> {
    /// Reads it from the start of a frame.
    ///
    /// # Errors
    /// The frame ends inside the header, is another ([`safe`] too), or has more to take than it holds.
    pub fn parse(frame: &'p [u8]) -> Result<Self, SourceRouteError> {
        let Carrier { destination, vlan, top } = read(frame)?;
        let labels = carrier::labels(frame, LABELS_MAX)?;
        let density =
            if top.traffic_class == DENSE_CLASS { Density::Dense } else { Density::Labels };
        let further = carrier::further(frame, labels);
        let (counter, ports) = (top.ttl, capacity(labels, density));
        if usize::from(counter) > ports {
            return Err(SourceRouteError::Counter { counter, ports });
        }
        let bits = first_bits(destination, vlan, top);
        Ok(Self { bits, further, density, counter })
    }

    /// Ports still to be taken.
    #[must_use]
    pub const fn counter(&self) -> u8 {
        self.counter
    }

    /// Bytes of the header.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        carrier::LEN + self.further.len()
    }

    /// The port at a position; none: the header does not hold it.
    #[must_use]
    pub fn port(&self, position: u8) -> Option<u8> {
        let position = usize::from(position);
        if (1..=PORTS).contains(&position) {
            return Some((self.bits >> (8 * (PORTS - position))) as u8);
        }
        let bit = 8 * position.checked_sub(PORTS + 1)?;
        let width = self.density.bits();
        let (entries, _) = self.further.as_chunks();
        let first = self.density.payload(*entries.get(bit / width)?);
        let second = entries.get(bit / width + 1).map_or(0, |entry| self.density.payload(*entry));
        let both = first << width | second;
        let is_held = bit + 8 <= entries.len() * width;
        is_held.then_some((both >> (2 * width - bit % width - 8)) as u8)
    }
}

/// A way in the order in which its ports are taken, of which none has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicHeader<'w> {
    way: &'w [u8],
    density: Density,
}

impl<'w> ClassicHeader<'w> {
    /// That of a way.
    ///
    /// # Errors
    /// It has no port, or more than a counter counts.
    pub fn new(way: &'w [u8], density: Density) -> Result<Self, SourceRouteError> {
        super::count(way, PORTS_MAX)?;
        Ok(Self { way, density })
    }

    /// Bytes of the header.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        len(labels_for(self.way.len(), self.density))
    }

    /// Writes it over a frame that has room for it; its source address stays, and so does what is behind.
    ///
    /// # Errors
    /// The bytes are too few, or the header would be read as one of [`safe`].
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, SourceRouteError> {
        let (need, have) = (self.len_bytes(), into.len());
        let header = into.get_mut(..need).ok_or(SourceRouteError::Truncated { need, have })?;
        let mut carrier = self.carrier();
        if safe::is_signed(&carrier) {
            return Err(SourceRouteError::LooksSafe);
        }
        let (entries, _) = header[carrier::LEN..].as_chunks_mut();
        carrier.top.is_bottom = entries.is_empty();
        let last = entries.len().saturating_sub(1);
        for (number, entry) in entries.iter_mut().enumerate() {
            let payload = self.payload(number * self.density.bits());
            *entry = self.density.entry(payload, number == last).to_bytes();
        }
        carrier.write(header)?;
        Ok(need)
    }

    /// The port at a position; behind the last it is 0.
    fn port(&self, position: usize) -> u8 {
        let place = self.way.len().checked_sub(position);
        place.and_then(|place| self.way.get(place)).copied().unwrap_or(0)
    }

    /// The address, the VLAN identifier and the first label, as if it were the last.
    fn carrier(&self) -> Carrier {
        let bits = (1..=PORTS).fold(0, |bits: u128, at| bits << 8 | u128::from(self.port(at)));
        let [.., a, b, c, d, e, f, v, w, _, _] = bits.to_be_bytes();
        let traffic_class = match self.density {
            Density::Labels => 0,
            Density::Dense => DENSE_CLASS,
        };
        Carrier {
            destination: MacAddr([a, b, c, d, e, f]),
            vlan: VlanId::from_low_bits(u32::from(u16::from_be_bytes([v, w]) >> 4)),
            top: LabelStackEntry {
                label: MplsLabel::from_low_bits((bits & 0xf_ffff) as u32),
                traffic_class,
                is_bottom: true,
                ttl: self.way.len() as u8,
            },
        }
    }

    /// The bits of the further label that begins with this bit behind position 10.
    fn payload(&self, from: usize) -> u64 {
        let width = self.density.bits();
        let first = PORTS + 1 + from / 8;
        let octets = (from % 8 + width).div_ceil(8);
        let bits = (first..first + octets).fold(0, |bits, at| bits << 8 | u64::from(self.port(at)));
        bits >> (octets * 8 - from % 8 - width) & ((1 << width) - 1)
    }

    /// What ordinary equipment, or a node of ours, takes for something else in the header of this way, whatever
    /// its counter is.
    pub fn reserved(&self) -> impl Iterator<Item = Reserved> + use<> {
        let carrier = self.carrier();
        let MacAddr(address) = carrier.destination;
        let further = labels_for(self.way.len(), self.density) - 1;
        let further = (0..further).map(|number| self.payload(number * self.density.bits()));
        let low = match self.density {
            Density::Labels => 0,
            Density::Dense => 8,
        };
        let has_special = further.fold(carrier.top.label.get() < LABEL_FIRST, |found, payload| {
            found || payload >> low < LABEL_FIRST.into()
        });
        let [a, b, c, d, e, f] = address;
        let found = [
            (a & 1 == 1, Reserved::GroupAddress),
            (address == [0xff; 6], Reserved::Broadcast),
            ([a, b, c, d, e] == BRIDGE_GROUP && f < 0x10, Reserved::BridgeGroup),
            (carrier.vlan.get() == 0, Reserved::PriorityTag),
            (carrier.vlan.get() == VLAN_RESERVED, Reserved::VlanId),
            (has_special, Reserved::SpecialLabel),
            (safe::is_signed(&carrier), Reserved::LooksSafe),
        ];
        found.into_iter().filter_map(|(is_it, reserved)| is_it.then_some(reserved))
    }
}

/// Labels below are for special purposes (RFC 7274).
const LABEL_FIRST: u32 = 16;
/// The identifier that IEEE 802.1Q section 9.6 sets aside.
const VLAN_RESERVED: u16 = 0xfff;
/// The first octets of the addresses that no bridge forwards (IEEE 802.1Q section 8.6.3).
const BRIDGE_GROUP: [u8; 5] = [0x01, 0x80, 0xc2, 0x00, 0x00];

/// What a header of this profile looks like to those who do not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reserved {
    /// The destination address is that of a group: the last port is odd.
    GroupAddress,
    /// It is everybody's.
    Broadcast,
    /// It is one of those that no bridge forwards.
    BridgeGroup,
    /// VLAN identifier 0 says priority and no VLAN.
    PriorityTag,
    /// VLAN identifier 4095 is set aside.
    VlanId,
    /// A label is one of those for special purposes.
    SpecialLabel,
    /// The header has the look of [`safe`], and would be read as one.
    LooksSafe,
}

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GroupAddress => "its last port is odd, so its address is that of a group",
            Self::Broadcast => "its address is everybody's",
            Self::BridgeGroup => "its address is one that no bridge forwards",
            Self::PriorityTag => "its VLAN identifier is 0, a priority without a VLAN",
            Self::VlanId => "its VLAN identifier is 4095, which is set aside",
            Self::SpecialLabel => "a label is below 16, for special purposes",
            Self::LooksSafe => "it would be read as safe-9",
        })
    }
}

/// What a node does with a frame, which stays as it is.
///
/// # Errors
/// As [`ClassicView::parse`] says.
#[inline]
pub fn next(frame: &[u8]) -> Result<Next, SourceRouteError> {
    Ok(look(frame)?.0)
}

/// A node's step along the header of a frame.
///
/// # Errors
/// As [`ClassicView::parse`] says; the frame is left as it was.
#[inline]
pub fn advance(frame: &mut [u8]) -> Result<Next, SourceRouteError> {
    let (next, counter) = look(frame)?;
    if let Next::Port(_) = next {
        carrier::set_ttl(frame, counter - 1);
    }
    Ok(next)
}

/// The next port, and the counter.
#[inline]
fn look(frame: &[u8]) -> Result<(Next, u8), SourceRouteError> {
    let Carrier { destination, vlan, top } = read(frame)?;
    let counter = top.ttl;
    // Of most ways, one label holds what is left.
    let port = if top.is_bottom && usize::from(counter) <= PORTS {
        (first_bits(destination, vlan, top) >> (8 * (PORTS - usize::from(counter)))) as u8
    } else {
        // The view has found that as many ports are there.
        ClassicView::parse(frame)?.port(counter).unwrap_or(0)
    };
    Ok((if counter == 0 { Next::End } else { Next::Port(port) }, counter))
}

/// The fields of a frame of this profile: one that has the look of [`safe`] is none.
#[inline]
fn read(frame: &[u8]) -> Result<Carrier, SourceRouteError> {
    let carrier = Carrier::read(frame)?;
    if safe::is_signed(&carrier) { Err(SourceRouteError::NoProfile) } else { Ok(carrier) }
}

#[inline]
fn first_bits(MacAddr([a, b, c, d, e, f]): MacAddr, vlan: VlanId, top: LabelStackEntry) -> u128 {
    let address = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    u128::from(address) << 32 | u128::from(vlan.get()) << 20 | u128::from(top.label.get())
}
