//! Networks, functions and chains of tenants on the hosts of a tree.

use super::tree::FatTree;
use crate::engine::wrong;
use crate::error::BenchError;
use catena_model::classifier::FieldMatch;
use catena_model::id::{ChainId, FunctionId, InstanceId, NetworkId, PortId, RuleId, SubnetId};
use catena_model::resource::{
    Attachment, Chain, ClassificationRule, Conduct, Encapsulation, FailurePolicy, FixedIp,
    Instance, InterfaceRef, IpFamily, Label, NamespaceRef, Network, OwnTraffic, Port, PortBounds,
    ServiceFunction, Subnet, Transport, TupleMapping,
};
use catena_model::setup::Setup;
use catena_model::{NodeName, ProjectId};
use catena_plan::IndexedIntent;
use catena_wire::scalar::{MacAddr, Vni};
use std::net::{IpAddr, Ipv4Addr};
use uuid::Uuid;

/// A machine of a tenant, and the node that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) node: NodeName,
    pub(crate) port: PortId,
}

/// All that is declared.
#[derive(Default)]
pub(crate) struct Tenants {
    pub(crate) intent: IndexedIntent,
    machines: u32,
    networks: u32,
    functions: u32,
    chains: u32,
}

fn id(kind: u128, number: u32) -> Uuid {
    Uuid::from_u128(kind << 64 | u128::from(number))
}

fn label(kind: char, number: u32) -> Label {
    let (name, project) = (format!("{kind}{number}"), ProjectId("p".into()));
    Label { name, description: String::new(), project }
}

impl Tenants {
    /// A network more, with a subnet.
    pub(crate) fn network(&mut self) -> Result<NetworkId, BenchError> {
        self.networks += 1;
        let number = self.networks;
        let network = NetworkId(id(1, number));
        let vni = Vni::new(number).map_err(|error| wrong("the tenants", &error))?;
        let (label, mtu) = (label('n', number), 1_400);
        self.intent.put(Network {
            id: network,
            label: label.clone(),
            vni,
            mtu,
            admin_state_up: true,
        });
        let cidr = "10.0.0.0/8".parse().map_err(|error| wrong("the tenants", &error))?;
        self.intent.put(Subnet {
            id: SubnetId(id(2, number)),
            label,
            network,
            cidr,
            gateway: None,
        });
        Ok(network)
    }

    /// A machine more, with a port in a network.
    pub(crate) fn machine(&mut self, network: NetworkId, node: NodeName) -> Place {
        self.machines += 1;
        let number = self.machines;
        let port = PortId(id(3, number));
        let [_, a, b, c] = number.to_be_bytes();
        let address = IpAddr::V4(Ipv4Addr::new(10, a, b, c));
        let subnets = self.intent.index().subnets_of_network(network);
        let fixed_ips = subnets.map(|subnet| FixedIp { subnet, address }).collect();
        self.intent.put(Port {
            id: port,
            label: label('m', number),
            network,
            mac: MacAddr([2, 0, 0, a, b, c]),
            fixed_ips,
            device_id: format!("m{number}"),
            device_owner: String::new(),
            own_traffic: OwnTraffic::default(),
            node: Some(node.clone()),
            attachment: Some(Attachment::Interface(InterfaceRef {
                namespace: Some(NamespaceRef::Netns(format!("m{number}"))),
                interface: "eth0".into(),
            })),
            admin_state_up: true,
        });
        Place { node, port }
    }

    /// A function with one instance on a machine.
    pub(crate) fn function(&mut self, at: &Place) -> FunctionId {
        self.functions += 1;
        let number = self.functions;
        let (instance, function) = (InstanceId(id(4, number)), FunctionId(id(5, number)));
        self.intent.put(Instance {
            id: instance,
            label: label('i', number),
            ingress: at.port,
            egress: at.port,
            speaks: None,
            weight: 1,
            is_draining: false,
            declared: serde_json::Value::Null,
        });
        self.intent.put(ServiceFunction {
            id: function,
            label: label('v', number),
            instances: vec![instance],
            is_tap: false,
            on_failure: FailurePolicy::Unwatched,
            balance: Vec::new(),
            mapping: TupleMapping::default(),
            keeps_mac: false,
            template: None,
            conduct: Conduct::default(),
            number,
            declared: serde_json::Value::Null,
        });
        function
    }

    /// A chain more over source routes: for UDP from a machine, and back to it if it is symmetric; in `native`.
    pub(crate) fn chain(
        &mut self,
        (from, to): (&Place, Option<&Place>),
        functions: Vec<FunctionId>,
    ) -> ChainId {
        self.chain_by(Encapsulation::SourceRouteNative, (from, to), functions)
    }

    /// The same in this encapsulation.
    pub(crate) fn chain_by(
        &mut self,
        encapsulation: Encapsulation,
        (from, to): (&Place, Option<&Place>),
        functions: Vec<FunctionId>,
    ) -> ChainId {
        self.chains += 1;
        let number = self.chains;
        let (rule, chain) = (RuleId(id(6, number)), ChainId(id(7, number)));
        self.intent.put(ClassificationRule {
            id: rule,
            label: label('r', number),
            family: IpFamily::Ipv4,
            transport: Some(Transport::Udp),
            source_ports: PortBounds::default(),
            destination_ports: PortBounds { min: Some(5_000), max: Some(5_000) },
            source_prefix: None,
            destination_prefix: None,
            source_port: Some(from.port),
            destination_port: to.map(|to| to.port),
            fields: FieldMatch::default(),
        });
        self.intent.put(Chain {
            id: chain,
            label: label('s', number),
            functions,
            rules: vec![rule],
            encapsulation,
            declared_correlation: None,
            setup: Setup::default(),
            is_symmetric: to.is_some(),
            context: Vec::new(),
            telemetry: None,
            via: [].into(),
            number,
        });
        chain
    }

    /// So many tenants, each with a network and ten functions on hosts of the tree that `choose` names, and then ten
    /// chains of each, of one to ten of its functions in an order that `choose` makes: in all `chains`, which are
    /// handed out one by one.
    pub(crate) fn populate(
        &mut self,
        tree: &FatTree,
        chains: usize,
        choose: &mut impl FnMut(usize) -> usize,
    ) -> Result<Vec<(Place, Vec<FunctionId>)>, BenchError> {
        let mut wanted = Vec::new();
        for _ in 0..chains.div_ceil(PER_TENANT) {
            let network = self.network()?;
            let mut functions = Vec::new();
            for _ in 0..PER_TENANT {
                let at = self.machine(network, tree.host_at(choose(tree.hosts()))?);
                functions.push(self.function(&at));
            }
            for count in 1..=PER_TENANT {
                let source = self.machine(network, tree.host_at(choose(tree.hosts()))?);
                let mut order = functions.clone();
                for place in (1..order.len()).rev() {
                    order.swap(place, choose(place + 1));
                }
                order.truncate(count);
                wanted.push((source, order));
            }
        }
        wanted.truncate(chains);
        Ok(wanted)
    }
}

/// Functions of a tenant, and chains.
const PER_TENANT: usize = 10;
