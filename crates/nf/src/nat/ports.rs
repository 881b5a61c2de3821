//! Which outside ports are free. Knows bits; refuses to know who has them.

use catena_wire::scalar::{IpProtocol, PortRange};

/// Bits of a word.
const WORD: usize = 64;
/// Words for all ports.
const WORDS: usize = 65_536 / WORD;
/// Protocols that have ports, or identifiers in their place.
const PROTOCOLS: usize = 3;
/// Even ports of a word.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// The ports of some addresses.
#[derive(Clone)]
pub(super) struct Ports {
    /// A bit for each that is taken.
    taken: Vec<u64>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let taken: u32 = self.taken.iter().map(|word| word.count_ones()).sum();
        write!(f, "{taken} ports taken")
    }
}

/// Where the ports of an address begin, those of a protocol; none: it has none.
fn base(address: usize, protocol: IpProtocol) -> Option<usize> {
    let place = match protocol {
        IpProtocol::TCP => 0,
        IpProtocol::UDP => 1,
        IpProtocol::ICMP => 2,
        _ => return None,
    };
    Some((address * PROTOCOLS + place) * WORDS)
}

impl Ports {
    /// Those of so many addresses, all free.
    pub(super) fn new(addresses: usize) -> Self {
        Self { taken: vec![0; addresses * PROTOCOLS * WORDS] }
    }

    fn word(&self, base: usize, port: u16) -> u64 {
        self.taken.get(base + usize::from(port) / WORD).copied().unwrap_or(u64::MAX)
    }

    pub(super) fn is_free(&self, address: usize, protocol: IpProtocol, port: u16) -> bool {
        let bit = 1 << (usize::from(port) % WORD);
        base(address, protocol).is_some_and(|base| self.word(base, port) & bit == 0)
    }

    pub(super) fn set(&mut self, address: usize, protocol: IpProtocol, port: u16, is_taken: bool) {
        let place = base(address, protocol).map(|base| base + usize::from(port) / WORD);
        let Some(word) = place.and_then(|place| self.taken.get_mut(place)) else { return };
        let bit = 1 << (usize::from(port) % WORD);
        *word = if is_taken { *word | bit } else { *word & !bit };
    }

    /// The first free one of a range from `start` on, and from the range's beginning on behind its end: one
    /// that is even as `start` is or odd as it is, where there is one (RFC 4787 section 4.2.2).
    pub(super) fn find(
        &self,
        address: usize,
        protocol: IpProtocol,
        range: PortRange,
        start: u16,
    ) -> Option<u16> {
        let base = base(address, protocol)?;
        let start = start.clamp(range.min(), range.max());
        let alike = if start.is_multiple_of(2) { EVEN } else { !EVEN };
        [alike, u64::MAX].into_iter().find_map(|wanted| {
            let behind = self.first(base, (start, range.max()), wanted);
            behind.or_else(|| self.first(base, (range.min(), start), wanted))
        })
    }

    fn first(&self, base: usize, (from, to): (u16, u16), wanted: u64) -> Option<u16> {
        let words = usize::from(from) / WORD..=usize::from(to) / WORD;
        words.into_iter().find_map(|at| {
            let first = at * WORD;
            let below = usize::from(from).saturating_sub(first).min(WORD - 1);
            let above = WORD - 1 - (usize::from(to) - first).min(WORD - 1);
            let within = u64::MAX << below & u64::MAX >> above;
            let free = !self.taken.get(base + at)? & wanted & within;
            (free != 0).then_some(u16::try_from(first + free.trailing_zeros() as usize).ok()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// It finds a free port exactly where there is one, and an even one for an even one.
        #[test]
        fn each_free_port_is_found(
            taken in prop::collection::btree_set(0_u16..200, 0..200), min in 1_u16..150, more in 0_u16..60,
            start in any::<u16>(), address in 0_usize..3,
        ) {
            let range = PortRange::new(min, min + more).unwrap();
            let mut ports = Ports::new(3);
            for port in &taken {
                ports.set(address, IpProtocol::UDP, *port, true);
            }
            let start = start % 220;
            let free: BTreeSet<u16> = (min..=min + more).filter(|port| !taken.contains(port)).collect();
            let clamped = start.clamp(range.min(), range.max());
            let found = ports.find(address, IpProtocol::UDP, range, start);
            prop_assert_eq!(found.is_some(), !free.is_empty());
            if let Some(port) = found {
                prop_assert!(free.contains(&port) && ports.is_free(address, IpProtocol::UDP, port));
                let is_alike = |port: &u16| port % 2 == clamped % 2;
                prop_assert_eq!(is_alike(&port), free.iter().any(is_alike));
            }
            // Others are not concerned.
            for (other, protocol) in [((address + 1) % 3, IpProtocol::UDP), (address, IpProtocol::TCP)] {
                prop_assert_eq!(ports.find(other, protocol, range, start), Some(clamped));
            }
            prop_assert_eq!(ports.find(address, IpProtocol::GRE, range, start), None);
            taken.iter().for_each(|port| ports.set(address, IpProtocol::UDP, *port, false));
            prop_assert_eq!(ports.find(address, IpProtocol::UDP, range, start), Some(clamped));
        }
    }
}
