//! Programs for the tests: one network, some endpoints.

use crate::machine::UNDERLAY;
use catena_model::entry::Program;
use catena_model::id::{NetworkId, PortId};
use catena_model::program::{
    Location, MacEntry, NeighbourEntry, NetworkEntry, PortEntry, PortRole, Underlay,
};
use catena_model::resource::{Attachment, InterfaceRef};
use catena_model::{BlueprintNumber, NodeCounters, NodeName, NodeProgram};
use catena_protocol::delta::deltas;
use catena_protocol::message::Delta;
use catena_wire::scalar::{MacAddr, Vni};
use std::net::Ipv4Addr;
use uuid::Uuid;

pub(crate) fn port(number: u8) -> PortId {
    PortId(Uuid::from_u128(u128::from(number)))
}

pub(crate) fn interface(number: u8) -> String {
    format!("p{number}")
}

pub(crate) fn mac(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

pub(crate) fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

/// The first part of the change of one program into another, which is the only one mostly.
pub(crate) fn change(from: &Program, to: &Program) -> Delta {
    deltas(&NodeName::new("host1").unwrap(), from, to).remove(0)
}

/// The program of this number with these ports, each at its interface.
pub(crate) fn packed(number: u64, ports: &[u8]) -> Program {
    let interfaces: Vec<String> = ports.iter().copied().map(interface).collect();
    let named = ports.iter().copied().zip(interfaces.iter().map(String::as_str));
    packed_at(number, &named.collect::<Vec<_>>())
}

/// The program of this number with these ports at these interfaces.
pub(crate) fn packed_at(number: u64, ports: &[(u8, &str)]) -> Program {
    let here = |interface: &str| {
        Attachment::Interface(InterfaceRef { namespace: None, interface: interface.into() })
    };
    let ports: Vec<(u8, Attachment)> =
        ports.iter().map(|(place, interface)| (*place, here(interface))).collect();
    packed_with(number, &ports)
}

/// The program of this number with these ports, wherever their interfaces are.
pub(crate) fn packed_with(number: u64, ports: &[(u8, Attachment)]) -> Program {
    let underlay = Underlay { address: UNDERLAY, mtu: 1_500 };
    let node = NodeName::new("host1").unwrap();
    let mut program = NodeProgram::empty(node, BlueprintNumber(number), underlay);
    let network = NetworkId(Uuid::from_u128(1_000));
    program.networks.push(NetworkEntry {
        id: network,
        name: "customer".into(),
        vni: Vni::new(100).unwrap(),
        prefixes: vec!["10.0.0.0/24".parse().unwrap()],
        gateways: Vec::new(),
        members: Vec::new(),
    });
    for (place, attachment) in ports.iter().cloned() {
        program.ports.push(PortEntry {
            id: port(place),
            name: attachment.name().to_owned(),
            network,
            mac: mac(place),
            role: PortRole::Endpoint,
            attachment,
            own_sources: None,
        });
        program.macs.push(MacEntry { network, mac: mac(place), at: Location::Port(port(place)) });
        program.neighbours.push(NeighbourEntry {
            network,
            address: address(place).into(),
            mac: mac(place),
        });
    }
    Program::new(program.number, program.entries())
}

/// Counters of a node on which nothing happened.
pub(crate) fn no_counters() -> NodeCounters {
    NodeCounters::none(NodeName::new("host1").unwrap(), BlueprintNumber(1))
}
