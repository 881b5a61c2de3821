//! The configuration of a router between two interfaces: its own addresses, and routes with the hardware addresses
//! of next hops.
//!
//! Knows what may stand in it and what of it contradicts itself. Refuses to route, and to read files: text in YAML
//! or JSON comes in, a [`RouterConfig`] or a [`RuleError`] goes out.

#[cfg(test)]
mod tests;

use crate::check;
use crate::error::RuleError;
use crate::options::{ReadOptions, Side};
use crate::refusal::Refusal;
use crate::scalars::word;
use catena_model::limits::ROUTER_ROUTES_MAX;
use catena_wire::scalar::MacAddr;
use ipnet::IpNet;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A router.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterConfig {
    /// Its interface where packets of the forward direction come in.
    #[serde(rename = "in")]
    pub at_in: InterfaceConfig,
    /// Its interface where they go out.
    #[serde(rename = "out")]
    pub at_out: InterfaceConfig,
    /// Its routes, in any order: of those for an address, that with the longest prefix.
    pub routes: Vec<RouteConfig>,
}

/// An interface of a router.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceConfig {
    /// Frames with packets for the router to forward have this destination, and what it sends comes from it.
    pub mac: MacAddr,
    /// Its addresses, one of each version at most: errors come from them.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// Where to.
    #[serde(deserialize_with = "word")]
    pub to: IpNet,
    /// By which interface.
    #[serde(default)]
    pub side: Option<SideWord>,
    /// The hardware address of the next hop there.
    #[serde(default)]
    pub next_hop: Option<MacAddr>,
    /// What becomes of packets that go nowhere.
    #[serde(default)]
    pub refuse: Option<RefusedRoute>,
}

/// An interface, as routes name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SideWord {
    /// That where packets of the forward direction come in.
    In,
    /// That where they go out.
    Out,
}

/// What becomes of packets whose route leads nowhere, in the words of `ip route`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefusedRoute {
    /// They end, and their sender is told that the host cannot be reached.
    Unreachable,
    /// They end, and their sender is told that this is prohibited.
    Prohibit,
    /// They end.
    Blackhole,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// Out at a side, to this hardware address.
    Via(Side, MacAddr),
    /// Nowhere.
    Refused(RefusedRoute),
}

impl RouteConfig {
    /// Where it leads; none: it says neither, or both.
    #[must_use]
    pub fn target(&self) -> Option<RouteTarget> {
        match (self.side, self.next_hop, self.refuse) {
            (Some(side), Some(mac), None) => {
                let side = match side {
                    SideWord::In => Side::In,
                    SideWord::Out => Side::Out,
                };
                Some(RouteTarget::Via(side, mac))
            }
            (None, None, Some(refused)) => Some(RouteTarget::Refused(refused)),
            _ => None,
        }
    }
}

/// Reads a configuration in YAML or JSON; `file` is what messages call it.
///
/// # Errors
/// When it is malformed, with its line; or when it contradicts itself, with the entries that do.
pub fn read(text: &str, file: &str) -> Result<RouterConfig, RuleError> {
    let config: RouterConfig = check::document(text, file, "router")?;
    let options = ReadOptions { file: file.to_owned(), ..ReadOptions::default() };
    config.check().map_err(|refusal| refusal.at(0, &options))?;
    Ok(config)
}

impl RouterConfig {
    fn check(&self) -> Result<(), Refusal> {
        for (name, interface) in [("in", &self.at_in), ("out", &self.at_out)] {
            interface.check(name)?;
        }
        let routes = self.routes.len();
        if routes > ROUTER_ROUTES_MAX {
            let what = format!("there are {routes} routes");
            return Err(Refusal::wrong(what, format!("write {ROUTER_ROUTES_MAX} at most")));
        }
        let mut known = BTreeSet::new();
        for route in &self.routes {
            let to = route.to;
            if route.target().is_none() {
                let what = format!("the route to {to} says not where it leads");
                let advice = "write 'side' with 'next_hop', or 'refuse' alone";
                return Err(Refusal::wrong(what, advice));
            }
            if route.next_hop.is_some_and(MacAddr::is_multicast) {
                let what = format!("the next hop of the route to {to} is a group of stations");
                return Err(Refusal::wrong(what, "name the hardware address of one"));
            }
            if !known.insert((to.addr(), to.prefix_len())) {
                let what = format!("there are two routes to {to}");
                return Err(Refusal::wrong(what, "take one of them out"));
            }
        }
        Ok(())
    }
}

impl InterfaceConfig {
    fn check(&self, name: &str) -> Result<(), Refusal> {
        if self.mac.is_multicast() {
            let what = format!("the hardware address of '{name}' is that of a group of stations");
            return Err(Refusal::wrong(what, "name that of one"));
        }
        let is_host = |address: &IpAddr| {
            !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
        };
        if let Some(other) = self.addresses.iter().find(|address| !is_host(address)) {
            let what = format!("'{name}' has the address {other}, which no host has");
            return Err(Refusal::wrong(what, "name one of the network there"));
        }
        for is_v6 in [false, true] {
            let of_it = self.addresses.iter().filter(|address| address.is_ipv6() == is_v6).count();
            if of_it > 1 {
                let what = format!("'{name}' has {of_it} addresses of one version of IP");
                return Err(Refusal::wrong(what, "name the one that errors come from"));
            }
        }
        Ok(())
    }
}
