//! From a lab to its wiring: a list of namespaces, bridges, cables, settings and routes, as data.
//! Pure; refuses to make anything (see `apply`).

#[cfg(test)]
mod tests;

use super::address::{
    self, CONTROLLER_NUMBER, DATA_NETWORK, HOST_NUMBER_FIRST, MANAGEMENT_NETWORK, Mac,
    SWITCH_NUMBER_FIRST,
};
use super::routers::{self, Route};
use super::strange;
use crate::vocabulary::{Equipment, Families, FunctionThreads, Lab, LinkEnd, Subnets};
use catena_model::program::{Locator, SegmentPlace};
use catena_model::topology::NodeRole;
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Namespace of the management switch.
pub(crate) const MANAGEMENT_SWITCH: &str = "mgmt";
/// Namespace of the controller.
pub(crate) const CONTROLLER: &str = "controller";
/// The bridge inside each switch's namespace.
pub(crate) const BRIDGE: &str = "br0";
/// A host's interface to the data network.
pub(crate) const DATA_INTERFACE: &str = "data0";
/// A host's interface to the management network.
pub(crate) const MANAGEMENT_INTERFACE: &str = "mgmt0";
/// Port of the southbound server on the management network.
pub(crate) const SOUTHBOUND_PORT: u16 = 6_650;
/// MTU of management cables, in bytes.
const MANAGEMENT_MTU_BYTES: u32 = 1_500;
/// Routing table of a function's first ingress; below the reserved 253 to 255.
const TABLE_FIRST: u32 = 101;

/// All that must be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WiringPlan {
    pub(crate) namespaces: Vec<String>,
    /// Namespaces that hold a bridge.
    pub(crate) bridges: Vec<String>,
    /// Those of them that stand in a cable and pass what its ends say to each other.
    pub(crate) transparent: Vec<String>,
    /// Namespaces that hold an Open vSwitch, whose ports all interfaces there are.
    pub(crate) open_vswitches: Vec<String>,
    /// Before any interface exists, so that interfaces inherit them.
    pub(crate) settings: Vec<Setting>,
    pub(crate) cables: Vec<Cable>,
    /// Once the interfaces exist.
    pub(crate) interface_settings: Vec<Setting>,
    /// Behind those: IPv6 is off before.
    pub(crate) segment_places: Vec<SegmentWiring>,
    /// Into other subnets of the data network.
    pub(crate) routes: Vec<Route>,
    pub(crate) policy_routes: Vec<PolicyRoute>,
    pub(crate) default_routes: Vec<DefaultRoute>,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) ports: Vec<PortPlan>,
}

/// A kernel setting of one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) namespace: String,
    pub(crate) key: String,
    pub(crate) value: &'static str,
}

/// A veth pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cable {
    pub(crate) ends: [End; 2],
    pub(crate) mtu: u32,
}

/// One end of a veth pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) namespace: String,
    pub(crate) interface: String,
    /// None: the kernel chooses.
    pub(crate) mac: Option<Mac>,
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) is_in_bridge: bool,
}

impl End {
    /// A link of a node.
    pub(super) fn of_link(node: &str, interface: &str) -> Self {
        let (namespace, interface) = (node.into(), interface.into());
        Self { namespace, interface, mac: None, addresses: Vec::new(), is_in_bridge: false }
    }
}

/// A node in the IPv6 underlay, and the others there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentWiring {
    pub(crate) namespace: String,
    pub(crate) own: SegmentPlace,
    /// Their locators, each with the address that leads there: theirs, or that of a router.
    pub(crate) others: Vec<(Locator, Ipv6Addr)>,
}

/// What comes in by one interface leaves by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyRoute {
    pub(crate) namespace: String,
    pub(crate) ingress: String,
    pub(crate) egress: String,
    pub(crate) table: u32,
}

/// A default route by a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefaultRoute {
    pub(crate) namespace: String,
    pub(crate) gateway: IpAddr,
    pub(crate) interface: String,
}

/// A node's place in the underlay, and what else it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePlan {
    pub(crate) name: String,
    pub(crate) role: NodeRole,
    pub(crate) data: IpAddr,
    /// Its place in the IPv6 underlay, if there is one.
    pub(crate) segments: Option<SegmentPlace>,
    /// MTU of its cable to the data network, in bytes.
    pub(crate) data_mtu: u32,
    /// Interfaces that are links to other nodes.
    pub(crate) links: Vec<String>,
    /// What it has that asks functions, where the lab says.
    pub(crate) function_threads: Option<FunctionThreads>,
}

