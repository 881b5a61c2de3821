//! One node with its data plane, two endpoints S and D, and a function F that is nothing but
//! kernel routing between two interfaces.

use crate::agent::TestAgent;
use catena_dataplane::shell::{self, DataplaneError};
use catena_kernel::attach::{FunctionNamespace, resolve_switch_side};
use catena_kernel::namespace::{NetNamespace, enter};
use catena_kernel::netlink::{IpFamily, Netlink};
use catena_kernel::{packet, sysctl, tc};
use catena_model::classifier::FieldMatch;
use catena_model::entry::Program;
use catena_model::id::{ChainId, FunctionId, InstanceId, NetworkId, PortId, RuleId};
use catena_model::program::{
    ChainEntry, HopEntry, InstanceEntry, Location, MacEntry, NeighbourEntry, NetworkEntry,
    PathEntry, PortEntry, PortRole, RuleEntry, RuleMatch, Underlay,
};
use catena_model::resource::{
    Attachment, Encapsulation, InterfaceRef, IpFamily as Family, Transport,
};
use catena_model::{BlueprintNumber, NodeName, NodeProgram, PathId};
use catena_protocol::delta::deltas;
use catena_protocol::message::Delta;
use catena_wire::scalar::{MacAddr, PortRange, Vni};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// What goes to this port takes the chain.
pub(crate) const CHAIN_PORT: u16 = 7_000;
/// What goes to this port does not.
pub(crate) const PLAIN_PORT: u16 = 7_001;
pub(crate) const UNDERLAY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const TENANT_MTU: u32 = 1_400;
const ROUTES_OF_INGRESS: u32 = 100;

/// The ports, by their place.
pub(crate) const S: usize = 0;
pub(crate) const D: usize = 1;
pub(crate) const F_IN: usize = 2;
pub(crate) const F_OUT: usize = 3;
const PORTS: [(&str, PortRole); 4] = [
    ("s0", PortRole::Endpoint),
    ("d0", PortRole::Endpoint),
    ("f0", PortRole::Function),
    ("f1", PortRole::Function),
];

/// A namespace with its links, gone when dropped.
pub(crate) struct Place {
    pub(crate) namespace: NetNamespace,
    pub(crate) links: Netlink,
}

impl Place {
    fn new(name: &str) -> Self {
        let namespace = NetNamespace::create_unnamed(name).unwrap();
        for interface in ["all", "default"] {
            let key = format!("net.ipv4.conf.{interface}.rp_filter");
            sysctl::write_in(&namespace, &key, "0").unwrap();
            let key = format!("net.ipv6.conf.{interface}.disable_ipv6");
            sysctl::write_in(&namespace, &key, "1").unwrap();
        }
        let links = Netlink::open(&namespace).unwrap();
        Self { namespace, links }
    }
}

/// The machine under test, without its data plane.
pub(crate) struct Machine {
    pub(crate) node: Place,
    pub(crate) source: Place,
    pub(crate) destination: Place,
    pub(crate) function: Place,
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) fn port(place: usize) -> PortId {
    PortId(uuid(place + 1))
}

fn mac(place: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, u8::try_from(place).unwrap() + 1])
}

fn uuid<T: serde::de::DeserializeOwned>(number: usize) -> T {
    serde_json::from_str(&format!("\"00000000-0000-0000-0000-{number:012}\"")).unwrap()
}

impl Machine {
    pub(crate) async fn new() -> Self {
        let machine = Self {
            node: Place::new("node"),
            source: Place::new("S"),
            destination: Place::new("D"),
            function: Place::new("F"),
            dir: tempfile::tempdir().unwrap(),
        };
        machine.node.links.set_up("lo").await.unwrap();
        machine.node.links.add_address("lo", UNDERLAY, 32).await.unwrap();
        // Were the host's stack to see frames, it would forward them itself: it must not.
        sysctl::write_in(&machine.node.namespace, "net.ipv4.ip_forward", "1").unwrap();
        for place in [S, D, F_IN, F_OUT] {
            machine.plug(place).await;
        }
        machine.route_through_function().await;
        machine
    }

