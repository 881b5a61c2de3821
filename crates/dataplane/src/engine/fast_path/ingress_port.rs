//! Ports as the fast path sees them: what kind of packets may come by one. Knows nothing of packets.

use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::vector::owner::Owner;
use catena_model::resource::Encapsulation;

/// A port as the fast path sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct IngressPort {
    pub(super) index: PortIndex,
    pub(super) owner: Owner,
    pub(super) network: NetworkIndex,
    /// The same for what comes back bare; none: its MACs are ours.
    pub(super) addressed_in: Option<NetworkIndex>,
    pub(super) kind: IngressKind,
    /// The fields beside the flow that rules look at there.
    pub(super) fields: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IngressKind {
    Endpoint,
    /// `serial`: what the proxy's memory knows the port by; none: what comes bare takes the slow path.
    Function {
        /// The encapsulations of the instances behind it, by their order.
        speaks: [bool; Encapsulation::ALL.len()],
        serial: Option<u32>,
        keeps_mac: bool,
    },
}

impl IngressPort {
    pub(super) fn serial(&self) -> Option<u32> {
        match self.kind {
            IngressKind::Function { serial, .. } => serial,
            IngressKind::Endpoint => None,
        }
    }
}