/// A tenant port as the API gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortPlan {
    pub(crate) device: String,
    pub(crate) network: String,
    pub(crate) host: String,
    pub(crate) mac: Mac,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) is_function: bool,
}

impl PortPlan {
    /// The port's name at the API.
    pub(crate) fn name(&self) -> String {
        format!("{}@{}", self.device, self.network)
    }
}

/// A network that has no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "network '{network}': {cidr} has no address number {number} for '{member}'; widen the prefix"
)]
pub struct NoRoom {
    /// The network.
    pub network: String,
    /// Its prefix.
    pub cidr: IpNet,
    /// The missing address.
    pub number: u32,
    /// Who should get it.
    pub member: String,
}

/// The controller's address on the management network.
pub(crate) fn controller_address() -> Ipv4Addr {
    address::underlay(MANAGEMENT_NETWORK, CONTROLLER_NUMBER).addr()
}

/// The wiring of a lab.
pub(crate) fn plan(lab: &Lab) -> Result<WiringPlan, NoRoom> {
    let mut plan = WiringPlan::default();
    plan.namespaces.extend([MANAGEMENT_SWITCH, CONTROLLER].map(str::to_owned));
    plan.namespaces.extend(lab.hosts.iter().chain(&lab.bridges).chain(&lab.switches).cloned());
    plan.namespaces.extend(lab.routers.iter().cloned());
    plan.namespaces.extend(lab.endpoints.names().chain(lab.functions.names()).map(str::to_owned));
    plan.bridges.push(MANAGEMENT_SWITCH.to_owned());
    plan.bridges.extend(lab.bridges.iter().cloned());
    let of = |equipment| through(lab).filter(move |(_, it, _)| *it == equipment);
    plan.transparent.extend(of(Equipment::Bridge).map(|(.., name)| name));
    plan.open_vswitches.extend(of(Equipment::OpenVswitch).map(|(.., name)| name));
    plan.bridges.extend(plan.transparent.iter().cloned());
    plan.namespaces.extend(plan.transparent.iter().chain(&plan.open_vswitches).cloned());
    for switch in plan.bridges.clone() {
        plan.quiet(&switch);
    }
    underlay(lab, &mut plan);
    tenants(lab, &mut plan)?;
    functions(lab, &mut plan);
    default_routes(lab, &mut plan);
    Ok(plan)
}

impl WiringPlan {
    fn set(&mut self, namespace: &str, key: &str, value: &'static str) {
        self.settings.push(Setting { namespace: namespace.into(), key: key.into(), value });
    }

    /// What is of these namespaces, and of these alone.
    pub(crate) fn part(&self, members: &[&str]) -> Self {
        let is_in = |name: &String| members.contains(&name.as_str());
        let mut part = self.clone();
        part.namespaces.retain(is_in);
        part.bridges.retain(is_in);
        part.transparent.retain(is_in);
        part.open_vswitches.retain(is_in);
        part.settings.retain(|setting| is_in(&setting.namespace));
        part.cables.retain(|cable| cable.ends.iter().all(|end| is_in(&end.namespace)));
        part.interface_settings.retain(|setting| is_in(&setting.namespace));
        part.segment_places.retain(|place| is_in(&place.namespace));
        part.routes.retain(|route| is_in(&route.namespace));
        part.policy_routes.retain(|route| is_in(&route.namespace));
        part.default_routes.retain(|route| is_in(&route.namespace));
        part.nodes.retain(|node| is_in(&node.name));
        part.ports.retain(|port| is_in(&port.device));
        part
    }

    /// Gives nodes their addresses in the IPv6 underlay, and the ways to the locators of the others.
    fn place_in_ipv6(&mut self, lab: &Lab, subnets: &Subnets<'_>) {
        let places = self.nodes.iter().filter_map(|node| Some((&node.name, node.segments?)));
        let places: Vec<_> = places.collect();
        for (node, own) in &places {
            let setting = |name: &str, value| Setting {
                namespace: (*node).clone(),
                key: format!("net.ipv6.conf.{DATA_INTERFACE}.{name}"),
                value,
            };
            self.interface_settings.extend([
                setting("accept_dad", "0"),
                setting("accept_ra", "0"),
                setting("router_solicitations", "0"),
                setting("disable_ipv6", "0"),
            ]);
            let from = subnets.of_node(node);
            let way = |(other, place): &(&String, SegmentPlace)| {
                let gateway = routers::gateway6(lab, subnets, from, subnets.of_node(other));
                (place.locator, gateway.unwrap_or(place.address))
            };
            self.segment_places.push(SegmentWiring {
                namespace: (*node).clone(),
                own: *own,
                others: places.iter().filter(|(_, it)| it != own).map(way).collect(),
            });
        }
    }

