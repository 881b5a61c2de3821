//! Addresses, routes, rules and neighbours of one namespace.
//! It refuses to know which function routes where.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteScope};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{MacBytes, Netlink};
use crate::{KernelError, Result};

/// IP version of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl From<IpAddr> for IpFamily {
    fn from(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl Netlink {
    /// Gives a link an address. An IPv6 address is usable at once: without duplicate detection.
    ///
    /// # Errors
    /// The link is missing, the prefix is too long, or the address is there already.
    pub async fn add_address(&self, link: &str, address: IpAddr, prefix_len: u8) -> Result<()> {
        let object = self.here(&format!("{address}/{prefix_len} on {link}"));
        check_prefix(address, prefix_len)?;
        let index = self.existing(link).await?.index;
        let mut request = self.handle.address().add(index, address, prefix_len);
        let mut message = std::mem::take(request.message_mut());
        if address.is_ipv6() {
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        let message = RouteNetlinkMessage::NewAddress(message);
        self.change("add address", &object, message, NLM_F_CREATE | NLM_F_EXCL).await
    }

    /// The addresses of a link.
    ///
    /// # Errors
    /// The request is refused.
    pub async fn addresses(&self, index: u32) -> Result<Vec<IpAddr>> {
        let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.list("list", &self.here("addresses"), question).await?;
        let of_link = answers.iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewAddress(found) if found.header.index == index => Some(found),
            _ => None,
        });
        Ok(of_link.filter_map(own_address).collect())
    }

    /// The link that has an address; none: nobody has it here.
    ///
    /// # Errors
    /// The request is refused.
    pub async fn link_with_address(&self, address: IpAddr) -> Result<Option<u32>> {
        let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.list("list", &self.here("addresses"), question).await?;
        Ok(answers.iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewAddress(found) if own_address(found) == Some(address) => {
                Some(found.header.index)
            }
            _ => None,
        }))
    }

    /// Adds a route to `destination` (address and prefix length; `0.0.0.0/0` or `::/0` is the
    /// default route) through gateway `via`, or directly on `dev` when there is none, in `table`
    /// or the main one.
    ///
    /// # Errors
    /// The prefix is too long, the families differ, the device is missing, the gateway is not
    /// reachable, or the route is there already.
    pub async fn add_route(
        &self,
        destination: (IpAddr, u8),
        via: Option<IpAddr>,
        dev: &str,
        table: Option<u32>,
    ) -> Result<()> {
        let (address, prefix_len) = destination;
        check_prefix(address, prefix_len)?;
        if via.is_some_and(|gateway| gateway.is_ipv4() != address.is_ipv4()) {
            return Err(KernelError::invalid(
                format!("route to {address}/{prefix_len}"),
                "its gateway is of another IP version",
            ));
        }
        let index = self.existing(dev).await?.index;
        let mut message = route_message(destination, via);
        message.attributes.push(RouteAttribute::Oif(index));
        if let Some(table) = table {
            message.attributes.push(RouteAttribute::Table(table));
        }
        let gateway = via.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
        let object = self.here(&format!("{address}/{prefix_len}{gateway} dev {dev}"));
        let message = RouteNetlinkMessage::NewRoute(message);
        self.change("add route", &object, message, NLM_F_CREATE | NLM_F_EXCL).await
    }

    /// Adds a rule: what arrives on `iif` is routed by `table`. A smaller `priority` comes first.
    ///
    /// # Errors
    /// The name is malformed, or the rule is there already.
    pub async fn add_rule_iif(
        &self,
        iif: &str,
        table: u32,
        family: IpFamily,
        priority: u32,
    ) -> Result<()> {
        let mut rule = RuleMessage::default();
        rule.header.family = match family {
            IpFamily::V4 => AddressFamily::Inet,
            IpFamily::V6 => AddressFamily::Inet6,
        };
        rule.header.action = RuleAction::ToTable;
        rule.attributes = vec![
            RuleAttribute::Iifname(iif.to_owned()),
            RuleAttribute::Table(table),
            RuleAttribute::Priority(priority),
        ];
        let object = self.here(&format!("from {iif} to table {table}"));
        let message = RouteNetlinkMessage::NewRule(rule);
        self.change("add rule", &object, message, NLM_F_CREATE | NLM_F_EXCL).await
    }

    /// Makes a permanent neighbour entry, in place of an older one.
    ///
    /// # Errors
    /// The device is missing.
    pub async fn add_neighbour(&self, address: IpAddr, mac: MacBytes, dev: &str) -> Result<()> {
        let index = self.existing(dev).await?.index;
        let request = self.handle.neighbours().add(index, address);
        let mut request = request.link_local_address(&mac);
        let message = RouteNetlinkMessage::NewNeighbour(std::mem::take(request.message_mut()));
        let object = self.here(&format!("{address} on {dev}"));
        self.change("add neighbour", &object, message, NLM_F_CREATE | NLM_F_REPLACE).await
    }
}

fn route_message(destination: (IpAddr, u8), via: Option<IpAddr>) -> RouteMessage {
    let scope = if via.is_some() { RouteScope::Universe } else { RouteScope::Link };
    match destination {
        (IpAddr::V4(address), length) => {
            let builder = RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(address, length)
                .scope(scope);
            match via {
                Some(IpAddr::V4(gateway)) => builder.gateway(gateway).build(),
                _ => builder.build(),
            }
        }
        (IpAddr::V6(address), length) => {
            let builder =
                RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(address, length);
            match via {
                Some(IpAddr::V6(gateway)) => builder.gateway(gateway).build(),
                _ => builder.build(),
            }
        }
    }
}

pub(super) fn check_prefix(address: IpAddr, prefix_len: u8) -> Result<()> {
    let longest = if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS };
    if u32::from(prefix_len) > longest {
        return Err(KernelError::invalid(
            format!("{address}/{prefix_len}"),
            "the prefix is longer than the address",
        ));
    }
    Ok(())
}

/// Of a point-to-point link the local end is the own one; others tell only an address.
fn own_address(found: &AddressMessage) -> Option<IpAddr> {
    let local = found.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        found.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}