    /// Makes the interface of a port: the far end where it belongs, the near end on the node.
    pub(crate) async fn plug(&self, place: usize) {
        let (name, _) = PORTS[place];
        let (there, address) = match place {
            S => (&self.source, SOURCE),
            D => (&self.destination, DESTINATION),
            F_IN => (&self.function, Ipv4Addr::new(10, 0, 0, 101)),
            _ => (&self.function, Ipv4Addr::new(10, 0, 0, 102)),
        };
        let far = format!("{name}-far");
        let hardware = Some(mac(place).0);
        let near = &self.node.links;
        near.add_veth(name, &far, &there.namespace, TENANT_MTU, None, hardware).await.unwrap();
        there.links.add_address(&far, address.into(), 24).await.unwrap();
        there.links.set_up(&far).await.unwrap();
    }

    /// What comes in by one side leaves by the other.
    async fn route_through_function(&self) {
        let function = &self.function;
        sysctl::write_in(&function.namespace, "net.ipv4.ip_forward", "1").unwrap();
        let subnet = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 24);
        let links = &function.links;
        links.add_route(subnet, None, "f1-far", Some(ROUTES_OF_INGRESS)).await.unwrap();
        links.add_rule_iif("f0-far", ROUTES_OF_INGRESS, IpFamily::V4, 10).await.unwrap();
    }

    /// What an agent does for a port: swallow, set up, open.
    pub(crate) async fn packet_socket(&self, place: usize) -> OwnedFd {
        let (node, interface) = (&self.node, PORTS[place].0);
        let side = resolve_switch_side(&node.namespace, &FunctionNamespace::Node, interface);
        let side = side.await.unwrap();
        tc::swallow_ingress(&node.links, side.ifindex).await.unwrap();
        node.links.set_up(&side.name).await.unwrap();
        packet::open_packet_socket(&node.namespace, &side.name).unwrap()
    }

    pub(crate) fn socket_path(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn start(&self) -> Dataplane {
        self.start_with(1)
    }

    pub(crate) fn start_with(&self, workers: usize) -> Dataplane {
        let (socket, state) = (self.socket_path(), self.state_dir());
        Dataplane::start(&self.node.namespace, &socket, &state, workers)
    }

    /// A data plane with a program and all ports.
    pub(crate) async fn start_whole(&self, number: u64, workers: usize) -> (Dataplane, TestAgent) {
        let dataplane = self.start_with(workers);
        let mut agent = TestAgent::connect(&self.socket_path());
        assert_eq!(agent.offer(packed(number)), "");
        for place in [S, D, F_IN, F_OUT] {
            let socket = self.packet_socket(place).await;
            assert_eq!(agent.attach(port(place), &socket), "");
        }
        (dataplane, agent)
    }
}

/// A running data plane; it is stopped when dropped.
pub(crate) struct Dataplane {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<Result<(), DataplaneError>>>,
}

impl Dataplane {
    pub(crate) fn start(
        namespace: &NetNamespace,
        socket: &Path,
        state: &Path,
        workers: usize,
    ) -> Self {
        let (watched, stop) = std::io::pipe().unwrap();
        let config = shell::Config {
            slice_bits_per_second: None,
            flood_frames_per_second: catena_dataplane::engine::FLOOD_FRAMES_PER_SECOND,
            node: NodeName::new("host1").unwrap(),
            control_socket: socket.into(),
            state_dir: state.into(),
            leads_session: false,
            starter: None,
            workers: NonZeroUsize::new(workers).unwrap(),
            busy_poll_cores: Vec::new(),
            function_threads: 0,
            function_form: None,
            user: None,
            is_confined: false,
            stop: Some(watched.into()),
        };
        let namespace = namespace.clone();
        let thread = std::thread::spawn(move || {
            enter(namespace.as_fd()).unwrap();
            shell::run(config)
        });
        Self { stop: Some(stop.into()), thread: Some(thread) }
    }

