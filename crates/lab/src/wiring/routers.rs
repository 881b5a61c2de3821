//! Routers between subnets of the data network: what such a machine is told, its interfaces, and the routes by which
//! nodes and routers reach what is in other subnets. Pure; refuses to know which subnets there are (see
//! `vocabulary`), and to make anything.

use super::address::{self, ROUTER_NUMBER_FIRST};
use super::plan::{End, Setting, WiringPlan};
use crate::vocabulary::{Families, Lab, Subnets};
use catena_model::program::Locator;
use ipnet::{IpNet, Ipv6Net};
use std::net::{IpAddr, Ipv6Addr};

/// What is reached by way of a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) namespace: String,
    pub(crate) to: IpNet,
    pub(crate) gateway: IpAddr,
    pub(crate) interface: String,
}

/// A router as Linux has it, told to send on what is not its own, with segments or without. It asks for no address and
/// tells nobody of shorter ways.
const SETTINGS_OF_IPV4: [(&str, &str); 3] =
    [("rp_filter", "0"), ("accept_redirects", "0"), ("send_redirects", "0")];
const SETTINGS_OF_IPV6: [(&str, &str); 7] = [
    ("disable_ipv6", "0"),
    ("accept_dad", "0"),
    ("dad_transmits", "0"),
    ("accept_ra", "0"),
    ("accept_redirects", "0"),
    ("forwarding", "1"),
    ("seg6_enabled", "1"),
];

/// What routers are told before they have interfaces.
pub(super) fn settings(lab: &Lab) -> impl Iterator<Item = Setting> {
    lab.routers.iter().flat_map(|router| {
        let set = move |key: String, value| Setting { namespace: router.clone(), key, value };
        let scopes = ["all", "default"].into_iter().flat_map(move |scope| {
            let of = move |family: &str, (name, value): (&str, _)| {
                set(format!("net.{family}.conf.{scope}.{name}"), value)
            };
            let ipv4 = SETTINGS_OF_IPV4.into_iter().map(move |setting| of("ipv4", setting));
            ipv4.chain(SETTINGS_OF_IPV6.into_iter().map(move |setting| of("ipv6", setting)))
        });
        // First: it sets others anew.
        std::iter::once(set("net.ipv4.ip_forward".into(), "1")).chain(scopes)
    })
}

/// The interface of a router to one of its plain switches.
pub(super) fn end(lab: &Lab, subnets: &Subnets<'_>, router: &str, bridge: &str) -> Option<End> {
    let number = number_of(lab, router)?;
    let joint = subnets.joints(router).iter().find(|joint| joint.bridge == bridge)?;
    let network = address::data_network(joint.subnet);
    let ipv4: IpNet = address::underlay(network, number).into();
    let ipv6: IpNet = address::underlay6(joint.subnet, number).into();
    Some(End {
        namespace: router.into(),
        interface: bridge.into(),
        mac: Some(address::underlay_mac(network, number)),
        addresses: vec![ipv4, ipv6],
        is_in_bridge: false,
    })
}

fn number_of(lab: &Lab, router: &str) -> Option<u8> {
    let numbered = lab.routers.iter().zip(ROUTER_NUMBER_FIRST..);
    numbered.into_iter().find(|(name, _)| *name == router).map(|(_, number)| number)
}

/// Whom packets of a subnet are given to that are for another one, by both families.
fn gateways(lab: &Lab, subnets: &Subnets<'_>, from: usize, to: usize) -> Option<[IpAddr; 2]> {
    let number = number_of(lab, subnets.router(from, to)?)?;
    let ipv4 = address::underlay(address::data_network(from), number).addr();
    Some([ipv4.into(), address::underlay6(from, number).addr().into()])
}

/// The same by IPv6; none: both are the same subnet.
pub(super) fn gateway6(
    lab: &Lab,
    subnets: &Subnets<'_>,
    from: usize,
    to: usize,
) -> Option<Ipv6Addr> {
    match gateways(lab, subnets, from, to)? {
        [_, IpAddr::V6(ipv6)] => Some(ipv6),
        _ => None,
    }
}

/// The routes of nodes into other subnets, by `interface`, and those of routers into subnets that they do not join and
/// to locators, whose nodes `plan` has.
pub(super) fn routes(
    lab: &Lab,
    subnets: &Subnets<'_>,
    plan: &WiringPlan,
    interface: &str,
) -> Vec<Route> {
    let mut routes = Vec::new();
    for to in 0..subnets.count() {
        for node in lab.nodes() {
            let gateways = gateways(lab, subnets, subnets.of_node(node), to);
            routes.extend(into_subnet(lab, to, gateways, (node, interface)));
        }
        for router in &lab.routers {
            if let Some(exit) = subnets.exit(router, to) {
                let gateways = gateways(lab, subnets, exit.subnet, to);
                routes.extend(into_subnet(lab, to, gateways, (router, exit.bridge)));
            }
        }
    }
    for router in &lab.routers {
        routes.extend(plan.nodes.iter().filter_map(|node| {
            let (place, to) = (node.segments?, subnets.of_node(&node.name));
            let exit = subnets.exit(router, to)?;
            let gateway = gateway6(lab, subnets, exit.subnet, to).unwrap_or(place.address);
            let to = Ipv6Net::new_assert(place.locator.address(), Locator::BITS);
            let (namespace, interface) = (router.clone(), exit.bridge.to_owned());
            Some(Route { namespace, to: to.into(), gateway: gateway.into(), interface })
        }));
    }
    routes
}

/// The routes of a machine into a subnet that it is not in.
fn into_subnet(
    lab: &Lab,
    to: usize,
    gateways: Option<[IpAddr; 2]>,
    (namespace, interface): (&str, &str),
) -> impl Iterator<Item = Route> {
    let ipv4: IpNet = address::underlay(address::data_network(to), 0).into();
    let ipv6: IpNet = address::underlay6(to, 0).into();
    let has_ipv4 = lab.underlay != Families::Ipv6;
    let both = gateways.into_iter().flatten().zip([ipv4, ipv6]);
    both.filter(move |(gateway, _)| has_ipv4 || gateway.is_ipv6()).map(move |(gateway, to)| Route {
        namespace: namespace.to_owned(),
        to,
        gateway,
        interface: interface.to_owned(),
    })
}