    /// No IPv6 of the namespace's own: it would add frames that nobody asked for.
    fn quiet(&mut self, namespace: &str) {
        for scope in ["all", "default"] {
            self.set(namespace, &format!("net.ipv6.conf.{scope}.disable_ipv6"), "1");
        }
    }
}

fn underlay(lab: &Lab, plan: &mut WiringPlan) {
    let end = |namespace: &str, interface: &str, network, number| End {
        namespace: namespace.into(),
        interface: interface.into(),
        mac: Some(address::underlay_mac(network, number)),
        addresses: vec![address::underlay(network, number).into()],
        is_in_bridge: false,
    };
    let management = |namespace: &str, number: u8| Cable {
        ends: [
            end(namespace, MANAGEMENT_INTERFACE, MANAGEMENT_NETWORK, number),
            bridge_port(MANAGEMENT_SWITCH, namespace),
        ],
        mtu: MANAGEMENT_MTU_BYTES,
    };
    plan.cables.push(management(CONTROLLER, CONTROLLER_NUMBER));
    let numbered: Vec<(&str, NodeRole, u8)> = numbered(lab).collect();
    let subnets = Subnets::of_lab(lab);
    for (node, role, number) in &numbered {
        let subnet = subnets.of_node(node);
        plan.quiet(node);
        plan.cables.push(management(node, *number));
        let has_segments = lab.underlay != Families::Ipv4;
        let segments = address::segments(subnet, *number).filter(|_| has_segments);
        let data = match (lab.underlay, segments) {
            (Families::Ipv6, Some(SegmentPlace { address, .. })) => address.into(),
            _ => address::underlay(address::data_network(subnet), *number).addr().into(),
        };
        let cable = lab.links.iter().find(|link| link.left == *node || link.right == *node);
        let data_mtu = cable.map_or(MANAGEMENT_MTU_BYTES, |link| link.mtu);
        let own = lab.cables.iter().flat_map(|cable| &cable.ends).filter(|end| end.node == *node);
        let links = own.map(|end| end.interface.clone()).chain(strange::link_of(lab, node));
        let links = links.collect();
        plan.nodes.push(NodePlan {
            name: (*node).into(),
            role: *role,
            data,
            segments,
            data_mtu,
            links,
            function_threads: lab.function_threads.get(*node).copied(),
        });
    }
    plan.place_in_ipv6(lab, &subnets);
    plan.settings.extend(routers::settings(lab));
    plan.routes = routers::routes(lab, &subnets, plan, DATA_INTERFACE);
    for link in &lab.links {
        let node = numbered.iter().find(|(node, ..)| link.left == *node || link.right == *node);
        let ends = match node {
            Some((node, _, number)) => {
                let switch = if *node == link.left { &link.right } else { &link.left };
                let network = address::data_network(subnets.of_node(node));
                [end(node, DATA_INTERFACE, network, *number), bridge_port(switch, node)]
            }
            None => [(&link.left, &link.right), (&link.right, &link.left)].map(|(one, other)| {
                let of_router = routers::end(lab, &subnets, one, other);
                of_router.unwrap_or_else(|| bridge_port(one, other))
            }),
        };
        plan.cables.push(Cable { ends, mtu: link.mtu });
    }
    if let (true, [host]) = (lab.links.is_empty(), lab.hosts.as_slice()) {
        // A single host still binds its tunnel socket to its data address.
        let far = bridge_port(MANAGEMENT_SWITCH, &format!("{host}d"));
        let ends = [end(host, DATA_INTERFACE, DATA_NETWORK, 1), far];
        plan.cables.push(Cable { ends, mtu: MANAGEMENT_MTU_BYTES });
    }
    let strange = strange::ends(lab).map(|ends| (ends, MANAGEMENT_MTU_BYTES));
    plan.cables.extend(strange.map(|(ends, mtu)| Cable { ends, mtu }));
    between_nodes(lab, plan);
}

