//! Headers with a mark as values of fields, for equipment that writes and matches fields one by one. Knows which bits
//! of a field hold what; refuses to know who matches them.

use super::{LEN, MarkedHeader, PORTS};
use crate::scalar::{MacAddr, MplsLabel, VlanId};
use crate::source_route::carrier::Carrier;
use crate::source_route::{Profile, SourceRouteError};

/// Values that agree with one in the bits of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masked<T> {
    /// The value, 0 outside of the mask.
    pub value: T,
    /// The bits that count.
    pub mask: T,
}

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderFields {
    /// Destination address.
    pub destination: MacAddr,
    /// VLAN identifier.
    pub vlan: VlanId,
    /// The label.
    pub label: MplsLabel,
    /// Its time to live.
    pub ttl: u8,
}

impl HeaderFields {
    /// Those of the frame that begins with a header.
    ///
    /// # Errors
    /// As [`MarkedHeader::parse`] says.
    pub fn of(frame: &[u8]) -> Result<Self, SourceRouteError> {
        MarkedHeader::parse(frame)?;
        let Carrier { destination, vlan, top } = Carrier::read(frame)?;
        Ok(Self { destination, vlan, label: top.label, ttl: top.ttl })
    }
}

/// The look of all headers of a profile with this mark whose next port is this one, with so many ports still to be
/// taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaiting {
    /// The destination address.
    pub destination: Masked<MacAddr>,
    /// The label.
    pub label: MplsLabel,
    /// Its time to live.
    pub ttl: u8,
    /// The bits of ports in the VLAN identifier.
    vlan: Masked<u16>,
    /// What the identifier is more than these bits.
    plus: u16,
}

impl Awaiting {
    /// Finds it in two headers that differ in all that may be otherwise.
    ///
    /// # Errors
    /// No header has so many ports to take, or the profile has no such headers.
    pub fn of(
        profile: Profile,
        counter: u8,
        port: u8,
        mark: u16,
    ) -> Result<Self, SourceRouteError> {
        let position = usize::from(counter);
        if !(1..=PORTS).contains(&position) {
            return Err(SourceRouteError::Counter { counter, ports: PORTS });
        }
        let with = |other: u8| {
            let mut way = [other; PORTS];
            way[PORTS - position] = port;
            let mut bytes = [0; LEN];
            MarkedHeader { counter, ..MarkedHeader::new(profile, &way, mark)? }.emit(&mut bytes)?;
            HeaderFields::of(&bytes)
        };
        let (one, other) = (with(0)?, with(u8::MAX)?);
        let same = |place: usize| !(one.destination.0[place] ^ other.destination.0[place]);
        let mask: [u8; 6] = core::array::from_fn(same);
        let value = core::array::from_fn(|place| one.destination.0[place] & mask[place]);
        // `safe-9` writes the bits of ports plus one.
        let plus = u16::from(profile == Profile::Safe9);
        let (bits, other) = (one.vlan.get() - plus, other.vlan.get() - plus);
        let fixed = !(bits ^ other);
        Ok(Self {
            destination: Masked { value: MacAddr(value), mask: MacAddr(mask) },
            label: one.label,
            ttl: one.ttl,
            vlan: Masked { value: bits & fixed, mask: fixed },
            plus,
        })
    }

    /// Has a header with this VLAN identifier the look?
    #[must_use]
    pub const fn takes_vlan(&self, vlan: u16) -> bool {
        match vlan.checked_sub(self.plus) {
            Some(bits) => bits & self.vlan.mask == self.vlan.value,
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    impl Awaiting {
        fn takes(&self, fields: &HeaderFields) -> bool {
            let Masked { value, mask } = self.destination;
            let mut octets = value.0.iter().zip(mask.0).zip(fields.destination.0);
            octets.all(|((value, mask), octet)| octet & mask == *value)
                && self.takes_vlan(fields.vlan.get())
                && (self.label, self.ttl) == (fields.label, fields.ttl)
        }
    }

    const PROFILES: [Profile; 2] = [Profile::Safe9, Profile::Classic80];

    #[test]
    fn only_headers_with_a_mark_await_one_of_their_ports() {
        let of = |profile, counter| Awaiting::of(profile, counter, 2, 1);
        for counter in [0, 8] {
            let refusal = SourceRouteError::Counter { counter, ports: PORTS };
            assert_eq!(of(Profile::Safe9, counter), Err(refusal));
        }
        assert_eq!(of(Profile::Native, 1), Err(SourceRouteError::NoProfile));
        let vlans = |profile, counter, mark| {
            let awaiting = Awaiting::of(profile, counter, 2, mark).unwrap();
            (0..4_096).filter(|vlan| awaiting.takes_vlan(*vlan)).collect::<Vec<u16>>()
        };
        assert_eq!(vlans(Profile::Classic80, 7, 1), [0x21]);
        assert_eq!(vlans(Profile::Safe9, 7, 1), [5, 517, 1_029, 1_541]);
        assert_eq!(vlans(Profile::Safe9, 7, 0x8001), [6, 518, 1_030, 1_542]);
        let all = vlans(Profile::Safe9, 1, 0x8001);
        assert_eq!((all.len(), all.first(), all.last()), (1_024, Some(&2), Some(&2_048)));
    }

    proptest! {
        #[test]
        fn a_frame_has_the_look_of_the_port_it_awaits_alone(
            (way, taken, mark) in (proptest::collection::vec(1..=255_u8, 1..=PORTS), 0..PORTS, any::<u16>()),
            (other_port, other_mark, other_counter) in (1..=255_u8, any::<u16>(), 1..=PORTS as u8),
            is_near in any::<bool>(),
        ) {
            let taken = taken % way.len();
            let port = way[taken];
            let counter = (way.len() - taken) as u8;
            // One bit is what is easily confused.
            let other_mark = if is_near { mark ^ 1 << (other_mark % 16) } else { other_mark };
            for profile in PROFILES {
                let mut bytes = [0; LEN];
                MarkedHeader::new(profile, &way, mark).unwrap().emit(&mut bytes).unwrap();
                for _ in 0..taken {
                    crate::source_route::advance(&mut bytes, &[]).unwrap();
                }
                let fields = HeaderFields::of(&bytes).unwrap();
                for (counter_at, port_at, mark_at) in [
                    (counter, port, mark),
                    (counter, other_port, mark),
                    (counter, port, other_mark),
                    (other_counter, port, mark),
                ] {
                    let awaiting = Awaiting::of(profile, counter_at, port_at, mark_at).unwrap();
                    let is_it = (counter_at, port_at, mark_at) == (counter, port, mark);
                    prop_assert_eq!(awaiting.takes(&fields), is_it, "{:?} {:?}", awaiting, fields);
                }
            }
        }
    }
}
