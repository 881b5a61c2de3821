//! Programs for tests: a town of nodes with networks, endpoints, functions and chains, described
//! in a few lines and cut into one program per node as the planner would.

use catena_dataplane::engine::Tables;
use catena_model::bundle::Configuration;
use catena_model::classifier::{Field, FieldMatch};
use catena_model::discovery::DiscoveryKey;
use catena_model::entry::Program;
use catena_model::id::{ChainId, FunctionId, InstanceId, NetworkId, PortId, RuleId};
use catena_model::limits::NODE_ROUTE_IDENTITIES;
use catena_model::program::{
    Balance, ChainEntry, DetourEntry, ExitEntry, ExitPlace, HopEntry, HopKind, IdentityEntry,
    InstanceEntry, Location, LocatorEntry, MacEntry, NeighbourEntry, NetworkEntry, NodeIdentity,
    OnwardEntry, PathEntry, PinEntry, PortEntry, PortRole, RewriteEntry, RouteEntry, RuleEntry,
    RuleMatch, RulePlace, SegmentPlace, SetupEntry, SliceEntry, SlicePathEntry, TunnelEntry,
    Underlay,
};
use catena_model::resource::{
    Attachment, ContextHeader, Encapsulation, FailurePolicy, InterfaceRef, IpFamily, Transport,
};
use catena_model::telemetry::{DeviceId, Telemetry};
use catena_model::topology::PortNumber;
use catena_model::{BlueprintNumber, NodeName, NodeProgram, PathId, TunnelKind};
use catena_wire::ipv6::Ipv6Header;
use catena_wire::scalar::{MacAddr, PortRange, Vni};
use catena_wire::srv6::{self, Locator};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use uuid::Uuid;

// By its path: other test binaries have a town, too.
#[path = "town_members.rs"]
mod members;

/// MTU of the underlay, in bytes.
pub(crate) const UNDERLAY_MTU: u16 = 1_500;

#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) id: NetworkId,
    pub(crate) vni: u32,
    pub(crate) prefixes: Vec<String>,
    pub(crate) gateways: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) id: PortId,
    pub(crate) name: String,
    pub(crate) node: usize,
    pub(crate) network: usize,
    pub(crate) role: PortRole,
    pub(crate) mac: MacAddr,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) own_sources: Option<Vec<IpAddr>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) ingress: usize,
    pub(crate) egress: usize,
    pub(crate) weight: u32,
    pub(crate) speaks: Option<Encapsulation>,
}

#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) name: String,
    pub(crate) path: u32,
    pub(crate) encapsulation: Encapsulation,
    /// Names of the instances of each hop.
    pub(crate) hops: Vec<Vec<String>>,
    /// The hops that are taps, by number.
    pub(crate) taps: Vec<usize>,
    /// It is the way back of a symmetric chain: in by the egress, out by the ingress.
    pub(crate) is_reverse: bool,
    pub(crate) context: Vec<ContextHeader>,
    /// What becomes of packets for a dead instance, at every hop.
    pub(crate) on_failure: FailurePolicy,
    /// What chooses among instances, at every hop.
    pub(crate) balance: Balance,
    /// How functions rewrite, by number of the hop.
    pub(crate) rewrites: BTreeMap<usize, RewriteEntry>,
    pub(crate) destination: usize,
    pub(crate) rules: Vec<(u32, RuleMatch)>,
    /// What its packets take along.
    pub(crate) telemetry: Option<Telemetry>,
    /// Segments of others on the way to functions, by number of the hop.
    pub(crate) via: BTreeMap<usize, Vec<Ipv6Addr>>,
}