    /// How it ended by itself.
    pub(crate) fn end(mut self) -> Result<(), DataplaneError> {
        self.thread.take().unwrap().join().unwrap()
    }

    pub(crate) fn stop(mut self) {
        self.stop = None;
        self.end().unwrap();
    }
}

impl Drop for Dataplane {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
    }
}

pub(crate) fn packed(number: u64) -> Vec<Delta> {
    whole(&program(number))
}

/// The parts of a whole program.
pub(crate) fn whole(program: &NodeProgram) -> Vec<Delta> {
    deltas(&program.node, &Program::default(), &entries(program))
}

/// The same as entries.
pub(crate) fn entries(program: &NodeProgram) -> Program {
    Program::new(program.number, program.entries())
}

/// S and D in one network; TCP and UDP from S to `CHAIN_PORT` pass F.
pub(crate) fn program(number: u64) -> NodeProgram {
    let node = NodeName::new("host1").unwrap();
    let underlay = Underlay { address: UNDERLAY, mtu: 1_500 };
    let mut program = NodeProgram::empty(node.clone(), BlueprintNumber(number), underlay);
    let network: NetworkId = uuid(50);
    let chain: ChainId = uuid(60);
    program.networks.push(NetworkEntry {
        id: network,
        name: "customer".into(),
        vni: Vni::new(100).unwrap(),
        prefixes: vec!["10.0.0.0/24".parse().unwrap()],
        gateways: Vec::new(),
        members: Vec::new(),
    });
    for (place, (name, role)) in PORTS.into_iter().enumerate() {
        program.ports.push(PortEntry {
            id: port(place),
            name: name.into(),
            network,
            mac: mac(place),
            role,
            attachment: Attachment::Interface(InterfaceRef {
                namespace: None,
                interface: name.into(),
            }),
            own_sources: None,
        });
        program.macs.push(MacEntry { network, mac: mac(place), at: Location::Port(port(place)) });
    }
    for (address, place) in [(SOURCE, S), (DESTINATION, D)] {
        program.neighbours.push(NeighbourEntry {
            network,
            address: address.into(),
            mac: mac(place),
        });
    }
    for (number, transport) in [Transport::Udp, Transport::Tcp].into_iter().enumerate() {
        program.rules.push(RuleEntry {
            id: uuid::<RuleId>(70 + number),
            name: "to the chain".into(),
            priority: 1,
            matches: RuleMatch {
                place: catena_model::program::RulePlace::Port(port(S)),
                vlan: None,
                family: Family::Ipv4,
                transport: Some(transport),
                source: None,
                destination: Some("10.0.0.2/32".parse().unwrap()),
                source_ports: None,
                destination_ports: Some(PortRange::new(CHAIN_PORT, CHAIN_PORT).unwrap()),
                fields: FieldMatch::default(),
            },
            path: PathId(5),
        });
    }
    program.paths.push(PathEntry {
        id: PathId(5),
        chain,
        encapsulation: Encapsulation::Nsh,
        context: Vec::new(),
        hops: vec![HopEntry {
            function: uuid::<FunctionId>(80),
            name: "v1".into(),
            kind: catena_model::program::HopKind::Through,
            on_failure: catena_model::resource::FailurePolicy::Unwatched,
            balance: catena_model::program::Balance::Flow,
            rewrites: None,
            keeps_mac: false,
            via: Vec::new(),
            instances: vec![InstanceEntry {
                id: uuid::<InstanceId>(90),
                name: "v1".into(),
                node,
                ingress: port(F_IN),
                egress: port(F_OUT),
                ingress_mac: mac(F_IN),
                weight: 1,
                speaks: None,
            }],
        }],
        destination: network,
        is_way_back: false,
        splits_flows: false,
        telemetry: None,
    });
    program.chains.push(ChainEntry { id: chain, name: "c1".into() });
    program
}
