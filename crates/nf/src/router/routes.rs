//! The route with the longest prefix for an address (RFC 1812 section 5.2.4.3). Knows prefixes; refuses to know
//! packets.

use catena_rules::router::{RouteConfig, RouteTarget};
use catena_search::number;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// A route's number, and where it leads.
type Route = (u32, RouteTarget);
/// Routes by the bits behind which prefixes of a length end, the longest prefix first.
type ByLength = BTreeMap<Reverse<u8>, HashMap<u128, Route>>;

/// The routes of both versions of IP.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    v4: ByLength,
    v6: ByLength,
}

/// The first bits of an address as a number.
fn first(address: IpAddr, bits: u8) -> u128 {
    let width = if address.is_ipv4() { 32 } else { 128 };
    number(address).checked_shr(width - u32::from(bits)).unwrap_or(0)
}

impl Routes {
    pub(super) fn new(routes: &[RouteConfig]) -> Self {
        let mut all = Self::default();
        for (at, route) in (0..).zip(routes) {
            let Some(target) = route.target() else { continue };
            let (address, bits) = (route.to.network(), route.to.prefix_len());
            let of_version = if address.is_ipv4() { &mut all.v4 } else { &mut all.v6 };
            let of_length = of_version.entry(Reverse(bits)).or_default();
            of_length.insert(first(address, bits), (at, target));
        }
        all
    }

    /// The route for an address; none: there is none.
    pub(super) fn find(&self, address: IpAddr) -> Option<Route> {
        let of_version = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        let mut lengths = of_version.iter();
        lengths.find_map(|(Reverse(bits), routes)| routes.get(&first(address, *bits)).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use catena_rules::router::{RefusedRoute, RouteConfig};
    use ipnet::IpNet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn the_longest_prefix_is_found_that_a_look_at_all_finds() {
        let mut random = Random::new(3);
        let address = |random: &mut Random| {
            let bits = random.number() & 0x0303_0303;
            if random.below(2) == 0 {
                IpAddr::V4(Ipv4Addr::from_bits(bits as u32))
            } else {
                IpAddr::V6(Ipv6Addr::from_bits(u128::from(bits) << 96 | u128::from(bits)))
            }
        };
        let mut nets: Vec<IpNet> = (0..400)
            .map(|_| {
                let address = address(&mut random);
                let width = if address.is_ipv4() { 33 } else { 129 };
                IpNet::new(address, random.below(width) as u8).unwrap().trunc()
            })
            .collect();
        nets.sort_unstable();
        nets.dedup();
        let route = |to: &IpNet| RouteConfig {
            to: *to,
            side: None,
            next_hop: None,
            refuse: Some(RefusedRoute::Blackhole),
        };
        let routes = Routes::new(&nets.iter().map(route).collect::<Vec<_>>());
        let mut found = 0;
        for _ in 0..5_000 {
            let address = address(&mut random);
            let holding = nets.iter().enumerate().filter(|(_, net)| net.contains(&address));
            let longest = holding.max_by_key(|(_, net)| net.prefix_len()).map(|(at, _)| at as u32);
            assert_eq!(routes.find(address).map(|(at, _)| at), longest, "{address}");
            found += usize::from(longest.is_some());
        }
        assert!(found > 1_000, "{found}");
        assert_eq!(Routes::new(&[]).find(Ipv4Addr::LOCALHOST.into()), None);
    }
}