/// Everything there is; change it and make the programs anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Town {
    pub(crate) nodes: usize,
    pub(crate) number: u64,
    pub(crate) choice_seed: u64,
    /// Both ends of each: a node, and its port number. None, and a chain by source routes: one between each two nodes.
    pub(crate) cables: Vec<[(usize, u8); 2]>,
    /// The links on the way from a node to another where there is not one cable between them.
    pub(crate) ways: BTreeMap<(usize, usize), Vec<u8>>,
    /// Ways round their cables.
    pub(crate) detours: BTreeMap<(usize, usize), Vec<WayRound>>,
    /// What ways take, of those of which nodes told.
    pub(crate) mtus: BTreeMap<(usize, usize), u16>,
    /// No node is told of ways between others: each header leads to one function.
    pub(crate) is_apart: bool,
    /// The key by which nodes know each other; none: they take links as they are.
    pub(crate) discovery_key: Option<DiscoveryKey>,
    /// Nodes without a place in the IPv6 underlay.
    pub(crate) unplaced: BTreeSet<usize>,
    /// Nodes without a number in telemetry.
    pub(crate) unnumbered: BTreeSet<usize>,
    /// Ends of cables into which nothing that is sent arrives.
    pub(crate) cut: BTreeSet<(usize, u8)>,
    /// Ends of cables from which frames take so many milliseconds to the other.
    pub(crate) slow: BTreeMap<(usize, u8), u64>,
    pub(crate) networks: Vec<Network>,
    pub(crate) ports: Vec<Port>,
    /// Names of ports that are in no program for now.
    pub(crate) absent: BTreeSet<String>,
    pub(crate) instances: Vec<Instance>,
    /// Names of instances whose function is declared to keep MACs.
    pub(crate) keeping: BTreeSet<String>,
    /// Names of instances that run inside, and what they are made of by the chain that meets them; by no name: in all
    /// others.
    pub(crate) bundled: BTreeMap<(String, String), Configuration>,
    /// Those beside each other are one hop.
    pub(crate) has_segments: bool,
    pub(crate) chains: Vec<Chain>,
    pub(crate) pins: Vec<PinEntry>,
    /// Known at every node, as the chains are.
    pub(crate) setups: Vec<SetupEntry>,
    /// Known at every node, as the chains are.
    pub(crate) slices: Vec<SliceEntry>,
    pub(crate) slice_paths: Vec<SlicePathEntry>,
}

pub(crate) fn node_name(node: usize) -> NodeName {
    NodeName::new(format!("host{}", node + 1)).unwrap()
}

/// The place of a node in the IPv6 underlay.
pub(crate) fn node_segments(node: usize) -> SegmentPlace {
    let number = u8::try_from(node + 1).unwrap();
    SegmentPlace {
        address: format!("2001:db8::{number:x}").parse().unwrap(),
        locator: Locator::new([0x5f, 0, 0, 0, 0, number]).unwrap(),
    }
}

/// What plain routers do with a packet before it comes to one of so many nodes; false: it is for a host.
pub(crate) fn lead_on(nodes: usize, packet: &mut [u8]) -> bool {
    let is_for_node = |packet: &[u8]| {
        let to = Ipv6Header::parse(packet).expect("a packet").0.destination;
        (0..nodes).map(node_segments).any(|place| Locator::of(to) == Ok(place.locator))
    };
    while !is_for_node(packet) && srv6::end(packet).is_ok() {}
    is_for_node(packet)
}

/// Its number in telemetry.
pub(crate) fn device(node: usize) -> DeviceId {
    DeviceId(u16::try_from(node + 1).unwrap())
}

/// The address by which a kind of tunnel reaches a node.
pub(crate) fn tunnel_end(node: usize, kind: TunnelKind) -> IpAddr {
    match kind.is_segmented() {
        true => node_segments(node).address.into(),
        false => node_address(node),
    }
}

pub(crate) fn node_address(node: usize) -> IpAddr {
    format!("192.0.2.{}", node + 1).parse().unwrap()
}

fn id(kind: u128, number: usize) -> Uuid {
    Uuid::from_u128(kind << 64 | number as u128)
}

/// The same as long as the chain has this name, on whatever path.
fn rule_id(chain: &str, number: usize) -> RuleId {
    let of_chain =
        chain.bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31) + usize::from(byte));
    RuleId(id(5, of_chain << 16 | number))
}

