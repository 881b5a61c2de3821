//! What the proxies' memory knows packets by, and what it tells of them. Knows identities; refuses
//! to know how long and where they are kept.

use crate::engine::encap::PathPosition;
use crate::engine::packet::index::UNTOLD_NETWORK;
use crate::engine::vector::decision::Epoch;
use catena_model::PathId;
use catena_model::id::InstanceId;
use catena_wire::flow::{FlowKey, mix};

/// What a flow is known by: the port it will come out of, its network and five-tuple, and whose
/// it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Serial of the port.
    pub(crate) egress: u32,
    /// VNI of the network in which its path delivers.
    pub(crate) network: u32,
    pub(crate) flow: FlowKey,
    /// What tells users apart that share the flow of a tunnel; 0: nothing is known of one.
    pub(crate) user: u64,
}

impl Key {
    /// Of equal flows of all networks the same.
    pub(crate) fn hash(&self, seed: u64) -> u64 {
        self.flow.seeded_hash(seed) ^ port_hash(self.egress) ^ self.user
    }

    /// What its packets inside are found by.
    pub(crate) fn record(&self, seed: u64) -> u64 {
        self.hash(seed) ^ mix(u64::from(self.network) + 1)
    }

    /// Is it meant by the key of a packet that comes back, which may not say its network?
    #[inline]
    pub(crate) fn is_meant_by(&self, other: &Key) -> bool {
        (self.egress, self.user) == (other.egress, other.user)
            && self.flow == other.flow
            && (other.network == UNTOLD_NETWORK || other.network == self.network)
    }
}

/// Whose a packet is that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Its flow is not known.
    Nobodys,
    /// It is known by this key.
    Known(Key),
    /// Equal flows of several networks are inside.
    Several,
}

/// A port's part of the hash: the odd constant spreads small serials over the whole word.
#[inline]
pub(crate) fn port_hash(egress: u32) -> u64 {
    u64::from(egress).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Whose share of the memory a flow takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Payer {
    /// Of the endpoint's port with this serial, where it was classified here.
    Port(u32),
    /// Of the path with this serial: that of a slice, or where another node or a function had the
    /// packet before.
    Path(u64),
}

/// What is remembered: the position, and what it takes to find it in later tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) position: PathPosition,
    pub(crate) path: PathId,
    /// Tells the path from a later one with its identifier.
    pub(crate) serial: u64,
    pub(crate) hop: u16,
    /// The instance visited: siblings may send from one port.
    pub(crate) instance: InstanceId,
    pub(crate) epoch: Epoch,
}

impl Visit {
    /// Is it the same hop of the same path at the same instance?
    pub(crate) fn is_same(&self, other: &Visit) -> bool {
        (self.serial, self.hop, self.instance) == (other.serial, other.hop, other.instance)
    }

    /// The same, and do their packets go on with the same time to live? If not, that is another decision for
    /// who repeats it.
    pub(crate) fn goes_on_like(&self, other: &Visit) -> bool {
        self.is_same(other) && self.position.is_like(&other.position)
    }

    /// The same, and do their packets go on with one header?
    pub(crate) fn is_one(&self, other: &Visit) -> bool {
        self.is_same(other) && self.position.records() == other.position.records()
    }
}

/// What is known of a packet that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recalled {
    pub(crate) visit: Visit,
    /// Its bytes are those of no packet that went in, though all inside were known.
    pub(crate) is_rewritten: bool,
    /// It was given its visit by order, and others had packets inside.
    pub(crate) is_ambiguous: bool,
    /// Which of the packets of the visit it is, its bytes did not tell.
    pub(crate) is_by_order: bool,
}

impl Recalled {
    pub(crate) fn surely(visit: Visit) -> Self {
        Self { visit, is_rewritten: false, is_ambiguous: false, is_by_order: false }
    }
}
