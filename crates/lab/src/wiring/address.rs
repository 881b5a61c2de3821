//! Which address and hardware address everything gets. Deterministic: the same file gives the
//! same addresses, so that captures of two runs compare.

use crate::vocabulary::Lab;
use catena_model::program::{Locator, SegmentPlace};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The data network between hosts (RFC 1918).
pub(crate) const DATA_NETWORK: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 0);
/// The management network between controller and agents (RFC 1918).
pub(crate) const MANAGEMENT_NETWORK: Ipv4Addr = Ipv4Addr::new(172, 30, 1, 0);
/// Prefix length of both, in bits.
pub(crate) const UNDERLAY_PREFIX_BITS: u8 = 24;
/// Prefix length of the IPv6 underlay, in bits.
pub(crate) const SEGMENT_PREFIX_BITS: u8 = 64;
/// The controller's place in the management network.
pub(crate) const CONTROLLER_NUMBER: u8 = 254;
/// The first host's place in both.
pub(crate) const HOST_NUMBER_FIRST: u8 = 1;
/// The same of the first switch that reads source routes: behind the last host that a lab may have.
pub(crate) const SWITCH_NUMBER_FIRST: u8 = 101;
/// The same of the first router: behind the last switch.
pub(crate) const ROUTER_NUMBER_FIRST: u8 = 201;
/// First number of endpoints in a tenant network; the gateway has 1.
const ENDPOINT_NUMBER_FIRST: u32 = 10;
/// First number of functions in a tenant network.
const FUNCTION_NUMBER_FIRST: u32 = 101;
const GATEWAY_NUMBER: u32 = 1;

/// A hardware address, locally administered (IEEE 802 clause 8.4).
pub(crate) type Mac = [u8; 6];

/// A subnet of the data network, counted from 0; the management network is behind the first.
pub(crate) fn data_network(subnet: usize) -> Ipv4Addr {
    let [a, b, c, d] = DATA_NETWORK.octets();
    Ipv4Addr::new(a, b, if subnet == 0 { c } else { low_byte(subnet).saturating_add(1) }, d)
}

/// Address of a node in an underlay network.
pub(crate) fn underlay(network: Ipv4Addr, number: u8) -> Ipv4Net {
    let [a, b, c, _] = network.octets();
    // A prefix of 24 bits is always legal, so there is no error to pass on.
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, number), UNDERLAY_PREFIX_BITS)
}

/// Address of a node in a subnet of the IPv6 underlay (RFC 3849).
pub(crate) fn underlay6(subnet: usize, number: u8) -> Ipv6Net {
    let address =
        Ipv6Addr::new(0x2001, 0xdb8, 0x30, low_byte(subnet).into(), 0, 0, 0, number.into());
    // So is one of 64.
    Ipv6Net::new_assert(address, SEGMENT_PREFIX_BITS)
}

/// The place of a node in a subnet of the IPv6 underlay (RFC 9602).
pub(crate) fn segments(subnet: usize, number: u8) -> Option<SegmentPlace> {
    let address = underlay6(subnet, number).addr();
    let locator = Locator::new([0x5f, 0, 0, 0, 0, number]).ok()?;
    Some(SegmentPlace { address, locator })
}

/// The number of an endpoint or function in a network; none if it is not attached there.
pub(crate) fn member_number(lab: &Lab, network: &str, member: &str) -> Option<u32> {
    if !lab.networks_of(member).iter().any(|name| name == network) {
        return None;
    }
    let gateway = lab.networks.get(network)?.gateway.as_deref();
    if gateway == Some(member) {
        return Some(GATEWAY_NUMBER);
    }
    let position = |index: usize, first: u32| Some(first + u32::try_from(index).ok()?);
    let mut endpoints = lab.endpoints.names().filter(|name| gateway != Some(name));
    if let Some(index) = endpoints.position(|name| name == member) {
        return position(index, ENDPOINT_NUMBER_FIRST);
    }
    position(lab.functions.names().position(|name| name == member)?, FUNCTION_NUMBER_FIRST)
}

/// The `number`-th address of a prefix, or none if the prefix is too small.
pub(crate) fn address_in(prefix: IpNet, number: u32) -> Option<IpNet> {
    match prefix {
        IpNet::V4(prefix) => {
            let address = u32::from(prefix.network()).checked_add(number)?;
            let address = Ipv4Addr::from(address);
            let is_usable = prefix.contains(&address) && address != prefix.broadcast();
            is_usable.then(|| Ipv4Net::new_assert(address, prefix.prefix_len()).into())
        }
        IpNet::V6(prefix) => {
            let address = u128::from(prefix.network()).checked_add(u128::from(number))?;
            let address = Ipv6Addr::from(address);
            prefix
                .contains(&address)
                .then(|| Ipv6Net::new_assert(address, prefix.prefix_len()).into())
        }
    }
}

/// The address of a prefix without its length.
pub(crate) fn bare(address: IpNet) -> IpAddr {
    address.addr()
}

/// Hardware address of a tenant interface.
pub(crate) fn tenant_mac(network_index: usize, number: u32) -> Mac {
    let [_, _, high, low] = number.to_be_bytes();
    [0x02, 0x0a, low_byte(network_index), 0, high, low]
}

/// Hardware address of a node's or the controller's underlay interface.
pub(crate) fn underlay_mac(network: Ipv4Addr, number: u8) -> Mac {
    [0x02, 0x1e, network.octets()[2], 0, 0, number]
}

fn low_byte(index: usize) -> u8 {
    index.to_le_bytes()[0]
}
