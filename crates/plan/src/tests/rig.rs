//! A small declared world: nodes with functions, and a domain that acknowledges on demand.
#![allow(clippy::unwrap_used)]

use catena_model::classifier::FieldMatch;
use catena_model::entry::ProgramVersion;
use catena_model::id::{ChainId, FunctionId, InstanceId, NetworkId, PortId, RuleId, SubnetId};
use catena_model::program::{Locator, SegmentPlace, Underlay};
use catena_model::resource::{
    Attachment, Chain, ClassificationRule, Conduct, Encapsulation, FailurePolicy, FixedIp,
    Instance, InterfaceRef, IpFamily, Label, NamespaceRef, Network, Port, PortBounds,
    ServiceFunction, Subnet, Transport, TupleMapping,
};
use catena_model::setup::Setup;
use catena_model::status::ChainStatus;
use catena_model::{NodeName, PathId, ProjectId};
use catena_plan::{Blueprint, IndexedIntent, Intent, Inventory, Ledger, NodeFacts};
use catena_wire::scalar::{MacAddr, Vni};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What all nodes speak, unless they are said not to.
pub(crate) const PROTOCOL: u32 = 1_000;

pub(crate) fn id(kind: u128, number: u32) -> Uuid {
    Uuid::from_u128((kind << 64) | u128::from(number))
}

pub(crate) fn node(number: u32) -> NodeName {
    NodeName::new(format!("host{number}")).unwrap()
}

pub(crate) fn label(name: impl Into<String>) -> Label {
    Label { name: name.into(), description: String::new(), project: ProjectId("p".into()) }
}

pub(crate) const CUSTOMER: u32 = 1;
pub(crate) const INTERNAL: u32 = 2;

pub(crate) fn port_id(machine: u32, network: u32) -> PortId {
    PortId(id(3, machine * 10 + network))
}

/// The place of a node in the IPv6 underlay.
pub(crate) fn segments(number: u32) -> SegmentPlace {
    let number = u8::try_from(number).unwrap();
    SegmentPlace {
        address: format!("2001:db8::{number:x}").parse().unwrap(),
        locator: Locator::new([0x5f, 0, 0, 0, 0, number]).unwrap(),
    }
}

/// The step that follows, which must be that of whoever looks at everything.
pub(crate) fn next(
    previous: &Blueprint,
    intent: &IndexedIntent,
    inventory: &Inventory,
) -> Option<Blueprint> {
    let found = catena_plan::next(previous, intent, inventory);
    let whole = catena_plan::next(&previous.clone().without_looks(), intent, inventory);
    assert_eq!(found.as_ref().map(|b| b.number), whole.as_ref().map(|b| b.number));
    if let (Some(found), Some(whole)) = (&found, &whole) {
        assert_eq!(found.ledger.ways, whole.ledger.ways);
        assert_eq!(found.ledger.detours, whole.ledger.detours);
        assert_eq!((found.parent, &found.ledger), (whole.parent, &whole.ledger));
        assert_eq!((&found.programs, &found.slices), (&whole.programs, &whole.slices));
    }
    found
}

/// The programs that nodes were told, as they are written down.
pub(crate) fn versions(blueprint: &Blueprint) -> BTreeMap<NodeName, ProgramVersion> {
    let programs = blueprint.programs.iter();
    programs.map(|(node, program)| (node.clone(), program.version())).collect()
}

pub(crate) struct World {
    pub(crate) intent: Intent,
    pub(crate) inventory: Inventory,
    pub(crate) blueprint: Blueprint,
    /// All blueprints so far, oldest first.
    pub(crate) history: Vec<Blueprint>,
}

impl World {
    /// Nodes host1..hostN, two networks, no machine.
    pub(crate) fn new(nodes: u32) -> Self {
        let mut intent = Intent::default();
        for (number, name) in [(CUSTOMER, "customer"), (INTERNAL, "internal")] {
            let network = NetworkId(id(1, number));
            let vni = Vni::new(number).unwrap();
            intent.networks.insert(
                network,
                Network { id: network, label: label(name), vni, mtu: 1_400, admin_state_up: true },
            );
            let subnet = SubnetId(id(2, number));
            let cidr = format!("10.{number}0.0.0/24").parse().unwrap();
            let gateway = (number == CUSTOMER).then(|| "10.10.0.254".parse().unwrap());
            intent
                .subnets
                .insert(subnet, Subnet { id: subnet, label: label(""), network, cidr, gateway });
        }
        let mut inventory = Inventory::default();
        for number in 1..=nodes {
            let underlay =
                Underlay { address: [192, 0, 2, u8::try_from(number).unwrap()].into(), mtu: 1_500 };
            let mut facts = NodeFacts::new(underlay);
            (facts.is_connected, facts.protocol) = (true, PROTOCOL);
            facts.segments = Some(segments(number));
            inventory.nodes.insert(node(number), facts);
        }
        let blueprint = Blueprint::resume(Ledger::default(), BTreeMap::new());
        Self { intent, inventory, blueprint, history: Vec::new() }
    }