/// A condition on a field beside the flow.
pub(crate) fn condition(name: &str, words: &str) -> FieldMatch {
    let mut condition = FieldMatch::default();
    condition.set(Field::named(name).unwrap(), words).unwrap();
    condition
}

/// A rule for one transport and destination port of one IP version.
pub(crate) fn rule(family: IpFamily, transport: Transport, destination_port: u16) -> RuleMatch {
    RuleMatch {
        place: RulePlace::Endpoints,
        vlan: None,
        family,
        transport: Some(transport),
        source: None,
        destination: None,
        source_ports: None,
        destination_ports: Some(PortRange::new(destination_port, destination_port).unwrap()),
        fields: FieldMatch::default(),
    }
}

impl Town {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, number: 1, ..Self::default() }
    }

    pub(crate) fn network(&mut self, vni: u32, prefixes: &[&str]) -> usize {
        let prefixes = prefixes.iter().map(ToString::to_string).collect();
        let id = NetworkId(id(1, self.networks.len()));
        self.networks.push(Network { id, vni, prefixes, gateways: Vec::new() });
        self.networks.len() - 1
    }

    pub(crate) fn port(
        &mut self,
        name: &str,
        node: usize,
        network: usize,
        role: PortRole,
        addresses: &[&str],
    ) -> usize {
        let number = self.ports.len();
        self.ports.push(Port {
            id: PortId(id(2, number)),
            name: name.to_owned(),
            node,
            network,
            role,
            mac: MacAddr([2, 0, 0, 0, 0, u8::try_from(number + 1).unwrap()]),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            own_sources: None,
        });
        number
    }

    pub(crate) fn endpoint(&mut self, name: &str, node: usize, network: usize, addresses: &[&str]) {
        self.port(name, node, network, PortRole::Endpoint, addresses);
    }

    /// A function with a port `NAME.in` and a port `NAME.out`.
    pub(crate) fn function(&mut self, name: &str, node: usize, networks: (usize, usize)) {
        let ingress = self.port(&format!("{name}.in"), node, networks.0, PortRole::Function, &[]);
        let egress = self.port(&format!("{name}.out"), node, networks.1, PortRole::Function, &[]);
        self.instances.push(Instance {
            name: name.to_owned(),
            ingress,
            egress,
            weight: 1,
            speaks: None,
        });
    }

    pub(crate) fn speaking(&mut self, name: &str, encapsulation: Encapsulation) {
        let instance = self.instances.iter_mut().find(|i| i.name == name).unwrap();
        instance.speaks = Some(encapsulation);
    }

    pub(crate) fn chain(
        &mut self,
        name: &str,
        encapsulation: Encapsulation,
        hops: &[&[&str]],
        rules: &[RuleMatch],
    ) -> &mut Chain {
        let hops = hops.iter().map(|hop| hop.iter().map(ToString::to_string).collect()).collect();
        let path = 100 + u32::try_from(self.chains.len()).unwrap();
        self.chains.push(Chain {
            name: name.to_owned(),
            path,
            encapsulation,
            hops,
            taps: Vec::new(),
            is_reverse: false,
            context: Vec::new(),
            on_failure: FailurePolicy::Unwatched,
            balance: Balance::Flow,
            rewrites: BTreeMap::new(),
            destination: 0,
            rules: rules.iter().map(|matches| (10, matches.clone())).collect(),
            telemetry: None,
            via: BTreeMap::new(),
        });
        self.chains.last_mut().unwrap()
    }

    pub(crate) fn port_named(&self, name: &str) -> &Port {
        self.ports.iter().find(|port| port.name == name).unwrap_or_else(|| panic!("port {name}"))
    }

    pub(crate) fn mac(&self, port: &str) -> MacAddr {
        self.port_named(port).mac
    }

    pub(crate) fn instance(&self, name: &str) -> (usize, &Instance) {
        let found = self.instances.iter().enumerate().find(|(_, i)| i.name == name);
        found.unwrap_or_else(|| panic!("instance {name}"))
    }

    pub(crate) fn instance_id(&self, name: &str) -> InstanceId {
        InstanceId(id(3, self.instance(name).0))
    }

    fn path_entry(&self, chain: &Chain) -> PathEntry {
        let instance = |name: &String| {
            let (number, instance) = self.instance(name);
            let (ingress, egress) = match chain.is_reverse {
                false => (&self.ports[instance.ingress], &self.ports[instance.egress]),
                true => (&self.ports[instance.egress], &self.ports[instance.ingress]),
            };
            InstanceEntry {
                id: InstanceId(id(3, number)),
                name: instance.name.clone(),
                node: node_name(self.ports[instance.ingress].node),
                ingress: ingress.id,
                egress: egress.id,
                ingress_mac: ingress.mac,
                weight: instance.weight,
                speaks: instance.speaks,
            }
        };
        let hops = self.segments(chain).into_iter().map(|segment| {
            let numbers = || segment.iter().copied();
            let (first, last) = (segment[0], segment[segment.len() - 1]);
            let listed_first = if chain.is_reverse { last } else { first };
            let entry = |place: usize| {
                let at = |number: usize| instance(&chain.hops[number][place]);
                let InstanceEntry { id, .. } = at(listed_first);
                InstanceEntry { id, egress: at(last).egress, ..at(first) }
            };
            HopEntry {
                function: FunctionId(Uuid::nil()),
                name: numbers().map(|at| chain.hops[at].join("|")).collect::<Vec<_>>().join(", "),
                kind: if chain.taps.contains(&first) { HopKind::Tap } else { HopKind::Through },
                on_failure: chain.on_failure,
                balance: chain.balance.clone(),
                rewrites: numbers().find_map(|at| chain.rewrites.get(&at)).cloned(),
                keeps_mac: numbers()
                    .flat_map(|at| &chain.hops[at])
                    .all(|name| self.keeping.contains(name)),
                via: chain.via.get(&first).cloned().unwrap_or_default(),
                instances: (0..chain.hops[first].len()).map(entry).collect(),
            }
        });
        PathEntry {
            id: PathId(chain.path),
            chain: self.chain_id(chain),
            encapsulation: chain.encapsulation,
            context: chain.context.clone(),
            hops: hops.collect(),
            destination: self.networks[chain.destination].id,
            is_way_back: chain.is_reverse,
            splits_flows: chain.rules.iter().any(|(_, matches)| !matches.fields.is_any()),
            telemetry: chain.telemetry.clone(),
        }
    }

    pub(crate) fn chain_id(&self, chain: &Chain) -> ChainId {
        let number = self.chains.iter().position(|other| other.name == chain.name);
        ChainId(id(4, number.unwrap_or(usize::MAX)))
    }

    /// The program of one node: it knows every path, and the ports that it carries.
    pub(crate) fn program(&self, node: usize) -> NodeProgram {
        let underlay = Underlay { address: node_address(node), mtu: UNDERLAY_MTU };
        let mut program =
            NodeProgram::empty(node_name(node), BlueprintNumber(self.number), underlay);
        program.choice_seed = self.choice_seed;
        program.discovery_key = self.discovery_key;
        for other in (0..self.nodes).filter(|other| *other != node) {
            let address = node_address(other);
            program.tunnels.push(TunnelEntry { node: node_name(other), address });
        }
        let locators = (0..self.nodes).filter(|node| !self.unplaced.contains(node));
        program.locators = locators
            .map(|node| LocatorEntry {
                node: node_name(node),
                place: node_segments(node),
                device: (!self.unnumbered.contains(&node)).then(|| device(node)),
            })
            .collect();
        for (index, network) in self.networks.iter().enumerate() {
            program.networks.push(self.network_entry(node, index, network));
        }
        for port in self.ports.iter().filter(|port| !self.absent.contains(&port.name)) {
            let network = self.networks[port.network].id;
            let at = if port.node == node {
                let mut entry = port_entry(port, network);
                if self.is_inside(&port.name) {
                    entry.attachment = Attachment::Inside;
                }
                program.ports.push(entry);
                Location::Port(port.id)
            } else {
                Location::Node(node_name(port.node))
            };
            program.macs.push(MacEntry { network, mac: port.mac, at });
            for address in &port.addresses {
                let entry = NeighbourEntry { network, address: *address, mac: port.mac };
                program.neighbours.push(entry);
            }
        }
        for chain in &self.chains {
            program.paths.push(self.path_entry(chain));
            self.add_members(node, chain, &mut program);
            let name = chain.name.clone();
            program.chains.push(ChainEntry { id: self.chain_id(chain), name: name.clone() });
            for (number, (priority, matches)) in chain.rules.iter().enumerate() {
                program.rules.push(RuleEntry {
                    id: rule_id(&name, number),
                    name: format!("{name}-{number}"),
                    priority: *priority,
                    matches: matches.clone(),
                    path: PathId(chain.path),
                });
            }
        }
        self.add_routes(node, &mut program);
        program.pins.clone_from(&self.pins);
        program.setups.clone_from(&self.setups);
        program.slices.clone_from(&self.slices);
        program.slice_paths.clone_from(&self.slice_paths);
        program
    }

    /// The links of a node: their numbers, and where each leads.
    pub(crate) fn links(&self, node: usize) -> Vec<(u8, (usize, u8))> {
        let is_needed = self.chains.iter().any(|chain| chain.encapsulation.is_source_route());
        if self.cables.is_empty() && is_needed {
            let others = (0..self.nodes).filter(|other| *other != node);
            return others.map(|other| (mesh_link(other), (other, mesh_link(node)))).collect();
        }
        let ways = self.cables.iter().flat_map(|[one, other]| [(*one, *other), (*other, *one)]);
        let own = ways.filter(|((from, _), _)| *from == node);
        own.map(|((_, number), to)| (number, to)).collect()
    }

    /// Numbers of links and of functions' ports, and the ways to those of other nodes.
    fn add_routes(&self, node: usize, program: &mut NodeProgram) {
        let links = self.links(node);
        let exit = |number, to| ExitEntry { number: port_number(number), to };
        let is_mesh = self.cables.is_empty();
        let link = |number| {
            let name = link_name(node, number);
            let name = if is_mesh { format!("{MESH}{name}") } else { name };
            exit(number, ExitPlace::Link(name))
        };
        program.exits = links.iter().map(|(number, _)| link(*number)).collect();
        let own = (0..).zip(identities(node)).filter(|_| !links.is_empty());
        program.identities = own.map(|(pass, identity)| IdentityEntry { pass, identity }).collect();
        if links.is_empty() {
            return;
        }
        let is_function = |port: &Port| port.role == PortRole::Function;
        let is_there = |port: &Port| !self.absent.contains(&port.name);
        let ports = || self.ports.iter().filter(|port| is_function(port) && is_there(port));
        for port in ports() {
            let own = function_number(self.port_place(&port.name));
            if port.node == node {
                program.exits.push(exit(own, ExitPlace::Port(port.id)));
            } else if let Some(route) = self.route(node, port) {
                program.routes.push(route);
            }
        }
        let others = (0..self.nodes).filter(|other| *other != node && !self.is_apart);
        for (from, port) in others.flat_map(|other| ports().map(move |port| (other, port))) {
            let Some(route) = self.route(from, port) else { continue };
            let RouteEntry { node, to, ports, detours, later_identities, .. } = route;
            let first = identities(from)[1];
            let is_own = port.node == from;
            let identities = match is_own {
                true => vec![first],
                false => [first].into_iter().chain(later_identities).collect(),
            };
            let from = node_name(from);
            program.onward.push(OnwardEntry { from, node, to, ports, detours, identities });
        }
    }

    /// The way from a node to a port, which may be its own.
    fn route(&self, from: usize, port: &Port) -> Option<RouteEntry> {
        let own = function_number(self.port_place(&port.name));
        let direct = || {
            let links = self.links(from);
            links.iter().find(|(_, (to, _))| *to == port.node).map(|(number, _)| vec![*number])
        };
        let way = match port.node == from {
            true => Vec::new(),
            false => self.ways.get(&(from, port.node)).cloned().or_else(direct)?,
        };
        let [identities, later_identities] = [0, 1].map(|pass| self.named(from, &way, pass));
        let ports = way.into_iter().chain([own]).map(port_number).collect();
        let detours = self.detours.get(&(from, port.node)).into_iter().flatten();
        let detours = detours.map(|(at, rejoin, ports)| DetourEntry {
            at: *at,
            rejoin: *rejoin,
            ports: ports.iter().copied().map(port_number).collect(),
        });
        let detours = detours.collect();
        let node = node_name(port.node);
        let mtu = self.mtus.get(&(from, port.node)).copied();
        Some(RouteEntry { node, to: port.id, ports, detours, identities, later_identities, mtu })
    }

    /// What the nodes divide by in a pass that a way from one leads to, its cables taken in order.
    fn named(&self, from: usize, way: &[u8], pass: usize) -> Vec<NodeIdentity> {
        let mut at = from;
        let far = |port: &u8| {
            let links = self.links(at);
            let (_, (node, _)) = links.iter().find(|(number, _)| number == port)?;
            at = *node;
            Some(identities(at)[pass])
        };
        way.iter().filter_map(far).collect()
    }

    fn port_place(&self, name: &str) -> usize {
        self.ports.iter().position(|port| port.name == name).unwrap()
    }

    fn network_entry(&self, node: usize, index: usize, network: &Network) -> NetworkEntry {
        let ports = self.ports.iter().filter(|port| port.network == index && port.node != node);
        let members: BTreeSet<usize> = ports.map(|port| port.node).collect();
        NetworkEntry {
            id: network.id,
            name: format!("network{index}"),
            vni: Vni::new(network.vni).unwrap(),
            prefixes: network.prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect(),
            gateways: network.gateways.iter().map(|gateway| gateway.parse().unwrap()).collect(),
            members: members.into_iter().map(node_name).collect(),
        }
    }

    pub(crate) fn tables(&self, node: usize) -> Tables {
        Tables::compile(&self.program(node)).expect("the program is sound")
    }

    /// What a node is told.
    pub(crate) fn told(&self, node: usize) -> Program {
        Program::new(BlueprintNumber(self.number), self.program(node).entries())
    }
}

