//! What of a packet or rule hash tables are asked for, as words that a mask is laid over. Knows bits;
//! refuses to know what they stand for in a rule.

use crate::rule::number;
use catena_model::resource::IpFamily;
use catena_wire::flow::FlowKey;
use catena_wire::scalar::VlanId;

/// Bits of a port and of a protocol, and one more, so that one that is not asked for is no zero.
const PORT_BITS: u32 = 17;
const PROTOCOL_BITS: u32 = 9;

/// Protocol and ports; none: not asked for.
#[derive(Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) protocol: Option<u8>,
    pub(crate) source_port: Option<u16>,
    pub(crate) destination_port: Option<u16>,
}

/// The words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    pub(crate) family: IpFamily,
    /// Both addresses of IPv4 in the first, or those of IPv6.
    addresses: [u64; 4],
    tail: u64,
}

impl Words {
    #[inline]
    pub(crate) fn new(family: IpFamily, source: u128, destination: u128, tail: Tail) -> Self {
        let high = |address: u128| (address >> 64) as u64;
        let addresses = match family {
            IpFamily::Ipv4 => [(source as u64) << 32 | destination as u64, 0, 0, 0],
            IpFamily::Ipv6 => [high(source), source as u64, high(destination), destination as u64],
        };
        let part = |value: Option<u64>| value.map_or(0, |value| value + 1);
        let tail = part(tail.protocol.map(u64::from)) << (2 * PORT_BITS)
            | part(tail.source_port.map(u64::from)) << PORT_BITS
            | part(tail.destination_port.map(u64::from));
        Self { family, addresses, tail }
    }

    /// Those of a packet.
    #[inline]
    pub(crate) fn of(flow: &FlowKey) -> Self {
        let tail = Tail {
            protocol: Some(flow.protocol.0),
            source_port: Some(flow.source_port),
            destination_port: Some(flow.destination_port),
        };
        let (source, destination) = (number(flow.source), number(flow.destination));
        Self::new(IpFamily::of(flow.source), source, destination, tail)
    }

    /// The mask that leaves these bits of the addresses, and these parts of the rest.
    pub(crate) fn mask(
        family: IpFamily,
        (source, destination): (u8, u8),
        [has_protocol, has_source_port, has_destination_port]: [bool; 3],
    ) -> Self {
        let width = if family == IpFamily::Ipv4 { 32 } else { 128 };
        // Without bits the mask is empty, for which no shift is small enough.
        let bits = |bits: u8| match bits {
            0 => 0,
            bits => (u128::MAX >> (128 - width)) & (u128::MAX << (width - u32::from(bits))),
        };
        let all = |is_asked: bool, bits: u32| if is_asked { (1 << bits) - 1 } else { 0 };
        let tail = all(has_protocol, PROTOCOL_BITS) << (2 * PORT_BITS)
            | all(has_source_port, PORT_BITS) << PORT_BITS
            | all(has_destination_port, PORT_BITS);
        let none = Tail { protocol: None, source_port: None, destination_port: None };
        Self { tail, ..Self::new(family, bits(source), bits(destination), none) }
    }

    /// What a table with this mask files them under. `start`: as [`start`] makes it.
    #[inline]
    pub(crate) fn key(&self, mask: &Self, start: u64) -> u64 {
        let word = |at: usize| self.addresses[at] & mask.addresses[at];
        let mut key = fold(start ^ word(0));
        if mask.family == IpFamily::Ipv6 {
            key = (1..4).fold(key, |key, at| fold(key ^ word(at)));
        }
        fold(key ^ (self.tail & mask.tail))
    }
}

/// What every table asks for: where a packet is, and its VLAN.
#[inline]
pub(crate) fn start(scope: u32, vlan: Option<VlanId>) -> u64 {
    let vlan = vlan.map_or(0, |vlan| u64::from(vlan.get()) + 1);
    (u64::from(scope) << 16 | vlan).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Both halves of a product, so that each bit of the result depends on each of the word. A tenth of the
/// price of a mix that no one sees through, and every packet asks for it once a table.
#[inline]
fn fold(word: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(word ^ 0xbf58_476d_1ce4_e5b9) * u128::from(FACTOR);
    (product >> 64) as u64 ^ product as u64
}
