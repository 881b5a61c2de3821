//! Endpoints and flows as translation knows them. Knows what they are found by; refuses to know packets.

use crate::monitor::table::Keyed;
use catena_wire::flow::mix;
use catena_wire::scalar::IpProtocol;
use std::net::Ipv4Addr;

/// An address and a port of a protocol; of ICMP, the identifier of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct End {
    pub(super) protocol: IpProtocol,
    pub(super) address: Ipv4Addr,
    pub(super) port: u16,
}

impl End {
    fn word(&self) -> u64 {
        u64::from(self.protocol.0) << 48
            | u64::from(self.address.to_bits()) << 16
            | u64::from(self.port)
    }
}

impl Keyed for End {
    fn hash(&self, seed: u64) -> u64 {
        mix(mix(seed) ^ self.word())
    }
}

/// An inside endpoint and whom it talks to, as far as that is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flow {
    pub(super) inside: End,
    pub(super) remote: (Ipv4Addr, u16),
}

impl Keyed for Flow {
    fn hash(&self, seed: u64) -> u64 {
        let (address, port) = self.remote;
        let remote = u64::from(address.to_bits()) << 16 | u64::from(port);
        mix(self.inside.hash(seed) ^ remote)
    }
}

/// A host inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host(pub(super) Ipv4Addr);

impl Keyed for Host {
    fn hash(&self, seed: u64) -> u64 {
        mix(mix(seed) ^ u64::from(self.0.to_bits()))
    }
}