fn port_entry(port: &Port, network: NetworkId) -> PortEntry {
    PortEntry {
        id: port.id,
        name: port.name.clone(),
        network,
        mac: port.mac,
        role: port.role,
        attachment: Attachment::Interface(InterfaceRef {
            namespace: None,
            interface: port.name.clone(),
        }),
        own_sources: port.own_sources.clone(),
    }
}

/// How the names of links begin where there is one between each two nodes.
pub(crate) const MESH: &str = "mesh ";

/// A way round a cable: place of the port, of that with which the way goes on, and ports.
pub(crate) type WayRound = (u8, u8, Vec<u8>);

/// The name of a node's link.
pub(crate) fn link_name(node: usize, number: u8) -> String {
    format!("{}-{number}", node_name(node))
}

/// The link towards a node where there is one between each two.
fn mesh_link(to: usize) -> u8 {
    u8::try_from(to).unwrap() + 1
}

/// The port number of a function's port, by its place among all ports.
pub(crate) fn function_number(place: usize) -> u8 {
    u8::try_from(100 + place).unwrap()
}

fn port_number(number: u8) -> PortNumber {
    PortNumber::new(number).unwrap()
}

/// What a node divides numbers of ways by, for each pass.
pub(crate) fn identities(node: usize) -> [NodeIdentity; NODE_ROUTE_IDENTITIES] {
    std::array::from_fn(|pass| NodeIdentity::all()[NODE_ROUTE_IDENTITIES * node + pass])
}
