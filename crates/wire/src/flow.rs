//! The flow a packet belongs to, and fixed hashes of it.
//!
//! Knows the five-tuple and its hash. Refuses to know where in a packet they were found.

use core::net::IpAddr;

use crate::scalar::IpProtocol;

/// What the packets of one flow have in common.
///
/// For ICMP and ICMPv6 echo, `source_port` is the identifier and `destination_port` zero, in both
/// directions; for later fragments and protocols without ports both are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The upper protocol.
    pub protocol: IpProtocol,
    /// Source port, or the identifier of an echo.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

impl FlowKey {
    /// A hash without a seed: the same on every host, build and run.
    ///
    /// The key is laid out as 64-bit words: source then destination address (one word for two IPv4
    /// addresses, four for IPv6), then IP version, protocol, source port and destination port from
    /// high to low. Starting from a constant, each word is exclusive-ored into the state, which is
    /// then put through the finaliser of `SplitMix64`. Each step is a bijection, so two keys that differ
    /// in one word only never collide, and every bit of the result depends on every bit of the key.
    /// It resists accidents, not attackers: they can compute it as well.
    #[must_use]
    pub fn stable_hash(&self) -> u64 {
        self.seeded_hash(0)
    }

    /// The [`FlowKey::seeded_hash`] of this flow or of the flow back, whichever has the lesser
    /// source address: the same for both directions of a connection, so that both meet the same
    /// instances.
    #[must_use]
    pub fn symmetric_hash(&self, seed: u64) -> u64 {
        let back = self.reversed();
        let ends = |key: &Self| (key.source, key.source_port);
        if ends(&back) < ends(self) { back.seeded_hash(seed) } else { self.seeded_hash(seed) }
    }

    /// The flow of what comes back. The identifier of an echo is that of its reply; as it stands
    /// in place of a port, it does not change sides.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let (source_port, destination_port) =
            if matches!(self.protocol, IpProtocol::ICMP | IpProtocol::ICMPV6) {
                (self.source_port, self.destination_port)
            } else {
                (self.destination_port, self.source_port)
            };
        Self {
            source: self.destination,
            destination: self.source,
            protocol: self.protocol,
            source_port,
            destination_port,
        }
    }

    /// Like [`FlowKey::stable_hash`], but from a start that the seed moves: whoever does not know
    /// the seed cannot choose keys that share a hash's remainder.
    #[must_use]
    pub fn seeded_hash(&self, seed: u64) -> u64 {
        let start = mix_start(seed);
        let (version, state) = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let word = u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits());
                (4, mix(start ^ word))
            }
            (source, destination) => {
                let state = absorb(start, wide(source));
                (6, absorb(state, wide(destination)))
            }
        };
        let tail = version << 40
            | u64::from(self.protocol.0) << 32
            | u64::from(self.source_port) << 16
            | u64::from(self.destination_port);
        mix(state ^ tail)
    }
}

/// The fraction of the golden ratio, as in `SplitMix64`; any constant without pattern would do.
const HASH_START: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where a hash with this seed starts.
#[inline]
pub(crate) const fn mix_start(seed: u64) -> u64 {
    HASH_START ^ seed
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, 2014, variant 13 of Stafford's mixers): every input bit changes half of the output.
#[inline]
#[must_use]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Puts an address, in two words, into the state.
pub(crate) const fn absorb(state: u64, (high, low): (u64, u64)) -> u64 {
    mix(mix(state ^ high) ^ low)
}

/// An address in 128 bits, IPv4 mapped as in RFC 4291 section 2.5.5.2.
fn wide(address: IpAddr) -> (u64, u64) {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    ((bits >> 64) as u64, bits as u64)
}

#[cfg(test)]
mod tests;
