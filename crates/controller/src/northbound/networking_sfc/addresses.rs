//! Arithmetic of a subnet's addresses: the first host, the free ones. Knows no port.

use catena_model::resource::Subnet;
use ipnet::IpNet;
use std::net::IpAddr;

/// Lowest and highest address that a host may have: without network and broadcast address where
/// the family has them (RFC 1122 section 3.2.1.3, RFC 3021; RFC 4291 section 2.6.1).
fn hosts(cidr: IpNet) -> (u128, u128) {
    let (first, last) = (number(cidr.network()), number(cidr.broadcast()));
    let is_small = last - first < 2;
    match cidr {
        _ if is_small => (first, last),
        IpNet::V4(_) => (first + 1, last - 1),
        IpNet::V6(_) => (first + 1, last),
    }
}

/// The address that a gateway gets when none is chosen.
pub(super) fn first_host(cidr: IpNet) -> Option<IpAddr> {
    let (first, last) = hosts(cidr);
    (first != last).then(|| address(cidr, first))
}

/// May a host of the subnet have this address?
pub(super) fn is_host(cidr: IpNet, candidate: IpAddr) -> bool {
    let (first, last) = hosts(cidr);
    cidr.contains(&candidate) && (first..=last).contains(&number(candidate))
}

/// The address behind another of its family.
pub(super) fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_add(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(v6) => v6.to_bits().checked_add(1).map(|bits| IpAddr::V6(bits.into())),
    }
}

/// The lowest address that is neither the gateway nor taken: `lowest_from` knows the lowest from one on
/// that is not taken.
pub(super) fn lowest_free_from(
    subnet: &Subnet,
    lowest_from: impl Fn(IpAddr) -> Option<IpAddr>,
) -> Option<IpAddr> {
    let (first, last) = hosts(subnet.cidr);
    let mut free = lowest_from(address(subnet.cidr, first))?;
    if subnet.gateway == Some(free) {
        free = lowest_from(address(subnet.cidr, number(free).checked_add(1)?))?;
    }
    (number(free) <= last).then_some(free)
}

/// The ranges that addresses are given out from: the hosts without the gateway.
pub(super) fn pools(subnet: &Subnet) -> Vec<(IpAddr, IpAddr)> {
    let (first, last) = hosts(subnet.cidr);
    let mut pools = Vec::new();
    let mut push = |from: u128, to: u128| {
        if from <= to {
            pools.push((address(subnet.cidr, from), address(subnet.cidr, to)));
        }
    };
    match subnet.gateway.map(number).filter(|gateway| (first..=last).contains(gateway)) {
        None => push(first, last),
        Some(gateway) => {
            if gateway > first {
                push(first, gateway - 1);
            }
            if gateway < last {
                push(gateway + 1, last);
            }
        }
    }
    pools
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn address(cidr: IpNet, number: u128) -> IpAddr {
    match cidr {
        IpNet::V4(_) => IpAddr::V4(u32::try_from(number).unwrap_or(u32::MAX).into()),
        IpNet::V6(_) => IpAddr::V6(number.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::ProjectId;
    use catena_model::id::{NetworkId, SubnetId};
    use catena_model::resource::Label;
    use std::collections::BTreeSet;

    fn subnet(cidr: &str) -> Subnet {
        let cidr: IpNet = cidr.parse().unwrap();
        let project = ProjectId(String::new());
        Subnet {
            id: SubnetId(uuid::Uuid::nil()),
            label: Label { name: String::new(), description: String::new(), project },
            network: NetworkId(uuid::Uuid::nil()),
            cidr,
            gateway: first_host(cidr),
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn lowest_beside(taken: &BTreeSet<IpAddr>) -> impl Fn(IpAddr) -> Option<IpAddr> {
        let is_free = |address: &IpAddr| !taken.contains(address);
        move |from| std::iter::successors(Some(from), |address| next(*address)).find(is_free)
    }

    #[test]
    fn addresses_are_given_out_lowest_first_until_none_is_left() {
        let subnet = subnet("10.0.0.0/29");
        assert_eq!(subnet.gateway, Some(ip("10.0.0.1")));
        assert_eq!(pools(&subnet), [(ip("10.0.0.2"), ip("10.0.0.6"))]);
        let mut taken = BTreeSet::new();
        while let Some(free) = lowest_free_from(&subnet, lowest_beside(&taken)) {
            taken.insert(free);
        }
        let expected: BTreeSet<IpAddr> = (2..=6).map(|n| ip(&format!("10.0.0.{n}"))).collect();
        assert_eq!(taken, expected);
    }

    #[test]
    fn the_edges_of_both_families_hold() {
        assert_eq!(first_host("10.0.0.1/32".parse().unwrap()), None);
        assert_eq!(first_host("10.0.0.0/31".parse().unwrap()), Some(ip("10.0.0.0")));
        assert_eq!(first_host("2001:db8::/64".parse().unwrap()), Some(ip("2001:db8::1")));
        assert!(!is_host("10.0.0.0/24".parse().unwrap(), ip("10.0.0.0")));
        assert!(!is_host("10.0.0.0/24".parse().unwrap(), ip("10.0.0.255")));
        assert!(!is_host("10.0.0.0/24".parse().unwrap(), ip("10.0.1.7")));
        assert!(is_host("2001:db8::/64".parse().unwrap(), ip("2001:db8::ffff:ffff:ffff:ffff")));
        let v6 = subnet("2001:db8::/64");
        assert_eq!(lowest_free_from(&v6, lowest_beside(&BTreeSet::new())), Some(ip("2001:db8::2")));
        let whole: IpNet = "0.0.0.0/0".parse().unwrap();
        assert_eq!(first_host(whole), Some(ip("0.0.0.1")));
    }
}
