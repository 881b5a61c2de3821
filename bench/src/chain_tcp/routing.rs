//! The bed of the kernel alone: the same hosts, switches and functions, where every host routes by
//! the interface that a packet came in by, and kernel VXLAN carries each hop between hosts under a
//! network identifier of its own, or the kernel's segment routing under a segment of its own.

use super::bed::Bed;
use super::chains::{Chain, Node, switch_of, way, way_back};
use super::wires::{DESTINATION_ADDRESS, Plug, SOURCE_ADDRESS, UNDERLAY_MTU, Wires};
use crate::peers::Unavailable;
use std::collections::BTreeMap;

const HOSTS: u8 = 4;
/// Every next hop has this address on its own interface: none is shared.
const NEXT_HOP: &str = "169.254.1.1";
const VXLAN_PORT: &str = "4789";
/// First routing table of the ways.
const FIRST_TABLE: u32 = 1_000;

/// What carries a hop between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    Vxlan,
    /// `encap seg6` in front, End.DX4 behind: one segment a hop, as no plain kernel keeps those of
    /// the rest of the way while a function has the packet.
    Segments,
}

/// Where a packet came from.
enum Came {
    By(Plug),
    /// In a header that ends at this segment.
    To {
        segment: String,
        next_hop: String,
    },
}

