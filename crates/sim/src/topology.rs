//! The declared world that a run begins with: nodes, two tenant networks, endpoints and functions.
//! No chain yet: those are the operator's affair.

use catena_model::classifier::FieldMatch;
use catena_model::id::{FunctionId, InstanceId, NetworkId, NodeName, PortId, RuleId, SubnetId};
use catena_model::program::Underlay;
use catena_model::resource::{
    Attachment, ClassificationRule, Conduct, Encapsulation, FailurePolicy, FixedIp, Instance,
    InterfaceRef, IpFamily, Label, NamespaceRef, Network, Port, PortBounds, ServiceFunction,
    Subnet, Transport, TupleMapping,
};
use catena_model::{ProjectId, id::ChainId};
use catena_plan::Intent;
use catena_wire::scalar::{MacAddr, Vni};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr};
use uuid::Uuid;

/// The network of the endpoints, where every chain starts and ends.
pub(crate) const CUSTOMER: u8 = 1;
const INTERNAL: u8 = 2;
/// Chains that an operator may declare.
pub(crate) const CHAINS: u32 = 4;
/// Machines with an endpoint, one on the first node and one on the last.
const ENDPOINTS: [u8; 2] = [1, 2];
/// Machines with a function; the last two are instances of one function.
const MACHINES: [u8; 7] = [11, 12, 13, 14, 15, 16, 17];
/// Functions: the first speaks NSH itself, the second MPLS, the third reads source routes, the others need a proxy.
pub(crate) const FUNCTIONS: [u32; 6] = [1, 2, 3, 4, 5, 6];
/// The function whose two instances come and go.
pub(crate) const GROUP: u32 = 6;

pub(crate) fn id(kind: u128, number: u32) -> Uuid {
    Uuid::from_u128((kind << 64) | u128::from(number))
}

pub(crate) fn function_id(number: u32) -> FunctionId {
    FunctionId(id(5, number))
}

pub(crate) fn instance_id(number: u32) -> InstanceId {
    InstanceId(id(4, number))
}

pub(crate) fn chain_id(number: u32) -> ChainId {
    ChainId(id(7, number))
}

pub(crate) fn rule_id(chain: u32, endpoint: u32) -> RuleId {
    RuleId(id(6, chain * 10 + endpoint))
}

pub(crate) fn port_id(machine: u8, network: u8) -> PortId {
    PortId(id(3, u32::from(machine) * 10 + u32::from(network)))
}

pub(crate) fn label(name: impl Into<String>) -> Label {
    Label { name: name.into(), description: String::new(), project: ProjectId("p".into()) }
}

/// The node with this index, from 0. Names of letters and digits are legal.
pub(crate) fn node_name(index: usize) -> Option<NodeName> {
    NodeName::new(format!("host{}", index + 1)).ok()
}

pub(crate) fn switch_name(index: usize) -> Option<NodeName> {
    NodeName::new(format!("switch{}", index + 1)).ok()
}

pub(crate) fn underlay(index: usize) -> Underlay {
    let last = u8::try_from(index + 1).unwrap_or(u8::MAX);
    Underlay { address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), mtu: 1_500 }
}

/// Networks, endpoints and functions over so many nodes.
pub(crate) fn intent(nodes: usize) -> Intent {
    let mut intent = Intent::default();
    for (number, name) in [(CUSTOMER, "customer"), (INTERNAL, "internal")] {
        add_network(&mut intent, number, name);
    }
    for (index, machine) in ENDPOINTS.into_iter().enumerate() {
        add_port(&mut intent, machine, CUSTOMER, index * (nodes - 1));
    }
    for (index, machine) in MACHINES.into_iter().enumerate() {
        for network in [CUSTOMER, INTERNAL] {
            add_port(&mut intent, machine, network, index % nodes);
        }
        let number = u32::from(machine - 10);
        let speaks = Encapsulation::SPOKEN.get(usize::from(machine - 11)).copied();
        let instance = Instance {
            id: instance_id(number),
            label: label(format!("i{number}")),
            ingress: port_id(machine, CUSTOMER),
            egress: port_id(machine, INTERNAL),
            speaks,
            weight: 1,
            is_draining: false,
            declared: serde_json::Value::Null,
        };
        intent.instances.insert(instance.id, instance);
    }
    for number in FUNCTIONS {
        let mut instances = vec![instance_id(number)];
        if number == GROUP {
            instances.push(instance_id(GROUP + 1));
        }
        let function = ServiceFunction {
            id: function_id(number),
            label: label(format!("f{number}")),
            instances,
            is_tap: false,
            on_failure: FailurePolicy::Unwatched,
            balance: Vec::new(),
            mapping: TupleMapping::default(),
            keeps_mac: false,
            template: None,
            conduct: Conduct::default(),
            number,
            declared: serde_json::Value::Null,
        };
        intent.functions.insert(function.id, function);
    }
    for chain in 1..=CHAINS {
        for endpoint in ENDPOINTS {
            add_rule(&mut intent, chain, endpoint);
        }
    }
    intent
}

fn add_network(intent: &mut Intent, number: u8, name: &str) {
    let network = NetworkId(id(1, u32::from(number)));
    let Ok(vni) = Vni::new(u32::from(number)) else { return };
    let entry = Network { id: network, label: label(name), vni, mtu: 1_400, admin_state_up: true };
    intent.networks.insert(network, entry);
    let subnet = SubnetId(id(2, u32::from(number)));
    let address = IpAddr::V4(Ipv4Addr::new(10, number, 0, 0));
    let Ok(cidr) = IpNet::new(address, 24) else { return };
    intent
        .subnets
        .insert(subnet, Subnet { id: subnet, label: label(""), network, cidr, gateway: None });
}

fn add_port(intent: &mut Intent, machine: u8, network: u8, node: usize) {
    let id_of_port = port_id(machine, network);
    let attachment = Attachment::Interface(InterfaceRef {
        namespace: Some(NamespaceRef::Netns(format!("m{machine}"))),
        interface: format!("net{network}"),
    });
    let address = IpAddr::V4(Ipv4Addr::new(10, network, 0, machine));
    let port = Port {
        id: id_of_port,
        label: label(format!("m{machine}@{network}")),
        network: NetworkId(id(1, u32::from(network))),
        mac: MacAddr([2, 0, 0, 0, machine, network]),
        fixed_ips: vec![FixedIp { subnet: SubnetId(id(2, u32::from(network))), address }],
        device_id: format!("m{machine}"),
        device_owner: String::new(),
        own_traffic: catena_model::resource::OwnTraffic::default(),
        node: node_name(node),
        attachment: Some(attachment),
        admin_state_up: true,
    };
    intent.ports.insert(id_of_port, port);
}

fn add_rule(intent: &mut Intent, chain: u32, endpoint: u8) {
    let number = u16::try_from(5_000 + chain).ok();
    let rule = ClassificationRule {
        id: rule_id(chain, u32::from(endpoint)),
        label: label(format!("r{chain}-{endpoint}")),
        family: IpFamily::Ipv4,
        transport: Some(Transport::Udp),
        source_ports: PortBounds::default(),
        destination_ports: PortBounds { min: number, max: number },
        source_prefix: None,
        destination_prefix: None,
        source_port: Some(port_id(endpoint, CUSTOMER)),
        destination_port: None,
        fields: FieldMatch::default(),
    };
    intent.rules.insert(rule.id, rule);
}