    /// A machine with a bound port in each of the networks.
    pub(crate) fn machine(&mut self, number: u32, on: u32, networks: &[u32]) {
        for network in networks {
            let port = port_id(number, *network);
            let address = format!("10.{network}0.0.{number}").parse().unwrap();
            let subnet = SubnetId(id(2, *network));
            let name = format!("m{number}@{network}");
            let attachment = Attachment::Interface(InterfaceRef {
                namespace: Some(NamespaceRef::Netns(format!("m{number}"))),
                interface: format!("net{network}"),
            });
            let mac = MacAddr([2, 0, 0, 0, u8::try_from(number).unwrap(), *network as u8]);
            self.intent.ports.insert(
                port,
                Port {
                    id: port,
                    label: label(name),
                    network: NetworkId(id(1, *network)),
                    mac,
                    fixed_ips: vec![FixedIp { subnet, address }],
                    device_id: format!("m{number}"),
                    device_owner: String::new(),
                    own_traffic: catena_model::resource::OwnTraffic::default(),
                    node: Some(node(on)),
                    attachment: Some(attachment),
                    admin_state_up: true,
                },
            );
            self.inventory.nodes.get_mut(&node(on)).unwrap().bound.insert(port);
        }
    }

    /// A function with one instance on a machine, from one network to another.
    pub(crate) fn function(&mut self, number: u32, machine: u32, ingress: u32, egress: u32) {
        let instance = InstanceId(id(4, number));
        self.intent.instances.insert(
            instance,
            Instance {
                id: instance,
                label: label(format!("i{number}")),
                ingress: port_id(machine, ingress),
                egress: port_id(machine, egress),
                speaks: None,
                weight: 1,
                is_draining: false,
                declared: serde_json::Value::Null,
            },
        );
        let function = FunctionId(id(5, number));
        self.intent.functions.insert(
            function,
            ServiceFunction {
                id: function,
                label: label(format!("v{number}")),
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
            },
        );
    }

    /// A chain over functions for UDP from a machine's customer port.
    pub(crate) fn chain(&mut self, number: u32, source: u32, functions: &[u32]) -> ChainId {
        let rule = RuleId(id(6, number));
        let ports = PortBounds {
            min: Some(5_000 + u16::try_from(number).unwrap()),
            max: Some(5_000 + u16::try_from(number).unwrap()),
        };
        self.intent.rules.insert(
            rule,
            ClassificationRule {
                id: rule,
                label: label(format!("r{number}")),
                family: IpFamily::Ipv4,
                transport: Some(Transport::Udp),
                source_ports: PortBounds::default(),
                destination_ports: ports,
                source_prefix: None,
                destination_prefix: None,
                source_port: Some(port_id(source, CUSTOMER)),
                destination_port: None,
                fields: FieldMatch::default(),
            },
        );
        let chain = ChainId(id(7, number));
        self.intent.chains.insert(
            chain,
            Chain {
                id: chain,
                label: label(format!("c{number}")),
                functions: functions.iter().map(|f| FunctionId(id(5, *f))).collect(),
                rules: vec![rule],
                encapsulation: Encapsulation::Nsh,
                declared_correlation: None,
                setup: Setup::default(),
                is_symmetric: false,
                context: Vec::new(),
                telemetry: None,
                via: BTreeMap::new(),
                number,
            },
        );
        chain
    }

    /// Plans until nothing changes; answers how many blueprints that made.
    pub(crate) fn plan(&mut self) -> usize {
        let mut made = 0;
        let intent = IndexedIntent::from(self.intent.clone());
        while let Some(next) = next(&self.blueprint, &intent, &self.inventory) {
            assert_eq!(next.parent, self.blueprint.number);
            assert!(next.number > self.blueprint.number);
            self.history.push(next.clone());
            self.blueprint = next;
            made += 1;
            assert!(made < 10, "the planner does not come to rest");
        }
        self.blueprint = catena_plan::converged(&self.blueprint, &intent, &self.inventory);
        made
    }

    /// The node acknowledges the program it should run.
    pub(crate) fn acknowledge(&mut self, number: u32) {
        let name = node(number);
        let program = self.blueprint.programs.get(&name).unwrap().number;
        self.inventory.nodes.get_mut(&name).unwrap().acknowledged = program;
    }

    pub(crate) fn acknowledge_all(&mut self) {
        for (name, facts) in &mut self.inventory.nodes {
            facts.acknowledged = self.blueprint.programs.get(name).unwrap().number;
        }
    }

    /// Plans and acknowledges until the world rests.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10 {
            if self.plan() == 0 {
                return;
            }
            self.acknowledge_all();
        }
        panic!("the world does not come to rest");
    }

    /// As `settle`, for a world in which acknowledgements are outstanding.
    pub(crate) fn settle_with_acknowledgements(&mut self) {
        self.acknowledge_all();
        self.settle();
    }

    pub(crate) fn drain_all(&mut self) {
        self.inventory.drained = catena_plan::draining(&self.blueprint).into_iter().collect();
    }

    /// No flow is left on the former paths.
    pub(crate) fn unpin_all(&mut self) {
        self.inventory.unpinned = catena_plan::draining(&self.blueprint).into_iter().collect();
    }

    pub(crate) fn status(&self, chain: ChainId) -> ChainStatus {
        catena_plan::chain_status(&self.blueprint, &self.intent, &self.inventory, chain)
    }

    pub(crate) fn can_be_laid(&self, chain: ChainId) -> bool {
        catena_plan::can_be_laid(&self.blueprint, &self.intent, &self.inventory, chain)
    }

    /// Paths that a node's classifier sends into.
    pub(crate) fn classified(&self, number: u32) -> Vec<PathId> {
        self.blueprint.program(&node(number)).unwrap().rules.iter().map(|rule| rule.path).collect()
    }

    /// Paths that a node knows.
    pub(crate) fn known(&self, number: u32) -> Vec<PathId> {
        self.blueprint.program(&node(number)).unwrap().paths.iter().map(|path| path.id).collect()
    }
}