/// Makes the bed of one chain, whose tenants have this MTU.
pub(super) fn lay(chain: &Chain, between: Between, mtu: u16) -> Result<Bed, Unavailable> {
    let (forward, back) = (way(chain), way_back());
    let mut bed = Routing {
        wires: Wires::new()?,
        between,
        mtu,
        data: BTreeMap::new(),
        stops: BTreeMap::new(),
        hops: 0,
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
    between: Between,
    mtu: u16,
    /// Each host's interface to the underlay.
    data: BTreeMap<u8, Plug>,
    /// Cable of each stop: its own end, the host's.
    stops: BTreeMap<Node, [Plug; 2]>,
    /// Between hosts.
    hops: u32,
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
        if self.between == Between::Segments {
            for (host, data) in &self.data {
                self.locate(*host, data)?;
            }
        }
        Ok(())
    }

    /// The address of a host in the IPv6 underlay, and the ways to the others' segments.
    fn locate(&self, host: u8, data: &Plug) -> Result<(), Unavailable> {
        let device = &data.device;
        let settings = [
            format!("net.ipv6.conf.{device}.disable_ipv6=0"),
            "net.ipv6.conf.all.forwarding=1".into(),
        ];
        crate::peers::program::run(
            self.wires.inside(data.node).args(["sysctl", "-qw"]).args(settings),
        )?;
        let address = underlay6_address(host);
        let whole = format!("{address}/64");
        self.wires.ip(data.node, &["addr", "add", &whole, "dev", device, "nodad"])?;
        self.wires.ip(data.node, &["sr", "tunsrc", "set", &address])?;
        for other in (1..=HOSTS).filter(|other| *other != host) {
            let (locator, via) = (format!("{}::/48", locator(other)), underlay6_address(other));
            self.wires
                .ip(data.node, &["-6", "route", "add", &locator, "via", &via, "dev", device])?;
        }
        Ok(())
    }

    /// The cable of a stop to its host, whose default route it is.
    fn stop(&mut self, stop: Node, host: Node) -> Result<[Plug; 2], Unavailable> {
        if let Some(cable) = self.stops.get(&stop) {
            return Ok(cable.clone());
        }
        let cable = self.wires.cable(stop, host, self.mtu)?;
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
        self.hops += 1;
        let number = self.hops;
        let end = |here: u8, there: u8, side: u8| -> Result<Plug, Unavailable> {
            let (node, device) = (Node::Host(here), format!("vx{number}"));
            let mac = format!("02:cc:00:00:{number:02x}:0{side}");
            let (local, remote) = (underlay_address(here), underlay_address(there));
            let id = number.to_string();
            let mtu = self.mtu.to_string();
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
        let mut came: Option<Came> = None;
        for (from, to) in way.iter().zip(way.iter().skip(1)) {
            if let (Between::Segments, Node::Host(_), Node::Host(host)) = (self.between, from, to) {
                came = Some(self.segment(*from, *host, came.as_ref())?);
                continue;
            }
            let [near, far] = self.step(*from, *to)?;
            match (from, &came) {
                (Node::Host(_), Some(Came::By(plug))) => {
                    let table = self.table(plug)?;
                    self.next_hop(&near, &far, &table)?;
                }
                (Node::Host(host), Some(Came::To { segment, next_hop })) => {
                    self.segment_ends(*host, (segment, next_hop), (&near, &far))?;
                }
                _ => {}
            }
            came = Some(Came::By(far));
        }
        Ok(())
    }

    /// The table of what came in by an interface.
    fn table(&mut self, came: &Plug) -> Result<String, Unavailable> {
        self.tables += 1;
        let table = self.tables.to_string();
        let rule = ["rule", "add", "iif", &came.device, "lookup", &table];
        self.wires.ip(came.node, &rule)?;
        Ok(table)
    }

    /// What came to a host goes on to a segment of another's.
    fn segment(&mut self, from: Node, host: u8, came: Option<&Came>) -> Result<Came, Unavailable> {
        let missing = || Unavailable::new("segments", "a host of the way has nothing before it");
        let Some(Came::By(plug)) = came else { return Err(missing()) };
        let data = match from {
            Node::Host(host) => self.data.get(&host).map(|data| data.device.clone()),
            _ => None,
        };
        let data = data.ok_or_else(missing)?;
        self.hops += 1;
        let number = self.hops;
        let segment = format!("{}:{number:x}::", locator(host));
        let table = self.table(plug)?;
        let route = ["route", "replace", "default", "encap", "seg6", "mode", "encap"];
        let to = ["segs", &segment, "dev", &data, "table", &table];
        self.wires.ip(from, &[&route[..], &to].concat())?;
        Ok(Came::To { segment, next_hop: format!("169.254.2.{number}") })
    }

    /// What came to a segment of a host leaves by `near` to `far`.
    fn segment_ends(
        &self,
        host: u8,
        (segment, next_hop): (&str, &str),
        (near, far): (&Plug, &Plug),
    ) -> Result<(), Unavailable> {
        let data = self.data.get(&host).map_or("", |data| data.device.as_str());
        let end = ["-6", "route", "add", segment, "encap", "seg6local", "action", "End.DX4"];
        self.wires.ip(near.node, &[&end[..], &["nh4", next_hop, "dev", data]].concat())?;
        // Without a gateway the kernel would ask for the packet's own destination.
        self.gateway(&[next_hop], near, far)
    }

    /// Everything in this table leaves by `near` to `far`.
    fn next_hop(&self, near: &Plug, far: &Plug, table: &str) -> Result<(), Unavailable> {
        self.gateway(&["table", table, "default"], near, far)
    }

    /// The route to this leads by `near` to `far`.
    fn gateway(&self, to: &[&str], near: &Plug, far: &Plug) -> Result<(), Unavailable> {
        let device = &near.device;
        let via = ["via", NEXT_HOP, "dev", device, "onlink"];
        self.wires.ip(near.node, &[&["route", "replace"], to, &via].concat())?;
        let entry = ["neigh", "replace", NEXT_HOP, "lladdr", &far.mac, "dev", device];
        self.wires.ip(near.node, &[&entry[..], &["nud", "permanent"]].concat()).map(drop)
    }
}

fn underlay_address(host: u8) -> String {
    format!("192.168.77.{host}")
}

fn underlay6_address(host: u8) -> String {
    format!("2001:db8:77::{host}")
}

/// Below which the segments of a host are.
fn locator(host: u8) -> String {
    format!("5f00:0:{host}")
}
