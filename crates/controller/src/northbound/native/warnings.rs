//! What is not as it should be though nothing stands still for it, for people. Refuses to know what stands still.

use super::view::View;
use catena_model::program::Locator;
use catena_model::resource::{Network, Subnet};
use ipnet::{IpNet, Ipv6Net};
use std::collections::BTreeMap;

/// Each in a sentence, with what to do.
pub(super) fn of(view: &View) -> Vec<String> {
    let collector = view.app.otlp.trouble();
    let mut all = Vec::from_iter(collector.map(|why| {
        format!(
            "the collector of OpenTelemetry (--otlp-endpoint) did not take all figures the last time: {why}"
        )
    }));
    all.extend(below_locators(view));
    all
}

/// Subnets in which addresses are segments of nodes: the nodes came after them.
fn below_locators(view: &View) -> Vec<String> {
    let nodes = view.situation.inventory.all();
    let locators: BTreeMap<Locator, _> =
        nodes.filter_map(|(node, _, facts)| Some((facts.segments?.locator, node))).collect();
    let shared = |subnet: &Subnet| {
        let IpNet::V6(range) = subnet.cidr else { return None };
        match range.prefix_len() >= Locator::BITS {
            true => locators.get_key_value(&Locator::of(range.addr()).ok()?),
            false => locators.iter().find(|(locator, _)| range.contains(&prefix(**locator))),
        }
    };
    let intent = &view.intent;
    let found = intent.subnets.values().filter_map(|subnet| Some((subnet, shared(subnet)?)));
    found
        .map(|(subnet, (locator, node))| {
            let network = intent.networks.get(&subnet.network);
            let network = network.map_or_else(|| subnet.network.to_string(), Network::name);
            format!(
                "subnet {} of network '{network}' has addresses below locator {locator} of node '{node}', and packets \
                 of ports to these are dropped (segment_from_port): start the node's agent with another --locator, or \
                 give the network another subnet",
                subnet.cidr
            )
        })
        .collect()
}

fn prefix(locator: Locator) -> Ipv6Net {
    Ipv6Net::new_assert(locator.address(), Locator::BITS)
}
