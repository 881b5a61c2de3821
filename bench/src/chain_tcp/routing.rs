//! The bed of the kernel alone: the same hosts, switches and functions, where every host routes by
//! the interface that a packet came in by, and kernel VXLAN carries each hop between hosts under a
//! network identifier of its own.

use super::bed::Bed;
use super::chains::{Chain, Node, switch_of, way, way_back};
use super::wires::{DESTINATION_ADDRESS, Plug, SOURCE_ADDRESS, TENANT_MTU, UNDERLAY_MTU, Wires};
use crate::peers::Unavailable;
use std::collections::BTreeMap;

const HOSTS: u8 = 4;
/// Every next hop has this address on its own interface: none is shared.
const NEXT_HOP: &str = "169.254.1.1";
const VXLAN_PORT: &str = "4789";
/// First routing table of the ways.
const FIRST_TABLE: u32 = 1_000;

/// Makes the bed of one chain.
pub(super) fn lay(chain: &Chain) -> Result<Bed, Unavailable> {
    let (forward, back) = (way(chain), way_back());
    let mut bed = Routing {
        wires: Wires::new()?,
        data: BTreeMap::new(),
        stops: BTreeMap::new(),
        tunnels: 0,
        tables: FIRST_TABLE,
    };
    bed.wires.add(&forward)?;
    bed.underlay()?;
    for (node, address) in
        [(Node::Source, SOURCE_ADDRESS), (Node::Destination, DESTINATION_ADDRESS)]
    {
        let host = if node == Node::Source { forward.get(1) } else { back.get(1) };
        let Some(host) = host else { continue };
        let [here, _] = bed.stop(node, *host)?;
        let address = format!("{address}/32");
        bed.wires.ip(node, &["addr", "add", &address, "dev", &here.device])?;
    }
    bed.route(&forward)?;
    bed.route(&back)?;
    Ok(Bed::of(bed.wires, None))
}

struct Routing {
    wires: Wires,
    /// Each host's interface to the underlay.
    data: BTreeMap<u8, Plug>,
    /// Cable of each stop: its own end, the host's.
    stops: BTreeMap<Node, [Plug; 2]>,
    tunnels: u32,
    tables: u32,
}

impl Routing {
    /// Four hosts at two switches.
    fn underlay(&mut self) -> Result<(), Unavailable> {
        let hosts: Vec<Node> = (1..=HOSTS).map(Node::Host).collect();
        self.wires.add(&hosts)?;
        self.wires.add(&[Node::Switch(1), Node::Switch(2)])?;
        for switch in [Node::Switch(1), Node::Switch(2)] {
            self.wires.ip(switch, &["link", "add", "br0", "type", "bridge"])?;
            self.wires.ip(switch, &["link", "set", "br0", "up"])?;
            // As in our labs: a switch shows no frame to the host's packet filter.
            let unfiltered = ["arptables", "ip6tables", "iptables"]
                .map(|filter| format!("net.bridge.bridge-nf-call-{filter}=0"));
            let mut sysctl = self.wires.inside(switch);
            crate::peers::program::run(sysctl.args(["sysctl", "-eqw"]).args(unfiltered))?;
        }
        let mut bridged: Vec<Plug> =
            self.wires.cable(Node::Switch(1), Node::Switch(2), UNDERLAY_MTU)?.into();
        for host in 1..=HOSTS {
            let switch = Node::Switch(switch_of(host));
            let [here, there] = self.wires.cable(Node::Host(host), switch, UNDERLAY_MTU)?;
            let address = format!("{}/24", underlay_address(host));
            self.wires.ip(here.node, &["addr", "add", &address, "dev", &here.device])?;
            let forwarding = ["sysctl", "-qw", "net.ipv4.ip_forward=1"];
            crate::peers::program::run(self.wires.inside(here.node).args(forwarding))?;
            self.data.insert(host, here);
            bridged.push(there);
        }
        for plug in bridged {
            self.wires.ip(plug.node, &["link", "set", &plug.device, "master", "br0"])?;
        }
        Ok(())
    }

    /// The cable of a stop to its host, whose default route it is.
    fn stop(&mut self, stop: Node, host: Node) -> Result<[Plug; 2], Unavailable> {
        if let Some(cable) = self.stops.get(&stop) {
            return Ok(cable.clone());
        }
        let cable = self.wires.cable(stop, host, TENANT_MTU)?;
        let [here, there] = &cable;
        self.next_hop(here, there, "main")?;
        self.stops.insert(stop, cable.clone());
        Ok(cable)
    }

    /// The two ends of the step between two nodes, the near one first.
    fn step(&mut self, from: Node, to: Node) -> Result<[Plug; 2], Unavailable> {
        match (from, to) {
            (Node::Host(a), Node::Host(b)) => self.tunnel(a, b),
            (Node::Host(_), stop) => self.stop(stop, from).map(|[stop, host]| [host, stop]),
            (stop, host) => self.stop(stop, host),
        }
    }

    fn tunnel(&mut self, a: u8, b: u8) -> Result<[Plug; 2], Unavailable> {
        self.tunnels += 1;
        let number = self.tunnels;
        let end = |here: u8, there: u8, side: u8| -> Result<Plug, Unavailable> {
            let (node, device) = (Node::Host(here), format!("vx{number}"));
            let mac = format!("02:cc:00:00:{number:02x}:0{side}");
            let (local, remote) = (underlay_address(here), underlay_address(there));
            let id = number.to_string();
            let mtu = TENANT_MTU.to_string();
            let add = ["link", "add", &device, "address", &mac, "mtu", &mtu, "type", "vxlan"];
            let far = ["id", &id, "local", &local, "remote", &remote, "dstport", VXLAN_PORT];
            self.wires.ip(node, &[&add[..], &far].concat())?;
            self.wires.ip(node, &["link", "set", &device, "up"])?;
            Ok(Plug { node, device, mac, index: 0 })
        };
        Ok([end(a, b, 0)?, end(b, a, 1)?])
    }

    /// Rules of every host on the way.
    fn route(&mut self, way: &[Node]) -> Result<(), Unavailable> {
        let mut came: Option<Plug> = None;
        for (from, to) in way.iter().zip(way.iter().skip(1)) {
            let [near, far] = self.step(*from, *to)?;
            if let (Node::Host(_), Some(came)) = (from, &came) {
                self.tables += 1;
                let table = self.tables.to_string();
                let rule = ["rule", "add", "iif", &came.device, "lookup", &table];
                self.wires.ip(*from, &rule)?;
                self.next_hop(&near, &far, &table)?;
            }
            came = Some(far);
        }
        Ok(())
    }

    /// Everything in this table leaves by `near` to `far`.
    fn next_hop(&self, near: &Plug, far: &Plug, table: &str) -> Result<(), Unavailable> {
        let device = &near.device;
        let route = ["route", "replace", "default", "via", NEXT_HOP, "dev", device, "onlink"];
        self.wires.ip(near.node, &[&route[..], &["table", table]].concat())?;
        let entry = ["neigh", "replace", NEXT_HOP, "lladdr", &far.mac, "dev", device];
        self.wires.ip(near.node, &[&entry[..], &["nud", "permanent"]].concat()).map(drop)
    }
}

fn underlay_address(host: u8) -> String {
    format!("192.168.77.{host}")
}
