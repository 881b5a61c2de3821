//! A node for measurements: one network, endpoints, functions, and as many paths as asked for.

use super::drive::wrong;
use super::kinds::{Kind, VLAN};
use crate::error::BenchError;
use catena_model::classifier::FieldMatch;
use catena_model::id::{ChainId, FunctionId, InstanceId, NetworkId, PortId, RuleId, SliceId};
use catena_model::program::{
    Balance, ChainEntry, ExitEntry, ExitPlace, HopEntry, HopKind, InstanceEntry, Location, Locator,
    LocatorEntry, MacEntry, NeighbourEntry, NetworkEntry, PathEntry, PortEntry, PortRole,
    RouteEntry, RuleEntry, RuleMatch, RulePlace, SegmentPlace, SlicePathEntry, TunnelEntry,
    Underlay,
};
use catena_model::resource::{
    Attachment, Encapsulation, FailurePolicy, InterfaceRef, IpFamily, Transport,
};
use catena_model::telemetry::{DeviceId, Telemetry};
use catena_model::topology::PortNumber;
use catena_model::{BlueprintNumber, NodeName, NodeProgram, PathId};
use catena_wire::scalar::{MacAddr, VlanId, Vni};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use uuid::Uuid;

/// VNI of the network.
pub(crate) const VNI: u32 = 7;
/// Where packets come from by tunnel, and where they go.
pub(crate) const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// The same in the IPv6 underlay, with what segments of the nodes begin with.
pub(crate) const FAR_SEGMENTS: Standing = (2, [0x5f, 0, 0, 0, 0, 2]);
const HERE_SEGMENTS: Standing = (1, [0x5f, 0, 0, 0, 0, 1]);
const UNDERLAY_MTU: u16 = 9_000;
/// The ports of the way to the other node: the link, that of a switch, that of the function.
const WAY: [u8; 3] = [1, 7, 3];
/// The first path; the others follow.
pub(crate) const FIRST_PATH: u32 = 100;

/// A node's number and locator.
type Standing = (u16, [u8; 6]);

/// Its place in the IPv6 underlay.
pub(crate) fn place((number, locator): Standing) -> Result<SegmentPlace, BenchError> {
    let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number);
    let locator = Locator::new(locator).map_err(|error| wrong("the program", &error))?;
    Ok(SegmentPlace { address, locator })
}

/// That of the node that is measured.
pub(crate) fn own_place() -> Result<SegmentPlace, BenchError> {
    place(HERE_SEGMENTS)
}

/// The ports of the node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seat {
    Source,
    Sink,
    AwareIn,
    AwareOut,
    BareIn,
    BareOut,
}

impl Seat {
    const ALL: [Self; 6] =
        [Self::Source, Self::Sink, Self::AwareIn, Self::AwareOut, Self::BareIn, Self::BareOut];

    pub(crate) fn port(self) -> PortId {
        PortId(Uuid::from_u128(0x2000 + self as u128))
    }

    pub(crate) fn mac(self) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, 1 + self as u8])
    }

    /// The address behind the port.
    pub(crate) fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, 1 + self as u8)
    }

    /// Its other address.
    pub(crate) fn address_v6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1 + self as u16)
    }

    fn role(self) -> PortRole {
        match self {
            Self::Source | Self::Sink => PortRole::Endpoint,
            _ => PortRole::Function,
        }
    }
}

/// What a hop of the paths is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hop {
    /// On another node.
    Far,
    /// Here, and reads the header.
    Aware,
    /// Here, behind the proxy.
    Bare,
}

/// The program: `paths` paths of these hops; those behind the first are paths of slices, which
/// share its hops. All UDP of the source enters the first.
pub(crate) fn program(hops: &[Hop], paths: u32) -> Result<NodeProgram, BenchError> {
    program_of(Kind::ORDINARY, hops, paths)
}