/// Cables from node to node, with what stands in them.
fn between_nodes(lab: &Lab, plan: &mut WiringPlan) {
    for (index, cable) in lab.cables.iter().enumerate() {
        let ends = cable.ends.each_ref();
        let ends = ends.map(|LinkEnd { node, interface }| End::of_link(node, interface));
        let mtu = cable.mtu;
        match through(lab).find(|(place, ..)| *place == index) {
            None => plan.cables.push(Cable { ends, mtu }),
            Some((_, equipment, name)) => plan.cables.extend(ends.map(|end| {
                let far = bridge_port(&name, &end.namespace);
                let far = End { is_in_bridge: equipment == Equipment::Bridge, ..far };
                Cable { ends: [end, far], mtu }
            })),
        }
    }
}

/// The cables that equipment stands in, by their places, each with its namespace: no name of a file has a dot.
fn through(lab: &Lab) -> impl Iterator<Item = (usize, Equipment, String)> {
    lab.cables.iter().enumerate().filter_map(|(index, cable)| {
        let [one, other] = cable.ends.each_ref().map(|end| end.node.as_str());
        Some((index, cable.through?, format!("{one}.{other}.{index}")))
    })
}

/// Every node with its number in the underlay.
fn numbered(lab: &Lab) -> impl Iterator<Item = (&str, NodeRole, u8)> {
    let hosts = lab.hosts.iter().zip(HOST_NUMBER_FIRST..);
    let hosts = hosts.map(|(name, number)| (name.as_str(), NodeRole::Host, number));
    let switches = lab.switches.iter().zip(SWITCH_NUMBER_FIRST..);
    hosts.chain(switches.map(|(name, number)| (name.as_str(), NodeRole::Switch, number)))
}

fn bridge_port(switch: &str, towards: &str) -> End {
    End {
        namespace: switch.into(),
        interface: towards.into(),
        mac: None,
        addresses: Vec::new(),
        is_in_bridge: true,
    }
}

fn tenants(lab: &Lab, plan: &mut WiringPlan) -> Result<(), NoRoom> {
    let endpoints = lab.endpoints.iter().map(|(name, e)| (name, &e.on, &e.networks, false));
    let functions = lab.functions.iter().map(|(name, f)| (name, &f.on, &f.networks, true));
    for (device, host, networks, is_function) in endpoints.chain(functions) {
        let passes_on = lab.functions.get(device).map(|function| !function.routes.is_empty());
        tenant_settings(plan, device, passes_on);
        for (index, (network, of)) in lab.networks.iter().enumerate() {
            if !networks.iter().any(|name| name == network) {
                continue;
            }
            let number = address::member_number(lab, network, device).unwrap_or_default();
            let mac = address::tenant_mac(index, number);
            let at = |cidr: &IpNet| {
                address::address_in(*cidr, number).ok_or_else(|| NoRoom {
                    network: network.into(),
                    cidr: *cidr,
                    number,
                    member: device.into(),
                })
            };
            let addresses: Vec<IpNet> = of.cidrs.iter().map(at).collect::<Result<_, _>>()?;
            plan.ports.push(PortPlan {
                device: device.into(),
                network: network.into(),
                host: host.clone(),
                mac,
                addresses: addresses.iter().copied().map(address::bare).collect(),
                is_function,
            });
            plan.cables.push(tenant_cable(device, (network, of.mtu), host, mac, addresses));
        }
    }
    Ok(())
}

/// The interface at the host to which a port's cable leads.
pub(crate) fn switch_side(device: &str, network: &str) -> String {
    format!("{device}.{network}")
}

fn tenant_cable(
    device: &str,
    (network, mtu): (&str, u32),
    host: &str,
    mac: Mac,
    addresses: Vec<IpNet>,
) -> Cable {
    let inner = End {
        namespace: device.into(),
        interface: network.into(),
        mac: Some(mac),
        addresses,
        is_in_bridge: false,
    };
    let switch_side = End {
        namespace: host.into(),
        interface: switch_side(device, network),
        mac: None,
        addresses: Vec::new(),
        is_in_bridge: false,
    };
    Cable { ends: [inner, switch_side], mtu }
}

