//! MACs that say of which network a packet is: what goes bare into a function that keeps MACs comes
//! from that of its network, and is known by it when it is back, whatever its addresses. Knows what
//! is written and what is believed; refuses to know flows.

use crate::engine::encap::PathPosition;
use crate::engine::packet::index::UNTOLD_NETWORK;
use crate::engine::tables::Tables;
use crate::engine::tables::port::PortTable;
use catena_model::program::NETWORK_MAC_PREFIX;
use catena_wire::scalar::MacAddr;

/// The MAC from which a packet goes into the function at a position; none: that which it has.
pub(crate) fn source_at(tables: &Tables, position: PathPosition) -> Option<MacAddr> {
    let place = tables.positions.place(position);
    let path = tables.path(place.path);
    let hop = path.hops.get(usize::from(place.hop))?;
    if hop.keeps_mac { of(path.network) } else { None }
}

/// The network of a packet that came out of a port bare, as the proxy's memory names it: as the
/// source MAC says where all functions behind the port keep it, otherwise [`UNTOLD_NETWORK`], whichever
/// its flow is known in. None: of several it must say which, and it does not.
pub(crate) fn told_by(port: &PortTable, source: MacAddr) -> Option<u32> {
    if !port.keeps_mac() {
        return Some(UNTOLD_NETWORK);
    }
    match network_of(source) {
        None if port.is_met() => None,
        told => Some(told.unwrap_or(UNTOLD_NETWORK)),
    }
}

/// Has the proxy marked the packet on its way in? Then no function has made it.
pub(crate) fn is_marked(port: &PortTable, source: MacAddr) -> bool {
    port.keeps_mac() && network_of(source).is_some()
}

/// That of the network with this VNI; of a network that is not on this node there is none.
fn of(network: u32) -> Option<MacAddr> {
    let [0, high, middle, low] = network.to_be_bytes() else { return None };
    let [a, b, c] = NETWORK_MAC_PREFIX;
    Some(MacAddr([a, b, c, high, middle, low]))
}

/// The VNI that a MAC says.
fn network_of(MacAddr([a, b, c, high, middle, low]): MacAddr) -> Option<u32> {
    ([a, b, c] == NETWORK_MAC_PREFIX).then(|| u32::from_be_bytes([0, high, middle, low]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_has_a_mac_of_its_own_that_is_no_group_and_no_vendors() {
        for network in [0, 1, 0xca_7e01, 0xff_ffff] {
            let MacAddr(bytes) = of(network).unwrap();
            assert_eq!(bytes[0] & 0b11, 0b10);
            assert_eq!(network_of(MacAddr(bytes)), Some(network));
        }
        assert_eq!((of(UNTOLD_NETWORK), of(0x0100_0000)), (None, None));
        assert_eq!(network_of(catena_model::program::PROXY_MAC), None);
    }
}