/// The same for another kind of traffic.
pub(super) fn program_of(kind: Kind, hops: &[Hop], paths: u32) -> Result<NodeProgram, BenchError> {
    let encapsulation = kind.encapsulation;
    let [here, far] = [name(1)?, name(2)?];
    let prefixes = ["10.0.0.0/8", "fd00::/16"].into_iter();
    let prefixes: Result<Vec<_>, _> = prefixes
        .map(|prefix| prefix.parse().map_err(|error| wrong("the program", &error)))
        .collect();
    let underlay = Underlay { address: HERE, mtu: UNDERLAY_MTU };
    let mut program = NodeProgram::empty(here.clone(), BlueprintNumber(1), underlay);
    program.tunnels.push(TunnelEntry { node: far.clone(), address: FAR });
    program.networks.push(NetworkEntry {
        id: network(),
        name: "network".into(),
        vni: Vni::new(VNI).map_err(|error| wrong("the program", &error))?,
        prefixes: prefixes?,
        gateways: Vec::new(),
        members: Vec::new(),
    });
    for seat in Seat::ALL {
        program.ports.push(PortEntry {
            id: seat.port(),
            name: format!("port{}", seat as u8),
            network: network(),
            mac: seat.mac(),
            role: seat.role(),
            attachment: Attachment::Interface(InterfaceRef {
                namespace: None,
                interface: "none".into(),
            }),
            own_sources: None,
        });
        let (network, mac) = (network(), seat.mac());
        program.macs.push(MacEntry { network, mac, at: Location::Port(seat.port()) });
        for address in [IpAddr::V4(seat.address()), IpAddr::V6(seat.address_v6())] {
            program.neighbours.push(NeighbourEntry { network, address, mac });
        }
    }
    let chain = ChainId(Uuid::from_u128(0x4000));
    program.chains.push(ChainEntry { id: chain, name: "chain".into() });
    program.paths.push(PathEntry {
        id: PathId(FIRST_PATH),
        chain,
        encapsulation,
        context: Vec::new(),
        hops: hops
            .iter()
            .enumerate()
            .map(|(number, hop)| match hop {
                Hop::Far => entry(number, *hop, &far, encapsulation),
                Hop::Aware | Hop::Bare => entry(number, *hop, &here, encapsulation),
            })
            .collect(),
        destination: network(),
        is_way_back: false,
        splits_flows: false,
        telemetry: kind.takes_records.then(Telemetry::default),
    });
    if encapsulation.is_segmented() {
        for (node, standing) in [(&here, HERE_SEGMENTS), (&far, FAR_SEGMENTS)] {
            let device = Some(DeviceId(standing.0));
            program.locators.push(LocatorEntry {
                node: node.clone(),
                place: place(standing)?,
                device,
            });
        }
    }
    program.slice_paths = (1..paths)
        .map(|number| SlicePathEntry {
            id: PathId(FIRST_PATH + number),
            slice: SliceId(Uuid::from_u128(0x6000_0000 + u128::from(number))),
            like: PathId(FIRST_PATH),
            carries_metadata: false,
        })
        .collect();
    program.rules.push(rule(kind));
    if encapsulation.is_source_route() {
        route(&mut program, far);
    }
    Ok(program)
}

/// A link, and the way over a switch behind it to the function on the other node.
fn route(program: &mut NodeProgram, far: NodeName) {
    let numbers = WAY.into_iter().filter_map(PortNumber::new);
    let ports: Vec<PortNumber> = numbers.collect();
    let links = ports
        .first()
        .map(|number| ExitEntry { number: *number, to: ExitPlace::Link("eth1".into()) });
    program.exits.extend(links);
    program.routes.push(RouteEntry {
        node: far,
        to: Seat::BareIn.port(),
        ports,
        detours: Vec::new(),
        identities: Vec::new(),
        later_identities: Vec::new(),
        mtu: None,
    });
}

fn name(number: u8) -> Result<NodeName, BenchError> {
    NodeName::new(format!("host{number}")).map_err(|error| wrong("the program", &error))
}

fn network() -> NetworkId {
    NetworkId(Uuid::from_u128(0x1000))
}

fn rule(kind: Kind) -> RuleEntry {
    RuleEntry {
        id: RuleId(Uuid::from_u128(0x5000)),
        name: "all UDP".into(),
        priority: 1,
        matches: RuleMatch {
            place: RulePlace::Port(Seat::Source.port()),
            vlan: VlanId::new(VLAN.into()).ok().filter(|_| kind.is_tagged),
            family: if kind.is_v6 { IpFamily::Ipv6 } else { IpFamily::Ipv4 },
            transport: Some(Transport::Udp),
            source: None,
            destination: None,
            source_ports: None,
            destination_ports: None,
            fields: FieldMatch::default(),
        },
        path: PathId(FIRST_PATH),
    }
}

fn entry(number: usize, hop: Hop, node: &NodeName, spoken: Encapsulation) -> HopEntry {
    let (ingress, egress, speaks) = match hop {
        Hop::Aware => (Seat::AwareIn, Seat::AwareOut, Some(spoken)),
        Hop::Far | Hop::Bare => (Seat::BareIn, Seat::BareOut, None),
    };
    HopEntry {
        function: FunctionId(Uuid::nil()),
        name: format!("hop{number}"),
        kind: HopKind::Through,
        on_failure: FailurePolicy::Unwatched,
        balance: Balance::Flow,
        rewrites: None,
        keeps_mac: false,
        via: Vec::new(),
        instances: vec![InstanceEntry {
            id: InstanceId(Uuid::from_u128(0x3000 + number as u128)),
            name: format!("instance{number}"),
            node: node.clone(),
            ingress: ingress.port(),
            egress: egress.port(),
            ingress_mac: ingress.mac(),
            weight: 1,
            speaks,
        }],
    }
}