/// Settings before the interfaces exist. `rp_filter` may be inherited from the machine;
/// redirects would tell the endpoints to go around a function of one port.
/// `passes_on`: of a function, whether it has routes; a tap has none and keeps what it gets.
fn tenant_settings(plan: &mut WiringPlan, device: &str, passes_on: Option<bool>) {
    let is_function = passes_on.is_some();
    for scope in ["all", "default"] {
        for (name, value) in ipv4_settings(is_function) {
            plan.set(device, &format!("net.ipv4.conf.{scope}.{name}"), value);
        }
        for (name, value) in [
            ("disable_ipv6", "0"),
            ("accept_dad", "0"),
            ("dad_transmits", "0"),
            ("accept_ra", "0"),
            ("accept_redirects", "0"),
        ] {
            plan.set(device, &format!("net.ipv6.conf.{scope}.{name}"), value);
        }
    }
    if let Some(passes_on) = passes_on {
        let value = if passes_on { "1" } else { "0" };
        plan.set(device, "net.ipv4.ip_forward", value);
        plan.set(device, "net.ipv6.conf.all.forwarding", value);
    }
}

fn ipv4_settings(is_function: bool) -> &'static [(&'static str, &'static str)] {
    const ENDPOINT: &[(&str, &str)] =
        &[("rp_filter", "0"), ("accept_redirects", "0"), ("arp_ignore", "1")];
    const FUNCTION: &[(&str, &str)] = &[
        ("rp_filter", "0"),
        ("accept_redirects", "0"),
        ("arp_ignore", "1"),
        ("send_redirects", "0"),
    ];
    if is_function { FUNCTION } else { ENDPOINT }
}

fn functions(lab: &Lab, plan: &mut WiringPlan) {
    for (name, function) in lab.functions.iter() {
        for network in &function.networks {
            for (setting, value) in ipv4_settings(true) {
                plan.interface_settings.push(Setting {
                    namespace: name.into(),
                    key: format!("net.ipv4.conf.{network}.{setting}"),
                    value,
                });
            }
        }
        for ((ingress, egress), table) in function.routes.iter().zip(TABLE_FIRST..) {
            plan.policy_routes.push(PolicyRoute {
                namespace: name.into(),
                ingress: ingress.into(),
                egress: egress.clone(),
                table,
            });
        }
    }
}

fn default_routes(lab: &Lab, plan: &mut WiringPlan) {
    for (name, endpoint) in lab.endpoints.iter() {
        for network in &endpoint.networks {
            let Some(of) = lab.networks.get(network) else { continue };
            let Some(gateway) = of.gateway.as_deref().filter(|gateway| *gateway != name) else {
                continue;
            };
            let number = address::member_number(lab, network, gateway).unwrap_or_default();
            for gateway in of.cidrs.iter().filter_map(|cidr| address::address_in(*cidr, number)) {
                plan.default_routes.push(DefaultRoute {
                    namespace: name.into(),
                    gateway: address::bare(gateway),
                    interface: network.clone(),
                });
            }
            break; // A second default route of one family would be refused.
        }
    }
}

impl fmt::Display for WiringPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in &self.namespaces {
            writeln!(f, "namespace {name}")?;
        }
        for name in &self.bridges {
            let passes = if self.transparent.contains(name) { " passes LLDP" } else { "" };
            writeln!(f, "bridge {name}/{BRIDGE}{passes}")?;
        }
        for name in &self.open_vswitches {
            writeln!(f, "open vswitch {name} passes LLDP")?;
        }
        for setting in self.settings.iter().chain(&self.interface_settings) {
            writeln!(f, "set {} {}={}", setting.namespace, setting.key, setting.value)?;
        }
        for cable in &self.cables {
            let [left, right] = &cable.ends;
            writeln!(f, "cable {left} -- {right} mtu {}", cable.mtu)?;
        }
        for route in &self.routes {
            let Route { namespace, to, gateway, interface } = route;
            writeln!(f, "route {namespace} to {to} via {gateway} by {interface}")?;
        }
        for route in &self.policy_routes {
            let PolicyRoute { namespace, ingress, egress, table } = route;
            writeln!(f, "route {namespace} from {ingress} by {egress} table {table}")?;
        }
        for route in &self.default_routes {
            writeln!(f, "route {} default via {}", route.namespace, route.gateway)?;
        }
        for port in &self.ports {
            writeln!(f, "port {} at {}", port.name(), port.host)?;
        }
        Ok(())
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.interface)?;
        for address in &self.addresses {
            write!(f, " {address}")?;
        }
        if self.is_in_bridge { f.write_str(" in bridge") } else { Ok(()) }
    }
}
